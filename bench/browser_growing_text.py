"""What one long answer costs a tab while it grows: `python bench/browser_growing_text.py`.

A real page, whose own script grows a text by a piece each frame of the stream (16 ms) up to 86,000
characters, once in lines and once without any line end. Prints which share of a processor the tab's
main thread takes, by tenths of the text. Exit 1 where the last third takes more than 1.25 times the
first.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import Browser, CDPSession, sync_playwright

from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.serving import Server, serving
from tests.browser.tab import APP_MODULES

SIZE, PIECE, FRAME_MS, PARTS = 86_000, 40, 16, 10
MOST = 1.25

BEGIN = """() => {
  document.getElementById("flow").insertAdjacentHTML("beforeend",
    `<section class="turn"><div id="part-9-0" class="part text live">
       <div id="text-9-0" class="raw caret" data-length="0"></div></div></section>`);
}"""

GROW = f"""async ([count, piece, frame, line]) => {{
  const {{ stream_js: {{ grow }} }} = await {APP_MODULES};
  const text = document.getElementById("text-9-0");
  for (let number = 1; number <= count; number++) {{
    await new Promise((go) => setTimeout(go, frame));
    const from = Number(text.dataset.length);
    const end = line && number % line === 0 ? "\\n" : " ";
    const words = "word ".repeat(piece).slice(0, piece - 1) + end;
    grow([["text-9-0", from, from + piece, words, number, "part-9-0"]]);
  }}
}}"""


def busy_s(devtools: CDPSession) -> float:
    """Seconds of a processor that the tab's main thread has taken."""
    told = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
    return float(told["TaskDuration"])


def shares(browser: Browser, server: Server, line: int) -> list[float]:
    """The seconds that each tenth of the text takes, as a share of those in which it comes; `line`
    is how many pieces a line has, 0 for none."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.request.get(server.link)
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(f"{server.base}/sessions/{server.session()}")
    page.evaluate(BEGIN)
    found: list[float] = []
    for _ in range(PARTS):
        before, count = busy_s(devtools), SIZE // PIECE // PARTS
        page.evaluate(GROW, [count, PIECE, FRAME_MS, line])
        found.append((busy_s(devtools) - before) / (count * FRAME_MS / 1000))
    context.close()
    return found


def main() -> int:
    """Measure both texts; 1 where one is not flat, 2 without a browser."""
    path = chromium()
    if not path:
        print("No browser: install chromium, or name one in PLAYGROUND_CHROMIUM.", file=sys.stderr)
        return 2
    flat = True
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        serving(Path(folder) / "playground.db", 1.0) as server,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        for name, line in (("lines", 10), ("no line end", 0)):
            found = shares(browser, server, line)
            print(f"{name}: " + " ".join(f"{100 * share:.0f} %" for share in found), flush=True)
            third = PARTS // 3
            flat &= sum(found[-third:]) <= MOST * sum(found[:third])
        browser.close()
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
