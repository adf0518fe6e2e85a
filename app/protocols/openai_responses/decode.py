"""Decodes OpenAI Responses (and its dialects), streamed or whole, into events.

Handles events, statuses and errors; `Items` follows each output item. Spec:
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from app.core.events import EndReason, PartKind, Usage
from app.protocols.base import (
    Codec,
    ModelInfo,
    ProviderError,
    error_sentence,
    model_entries,
    read_error,
)
from app.protocols.decoder import FAILED_REASONS, PROSE, BodyDecoder, EventBuilder, OpenPart, Took
from app.protocols.openai_responses.request import QUIRKS, encode
from app.protocols.raw_json import Quoted, alike, end_of, joined

_INCOMPLETE: Mapping[str, EndReason] = {
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "steered": "other",
}
"""Known reasons of an incomplete response; an unknown or missing one means a cut as well."""
_UNFINISHED = ("queued", "in_progress")
"""Statuses of an answer that the provider makes in the background, and that is fetched later."""
"""Statuses of a response that is not, or no longer, an answer."""

_DELTAS: Mapping[str, tuple[str, PartKind, str, str]] = {
    "response.output_text.delta": ("message", "text", "content", "content_index"),
    "response.refusal.delta": ("message", "refusal", "content", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "thinking", "summary", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "thinking", "content", "content_index"),
    "response.function_call_arguments.delta": ("function_call", "call", "arguments", ""),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "call", "arguments", ""),
    "response.mcp_call_arguments.delta": ("mcp_call", "server_call", "block", ""),
    "response.code_interpreter_call_code.delta": (
        "code_interpreter_call",
        "server_call",
        "block",
        "",
    ),
}
"""Event -> the type of its item, the kind of its part, and its place in the item: the member, and
the name of its index."""
_OPENED: Mapping[str, tuple[str, str]] = {
    "response.content_part.added": ("content", "content_index"),
    "response.reasoning_summary_part.added": ("summary", "summary_index"),
    "response.reasoning_part.added": ("content", "content_index"),
}
_TELLS: Mapping[str, str] = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}
ENDS: Mapping[str, str] = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Event -> the status it stands for."""
_MIDDLE = ("response.output_item.", "response.content_part.", "response.output_text.")
"""Events that cannot begin a stream."""
_QUIET = frozenset(
    {"response.created", "response.in_progress", "response.queued", "keepalive", "ping"}
    | {"response.content_part.done", "response.output_text.done", "response.refusal.done"}
    | {"response.reasoning_summary_part.done", "response.reasoning_summary_text.done"}
    | {"response.reasoning_text.done", "response.reasoning_part.done"}
    | {"response.mcp_call_arguments.done", "response.code_interpreter_call_code.done"}
    | {"response.output_text.annotation.added"}
)
"""Events whose content `output_item.done` repeats."""
_QUIET_STARTS = (
    *("response.web_search_call.", "response.file_search_call.", "response.mcp_call."),
    *("response.code_interpreter_call.", "response.image_generation_call."),
    *("response.mcp_list_tools.", "response.shell_call_", "response.compaction."),
    *("response.audio.", "response.steer."),
)


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = EventBuilder()
    return BodyDecoder(status, answer, _Reader(answer))


class _Reader:
    api = "OpenAI Responses API"
    marked = True

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._items = Items(answer)
        self._meta: dict[str, Any] = {}
        self._opened = False
        self._error: ProviderError | None = (
            None  # an error event, which `response.failed` repeats in full
        )

    def read(self, value: Mapping[str, Any], text: str, event: str) -> Took:
        type_ = value.get("type") or event
        if self._error is not None and type_ != "response.failed":
            self.settle(whole=False)
            self._answer.warn("after_end", "Something came after the end of the answer.")
            return "known"
        if isinstance(type_, str) and not self._opened:
            self._opened = type_ == "response.created" or type_ in ENDS
            if type_.startswith(_MIDDLE):
                self._answer.warn_no_opening("response.created")
        match type_:
            case "error":
                self._error = read_error(value, "error")
                return "held"
            case "response.output_item.added" | "response.output_item.done":
                self._item(str(type_), value, text)
            case str() if type_ in _DELTAS:
                self._delta(_DELTAS[type_], value)
            case str() if type_ in _TELLS:
                self._items.tell(_index(value), value.get(_TELLS[type_]))
            case str() if type_ in _OPENED:
                self._open(_OPENED[type_], value)
            case str() if type_ in ENDS:
                return self._end(_mapping(value.get("response")), ENDS[type_], text, "response")
            case str() if type_ in _QUIET or type_.startswith(_QUIET_STARTS):
                self._name(_mapping(value.get("response")))
            case _ if value.get("object") == "response":
                return self._end(value, "", text)
            case _:
                return "unknown"
        return "known"

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        answer = self._answer
        if answer.raw_reason == "incomplete":
            details = _mapping(self._meta.get("incomplete_details"))
            return _INCOMPLETE.get(_text(details.get("reason")), "length"), self._meta
        if answer.raw_reason not in ("completed", "complete"):
            return "other", self._meta
        is_refusal = answer.has("refusal") and not answer.has("call")
        return "refusal" if is_refusal else "stop", self._meta

    def settle(self, whole: bool) -> None:
        raw = self._answer.raw_reason
        self._items.settle(whole and raw in ("completed", "complete"))
        if self._error is not None:
            problem, self._error = self._error, None
            self._answer.fail("error", error_sentence(problem.words), error=problem.error)

    # Events.

    def _item(self, type_: str, value: Mapping[str, Any], text: str) -> None:
        item = value.get("item")
        if not isinstance(item, dict):
            self._answer.warn("not_an_object", "An item that is no object was left out.")
        elif type_.endswith("added"):
            self._items.add(_index(value), item, (Quoted(text), "item"))
        else:
            self._items.done(_index(value), item, (Quoted(text), "item"))

    def _delta(self, target: tuple[str, PartKind, str, str], value: Mapping[str, Any]) -> None:
        item, kind, member, number = target
        slot = (member, _count(value.get(number)) or 0)
        self._items.delta(_index(value), item, slot, kind, _text(value.get("delta")))
        self._answer.tokens(value.get("logprobs"))

    def _open(self, target: tuple[str, str], value: Mapping[str, Any]) -> None:
        member, number = target
        match _mapping(value.get("part")).get("type"):
            case "output_text" | "text":
                kind: PartKind = "text"
            case "refusal":
                kind = "refusal"
            case "summary_text" | "reasoning_text":
                kind = "thinking"
            case _:
                return
        self._items.open(_index(value), (member, _count(value.get(number)) or 0), kind)

    def _end(self, response: Mapping[str, Any], status: str, text: str, *path: str | int) -> Took:
        """The response in its end event, or a whole body."""
        self._name(response)
        self._answer.raw_reason = status = _text(response.get("status")) or status
        for key in ("incomplete_details", "service_tier"):
            if response.get(key) is not None:
                self._meta[key] = response[key]
        self._count(response.get("usage"))
        self._items.unfinished = status in _UNFINISHED
        output = response.get("output")
        if isinstance(output, list):
            where: Where = (Quoted(text), *path)
            self._items.final(output, (*where, "output"))
        if response.get("error") or status in FAILED_REASONS:
            self._fail(response, status)
            return "known"
        if self._items.unfinished:
            id_ = self._meta.get("id") or "which is missing"
            self._answer.warn(
                "background",
                f"The provider makes this answer in the background, and its status is {status}: "
                f"it is not whole yet. Its client asks for it later by its id, {id_}.",
            )
        return "last"

    def _fail(self, response: Mapping[str, Any], status: str) -> None:
        error = response.get("error")
        problem = read_error({"error": error}) if error else None
        if problem is None:
            words = f"the response has the status {status}"
            problem = self._error or ProviderError({"status": status, "message": words}, words)
        self._error = problem
        self.settle(whole=False)

    def _name(self, response: Mapping[str, Any]) -> None:
        for key in ("id", "model"):
            if isinstance(response.get(key), str) and response[key]:
                self._meta[key] = response[key]

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, Mapping) or not usage:
            return
        details = _mapping(usage.get("input_tokens_details"))
        wrote = _mapping(usage.get("output_tokens_details"))
        self._answer.usage = Usage(
            _count(usage.get("input_tokens")),
            _count(usage.get("output_tokens")),
            dict(usage),
            cached_tokens=_count(details.get("cached_tokens")),
            cache_write_tokens=_count(details.get("cache_write_tokens")),
            reasoning_tokens=_count(wrote.get("reasoning_tokens")),
        )


def _index(value: Mapping[str, Any]) -> int | None:
    index = _count(value.get("output_index"))
    return index if index is None or index >= 0 else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def label(frame: Mapping[str, Any]) -> str:
    """The frame in the protocol's own terms: `response.output_item.added function_call`."""
    item, error = _mapping(frame.get("item")), _mapping(frame.get("error"))
    words = [_text(frame.get("type")) or _text(frame.get("object"))]
    words += [_text(item.get("type")), _text(item.get("name"))]
    words.append(_text(error.get("code")) or _text(error.get("type")))
    if words[0] == "response":
        words.append(_text(frame.get("status")))
    return " ".join(word for word in words if word)


def key_header(key: str, quirks: Sequence[str]) -> Mapping[str, str]:
    if "api_key_header" in quirks:
        return {"api-key": key}
    return {"authorization": f"Bearer {key}"}


def models(value: Any) -> tuple[ModelInfo, ...]:
    """Parses GET /models. Spec: https://platform.openai.com/docs/api-reference/models/list"""
    return tuple(ModelInfo(_text(entry.get("id"))) for entry in model_entries(value, "data"))


# The growing items of one answer of OpenAI Responses, and their parts. An item is identified by its
# `output_index`, because ids may change between events (GitHub Copilot). `output_item.done` is
# authoritative; deltas may be missing, single, or different. Handles no events, statuses or ends:
# see above.


CALLS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""Item type -> the member with the text that the model wrote."""
_SERVER_TEXT: Mapping[str, str] = {"mcp_call": "arguments", "code_interpreter_call": "code"}
_CONTENT: Mapping[str, tuple[PartKind, str]] = {
    "output_text": ("text", "text"),
    "text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
}
"""Type of a message's piece -> the kind of its part, and its member with the text."""
_SERVER = frozenset({"mcp_list_tools", "mcp_approval_request", "program"})
_UNDONE = frozenset({"incomplete", "failed", "cancelled"})
"""The statuses of an item that is incomplete."""
_OTHER = frozenset({"compaction", "additional_tools", "configuration_update"})

Where = tuple[Quoted, *tuple[str | int, ...]]
"""The JSON text of an event, and the path of an item in it."""
Slot = tuple[str, int]
"""The place of a part in its item: the member and the index."""


def part_kind(type_: str) -> PartKind:
    """The kind of part for an item of this type; a message has parts of two kinds."""
    match type_:
        case "message":
            return "text"
        case "reasoning":
            return "thinking"
        case _ if type_ in CALLS:
            return "call"
        case _ if type_.endswith("_call") or type_ in _SERVER:
            return "server_call"
        case _ if type_.endswith("_output"):
            return "server_result"
        case _:
            return "other"


class Item:
    """An open item. `parts` are its parts by place, in order of appearance."""

    __slots__ = ("call_id", "done", "first", "kind", "parts", "said", "spare", "told", "type")

    def __init__(self, type_: str, call_id: str) -> None:
        self.type = type_
        self.kind = part_kind(type_)
        self.call_id = call_id
        self.parts: dict[Slot, OpenPart] = {}
        self.spare: OpenPart | None = None  # a thinking part started before its text
        self.first = ""  # the announced arguments of a call: used if none follow
        self.said = ""  # the arguments of a completed call
        self.told = False  # whether an event had all arguments
        self.done = False


class Items:
    """All items of one answer, writing to `answer`."""

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._at: dict[int, Item] = {}
        self._order: list[Item] = []
        self.unfinished = False
        """Whether the provider still works on the answer: no item of it is complete."""

    def add(self, index: int | None, item: Mapping[str, Any], where: Where) -> Item:
        """Adds an announced item."""
        left = self._at.get(self._last() if index is None else index)
        if left is not None and self._again(left, item, where):
            self._locate(left, where)
            return left
        if left is not None and not left.done:
            self._answer.warn("started_twice", f"Item {index} started twice.")
            self._stop(left, complete=False)
        return self._start(len(self._order) if index is None else index, item, where)

    def _start(self, index: int, item: Mapping[str, Any], where: Where) -> Item:
        state = Item(_text(item.get("type")), _text(item.get("call_id")))
        self._at[index] = state
        self._order.append(state)
        match state.kind:
            case "call":
                part = self._answer.start("call", _text(item.get("name")), state.call_id)
                state.parts["arguments", 0] = part
                self._locate(state, where)
                self._keep(part, state, item, where)
                state.first, _ = _text_of_call(item, CALLS[state.type], where)
            case "thinking":
                state.spare = self._answer.start("thinking")
            case "server_call" | "server_result" | "other":
                id_ = _text(item.get("id")) or state.call_id
                part = self._answer.start(state.kind, _text(item.get("name")), id_)
                part.meta["block"] = dict(item)
                state.parts["block", 0] = part
            case _:
                pass
        return state

    def delta(self, index: int | None, type_: str, slot: Slot, kind: PartKind, text: str) -> None:
        """A piece of an item, whose type the event implies."""
        item = self._at.get(self._last() if index is None else index)
        if item is None:
            self._answer.warn("no_start", f"Item {index} was never started.")
            item = self._start(len(self._order) if index is None else index, {"type": type_}, _NOT)
        self._locate(item)
        if item.done or item.type != type_:
            self._answer.warn("no_item", f"A piece of {type_} for item {index} was left out.")
            return
        if item.told:
            item.told = False
            self._answer.warn("late_arguments", f"Item {index} went on after its arguments.")
        self._answer.delta(self._part(item, slot, kind), text)

    def open(self, index: int | None, slot: Slot, kind: PartKind) -> None:
        """Adds an announced piece of a message or of reasoning."""
        item = self._at.get(self._last() if index is None else index)
        if item is not None and not item.done and item.kind in ("text", "thinking"):
            self._part(item, slot, kind)

    def tell(self, index: int | None, text: Any) -> None:
        """The whole arguments of a call, before the item is done."""
        item = self._at.get(self._last() if index is None else index)
        if item is not None:
            self._locate(item)
        if item is None or item.done or item.kind != "call" or not isinstance(text, str):
            return
        part = item.parts["arguments", 0]
        self._settle(part, text)
        self._answer.trust(part)  # With the whole arguments, losses in the pieces no longer matter.
        item.told = True

    def done(self, index: int | None, value: Mapping[str, Any], where: Where) -> None:
        """The final form of an item."""
        index = self._last() if index is None else index
        item = self._at.get(index)
        if item is None or item.done or item.type != _text(value.get("type")):
            item = self.add(index, value, where)
        else:
            self._locate(item, where)
        if not item.done:
            self._finish(item, value, where)

    def _locate(self, item: Item, where: Where | None = None) -> None:
        """`where` belongs to this item; without it, the whole event."""
        if item.kind == "call":
            self._answer.locate(item.parts["arguments", 0], *(where[1:] if where else ()))

    def _again(self, item: Item, value: Mapping[str, Any], where: Where) -> bool:
        """Whether this completed call was sent before: it must not run twice."""
        id_ = _text(value.get("call_id"))
        if not (item.done and id_ and (item.type, item.call_id) == (value.get("type"), id_)):
            return False
        self._answer.warn("item_again", f"The call {id_[:80]!r} came once more; it counts once.")
        self._compare(item, value, where)
        return True

    def _compare(self, item: Item, value: Mapping[str, Any], where: Where) -> None:
        """Warns if a completed item is sent again with different content."""
        if item.kind != "call":
            return
        text, _ = _text_of_call(value, CALLS[item.type], where)
        name = _text(value.get("name")) or item.parts["arguments", 0].name
        if (text and not alike(text, item.said)) or name != item.parts["arguments", 0].name:
            self._answer.warn(
                "item_differs",
                f"The call {item.call_id[:80]!r} was told twice, and not the same; "
                "the first counts.",
            )

    def final(self, output: Sequence[Any], where: Where) -> None:
        """The list of all items at the end of the answer, which may be the only source.

        A listed item that duplicates another, even with new ids, is not added, because a call would
        run twice. A completed item is not changed.
        """
        entries = [(place, entry) for place, entry in enumerate(output) if isinstance(entry, dict)]
        calls: dict[tuple[str, str], deque[Item]] = defaultdict(deque)
        for item in self._order:
            if item.kind == "call" and item.call_id:
                calls[item.type, item.call_id].append(item)
        matches: dict[int, Item] = {}
        for place, entry in entries:
            if twins := calls.get((_text(entry.get("type")), _text(entry.get("call_id")))):
                matches[place] = twins.popleft()
        rest: dict[str, deque[Item]] = defaultdict(deque)
        matched_ids = {id(item) for item in matches.values()}
        for item in self._order:
            if id(item) not in matched_ids:
                rest[item.type].append(item)
        for place, entry in entries:
            waiting = rest[_text(entry.get("type"))]
            same = matches.get(place) or (waiting.popleft() if waiting else None)
            if same is None:
                same = self._start(len(self._order), entry, (*where, place))
            else:
                self._locate(same, (*where, place))
            if same.done:
                self._compare(same, entry, (*where, place))
            else:
                self._finish(same, entry, (*where, place))

    def settle(self, complete: bool) -> None:
        """Ends all items; `complete`: the answer is complete by its own status."""
        for item in self._order:
            if not item.done:
                self._stop(item, complete)
        ids = [item.call_id for item in self._order if item.kind == "call" and item.call_id]
        for id_ in (id_ for id_, times in Counter(ids).items() if times > 1):
            self._answer.warn("same_id", f"Two calls have the id {id_[:80]!r}.")

    # One item.

    def _last(self) -> int:
        """The item of an event that identifies none."""
        return next(reversed(self._at), 0)

    def _part(self, item: Item, slot: Slot, kind: PartKind) -> OpenPart:
        if slot not in item.parts:
            item.parts[slot] = item.spare or self._answer.start(kind)
            item.spare = None
        return item.parts[slot]

    def _stop(self, item: Item, complete: bool) -> None:
        """Ends an item that was never done; half of a call's arguments is not complete."""
        item.done = True
        if item.kind == "call":
            part = item.parts["arguments", 0]
            if not part.pieces:
                self._answer.delta(part, item.first)
            complete = complete and item.told
        spare = [item.spare] if item.spare is not None else []
        for part in (*spare, *item.parts.values()):
            self._answer.stop(part, complete)

    def _finish(self, item: Item, value: Mapping[str, Any], where: Where) -> None:
        item.done = True
        complete = _text(value.get("status")) not in _UNDONE and not self.unfinished
        match item.kind:
            case "text":
                self._finish_message(item, value, complete)
            case "thinking":
                self._finish_reasoning(item, value, complete)
            case "call":
                part = item.parts["arguments", 0]
                part.name = _text(value.get("name")) or part.name
                item.call_id = _text(value.get("call_id")) or item.call_id
                part.provider_id = item.call_id
                self._keep(part, item, value, where)
                text, present = _text_of_call(value, CALLS[item.type], where)
                if present:
                    self._settle(part, text)
                    self._answer.trust(part)
                elif not part.pieces:
                    part.meta["absent"] = True
                item.said = joined(part.pieces) if part.pieces else ""
                self._answer.stop(part, complete)
            case _:
                self._finish_block(item, value, complete)

    def _finish_message(self, item: Item, value: Mapping[str, Any], complete: bool) -> None:
        """Matches the pieces of a message by order: their indexes are unreliable."""
        block = {key: inner for key, inner in value.items() if key != "content"}
        streamed = deque(item.parts.values())
        content = value.get("content")
        for piece in content if isinstance(content, list) else []:
            type_ = _text(piece.get("type")) if isinstance(piece, dict) else ""
            kind, member = _CONTENT.get(type_, ("other", ""))
            part = streamed.popleft() if streamed and streamed[0].kind == kind else None
            part = part or self._answer.start(kind)
            part.meta["block"] = block
            if member:
                part.meta["content"] = {k: inner for k, inner in piece.items() if k != member}
                self._settle(part, _text(piece.get(member)))
            else:
                part.meta["content"] = piece
                self._answer.warn("unknown_content", f"This version does not know {type_[:80]!r}.")
            self._answer.stop(part, complete)
        for part in streamed:
            part.meta["block"] = block
            self._answer.warn("item_differs", "The end of a message no longer has all it said.")
            self._answer.stop(part, complete)

    def _finish_reasoning(self, item: Item, value: Mapping[str, Any], complete: bool) -> None:
        """Stores the item, which goes back as a whole, in the last of its parts."""
        for member in ("summary", "content"):
            pieces = value.get(member)
            for place, piece in enumerate(pieces if isinstance(pieces, list) else []):
                text = _text(piece.get("text")) if isinstance(piece, dict) else ""
                self._settle(self._part(item, (member, place), "thinking"), text)
        if not item.parts:
            self._part(item, ("summary", 0), "thinking")
        *most, last = item.parts.values()
        last.meta["block"] = dict(value)
        for part in (*most, last):
            self._answer.stop(part, complete)

    def _finish_block(self, item: Item, value: Mapping[str, Any], complete: bool) -> None:
        part = item.parts["block", 0]
        part.name = _text(value.get("name")) or part.name
        part.meta["block"] = dict(value)
        member = _SERVER_TEXT.get(item.type, "")
        if isinstance(value.get(member), str):
            self._settle(part, value[member])
        if item.kind == "server_call" and item.type != "mcp_call":
            part.meta["absent"] = True  # its input is in the block
        if item.kind == "other" and item.type not in _OTHER:
            self._answer.warn("unknown_item", f"This version does not know {item.type[:80]!r}.")
        self._answer.stop(part, complete)

    def _keep(self, part: OpenPart, item: Item, value: Mapping[str, Any], where: Where) -> None:
        """Stores what goes back with a call, beside the model's text."""
        member = CALLS[item.type]
        part.meta["block"] = {key: inner for key, inner in value.items() if key != member}
        if item.type == "custom_tool_call":
            part.meta["type"] = "custom"
        elif value.get(member) is not None and not isinstance(value[member], str):
            part.meta["as_object"] = True

    def _settle(self, part: OpenPart, text: str) -> None:
        """Sets the final text of `part`, whatever was streamed."""
        if part.ended:
            return
        text = self._answer.readable(text) if part.kind in PROSE else text
        half, part.half = part.half, ""
        streamed = joined(part.pieces) if part.pieces else ""
        common = end_of(streamed, text, escaped=True)
        if streamed and common != len(text) and not half:
            kind = part.kind.replace("_", " ")
            self._answer.warn("item_differs", f"The pieces of a {kind} differ from its end.")
        # One piece, so that the next comparison costs no more than this text.
        part.pieces = [text[:common] if common >= 0 else text]
        self._answer.delta(part, text[common:] if common >= 0 else "")


_NOT: Where = (Quoted("{}"),)


def _text_of_call(item: Mapping[str, Any], member: str, where: Where) -> tuple[str, bool]:
    """The model's exact text, and whether the item has it."""
    value = item.get(member)
    if isinstance(value, str):
        return value, True
    if value is None:
        return "", False
    quoted, *path = where
    return quoted.member(*path, member), True


CODEC = Codec(
    name="openai_responses",
    encode=encode,
    decoder=decoder,
    label=label,
    key_header=key_header,
    models_path="/models",
    models=models,
    quirks=QUIRKS,
    says_again=True,
)
