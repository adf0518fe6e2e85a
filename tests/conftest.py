"""Fixtures and settings of all tests.

What `start_engine`, `start_server` and `start_server_process` start ends with the test. What has to
end before is started by a block: `run_engine`, `run_server`, `run_server_process`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from playground.engine.engine import Engine
from tests.engines import StartEngine, run_engine
from tests.in_process import LOOP, run_server
from tests.servers import (
    RunningServer,
    ServerProcess,
    StartServer,
    StartServerProcess,
    run_server_process,
)
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
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine on an empty database; its simulator answers at once."""
    async with run_engine(tmp_path) as engine:
        yield engine


@pytest.fixture
async def start_engine(tmp_path: Path) -> AsyncIterator[StartEngine]:
    """`await start_engine(pace=1, ...)`: an engine with other options than those of `engine`."""
    async with AsyncExitStack() as engines:

        async def start(**options: Any) -> Engine:
            return await engines.enter_async_context(run_engine(tmp_path, **options))

        yield start


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    """The environment of `server`. A module that needs keys in it has its own."""
    return {}


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, server_environment: dict[str, str]
) -> Iterator[RunningServer]:
    """The server that the tests of a module share, in a thread of this process."""
    db = tmp_path_factory.mktemp("server") / "a.db"
    with run_server(db, pace=0, **server_environment) as server:
        yield server


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """`start_server(pace=1, OPENAI_API_KEY="k")`: a server of the test's own, in a thread."""
    with ExitStack() as servers:

        def start(db: Path = tmp_path / "a.db", pace: float = 0, **changes: str) -> RunningServer:
            return servers.enter_context(run_server(db, pace, **changes))

        yield start


@pytest.fixture
def start_server_process(tmp_path: Path) -> Iterator[StartServerProcess]:
    """`start_server_process("--no-token", PLAYGROUND_PACE="0")`: a server in a process."""
    with ExitStack() as servers:

        def start(*words: str, db: Path = tmp_path / "a.db", **changes: str) -> ServerProcess:
            return servers.enter_context(run_server_process(db, *words, **changes))

        yield start


@pytest.fixture
def patient_mcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP servers have ten minutes to start: on a busy machine their own ten seconds are few. For
    tests that start real ones; another bound ends them."""
    for name in ("CONNECT_S", "LIST_S", "CHECK_S"):
        monkeypatch.setattr(f"playground.executors.mcp.executor.{name}", 600.0)
