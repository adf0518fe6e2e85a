"""Opening takes the database, and whatever breaks while it is opened lets it go."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.engine.engine import Engine
from playground.store.library import Library
from playground.store.log import Log

pytestmark = pytest.mark.anyio


async def opened(path: Path) -> Engine:
    return await Engine.open(path, simulator_url=lambda: "", simulator_key="k", environment={})


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (Log, "open"),
        (Library, "confirmations"),
        (Library, "profiles"),
        (Log, "unfinished_sessions"),  # what recovery asks first
        (Engine, "__init__"),
    ],
)
async def test_a_failed_start_lets_the_database_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, name: str
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken on purpose")

    before = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(where, name, broken)
        with anyio.fail_after(20), pytest.raises(RuntimeError, match="on purpose"):
            await opened(tmp_path / "a.db")
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive(), thread.name  # it would keep the program from ending
    with anyio.fail_after(20):
        await (await opened(tmp_path / "a.db")).close()
