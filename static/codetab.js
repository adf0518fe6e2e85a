// The Code tab: what is chosen is fetched, and while "the newest request" is, it follows the flow.

import { applyFrame } from "./stream.js";

const $ = (id) => document.getElementById(id);
const session = $("main")?.dataset.session;
const open = () => $("panel-code") && !$("panel-code").hidden;

let asking;
let timer;

function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(refresh, ms);
}

async function refresh() {
  if (!session || !open()) return;
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const form = $("codes");
  const chosen = form ? new URLSearchParams(new FormData(form)) : new URLSearchParams();
  try {
    const answer = await fetch(`/sessions/${session}/code?${chosen}`, { headers: { "HX-Request": "true" }, signal });
    const html = await answer.text();
    if (!signal.aborted && answer.ok) await applyFrame({ html });
  } catch (error) {
    if (error.name !== "AbortError" && !(error instanceof TypeError)) throw error;
  }
}

// A request is another one where a turn came or ended, and the next one when anything moved.
const standing = () => [$("head")?.dataset.state, $("head")?.dataset.waiting, $("flow")?.childElementCount].join("|");
let stood = standing();

document.addEventListener("htmx:after:swap", () => {
  if (standing() === stood) return;
  stood = standing();
  later(300);
});

document.addEventListener("htmx:after:request", (event) => {
  if (event.target.id === "setup") later(0);
});

document.addEventListener("change", (event) => {
  if (event.target.closest("#codes") && event.target.name !== "form") later(0);
});

document.addEventListener("click", (event) => {
  if (event.target.closest("#tab-code")) later(0);
});
