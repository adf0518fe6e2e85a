"""What the simulator says in one turn, before any protocol has put it on the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.core.messages import arguments_object

BlockKind = Literal["thinking", "text", "call"]


@dataclass(frozen=True)
class ReplyBlock:
    """One piece of a turn.

    `text` is the text, the thinking, or a call's arguments as raw text (which need not be JSON).
    `piece` is the size of each delta in characters; 0 leaves it to the pace of a person reading.
    """

    kind: BlockKind
    text: str
    name: str = ""
    piece: int = 0


@dataclass(frozen=True)
class ModelReply:
    """`stop` is `stop`, `calls`, `length` or `refusal`, or a word that goes out as it stands."""

    blocks: tuple[ReplyBlock, ...]
    stop: str = "stop"

    @property
    def calls(self) -> tuple[ReplyBlock, ...]:
        return tuple(block for block in self.blocks if block.kind == "call")

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if block.kind == "text")


def call(name: str, arguments: Mapping[str, Any] | str) -> ReplyBlock:
    """A call; a mapping is written as JSON the way the providers do, a text stays as it is."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ReplyBlock("call", raw, name)


def raw_input(block: ReplyBlock) -> ReplyBlock:
    """The call of a free-form tool as its protocol says it: the text is its one argument."""
    value = (arguments_object(block.text) or {}).get("input")
    return replace(block, text=value) if isinstance(value, str) else block


def tokens(text: str) -> int:
    """A plausible number of tokens: four characters each, at least one for any text."""
    return (len(text) + 3) // 4


def shorten(reply: ModelReply, most: int | None) -> ModelReply:
    """`reply` cut where `most` tokens are used up, as a provider cuts at `max_tokens`."""
    if most is None:
        return reply
    room, blocks = most * 4, list[ReplyBlock]()
    for block in reply.blocks:
        if len(block.text) <= room:
            blocks.append(block)
            room -= len(block.text)
            continue
        blocks.append(ReplyBlock(block.kind, block.text[:room], block.name, block.piece))
        return ModelReply(tuple(blocks), "length")
    return reply
