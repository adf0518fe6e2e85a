"""Rounds of kill -9: what a server has told must hold after it was killed at any instant.

A round starts a server, lets sessions stream and tools run while it listens to all it is told,
kills the server at an instant drawn from the seed, starts it again and compares. See the state
contract in docs/safety.md.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.served import messages, rested, served, start

PACE = "0.05"
SOONEST_S, LATEST_S = 0.0, 1.2
"""The kill comes so long after the last prompt, in seconds."""

RUN_ALL = [{"tool": "*", "action": "run", "text": "", "words": "--allow all"}]
PROMPTS: tuple[tuple[str, list[Any]], ...] = (
    ("[[fault:many-deltas-20000]] Write something long.", []),
    ("[[fault:parallel-5]] Use note, please.", RUN_ALL),
    ("[[fault:loop]] Use note, please.", RUN_ALL),
    ("[[fault:parallel-3]] Use note, please.", []),
)
"""(prompt, rules): a long text, calls side by side, turn after turn, and calls a script decides."""

TOOL = """
import time

def note(text="nothing", wait_s=0):
    with open({effects!r}, "a") as file:
        file.write("ran\\n")
    time.sleep({wait_s})
    return "noted"
"""


@dataclass
class Told:
    """One session, and all the server said about it before it was killed."""

    id: str
    effects: Path
    lines: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    cursor: int = 0

    @property
    def ran(self) -> int:
        return self.effects.read_text().count("\n") if self.effects.exists() else 0


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
    one = start(db, PLAYGROUND_PACE=PACE)
    told: list[Told] = []
    try:
        async with one.client() as client:
            tasks = []
            for place, (prompt, rules) in enumerate(PROMPTS):
                this = await _session(client, folder, place, rules, chance)
                told.append(this)
                tasks += [asyncio.create_task(_listen(client, this, decide=not rules))]
                tasks += [asyncio.create_task(_watch(client, this))]
                await client.post(f"/sessions/{this.id}/prompts", json={"text": prompt})
            await asyncio.sleep(chance.uniform(SOONEST_S, LATEST_S))
            one.kill()
            await asyncio.wait(tasks, timeout=10)
    finally:
        one.kill()
        assert one.process.stdout is not None
        one.process.stdout.close()
    with served(db, PLAYGROUND_PACE="0") as again:
        async with again.client() as client:
            return await _compared(client, db, told)


async def _session(
    client: httpx.AsyncClient, folder: Path, place: int, rules: list[Any], chance: Random
) -> Told:
    effects, file = folder / f"effects{place}", folder / f"tool{place}.py"
    wait_s = chance.choice([0, 0.05, 0.3])
    file.write_text(TOOL.format(effects=str(effects), wait_s=wait_s))
    tool = {
        "name": "note",
        "description": "Notes a text.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        "answered_by": "python",
        "config": {"file": str(file), "function": "note"},
        "parallel_safe": chance.random() < 0.5,
    }
    body = {"title": f"Round {place}", "tools": [tool], "rules": rules, "max_turns": 100}
    answer = await client.post("/sessions", json=body)
    assert answer.status_code == 201, answer.text
    return Told(answer.json()["id"], effects)


async def _listen(client: httpx.AsyncClient, told: Told, *, decide: bool) -> None:
    """Keep every line of the log as it is told; decide calls that wait, where nobody else does."""
    headers = {"accept": "text/event-stream"}
    deciding: set[asyncio.Task[Any]] = set()
    with suppress(httpx.HTTPError):
        path = f"/sessions/{told.id}/events?after=0"
        async with client.stream("GET", path, headers=headers) as answer:
            async for one in messages(answer):
                if "data" not in one:
                    continue
                line = json.loads(one["data"])
                told.lines[line["seq"]] = line
                if decide and line["kind"] == "call_checked":
                    body = {"decision": "run", "digest": line["digest"]}
                    call = f"/sessions/{told.id}/calls/{line['call_id']}/decision"
                    deciding.add(asyncio.create_task(_posted(client, call, body)))
    if deciding:
        await asyncio.wait(deciding, timeout=10)


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


async def _compared(client: httpx.AsyncClient, db: Path, told: list[Told]) -> Outcome:
    violations: list[str] = _sound(db)
    caught: Counter[str] = Counter()
    logs = [await _log(client, this.id) for this in told]
    for this, log in zip(told, logs, strict=True):
        folded = (await client.get(f"/sessions/{this.id}")).json()
        violations += [f"{this.id}: {one}" for one in _kept(this, log)]
        violations += [f"{this.id}: {one}" for one in _at_rest(this, log, folded, caught)]
    # A whole run on the restarted server: time enough for a run to go on by itself, if any did.
    new = (await client.post("/sessions", json={})).json()["id"]
    await client.post(f"/sessions/{new}/prompts", json={"text": "hello"})
    await rested(client, new)
    for this, log in zip(told, logs, strict=True):
        if await _log(client, this.id) != log:
            violations.append(f"{this.id}: went on by itself after the restart")
        violations += [f"{this.id}: {one}" for one in await _run_again(client, this)]
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
    started = sum(line["kind"] == "call_started" for line in log.values())
    ended = sum(
        line["kind"] == "call_ended" and not line["result"]["is_error"] for line in log.values()
    )
    if not ended <= told.ran <= started:
        found.append(f"{started} starts, {told.ran} effects, {ended} results")
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


async def _run_again(client: httpx.AsyncClient, told: Told) -> list[str]:
    """A person runs a cut call again: once, and not from the card of before the crash."""
    folded = (await client.get(f"/sessions/{told.id}")).json()
    call = next((one for one in folded["calls"] if one["status"] == "interrupted"), None)
    if call is None:
        return []
    path = f"/sessions/{told.id}/calls/{call['id']}/decision"
    ran, before = told.ran, "0" * 64
    for line in told.lines.values():
        if line["kind"] == "call_checked" and line["call_id"] == call["id"]:
            before = line["digest"]
    stale = await client.post(path, json={"decision": "run", "digest": before})
    if stale.status_code != 409:
        return [f"a card from before the crash was taken: {stale.status_code}"]
    fresh = [
        client.post(path, json={"decision": "run", "digest": call["digest"]}) for _ in range(5)
    ]
    statuses = sorted(answer.status_code for answer in await asyncio.gather(*fresh))
    if statuses != [200, 409, 409, 409, 409]:
        return [f"five clicks on one card: {statuses}"]
    if folded["state"] == "paused":
        await client.post(f"/sessions/{told.id}/stop", json={})
        return []
    folded = await rested(client, told.id)
    status = next(one["status"] for one in folded["calls"] if one["id"] == call["id"])
    if status != "done" or told.ran < ran + 1:
        return [f"run again: the call is {status}, {told.ran - ran} effects"]
    return []
