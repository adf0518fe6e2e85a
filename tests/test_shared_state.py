"""What a test leaves changed is named, and put back for the next one."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shared_state import SHARED, check, preserve_shared_state, shared_state


def change_environment() -> None:
    os.environ["LEFT"] = "it"
    del os.environ["PATH"]


def change_logs() -> None:
    log = logging.getLogger("tests.left_changed")
    log.addHandler(logging.StreamHandler())
    log.propagate = False


CHANGES: dict[str, Callable[[], object]] = {
    "umask": lambda: os.umask(0o027),
    "current folder": lambda: os.chdir("/"),
    "environment": change_environment,
    "sys.path": lambda: sys.path.append("/left"),
    "signal handlers": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "handlers of logs": change_logs,
    "garbage collection": gc.disable,
}


@pytest.mark.parametrize("name", SHARED)
def test_what_is_left_changed_is_named_and_put_back(name: str) -> None:
    before = shared_state()
    CHANGES[name]()
    with pytest.raises(
        pytest.fail.Exception, match=f"left changed what all tests share:\n{name}: "
    ):
        check(before)
    assert shared_state() == before
    check(before)


def test_only_what_differs_of_the_environment_is_told() -> None:
    before = shared_state()
    os.environ["LEFT"] = "it"
    output = r"environment: \{'LEFT': None\} became \{'LEFT': 'it'\}$"
    with pytest.raises(pytest.fail.Exception, match=output):
        check(before)


def test_a_folder_that_is_gone_is_left(tmp_path: Path) -> None:
    before, gone = shared_state(), tmp_path / "gone"
    with preserve_shared_state():
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()
    check(before)
