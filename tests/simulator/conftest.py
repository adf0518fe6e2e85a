"""The simulator served by uvicorn on a free port of loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from starlette.types import ASGIApp

from playground.simulator.app import simulator_app
from tests.in_process import serve_in_thread


@pytest.fixture(scope="session")
def simulator() -> Iterator[str]:
    """The base URL of a simulator that takes no pauses."""
    with serve_in_thread(simulator_app(pace=0)) as url:
        yield url


@pytest.fixture
def serve() -> Iterator[Callable[[ASGIApp], str]]:
    """Serves further applications until the test is over."""
    with ExitStack() as servers:
        yield lambda app: servers.enter_context(serve_in_thread(app))
