// Blocks that are not on the page yet: in the place of each stands an empty element with its id. One
// comes when it is nearly in sight, when something leads into it, when it changes, and all of the flow
// when the browser looks for a word.

import { applyFrame, cursor, reopen } from "./stream.js";

const LATER = "[data-later]";
const AT_ONCE = 100; // as many as the server gives
const NEAREST = 20;
const AGAIN_MS = 2000;

const $ = (id) => document.getElementById(id);
const isDeferred = (element) => element?.matches(LATER) ?? false;
const laterIn = (root) => [...document.querySelectorAll(`${root} ${LATER}`)];

// What a block stands in, as far as it may be missing.
function around(id) {
  const [name, number] = id.split("-");
  return name.startsWith("wire") ? [`wirerows-${number}`, `wire-${number}`, "wire"] : [`turn-${number}`];
}

// The element of a block, or the one in whose place it comes.
const placeOf = (id) => $(id) ?? around(id).map($).find(isDeferred) ?? null;

// What is asked for, by id.
const coming = new Map();
let arriving = false;

function bring(ids) {
  const request = { changed: new Set() };
  for (const id of ids) coming.set(id, request);
  request.done = brought(ids, request).finally(() => {
    // What changed after it was drawn may be older than what the stream brought meanwhile.
    for (const id of ids) if (coming.get(id) === request) coming.delete(id);
    return request.changed.size ? bring([...request.changed]) : undefined;
  });
  return request.done;
}

async function brought(ids) {
  const shown = $("stream")?.dataset.shown;
  const before = ids.includes("wire") && cursor();
  const query = new URLSearchParams({ ids, ...(shown && { shown }) });
  try {
    const answer = await fetch(`/sessions/${$("main").dataset.session}/blocks?${query}`, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new TypeError(`The server answered ${answer.status}.`);
    const html = await answer.text();
    if (document.body.dataset.replay) return; // it has brought all blocks, as they were at its moment
    arriving = true;
    const swapped = applyFrame({ html });
    arriving = false;
    await swapped;
    if (before) reopen(before); // its rows come from where they were drawn, or earlier
    $("forked")?.dispatchEvent(new Event("brought")); // it tells each block where forks leave it
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    setTimeout(watch, AGAIN_MS, true); // the page says by itself that the line is cut
  }
}

// Resolves when those of `elements` that are not there yet have come.
async function load(elements) {
  const ids = elements.filter(isDeferred).map(({ id }) => id);
  const wanted = ids.filter((id) => !coming.has(id));
  for (let first = 0; first < wanted.length; first += AT_ONCE) bring(wanted.slice(first, first + AT_ONCE));
  await Promise.all(ids.map((id) => coming.get(id)?.done));
}

// The element of a block once it is there; null where the page has none.
export async function reach(id) {
  let place;
  // What a block stands in may come without it.
  for (let next = placeOf(id); isDeferred(next) && next !== place; next = placeOf(id)) await load([(place = next)]);
  return $(id);
}

const follows = (one, other) => Boolean(other.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);

// Loads of what the flow has not got between two of its elements (null: its begin or end) what is
// nearest to the first, or else to the last; whether anything came.
export async function loadBetween(first, last, nearFirst) {
  const missing = laterIn("#flow").filter((one) => (!first || follows(one, first)) && (!last || follows(last, one)));
  const nearest = nearFirst ? missing.slice(0, NEAREST) : missing.slice(-NEAREST);
  await load(nearest);
  return nearest.some((one) => !isDeferred($(one.id)));
}

// Nearly in sight -----------------------------------------------------------------------------

// Lines are many and small, turns are tall.

function nearing(entries) {
  load(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target));
}

const watched = [
  ["#flow", $("scroll"), "800px 0px"],
  ["#panel-wire", $("panel-wire"), "200px 0px"],
].map(([selector, root, rootMargin]) => [selector, root && new IntersectionObserver(nearing, { root, rootMargin })]);

function watch(again = false) {
  for (const [selector, observer] of watched) {
    for (const element of observer ? laterIn(selector) : []) {
      if (again) observer.unobserve(element);
      observer.observe(element);
    }
  }
}

watch();
document.addEventListener("htmx:after:swap", () => watch());

// What changes ----------------------------------------------------------------------------------

// A frame cannot change what is not there, so that it is asked for; what a frame brings whole is there
// then.
document.addEventListener("htmx:before:swap", (event) => {
  const { tasks } = event.detail;
  if (arriving || !tasks) return;
  const changed = [];
  for (const task of [...tasks]) {
    const id = task.type === "partial" && task.fragment.firstElementChild?.id;
    if (!id) continue;
    for (const one of [id, ...around(id)]) coming.get(one)?.changed.add(one);
    const added = task.swapSpec.style === "beforeend" && !$(id);
    const place = added && isDeferred(task.target) ? task.target : placeOf(id);
    if (!isDeferred(place) || (place.id === id && !added)) continue;
    tasks.splice(tasks.indexOf(task), 1);
    changed.push(place);
  }
  load(changed);
});

// What leads into it ------------------------------------------------------------------------------

async function follow() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id || !isDeferred(placeOf(id))) return;
  const element = await reach(id);
  element?.scrollIntoView();
  if (element?.tabIndex >= 0) element.focus({ preventScroll: true });
}

follow();
window.addEventListener("hashchange", follow);

// The rows of a request that is opened stand below its headers, out of sight.
document.addEventListener(
  "toggle",
  ({ target }) => {
    if (target.open && target.matches(".wirefold")) load([...(target.closest(".wiresection")?.querySelectorAll(LATER) ?? [])]);
  },
  true,
);

// A browser finds what is on the page.
document.addEventListener(
  "keydown",
  (event) => {
    if (event.key === "F3" || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f")) load(laterIn("#flow"));
  },
  true,
);

// Each level once: the wire, its sections, their rows.
async function loadRows() {
  const asked = new Set();
  for (let next; (next = laterIn("#panel-wire").filter(({ id }) => !asked.has(id))).length; await load(next)) {
    for (const { id } of next) asked.add(id);
  }
}

// The rows of the wire are filtered where they stand.
for (const asked of ["focusin", "change"]) {
  document.addEventListener(asked, (event) => {
    if (event.target.matches?.("#wirefilter, [name=wirekind]")) loadRows();
  });
}
