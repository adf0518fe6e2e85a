"""The sandbox as an ordinary user has it, and what a command may do to the machine.

Run as root, most of these tests drop to a user without rights first; the last are root's own.
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

from tests.tables import rest_slow

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
SCRIPT = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from playground.executors.workspace import shell

async def main():
    folder, told = Path(sys.argv[2]), {}
    told["missing"] = await shell.sandbox(folder)
    for name, text, confine in json.loads(sys.argv[3]):
        if confine and told["missing"]:
            continue
        command = shell.ShellCommand(text, folder, confine, 2)
        async with shell.run_command(command) as one:
            try:
                async with asyncio.timeout(20):
                    code = await one.follow(lambda _: None)
            except TimeoutError:
                code = "timeout"
            told[name] = [code, one.output.take()]
    print(json.dumps(told))

asyncio.run(main())
"""

SWITCHES = ("sys/vm/swappiness", "sysrq-trigger", "sys/kernel/core_pattern", "irq")
KERNEL = """
v=$(cat /proc/sys/vm/swappiness)
(echo ${v:-60} > /proc/sys/vm/swappiness) && echo written
(chmod 666 /dev/null || chown 0 /dev/null || touch /dev/null) && echo changed
for one in $SWITCHES /sys/kernel /sys/fs/cgroup; do test -e $one && echo seen $one; done
(echo 0 > /proc/self/oom_score_adj) && echo kernel
ls -l /proc/self/fd | grep -c ' -> '
""".replace("$SWITCHES", " ".join("/proc/" + name for name in SWITCHES))


def as_nobody() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of a user without rights, where every user can get to."""
    path = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


def interpreter() -> str:
    """A Python that this user may start, and that can read this program."""
    for text in (sys.executable, "/usr/bin/python3"):
        path = str(ROOT / "app")
        code = (
            f"import sys; sys.path.insert(0, {path!r}); import playground.executors.workspace.shell"
        )
        try:
            done = subprocess.run([text, "-B", "-c", code], capture_output=True, **as_nobody())
        except OSError:
            continue
        if done.returncode == 0:
            return text
    pytest.skip("no Python here that a user without rights may start")


def run_confined(
    folder: Path, *commands: tuple[str, str, bool], nobody: bool = True
) -> dict[str, Any]:
    python = interpreter() if nobody else sys.executable
    words = [python, "-B", "-c", SCRIPT, str(ROOT / "app"), str(folder), json.dumps(commands)]
    user = as_nobody() if nobody else {}
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, **user)
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def processes(mark: str) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            count += entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes()
        except OSError:
            continue
    return count


@pytest.mark.slow
def test_a_user_without_rights_has_a_sandbox(folder: Path) -> None:
    outside = folder.with_name(folder.name + ".outside")
    outside.write_text("not for the command")
    outside.chmod(0o666)
    try:
        answer = run_confined(
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


@pytest.mark.slow
@pytest.mark.parametrize("confine", [True, False])
def test_accidents_are_ended_with_all_they_started(folder: Path, confine: bool) -> None:
    mark = f"71{os.getpid()}"
    answer = run_confined(
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


@pytest.mark.parametrize("nobody", rest_slow([True, False]))
def test_nothing_of_the_kernel_can_be_changed(folder: Path, nobody: bool) -> None:
    if not nobody and os.geteuid() == 0:
        os.chown(folder, 0, 0)
    answer = run_confined(folder, ("kernel", KERNEL, True), nobody=nobody)
    if answer["missing"]:
        pytest.skip(f"no sandbox here: {answer['missing']}")
    *_, descriptors = answer["kernel"][1].splitlines()
    assert [word for word in ("written", "changed", "seen") if word in answer["kernel"][1]] == []
    assert "kernel\n" not in answer["kernel"][1]
    assert int(descriptors) == 4  # the three of a program, and the folder that `ls` reads


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be held to less")
def test_a_command_of_root_owns_nothing_outside(folder: Path) -> None:
    os.chown(folder, 0, 0)
    (folder / "mine").write_text("1")
    bomb = "for i in $(seq 400); do sleep 2 & done; echo all"
    answer = run_confined(
        folder,
        ("map", "cat /proc/self/uid_map", True),
        ("own", "echo 2 >> mine; chmod 600 mine; mkdir d; mv mine d/y; cat d/y", True),
        ("bomb", bomb, True),
        nobody=False,
    )
    if answer["missing"]:
        pytest.skip(f"no sandbox here: {answer['missing']}")
    if answer["map"][1].split()[1] == "0":
        pytest.skip("no folder can be lent here: its file system has no idmapped mounts")
    assert answer["map"][1].split() == ["0", "65533", "1"]
    assert answer["own"] == [0, "12\n"]
    assert (folder / "d" / "y").stat().st_uid == 0
    assert "all" not in answer["bomb"][1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be held to less")
def test_where_no_folder_can_be_lent_nothing_is_open_either(folder: Path) -> None:
    """A folder of another user is one; so is one on a file system without idmapped mounts."""
    folder.chmod(0o777)
    answer = run_confined(folder, ("map", "cat /proc/self/uid_map", True), ("kernel", KERNEL, True),
                  nobody=False)  # fmt: skip
    if answer["missing"]:
        pytest.skip(f"no sandbox here: {answer['missing']}")
    assert answer["map"][1].split() == ["0", "0", "1"]
    assert [word for word in ("written", "changed", "seen") if word in answer["kernel"][1]] == []
