// Files dropped on the page are put into its form; a box with data-all ticks every one it names. Without it all works too.

const door = document.querySelector("[data-door]");
if (door) {
  const files = door.querySelector("input[type=file]");
  door.querySelector("[data-drop-hint]").hidden = false;
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
  const told = () => {
    const count = rows.filter((row) => row.checked).length;
    box.checked = count === rows.length;
    box.indeterminate = count > 0 && count < rows.length;
  };
  all.hidden = rows.length < 2;
  box.addEventListener("change", () => rows.forEach((row) => (row.checked = box.checked)));
  rows.forEach((row) => row.addEventListener("change", told));
  told();
}
