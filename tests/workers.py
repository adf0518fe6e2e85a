"""The tests in several processes, forked from the one that has collected them: `-n 4`.

Workers that are started each import, compile and collect everything for themselves: 7 s of the
processor each, and 18 s in a fresh checkout. Forked, they begin with all of it, and a report of a
test costs a message on a pipe. `-n 0` runs the tests in the process that collected them.

A worker is given the tests of one file, and the next ones before it begins the last of these, so
that it knows which fixtures stay. Towards the end it is given fewer. The tests that need what is
dear to start (`FIRST`) are for a few of the workers, which begin with them; the others begin at
the other end, and take some of them only when nothing else is left.
"""

from __future__ import annotations

import gc
import os
import traceback
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

FIRST = "tests/browser/"
"""Each worker that runs one of these starts a browser and its servers."""
TOGETHER = (
    "tests/exchange/test_sdk_script.py",
    "tests/protocols/test_shapes.py",
    "tests/simulator/test_app.py",
    "tests/simulator/test_gemini.py",
    "tests/simulator/test_openai_responses.py",
)
"""As if they were one file: they import the providers' own packages, which takes seconds."""
SHARE = 4
"""At most a fourth of an equal share of what is left is given to a worker at once."""


def pytest_addoption(parser: pytest.Parser) -> None:
    # Small letters are kept for pytest and for plugins that everybody knows; this one is known.
    group: Any = parser.getgroup("workers", "tests in several processes")
    group._addoption(
        "-n", dest="workers", type=int, default=0, metavar="N", help="run in N processes; 0: in one"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """All tests in workers; None leaves it to pytest, which knows what is to be done else."""
    option = session.config.option
    count = min(option.workers, len(session.items))
    if count < 1 or option.collectonly or option.usepdb or session.testsfailed:
        return None
    Controller(session, count).run()
    return True


def place_of(node: str) -> tuple[int, str]:
    """(where in the line a test stands, what it shares with others: its file)"""
    file = node.partition("::")[0]
    return (2, "") if file in TOGETHER else (int(not file.startswith(FIRST)), file)


class Worker:
    """One by its process, the pipe to it, and the indices of the tests it was given."""

    def __init__(self, process: int, pipe: Connection, begins_first: bool) -> None:
        self.process, self.pipe, self.begins_first = process, pipe, begins_first
        self.given: deque[int] = deque()
        self.trouble = ""


class Controller:
    """Hands out tests, passes on reports, and starts another worker for one that is gone."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self.session, self.config, self.count = session, session.config, count
        self.workers: list[Worker] = []
        self.left: deque[int] = deque()
        self.files: list[tuple[int, str]] = []
        self.started = 0

    def run(self) -> None:
        self.files = [place_of(item.nodeid) for item in self.session.items]
        self.left.extend(sorted(range(len(self.files)), key=lambda index: self.files[index][0]))
        config: Any = self.config
        config._tmp_path_factory.getbasetemp()  # made once: what is there is cleared away
        gc.freeze()  # a worker that collects garbage does not touch, and so copy, what they share
        try:
            for number in range(self.count):
                self._start(begins_first=3 * number < self.count)
            while self.workers:
                for pipe in wait([worker.pipe for worker in self.workers]):
                    self._hear(next(worker for worker in self.workers if worker.pipe is pipe))
        finally:
            for worker in self.workers:
                worker.pipe.close()  # it ends with the test it is at
            for worker in self.workers:
                os.waitpid(worker.process, 0)

    def _start(self, begins_first: bool) -> None:
        here, there = Pipe()
        self.started += 1
        process = os.fork()
        if not process:
            for pipe in (here, *(worker.pipe for worker in self.workers)):
                pipe.close()
            work(self.session, there, f"worker-{self.started}")
        there.close()
        self.workers.append(Worker(process, here, begins_first))

    def _hear(self, worker: Worker) -> None:
        try:
            message: list[Any] | str | None = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._gone(worker)
            return
        if message is None:  # asks for more
            tests = self._next(worker.begins_first)
            worker.given.extend(tests)
            worker.pipe.send(tests)
        elif isinstance(message, str):
            worker.trouble = message
        else:
            self._report(worker.given.popleft(), message)

    def _next(self, first: bool) -> list[int]:
        """The next tests of one file, from the end that such a worker begins at."""
        left = self.left
        most = max(1, len(left) // (SHARE * self.count))
        taken: list[int] = []
        while left and len(taken) < most:
            index = left[0 if first else -1]
            if taken and self.files[index] != self.files[taken[0]]:
                break
            taken.append(left.popleft() if first else left.pop())
        return taken if first else taken[::-1]

    def _report(self, index: int, reports: list[Any]) -> None:
        """What pytest would hear had the test run here."""
        item, hook = self.session.items[index], self.config.hook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for data in reports:
            report = hook.pytest_report_from_serializable(config=self.config, data=data)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    def _gone(self, worker: Worker) -> None:
        """A worker has ended: in order, or in the midst of a test."""
        worker.pipe.close()
        self.workers.remove(worker)
        _, status = os.waitpid(worker.process, 0)
        if worker.given:
            index = worker.given.popleft()
            at, how = self.session.items[index], os.waitstatus_to_exitcode(status)
            code = f"signal {-how}" if how < 0 else f"exit code {how}"
            why = f"The worker of this test ended: {code}\n{worker.trouble}"
            report = pytest.TestReport(at.nodeid, at.location, {}, "failed", why, "call")
            data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
            self.left.extendleft(reversed(worker.given))
            self._report(index, [data])
            self._start(worker.begins_first)


class Reports:
    """In a worker: what a test is reported to be, until it is sent."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.some = config, list[Any]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self.config.hook
        self.some.append(hook.pytest_report_to_serializable(config=self.config, report=report))

    def taken(self) -> list[Any]:
        some, self.some = self.some, []
        return some


def work(session: pytest.Session, pipe: Connection, name: str) -> NoReturn:
    """The life of a worker, which never returns to what its parent was about."""
    status = 1
    try:
        _be_alone(session.config, name)
        reports = Reports(session.config)
        session.config.pluginmanager.register(reports)
        for item, following in _pairs(session, pipe):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            pipe.send(reports.taken())
        status = 0
    except (EOFError, ConnectionError):  # the controller wants no more
        session._setupstate.teardown_exact(None)
    except BaseException:
        pipe.send(traceback.format_exc())
    finally:
        os._exit(status)


def _pairs(session: pytest.Session, pipe: Connection) -> Iterator[tuple[pytest.Item, Any]]:
    """(a test, the one after it or None) as they are given."""
    given: deque[int] = deque()
    at = None
    while True:
        if not given:
            pipe.send(None)
            given.extend(pipe.recv())
        following = session.items[given.popleft()] if given else None
        if at is not None:
            yield at, following
        if following is None:
            return
        at = following


def _be_alone(config: Any, name: str) -> None:
    """Share nothing with the other workers that a test could change: no file for what is printed,
    no folder for files, and nobody who writes to the terminal."""
    config.pluginmanager.unregister(name="terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    folders = config._tmp_path_factory
    folders._basetemp = Path(folders.getbasetemp()) / name
    folders._basetemp.mkdir(mode=0o700)
