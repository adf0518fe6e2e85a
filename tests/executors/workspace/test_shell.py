"""Commands: what comes back, the sandbox around them, and that nothing of them outlives its end.

Where this system offers no sandbox, what is said of it is skipped with the reason.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from playground.executors.workspace import shell
from playground.executors.workspace.executor import OPEN
from playground.executors.workspace.shell import Output
from tests.executors.ending import over_once
from tests.executors.workspace.working import TOOLS, Working, alive
from tests.tables import rest_slow
from tests.waiting import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def workspace(tmp_path: Path) -> Working:
    return Working(tmp_path / "files" / "s")


async def boxed(workspace: Working, command: str) -> str:
    """What a command prints in the sandbox, without its last line."""
    missing = await workspace.workspace.sandbox()
    if missing:
        pytest.skip(f"no sandbox here: {missing}")
    result = await workspace.call("run_shell", command=command)
    return result.text.rpartition("[")[0].strip()


@pytest.mark.parametrize("opened", rest_slow([True, False]))
@pytest.mark.parametrize(
    ("command", "message", "bad"),
    [
        ("echo one; echo two >&2", "one\ntwo\n[exit code 0, ", False),
        ("exit 3", "[exit code 3, ", True),
        ("printf x", "x\n[exit code 0, ", False),
        ("kill -9 $$", "[exit code 137, Killed, ", True),
        ("nothing-like-it", "not found\n[exit code 127, ", True),
        ("pwd; cat", "files/s\n[exit code 0, ", False),
        ("printf '\\377'", "\ufffd\n[exit code 0, ", False),
    ],
)
async def test_result(
    workspace: Working, command: str, message: str, bad: bool, opened: bool
) -> None:
    if not opened and (missing := await workspace.workspace.sandbox()):
        pytest.skip(f"no sandbox here: {missing}")
    run = workspace.open_shell(command) if opened else workspace.call("run_shell", command=command)
    result = await run
    assert message in result.text
    assert (result.is_error, "without the sandbox" in result.text) == (bad, opened)


async def test_the_sandbox_shows_the_folder_and_a_system_to_read(workspace: Working) -> None:
    workspace.folder.mkdir(parents=True)
    outside = workspace.folder.parent / "other"
    outside.write_text("not for the command")
    assert await boxed(workspace, "echo mine > a; cat a") == "mine"
    assert (workspace.folder / "a").read_text() == "mine\n"
    paths = (outside, Path(__file__), "/root", "/home", "/var")
    output = await boxed(workspace, "; ".join(f"cat '{path}'" for path in paths))
    assert ["No such file" in line for line in output.splitlines()] == [True] * len(paths), output
    places = ("/", "/usr", "/etc", "/bin", "/proc/sys/kernel")
    output = await boxed(
        workspace, "; ".join(f"touch '{place}/mine' && echo made" for place in places)
    )
    assert "made" not in output
    assert not Path("/usr/mine").exists()
    await boxed(workspace, f"touch '{workspace.folder.parent}/mine'")  # in its own /tmp, if at all
    assert not (workspace.folder.parent / "mine").exists()
    assert outside.read_text() == "not for the command"
    assert await boxed(workspace, "echo x > /tmp/here && cat /tmp/here; ls /home /root /var") != ""
    assert not Path("/tmp/here").exists()


async def test_the_sandbox_has_no_network_and_no_neighbours(workspace: Working) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        output = await boxed(workspace, f'/usr/bin/python3 -c "{code}" 2>&1 || echo refused')
        assert output.endswith("refused")
    assert await boxed(workspace, "grep -c eth /proc/self/net/dev") == "0"
    assert str(os.getpid()) not in (await boxed(workspace, "ls /proc")).split()
    assert await boxed(workspace, f"kill -0 {os.getpid()} 2>/dev/null && echo there") == ""


async def test_the_sandbox_cannot_be_left(workspace: Working) -> None:
    tricks = (
        "mount -o remount,rw,bind /usr",
        "umount -l /usr",
        "unshare -Urm true",
        "mknod disk b 8 0",
        "chroot /proc/1/root /bin/true",
        "nsenter -t 1 -m true",
        "false",
    )
    output = await boxed(
        workspace, "\n".join(f"{trick} 2>/dev/null || echo 'no {trick}'" for trick in tricks)
    )
    assert output.splitlines() == [f"no {trick}" for trick in tricks]
    output = await boxed(workspace, "grep -e CapBnd -e NoNewPrivs /proc/self/status")
    assert output == "CapBnd:\t0000000000000000\nNoNewPrivs:\t1"


async def test_links_made_by_a_command_lead_the_file_tools_nowhere(workspace: Working) -> None:
    (workspace.folder.parent).mkdir(parents=True)
    (workspace.folder.parent / "secret").write_text("secret")
    await workspace.open_shell("ln -s ../secret link; ln -s .. up; ln ../secret hard; mkfifo pipe")
    for path, code in (("link", "E5"), ("up/secret", "E5"), ("hard", "E5"), ("pipe", "E7")):
        assert (path, await workspace.code("read_file", path=path)) == (path, code)
        assert (path, await workspace.code("write_file", path=path, content="x")) == (path, code)
    assert "secret:" not in await workspace.text("search_files", pattern="secret")
    assert (workspace.folder.parent / "secret").read_text() == "secret"


async def test_keys_are_not_in_the_environment(
    workspace: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-7777")
    monkeypatch.setenv("LD_PRELOAD_X", "canary-7777")
    result = await workspace.open_shell("env; cat /proc/self/environ; cat /proc/$PPID/environ")
    assert "canary" not in result.text
    assert "PATH=" in result.text


@pytest.mark.parametrize("opened", [True, False])
async def test_what_is_left_running_ends_with_it(workspace: Working, opened: bool) -> None:
    mark = f"98{os.getpid()}{int(opened)}"
    command = (
        f"setsid sleep {mark} & (setsid sleep {mark} &) ; nohup sleep {mark} >/dev/null & echo ok"
    )
    result = await workspace.open_shell(command) if opened else None
    if result is None:
        assert await boxed(workspace, command) == "ok"
    assert alive(f"sleep\0{mark}") == []


@pytest.mark.parametrize("opened", [True, False])
async def test_its_time_is_limited_and_what_it_said_is_kept(
    workspace: Working, opened: bool
) -> None:
    mark = f"97{os.getpid()}{int(opened)}"
    arguments = {"command": f"echo begun; sleep {mark}", "timeout_s": 500}
    code = OPEN if opened else ""
    call = workspace.invocation("run_shell", arguments, code=code, timeout_s=1800.0)
    if not opened and (missing := await workspace.workspace.sandbox()):
        pytest.skip(f"no sandbox here: {missing}")
    result = await workspace.run(call, over_once(call, "begun"))
    assert (result.text, result.kind) == ("begun\n\n[ended after 0 s, its limit]", "timeout")
    assert alive(f"sleep\0{mark}") == []


async def test_the_limit_of_the_tool_holds_too(workspace: Working) -> None:
    """But for a moment, in which what was printed is saved."""
    arguments = {"command": "echo begun; sleep 60", "timeout_s": 600}
    call = workspace.invocation("run_shell", arguments, code=OPEN, timeout_s=505.5)
    result = await workspace.run(call, over_once(call, "begun"))
    assert (result.text, result.kind) == ("begun\n\n[ended after 0.5 s, its limit]", "timeout")


async def test_cancelled_it_is_gone(workspace: Working) -> None:
    mark = f"96{os.getpid()}"
    call = workspace.invocation("run_shell", {"command": f"sleep {mark}"}, code=OPEN)
    task = asyncio.create_task(workspace.run(call))
    await wait_until(lambda: bool(alive(f"sleep\0{mark}")))
    task.cancel()
    with anyio.fail_after(20), pytest.raises(asyncio.CancelledError):
        await task
    assert alive(f"sleep\0{mark}") == []


async def test_a_flood_keeps_its_beginning_and_end(workspace: Working) -> None:
    result = await workspace.open_shell(
        "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last"
    )
    assert result.text.startswith("first\nxxx")
    assert "xxxlast\n[exit code 0" in result.text
    assert "bytes omitted" in result.text
    assert len(result.text) < shell.HEAD + shell.TAIL + 500


async def test_an_endless_flood_is_ended(
    workspace: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "MAX_OUTPUT", 1_000_000)
    result = await workspace.open_shell("yes")
    assert result.kind == "too_large"
    assert "ended, because it printed more than" in result.text
    assert len(result.text) < shell.HEAD + shell.TAIL + 500


def test_output_counts_what_it_drops() -> None:
    output = Output()
    for _ in range(10):
        output.add(b"a" * 7_000)
    assert f"[… {70_000 - shell.HEAD - shell.TAIL:,} bytes" in output.take()
    output.add(b"b")
    assert output.take() == "b"
    assert output.take() == ""


async def test_limits_against_accidents(workspace: Working) -> None:
    result = await workspace.open_shell("ulimit -f; ulimit -n; ulimit -c; ulimit -v")
    assert result.text.split("\n")[:4] == ["524288", "1024", "0", str(4 << 20)]
    assert (await workspace.open_shell("head -c 300000000 /dev/zero > big")).is_error


# What is said before it runs.


async def check_command(workspace: Working, command: str) -> tuple[str, list[str], bool]:
    arguments = json.dumps({"command": command})
    call_check = await workspace.executors.check_before_run("s", TOOLS["run_shell"], arguments)
    return (
        call_check.code,
        [problem.kind for problem in call_check.problems],
        call_check.parallel_safe,
    )


async def test_where_there_is_no_sandbox_it_says_so_and_always_asks(
    workspace: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(folder: Path) -> str:
        return "namespaces are switched off"

    monkeypatch.setattr(shell, "sandbox", none)
    assert await check_command(workspace, "rm x") == (OPEN, ["caution"], False)
    arguments = json.dumps({"command": "rm x"})
    call_check = await workspace.executors.check_before_run("s", TOOLS["run_shell"], arguments)
    assert "no sandbox (namespaces are switched off)" in call_check.problems[0].message
    # What was decided is what runs: without a sandbox only where the card said so.
    result = await workspace.run(
        workspace.invocation("run_shell", {"command": "echo x"}, code=OPEN)
    )
    assert ", without the sandbox]" in result.text


async def test_where_there_is_one_it_says_so(workspace: Working) -> None:
    if missing := await workspace.workspace.sandbox():
        pytest.skip(f"no sandbox here: {missing}")
    assert await check_command(workspace, "ls") == ("", ["note"], True)
    assert await check_command(workspace, "make") == ("", ["note"], False)


async def test_never_without_the_sandbox_that_was_promised(
    workspace: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sandbox was there when it was decided, and cannot be made now: nothing runs."""
    broken = Path(__file__).with_name("broken_confined.py")
    monkeypatch.setattr(shell, "_CONFINED", broken)
    result = await workspace.call("run_shell", command="touch ran")
    assert result.text.startswith("E13 the system refused: Nothing was run, because the sandbox")
    assert "Operation not permitted (unshare)" in result.text
    assert list(workspace.folder.iterdir()) == []
    with anyio.fail_after(20):
        assert await shell.sandbox(workspace.folder) == "Operation not permitted (unshare)"


async def test_lifted_for_one_call(workspace: Working) -> None:
    call = workspace.invocation("run_shell", {"command": f"ls '{Path(__file__).parent}'"})
    result = await workspace.run(replace(call, lift=True))
    assert "test_shell.py" in result.text
    assert ", without the sandbox]" in result.text


async def test_no_shell_no_trouble(workspace: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    result = await workspace.open_shell("true")
    assert result.text.startswith("E13 the system refused: The shell cannot be started")


async def test_the_server_is_killed_and_nothing_runs_on(tmp_path: Path) -> None:
    """kill -9 of whoever started it closes the lifeline: the guard ends everything."""
    mark = f"95{os.getpid()}"
    for confine in (True, False):
        command = f"setsid sleep {mark} & sleep {mark}"
        code = (
            "import asyncio, sys\nfrom pathlib import Path\n"
            "from playground.executors.workspace import shell\n"
            "async def main():\n"
            f"    folder = Path({str(tmp_path)!r})\n"
            f"    confine = {confine} and not await shell.sandbox(folder)\n"
            f"    command = shell.ShellCommand({command!r}, folder, confine, 9)\n"
            "    async with shell.run_command(command) as one:\n"
            "        await one.follow(print)\n"
            "asyncio.run(main())\n"
        )
        root = str(Path(__file__).parents[3] / "app")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, cwd=root, env={"PYTHONPATH": root}
        )
        await wait_until(lambda: len(alive(f"sleep\0{mark}")) == 2)
        process.kill()
        with anyio.fail_after(20):
            await process.wait()
        await wait_until(lambda: alive(mark) == [])


async def test_a_folder_that_a_command_shut_is_opened_again(workspace: Working) -> None:
    await workspace.call("run_shell", command="chmod 000 .")
    result = await workspace.call("run_shell", command="echo here")
    assert (result.is_error, result.text.splitlines()[0]) == (False, "here")
