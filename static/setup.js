// Setup follows the session: the server draws it anew after each change, in every tab. What a user
// has typed and not sent yet, or what was refused, is left alone; all else shows what holds now.

const form = () => document.getElementById("setup");
const fields = () => [...(form()?.elements ?? [])].filter((field) => field.name && field.type !== "hidden");

const ticked = (field) => field.type === "checkbox" || field.type === "radio";
const valueOf = (field) => (ticked(field) ? field.checked : field.value);

function drawnValue(field) {
  if (ticked(field)) return field.defaultChecked;
  if (!(field instanceof HTMLSelectElement)) return field.defaultValue;
  const option = [...field.options].findLast((one) => one.defaultSelected) ?? field.options[0];
  return option?.value ?? "";
}

// By id: what the server and the field last agreed on, what is on its way, what was refused.
const agreed = new Map();
let sent = new Map();
let refused = new Map();

// Changed since the last agreement, or since what is on its way: ticking a box twice while the first
// tick is on its way brings it back to what was agreed, and is a change all the same.
const touched = (field) => [agreed, sent].some((known) => known.has(field.id) && valueOf(field) !== known.get(field.id));

function follow() {
  for (const field of fields()) {
    if (touched(field)) continue;
    const value = drawnValue(field);
    if (valueOf(field) !== value) field[ticked(field) ? "checked" : "value"] = value;
    agreed.set(field.id, value);
  }
  mark();
}

// The sentence stands beside the field it is about, until the field is changed and taken.
function mark() {
  for (const old of document.querySelectorAll("#setup .wrong")) if (refused.get(old.dataset.for) !== old.textContent) old.remove();
  for (const field of fields()) {
    if (refused.has(field.name)) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
  for (const [name, sentence] of refused) if (!document.querySelector(`#setup .wrong[data-for="${name}"]`)) put(name, sentence);
}

function put(name, sentence) {
  const field = fields().find((one) => one.name === name);
  const place = field?.closest(ticked(field) ? ".group" : "label, details") ?? form();
  const note = Object.assign(document.createElement("p"), { className: "wrong", textContent: sentence, role: "alert" });
  note.dataset.for = name;
  place.append(note);
  for (let box = place.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
}

// A drawing that is older than what stands here (two answers crossed) is let go.
let drawn = false;

document.addEventListener("htmx:before:swap", (event) => {
  const { tasks } = event.detail;
  const place = (tasks ?? []).findIndex((task) => task.target?.id === "panel-setup");
  if (place < 0 || !form()) return;
  const base = tasks[place].fragment.querySelector("#set-base");
  drawn = !base || Number(base.value) >= Number(form().elements.base.value);
  if (!drawn) tasks.splice(place, 1);
  else for (const field of fields()) field.toggleAttribute("hx-morph-skip", touched(field));
});

document.addEventListener("htmx:after:swap", () => {
  if (!drawn) return;
  drawn = false;
  for (const field of fields()) field.removeAttribute("hx-morph-skip");
  follow();
  if (left) narrow();
});

// The form as it stands when it leaves, which may be later than the click that sent it.
document.addEventListener("htmx:before:request", (event) => {
  if (event.target !== form()) return;
  event.detail.ctx.request.body = new URLSearchParams(new FormData(form()));
  sent = new Map(fields().map((field) => [field.id, valueOf(field)]));
});

document.addEventListener("htmx:after:request", (event) => {
  if (event.target !== form()) return;
  const { response, text } = event.detail.ctx;
  if (!text?.includes("<hx-partial")) return;
  const page = new DOMParser().parseFromString(text, "text/html");
  refused = new Map([...page.querySelectorAll("[data-refused]")].map((line) => [line.dataset.refused, line.textContent]));
  if (response.raw.ok || refused.size)
    for (const field of fields()) if (!refused.has(field.name) && sent.has(field.id)) agreed.set(field.id, sent.get(field.id));
  sent = new Map();
});

// A whole group at once, or none of all, as if each box was ticked.
document.addEventListener("click", (event) => {
  const button = event.target.closest("#setup :is([name=all_of], [name=none_of])");
  if (!button) return;
  event.preventDefault();
  const all = button.name === "all_of";
  const place = all ? button.closest("[data-group]") : document.getElementById("set-tools");
  // Only what is in sight: a search narrows what "all" and "none" mean.
  const boxes = [...place.querySelectorAll("[data-words]:not([hidden]) > [name=tools]")].filter((box) => box.checked !== all);
  for (const box of boxes) box.checked = all;
  boxes[0]?.dispatchEvent(new Event("change", { bubbles: true }));
});

// "chosen only" leaves what is chosen when it is ticked. A row that is let go then stays in its
// place until the box is changed again: none moves away from under the mouse.
let left = null;

function narrow() {
  const only = document.getElementById("set-tools-chosen");
  if (!only) return;
  only.checked = left !== null;
  for (const box of document.querySelectorAll("#set-tools [name=tools]")) {
    box.parentElement.toggleAttribute("data-aside", left !== null && !box.checked && !left.has(box.value));
  }
  document.getElementById("set-tools-search").dispatchEvent(new Event("input", { bubbles: true }));
}

document.addEventListener("change", (event) => {
  if (event.target.id !== "set-tools-chosen") return;
  event.stopPropagation(); // no change of the settings
  left = event.target.checked ? new Set([...document.querySelectorAll("#set-tools [name=tools]:checked")].map((box) => box.value)) : null;
  narrow();
}, true);

// What holds already when the page is shown again (the browser may have kept older values).
if (form()) follow();
