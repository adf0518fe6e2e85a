"""Reads request bodies, foreign or our own, into neutral messages, answers and results.

The inverse of the encoders, with one lenient reader per protocol (`NAME/request.py`): reads as much
as possible of any JSON object and never raises. Unknown content is carried along to go back
verbatim, or a note says that it is dropped. The server ends refuse what a provider refuses in a
separate pass (`server`, `limits`), and then use these readers (`model_request`). Also compares
bodies (`request_changes`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from playground.core.events import RequestSent
from playground.core.messages import Message, MessagePart, ModelRequest, prompt_parts
from playground.core.tools import Content, Tool, ToolChoice
from playground.core.value_diff import JsonChange, TextPiece, json_changes, text_changes
from playground.protocols.provider_tools import Runner, runner_of_type
from playground.protocols.raw_json import parse_json

Body = Mapping[str, Any]
Position = tuple[str | int, ...]
"""The position of an item in the body: ("messages", 3, "content", 0)."""

_DATA = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/=]+)", re.ASCII)

_FAILURE = re.compile(r"\s*(?:error\b|\{\s*\"(?:error|is_error)\")", re.I)

SYSTEM_ROLES = ("system", "developer")

_SHOWN = ("type", "text", "source", "image_url", "inlineData", "inline_data")
"""Members of a text or image piece that are represented."""

_NOT_OURS: Mapping[Runner | None, str] = {
    "provider": "tools that the provider runs are not imported.",
    "client": "tools that the client runs without a schema of them are not imported.",
    "either": "tools without a schema are not imported.",
    None: "tools of that type are not supported here.",
}

_CHOSEN = frozenset(("", "function", "custom", "tool", "auto", "any", "required", "none"))
"""Types of choices among the request's own tools, of any server."""

MARK = "cache_control"
BlockKind = Literal["tool", "system", "message"]

KINDS: Sequence[BlockKind] = ("tool", "system", "message")

SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
MESSAGES = ("messages", "input", "contents")
_DECLARED = ("functionDeclarations", "function_declarations")


@dataclass(frozen=True)
class PromptMessage:
    """A message of the user or the system; `form` as in PromptAdded."""

    text: str
    images: tuple[Content, ...] = ()
    role: Literal["user", "system"] = "user"
    form: Mapping[str, Any] = field(default_factory=dict)
    at: Position = ()

    @property
    def is_empty(self) -> bool:
        return not (self.text.strip() or self.images or self.form)


@dataclass(frozen=True)
class AnswerMessage:
    """A turn of the model: the equivalent JSON of a whole answer of its protocol, for the codec,
    and its parts. `at` is the position of its first element, `more` are the indexes of the others
    in the same list."""

    answer: Mapping[str, Any]
    parts: tuple[MessagePart, ...] = ()
    at: Position = ()
    more: tuple[int, ...] = ()

    @property
    def places(self) -> list[int]:
        return [int(self.at[1]), *self.more]


@dataclass(frozen=True)
class ResultMessage:
    """The result of a call. `call_id` is the provider's, or "" if it has none: then it belongs to
    the first open call named `name`. `form` as in ToolResult."""

    call_id: str
    name: str
    content: tuple[Content, ...]
    is_error: bool = False
    form: Mapping[str, Any] = field(default_factory=dict)
    at: Position = ()


RequestItem = PromptMessage | AnswerMessage | ResultMessage


def is_empty(item: RequestItem) -> bool:
    """Whether it is an empty prompt."""
    return isinstance(item, PromptMessage) and item.is_empty


@dataclass(frozen=True)
class RequestSetup:
    """The settings of a request. `tools` are in the protocol's own form; `extra` are unknown
    members, to be sent along unchanged."""

    model: str = ""
    system: str = ""
    tools: Sequence[Any] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    params: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False


def image_of(url: object) -> Content | None:
    """The image of a data: URL, None if it is none; fetches nothing."""
    match = _DATA.fullmatch(url) if isinstance(url, str) else None
    return Content("image", media_type=match[1], data=match[2]) if match is not None else None


def text_of(value: object) -> str:
    """The text of a string, or of the text pieces in a list."""
    match value:
        case str():
            return value
        case list():
            pieces = (entry.get("text") for entry in value if isinstance(entry, dict))
            return "\n\n".join(piece for piece in pieces if isinstance(piece, str))
    return ""


@dataclass
class RequestNotes:
    """Notes, without repetition, on what could not be read of a body of `protocol`, and readers
    shared by all protocols."""

    protocol: str
    sentences: dict[str, None] = field(default_factory=dict)

    def add(self, sentence: str) -> None:
        self.sentences[sentence] = None

    def _piece(self, body: Body) -> Content | None:
        """Text or an image in any protocol's form; None, with a note, for anything else."""
        if isinstance(body.get("text"), str):
            return Content(text=body["text"])
        source, url = body.get("source"), body.get("image_url")
        if isinstance(source, dict) and source.get("type") == "base64":
            url = f"data:{source.get('media_type')};base64,{source.get('data') or ''}"
        elif isinstance(url, dict):
            url = url.get("url")
        elif isinstance(data := body.get("inlineData", body.get("inline_data")), dict):
            media_type = data.get("mimeType", data.get("mime_type"))
            url = f"data:{media_type};base64,{data.get('data') or ''}"
        image = image_of(url)
        if image is None:
            kind = str(body.get("type") or next(iter(body), "empty"))[:40]
            self.add(
                f"Content of the kind {kind} is not shown, because only text and complete images "
                f"are supported. It is kept unchanged and sent back only to {self.protocol}."
            )
        return image

    def messages(
        self, value: object, at: Position, word: str = "user", own: Body | None = None
    ) -> Iterator[PromptMessage]:
        """The message with the content `value`, if any. `form` preserves the wire form if more than
        the texts would be lost; `own` are further members of the message."""
        texts, images, pieces = list[str](), list[Content](), list[dict[str, Any]]()
        for body in dicts([{"text": value}] if isinstance(value, str) else value):
            piece = self._piece(body)
            if piece is None:
                pieces.append({"other": dict(body)})
                continue
            beside = _other_members(body)
            if piece.type == "image":
                images.append(piece)
                pieces.append({"image": True, **beside})
            elif piece.text.strip():
                texts.append(piece.text)
                pieces.append({"chars": len(piece.text), **beside})
        role: Literal["user", "system"] = "system" if word in SYSTEM_ROLES else "user"
        form: dict[str, Any] = {"protocol": self.protocol}
        if word not in ("user", "system"):
            form["role"] = word
        if len(texts) > 1 or any(piece.keys() != {"chars"} for piece in pieces):
            form["pieces"] = pieces
        if own:
            form["own"] = dict(own)
        if pieces or own:
            form = form if len(form) > 1 else {}
            yield PromptMessage("\n\n".join(texts), tuple(images), role, form, at)

    def result(self, value: object, **own: Any) -> tuple[tuple[Content, ...], Any]:
        """(the content of a result, its form)."""
        content, pieces = list[Content](), list[dict[str, Any]]()
        for body in dicts([{"text": value}] if isinstance(value, str) else value):
            piece = self._piece(body)
            if piece is None:
                pieces.append({"other": dict(body)})
            elif piece.type == "image" or piece.text:
                content.append(piece)
                pieces.append(_other_members(body))
        form: dict[str, Any] = {"own": own} if own else {}
        if any(pieces):
            form["pieces"] = pieces
        return tuple(content), {"protocol": self.protocol, **form} if form else {}


@dataclass(frozen=True)
class RequestReader:
    """A protocol's reader of request bodies: settings and messages."""

    setup: Callable[[Body, RequestNotes], RequestSetup]
    items: Callable[[Body, RequestNotes], Iterator[RequestItem]]


def model_request(
    reader: RequestReader,
    body: Body,
    tools: tuple[Tool, ...],
    params: Mapping[str, Any],
    *,
    failures_in_text: bool = False,
) -> ModelRequest:
    """The request of a checked body, for a model. If the protocol has no field for a failed result,
    clients say so in the text (`failures_in_text`)."""
    notes = RequestNotes("")
    setup, history = reader.setup(body, notes), _Conversation(failures_in_text)
    for item in reader.items(body, notes):
        history.add(item)
    return ModelRequest(
        model=setup.model,
        system="\n".join(filter(None, (setup.system, *history.system))),
        messages=tuple(history.messages) or (Message("user", prompt_parts("", (), {})),),
        tools=tools,
        choice=setup.choice,
        params=params,
        stream=setup.stream,
    )


@dataclass
class _Conversation:
    """The messages added so far. `open_calls` have no result yet; `given_ids` are made-up ids of
    calls that came without one."""

    failures_in_text: bool
    messages: list[Message] = field(default_factory=list)
    system: list[str] = field(default_factory=list)
    open_calls: list[MessagePart] = field(default_factory=list)
    given_ids: set[str] = field(default_factory=set)

    def add(self, item: RequestItem) -> None:
        match item:
            case PromptMessage(role="system"):
                self.system.append(item.text)
            case PromptMessage():
                self.open_calls.clear()
                parts = prompt_parts(item.text, item.images, item.form)
                self.messages.append(Message("user", parts))
            case AnswerMessage():
                # Some clients send each call of a turn, or each event of a stream, as a message.
                turn: tuple[MessagePart, ...] = ()
                if self.messages and self.messages[-1].role == "assistant":
                    turn = self.messages.pop().parts
                parts = tuple(self._with_ids(item.parts, _call_count(turn)))
                self.messages.append(Message("assistant", (*turn, *parts)))
                self.open_calls += [part for part in parts if part.kind == "call"]
            case ResultMessage():
                result, last = self._result(item), self.messages[-1:]
                if last and last[0].role == "results":
                    self.messages[-1] = Message("results", (*last[0].parts, result))
                else:
                    self.messages.append(Message("results", (result,)))

    def _with_ids(self, parts: Sequence[MessagePart], calls: int) -> Iterator[MessagePart]:
        """The parts, their calls with ids; `calls` precede them in their turn."""
        for part in parts:
            if part.kind == "call":
                if not part.call_id:
                    part = replace(part, call_id=f"{len(self.messages)}.{calls}")
                    self.given_ids.add(part.call_id)
                calls += 1
            yield part

    def _result(self, item: ResultMessage) -> MessagePart:
        call = self._answered_call(item)
        if call is not None:
            self.open_calls.remove(call)
        texts = (piece.text for piece in item.content if piece.type == "text")
        failed = self.failures_in_text and bool(_FAILURE.match(next(texts, "")))
        return MessagePart(
            "result",
            name=call.name if call is not None else item.name,
            call_id=call.call_id if call is not None else item.call_id,
            content=(*item.content, *_images_by_address(item.form)),
            is_error=item.is_error or failed,
        )

    def _answered_call(self, item: ResultMessage) -> MessagePart | None:
        """The open call with the result's id, else with its name, else the first one, if the result
        has no name and no id other than one made up by its client."""
        for call in self.open_calls:
            if item.call_id and call.call_id == item.call_id:
                return call
        for call in self.open_calls:
            unknown = not item.call_id or call.call_id in self.given_ids
            if call.name == item.name or (not item.name and unknown):
                return call
        return None


def _call_count(parts: Sequence[MessagePart]) -> int:
    return sum(part.kind == "call" for part in parts)


def _images_by_address(form: Mapping[str, Any]) -> Iterator[Content]:
    """The images of a result that are given by URL."""
    for piece in form.get("pieces", ()):
        if piece.get("other", {}).get("type") in ("image", "image_url", "input_image"):
            yield Content("image")


def _other_members(body: Body) -> dict[str, Any]:
    """The further members of a text or an image, as `own`."""
    own = rest_of(body, *_SHOWN)
    if isinstance(url := body.get("image_url"), dict) and (inner := rest_of(url, "url")):
        own["image_url"] = inner
    return {"own": own} if own else {}


def leading_system_messages(messages: object) -> int:
    """How many leading messages are system messages with text only: they are the system prompt.
    Later system messages stay in place."""
    count = 0
    for body in dicts(messages):
        pieces = dicts(body.get("content"))
        beside = set(body) - {"type", "id", "status", "role", "content"}
        if body.get("role") not in SYSTEM_ROLES or beside:
            break
        if any(set(it) - {"type", "text"} for it in pieces):
            break
        count += 1
    return count


def leading_system_text(messages: object) -> str:
    """The system prompt of a list of messages."""
    leading = dicts(messages)[: leading_system_messages(messages)]
    return "\n\n".join(text_of(message.get("content")) for message in leading)


def dicts(value: object) -> list[Body]:
    """The objects of a list; empty for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def member(body: Body, name: str) -> Body:
    """The object that is a member of `body`; an empty one if it is none."""
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def indexed_dicts(value: object) -> Iterator[tuple[int, Body]]:
    """The objects of a list, each with its index."""
    entries = enumerate(value) if isinstance(value, list) else ()
    return ((place, entry) for place, entry in entries if isinstance(entry, dict))


def rest_of(body: Body, *known: str) -> dict[str, Any]:
    """The members of `body` except `known` ones."""
    return {name: value for name, value in body.items() if name not in known}


def params_of(body: Body, **words: str) -> dict[str, Any]:
    """The neutral parameters, by the protocol's names."""
    return {ours: body[own] for ours, own in words.items() if body.get(own) is not None}


def call_part(call_id: str, name: object, arguments: object) -> MessagePart:
    """A tool call. Arguments that are not strings are written as JSON."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False, separators=(",", ":"))
    return MessagePart("call", arguments, str(name or ""), call_id)


def openai_choice(body: Body, notes: RequestNotes) -> ToolChoice:
    """The tool choice as both of OpenAI's protocols write it."""
    parallel, choice = body.get("parallel_tool_calls") is not False, body.get("tool_choice")
    match choice:
        case None | "auto":
            return ToolChoice(parallel=parallel)
        case "required" | "any":
            return ToolChoice("required", parallel=parallel)
        case "none":
            return ToolChoice("none", parallel=parallel)
        case {"type": "allowed_tools"}:
            inner = member(choice, "allowed_tools") or choice
            allowed = dicts(inner.get("tools"))
            for kind in filter(None, map(_hosted_kind, allowed)):
                notes.add(
                    f"Allowed tools of the type {kind!r} were left out: {_why_not_ours(kind)}"
                )
            ours = (_name(body) for body in allowed if not _hosted_kind(body))
            names = tuple(filter(None, ours))
            if inner.get("mode") == "required":
                return ToolChoice("required", allowed=names, parallel=parallel)
            return ToolChoice(allowed=names, parallel=parallel)
        case dict() if kind := _hosted_kind(choice):
            reason = _why_not_ours(kind)
            notes.add(
                f"A tool choice of the type {kind!r} was left out, so it is auto here: {reason}"
            )
            return ToolChoice(parallel=parallel)
        case dict() if name := _name(choice):
            return ToolChoice("tool", name, parallel=parallel)
    notes.add("The tool choice is unknown, so it is auto here.")
    return ToolChoice(parallel=parallel)


def _why_not_ours(kind: str) -> str:
    return _NOT_OURS[runner_of_type(kind)]


def _hosted_kind(choice: Body) -> str:
    """The type of a choice of a tool that the provider defines (mcp, shell), else "". It may have a
    name, too: that of a tool of the MCP server."""
    kind = str(choice.get("type") or "")[:40]
    return "" if kind in _CHOSEN else kind


def _name(choice: Body) -> str:
    """The name in a choice, at the top or one level deeper."""
    inner = choice.get(str(choice.get("type")))
    name = inner.get("name") if isinstance(inner, dict) else choice.get("name")
    return name if isinstance(name, str) else ""


# Differences of a request from the previous one, block by block, in the order of providers' prompt
# caches: tools, system prompt, messages.
# https://platform.claude.com/docs/en/build-with-claude/prompt-caching


@dataclass(frozen=True)
class RequestBlock:
    """`number` counts blocks of its kind from 1; `name` is a tool's name, or a message's role.
    `text` is its JSON without a cache mark; `marked`: it has one."""

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
    """The first different block: `old` or `new` is None if only the other request has it. `pieces`
    is the change of its text, empty if there is only one text."""

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
        """`moved`: another tool is at its position, and both requests have both."""
        if self.old is None or self.new is None:
            return "added" if self.old is None else "removed"
        moved = self.new.kind == "tool" and self.old.name != self.new.name
        return "moved" if moved else "changed"


@dataclass(frozen=True)
class RequestChanges:
    """`first` is None if no earlier block changed: messages were only added. `came`, `went` and
    `altered` are names of tools. `messages` are counts (before, now), of which the first `same` are
    equal; `marks` the labels of the blocks with a cache mark (before, now); `settings` all other
    differences."""

    first: FirstDifference | None
    came: Sequence[str]
    went: Sequence[str]
    altered: Sequence[str]
    messages: tuple[int, int]
    same: int
    marks: tuple[Sequence[str], Sequence[str]]
    settings: Sequence[JsonChange]


def request_changes(before: RequestSent, now: RequestSent) -> RequestChanges | None:
    """The differences of `now` from `before`. None if a body is not a JSON object, or if their
    protocols differ."""
    old, new = _body(before), _body(now)
    if old is None or new is None or before.protocol != now.protocol:
        return None
    was, has = (list(_blocks(body)) for body in (old, new))
    tools = [{b.name: b.text for b in blocks if b.kind == "tool"} for blocks in (was, has)]
    first, same = None, 0
    for kind in KINDS:
        old_blocks, new_blocks = ([b for b in blocks if b.kind == kind] for blocks in (was, has))
        same = _common_prefix(old_blocks, new_blocks)
        grew = kind == "message" and same == len(old_blocks)
        if first is None and not grew and max(len(old_blocks), len(new_blocks)) > same:
            first = _difference(old_blocks[same:], new_blocks[same:])
    return RequestChanges(
        first,
        came=[name for name in tools[1] if name not in tools[0]],
        went=[name for name in tools[0] if name not in tools[1]],
        altered=[name for name, text in tools[1].items() if tools[0].get(name, text) != text],
        messages=(_count(was), _count(has)),
        same=same,
        marks=(_marks(was), _marks(has)),
        settings=json_changes(_settings(old, before), _settings(new, now)) or (),
    )


def tool_names(body: Mapping[str, Any]) -> list[str]:
    """The names of the tools in a request's body; for the provider's own tools, their types."""
    return [block.name for block in _blocks({"tools": body.get("tools")})]


def _body(sent: RequestSent) -> Mapping[str, Any] | None:
    try:
        value = parse_json(sent.body)
    except ValueError:
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
    for number, piece in enumerate(_as_list(system), 1):
        yield _block("system", number, "", piece)
    listed = next((body[name] for name in MESSAGES if body.get(name)), None)
    for number, message in enumerate(_as_list(listed), 1):
        role = ""
        if isinstance(message, dict):
            role = str(message.get("role") or message.get("type") or "")
        yield _block("message", number, role, message)


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _tool_name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    named = function if isinstance(function, dict) else tool
    return str(named.get("name") or tool.get("type") or next(iter(tool), ""))


def _block(kind: BlockKind, number: int, name: str, value: Any) -> RequestBlock:
    text = _json_text(value)
    if MARK not in text:
        return RequestBlock(kind, number, name, text)
    plain = _json_text(_without_marks(value))
    return RequestBlock(kind, number, name, plain, plain != text)


def _without_marks(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_marks(item) for name, item in value.items() if name != MARK}
        case list():
            return [_without_marks(item) for item in value]
    return value


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _common_prefix(old: Sequence[RequestBlock], new: Sequence[RequestBlock]) -> int:
    """The number of equal blocks at the beginning."""
    count = 0
    for before, now in zip(old, new, strict=False):
        if before.text != now.text:
            break
        count += 1
    return count


def _difference(old: Sequence[RequestBlock], new: Sequence[RequestBlock]) -> FirstDifference:
    """The first different blocks of two lists; for tools an added or removed one alone."""
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
    """The plain text of a block, or ""."""
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
    """All members except the blocks; the model may be in the path."""
    known = ("tools", *SYSTEM, *MESSAGES)
    rest = {name: value for name, value in body.items() if name not in known}
    return _json_text({"model": sent.model, **rest})
