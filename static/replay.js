// Replay: fetches the frames of this session and applies them by the clock, forwards and back.

import { wordsAt } from "./lanes.js";
import { applyFrame, setReplaying } from "./stream.js";

const SPEEDS = [0.5, 1, 2, 4, 8];
const session = document.getElementById("main")?.dataset.session;

let reel = null; // {duration, segments, frames}
let shown = -1; // the last frame that is on the page
let clock = 0; // ms on the replay clock
let speed = 1;
let playing = false;
let last = 0;
let busy = Promise.resolve();

const head = () => document.getElementById("playhead");

async function load() {
  if (reel) return true;
  const answer = await fetch(`/sessions/${session}/replay`, { headers: { Accept: "application/json" } });
  if (!answer.ok) return false;
  reel = await answer.json();
  setReplaying(true);
  document.body.dataset.replay = "on";
  head().max = reel.duration;
  document.querySelector("#composer")?.setAttribute("hidden", "");
  return true;
}

// The last frame at or before `ms`, by halving.
function frameAt(ms) {
  let low = 0;
  let high = reel.frames.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reel.frames[middle].at <= ms) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// One at a time: a drag asks for many places, only the newest is worth going to.
let wanted = null;

function show(ms) {
  const waiting = wanted !== null;
  wanted = ms;
  if (!waiting) busy = busy.then(goThere);
  return busy;
}

async function goThere() {
  while (wanted !== null) {
    const index = Math.max(frameAt(wanted), 0);
    clock = wanted;
    wanted = null;
    if (index < shown) shown = -1; // the first frame empties the page
    while (shown < index && wanted === null) await applyFrame(reel.frames[++shown]);
    report();
  }
  document.dispatchEvent(new Event("replay:shown"));
}

function report() {
  const position = head();
  if (!position) return;
  position.value = clock;
  const on = wordsAt(clock);
  position.setAttribute("aria-valuetext", `${(clock / 1000).toFixed(2)} s${on && `: ${on}`}`);
  document.querySelector("#bar .clock").textContent = `${(clock / 1000).toFixed(2)} of ${(reel.duration / 1000).toFixed(2)} s`;
  const play = document.querySelector("#bar .play");
  play.textContent = playing ? "❚❚" : "▶";
  play.setAttribute("aria-label", playing ? "Pause" : "Play");
}

async function step(now) {
  if (!playing) return;
  clock = Math.min(clock + (now - last) * speed, reel.duration);
  last = now;
  if (clock >= reel.duration) playing = false;
  await show(clock);
  if (playing) requestAnimationFrame(step);
}

async function toggle() {
  if (!(await load())) return;
  playing = !playing;
  if (playing) {
    if (clock >= reel.duration || shown < 0) {
      clock = 0;
      shown = -1;
    }
    last = performance.now();
    requestAnimationFrame(step);
  }
  report();
}

async function seek(ms) {
  if (!(await load())) return;
  playing = false;
  await show(Math.min(Math.max(ms, 0), reel.duration));
}

// The next or previous frame that shows something.
async function stepFrame(by) {
  if (!(await load())) return;
  const index = Math.min(Math.max((shown < 0 ? 0 : shown) + by, 0), reel.frames.length - 1);
  await seek(reel.frames[index].at);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("#bar [data-do]");
  if (button?.dataset.do === "play") toggle();
  if (button?.dataset.do === "back") stepFrame(-1);
  if (button?.dataset.do === "forth") stepFrame(1);
  if (button?.dataset.do === "speed") {
    speed = SPEEDS[(SPEEDS.indexOf(speed) + 1) % SPEEDS.length];
    button.textContent = `${speed}×`;
  }
});

document.addEventListener("input", (event) => {
  if (event.target.id === "playhead") seek(Number(event.target.value));
});

// Arrows on the bar go from frame to frame.
document.addEventListener("keydown", (event) => {
  if (event.target.id !== "playhead" || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
  event.preventDefault();
  stepFrame(event.key === "ArrowLeft" ? -1 : 1);
});
