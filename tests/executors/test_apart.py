"""Tools that mean harm, run by a server without privileges: all ends, and nothing is seen."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import anyio
import pytest

from playground.executors.python import runner
from tests.executors.ending import TAKEN_S
from tests.executors.test_python import ATTACKS, ROOT, alive, invocation
from tests.executors.test_python import run as python_run
from tests.shared_state import preserve_shared_state
from tests.tables import rest_slow

SCRIPT = Path(__file__).with_name("as_nobody.py")
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where somebody else can read: pytest shuts its own folders again and again."""
    with tempfile.TemporaryDirectory(prefix="tools-") as name:
        Path(name).chmod(0o755)
        shutil.copy(ATTACKS, Path(name) / "tools.py")
        yield Path(name)


def drop() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def runs(interpreter: str) -> bool:
    """Whether somebody without privileges can start it."""
    try:
        done = subprocess.run(
            [interpreter, "-c", ""],
            capture_output=True,
            cwd="/",
            preexec_fn=drop if os.getuid() == 0 else None,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


@cache
def interpreter() -> str:
    paths = [sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")]
    usable = [text for text in paths if text and runs(text)]
    if not usable:
        pytest.skip("no Python here that somebody without privileges can start")
    return usable[0]


def run(
    folder: Path, function: str, timeout_s: float = TAKEN_S + 0.5, shown: str = "hidden"
) -> tuple[str, str, list[str]]:
    """The result's text and kind, and what it told; as nobody where we are root."""
    words = [str(folder / "tools.py"), function, str(timeout_s), interpreter(), shown]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join((str(ROOT / "app"), str(ROOT))),
        "SOME_API_KEY": "canary",
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=environment,
        check=True,
    )
    *outputs, last = done.stdout.splitlines()
    text, kind = json.loads(last)
    return text, kind, outputs


@pytest.mark.parametrize("function", rest_slow(["endless", "orphan", "storm", "guard_stopper"], 2))
def test_it_is_ended_with_all_it_started(folder: Path, function: str) -> None:
    text, kind, outputs = run(folder, function)
    assert outputs == ["told ready"], text
    assert kind == "timeout"
    assert "stopped after 0.5 s" in text
    assert alive(folder) == []


def test_it_cannot_kill_its_guard(folder: Path) -> None:
    if not offered_to_nobody():
        pytest.skip("no namespaces here: a tool that kills its guard may leave a hidden child")
    text, kind, outputs = run(folder, "guard_killer")
    assert (outputs, kind) == (["told ready"], "timeout"), text
    assert alive(folder) == []


@pytest.mark.parametrize("visibility", rest_slow(["hidden", "open"]))
def test_no_environment_of_others_is_seen(folder: Path, visibility: str) -> None:
    if visibility == "open" and not offered_to_nobody():
        pytest.skip("no namespaces here: only what hides itself is not seen")
    text, kind, _ = run(folder, "neighbours", 20.0, visibility)
    assert kind == ""
    assert "PATH=" in text  # its own
    assert "canary" not in text


def test_its_processes_are_counted(folder: Path) -> None:
    text, kind, _ = run(folder, "fork_until_refused", 20.0)
    assert kind == ""
    assert 0 < int(text) < (257 if offered_to_nobody() else 5_000)
    assert alive(folder) == []


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    rest_slow([("memory", "failed", "MemoryError"), ("flood", "too_large", "was stopped")]),
)
def test_it_is_told_why(folder: Path, function: str, kind: str, message: str) -> None:
    text, match, _ = run(folder, function, 20.0)
    assert match == kind
    assert message in text
    assert alive(folder) == []


@cache
def offered_to_nobody() -> bool:
    """Asked of a program of the system that does the same."""
    words = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            cwd="/",
            preexec_fn=drop if os.getuid() == 0 else None,
        )
    except FileNotFoundError:
        return False
    return done.returncode == 0


@pytest.mark.anyio
async def test_a_killed_guard_leaves_nothing(folder: Path) -> None:
    """Killed from outside, as a system without memory does."""
    if not offered_to_nobody():
        pytest.skip("no namespaces here: what is in a session of its own stays")
    ready = asyncio.Event()
    call = invocation(folder, "orphan")
    task = asyncio.create_task(python_run(call, lambda *_: ready.set()))
    with anyio.fail_after(30):
        await ready.wait()
        [guard] = [pid for pid in alive(folder) if parent(pid) == os.getpid()]
        os.kill(guard, signal.SIGKILL)
        result = await task
        while alive(folder):
            await asyncio.sleep(0.01)
    assert "without a result" in result.text


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_codes() -> None:
    assert [runner.code_of(status) for status in (0, 3 << 8, 9)] == [0, 3, 137]
    with pytest.raises(OSError, match=r"prctl|argument"):
        runner.libc_call("prctl", -1, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "name", ["executors/python/runner", "executors/mcp/guard", "executors/workspace/confined"]
)
def test_a_script_that_is_imported_leaves_the_way_to_modules_as_it_is(name: str) -> None:
    """Else what is imported after it might come from another installation."""
    before = list(sys.path)
    with preserve_shared_state():
        runpy.run_path(str(ROOT / "app/playground" / f"{name}.py"), run_name="imported")
        assert sys.path == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root could")
def test_a_tool_of_root_cannot_switch_the_kernel() -> None:
    """Its /proc is a new one, in which what a container shut would be open again."""
    code = """
from playground.executors.python import runner
def work():
    name = "/proc/sys/vm/swappiness"
    try:
        with open(name) as file, open(name, "r+") as again:
            again.write(file.read())
    except OSError:
        return 7
    return 0
print(runner.can_isolate() and runner.run_isolated(work))
"""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, cwd=ROOT, check=True)
    if done.stdout == "False\n":
        pytest.skip("no namespaces here")
    assert done.stdout == "7\n"
