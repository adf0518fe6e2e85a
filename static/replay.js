// Replay: asks for the moments of this session and plays them by the clock. Position k is the page
// after the first k things that came; a keyframe shows one whatever stands there, a frame leads on.

import { wordsAt } from "./lanes.js";
import { applyFrame, setReplaying } from "./stream.js";

const FRAME_MS = 33;
const session = document.getElementById("main")?.dataset.session;
const $ = (id) => document.getElementById(id);

let reel = null; // {duration, count, first, seq, marks}
let shown = -1; // the position that is on the page; -1: the page of now
let seq = 0; // the last event that is on the page
let clock = 0; // ms on the replay clock
let playing = false;
let last = 0; // when the clock was looked at
let newer = 0; // events that came since the replay began
let heard = null; // the stream that tells of them

const speed = () => Number($("speed").value);

async function ask(path) {
  // How much is shown of turns with many calls is said where the stream is told, too.
  const cards = $("stream")?.dataset.shown;
  const query = cards ? `${path.includes("?") ? "&" : "?"}shown=${cards}` : "";
  const answer = await fetch(`/sessions/${session}/replay/${path}${query}`, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`The replay stopped: the server answered ${answer.status}.`);
  return answer.json();
}

let loading = null;

const load = () => (loading ??= begin());

async function begin() {
  reel = await ask("reel");
  setReplaying(true);
  document.body.dataset.replay = "on";
  $("playhead").max = reel.duration;
  for (const below of [$("composer"), $("tapped")]) below?.setAttribute("hidden", "");
  hearNewer();
  return reel;
}

// A session goes on while its past is shown: how many events came since is said beside the way out.
function hearNewer() {
  heard?.close();
  heard = null;
  // Browsers allow a page six connections; one that nobody looks at needs none.
  if (document.hidden) return;
  heard = new EventSource(`/sessions/${session}/events?after=${reel.seq + newer}`);
  heard.onmessage = (event) => {
    newer = Number(event.lastEventId) - reel.seq;
    sayNewer();
  };
}

window.addEventListener("pagehide", () => heard?.close());
document.addEventListener("visibilitychange", () => reel && hearNewer());

function sayNewer() {
  const place = $("newer");
  const words = newer > 0 ? `${newer} newer event${newer > 1 ? "s" : ""}` : "";
  if (place && place.textContent !== words) place.textContent = words;
}

// A head that is drawn anew says it again.
document.addEventListener("htmx:after:swap", sayNewer);

// At rest the address is that of the moment, so that a page that is loaded again shows it.
function rested() {
  report();
  const url = new URL(location);
  url.searchParams.set("at", seq);
  if (window === window.top) history.replaceState(null, "", url);
  document.dispatchEvent(new Event("replay:shown"));
}

// One change of the page at a time: what is asked for meanwhile waits, and only the newest counts.
let busy = Promise.resolve();
let wanted = null;

function go(query) {
  const waiting = wanted !== null;
  if (query.startsWith("ms=")) clock = Number(query.slice(3)); // the play head is there already
  wanted = query;
  if (!waiting) busy = busy.then(goThere).catch(told);
  return busy;
}

async function goThere() {
  while (wanted !== null) {
    const query = wanted;
    wanted = null;
    const frame = await ask(`at?${query}`);
    if (wanted !== null) continue; // somebody wants to be elsewhere by now
    ahead = [];
    await put(frame);
    if (!query.startsWith("ms=")) clock = frame.at;
    report();
  }
  rested();
}

async function put(frame) {
  await applyFrame(frame);
  shown = frame.to;
  seq = frame.seq;
}

function told(error) {
  playing = false;
  wanted = null;
  const toast = document.createElement("div");
  toast.className = "toast failed";
  toast.textContent = `${error.message} Reload the page.`;
  $("toasts").append(toast);
  report();
}

// What the bar says ----------------------------------------------------------------------------

const nearest = (kind, by) => {
  const some = reel.marks.filter(([one, position]) => one === kind && (by > 0 ? position > shown : position < shown));
  return by > 0 ? some[0] : some.at(-1);
};

const link = (element, place) => (place === undefined ? element.removeAttribute("href") : element.setAttribute("href", `?at=${place}`));

function report() {
  const head = $("playhead");
  if (!head || !reel) return;
  head.value = clock;
  const on = wordsAt(clock);
  head.setAttribute("aria-valuetext", `${(clock / 1000).toFixed(2)} s${on && `: ${on}`}`);
  document.querySelector("#bar .clock").textContent = `${(clock / 1000).toFixed(2)} of ${(reel.duration / 1000).toFixed(2)} s`;
  const play = document.querySelector("#bar .play");
  play.textContent = playing ? "❚❚" : "▶";
  play.setAttribute("aria-label", playing ? "Pause" : "Play");
  if (shown < 0) return;
  $("place").textContent = `event ${seq} of ${reel.seq}`;
  $("placed").dataset.position = shown;
  $("fork-here").search = `?seq=${seq}`;
  link($("share-place"), seq);
  link(document.querySelector("#bar [data-do=back]"), shown > reel.first ? seq - 1 : undefined);
  link(document.querySelector("#bar [data-do=forth]"), shown < reel.count ? seq + 1 : undefined);
  for (const one of document.querySelectorAll("#placed [data-do=jump]")) {
    const mark = nearest(one.dataset.kind, Number(one.dataset.by));
    link(one, mark?.[3]);
    one.title = mark?.[4] ?? "";
  }
}

// Playing --------------------------------------------------------------------------------------

let ahead = []; // frames that lead on from what is shown, in order
let fetching = false;

async function fetchAhead() {
  const from = ahead.length ? ahead.at(-1).to : shown;
  if (fetching || from >= reel.count) return;
  fetching = true;
  try {
    const { frames } = await ask(`frames?from=${from}&every=${Math.round(FRAME_MS * Math.max(speed(), 0.25))}`);
    if ((ahead.length ? ahead.at(-1).to : shown) === from) ahead.push(...frames);
  } catch (error) {
    told(error);
  } finally {
    fetching = false;
  }
}

async function tick(now) {
  if (!playing) return;
  if (ahead.length < 40) fetchAhead();
  const known = ahead.length ? ahead.at(-1).at : clock;
  const limit = shown >= reel.count || ahead.at(-1)?.to >= reel.count ? reel.duration : Math.max(known, clock);
  clock = Math.min(clock + (now - last) * speed(), limit);
  last = now;
  busy = busy.then(catchUp).catch(told);
  await busy;
  if (clock >= reel.duration && shown >= reel.count) playing = false;
  report();
  if (playing) requestAnimationFrame(tick);
  else if (shown >= 0 && wanted === null) rested();
}

async function catchUp() {
  while (playing && wanted === null && ahead.length && ahead[0].at <= clock) {
    const frame = ahead.shift();
    if (frame.from === shown) await put(frame);
    else ahead = [];
  }
}

async function toggle() {
  await load();
  playing = !playing;
  if (playing) {
    if (shown < 0 || shown >= reel.count) {
      await go(`position=${reel.first}`);
      clock = 0;
    }
    last = performance.now();
    requestAnimationFrame(tick);
    report();
  } else {
    await busy;
    rested();
  }
}

async function pauseAndGo(query) {
  playing = false;
  await load();
  await go(query);
}

// One event further or back, from where the step before it will have led.
async function stepBy(by) {
  await load();
  playing = false;
  busy = busy.then(() => step(by)).catch(told);
  return busy;
}

async function step(by) {
  const here = shown < 0 ? reel.seq : seq;
  const frame = await ask(`at?seq=${Math.min(Math.max(here + by, 1), reel.seq)}`);
  ahead = [];
  await put(frame);
  clock = frame.at;
  rested();
}

async function jump(kind, by) {
  await load();
  await busy;
  if (shown < 0) shown = reel.count;
  const mark = nearest(kind, by);
  if (mark) await pauseAndGo(`position=${mark[1]}`);
}

// Buttons, the bar, keys -----------------------------------------------------------------------

const acts = {
  play: toggle,
  back: () => stepBy(-1),
  forth: () => stepBy(1),
  jump: (button) => jump(button.dataset.kind, Number(button.dataset.by)),
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("#bar [data-do]");
  const act = button && acts[button.dataset.do];
  if (!act || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  act(button).catch(told);
});

document.addEventListener("input", (event) => {
  if (event.target.id === "playhead") pauseAndGo(`ms=${event.target.value}`).catch(told);
});

document.addEventListener("change", (event) => {
  if (event.target.id === "speed") ahead = [];
});

const onBar = { ArrowLeft: () => stepBy(-1), ArrowRight: () => stepBy(1), " ": toggle };
const anywhere = { "[": () => jump("call", -1), "]": () => jump("call", 1), " ": toggle };

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
  const bar = event.target.id === "playhead";
  const typing = !bar && event.target.closest?.("input, textarea, select, [contenteditable], dialog");
  const pressed = event.key === " " && event.target.closest?.("button, summary"); // it has a use for the key
  const act = (bar && onBar[event.key]) || (!typing && !pressed && document.body.dataset.replay && anywhere[event.key]);
  if (!act) return;
  event.preventDefault();
  act().catch(told);
});

// What stands ready to be sent stands there once: a form that was sent is empty.
const prompt = document.querySelector(".stands-in") && $("prompt");
if (prompt) {
  const text = prompt.value;
  prompt.defaultValue = "";
  prompt.value = text;
}

// A page of one moment is a replay from its beginning on.
if (document.querySelector("[data-place]")) {
  const { place } = document.querySelector("[data-place]").dataset;
  load()
    .then(() => go(`seq=${place}`))
    .catch(told);
}
