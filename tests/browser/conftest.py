"""A browser, a server, and tabs that fail the test where a page misbehaved.

Without a browser, or without the package that drives it, these tests skip and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

pytest.importorskip("playwright", reason="the browser tests need the package playwright")

from playwright.sync_api import Browser, expect, sync_playwright

from playground.simulator.app import SimulatorPace
from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.serving import Server, run_page_server
from tests.browser.tab import Tab
from tests.browser.windows import Windows

expect.set_options(timeout=20_000)  # bounds for a busy machine; a good run waits for nothing

AT_ONCE, SEEN = 0.0, 0.2
"""The simulator's pace: no pause at all, or quick and yet slow enough for a stream to be seen."""

NewTab = Callable[..., Tab]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for these tests, and ended with them: its event loop would keep out all others."""
    path = chromium()
    if not path:
        pytest.skip("no browser: install chromium, or name one in PLAYGROUND_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Server]:
    """The server that most tests share; each makes sessions of its own. Its answers come at once:
    each step of one that streams is drawn, which is an eighth of what these tests cost."""
    with run_page_server(tmp_path_factory.mktemp("shared") / "playground.db", AT_ONCE) as server:
        yield server


@pytest.fixture(scope="package")
def streaming_server(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> Iterator[Server]:
    """The server of tests that watch an answer while it streams."""
    with run_page_server(tmp_path_factory.mktemp("streaming") / "playground.db", SEEN) as server:
        yield server


@pytest.fixture(autouse=True)
def short_list(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test made on a server that others use is put away at its end; what is made for all
    tests of a file stays."""
    shared = {"tab": "server", "streaming_tab": "streaming_server"}
    used = {shared.get(name, name) for name in request.fixturenames} & {*shared.values()}
    servers: list[Server] = [request.getfixturevalue(name) for name in sorted(used)]
    for server in servers:
        server.session_ids.clear()
    yield
    for server in servers:
        server.put_away()


@pytest.fixture
def slow_simulator(monkeypatch: pytest.MonkeyPatch) -> Event:
    """While it is set the simulator takes 0.2 s and more for each delta; else no time at all."""
    dawdling = Event()

    def pause(_: SimulatorPace, seconds: float) -> float:
        return 10 * seconds if dawdling.is_set() and seconds < 0.1 else 0.0

    monkeypatch.setattr(SimulatorPace, "pause", pause)
    return dawdling


@pytest.fixture
def own_server(tmp_path: Path, browser: Browser) -> Iterator[Server]:
    """A server on an empty database, for tests that break it or want it empty."""
    with run_page_server(tmp_path / "playground.db", AT_ONCE) as server:
        yield server


@pytest.fixture(scope="package")
def windows(browser: Browser) -> Iterator[Windows]:
    windows = Windows(browser)
    yield windows
    windows.close()


@pytest.fixture
def new_tab(windows: Windows) -> Iterator[NewTab]:
    """Opens a tab in a window that no other tab of the test shares (`Windows.open`)."""
    yield windows.open
    assert windows.end() == []


@pytest.fixture
def tab(server: Server, new_tab: NewTab) -> Tab:
    """A tab, logged in to the shared server."""
    return new_tab(server).login()


@pytest.fixture
def streaming_tab(streaming_server: Server, new_tab: NewTab) -> Tab:
    """A tab, logged in to the server whose answers are seen streaming."""
    return new_tab(streaming_server).login()
