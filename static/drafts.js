// What is typed on a card and not sent (an answer, other arguments, why not) outlives a reload: by
// session, call and digest, in this tab alone. It goes when the call is decided; where somebody else
// decided it, `kept` shows it once more.

import { copied } from "./toasts.js";

const FORM = ".card form:is([id^=answerform-], [id^=editform-], [id^=denyform-])";
const UNSENT = { answerform: "this answer", editform: "these arguments", denyform: "this reason" };

const session = document.querySelector("main[data-session]")?.dataset.session;
const prefix = `typed:${session}:`;

const isTyped = (field) => field.name && !["hidden", "file", "submit"].includes(field.type) && !field.closest(".like, .pastway");
const fields = (form) => [...form.elements].filter(isTyped);
const ticked = (field) => field.type === "checkbox" || field.type === "radio";
const asDrawn = (field) => (ticked(field) ? field.checked === field.defaultChecked : field.value === drawn(field));
function drawn(field) {
  if (!(field instanceof HTMLSelectElement)) return field.defaultValue;
  return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value;
}

function noted(event) {
  const form = session && event.target.closest?.(FORM);
  if (!form) return;
  const changed = fields(form).filter((field) => !asDrawn(field));
  if (!changed.length) return sessionStorage.removeItem(prefix + form.id);
  const card = form.closest(".card");
  const call = `${card.id.slice("call-".length).replace("-", ".")} ${card.querySelector("h3").textContent}`;
  const values = changed.map((field) => [field.name, ticked(field) ? field.checked : field.value, field.type === "radio" ? field.value : ""]);
  try {
    sessionStorage.setItem(prefix + form.id, JSON.stringify({ call, values }));
  } catch (error) {
    if (error.name !== "QuotaExceededError") throw error; // it then lasts as long as the page
  }
}

document.addEventListener("input", noted);
document.addEventListener("change", noted);

function restored(form, values) {
  for (const [name, value, of] of values) {
    const field = fields(form).find((one) => one.name === name && (!of || one.value === of));
    if (field) field[ticked(field) ? "checked" : "value"] = value;
  }
  form.closest("details").open = true;
  const text = form.elements.namedItem("text") ?? form.elements.namedItem("arguments");
  text.dispatchEvent(new Event("input", { bubbles: true })); // what it is, is told beside it
}

const stored = () => Object.keys(sessionStorage).filter((key) => key.startsWith(prefix));

// While a decision of this tab is on its way, nobody knows yet whose it is; once it is taken, what
// else was typed on its card is let go. What becomes of an answer is told by answer.js, images and all.
const underWay = new Set();
const DECIDES = ".card > .acts form[method=post], .card .stage form";
const deciding = (form) => (form?.matches?.(DECIDES) ? form.closest(".card").id.slice("call-".length) : "");
const cardOf = (key) => key.slice(prefix.length).split("-").slice(1, 3).join("-");

const sender = new WeakMap();

document.addEventListener("submit", (event) => {
  const card = deciding(event.target);
  if (!card) return;
  sender.set(event.target, card);
  underWay.add(card);
});

function over({ sourceElement, response }) {
  const card = sender.get(sourceElement);
  if (!card) return;
  underWay.delete(card);
  if (response?.raw.ok) for (const key of stored()) if (cardOf(key) === card) sessionStorage.removeItem(key);
  swept(true);
}

document.addEventListener("htmx:after:request", (event) => over(event.detail.ctx ?? {}));
document.addEventListener("htmx:error", (event) => over(event.detail.ctx ?? {}));

function swept(live) {
  for (const key of stored()) {
    const id = key.slice(prefix.length);
    if (document.getElementById(id) || underWay.has(cardOf(key))) continue;
    const { call, values } = JSON.parse(sessionStorage.getItem(key));
    sessionStorage.removeItem(key);
    const kind = id.split("-")[0];
    if (!live || kind !== "answerform") told(call, UNSENT[kind], words(values));
  }
}

// Of a form made from a schema, each place with what was typed for it.
function words(values) {
  const given = values.filter(([, value]) => typeof value === "string" && value);
  return given.map(([name, value]) => (name.includes(":/") ? `${name.slice(name.indexOf(":/") + 2)}: ${value}` : value)).join("\n");
}

export function told(call, what, typed, more = "") {
  if (!typed && !more) return;
  const box = document.createElement("article");
  const sentence = document.createElement("p");
  const field = document.createElement("textarea");
  const copy = document.createElement("button");
  const away = document.createElement("button");
  sentence.textContent = `Call ${call} was decided without ${what}; see its card.${more} What you typed:`;
  Object.assign(field, { value: typed, readOnly: true, rows: 3, ariaLabel: `What you typed for call ${call}` });
  Object.assign(copy, { type: "button", textContent: "Copy" });
  copy.addEventListener("click", async () => {
    if (await copied(field.value)) copy.textContent = "Copied";
  });
  Object.assign(away, { type: "button", className: "link", textContent: "Discard" });
  const kept = document.getElementById("kept");
  away.addEventListener("click", () => {
    box.remove();
    kept.hidden = !kept.childElementCount;
  });
  const acts = document.createElement("div");
  acts.className = "acts";
  acts.append(copy, away);
  box.append(sentence, field, acts);
  kept.append(box);
  kept.hidden = false;
}

// Once all scripts stand.
setTimeout(() => {
  if (!session || !document.getElementById("composer")) return;
  for (const key of stored()) {
    const form = document.getElementById(key.slice(prefix.length));
    if (form) restored(form, JSON.parse(sessionStorage.getItem(key)).values);
  }
  swept(false);
  document.addEventListener("htmx:after:swap", () => swept(true));
});
