"""The pictures of README and docs, made anew: `python bench/pictures.py [FOLDER]`.

Starts a server on the simulator, opens the demos and a batch in Chromium, and writes session.png,
tour-*.png and session.html into docs/, or into FOLDER: the last is the session of the first picture
when it is done, as the one file that anyone opens from disk.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.serving import Server
from tests.in_process import run_server

SIZE = ViewportSize(width=1440, height=860)
WAIT_MS = 30_000

SPEC = """\
playground_batch: 1
name: Which description finds the right tool?
defaults: {repetitions: 5, max_turns: 3}
tools:
  - name: get_weather
    description: The weather in a city now.
    parameters: {type: object, properties: {city: {type: string}}, required: [city]}
    config: {result: "{{ args.city }}: rain, 11 degrees"}
  - name: get_forecast
    description: The weather in a city tomorrow.
    parameters: {type: object, properties: {city: {type: string}}, required: [city]}
    config: {result: sun}
models: [simulator, simulator-gemini]
cases:
  - {id: now, prompt: What is the weather in Oslo?, expect: [{called: get_weather}]}
  - {id: tomorrow, prompt: What will the weather be tomorrow in Paris?,
     expect: [{called: get_forecast}]}
  - {id: thanks, prompt: "Thank you, that was all.", expect: [{no_call: true}]}
"""


def start(page: Page, server: Server, demo: str) -> None:
    """Open the first page, press the demo, and wait until a call needs a decision."""
    page.goto(server.url + "/welcome")
    page.locator(f'form:has([name=demo][value="{demo}"]) button').first.click()
    page.wait_for_url(re.compile("/sessions/"))
    page.mouse.move(1, 1)  # nothing is marked because the pointer is over it
    expect(page.locator(".card.asks").first).to_be_visible(timeout=WAIT_MS)
    for block in (page.locator("#head"), page.locator("#list .row[aria-current=page]")):
        expect(block).to_have_attribute("data-state", "waiting", timeout=WAIT_MS)


def record(server: Server, session_id: str, file: Path) -> None:
    """Run what waits in the session, and keep it as a file when the model has answered."""
    for call in server.get_session(session_id)["calls"]:
        path = f"/sessions/{session_id}/calls/{call['id']}/decision"
        server.post(path, {"decision": "run", "digest": call["digest"]})
    server.comes_to(session_id, "idle")
    shared = server.script.get(f"/sessions/{session_id}/export?as=html", headers={"accept": "*/*"})
    file.write_bytes(shared.raise_for_status().content)


def take(server: Server, folder: Path) -> None:
    """All pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_context(viewport=SIZE).new_page()
        page.goto(server.link)
        page.goto(server.url + "/welcome")
        page.screenshot(path=folder / "tour-start.png")
        start(page, server, "two-calls")
        page.screenshot(path=folder / "session.png")
        record(server, page.url.rpartition("/")[2], folder / "session.html")
        page.goto(server.url + "/tools?example=mistake")
        mistakes = page.locator("#lint .finding.unsatisfiable")
        expect(mistakes).to_have_count(2, timeout=WAIT_MS)
        expect(mistakes.first).to_contain_text("No call can be valid")
        page.screenshot(path=folder / "tour-tool.png")
        start(page, server, "tap")
        page.screenshot(path=folder / "tour-agent.png")
        answered = server.script.post("/batches", data={"spec": SPEC})
        page.goto(f"{server.url}/batches/{answered.json()['id']}")
        expect(page.locator("#batch .pill").first).to_have_text("done", timeout=WAIT_MS)
        page.screenshot(path=folder / "tour-batch.png")
        browser.close()


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "docs"
    with (
        tempfile.TemporaryDirectory() as place,
        run_server(Path(place) / "pictures.db", pace=1) as running,
    ):
        take(Server(running), folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
