// The live page: applies frames (htmx does the partials), grows texts, tells when the line is cut.
// `applyFrame` is the one function that the stream and the replay share.

import { mark } from "./doubt.js";

const stream = () => document.getElementById("stream");

// The session of this page, or one of those side by side.
export const running = () => document.querySelector('#head[data-state="running"], .lanehead[data-state="running"]') !== null;

// Growing text --------------------------------------------------------------------------------

// Each frame lays out the last piece anew. So one is closed at the first line end behind so many
// characters, or behind so many where no line ends: a closed piece is laid out once, and drawn while
// it is in sight (app/playground/render/paging.py, `closed`).
const CLOSED = 4_096;
const LINE = 8_192;

function endOf(text) {
  const end = text.indexOf("\n", CLOSED - 1) + 1;
  if (end || text.length < LINE) return end;
  return text.lastIndexOf(" ", LINE - 1) + 1 || LINE - /[\ud800-\udbff]/.test(text[LINE - 1]);
}

function append(element, text) {
  const last = element.lastChild;
  const open = last?.nodeType === Node.TEXT_NODE ? last : element.appendChild(new Text());
  open.appendData(text);
  for (let end = 0; open.length >= CLOSED && (end = endOf(open.data)); ) {
    const piece = document.createElement("div");
    piece.className = "closed";
    piece.append(open.data.slice(0, end));
    open.before(piece);
    open.deleteData(0, end);
  }
}

// Blocks of Markdown have come to their end: they stand before what is still raw, which is `text` now.
function close(element, html, text) {
  while (element.lastChild && !element.lastChild.matches?.(".prose")) element.lastChild.remove();
  element.insertAdjacentHTML("beforeend", html);
  append(element, text);
}

export function grow(entries) {
  for (const [id, from, to, text, deltas, block, html] of entries) {
    const element = document.getElementById(id);
    if (!element) continue;
    const length = Number(element.dataset.length);
    if (length >= to) continue;
    if (length !== from) {
      refetch(block);
      continue;
    }
    if (html === undefined) append(element, text);
    else close(element, html, text);
    element.dataset.length = to;
    element.dataset.deltas = deltas;
    const counter = id.startsWith("text-") && document.getElementById(id.replace("text-", "deltas-"));
    if (counter) counter.textContent = deltas;
  }
  mark();
}

// A text that does not fit to what came is fetched whole, once at a time.
const fetching = new Set();

async function refetch(block) {
  const session = document.getElementById("main")?.dataset.session;
  if (!session || fetching.has(block)) return;
  fetching.add(block);
  try {
    await htmx.ajax("GET", `/sessions/${session}/blocks/${block}`, {
      target: `#${block}`,
      swap: "outerMorph",
    });
  } finally {
    fetching.delete(block);
  }
}

// Frames --------------------------------------------------------------------------------------

export async function applyFrame({ html, grow: entries }) {
  if (html) {
    await htmx.swap({
      text: html,
      swap: "none",
      target: document.body,
      sourceElement: document.body,
      request: {},
    });
  }
  if (entries?.length) grow(entries);
}

// A block that is said to be new but stands there already (the page was drawn later than the
// cursor) is morphed instead of appended twice.
document.addEventListener("htmx:before:swap", (event) => {
  for (const task of event.detail.tasks ?? []) {
    if (task.type !== "partial" || task.swapSpec.style !== "beforeend") continue;
    const id = task.fragment.firstElementChild?.id;
    const there = id && document.getElementById(id);
    if (there) {
      task.target = there;
      task.swapSpec = { ...task.swapSpec, style: "outerMorph" };
    }
  }
});

// What a reader opened of a long text stays open: a block that shows more of the same text than the
// one that comes is kept. So is a block that is there already where only its place comes.
htmx.registerExtension("opened", {
  htmx_before_morph_node: ({ dataset: there }, { newNode: { dataset: comes } }) =>
    !(there?.of && there.of === comes?.of && Number(there.shown) > Number(comes.shown)) &&
    !(comes && "later" in comes && !("later" in there)),
});

// The stream's address --------------------------------------------------------------------------

let applied = ""; // the cursor of the last frame that is on the page whole

document.addEventListener("htmx:sse:after:connection", ({ detail }) => {
  applied = detail.connection.lastEventId;
});

document.addEventListener("htmx:sse:after:message", ({ detail }) => {
  applied = detail.message.id;
});

const addressOf = (element) => new URL(element.getAttribute("hx-sse:connect"), location);

export const cursor = () => applied || addressOf(stream()).searchParams.get("after");

// The server makes the rows of the wire for a page that has their section.
document.addEventListener("htmx:config:request", ({ target, detail }) => {
  if (target !== stream() || !document.querySelector("#wire:not([data-later])")) return;
  detail.ctx.request.action += "&wire=1";
});

// The stream begins again after `cursor`, with all that the page shows now.
export function reopen(cursor) {
  const address = addressOf(stream());
  address.searchParams.set("after", cursor);
  const element = stream().cloneNode();
  element.setAttribute("hx-sse:connect", address.pathname + address.search);
  element.removeAttribute("data-htmx-powered");
  return applyFrame({ html: `<hx-partial hx-target="#stream" hx-swap="outerHTML">${element.outerHTML}</hx-partial>` });
}

// The line ------------------------------------------------------------------------------------

let replaying = document.querySelector("[data-place]") !== null; // a page of one moment

export function setReplaying(value) {
  replaying = value;
}

document.addEventListener("grow", (event) => {
  if (event.target === stream() && !replaying) grow(JSON.parse(event.detail.data));
});

document.addEventListener("htmx:sse:before:message", (event) => {
  // What happens meanwhile is not lost: leaving the replay loads the page again. The list and what
  // the server says of itself go on.
  if (!replaying) return;
  event.preventDefault();
  const { message } = event.detail;
  if (message.event) return;
  const came = document.createElement("template");
  came.innerHTML = message.data;
  const kept = came.content.querySelectorAll('hx-partial:is([hx-target="#list"], [hx-target="#store"])');
  for (const partial of kept) applyFrame({ html: partial.outerHTML });
});

// What a page around this one hands in, each after the one before.
let fed = Promise.resolve();

export function feed(frame) {
  fed = fed.then(() => replaying || applyFrame(frame));
}

let cut;

document.addEventListener("htmx:sse:error", () => {
  clearTimeout(cut);
  cut = setTimeout(() => offline(true), 400);
});

document.addEventListener("htmx:sse:after:connection", () => {
  clearTimeout(cut);
  offline(false);
});

function offline(value) {
  const sign = document.getElementById("offline");
  if (sign) sign.hidden = !value;
}

// A hidden tab lets the line go and catches up when it returns, but not while its session runs.
document.addEventListener(
  "visibilitychange",
  (event) => {
    if (document.hidden && running()) event.stopImmediatePropagation();
  },
  true,
);

// Leaving ---------------------------------------------------------------------------------------

// A stream that the browser cuts is an error in Firefox's console: it is closed before. A page that
// stays after all (a download) takes it up again by its trigger.
const STAYS_MS = 3000;
let leaving = 0;
let connection;

document.addEventListener("htmx:sse:after:connection", (event) => {
  ({ connection } = event.detail);
});

document.addEventListener("htmx:sse:before:connection", (event) => {
  if (performance.now() < leaving) event.preventDefault();
});

function leave() {
  leaving = performance.now() + STAYS_MS;
  connection?.reader?.cancel();
  connection?.abortController?.abort();
  stream()?.dispatchEvent(new Event("htmx:abort")); // one that is still asked for
}

for (const name of ["beforeunload", "pagehide"]) window.addEventListener(name, leave);
