"""A SPEC is read from YAML or JSON, refused with the place of what is wrong, and written again."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.core.serialization import to_data
from playground.core.tools import Tool
from playground.engine.settings import KNOWN
from playground.evaluation.results import (
    CallMade,
    CheckResult,
    RunResult,
    result_data,
    result_from_data,
)
from playground.evaluation.spec import (
    SETTINGS,
    ArgumentMatch,
    Expectation,
    ModelChoice,
    RunKey,
    Spec,
    plan_run,
    spec_data,
    with_tools,
    words_of,
)
from playground.evaluation.spec_reader import read_spec, spec_from_data

YAML = """
playground_batch: 1
name: weather   # a comment
defaults:
  repetitions: 3
  min_pass: 0.6
  system: "Be brief, {{ user }}."
  max_turns: 4
  params: {temperature: 0, max_tokens: 50}
tools:
  - examples
  - {name: get_weather, description: The weather., config: {result: sun}}
models: [simulator, {profile: openai, model: gpt}, {profile: azure, model: gpt}]
variants:
  old:
  new:
    descriptions: {get_weather: The weather of a city.}
    params: {temperature: 1}
cases:
  - id: oslo
    prompt: "What is the weather in {{ city }}?"
    vars: {city: Oslo, user: 7}
    answers: {get_weather: "rain"}
    expect:
      - {called: get_weather, arguments: {any_of: {city: [Oslo], unit: [C]}, optional: [unit]}}
      - {count: 1, of: get_weather}
      - {text_contains: RAIN, ignore_case: true}
  - {id: none, prompt: Hello, expect: [{no_call: true}, {max_cost: 0.01}], min_pass: 1}
"""

MISTYPED = {"name": "f", "parameters": {"type": 1}, "config": {"result": 1}}
SMALL: dict[str, Any] = {"playground_batch": 1, "cases": [{"id": "a", "prompt": "Hi"}]}

LOOK = Tool("look", "Looks.", answered_by="http", config={"url": "https://example.com"})
SEND = Tool("send", "Sends.", answered_by="python", config={"file": "/x.py", "function": "send"})
SAFE = Tool("safe", config={"result": "ok"})

LONG = "y" * 20_000


def small(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(SMALL) | changes


def case(**changes: Any) -> dict[str, Any]:
    return small(cases=[{"id": "a", "prompt": "Hi"} | changes])


def test_a_spec_is_the_same_from_yaml_json_and_its_own_data() -> None:
    spec = read_spec(YAML)
    assert [model.label for model in spec.models] == ["simulator", "openai/gpt", "azure/gpt"]
    assert [variant.name for variant in spec.variants] == ["old", "new"]
    assert spec.cases[0].expect == (
        Expectation(
            "called",
            "get_weather",
            ArgumentMatch("any_of", {"city": ["Oslo"], "unit": ["C"]}, optional=("unit",)),
        ),
        Expectation("count", 1, of="get_weather"),
        Expectation("text_contains", "RAIN", ignore_case=True),
    )
    again = read_spec(json.dumps(spec_data(spec)))
    assert again == spec
    assert again.digest() == spec.digest()
    assert read_spec(YAML.replace("Oslo,", "Rome,")).digest() != spec.digest()
    assert spec_from_data(spec_data(spec), allow=["x"]).digest() == spec.digest()


def test_a_run_has_the_words_of_its_case_before_its_variants_before_the_batchs() -> None:
    spec = read_spec(YAML)
    plan = plan_run(spec, RunKey("oslo", "new", "azure/gpt", 1))
    assert plan.prompt == "What is the weather in Oslo?"
    assert plan.system == "Be brief, 7."
    assert plan.settings == {"max_turns": 4, "params": {"temperature": 1, "max_tokens": 50}}
    assert plan.model == ModelChoice("azure", "gpt", "azure/gpt")
    words, weather = plan.tools
    assert words == "examples"
    assert not isinstance(weather, str)
    assert (weather.description, weather.config) == ("The weather of a city.", {"result": "rain"})


def test_the_order_of_runs_hangs_on_the_seed_alone() -> None:
    cases = [{"id": str(n), "prompt": "Hi"} for n in range(30)]
    orders = []
    for seed, order in ((1, cases), (1, cases[::-1]), (2, cases)):
        spec = spec_from_data(small(cases=order, seed=seed, defaults={"repetitions": 2}))
        keys = list(spec.keys())
        assert len(keys) == len(set(keys)) == spec.runs == 60
        orders.append([key.case for key in keys])
    assert orders[0] == orders[1] != orders[2]
    assert all(a == b for a, b in zip(orders[0][::2], orders[0][1::2], strict=True))


def test_a_spec_names_the_settings_of_a_session() -> None:
    elsewhere = {"profile", "protocol", "base_url", "key_name", "model", "system", "tools"}
    assert set(SETTINGS) == set(KNOWN) - elsewhere


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "/: this is [], an array; the schema requires an object with"),
        ({"cases": []}, "/playground_batch: this is no SPEC of a batch: it begins"),
        (small(playground_batch=2), "/playground_batch: this version reads 1 alone"),
        (small(case=[]), "/case: this is not in the schema, which knows only"),
        (small(allow=["rm"]), "/allow: a file cannot allow its own tools; use --allow NAME"),
        (small(cases=[]), "/cases: there is no case"),
        (small(cases=SMALL["cases"] * 2), "/cases: the id 'a' occurs twice"),
        (small(cases=[{"id": "a"}]), '/cases/0: this has no "prompt"'),
        (case(prompt=" "), "/cases/0/prompt: the prompt is empty"),
        (case(promt="x"), '/cases/0/promt: this is not in the schema, which knows only "id"'),
        (case(prompt="{{ b }}", vars={"c": 1}), "/cases/0/prompt: {{ b }} is not in vars"),
        (case(min_pass=0), "/cases/0/min_pass: this must be a share"),
        (case(answers={"f": 3}), "/cases/0/answers/f: the config of a mock is an object"),
        (case(answers={"f": {"sequence": []}}), "/cases/0/answers/f/sequence: config.sequence"),
        (case(settings={"model": "x"}), "/cases/0/settings/model: this is not in the schema"),
        (
            case(expect=[{"called": "f", "arguments": {"any_of": 5}}]),
            "/cases/0/expect/0/arguments/any_of: any_of is a list of objects",
        ),
        (case(expect=[{"calls": "f"}]), "/cases/0/expect/0/calls: this is not in the schema"),
        (case(expect=[{"called": "f", "never": "g"}]), "/cases/0/expect/0: an expectation says"),
        (case(expect=[{"never": "f", "arguments": {}}]), '/cases/0/expect/0: this has no "called"'),
        (case(expect=[{"called": "f", "arguments": {}}]), "arguments are tested by one of exact"),
        (
            case(expect=[{"called": "f", "arguments": {"schema": {"type": "text"}}}]),
            "/cases/0/expect/0/arguments/schema/type: ",
        ),
        (
            case(expect=[{"called": "f", "arguments": {"any_of": {"a": 1}}}]),
            "/cases/0/expect/0/arguments/any_of/a: any_of is a list of objects, or an object of",
        ),
        (
            case(expect=[{"called": "f", "arguments": {"any_of": [{}], "optional": ["a"]}}]),
            "/cases/0/expect/0/arguments/optional: any_of names no parameter 'a'",
        ),
        (case(expect=[{"order": ["f"]}]), "/cases/0/expect/0/order: an order has at least two"),
        (case(expect=[{"count": True}]), "/cases/0/expect/0/count: this is true"),
        (case(expect=[{"no_call": 1}]), "/cases/0/expect/0/no_call: this is 1, an integer"),
        (case(expect=[{"text_contains": ""}]), "/text_contains: every text holds the empty text"),
        (small(defaults={"repetitions": 0}), "/defaults/repetitions: this is 0, an integer"),
        (small(defaults={"temperature": 0}), "/defaults/temperature: this is not in the schema"),
        (small(models=["a", "a"]), "/models: the label 'a' occurs twice"),
        (small(models=[{"model": "x"}]), '/models/0: this has no "profile"'),
        (small(variants=[{"tools": []}]), '/variants/0: this has no "name"'),
        (small(variants={}), "/variants: this is {}, an object; the schema requires"),
        (small(tools=[MISTYPED]), "/tools/0/parameters/type"),
        (small(tools=[3]), "/tools/0: A tool is a JSON object"),
        (small(max_cost=float("nan")), "/max_cost: this is NaN, which is not a JSON number."),
        (small(defaults={"repetitions": 10_000}, models=[str(n) for n in range(64)],
               variants={str(n): {} for n in range(64)}), "the SPEC has 40,960,000 runs"),
        (case(prompt="Use sk-ant-api03-" + "Ab3dEf9h" * 6), "/cases/0/prompt: this looks like a"),
        (small(defaults={"extra": {"api_key": "a8f3k2l9d7s6"}}), "/defaults/extra/api_key: this"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place(data: Any, words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        spec_from_data(data)
    assert words in str(refusal.value)
    assert "Ab3d" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The SPEC cannot be read. The YAML is empty."),
        ("{", "The SPEC cannot be read. This is not valid JSON. Line 1, column 2"),
        ("a: b: c", "The SPEC cannot be read. This is not valid YAML. Line 1"),
        ('{"a": 1, "a": 2}', 'Line 1, column 10: duplicate key "a"'),
    ],
)
def test_a_text_that_is_none_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        read_spec(text)
    assert words in str(refusal.value)


def test_a_result_is_read_as_it_was_written() -> None:
    expected = read_spec(YAML).cases[0].expect[0]
    result = RunResult(
        RunKey("oslo", "new", "simulator", 2),
        "failed",
        (CheckResult(expected, False, "get_weather was called with Rome."),),
        (CallMade("get_weather", '{"city": 123456789012345678901}', valid=False),),
        tokens_in=4,
        to_first_call_s=0.5,
        session="abc",
    )
    assert result_from_data(json.loads(json.dumps(result_data(result)))) == result
    assert result.counts
    assert not RunResult(result.key, "needs_person").counts


def test_the_least_spec_is_one_run_on_the_simulator() -> None:
    assert list(spec_from_data(SMALL).keys()) == [RunKey("a", "default", "simulator", 1)]
    assert isinstance(spec_from_data(SMALL), Spec)


# The tools that a SPEC names ----------------------------------------------------------------------


def test_only_tools_that_are_accepted_or_allowed_run_by_their_own_executor() -> None:
    data = small(tools=["files", to_data(SEND), to_data(LOOK)], variants={"a": {"tools": ["more"]}})
    for allow, kinds in ((), ["mock", "mock", "http"]), (["send"], ["mock", "python", "http"]):
        spec = spec_from_data(data, allow=allow)
        assert words_of(spec) == ("files", "more")
        spec, notes = with_tools(spec, {"files": [SAFE], "more": [SEND]}, accepted=[LOOK])
        assert [tool.answered_by for tool in spec.tools if not isinstance(tool, str)] == kinds
        assert words_of(spec) == ()
        note = "send would be answered by python, which is not accepted in the library, so it is a"
        assert [text.startswith(note) for text in notes] == [True] * (not allow)
        assert spec_from_data(spec_data(spec), allow=allow) == spec


def test_a_library_tool_that_a_spec_words_otherwise_is_not_accepted() -> None:
    spec = spec_from_data(small(tools=[to_data(replace(LOOK, description="Better."))]))
    spec, notes = with_tools(spec, {}, accepted=[LOOK])
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (small(tools=["files", to_data(SAFE)]), "The tool 'safe' occurs twice"),
        (case(expect=[{"called": "saef"}]),
            "The case 'a' expects something of the tool 'saef', which it does not have. Its "
            "tools are safe."
        ),
        (case(tools=[], expect=[{"never": "safe"}]), "which it does not have. Its tools are none."),
        (case(expect=[{"order": ["safe", "x"]}]), "of the tool 'x'"),
        (case(expect=[{"count": 0, "of": "x"}]), "of the tool 'x'"),
        (case(answers={"x": "y"}), "The case 'a' has an answer of the tool 'x'"),
        (small(variants={"b": {"descriptions": {"x": "y"}}}), "The variant 'b' describes the tool"),
    ],
)  # fmt: skip
def test_a_tool_that_is_named_and_not_there_is_refused(data: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        with_tools(spec_from_data({"tools": ["files"]} | data), {"files": [SAFE]})
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (case(prompt="{{ x }}" * 100, vars={"x": LONG}), "/cases/0/prompt"),
        (case(vars={"x": LONG}) | {"defaults": {"system": "{{ x }}" * 100}}, "/cases/0/system"),
        (
            case(vars={"x": [LONG] * 60})
            | {"variants": [{"name": "a", "system": "{{x}}"}, {"name": "b"}]},
            "/cases/0/system",
        ),
    ],
)
def test_a_filled_text_that_is_too_long_is_refused_with_its_place(data: Any, place: str) -> None:
    with pytest.raises(BadInput, match=rf"{place}: filled with its vars.*at most"):
        spec_from_data(data)


def test_filled_texts_that_are_too_long_together_are_refused() -> None:
    data = case(prompt="{{ x }}" * 45, vars={"x": LONG})
    data["variants"] = [{"name": f"v{number}"} for number in range(64)]
    data["models"] = [f"m{number}" for number in range(5)]
    with pytest.raises(BadInput, match="all runs up to this case have 288,000,000 characters"):
        spec_from_data(data)


def test_a_filled_text_below_the_bound_is_filled() -> None:
    [read] = spec_from_data(case(prompt="{{ x }}!", vars={"x": "y" * 999_999})).cases
    assert len(read.fill(read.prompt)) == read.filled_length(read.prompt) == 1_000_000
    with pytest.raises(BadInput, match="1,999,998 characters"):
        read.fill("{{ x }}{{ x }}")
