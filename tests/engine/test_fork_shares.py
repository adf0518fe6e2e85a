"""What a fork owes to its parent: the same recordings, the very bytes of what the model was told,
and nothing changed there; whatever the place, the protocol, and the state of the parent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from playground.core.decide import SendRequest, next_commands
from playground.core.events import RequestSent
from playground.core.reducer import fork_prefix, preview_fork
from playground.core.session import Session
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.fork import ForkPlace, fork
from playground.engine.sessions import _follow
from playground.engine.verify import Difference, verify
from playground.protocols.raw_json import JsonText
from playground.render.wire_rows import WireRows
from playground.store import log as logs
from playground.store.search import parse_query, search
from tests.databases import downgrade_database
from tests.engines import ALLOW_ALL, run_engine, run_prompt
from tests.tables import rest_slow
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

PROTOCOLS = (
    *("simulator", "simulator-openai", "simulator-responses", "simulator-gemini"),
    "simulator-ollama",
)
TWO = "What is the weather in Paris? And the weather in Rome?"
TABLES = ("events", "recordings", "chunks", "rules", "tags", "called", "shares")


def places(parent: Session) -> list[tuple[ForkPlace, str | None, DecisionRequest | None]]:
    """One of each kind: the place, the prompt and the decision that it is forked with."""
    first, _, third = [call.id for call in parent.calls()]
    return [
        (ForkPlace(prompt=2), "And the weather in Oslo?", None),
        (ForkPlace(prompt=1), "What is the weather in Oslo?", None),
        (ForkPlace(turn=1), None, None),
        (ForkPlace(turn=4), None, None),
        (ForkPlace(call=first), None, DecisionRequest("answer", text="Frogs.")),
        (ForkPlace(call=third), None, DecisionRequest("run", arguments='{"city": "Oslo"}')),
        (ForkPlace(seq=parent.turns[1].seq - 1), None, None),
        (ForkPlace(), "And the weather in Oslo?", None),
    ]


async def story(engine: Engine, profile: str) -> Session:
    """Two prompts, each with calls that ran and an answer to them; with thinking where there is."""
    params = {"thinking": "low"}
    first = await run_prompt(
        engine, TWO, "get_weather", asked_profile=profile, rules=ALLOW_ALL, params=params
    )
    await engine.runner.prompt(first.id, "What is the weather in Berlin?")
    session = await wait_while_running(engine, first.id)
    assert [len(turn.calls) for turn in session.turns] == [2, 0, 1, 0], "the story is another one"
    return session


async def bodies(engine: Engine, session_id: str) -> list[str]:
    log = await engine.log.events(session_id)
    return [logged.event.body for logged in log if isinstance(logged.event, RequestSent)]


def messages(body: str) -> list[str]:
    """The text of each message of a request, as it stands in its bytes."""
    quoted = JsonText(body)
    name = next(literal for literal in ("messages", "input", "contents") if quoted.member(literal))
    texts = (quoted.member(name, place) for place in itertools.count())
    return list(itertools.takewhile(bool, texts))


def begins_with(body: str, other: str) -> bool:
    """Whether the messages of `body` begin with the bytes of those of `other`; what follows the
    last of them may stand in the same message."""
    ours, theirs = ",".join(messages(body)), ",".join(messages(other))
    return ours.startswith(theirs.rstrip("}] \n"))


def in_common(body: str, other: str) -> int:
    """With how many of the same messages, byte for byte, both begin."""
    pairs = zip(messages(body), messages(other), strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


async def rows(engine: Engine, session_id: str) -> dict[str, list[Any]]:
    """All that the database has of a session."""
    columns = dict.fromkeys(TABLES, "session") | {"sessions": "id"}
    return {
        table: [
            tuple(row)
            for row in await engine.database.rows(
                f"SELECT * FROM {table} WHERE {column} = ?",
                (session_id,),
            )
        ]
        for table, column in columns.items()
    }


async def check(
    engine: Engine, parent_id: str, child_id: str, sent: Sequence[str], before: dict[str, list[Any]]
) -> None:
    """That the fork shares what was recorded, begins with the bytes, and left the parent alone."""
    assert await rows(engine, parent_id) == before
    child = await wait_while_running(engine, child_id)
    seq, forked = child.forks[-1]
    shared = sum(turn.seq < seq for turn in child.turns)
    own = {row[1] for row in (await rows(engine, child_id))["chunks"]}
    assert own == {turn.number for turn in child.turns[shared:]}
    theirs = [chunk for chunk in await engine.log.chunks(parent_id) if chunk.recording <= shared]
    assert [
        chunk for chunk in await engine.log.chunks(child_id) if chunk.recording <= shared
    ] == theirs
    parents = (await engine.log.events(parent_id))[: forked.parent_seq]
    assert (await engine.log.events(child_id))[: forked.parent_seq] == parents
    again = await bodies(engine, child_id)
    assert again[:shared] == sent[:shared]
    assert len(again) > shared, "the fork asked nothing of its own"
    if shared:
        assert begins_with(again[shared], sent[shared - 1])


async def check_each_event(engine: Engine, parent: Session, sent: Sequence[str]) -> None:
    """That a fork after any event asks what the parent asked next, where it asks."""
    log, asks = await engine.log.events_to_fold(parent.id), 0
    for seq in range(1, parent.seq + 1):
        result = fork_prefix(log, parent.id, seq)
        session = preview_fork(log, result, [result.fork_event()])
        assert result.seq <= seq
        for command in next_commands(session):
            if isinstance(command, SendRequest):
                body = engine.client.prepare(session, command.choice).sent.body
                assert body == sent[len(session.turns)], f"after event {seq}"
                asks += 1
    assert asks > 8


@pytest.mark.slow
@pytest.mark.parametrize("profile", rest_slow(PROTOCOLS))
async def test_whatever_the_place_the_bytes_go_on_and_the_parent_stays(
    profile: str, engine: Engine
) -> None:
    parent = await story(engine, profile)
    sent, before = await bodies(engine, parent.id), await rows(engine, parent.id)
    assert len(sent) == 4
    assert all(begins_with(*pair) for pair in zip(sent[1:], sent, strict=False))
    first, _, third = [call.id for call in parent.calls()]
    await check_each_event(engine, parent, sent)
    for place, text, decision in places(parent)[:: 1 if profile == PROTOCOLS[0] else 4]:
        child = await fork(engine, parent.id, place, text=text, asked=decision)
        await check(engine, parent.id, child, sent, before)
        again = await bodies(engine, child)
        match place:
            case ForkPlace(turn=number) if number:
                assert again[number - 1] == sent[number - 1]
            case ForkPlace(call=call) if call == first:  # the model's own turn, too, is as it was
                assert in_common(again[1], sent[1]) >= len(messages(sent[0])) + 1
                assert "Frogs." in again[1]
    # And a fork of a fork, which shares with both.
    answer = DecisionRequest("answer", text="Snow.")
    child = await fork(engine, parent.id, ForkPlace(call=third), asked=answer)
    await wait_while_running(engine, child)
    stored_data, outputs = await rows(engine, child), await bodies(engine, child)
    grandchild = await fork(engine, child, ForkPlace(turn=4))
    await check(engine, child, grandchild, outputs, stored_data)
    assert (await bodies(engine, grandchild))[3] == outputs[3]
    assert await rows(engine, parent.id) == before


async def test_a_fork_is_found_by_the_tools_that_were_called_before_its_place(
    tmp_path: Path,
) -> None:
    """And by no others; one that an earlier version wrote down with all of its parent's is put
    right when the database is opened."""
    async with run_engine(tmp_path) as engine:
        parent = await run_prompt(engine, "Weather in Paris?", "get_weather", rules=ALLOW_ALL)
        place = {"before": ForkPlace(prompt=1), "call": ForkPlace(turn=2), "end": ForkPlace()}
        forks = {
            name: await fork(engine, parent.id, at, go=False, text="Hi" if name != "call" else None)
            for name, at in place.items()
        }
        expected = {parent.id, forks["call"], forks["end"]}
        assert await search_calls(engine) == expected
        assert await differences(engine) == []
    statement = f"INSERT INTO called VALUES ('{forks['before']}', 'get_weather')"
    downgrade_database(tmp_path / "test.db", statement)
    async with run_engine(tmp_path) as engine:
        assert await search_calls(engine) == expected
        assert await differences(engine) == []


async def search_calls(engine: Engine) -> set[str]:
    """The sessions that a search for `tool:get_weather` finds."""
    search_result = await search(engine.database.path, parse_query("tool:get_weather"), 9)
    return {hit.session.id for hit in search_result.hits}


async def differences(engine: Engine) -> list[Difference]:
    differences: list[Difference] = []
    await verify(engine.database, differences.append)
    return differences


async def test_the_wire_is_read_in_portions_of_any_size(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    """Its rows are those of all bytes read at once, of a session and of its fork."""
    parent = await run_prompt(engine, TWO, "get_weather", rules=ALLOW_ALL)
    child_id = await fork(engine, parent.id, ForkPlace(), text="And the weather in Oslo?")
    await wait_while_running(engine, child_id)
    for session_id in (parent.id, child_id):
        wire_rows = WireRows()
        _follow(wire_rows, await engine.log.events(session_id), await engine.log.chunks(session_id))
        async with engine.sessions.lock_session(session_id) as live:
            for size in (1, 3, 4096):
                monkeypatch.setattr(logs, "PORTION", size)
                live.wire = None
                assert _note_rows(await engine.sessions.wire(live)) == _note_rows(wire_rows)


def _note_rows(wire: WireRows) -> list[Any]:
    """The rows but for the versions."""
    rows = [row for section in wire.sections for row in section.rows]
    return [(row.label, row.start, row.end, row.count, row.at_ms, row.blocks) for row in rows]
