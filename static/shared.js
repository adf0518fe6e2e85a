// A session in a file: unpacks what rides along, plays it, shows the bytes of a row. It asks for
// nothing and sends nothing. A script without imports, for a file has no neighbours.

(async () => {
  const $ = (id) => document.getElementById(id);

  $("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  });

  // Of several sessions the address says which is shown; another one is shown by a new start.
  const number = Number(/^#session-(\d+)$/.exec(location.hash)?.[1] ?? 1) - 1;
  const which = $("which") && $(`data-${number}`) ? number : 0;
  const data = which ? $(`data-${which}`) : $("data");
  if (which) document.querySelector("#track svg").replaceWith($(`bar-${which}`).content);
  if ($("which")) {
    $("which").value = which;
    $("which").addEventListener("change", (event) => {
      location.hash = `session-${Number(event.target.value) + 1}`;
    });
    addEventListener("hashchange", () => location.reload());
    $("which").disabled = false;
  }

  const packed = Uint8Array.from(atob(data.textContent), (one) => one.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const told = JSON.parse(await new Response(unpacked).text());
  data.remove();

  // Blocks ------------------------------------------------------------------------------------

  // What is long is in the file once, as the page's own HTML, and named by its place.
  function whole(root) {
    for (const place of root.querySelectorAll("[data-long]")) {
      place.innerHTML = told.long[Number(place.dataset.long)];
      place.removeAttribute("data-long");
      if (place.matches("i")) place.replaceWith(...place.childNodes);
    }
    for (const image of root.querySelectorAll("img[data-image]")) {
      image.src = told.long[Number(image.dataset.image)];
      image.removeAttribute("data-image");
    }
    for (const row of root.querySelectorAll(".wirerow")) if (told.rows[row.id] || row.matches(".up")) row.tabIndex = 0;
  }

  // What a reader has opened stays open when its block is drawn anew.
  function put(target, fresh) {
    for (const open of target.querySelectorAll("details[open][id]")) {
      const same = [...fresh.querySelectorAll("details[id]")].find((one) => one.id === open.id);
      if (same) same.open = true;
    }
    target.replaceWith(fresh);
  }

  function applyHtml(html) {
    const box = document.createElement("template");
    box.innerHTML = html;
    for (const piece of box.content.querySelectorAll("hx-partial")) {
      const target = $(piece.getAttribute("hx-target").slice(1));
      const fresh = piece.firstElementChild;
      if (!target || !fresh) continue;
      whole(piece);
      const there = $(fresh.id);
      if (piece.getAttribute("hx-swap") !== "beforeend") put(target, fresh);
      else if (there) put(there, fresh);
      else target.append(fresh);
    }
  }

  function grow(entries) {
    for (const [id, from, to, text, deltas, , html] of entries) {
      const element = $(id);
      if (!element || Number(element.dataset.length) !== from) continue;
      if (html !== undefined) {
        while (element.lastChild && !element.lastChild.matches?.(".prose")) element.lastChild.remove();
        element.insertAdjacentHTML("beforeend", html);
      }
      element.append(text);
      element.normalize();
      element.dataset.length = to;
      const counter = id.startsWith("text-") && $(id.replace("text-", "deltas-"));
      if (counter) counter.textContent = deltas;
    }
  }

  // Replay ------------------------------------------------------------------------------------

  const { frames, duration, marks } = told;
  $("playhead").max = duration;
  let shown = frames.length - 1;
  let clock = duration;
  let playing = false;
  let last = 0;

  function frameAt(ms) {
    let low = 0;
    let high = frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (frames[middle][0] <= ms) low = middle + 1;
      else high = middle;
    }
    return Math.max(low - 1, 0);
  }

  function goTo(index) {
    if (index < shown) shown = -1; // the first frame empties the page
    while (shown < index) {
      const [, html, entries] = frames[++shown];
      if (html) applyHtml(html);
      if (entries.length) grow(entries);
    }
  }

  function show(ms) {
    const scroll = $("scroll");
    const pinned = playing || scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
    clock = Math.min(Math.max(ms, 0), duration);
    if (frames.length) goTo(frameAt(clock));
    if (pinned) scroll.scrollTop = scroll.scrollHeight;
    report();
  }

  function report() {
    $("playhead").value = clock;
    $("clock").textContent = `${(clock / 1000).toFixed(2)} of ${(duration / 1000).toFixed(2)} s`;
    $("playhead").setAttribute("aria-valuetext", `${(clock / 1000).toFixed(2)} s`);
    $("play").textContent = playing ? "❚❚" : "▶";
    $("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  }

  function tick(now) {
    if (!playing) return;
    const next = clock + (now - last) * Number($("speed").value);
    last = now;
    if (next >= duration) playing = false;
    show(next);
    if (playing) requestAnimationFrame(tick);
  }

  function toggle() {
    playing = !playing;
    if (playing) {
      if (clock >= duration) show(0);
      last = performance.now();
      requestAnimationFrame(tick);
    }
    report();
  }

  function step(by) {
    playing = false;
    const index = Math.min(Math.max(shown + by, 0), frames.length - 1);
    goTo(index);
    clock = frames[index]?.[0] ?? 0;
    report();
  }

  // What begins within a frame is there when the frame is.
  for (const mark of marks) mark[0] = frames.find(([at]) => at >= mark[0])?.[0] ?? duration;

  function jump([ms]) {
    playing = false;
    show(ms);
    $("scroll").scrollTop = $("scroll").scrollHeight;
  }

  $("play").addEventListener("click", toggle);
  $("back").addEventListener("click", () => step(-1));
  $("forth").addEventListener("click", () => step(1));
  $("playhead").addEventListener("input", (event) => {
    playing = false;
    show(Number(event.target.value));
  });
  $("jump").addEventListener("change", (event) => {
    const mark = marks[Number(event.target.value)];
    if (event.target.value && mark) jump(mark);
    event.target.value = "";
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const bar = event.target.id === "playhead";
    if (event.key === " " && !event.target.matches("button, summary")) toggle();
    else if (event.key === "ArrowLeft" && bar) step(-1);
    else if (event.key === "ArrowRight" && bar) step(1);
    else if (event.key === "]" || event.key === "[") {
      const calls = marks.filter(([, kind]) => kind === "call" || kind === "error");
      const ahead = event.key === "]" ? calls.find(([at]) => at > clock) : calls.findLast(([at]) => at < clock);
      if (ahead) jump(ahead);
    } else return;
    event.preventDefault();
  });

  // Bytes and copies --------------------------------------------------------------------------

  const SHOWN = 65_536;

  function open(row) {
    const raw = $("raw");
    const span = told.rows[row.id];
    let text = "";
    let title = "";
    if (span) {
      const [number, from, to] = span;
      const bytes = Uint8Array.from(told.bytes[number].slice(from, Math.min(to, from + SHOWN)), (one) => one.charCodeAt(0));
      text = new TextDecoder().decode(bytes);
      title = `Bytes ${from} to ${to} of answer ${number}`;
    } else {
      const number = row.id.split("-")[1];
      text = told.requests[number].slice(0, SHOWN);
      title = `Request ${number}`;
    }
    const head = Object.assign(document.createElement("h3"), { textContent: title });
    const body = Object.assign(document.createElement("div"), { className: "code", textContent: text });
    raw.replaceChildren(head, body);
    raw.scrollIntoView({ block: "nearest" });
  }

  async function act(event) {
    const row = event.target.closest(".wirerow[tabindex]");
    if (row && (event.type === "click" || event.key === "Enter")) open(row);
    const copy = event.type === "click" && event.target.closest("[data-copy]");
    if (copy) {
      const long = document.createElement("template");
      long.innerHTML = told.long[Number(copy.dataset.copied)] ?? "";
      await navigator.clipboard.writeText(copy.dataset.copy || long.content.textContent);
      copy.dataset.ui = "done";
      setTimeout(() => delete copy.dataset.ui, 900);
    }
  }

  document.addEventListener("click", act);
  document.addEventListener("keydown", act);

  function mark(event, on) {
    const row = event.target.closest?.(".wirerow");
    const block = event.target.closest?.(".part, .card, .turnhead");
    const others = row ? row.dataset.block.split(" ").map($) : block ? [...document.querySelectorAll(`.wirerow[data-block~="${block.id}"]`)] : [];
    for (const one of [row, ...others].filter(Boolean)) {
      if (on) one.dataset.ui = "marked";
      else delete one.dataset.ui;
    }
  }

  document.addEventListener("mouseover", (event) => mark(event, true));
  document.addEventListener("mouseout", (event) => mark(event, false));

  // Ready -------------------------------------------------------------------------------------

  for (const [id, html] of Object.entries(told.page)) $(id).outerHTML = html;
  $("unread").hidden = true;
  whole(document);
  for (const [index, [at, , words]] of marks.entries()) {
    const option = Object.assign(document.createElement("option"), { value: index });
    option.textContent = `${(at / 1000).toFixed(1)} s · ${words}`;
    $("jump").append(option);
  }
  for (const one of document.querySelectorAll("#bar :disabled")) one.disabled = false;
  report();
})().finally(() => document.documentElement.classList.remove("unpacking"));
