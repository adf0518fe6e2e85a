// How long a call has run, of how long it may: counted here, so that nothing need be sent.

const NEAR_S = 5; // the end is near: the time is in the colour of what waits

function words(seconds) {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

function tick() {
  for (const place of document.querySelectorAll("[data-ran]")) {
    const past = Math.max(0, Math.floor((Date.now() - Number(place.dataset.ran)) / 1000));
    const most = Number(place.dataset.limitS);
    const text = most ? `${words(past)}, limit ${place.dataset.limit}` : words(past);
    if (place.textContent !== text) place.textContent = text;
    if (most && most - past <= NEAR_S) place.dataset.near = "";
    else delete place.dataset.near;
  }
}

tick();
setInterval(tick, 500);
document.addEventListener("htmx:after:swap", tick);
