"""What all tests of a process share. A test that leaves some of it changed fails by its own name,
and the next one finds it as it was: else another test would fail, in some orders only.

A change for as long as a test lasts is what `monkeypatch` and `patch.dict` are for; what else a
command typed into this process sets is put back by `preserve_shared_state`.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

State = dict[str, Any]

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Heard = tuple[tuple[logging.Handler, ...], bool, bool]
PLAIN: Heard = ((), True, False)

UNHEARD = "uvicorn.access"
"""Every server of the program silences it, and nothing reads it."""

Logs = dict[str, Heard]


class Shared(NamedTuple):
    """A part of the state: how it is read (as a value that does not change) and put back."""

    read: Callable[[], Any]
    put_back: Callable[[Any], object]


def _umask() -> int:
    before = os.umask(0o077)  # it can only be read by setting it: threads may make files meanwhile
    os.umask(before)
    return before


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _put_folder_back(stored_text: str) -> None:
    if stored_text:
        os.chdir(stored_text)


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in os.environ if name != "PYTEST_CURRENT_TEST"}


def _put_environment_back(stored_data: dict[str, str]) -> None:
    for name in _environment().keys() - stored_data.keys():
        del os.environ[name]
    os.environ.update(stored_data)


def _signals() -> list[Any]:
    return [signal.getsignal(number) for number in SIGNALS]


def _put_signals_back(stored_items: list[Any]) -> None:
    for number, does in zip(SIGNALS, stored_items, strict=True):
        signal.signal(number, does)


def _heard(log: logging.Logger) -> Heard:
    """Libraries give their logs a handler that does nothing, when they are first imported."""
    some = (handler for handler in log.handlers if not isinstance(handler, logging.NullHandler))
    return tuple(some), log.propagate, log.disabled


def _logs() -> Logs:
    """Who hears of what is logged: a stream of a test that is over takes nothing any more, and what
    goes to the root no longer is not captured. Levels are set by each server, and do no harm."""
    result = {"": _heard(logging.root)}
    for name, item in logging.Logger.manager.loggerDict.items():
        if isinstance(item, logging.Logger):
            heard = _heard(item)
            if heard != PLAIN and name != UNHEARD:
                result[name] = heard
    return result


def _put_logs_back(stored_data: Logs) -> None:
    for name in {**stored_data, **_logs()}:
        logger = logging.getLogger(name)
        handlers, logger.propagate, logger.disabled = stored_data.get(name, PLAIN)
        logger.handlers[:] = handlers


def _garbage() -> tuple[bool, tuple[int, int, int]]:
    return gc.isenabled(), gc.get_threshold()


def _put_garbage_back(stored: tuple[bool, tuple[int, int, int]]) -> None:
    (gc.enable if stored[0] else gc.disable)()
    gc.set_threshold(*stored[1])


def _put_path_back(stored_texts: list[str]) -> None:
    sys.path[:] = stored_texts


SHARED = {
    "umask": Shared(_umask, os.umask),
    "current folder": Shared(_folder, _put_folder_back),
    "environment": Shared(_environment, _put_environment_back),
    "sys.path": Shared(lambda: list(sys.path), _put_path_back),
    "signal handlers": Shared(_signals, _put_signals_back),
    "handlers of logs": Shared(_logs, _put_logs_back),
    "garbage collection": Shared(_garbage, _put_garbage_back),
}


def shared_state() -> State:
    """All of it as it is now."""
    return {name: row.read() for name, row in SHARED.items()}


def put_back(before: State) -> list[str]:
    """Make it what it was; what was another, as sentences."""
    changed = []
    for name, row in SHARED.items():
        now = row.read()
        if now != before[name]:
            row.put_back(before[name])
            changed.append(f"{name}: {_difference(before[name], now)}")
    return changed


def check(before: State) -> None:
    """Fails where it is not what it was, and puts it back."""
    if changed := put_back(before):
        words = "\n".join(changed)
        pytest.fail(f"The test left changed what all tests share:\n{words}", pytrace=False)


@contextmanager
def preserve_shared_state() -> Iterator[None]:
    """For what may change it as a process of its own may: it is put back, and no test fails."""
    before = shared_state()
    try:
        yield
    finally:
        put_back(before)


def _difference(before: Any, now: Any) -> str:
    if isinstance(before, dict):
        names = sorted(name for name in {**before, **now} if before.get(name) != now.get(name))
        before, now = ({name: data.get(name) for name in names} for data in (before, now))
    return f"{before!r} became {now!r}"
