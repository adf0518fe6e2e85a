"""Of the rounds of kill -9 with agents (killing_agents): calls that a script answers by hand, so
that the next request is made by the server and its agent gets one answer of several; and what
upstream may get then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.killing_results import Key, ResultCard, results_in

Log = Mapping[int, Mapping[str, Any]]


def by_hand(text: str) -> str:
    return f"by hand {text}"


@dataclass
class HandDecider:
    """Answers each held call of the agents named. `turns` are the marks of the calls of each turn
    of the work, `asked` what upstream was asked for: agent, turn and the results that came."""

    agents: frozenset[str]
    turns: Sequence[Sequence[str]]
    seen: dict[Key, ResultCard] = field(default_factory=dict)
    confirmed: set[Key] = field(default_factory=set)
    asked: list[tuple[str, int, list[str]]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def look_at(
        self, client: httpx.AsyncClient, session_id: str, name: str, folded: Any
    ) -> None:
        for call in folded["calls"]:
            if call["status"] != "waiting":
                continue
            text = json.loads(call["arguments_raw"])["text"]
            card = ResultCard(session_id, call["id"], call["digest"])
            before = self.seen.setdefault((name, text), card)
            if before != card:
                self.problems.append(f"{name}: the card of {text} was {before} and is {card}")
            body = {"decision": "answer", "digest": card.digest, "text": by_hand(text)}
            path = f"/sessions/{session_id}/calls/{card.call}/decision"
            answer = await client.post(path, json=body)
            if answer.is_success:
                self.confirmed.add((name, text))
            else:
                self.problems.append(f"{name}: {text} was refused: {answer.text[:200]}")

    def came_upstream(self, name: str, turn: int, body: Mapping[str, Any]) -> None:
        """A request is there, of whatever agent."""
        if name in self.agents:
            self.asked.append((name, turn, list(results_in(body))))

    @property
    def goes_on(self) -> bool:
        """Whether upstream was asked by the server for a turn that goes on from another."""
        return any(turn > 1 and self.turns[turn - 2] for _, turn, _ in self.asked)

    def lost(self, logs: Mapping[str, Log]) -> Iterator[str]:
        """What was confirmed before a kill and is not in the log after it."""
        for name, text in self.confirmed:
            if _answers(logs.get(name, {}))[by_hand(text)] != 1:
                yield f"{name}: the answer to {text} was confirmed, and is not in the log"

    def broken(self, logs: Mapping[str, Log]) -> Iterator[str]:
        """At the end: each call was answered once, and upstream has each answer once, in order."""
        yield from self.problems
        marks = [text for turn in self.turns for text in turn]
        for name in self.agents:
            answers = _answers(logs.get(name, {}))
            for text in marks:
                if answers[by_hand(text)] != 1:
                    yield f"{name}: {text} was answered {answers[by_hand(text)]} times"
        for name, turn, results in self.asked:
            due = [by_hand(text) for before in self.turns[: turn - 1] for text in before]
            if results != due:
                yield f"{name}: for turn {turn} upstream got {results}, and {due} was due"


def _answers(log: Log) -> Counter[str]:
    """How often each was given."""
    return Counter(
        line["text"]
        for line in log.values()
        if line["kind"] == "call_decided" and line["decision"] == "answer"
    )
