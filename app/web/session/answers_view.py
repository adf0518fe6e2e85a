"""The panel for an answer by hand: earlier results, similar calls, what a text is.

Drawn when the user opens it, and part of no block: other sessions change it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import Environment

from app.core.serialization import from_data
from app.core.session import Call, Session
from app.core.tools import ToolResult
from app.schema import strict_json
from app.schema.form import fields, form_of
from app.store.log import PastResult

SHOWN = 300
"""Characters of a past result in the list; who takes it gets all."""


@dataclass(frozen=True)
class PastResultRow:
    """A past result in one line. `text` is its beginning, `length` how long it is altogether."""

    key: str
    session: str
    title: str
    at_ms: int
    call: str
    arguments: str
    text: str
    length: int
    images: int
    is_error: bool
    staged: bool
    here: bool


@dataclass(frozen=True)
class ResultCheck:
    """What a text would be for the model: `broken` begins like JSON and is none, at `line` and
    `column`, both from 1 (0: nowhere). `fits` the output schema, None where that is no question."""

    form: Literal["empty", "json", "text", "broken"]
    says: str
    line: int = 0
    column: int = 0
    fits: bool | None = None


def past_of(row: PastResult, here: str) -> PastResultRow:
    """A row of the store as the list shows it."""
    result: ToolResult = from_data(ToolResult, json.loads(row.result))
    return PastResultRow(
        key=f"{row.session}/{row.seq}",
        session=row.session,
        title=row.title,
        at_ms=row.at_ms,
        call=row.call_id,
        arguments=row.arguments,
        text=result.text[:SHOWN],
        length=len(result.text),
        images=sum(piece.type == "image" for piece in result.content),
        is_error=result.is_error,
        staged=result.staged,
        here=row.session == here,
    )


def past_list(env: Environment, past: Sequence[PastResultRow], now_ms: int) -> str:
    """The list of past results, to choose one from."""
    return env.get_template("_answer_past.html").render(past=past, now_ms=now_ms)


def alike(session: Session, call: Call) -> list[Call]:
    """The other calls of the same tool that wait for a user now, as `call` does."""
    undecided = call.status in ("waiting", "interrupted")
    if session.stopped or not undecided or not session.current(call):
        return []
    return [
        other
        for other in session.current_calls
        if other is not call and other.status == "waiting" and other.name == call.name
    ]


def like_list(env: Environment, calls: Sequence[Call]) -> str:
    """A box to tick for each call that could have the same answer."""
    return env.get_template("_answer_like.html").render(calls=calls)


def check_result_text(text: str, problems: Sequence[str] | None) -> ResultCheck:
    """What `text` is. `problems` are what keeps its value from fitting the output schema, () if
    nothing does; None where the tool has none, or an error is answered."""
    if not text.strip():
        return ResultCheck("empty", "Nothing written: the model reads an empty result.")
    try:
        value = strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        return _no_json(text, error, wants_json=problems is not None)
    if problems is None:
        if isinstance(value, dict | list):
            return ResultCheck("json", "JSON, valid.")
        return ResultCheck("text", "Text: the model reads it as it is.")
    if not problems:
        return ResultCheck("json", "JSON, valid; it fits the output schema.", fits=True)
    more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
    return ResultCheck("json", f"JSON, but it does not fit: {problems[0]}{more}", fits=False)


def _no_json(text: str, error: strict_json.InvalidJSON, *, wants_json: bool) -> ResultCheck:
    fits = False if wants_json else None
    if text.lstrip()[:1] in ("{", "["):
        line, column = strict_json.line_column(text, error.offset) if error.offset >= 0 else (0, 0)
        return ResultCheck(
            "broken", f"Begins like JSON, but is not valid. {error}", line, column, fits
        )
    if wants_json:
        return ResultCheck("text", "Text; the output schema wants JSON.", fits=False)
    return ResultCheck("text", "Text: the model reads it as it is.")


def form_values(schema: Any, text: str) -> Mapping[str, Sequence[str]] | None:
    """What the fields of the answer's form hold where the answer is `text`; None where they cannot
    show it."""
    if schema is None:
        return None
    try:
        return form_of(fields(schema, text)) if text.strip() else None
    except strict_json.InvalidJSON:
        return None
