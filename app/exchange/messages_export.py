"""A session as one line of OpenAI's chat form, as fine-tuning and evaluation files have it.

Whatever protocol it was spoken in; what that form cannot say is in the notes.
"""

from __future__ import annotations

import json

from app.core.errors import BadInput
from app.exchange.bundle import ExportFile, SessionBundle
from app.exchange.naming import file_name
from app.exchange.requests_export import written

MEMBERS = ("messages", "tools", "parallel_tool_calls")


def write_openai(kept: SessionBundle) -> ExportFile:
    """One line: {"messages": [...], "tools": [...]}; none where nothing was said."""
    session, name = kept.session, file_name(kept.title, "openai.jsonl")
    if not session.items:
        return ExportFile(name, "application/x-ndjson", b"", ("Nothing was sent yet.",))
    settings = session.settings
    assert settings is not None
    own = settings.profile if settings.profile.protocol == "openai_chat" else None
    try:
        request = written(session, "openai_chat", None, own)
    except BadInput as error:
        return ExportFile(name, "application/x-ndjson", b"", (str(error),))
    body = json.loads(request.body)
    line = {member: body[member] for member in MEMBERS if member in body}
    notes = list(request.notes)
    if any(call.result is None for call in session.current_calls):
        notes.append("A call without a result has one that says that it was not run.")
    data = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    return ExportFile(name, "application/x-ndjson", data, tuple(notes))
