"""What a session's page weighs: `python bench/page_weight.py`.

A real server and a real browser. Prints for the first page, for a session of one turn and for one
of 200 turns and 50 calls: bytes on the wire (headers and bodies as they travelled; event streams
left out), requests, and nodes of the page when it is at rest. Exit 1 where a bound does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.serving import Process, Server

TURNS, CALLS = 200, 50
SETTLED_MS = 1_500
"""A page asks for nothing any more when it has been silent for so long."""


@dataclass(frozen=True)
class Bounds:
    """The most that a first load may take: bytes on the wire, requests, nodes."""

    size: int
    requests: int
    nodes: int


BOUNDS = {
    "first page": Bounds(60_000, 10, 6_000),
    "one turn": Bounds(120_000, 10, 6_000),
    f"{TURNS} turns": Bounds(300_000, 12, 6_000),
}


@dataclass(frozen=True)
class Weight:
    """What one load took; `largest` are its largest responses as (bytes, path)."""

    size: int
    requests: int
    nodes: int
    largest: tuple[tuple[int, str], ...]

    def within(self, bounds: Bounds) -> bool:
        """Whether it takes no more than `bounds`."""
        return (
            self.size <= bounds.size
            and self.requests <= bounds.requests
            and self.nodes <= bounds.nodes
        )


def first(server: Server) -> str:
    """The path of the first page of a database without sessions."""
    return "/"


def one_turn(server: Server) -> str:
    """The path of a new session of one turn."""
    session_id = server.session("Hello")
    server.comes_to(session_id, "idle")
    return f"/sessions/{session_id}"


def long(server: Server) -> str:
    """The path of a new session of 200 turns, every fourth of which has a call."""
    session_id = server.session(rules=[{"tool": "get_weather", "action": "run"}])
    for number in range(TURNS - CALLS):
        words = "What is the weather in Paris?" if number % 3 == 0 else f"Tell me of {number}."
        server.post(f"/sessions/{session_id}/prompts", {"text": words})
        server.comes_to(session_id, "idle")
    return f"/sessions/{session_id}"


def weighed(browser: Browser, server: Server, path: str) -> Weight:
    """One load of `path` with nothing in the browser's cache."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.request.get(server.link)
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    sizes: dict[str, int] = {}
    paths: dict[str, str] = {}
    streams = set[str]()

    def note_request(event: Any) -> None:
        paths[event["requestId"]] = event["request"]["url"].removeprefix(server.url)

    def note_response(event: Any) -> None:
        if event["response"]["mimeType"] == "text/event-stream":
            streams.add(event["requestId"])

    def note_size(event: Any) -> None:
        if not paths[event["requestId"]].startswith("data:"):
            sizes[event["requestId"]] = int(event["encodedDataLength"])

    devtools.on("Network.requestWillBeSent", note_request)
    devtools.on("Network.responseReceived", note_response)
    devtools.on("Network.loadingFinished", note_size)
    page.goto(server.url + path)
    count = -1
    while count != len(sizes):
        count = len(sizes)
        page.wait_for_timeout(SETTLED_MS)
    nodes = page.evaluate("document.querySelectorAll('*').length")
    context.close()
    answer = {key: size for key, size in sizes.items() if key not in streams}
    largest = sorted(((size, paths[key]) for key, size in answer.items()), reverse=True)
    return Weight(sum(answer.values()), len(answer), nodes, tuple(largest))


def main() -> int:
    """Weigh each page; 1 where a bound does not hold, 2 without a browser."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="each response with its size")
    every = parser.parse_args().all
    found_browser = chromium()
    if not found_browser:
        print("No browser: install chromium, or name one in PLAYGROUND_CHROMIUM.", file=sys.stderr)
        return 2
    sound = True
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Process(Path(folder) / "playground.db", pace=0)
        browser = playwright.chromium.launch(executable_path=found_browser, args=ARGUMENTS)
        try:
            for (name, bounds), result in zip(BOUNDS.items(), (first, one_turn, long), strict=True):
                weight = weighed(browser, server, result(server))
                sound &= weight.within(bounds)
                print(
                    f"{name}: {weight.size / 1000:.1f} kB, {weight.requests} requests,"
                    f" {weight.nodes} nodes (at most {bounds})",
                    flush=True,
                )
                for size, where in weight.largest if every else ():
                    print(f"    {size:8} {where}")
        finally:
            browser.close()
            server.end()
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
