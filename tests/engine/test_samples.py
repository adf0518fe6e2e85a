"""Whatever makes a sample for a schema makes one that satisfies it, or it is said that it does
not: the form of a tool that is tried, mocks, drafts of an answer, and imported tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.tools import Tool
from playground.engine.suggestions import suggest_result
from playground.exchange.tool_entry import sample_result
from playground.executors.executor import Invocation
from playground.executors.mock import Mock
from playground.schema.schema_checks import validator
from playground.schema.validate import check_call
from playground.web.tools.trying import sample_arguments
from tests.engine.test_suggestions import of
from tests.schema.test_satisfy import SCHEMAS

Json = dict[str, Any]
NEVER: Json = {"type": "object", "required": ["a"], "properties": {"a": False}}
OUTER = ("$schema", "$defs", "definitions")
"""Members that only the root of a schema may have."""


def mock_sample(schema: Json, arguments: str = "{}") -> tuple[Any, str]:
    tool = Tool("t", config={"sample": True, "output_schema": schema})
    call = Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=arguments,
        timeout_s=5.0,
        max_output=100_000,
        folder=Path(),
        idempotency_key="k",
    )

    async def run() -> tuple[Any, str]:
        result = await Mock().run(call, lambda *_: None)
        text = result.text
        is_json = result.content[0].media_type == "application/json"
        return (json.loads(text) if is_json else text), result.mismatch

    return anyio.run(run)


@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items())
def test_sample_wherever_one_is_made_satisfies_its_schema(name: str, schema: Json) -> None:
    judge = validator(schema)
    for number in range(3):
        draft = json.loads(suggest_result(of("t", '{"a": 1}', output_schema=schema), number).text)
        assert judge.is_valid(draft), ("draft", draft)
    value, mismatch = mock_sample(schema, '{"q": 1}')
    assert judge.is_valid(value), ("mock", value)
    assert mismatch == ""
    imported = sample_result(schema, "t")
    assert imported == "A made-up result of t." or judge.is_valid(imported), ("import", imported)
    if '"$ref": "#"' not in json.dumps(schema) and "#/properties" not in json.dumps(schema):
        tool = Tool("t", parameters=_arguments_of(schema))
        assert check_call(tool, "t", sample_arguments(tool).text) == (), "try"


def _arguments_of(schema: Json) -> Json:
    """Parameters with one argument of this schema."""
    outer = {key: part for key, part in schema.items() if key in OUTER}
    inner = {key: part for key, part in schema.items() if key not in OUTER}
    return {**outer, "type": "object", "properties": {"v": inner}, "required": ["v"]}


@pytest.mark.parametrize("schema", [NEVER, {"type": "string", "enum": []}])
def test_sample_of_a_schema_that_nothing_satisfies_is_said_to_be_wrong(schema: Json) -> None:
    _, mismatch = mock_sample(schema)
    assert mismatch.startswith("The result does not satisfy the tool's output schema.")
    tool = Tool("t", parameters={"type": "object", "properties": {"v": schema}, "required": ["v"]})
    assert check_call(tool, "t", sample_arguments(tool).text) != ()
