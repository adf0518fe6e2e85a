"""What a text is for the model, which calls are alike, and how past results stand in a list."""

from __future__ import annotations

import json

import pytest

from playground.core.serialization import to_data
from playground.core.tools import Content, ToolResult
from playground.render.arguments import indent_json
from playground.store.log import PastResult
from playground.web.session.view import (
    ResultCheck,
    alike_calls,
    check_result_text,
    form_values,
    past_row,
)
from tests.factories import Log


@pytest.mark.parametrize(
    ("text", "problems", "result_check"),
    [
        ("", None, ResultCheck("empty", "Empty: the model reads an empty result.")),
        ("Sunny", None, ResultCheck("text", "Text: the model reads it unchanged.")),
        ("42", None, ResultCheck("text", "Text: the model reads it unchanged.")),
        ('{"a": 1}', None, ResultCheck("json", "Valid JSON.")),
        (" [1] ", None, ResultCheck("json", "Valid JSON.")),
        (
            '{"a": 1,\n "b" 2}',
            None,
            ResultCheck(
                "broken",
                "Looks like JSON but is not valid. Line 2, column 6: a colon is expected here.",
                2,
                6,
            ),
        ),
        (
            "[NaN]",
            None,
            ResultCheck("broken", "Looks like JSON but is not valid. Line 1, column 2", 1, 2),
        ),
        (
            '{"a": 1}',
            [],
            ResultCheck("json", "Valid JSON that matches the output schema.", fits=True),
        ),
        ("42", [], ResultCheck("json", "Valid JSON that matches the output schema.", fits=True)),
        (
            "{}",
            ["x.", "y."],
            ResultCheck(
                "json", "JSON, but it does not match the schema: x. And 1 more.", fits=False
            ),
        ),
        (
            "Sunny",
            [],
            ResultCheck("text", "Text, but the output schema requires JSON.", fits=False),
        ),
        (
            "[",
            [],
            ResultCheck(
                "broken", "Looks like JSON but is not valid. Line 1, column 2", 1, 2, False
            ),
        ),
    ],
)
def test_what_a_text_is(text: str, problems: list[str] | None, result_check: ResultCheck) -> None:
    got = check_result_text(text, problems)
    assert got.says.startswith(result_check.says)
    assert (got.form, got.line, got.column, got.fits) == (
        result_check.form,
        result_check.line,
        result_check.column,
        result_check.fits,
    )


def test_laying_out_keeps_every_digit_and_what_is_no_json() -> None:
    long = '{"n": 1.10000000000000000000001, "text": "' + "x" * 80 + '"}'
    assert "\n" in indent_json(long)
    assert "1.10000000000000000000001" in indent_json(long)
    assert indent_json("no {json") == "no {json"


def test_the_calls_of_the_same_tool_that_wait_are_alike() -> None:
    log = Log().start().prompt().request()
    for index, name in enumerate(("ask_me", "add_event", "ask_me", "ask_me")):
        log.call(index, name, {"n": index})
    log.end()
    for index in range(4):
        log.check(f"1.{index}")
    log.run("1.3")
    session = log.session()
    assert [call.id for call in alike_calls(session, session.call("1.0"))] == ["1.2"]
    assert alike_calls(session, session.call("1.1")) == []


def test_a_past_result_is_cut_in_the_list_and_says_what_is_left_out() -> None:
    image = Content("image", media_type="image/png", data="AA==")
    result = ToolResult((Content(text="x" * 5_000), image), is_error=True, staged=True)
    row = PastResult(
        "s",
        title="Title",
        seq=7,
        at_ms=1_000,
        call_id="1.0",
        arguments="{}",
        result=json.dumps(to_data(result)),
    )
    past = past_row(row, "s")
    assert (past.key, past.here, past.is_error, past.staged) == ("s/7", True, True, True)
    assert (len(past.text), past.length, past.images) == (300, 5_000, 1)
    assert not past_row(row, "t").here


def test_a_form_holds_an_answer_that_its_fields_can_show() -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    assert form_values(schema, '{"ok": true}') == {"boolean:/ok": ["true"]}
    for text, given in (("no json", schema), ("", schema), ('{"ok": true}', None)):
        assert form_values(given, text) is None
