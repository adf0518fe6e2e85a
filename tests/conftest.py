"""What every test may use, and the time that every test may take."""

import gc
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from tests.bounded import within
from tests.loopback import LOOP
from tests.shared_state import State, check, shared_state
from tests.workers import pytest_addoption as pytest_addoption
from tests.workers import pytest_runtestloop as pytest_runtestloop

# Compiled once for all workers and all the servers they start, whatever the environment says:
# compiling again costs each of them seconds.
sys.dont_write_bytecode = False
# A twentieth of the time would go into looking for cycles among what stays to the end.
gc.set_threshold(20_000, 20, 20)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

LIMIT_S = 60.0
"""For each of setup, call and teardown, on a machine that is busy with other work."""
SLOW_LIMIT_S = 300.0

# A few examples for every change; many with the slow tests.
MANY = 100
settings.register_profile("quick", max_examples=12, deadline=None)
settings.register_profile("many", max_examples=2 * MANY, deadline=None)
settings.load_profile("quick")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that the program takes: uvloop where the extra `fast` is installed."""
    return "asyncio", LOOP


@pytest.fixture
def patient_mcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """No MCP server is given up, however busy the machine is: who waits for one fails by another
    bound. For all that start real ones: ten seconds to start are few beside other work."""
    for name in ("CONNECT_S", "LIST_S", "CHECK_S"):
        monkeypatch.setattr(f"playground.executors.mcp.executor.{name}", 600.0)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: a tenth of the time would go into looking it through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


FOUND = pytest.StashKey[State]()


def bound_of(item: pytest.Item) -> float:
    slow = item.get_closest_marker("slow") or settings().max_examples > MANY
    return SLOW_LIMIT_S if slow else LIMIT_S


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    if FOUND not in item.session.stash:
        item.session.stash[FOUND] = shared_state()
    with within(bound_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with within(bound_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """What all tests share is looked at once for each test: a tenth of a millisecond."""
    with within(bound_of(item)):
        try:
            return (yield)
        finally:
            check(item.session.stash[FOUND])
