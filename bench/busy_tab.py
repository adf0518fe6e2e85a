"""How busy a tab is while one answer grows: `python bench/busy_tab.py`.

A real server, a real page, and a provider (`bench/paced_provider.py`) whose one answer grows to
`--characters`. Printed is which share of each five seconds the main thread of the page worked. That
is to stay as it began, however long the answer is: exit 1 where the last shares are more than
MOST_GROWN times the first ones. The very first five seconds are left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import Browser, CDPSession, sync_playwright

from bench.measured_processes import cores, end_script, precede, start_script
from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.serving import Process, Server
from tests.browser.tab import Tab
from tests.servers import NO_TLS, ROOT

STEP_S = 5.0
ENDS = 2
"""How many steps the begin and the end have."""
MOST_GROWN = 1.3
DELTA = 36
"""Characters of one delta."""


def _worked_s(devtools: CDPSession) -> float:
    """Seconds that the main thread has worked so far."""
    metrics: list[dict[str, Any]] = devtools.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def shares(browser: Browser, server: Server, model: str, url: str) -> list[float]:
    """The share of the main thread for each step, from the first delta to the last."""
    with httpx.Client(base_url=url, trust_env=False, verify=NO_TLS) as provider:
        tab = Tab(browser.new_page(), server, set()).login()
        settings = {"protocol": "anthropic", "base_url": url + "/anthropic", "model": model}
        session_id = server.session(tools=[], **settings)
        tab.open(session_id)
        tab.page.wait_for_load_state("load")
        tab.send("Write.")
        while not provider.get("/state").json()["waiting"]:
            time.sleep(0.05)
        devtools = tab.page.context.new_cdp_session(tab.page)
        devtools.send("Performance.enable", {"timeDomain": "timeTicks"})
        provider.post("/go")
        results = []
        worked, at = _worked_s(devtools), time.monotonic()
        while not provider.get("/state").json()["sent"]:
            time.sleep(STEP_S)
            before, began = worked, at
            worked, at = _worked_s(devtools), time.monotonic()
            results.append((worked - before) / (at - began))
        provider.post("/end")
        tab.page.context.close()
    return results[1:-1]


def main() -> int:
    """Measure one answer; 1 where the share grows, 2 without a browser."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=86_000)
    parser.add_argument("--rate", type=int, default=50, help="deltas a second")
    arguments = parser.parse_args()
    path = chromium()
    if not path:
        print("No browser: install chromium, or name one in PLAYGROUND_CHROMIUM.", file=sys.stderr)
        return 2
    model = f"text-{arguments.characters // DELTA}-{arguments.rate}-{DELTA}"
    _, others = cores()
    with tempfile.TemporaryDirectory() as name, precede(), sync_playwright() as playwright:
        folder = Path(name)
        process, line = start_script([str(ROOT / "bench/paced_provider.py")], folder, others)
        server = Process(folder / "playground.db", pace=0)
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            thread_shares = shares(browser, server, model, line.strip())
        finally:
            browser.close()
            server.end()
            end_script(process)
    first, last = mean(thread_shares[:ENDS]), mean(thread_shares[-ENDS:])
    print("main thread busy, each 5 s: " + " ".join(f"{each:.0%}" for each in thread_shares))
    print(
        f"{arguments.characters:,} characters, {arguments.rate} deltas a second:"
        f" {first:.0%} at the begin, {last:.0%} at the end (x {last / first:.2f})"
    )
    return 0 if last <= MOST_GROWN * first else 1


if __name__ == "__main__":
    sys.exit(main())
