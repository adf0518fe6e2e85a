// What the page does by itself: buttons with data-do, drafts, scrolling, marks, times.

import { openPalette } from "./palette.js";
import { present, showPanel, togglePanel } from "./panels.js";
import { copied } from "./toasts.js";

const $ = (id) => document.getElementById(id);

// Buttons -------------------------------------------------------------------------------------

const actions = {
  theme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
  },
  keys() {
    $("keys").showModal();
  },
  palette() {
    openPalette();
  },
  async copy(button) {
    if (!(await copied(button.dataset.copy))) return;
    button.dataset.ui = "done";
    setTimeout(() => delete button.dataset.ui, 900);
  },
  dismiss(button) {
    button.closest(".toast").remove();
  },
  drawer(button) {
    togglePanel(button.dataset.drawer);
  },
  unfold(link) {
    const panel = $(link.hash.slice(1));
    panel.open = true;
    typeInto(panel);
    panel.scrollIntoView({ block: "nearest" });
  },
  example(button) {
    const field = $("prompt");
    field.value = button.textContent;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.focus();
  },
  present() {
    present();
  },
  rules() {
    actions.tab($("tab-setup"));
    showPanel("inspector");
    $("session-rules").scrollIntoView({ block: "start" });
  },
  wire() {
    actions.tab($("tab-wire"));
    document.body.dataset.drawer = "inspector";
  },
  latest() {
    opened = null;
    flow.pinned = true;
    flow.follow();
  },
  tab(link) {
    for (const tab of document.querySelectorAll("[role=tab]")) {
      const chosen = tab === link;
      tab.setAttribute("aria-selected", chosen);
      $(tab.getAttribute("aria-controls")).hidden = !chosen;
    }
    const url = new URL(location);
    url.searchParams.set("tab", new URL(link.href).searchParams.get("tab"));
    history.replaceState(null, "", url);
  },
  fix(button) {
    const form = $(button.dataset.form);
    form.open = true;
    const text = form.querySelector("textarea");
    text.value = button.dataset.text;
    text.dispatchEvent(new Event("input", { bubbles: true }));
    fit(text);
    text.focus();
  },
};

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-do]");
  const action = target && actions[target.dataset.do];
  if (action) {
    if (target.matches("a")) event.preventDefault();
    action(target);
  } else if (!event.target.closest(".side, .inspector, [data-do=drawer]")) {
    delete document.body.dataset.drawer;
  }
  const menu = document.querySelector("details.menu[open]");
  if (menu && !menu.contains(event.target)) menu.open = false;
});

// An opened form is ready to be typed into.
function typeInto(form) {
  const field = form.querySelector("textarea, select, input:not([type=hidden], [type=radio])");
  if (!field) return;
  fit(field);
  field.focus({ preventScroll: form.matches(".fork") });
}

document.addEventListener(
  "toggle",
  (event) => {
    if (event.target.matches("details:is(.act, .way)[open]")) typeInto(event.target);
    if (event.target.matches(FORMS)) inSight(event.target);
  },
  true,
);

// A text that was switched to raw is raw again, whenever its part is drawn: told apart by session.
const asIs = (panel) => `raw:${$("main")?.dataset.session}:${panel.id}`;

function plain() {
  for (const panel of document.querySelectorAll("details.plain:not([open])")) panel.open = localStorage.getItem(asIs(panel)) !== null;
}

document.addEventListener(
  "toggle",
  ({ target }) => {
    if (!target.matches?.("details.plain")) return;
    if (target.open) localStorage.setItem(asIs(target), "");
    else localStorage.removeItem(asIs(target));
  },
  true,
);
document.addEventListener("htmx:after:swap", plain);
plain();

// Composer: grows with its text, keeps its draft, says what the dock says ---------------------

function fit(field) {
  if (field.tagName !== "TEXTAREA" || CSS.supports("field-sizing", "content")) return;
  field.rows = Math.min(14, Math.max(Number(field.rows), field.value.split("\n").length));
}

function composed() {
  const field = $("prompt");
  const dock = $("dock");
  if (field && dock) field.placeholder = dock.dataset.placeholder;
}

const draftKey = (field) => `draft:${field.dataset.draft}`;

document.addEventListener("input", (event) => {
  const field = event.target;
  if (field.dataset?.draft === undefined) return;
  if (field.value) localStorage.setItem(draftKey(field), field.value);
  else localStorage.removeItem(draftKey(field));
  fit(field);
});

document.addEventListener("htmx:after:request", (event) => {
  const form = event.target;
  const ok = event.detail.ctx?.response?.raw?.ok;
  if (ok && form.id === "composer") {
    form.reset();
    localStorage.removeItem(draftKey($("prompt")));
    if (flow) flow.pinned = true;
  }
  if (ok && form.id === "rename") form.closest("details").open = false;
});

// A field of a form made from a schema is wrong where the sentence beside it says so.
document.addEventListener("htmx:after:swap", () => {
  for (const field of document.querySelectorAll(".given > [aria-describedby]")) {
    if ($(field.getAttribute("aria-describedby"))?.hidden === false) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
});

// A second click while the first is on its way does nothing.
document.addEventListener(
  "submit",
  (event) => {
    const form = event.target;
    if (form.dataset.ui === "sent") {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    form.dataset.ui = "sent";
    // Who lets it go on wants to see where it goes.
    if (form.getAttribute("action")?.endsWith("/continue")) actions.latest();
    setTimeout(() => delete form.dataset.ui, 400);
  },
  true,
);

// But what was answered may be clicked again.
document.addEventListener("htmx:after:request", (event) => {
  const form = event.target.closest?.("form");
  if (form) delete form.dataset.ui;
});

// Scrolling follows the end only while the reader is there ------------------------------------

const isAtEnd = (scroll) => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 40;

// Keeps the end of `scroll` in sight while its reader is there; `isHeld` says when it must not move,
// `told` hears that it may have moved.
function following(scroll, { isHeld = () => false, told = () => {} } = {}) {
  let tall = 0; // how tall it was when it was last followed
  let top = 0; // where it stood last
  let ours; // where we put it last
  const end = {
    pinned: true,
    // How much of it there was no room for.
    shift(by) {
      const before = scroll.scrollTop;
      scroll.scrollTop += by;
      top = ours = scroll.scrollTop;
      return by - (top - before);
    },
    follow() {
      if (end.pinned && !isHeld()) scroll.scrollTop = scroll.scrollHeight;
      tall = scroll.scrollHeight;
      top = scroll.scrollTop;
      told();
    },
  };
  scroll.addEventListener(
    "scroll",
    () => {
      if (!scroll.clientHeight) return; // out of sight: a tab that is not chosen
      if (scroll.scrollTop === ours) return;
      ours = undefined;
      // The event comes late: if it has grown since, it was we who scrolled, to where the end was. But
      // we never scroll up.
      if (isAtEnd(scroll)) end.pinned = true;
      else if (scroll.scrollHeight === tall || (scroll.scrollTop < top && scroll.scrollHeight > tall)) end.pinned = false;
      top = scroll.scrollTop;
      told();
    },
    { passive: true },
  );
  return end;
}

let pointer = null; // where it is, if it is over the page
let held = []; // [element, top] of what is under it and to be pressed, the inner one first
let heldAt = 0; // where the flow stood then
let opened = null; // what was opened in the flow last: as long as it is open, it stays in sight
const isHeld = () => held.length > 0 || Boolean(opened?.isConnected && opened.open);
const flow = $("scroll") && following($("scroll"), { isHeld, told: offered });
if (flow && location.hash) flow.pinned = false; // who is led to a place stays there

function offered() {
  if (held.length) return; // it would take of the room in which the pointer is
  $("latest").hidden = isAtEnd($("scroll")) || (flow.pinned && !isHeld());
}

// The click comes before what it opens has grown the flow.
document.addEventListener("click", (event) => {
  const panel = event.target.closest("#flow summary")?.parentElement;
  if (panel && !panel.open) opened = panel;
});

// What is to be pressed does not move: while the pointer is over a card that asks, or over a button
// of any card, it stays where it is, whatever changes above it, and the end is not followed.
const PRESSED = "button, summary, a, label, input, select, textarea";

function under() {
  const target = pointer && document.elementFromPoint(pointer.x, pointer.y);
  const card = target?.closest("#flow .card");
  const control = card && target.closest(PRESSED);
  return control ? [control, card] : card?.matches(".asks") ? [card] : [];
}

function take(kept = new Map()) {
  const before = held.length;
  held = under().map((element) => [element, kept.get(element) ?? element.getBoundingClientRect().top]);
  heldAt = $("scroll").scrollTop;
  $("scroll").style.overflowAnchor = held.length ? "none" : "";
  if (before && !held.length) {
    settle();
    flow.follow();
  }
}

// Where the flow cannot be scrolled so far, all of it is moved instead, until nothing is held or
// somebody scrolls.
let lifted = 0;

function lift(by) {
  lifted += by;
  $("scroll").firstElementChild.style.translate = lifted ? `0 ${-lifted}px` : "";
}

// Room below the flow, so that it can be scrolled on by `missing`: all of it stays within reach.
function makeRoom(missing) {
  const scroll = $("scroll");
  const column = scroll.firstElementChild;
  const end = column.getBoundingClientRect().bottom - scroll.getBoundingClientRect().top + scroll.scrollTop;
  column.style.marginBottom = `${Math.ceil(scroll.scrollTop + missing + scroll.clientHeight - end)}px`;
  flow.shift(missing);
}

function settle() {
  lift(-lifted);
  $("scroll").firstElementChild.style.marginBottom = "";
}

// By somebody else; not by the browser, because the flow has become shorter.
function isScrolled() {
  const scroll = $("scroll");
  const by = scroll.scrollTop - heldAt;
  return Math.abs(by) >= 1 && !(held.length && by < 0 && scroll.scrollTop >= scroll.scrollHeight - scroll.clientHeight - 1);
}

function hold() {
  const [element, top] = held.find(([one]) => one.isConnected && one.getClientRects().length) ?? [];
  if (isScrolled()) settle();
  if (!element || isScrolled()) return take();
  const moved = element.getBoundingClientRect().top - top;
  if (Math.abs(moved) >= 1) {
    let missing = flow.shift(moved);
    if (missing >= 1 && lifted < 0) { // it was moved down before
      const back = Math.min(missing, -lifted);
      lift(back);
      missing -= back;
    }
    if (missing >= 1) makeRoom(missing);
    else if (missing <= -1) lift(missing);
  }
  take(new Map([[element, top]]));
}

function point(event) {
  const { x, y } = pointer ?? {};
  // A browser tells of a move also where the page moved, under a pointer that lies still.
  if (event?.type === "pointermove" && event.clientX === x && event.clientY === y) return;
  pointer = event && { x: event.clientX, y: event.clientY };
  if (flow) take();
}

// Who goes on by keys presses nothing with a mouse that only lies there; it counts again once it moves.
document.addEventListener("keydown", (event) => pointer && !["Alt", "Control", "Meta", "Shift"].includes(event.key) && point(null));
for (const name of ["pointermove", "pointerdown"]) document.addEventListener(name, point, { passive: true });
document.documentElement.addEventListener("pointerleave", () => point(null));
// A finger is nowhere once it is lifted, after the click.
const liftFinger = (event) => event.pointerType !== "mouse" && setTimeout(point, 0, null);
for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, liftFinger);
$("scroll")?.addEventListener("scroll", () => isScrolled() && (settle(), take()), { passive: true });
document.addEventListener("htmx:after:swap", () => held.length && hold());

// A form that is open keeps its last button in sight: when its content comes, and when what stands
// below ("Jump to latest", a phone's keyboard) takes of the room. One that is taller begins on top.
const FORMS = "details:is(.act, .fork, .also)[open]";
const inSight = (panel) => panel?.scrollIntoView({ block: "nearest" });

document.addEventListener("htmx:after:swap", (event) => {
  const panel = event.target.closest?.(FORMS);
  if (panel?.matches(".fork") && panel.contains(document.activeElement)) typeInto(panel);
  inSight(panel);
});

function watchScroll() {
  const scroll = $("scroll");
  if (!scroll) return;
  const observer = new ResizeObserver((entries) => {
    flow.follow();
    hold();
    if (entries.some((entry) => entry.target === scroll)) inSight(document.activeElement?.closest(FORMS));
  });
  observer.observe(scroll.firstElementChild);
  observer.observe(scroll);
}

// The rows of the wire, by the same rule.
function watchWire() {
  const panel = $("panel-wire");
  const rows = $("wire");
  if (!panel || !rows) return;
  const wire = following(panel, { told: () => (panel.dataset.ui = wire.pinned ? "" : "read") });
  const observer = new ResizeObserver(wire.follow);
  observer.observe(rows);
  observer.observe(panel);
  // Who opens an older request reads that.
  new MutationObserver((changes) => {
    const opens = ({ target }) => target.open && !rows.lastElementChild?.contains(target);
    wire.pinned = !changes.some(opens) && (wire.pinned || isAtEnd(panel));
  }).observe(rows, { subtree: true, attributeFilter: ["open"] });
}

// Marks: a row of the wire shows what it produced, and the other way round --------------------

function mark(element, on) {
  const row = element.closest(".wirerow, rect[data-block]");
  const block = element.closest(".part, .card, .turnhead");
  if (row) {
    for (const id of row.dataset.block.split(" ")) if (id) toggle($(id), on);
    if (on) toggle(row, true);
  }
  if (block) {
    for (const other of document.querySelectorAll(`.wirerow[data-block~="${block.id}"]`)) toggle(other, on);
  }
  if (!on && row) toggle(row, false);
}

function toggle(element, on) {
  if (!element) return;
  if (on) element.dataset.ui = "marked";
  else delete element.dataset.ui;
}

document.addEventListener("mouseover", (event) => mark(event.target, true));
document.addEventListener("mouseout", (event) => mark(event.target, false));

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches(".wirerow[tabindex]")) event.target.click();
});

// Times and title -----------------------------------------------------------------------------

function ago(ms) {
  const seconds = Math.floor((Date.now() - ms) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86400);
  return days < 14 ? `${days} day${days > 1 ? "s" : ""} ago` : new Date(ms).toLocaleDateString();
}

function tick() {
  for (const time of document.querySelectorAll("time[data-ms]")) {
    const ms = Number(time.dataset.ms);
    time.textContent = ago(ms);
    time.title = new Date(ms).toLocaleString();
  }
}

// At what o'clock something was, in the reader's own zone.
function clocked() {
  for (const time of document.querySelectorAll("time[data-clock]")) {
    const at = new Date(Number(time.dataset.clock));
    time.textContent = at.toLocaleTimeString();
    time.title = at.toLocaleString();
  }
}

// How long a running call has run, counted here so that nothing need be sent.
function count() {
  for (const place of document.querySelectorAll("[data-since]")) {
    const seconds = (Date.now() - Number(place.dataset.since)) / 1000;
    if (seconds >= 1) place.textContent = ` · ${Math.floor(seconds)} s`;
  }
}

function titled() {
  const head = $("head");
  if (!head?.dataset.title) return;
  const waiting = Number(head.dataset.waiting);
  document.title = `${waiting ? `(${waiting}) ` : ""}${head.dataset.title} · playground`;
}

for (const field of document.querySelectorAll("[data-draft]")) {
  field.value ||= localStorage.getItem(draftKey(field)) ?? "";
  fit(field);
}
watchScroll();
watchWire();
composed();
titled();
tick();
clocked();
setInterval(tick, 30_000);
setInterval(count, 500);
document.addEventListener("htmx:after:swap", () => {
  composed();
  titled();
  clocked();
});

// A filter over what stands in the page already (the tools' list), by a row's text or its words. A
// group without a row goes, too, and Enter opens the first that is left. A row with data-aside is left
// out by something else.

const matching = (field) => [...document.querySelectorAll(field.dataset.filter)].filter((row) => !row.hidden);

function filtered(field) {
  const wanted = field.value.trim().toLowerCase();
  for (const row of document.querySelectorAll(field.dataset.filter)) {
    row.hidden = "aside" in row.dataset || !(row.dataset.words ?? row.textContent).toLowerCase().includes(wanted);
  }
  for (const group of document.querySelectorAll("[data-group]")) group.hidden = !group.querySelector("[data-words]:not([hidden])");
  for (const none of document.querySelectorAll(`[data-none="${field.id}"]`)) none.hidden = matching(field).length > 0;
}

document.addEventListener("input", (event) => {
  if (event.target.dataset?.filter) filtered(event.target);
});

document.addEventListener(
  "keydown",
  (event) => {
    if (event.key !== "Enter" || event.isComposing || !event.target.dataset?.filter) return;
    event.preventDefault(); // it sends no form that it stands in
    const first = matching(event.target)[0];
    if (first?.matches("a")) first.click();
    else first?.querySelector("input, a, button")?.focus();
  },
  true,
);

// What is looked for is no change of the form around it.
document.addEventListener("change", (event) => event.target.dataset?.filter && event.stopPropagation(), true);

document.addEventListener("htmx:after:swap", () => {
  for (const field of document.querySelectorAll("[data-filter]")) if (field.value) filtered(field);
});

// The row of what is open is in sight, however long the list; the hints below it (hints.js) are there by now.
for (const row of document.querySelectorAll(".list [aria-current]")) {
  const list = row.closest(".list");
  const below = row.getBoundingClientRect().bottom - list.getBoundingClientRect().bottom;
  if (below > 0) list.scrollTop += below + list.clientHeight / 2;
}
