"""Configurations of promptfoo become cases; what has no equal is said."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.evaluation.batch_import import read_batch
from playground.evaluation.spec import (
    ArgumentMatch,
    Expectation,
    ImportedBatch,
    ModelChoice,
    spec_data,
)
from playground.evaluation.spec_reader import spec_from_data

CONFIG = """
description: Weather
prompts:
  - "What is the weather in {{city}}?"
providers:
  - id: openai:chat:gpt-5
    config:
      temperature: 0
      tools: &tools
        - type: function
          function:
            name: get_weather
            parameters: {type: object, properties: {city: {type: string}}}
        - type: function
          function: {name: send_mail, parameters: {type: object, properties: {}}}
  - id: anthropic:messages:claude
    config: {temperature: 0, tools: *tools}
  - id: python:mine.py
defaultTest:
  assert: [{type: latency, threshold: 5000}]
tests:
  - description: one city
    vars: {city: [Oslo, Rome]}
    assert:
      - {type: tool-call-f1, value: [get_weather]}
      - {type: llm-rubric, value: is friendly}
  - vars: {city: Lima}
    assert: [{type: icontains-all, value: "rain, {{city}}"}]
"""

FILES = {
    "prompts.txt": "Hello {{a}}\n---\nBye {{a}}\n",
    "chat.json": '[{"role": "system", "content": "Be {{a}}."}, {"role": "user", "content": "Hi"}]',
    "tests.yaml": "- {vars: {a: x}, assert: [{type: contains, value: y}]}",
}


def read_file(name: str) -> str:
    if name not in FILES:
        raise BadInput(f"{name} is not there.")
    return FILES[name]


def read(data: Any) -> ImportedBatch:
    text = data if isinstance(data, str) else json.dumps(data)
    imported = read_batch(text, "promptfooconfig.yaml", read_file)
    assert spec_from_data(spec_data(imported.spec)) == imported.spec
    return imported


def least(**changes: Any) -> dict[str, Any]:
    """A configuration with one test."""
    test = {"assert": [{"type": "contains", "value": "y"}]}
    return copy.deepcopy({"prompts": ["Hi"], "tests": [test]}) | changes


def test_a_configuration_becomes_a_batch() -> None:
    imported = read(CONFIG)
    spec = imported.spec
    assert spec.name == "Weather"
    assert spec.models == (
        ModelChoice("openai", "gpt-5", "gpt-5"),
        ModelChoice("anthropic", "claude", "claude"),
    )
    assert spec.settings == {"params": {"temperature": 0}, "max_turns": 1}
    assert [tool.name for tool in spec.tools if not isinstance(tool, str)] == [
        "get_weather",
        "send_mail",
    ]
    assert [case.id for case in spec.cases] == ["one city", "one city #2", "test 2"]
    assert spec.cases[1].fill(spec.cases[1].prompt) == "What is the weather in Rome?"
    seconds = Expectation("max_seconds", 5.0)
    called, never = Expectation("called", "get_weather"), Expectation("never", "send_mail")
    assert spec.cases[0].expect == (seconds, called, never)
    texts = [Expectation("text_contains", text, ignore_case=True) for text in ("rain", "Lima")]
    assert spec.cases[2].expect == (seconds, *texts)
    assert imported.left_out == ()
    assert imported.notes == (
        "The assertion llm-rubric is not supported.",
        "As in promptfoo, only the first answer of the model counts: max_turns is 1.",
        "Texts are searched in the last answer, not in calls.",
        "The provider python:mine.py is not supported and was left out.",
    )


def test_a_tool_of_a_provider_is_left_out_with_a_note() -> None:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}
    config = {"tools": [tool, {"type": "web_search"}]}
    imported = read(least(providers=[{"id": "openai:chat:gpt-5", "config": config}]))
    assert [tool.name for tool in imported.spec.tools if not isinstance(tool, str)] == [
        "get_weather"
    ]
    assert any("web_search was left out" in note for note in imported.notes)


def test_prompts_and_tests_are_read_from_files() -> None:
    imported = read(
        {"prompts": ["file://prompts.txt", "file://chat.json"], "tests": "file://tests.yaml"}
    )
    cases = imported.spec.cases
    assert [case.id for case in cases] == [
        "test 1 · prompt 1.1",
        "test 1 · prompt 1.2",
        "test 1 · prompt 2",
    ]
    assert [(case.prompt, case.system) for case in cases] == [
        ("Hello {{a}}", None),
        ("Bye {{a}}", None),
        ("Hi", "Be {{a}}."),
    ]
    with pytest.raises(BadInput, match=r"gone\.yaml is not there"):
        read(least(tests="file://gone.yaml"))


@pytest.mark.parametrize(
    "name", ["/etc/hosts.txt", "../key.txt", "~/key.txt", "a/../../key.txt", "C:key.txt"]
)
def test_a_file_elsewhere_is_not_read(name: str) -> None:
    with pytest.raises(BadInput, match="is not in this file's folder"):
        read(least(prompts=[f"file://{name}"]))


@pytest.mark.parametrize(
    ("assertion", "expected"),
    [
        ({"type": "contains", "value": 7}, [Expectation("text_contains", "7")]),
        ({"type": "cost", "threshold": 0.01}, [Expectation("max_cost", 0.01)]),
        ({"type": "finish-reason", "value": "tool_calls"}, [Expectation("finish_reason", "calls")]),
        ({"type": "trajectory:tool-used", "value": "f"}, [Expectation("called", "f")]),
        ({"type": "trajectory:tool-used", "value": {"name": "f", "min": 1}},
         [Expectation("called", "f")]),
        ({"type": "trajectory:tool-used", "value": {"name": "f", "min": 2, "max": 2}},
         [Expectation("count", 2, of="f")]),
        ({"type": "not-trajectory:tool-used", "value": "f"}, [Expectation("never", "f")]),
        ({"type": "trajectory:tool-sequence", "value": ["f", "g"]},
         [Expectation("order", ("f", "g"))]),
        ({"type": "trajectory:tool-sequence", "value": {"mode": "exact", "steps": ["f", "g"]}},
         [Expectation("order", ("f", "g")), Expectation("count", 2)]),
        ({"type": "trajectory:tool-args-match", "value": {"name": "f", "args": {"a": "{{x}}"}}},
         [Expectation("called", "f", ArgumentMatch("subset", {"a": "7"}))]),
        ({"type": "trajectory:tool-args-match",
          "value": {"tool": "f", "args": {"a": 1}, "mode": "exact"}},
         [Expectation("called", "f", ArgumentMatch("exact", {"a": 1}))]),
        ({"type": "assert-set", "assert": [{"type": "contains", "value": "a"}]},
         [Expectation("text_contains", "a")]),
    ],
)  # fmt: skip
def test_assertions_have_equals(assertion: dict[str, Any], expected: list[Expectation]) -> None:
    imported = read(least(tests=[{"vars": {"x": 7}, "assert": [assertion]}]))
    assert list(imported.spec.cases[0].expect) == expected
    walks = str(assertion["type"]).partition("not-")[2] or str(assertion["type"])
    assert ("max_turns" in imported.spec.settings) is not walks.startswith("trajectory:")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tests": [{"assert": [{"type": "javascript", "value": "x"}]}]},
         "The assertion javascript is not supported."),
        ({"tests": [{"assert": [{"type": "not-contains", "value": "x"}]}]},
         "The assertion not-contains is not supported."),
        ({"tests": [{"assert": [{"type": "contains", "value": None}]}]},
         "The assertion contains has a value that is not supported."),
        ({"tests": [{"assert": [{"type": "tool-call-f1", "value": ["f"], "threshold": 0.5}]}]},
         "tool-call-f1 with a threshold under 1 is not supported."),
        ({"tests": [{"assert": [{"type": "trajectory:tool-used", "value": {"pattern": "f*"}}]}]},
         "trajectory:tool-used with a pattern"),
        ({"prompts": ["{{x}}"]}, "Its prompt has a placeholder without a variable: {{x}}."),
        ({"prompts": ["{% if a %}b{% endif %}"]}, "Its prompt computes something"),
        ({"prompts": ["{{ a | upper }}"]}, "Its prompt computes something"),
        ({"prompts": ["file://prompt.py"]}, "prompt.py is a program, or a pattern, and is"),
        ({"prompts": ['[{"role": "assistant", "content": "Hi"}]']}, "with roles other than"),
        ({"tests": "file://tests.csv"}, "Tests of this kind are not supported."),
        ({"tests": [{"vars": {"x": "file://a.txt"}}]}, "The value of x is a file."),
    ],
)  # fmt: skip
def test_what_has_no_equal_is_left_out_with_its_reason(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadInput, match="No case of this file can be imported") as refusal:
        read(least(**changes))
    assert reason in str(refusal.value)


def test_what_providers_say_differently_is_a_note() -> None:
    providers = [
        {"id": "openai:a", "config": {"temperature": 0, "tool_choice": "required"}},
        {"id": "ollama:chat:b", "config": {"temperature": 1, "tool_choice": "required"}},
    ]
    imported = read(least(providers=providers, scenarios=[]))
    assert imported.spec.settings == {"tool_choice": "required", "max_turns": 1}
    assert [model.profile for model in imported.spec.models] == ["openai", "ollama"]
    assert imported.notes[:2] == (
        "scenarios were left out. Only tests are imported.",
        "The providers have different temperature, so it was left out. Make variants of it.",
    )


def test_each_form_is_known_by_its_content() -> None:
    spec = {"playground_batch": 1, "cases": [{"id": "a", "prompt": "Hi"}]}
    assert read(spec).notes == ()
    with pytest.raises(BadInput, match="this is no SPEC of a batch"):
        read({"tests": []})
    line = {"id": "simple_0", "question": [[{"role": "user", "content": "Hi"}]], "function": []}
    with pytest.raises(BadInput, match=r"possible_answer/promptfooconfig\.yaml is not there"):
        read(json.dumps(line))
    assert read(json.dumps(line | {"id": "irrelevance_0"})).spec.cases[0].id == "irrelevance_0"
