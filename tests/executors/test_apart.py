"""Tools that mean harm, run by a server without privileges: all ends, and nothing is seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.executors import apart
from tests.executors.test_python import ATTACKS, ROOT, alive

SCRIPT = Path(__file__).with_name("as_nobody.py")
NOBODY = 65534


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


def interpreter() -> str:
    found = [sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")]
    usable = [one for one in found if one and runs(one)]
    if not usable:
        pytest.skip("no Python here that somebody without privileges can start")
    return usable[0]


def run(folder: Path, function: str, timeout_s: float = 2.0) -> tuple[str, str, list[str]]:
    """The result's text and kind, and what it told; as nobody where we are root."""
    for one in (folder, *list(folder.parents)[:2]):
        one.chmod(0o755)
    shutil.copy(ATTACKS, folder / "tools.py")
    words = [str(folder / "tools.py"), function, "{}", str(timeout_s), interpreter()]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SOME_API_KEY": "canary"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=environment,
        check=True,
    )
    *told, last = done.stdout.splitlines()
    text, kind = json.loads(last)
    return text, kind, told


@pytest.mark.parametrize("function", ["endless", "orphan", "storm", "guard_stopper"])
def test_it_is_ended_with_all_it_started(tmp_path: Path, function: str) -> None:
    text, kind, told = run(tmp_path, function)
    assert told == ["told ready"], text
    assert kind == "timeout"
    assert "stopped after 2 s" in text
    assert alive(tmp_path) == []


def test_it_cannot_kill_its_guard(tmp_path: Path) -> None:
    if not offered_to_nobody():
        pytest.skip("no namespaces here: a tool that kills its guard may leave a hidden child")
    text, kind, told = run(tmp_path, "guard_killer")
    assert (told, kind) == (["told ready"], "timeout"), text
    assert alive(tmp_path) == []


def test_no_environment_of_others_is_seen(tmp_path: Path) -> None:
    text, kind, _ = run(tmp_path, "neighbours", 20.0)
    assert kind == ""
    assert "PATH=" in text  # its own
    assert "canary" not in text


def test_its_processes_are_counted(tmp_path: Path) -> None:
    text, kind, _ = run(tmp_path, "fork_until_refused", 20.0)
    assert kind == ""
    assert 0 < int(text) < (257 if offered_to_nobody() else 5_000)
    assert alive(tmp_path) == []


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [("memory", "failed", "MemoryError"), ("flood", "too_large", "was stopped")],
)
def test_it_is_told_why(tmp_path: Path, function: str, kind: str, said: str) -> None:
    text, found, _ = run(tmp_path, function, 20.0)
    assert found == kind
    assert said in text
    assert alive(tmp_path) == []


def offered_to_nobody() -> bool:
    """Asked in a process of its own, which gives root up first."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom app.executors import apart\n"
    code += "import os\nif os.getuid() == 0:\n    os.setgid(65534); os.setuid(65534)\n"
    code += "import ctypes; ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)\n"  # as after a start anew
    done = subprocess.run([sys.executable, "-c", code + "sys.exit(not apart.offered())"], cwd="/")
    return done.returncode == 0


def test_codes() -> None:
    assert [apart.code_of(status) for status in (0, 3 << 8, 9)] == [0, 3, 137]
    with pytest.raises(OSError, match=r"prctl|argument"):
        apart.called("prctl", -1, 0, 0, 0, 0)
