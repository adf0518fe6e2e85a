// Files dropped on the page are put into its form; "all" ticks every row. Without it all works too.

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

const all = document.querySelector("[data-all]");
if (all) {
  const box = all.querySelector("input");
  const rows = [...document.querySelectorAll("[data-take]")];
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
