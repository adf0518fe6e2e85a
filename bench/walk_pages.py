"""Every page in both themes, at five widths and at 200 %: `python bench/walk_pages.py`.

Starts a server with tools of 64 and 128 letters, words written from right to left and without
spaces, a batch, taps, and sessions in every state (`bench/session_states.py`), and looks at each
page and state: what axe finds (at 1440 and 390 px), what sticks out or is covered, whether the page
scrolls sideways, text that is cut without an ellipsis, and the layout shift while it loads. A page
is loaded once for each width and looked at in both themes there. Then sessions stream into an open
page at each width, and the shift is measured from the prompt until they rest. With --pictures
FOLDER each page is kept as a picture; with --jobs N so many widths are walked at a time, each by a
process with a server of its own. Prints what is wrong, and the worst layout shifts; exit code 1
where something is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, sync_playwright

from bench.session_states import end_agents, states
from playground.web.batches import EXAMPLE
from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.serving import Server
from tests.browser.test_long_names import FIND_TROUBLE, LONG, LONGER, a_tool
from tests.in_process import run_server

WIDTHS = (1440, 1280, 1024, 768, 390)
AXE = (1440, 390)
"""Where axe looks, too: it takes most of a page's time, up to 18 s of forty cards."""
ZOOMED = 720
"""CSS pixels of a window of 1440 x 900 at 200 %."""
HEIGHTS = {390: 844, ZOOMED: 450}
Scheme = Literal["light", "dark"]
SCHEMES: Sequence[Scheme] = ("light", "dark")
MOST_SHIFT = 0.05
PACE = 0.5
"""Of the simulator: 1 is that of a user's."""

SHIFTS = """() => new Promise((done) => {
  new PerformanceObserver((list, observer) => {
    observer.disconnect();
    const shifts = list.getEntries().filter((entry) => !entry.hadRecentInput);
    done(shifts.reduce((sum, { value }) => sum + value, 0));
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(0), 300);
})"""

CUT = """() => [...document.querySelectorAll("body *")].filter((element) => {
  if (!element.checkVisibility({ visibilityProperty: true })) return false;
  if (element.closest("svg, pre, textarea, .unseen") || element.clientWidth <= 1) return false;
  const style = getComputedStyle(element);
  if (element.children.length || !element.textContent.trim()) return false;
  if (style.overflowX === "visible") return false;
  return element.scrollWidth > element.clientWidth + 1 && style.textOverflow !== "ellipsis"
    && !["auto", "scroll"].includes(style.overflowX);
}).map((element) => element.outerHTML.slice(0, 100))"""

STREAMS = """() => {
  const stream = document.getElementById("stream");
  return !stream || stream.hasAttribute("data-htmx-powered");
}"""
"""The page has its scripts and hears of its session."""

STILL = """async () => {
  const moving = document.getAnimations().filter((one) => one.effect.getTiming().iterations < 9);
  await Promise.all(moving.map((one) => one.finished.catch(() => 0)));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
"""What moves once has come to its end: axe reads the colours that are seen at that instant."""

NOTE_SHIFTS = """() => {
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifted += shift.value;
  }).observe({ type: "layout-shift" });
}"""

STREAMED = {
    "two calls": "What is 17*23, and the weather in Paris?",
    "12 calls": "[[fault:parallel-12]] What is the weather in Paris?",
    "a long answer": f"Say {'a long story ' * 60}",
    "a failure": "Say hello [[fault:http-500]]",
}
"""Prompts that stream into an open page, by what comes of them."""

RIGHT_TO_LEFT = "ابحث عن حالة الطقس في باريس ثم لخّص النتيجة في ثلاث جمل قصيرة"
NO_SPACES = "天気を調べて結果を三行でまとめ長い題名でも崩れないことを確かめてください" * 3


def foreign_words(server: Server) -> str:
    """A session, tools and a rule in words from right to left and without spaces; its id."""
    tool = {
        "name": "weather_abroad",
        "description": f"{RIGHT_TO_LEFT}. {NO_SPACES}",
        "group": RIGHT_TO_LEFT[:30],
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": NO_SPACES},
                "style": {"type": "string", "enum": [RIGHT_TO_LEFT, NO_SPACES[:60]]},
            },
        },
        "answered_by": "mock",
        "config": {"result": NO_SPACES},
    }
    server.post("/tools", tool)
    server.post("/rules", {"tool": "weather_abroad", "action": "ask", "words": NO_SPACES[:100]})
    prompt = f"{RIGHT_TO_LEFT} weather abroad {NO_SPACES}"
    return server.session(prompt, tools=["weather_abroad"], title=f"{RIGHT_TO_LEFT} {NO_SPACES}")


def prepare(server: Server, folder: Path) -> dict[str, tuple[str, str]]:
    """What there is to see: by the name of each page its path, and what is pressed there.
    The names of states begin with "state-"."""
    pages = {name: (path, "") for name, path in prepare_pages(server).items()}
    return pages | {f"state-{name}": row for name, row in states(server, folder).items()}


def prepare_pages(server: Server) -> dict[str, str]:
    """The path of each page by its name."""
    for name in (LONG, LONGER):
        server.post("/tools", a_tool(name))
    waiting = server.session("What is 17*23, and the weather in Paris?", title=LONGER)
    done = server.session(f"Say {'long ' * 60}")
    failed = server.session("Say hello [[fault:http-500]]", max_retries=0)
    many = server.session("[[fault:parallel-40]] What is the weather in Paris?")
    empty = server.session()
    foreign = foreign_words(server)
    for session_id, state in ((waiting, "waiting"), (done, "idle"), (failed, "failed")):
        server.comes_to(session_id, state)
    server.post("/taps", {"title": LONGER})
    answered = server.script.post("/batches", data={"spec": EXAMPLE, "repetitions": "2"})
    batch = answered.json()["id"]
    here = f"/sessions/{waiting}"
    return {
        "welcome": "/welcome",
        "session": here,
        "setup": f"{here}?tab=setup",
        "request": f"{here}?tab=request",
        "code": f"{here}?tab=code",
        "session-new": f"/sessions/{empty}?tab=setup",
        "session-done": f"/sessions/{done}",
        "session-failed": f"/sessions/{failed}",
        "session-40-calls": f"/sessions/{many}",
        "session-words": f"/sessions/{foreign}",
        "share-words": f"/sessions/{foreign}/share",
        "tool-words": "/tools/weather_abroad",
        "share": f"{here}/share",
        "fork": f"{here}/fork?call=1.1",
        "forks": f"{here}/forks",
        "files": f"{here}/files",
        "session-rules": f"{here}/rules",
        "find": "/find",
        "tools": "/tools",
        "tool": f"/tools/{LONGER}",
        "tool-mistake": "/tools?example=mistake",
        "import": "/import",
        "import-session": "/sessions/import",
        "servers": "/servers",
        "server-new": "/servers?new=1",
        "batches": "/batches",
        "batch-new": f"/batches/new?session={done}",
        "batch": f"/batches/{batch}",
        "rules": "/rules",
        "providers": "/providers",
        "provider": "/providers/openai",
        "agents": "/agents",
        "compare": f"/compare?session={waiting}&session={done}",
        "compare-new": "/compare/new",
        "not-found": "/nowhere",
    }


def troubles(page: Page, name: str, *, axe: bool, colours_alone: bool) -> Iterator[str]:
    """What is wrong with the page that is open. A second theme differs by its colours alone."""
    if not colours_alone:
        for trouble in page.evaluate(FIND_TROUBLE):
            yield f"{name}: {trouble}"
        for cut in page.evaluate(CUT):
            yield f"{name}: cut without an ellipsis: {cut}"
    if not axe:
        return
    options: dict[str, Any] = {"preload": False, "resultTypes": ["violations"]}
    if colours_alone:
        options["runOnly"] = ["color-contrast"]
    for violation in Axe().run(page, None, options).response["violations"]:
        nodes = [node["html"][:100] for node in violation["nodes"]]
        yield f"{name}: axe {violation['id']} ({violation['impact']}): {nodes[:3]}"


def open_page(page: Page, address: str, pressed: str) -> float:
    """Open a page, press what is to be pressed, let all movement end; the shift while it loaded."""
    page.goto(address)
    page.wait_for_function("document.readyState === 'complete'")
    if "?at=" not in address and "/sessions/" in address:
        page.wait_for_function(STREAMS)
    shift: float = page.evaluate(SHIFTS)
    if pressed.startswith("."):
        page.locator(pressed).click()
    elif pressed:
        page.keyboard.press(pressed)
    page.evaluate(STILL)
    return shift


def walk(
    server: Server,
    folder: Path,
    names: Sequence[str],
    pictures: Path | None,
    widths: Sequence[int],
    schemes: Sequence[Scheme],
) -> tuple[list[str], float]:
    """What is wrong in all, and the worst layout shift of a page that loads."""
    pages = prepare(server, folder)
    failures: list[str] = []
    worst = 0.0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        # Without bypassing it the page's own policy would refuse the checker's script.
        page = browser.new_context(bypass_csp=True, reduced_motion="reduce").new_page()
        page.goto(server.link)
        for width in widths:
            page.set_viewport_size({"width": width, "height": HEIGHTS.get(width, 900)})
            for name, (path, pressed) in pages.items():
                if names and not any(fnmatch(name, pattern) for pattern in names):
                    continue
                page.emulate_media(color_scheme=schemes[0])
                address = path if path.startswith("file:") else server.url + path
                shift = open_page(page, address, pressed)
                results = []
                if shift > MOST_SHIFT:
                    results.append(f"{name} {width}: layout shift {shift:.3f}")
                worst = max(worst, shift)
                for scheme in schemes:
                    page.emulate_media(color_scheme=scheme)
                    where = f"{name} {width} {scheme}"
                    if pictures is not None:
                        page.screenshot(path=pictures / f"{name}-{width}-{scheme}.png")
                    results += troubles(
                        page, where, axe=width in AXE, colours_alone=scheme != schemes[0]
                    )
                failures += results
                print(*results, sep="\n", end="\n" if results else "", flush=True)
                page.evaluate("sessionStorage.clear()")
            print(f"{width}: {len(failures)} findings so far", flush=True)
        browser.close()
    return failures, worst


def stream(server: Server, widths: Sequence[int]) -> tuple[list[str], float]:
    """The same of what streams: the shift of an open page from the prompt until it rests."""
    failures: list[str] = []
    worst = 0.0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page()
        page.goto(server.link)
        for width in widths:
            page.set_viewport_size({"width": width, "height": HEIGHTS.get(width, 900)})
            for name, prompt in STREAMED.items():
                session_id = server.session(max_retries=0)
                page.goto(f"{server.url}/sessions/{session_id}")
                page.wait_for_selector("#stream[data-htmx-powered]", state="attached")
                page.evaluate(NOTE_SHIFTS)
                server.post(f"/sessions/{session_id}/prompts", {"text": prompt})
                states = ("waiting", "idle", "failed", "paused")
                rests = f"#head:is({', '.join(f'[data-state={state}]' for state in states)})"
                page.wait_for_selector(f"body:has({rests}):has(.turn)", state="attached")
                shift = page.evaluate("window.shifted")
                worst = max(worst, shift)
                if shift > MOST_SHIFT:
                    failures.append(f"{name} streams at {width}: layout shift {shift:.3f}")
                    print(failures[-1], flush=True)
        browser.close()
    return failures, worst


def side_by_side(arguments: argparse.Namespace) -> int:
    """Walk each width in a process of its own, `jobs` of them at the same time."""
    more = ["--schemes", *arguments.schemes]
    if arguments.pictures is not None:
        more += ["--pictures", str(arguments.pictures)]

    def walk_width(width: int) -> int:
        words = [sys.executable, __file__, *arguments.names, "--widths", str(width), *more]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        print(f"{width} px:", done.stdout.decode(), sep="\n", end="", flush=True)
        return done.returncode

    with ThreadPoolExecutor(arguments.jobs) as pool:
        codes = list(pool.map(walk_width, arguments.widths))
    print("nothing found" if not any(codes) else "see above for what was found")
    return 1 if any(codes) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="pages to look at, as patterns (state-*); all, where none is named"
    )
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    parser.add_argument("--widths", type=int, nargs="+", default=(*WIDTHS, ZOOMED))
    parser.add_argument("--schemes", choices=SCHEMES, nargs="+", default=SCHEMES)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.pictures is not None:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    if arguments.jobs > 1:
        return side_by_side(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(Path(folder) / "walk.db") as running,
    ):
        server = Server(running)
        failures, worst = walk(
            server,
            folder=Path(folder),
            names=arguments.names,
            pictures=arguments.pictures,
            widths=arguments.widths,
            schemes=arguments.schemes,
        )
        end_agents(server)
        server.script.close()
    print(f"{len(failures)} findings; worst layout shift of a page that loads: {worst:.3f}")
    if not arguments.names:
        with (
            tempfile.TemporaryDirectory() as folder,
            run_server(Path(folder) / "stream.db", PACE) as running,
        ):
            server = Server(running)
            streamed, worst = stream(server, arguments.widths)
            server.script.close()
        failures += streamed
        print(f"{len(streamed)} findings; worst layout shift of a page that streams: {worst:.3f}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
