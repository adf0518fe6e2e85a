// The Request tab follows the draft, the settings and the flow while it is open; the composer takes
// images by its button, by paste and by drop, and keeps them in its own file field until they go.

import { carried, thumb, whyNot } from "./images.js";
import { copied, say } from "./toasts.js";
import { applyFrame } from "./stream.js";

const $ = (id) => document.getElementById(id);
const session = $("main")?.dataset.session;
const composer = $("composer");
const prompt = $("prompt");

// The next request ----------------------------------------------------------------------------

const isOpen = (name) => $(`panel-${name}`) && !$(`panel-${name}`).hidden;
const wire = () => document.querySelector("#wires [name=wire]:checked")?.value ?? "";

function draft() {
  const data = composer ? new FormData(composer) : new FormData();
  data.set("wire", wire());
  return data;
}

const ask = (headers, signal) => fetch(`/sessions/${session}/request`, { method: "POST", body: draft(), headers, signal });

let timer;
let asking;

function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(refresh, ms);
}

async function refresh() {
  if (!isOpen("request") && !isOpen("setup")) return;
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  try {
    const answer = await ask({ "HX-Request": "true" }, signal);
    const text = await answer.text();
    if (signal.aborted) return;
    if (answer.ok) await applyFrame({ html: text });
    else refused(text);
  } catch (error) {
    // The page says by itself when the server is gone; what was overtaken is no trouble.
    if (error.name !== "AbortError" && !(error instanceof TypeError)) throw error;
  }
}

function refused(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const sentence = document.createElement("p");
  sentence.className = "note failed";
  sentence.textContent = page.querySelector("p")?.textContent ?? "This request cannot be shown.";
  $("request").replaceChildren(sentence);
}

// What the page shows of the run: the request is another one when this has changed.
const standing = () => [$("head")?.dataset.state, $("head")?.dataset.waiting, $("flow")?.childElementCount, $("dock")?.textContent].join("|");
let stood = standing();

document.addEventListener("htmx:after:swap", () => {
  if (standing() === stood) return;
  stood = standing();
  later(300);
});

document.addEventListener("htmx:after:request", (event) => {
  if (event.target.id === "setup" && isOpen("request")) later(0);
});

document.addEventListener("input", (event) => {
  if (event.target === prompt && isOpen("request")) later(250);
});

document.addEventListener("change", (event) => {
  if (event.target.name === "wire") later(0);
});

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-do]");
  if (target?.matches("#tab-request")) later(0);
  if (target?.dataset.do === "show-request") {
    event.preventDefault();
    $("tab-request").click();
  }
  if (target?.dataset.do === "copy-request") copy(target);
});

// A long body is not in the page: it is fetched, byte for byte, when it is needed.
async function copy(button) {
  const answer = await ask({ Accept: "application/json" });
  if (!answer.ok) return;
  if (!(await copied((await answer.json()).body))) return;
  button.dataset.ui = "done";
  setTimeout(() => delete button.dataset.ui, 900);
}

// Images --------------------------------------------------------------------------------------

const field = $("images");
let kept = [];

async function add(files) {
  for (const file of files) {
    const sentence = await whyNot(file, kept, "a prompt");
    if (sentence) say(sentence);
    else kept.push(file);
  }
  keep();
}

// Images of a draft survive a reload as its text does; where the browser keeps nothing (a private
// window) they have to be added again.
function drafts(mode, what) {
  const opening = indexedDB.open("drafts");
  opening.onupgradeneeded = () => opening.result.createObjectStore("images");
  return new Promise((resolve) => {
    opening.onerror = () => resolve(undefined);
    opening.onsuccess = () => {
      const asked = what(opening.result.transaction("images", mode).objectStore("images"));
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => resolve(undefined);
      asked.transaction.oncomplete = asked.transaction.onabort = () => opening.result.close();
    };
  });
}

const remember = () => drafts("readwrite", (store) => (kept.length ? store.put(kept, session) : store.delete(session)));

async function recall() {
  const files = await drafts("readonly", (store) => store.get(session));
  if (files?.length && !kept.length) await add(files);
}

function keep() {
  field.files = carried(kept);
  prompt.required = kept.length === 0;
  remember();
  drawThumbs();
  if (isOpen("request")) later(250);
}

function drawThumbs() {
  $("thumbs").hidden = kept.length === 0;
  $("thumbs").replaceChildren(...kept.map((file) => thumb(file, () => removed(file))));
}

function removed(file) {
  kept = kept.filter((one) => one !== file);
  keep();
  prompt.focus();
}

if (composer) {
  const middle = $("main");
  const images = (data) => [...(data?.files ?? [])];
  prompt.required = true;
  field.addEventListener("change", () => add([...field.files]));
  composer.addEventListener("paste", (event) => {
    const files = images(event.clipboardData);
    if (!files.length) return;
    event.preventDefault();
    add(files);
  });
  composer.addEventListener("reset", () => {
    kept = [];
    setTimeout(keep);
  });
  middle.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    composer.dataset.ui = "drop";
  });
  for (const name of ["dragleave", "drop"]) middle.addEventListener(name, () => delete composer.dataset.ui);
  middle.addEventListener("drop", (event) => {
    const files = images(event.dataTransfer);
    if (!files.length) return;
    event.preventDefault();
    add(files);
  });
  recall();
}
