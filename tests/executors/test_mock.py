"""Placeholders: what they become, and that nothing is evaluated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.core.tools import Tool
from playground.executors import mock
from playground.executors.executor import Invocation
from playground.executors.mock import Mock
from playground.schema.validate import check_call

pytestmark = pytest.mark.anyio

ARGUMENTS = (
    '{"city": "Kraków", "n": 1.50, "big": 12345678901234567890, "huge": 1e400, "on": true, '
    '"none": null, "at": {"x": 1.10, "names": ["a", "b"]}, "odd-key": "dash", '
    '"sly": "{{ args.n }}"}'
)

SEQUENCE = {"sequence": [{"result": "one"}, {"result": "{{ args.n }}"}, {"result": "three"}]}


def invocation(config: dict[str, Any]) -> Invocation:
    tool = Tool("t", config=config)
    return Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=ARGUMENTS,
        timeout_s=5.0,
        max_output=1000,
        folder=Path(),
        idempotency_key="k",
    )


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain { text } }}", "plain { text } }}"),
        ("In {{ args.city }} and {{args.city}}.", "In Kraków and Kraków."),
        ("{{ args.n }}, {{ args.big }}, {{ args.huge }}", "1.50, 12345678901234567890, 1e400"),
        ("{{ args.on }} {{ args.none }}", "true null"),
        ("{{ args.at.names.1 }} of {{ args.at }}", 'b of {"x": 1.10, "names": ["a", "b"]}'),
        ("{{ args.odd-key }}", "dash"),
        ("{{ args.sly }}", "{{ args.n }}"),
        ("{{ args.city.0 }} {{ args.at.names.7 }}", "{{ args.city.0 }} {{ args.at.names.7 }}"),
        ("{{ args.absent }}", "{{ args.absent }}"),
        ("{{ args.__class__ }} {{ 7*7 }} {% x %}", "{{ args.__class__ }} {{ 7*7 }} {% x %}"),
        ({"city": "{{ args.city }}"}, '{"city": "Kraków"}'),
        ({"n": "{{ args.n }}", "s": "is {{ args.n }}"}, '{"n": 1.50, "s": "is 1.50"}'),
        (
            [1, None, {"all": "{{ args.at }}"}],
            '[1, null, {"all": {"x": 1.10, "names": ["a", "b"]}}]',
        ),
        (None, "null"),
        (12, "12"),
    ],
)
async def test_result(template: Any, text: str) -> None:
    result = await Mock().run(invocation({"result": template}), lambda *_: None)
    assert result.text == text
    assert result.staged
    assert not result.is_error


@pytest.mark.parametrize(
    ("config", "text", "noted"),
    [
        ({"result": "{{ args.unit }}"}, "", "{{ args.unit }} is empty"),
        ({"result": "in {{ args.city }}: 5{{ args.unit }}"}, "in Kraków: 5", "{{ args.unit }} is"),
        ({"result": {"u": "{{ args.unit }}", "x": 1}}, '{"u": "", "x": 1}', "{{ args.unit }} is"),
        (
            {"result": "{{ args.city.0 }} {{ args.other }}"},
            " {{ args.other }}",
            "{{ args.city.0 }}",
        ),
        ({"result": "{{ args.city }}"}, "Kraków", ""),
        (
            {"result": "{{ args.unit }}{{ args.unit.name }}"},
            "",
            "{{ args.unit }}, {{ args.unit.name }} are empty",
        ),
        ({"sample": True, "output_schema": {"const": "a"}, "result": "{{ args.unit }}"}, "a", ""),
        ({"sequence": [{"result": "a"}, {"result": "{{ args.unit }}"}]}, "a", "{{ args.unit }} is"),
        (
            {"cases": [{"when": {"/n": 2}, "result": "{{ args.unit }}"}], "result": "else"},
            "else",
            "",
        ),
        (
            {"cases": [{"when": {}, "result": "{{ args.unit }}"}], "result": "else"},
            "",
            "{{ args.unit }} is",
        ),
    ],
)
async def test_an_optional_argument_that_is_left_out_is_an_empty_text_and_a_note(
    config: dict[str, Any], text: str, noted: str
) -> None:
    properties = {name: {"type": "string"} for name in ("city", "unit")}
    call = invocation(config)
    tool = replace(call.tool, parameters={"type": "object", "properties": properties})
    checked = await Mock().check_before_run("s", tool, ARGUMENTS)
    assert [problem.kind for problem in checked.problems] == ["note"] * bool(noted)
    assert noted in "".join(problem.message for problem in checked.problems)
    assert (await Mock().run(replace(call, tool=tool), lambda *_: None)).text == text
    for unsound in ("{", "[1]", ""):
        assert (await Mock().check_before_run("s", tool, unsound)).problems == ()


async def test_error() -> None:
    call = invocation({"result": "no {{ args.city }}", "is_error": True})
    result = await Mock().run(call, lambda *_: None)
    assert (result.text, result.is_error, result.kind) == ("no Kraków", True, "failed")


async def test_delay_tells_its_progress() -> None:
    rows: list[tuple[str, float | None]] = []
    await Mock().run(invocation({"result": 1, "delay_s": 0.05}), lambda *text: rows.append(text))
    assert [fraction for _, fraction in rows] == [step / 10 for step in range(10)]
    assert rows[5][0] == "0.0 of 0.05 s"


def call(config: dict[str, Any], arguments: str = ARGUMENTS, **more: Any) -> Invocation:
    return replace(invocation(config), arguments=arguments, **more)


async def answer(mock: Mock, call: Invocation) -> str:
    return (await mock.run(call, lambda *_: None)).text


@pytest.mark.parametrize(
    ("config", "texts"),
    [
        (SEQUENCE, ["one", "1.50", "three", "three", "three"]),
        ({**SEQUENCE, "cycle": True}, ["one", "1.50", "three", "one", "1.50"]),
        ({"sequence": [{"result": 1}]}, ["1", "1"]),
    ],
)
async def test_a_sequence(config: dict[str, Any], texts: list[str]) -> None:
    mock = Mock()
    for place, text in enumerate(texts):
        assert await answer(mock, call(config, call=f"{place}.0")) == text


async def test_a_sequence_is_a_sessions_own_and_the_same_call_stays() -> None:
    mock = Mock()
    assert await answer(mock, call(SEQUENCE, call="1.0")) == "one"
    assert await answer(mock, call(SEQUENCE, call="1.1")) == "1.50"
    assert await answer(mock, call(SEQUENCE, call="1.0", attempt=2)) == "one"
    assert await answer(mock, call(SEQUENCE, call="1.0", session="other")) == "one"
    tool = replace(call(SEQUENCE).tool, name="another")
    assert await answer(mock, call(SEQUENCE, call="1.2", tool=tool)) == "one"


async def test_old_sessions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mock, "_MOST_SESSIONS", 2)
    item = Mock()
    for session in ("a", "b", "a", "c"):
        await item.run(call(SEQUENCE, session=session, call=session), lambda *_: None)
    assert await answer(item, call(SEQUENCE, session="a", call="2")) == "1.50"
    assert await answer(item, call(SEQUENCE, session="b", call="2")) == "one"


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ({}, True),
        ({"/city": "Kraków"}, True),
        ({"/city": "Oslo"}, False),
        ({"/n": 1.5}, True),
        ({"/n": 1.6}, False),
        ({"/big": 12345678901234567890}, True),
        ({"/big": 12345678901234567891}, False),
        ({"/on": True, "/none": None}, True),
        ({"/on": 1}, False),
        ({"/none": False}, False),
        ({"/gone": None}, False),
        ({"/at": {"x": 1.1, "names": ["a", "b"]}}, True),
        ({"/at": {"x": 1.1}}, False),
        ({"/at/names": ["a"]}, False),
        ({"/at/names/1": "b"}, True),
        ({"/city": {"prefix": "Kra"}}, True),
        ({"/n": {"prefix": "1"}}, False),
        ({"/city": {"glob": "K*w"}}, True),
        ({"/city": {"glob": "k*"}}, False),
        ({"/n": {"one_of": [1, 1.5]}}, True),
        ({"/n": {"one_of": ["1.5"]}}, False),
        ({"/at/x": {"equals": 1.1}}, True),
        ({"/at": {"equals": {"x": 1.1}}}, False),
        ({"/at/x": 1.1, "/city": "Oslo"}, False),
    ],
)
async def test_cases(when: dict[str, Any], fits: bool) -> None:
    cases = [{"when": when, "result": "fits {{ args.city }}"}, {"when": {}, "result": "else"}]
    text = await answer(Mock(), call({"cases": cases}))
    assert text == ("fits Kraków" if fits else "else")


@pytest.mark.parametrize(
    ("config", "text", "is_error"),
    [
        ({"cases": [{"when": {"/n": 2}, "result": 1}], "result": "else"}, "else", False),
        ({"cases": [{"when": {"/n": 2}, "result": 1}]}, mock.NO_CASE, True),
        ({"cases": [{"when": {}, "result": "bad", "is_error": True}]}, "bad", True),
    ],
)
async def test_no_case(config: dict[str, Any], text: str, is_error: bool) -> None:
    result = await Mock().run(call(config), lambda *_: None)
    assert (result.text, result.is_error, result.staged) == (text, is_error, True)


async def test_a_sample_is_the_same_for_the_same_arguments() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": [*"abcdefgh"]}, "n": {"type": "integer"}},
        "required": ["city", "n"],
    }
    config = {"sample": True, "output_schema": schema}
    texts = {await answer(Mock(), call(config, f'{{"q": {number}}}')) for number in range(20)}
    again = {await answer(Mock(), call(config, f'{{"q": {number}}}')) for number in range(20)}
    assert texts == again
    assert len(texts) > 3
    for text in texts:
        assert check_call(Tool("t", parameters=schema), "t", text) == ()
    result = await Mock().run(call(config), lambda *_: None)
    assert result.content[0].media_type == "application/json"


async def test_a_rate_of_failures_is_settled_by_the_key() -> None:
    config = {"result": "fine", "failure_rate": 0.3, "failure": "down"}
    results = [
        await Mock().run(call(config, idempotency_key=f"k{number % 500}"), lambda *_: None)
        for number in range(1000)
    ]
    failed = [result.is_error for result in results]
    assert failed[:500] == failed[500:]
    assert 200 < sum(failed) < 400
    assert {result.text for result in results} == {"fine", "down"}
    assert {result.kind for result in results} == {"", "failed"}
    for rate, share in ((0, 0), (1, 100)):
        assert sum(mock.is_random_failure(rate, str(number)) for number in range(100)) == share
