"""Tools run alone: what is refused, what runs, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Literal

import anyio
import pytest

from playground.core.errors import BadInput, Conflict, NotFound, Refused
from playground.core.events import Problem
from playground.core.tools import Tool, ToolResult, text_result
from playground.engine.try_tool import (
    MOST_RUNNING,
    MOST_SCRATCHES,
    MOST_TRIES,
    UNASKED,
    ToolTries,
    Try,
    TryRequest,
)
from playground.executors.executor import CallCheck, Invocation, ReportProgress
from playground.executors.run_with_limits import Executors
from playground.secrets.redaction import Redactor

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret-0123456789"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = Tool("add", parameters=NUMBER, config={"result": "x"})
FINE = '{"n": 1.0}'


class Fake:
    """Runs until `go` is set; remembers what it was asked, and what it should forget."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.asked: list[Invocation] = []
        self.forgotten: list[str] = []
        self.code = "a"

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        return CallCheck(self.code, (Problem("caution", "Mind the step."),))

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        self.asked.append(invocation)
        invocation.folder.mkdir(parents=True, exist_ok=True)
        report(f"half {KEY}", 0.5)
        self.begun.set()
        await self.go.wait()
        return text_result(f"done {KEY}")

    async def forget(self, session: str) -> None:
        self.forgotten.append(session)

    async def close(self) -> None:
        pass


@asynccontextmanager
async def trying(folder: Path) -> AsyncIterator[tuple[ToolTries, Fake]]:
    fake, numbers = Fake(), count(1)
    tool_tries = ToolTries(
        Executors({"mock": fake, "python": fake}),
        folder,
        lambda: 1000,
        lambda: f"id{next(numbers):06}",
        lambda: Redactor([KEY]),
    )
    with anyio.fail_after(20):
        yield tool_tries, fake
        await tool_tries.close()


async def wait_for_try(tool_tries: ToolTries, item: Try) -> Try:
    while item.result is None:
        await tool_tries.wait(item.id, item.changed, 10)
    return item


async def test_it_runs_with_the_digits_that_were_typed_and_tells_of_its_progress(
    tmp_path: Path,
) -> None:
    async with trying(tmp_path) as (tool_tries, fake):
        item = await tool_tries.start(TryRequest(TOOL, FINE))
        assert (await tool_tries.wait(item.id, 0, 10)).progress == "half *************************"
        assert item.fraction == 0.5
        fake.go.set()
        await wait_for_try(tool_tries, item)
        assert item.result == text_result("done *************************")
        (invocation,) = fake.asked
        assert (invocation.arguments, invocation.code, invocation.session) == (
            FINE,
            "a",
            f"try-{item.scratch}",
        )
        assert invocation.folder == tmp_path / f"try-{item.scratch}"


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        (TryRequest(TOOL, '{"n": '), BadInput, "cannot be run"),
        (TryRequest(TOOL, '{"n": 1, "n": 2}'), BadInput, "duplicate"),
        (TryRequest(TOOL, '{"n": "1"}'), Refused, "run it anyway"),
        (TryRequest(TOOL, ""), Refused, 'no "n"'),
        (TryRequest(TOOL, FINE, seen="of another time"), Conflict, "has changed"),
        (TryRequest(Tool("ask", answered_by="person"), "{}"), Refused, "Write the answer"),
    ],
)
async def test_what_may_not_run_does_not(
    tmp_path: Path, wanted: TryRequest, error: type[Exception], words: str
) -> None:
    async with trying(tmp_path) as (tool_tries, fake):
        with pytest.raises(error, match=words):
            await tool_tries.start(wanted)
        assert fake.asked == []


async def test_what_was_seen_is_what_runs(tmp_path: Path) -> None:
    async with trying(tmp_path) as (tool_tries, fake):
        fake.go.set()
        looked = await tool_tries.check(TOOL, FINE)
        assert [problem.kind for problem in looked.problems] == ["caution"]
        await wait_for_try(
            tool_tries, await tool_tries.start(TryRequest(TOOL, FINE, seen=looked.seen))
        )
        fake.code = "b"
        with pytest.raises(Conflict):
            await tool_tries.start(TryRequest(TOOL, FINE, seen=looked.seen))
        fake.code = "a"
        other = Tool("add", parameters=NUMBER, config={"result": "y"})
        with pytest.raises(Conflict):
            await tool_tries.start(TryRequest(other, FINE, seen=looked.seen))


async def test_run_anyway_and_nothing_at_all(tmp_path: Path) -> None:
    async with trying(tmp_path) as (tool_tries, fake):
        fake.go.set()
        await wait_for_try(
            tool_tries, await tool_tries.start(TryRequest(TOOL, '{"n": "1"}', anyway=True))
        )
        await wait_for_try(
            tool_tries, await tool_tries.start(TryRequest(TOOL, "null", anyway=True))
        )
        assert [invocation.arguments for invocation in fake.asked] == ['{"n": "1"}', "{}"]


async def test_cancel_ends_it(tmp_path: Path) -> None:
    async with trying(tmp_path) as (tool_tries, fake):
        item = await tool_tries.start(TryRequest(TOOL, FINE))
        await fake.begun.wait()
        await tool_tries.cancel(item.id)
        assert item.result is not None
        assert item.result.kind == "interrupted"
        assert await tool_tries.cancel(item.id) is item


async def test_tries_of_one_page_share_a_scratch_session_until_it_is_forgotten(
    tmp_path: Path,
) -> None:
    left = tmp_path / "try-left"
    left.mkdir()
    async with trying(tmp_path) as (tool_tries, fake):
        fake.go.set()
        first = await wait_for_try(tool_tries, await tool_tries.start(TryRequest(TOOL, FINE)))
        assert not left.exists()
        second = await wait_for_try(
            tool_tries, await tool_tries.start(TryRequest(TOOL, FINE, first.scratch))
        )
        assert second.scratch == first.scratch
        assert [invocation.call for invocation in fake.asked] == ["1.1", "1.2"]
        assert list(tmp_path.iterdir()) == [tmp_path / f"try-{first.scratch}"]
        await tool_tries.forget(first.scratch)
        assert fake.forgotten == [f"try-{first.scratch}"]
        assert list(tmp_path.iterdir()) == []
        third = await wait_for_try(
            tool_tries, await tool_tries.start(TryRequest(TOOL, FINE, first.scratch))
        )
        assert third.scratch != first.scratch


async def test_few_run_at_once_and_few_are_kept(tmp_path: Path) -> None:
    async with trying(tmp_path) as (tool_tries, fake):
        first = [await tool_tries.start(TryRequest(TOOL, FINE)) for _ in range(MOST_RUNNING)]
        with pytest.raises(Refused, match="Cancel one"):
            await tool_tries.start(TryRequest(TOOL, FINE))
        fake.go.set()
        for _ in range(MOST_TRIES):
            await wait_for_try(tool_tries, first[0])
            for item in first:
                await wait_for_try(tool_tries, item)
            await wait_for_try(tool_tries, await tool_tries.start(TryRequest(TOOL, FINE)))
        with pytest.raises(NotFound, match="Run it again"):
            tool_tries.get(first[0].id)
        assert len(list(tmp_path.iterdir())) == MOST_SCRATCHES
        assert len(fake.forgotten) == MOST_RUNNING + MOST_TRIES - MOST_SCRATCHES


async def test_of_many_that_begin_at_once_few_run(tmp_path: Path) -> None:
    (tmp_path / "try-left").mkdir()
    async with trying(tmp_path) as (tool_tries, fake):
        begun = (tool_tries.start(TryRequest(TOOL, FINE)) for _ in range(3 * MOST_RUNNING))
        lines = await asyncio.gather(*begun, return_exceptions=True)
        running = [item for item in lines if isinstance(item, Try)]
        assert len(running) == MOST_RUNNING
        assert all(isinstance(item, Refused) for item in lines if not isinstance(item, Try))
        await fake.begun.wait()
        for each in running:
            assert (tmp_path / f"try-{each.scratch}").is_dir(), "it was not swept"


async def test_what_begins_while_a_scratch_is_forgotten_has_another(tmp_path: Path) -> None:
    async with trying(tmp_path) as (tool_tries, fake):
        first = await tool_tries.start(TryRequest(TOOL, FINE))
        await fake.begun.wait()
        forgetting = asyncio.create_task(tool_tries.forget(first.scratch))
        starting = asyncio.create_task(tool_tries.start(TryRequest(TOOL, FINE, first.scratch)))
        await forgetting
        second = await starting
        assert second.scratch != first.scratch
        assert second.result is None
        await tool_tries.forget(first.scratch)
        assert (tmp_path / f"try-{second.scratch}").is_dir()


@pytest.mark.parametrize(("kind", "runs"), [("caution", False), ("note", True)])
async def test_what_was_drawn_without_asking_runs_where_nothing_is_said_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Literal["caution", "note"], runs: bool
) -> None:
    async with trying(tmp_path) as (tool_tries, fake):

        async def checked(session: str, tool: Tool, arguments: str) -> CallCheck:
            return CallCheck("a", (Problem(kind, "Mind the step."),))

        monkeypatch.setattr(fake, "check_before_run", checked)
        wanted = TryRequest(TOOL, FINE, seen=UNASKED)
        if runs:
            await tool_tries.start(wanted)
        else:
            with pytest.raises(Conflict, match="Check it again"):
                await tool_tries.start(wanted)


async def test_the_end_ends_what_runs(tmp_path: Path) -> None:
    async with trying(tmp_path) as (tool_tries, fake):
        item = await tool_tries.start(TryRequest(TOOL, FINE))
        await fake.begun.wait()
        await tool_tries.close()
        assert item.result is not None
        assert fake.forgotten == [f"try-{item.scratch}"]


async def test_an_answer_by_hand_stands_for_a_run(tmp_path: Path) -> None:
    async with trying(tmp_path) as (tool_tries, _):
        item = tool_tries.record_answer(TryRequest(TOOL, FINE), text_result(f"by hand {KEY}"))
        assert tool_tries.get(item.id).result == text_result("by hand *************************")
