"""How each protocol writes results and answers in the history of a request (`NAME/history`).

What is changed by these is in `body_edits`, which knows no protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.messages import MessagePart
from app.core.tools import Content
from app.protocols.encoder import Notes, error_text
from app.protocols.json_edits import Changes, Path, dumped
from app.protocols.request import Body, dicts

MARK = "cache_control"


@dataclass(frozen=True)
class ResultEdit:
    """What a call came to, in the words of the user: all that the model is to read of it."""

    text: str
    is_error: bool = False


def keep_no_mark(copy: Sequence[Body], element: Body) -> Changes:
    return {}


def force_nothing(body: Body) -> Changes:
    return {}


@dataclass(frozen=True)
class HistoryForm:
    """HISTORY of a protocol's folder.

    `member` of a body is the list of all that was said. `holder` is the member of an element of
    the user that has the results of an answer, "" where each is an element of its own.

    `write` gives the changes that make a result (the value at `ResultMessage.at`) say an edit,
    and `make` a result of this call without its content, for an answer that has these elements.
    `id_of` is where a result has the id of its call. `keep_mark` gives the changes that keep a mark
    of the cache: from the elements that are replaced to the last one that comes in their place.
    `ask_freely` gives the changes of a body by which no call is forced.
    """

    member: str
    write: Callable[[Body, ResultEdit], Changes]
    make: Callable[[MessagePart, Sequence[Body]], Mapping[str, Any]]
    id_of: Callable[[Body], Path]
    holder: str = ""
    keep_mark: Callable[[Sequence[Body], Body], Changes] = keep_no_mark
    ask_freely: Callable[[Body], Changes] = force_nothing


def say_result(edit: ResultEdit) -> str:
    """The text of a result where the protocol has no word for a failure."""
    content = (Content(text=edit.text),)
    return error_text(MessagePart("result", content=content, is_error=edit.is_error), "", Notes())


def find_mark(pieces: object) -> Any:
    """The mark of the last of these pieces that has one, else None."""
    marks = [piece[MARK] for piece in dicts(pieces) if piece.get(MARK)]
    return marks[-1] if marks else None


def write_text(text: str, mark: Any) -> str:
    """The text as JSON; with a mark, which needs a piece that bears it."""
    if not mark or not text:
        return dumped(text)
    return dumped([{"type": "text", "text": text, MARK: mark}])


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
            return {} if piece.get(MARK) else {("content", place, MARK): dumped(mark)}
    return {}


_UNMARKED = ("thinking", "redacted_thinking")
"""Pieces of Anthropic's that are refused with a mark."""
