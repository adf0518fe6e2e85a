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

const speed = () => Number($("speed").value);

async function ask(path) {
  const answer = await fetch(`/sessions/${session}/replay/${path}`, { headers: { Accept: "application/json" } });
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
  $("composer")?.setAttribute("hidden", "");
  return reel;
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
  document.dispatchEvent(new Event("replay:shown"));
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
  $("fork-seq").value = seq;
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
  }
  report();
}

async function pauseAndGo(query) {
  playing = false;
  await load();
  await go(query);
}

// One thing that came, further or back.
async function stepBy(by) {
  await load();
  playing = false;
  await busy; // from where the page will be
  const here = shown < 0 ? reel.count : shown;
  if (by < 0 || shown < 0) return go(`position=${Math.max(here + by, reel.first)}`);
  busy = busy.then(stepOn).catch(told);
  return busy;
}

async function stepOn() {
  if (shown >= reel.count) return;
  ahead = [];
  const { frames } = await ask(`frames?from=${shown}&every=0&most=1`);
  for (const frame of frames) {
    await put(frame);
    clock = frame.at;
  }
  report();
  document.dispatchEvent(new Event("replay:shown"));
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
const anywhere = { "[": () => jump("call", -1), "]": () => jump("call", 1) };

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
  const bar = event.target.id === "playhead";
  const typing = !bar && event.target.closest?.("input, textarea, select, [contenteditable], dialog");
  const act = (bar && onBar[event.key]) || (!typing && document.body.dataset.replay && anywhere[event.key]);
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
