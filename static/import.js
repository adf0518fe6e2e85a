// Files dropped on the page are put into its form, and those that were chosen are named; a box with data-all ticks every one it names
// that is in sight; what is chosen is counted. Without it all works too.

const door = document.querySelector("[data-door]");
if (door) {
  const files = door.querySelector("input[type=file]:not([webkitdirectory])");
  door.querySelector("[data-drop-hint]").hidden = false;
  for (const drop of door.querySelectorAll(".drop")) {
    const input = drop.querySelector("input");
    const picked = drop.querySelector("[data-picked]");
    const say = () => {
      const [first, ...rest] = input.files;
      picked.textContent = first ? first.name + (rest.length ? ` and ${rest.length} more` : "") : "";
    };
    picked.parentElement.hidden = false;
    input.className = "unseen";
    input.addEventListener("change", say);
    addEventListener("pageshow", say);
  }
  addEventListener("dragover", (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    door.classList.add("over");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) door.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    door.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    files.files = event.dataTransfer.files;
    door.requestSubmit();
  });
}

for (const all of document.querySelectorAll("[data-all]")) {
  const box = all.querySelector("input");
  const rows = [...document.querySelectorAll(all.dataset.all)];
  const inSight = () => rows.filter((row) => !row.closest("[hidden]"));
  const told = () => {
    const seen = inSight();
    const count = seen.filter((row) => row.checked).length;
    box.checked = count > 0 && count === seen.length;
    box.indeterminate = count > 0 && count < seen.length;
  };
  all.hidden = rows.length < 2;
  box.addEventListener("change", () => inSight().forEach((row) => (row.checked = box.checked)));
  rows.forEach((row) => row.addEventListener("change", told));
  addEventListener("input", (event) => event.target.dataset.filter && told());
  told();
}

const choosing = document.querySelector("[data-choose]");
if (choosing) {
  const most = Number(choosing.dataset.choose);
  const chosen = choosing.querySelector("[data-chosen]");
  const count = () => {
    const number = choosing.querySelectorAll("[name=pick]:checked").length;
    chosen.hidden = false;
    chosen.textContent = number > most ? `${number} selected, at most ${most} at once` : `${number} chosen`;
    chosen.classList.toggle("wrong", number > most);
    choosing.querySelector(".primary").disabled = number === 0 || number > most;
  };
  choosing.addEventListener("change", count);
  // What matches is in sight, whatever was closed.
  choosing.querySelector("[data-filter]").addEventListener("input", (event) => {
    if (event.target.value) for (const group of choosing.querySelectorAll("details")) group.open = true;
  });
  addEventListener("pageshow", count); // back from the next page, with what was ticked
}
