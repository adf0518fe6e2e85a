// Answering a call by hand: drafts, past results and ready phrases go into the editor (none of them
// is sent), the text is told for what it is, images wait with it, and what was typed is never lost
// to a card that is drawn anew or was decided elsewhere. What counts is checked on the server.

import { told } from "./drafts.js";
import { carried, thumb, whyNot } from "./images.js";
import { say } from "./toasts.js";

const FORM = "form[data-answers]";
const CHECK_MS = 250;
// A longer text is set at once, and cannot be undone.
const UNDONE_LENGTH = 20_000;

const text = (form) => form.elements.namedItem("text");
const byForm = (form) => form.querySelector("[name=by]:checked")?.value === "form";

async function asked(form, what, fields) {
  const body = new URLSearchParams(fields);
  try {
    const headers = { Accept: "application/json" };
    const answer = await fetch(`${form.dataset.answers}/${what}`, fields ? { method: "POST", body, headers } : { headers });
    const told = await answer.json();
    if (answer.ok) return told;
    say(told.error ?? `Refused (${answer.status}).`);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    say("The server cannot be reached. Nothing was answered.");
  }
  return null;
}

// The editor ----------------------------------------------------------------------------------

function write(form, value) {
  const field = text(form);
  field.focus();
  field.select();
  const typed = value && value.length < UNDONE_LENGTH && document.activeElement === field && document.execCommand("insertText", false, value);
  if (!typed) field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function fill(form, values) {
  for (const box of form.querySelectorAll(".byform [type=checkbox]")) box.checked = false;
  for (const field of form.querySelectorAll(".byform [name]:not([type=checkbox])")) field.value = "";
  for (const [name, given] of Object.entries(values)) {
    const field = form.elements.namedItem(name);
    if (field?.type === "checkbox") field.checked = true;
    else if (field) field.value = given.at(-1);
  }
}

function put(form, { text: value, form: values = null, is_error: failed = false }) {
  if (values && form.querySelector(".byform")) fill(form, values);
  else show(form, "text");
  form.elements.namedItem("is_error").checked = failed;
  write(form, value);
  typed.add(form);
  later(form, 0);
}

function show(form, way) {
  const button = form.querySelector(`[name=by][value=${way}]`);
  if (button) button.checked = true;
}

// What the text is, as it is typed -------------------------------------------------------------

const checks = new WeakMap();

function later(form, ms) {
  const check = checks.get(form) ?? {};
  clearTimeout(check.timer);
  check.number = (check.number ?? 0) + 1;
  check.timer = setTimeout(look, ms, form, check, check.number);
  checks.set(form, check);
}

// Of several questions only the last one is answered.
async function look(form, check, number) {
  if (!form.isConnected) return;
  const line = form.querySelector(".said");
  if (!text(form).value) {
    line.textContent = "";
    return;
  }
  const told = await asked(form, "check", fields(form));
  if (!told || check.number !== number || !line.isConnected) return;
  line.textContent = told.says;
  line.dataset.ui = told.form === "broken" || told.fits === false ? "doubtful" : "sound";
}

const fields = (form) => ({ text: text(form).value, is_error: form.elements.namedItem("is_error").checked });

// Buttons -------------------------------------------------------------------------------------

const drafts = new WeakMap();

const actions = {
  async "draft-answer"(button, form) {
    const number = drafts.get(form) ?? 0;
    const made = await asked(form, "draft", { number });
    if (!made) return;
    drafts.set(form, (number + 1) % 1000);
    button.textContent = "Another draft";
    put(form, made);
  },
  async "tidy-answer"(button, form) {
    if (byForm(form)) return;
    const told = await asked(form, "check", { ...fields(form), lay_out: true });
    if (!told) return;
    if (told.form === "json") write(form, told.text);
    else say(told.says);
  },
  "phrase-answer"(button, form) {
    put(form, { text: button.dataset.text, is_error: true });
  },
  async "take-past"(button, form) {
    const past = await asked(form, `past?one=${encodeURIComponent(button.dataset.past)}`);
    if (!past) return;
    put(form, past);
    keep(form, past.images.map(asFile));
  },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-do]");
  const form = button?.closest(FORM);
  if (form) actions[button.dataset.do]?.(button, form);
});

function asFile({ media_type: type, data }, place) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  return new File([bytes], `past-${place + 1}.${type.split("/")[1]}`, { type });
}

// Images --------------------------------------------------------------------------------------

const images = new WeakMap();

async function add(form, files) {
  const kept = [...(images.get(form) ?? [])];
  for (const file of files) {
    const sentence = await whyNot(file, kept, "an answer");
    if (sentence) say(sentence);
    else kept.push(file);
  }
  keep(form, kept);
}

function keep(form, files) {
  images.set(form, files);
  if (files.length) typed.add(form);
  form.elements.namedItem("images").files = carried(files);
  const place = form.querySelector(".thumbs");
  place.hidden = files.length === 0;
  place.replaceChildren(
    ...files.map((file) =>
      thumb(file, () => {
        keep(form, images.get(form).filter((one) => one !== file));
        text(form).focus();
      }),
    ),
  );
}

// Before the composer, which takes whatever is dropped on the page.
function taken(event, data) {
  const form = event.target.closest?.(FORM);
  const files = [...(data?.files ?? [])];
  if (!form || !files.length) return;
  event.preventDefault();
  event.stopPropagation();
  add(form, files);
}

document.addEventListener("paste", (event) => taken(event, event.clipboardData), true);
document.addEventListener("drop", (event) => taken(event, event.dataTransfer), true);
document.addEventListener(
  "dragover",
  (event) => {
    if (!event.target.closest?.(FORM) || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.stopPropagation();
  },
  true,
);

// What was typed ------------------------------------------------------------------------------

// The forms in which something was typed, and what became of those that were sent.
const typed = new Set();
const sent = new WeakMap();

document.addEventListener("input", (event) => {
  const form = event.target.closest?.(FORM);
  if (!form || event.target.name === "images") return;
  typed.add(form);
  if (event.target === text(form)) later(form, CHECK_MS);
});

document.addEventListener("change", (event) => {
  const form = event.target.closest?.(FORM);
  if (!form) return;
  if (event.target.name === "images") add(form, [...event.target.files]);
  if (event.target.name === "is_error") later(form, 0);
});

document.addEventListener("submit", (event) => {
  if (event.target.matches(FORM)) sent.set(event.target, "under way");
});

document.addEventListener("htmx:after:request", (event) => {
  const { sourceElement: form, response } = event.detail.ctx ?? {};
  if (form?.matches?.(FORM)) over(form, response?.raw.ok);
});

document.addEventListener("htmx:error", (event) => {
  const form = event.detail.ctx?.sourceElement;
  if (form?.matches?.(FORM)) over(form, false);
});

function over(form, ok) {
  sent.delete(form);
  if (ok) typed.delete(form);
  else lost();
}

document.addEventListener("htmx:after:swap", lost);

function lost() {
  for (const form of typed) {
    if (form.isConnected || sent.get(form)) continue;
    typed.delete(form);
    const anew = document.querySelector(`form[data-answers="${form.dataset.answers}"]`);
    if (anew && !text(anew).value) carry(form, anew);
    else told(form.dataset.call, "this answer", words(form), images.get(form)?.length ? " Its images were not sent." : "");
  }
}

// The card was drawn anew for the same call: what was typed goes on there.
function carry(form, anew) {
  for (const field of form.querySelectorAll(".byform [name], [name=text]")) {
    const other = anew.elements.namedItem(field.name);
    if (!other) continue;
    if (field.type === "checkbox") other.checked = field.checked;
    else other.value = field.value;
  }
  show(anew, byForm(form) ? "form" : "text");
  keep(anew, images.get(form) ?? []);
  anew.closest("details").open = true;
  text(anew).dispatchEvent(new Event("input", { bubbles: true }));
}

function words(form) {
  if (!byForm(form)) return text(form).value;
  const given = [...form.querySelectorAll(".byform [name]:not([type=checkbox])")].filter((field) => field.value);
  return given.map((field) => `${field.name.slice(field.name.indexOf(":") + 2)}: ${field.value}`).join("\n");
}
