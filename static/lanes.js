// The time bar under the pointer: what a segment is stands above it, and a click goes to its block.
// The play head lies over the drawing, so the segment is looked up by its place.

import { reach } from "./later.js";

const segments = () => [...document.querySelectorAll("#track rect[data-block]")];

function under(event) {
  return document.elementsFromPoint(event.clientX, event.clientY).find((one) => one.matches("#track rect[data-block]"));
}

// What is on at a moment of the replay clock, in words.
export function wordsAt(ms) {
  const on = segments().filter((one) => Number(one.dataset.from) <= ms && ms < Number(one.dataset.to));
  return on.map((one) => one.textContent).join("; ");
}

let marked = "";

function mark(segment) {
  const block = segment?.dataset.block ?? "";
  if (block !== marked) {
    delete document.getElementById(marked)?.dataset.ui;
    if (block && document.getElementById(block)) document.getElementById(block).dataset.ui = "marked";
    marked = block;
  }
  for (const one of segments()) {
    if (one === segment) one.dataset.ui = "marked";
    else delete one.dataset.ui;
  }
  const place = document.getElementById("segment");
  if (place) {
    place.textContent = segment?.textContent ?? "";
    place.hidden = !segment;
  }
}

let wanted = "";
let pressed = 0;

document.addEventListener("pointermove", (event) => {
  const here = event.target.closest?.("#track");
  if (event.buttons && Math.abs(event.clientX - pressed) > 4) wanted = ""; // a drag looks for a time, not for a block
  if (here) mark(under(event));
  else if (marked) mark(undefined);
});

document.addEventListener("pointerdown", (event) => {
  pressed = event.clientX;
  wanted = (event.target.closest?.("#track") && under(event)?.dataset.block) ?? "";
});

// The page shows another moment: the block that was clicked is there now, or never will be.
document.addEventListener("replay:shown", () => {
  if (!wanted) return;
  document.getElementById(wanted)?.scrollIntoView({ block: "nearest" });
  wanted = "";
});

document.addEventListener("click", async (event) => {
  const row = event.target.closest?.("#times a");
  if (!row || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  const block = await reach(row.hash.slice(1));
  if (!block) return;
  document.getElementById("times").open = false;
  block.scrollIntoView({ block: "nearest" });
  mark(segments().find((one) => one.dataset.block === block.id));
  if (block.tabIndex >= 0) block.focus({ preventScroll: true });
});
