"""Files of BFCL become cases; what cannot be taken is named with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.evaluation.batch_import import MOST_WRITTEN_OUT, is_bfcl, read_bfcl
from playground.evaluation.results import judge
from playground.evaluation.spec import ArgumentMatch, Case, Expectation, ImportedBatch, spec_data
from playground.evaluation.spec_reader import spec_from_data
from tests.evaluation.test_expectations import make_session

AREA = {
    "name": "shape.area",
    "description": "The area.",
    "parameters": {
        "type": "dict",
        "properties": {
            "base": {"type": "integer"},
            "unit": {"type": "string"},
            "options": {"type": "dict", "properties": {"digits": {"type": "integer"}}},
        },
        "required": ["base"],
    },
}
USER = {"role": "user", "content": "Area?"}

MANY = {name: list(range(7)) for name in "abc"}


def line(number: int = 0, category: str = "simple_python", **changes: Any) -> str:
    entry = {"id": f"{category}_{number}", "question": [[USER]], "function": [AREA]}
    return json.dumps(entry | changes)


def read(*truth: Any, category: str = "simple_python", **changes: Any) -> ImportedBatch:
    answer = {"id": f"{category}_0", "ground_truth": list(truth)}
    return read_bfcl(line(category=category, **changes), json.dumps(answer))


def read_case(*truth: Any, **changes: Any) -> Case:
    imported = read(*truth, **changes)
    assert imported.left_out == ()
    assert spec_from_data(spec_data(imported.spec)) == imported.spec
    return imported.spec.cases[0]


def test_a_case_has_its_own_tools_and_one_turn() -> None:
    answer = {"shape.area": {"base": [10, 10.0], "unit": ["cm", ""]}}
    system = {"role": "system", "content": "Be exact."}
    case = read_case(answer, question=[[system, USER]])
    assert (case.id, case.category) == ("simple_python_0", "simple_python")
    assert (case.system, case.prompt) == ("Be exact.", "Area?")
    (tool,) = case.tools or ()
    assert not isinstance(tool, str)
    assert tool.name == "shape_area"
    assert tool.parameters["type"] == tool.parameters["properties"]["options"]["type"] == "object"
    match = ArgumentMatch("any_of", {"base": [10, 10.0], "unit": ["cm", ""]}, ("unit",), loose=True)
    assert case.expect == (Expectation("called", "shape_area", match), Expectation("count", 1))
    assert read(answer).spec.settings == {"max_turns": 1}


@pytest.mark.parametrize(
    ("parameters", "raw", "passes"),
    [
        ({"base": [1]}, '{"base": 1}', True),
        ({"base": [1]}, "{}", False),
        ({"base": [1], "unit": ["Sq. cm", ""]}, '{"base": 1, "unit": "sq cm"}', True),
        ({"base": [1]}, '{"base": 1, "unit": "cm"}', False),
        ({"base": [1], "options": [{"digits": [2, 3]}]},
         '{"base": 1, "options": {"digits": 3}}', True),
        ({"base": [1], "options": [{"digits": [2, ""]}]}, '{"base": 1, "options": {}}', True),
        ({"base": [1], "options": [{"digits": [2]}]},
         '{"base": 1, "options": {"digits": 4}}', False),
        ({"base": [1], "options": ["", {"digits": [2]}]}, '{"base": 1}', True),
        ({"base": [1], "extra": [[{"a": [1, 2]}, {"a": [3]}], ""]},
         '{"base": 1, "extra": [{"a": 2}, {"a": 3}]}', True),
        ({}, "{}", True),
    ],
)  # fmt: skip
def test_allowed_values_are_those_of_bfcl(
    parameters: dict[str, Any], raw: str, passes: bool
) -> None:
    case = read_case({"shape.area": parameters})
    results = judge(make_session(f"shape_area {raw}"), case.expect)
    assert all(result.passed for result in results) is passes


def test_categories_without_answers_want_a_call_or_none() -> None:
    for category, no_call in (("live_irrelevance", True), ("live_relevance", False)):
        imported = read_bfcl(line(category=category), "")
        assert imported.spec.cases[0].expect == (Expectation("no_call", no_call),)


def test_an_answer_in_python_is_read_where_it_is_plain() -> None:
    case = read_case("shape.area(3, unit='cm', options={'digits': 2})")
    match = case.expect[0].arguments
    assert match is not None
    assert match.value == {"base": [3], "unit": ["cm"], "options": [{"digits": 2}]}


@pytest.mark.parametrize(
    ("truth", "changes", "reason"),
    [
        ([{"shape.area": {"base": ["ten"]}}], {}, "Its answer does not match the"),
        ([{"shape.area": {"height": [1]}}], {}, "needs height, which is not a parameter of"),
        ([{"f": {}}], {}, "Its answer calls f, which is not one of its functions."),
        ([{"shape.area": []}], {}, "Its answer has no parameters: shape.area."),
        ([{"shape.area": {"options": [MANY]}}], {}, f"more than {MOST_WRITTEN_OUT} values"),
        ([3], {}, "Its answer is not a call."),
        (["shape.area(1/6)"], {}, "Its answer is a program or a text, not a call with plain"),
        (["A text."], {}, "Its answer is a program or a text, not a call with plain values."),
        ([], {"question": [[USER], [USER]]}, "It has several turns."),
        ([], {"question": "Area?"}, "Its question is not a list of messages."),
        ([], {"question": [[{"role": "assistant", "content": "Hi"}, USER]]}, "A message of the"),
        ([], {"question": [[{"role": "user", "content": " "}]]}, "It has no prompt."),
        ([], {"function": None}, "It has no functions"),
        ([], {"function": [AREA, AREA]}, "Two of its functions are called shape_area."),
        ([], {"function": [{"name": "f", "parameters": {"type": "wrong"}}]}, "A function cannot"),
        ([], {"id": "simple_python_9"}, "possible_answer has no answer to it."),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_left_out_with_its_reason(
    truth: list[Any], changes: dict[str, Any], reason: str
) -> None:
    imported = read(*truth, **changes)
    assert imported.spec.cases == ()
    (left_out,) = imported.left_out
    assert reason in left_out.reason


def test_an_id_is_taken_once() -> None:
    imported = read_bfcl("\n".join([line(category="irrelevance")] * 2), "")
    assert len(imported.spec.cases) == len(imported.left_out) == 1


def test_a_file_that_is_none_is_refused_with_its_line() -> None:
    assert is_bfcl(line())
    assert not is_bfcl('{"playground_batch": 1}')
    with pytest.raises(BadInput, match="Line 2"):
        read_bfcl(line() + "\n{", "")
    with pytest.raises(BadInput, match="Line 1 is not an object"):
        read_bfcl("[]", "")
