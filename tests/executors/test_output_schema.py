"""Results are checked against the output schema of their tool, for the user: what the model gets
stays as it came."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.servers import Acceptance, Server, fingerprint
from playground.core.tools import Tool
from playground.executors.executor import Invocation
from playground.executors.mcp.executor import Mcp
from playground.executors.mock import Mock
from playground.executors.output_schema import NO_STRUCTURE
from playground.secrets.redaction import Redactor
from tests.executors.mcp_servers import by_stdio

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_mcp")]

KEY = "sk-" + "k1Q9" * 40
NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
TEXT = [{"type": "text", "text": "fine"}]
BROKEN = "The result does not satisfy the tool's output schema. "

ANSWERS: list[tuple[Any, dict[str, Any], str]] = [
    (NUMBER, {"content": TEXT, "structuredContent": {"n": 3}}, ""),
    (
        NUMBER,
        {"content": TEXT, "structuredContent": {"n": "three"}},
        BROKEN + '/n is "three", a string; the schema requires an integer.',
    ),
    (
        NUMBER,
        {"content": TEXT, "structuredContent": {"m": 1}},
        BROKEN
        + '/m is not in the schema, which knows only "n". The result has no "n", which the schema'
        " requires.",
    ),
    (NUMBER, {"content": [{"type": "text", "text": '{"n": 3}'}]}, NO_STRUCTURE),
    (NUMBER, {"content": TEXT, "isError": True}, ""),
    (NUMBER, {"content": TEXT, "isError": True, "structuredContent": {"n": "x"}}, ""),
    (None, {"content": TEXT, "structuredContent": {"n": "three"}}, ""),
    (  # the wrapper of FastMCP, which the model does not get
        {"type": "object", "properties": {"result": {"type": "integer", "minimum": 9}}},
        {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}},
        BROKEN + "/result is 5, an integer; the schema requires an integer of at least 9.",
    ),
    (
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}},
        {"content": TEXT, "structuredContent": {"a": 1}},
        "The result was not checked: its output schema cannot be used. A $ref must point into "
        "this schema, such as #/$defs/name. Nothing is fetched.",
    ),
    (
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 2}}, "$ref": "#/$defs/a"},
        {"content": TEXT, "structuredContent": {"a": 1}},
        "The result was not checked: its output schema would take too long to check.",
    ),
    (
        NUMBER,
        {"content": TEXT, "structuredContent": {"n": [1, 2], "a": 1, "b": 2, "c": 3}},
        BROKEN
        + "/n is [1, 2], an array; the schema requires an integer. /a is not in the schema, which"
        ' knows only "n". /b is not in the schema, which knows only "n". And 1 more.',
    ),
]


def invocation(tool: Tool, arguments: Any) -> Invocation:
    text = json.dumps(arguments)
    return Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=text,
        timeout_s=20,
        max_output=50_000,
        folder=Path("/"),
        idempotency_key="k",
    )


def mcp_of(server: Server) -> Mcp:
    async def known_servers() -> list[tuple[Server, Acceptance]]:
        return [(server, Acceptance(fingerprint(server)))]

    return Mcp(known_servers, {})


async def test_structured_content_of_mcp_when_it_breaks_the_schema_says_so() -> None:
    server = by_stdio("echo")
    mcp = mcp_of(server)
    try:
        for schema, answer, mismatch in ANSWERS:
            config = {"server": server.name, "tool": "t"}
            plain_tool = Tool("t", answered_by="mcp", config=config)
            tool = (
                replace(plain_tool, config={**config, "output_schema": schema})
                if schema
                else plain_tool
            )
            with anyio.fail_after(40):
                result = await mcp.run(invocation(tool, answer), lambda *_: None)
                unchecked = await mcp.run(invocation(plain_tool, answer), lambda *_: None)
            assert result.mismatch == mismatch
            assert replace(result, mismatch="") == unchecked  # the model gets the same
    finally:
        await mcp.close()


async def test_key_in_a_wrong_result_when_it_is_longer_than_what_is_shown_is_masked() -> None:
    tool = Tool("t", config={"result": {"n": KEY}, "output_schema": NUMBER})
    call = replace(invocation(tool, {}), redact=Redactor([KEY]).redact_data)
    result = await Mock().run(call, lambda *_: None)
    assert result.mismatch.startswith(BROKEN + '/n is "****')
    assert KEY[:8] not in result.mismatch


@pytest.mark.parametrize(
    ("schema", "answer", "is_valid"),
    [
        (NUMBER, {"n": 3}, True),
        (NUMBER, {"n": "x"}, False),
        (NUMBER, '{"n": 3}', True),
        (NUMBER, "three", False),
        ({"type": "string"}, "three", True),
        ({"type": "string"}, "3", True),
        ({"type": "integer"}, "3", True),
    ],
)
async def test_result_of_a_mock_with_an_output_schema_is_checked(
    schema: Any, answer: Any, is_valid: bool
) -> None:
    tool = Tool("t", config={"result": answer, "output_schema": schema})
    result = await Mock().run(invocation(tool, {}), lambda *_: None)
    assert (result.mismatch == "") is is_valid
