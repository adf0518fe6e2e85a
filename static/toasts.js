// Toasts: the same words stand there once, and all go by themselves; a failure sooner where what was
// asked next succeeds, or where the same is asked again; one with an Undo once that was pressed.

const $ = (id) => document.getElementById(id);
const element = (name, properties) => Object.assign(document.createElement(name), properties);

export function say(sentence, { tone = "failed", undo = "" } = {}) {
  const toast = element("div", { className: `toast ${tone}`, role: tone === "failed" ? "alert" : "status" });
  toast.append(element("p", { textContent: sentence }));
  if (undo) {
    const form = element("form", { method: "post", action: undo });
    form.append(element("button", { className: "link", textContent: "Undo" }));
    toast.append(form);
  }
  const close = element("button", { type: "button", className: "icon", textContent: "✕", ariaLabel: "Dismiss" });
  close.dataset.do = "dismiss";
  toast.append(close);
  $("toasts").append(toast);
}

// Whether it was copied; a browser may refuse, and has no clipboard where an address is not secure.
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    say("The browser blocked the copy. Select and copy the text, or allow clipboard access for this page.");
    return false;
  }
}

// Which request a failure answers, by its path.
const answers = new WeakMap();
let answered = "";

const toasts = () => [...$("toasts").querySelectorAll(".toast")];

new MutationObserver((records) => {
  for (const record of records) for (const node of record.addedNodes) if (node.classList?.contains("toast")) arrived(node);
}).observe($("toasts"), { childList: true });

function arrived(toast) {
  if (!toast.isConnected) return;
  const words = (one) => one.querySelector("p")?.textContent;
  for (const other of toasts()) if (other !== toast && words(other) === words(toast)) other.remove();
  answers.set(toast, answered);
  setTimeout(() => leave(toast), toast.classList.contains("failed") ? 15_000 : 8000);
}

function leave(toast) {
  if (toast.matches(":hover, :focus-within")) setTimeout(() => leave(toast), 1000);
  else toast.remove();
}

// Before its own toasts come; and they come also where a frame was quicker and took its form away.
document.addEventListener("htmx:before:response", (event) => {
  const { ctx } = event.detail;
  const { request, response } = ctx;
  if (request.method !== "POST") return;
  if (ctx.swap === "none") ctx.target = $("toasts");
  answered = request.action;
  for (const toast of toasts()) if (toast.matches(".failed") && (response.raw.ok || answers.get(toast) === answered)) toast.remove();
});

document.addEventListener("htmx:finally:request", (event) => {
  const { sourceElement, response } = event.detail.ctx ?? {};
  if (response) sourceElement?.closest?.(".toast")?.remove();
});

// A refusal that brings no toast of its own, and no answer at all.
document.addEventListener("htmx:after:request", (event) => {
  const { response, text } = event.detail.ctx ?? {};
  if (!response || response.raw.ok || text?.includes("<hx-partial")) return;
  const page = new DOMParser().parseFromString(text ?? "", "text/html");
  say(page.querySelector("[role=alert], p")?.textContent || `Refused (${response.status}).`);
});

document.addEventListener("htmx:error", (event) => {
  if (event.target.id !== "stream") say("The server did not answer. Is it still running?");
});

// What was deleted can be had back from the page that comes next, and from it only once: a reload
// of its address says nothing of it any more.

document.addEventListener("submit", (event) => {
  // Not its property: a field of that name would hide it.
  const path = new URL(event.target.getAttribute("action") ?? "", location.href).pathname;
  if (/^\/sessions\/[^/]+\/delete$/.test(path)) sessionStorage.setItem("deleted", path);
});

const deleted = sessionStorage.getItem("deleted");
sessionStorage.removeItem("deleted");
if (deleted) say("The session was deleted.", { tone: "", undo: deleted.replace(/delete$/, "restore") });
for (const toast of toasts()) arrived(toast);

const here = new URL(location.href);
if (here.searchParams.has("deleted") || here.searchParams.has("moved")) {
  for (const told of ["deleted", "moved"]) here.searchParams.delete(told);
  history.replaceState(history.state, "", here);
}
