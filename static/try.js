// Trying a tool: what stands in the editor and in the panel goes together to /tools/try. Without
// this file the panel is a plain form, and the tool that is tried is the saved one.

import { applyFrame } from "./stream.js";
import { say } from "./toasts.js";

const $ = (id) => document.getElementById(id);
const CHECK_MS = 250;
const TOOL_MS = 500;

function typed(button) {
  const data = new FormData();
  for (const form of [$("tool"), $("try-form")]) {
    if (form) for (const [name, value] of new FormData(form)) data.append(name, value);
  }
  data.delete("do");
  if (button) data.set("do", button);
  return data;
}

async function ask(path, options, signal, wanted = () => true) {
  const answer = await fetch(path, { headers: { "HX-Request": "true" }, signal, ...options });
  const html = await answer.text();
  if (!signal?.aborted && wanted()) await applyFrame({ html });
  return { ok: answer.ok, html };
}

// A field that was typed in keeps its value where its attribute stays the same.
function showAsDrawn() {
  for (const field of $("try-form").elements) {
    if (!field.name.includes(":") && field.name !== "try_json") continue;
    if (field.matches("select")) for (const option of field.options) option.selected = option.defaultSelected;
    else if (field.matches("[type=checkbox], [type=radio]")) field.checked = field.defaultChecked;
    else field.value = field.defaultValue;
  }
}

// Of several questions only the last one is answered: an old verdict never covers a new one.
let asking;
let looking; // what asks for no more than a new drawing
let timer;

async function put(what) {
  clearTimeout(timer);
  asking?.abort();
  asking = new AbortController();
  looking = ["check", "look", "sample"].includes(what) ? asking : undefined;
  const { signal } = asking;
  try {
    const { ok, html } = await ask("/tools/try", { method: "POST", body: typed(what) }, signal);
    const isDrawn = ok && !signal.aborted && html.includes('id="try-arguments"');
    if (isDrawn && ["sample", "past"].includes(what)) showAsDrawn();
    if (isDrawn && what === "sample") delete $("try-form").dataset.changed;
    follow();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof TypeError)) throw error;
    say("The server cannot be reached. Nothing was run.");
  }
}

function later(what, ms) {
  clearTimeout(timer);
  timer = setTimeout(put, ms, what);
}

// A try that runs is asked after: each question is held until there is more to say.
let following = "";

async function follow() {
  const id = $("try-result")?.dataset.try;
  if (!id || following === id) return;
  following = id;
  // A late word covers neither the end nor another try.
  const runs = () => $("try-result")?.dataset.try === id && Boolean($("try-result").dataset.running);
  try {
    while (runs()) {
      const path = `/tools/try/${id}?after=${$("try-result").dataset.changed}`;
      if (!(await ask(path, {}, undefined, runs)).ok) break;
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  } finally {
    if (following === id) following = "";
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.id === "try-form") {
    event.preventDefault();
    const what = event.submitter?.value ?? "run";
    if (what === "past") form.dataset.changed = "yes";
    put(what).finally(() => delete form.dataset.ui);
  } else if (form.closest("#try-result")) {
    event.preventDefault();
    ask(form.getAttribute("action"), { method: "POST" }).finally(() => delete form.dataset.ui);
  }
});

// Enter in a field runs it: the first button of the form would be one that only draws it anew.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || !event.target.closest?.("#try-form")) return;
  const long = event.target.matches("textarea");
  if (long && !(event.metaKey || event.ctrlKey)) return;
  if (!long && !event.target.matches("input:not([type=checkbox])")) return;
  event.preventDefault();
  $("try-acts")?.querySelector("button.primary:not([disabled])")?.click();
});

// Another tool in the editor: a sample that was not changed is made anew from its schema.
function laterTool() {
  if ($("try")) later($("try-form").dataset.changed ? "look" : "sample", TOOL_MS);
}

function changed(event) {
  const target = event.target;
  if (!target.name || !$("try")) return;
  if (target.closest("#try-form")) {
    if (["try_past", "try_lift", "try_error"].includes(target.name)) return;
    $("try-form").dataset.changed = "yes";
    looking?.abort(); // it would overwrite what is typed now
    later("check", CHECK_MS);
  } else if (target.form?.id === "tool") laterTool();
}

document.addEventListener("input", changed);
document.addEventListener("change", changed);
// The editor may have been changed by a button: a face, a fix, a row.
document.addEventListener("playground:tool", laterTool);
follow();
