// The panels beside the content: folded, dragged to a width, or drawers where the window is narrow. And
// the presentation, which shows a conversation alone, and larger. theme.js applies what was chosen before
// the first paint.

const root = document.documentElement;

// Widths in px; `side` says at which side of its window a panel is.
const PANELS = {
  side: { drawer: "(max-width: 640px)", least: 170, most: 420, side: "left", label: "Width of the list" },
  inspector: { drawer: "(max-width: 900px)", least: 260, most: 760, side: "right", label: "Width of the inspector" },
};
const STEP = 16;

const isDrawer = (name) => matchMedia(PANELS[name].drawer).matches;
const foldedPanels = () => new Set((root.dataset.folded ?? "").split(" ").filter(Boolean));
const isShown = (name) => (isDrawer(name) ? document.body.dataset.drawer === name : !foldedPanels().has(name));

export function showPanel(name, on = true) {
  if (isDrawer(name)) {
    if (on) document.body.dataset.drawer = name;
    else delete document.body.dataset.drawer;
  } else {
    const folded = foldedPanels();
    if (on) folded.delete(name);
    else folded.add(name);
    root.dataset.folded = [...folded].join(" ");
    localStorage.setItem("folded", root.dataset.folded);
  }
  describe();
}

// Whether there was such a panel.
export function togglePanel(name) {
  if (!document.querySelector(`.${name}`)) return false;
  showPanel(name, !isShown(name));
  return true;
}

export const isPresenting = () => "presenting" in root.dataset && Boolean(document.getElementById("scroll"));

// Whether there was anything to present.
export function present(on = !isPresenting()) {
  if (!document.getElementById("scroll")) return false;
  if (on) {
    root.dataset.presenting = "";
    sessionStorage.setItem("presenting", "1");
  } else {
    delete root.dataset.presenting;
    sessionStorage.removeItem("presenting");
  }
  return true;
}

// The buttons that open and fold, for those who hear the page.
function describe() {
  for (const button of document.querySelectorAll("[data-do=drawer]")) button.setAttribute("aria-expanded", isShown(button.dataset.drawer));
}

// Dragging ------------------------------------------------------------------------------------

function resize(name, grip, width) {
  const { least, most } = PANELS[name];
  const rounded = Math.round(Math.min(Math.max(width, least), most));
  root.style.setProperty(`--${name}-width`, `${rounded}px`);
  localStorage.setItem(`${name}-width`, rounded);
  grip.setAttribute("aria-valuenow", rounded);
}

function addGrip(name) {
  const panel = document.querySelector(`.${name}`);
  if (!panel) return;
  const { least, most, side, label } = PANELS[name];
  const grip = document.createElement("div");
  grip.className = "grip";
  grip.tabIndex = 0;
  const says = { role: "separator", "aria-orientation": "vertical", "aria-label": label, "aria-valuemin": least, "aria-valuemax": most };
  for (const [attribute, value] of Object.entries(says)) grip.setAttribute(attribute, value);
  grip.setAttribute("aria-valuenow", Math.round(panel.offsetWidth) || least);
  grip.title = "Drag to resize, double-click to reset";

  const widthAt = (x) => (side === "left" ? x - panel.getBoundingClientRect().left : panel.getBoundingClientRect().right - x);
  grip.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    grip.setPointerCapture(event.pointerId);
    root.dataset.resizing = "";
  });
  grip.addEventListener("pointermove", (event) => {
    if (grip.hasPointerCapture(event.pointerId)) resize(name, grip, widthAt(event.clientX));
  });
  const end = () => delete root.dataset.resizing;
  grip.addEventListener("lostpointercapture", end);
  grip.addEventListener("dblclick", () => {
    root.style.removeProperty(`--${name}-width`);
    localStorage.removeItem(`${name}-width`);
    grip.setAttribute("aria-valuenow", Math.round(panel.offsetWidth));
  });
  grip.addEventListener("keydown", (event) => {
    const wider = side === "left" ? "ArrowRight" : "ArrowLeft";
    const narrower = side === "left" ? "ArrowLeft" : "ArrowRight";
    if (event.key !== wider && event.key !== narrower) return;
    event.preventDefault();
    resize(name, grip, panel.offsetWidth + (event.key === wider ? STEP : -STEP));
  });
  panel.append(grip);
}

for (const name of Object.keys(PANELS)) addGrip(name);
describe();
for (const { drawer } of Object.values(PANELS)) matchMedia(drawer).addEventListener("change", describe);
