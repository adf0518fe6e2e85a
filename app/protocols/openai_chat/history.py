"""Results and answers in the history of Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import MessagePart
from app.protocols.history_form import (
    MARK,
    HistoryForm,
    ResultEdit,
    find_mark,
    mark_content,
    say_result,
    write_text,
)
from app.protocols.json_edits import Changes, Path, dumped
from app.protocols.request import Body, dicts


def _write(message: Body, edit: ResultEdit) -> Changes:
    return {("content",): write_text(say_result(edit), find_mark(message.get("content")))}


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    if not call.call_id and any(message.get("function_call") for message in answer):
        return {"role": "function", "name": call.name}
    return {"role": "tool", "tool_call_id": call.call_id}


def _id_of(message: Body) -> Path:
    return ("tool_call_id",)


def _keep_mark(copy: Sequence[Body], element: Body) -> Changes:
    """OpenRouter and others take marks, of a message or of its pieces."""
    changes: dict[Path, str | None] = {}
    pieces = [piece for message in copy for piece in dicts(message.get("content"))]
    changes.update(mark_content(element.get("content"), find_mark(pieces)))
    if (mark := find_mark(list(copy))) and not element.get(MARK):
        changes[MARK,] = dumped(mark)
    return changes


def _ask_freely(body: Body) -> Changes:
    changes: dict[Path, str | None] = {}
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        changes["tool_choice", "allowed_tools", "mode"] = dumped("auto")
    elif isinstance(choice, dict) or choice in ("required", "any"):
        changes["tool_choice",] = dumped("auto")
    if isinstance(body.get("function_call"), dict):
        changes["function_call",] = dumped("auto")
    return changes


HISTORY = HistoryForm(
    *("messages", _write, _make, _id_of), keep_mark=_keep_mark, ask_freely=_ask_freely
)
