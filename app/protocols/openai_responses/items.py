"""The items of one answer of OpenAI Responses, as they grow, and the parts they become.

An item is known by its `output_index`, for ids may change from event to event (GitHub Copilot).
What `output_item.done` says is the truth; deltas may be missing, single, or say something else.
Knows no events, statuses or ends: these are in openai_responses.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from app.core.events import PartKind
from app.protocols.builder import PROSE, Answer, OpenPart
from app.protocols.raw_json import Quoted, alike, end_of, joined

CALLS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""Item type -> the member that holds what the model wrote."""
_SERVER_TEXT: Mapping[str, str] = {"mcp_call": "arguments", "code_interpreter_call": "code"}
_CONTENT: Mapping[str, tuple[PartKind, str]] = {
    "output_text": ("text", "text"),
    "text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
}
"""Type of a piece of a message -> the kind of its part, and its member that holds the words."""
_SERVER = frozenset({"mcp_list_tools", "mcp_approval_request", "program"})
_UNDONE = frozenset({"incomplete", "failed", "cancelled"})
"""The statuses of an item that did not come to its end."""
_OTHER = frozenset({"compaction", "additional_tools", "configuration_update"})

Where = tuple[Quoted, *tuple[str | int, ...]]
"""The JSON text of an event, and the path of an item in it."""
Slot = tuple[str, int]
"""Where in its item a part stands: the member and the place in it."""


def part_kind(type_: str) -> PartKind:
    """The kind of part that an item of this type becomes; a message's parts are of two kinds."""
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
    """An item under way. `parts` are its parts by where they stand, in order of appearance."""

    __slots__ = ("call_id", "done", "first", "kind", "parts", "said", "spare", "told", "type")

    def __init__(self, type_: str, call_id: str) -> None:
        self.type = type_
        self.kind = part_kind(type_)
        self.call_id = call_id
        self.parts: dict[Slot, OpenPart] = {}
        self.spare: OpenPart | None = None  # a thinking part that was started before its words
        self.first = ""  # what a call was announced with: it counts where nothing else comes
        self.said = ""  # the arguments of a call that is done
        self.told = False  # whether an event told the whole arguments of this call
        self.done = False


class Items:
    """All items of one answer, writing to `answer`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._at: dict[int, Item] = {}
        self._order: list[Item] = []

    def add(self, index: int | None, item: Mapping[str, Any], where: Where) -> Item:
        """An item is announced."""
        left = self._at.get(self._last() if index is None else index)
        if left is not None and self._again(left, item, where):
            return left
        if left is not None and not left.done:
            self._answer.warn("started_twice", f"Item {index} started twice.")
            self._stop(left, complete=False)
        return self._start(len(self._order) if index is None else index, item, where)

    def _start(self, index: int, item: Mapping[str, Any], where: Where) -> Item:
        one = Item(_text(item.get("type")), _text(item.get("call_id")))
        self._at[index] = one
        self._order.append(one)
        match one.kind:
            case "call":
                part = self._answer.start("call", _text(item.get("name")), one.call_id)
                one.parts["arguments", 0] = part
                self._keep(part, one, item, where)
                one.first, _ = _written(item, CALLS[one.type], where)
            case "thinking":
                one.spare = self._answer.start("thinking")
            case "server_call" | "server_result" | "other":
                id_ = _text(item.get("id")) or one.call_id
                part = self._answer.start(one.kind, _text(item.get("name")), id_)
                part.meta["block"] = dict(item)
                one.parts["block", 0] = part
            case _:
                pass
        return one

    def delta(self, index: int | None, type_: str, slot: Slot, kind: PartKind, text: str) -> None:
        """A piece of an item of that type, which the event that brought it implies."""
        item = self._at.get(self._last() if index is None else index)
        if item is None:
            self._answer.warn("no_start", f"Item {index} was never started.")
            item = self._start(len(self._order) if index is None else index, {"type": type_}, _NOT)
        if item.done or item.type != type_:
            self._answer.warn("no_item", f"A piece of {type_} for item {index} was left out.")
            return
        if item.told:
            item.told = False
            self._answer.warn("late_arguments", f"Item {index} went on after its arguments.")
        self._answer.delta(self._part(item, slot, kind), text)

    def open(self, index: int | None, slot: Slot, kind: PartKind) -> None:
        """A piece of a message or of reasoning is announced."""
        item = self._at.get(self._last() if index is None else index)
        if item is not None and not item.done and item.kind in ("text", "thinking"):
            self._part(item, slot, kind)

    def tell(self, index: int | None, text: Any) -> None:
        """The whole arguments of a call, told before the item is done."""
        item = self._at.get(self._last() if index is None else index)
        if item is None or item.done or item.kind != "call" or not isinstance(text, str):
            return
        part = item.parts["arguments", 0]
        self._settle(part, text)
        self._answer.trust(part)  # Told whole, it no more matters what was lost of its pieces.
        item.told = True

    def done(self, index: int | None, value: Mapping[str, Any], where: Where) -> None:
        """An item as it is at its end."""
        index = self._last() if index is None else index
        item = self._at.get(index)
        if item is None or item.done or item.type != _text(value.get("type")):
            item = self.add(index, value, where)
        if not item.done:
            self._finish(item, value, where)

    def _again(self, item: Item, value: Mapping[str, Any], where: Where) -> bool:
        """Whether this is a call that is done, sent once more: it would run twice."""
        id_ = _text(value.get("call_id"))
        if not (item.done and id_ and (item.type, item.call_id) == (value.get("type"), id_)):
            return False
        self._answer.warn("item_again", f"The call {id_[:80]!r} came once more; it counts once.")
        self._compare(item, value, where)
        return True

    def _compare(self, item: Item, value: Mapping[str, Any], where: Where) -> None:
        """Tell where an item that is done comes to say something else."""
        if item.kind != "call":
            return
        text, _ = _written(value, CALLS[item.type], where)
        name = _text(value.get("name")) or item.parts["arguments", 0].name
        if (text and not alike(text, item.said)) or name != item.parts["arguments", 0].name:
            self._answer.warn(
                "item_differs",
                f"The call {item.call_id[:80]!r} was told twice, and not the same; "
                "the first counts.",
            )

    def final(self, output: Sequence[Any], where: Where) -> None:
        """All items as the end of the answer lists them, and perhaps nothing else did.

        A listed item that is another's double, be its ids new, is not taken twice: a call would
        run twice. An item that was done stays as it was then.
        """
        listed = [(place, one) for place, one in enumerate(output) if isinstance(one, dict)]
        calls: dict[tuple[str, str], deque[Item]] = defaultdict(deque)
        for item in self._order:
            if item.kind == "call" and item.call_id:
                calls[item.type, item.call_id].append(item)
        found: dict[int, Item] = {}
        for place, one in listed:
            if twins := calls.get((_text(one.get("type")), _text(one.get("call_id")))):
                found[place] = twins.popleft()
        rest: dict[str, deque[Item]] = defaultdict(deque)
        taken = {id(item) for item in found.values()}
        for item in self._order:
            if id(item) not in taken:
                rest[item.type].append(item)
        for place, one in listed:
            waiting = rest[_text(one.get("type"))]
            same = found.get(place) or (waiting.popleft() if waiting else None)
            if same is None:
                same = self._start(len(self._order), one, (*where, place))
            if same.done:
                self._compare(same, one, (*where, place))
            else:
                self._finish(same, one, (*where, place))

    def settle(self, complete: bool) -> None:
        """Nothing more comes; `complete` is whether the answer says that it is whole."""
        for item in self._order:
            if not item.done:
                self._stop(item, complete)
        ids = [item.call_id for item in self._order if item.kind == "call" and item.call_id]
        for id_ in (id_ for id_, times in Counter(ids).items() if times > 1):
            self._answer.warn("same_id", f"Two calls have the id {id_[:80]!r}.")

    # One item.

    def _last(self) -> int:
        """The item meant by an event that names none."""
        return next(reversed(self._at), 0)

    def _part(self, item: Item, slot: Slot, kind: PartKind) -> OpenPart:
        if slot not in item.parts:
            item.parts[slot] = item.spare or self._answer.start(kind)
            item.spare = None
        return item.parts[slot]

    def _stop(self, item: Item, complete: bool) -> None:
        """End an item that was never done. Of a call, half an argument must not pass for one."""
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
        complete = _text(value.get("status")) not in _UNDONE
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
                text, told = _written(value, CALLS[item.type], where)
                if told:
                    self._settle(part, text)
                    self._answer.trust(part)
                elif not part.pieces:
                    part.meta["absent"] = True
                item.said = joined(part.pieces) if part.pieces else ""
                self._answer.stop(part, complete)
            case _:
                self._finish_block(item, value, complete)

    def _finish_message(self, item: Item, value: Mapping[str, Any], complete: bool) -> None:
        """The pieces of a message, by their order: their numbers are not to be trusted."""
        block = {key: one for key, one in value.items() if key != "content"}
        streamed = deque(item.parts.values())
        content = value.get("content")
        for piece in content if isinstance(content, list) else []:
            type_ = _text(piece.get("type")) if isinstance(piece, dict) else ""
            kind, member = _CONTENT.get(type_, ("other", ""))
            part = streamed.popleft() if streamed and streamed[0].kind == kind else None
            part = part or self._answer.start(kind)
            part.meta["block"] = block
            if member:
                part.meta["content"] = {k: one for k, one in piece.items() if k != member}
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
        """The item goes back as a whole: it rides on the last of its parts."""
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
            part.meta["absent"] = True  # what it was asked stands in the block
        if item.kind == "other" and item.type not in _OTHER:
            self._answer.warn("unknown_item", f"This version does not know {item.type[:80]!r}.")
        self._answer.stop(part, complete)

    def _keep(self, part: OpenPart, item: Item, value: Mapping[str, Any], where: Where) -> None:
        """What goes back with a call, beside what the model wrote."""
        member = CALLS[item.type]
        part.meta["block"] = {key: one for key, one in value.items() if key != member}
        if item.type == "custom_tool_call":
            part.meta["type"] = "custom"
        elif value.get(member) is not None and not isinstance(value[member], str):
            part.meta["as_object"] = True

    def _settle(self, part: OpenPart, text: str) -> None:
        """Let `part` say `text`, whatever was streamed of it."""
        if part.ended:
            return
        text = self._answer.readable(text) if part.kind in PROSE else text
        half, part.half = part.half, ""
        streamed = joined(part.pieces) if part.pieces else ""
        said = end_of(streamed, text, escaped=True)
        if streamed and said != len(text) and not half:
            kind = part.kind.replace("_", " ")
            self._answer.warn("item_differs", f"The pieces of a {kind} differ from its end.")
        # In one piece, so that the next comparison costs no more than this text.
        part.pieces = [text[:said] if said >= 0 else text]
        self._answer.delta(part, text[said:] if said >= 0 else "")


_NOT: Where = (Quoted("{}"),)


def _written(item: Mapping[str, Any], member: str, where: Where) -> tuple[str, bool]:
    """What the model wrote, to the letter, and whether the item tells it at all."""
    value = item.get(member)
    if isinstance(value, str):
        return value, True
    if value is None:
        return "", False
    quoted, *path = where
    return quoted.member(*path, member), True


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
