"""Fixtures and settings of all tests."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.loopback import LOOP
from tests.shared_state import check, shared_state

# The servers that tests start use compiled files, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SLOW_TIMEOUT_S = 300
"""For tests marked `slow`, and for properties with many examples; `timeout` in pyproject.toml is
for all others. Both are far above what a test takes on a busy machine."""

# A few examples for every change; many with the slow tests.
QUICK, MANY = 12, 200
settings.register_profile("quick", max_examples=QUICK, deadline=None)
settings.register_profile("many", max_examples=MANY, deadline=None)
settings.load_profile("quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    many = settings().max_examples > QUICK
    for item in items:
        slow = many or item.get_closest_marker("slow") is not None
        if slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))


@pytest.fixture(autouse=True)
def unchanged_shared_state() -> Iterator[None]:
    """Fails a test that leaves changed what all tests of its process share."""
    before = shared_state()
    yield
    check(before)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of the program: uvloop where the extra `fast` is installed."""
    return "asyncio", LOOP


@pytest.fixture
def patient_mcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP servers have ten minutes to start: on a busy machine their own ten seconds are few. For
    tests that start real ones; another bound ends them."""
    for name in ("CONNECT_S", "LIST_S", "CHECK_S"):
        monkeypatch.setattr(f"playground.executors.mcp.executor.{name}", 600.0)
