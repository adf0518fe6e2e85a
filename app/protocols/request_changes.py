"""What a request says otherwise than the one before it, block by block, in the order in which
providers keep a prompt in their caches: tools, system prompt, messages. Pure.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.core.events import RequestSent
from app.core.value_diff import JsonChange, TextPiece, json_changes, text_changes
from app.protocols.body_edits import MARK
from app.protocols.raw_json import parse_json
from app.protocols.request import dicts

BlockKind = Literal["tool", "system", "message"]

KINDS: Sequence[BlockKind] = ("tool", "system", "message")

SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
MESSAGES = ("messages", "input", "contents")
_DECLARED = ("functionDeclarations", "function_declarations")


@dataclass(frozen=True)
class RequestBlock:
    """`number` counts those of its kind from 1; `name` is that of a tool, or the role of a message.
    `text` is its JSON without a mark of the cache, `marked` whether it bears one."""

    kind: BlockKind
    number: int
    name: str
    text: str
    marked: bool = False

    @property
    def label(self) -> str:
        """`tool Bash`, `system 2`, `message 84 (user)`."""
        if self.kind == "tool":
            return f"tool {self.name}" if self.name else f"tool {self.number}"
        role = f" ({self.name})" if self.name else ""
        return f"{self.kind} {self.number}{role}"


@dataclass(frozen=True)
class FirstDifference:
    """The first block that differs: `old` or `new` is None where only the other request has it.
    `pieces` say how its text changed, none where there is only one text."""

    old: RequestBlock | None
    new: RequestBlock | None
    pieces: Sequence[TextPiece] = ()

    @property
    def block(self) -> RequestBlock:
        block = self.new or self.old
        assert block is not None
        return block

    @property
    def how(self) -> Literal["changed", "added", "removed", "moved"]:
        """`moved`: a tool stands where another one stood, and both requests have both."""
        if self.old is None or self.new is None:
            return "added" if self.old is None else "removed"
        moved = self.new.kind == "tool" and self.old.name != self.new.name
        return "moved" if moved else "changed"


@dataclass(frozen=True)
class RequestChanges:
    """`first` is None where no block of the one before changed: then messages were only added.
    `came`, `went` and `altered` are names of tools. `messages` are (before, now), of which the
    first `same` are equal; `marks` the labels of the blocks with a mark of the cache (before,
    now); `settings` all else that differs."""

    first: FirstDifference | None
    came: Sequence[str]
    went: Sequence[str]
    altered: Sequence[str]
    messages: tuple[int, int]
    same: int
    marks: tuple[Sequence[str], Sequence[str]]
    settings: Sequence[JsonChange]


def request_changes(before: RequestSent, now: RequestSent) -> RequestChanges | None:
    """How `now` differs from `before`. None where the body of one is no JSON object, or where they
    are of two protocols."""
    old, new = _body(before), _body(now)
    if old is None or new is None or before.protocol != now.protocol:
        return None
    was, has = (list(_blocks(body)) for body in (old, new))
    tools = [{b.name: b.text for b in blocks if b.kind == "tool"} for blocks in (was, has)]
    first, same = None, 0
    for kind in KINDS:
        old_blocks, new_blocks = ([b for b in blocks if b.kind == kind] for blocks in (was, has))
        same = _common(old_blocks, new_blocks)
        grew = kind == "message" and same == len(old_blocks)
        if first is None and not grew and max(len(old_blocks), len(new_blocks)) > same:
            first = _difference(old_blocks[same:], new_blocks[same:])
    return RequestChanges(
        first,
        [name for name in tools[1] if name not in tools[0]],
        [name for name in tools[0] if name not in tools[1]],
        [name for name, text in tools[1].items() if tools[0].get(name, text) != text],
        (_count(was), _count(has)),
        same,
        (_marks(was), _marks(has)),
        json_changes(_settings(old, before), _settings(new, now)) or (),
    )


def tool_names(body: Mapping[str, Any]) -> list[str]:
    """What the tools of a request's body are called, those of the provider by their types."""
    return [block.name for block in _blocks({"tools": body.get("tools")})]


def _body(sent: RequestSent) -> Mapping[str, Any] | None:
    try:
        value = parse_json(sent.body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _blocks(body: Mapping[str, Any]) -> Iterator[RequestBlock]:
    declared = (
        piece
        for tool in dicts(body.get("tools"))
        for piece in next((dicts(tool[name]) for name in _DECLARED if name in tool), [tool])
    )
    for number, tool in enumerate(declared, 1):
        yield _block("tool", number, _tool_name(tool), tool)
    system = next((body[name] for name in SYSTEM if body.get(name)), None)
    if isinstance(system, dict):
        system = system.get("parts")
    for number, piece in enumerate(_listed(system), 1):
        yield _block("system", number, "", piece)
    listed = next((body[name] for name in MESSAGES if body.get(name)), None)
    for number, message in enumerate(_listed(listed), 1):
        role = ""
        if isinstance(message, dict):
            role = str(message.get("role") or message.get("type") or "")
        yield _block("message", number, role, message)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _tool_name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    named = function if isinstance(function, dict) else tool
    return str(named.get("name") or tool.get("type") or next(iter(tool), ""))


def _block(kind: BlockKind, number: int, name: str, value: Any) -> RequestBlock:
    text = _written(value)
    if MARK not in text:
        return RequestBlock(kind, number, name, text)
    plain = _written(_without_marks(value))
    return RequestBlock(kind, number, name, plain, plain != text)


def _without_marks(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_marks(item) for name, item in value.items() if name != MARK}
        case list():
            return [_without_marks(item) for item in value]
    return value


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _common(old: Sequence[RequestBlock], new: Sequence[RequestBlock]) -> int:
    """How many at the beginning are the same."""
    count = 0
    for before, now in zip(old, new, strict=False):
        if before.text != now.text:
            break
        count += 1
    return count


def _difference(old: Sequence[RequestBlock], new: Sequence[RequestBlock]) -> FirstDifference:
    """The first blocks of what is left of two lists; of tools one that came, or went, alone."""
    before, now = next(iter(old), None), next(iter(new), None)
    if before is None or now is None:
        return FirstDifference(before, now)
    if before.kind == "tool" and before.name != now.name:
        went = before.name not in {block.name for block in new}
        came = now.name not in {block.name for block in old}
        return FirstDifference(None if came and not went else before, None if went else now)
    texts = _plain_text(before.text), _plain_text(now.text)
    if texts[0] == texts[1]:
        texts = before.text, now.text
    return FirstDifference(before, now, text_changes(*texts))


def _plain_text(text: str) -> str:
    """What a block says in plain words, "" where it says none."""
    return "\n\n".join(_texts(json.loads(text)))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for name in ("text", "content", "parts", "description"):
                if name in value:
                    yield from _texts(value[name])


def _count(blocks: Sequence[RequestBlock]) -> int:
    return sum(block.kind == "message" for block in blocks)


def _marks(blocks: Sequence[RequestBlock]) -> Sequence[str]:
    return [block.label for block in blocks if block.marked]


def _settings(body: Mapping[str, Any], sent: RequestSent) -> str:
    """All members but the blocks; the model is in the path of some."""
    known = ("tools", *SYSTEM, *MESSAGES)
    rest = {name: value for name, value in body.items() if name not in known}
    return _written({"model": sent.model, **rest})
