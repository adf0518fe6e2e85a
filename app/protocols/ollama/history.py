"""Results and answers in the history of Ollama chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import MessagePart
from app.protocols.history_form import HistoryForm, ResultEdit, say_result
from app.protocols.json_edits import Changes, Path, dumped
from app.protocols.request import Body


def _write(message: Body, edit: ResultEdit) -> Changes:
    return {("content",): dumped(say_result(edit)), ("images",): None}


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    id_ = {"tool_call_id": call.call_id} if call.call_id else {}
    return {"role": "tool", "tool_name": call.name, **id_}


def _id_of(message: Body) -> Path:
    return ("tool_call_id",)


HISTORY = HistoryForm("messages", _write, _make, _id_of)
