"""The sandbox as an ordinary user has it, and what a command may do to the machine.

Run as root, these tests drop to a user without rights first: root's accidents have no limits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
SCRIPT = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from app.executors.workspace import shell

async def main():
    folder, told = Path(sys.argv[2]), {}
    told["missing"] = await shell.sandbox(folder)
    for name, text, confine in json.loads(sys.argv[3]):
        if confine and told["missing"]:
            continue
        command = shell.Command(text, folder, confine, 3)
        async with shell.running(command) as one:
            try:
                async with asyncio.timeout(20):
                    code = await one.follow(lambda _: None)
            except TimeoutError:
                code = "timeout"
            told[name] = [code, one.output.take()]
    print(json.dumps(told))

asyncio.run(main())
"""


def as_nobody() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of a user without rights, where every user can get to."""
    made = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(made, NOBODY, NOBODY)
    yield made
    shutil.rmtree(made)


def interpreter() -> str:
    """A Python that this user may start, and that can read this program."""
    for one in (sys.executable, "/usr/bin/python3"):
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); import app.executors.workspace.shell"
        )
        try:
            done = subprocess.run([one, "-B", "-c", code], capture_output=True, **as_nobody())
        except OSError:
            continue
        if done.returncode == 0:
            return one
    pytest.skip("no Python here that a user without rights may start")


def told(folder: Path, *commands: tuple[str, str, bool]) -> dict[str, Any]:
    words = [interpreter(), "-B", "-c", SCRIPT, str(ROOT), str(folder), json.dumps(commands)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, **as_nobody())
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def processes(mark: str) -> int:
    found = 0
    for entry in Path("/proc").iterdir():
        try:
            found += entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes()
        except OSError:
            continue
    return found


def test_a_user_without_rights_has_a_sandbox(folder: Path) -> None:
    outside = folder.with_name(folder.name + ".outside")
    outside.write_text("not for the command")
    outside.chmod(0o666)
    try:
        answer = told(
            folder,
            ("own", "echo mine > own; cat own; id -u", True),
            ("outside", f"cat {outside}; echo x > {outside}; ls /home", True),
            ("rights", "grep -E 'Cap(Eff|Bnd)' /proc/self/status", True),
            ("escape", "unshare -Urm true && echo out; umount -l /usr && echo out", True),
            ("system", "touch /usr/x /x /etc/x && echo made", True),
        )
        if answer["missing"]:
            pytest.skip(f"no sandbox here: {answer['missing']}")
        uid = NOBODY if os.geteuid() == 0 else os.geteuid()
        assert answer["own"] == [0, f"mine\n{uid}\n"]
        assert "not for the command" not in answer["outside"][1]
        assert outside.read_text() == "not for the command"
        assert set(answer["rights"][1].split()[1::2]) == {"0" * 16}
        assert "out\n" not in answer["escape"][1]
        assert "made" not in answer["system"][1]
    finally:
        outside.unlink()


@pytest.mark.parametrize("confine", [True, False])
def test_accidents_are_ended_with_all_they_started(folder: Path, confine: bool) -> None:
    mark = f"71{os.getpid()}"
    answer = told(
        folder,
        ("loop", "while :; do :; done", confine),
        ("bomb", f"b() {{ b | b & }}; b 2>/dev/null; sleep 1; echo {mark}", confine),
        ("memory", "dd if=/dev/zero of=/dev/null bs=5G count=1 2>&1", confine),
        ("disk", "head -c 300000000 /dev/zero > big; ls -l big | wc -l", confine),
        ("orphan", f"setsid sh -c 'sleep {mark}' & (setsid sleep {mark} &); echo ok", confine),
    )
    if confine and answer["missing"]:
        pytest.skip(f"no sandbox here: {answer['missing']}")
    assert answer["loop"][0] == 137  # more than its seconds of computing
    assert answer["bomb"][0] != "timeout"
    assert answer["memory"][0] == 1
    assert "memory exhausted" in answer["memory"][1]
    assert (folder / "big").stat().st_size <= 256 << 20
    assert answer["orphan"] == [0, "ok\n"]
    assert processes(f"sleep\0{mark}") == 0
