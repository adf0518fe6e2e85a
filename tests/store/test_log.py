"""Events, recordings and the list as rows, there and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from playground.core.errors import StoreError
from playground.core.events import (
    CallDecided,
    CallEnded,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    ResponseFailed,
    Source,
)
from playground.core.reducer import fold
from playground.core.session import session_data
from playground.core.tools import text_result
from playground.store.database import Statement
from playground.store.log import Log
from playground.store.writes import Chunk, ClosedRecording, Summary, WriteBatch
from tests import factories
from tests.playbook import call, call_checked, failed, number_events, part, run, start_events, turn
from tests.store.test_database import opened

pytestmark = pytest.mark.anyio

CLOSED = ClosedRecording(1, True, [(2, 5)], "ab" * 32)

EVENTS = number_events(
    *start_events(),
    *turn(1, part(0, "thinking", "hm"), call(1)),
    call_checked("1.1"),
    run("1.1"),
)


def summary(session: str, at_ms: int = 1, title: str = "") -> Summary:
    return Summary(
        session,
        title=title,
        created_ms=at_ms,
        updated_ms=at_ms,
        state="idle",
        model="m",
        calls=0,
        waiting=0,
    )


async def test_there_and_back(tmp_path: Path) -> None:
    events = [Logged(e.seq, e.at_ms, e.event, Source(1, e.seq, e.seq + 2)) for e in EVENTS]
    chunks = [Chunk(1, 0, 5, b"ab"), Chunk(1, 2, 6, bytes(range(256))), Chunk(2, 0, 7, b"")]
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(WriteBatch("s", events, chunks, CLOSED, summary("s"), full=True))
        assert log.position == len(events)
        assert await log.events("s") == events
        assert await log.events("s", 3) == events[3:]
        assert await log.events("s", 3, limit=2) == events[3:5]
        assert await log.events("nobody") == []
        assert await log.chunks("s") == chunks
        assert await log.recordings("s") == {1: CLOSED}
        assert await log.chunks("s", 1) == chunks[:2]
        assert (await Log.open(database)).position == len(events)
        for loggeds in (await log.events("s", deltas=False), await log.events_to_fold("s")):
            assert not any(isinstance(item.event, PartDelta) for item in loggeds)
            assert session_data(fold("s", loggeds)) == session_data(fold("s", events))


async def test_an_open_answer_keeps_its_deltas(tmp_path: Path) -> None:
    events = number_events(*start_events(), *turn(1, part(0)), *failed(2, part(0))[:4])
    assert not any(isinstance(event.event, ResponseFailed) for event in events)
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(WriteBatch("s", events, summary=summary("s")))
        opening = await log.events_to_fold("s")
        assert sum(isinstance(logged.event, PartDelta) for logged in opening) == 1
        assert fold("s", opening).turns[1].text == fold("s", events).turns[1].text == "hi"


async def test_the_list_is_newest_first_and_searched_by_words_as_they_are(tmp_path: Path) -> None:
    titles = ["100% sure", "100 sure", "a_b", "axb", "back\\slash", ""]
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        for place, title in enumerate(titles):
            await log.append(WriteBatch(str(place), summary=summary(str(place), place, title)))
        assert [summary.title for summary in await log.summaries()] == titles[::-1]
        for search, matches in (("100%", ["100% sure"]), ("a_b", ["a_b"]), ("\\", ["back\\slash"])):
            assert [summary.title for summary in await log.summaries(search)] == matches
        assert await log.summaries("' OR 1=1 --") == []
        assert await log.summaries("\ud800") == []
        await log.mark_deleted("0", 9)
        assert "100% sure" not in [summary.title for summary in await log.summaries()]
        assert [summary.title for summary in await log.summaries(deleted=True)] == ["100% sure"]
        await log.mark_deleted("0", None)
        await log.rename("5", "named")
        await log.append(WriteBatch("5", summary=summary("5", 99, "from the prompt")))
        assert (await log.summaries(limit=1))[0].title == "named"
        assert await log.summary("nobody") is None


@pytest.mark.parametrize("body", ["{", "[]", "7", '{"texts": 1}', '{"text": 1, "more": 2}'])
async def test_a_row_that_cannot_be_read_is_an_error_with_a_sentence(
    tmp_path: Path, body: str
) -> None:
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(WriteBatch("s", EVENTS, summary=summary("s")))
        await database.write([Statement("UPDATE events SET body = ? WHERE seq = 2", [(body,)])])
        with pytest.raises(StoreError, match="seq 2"):
            await log.events("s")


async def test_past_calls_of_a_tool_newest_first(tmp_path: Path) -> None:
    written = [PartEnded(0, f'{{"n": {number}.10}}', "add") for number in range(3)]
    others = [PartEnded(1, "{}", "other"), PartEnded(2, "hello")]
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(
            WriteBatch("s", number_events(*written, *others), summary=summary("s", title="Sums"))
        )
        await log.append(WriteBatch("t", number_events(written[0]), summary=summary("t")))
        await log.mark_deleted("t", 1)
        past = await log.past_calls("add", limit=2)
        assert [(past_call.session, past_call.title, past_call.seq) for past_call in past] == [
            ("s", "Sums", 3),
            ("s", "Sums", 2),
        ]
        assert past[0].arguments == '{"n": 2.10}'
        assert await log.past_calls("%") == []


async def test_past_results_of_a_tool_those_of_this_session_first(tmp_path: Path) -> None:
    def run_events(city: str, name: str = "get_weather", edited: str | None = None) -> list[Logged]:
        log = factories.Log().start().prompt().request()
        log.call(0, "look", {}).call(1, name, {"city": city}).end().check("1.0").check("1.1")
        log.run("1.0", "never")
        decided = CallDecided("1.1", "run", arguments=edited)
        return log.run("1.1", f"in {city}", arguments=decided.arguments).events

    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        for session, city, edited in (
            ("here", "Rome", None),
            ("old", "Oslo", None),
            ("gone", "Bonn", None),
            ("new", "Kyoto", '{"city": "Kobe"}'),
        ):
            events = run_events(city, edited=edited)
            await log.append(WriteBatch(session, events, summary=summary(session, title=city)))
        await log.append(
            WriteBatch("other", run_events("Paris", "other"), summary=summary("other"))
        )
        open_ = factories.Log().start().prompt().request().call(0, "get_weather", {}).end()
        await log.append(WriteBatch("open", open_.events, summary=summary("open")))
        denied = factories.Log().start().prompt().request().call(0, "get_weather", {}).end()
        refusal = text_result("No.", is_error=True, kind="denied")
        denied.add(CallDecided("1.0", "deny"), CallEnded("1.0", refusal))
        await log.append(WriteBatch("denied", denied.events, summary=summary("denied")))
        await log.mark_deleted("gone", 1)
        past = await log.past_results("get_weather", "here")
        assert [
            (past_result.session, past_result.title, past_result.call_id) for past_result in past
        ] == [
            ("here", "Rome", "1.1"),
            ("new", "Kyoto", "1.1"),
            ("old", "Oslo", "1.1"),
        ]
        assert [past_result.arguments for past_result in past] == [
            '{"city": "Rome"}',
            '{"city": "Kobe"}',
            '{"city": "Oslo"}',
        ]
        assert "in Kyoto" in past[1].result
        (event,) = await log.events("new", past[1].seq - 1, limit=1)
        assert event.at_ms == past[1].at_ms
        assert len(await log.past_results("get_weather", "here", limit=1)) == 1


async def test_what_a_person_denied_of_a_tool_newest_first(tmp_path: Path) -> None:
    def decided_events(city: str, decided: CallDecided, name: str = "get_weather") -> list[Logged]:
        log = factories.Log().start().prompt().request()
        log.call(0, "get_weather", {"city": "never"}).call(1, name, {"city": city}).end()
        return log.check("1.1").add(decided).events

    deny = CallDecided("1.1", "deny")
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        for session, events in (
            ("old", decided_events("Oslo", deny)),
            ("ran", decided_events("Rome", CallDecided("1.1", "run"))),
            ("rule", decided_events("Bonn", CallDecided("1.1", "deny", "rule", "no"))),
            ("other", decided_events("Paris", deny, "other")),
            ("half", decided_events("Riga", deny, "half \ud800")),
            ("gone", decided_events("Kyoto", deny)),
        ):
            await log.append(WriteBatch(session, events, summary=summary(session)))
        await log.mark_deleted("gone", 1)  # what was denied there stays denied
        assert await log.denied_calls("get_weather", limit=9) == [
            '{"city": "Kyoto"}',
            '{"city": "Oslo"}',
        ]
        assert await log.denied_calls("get_weather", limit=1) == ['{"city": "Kyoto"}']
        # A model can write half a character into a name.
        assert await log.denied_calls("half \ud800", limit=9) == ['{"city": "Riga"}']
        assert [call.arguments for call in await log.past_calls("half \ud800")] == [
            '{"city": "Riga"}'
        ]
        assert await log.past_results("half \ud800", "half") == []
        custom = factories.Log().start().prompt().request()
        custom.add(PartStarted(0, "call", "shell"))
        custom.add(PartEnded(0, "ls", "shell", meta={"type": "custom"}))
        custom.end().check("1.0").add(CallDecided("1.0", "deny"))
        await log.append(WriteBatch("custom", custom.events, summary=summary("custom")))
        assert await log.denied_calls("shell", limit=9) == ['{"input": "ls"}']
