"""The last request of a session as Anthropic's Messages API takes it, whatever was spoken."""

from __future__ import annotations

from app.core.errors import BadInput
from app.exchange.bundle import ExportFile, SessionBundle
from app.exchange.naming import file_name
from app.exchange.requests_export import of_turn, sent_turns, written

FOREIGN = "The model's name is a suggestion: this session was spoken with another provider's."


def write_anthropic(kept: SessionBundle) -> ExportFile:
    """The body alone, as one JSON object; of Anthropic's own sessions the very bytes sent."""
    turns, name = sent_turns(kept.session), file_name(kept.title, "anthropic.json")
    if not kept.session.items:
        return ExportFile(name, "application/json", b"{}\n", ("Nothing was sent yet.",))
    last = turns[-1] if turns else None
    if last is not None and last.request.protocol == "anthropic":
        data = last.request.body.encode("utf-8", "replace")
        notes = tuple(note for note in of_turn(last).notes if "simulator" not in note)
        return ExportFile(name, "application/json", data, notes)
    try:
        request = written(kept.session, "anthropic", last)
    except BadInput as error:
        return ExportFile(name, "application/json", b"{}\n", (str(error),))
    settings = kept.session.settings
    foreign = settings is not None and settings.profile.protocol != "anthropic"
    notes = (FOREIGN, *request.notes) if foreign else request.notes
    return ExportFile(name, "application/json", request.body, notes)
