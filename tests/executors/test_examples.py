"""The shipped tools: sound as definitions, and they do what they say."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from playground.core.serialization import to_data
from playground.core.tools import Tool, ToolResult
from playground.executors import run_with_limits
from playground.executors.example_tools import calculator, get_weather
from playground.executors.examples import EXAMPLES
from playground.executors.executor import Invocation
from playground.schema.satisfy import sample_value
from playground.schema.validate import check_call, check_tool

BY_NAME = {tool.name: tool for tool in EXAMPLES}


async def run(tool: Tool, arguments: str) -> ToolResult:
    call = Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=arguments,
        timeout_s=20.0,
        max_output=10_000,
        folder=Path(),
        idempotency_key="k",
    )
    with anyio.fail_after(30):
        return await run_with_limits.executors().run(call, lambda *_: None)


@pytest.mark.parametrize("tool", EXAMPLES, ids=lambda tool: tool.name)
def test_definition(tool: Tool) -> None:
    assert check_tool(to_data(tool)) == tool
    assert tool.group == "examples"
    assert len(tool.description) > 80
    for schema in tool.parameters["properties"].values():
        assert schema["description"]
    assert check_call(tool, tool.name, json.dumps(sample_value(tool.parameters))) == ()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "arguments", "text", "is_error"),
    [
        ("calculator", '{"expression": "2 * (3 + 4)"}', "2 * (3 + 4) = 14", False),
        ("get_weather", '{"city": "Oslo"}', json.dumps(get_weather("Oslo")), False),
        ("slow_report", '{"topic": "tea", "seconds": 0}', "Report on tea", False),
        ("flaky_lookup", '{"record_id": "R-1"}', "RegistryUnavailable: the registry", True),
    ],
)
async def test_run(name: str, arguments: str, text: str, is_error: bool) -> None:
    result = await run(BY_NAME[name], arguments)
    assert result.text.startswith(text)
    assert result.is_error == is_error


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", "7"),
        ("-2 ** 2", "-4"),
        ("2^10", "1024"),
        ("7 / 2", "3.5"),
        ("7 // 2 + 7 % 2", "4"),
        ("sqrt(16) + max(1, 2)", "6"),
        ("round(pi, 2)", "3.14"),
        ("12345678901234567890 * 10", "123456789012345678900"),
    ],
)
def test_calculator(expression: str, value: str) -> None:
    assert calculator(expression) == f"{expression} = {value}"


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "__import__('os')",
        "(1).__class__",
        "open('x')",
        "[1 for x in y]",
        "9**9**9",
        "10**300 * 10**300",
        "'a' * 10",
        "True",
        "1 if 1 else 2",
        "(-8) ** 0.5",
        "1/0",
        "(" * 300,
        "1+" * 300 + "1",
        "max(*[1])",
        "log(x=1)",
        "1j",
        "lambda: 1",
    ],
)
def test_calculator_refuses(expression: str) -> None:
    with pytest.raises((ValueError, SyntaxError, ArithmeticError, MemoryError)):
        calculator(expression)


def test_weather_is_the_same_for_the_same_question() -> None:
    celsius, fahrenheit = get_weather("Oslo "), get_weather("oslo", "fahrenheit")
    assert get_weather("Oslo ") == celsius
    assert fahrenheit["temperature"] == round(celsius["temperature"] * 9 / 5 + 32)
    assert celsius["low"] < celsius["temperature"]
