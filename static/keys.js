// Keys. One that decides acts only on the focused card, and only after the whole card has been on
// screen, unchanged, for half a second: nobody runs what could not be read.

const LOOKED_AT_MS = 500;

const typing = (target) => target.closest?.("input, textarea, select, [contenteditable]") !== null;

// Which cards were seen whole -----------------------------------------------------------------

const seen = new Map(); // card id -> {digest, since}

const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting, intersectionRatio } of entries) {
      if (isIntersecting && intersectionRatio >= 0.99) {
        if (!seen.has(target.id)) seen.set(target.id, { digest: target.dataset.digest, since: performance.now() });
      } else {
        seen.delete(target.id);
      }
    }
  },
  { threshold: [0, 0.99, 1] },
);

const watched = new WeakSet();

function watch() {
  for (const card of document.querySelectorAll(".card")) {
    const entry = seen.get(card.id);
    if (entry && entry.digest !== card.dataset.digest) {
      seen.set(card.id, { digest: card.dataset.digest, since: performance.now() });
    }
    if (!watched.has(card)) {
      watched.add(card);
      observer.observe(card);
    }
  }
}

function wasRead(card) {
  const entry = seen.get(card.id);
  return entry !== undefined && entry.digest === card.dataset.digest && performance.now() - entry.since >= LOOKED_AT_MS;
}

// Moving between calls ------------------------------------------------------------------------

function move(step) {
  const cards = [...document.querySelectorAll(".card")];
  if (!cards.length) return;
  const here = cards.indexOf(document.activeElement?.closest?.(".card"));
  const asking = cards.findIndex((card) => card.classList.contains("asks"));
  const start = here >= 0 ? here + step : asking >= 0 ? asking : step > 0 ? 0 : cards.length - 1;
  const next = cards[Math.min(Math.max(start, 0), cards.length - 1)];
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
  if (!wasRead(card)) {
    hint("A key acts once the whole card has been on screen for half a second.");
    return true;
  }
  if (!button.disabled) button.click();
  return true;
}

function hint(sentence) {
  const toasts = document.getElementById("toasts");
  if (toasts.querySelector(".hint")) return;
  const toast = document.createElement("div");
  toast.className = "toast hint";
  toast.textContent = sentence;
  toasts.append(toast);
}

const plain = {
  n: () => press("[data-do=new]"),
  "/": () => {
    const search = document.getElementById("search");
    if (document.body.dataset.drawer !== "side" && search?.offsetParent === null) document.body.dataset.drawer = "side";
    search?.focus();
    return Boolean(search);
  },
  j: () => (move(1), true),
  k: () => (move(-1), true),
  "?": () => (document.getElementById("keys").showModal(), true),
  a: () => decide("a"),
  e: () => decide("e"),
  h: () => decide("h"),
  d: () => decide("d"),
};

function escape(event) {
  if (document.querySelector("dialog[open]")) return false;
  const open = event.target.closest?.("details[open]");
  if (open) {
    open.open = false;
    (open.closest(".card") ?? open.querySelector("summary")).focus();
    return true;
  }
  if (document.body.dataset.drawer) {
    delete document.body.dataset.drawer;
    return true;
  }
  if (typing(event.target) && event.target.id !== "prompt") {
    event.target.blur();
    return true;
  }
  return press('[data-key="escape"]');
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
    done = event.shiftKey && event.key === "A" ? press('[data-key="shift-a"]') : (plain[event.key]?.() ?? false);
  }
  if (done) event.preventDefault();
});

function send(form) {
  const button = form.querySelector("button:not([type=button])");
  if (button && !button.disabled) form.requestSubmit(button);
}

watch();
document.addEventListener("htmx:after:swap", watch);
