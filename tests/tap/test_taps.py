"""Taps: a secret is shown once and written nowhere, a revoked one is refused, all else is kept."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import BadInput, Conflict, NotFound
from playground.engine.engine import Engine
from playground.tap.taps import MOST_OTHERS, MOST_TITLE, STOPS, Activity, Taps, without_key
from tests.engines import run_engine

pytestmark = pytest.mark.anyio


def taps_of(engine: Engine) -> Taps:
    """The taps of an engine; their clock counts from 1, their ids from t1."""
    clock, ids = count(1), count(1)
    return Taps(
        engine.library, engine.keys, engine.profile, lambda: next(clock), lambda: f"t{next(ids)}"
    )


def bytes_beside(database: Path) -> bytes:
    """All that the database consists of: the file, its write-ahead log, what is beside it."""
    return b"".join(file.read_bytes() for file in database.parent.iterdir() if file.is_file())


async def test_a_secret_is_found_after_a_restart_and_written_nowhere(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        taps = taps_of(engine)
        tap, secret = await taps.create("simulator", "My  agent", "calls", "claude")
        assert (len(secret), await taps.find(secret)) == (43, tap)
        assert (tap.title, tap.upstream, tap.stop_at) == ("My agent", "simulator", "calls")
        assert (tap.agent, tap.revoked_ms) == ("claude", None)
        assert await taps.find(secret[:-1]) is None
        assert await taps.find("\udcff") is None
        assert secret not in repr(taps.__dict__)
        assert engine.keys.redactor().redact_text(f"GET /tap/{secret}/openai") == (
            f"GET /tap/{'*' * 43}/openai"
        )
    assert tap.id.encode() in bytes_beside(tmp_path / "test.db")
    assert secret.encode() not in bytes_beside(tmp_path / "test.db")
    async with run_engine(tmp_path) as engine:
        taps = taps_of(engine)
        assert secret in engine.keys.redactor().redact_text(secret)  # not known yet
        assert await taps.find(secret) == tap
        assert secret not in engine.keys.redactor().redact_text(secret)
        assert await taps.list_taps() == [tap]


async def test_a_revoked_tap_is_refused_and_stays_so(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        taps = taps_of(engine)
        tap, secret = await taps.create()
        other, other_secret = await taps.create()
        revoked = await taps.revoke(tap.id)
        assert revoked.revoked_ms is not None
        assert await taps.revoke(tap.id) == revoked
        assert await taps.find(secret) is None
        assert await taps.find(other_secret) == other
        assert await taps.list_taps() == [other, revoked]
        with pytest.raises(Conflict):
            await taps.set_stop_at(tap.id, "calls")
    async with run_engine(tmp_path) as engine:
        taps = taps_of(engine)
        assert await taps.find(secret) is None
        assert await taps.list_taps() == [other, revoked]


async def test_a_tap_is_revoked_where_that_cannot_be_saved(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    taps = taps_of(engine)
    tap, secret = await taps.create()

    async def broken(*_: object) -> None:
        raise OSError("The disk is full.")

    monkeypatch.setattr(engine.library, "save_tap", broken)
    with pytest.raises(OSError, match="full"):
        await taps.revoke(tap.id)
    assert await taps.find(secret) is None


async def test_where_a_tap_stops_is_kept(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        taps = taps_of(engine)
        tap, secret = await taps.create()
        for stop in STOPS:
            assert (await taps.set_stop_at(tap.id, stop)).stop_at == stop
            assert await taps.find(secret) == await taps.get(tap.id)
        with pytest.raises(BadInput, match="nothing, unruled, calls, results, errors"):
            await taps.set_stop_at(tap.id, "everything")
        with pytest.raises(NotFound):
            await taps.set_stop_at("t9", "nothing")
    async with run_engine(tmp_path) as engine:
        assert (await taps_of(engine).get(tap.id)).stop_at == STOPS[-1]


@pytest.mark.parametrize(
    ("tap_fields", "error", "words"),
    [
        ({"upstream": "nobody"}, NotFound, "nobody"),
        ({"upstream": "azure"}, BadInput, "has no address yet"),
        ({"title": "x" * (MOST_TITLE + 1)}, BadInput, "title"),
        ({"agent": "x" * (MOST_TITLE + 1)}, BadInput, "agent"),
        ({"stop_at": "everything"}, BadInput, "stop_at"),
    ],
)
async def test_what_cannot_be_a_tap_makes_none(
    tmp_path_factory: pytest.TempPathFactory, tap_fields: dict[str, Any], error: Any, words: str
) -> None:
    async with run_engine(tmp_path_factory.mktemp("taps")) as engine:
        taps = taps_of(engine)
        with pytest.raises(error, match=words):
            await taps.create(**tap_fields)
        assert await taps.list_taps() == []


async def test_what_passes_through_is_counted_and_the_last_of_it_remembered(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        taps = taps_of(engine)
        tap, secret = await taps.create()
        assert taps.activity(tap.id) == Activity(since_start=True)
        for at_ms in range(MOST_OTHERS + 5):
            taps.note(tap.id, at_ms)
            taps.note_other(tap.id, "GET", f"/v1/{secret}".encode(), 404, at_ms)
        activity = taps.activity(tap.id)
        assert (activity.requests, activity.last_ms) == (MOST_OTHERS + 5, MOST_OTHERS + 4)
        assert [other.at_ms for other in activity.others] == list(range(5, MOST_OTHERS + 5))
        assert {other.path for other in activity.others} == {"/v1/" + "*" * 43}
    async with run_engine(tmp_path) as engine:
        assert taps_of(engine).activity(tap.id) == Activity()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/v1/models", "/v1/models"),
        (b"/v1/messages?beta=true", "/v1/messages?beta=true"),
        (b"/m:stream?alt=sse&key=AIza-1", "/m:stream?alt=sse&key=***"),
        (b"/m?%6Bey=AIza-1&alt", "/m?%6Bey=***&alt"),
        (b"/m?api_key=one&key=", "/m?api_key=***&key="),
        (b"/caf\xe9%2F", "/caf\xe9%2F"),
    ],
)
def test_a_path_is_shown_without_its_key(target: bytes, expected: str) -> None:
    assert without_key(target) == expected
