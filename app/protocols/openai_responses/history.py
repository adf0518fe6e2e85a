"""Results and answers in the history of OpenAI Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import MessagePart
from app.protocols.history_form import HistoryForm, ResultEdit, say_result
from app.protocols.json_edits import Changes, Path, dumped
from app.protocols.request import Body


def _write(item: Body, edit: ResultEdit) -> Changes:
    return {("output",): dumped(say_result(edit))}


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    kinds = {item.get("call_id"): item.get("type") for item in answer}
    return {"type": f"{kinds.get(call.call_id, 'function_call')}_output", "call_id": call.call_id}


def _id_of(item: Body) -> Path:
    return ("call_id",)


def _ask_freely(body: Body) -> Changes:
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {("tool_choice", "mode"): dumped("auto")}
    if isinstance(choice, dict) or choice == "required":
        return {("tool_choice",): dumped("auto")}
    return {}


HISTORY = HistoryForm("input", _write, _make, _id_of, ask_freely=_ask_freely)
