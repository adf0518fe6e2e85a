// Times that run while nothing comes: the wait before a retry, the wait for an answer, and its
// silence. One timer for the page; the server is asked nothing.

const QUIET_S = 5; // a pause that long is nothing to speak of

const seconds = (ms) => Math.floor(ms / 1000);

// The text stays untouched where it would stay the same: nothing is laid out anew.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function untilRetry(time) {
  const left = Math.ceil((Number(time.dataset.until) - Date.now()) / 1000);
  say(time, left > 0 ? `${left} s` : "a moment");
}

function sinceRequest(place) {
  const past = seconds(Date.now() - Number(place.dataset.elapsed));
  if (past >= 1) say(place, `${past} s of ${place.dataset.bound} s`);
}

// What has arrived of a turn, seen by what it left on the page: rows of the wire (the last one
// counts what is alike, pings too) and the lengths of texts.
let arrived = "";
let arrivedAt = Date.now();
let begun = ""; // the turn whose answer's first byte was seen to come

// When the page was drawn the answer may have been silent for a while already.
function heardBefore(number) {
  const { heard, heardTurn } = document.getElementById("main").dataset;
  return heardTurn === number ? Number(heard) : 0;
}

function silence(place) {
  const number = place.dataset.silence;
  const wire = document.getElementById(`wirerows-${number}`);
  const texts = document.querySelectorAll(`#turn-${number} [data-length]`);
  const rows = [wire?.childElementCount, wire?.lastElementChild?.textContent];
  const now = [number, ...rows, ...Array.from(texts, (text) => text.dataset.length)].join(" ");
  if (now !== arrived) {
    const heard = arrived ? 0 : heardBefore(number);
    if (heard || arrived.startsWith(`${number} `)) begun = number;
    arrived = now;
    arrivedAt = heard || Date.now();
  }
  const past = seconds(Date.now() - arrivedAt);
  place.hidden = past <= QUIET_S;
  if (place.hidden) return;
  // Until the first byte of its body, a head alone has not begun the answer.
  if (place.dataset.first && begun !== number) {
    const waited = seconds(Date.now() - Number(place.dataset.sent));
    say(place, `no byte of the answer for ${waited} s of ${place.dataset.first} s`);
  } else say(place, `silent for ${past} s of ${place.dataset.bound} s`);
}

function tick() {
  for (const time of document.querySelectorAll("time[data-until]")) untilRetry(time);
  for (const place of document.querySelectorAll("[data-elapsed]")) sinceRequest(place);
  for (const place of document.querySelectorAll("[data-silence]")) silence(place);
}

tick();
setInterval(tick, 250);
document.addEventListener("htmx:after:swap", tick);
