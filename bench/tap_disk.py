"""What an agent's work costs on disk: `python bench/tap_disk.py`.

A scripted agent works 200 turns through a tap of a real server, with Anthropic's protocol; each
request repeats the one before and adds what came since, its marker of the cache moves, and nothing
is held. Upstream is the simulator with a scenario. Printed are the bytes by which the files of the
database grew once the server has ended (beside those of a server where nobody asked), and the bytes
that are new: those of the first request, of each message that came since, and of the answers. Exit
1 where a database grew by more than three times what is new.

Two shapes: 60 kB of system and tools in front of messages of 20 kB at most, and of 70 kB at most,
behind which the agent puts a summary in the place of all but the last few.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.request_bodies import (
    GROWTH,
    MOST,
    Shape,
    Turn,
    anthropic_body,
    anthropic_messages,
    prompt_of,
    prose,
    size_of,
    tools_of,
    turns,
)
from playground.core.messages import ModelRequest
from playground.simulator.app import simulator_app
from playground.simulator.scenario import Scenario, ScenarioTurn, scenario
from tests.in_process import serve_app
from tests.servers import NO_TLS, run_server_process

KEY = "DISK_API_KEY"
SHAPES = (Shape("anthropic", 20_000, 40_000, 20_000), Shape("anthropic", 1000, 2000, 70_000))
HEADERS = {"anthropic-version": "2023-06-01", "x-session-id": "0123456789"}


class InTurn:
    """A scenario whose turns are told in order, whatever history a request has."""

    def __init__(self, written: Scenario) -> None:
        self._written = written
        self.number = 0

    def turn(self, request: ModelRequest) -> ScenarioTurn:
        self.number += 1
        return self._written.turns[self.number - 1]


def played(several: list[Turn]) -> InTurn:
    words = [
        {
            "text": turn.text,
            "calls": [{"name": "tool_1", "arguments": turn.arguments}],
        }
        for turn in several
    ]
    return InTurn(scenario(json.dumps({"turns": words})))


def size_on_disk(db: Path) -> int:
    return sum(file.stat().st_size for file in db.parent.glob(db.name + "*"))


async def worked(url: str, shape: Shape, several: list[Turn]) -> tuple[int, int]:
    """The agent's work through the tap at `url`: bytes that were new, and all that it sent."""
    chance = random.Random(7)
    system, tools = prose(chance, shape.system), tools_of(chance, shape.tools)
    messages: list[Any] = [prompt_of("anthropic", prose(chance, 200))]
    added, fresh, sent = messages, 0, 0
    async with httpx.AsyncClient(timeout=60, trust_env=False, verify=NO_TLS) as client:
        for turn in several:
            body = json.dumps(anthropic_body(system, tools, messages), separators=(",", ":"))
            answer = await client.post(url + "/v1/messages", content=body, headers=HEADERS)
            assert answer.status_code == 200, answer.text
            sent += len(body)
            fresh += (size_of(added) if fresh else len(body)) + len(answer.content)
            (call_id,) = set(re.findall(r'"(toolu_\w+)"', answer.text))
            added = anthropic_messages(turn)
            added[0]["content"][1]["id"] = added[1]["content"][0]["tool_use_id"] = call_id
            messages = [*messages, *added]
            if size_of(messages) > shape.full:
                summary = prompt_of("anthropic", prose(chance, 3000))
                messages, added = [summary, *messages[-6:]], [summary, *added]
    return fresh, sent


async def measured(folder: Path, shape: Shape, count: int) -> tuple[int, int, int, int]:
    """Bytes that were new, bytes sent, bytes by which the files grew, sessions."""
    several = turns(random.Random(11), count, *GROWTH)
    app = simulator_app(pace=0, scenario=played(several))
    sizes = []
    async with serve_app(app) as place:
        for asks in (False, True):
            db = folder / f"{asks}.db"
            with run_server_process(db, **{KEY: "any"}) as server:
                async with server.client() as client:
                    row = {"name": "up", "model": "m", "protocol": "anthropic", "key_name": KEY}
                    row["base_url"] = place + "/anthropic"
                    (await client.post("/providers", json=row)).raise_for_status()
                    named = {"name": KEY, "base_url": row["base_url"]}
                    (await client.post("/keys", json=named)).raise_for_status()
                    tap = (await client.post("/taps", json={"upstream": "up"})).json()
                    if asks:
                        fresh, sent = await worked(tap["urls"]["anthropic"], shape, several)
                    sessions = len((await client.get("/sessions")).json())
                await asyncio.to_thread(server.end)
            sizes.append(size_on_disk(db))
    return fresh, sent, sizes[1] - sizes[0], sessions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args()
    worst = 0.0
    for shape in SHAPES:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            fresh, sent, grown, sessions = asyncio.run(measured(Path(name), shape, options.turns))
        worst = max(worst, grown / fresh)
        print(
            f"{options.turns} turns, requests of {sent / options.turns / 1000:.0f} kB on average,"
            f" sessions: {sessions}; new {fresh / 1000:.0f} kB, on disk {grown / 1000:.0f} kB:"
            f" {grown / fresh:.2f} times ({sent / 1000:.0f} kB were sent);"
            f" {time.monotonic() - began:.0f} s",
            flush=True,
        )
    print(f"At most {worst:.2f} times what is new (may be {MOST:.0f}).")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
