"""The shipped example tools: a file of plain functions, as your own would be.

Copy it, change it, and name the copy in a tool: {"file": "...", "function": "..."}. Nothing here
knows the playground. A parameter called `report` is not the model's: it is given by the runner,
and tells the page how far the work is.
"""

from __future__ import annotations

import ast
import math
import operator
import time
import zlib
from typing import Any, Callable  # noqa: UP035 - as Python 3.8 knows them

# -- calculator

MAX_LENGTH = 500
MAX_EXPONENT = 1_000
MAX_NUMBER = 10**300

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "round": round,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "floor": math.floor,
    "ceil": math.ceil,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}


def calculator(expression: str) -> str:
    """The value of an arithmetic expression. Python's own `eval` is never used on it."""
    if len(expression) > MAX_LENGTH:
        raise ValueError(f"the expression is longer than {MAX_LENGTH} characters")
    value = _value(ast.parse(expression.replace("^", "**").strip(), mode="eval").body)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return f"{expression} = {value}"


def _value(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _checked(node.value)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) > MAX_EXPONENT:
            raise ValueError(f"the exponent {right} is larger than {MAX_EXPONENT}")
        return _checked(_OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None:
            return _checked(function(*[_value(argument) for argument in node.args]))
    raise ValueError(
        "only numbers, + - * / // % **, parentheses, pi, e and these functions are known: "
        + ", ".join(sorted(_FUNCTIONS))
    )


def _checked(value: Any) -> Any:
    if isinstance(value, complex):
        raise ValueError("the result is no real number")
    if abs(value) > MAX_NUMBER:
        raise ValueError("a number in the expression grows too large")
    return value


# -- get_weather

_SKIES = ("clear", "partly cloudy", "cloudy", "light rain", "rain", "thunderstorm", "fog")


def get_weather(city: str, unit: str = "celsius", date: str = "today") -> dict[str, Any]:
    """Plausible weather, made from the arguments alone: the same question, the same answer."""
    if not city.strip():
        raise ValueError("the city is empty")
    dice = zlib.crc32(f"{city.strip().lower()}|{date}".encode())
    celsius = dice % 36 - 5
    low = celsius - 3 - dice // 64 % 6
    fahrenheit = unit == "fahrenheit"
    return {
        "city": city.strip(),
        "date": date,
        "unit": unit,
        "temperature": round(celsius * 9 / 5 + 32) if fahrenheit else celsius,
        "low": round(low * 9 / 5 + 32) if fahrenheit else low,
        "sky": _SKIES[dice // 7 % len(_SKIES)],
        "humidity_percent": 35 + dice // 1024 % 60,
        "wind_kmh": dice // 4096 % 45,
    }


# -- slow_report

_STEPS = (
    "Collecting sources",
    "Reading",
    "Comparing figures",
    "Drafting",
    "Checking the draft",
)


def slow_report(topic: str, report: Callable[..., None], seconds: float = 5) -> str:
    """Takes its time and tells how far it is."""
    for number, step in enumerate(_STEPS):
        report(f"{step} on {topic}", number / len(_STEPS))
        time.sleep(seconds / len(_STEPS))
    report("Done", 1.0)
    return (
        f"Report on {topic}\n"
        f"1. Interest in {topic} has grown for three years in a row.\n"
        f"2. The figures agree within a few percent between the sources.\n"
        f"3. Open question: what {topic} will cost in five years."
    )


# -- flaky_lookup


class RegistryUnavailable(Exception):
    """What a real client library might raise."""


def flaky_lookup(record_id: str) -> str:
    """Always fails, to show what a model does with an error."""
    raise RegistryUnavailable(f"the registry did not answer for {record_id!r}; try again later")
