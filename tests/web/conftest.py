"""A script and a browser that ask the `server` of the module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.servers import RunningServer


@pytest.fixture
async def script(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client


@pytest.fixture
async def page(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without script: the cookie, and forms."""
    async with server.page() as client:
        yield client
