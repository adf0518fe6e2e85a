"""What is kept are the bytes that were sent, and a database that was tampered with is found out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.core.events import ResponseFailed
from app.core.settings import PROTOCOLS, Profile
from app.engine.decoded_again import Difference
from app.engine.verifying import Verified, verify
from app.net.mask import SHORTEST
from app.store.database import Database, Statement
from tests.engine.boundary import Boundary
from tests.engine.running import ALLOW_ALL, KEY, begun, rested, running, until

pytestmark = pytest.mark.anyio

PROMPT = "What is 17 * 23?"


async def found_in(
    database: Database, *, mending: bool = False
) -> tuple[Verified, Sequence[Difference]]:
    found: list[Difference] = []
    return await verify(database, found.append, mending=mending), found


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_is_kept_is_what_was_sent(tmp_path: Path, protocol: str) -> None:
    """Streamed and not, run to the end, cut, refused with our own key in the answer, stopped."""
    boundary = Boundary()
    profile = Profile("sim", protocol, "sim:", model="m")  # type: ignore[arg-type]
    prompts = (PROMPT, f"[[fault:cut-bytes-200]] {PROMPT}", f"[[fault:http-401-echo-key]] {PROMPT}")
    async with running(tmp_path, boundary=boundary) as engine:
        ids: list[str] = []
        for stream in (True, False):
            for prompt in prompts:
                one = await begun(
                    engine,
                    ["calculator"],
                    rules=ALLOW_ALL,
                    profile=profile,
                    stream=stream,
                    max_retries=0,
                )
                ids.append(one)
                await engine.driver.prompt(one, prompt)
        for one in ids:
            await rested(engine, one)
            assert await boundary.wrongly_kept(engine, one) == []
        done, found = await found_in(engine.database)
        masked = {one: (await engine.log.recordings(one))[1] for one in ids}
    assert found == []
    assert (done.sessions, done.recordings, done.unhashed, done.unended) == (6, 8, 0, 0)
    assert [bool(masked[one].masked) for one in ids] == [False, False, True] * 2
    spans = [end - start for one in ids for start, end in masked[one].masked]
    assert spans == [len(KEY)] * 2
    assert len(KEY) >= SHORTEST


async def test_what_was_stopped_is_kept_up_to_there(tmp_path: Path) -> None:
    boundary = Boundary()
    async with running(tmp_path, boundary=boundary) as engine:
        one = await begun(engine)
        await engine.driver.prompt(one, "[[fault:pings-forever]] hello")
        async with asyncio.timeout(20):
            while not await engine.log.chunks(one):
                await engine.hub.wait(engine.hub.position, engine.hub.list_version, 0.05)
        await engine.driver.stop(one)
        await until(engine, one, ResponseFailed)
        session = await rested(engine, one)
        assert session.turns[-1].failure is not None
        assert session.turns[-1].failure.failure == "stopped"
        assert await boundary.wrongly_kept(engine, one, whole=False) == []
        assert (await found_in(engine.database))[1] == []


ONE = "WHERE session = (SELECT min(id) FROM sessions) AND"
TAMPERED: dict[str, tuple[str, str]] = {
    "a byte": (
        f"UPDATE chunks SET bytes = CAST(replace(bytes, 'id', 'ID') AS BLOB) {ONE} start = 0",
        "have SHA-256",
    ),
    "a missing piece": (f"DELETE FROM chunks {ONE} start = 0", "are missing"),
    "no bytes": (f"DELETE FROM chunks {ONE} recording = 1", "0 bytes have SHA-256"),
    "bytes of nobody": (f"UPDATE chunks SET recording = 9 {ONE} recording = 2", "does not know"),
    "a text": (
        f"UPDATE events SET body = replace(body, '23', '24') {ONE} kind = 'part_ended'",
        "but ",
    ),
    "a delta": (
        f"DELETE FROM events {ONE} kind = 'part_delta' AND recording = 2",
        "now, but part_end",
    ),
    "a span": (
        f"UPDATE events SET stop = stop + 1 {ONE} kind = 'response_ended'",
        "but from bytes",
    ),
    "a number": (
        "UPDATE events SET body = json_set(body, '$.usage.output_tokens', 12345)"
        f" {ONE} kind = 'response_ended'",
        "but {",
    ),
    "another end": (
        "UPDATE events SET kind = 'response_failed',"
        """ body = '{"failure": "error", "message": "no"}' """
        f"{ONE} kind = 'response_ended' AND recording = 2",
        "response_ended (bytes",
    ),
    "another protocol": (
        "UPDATE events SET body = json_set(body, '$.protocol', 'ollama')"
        f" {ONE} kind = 'request_sent'",
        "now, but ",
    ),
    "a mark": (f"UPDATE recordings SET masked = '[[2, 12]]' {ONE} number = 1", "marked as masked"),
    "no end": (f"DELETE FROM recordings {ONE} number = 1", "how its bytes ended"),
    "what nobody can read": (
        f"UPDATE events SET body = 'no JSON' {ONE} kind = 'prompt_added'",
        "cannot be read",
    ),
}


async def test_whatever_was_changed_is_found(tmp_path: Path) -> None:
    """Each change alone, undone after it; the other session stays whole."""
    async with running(tmp_path) as engine:
        for _ in range(2):
            one = await begun(engine, ["calculator"], rules=ALLOW_ALL)
            await engine.driver.prompt(one, PROMPT)
            await rested(engine, one)
        tables = ("events", "chunks", "recordings")
        keep = [Statement(f"CREATE TABLE kept_{o} AS SELECT * FROM {o}", [()]) for o in tables]
        await engine.database.write(keep)
        ids = sorted(row[0] for row in await engine.database.rows("SELECT id FROM sessions"))
        missed: dict[str, list[str]] = {}
        for name, (sql, words) in TAMPERED.items():
            await engine.database.write([Statement(sql, [()])])
            _, found = await found_in(engine.database)
            lines = [one.line for one in found]
            if not any(words in line for line in lines) or {o.session for o in found} - {ids[0]}:
                missed[name] = lines
            for table in tables:
                await engine.database.write(
                    [
                        Statement(f"DELETE FROM {table}", [()]),
                        Statement(f"INSERT INTO {table} SELECT * FROM kept_{table}", [()]),
                    ]
                )
        assert missed == {}, "\n".join(f"{name}: {lines}" for name, lines in missed.items())
        assert (await found_in(engine.database))[1] == []


async def test_the_list_and_the_search_are_built_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        one = await begun(engine, ["calculator"], rules=ALLOW_ALL)
        await engine.driver.prompt(one, PROMPT)
        await rested(engine, one)
        before = await engine.log.summary(one)
        spoiled = (
            "UPDATE sessions SET state = 'running', calls = 9, model = 'x', profile = 'y'",
            "DELETE FROM called",
            "INSERT INTO found (found) VALUES ('delete-all')",
        )
        await engine.database.write([Statement(sql, [()]) for sql in spoiled])
        done, _ = await found_in(engine.database)
        assert done.mended is None
        assert (await engine.log.summary(one)) != before
        done, found = await found_in(engine.database, mending=True)
        assert (done.mended, found) == (1, [])
        assert (await engine.log.summary(one)) == before
        rows = await engine.database.rows("SELECT tool FROM called")
        assert [row[0] for row in rows] == ["calculator"]
        hits = await engine.database.rows("SELECT count(*) FROM found WHERE found MATCH '391'")
        assert hits[0][0] > 0
        assert (await found_in(engine.database, mending=True))[0].mended == 0
