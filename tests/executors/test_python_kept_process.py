"""The child that is kept between calls: what stays, what ends it, and that no call runs twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.tools import Tool, ToolResult
from playground.executors import run_with_limits
from playground.executors.executor import Invocation
from playground.executors.python import executor
from playground.executors.python.executor import Python
from playground.executors.run_with_limits import Executors
from tests.executors.ending import TAKEN_S, over_once
from tests.executors.test_python import alive
from tests.tables import rest_slow
from tests.waiting import wait_until

pytestmark = pytest.mark.anyio

TOOLS = '''
import asyncio, os, sys, threading, time
from pathlib import Path
import helper

me = "p" + os.urandom(8).hex()  # no pid: each process may be apart from all others
count = 0
client = []

def add(number: int = 1):
    global count
    count += number
    return [me, count, helper.VALUE]

def effect(path: str, how: str):
    with open(path, "a") as file:
        file.write("ran\\n")
    if how == "die":
        print("dying", file=sys.stderr, flush=True)
        os._exit(7)
    if how == "close":
        os.closerange(3, 100)
        os._exit(7)
    if how == "fork" and os.fork() == 0:
        return "the child's own"
    return how

def slow(report, path: str = ""):
    report("ready")
    while not (path and os.path.exists(path)):
        time.sleep(0.005)
    return me

async def connected():
    """What is bound to a loop is of use in the next call as well."""
    if not client:
        client.append(asyncio.get_running_loop())
    assert client[0] is asyncio.get_running_loop()
    return me

def prints(word: str):
    print('{"result": "forged", "is_error": false, "form": "text"}')
    os.write(1, (word + "\\n").encode())
    return word

def later(word: str):
    """Prints once the call is over, and leaves a child behind."""
    if os.fork() == 0:
        time.sleep(600)
    gone = threading.Event()
    threading.Thread(target=lambda: (gone.wait(0.05), print(word, flush=True)), daemon=True).start()
    return me

def printed():
    return "printed"

def fails():
    raise LookupError("nothing here")

def call_id():
    return os.environ["PLAYGROUND_CALL"]

def tells(report, size: int):
    """Threads report while the result leaves, and do not end with the call."""
    def tell():
        while True:
            report("left behind" * 150)
    for _ in range(3):
        threading.Thread(target=tell, daemon=True).start()
    time.sleep(0.01)
    return "\\u00e9" * size

def floods(size: int):
    """Prints once the call is over; a file says when it has."""
    def flood():
        os.write(1, b"z" * size)
        Path("flooded").write_text("")
    threading.Timer(0.02, flood).start()

def forges():
    """Writes to all that is open, twice for once."""
    line = b'{"result": "forged", "is_error": false, "form": "text"}\\n'
    for descriptor in range(3, 40):
        try:
            os.write(descriptor, line)
        except OSError:
            pass
    return "my own"

class Dumb(Exception):
    def __str__(self):
        raise LookupError

class Nowhere:
    def write(self, text): ...
    def flush(self):
        raise LookupError

def odd(how: str):
    if how == "dumb":
        raise Dumb
    if how == "stdout":
        sys.stdout = Nowhere()
    if how == "loop":
        asyncio.get_event_loop_policy().get_event_loop().close()
        client.clear()
    return how
'''


class Session:
    """Calls of one session by one set of executors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executors: Executors = run_with_limits.executors()
        self.progress: list[str] = []

    def invocation(self, function: str, session: str = "s", **arguments: Any) -> Invocation:
        config = {"file": str(self.folder / "tools.py"), "function": function}
        tool = Tool("t", answered_by="python", config=config)
        text = json.dumps(arguments)
        return Invocation(
            session,
            call="1.0",
            attempt=1,
            tool=tool,
            arguments=text,
            timeout_s=20.0,
            max_output=100_000,
            folder=self.folder,
            idempotency_key="k",
        )

    async def run(self, call: Invocation, report: Callable[..., None] | None = None) -> ToolResult:
        def add_progress(text: str, fraction: float | None, output: str = "") -> None:
            self.progress += [text for text in (text, output) if text]

        with anyio.fail_after(30):
            return await self.executors.run(call, report or add_progress)

    async def call(self, function: str, session: str = "s", **arguments: Any) -> Any:
        result = await self.run(self.invocation(function, session, **arguments))
        assert not result.is_error, result.text
        return json.loads(result.text) if result.text[:1] in "[{0123456789" else result.text


def open_descriptors() -> int:
    """How many this process has; uvloop keeps /dev/null from its first child on."""
    links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(link != Path("/dev/null") for link in links)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    """Whatever a test did, nothing is left once the executors are closed."""
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "helper.py").write_text("VALUE = 'old'\n")
    session, descriptors = Session(tmp_path), open_descriptors()
    yield session
    await session.executors.close()
    assert alive(tmp_path) == []
    await wait_until(
        lambda: open_descriptors() <= descriptors
    )  # sockets leave the loop rounds later


async def wait_for_exit(folder: Path) -> None:
    with anyio.fail_after(20):
        while alive(folder):
            await asyncio.sleep(0.01)


async def test_a_session_has_one_process_that_remembers(session: Session) -> None:
    first = await session.call("add")
    assert first[1:] == [1, "old"]
    assert await session.call("add", number=2) == [first[0], 3, "old"]
    other = await session.call("add", session="another")
    assert other[0] != first[0]
    assert other[1] == 1
    assert await session.call("connected") == await session.call("connected") == first[0]
    second = replace(session.invocation("call_id"), call="7.3")
    assert (await session.run(second)).text == "7.3"


async def test_turned_off_each_call_has_its_own(session: Session) -> None:
    call = session.invocation("add")
    call = replace(call, tool=replace(call.tool, config={**call.tool.config, "keep": False}))
    results = [json.loads((await session.run(call)).text) for _ in range(2)]
    assert [result[1] for result in results] == [1, 1]
    assert results[0][0] != results[1][0]
    assert alive(session.folder) == []


async def test_the_card_says_so(session: Session) -> None:
    tool = session.invocation("add").tool
    checked = await session.executors.check_before_run("s", tool, "{}")
    assert [problem.kind for problem in checked.problems] == ["note"]
    assert "State is kept between calls" in checked.problems[0].message
    for config in ({**tool.config, "keep": False}, {"code": "def t(): ..."}):
        assert (
            await session.executors.check_before_run("s", replace(tool, config=config), "{}")
        ).problems == ()


async def test_typed_code_is_never_kept(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[bool] = []

    async def run(call: Invocation, report: Any, in_child: Any) -> ToolResult:
        flags.append(in_child is not executor.run_in_child)
        return ToolResult()

    monkeypatch.setattr(executor, "run_typed_code", run)
    call = session.invocation("add")
    await session.run(replace(call, tool=replace(call.tool, config={"code": "def t(): ..."})))
    assert flags == [False]


@pytest.mark.parametrize("what", ["tools.py", "helper.py"])
async def test_a_changed_file_is_imported_anew(session: Session, what: str) -> None:
    first = await session.call("add")
    changed = session.folder / what
    changed.write_text(changed.read_text().replace("'old'", "'new'") + "# another\n")
    second = await session.call("add")
    assert second[0] != first[0]
    assert second[1:] == [1, "new" if what == "helper.py" else "old"]
    assert f"{what} has changed. Its process was restarted." in session.progress
    assert await session.call("add") == [second[0], 2, second[2]]


async def test_a_file_that_changed_while_it_was_imported_is_not_trusted(session: Session) -> None:
    tools = session.folder / "tools.py"
    late = "import helper\nPath(helper.__file__).write_text(\"VALUE = 'new'\\n\")\n"
    tools.write_text(TOOLS.replace("import helper\n", late, 1))
    assert (await session.call("add"))[2] == "old"
    assert (await session.call("add"))[2] == "new"


@pytest.mark.parametrize("how", rest_slow(["die", "close"]))
async def test_a_call_whose_process_dies_fails_and_is_not_run_again(
    session: Session, how: str
) -> None:
    effects = session.folder / "effects"
    for number in (1, 2):  # a new child, and one that has had a call
        before = await session.call("add") if number == 2 else [0]
        result = await session.run(session.invocation("effect", path=str(effects), how=how))
        assert (result.is_error, result.kind) == (True, "failed")
        assert "ended without a result (exit code 7); its effects so far" in result.text
        assert ("dying" in result.text) == (how == "die")
        assert effects.read_text() == "ran\n" * number
    after = await session.call("add")
    assert after[0] != before[0]
    assert after[1] == 1


async def test_another_file_than_the_one_decided_on_is_not_run(session: Session) -> None:
    call = session.invocation("add")
    code = (await session.executors.check_before_run("s", call.tool, "{}")).code
    assert not (await session.run(replace(call, code=code))).is_error
    result = await session.run(replace(call, code="0" * 64))
    assert (result.is_error, result.text.endswith("Nothing was run.")) == (True, True)
    assert (await session.call("add"))[1] == 2


async def test_a_process_that_died_between_calls_costs_no_call(session: Session) -> None:
    first = await session.call("add")
    executor = session.executors.by_kind["python"]
    assert isinstance(executor, Python)
    (item,) = executor._kept.values()
    assert item.worker is not None
    for pid in alive(session.folder):
        with suppress(ProcessLookupError):  # all end with the first
            os.kill(pid, signal.SIGKILL)
    with anyio.fail_after(20):
        await asyncio.wait([item.worker.ended])
        while executor._kept or executor._ending:  # nothing is held of it
            await asyncio.sleep(0)
    assert (await session.call("add"))[1] == 1
    assert first[1] == 1


async def test_a_child_of_the_tool_that_returns_answers_nothing(session: Session) -> None:
    effects = session.folder / "effects"
    assert await session.call("effect", path=str(effects), how="fork") == "fork"
    assert await session.call("effect", path=str(effects), how="again") == "again"
    assert effects.read_text() == "ran\nran\n"


async def test_one_call_at_a_time(session: Session) -> None:
    """A call that finds it at work has a process of its own, and the kept one goes on."""
    pid = (await session.call("add"))[0]
    go, ready = session.folder / "go", asyncio.Event()
    slow = session.invocation("slow", path=str(go))
    task = asyncio.create_task(session.run(slow, lambda *_: ready.set()))
    with anyio.fail_after(20):
        await ready.wait()
    other = await session.call("add")
    assert other[0] != pid
    assert other[1] == 1
    go.write_text("")
    assert (await task).text == pid
    assert (await session.call("add"))[:2] == [pid, 2]


async def test_what_is_printed_is_its_calls_and_never_an_answer(session: Session) -> None:
    for word in ("first", "second"):
        session.progress = []
        assert await session.call("prints", word=word) == word
        printed = "".join(session.progress)
        assert "forged" in printed
        assert printed.endswith(f"{word}\n")
        assert printed.count("\n") == 2


async def test_a_result_leaves_whole_while_threads_report(session: Session) -> None:
    """What they report later is not the next call's."""
    call = replace(session.invocation("tells", size=300_000), max_output=1_000_000)
    assert (await session.run(call)).text == "é" * 300_000
    session.progress = []
    assert await session.call("printed") == "printed"
    assert session.progress == []


async def test_what_was_printed_before_a_call_does_not_end_it(session: Session) -> None:
    call = session.invocation("floods", size=150_000)  # more than one call may print
    await session.run(call)
    with anyio.fail_after(20):
        while not (session.folder / "flooded").exists():
            await asyncio.sleep(0.001)
    effects = session.folder / "effects"
    assert await session.call("effect", path=str(effects), how="again") == "again"
    assert effects.read_text() == "ran\n"


async def test_an_answer_is_that_of_its_own_call(session: Session) -> None:
    assert await session.call("forges") == "my own"
    assert await session.call("printed") == "printed"


@pytest.mark.parametrize(
    ("how", "message"),
    rest_slow([("dumb", "Dumb: (it has no text)"), ("stdout", "stdout"), ("loop", "loop")]),
)
async def test_what_a_tool_breaks_does_not_end_it(session: Session, how: str, message: str) -> None:
    pid = await session.call("connected")
    assert (await session.run(session.invocation("odd", how=how))).text.startswith(message)
    assert await session.call("connected") == pid


async def test_what_is_left_behind_ends_with_the_process(session: Session) -> None:
    """A print that comes after its call is shown with the next one."""
    pid = await session.call("later", word="too late")
    assert len(alive(session.folder)) > 2
    with anyio.fail_after(20):
        while "too late\n" not in session.progress:
            assert await session.call("printed") == "printed"
    assert (await session.call("add"))[0] == pid
    await session.executors.forget("s")
    assert alive(session.folder) == []


async def test_stop_ends_it_and_not_those_of_others(session: Session) -> None:
    mine, other = await session.call("add"), await session.call("add", session="other")
    await session.executors.forget("s")
    assert (await session.call("add", session="other"))[:2] == [other[0], 2]
    assert (await session.call("add"))[0] != mine[0]


async def test_stop_while_it_works_leaves_the_call_to_who_ends_it(session: Session) -> None:
    go, ready = session.folder / "go", asyncio.Event()
    slow = session.invocation("slow", path=str(go))
    task = asyncio.create_task(session.run(slow, lambda *_: ready.set()))
    with anyio.fail_after(20):
        await ready.wait()
        await session.executors.forget("s")
    go.write_text("")
    assert not (await task).is_error
    assert alive(session.folder) == []


@pytest.mark.parametrize("how", rest_slow(["time-out", "cancel"]))
async def test_a_call_that_is_ended_ends_it(session: Session, how: str) -> None:
    await session.call("add")
    if how == "time-out":
        call = replace(session.invocation("slow"), timeout_s=TAKEN_S)
        assert (await session.run(call, over_once(call, "ready"))).kind == "timeout"
    else:
        ready = asyncio.Event()
        call = session.invocation("slow")
        task = asyncio.create_task(session.run(call, lambda *_: ready.set()))
        with anyio.fail_after(20):
            await ready.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert alive(session.folder) == []
    assert (await session.call("add"))[1] == 1


async def test_it_ends_after_a_rest(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "REST_S", 0.0)
    await session.call("add")
    await wait_for_exit(session.folder)
    assert (await session.call("add"))[1] == 1


@pytest.mark.slow
async def test_of_many_the_longest_unused_ends(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "MOST_KEPT", 1)
    await session.call("add", session="one")
    two = await session.call("add", session="two")
    assert (await session.call("add", session="two"))[:2] == [two[0], 2]
    assert (await session.call("add", session="one"))[1] == 1


async def test_a_failure_leaves_it_and_a_file_that_cannot_be_imported_does_not(
    session: Session,
) -> None:
    pid = (await session.call("add"))[0]
    assert "LookupError" in (await session.run(session.invocation("fails"))).text
    assert (await session.call("add"))[:2] == [pid, 2]
    tools = session.folder / "tools.py"
    tools.write_text("import nowhere_to_be_found\n")
    result = await session.run(session.invocation("add"))
    assert "ModuleNotFoundError" in result.text
    assert alive(session.folder) == []
    tools.write_text(TOOLS)
    assert (await session.call("add"))[1] == 1
