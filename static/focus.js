// Where the focus goes when what had it is gone after a swap: back to it where it only moved, else
// to the nearest card, row or heading that is left. Never while somebody is anywhere else.

const ROWS = ".card, .rule, .task, .row[id]";
const PLACES = `${ROWS}, #pause, fieldset, [role=radiogroup], details, section, form, aside, main`;
const HEADINGS = "h1, h2, h3, summary";

// The last that had the focus, and the places around it with their neighbours, the nearest first:
// once it is gone it knows of none.
let last = null;
let around = [];

document.addEventListener("focusin", (event) => {
  if (last && event.target.closest(".toast")) return;
  last = event.target;
  around = [];
  for (let place = last; place; place = place.parentElement) {
    if (place.matches(PLACES)) around.push([place, place.nextElementSibling, place.previousElementSibling]);
  }
});

// Who clicks beside everything, or leaves by Esc, has left it.
function left(event) {
  if (document.activeElement === document.body && (event.type === "click" || event.key === "Escape")) last = null;
}

document.addEventListener("click", left, true);
document.addEventListener("keydown", left);

const there = (element) => element?.isConnected && element.checkVisibility() && !element.disabled;
const now = (element) => (element?.isConnected || !element?.id ? element : document.getElementById(element.id));

function landing(place) {
  if (!there(place)) return null;
  if (place.matches(ROWS)) return place;
  if (place.matches("#pause")) return place.firstElementChild && place;
  if (place.matches("fieldset, [role=radiogroup]")) return place.querySelector(":checked");
  return [...place.querySelectorAll(HEADINGS)].find(there);
}

function nearest() {
  if (there(last)) return last;
  const again = now(last);
  if (there(again)) return again;
  for (const [place, next, before] of around) {
    const found = landing(now(place)) ?? [next, before].map(now).find((one) => one?.matches(ROWS) && there(one));
    if (found) return found;
  }
  return [...document.querySelectorAll("main h1")].find(there);
}

function focus(place) {
  if (place.tabIndex < 0) place.tabIndex = -1;
  place.focus({ preventScroll: true });
}

function held() {
  const active = document.activeElement;
  // Drawn anew, a heading has no tabindex any more.
  if (active === last && active?.tabIndex < 0 && !active.hasAttribute("tabindex")) active.tabIndex = -1;
  if (!last || document.querySelector("dialog[open]") || !(active === document.body || (active === last && !there(active)))) return;
  const place = nearest();
  if (place) focus(place);
}

document.addEventListener("htmx:after:swap", held);
// A toast goes with what was pressed in it, after the swap.
document.addEventListener("htmx:finally:request", () => setTimeout(held));

// A page that comes after a plain form names what it is about.
const named = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
const place = named && document.activeElement === document.body && landing(named);
if (place) focus(place);
