// Keys. One that decides acts only on the focused card, or on those its button names, and only after
// the whole card has been on screen, unchanged, for half a second: nobody runs what was not read.

import { loadBetween } from "./later.js";
import { isPresenting, present, showPanel, togglePanel } from "./panels.js";

const LOOKED_AT_MS = 500;

const typing = (target) => target.closest?.("input:not([type=range]), textarea, select, [contenteditable], [data-typing]") !== null;

// Which cards were seen ----------------------------------------------------------------------

// A card that is taller than the window is seen when its head and its row of decisions were.
const WATCHED = ".card, .card > header, .card > .acts";

// element -> {digest of its card, since when it is whole on screen, whether it ever was for long}
const looks = new WeakMap();

function look(element, whole) {
  const digest = element.closest(".card")?.dataset.digest;
  const now = performance.now();
  let entry = looks.get(element);
  if (!entry || entry.digest !== digest) {
    entry = { digest, since: Infinity, seen: false };
    looks.set(element, entry);
  }
  entry.seen ||= now - entry.since >= LOOKED_AT_MS;
  entry.since = whole ? Math.min(entry.since, now) : Infinity;
}

const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting, intersectionRatio } of entries) look(target, isIntersecting && intersectionRatio >= 0.99);
  },
  { threshold: [0, 0.99, 1] },
);

function watch() {
  for (const element of document.querySelectorAll(WATCHED)) {
    const entry = looks.get(element);
    if (!entry) {
      look(element, false);
      observer.observe(element);
    } else {
      look(element, entry.since !== Infinity);
    }
  }
}

function isSeen(element) {
  const entry = looks.get(element);
  return entry !== undefined && entry.digest === element.closest(".card").dataset.digest && performance.now() - entry.since >= LOOKED_AT_MS;
}

function wasSeen(element) {
  return isSeen(element) || Boolean(looks.get(element)?.seen && looks.get(element).digest === element.closest(".card").dataset.digest);
}

const isTall = (card) => card.offsetHeight > (card.closest(".scroll") ?? document.documentElement).clientHeight;
const endsWereSeen = (card) => [...card.querySelectorAll(":scope > header, :scope > .acts")].every(wasSeen);

// Now, for the key that decides one card; and once, for the key that runs several.
const isRead = (card) => (isTall(card) ? endsWereSeen(card) : isSeen(card));
const wasRead = (card) => (isTall(card) ? endsWereSeen(card) : wasSeen(card));

// Moving between calls ------------------------------------------------------------------------

async function move(step) {
  const cards = [...document.querySelectorAll(".card")];
  const here = cards.indexOf(document.activeElement?.closest?.(".card"));
  const asking = cards.findIndex((card) => card.classList.contains("asks"));
  const start = here >= 0 ? here + step : asking >= 0 ? asking : step > 0 ? 0 : cards.length - 1;
  // Between two cards of a long session there may be others that are not there yet.
  const [from, to] = here >= 0 || asking < 0 ? [cards[here], cards[start]] : [cards[asking], cards[asking]];
  if (from !== to || !cards.length) {
    const more = step > 0 ? loadBetween(from ?? null, to ?? null, true) : loadBetween(to ?? null, from ?? null, false);
    if (await more) return move(step);
  }
  const next = cards[Math.min(Math.max(start, 0), cards.length - 1)];
  if (!next) return;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

// The table -----------------------------------------------------------------------------------

function press(selector, root = document) {
  const button = root.querySelector(selector);
  if (!button || button.disabled) return false;
  button.click();
  return true;
}

function decide(key) {
  const card = document.activeElement?.closest?.(".card");
  if (!card) return false;
  const button = card.querySelector(`[data-key="${key}"]`);
  if (!button) return false;
  if (!isRead(card)) {
    hint("A key acts after the whole card has been on screen for half a second.");
    return true;
  }
  if (!button.disabled) button.click();
  return true;
}

function runAll() {
  const button = document.querySelector('[data-key="shift-a"]');
  if (!button) return false;
  const cards = new FormData(button.form).getAll("call").map((named) => {
    const [call, digest] = named.split(" ");
    const card = document.getElementById(`call-${call.replace(".", "-")}`);
    return card?.dataset.digest === digest ? card : null;
  });
  if (cards.every((card) => card && wasRead(card))) return press('[data-key="shift-a"]');
  hint("Shift+A acts after every card it runs has been fully on screen for half a second.");
  return true;
}

function hint(sentence) {
  const toasts = document.getElementById("toasts");
  const shown = toasts.querySelector(".hint");
  if (shown?.textContent === sentence) return;
  shown?.remove();
  const toast = document.createElement("div");
  toast.className = "toast hint";
  toast.textContent = sentence;
  toasts.append(toast);
}

const plain = {
  n: () => press("[data-do=new]"),
  "/": () => {
    const search = document.getElementById("search");
    if (search?.offsetParent === null) showPanel("side");
    search?.focus();
    return Boolean(search);
  },
  s: () => togglePanel("side"),
  i: () => togglePanel("inspector"),
  p: () => present(),
  j: () => (move(1), true),
  k: () => (move(-1), true),
  "?": () => (document.getElementById("keys").showModal(), true),
  a: () => decide("a"),
  e: () => decide("e"),
  h: () => decide("h"),
  d: () => decide("d"),
  c: () => press('[data-key="c"]'),
};

// What is only read is no step before Stop; what is filled in or lies over the page closes first.
const filledIn = (panel) => panel.matches(".act, .menu") || panel.querySelector("textarea, select, input:not([type=hidden])");

function escape(event) {
  if (document.querySelector("dialog[open]")) return false;
  const open = event.target.closest?.("details[open]:not(.way)");
  if (open && (filledIn(open) || !document.querySelector('[data-key="escape"]'))) {
    open.open = false;
    (open.closest(".card") ?? open.querySelector("summary")).focus();
    return true;
  }
  if (document.body.dataset.drawer) {
    showPanel(document.body.dataset.drawer, false);
    return true;
  }
  // To leave it is never to stop a run.
  if (isPresenting()) return present(false);
  if (typing(event.target) && event.target.id !== "prompt") {
    event.target.blur();
    return true;
  }
  if (press('[data-key="escape"]')) return true;
  // Where nothing runs, an empty message box lets the keys of the cards through.
  if (event.target.id !== "prompt" || event.target.value) return false;
  event.target.blur();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.defaultPrevented) return;
  const command = event.metaKey || event.ctrlKey;
  let done = false;
  if (event.key === "Escape") {
    done = !event.repeat && escape(event);
  } else if (command && event.key === "Enter" && event.target.form) {
    if (!event.repeat) send(event.target.form);
    done = true;
  } else if (command && event.key.toLowerCase() === "s" && document.getElementById("tool")) {
    if (!event.repeat) document.getElementById("tool").requestSubmit();
    done = true;
  } else if (!command && !event.altKey && !event.repeat && !typing(event.target) && !document.querySelector("dialog[open]")) {
    if (event.shiftKey && event.key === "A") done = runAll();
    else if (event.shiftKey && event.key === "D") done = press('[data-key="shift-d"]');
    else done = (plain[event.key]?.() ?? false);
  }
  if (done) event.preventDefault();
});

function send(form) {
  const button = form.querySelector("button:not([type=button])");
  if (button && !button.disabled) form.requestSubmit(button);
  else if (button?.title) hint(`Nothing was sent. ${button.title}`);
}

watch();
document.addEventListener("htmx:after:swap", watch);
