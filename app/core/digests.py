"""What a person saw of a call, as a number: a decision counts for the card it was made on alone."""

from __future__ import annotations

import hashlib
import json

from app.core.serialization import to_data
from app.core.session import Call, Session


def digest(session: Session, call: Call, code: str) -> str:
    """What a card shows, as 64 hex digits: a decision carries it, so that what was seen is run.

    `code` stands for what the tool's file holds (`CallChecked.code`).
    """
    tool = call.tool
    shown = [
        session.id,
        call.id,
        call.attempt,
        call.part.name,
        to_data(tool) if tool is not None else None,
        call.judged,
        code,
    ]
    if call.returned:
        shown.append(call.returned)
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
