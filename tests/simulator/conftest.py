"""The simulator served by uvicorn on a free port of loopback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from starlette.types import ASGIApp

from app.commands.listening import bound, port_of, server
from app.simulator.app import simulator_app


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """`app` over real HTTP; the value is its base URL."""
    listener = bound("127.0.0.1", 0)
    one = server(app)
    thread = threading.Thread(target=one.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port_of(listener)}"
    finally:
        one.should_exit = True
        thread.join(5)
        listener.close()


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
