"""What a script is told of a session: of each call what the model read, and what was real."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.events import CallDecided, CallEnded, CallStarted, Event
from playground.core.session import session_data
from playground.core.tools import text_result
from tests.playbook import call, call_checked, run, run_call, session, start_events, turn

STAGED = CallDecided("1.0", "run", digest="digest", fault="cut_json")
RULED = CallDecided("1.0", "answer", "rule", "answer all", "digest", text="x")


def text(result: Any) -> Any:
    return result and result["content"][0]["text"]


@pytest.mark.parametrize(
    ("events", "status", "by", "fault", "result", "real"),
    [
        ([], "waiting", None, "", None, None),
        ([RULED, CallEnded("1.0", text_result("x"))], "done", "answer all", "", "x", None),
        ([run("1.0"), *run_call("1.0")], "done", "person", "", "ok", None),
        (
            [
                *(STAGED, CallStarted("1.0", 1)),
                CallEnded("1.0", text_result("hal"), text_result("half")),
            ],
            *("done", "person", "cut_json", "hal", "half"),
        ),
    ],
    ids=["waits", "by rule", "ran", "staged"],
)
def test_a_call_as_a_script_reads_it(
    events: list[Event], status: str, by: str | None, fault: str, result: Any, real: Any
) -> None:
    item = session(*start_events(), *turn(1, call(0)), call_checked("1.0"), *events)
    (output,) = session_data(item, "A title")["calls"]
    assert (output["status"], output["decided_by"], output["fault"]) == (status, by, fault)
    assert (text(output["result"]), text(output["real"])) == (result, real)
    assert output["arguments"] == {"city": "Paris"}
    assert session_data(item, "A title")["title"] == "A title"


def test_arguments_that_are_no_json_are_told_as_they_came() -> None:
    item = session(*start_events(), *turn(1, call(0, arguments='{"a')))
    (output,) = session_data(item)["calls"]
    assert (output["arguments"], output["arguments_raw"]) == (None, '{"a')
