"""Previews the next request, encoded by the same code that will send it.

Never changes the session: what the request still lacks (the draft, results of calls) is added to a
copy of its items. No HTML here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from playground.core.decide import Record, SendRequest, next_commands, next_request
from playground.core.errors import BadInput
from playground.core.events import PromptAdded, RequestSent, ResponseEnded, Warned
from playground.core.messages import model_request, sealed_history_pause, wire_id
from playground.core.session import Call, Prompt, Session, Turn
from playground.core.settings import PROTOCOLS, SIMULATOR_URL, Profile, Protocol
from playground.core.tools import Content, ToolChoice
from playground.engine.engine import Engine
from playground.engine.redaction import redact_event
from playground.protocols.parameters import extra_for
from playground.protocols.registry import CODECS
from playground.secrets.redaction import Redactor

WIRES: tuple[Protocol, ...] = tuple(name for name in PROTOCOLS if name in CODECS)
"""The protocols a request can be shown in."""

AS_RECEIVED = "The agent's last request, as received. The agent writes the next one itself."


@dataclass(frozen=True)
class Draft:
    """The unsent content of the composer."""

    text: str = ""
    images: tuple[Content, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.text.strip() and not self.images


@dataclass(frozen=True)
class Preview:
    """A request as it would be sent now, with names in place of keys.

    `notes`: what the protocol cannot express; `says`: what replaces content that does not exist
    yet; `failed`: why it would not be sent, or "".
    """

    profile: Profile
    sent: RequestSent
    notes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    failed: str = ""


NO_DRAFT = Draft()
NO_DATA = "AAAA"
"""Placeholder for the base64 data of an image."""


def preview(engine: Engine, session: Session, draft: Draft = NO_DRAFT, wire: str = "") -> Preview:
    """The next request of `session`; with `wire`, in that protocol. For an agent's session, its
    last request as received."""
    settings = session.settings
    assert settings is not None
    if session.tapped is not None and session.turns and not wire:
        return _received_preview(session.turns[-1])
    ahead, says = _session_ahead(session, draft, engine.keys.redactor())
    untold: tuple[str, ...] = ()
    if wire:
        profile = profile_for_wire(engine.profiles(), settings.profile, wire)
        extra, untold = extra_for(profile.protocol, settings)
        ahead.settings = replace(settings, profile=profile, model="", extra=extra)
    choice, note = _choice(ahead)
    prepared = engine.client.prepare(ahead, choice)
    failed, kept_back = prepared.failed, sealed_history_pause(ahead)
    if wire and failed is not None and failed.failure != "bad_request":
        failed = None  # it is only shown: no key is needed for that
    sentences = (*says, *_placeholder_notes(ahead, choice), *([note] if note else []))
    assert ahead.settings is not None
    return Preview(
        ahead.settings.profile,
        prepared.sent,
        (*untold, *prepared.notes),
        sentences,
        failed.message if failed is not None else kept_back.message if kept_back else "",
    )


def _received_preview(turn: Turn) -> Preview:
    """The agent's last request as received; its next one cannot be known."""
    return Preview(turn.settings.profile, turn.request, says=(AS_RECEIVED,))


def preview_notes(engine: Engine, session: Session) -> Preview:
    """The preview for its notes only: images go without their data, so that no megabytes are
    encoded for a line of text. Its body is not the one that would be sent."""
    items = [_drop_item_data(item) for item in session.items]
    return preview(engine, replace(session, items=items))


def _drop_item_data(item: Prompt | Turn) -> Prompt | Turn:
    match item:
        case Prompt() if item.images:
            return replace(item, images=_drop_content_data(item.images))
        case Turn() if any(call.result is not None for call in item.calls):
            return replace(item, calls=[_drop_call_data(call) for call in item.calls])
    return item


def _drop_call_data(call: Call) -> Call:
    result = call.result
    if result is None or not any(piece.data for piece in result.content):
        return call
    return replace(call, result=replace(result, content=_drop_content_data(result.content)))


def _drop_content_data(content: Sequence[Content]) -> tuple[Content, ...]:
    return tuple(replace(piece, data=NO_DATA) if piece.data else piece for piece in content)


def profile_for_wire(profiles: Sequence[Profile], own: Profile, wire: str) -> Profile:
    """A profile for a protocol: the simulator's for simulated sessions, else the vendor's."""
    protocol = next((name for name in WIRES if name == wire), None)
    if protocol is None:
        raise BadInput(f"The wire must be one of {', '.join(WIRES)}, not {wire[:80]!r}.")
    rows = [
        profile
        for profile in profiles
        if profile.protocol == protocol and profile.simulated == own.simulated
    ]
    simulator = Profile(f"simulator-{protocol}", protocol, SIMULATOR_URL, model="simulator")
    return next(iter(rows), simulator)


def _session_ahead(session: Session, draft: Draft, redactor: Redactor) -> tuple[Session, list[str]]:
    """A copy of `session` as of the moment its next request is sent."""
    items, says, last = list(session.items), [], session.last_item
    free = session.state != "running" and not session.waiting
    if not draft.empty and free:
        added = redact_event(PromptAdded(draft.text, draft.images), redactor)
        assert isinstance(added, PromptAdded)
        items.append(Prompt(session.prompts + 1, added.text, session.seq + 1, 0, added.images))
    else:
        says = _words(session, draft, last)
        items = [_finish_item(item) if item is last else item for item in items]
    ahead = replace(session, items=items, stopped=False, paused="", retrying=None)
    ahead.resumed_turn = len(session.turns)
    return ahead, says


def _words(session: Session, draft: Draft, last: Prompt | Turn | None) -> list[str]:
    """Sentences on a request that has no prompt of its own."""
    says = []
    if not draft.empty:
        after = "the calls" if session.waiting else "this answer"
        says.append(
            f"The text you are writing comes after {after}, so it is not part of this request."
        )
    match last:
        case Turn(failure=None, end=None):
            says.append("The model is answering. The next request includes its answer.")
        case Turn(failure=None, calls=[], end=ResponseEnded(reason="pause")):
            says.append("The provider paused this turn. This request continues it.")
        case Turn(failure=None, calls=[]) | None:
            says.append("There is no prompt yet. Your text is added at the end.")
        case Turn() if last.failure is not None:
            says.append("This is what Retry sends.")
    return says


def _finish_item(item: Prompt | Turn) -> Prompt | Turn:
    """The item without pending work: a failed turn is dropped, calls count as done."""
    match item:
        case Turn() if item.failure is not None:
            return replace(item, dropped=True)
        case Turn() if item.end is not None:
            return replace(item, calls=[replace(call, status="done") for call in item.calls])
    return item


def _choice(ahead: Session) -> tuple[ToolChoice, str]:
    """The tool choice that will be in force, and a note if it differs from the settings."""
    assert ahead.settings is not None
    match next_commands(ahead):
        case [SendRequest(choice, note)]:
            return choice, note
        case [Record(Warned())]:  # a warning about a limit precedes it
            request = next_request(ahead)
            return request.choice, request.note
    return ahead.settings.tool_choice, ""


def _placeholder_notes(ahead: Session, choice: ToolChoice) -> list[str]:
    """A sentence on the calls that have no result, with the text the model gets instead."""
    calls = _unanswered_calls(ahead)
    if not calls:
        return []
    parts = [
        part
        for message in model_request(ahead, choice).messages
        if message.role == "results"
        for part in message.parts
        if part.call_id == wire_id(calls[-1])
    ]
    words = parts[-1].content[0].text if parts and parts[-1].content else ""
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    count = "A result is" if len(calls) == 1 else f"{len(calls)} results are"
    return [f"{count} missing ({names}); the placeholder is “{words}”"]


def _unanswered_calls(ahead: Session) -> list[Call]:
    """Calls without a result; only the last turn can have any."""
    turn = next((i for i in reversed(ahead.items) if isinstance(i, Turn) and not i.dropped), None)
    if turn is None or turn.end is None:
        return []
    return [call for call in turn.calls if call.result is None]
