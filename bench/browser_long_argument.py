"""What one long argument costs a browser: `python bench/browser_long_argument.py`.

A real server, a real page and a call whose argument comes in deltas of 8 characters. Prints bytes
to the page per byte of argument, and the longest task of the main thread while it grows, while
the card is drawn at the end, and on a reload. Exit 1 where a bound does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import Browser, CDPSession, expect, sync_playwright

from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.serving import Process, Server
from tests.browser.tab import Tab

MOST_BYTES = 8.0
MOST_TASK_MS = 200
WAIT_MS = 120_000

NOTE_TASKS = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({type: "longtask", buffered: true});
"""


@dataclass(frozen=True)
class Measured:
    """Milliseconds for the longest tasks; `seconds` from the prompt to the waiting card."""

    size: int
    received: int
    seconds: float
    live_ms: float
    reload_ms: float

    @property
    def ratio(self) -> float:
        return self.received / self.size

    @property
    def sound(self) -> bool:
        return self.ratio <= MOST_BYTES and max(self.live_ms, self.reload_ms) <= MOST_TASK_MS

    def __str__(self) -> str:
        return (
            f"{self.size:>9,} characters: {self.ratio:.2f} bytes to the page per byte, "
            f"{self.seconds:.1f} s, longest task {self.live_ms:.0f} ms live, "
            f"{self.reload_ms:.0f} ms on reload"
        )


def received_by(session: CDPSession) -> list[int]:
    """The sizes of all that the page receives from now on, in bytes before decompression."""
    sizes: list[int] = []

    def note(event: dict[str, Any]) -> None:
        sizes.append(int(event["dataLength"]))

    session.on("Network.dataReceived", note)
    session.send("Network.enable")
    return sizes


def measured(browser: Browser, server: Server, size: int) -> Measured:
    """One argument of `size` characters, seen growing by one page."""
    tab = Tab(browser.new_page(), server, set()).login()
    tab.page.set_default_timeout(WAIT_MS)
    tab.page.add_init_script(NOTE_TASKS)
    session_id = server.session(tools=["get_weather"])
    tab.open(session_id)
    tab.page.wait_for_load_state("load")
    sizes = received_by(tab.page.context.new_cdp_session(tab.page))
    began = time.monotonic()
    tab.send(f"What is the weather in Paris? [[fault:args-huge-{size}]]")
    expect(tab.find("#head")).to_have_attribute("data-waiting", "1", timeout=WAIT_MS)
    seconds = time.monotonic() - began
    live_ms = tab.page.evaluate("window.longest")
    received = sum(sizes)
    tab.page.reload()
    expect(tab.find("#head")).to_have_attribute("data-waiting", "1", timeout=WAIT_MS)
    reload_ms = tab.page.evaluate("window.longest")
    tab.page.context.close()
    return Measured(size, received, seconds, live_ms, reload_ms)


def main() -> int:
    """Measure each size; 1 where a bound does not hold, 2 without a browser."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[100_000, 1_000_000])
    sizes = parser.parse_args().sizes
    path = chromium()
    if not path:
        print("No browser: install chromium, or name one in PLAYGROUND_CHROMIUM.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Process(Path(folder) / "playground.db", pace=1.0)
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            results = []
            for size in sizes:
                results.append(measured(browser, server, size))
                print(results[-1], flush=True)
        finally:
            browser.close()
            server.end()
    return 0 if all(item.sound for item in results) else 1


if __name__ == "__main__":
    sys.exit(main())
