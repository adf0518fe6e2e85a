"""Rounds of kill -9: what a server has told must hold after it was killed at any instant.

A round starts a server, lets sessions stream and tools run while it listens to all it is told,
kills the server at an instant drawn from the seed, starts it again and compares. Each effect of a
tool leaves a line with its call. See the state contract in docs/safety.md.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.served import messages, rested, served, start

PACE = "0.05"
SOONEST_S, LATEST_S = 0.0, 1.8
"""The kill comes so long after the last prompt, in seconds."""

RUN_ALL = [{"tool": "*", "action": "run", "text": "", "words": "--allow all"}]
STAGED = [{"tool": "note", "action": "run", "fault": "cut_json", "words": "cut"}]


@dataclass(frozen=True)
class Plan:
    """What a session does before the kill; without `rules` a script decides its calls."""

    prompt: str
    rules: list[Any]
    http: bool = False
    max_turns: int = 100


PLANS = (
    Plan("[[fault:many-deltas-2000]] Write something long.", []),
    Plan("[[fault:parallel-5]] Use note, please.", RUN_ALL),
    Plan("[[fault:loop]] Use note, please.", RUN_ALL, max_turns=3),
    Plan("[[fault:parallel-3]] Use note, please.", []),
    Plan("[[fault:parallel-6]] Use note, please.", RUN_ALL, http=True),
    Plan("[[fault:loop]] Use note, please.", STAGED, http=True, max_turns=4),
)
"""A long text; calls side by side; turn after turn, with a limit that a script lifts; calls a
script decides; and the same of a tool on another server, where results are staged, too."""

TOOL = """
import os, time

def note(text="nothing"):
    with open({effects!r}, "a") as file:
        file.write(os.environ["PLAYGROUND_CALL"] + "\\n")
    time.sleep({wait_s})
    return "noted"
"""


@dataclass
class Told:
    """One session, and all the server said about it before it was killed."""

    id: str
    plan: Plan
    effects: Path
    lines: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    cursor: int = 0

    @property
    def ran(self) -> Counter[str]:
        """How often each call had its effect."""
        return Counter(self.effects.read_text().split() if self.effects.exists() else ())


@dataclass(frozen=True)
class Outcome:
    """`violations` are sentences; `told` counts events, `open` what the kill caught in the act."""

    violations: list[str]
    told: int
    caught: Counter[str]


async def kill_round(folder: Path, seed: int) -> Outcome:
    """One round in `folder`, which is empty."""
    chance = Random(seed)
    db = folder / "kill.db"
    told: list[Told] = []
    async with _other_server(folder, chance.choice([0, 0.3, 1.0])) as url:
        one = start(db, PLAYGROUND_PACE=PACE)
        try:
            async with one.client() as client:
                tasks = []
                for plan in PLANS:
                    this = await _session(client, folder, plan, url, chance)
                    told.append(this)
                    tasks += [asyncio.create_task(_listen(client, this))]
                    tasks += [asyncio.create_task(_watch(client, this))]
                    await client.post(f"/sessions/{this.id}/prompts", json={"text": plan.prompt})
                await asyncio.sleep(chance.uniform(SOONEST_S, LATEST_S))
                one.kill()
                await asyncio.wait(tasks, timeout=10)
        finally:
            one.kill()
            assert one.process.stdout is not None
            one.process.stdout.close()
        with served(db, PLAYGROUND_PACE="0") as again:
            async with again.client() as client:
                return await _compared(client, db, told, chance)


@asynccontextmanager
async def _other_server(folder: Path, wait_s: float) -> AsyncIterator[str]:
    """The address of a server that HTTP tools call: it notes the call that each key names."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            await reader.readexactly(int(fields["content-length"]))
            session, call, _ = fields["idempotency-key"].split("/")
            with (folder / f"effects-{session}").open("a") as file:
                file.write(call + "\n")
            await asyncio.sleep(wait_s)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nnoted")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/note"
    finally:
        server.close()


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
        "config": {"method": "POST", "url": url, "private": True}
        if plan.http
        else {"file": str(file), "function": "note"},
        "parallel_safe": chance.random() < 0.5,
    }
    body = {"title": f"Round {place}", "tools": [tool], "rules": plan.rules}
    answer = await client.post("/sessions", json={**body, "max_turns": plan.max_turns})
    assert answer.status_code == 201, answer.text
    session_id = answer.json()["id"]
    return Told(session_id, plan, folder / f"effects-{session_id}" if plan.http else effects)


async def _listen(client: httpx.AsyncClient, told: Told) -> None:
    """Keep every line of the log as it is told; decide calls that wait, where nobody else does,
    and go on where a limit is reached."""
    headers = {"accept": "text/event-stream"}
    doing: set[asyncio.Task[Any]] = set()
    here = f"/sessions/{told.id}"
    with suppress(httpx.HTTPError):
        async with client.stream("GET", f"{here}/events?after=0", headers=headers) as answer:
            async for one in messages(answer):
                if "data" not in one:
                    continue
                line = json.loads(one["data"])
                told.lines[line["seq"]] = line
                if line["kind"] == "call_checked" and not told.plan.rules:
                    body = {"decision": "run", "digest": line["digest"]}
                    call = f"{here}/calls/{line['call_id']}/decision"
                    doing.add(asyncio.create_task(_posted(client, call, body)))
                if line["kind"] == "run_paused":
                    doing.add(asyncio.create_task(_posted(client, f"{here}/continue", {})))
    if doing:
        await asyncio.wait(doing, timeout=10)


async def _posted(client: httpx.AsyncClient, path: str, body: Any) -> None:
    with suppress(httpx.HTTPError):
        await client.post(path, json=body)


async def _watch(client: httpx.AsyncClient, told: Told) -> None:
    """Follow the page's stream; remember the newest cursor it gave."""
    headers = {"accept": "text/event-stream"}
    with suppress(httpx.HTTPError):
        async with client.stream("GET", f"/sessions/{told.id}/stream", headers=headers) as answer:
            async for one in messages(answer):
                told.cursor = max(told.cursor, int(one.get("id", 0)))


async def _compared(
    client: httpx.AsyncClient, db: Path, told: list[Told], chance: Random
) -> Outcome:
    violations: list[str] = _sound(db)
    caught: Counter[str] = Counter()
    logs = [await _log(client, this.id) for this in told]
    for this, log in zip(told, logs, strict=True):
        folded = (await client.get(f"/sessions/{this.id}")).json()
        violations += [f"{this.id}: {one}" for one in _kept(this, log)]
        violations += [f"{this.id}: {one}" for one in _at_rest(this, log, folded, caught)]
        violations += [f"{this.id}: {one}" for one in _effects(this, log)]
    # A whole run on the restarted server: time enough for a run to go on by itself, if any did.
    before = [this.ran for this in told]
    new = (await client.post("/sessions", json={})).json()["id"]
    await client.post(f"/sessions/{new}/prompts", json={"text": "hello"})
    await rested(client, new)
    for this, log, ran in zip(told, logs, before, strict=True):
        if await _log(client, this.id) != log or this.ran != ran:
            violations.append(f"{this.id}: went on by itself after the restart")
        chosen = await _chosen(client, this, chance, caught)
        violations += [f"{this.id}: {one}" for one in chosen]
    return Outcome(violations, sum(len(this.lines) for this in told), caught)


def _sound(db: Path) -> list[str]:
    """The file by SQLite's own word."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        strays = connection.execute("PRAGMA foreign_key_check").fetchall()
        running = connection.execute("SELECT id FROM sessions WHERE state = 'running'").fetchall()
    found = [] if verdict == "ok" else [f"integrity_check: {verdict}"]
    found += [f"foreign_key_check: {stray}" for stray in strays]
    return found + [f"{session} is listed as running" for (session,) in running]


async def _log(client: httpx.AsyncClient, session_id: str) -> dict[int, Mapping[str, Any]]:
    answer = await client.get(f"/sessions/{session_id}/events")
    lines = [json.loads(line) for line in answer.text.split("\n") if line]
    return {line["seq"]: line for line in lines}


def _kept(told: Told, log: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Every event told is there and equal; the log has no gap."""
    found = [f"event {seq} was told and is lost" for seq in told.lines if seq not in log]
    found += [
        f"event {seq} was told as {line} and is {log[seq]}"
        for seq, line in told.lines.items()
        if seq in log and log[seq] != line
    ]
    if told.cursor > max(log):
        found.append(f"the stream told {told.cursor}, the log ends at {max(log)}")
    if list(log) != list(range(1, len(log) + 1)):
        found.append("the log has a gap")
    return found


def _at_rest(
    told: Told, log: Mapping[int, Mapping[str, Any]], folded: Any, caught: Counter[str]
) -> list[str]:
    """Nothing runs; what was under way says so, and what there was of it is kept."""
    found = [] if folded["state"] != "running" else ["it says it is running"]
    caught[folded["state"]] += 1
    turns = _turns(log)
    for number, events in turns.items():
        ends = [e for e in events if e["kind"] in ("response_ended", "response_failed")]
        if len(ends) != 1:
            found.append(f"turn {number} has {len(ends)} ends")
        elif ends[0].get("failure") == "interrupted":
            caught["cut answers"] += 1
            if folded["state"] != "interrupted":
                found.append(f"turn {number} was cut, and the session is {folded['state']}")
        found += _partial_text(number, events)
    for call in folded["calls"]:
        if call["status"] == "running":
            found.append(f"call {call['id']} says it is running")
        if call["status"] == "interrupted":
            caught["cut calls"] += 1
            if folded["state"] not in ("waiting", "paused"):
                found.append(f"call {call['id']} asks nobody: {folded['state']}")
    pauses = [line["limit"] for line in log.values() if line["kind"] == "run_paused"]
    caught["limits reached"] += sum(limit == "max_turns" for limit in pauses)
    caught["held by the restart"] += "restart" in pauses
    return found


def _effects(told: Told, log: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Each call ran once at most, and only where its start was written; what has a result ran."""
    lines = log.values()
    started = Counter(line["call_id"] for line in lines if line["kind"] == "call_started")
    decided = Counter(line["call_id"] for line in lines if line["kind"] == "call_decided")
    ended = {line["call_id"] for line in lines if line["kind"] == "call_ended"}
    found = []
    for call in started.keys() | told.ran.keys() | ended:
        starts, ran = started[call], told.ran[call]
        if not ran <= starts <= decided[call] <= 1 or (call in ended and ran != 1):
            found.append(f"call {call}: {decided[call]} decisions, {starts} starts, {ran} effects")
    return found


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
    found = []
    for event in events:
        if event["kind"] == "part_delta":
            texts[event["index"]] = texts.get(event["index"], "") + event["text"]
        if event["kind"] == "part_ended" and event["text"] != texts.get(event["index"], ""):
            found.append(f"turn {number}, part {event['index']} lost some of its text")
    return found


CHOICES = ("run", "answer", "deny")
"""Of a call that was cut; "done with this result" is an answer."""


async def _chosen(
    client: httpx.AsyncClient, told: Told, chance: Random, caught: Counter[str]
) -> list[str]:
    """A person decides every cut call: once, not from the card of before the crash, and what was
    not to run again did not."""
    folded = (await client.get(f"/sessions/{told.id}")).json()
    cut = [one for one in folded["calls"] if one["status"] == "interrupted"]
    before, found = told.ran, []
    choices = {call["id"]: chance.choice(CHOICES) for call in cut}
    for call in cut:
        found += await _decided(client, told, call, choices[call["id"]])
        caught[f"chosen: {choices[call['id']]}"] += 1
    if not cut:
        return found
    if folded["state"] == "paused":
        if told.ran != before:
            found.append("a paused run ran a call")
        await client.post(f"/sessions/{told.id}/continue", json={})
    folded = await rested(client, told.id)
    status = {call["id"]: call["status"] for call in folded["calls"]}
    for call_id, choice in choices.items():
        again = told.ran[call_id] - before[call_id]
        if status[call_id] != "done" or again != (choice == "run"):
            found.append(f"{choice}: call {call_id} is {status[call_id]}, and ran {again} times")
    return found


async def _decided(
    client: httpx.AsyncClient, told: Told, call: Mapping[str, Any], choice: str
) -> list[str]:
    path = f"/sessions/{told.id}/calls/{call['id']}/decision"
    seen = "0" * 64
    for line in told.lines.values():
        if line["kind"] == "call_checked" and line["call_id"] == call["id"]:
            seen = line["digest"]
    stale = await client.post(path, json={"decision": choice, "digest": seen})
    if stale.status_code != 409:
        return [f"a card from before the crash was taken: {stale.status_code}"]
    body = {"decision": choice, "digest": call["digest"], "text": "It was done."}
    fresh = await asyncio.gather(*(client.post(path, json=body) for _ in range(5)))
    statuses = sorted(answer.status_code for answer in fresh)
    if statuses != [200, 409, 409, 409, 409]:
        return [f"five clicks on one card: {statuses}"]
    return []
