"""A server for the tests of a module, with a script and a browser that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.served import Reached
from tests.served_here import served_here


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    with served_here(tmp_path_factory.mktemp("server") / "a.db") as reached:
        yield reached


@pytest.fixture
async def script(server: Reached) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client


@pytest.fixture
async def page(server: Reached) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without script: the cookie, and forms."""
    async with server.page() as client:
        yield client
