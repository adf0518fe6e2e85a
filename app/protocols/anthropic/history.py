"""Results and answers in the history of Anthropic Messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import MessagePart
from app.protocols.history_form import (
    HistoryForm,
    ResultEdit,
    find_mark,
    mark_content,
    write_text,
)
from app.protocols.json_edits import Changes, Path, dumped
from app.protocols.request import Body, dicts


def _write(block: Body, edit: ResultEdit) -> Changes:
    text = edit.text
    if edit.is_error and not text:
        text = "The tool failed and gave no reason."  # an error without words is refused
    content = write_text(text, find_mark(block.get("content"))) if text else None
    changes: dict[Path, str | None] = {("content",): content}
    if edit.is_error != (block.get("is_error") is True):
        changes["is_error",] = dumped(edit.is_error)
    return changes


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    return {"type": "tool_result", "tool_use_id": call.call_id}


def _id_of(block: Body) -> Path:
    return ("tool_use_id",)


def _keep_mark(copy: Sequence[Body], element: Body) -> Changes:
    blocks = [block for message in copy for block in dicts(message.get("content"))]
    return mark_content(element.get("content"), find_mark(blocks))


def _ask_freely(body: Body) -> Changes:
    choice = body.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") not in ("any", "tool"):
        return {}
    return {("tool_choice", "type"): dumped("auto"), ("tool_choice", "name"): None}


HISTORY = HistoryForm(
    *("messages", _write, _make, _id_of),
    holder="content",
    keep_mark=_keep_mark,
    ask_freely=_ask_freely,
)
