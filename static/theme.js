// Runs before the first paint, so that neither a remembered theme or panel nor the platform's keys flash.
{
  const root = document.documentElement;
  const theme = localStorage.getItem("theme");
  if (theme) root.dataset.theme = theme;
  for (const panel of ["side", "inspector"]) {
    const width = Number(localStorage.getItem(`${panel}-width`));
    if (width > 0 && width < 2000) root.style.setProperty(`--${panel}-width`, `${width}px`);
  }
  root.dataset.folded = localStorage.getItem("folded") ?? "";
  if (sessionStorage.getItem("presenting")) root.dataset.presenting = "";
  root.classList.add("js");
  if (/Mac|iP/.test(navigator.platform)) root.classList.add("mac");
  // What a scrollbar takes of the width: none where it lies over the content.
  const probe = document.createElement("div");
  Object.assign(probe.style, { position: "fixed", width: "99px", overflow: "hidden", scrollbarGutter: "stable" });
  root.append(probe);
  root.style.setProperty("--gutter", `${probe.offsetWidth - probe.clientWidth}px`);
  probe.remove();
}
