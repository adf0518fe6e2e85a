"""Faults in what the model says: calls with broken arguments, unknown tools, odd endings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from app.core.messages import MessagePart, ModelRequest, arguments_object
from app.protocols.reply import ModelReply, ReplyBlock, call
from app.simulator.plan import Background, forced

Change = Callable[[ModelReply, ModelRequest, int], ModelReply]
"""(the reply as it would be, the request, the number in the fault's name) -> the reply instead."""


def some_call(reply: ModelReply, request: ModelRequest) -> ReplyBlock:
    """The first call of `reply`, or one made up, so that there is something to break."""
    if reply.calls:
        return reply.calls[0]
    if not request.offered:
        return call("get_weather", {"city": "Paris", "days": 3})
    prompt = "".join(p.text for m in request.messages[-1:] for p in m.parts if p.kind == "text")
    best = forced(prompt[:1_000], request.offered, Background(), date(2026, 1, 1))
    return call(best.tool.name, best.arguments)


def raw(written: Callable[[str, int], str], *, stop: str = "calls") -> Change:
    """The first call alone, its arguments rewritten; `written` gets their JSON text."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        block = some_call(reply, request)
        text = written(block.text, number)
        # What is huge comes in pieces of a size that a provider would choose for it.
        piece = 64 if len(text) > 10_000 else block.piece
        return ModelReply((replace(block, text=text, piece=piece),), stop)

    return change


def values(rewritten: Callable[[Any], Any]) -> Change:
    """The first call alone, each of its values rewritten."""

    def written(text: str, number: int) -> str:
        given = arguments_object(text) or {"city": "Paris"}
        return json.dumps({k: rewritten(v) for k, v in given.items()}, ensure_ascii=False)

    return raw(written)


def named(name: Callable[[str, int], str]) -> Change:
    """The first call alone under another name."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        block = some_call(reply, request)
        return ModelReply((replace(block, name=name(block.name, number)),), "calls")

    return change


def first_pair(text: str) -> tuple[str, Any]:
    given: Mapping[str, Any] = arguments_object(text) or {}
    return next(iter(given.items()), ("city", "Paris"))


def duplicate_keys(text: str, number: int) -> str:
    """The first key once more, with another value: which of the two will be run?"""
    name, value = first_pair(text)
    other = "something else" if isinstance(value, str) else -1
    key = json.dumps(name)
    return f"{{{key}: {json.dumps(value)}, {key}: {json.dumps(other)}}}"


def cut(text: str, number: int) -> str:
    """The first half, and always less than the whole."""
    return text[: max(1, len(text) // 2)]


def of_another_type(value: Any) -> Any:
    return 12345 if isinstance(value, str) else "not a number"


def upside_down(value: Any) -> Any:
    """A right-to-left override and a zero-width space: what is shown is not what is there."""
    return f"\u202egnp.{value}\u202c\u200b" if isinstance(value, str) else value


def with_value(value: str) -> Callable[[str, int], str]:
    """The first argument replaced by `value`, which is JSON text and may be no sound JSON."""
    return lambda text, number: f"{{{json.dumps(first_pair(text)[0])}: {value}}}"


def huge(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """One argument of `number` characters in deltas of 8."""
    block = some_call(reply, request)
    name, _ = first_pair(block.text)
    text = f'{{"{name}": "{"abcdefgh" * (number // 8)}{"x" * (number % 8)}"}}'
    return ModelReply((replace(block, text=text, piece=8),), "calls")


def deep(text: str, number: int) -> str:
    return f"{{{json.dumps(first_pair(text)[0])}: {'[' * number}{']' * number}}}"


def many_keys(text: str, number: int) -> str:
    return json.dumps({f"key{place}": place for place in range(number)})


def many_deltas(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """A long text, one character at a time."""
    text = "All work and no play makes a model a dull toy. "
    return ModelReply((ReplyBlock("text", (text * (number // len(text) + 1))[:number], piece=1),))


def big_delta(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """A text of so many MiB in one delta."""
    size = number * 1024 * 1024
    return ModelReply((ReplyBlock("text", "x" * size, piece=size),))


def pair(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """The first call twice."""
    return parallel(reply, request, 2)


def alone(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """The first call and nothing else."""
    return parallel(reply, request, 1)


def parallel(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    return ModelReply((some_call(reply, request),) * number, "calls")


def again(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """The first call of the session over and over, whatever came back."""
    made: list[MessagePart] = [p for m in request.messages for p in m.parts if p.kind == "call"]
    block = call(made[0].name, made[0].text) if made else some_call(reply, request)
    return ModelReply((ReplyBlock("text", "Let me check that once more."), block), "calls")


def saying(text: str) -> Change:
    """Only this text."""
    return lambda reply, request, number: ModelReply((ReplyBlock("text", text),))


def stopped(stop: str, *, keep_calls: bool = True) -> Change:
    """The same reply with another reason for its end."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        kept = [b for b in reply.blocks if keep_calls or b.kind != "call"]
        return ModelReply(tuple(kept), stop)

    return change


def cut_by_length(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """A turn cut by `max_tokens`: in its call where it has one, else in its text."""
    if not request.offered:
        text = reply.text
        return ModelReply((ReplyBlock("text", text[: max(1, len(text) // 2)]),), "length")
    return raw(cut, stop="length")(reply, request, number)
