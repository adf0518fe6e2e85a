"""Rounds of kill -9: what a server has told must hold after it was killed at any instant.

A round starts a server, lets sessions stream and tools run while it listens to all it is told,
kills the server at an instant drawn from the seed, starts it again and compares. Each effect of a
tool leaves a line with its call. Where the database has a disk of its own, that fills up meanwhile.
See the state contract in docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import errno
import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.killing_readers import SETTLED_S, LogReader, PageReader
from tests.servers import ServerProcess, launch_server, run_server_process, wait_for_session

PACE = "0.05"
SOONEST_S, LATEST_S = 0.0, 1.8
"""The kill comes so long after the last prompt, in seconds."""

RUN_ALL = [{"tool": "*", "action": "run", "text": "", "words": "--allow all"}]
STAGED = [{"tool": "note", "action": "run", "fault": "cut_json", "words": "cut"}]

CHOICES = ("run", "answer", "deny")
"""Of a call that was cut; "done with this result" is an answer."""


@dataclass(frozen=True)
class Plan:
    """What a session does before the kill; where it `is_decided` a script decides its calls.
    `model` names a slow one, "" the simulator."""

    prompt: str
    rules: list[Any]
    http: bool = False
    max_turns: int = 100
    is_decided: bool = False
    model: str = ""


PLANS = (
    Plan("[[fault:many-deltas-2000]] Write something long.", []),
    Plan("[[fault:parallel-5]] Use note, please.", RUN_ALL),
    Plan("[[fault:loop]] Use note, please.", RUN_ALL, max_turns=3),
    Plan("[[fault:parallel-3]] Use note, please.", [], is_decided=True),
    Plan("[[fault:parallel-6]] Use note, please.", RUN_ALL, http=True),
    Plan("[[fault:loop]] Use note, please.", STAGED, http=True, max_turns=4),
    Plan("Write something long.", [], model="text"),
    Plan("Use note, please.", RUN_ALL, model="arguments"),
)
"""A long text at once; calls side by side; turn after turn, with a limit that a script lifts; calls
a script decides; the same of a tool on another server, where results are staged, too; and texts and
arguments that come slowly, so that a kill finds deltas that wait to be saved."""

SLOW = [f"Word {number}, " for number in range(200)]
SLOW_S = 0.01
"""The pieces of a slow answer, and the time between them in seconds."""

OTHERS = ((), (True,))
"""Beside a page there may be one that follows the saved events alone. Like a script, it has what
waits saved: nothing waits long of a session that one of them reads."""

TOOL = """
import os, time

def note(text="nothing"):
    with open({effects!r}, "a") as file:
        file.write(os.environ["PLAYGROUND_CALL"] + "\\n")
    time.sleep({wait_s})
    return "noted"
"""

LoggedOf = tuple[str, str]
"""The kind of an event, and its call."""


@dataclass
class Script(LogReader):
    """Decides the calls that wait, where nobody else does, and goes on where a limit is reached.
    `acknowledged` are the kinds of the events that it was told are there, with their calls."""

    decides: bool = False
    acknowledged: list[LoggedOf] = field(default_factory=list)
    doing: set[asyncio.Task[None]] = field(default_factory=set)

    async def arrived(self, client: httpx.AsyncClient, line: Mapping[str, Any]) -> None:
        if line["kind"] == "call_checked" and self.decides:
            body = {"decision": "run", "digest": line["digest"]}
            call = line["call_id"]
            self._post(client, f"calls/{call}/decision", body, ("call_decided", call))
        if line["kind"] == "run_paused":
            self._post(client, "continue", {}, ("run_resumed", ""))

    def _post(
        self, client: httpx.AsyncClient, path: str, body: Any, event: tuple[str, str]
    ) -> None:
        self.doing.add(asyncio.create_task(self.post(client, path, body, event)))

    async def post(
        self, client: httpx.AsyncClient, path: str, body: Any, event: tuple[str, str]
    ) -> None:
        with suppress(httpx.HTTPError):
            answer = await client.post(f"/sessions/{self.session}/{path}", json=body)
            if answer.is_success:
                self.acknowledged.append(event)


@dataclass
class Told:
    """One session, and all the server said about it before it was killed."""

    id: str
    plan: Plan
    effects: Path
    script: Script
    pages: list[PageReader]
    is_scripted: bool

    @property
    def lines(self) -> dict[int, Mapping[str, Any]]:
        return self.script.lines

    @property
    def effect_counts(self) -> Counter[str]:
        """How often each call had its effect."""
        return Counter(self.effects.read_text().split() if self.effects.exists() else ())


@dataclass(frozen=True)
class Outcome:
    """`violations` are sentences; `told` counts events, `open` what the kill caught in the act."""

    violations: list[str]
    reported: int
    caught: Counter[str]


async def kill_round(folder: Path, seed: int, *, full_disk: bool = False) -> Outcome:
    """One round in `folder`, which is empty."""
    chance = Random(seed)
    if not full_disk:
        async with _other_server(folder, chance.choice([0, 0.3, 1.0])) as url:
            return await _round(folder, folder / "kill.db", url, chance, None)
    with SmallDisk.mounted(folder / "disk") as disk:
        async with _other_server(folder, chance.choice([0, 0.3, 1.0])) as url:
            return await _round(folder, disk.place / "kill.db", url, chance, disk)


async def _round(
    folder: Path, db: Path, url: str, chance: Random, disk: SmallDisk | None
) -> Outcome:
    tolds, caught = list[Told](), Counter[str]()
    first = launch_server(db, PLAYGROUND_PACE=PACE)
    try:
        async with first.client() as client:
            tasks = []
            for plan in PLANS:
                this = await _session(client, folder, plan, url, chance)
                tolds.append(this)
                for page in this.pages:
                    await page.load(client)
                tasks += _followed(client, this)
                prompt = {"text": plan.prompt}
                await this.script.post(client, "prompts", prompt, ("prompt_added", ""))
            if disk is not None:
                caught["full disks noticed"] = await _in_turns(disk, first, tolds[0].id, chance)
            await asyncio.sleep(chance.uniform(SOONEST_S, LATEST_S))
            first.kill()
            tasks += [posting for this in tolds for posting in this.script.doing]
            async with asyncio.timeout(20):
                await asyncio.gather(*tasks)
    finally:
        _end(first)
    if disk is not None:
        _start_full(db, disk)
    with run_server_process(db, PLAYGROUND_PACE="0") as again:
        async with again.client() as client:
            return await _compared(client, db, tolds, chance, caught)


def _followed(client: httpx.AsyncClient, output: Told) -> list[asyncio.Task[None]]:
    followed = [page.follow(client) for page in output.pages]
    if output.is_scripted:
        followed.append(output.script.follow(client))
    return [asyncio.create_task(task) for task in followed]


def _end(server: ServerProcess) -> None:
    server.kill()
    assert server.process.stdout is not None
    server.process.stdout.close()


@dataclass(frozen=True)
class SmallDisk:
    """A file system of its own, which can be filled to its last page."""

    place: Path

    @classmethod
    @contextmanager
    def mounted(cls, place: Path, size: str = "32m") -> Iterator[SmallDisk]:
        """PermissionError where this user may not mount one."""
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        done = subprocess.run(mount, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise PermissionError(f"A small file system needs root on Linux: {done.stderr.strip()}")
        try:
            yield cls(place)
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True, timeout=30)

    @property
    def _ballast(self) -> Path:
        return self.place / "ballast"

    @property
    def is_full(self) -> bool:
        return self._ballast.exists()

    def fill(self, leave: int) -> None:
        """Up to the last `leave` bytes."""
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            file.truncate(max(file.tell() - leave, 0))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


async def _in_turns(disk: SmallDisk, server: ServerProcess, session: str, chance: Random) -> int:
    """The disk fills up, and mostly there is room again, once or twice; how often a page said
    so. A write-ahead log has room of its own, so that sometimes no file may be written at all."""
    noticed, page = 0, PageReader(session, False, chance)
    for _ in range(chance.choice([1, 1, 2])):
        await asyncio.sleep(chance.uniform(0, 0.6))
        disk.fill(chance.choice([0, 4096, 16384]))
        if chance.random() < 0.6:
            _allow_files(server, at_all=False)
        await asyncio.sleep(chance.uniform(0.1, 1.5))
        async with server.client() as client:
            await page.load(client)
        noticed += page.says_full
        if chance.random() < 0.4:
            break
        disk.free()
        _allow_files(server, at_all=True)
    return noticed


def _allow_files(server: ServerProcess, *, at_all: bool) -> None:
    """Whether any file may be written by `server`, as if its disk had no byte left."""
    import resource  # not on every system; its `prlimit` on Linux alone

    most = resource.RLIM_INFINITY
    limits = (most if at_all else 0, most)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)


def _start_full(db: Path, disk: SmallDisk) -> None:
    """On a disk that is full still, a server starts, or says in a sentence why it does not."""
    if not disk.is_full:
        return
    try:
        _end(launch_server(db))
    except AssertionError as refused:
        if "Traceback" in str(refused):
            raise
    finally:
        disk.free()


@asynccontextmanager
async def _other_server(folder: Path, wait_s: float) -> AsyncIterator[str]:
    """The address of a server with a tool, /note, which notes the call that each key names, and a
    model that is slow."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(fields["content-length"]))
            if " /note " in head[0]:
                session, call, _ = fields["idempotency-key"].split("/")
                with (folder / f"effects-{session}").open("a") as file:
                    file.write(call + "\n")
                await asyncio.sleep(wait_s)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nnoted")
                await writer.drain()
            else:
                await _answer_slowly(writer, json.loads(body))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def _answer_slowly(writer: asyncio.StreamWriter, request: Mapping[str, Any]) -> None:
    """As OpenAI's chat completions stream, a piece at a time; after a result all at once."""
    is_over = request["messages"][-1]["role"] == "tool"
    is_call = request["model"] == "arguments" and not is_over
    texts = ["Done."] if is_over else ['{"text": "', *SLOW, '"}'] if is_call else SLOW
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    if is_call:
        named = {"index": 0, "id": "call_1", "function": {"name": "note", "arguments": ""}}
        writer.write(_chunk({"tool_calls": [named]}))
    for text in texts:
        grown = {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        writer.write(_chunk(grown if is_call else {"content": text}))
        await writer.drain()
        await asyncio.sleep(SLOW_S)
    writer.write(_chunk({}, "tool_calls" if is_call else "stop") + b"data: [DONE]\n\n")
    await writer.drain()


def _chunk(delta: Any, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return f"data: {json.dumps(data)}\n\n".encode()


async def _session(
    client: httpx.AsyncClient, folder: Path, plan: Plan, url: str, chance: Random
) -> Told:
    place = len(list(folder.glob("tool*.py")))
    effects, file = folder / f"effects{place}", folder / f"tool{place}.py"
    wait_s = chance.choice([0, 0.3, 1.0])
    file.write_text(TOOL.format(effects=str(effects), wait_s=wait_s))
    tool = {
        "name": "note",
        "description": "Notes a text.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        "answered_by": "http" if plan.http else "python",
        "config": {"method": "POST", "url": url + "/note", "private": True}
        if plan.http
        else {"file": str(file), "function": "note"},
        "parallel_safe": chance.random() < 0.5,
    }
    body = {"title": f"Round {place}", "tools": [tool], "rules": plan.rules}
    if plan.model:
        body |= {"model": plan.model, "protocol": "openai_chat", "base_url": url + "/v1"}
    answer = await client.post("/sessions", json={**body, "max_turns": plan.max_turns})
    assert answer.status_code == 201, answer.text
    session_id = answer.json()["id"]
    return Told(
        session_id,
        plan,
        folder / f"effects-{session_id}" if plan.http else effects,
        Script(session_id, decides=plan.is_decided),
        [PageReader(session_id, is_saved, chance) for is_saved in (False, *chance.choice(OTHERS))],
        is_scripted=plan.is_decided or chance.random() < 0.5,
    )


async def _compared(
    client: httpx.AsyncClient, db: Path, tolds: list[Told], chance: Random, caught: Counter[str]
) -> Outcome:
    violations: list[str] = sound(db)
    logs = [await read_log(client, this.id) for this in tolds]
    for this, log in zip(tolds, logs, strict=True):
        violations += [
            f"{this.id}: {text}" for text in await _followed_on(client, this, log, caught)
        ]
        folded = (await client.get(f"/sessions/{this.id}")).json()
        violations += [f"{this.id}: {text}" for text in _check_outputs(this, log)]
        violations += [f"{this.id}: {text}" for text in _at_rest(this, log, folded, caught)]
        violations += [f"{this.id}: {effect}" for effect in _effects(this, log)]
    # A whole run on the restarted server: time enough for a run to go on by itself, if any did.
    before = [this.effect_counts for this in tolds]
    new = (await client.post("/sessions", json={})).json()["id"]
    await client.post(f"/sessions/{new}/prompts", json={"text": "hello"})
    await wait_for_session(client, new)
    for this, log, ran in zip(tolds, logs, before, strict=True):
        if await read_log(client, this.id) != log or this.effect_counts != ran:
            violations.append(f"{this.id}: went on by itself after the restart")
        chosen = await _chosen(client, this, chance, caught)
        violations += [f"{this.id}: {text}" for text in chosen]
    return Outcome(violations, sum(len(this.lines) for this in tolds), caught)


def sound(db: Path) -> list[str]:
    """The file by SQLite's own word."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        strays = connection.execute("PRAGMA foreign_key_check").fetchall()
        running = connection.execute("SELECT id FROM sessions WHERE state = 'running'").fetchall()
    problems = [] if verdict == "ok" else [f"integrity_check: {verdict}"]
    problems += [f"foreign_key_check: {stray}" for stray in strays]
    return problems + [f"{session} is listed as running" for (session,) in running]


async def read_log(client: httpx.AsyncClient, session_id: str) -> dict[int, Mapping[str, Any]]:
    answer = await client.get(f"/sessions/{session_id}/events")
    lines = [json.loads(line) for line in answer.text.split("\n") if line]
    return {line["seq"]: line for line in lines}


async def _followed_on(
    client: httpx.AsyncClient, output: Told, log: dict[int, Mapping[str, Any]], caught: Counter[str]
) -> list[str]:
    """Whoever followed the session goes on with its cursor: what pages show and showed, and each
    event once."""
    problems = [problem for page in output.pages for problem in page.told_before(log)]
    for page in output.pages:
        if page.is_saved and page.cursor and int(page.cursor) > max(log):
            problems.append(f"the stream told {page.cursor}, the log ends at {max(log)}")
        if ahead := page.ahead(log):
            caught["pages ahead of the log"] += 1
            caught["characters ahead"] += ahead
    cursors = [page.cursor for page in output.pages]
    tasks = [asyncio.create_task(page.follow(client)) for page in output.pages]
    try:
        for page, cursor in zip(output.pages, cursors, strict=True):
            problems += await page.told_after(client, cursor, log)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    rest = LogReader(output.id, dict(output.lines))
    async with asyncio.timeout(SETTLED_S):
        await rest.follow(client, max(log))
    if rest.lines != log:
        problems.append("the events of before and after the restart are not the log")
    return problems + output.script.problems + rest.problems


def _check_outputs(output: Told, log: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Every event told is there and equal; the log has no gap."""
    problems = [f"event {seq} was told and is lost" for seq in output.lines if seq not in log]
    problems += [
        f"event {seq} was told as {line} and is {log[seq]}"
        for seq, line in output.lines.items()
        if seq in log and log[seq] != line
    ]
    there = Counter((line["kind"], line.get("call_id", "")) for line in log.values())
    for event, count in Counter(output.script.acknowledged).items():
        if there[event] < count:
            problems.append(
                f"{event} was acknowledged {count} times and is there {there[event]} times"
            )
    if list(log) != list(range(1, len(log) + 1)):
        problems.append("the log has a gap")
    return problems


def _at_rest(
    output: Told, log: Mapping[int, Mapping[str, Any]], folded: Any, caught: Counter[str]
) -> list[str]:
    """Nothing runs; what was under way says so, and what there was of it is kept."""
    problems = [] if folded["state"] != "running" else ["it says it is running"]
    caught[folded["state"]] += 1
    turns = _turns(log)
    for number, events in turns.items():
        ends = [e for e in events if e["kind"] in ("response_ended", "response_failed")]
        if len(ends) != 1:
            problems.append(f"turn {number} has {len(ends)} ends")
        elif ends[0].get("failure") == "interrupted":
            caught["cut answers"] += 1
            if folded["state"] != "interrupted":
                problems.append(f"turn {number} was cut, and the session is {folded['state']}")
        problems += _partial_text(number, events)
    for call in folded["calls"]:
        if call["status"] == "running":
            problems.append(f"call {call['id']} says it is running")
        if call["status"] == "interrupted":
            caught["cut calls"] += 1
            if folded["state"] not in ("waiting", "paused"):
                problems.append(f"call {call['id']} asks nobody: {folded['state']}")
    pauses = [line["limit"] for line in log.values() if line["kind"] == "run_paused"]
    caught["limits reached"] += sum(limit == "max_turns" for limit in pauses)
    caught["held by the restart"] += "restart" in pauses
    return problems


def _effects(output: Told, log: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Each call ran once at most, and only where its start was written; what has a result ran."""
    lines = log.values()
    started = Counter(line["call_id"] for line in lines if line["kind"] == "call_started")
    decided = Counter(line["call_id"] for line in lines if line["kind"] == "call_decided")
    ended = {line["call_id"] for line in lines if line["kind"] == "call_ended"}
    results = []
    for call in started.keys() | output.effect_counts.keys() | ended:
        starts, ran = started[call], output.effect_counts[call]
        if not ran <= starts <= decided[call] <= 1 or (call in ended and ran != 1):
            results.append(
                f"call {call}: {decided[call]} decisions, {starts} starts, {ran} effects"
            )
    return results


def _turns(log: Mapping[int, Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    turns: dict[int, list[Mapping[str, Any]]] = {}
    for seq in sorted(log):
        if log[seq]["kind"] == "request_sent":
            turns[len(turns) + 1] = []
        if turns:
            turns[len(turns)].append(log[seq])
    return turns


def _partial_text(number: int, events: list[Mapping[str, Any]]) -> list[str]:
    """Each part ends with the text its deltas made."""
    texts: dict[int, str] = {}
    results = []
    for event in events:
        if event["kind"] == "part_delta":
            texts[event["index"]] = texts.get(event["index"], "") + event["text"]
        if event["kind"] == "part_ended" and event["text"] != texts.get(event["index"], ""):
            results.append(f"turn {number}, part {event['index']} lost some of its text")
    return results


async def _chosen(
    client: httpx.AsyncClient, output: Told, chance: Random, caught: Counter[str]
) -> list[str]:
    """A user decides every cut call: once, not from the card of before the crash, and what was
    not to run again did not."""
    folded = (await client.get(f"/sessions/{output.id}")).json()
    cut = [call for call in folded["calls"] if call["status"] == "interrupted"]
    before, problems = output.effect_counts, []
    choices = {call["id"]: chance.choice(CHOICES) for call in cut}
    for call in cut:
        problems += await _decided(client, output, call, choices[call["id"]])
        caught[f"chosen: {choices[call['id']]}"] += 1
    if not cut:
        return problems
    if folded["state"] == "paused":
        if output.effect_counts != before:
            problems.append("a paused run ran a call")
        await client.post(f"/sessions/{output.id}/continue", json={})
    folded = await wait_for_session(client, output.id)
    status = {call["id"]: call["status"] for call in folded["calls"]}
    for call_id, choice in choices.items():
        again = output.effect_counts[call_id] - before[call_id]
        if status[call_id] != "done" or again != (choice == "run"):
            problems.append(f"{choice}: call {call_id} is {status[call_id]}, and ran {again} times")
    return problems


async def _decided(
    client: httpx.AsyncClient, output: Told, call: Mapping[str, Any], choice: str
) -> list[str]:
    path = f"/sessions/{output.id}/calls/{call['id']}/decision"
    digest = "0" * 64
    for line in output.lines.values():
        if line["kind"] == "call_checked" and line["call_id"] == call["id"]:
            digest = line["digest"]
    stale = await client.post(path, json={"decision": choice, "digest": digest})
    if stale.status_code != 409:
        return [f"a card from before the crash was taken: {stale.status_code}"]
    body = {"decision": choice, "digest": call["digest"], "text": "It was done."}
    fresh = await asyncio.gather(*(client.post(path, json=body) for _ in range(5)))
    statuses = sorted(answer.status_code for answer in fresh)
    if statuses != [200, 409, 409, 409, 409]:
        return [f"five clicks on one card: {statuses}"]
    return []
