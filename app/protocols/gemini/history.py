"""Results and answers in the history of Gemini generateContent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import MessagePart
from app.protocols.encoder import exact_object, sound_object
from app.protocols.history_form import HistoryForm, ResultEdit
from app.protocols.json_edits import Changes, Path, dumped
from app.protocols.request import Body

_NAMES = ("functionResponse", "function_response")
_HALF = re.compile("[\ud800-\udfff]")


def _write(part: Body, edit: ResultEdit) -> Changes:
    """What the tool returned beside its words (`parts`) goes with them."""
    changes: dict[Path, str | None] = {}
    for name in _NAMES:
        if name in part:
            changes[name, "response"] = _response(edit)
            changes[name, "parts"] = None
    return changes


def _response(edit: ResultEdit) -> str:
    """As the encoder writes it: a result that is an object goes as one."""
    if edit.is_error:
        return dumped({"error": edit.text or "The tool failed and gave no reason."})
    value, _ = exact_object(edit.text) if sound_object(edit.text) is not None else (None, "")
    if value is None:
        return dumped({"output": edit.text})
    text = _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", value.text)
    return f'{{"output":{text}}}'


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    id_ = {"id": call.call_id} if call.call_id else {}
    return {_NAMES[0]: {**id_, "name": call.name}}


def _id_of(part: Body) -> Path:
    return (next((name for name in _NAMES if name in part), _NAMES[0]), "id")


def _ask_freely(body: Body) -> Changes:
    changes: dict[Path, str | None] = {}
    for at in (("toolConfig", "functionCallingConfig"), ("tool_config", "function_calling_config")):
        config = body.get(at[0])
        calling = config.get(at[1]) if isinstance(config, dict) else None
        if isinstance(calling, dict) and str(calling.get("mode") or "").upper() == "ANY":
            named = calling.get("allowedFunctionNames") or calling.get("allowed_function_names")
            changes[*at, "mode"] = dumped("VALIDATED" if named else "AUTO")  # only that takes names
    return changes


HISTORY = HistoryForm(*("contents", _write, _make, _id_of), holder="parts", ask_freely=_ask_freely)
