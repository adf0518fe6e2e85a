"""Of the rounds of kill -9 with agents (killing_agents): results that are held on their way
upstream, a script that lets them pass or edits them, and what of them upstream may get."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

Key = tuple[str, str]
"""(agent, the text of its call)"""


def returned(text: str) -> str:
    """What an agent's tool says of a call."""
    return f"noted {text}"


def edited_text(text: str) -> str:
    return f"seen {text}"


def results_in(body: Mapping[str, Any]) -> Iterator[str]:
    """The results in a request, in the form of Anthropic or of Chat."""
    for message in body["messages"]:
        if message["role"] == "tool":
            yield message["content"]
        elif message["role"] == "user" and isinstance(message["content"], list):
            blocks = (block for block in message["content"] if block["type"] == "tool_result")
            yield from (block["content"] for block in blocks)


@dataclass(frozen=True)
class ResultCard:
    session: str
    call: str
    digest: str


@dataclass
class ResultDecider:
    """Decides each held result of the agents named, unless it is `idle`. `sent` has whether it was
    to be edited, `confirmed` what the server said yes to."""

    agents: frozenset[str]
    chance: Random
    idle: bool
    seen: dict[Key, ResultCard] = field(default_factory=dict)
    sent: dict[Key, bool] = field(default_factory=dict)
    confirmed: dict[Key, bool] = field(default_factory=dict)
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def look_at(
        self, client: httpx.AsyncClient, session_id: str, name: str, folded: Any
    ) -> None:
        for call in folded["calls"]:
            if call["status"] != "running" or call["real"] is None:
                continue
            text = json.loads(call["arguments_raw"])["text"]
            card = ResultCard(session_id, call["id"], call["digest"])
            before = self.seen.setdefault((name, text), card)
            if before != card:
                self.problems.append(f"{name}: the card of {text} was {before} and is {card}")
            if not self.idle:
                await self._decide(client, (name, text), card)

    async def _decide(self, client: httpx.AsyncClient, key: Key, card: ResultCard) -> None:
        change = self.chance.random() < 0.5
        body = {"digest": card.digest, **({"text": edited_text(key[1])} if change else {})}
        self.sent[key] = change
        path = f"/sessions/{card.session}/calls/{card.call}/result"
        answer = await client.post(path, json=body)
        if answer.is_success:
            self.confirmed[key] = change
        else:
            self.problems.append(f"{key}: was refused: {answer.text[:200]}")

    def came_upstream(self, name: str, body: Mapping[str, Any]) -> None:
        """A request is there, of whatever agent."""
        if name not in self.agents:
            return
        results = list(results_in(body))
        self.asked.append((name, results))
        for result in results:
            key = name, result.partition(" ")[2]
            if key not in self.sent:
                self.problems.append(f"{key}: the result was held, and went upstream")

    def lost(self, logs: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> Iterator[str]:
        """What was confirmed before a kill and is not in the log after it."""
        for key, change in self.confirmed.items():
            there = _decided(logs.get(key[0], {})).get(self.seen[key].call)
            if there != change:
                yield f"{key}: edited {change} was confirmed, and the log has {there}"

    def broken(self, logs: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> Iterator[str]:
        """At the end: what upstream got that is not what the log says was decided."""
        yield from self.problems
        yield from self.lost(logs)
        expected: dict[str, set[str]] = {}
        for name in self.agents:
            decided = _decided(logs.get(name, {}))
            cards = {text: card.call for (agent, text), card in self.seen.items() if agent == name}
            for text, call in cards.items():
                change = decided.get(call)
                if change is None:
                    yield f"{name}: the result of {text} was not decided"
                expected.setdefault(name, set()).add((edited_text if change else returned)(text))
            progressed_ids = [
                line["call_id"]
                for line in logs.get(name, {}).values()
                if line["kind"] == "call_progressed"
            ]
            if sorted(progressed_ids) != sorted(set(progressed_ids)):
                yield f"{name}: a result was held twice"
        for name, results in self.asked:
            for result in set(results) - expected.get(name, set()):
                yield f"{name}: upstream got {result!r}, which was not decided so"


def _decided(log: Mapping[int, Mapping[str, Any]]) -> dict[str, bool]:
    """By call: whether its result was edited."""
    return {
        line["call_id"]: line.get("real") is not None
        for line in log.values()
        if line["kind"] == "call_ended"
    }
