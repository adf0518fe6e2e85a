// Sessions side by side: one stream, and each step handed to the frame of its session. What comes
// before a frame has loaded waits for it; what its page shows already is let go.

const lanes = new Map(); // session -> {frame, ready, waiting}

for (const lane of document.querySelectorAll(".lane")) {
  lanes.set(lane.dataset.session, { frame: lane.querySelector("iframe"), ready: false, waiting: [] });
}

const hand = (lane, step) => lane.frame.contentWindow.postMessage(step, location.origin);

document.addEventListener("column", (event) => {
  const step = JSON.parse(event.detail.data);
  const lane = lanes.get(step.session);
  if (!lane) return;
  if (lane.ready) hand(lane, step);
  else lane.waiting.push(step);
});

document.addEventListener("gone", (event) => {
  const { session } = JSON.parse(event.detail.data);
  const note = document.createElement("p");
  note.className = "note waiting";
  note.textContent = "This session no longer exists. Remove it from the comparison.";
  lanes.get(session)?.frame.replaceWith(note);
  lanes.delete(session);
});

window.addEventListener("message", (event) => {
  if (event.origin !== location.origin) return;
  const lane = [...lanes.values()].find((one) => one.frame.contentWindow === event.source);
  if (!lane) return;
  const { at, leaving, go } = event.data;
  if (leaving) lane.ready = false;
  if (go) focusOn(go);
  if (at === undefined) return;
  lane.ready = true;
  for (const step of lane.waiting.splice(0)) if (!shows(at, step)) hand(lane, step);
});

// Whether what is drawn at a cursor has the step already. Two epochs say nothing of each other.
function shows(cursor, step) {
  const [epoch, position] = cursor.split("-");
  return epoch === step.epoch && step.at < Number(position);
}

// Its keys act on what has the focus: a digit gives it to one of them.
function focusOn(number) {
  const lane = document.querySelectorAll(".lane")[number - 1];
  const pick = document.getElementById(`on-${number}`);
  if (!lane) return;
  if (pick) pick.checked = true;
  lane.querySelector("iframe")?.contentWindow.focus();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=radio]), textarea, select, dialog");
  if (!/^[1-4]$/.test(event.key) || typing || event.metaKey || event.ctrlKey || event.altKey) return;
  event.preventDefault();
  focusOn(Number(event.key));
});

function titled() {
  const waiting = Number(document.getElementById("besidehead").dataset.waiting);
  document.title = `${waiting ? `(${waiting}) ` : ""}Side by side · playground`;
}

titled();
document.addEventListener("htmx:after:swap", titled);
