"""The growing items of one answer of OpenAI Responses, and their parts.

`call_identity` finds the item of an event: servers leave out index or ids (llama.cpp sends no
index), give an item another id in each event (GitHub Copilot), or give two items one index. The end
of an item repeats all of it, and so does the list of all items at the end of the answer: both are
compared with what was streamed, never added to it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from playground.core.events import PartKind
from playground.protocols.call_identity import (
    CallDirectory,
    Clue,
    KnownCall,
    has_id_of,
    read_id,
    read_index,
)
from playground.protocols.decoder import PROSE, EventBuilder, OpenPart
from playground.protocols.raw_json import (
    JsonText,
    end_of,
    is_same_value,
    join_pieces,
    whole_characters,
)

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

Where = tuple[JsonText, *tuple[str | int, ...]]
"""The JSON text of an event, and the path of an item in it."""
NOWHERE: Where = (JsonText("{}"),)
Slot = tuple[str, int]
"""The place of a part in its item: the member and the index."""
_ARGUMENTS: Slot = ("arguments", 0)
_BLOCK: Slot = ("block", 0)


def clue_of(
    value: Mapping[str, Any], item: Mapping[str, Any] | None = None, type_: str = ""
) -> Clue:
    """How an event names its item, which it may have."""
    source = value if item is None else item
    return Clue(
        read_index(value.get("output_index")),
        read_id(source.get("id")) or read_id(value.get("item_id")),
        read_id(source.get("call_id")),
        type=type_ or _text(source.get("type")),
    )


def _title(clue: Clue) -> str:
    """The item in a sentence."""
    id_ = clue.call_id or clue.item_id
    if clue.index is not None or not id_:
        return f"Item {clue.index}"
    return f"Item {id_[:80]!r}"


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


class Item(KnownCall):
    """An open item. `parts` are its parts by place, in order of appearance."""

    __slots__ = (
        *("announced", "final_text", "first", "has_all_arguments", "kind", "parts", "spare"),
        "streamed",
    )

    def __init__(self, clue: Clue) -> None:
        super().__init__(clue)
        self.kind = part_kind(clue.type)
        self.parts: dict[Slot, OpenPart] = {}
        self.spare: OpenPart | None = None  # a thinking part started before its text
        self.announced: Mapping[str, Any] = {}  # as it was when it was added
        self.first = ""  # the announced arguments of a call: used if none follow
        self.final_text = ""  # its whole text, or the arguments of a call, when it is done
        self.streamed = False  # whether a delta came
        self.has_all_arguments = False  # whether an event had all arguments

    @property
    def call(self) -> OpenPart:
        """The part of a call."""
        return self.parts[_ARGUMENTS]


class Items:
    """All items of one answer, writing to `answer`."""

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._known = CallDirectory[Item]()
        self.unfinished = False
        """Whether the provider still works on the answer: no item of it is complete."""

    def add(self, clue: Clue, value: Mapping[str, Any], where: Where) -> Item:
        """Adds an announced item."""
        left = self._known.find_start(clue)
        if left is None:
            return self._start(clue, value, where)
        if has_id_of(left, clue):
            self._repeat_start(left, clue, value, where)
            return left
        item = self._start(clue, value, where)
        if not left.done:
            for each in (left, item):
                self._warn(each, "started_twice", f"{_title(clue)} started twice.")
        return item

    def delta(self, clue: Clue, slot: Slot, kind: PartKind, text: str) -> None:
        """A piece of an item, whose type the event implies."""
        item = self._known.find(clue)
        if item is None and kind not in PROSE and self._known.has_index(clue.index):
            message = f"{_title(clue)} is not a {clue.type}: a delta was left out."
            self._answer.warn("no_item", message)
            return
        item = item or self._start_unannounced(clue)
        self._locate(item)
        if item.done:
            message = f"A delta of {clue.type} came after its end and was left out."
            self._warn(item, "no_item", message)
            return
        self._known.learn(item, clue)
        if item.has_all_arguments:
            item.has_all_arguments = False
            self._warn(item, "late_arguments", f"{_title(clue)} continued after its arguments.")
        item.streamed = True
        self._answer.delta(self._part(item, slot, kind), text)

    def open(self, clue: Clue, slot: Slot, kind: PartKind) -> None:
        """Adds an announced piece of a message or of reasoning."""
        item = self._known.find(clue)
        if item is not None and not item.done and item.kind in ("text", "thinking"):
            self._part(item, slot, kind)

    def tell_text(self, clue: Clue, slot: Slot, kind: PartKind, text: str) -> None:
        """The whole text of a piece, before the item is done: only counts if no delta came."""
        item = self._known.find(clue)
        if item is None and text:
            item = self._start_unannounced(clue)
        if item is None or item.done or item.streamed or not text:
            return
        part = self._part(item, slot, kind)
        if not part.pieces:
            self._answer.delta(part, text)

    def tell_arguments(self, clue: Clue, value: Mapping[str, Any], text: Any) -> None:
        """The whole arguments of a call, before the item is done."""
        item = self._known.find(clue)
        if not isinstance(text, str):
            return
        if item is None and self._known.has_index(clue.index):
            message = f"{_title(clue)} is not a {clue.type}: its arguments were left out."
            self._answer.warn("no_item", message)
            return
        item = item or self._start_unannounced(clue, value)
        self._locate(item)
        if item.done:
            self._compare_arguments(item, text)
            return
        self._known.learn(item, clue)
        if self._settle_arguments(item, text):
            item.has_all_arguments = True

    def finish_item(self, clue: Clue, value: Mapping[str, Any], where: Where) -> None:
        """The final form of an item."""
        item = self._known.find(clue)
        if item is not None and item.done and self._is_again(item, clue, value, where):
            self._locate(item, where)
            self._warn(item, "item_again", f"{_title(clue)} was sent twice. It counts once.")
            self._compare(item, value, where)
            return
        if item is None or item.done or self._is_other(item, clue, value, where):
            item = self._start(clue, value, where)
        else:
            self._known.learn(item, clue)
            self._locate(item, where)
        self._finish(item, value, where)

    def add_final_list(self, output: Sequence[Any], where: Where) -> None:
        """The list of all items at the end of the answer, which may be the only source.

        A listed item that repeats another, even with new ids, is not added: its text would be
        shown twice, and a call run twice. A completed item is not changed.
        """
        entries = {n: entry for n, entry in enumerate(output) if isinstance(entry, dict)}
        clues = {place: clue_of({}, entry) for place, entry in entries.items()}
        matches = self._known.match_list(
            clues,
            conflicts=lambda item, place: _conflicts(item, entries[place], NOWHERE),
            differs=lambda item, place: _differs(item, entries[place], (*where, place)),
        )
        for place, entry in entries.items():
            at = (*where, place)
            item = matches.get(place)
            if item is None:
                item = self._start(clues[place], entry, at)
            else:
                self._locate(item, at)
            if item.done:
                self._compare(item, entry, at)
            else:
                self._finish(item, entry, at)

    def settle(self, complete: bool) -> None:
        """Ends all items; `complete`: the answer is complete by its own status."""
        for item in self._known.calls:
            if not item.done:
                self._stop(item, complete)

    # Which item an event is about.

    def _is_again(self, item: Item, clue: Clue, value: Mapping[str, Any], where: Where) -> bool:
        """Whether this end repeats that of a completed item: a call must not run twice."""
        if item.kind == "call" and item.call_id and clue.call_id:
            return item.call_id == clue.call_id
        if item.item_id and clue.item_id and item.item_id != clue.item_id and clue.index is None:
            return False
        return not _differs(item, value, where)

    def _is_other(self, item: Item, clue: Clue, value: Mapping[str, Any], where: Where) -> bool:
        """Whether this is the end of another item than the open one that `_find` guessed."""
        if clue.index is not None and clue.index == item.index:
            return False
        ids = (item.call_id, clue.call_id) if item.kind == "call" else (item.item_id, clue.item_id)
        if all(ids) and ids[0] == ids[1]:
            return False
        moved = clue.index is not None and item.index is not None
        return (moved or all(ids)) and _differs(item, value, where)

    # The start of an item.

    def _start(self, clue: Clue, value: Mapping[str, Any], where: Where) -> Item:
        item = Item(clue)
        self._known.add(item)
        item.announced = value
        match item.kind:
            case "call":
                part = self._answer.start("call", _text(value.get("name")), item.call_id)
                item.parts[_ARGUMENTS] = part
                self._locate(item, where)
                _keep(part, item, value)
                item.first, _ = _text_of_call(value, CALLS[item.type], where)
            case "thinking":
                item.spare = self._answer.start("thinking")
            case "server_call" | "server_result" | "other":
                id_ = item.item_id or item.call_id
                part = self._answer.start(item.kind, _text(value.get("name")), id_)
                part.meta["block"] = dict(value)
                item.parts[_BLOCK] = part
            case _:
                pass
        return item

    def _start_unannounced(self, clue: Clue, value: Mapping[str, Any] | None = None) -> Item:
        item = self._start(clue, {**(value or {}), "type": clue.type}, NOWHERE)
        self._warn(item, "no_start", f"{_title(clue)} was never started.")
        return item

    def _repeat_start(self, item: Item, clue: Clue, value: Mapping[str, Any], where: Where) -> None:
        """An item that was announced before is announced again: no new one."""
        title = _title(replace(clue, index=None))
        self._known.learn(item, clue)
        self._locate(item, where)
        if item.done:
            self._warn(item, "item_again", f"{title} was sent twice. It counts once.")
            self._compare(item, value, where)
        else:
            self._warn(item, "started_twice", f"{title} started twice.")

    def _locate(self, item: Item, where: Where | None = None) -> None:
        """`where` belongs to this item; without it, the whole event."""
        if item.kind == "call":
            self._answer.locate(item.call, *(where[1:] if where else ()))

    def _warn(self, item: Item, code: str, message: str) -> None:
        """A warning about an item; that about a call names it."""
        if item.kind == "call":
            self._answer.warn_of(item.call, code, message)
        else:
            self._answer.warn(code, message)

    def _part(self, item: Item, slot: Slot, kind: PartKind) -> OpenPart:
        if slot not in item.parts:
            item.parts[slot] = item.spare or self._answer.start(kind)
            item.spare = None
        return item.parts[slot]

    # The end of an item.

    def _close(self, item: Item) -> None:
        self._known.close(item)

    def _stop(self, item: Item, complete: bool) -> None:
        """Ends an item that was never done; half of a call's arguments is not complete."""
        self._close(item)
        if item.kind == "call":
            self._use_first(item)
            complete = complete and item.has_all_arguments
        elif not item.streamed and item.kind in ("text", "thinking"):
            for slot, kind, text in _texts_in(item.announced) if not item.parts else ():
                self._settle(self._part(item, slot, kind), text)
        spare = [item.spare] if item.spare is not None else []
        for part in (*spare, *item.parts.values()):
            self._answer.stop(part, complete)

    def _finish(self, item: Item, value: Mapping[str, Any], where: Where) -> None:
        self._close(item)
        complete = _text(value.get("status")) not in _UNDONE and not self.unfinished
        match item.kind:
            case "text":
                self._finish_message(item, value, complete)
            case "thinking":
                self._finish_reasoning(item, value, complete)
            case "call":
                self._finish_call(item, value, where, complete)
            case _:
                self._finish_block(item, value, complete)

    def _finish_call(
        self, item: Item, value: Mapping[str, Any], where: Where, complete: bool
    ) -> None:
        part, name = item.call, _text(value.get("name"))
        call_id = read_id(value.get("call_id"))
        if (name and part.name and name != part.name) or (
            call_id and item.call_id and call_id != item.call_id
        ):
            self._warn(
                item,
                "item_differs",
                f"The call {part.name[:80]!r} ({item.call_id[:80]}) is called {name[:80]!r} "
                f"({call_id[:80]}) at its end. The latter is used.",
            )
        part.name = name or part.name
        part.provider_id = item.call_id = call_id or item.call_id
        _keep(part, item, value)
        text, present = _text_of_call(value, CALLS[item.type], where)
        if present and not self._settle_arguments(item, text):
            part.meta.pop("as_object", None)
        self._use_first(item)
        if not part.pieces and not present:
            part.meta["absent"] = True
        item.final_text = join_pieces(part.pieces) if part.pieces else ""
        self._answer.stop(part, complete)

    def _use_first(self, item: Item) -> None:
        """The announced arguments of a call count if no others came; others are compared."""
        part, first = item.call, item.first
        text = join_pieces(part.pieces) if part.pieces else ""
        if _is_empty(first) or text.startswith(first) or is_same_value(first, text):
            if not text:
                self._answer.delta(part, first)
            return
        if _is_empty(text):
            part.pieces.clear()
            self._answer.delta(part, first)
        self._warn(item, "item_differs", "The arguments of a call differ from those of its start.")

    def _settle_arguments(self, item: Item, text: str) -> bool:
        """Sets the whole arguments of a call; False if they are empty, though some came before:
        these count."""
        part = item.call
        if _is_empty(text) and part.pieces and not _is_empty(join_pieces(part.pieces)):
            self._warn(
                item,
                "item_differs",
                "The end of a call has no arguments. Its streamed arguments are used.",
            )
            return False
        self._settle(part, text)
        self._answer.mark_trusted(
            part
        )  # With the whole arguments, losses in the pieces do not matter.
        return True

    def _finish_message(self, item: Item, value: Mapping[str, Any], complete: bool) -> None:
        """Compares the pieces of a message by order: their indexes are unreliable."""
        block = {key: inner for key, inner in value.items() if key != "content"}
        streamed: dict[PartKind, deque[OpenPart]] = defaultdict(deque)
        for part in item.parts.values():
            streamed[part.kind].append(part)
            part.meta["block"] = block
        texts: dict[PartKind, list[str]] = {kind: [] for kind in streamed}
        for _, kind, text in _texts_in(value):
            texts.setdefault(kind, []).append(text)
        further = {kind: deque(self._align(streamed[kind], texts[kind])) for kind in texts}
        parts = list(item.parts.values())
        content = value.get("content")
        for piece in content if isinstance(content, list) else []:
            type_ = _text(piece.get("type")) if isinstance(piece, dict) else ""
            kind, member = _CONTENT.get(type_, ("other", ""))
            if not member:
                self._answer.add_whole_part("other", block=block, content=piece)
                self._answer.warn("unknown_content", f"This version does not know {type_[:80]!r}.")
                continue
            if streamed[kind]:
                part = streamed[kind].popleft()
            elif further[kind]:
                part = self._answer.start(kind)
                part.meta["block"] = block
                self._settle(part, further[kind].popleft())
                parts.append(part)
            else:
                continue  # its text is in the part before
            part.meta["content"] = {k: inner for k, inner in piece.items() if k != member}
        self._stop_parts(item, parts, complete)

    def _finish_reasoning(self, item: Item, value: Mapping[str, Any], complete: bool) -> None:
        """Stores the item, which goes back as a whole, in the last of its parts."""
        listed = {slot: text for slot, _, text in _texts_in(value)}
        summary, content = (
            "".join(text for (member, _), text in listed.items() if member == name)
            for name in ("summary", "content")
        )
        if summary == content and not any(member == "content" for member, _ in item.parts):
            listed = {slot: text for slot, text in listed.items() if slot[0] == "summary"}
        if item.parts.keys() <= listed.keys():
            for slot, text in listed.items():
                self._settle(self._part(item, slot, "thinking"), text)
        else:
            further = self._align(list(item.parts.values()), list(listed.values()))
            for place, text in enumerate(further):
                self._settle(self._part(item, ("further", place), "thinking"), text)
        if not item.parts:
            self._part(item, ("summary", 0), "thinking")
        *_, last = item.parts.values()
        last.meta["block"] = dict(value)
        self._stop_parts(item, list(item.parts.values()), complete)

    def _stop_parts(self, item: Item, parts: Sequence[OpenPart], complete: bool) -> None:
        item.final_text = "".join(join_pieces(part.pieces) for part in parts if part.pieces)
        for part in parts:
            self._answer.stop(part, complete)

    def _finish_block(self, item: Item, value: Mapping[str, Any], complete: bool) -> None:
        part = item.parts[_BLOCK]
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

    # Comparisons of an end with what came before.

    def _align(self, parts: Sequence[OpenPart], texts: Sequence[str]) -> Sequence[str]:
        """Compares what was streamed with the texts at the end; returns those without a part. The
        pieces may be cut otherwise than the texts: then their sum is compared."""
        before = [join_pieces(part.pieces) if part.pieces else "" for part in parts]
        final = whole_characters("".join(texts))
        common = end_of("".join(before), final, escaped=True)
        if parts and final and common == len(final):
            return ()
        if len(texts) >= len(parts):
            for part, text in zip(parts, texts, strict=False):
                self._settle(part, text)
            return texts[len(parts) :]
        if any(before):
            self._warn_differs(parts[-1])
        self._answer.delta(parts[-1], final[common:] if common >= 0 else "")
        return ()

    def _settle(self, part: OpenPart, text: str) -> None:
        """Sets the final text of `part`, whatever was streamed; of a text for people, what goes
        beyond its end stays."""
        if part.ended:
            return
        text = self._answer.displayable_text(text) if part.kind in PROSE else text
        half, part.half = part.half, ""
        streamed = join_pieces(part.pieces) if part.pieces else ""
        common = end_of(streamed, text, escaped=True)
        if streamed and common != len(text) and not half:
            self._warn_differs(part)
        if common < 0 and part.kind in PROSE and streamed.startswith(text):
            return
        # One piece, so that the next comparison costs no more than this text.
        part.pieces = [text[:common] if common >= 0 else text]
        self._answer.delta(part, text[common:] if common >= 0 else "")

    def _warn_differs(self, part: OpenPart) -> None:
        kind = part.kind.replace("_", " ")
        self._answer.warn_of(part, "item_differs", f"The deltas of a {kind} differ from its end.")

    def _compare(self, item: Item, value: Mapping[str, Any], where: Where) -> None:
        """Compares a completed item with another end of it: of a message, what is new is added; of
        a call, the first end counts."""
        match item.kind:
            case "call":
                text, _ = _text_of_call(value, CALLS[item.type], where)
                self._compare_arguments(item, text, _text(value.get("name")))
            case "text" | "thinking":
                self._compare_text(item, value)
            case _:
                pass

    def _compare_arguments(self, item: Item, text: str, name: str = "") -> None:
        same = (
            not text
            or is_same_value(text, item.final_text)
            or (_is_empty(text) and _is_empty(item.final_text))
        )
        if not same or name not in ("", item.call.name):
            self._warn(
                item,
                "item_differs",
                f"The call {item.call_id[:80]!r} came twice with different content. The first is "
                "used.",
            )

    def _compare_text(self, item: Item, value: Mapping[str, Any]) -> None:
        listed = list(_texts_in(value))
        final = whole_characters("".join(text for *_, text in listed))
        common = end_of(item.final_text, final, escaped=True)
        if not final or common == len(final):
            return
        self._answer.warn("item_differs", "An item came twice with different text.")
        if common >= 0 and item.kind == "text":
            block = {key: inner for key, inner in value.items() if key != "content"}
            self._answer.add_whole_part(listed[-1][1], final[common:], block=block)
            item.final_text = final


def _conflicts(item: Item, value: Mapping[str, Any], where: Where) -> bool:
    """Whether this is the end of another call: neither its id nor its content is the same."""
    call_id = read_id(value.get("call_id"))
    both = item.kind == "call" and item.call_id and call_id
    return bool(both) and item.call_id != call_id and _differs(item, value, where)


def _differs(item: Item, value: Mapping[str, Any], where: Where) -> bool:
    """Whether the content of this end is not that of the item, so far or at its end."""
    if item.kind in ("text", "thinking"):
        parts = item.parts.values()
        text = item.final_text or "".join(join_pieces(part.pieces) for part in parts if part.pieces)
        final = whole_characters("".join(each for *_, each in _texts_in(value)))
        return end_of(text, final, escaped=True) < 0
    if item.kind != "call":
        return bool(item.parts[_BLOCK].meta["block"] != value)
    part = item.call
    text, _ = _text_of_call(value, CALLS[item.type], where)
    before = item.final_text or (join_pieces(part.pieces) if part.pieces else item.first)
    same = is_same_value(text, before) or (_is_empty(text) and _is_empty(before))
    return not same or _text(value.get("name")) not in ("", part.name)


def _texts_in(item: Mapping[str, Any]) -> Iterator[tuple[Slot, PartKind, str]]:
    """The texts of a message or of reasoning."""
    is_message = item.get("type") == "message"
    for member in ("content",) if is_message else ("summary", "content"):
        pieces = item.get(member)
        for place, piece in enumerate(pieces if isinstance(pieces, list) else []):
            if not isinstance(piece, dict):
                continue
            kind, name = _CONTENT.get(_text(piece.get("type")), ("other", ""))
            if not is_message:
                yield (member, place), "thinking", _text(piece.get("text"))
            elif name:
                yield (member, place), kind, _text(piece.get(name))


def _keep(part: OpenPart, item: Item, value: Mapping[str, Any]) -> None:
    """Stores what is sent back with a call in addition to the model's text."""
    member = CALLS[item.type]
    part.meta["block"] = {key: inner for key, inner in value.items() if key != member}
    if item.type == "custom_tool_call":
        part.meta["type"] = "custom"
    elif value.get(member) is not None and not isinstance(value[member], str):
        part.meta["as_object"] = True


def _is_empty(arguments: str) -> bool:
    """Whether arguments say nothing: servers write these where they have none, or none yet."""
    return "".join(arguments[:20].split()) in ("", "{}", "null") and len(arguments) <= 20


def _text_of_call(item: Mapping[str, Any], member: str, where: Where) -> tuple[str, bool]:
    """The model's exact text, and whether the item has it."""
    value = item.get(member)
    if isinstance(value, str):
        return value, True
    if value is None:
        return "", False
    quoted, *path = where
    return quoted.member(*path, member), True


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
