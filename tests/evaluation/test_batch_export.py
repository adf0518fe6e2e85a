"""A session saved as a test is a SPEC that the same calls pass and others fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.events import CallDecided, Event, PromptAdded, SettingsChanged
from playground.core.session import Session
from playground.core.settings import Limits
from playground.core.tools import Content, Tool, ToolChoice
from playground.evaluation.results import judge
from playground.evaluation.spec import RunKey, Spec, expectation_data, plan_run, with_tools
from playground.evaluation.spec_reader import read_spec
from playground.exchange.batch_export import write
from playground.exchange.bundle import SessionBundle
from tests import playbook as play

SHELL = Tool("shell", "Runs.", config={"tool": "run_shell"}, answered_by="workspace", strict=True)

OSLO = ("get_weather", '{"city": "Oslo"}', "rain")
ROME = ("get_weather", '{"city": "Rome", "day": 12345678901234567890}', "sun")
ROOT = ("shell", '{"command": ["ls", null, 1.5]}', "etc")


def saved(session: Session) -> tuple[Spec, tuple[str, ...]]:
    """The SPEC that a session makes, with its tools, and the notes."""
    file = write(SessionBundle(session, "My first test!", ()))
    assert file.file_name == "my-first-test.batch.json"
    spec, notes = with_tools(read_spec(file.data.decode()), {})
    assert notes == ()
    return spec, tuple(file.notes)


def run_events(*calls: tuple[str, str, str], turns: bool = False) -> list[Event]:
    """Calls (name, arguments, result), in one turn or in one turn each, and an answer."""
    events, number = play.start_events(play.WEATHER, SHELL), 0
    groups = [[call] for call in calls] if turns else [calls] if calls else []
    for number, group in enumerate(groups, 1):
        parts = [play.call(n, name, text) for n, (name, text, _) in enumerate(group)]
        events += play.turn(number, *parts)
        for place, (_, _, result) in enumerate(group):
            call_id = f"{number}.{place}"
            events += [
                play.call_checked(call_id),
                play.run(call_id),
                *play.run_call(call_id, result),
            ]
    return [*events, *play.turn(number + 1)]


@pytest.mark.parametrize(
    ("calls", "turns", "others"),
    [
        ([], False, [OSLO]),
        ([OSLO], False, []),
        ([OSLO], False, [ROME]),
        ([OSLO, ROME, ROOT], False, [OSLO, ROME]),
        ([ROOT, OSLO], True, [OSLO, ROOT]),
        ([OSLO, OSLO], False, [OSLO]),
    ],
)
def test_a_saved_session_passes_and_another_fails(
    calls: list[Any], turns: bool, others: list[Any]
) -> None:
    session = play.session(*run_events(*calls, turns=turns))
    spec, notes = saved(session)
    assert notes == ()
    assert all(check.passed for check in judge(session, spec.cases[0].expect))
    other = play.session(*run_events(*others, turns=turns))
    assert not all(check.passed for check in judge(other, spec.cases[0].expect))


def test_it_asks_as_the_session_did() -> None:
    changed = play.settings(
        *(play.WEATHER, SHELL),
        system="Be brief.",
        model="sim-2",
        params={"temperature": 0},
        choice=ToolChoice("tool", "get_weather", ("get_weather",), parallel=False),
        max_turns=3,
    )
    session = play.session(*play.start_events(), SettingsChanged(changed), *play.turn(1))
    spec, _ = saved(session)
    plan = plan_run(spec, RunKey("my-first-test", "default", "sim-2", 1))
    assert (plan.prompt, plan.system, plan.model.profile) == ("hello", "Be brief.", "simulator")
    assert plan.settings == {
        "tool_choice": {"mode": "tool", "name": "get_weather", "allowed": ["get_weather"]},
        "parallel": False,
        "params": {"temperature": 0},
        "max_turns": 3,
    }
    assert Limits().max_turns != 3
    weather, shell = (tool for tool in plan.tools if not isinstance(tool, str))
    assert weather.parameters == play.SCHEMA
    assert (shell.answered_by, shell.strict) == ("mock", True)


@pytest.mark.parametrize(
    ("calls", "answer"),
    [
        ([OSLO, OSLO], {"result": "rain"}),
        ([OSLO, (*OSLO[:2], "sun")], {"sequence": [{"result": "rain"}, {"result": "sun"}]}),
        (
            [OSLO, ROME],
            {
                "cases": [
                    {
                        "when": {
                            "/city": {"equals": "Rome"},
                            "/day": {"equals": 12345678901234567890},
                        },
                        "result": "sun",
                    },
                    {"when": {"/city": {"equals": "Oslo"}}, "result": "rain"},
                ]
            },
        ),
        ([("get_weather", "{}", "a"), OSLO], {"sequence": [{"result": "a"}, {"result": "rain"}]}),
    ],
)
def test_recorded_results_become_answers(calls: list[Any], answer: dict[str, Any]) -> None:
    spec, _ = saved(play.session(*run_events(*calls)))
    assert spec.cases[0].answers == {"get_weather": answer}


def test_what_a_test_cannot_hold_is_noted() -> None:
    picture = Content("image", media_type="image/png", data="AAAA")
    precise = play.call(2, "shell", '{"a": 0.10000000000000000001}')
    calls = [play.call(0, "gone", "{}"), play.call(1, "shell", '{"a"'), precise]
    events = [play.start_events(SHELL)[0], PromptAdded("Look.", (picture,)), *play.turn(1, *calls)]
    events += [play.call_checked(f"1.{n}") for n in range(3)]
    events += [CallDecided(f"1.{n}", "deny", digest="digest") for n in range(3)]
    events += [*play.turn(2), PromptAdded("More.")]
    spec, notes = saved(play.session(*events))
    assert spec.cases[0].prompt == "Look."
    assert [expectation.kind for expectation in spec.cases[0].expect] == ["called"] * 2 + ["count"]
    assert notes == (
        "The test covers only the first prompt; the session has 2.",
        "The prompt's images were left out.",
        "A call of gone, which is not one of the tools, is not expected.",
        "shell was denied, but is expected. Change that if needed.",
        "A call of shell had arguments that are not valid JSON.",
        "A number in the arguments of shell is rounded here.",
    )


def test_a_run_of_a_batch_keeps_what_was_expected_and_its_mocks() -> None:
    session = play.session(*run_events(OSLO, ROOT))
    expect = [{"called": "get_weather", "arguments": {"exact": {"city": "Rome"}}}]
    file = write(SessionBundle(session, "a", (), expect=expect))
    spec = read_spec(file.data.decode())
    assert [expectation_data(each) for each in spec.cases[0].expect] == expect
    assert spec.cases[0].answers == {"shell": {"result": "etc"}}
    weather = spec.tools[0]
    assert not isinstance(weather, str)
    assert weather.config == play.WEATHER.config
    assert file.notes == ("The expectations are those of the batch for this run.",)
    assert not judge(session, spec.cases[0].expect)[0].passed


def test_a_session_without_a_prompt_says_what_is_missing() -> None:
    file = write(SessionBundle(play.session(), "", ()))
    assert file.notes == ("The session has no prompt. Write one before you run this.",)
    assert json.loads(file.data)["cases"][0]["prompt"] == ""
