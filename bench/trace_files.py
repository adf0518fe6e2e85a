"""The files that one prompt and one click on Run enter: `python bench/trace_files.py`.

Starts the app in this process, with the simulator over the Anthropic protocol. Then it sends the
prompt of the first demo and waits until its two calls wait for a decision; runs the first call;
and presses Run on the second one, after which the run goes on to the model's answer. Of the
prompt and of that click it counts the files of the package of which a function was executed:
the route, the engine, the simulator's end, the store; with --page also the page that follows the
session by its stream. Imports do not count, nor what a server does once: all of it is done before
on another session, without counting.

Prints both counts, and the files by folder; with --functions, the functions of each file too.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import re
import sqlite3
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.web.demos import DEMOS
from tests.in_process import run_server
from tests.servers import RunningServer

APP = str(Path(__file__).resolve().parent.parent / "app/playground") + "/"
QUIET_S = 0.25
"""How long nothing of app/playground/ may be executed until all is done that came of a request."""
LOOK_S = 0.01
MOST_S = 30.0

Entered = dict[str, set[str]]
"""Files, relative to app/playground/, and the functions of each whose bodies were executed."""


class Tracer:
    """Notes each function of the package that begins, in all threads, while it records."""

    def __init__(self) -> None:
        self.entered: Entered = {}
        self.last_s = time.monotonic()
        self._names: dict[CodeType, tuple[str, str] | None] = {}

    def install(self) -> None:
        """For this thread and all that are started after it."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def remove(self) -> None:
        threading.setprofile(None)
        sys.setprofile(None)

    @contextmanager
    def record(self) -> Iterator[Entered]:
        self.entered = entered = defaultdict[str, set[str]](set)
        try:
            yield entered
        finally:
            self.entered = {}

    async def quiet(self) -> None:
        """Until nothing of app/playground/ is executed any more."""
        async with asyncio.timeout(MOST_S):
            while time.monotonic() - self.last_s < QUIET_S:
                await asyncio.sleep(QUIET_S)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._names:
            # The bodies of modules and classes are executed on import; they have no fast locals.
            ours = code.co_filename.startswith(APP) and code.co_flags & inspect.CO_OPTIMIZED
            name = (code.co_filename.removeprefix(APP), code.co_qualname)
            self._names[code] = name if ours else None
        if (place := self._names[code]) is not None:
            self.last_s = time.monotonic()
            if isinstance(self.entered, defaultdict):
                self.entered[place[0]].add(place[1])


class DemoSession:
    """A session of the first demo, as a page or a script of its user sees it."""

    def __init__(
        self,
        server: RunningServer,
        tracer: Tracer,
        script: httpx.AsyncClient,
        page: httpx.AsyncClient,
    ) -> None:
        self._server = server
        self._tracer = tracer
        self._script = script
        self._page = page
        self.path = ""

    async def create(self) -> None:
        settings = {"profile": "simulator", "tools": list(DEMOS[0].tools)}
        answer = await self._script.post("/sessions", json=settings)
        self.path = f"/sessions/{answer.raise_for_status().json()['id']}"

    @asynccontextmanager
    async def open_page(self) -> AsyncIterator[None]:
        """The page is drawn, and its stream is open for as long as the block lasts."""
        text = (await self._page.get(self.path)).raise_for_status().text
        address = re.search(r'hx-sse:connect="(/stream\?session=[^"]+)"', text)
        assert address is not None, "the page has no stream"
        stream = asyncio.create_task(self._follow(address[1].replace("&amp;", "&")))
        try:
            await self._tracer.quiet()
            yield
        finally:
            stream.cancel()
            await asyncio.wait([stream])

    async def send_prompt(self) -> None:
        await self._post("/prompts", {"text": DEMOS[0].prompt})

    async def until(self, state: str) -> None:
        """Until the list has this state for the session, read past the package, and all is done."""
        path = f"file:{self._server.db}?mode=ro"
        name = self.path.rpartition("/")[2]
        async with asyncio.timeout(MOST_S):
            with closing(sqlite3.connect(path, uri=True)) as connection:
                query = "SELECT state FROM sessions WHERE id = ?"
                while connection.execute(query, (name,)).fetchone()[0] != state:
                    await asyncio.sleep(LOOK_S)
        await self._tracer.quiet()

    async def run(self, call: Mapping[str, Any]) -> None:
        path = f"/calls/{call['id']}/decision"
        await self._post(path, {"decision": "run", "digest": call["digest"]})

    async def read(self) -> Mapping[str, Any]:
        """The session, as a script reads it."""
        answer = await self._script.get(self.path)
        return dict(answer.raise_for_status().json())

    async def _post(self, path: str, form: Mapping[str, str]) -> None:
        answer = await self._page.post(self.path + path, data=form, headers={"HX-Request": "true"})
        assert answer.status_code < 400, answer.text

    async def _follow(self, address: str) -> None:
        async with self._page.stream("GET", address, timeout=None) as answer:
            async for _ in answer.aiter_bytes():
                pass


async def trace(server: RunningServer, tracer: Tracer, *, page: bool) -> tuple[Entered, Entered]:
    """What the prompt and the click on Run enter. Done twice; the second session counts."""
    async with server.client() as script, server.page() as browser:
        for _ in range(2):
            session = DemoSession(server, tracer, script, browser)
            await session.create()
            if page:
                async with session.open_page():
                    entered = await _prompt_and_run(session, tracer)
            else:
                entered = await _prompt_and_run(session, tracer)
    return entered


async def _prompt_and_run(session: DemoSession, tracer: Tracer) -> tuple[Entered, Entered]:
    with tracer.record() as prompt:
        await session.send_prompt()
        await session.until("waiting")
    first, second = (await session.read())["calls"]
    assert first["status"] == second["status"] == "waiting"
    await session.run(first)
    async with asyncio.timeout(MOST_S):
        while (await session.read())["calls"][0]["status"] != "done":
            await asyncio.sleep(LOOK_S)
    with tracer.record() as run:
        await session.run(second)
        await session.until("idle")
    return prompt, run


def report(title: str, entered: Entered, *, functions: bool) -> list[str]:
    """The count, then the files by folder, the fullest folder first."""
    lines = [f"{title}: {len(entered)} files of the package"]
    folders: dict[str, list[str]] = defaultdict(list)
    for name in sorted(entered):
        folders[name.rpartition("/")[0]].append(name)
    for folder, names in sorted(folders.items(), key=lambda item: (-len(item[1]), item[0])):
        files = [name.rpartition("/")[2].removesuffix(".py") for name in names]
        if not functions:
            lines.append(f"  {len(names):3} {folder or '.'}: {' '.join(files)}")
            continue
        lines.append(f"  {len(names):3} {folder or '.'}")
        lines += [
            f"        {file}: {' '.join(sorted(entered[name]))}"
            for file, name in zip(files, names, strict=True)
        ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", action="store_true", help="with the page and its stream, too")
    parser.add_argument("--functions", action="store_true", help="name the functions, too")
    arguments = parser.parse_args()
    tracer = Tracer()
    tracer.install()
    try:
        with tempfile.TemporaryDirectory() as folder, run_server(Path(folder) / "t.db") as server:
            prompt, run = asyncio.run(trace(server, tracer, page=arguments.page))
    finally:
        tracer.remove()
    for title, entered in (("A prompt", prompt), ("A click on Run", run)):
        print("\n".join(report(title, entered, functions=arguments.functions)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
