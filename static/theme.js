// Runs before the first paint, so that neither a remembered theme nor the platform's keys flash.
{
  const kept = localStorage.getItem("theme");
  if (kept) document.documentElement.dataset.theme = kept;
  document.documentElement.classList.add("js");
  if (/Mac|iP/.test(navigator.platform)) document.documentElement.classList.add("mac");
}
