"""Drafts of an answer: plausible, always the same, another one on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import NotFound
from playground.core.events import CallEnded
from playground.core.session import Call
from playground.core.tools import Tool, text_result
from playground.engine.suggestions import past_result, suggest_result
from playground.schema.validate import schema_problems
from playground.store.log import Log
from playground.store.writes import WriteBatch
from tests.factories import ADD_EVENT
from tests.factories import Log as Events
from tests.store.test_database import opened
from tests.store.test_log import summary

OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "sky": {"enum": ["clear", "rain", "snow"]},
        "high": {"type": "integer", "minimum": 1, "maximum": 30},
    },
    "required": ["city", "sky", "high"],
    "additionalProperties": False,
}


def of(name: str, arguments: str = "{}", description: str = "", **config: Any) -> Call:
    call = Events().start().prompt().request().call(0, name, arguments).end().session().call("1.0")
    call.tool = Tool(name, description, config=config)
    return call


def test_by_the_output_schema_with_the_arguments_said_again() -> None:
    call = of("get_weather", '{"city": "Oslo", "high": 99, "days": 3}', output_schema=OUTPUT)
    for number in range(6):
        result = suggest_result(call, number)
        assert result.made_from == "schema"
        value = json.loads(result.text)
        assert schema_problems(OUTPUT, value) == ()
    # An argument that would make it wrong takes all echoes away; none is guessed at.
    assert value["high"] != 99
    call = of("get_weather", '{"city": "Oslo", "days": 3}', output_schema=OUTPUT)
    assert json.loads(suggest_result(call).text)["city"] == "Oslo"


@pytest.mark.parametrize(
    ("name", "description", "holds"),
    [
        ("get_weather", "", '"temperature"'),
        ("q7", "Tells the weather of a city.", '"temperature"'),
        ("search_flights", "", '"flight"'),
        ("web_search", "", '"snippet"'),
        ("send_email", "", '"msg_'),
        ("read_file", "", "\n"),
        ("zork", "", '"ok": true'),
    ],
)
def test_without_a_schema_by_what_the_tool_is_about(
    name: str, description: str, holds: str
) -> None:
    result = suggest_result(of(name, "{}", description))
    assert holds in result.text
    assert result.made_from == "name"


def test_the_same_call_and_number_give_the_same_text_and_the_next_is_another() -> None:
    call = of("get_weather", '{"city": "Oslo", "exact": 0.10000000000000000001}')
    texts = [suggest_result(call, number).text for number in range(4)]
    assert texts == [suggest_result(call, number).text for number in range(4)]
    assert len(set(texts)) == 4
    assert '"exact": 0.10000000000000000001' in texts[0], "digits are kept"
    other = suggest_result(of("get_weather", '{"city": "Rome"}'))
    assert '"Rome"' in other.text


@pytest.mark.parametrize("arguments", ["", '{"a": ', "[1]", '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_arguments_that_are_unsound_are_not_said_again(arguments: str) -> None:
    assert "ok" in suggest_result(of("zork", arguments)).text


def test_one_text_alone_is_given_again_and_nothing_goes_on_for_ever() -> None:
    call = of("zork", output_schema={"const": "only"})
    assert [suggest_result(call, number).text for number in (0, 1, 999)] == ['"only"'] * 3
    call.tool = None
    assert suggest_result(call).made_from == "name"


@pytest.mark.anyio
async def test_a_past_result_is_read_whole_and_what_is_none_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        events = Events().start().prompt().request().call(0, ADD_EVENT.name, {}).end()
        events = events.check("1.0").run("1.0", "done")
        await log.append(WriteBatch("s", events.events, summary=summary("s")))
        seq = events.events[-1].seq
        assert isinstance(events.events[-1].event, CallEnded)
        assert await past_result(log, "s", seq) == text_result("done")
        for session, place in (("s", 1), ("s", 0), ("s", 999), ("t", seq)):
            with pytest.raises(NotFound, match="Open the list again"):
                await past_result(log, session, place)
        await log.mark_deleted("s", 1)
        with pytest.raises(NotFound):
            await past_result(log, "s", seq)
