"""What is kept are the bytes that were sent, and a database that was tampered with is found out."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from playground.core.events import ResponseFailed
from playground.core.settings import PROTOCOLS, Profile
from playground.engine.engine import Engine
from playground.engine.verify import SEARCH, Difference, VerifyReport, verify
from playground.secrets.redaction import SHORTEST
from playground.store.database import Database, Statement
from playground.store.maintenance import REBUILD
from tests.engine.boundary import Boundary
from tests.engines import ALLOW_ALL, KEY, StartEngine, create_session, run_engine
from tests.tables import rest_slow
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

PROMPT = "What is 17 * 23?"

FIRST = "(SELECT min(id) FROM sessions)"
ONE = f"WHERE session = {FIRST} AND"
TAMPERED: dict[str, tuple[str, str]] = {
    "a byte": (
        f"UPDATE chunks SET bytes = CAST(replace(bytes, 'id', 'ID') AS BLOB) {ONE} start = 0",
        "have SHA-256",
    ),
    "a missing piece": (f"DELETE FROM chunks {ONE} start = 0", "are missing"),
    "no bytes": (f"DELETE FROM chunks {ONE} recording = 1", "0 bytes have SHA-256"),
    "bytes of nobody": (f"UPDATE chunks SET recording = 9 {ONE} recording = 2", "not in the log"),
    "a text": (
        f"UPDATE events SET body = replace(body, '23', '24') {ONE} kind = 'part_ended'",
        "but ",
    ),
    "a delta": (
        f"DELETE FROM events {ONE} kind LIKE 'part_delta%' AND recording = 2",
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
    "no end": (f"DELETE FROM recordings {ONE} number = 1", "the end of its bytes"),
    "what nobody can read": (
        f"UPDATE events SET body = 'no JSON' {ONE} kind = 'prompt_added'",
        "cannot be read",
    ),
    "a prompt that is gone": (f"DELETE FROM events {ONE} kind = 'prompt_added'", "2 is missing"),
    "an end of a call that is gone": (f"DELETE FROM events {ONE} kind = 'call_ended'", "missing"),
    "all events gone": (f"DELETE FROM events {ONE} 1", "all of its events are missing"),
    "the last event gone": (
        f"DELETE FROM events {ONE} seq = (SELECT max(seq) FROM events {ONE} 1)",
        "the list has state",
    ),
    "a piece that is a text": (
        f"UPDATE chunks SET bytes = CAST(bytes AS TEXT) {ONE} start = 0",
        "not bytes",
    ),
    "a mark that is not JSON": (
        f"UPDATE recordings SET masked = '[[' {ONE} number = 1",
        "cannot be checked: JSONDecodeError",
    ),
    "a state": (f"UPDATE sessions SET state = 'failed' WHERE id = {FIRST}", 'has state "failed"'),
    "a number of calls": (f"UPDATE sessions SET calls = 99 WHERE id = {FIRST}", "calls 99, but"),
    "a row of the list": (f"DELETE FROM sessions WHERE id = {FIRST}", "not in the list"),
    "a tool that was not called": (f"INSERT INTO called VALUES ({FIRST}, 'no')", 'call of "no"'),
    "a tool that was called": (f"DELETE FROM called {ONE} 1", 'call of "calculator"'),
    "a text nobody said": (
        "INSERT INTO found (rowid, text) VALUES (9999, 'ghost')",
        "to no session",
    ),
    "a text not found": ("INSERT INTO found (found) VALUES ('delete-all')", "not in the index"),
}


async def found_in(
    database: Database, *, mending: bool = False
) -> tuple[VerifyReport, Sequence[Difference]]:
    differences: list[Difference] = []
    return await verify(database, differences.append, mending=mending), differences


@pytest.mark.parametrize("protocol", rest_slow(PROTOCOLS))
async def test_what_is_kept_is_what_was_sent(tmp_path: Path, protocol: str) -> None:
    """Streamed and not, run to the end, cut, refused with our own key in the answer, stopped."""
    boundary = Boundary()
    profile = Profile("sim", protocol, "sim:", model="m")  # type: ignore[arg-type]
    prompts = (PROMPT, f"[[fault:cut-bytes-200]] {PROMPT}", f"[[fault:http-401-echo-key]] {PROMPT}")
    async with run_engine(tmp_path, boundary=boundary) as engine:
        ids: list[str] = []
        for stream in (True, False):
            for prompt in prompts:
                item_id = await create_session(
                    engine,
                    ["calculator"],
                    rules=ALLOW_ALL,
                    profile=profile,
                    stream=stream,
                    max_retries=0,
                )
                ids.append(item_id)
                await engine.runner.prompt(item_id, prompt)
        for item_id in ids:
            await wait_while_running(engine, item_id)
            assert await boundary.wrongly_kept(engine, item_id) == []
        done, differences = await found_in(engine.database)
        masked = {item_id: (await engine.log.recordings(item_id))[1] for item_id in ids}
    assert differences == []
    assert (done.sessions, done.recordings, done.unhashed, done.unended) == (6, 8, 0, 0)
    assert [bool(masked[item_id].masked) for item_id in ids] == [False, False, True] * 2
    spans = [end - start for item_id in ids for start, end in masked[item_id].masked]
    assert spans == [len(KEY)] * 2
    assert len(KEY) >= SHORTEST


async def test_what_was_stopped_is_kept_up_to_there(start_engine: StartEngine) -> None:
    boundary = Boundary()
    engine = await start_engine(boundary=boundary)
    text = await create_session(engine)
    await engine.runner.prompt(text, "[[fault:pings-forever]] hello")
    async with asyncio.timeout(20):
        while not await engine.log.chunks(text):
            await engine.sessions.wait(engine.sessions.position, engine.sessions.list_version, 0.05)
    await engine.runner.stop(text)
    await wait_for_event(engine, text, ResponseFailed)
    session = await wait_while_running(engine, text)
    assert session.turns[-1].failure is not None
    assert session.turns[-1].failure.failure == "stopped"
    assert await boundary.wrongly_kept(engine, text, is_complete=False) == []
    assert (await found_in(engine.database))[1] == []


def execute_sql(path: Path, *sql: str) -> None:
    """By a connection of its own, which keeps no foreign keys."""
    with closing(sqlite3.connect(path)) as connection:
        for text in sql:
            connection.execute(text)
        connection.commit()


async def test_whatever_was_changed_is_found(engine: Engine) -> None:
    """Each change alone, undone after it; the other session stays whole."""
    for _ in range(2):
        text = await create_session(engine, ["calculator"], rules=ALLOW_ALL)
        await engine.runner.prompt(text, PROMPT)
        await wait_while_running(engine, text)
    tables, path = (
        ("sessions", "events", "chunks", "recordings", "called"),
        engine.database.path,
    )
    execute_sql(path, *(f"CREATE TABLE kept_{o} AS SELECT * FROM {o}" for o in tables))
    again = [f"INSERT INTO {o} SELECT * FROM kept_{o}" for o in tables]
    again += [statement.sql for statement in REBUILD]
    ids = sorted(row[0] for row in await engine.database.rows("SELECT id FROM sessions"))
    missed: dict[str, list[str]] = {}
    for name, (sql, words) in TAMPERED.items():
        execute_sql(path, sql)
        done, differences = await found_in(engine.database)
        lines = [difference.line for difference in differences]
        others = {difference.session for difference in differences} - {ids[0], SEARCH}
        if not any(words in line for line in lines) or others or done.sessions != 2:
            missed[name] = lines
        execute_sql(path, *(f"DELETE FROM {o}" for o in tables), *again)
    assert missed == {}, "\n".join(f"{name}: {lines}" for name, lines in missed.items())
    assert (await found_in(engine.database, mending=True))[1] == []


async def test_wording_of_an_older_version_is_no_difference(engine: Engine) -> None:
    reworded = "UPDATE events SET body = json_set(body, '$.message', 'Worded otherwise.')"
    recoded = "UPDATE events SET body = json_set(body, '$.code', 'another') WHERE kind = 'warned'"
    for prompt in ("[[fault:utf8-invalid]] hello", "[[fault:error-mid]] hello"):
        session_id = await create_session(engine)
        await engine.runner.prompt(session_id, prompt)
        await wait_while_running(engine, session_id)
    path = engine.database.path
    execute_sql(path, f"{reworded} WHERE kind IN ('warned', 'response_failed')")
    kinds = await engine.database.rows(
        "SELECT DISTINCT kind FROM events WHERE body LIKE '%Worded otherwise.%' ORDER BY kind"
    )
    assert [kind for (kind,) in kinds] == ["response_failed", "warned"]
    assert (await found_in(engine.database))[1] == []
    execute_sql(path, recoded)
    assert any("code is" in problem.line for problem in (await found_in(engine.database))[1])


async def test_a_request_whose_bytes_changed_is_found(engine: Engine) -> None:
    text = await create_session(engine, system="Be brief. " * 300)
    await engine.runner.prompt(text, "hello")
    await wait_while_running(engine, text)
    assert (await found_in(engine.database))[1] == []
    changed = "UPDATE slices SET bytes = CAST(replace(bytes, 'brief', 'grand') AS BLOB)"
    execute_sql(engine.database.path, f"{changed} WHERE nth > 4")
    lines = [difference.line for difference in (await found_in(engine.database))[1]]
    assert lines
    assert all("of its requests differs from the bytes that were sent" in line for line in lines)


async def test_the_list_and_the_search_are_built_anew(engine: Engine) -> None:
    text = await create_session(engine, ["calculator"], rules=ALLOW_ALL)
    await engine.runner.prompt(text, PROMPT)
    await wait_while_running(engine, text)
    before = await engine.log.summary(text)
    ((texts,),) = await engine.database.rows("SELECT count(*) FROM texts")
    spoiled = (
        "UPDATE sessions SET state = 'running', calls = 9, model = 'x', profile = 'y'",
        "DELETE FROM called",
        "INSERT INTO found (found) VALUES ('delete-all')",
    )
    await engine.database.write([Statement(sql, [()]) for sql in spoiled])
    done, _ = await found_in(engine.database)
    assert done.mended is None
    assert (await engine.log.summary(text)) != before
    done, differences = await found_in(engine.database, mending=True)
    assert (done.mended, done.differences) == (1, len(differences))
    assert [
        difference.line for difference in differences if "the list has" not in difference.says
    ] == [
        f'{text}:0: the call of "calculator" is not in the search index',
        f"{SEARCH}:0: {texts} texts are not in the index",
    ]
    assert (await engine.log.summary(text)) == before
    rows = await engine.database.rows("SELECT tool FROM called")
    assert [row[0] for row in rows] == ["calculator"]
    hits = await engine.database.rows("SELECT count(*) FROM found WHERE found MATCH '391'")
    assert hits[0][0] > 0
    assert (await found_in(engine.database, mending=True))[0].mended == 0


async def test_what_nobody_can_read_does_not_keep_the_rest_from_being_put_right(
    engine: Engine,
) -> None:
    for _ in range(2):
        text = await create_session(engine)
        await engine.runner.prompt(text, "hello")
        await wait_while_running(engine, text)
    ids = sorted(row[0] for row in await engine.database.rows("SELECT id FROM sessions"))
    spoiled = (
        TAMPERED["what nobody can read"][0],
        f"UPDATE sessions SET state = 'failed' WHERE id != {FIRST}",
    )
    await engine.database.write([Statement(sql, [()]) for sql in spoiled])
    done, differences = await found_in(engine.database, mending=True)
    assert (done.sessions, done.mended) == (2, 1)
    assert "the index could not be rebuilt" in differences[-1].line
    restored = await engine.log.summary(ids[1])
    assert restored is not None
    assert restored.state == "idle"


async def test_a_row_that_is_older_than_the_last_deltas_is_no_difference(engine: Engine) -> None:
    """A server writes the row with the next event that is no delta; meanwhile nothing is wrong."""
    text = await create_session(engine)
    await engine.runner.prompt(text, "hello")
    await wait_while_running(engine, text)
    last = "(SELECT max(seq) FROM events WHERE kind LIKE 'part_delta%')"
    cut = f"DELETE FROM events WHERE seq > {last}"
    path = engine.database.path
    same = "UPDATE events SET at_ms = 1000"  # however long the answer took
    execute_sql(path, cut, same, *(statement.sql for statement in REBUILD))
    await found_in(engine.database, mending=True)  # the list's row is right now
    later = f"UPDATE events SET at_ms = at_ms + 9 WHERE seq = {last}"
    execute_sql(path, later)
    assert not [o.line for o in (await found_in(engine.database))[1] if "the list" in o.says]
    execute_sql(path, later.replace("LIKE 'part_delta%'", "NOT LIKE 'part_delta%'"))
    assert [o.line for o in (await found_in(engine.database))[1] if "updated_ms" in o.says]
