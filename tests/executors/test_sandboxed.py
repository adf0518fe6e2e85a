"""Python typed in the page: what it can do, what it cannot reach, and that it ends."""

from __future__ import annotations

import asyncio
import base64
import os
import resource
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.tools import Tool, ToolResult
from playground.executors import run_with_limits
from playground.executors.executor import Invocation, ReportProgress
from playground.executors.python import executor, runner
from tests.tables import rest_slow

pytestmark = pytest.mark.anyio

PNG = base64.b64decode("iVBORw0KGgo=")


def invocation(code: str, arguments: str = "{}", **more: Any) -> Invocation:
    config = {"code": code}
    if function := more.pop("function", ""):
        config["function"] = function
    tool = Tool("t", answered_by="python", config=config)
    limits = {"timeout_s": 20.0, "max_output": 5_000, **more}
    return Invocation("s", "1", 1, tool, arguments, folder=Path(), idempotency_key="k", **limits)


async def run(call: Invocation, report: ReportProgress = lambda *_: None) -> ToolResult:
    with anyio.fail_after(40):
        return await run_with_limits.executors().run(call, report)


def workers() -> set[int]:
    """The interpreters that we started and that still are."""
    return {
        pid
        for pid, _ in runner.descendants(os.getpid())
        if b"monty" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }


async def none_left() -> None:
    """Killed at once, reaped by its pool a moment later."""
    with anyio.fail_after(20):
        while workers():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("code", "arguments", "text"),
    rest_slow([
        ("def t(city, unit='C'):\n    return city + unit", '{"city": "Kraków"}', "KrakówC"),
        ("def t(**more):\n    return more", '{"a": [1, null, true]}', '{"a": [1, null, true]}'),
        ("def t(n):\n    return n + 1", '{"n": 12345678901234567890123}',
         "12345678901234567890124"),
        ("def t(n):\n    return n", '{"n": 0.10}', "0.1"),
        ("def other():\n    return 'the only one'", "{}", "the only one"),
        ("def a():\n    return 1\ndef t():\n    return a() + 1", "{}", "2"),
        ("async def t(x):\n    return x", '{"x": "later"}', "later"),
        ("import json, re, math\ndef t():\n    return json.loads('[1]')", "{}", "[1]"),
        ("def t():\n    return {'t': (1, 2), 's': {3}}", "{}", '{"t": [1, 2], "s": [3]}'),
        ("class P:\n    def __init__(self):\n        self.x = 1\ndef t():\n    return P()", "{}",
         '{"x": 1}'),
        ("def t():\n    pass", "{}", "null"),
        ("import re\ndef t():\n    return re.match('(a+)+$', 'a' * 60 + 'b')", "{}", "null"),
        ("X = []\ndef t():\n    X.append(1)\n    return X", "{}", "[1]"),
    ], 4),
)  # fmt: skip
async def test_result(code: str, arguments: str, text: str) -> None:
    result = await run(invocation(code, arguments))
    assert (result.text, result.is_error, result.kind) == (text, False, "")
    await none_left()


async def test_the_function_is_named() -> None:
    code = "def a():\n    return 'a'\ndef b():\n    return 'b'"
    assert (await run(invocation(code, function="b"))).text == "b"
    result = await run(invocation(code))
    assert (result.is_error, "it has: a, b" in result.text) == (True, True)
    assert (await run(invocation(code, function="c"))).is_error


async def test_an_image() -> None:
    result = await run(invocation(f"def t():\n    return {PNG!r}"))
    [piece] = result.content
    assert (piece.type, piece.media_type, base64.b64decode(piece.data)) == (
        "image",
        "image/png",
        PNG,
    )


@pytest.mark.parametrize(
    ("code", "messages"),
    rest_slow(
        [
            (
                "def t():\n    x = 1\n    raise ValueError('bad luck')",
                ["ValueError: bad luck", "line 3"],
            ),
            ("def t():\n    return missing", ["NameError", "line 2, in t: return missing"]),
            ("def t(:", ["parameter"]),
            ("def t(city):\n    pass", ["TypeError", "city"]),
            ("def t():\n    return open('/etc/passwd').read()", ["PermissionError", "line 2"]),
            ("import os\ndef t():\n    return os.environ['HOME']", ["os.environ"]),
            ("import socket\ndef t():\n    pass", ["No module named 'socket'", "line 1"]),
            ("import subprocess\ndef t():\n    pass", ["No module named 'subprocess'"]),
            ("import pydantic_monty\ndef t():\n    pass", ["No module named"]),
            ("def t():\n    return t()", ["RecursionError"]),
            ("def t():\n    return [0] * 10**9", ["MemoryError"]),
            ("def t():\n    return 9**9**9", ["MemoryError"]),
            (
                "def t():\n    x = []\n    while True:\n        x.append('y' * 1000)",
                ["MemoryError"],
            ),
            ("def t():\n    return float('nan')", ["not JSON"]),
            (
                "def t():\n    x = []\n    for _ in range(300):\n        x = [x]\n    return x",
                ["deeper than 200 levels"],
            ),
            ("def t():\n    return b'bytes'", ["5 bytes", "not PNG"]),
            ("def t():\n    import sys\n    sys.exit(1)", ["no attribute 'exit'", "line 3, in t"]),
            ("raise ValueError('at once')\ndef t():\n    pass", ["at once", "line 1"]),
        ],
        5,
    ),
)
async def test_failure_is_a_result(code: str, messages: list[str]) -> None:
    result = await run(invocation(code))
    assert (result.is_error, result.kind) == (True, "failed"), result
    for piece in messages:
        assert piece in result.text
    await none_left()


@pytest.mark.parametrize(
    "code",
    rest_slow(
        [
            "def t():\n    while True:\n        pass",
            "import time\ndef t():\n    time.sleep(600)",
            pytest.param(
                "import asyncio\nasync def t():\n    await asyncio.sleep(600)",
                marks=pytest.mark.slow,
            ),
            "while True:\n    pass\ndef t():\n    pass",
        ]
    ),
)
async def test_it_ends_in_time(code: str) -> None:
    result = await run(invocation(code, timeout_s=1.0))
    assert result.is_error
    assert result.kind == "timeout" or "limit" in result.text or "RuntimeError" in result.text
    await none_left()


async def test_cancellation_ends_it() -> None:
    ready = asyncio.Event()
    code = "def t():\n    print('ready')\n    while True:\n        pass"
    task = asyncio.create_task(run(invocation(code), lambda *_: ready.set()))
    with anyio.fail_after(20):
        await ready.wait()
    assert workers()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await none_left()


async def test_prints_are_shown() -> None:
    outputs: list[str] = []
    code = "def t():\n    print('one')\n    print('two', 2)\n    return 'done'"
    result = await run(invocation(code), lambda text, _, output="": outputs.append(output))
    assert result.text == "done"
    assert "".join(outputs) == "one\ntwo 2\n"


@pytest.mark.parametrize(
    "code",
    rest_slow(
        [
            "def t():\n    while True:\n        print('x' * 100)",
            "def t():\n    return 'x' * 10_000",
            "def t():\n    print('x' * 200_000_000)",
            "def t():\n    x = 'a' * 1_000_000\n    return [x] * 20",
            "def t():\n    raise ValueError('a' * 10_000)",
        ]
    ),
)
async def test_output_is_capped(code: str) -> None:
    outputs: list[str] = []
    result = await run(invocation(code), lambda text, _, output="": outputs.append(output))
    assert (result.is_error, result.kind) == (True, "too_large")
    assert sum(map(len, outputs)) <= 6_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    ["['a' * 1_000_000] * 1000", "[['a' * 1_000_000] * 1000] * 1000", "{'a': 'b' * 200_000_000}"],
)
async def test_a_value_that_is_large_only_when_written_costs_us_nothing(value: str) -> None:
    """The names of one text cost the interpreter nothing, and their texts gigabytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await run(invocation(f"def t():\n    x = {value}\n    return x"))
    assert result.is_error
    assert result.kind in ("too_large", "failed")
    assert len(result.text) < 6_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 * 1024, "KiB"
    await none_left()


async def test_the_interpreter_is_started_without_our_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-of-the-sandbox")
    ready = asyncio.Event()
    code = "def t():\n    print('ready')\n    while True:\n        pass"
    task = asyncio.create_task(run(invocation(code), lambda *_: ready.set()))
    with anyio.fail_after(20):
        await ready.wait()
    try:
        assert workers()
        for worker in workers():
            assert b"canary" not in Path(f"/proc/{worker}/environ").read_bytes()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    result = await run(invocation("def t():\n    pass"))
    assert (result.is_error, result.text) == (True, executor.SANDBOX_MISSING)
    assert "pip install" in result.text


@pytest.mark.slow
async def test_several_at_once() -> None:
    code = "def t(n):\n    return n * 2"
    calls = [run(invocation(code, f'{{"n": {number}}}')) for number in range(6)]
    results = await asyncio.gather(*calls)
    assert [result.text for result in results] == [str(2 * number) for number in range(6)]
