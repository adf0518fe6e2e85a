// One session in a frame: its steps come from the page around it, and what leads elsewhere leads out.

import { feed } from "./stream.js";

const main = document.getElementById("main");
const around = window.parent;

if (around === window) {
  location.replace(`/sessions/${main.dataset.session}`); // nobody would feed it
} else {
  window.addEventListener("message", (event) => {
    if (event.origin === location.origin && event.source === around) feed(event.data);
  });
  // Told before the next page is asked for: what comes from now on is for that one.
  window.addEventListener("beforeunload", () => around.postMessage({ leaving: true }, location.origin));
  around.postMessage({ at: main.dataset.at }, location.origin);
}

document.addEventListener(
  "click",
  (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link) return;
    if (link.dataset.do === "exit-replay") {
      event.preventDefault();
      event.stopImmediatePropagation();
      location.reload();
    } else if (link.getAttribute("href").startsWith("#")) {
      link.target = "_self";
    } else if (link.dataset.do) {
      event.stopImmediatePropagation(); // what it would open in this page stands on the session's own
    }
  },
  true,
);

// Where an answer leads elsewhere (to a fork), the whole window goes there.
document.addEventListener("htmx:after:request", (event) => {
  const hx = event.detail.ctx?.hx;
  if (!hx?.redirect) return;
  window.top.location.href = hx.redirect;
  hx.redirect = "";
});

// One digit goes from column to column, wherever the focus is.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
  if (/^[1-4]$/.test(event.key) && !typing && !event.metaKey && !event.ctrlKey && !event.altKey) around.postMessage({ go: Number(event.key) }, location.origin);
});

window.addEventListener("storage", (event) => {
  if (event.key !== "theme") return;
  if (event.newValue) document.documentElement.dataset.theme = event.newValue;
  else delete document.documentElement.dataset.theme;
});
