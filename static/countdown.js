// Times that run while nothing comes: the wait before a retry, the wait for an answer, its
// silence, and the wait of an agent for a call. One timer for the page; the server is asked nothing.

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

// Of what is waited for at most, where that is known.
const of = (bound) => (bound ? ` of ${bound} s` : "");

function sinceRequest(place) {
  const past = seconds(Date.now() - Number(place.dataset.elapsed));
  if (past >= 1) say(place, `${past} s${of(place.dataset.bound)}`);
}

// When the last byte of an answer came: a text has grown, or the stream says so, for pings leave
// nothing on the page, and when this was drawn the answer may have been silent for a while already.
let grown = "";
let arrivedAt = Date.now();
let begun = ""; // the turn whose answer's first byte came

document.addEventListener("heard", (event) => {
  const [turn, ago] = event.detail.data.split(" ");
  begun = turn;
  arrivedAt = Date.now() - Number(ago);
});

function silence(place) {
  const number = place.dataset.silence;
  const texts = document.querySelectorAll(`#turn-${number} [data-length]`);
  const now = [number, ...Array.from(texts, (text) => text.dataset.length)].join(" ");
  if (now !== grown) {
    grown = now;
    arrivedAt = Date.now();
  }
  const past = seconds(Date.now() - arrivedAt);
  place.hidden = past <= QUIET_S;
  if (place.hidden) return;
  // Until the first byte of its body, a head alone has not begun the answer.
  if (place.dataset.first !== undefined && begun !== number) {
    const waited = seconds(Date.now() - Number(place.dataset.sent));
    say(place, `no answer bytes for ${waited} s${of(place.dataset.first)}`);
  } else say(place, `silent for ${past} s${of(place.dataset.bound)}`);
}

// When the agent that a call is held for asks no longer.
function untilGivenUp(place) {
  const left = Math.ceil((Number(place.dataset.givesUp) - Date.now()) / 1000);
  const clock = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
  say(place, `${place.dataset.who} ${left > 0 ? `times out in ${clock}` : "may have timed out"}`);
}

function tick() {
  for (const time of document.querySelectorAll("time[data-until]")) untilRetry(time);
  for (const place of document.querySelectorAll("[data-elapsed]")) sinceRequest(place);
  for (const place of document.querySelectorAll("[data-silence]")) silence(place);
  for (const place of document.querySelectorAll("[data-gives-up]")) untilGivenUp(place);
}

tick();
setInterval(tick, 250);
document.addEventListener("htmx:after:swap", tick);
