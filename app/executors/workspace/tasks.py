"""Commands that run on in the background, by session: started, read, stopped, and told of.

A task outlives its turn, not its session's Stop or deletion and not the program. What is told is
TaskStarted and TaskEnded; who writes them down is not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from app.core.errors import NotFound
from app.core.events import Event, TaskEnded, TaskStarted
from app.executors.workspace.shell import Command, Output, running
from app.executors.workspace.trouble import Trouble

MOST_RUNNING = 8
MOST_KEPT = 20
"""Tasks of one session that run at once, and that are kept to be read."""

TITLE = 200
Tell = Callable[[str, Event], Awaitable[None]]
"""(session, event): write it down."""


@dataclass
class Task:
    """`output` is what was not read yet; `how` it ended, "" while it runs; `asked` is why it was
    ended, `told` that its beginning was."""

    id: str
    call: str
    title: str
    output: Output = field(default_factory=Output)
    how: str = ""
    asked: str = ""
    told: bool = False
    work: asyncio.Task[None] | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)


class Tasks:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._tasks: dict[str, dict[str, Task]] = {}

    async def start(self, session: str, call: str, attempt: int, command: Command) -> Task:
        """Begin `command`; back when it is under way and written down."""
        tasks = self._tasks.setdefault(session, {})
        if sum(not task.how for task in tasks.values()) >= MOST_RUNNING:
            raise Trouble("E12", f"{MOST_RUNNING} tasks are running; stop one with stop_task.")
        task_id = f"task-{call.replace('.', '-')}" + (f"-{attempt}" if attempt > 1 else "")
        task = Task(task_id, call, command.text[:TITLE])
        tasks[task_id] = task
        task.work = asyncio.create_task(self._run(session, task, command))
        begun = asyncio.create_task(task.begun.wait())
        try:
            await asyncio.wait((begun, task.work), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._end(task, "its call was cancelled")
            raise
        finally:
            begun.cancel()
        self._trim(tasks)
        return task

    def read(self, session: str, task_id: str) -> str:
        """What it printed since the last time, and how it stands."""
        task = self._task(session, task_id)
        text = task.output.take()
        state = task.how or "running"
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}[{state}]"

    async def stop(self, session: str, task_id: str, how: str) -> str:
        """End it, where it still runs; how it ended."""
        task = self._task(session, task_id)
        await self._end(task, how)
        return task.how

    async def forget(self, session: str, how: str = "stopped with the run") -> None:
        """End all tasks of a session; what they printed can still be read."""
        await asyncio.gather(*(self._end(task, how) for task in self._of(session)))

    async def close(self) -> None:
        """The program ends."""
        ends = (self.forget(session, "ended with the program") for session in list(self._tasks))
        await asyncio.gather(*ends)

    def _of(self, session: str) -> list[Task]:
        return list(self._tasks.get(session, {}).values())

    def _task(self, session: str, task_id: str) -> Task:
        task = self._tasks.get(session, {}).get(task_id)
        if task is None:
            known = ", ".join(task.id for task in self._of(session)) or "none"
            raise NotFound(f"There is no task {task_id[:80]!r} here; there is: {known}.")
        return task

    @staticmethod
    async def _end(task: Task, how: str) -> None:
        if task.work is not None and not task.work.done():
            if not task.asked and not task.how:  # once: a second one would cut what is told
                task.asked = how
                task.work.cancel()
            await asyncio.wait((task.work,))

    async def _run(self, session: str, task: Task, command: Command) -> None:
        try:
            how = await self._followed(session, task, command)
        except asyncio.CancelledError:
            how = task.asked or "stopped"
        task.how = how
        if task.told:
            await self._tell(session, TaskEnded(task.id, how))

    async def _followed(self, session: str, task: Task, command: Command) -> str:
        try:
            async with running(command) as one:
                one.output = task.output
                task.told = True
                await self._tell(session, TaskStarted(task.id, task.call, task.title))
                task.begun.set()
                code = await one.follow(lambda _: None)
        except Trouble as trouble:
            return str(trouble)
        except OSError as error:
            return f"could not be started: {error.strerror}"
        return "ended, for it printed too much" if one.flooded else f"exit code {code}"

    @staticmethod
    def _trim(tasks: dict[str, Task]) -> None:
        for task in [task for task in tasks.values() if task.how][: max(len(tasks) - MOST_KEPT, 0)]:
            del tasks[task.id]
