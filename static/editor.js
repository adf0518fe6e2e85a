// The editor of tools: the fields of the chosen kind, lint while typing, what was typed and not
// saved. Its buttons ask the server, and no answer covers what was typed meanwhile. Without this
// file all of it works as a plain form.

import { focused, layOut, mounted, restored, reveal, views } from "./code.js";
import { say } from "./toasts.js";
import { applyFrame } from "./stream.js";

const $ = (id) => document.getElementById(id);
const LATER_MS = 300;
const MOST_UNDONE = 20;

// The fields of the kind and of what it takes --------------------------------------------------

function choose() {
  const chosen = document.querySelector("input[name=answered_by]:checked")?.value;
  for (const fields of document.querySelectorAll("fieldset.kind")) fields.hidden = !fields.dataset.kind.split(" ").includes(chosen);
  const takes = document.querySelector("input[name=takes]:checked")?.value;
  for (const part of document.querySelectorAll("[data-takes]")) part.hidden = !part.dataset.takes.split(" ").includes(takes);
}

// What was typed and not saved -----------------------------------------------------------------

let timer;
let dirty = false;

function unsaved() {
  dirty = true;
  $("saved").textContent = "not saved";
  $("saved").classList.add("waiting");
  $("save").classList.add("primary");
}

function changed(event) {
  // "When called" is no part of the tool, whose face it does not change; Save sends it along.
  if (!event.target.closest?.("#tool") || event.target.closest(".when")) return;
  unsaved();
  forgiven(event.target);
  if (event.target.closest(".srows")) undone([]);
  later();
}

// What was refused is being mended: whether it is, the next answer says.
function forgiven(field) {
  if (field.getAttribute("aria-invalid") !== "true") return;
  $(field.getAttribute("aria-describedby"))?.remove();
  field.removeAttribute("aria-invalid");
  field.removeAttribute("aria-describedby");
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(judge, LATER_MS);
}

document.addEventListener("input", changed);
document.addEventListener("change", (event) => {
  choose();
  if (event.target.matches?.("#tool input, #tool select")) changed(event);
  // A question that is under way sees by itself that something else is chosen.
  if (event.target.matches?.("[data-again]") && !asking?.changes) ask("/tools/faces", { changes: true });
});
window.addEventListener("beforeunload", (event) => {
  if (dirty) event.preventDefault();
});

// The browser puts typed texts back by itself when it returns to the page.
const altered = (one) =>
  one.matches("[type=radio], [type=checkbox]")
    ? one.checked !== one.defaultChecked
    : one.matches("select")
      ? one.selectedIndex !== Math.max(0, [...one.options].findIndex((option) => option.defaultSelected))
      : one.matches("input, textarea") && one.value !== one.defaultValue;

window.addEventListener("pageshow", () => {
  if (!$("tool")) return;
  restored();
  choose();
  if (dirty || ![...$("tool").elements].some(altered)) return;
  unsaved();
  later();
});

// Asking ---------------------------------------------------------------------------------------

let asking; // what is under way: {stop, judges, saves, changes}
let waiting = []; // what was pressed while a change was under way, in order

const filled = (button, over) => {
  const data = new FormData($("tool"));
  if (over) for (const name of [...data.keys()]) if (ofSchema(name)) data.delete(name);
  for (const [name, value] of over ?? []) if (ofSchema(name)) data.append(name, value);
  if (button?.name) data.set(button.name, button.value);
  return data;
};
// The form before its selects changed what it is: as they were drawn.
const before = () => {
  const data = filled();
  for (const select of $("tool").querySelectorAll("select[data-again]")) {
    const drawn = [...select.options].find((option) => option.defaultSelected);
    if (drawn) data.set(select.name, drawn.value);
  }
  return data;
};
const ofSchema = (name) => /^(parameters|source|now|\d+\..+)$/.test(name);
const written = (data) => new URLSearchParams(data).toString();

function judge() {
  if (asking && !asking.judges) later();
  else if ($("lint")) ask("/tools/lint", { judges: true });
}

// Of several questions the last one is answered. `button` has pressed it, `over` are fields of the
// schema that stand for those of the page, `changes` says that the tool is another one after it,
// `left` is what can be undone then.
async function ask(path, { button, over, left, changes = false, judges = false } = {}) {
  if (asking?.saves) return;
  clearTimeout(timer);
  asking?.stop.abort();
  const mine = { stop: new AbortController(), judges, saves: path === "/tools", changes };
  let drawn = false;
  const from = document.activeElement;
  asking = mine;
  try {
    for (;;) {
      const sent = filled(button, over);
      const typed = written(filled());
      const answer = await fetch(path, { method: "POST", headers: { "HX-Request": "true" }, body: new URLSearchParams(sent), signal: mine.stop.signal });
      const html = await answer.text();
      if (asking !== mine) return;
      const stale = written(filled()) !== typed;
      const there = answer.headers.get("HX-Redirect");
      if (there) return await (stale ? goOn(there) : leave(there));
      const made = new DOMParser().parseFromString(html, "text/html");
      const fresh = made.querySelector("#tool, #lint");
      if (!fresh) return refused(made, answer.status);
      if (stale && mine.saves) return notSaved(fresh);
      // It answers what stands here no more: what was typed meanwhile is asked about, too.
      if (stale && !judges) continue;
      drawn = answer.ok;
      if (!judges) past = left ?? remembered(changes && before());
      draw(fresh, made, from);
      if (changes || !answer.ok) unsaved();
      if (!answer.ok) wrong();
      if (changes) document.dispatchEvent(new Event("playground:tool"));
      return;
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof TypeError)) throw error;
    say("The server did not answer. Is it still running?");
  } finally {
    if (asking === mine) {
      asking = undefined;
      next(drawn);
    }
  }
}

// What is pressed while a change is under way waits for it, and is let go where that failed.
function press(act) {
  if (asking?.changes) waiting.push(act);
  else act();
}

function next(drawn) {
  if (!drawn) waiting = [];
  while (waiting.length && !asking) waiting.shift()();
}

function refused(page, status) {
  say(page.querySelector("[role=alert], p")?.textContent || `Refused (${status}).`);
}

// What is wrong is said in a word; what was typed since may have mended it.
function notSaved(fresh) {
  unsaved();
  later();
  say(fresh.querySelector(".clash p, .wrong")?.textContent || "The tool was not saved.");
}

function wrong() {
  const place = $("tool").querySelector("#clash, [aria-invalid=true]");
  if (views.has(place?.id)) focusOn(place.id);
  else place?.focus();
}

function leave(path) {
  dirty = false;
  location.assign(path);
}

// It was saved as it stood when it was asked; what was typed since stays, and is not saved.
async function goOn(path) {
  const page = new DOMParser().parseFromString(await (await fetch(path)).text(), "text/html");
  for (const name of ["original", "drawn"]) $("tool").elements[name].value = page.querySelector(`#tool [name=${name}]`).value;
  history.replaceState(null, "", path);
  unsaved();
  say("Saved without the latest edits. Save again to keep them.", { tone: "" });
}

// Drawing, in one go: no letter comes in between -------------------------------------------------

function draw(fresh, page, from) {
  const place = standing();
  const was = document.activeElement;
  const moved = document.activeElement !== from;
  const open = opened();
  $(fresh.id).replaceWith(document.adoptNode(fresh));
  window.htmx.process(fresh);
  mounted();
  choose();
  for (const details of $("tool").querySelectorAll("details")) details.open ||= open.has(firstOf(details));
  if (dirty) unsaved();
  const wanted = fresh.dataset.focus;
  if (wanted && !moved) focusOn(wanted);
  else if (place && document.activeElement !== was) back(place);
  undone(past);
  const beside = [...page.querySelectorAll("hx-partial")].map((one) => one.outerHTML).join("");
  applyFrame({ html: beside });
}

const firstOf = (details) => (details.closest("#lint") ? undefined : details.querySelector("[name]")?.name) ?? details.querySelector("summary").textContent;
const opened = () => new Set([...$("tool").querySelectorAll("details[open]")].map(firstOf));

// Where the user is: the field, the cursor in it, how far it is scrolled.
function standing() {
  const one = document.activeElement;
  if (!one?.closest("#tool")) return null;
  const view = views.get(focused());
  if (view) return { view, top: view.scrollDOM.scrollTop };
  const { id, name, value, selectionStart: start, selectionEnd: end, scrollTop: top } = one;
  return { id, name, value: one.matches("button, [type=radio]") ? value : null, start, end, top };
}

function back({ view, id, name, value, start, end, top }) {
  if (view) {
    if (!view.dom.isConnected) return;
    view.focus();
    view.scrollDOM.scrollTop = top;
    return;
  }
  const one = (id && $(id)) || [...$("tool").elements].find((other) => name && other.name === name && (value === null || other.value === value));
  if (!one) return $("lint")?.focus({ preventScroll: true });
  one.focus({ preventScroll: true });
  one.scrollTop = top;
  if (typeof start === "number" && one.matches("textarea, input")) one.setSelectionRange(start, end);
}

function focusOn(id) {
  const view = views.get(id);
  if (view?.dom.isConnected) {
    view.focus();
    view.dispatch({ scrollIntoView: true });
    return;
  }
  const one = $(id) ?? instead(id);
  one?.focus();
  if (one?.matches("input")) one.select();
}

// A row at the end has no way on, and one of any type nothing to add: the nearest that it has.
function instead(id) {
  const [number, verb] = id.split(".");
  const near = [...({ up: ["down"], down: ["up"] }[verb] ?? []), "name", "type", "json", "remove", "add"];
  return near.map((name) => $(`${number}.${name}`)).find(Boolean) ?? $("lint");
}

// Undo, in the form: a row's button taken back. In a text Ctrl+Z does it.

let past = [];

function undone(left) {
  past = left;
  if ($("undo")) $("undo").hidden = !past.length;
}

function remembered(form) {
  return form && form.get("now") === "form" ? [...past, form].slice(-MOST_UNDONE) : [];
}

function undo() {
  if (!past.length) return;
  ask("/tools/faces", { button: { name: "face", value: "form" }, over: past.at(-1), left: past.slice(0, -1), changes: true });
}

// Buttons --------------------------------------------------------------------------------------

// Which row a button is of: the names down to it, which stay when its number does not.
function rowOf(button) {
  const names = [];
  for (let row = button.closest(".srow"); row; row = row.parentElement.closest(".srow")) {
    names.unshift(row.querySelector(":scope > .srow-line > input.code")?.value ?? null);
  }
  return JSON.stringify(names);
}

// The button that was pressed, or the one that was drawn in its place; none where its row is gone.
function pressed(button) {
  const { name, value } = button;
  const verb = value.split(" ")[0];
  const row = rowOf(button);
  return () => {
    const same = (one) => one.name === name && one.value.split(" ")[0] === verb && rowOf(one) === row;
    const now = button.isConnected ? button : [...$("tool").querySelectorAll("button")].find(same);
    if (now) ask("/tools/faces", { button: now, changes: ["act", "apply"].includes(name) });
  };
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("#tool button");
  if (!button) return;
  if (button.id === "undo") press(undo);
  if (button.getAttribute("formaction") !== "/tools/faces") return;
  event.preventDefault();
  press(pressed(button));
});
// A click on a finding goes to its line, or to its field; its link is for the keyboard.
document.addEventListener("click", (event) => {
  const finding = event.target.closest?.("#lint .finding");
  const link = finding?.querySelector("a.goto");
  if (!link || event.target.closest("button, a:not(.goto)") || !getSelection().isCollapsed) return;
  event.preventDefault();
  const id = decodeURIComponent(link.hash.slice(1));
  if (views.get(id)?.dom.isConnected) reveal(id, finding.dataset.pointer);
  else focusOn(id);
});
document.addEventListener("submit", (event) => {
  if (event.target.id !== "tool" || event.defaultPrevented) return;
  event.preventDefault();
  delete event.target.dataset.ui; // `ask` itself begins no second save while one is under way
  const button = event.submitter;
  press(() => ask("/tools", { button }));
});
document.addEventListener("keydown", (event) => {
  if (event.shiftKey && event.altKey && event.code === "KeyF" && !event.defaultPrevented && layOut()) event.preventDefault();
});

for (const label of document.querySelectorAll("label[for=parameters]")) label.addEventListener("click", () => views.get("parameters")?.focus());
mounted();
choose();
if ($("tool")?.dataset.unsaved !== undefined) unsaved();
