// The command palette: Ctrl+K or ⌘K opens it, arrows choose, Enter opens. The server says what fits.

import { present, togglePanel } from "./panels.js";

const dialog = document.getElementById("palette");
const query = document.getElementById("palette-query");
const options = () => [...dialog.querySelectorAll("[role=option]")];

const commands = {
  theme: () => document.querySelector("[data-do=theme]").click(),
  keys: () => document.getElementById("keys").showModal(),
  present: () => present(true),
  "fold-side": () => togglePanel("side"),
  "fold-inspector": () => togglePanel("inspector"),
};

export function openPalette() {
  if (document.querySelector("dialog[open]")) return false;
  query.value = "";
  dialog.showModal();
  query.focus();
  query.form.elements.here.value = document.querySelector("main[data-session]")?.dataset.session ?? "";
  query.form.dispatchEvent(new Event("shown"));
  return true;
}

function choose(option) {
  for (const other of options()) other.setAttribute("aria-selected", other === option);
  if (!option) return query.removeAttribute("aria-activedescendant");
  query.setAttribute("aria-activedescendant", option.id);
  option.scrollIntoView({ block: "nearest" });
}

const chosen = () => options().find((option) => option.getAttribute("aria-selected") === "true");

function move(step) {
  const all = options();
  if (all.length) choose(all[(all.indexOf(chosen()) + step + all.length) % all.length]);
}

query?.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in steps) move(steps[event.key]);
  else if (event.key === "Enter") chosen()?.click();
  else return;
  event.preventDefault();
});

dialog?.addEventListener("click", (event) => {
  if (event.target === dialog) return dialog.close(); // beside it
  const option = event.target.closest("[role=option]");
  if (!option) return;
  dialog.close();
  commands[option.dataset.command]?.();
});

dialog?.addEventListener("mousemove", (event) => {
  const option = event.target.closest("[role=option]");
  if (option && option !== chosen()) choose(option);
});

// What fits first is chosen: Enter opens it.
document.addEventListener("htmx:after:swap", () => {
  if (dialog?.open && !chosen()) choose(options()[0]);
});

document.addEventListener("keydown", (event) => {
  if (!(event.metaKey || event.ctrlKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
  event.preventDefault();
  if (dialog?.open) dialog.close();
  else openPalette();
});
