"""How a protocol writes a history: its results, and what depends on them. HISTORY in the folder of
each protocol (`edits`), and what these share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playground.core.messages import MessagePart
from playground.core.tools import Content
from playground.protocols.encoder import Notes, error_text
from playground.protocols.raw_json import (
    Changes,
    Path,
    dump_ascii,
)
from playground.protocols.request import (
    MARK,
    Body,
    dicts,
)

_UNMARKED = ("thinking", "redacted_thinking")
"""Pieces for which Anthropic refuses a mark."""


@dataclass(frozen=True)
class ResultEdit:
    """The result of a call in the user's words: all that the model will read of it."""

    text: str
    is_error: bool = False


def keep_no_mark(copy: Sequence[Body], element: Body) -> Changes:
    return {}


def force_nothing(body: Body) -> Changes:
    return {}


def refuse_none(elements: Sequence[object]) -> Sequence[int]:
    return ()


@dataclass(frozen=True)
class HistoryForm:
    """HISTORY of a protocol's folder.

    `member` of a body is the list of messages. `holder` is the member of a user message that
    contains the results of an answer, "" if each result is an element of its own.

    `write` returns the changes that write an edit into a result (the value at `ResultMessage.at`),
    and `make` a result for a call, without content, for an answer with these elements. `id_of` is
    the path of the call's id in a result. `keep_mark` returns the changes that preserve a cache
    mark: from the replaced elements to the last replacement. `ask_freely` returns the changes to a
    body so that no call is forced. `alone` are the indexes of elements that are refused if what
    they led to does not follow.
    """

    member: str
    write: Callable[[Body, ResultEdit], Changes]
    make: Callable[[MessagePart, Sequence[Body]], Mapping[str, Any]]
    id_of: Callable[[Body], Path]
    holder: str = ""
    keep_mark: Callable[[Sequence[Body], Body], Changes] = keep_no_mark
    ask_freely: Callable[[Body], Changes] = force_nothing
    alone: Callable[[Sequence[object]], Sequence[int]] = refuse_none


def say_result(edit: ResultEdit) -> str:
    """The text of a result if the protocol cannot mark failures."""
    content = (Content(text=edit.text),)
    return error_text(MessagePart("result", content=content, is_error=edit.is_error), "", Notes())


def find_mark(pieces: object) -> Any:
    """The mark of the last piece that has one, else None."""
    marks = [piece[MARK] for piece in dicts(pieces) if piece.get(MARK)]
    return marks[-1] if marks else None


def write_text(text: str, mark: Any) -> str:
    """The text as JSON; with a mark, as a piece that carries it."""
    if not mark or not text:
        return dump_ascii(text)
    return dump_ascii([{"type": "text", "text": text, MARK: mark}])


def mark_content(content: object, mark: Any) -> Changes:
    """The changes that mark the last piece of an element's `content` that may be marked."""
    if not mark:
        return {}
    if isinstance(content, str) and content:
        return {("content",): write_text(content, mark)}
    pieces = content if isinstance(content, list) else []
    for place in reversed(range(len(pieces))):
        piece = pieces[place]
        if isinstance(piece, dict) and piece.get("type") not in _UNMARKED:
            return {} if piece.get(MARK) else {("content", place, MARK): dump_ascii(mark)}
    return {}
