// The wire and the flow show each other: by focus as by the pointer, and a click brings the other
// into sight. A place that was found in the bytes is shown in its row.

import { reach } from "./later.js";

const INERT = "a, button, input, textarea, select, summary, label, [contenteditable]";

const blocksOf = (row) => row.dataset.block.split(" ").map((id) => document.getElementById(id)).filter(Boolean);
const rowsOf = (block) => [...document.querySelectorAll(`.wirerow[data-block~="${CSS.escape(block.id)}"]`)];
const shown = (element) => element?.offsetParent !== null && element;

function others(element) {
  const row = element.closest?.(".wirerow");
  if (row) return [row, ...blocksOf(row)];
  const block = element.closest?.(".part, .card, .turnhead");
  return block ? rowsOf(block) : [];
}

function marked(element, on) {
  for (const other of others(element)) {
    if (on) other.dataset.ui = "marked";
    else if (other.dataset.ui === "marked") delete other.dataset.ui;
  }
}

document.addEventListener("focusin", (event) => marked(event.target, true));
document.addEventListener("focusout", (event) => marked(event.target, false));

// The element of a block once it is there, with the rows of its request in sight.
async function unfold(id) {
  const element = await reach(id);
  const fold = element?.closest(".wiresection:not(:last-child)")?.querySelector(".wirefold");
  if (fold) fold.open = true;
  return element;
}

// Who reads the rows of the newest request keeps them when another one comes.
const panel = document.getElementById("panel-wire");
new MutationObserver((records) => {
  const came = records.flatMap((record) => [...record.addedNodes]).find((one) => one.matches?.(".wiresection"));
  const before = came?.previousElementSibling?.querySelector(".wirefold");
  if (before && panel.dataset.ui === "read") before.open = true;
}).observe(document.getElementById("wire") ?? document.createElement("div"), { childList: true });

function inSight(element) {
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
  element?.scrollIntoView({ block: "nearest", behavior });
}

document.addEventListener("click", async (event) => {
  const row = event.target.closest?.(".wirerow");
  if (row) {
    await Promise.all(row.dataset.block.split(" ").map(reach));
    inSight(shown(blocksOf(row).at(-1)));
    return;
  }
  const block = event.target.closest?.(".part, .card, .turnhead");
  if (!block || event.target.closest(INERT) || document.getSelection()?.isCollapsed === false) return;
  if (shown(document.getElementById("wire"))) await unfold(`wirerows-${block.id.split("-")[1]}`);
  inSight(rowsOf(block).find(shown));
});

// Arrow keys go from row to row.
document.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest?.(".wirerow[tabindex]");
  if (!row || !step) return;
  event.preventDefault();
  const rows = [...document.querySelectorAll(".wirerow[tabindex]")].filter(shown);
  rows[rows.indexOf(row) + step]?.focus();
});

// What was found is shown in its row, too.
document.addEventListener("click", async (event) => {
  const found = event.target.closest?.("[data-jump]");
  const row = found && (await unfold(found.dataset.jump));
  if (row) {
    inSight(row);
    marked(row, true);
    setTimeout(() => marked(row, false), 2000);
  }
});

// What was asked for below a long list comes into sight.
document.addEventListener("htmx:after:swap", (event) => {
  if (event.detail?.ctx?.target?.id === "raw") inSight(event.detail.ctx.target);
});
