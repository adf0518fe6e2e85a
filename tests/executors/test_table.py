"""What holds for every executor, and what the wrapper around them adds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core import servers as core_servers
from playground.core.tools import AnsweredBy, Tool, ToolResult, text_result
from playground.executors import run_with_limits
from playground.executors.executor import CallCheck, Invocation, ReportProgress
from playground.executors.mcp.executor import Mcp
from playground.executors.mock import Mock
from tests.executors import mcp_servers
from tests.net.tool_server import Reader, Server, Writer, http_response, serving
from tests.tables import rest_slow

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_mcp")]
TOOLS = str(Path(__file__).with_name("attack_tools.py"))

SERVER = mcp_servers.by_stdio("fine")

INSTANT: frozenset[str] = frozenset()
"""Executors that always answer at once: they have no case in SLOW."""


def python(function: str) -> dict[str, str]:
    return {"file": TOOLS, "function": function}


def code_config(code: str) -> dict[str, str]:
    return {"code": code}


def http(path: str) -> dict[str, Any]:
    return {"url": "http://127.0.0.1:PORT" + path, "private": True}


def mcp(tool: str) -> dict[str, str]:
    return {"server": "fine", "tool": tool}


FINE: Mapping[str, tuple[dict[str, Any], str]] = {
    "mock": ({"result": "It rains in {{ args.city }}."}, "It rains in Oslo."),
    "python": (python("fine"), "Oslo in celsius"),
    "http": (http("/weather/{city}"), "/weather/Oslo"),
    "mcp": (mcp("tell"), "Oslo by mcp"),
    "sandbox": (code_config("def t(city):\n    return city + ' in monty'"), "Oslo in monty"),
}
SLOW: Mapping[str, dict[str, Any]] = {
    "mock": {"result": "late", "delay_s": 600},
    "python": python("sleeper"),
    "http": http("/slow"),
    "mcp": mcp("hold"),
    "sandbox": code_config("def t(city):\n    print('ready')\n    while True:\n        pass"),
}
LARGE: Mapping[str, dict[str, Any]] = {
    "mock": {"result": "x" * 10_000},
    "python": python("flood"),
    "http": http("/large"),
    "mcp": mcp("much"),
    "sandbox": code_config("def t(city):\n    return 'x' * 10_000"),
}
CASES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "FINE": (FINE, 'a config, and the text of its result for the arguments {"city": "Oslo"}'),
    "SLOW": (
        SLOW,
        "a config whose call reports progress or output and then does not end (or to INSTANT if it "
        "always answers at once)",
    ),
    "LARGE": (LARGE, "a config whose result has more than 5,000 bytes"),
}
"""The tables with a case of every executor, and what to add to each for a new one."""

BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("mock", {"delay_s": "soon"}),
    ("mock", {"delay_s": None}),
    ("python", {}),
    ("python", {"file": 3, "function": None}),
    ("python", {"file": "nowhere.py", "function": "f"}),
    ("python", {"file": TOOLS, "function": "nothing"}),
    ("python", {"file": TOOLS, "function": "fine", "interpreter": "/nowhere"}),
    ("python", {"file": "nul\0.py", "function": "fine"}),
    ("http", {}),
    ("http", {"url": 3}),
    ("http", {"url": "http://127.0.0.1:1/", "headers": 5}),
    ("http", {"url": "http://127.0.0.1:1/", "private": True}),
    ("http", {"url": "http://127.0.0.1:PORT/"}),
    ("sandbox", code_config("")),
    ("sandbox", code_config("def t(:")),
    ("sandbox", {"code": None}),
    ("sandbox", code_config("def t(city):\n    raise ValueError(city)")),
    ("mcp", {}),
    ("mcp", {"server": 3, "tool": None}),
    ("mcp", {"server": "other", "tool": "tell"}),
    ("mcp", mcp("nothing")),
    ("person", {}),
]


def invocation(kind: Any, config: dict[str, Any], timeout_s: float = 20.0) -> Invocation:
    by: AnsweredBy = "python" if kind == "sandbox" else kind
    tool = Tool("t", answered_by=by, config=config)
    arguments = '{"city": "Oslo"}' if config.get("function", "fine") == "fine" else "{}"
    return Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=arguments,
        timeout_s=timeout_s,
        max_output=5_000,
        folder=Path(TOOLS).parent,
        idempotency_key="k",
    )


async def servers() -> list[tuple[core_servers.Server, core_servers.Acceptance]]:
    return [(SERVER, core_servers.Acceptance(core_servers.fingerprint(SERVER)))]


MCP = Mcp(servers)
EXECUTORS = run_with_limits.executors(mcp=MCP)
KINDS = [*EXECUTORS.by_kind, "sandbox"]


class Answers:
    """Says the path it was asked for; much, or nothing, where that says so."""

    server: Server

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        path = self.server.seen[-1].split()[1].decode().partition("?")[0]
        if path == "/slow":
            await reader.read()
        writer.write(http_response(b"x" * 10_000 if path == "/large" else path.encode()))
        await writer.drain()


def ignore(text: str, fraction: float | None, output: str = "", /) -> None:
    pass


async def run(call: Invocation, report: ReportProgress = ignore) -> ToolResult:
    answers = Answers()
    with anyio.fail_after(30):
        async with serving(answers) as answers.server:
            url = str(call.tool.config.get("url", "")).replace("PORT", str(answers.server.port))
            if "PORT" in str(call.tool.config):
                tool = replace(call.tool, config={**call.tool.config, "url": url})
                call = replace(call, tool=tool)
            try:
                return await EXECUTORS.run(call, report)
            finally:
                await EXECUTORS.close()  # each test has a loop of its own


def missing_cases(kinds: Sequence[str]) -> list[str]:
    """What to add to the tables above for the executors `kinds`, as sentences."""
    return [
        f"Add {kind!r} to {table} in tests/executors/test_table.py: {what}."
        for kind in kinds
        for table, (cases, what) in CASES.items()
        if kind not in cases and not (table == "SLOW" and kind in INSTANT)
    ]


def test_every_executor_has_a_case_in_each_table() -> None:
    missing = missing_cases(KINDS)
    assert not missing, "\n".join(missing)
    assert missing_cases(["mock", "echo"]) == [
        "Add 'echo' to FINE in tests/executors/test_table.py: a config, and the text of its result "
        'for the arguments {"city": "Oslo"}.',
        "Add 'echo' to SLOW in tests/executors/test_table.py: a config whose call reports progress "
        "or output and then does not end (or to INSTANT if it always answers at once).",
        "Add 'echo' to LARGE in tests/executors/test_table.py: a config whose result has more than "
        "5,000 bytes.",
    ]


@pytest.mark.parametrize("kind", FINE)
async def test_result(kind: str) -> None:
    config, text = FINE[kind]
    result = await run(invocation(kind, config))
    assert (result.text, result.is_error, result.kind) == (text, False, "")


@pytest.mark.parametrize("kind", rest_slow([*SLOW], 2))
async def test_time_out(kind: str) -> None:
    result = await run(invocation(kind, SLOW[kind], timeout_s=0.5))
    assert (result.is_error, result.kind) == (True, "timeout")
    assert result.text == "The tool was stopped after 0.5 s, its limit."


@pytest.mark.parametrize("kind", SLOW)
async def test_cancellation_passes(kind: str) -> None:
    ready = asyncio.Event()
    task = asyncio.create_task(run(invocation(kind, SLOW[kind]), lambda *_: ready.set()))
    with anyio.fail_after(20):
        await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("kind", LARGE)
async def test_output_is_capped(kind: str) -> None:
    result = await run(invocation(kind, LARGE[kind]))
    assert (result.is_error, result.kind) == (True, "too_large"), result.text
    assert len(result.text) < 200


@pytest.mark.parametrize(("kind", "config"), BROKEN)
async def test_never_raises(kind: str, config: dict[str, Any]) -> None:
    result = await run(invocation(kind, config))
    assert (result.is_error, result.kind) == (True, "failed")
    assert result.text


async def test_an_executor_with_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    class Buggy:
        async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
            raise TimeoutError("its own, long before the limit")

    monkeypatch.setattr(EXECUTORS, "by_kind", {"mock": Buggy()})
    result = await run(invocation("mock", {}))
    assert (result.is_error, result.kind) == (True, "failed")
    assert "its own, long before the limit" in result.text


async def test_size_counts_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kraken:
        async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
            return text_result("é" * 2_501)

    monkeypatch.setattr(EXECUTORS, "by_kind", {"mock": Kraken()})
    assert (await run(invocation("mock", {}))).kind == "too_large"


async def test_so_many_run_at_once_and_the_others_wait() -> None:
    class Counting:
        running, most = 0, 0

        async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
            self.running += 1
            self.most = max(self.most, self.running)
            if self.running == run_with_limits.AT_ONCE:
                full.set()
            await go_on.wait()
            self.running -= 1
            return text_result("done")

        async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
            return CallCheck()

    full, go_on, outputs = asyncio.Event(), asyncio.Event(), list[str]()
    counting = Counting()
    all_of_them = run_with_limits.Executors({"http": counting, "mock": Mock()})
    calls = [
        asyncio.create_task(
            all_of_them.run(invocation("http", {}), lambda text, *_: outputs.append(text))
        )
        for _ in range(run_with_limits.AT_ONCE + 2)
    ]
    with anyio.fail_after(20):
        await full.wait()
        assert len(outputs) == 2
        assert "Waiting: 8 other calls are running" in outputs[0]
        mocked = await all_of_them.run(invocation("mock", {"result": "at once"}), ignore)
        assert mocked.text == "at once"
        calls[-1].cancel()
        await asyncio.wait({calls[-1]})
        go_on.set()
        results = await asyncio.gather(*calls[:-1])
        assert outputs[2:] == [""]  # it runs, and waits no more
    assert [result.text for result in results] == ["done"] * (run_with_limits.AT_ONCE + 1)
    assert counting.most == run_with_limits.AT_ONCE
