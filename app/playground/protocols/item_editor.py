"""Edits a stream of events in which each event is of one numbered item: Responses and Messages.

Drops the events of removed calls and closes the gaps in the numbers. Pure. In the other protocols
the calls are in a list of a message, so their editors change that list.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from playground.protocols.editable_answer import EditableAnswer, EditableFrame
from playground.protocols.raw_json import Path


@dataclass(frozen=True)
class ItemForm:
    """How a stream of events numbers its items, for protocols in which each event is of one item.

    `index` is the member of an event with the number of its item. An event of the type `start`
    begins an item and has it in the member `item`; `thinking` are types of items. The `deltas` are
    the types of pieces of arguments, with the path of their text; a type may be a type of delta.
    """

    index: str
    start: str
    item: str
    thinking: Collection[str]
    deltas: Mapping[str, Path]

    def index_of(self, frame: EditableFrame) -> int | None:
        index = frame.value_at(self.index)
        return index if isinstance(index, int) else None

    def piece_at(self, frame: EditableFrame) -> Path | None:
        """The path of the piece of arguments in an event; None if it is no such piece."""
        type_ = frame.value_at("delta", "type") or frame.type
        return self.deltas.get(type_) if isinstance(type_, str) else None


class ItemEditor:
    """Removes the items of calls from a stream of events, and gives calls new arguments.

    `next_index` is the number after the last item that stays. `write` writes new arguments into an
    event that is no piece of them: the frame, the text, the number of its item, and whether pieces
    have them, too.
    """

    def __init__(
        self,
        answer: EditableAnswer,
        form: ItemForm,
        write: Callable[[EditableFrame, str, int, bool], None],
    ) -> None:
        self.next_index = 0
        self._answer, self._form, self._write = answer, form, write
        self._written: set[int] = set()  # calls whose new arguments are in a piece
        self._in_pieces = {
            place.part
            for frame in answer.frames
            for place in frame.places
            if form.piece_at(frame) is not None
        }

    def edit(self, events: Sequence[tuple[EditableFrame, int]]) -> None:
        """`events` are those of items, each with the part of its call, -1 for none."""
        gaps = GapCloser()
        for frame, part in events:
            index = self._form.index_of(frame)
            if part in self._answer.taken and index is not None:
                gaps.add(index)
        self.next_index = 0
        for frame, part in events:
            if part in self._answer.taken:
                frame.drop()
                continue
            index = self._form.index_of(frame)
            new = 0 if index is None else gaps.new_number(index)
            if part in self._answer.arguments:
                self._set_arguments(frame, part, new)
            if index is not None:
                frame.set(new, self._form.index)
                self.next_index = max(self.next_index, new + 1)

    def _set_arguments(self, frame: EditableFrame, part: int, index: int) -> None:
        """The first piece gets all arguments."""
        text, piece = self._answer.arguments[part], self._form.piece_at(frame)
        if piece is None:
            self._write(frame, text, index, part in self._in_pieces)
        elif part in self._written:
            frame.drop()
        else:
            frame.set(text, *piece)
            self._written.add(part)


def continue_items(
    answer: EditableAnswer,
    form: ItemForm,
    base: int,
    *,
    opens: Callable[[EditableFrame], bool],
) -> Sequence[EditableFrame]:
    """The events that stay of an answer that continues another: without those that open it, and
    without thinking. Its items are numbered from `base` on."""
    gaps, thinking = GapCloser(), set[int]()
    staying: list[EditableFrame] = []
    for frame in answer.frames:
        index = form.index_of(frame)
        if frame.type == form.start and index is not None:
            thinking.discard(index)
            if frame.value_at(form.item, "type") in form.thinking:
                thinking.add(index)
                gaps.add(index)
        if opens(frame) or index in thinking:
            frame.drop()
            continue
        if index is not None:
            frame.set(base + gaps.new_number(index), form.index)
        staying.append(frame)
    return staying


def next_index(answer: EditableAnswer, form: ItemForm) -> int:
    """The number after the last item of an answer."""
    indexes = [index for frame in answer.frames if (index := form.index_of(frame)) is not None]
    return max(indexes, default=-1) + 1


class GapCloser:
    """Renumbers what remains without gaps after other numbers are removed."""

    def __init__(self) -> None:
        self._gone: list[int] = []  # sorted

    def add(self, number: int) -> None:
        place = bisect_left(self._gone, number)
        if self._gone[place : place + 1] != [number]:
            self._gone.insert(place, number)

    def new_number(self, number: int) -> int:
        return number - bisect_left(self._gone, number)

    def clear(self) -> None:
        self._gone.clear()
