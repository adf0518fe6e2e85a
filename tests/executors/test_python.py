"""The child process: what it is given, what comes back, and that nothing outlives it."""

from __future__ import annotations

import ast
import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.tools import Tool, ToolResult
from playground.executors import run_with_limits
from playground.executors.executor import Invocation
from playground.executors.python import executor, runner
from tests.executors.ending import TAKEN_S, over_once
from tests.tables import rest_slow

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
ATTACKS = Path(__file__).with_name("attack_tools.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the tools; the working folder of a call, and so the mark of its processes."""
    shutil.copy(ATTACKS, tmp_path / "tools.py")
    return tmp_path


def invocation(folder: Path, function: str, arguments: str = "{}", **more: Any) -> Invocation:
    config = {"file": str(folder / "tools.py"), "function": function}
    config["interpreter"] = more.pop("interpreter", "")
    tool = Tool("t", answered_by="python", config=config)
    limits = {"timeout_s": 20.0, "max_output": 100_000, **more}
    return Invocation("s", "1.0", 1, tool, arguments, folder=folder, idempotency_key="k", **limits)


async def run(call: Invocation, report: Callable[..., None] = lambda *_: None) -> ToolResult:
    """The call alone: what is kept for the next one ends as well."""
    executors = run_with_limits.executors()
    with anyio.fail_after(30):
        try:
            return await executors.run(call, report)
        finally:
            await executors.close()


def alive(folder: Path) -> list[int]:
    """The processes that have `folder` as their working folder."""
    results = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                results.append(int(entry.name))
        except OSError:
            continue
    return results


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    rest_slow(
        [
            ("fine", '{"city": "Kraków"}', "Kraków in celsius"),
            ("large", '{"size": 10}', "z" * 10),
            ("asynchronous", '{"number": 4}', '{"double": 8}'),
            (
                "asynchronous",
                '{"number": 12345678901234567890123}',
                '{"double": 24691357802469135780246}',
            ),
            ("spelled", '{"number": 12345678901234567890.5}', "Decimal 12345678901234567890.5"),
            ("spelled", '{"number": 12345678901234567890.0}', "int 12345678901234567890"),
            ("spelled", '{"number": 0.10}', "float 0.1"),
            ("odd_values", "{}", '{"point": {"x": 1, "tags": ["a", "b"]}, "path": "a/b"}'),
            ("installed", "{}", "nothing of ours"),
            ("threads", "{}", "did not wait"),
            ("leaver", "{}", "left one behind"),
        ],
        4,
    ),
)
async def test_result(folder: Path, function: str, arguments: str, text: str) -> None:
    result = await run(invocation(folder, function, arguments))
    assert (result.text, result.is_error, result.kind) == (text, False, "")
    assert alive(folder) == []


@pytest.mark.parametrize(
    ("function", "arguments", "messages"),
    rest_slow(
        [
            ("raiser", "{}", ["LookupError: nothing", ', in raiser: raise LookupError("']),
            ("fine", "{}", ["fine() does not take these arguments", "city"]),
            ("fine", '{"city": "x", "planet": "y"}', ["planet"]),
            ("absent", "{}", ["has no function absent; it has:", "crashes", "fine"]),
            ("leaves", "{}", ["SystemExit: I am off"]),
            ("crashes", "{}", ["without a result (exit code 3)", "about to crash"]),
            ("segfaults", "{}", ["without a result (Segmentation fault)"]),
            ("impossible", "{}", ["ValueError", "not JSON compliant"]),
            ("junk", "{}", ["8 bytes that are not PNG"]),
            ("memory", "{}", ["MemoryError"]),
        ],
        4,
    ),
)
async def test_failure_is_a_result(
    folder: Path, function: str, arguments: str, messages: list[str]
) -> None:
    result = await run(invocation(folder, function, arguments))
    assert (result.is_error, result.kind) == (True, "failed")
    for piece in messages:
        assert piece in result.text
    assert alive(folder) == []


async def test_bytes_of_an_image(folder: Path) -> None:
    [piece] = (await run(invocation(folder, "picture"))).content
    assert (piece.type, piece.media_type) == ("image", "image/png")
    assert base64.b64decode(piece.data).startswith(b"\x89PNG")


async def test_json_is_told_from_text(folder: Path) -> None:
    for function, kind in (("odd_values", "application/json"), ("leaver", "")):
        [piece] = (await run(invocation(folder, function))).content
        assert piece.media_type == kind


async def code_of(tool: Tool | None) -> str:
    return (await run_with_limits.executors().check_before_run("s", tool, "{}")).code


async def test_only_the_code_that_was_decided_on_is_run(folder: Path) -> None:
    call = invocation(folder, "fine", '{"city": "x"}')
    code = await code_of(call.tool)
    assert (await run(replace(call, code=code))).text == "x in celsius"
    (folder / "tools.py").write_text("def fine(city): return 'another'")
    assert await code_of(call.tool) not in (code, executor.MISSING)
    for decided in (code, executor.MISSING):
        result = await run(replace(call, code=decided))
        assert (result.is_error, result.text.endswith("Nothing was run.")) == (True, True)
    (folder / "tools.py").unlink()
    os.mkfifo(folder / "tools.py")
    assert await code_of(call.tool) == executor.MISSING
    assert await code_of(Tool("t")) == await code_of(None) == ""


async def test_broken_file(folder: Path) -> None:
    (folder / "tools.py").write_text("x = 1\ndef t(:\n")
    result = await run(invocation(folder, "t"))
    assert "SyntaxError" in result.text
    assert "line 2: def t(:" in result.text
    (folder / "tools.py").unlink()
    result = await run(invocation(folder, "t"))
    assert result.text.endswith("tools.py. Correct the tool's file.")


@pytest.mark.parametrize("interpreter", ["/no/such/python", "/", "false"])
async def test_no_such_interpreter(folder: Path, interpreter: str) -> None:
    result = await run(invocation(folder, "fine", '{"city": "x"}', interpreter=interpreter))
    assert (result.is_error, result.kind) == (True, "failed")
    assert "cannot be started" in result.text or "without a result" in result.text


async def test_environment_holds_no_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "MY_TOKEN", "PYTHONPATH", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("TZ", "Europe/Oslo")
    result = await run(invocation(folder, "environment"))
    environment = json.loads(result.text)
    assert "canary" not in result.text
    assert environment["TZ"] == "Europe/Oslo"
    known = {*executor._ENVIRONMENT, "LC_CTYPE", "LC_ALL"}
    assert {
        name for name in environment.keys() - known if not name.startswith("PLAYGROUND_")
    } == set()


async def test_a_function_finds_which_call_it_answers(folder: Path) -> None:
    call = replace(invocation(folder, "environment"), call="3.1", attempt=2, idempotency_key="k/3")
    call_facts = json.loads((await run(call)).text)
    assert {
        name: call_facts[name] for name in sorted(call_facts) if name.startswith("PLAYGROUND_")
    } == {
        "PLAYGROUND_ATTEMPT": "2",
        "PLAYGROUND_CALL": "3.1",
        "PLAYGROUND_IDEMPOTENCY_KEY": "k/3",
        "PLAYGROUND_SESSION": call.session,
    }


async def test_a_tool_that_imports_its_own_playground_gets_it(folder: Path) -> None:
    (folder / "playground.py").write_text("")
    result = await run(invocation(folder, "importer"))
    assert result.text == str(folder / "playground.py")


async def test_prints_are_progress_and_not_the_result(folder: Path) -> None:
    rows: list[tuple[str, float | None, str]] = []
    result = await run(invocation(folder, "chatty"), lambda *lines: rows.append(lines))
    assert result.text == "done"
    printed = "".join(output for _, _, output in rows)
    assert rows[-1][1] == 1.0
    assert "first" in printed


async def test_a_parameter_of_the_model_called_report(folder: Path) -> None:
    call = invocation(folder, "own_report", '{"report": "this"}')
    schema = {"type": "object", "properties": {"report": {"type": "string"}}}
    result = await run(replace(call, tool=replace(call.tool, parameters=schema)))
    assert result.text == "the model wrote this"


@pytest.mark.parametrize(
    "function", rest_slow(["endless", "orphan", "storm", "sleeper", "guard_stopper"])
)
async def test_time_out_ends_it_with_all_it_started(folder: Path, function: str) -> None:
    outputs: list[str] = []
    call = invocation(folder, function, timeout_s=TAKEN_S)
    result = await run(call, over_once(call, "ready", outputs.append))
    assert outputs == ["ready"], result
    assert (result.is_error, result.kind) == (True, "timeout")
    assert alive(folder) == []


@pytest.mark.parametrize("function", ["endless", "orphan", "sleeper"])
async def test_cancellation_ends_it_and_goes_on(folder: Path, function: str) -> None:
    ready = asyncio.Event()
    task = asyncio.create_task(run(invocation(folder, function), lambda *_: ready.set()))
    with anyio.fail_after(20):
        await ready.wait()
    assert alive(folder)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(folder) == []


async def test_a_killed_server_leaves_nothing(folder: Path) -> None:
    """The server's end closes the lifeline, however it ended."""
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.executors.test_python import invocation, run\n"
        "call = invocation(Path(sys.argv[1]), 'orphan')\n"
        "asyncio.run(run(call, lambda text, *_: print(text, flush=True)))\n"
    )
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(folder), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert server.stdout is not None
    with anyio.fail_after(20):
        assert await server.stdout.readline() == b"ready\n"
        assert alive(folder)
        server.kill()
        await server.wait()
        while alive(folder):
            await asyncio.sleep(0.01)


async def test_cancelled_before_it_began(folder: Path) -> None:
    task = asyncio.create_task(run(invocation(folder, "sleeper")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with anyio.fail_after(20):  # uvloop kills the child, and does not wait for its end
        while alive(folder):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("flood", "{}"), ("quiet_flood", "{}"), ("large", '{"size": 100001}')],
)
async def test_output_is_capped(folder: Path, function: str, arguments: str) -> None:
    outputs: list[str] = []
    call = invocation(folder, function, arguments)
    result = await run(call, lambda text, _, output: outputs.append(text + output))
    assert (result.is_error, result.kind) == (True, "too_large")
    assert sum(map(len, outputs)) <= 110_000
    assert alive(folder) == []


@pytest.mark.slow
async def test_forks_are_limited(folder: Path) -> None:
    result = await run(invocation(folder, "fork_until_refused"))
    assert 0 < int(result.text) < 5_000
    assert alive(folder) == []


async def test_large_arguments_pass_the_pipe(folder: Path) -> None:
    city = "x" * 3_000_000
    call = invocation(folder, "fine", json.dumps({"city": city}), max_output=4_000_000)
    assert (await run(call)).text == f"{city} in celsius"


def works(interpreter: str) -> bool:
    return subprocess.run([interpreter, "-c", ""], capture_output=True).returncode == 0


@pytest.mark.parametrize("version", rest_slow(["3.8", "3.9", "3.10", "3.12", "3.13", "3.14"]))
async def test_other_interpreters(folder: Path, version: str) -> None:
    match = shutil.which(f"python{version}")
    if match is None or not works(match):
        pytest.skip(f"no Python {version} here")
    result = await run(invocation(folder, "fine", '{"city": "x"}', interpreter=match))
    assert result.text == "x in celsius"


@pytest.mark.parametrize("name", ["runner", "conversion", "location", "frameworks", "read_tools"])
def test_files_of_the_child_are_python_3_8(name: str) -> None:
    source = Path(runner.__file__).with_name(f"{name}.py").read_text()
    ast.parse(source, feature_version=(3, 8))


async def test_shipped_names_stay_in_the_package() -> None:
    assert (
        executor._file("shipped:../../etc/passwd").parent == Path(executor.__file__).parent.parent
    )


async def test_call_when_child_failed_before_it_has_its_words(folder: Path) -> None:
    worker = await executor.Worker.start(["/bin/sh", "-c", "echo not a Python >&2"], folder, {})
    try:
        with anyio.fail_after(30):
            await worker.ended
            await anyio.wait_all_tasks_blocked()
            answer = await worker.call(b"{}\n", 1000, lambda *_: None, last=True)
    finally:
        await worker.end()
    assert (answer.message, answer.tail) == (None, "not a Python")
