"""Tasks in the background: they outlive their call, and end when they are to."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.events import Event, TaskEnded, TaskStarted
from playground.executors.workspace import shell as module
from playground.executors.workspace.executor import OPEN
from playground.executors.workspace.shell import Tasks
from tests.executors.workspace.working import Working, alive
from tests.waiting import wait_until

pytestmark = pytest.mark.anyio

ENDS: list[tuple[str, Any, str]] = [
    ("the model", lambda w, t: w.text("stop_task", task_id=t), "stopped by the model"),
    ("the user", lambda w, t: w.tasks.stop("s", t, "stopped by you"), "stopped by you"),
    ("Stop and delete", lambda w, t: w.executors.forget("s"), "stopped with the run"),
    ("the program", lambda w, t: w.executors.close(), "ended with the program"),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Working:
    return Working(tmp_path / "files" / "s")


async def start_task(workspace: Working, command: str) -> str:
    """The id of a task that runs `command`."""
    result = await workspace.open_shell(command, background=True)
    assert not result.is_error, result.text
    return result.text.split(" as ")[1].split(",")[0]


def task_endings(workspace: Working) -> list[str]:
    return [event.how for _, event in workspace.events if isinstance(event, TaskEnded)]


async def test_begun_read_and_ended_by_itself(workspace: Working) -> None:
    task = await start_task(
        workspace, "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 4"
    )
    assert workspace.events == [("s", TaskStarted(task, "1.0", workspace.events[0][1].title))]  # type: ignore[union-attr]
    read: list[str] = []
    with anyio.fail_after(20):
        while "one" not in "".join(read):
            read.append(await workspace.text("read_task", task_id=task))
            await anyio.sleep(0.01)
    assert read[-1] == "one\n[running]"
    assert await workspace.text("read_task", task_id=task) == "[running]"
    (workspace.folder / "go").touch()
    await wait_until(lambda: bool(task_endings(workspace)))
    assert await workspace.text("read_task", task_id=task) == "two\n[exit code 4]"
    assert await workspace.text("read_task", task_id=task) == "[exit code 4]"
    assert task_endings(workspace) == ["exit code 4"]


async def test_in_the_sandbox_too(workspace: Working) -> None:
    if missing := await workspace.workspace.sandbox():
        pytest.skip(f"no sandbox here: {missing}")
    mark = f"94{os.getpid()}"
    text = await workspace.text("run_shell", command=f"sleep {mark}", background=True)
    assert text == "It runs in the background as task-1-0; read_task tells what it prints."
    await wait_until(lambda: len(alive(f"sleep\0{mark}")) == 1)
    await workspace.text("stop_task", task_id="task-1-0")
    assert alive(f"sleep\0{mark}") == []


@pytest.mark.parametrize(("by", "end", "how"), ENDS, ids=[end[0] for end in ENDS])
async def test_ended_by(workspace: Working, by: str, end: Any, how: str) -> None:
    mark = f"93{os.getpid()}"
    command = f"trap '' TERM; setsid sleep {mark} & sleep {mark}"
    task = await start_task(workspace, command)
    await wait_until(lambda: len(alive(f"sleep\0{mark}")) == 2)
    with anyio.fail_after(20):
        await end(workspace, task)
    assert alive(f"sleep\0{mark}") == []
    assert task_endings(workspace) == [how]
    with anyio.fail_after(20):
        await end(workspace, task)
    assert task_endings(workspace) == [how]


async def test_another_session_is_left_alone(workspace: Working) -> None:
    task = await start_task(workspace, "sleep 60")
    with anyio.fail_after(20):
        await workspace.executors.forget("another")
    assert await workspace.text("read_task", task_id=task) == "[running]"
    await workspace.executors.close()


async def test_no_more_than_a_few_at_once(
    workspace: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RUNNING", 1)
    await start_task(workspace, "sleep 60")
    result = await workspace.open_shell("sleep 60", background=True)
    assert result.text.startswith("E12")
    assert "Stop one with stop_task" in result.text
    await workspace.executors.close()


async def test_the_oldest_that_ended_are_forgotten(
    workspace: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    ids = []
    for _ in range(4):
        ids.append(await start_task(workspace, "true"))
        await wait_until(lambda: len(task_endings(workspace)) == len(ids))
    assert await workspace.code("read_task", task_id=ids[0]) == "E12"
    assert await workspace.text("read_task", task_id=ids[-1]) == "[exit code 0]"


async def test_cancelled_while_it_begins(workspace: Working) -> None:
    """The call is cancelled before the task is written down: it is ended, and so is its story."""
    mark = f"92{os.getpid()}"
    waiting = asyncio.Event()
    lines: list[Event] = []

    async def tell(session: str, event: Event) -> None:
        lines.append(event)
        if isinstance(event, TaskStarted):
            waiting.set()
            await asyncio.Event().wait()

    workspace.workspace.tasks = Tasks(tell)
    arguments = {"command": f"sleep {mark}", "background": True}
    call = asyncio.create_task(
        workspace.run(workspace.invocation("run_shell", arguments, code=OPEN))
    )
    with anyio.fail_after(20):
        await waiting.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert alive(f"sleep\0{mark}") == []
    assert [type(event) for event in lines] == [TaskStarted, TaskEnded]
