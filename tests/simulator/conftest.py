"""The simulator served by uvicorn on a free port of loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.types import ASGIApp

from playground.simulator.app import simulator_app
from tests.loopback import LOOP, listening


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """`app` over real HTTP, in a thread of its own; the value is its base URL."""
    with (
        start_blocking_portal(backend_options=LOOP) as portal,
        portal.wrap_async_context_manager(listening(app)) as url,
    ):
        yield url


@pytest.fixture(scope="session")
def simulator() -> Iterator[str]:
    """The base URL of a simulator that takes no pauses."""
    with served(simulator_app(pace=0)) as url:
        yield url


@pytest.fixture
def serve() -> Iterator[Callable[[ASGIApp], str]]:
    """Serves further applications until the test is over."""
    open_ones = []

    def serve_one(app: ASGIApp) -> str:
        one = served(app)
        open_ones.append(one)
        return one.__enter__()

    yield serve_one
    for one in open_ones:
        one.__exit__(None, None, None)
