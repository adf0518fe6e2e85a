"""An event without the secrets that its text may hold: typed by a person, put together from pieces
by a decoder, or brought by a tool. What was sent and what arrived is masked before, by its bytes;
the deltas of an answer, of which none holds a whole secret, part by part (engine/stream_redaction).

Threat 16 of docs/safety.md.
"""

from __future__ import annotations

from dataclasses import replace

from app.core.events import (
    CallDecided,
    CallDoubted,
    CallEnded,
    CallProgressed,
    Event,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    ResponseEnded,
    ResponseFailed,
    SessionStarted,
    SettingsChanged,
    TaskEnded,
    Warned,
)
from app.core.tools import Content, ToolResult
from app.secrets.redaction import Redactor


def redact_event(event: Event, redactor: Redactor) -> Event:
    """`event` with stars for each secret in the texts that a person, a model or a tool wrote."""
    text, data = redactor.redact_text, redactor.redact_data
    match event:
        case PartDelta():
            return event
        case SessionStarted(settings) | SettingsChanged(settings):
            return replace(event, settings=replace(settings, system=text(settings.system)))
        case PromptAdded():
            return replace(event, text=text(event.text), form=data(event.form))
        case PartStarted() | PartEnded():
            name, provider_id = text(event.name), text(event.provider_id)
            event = replace(event, name=name, provider_id=provider_id, meta=data(event.meta))
            return replace(event, text=text(event.text)) if isinstance(event, PartEnded) else event
        case Warned():
            return replace(event, message=text(event.message), meta=data(event.meta))
        case ResponseEnded():
            return replace(event, raw_reason=text(event.raw_reason), meta=data(event.meta))
        case CallDoubted(problem=problem):
            return replace(event, problem=replace(problem, message=text(problem.message)))
        case CallProgressed():
            kept = None if event.real is None else _masked_result(event.real, redactor)
            return replace(event, text=text(event.text), output=text(event.output), real=kept)
        case TaskEnded(result=ToolResult() as result):
            return replace(event, result=_masked_result(result, redactor))
        case CallDecided(arguments=arguments):
            edited = None if arguments is None else text(arguments)
            return replace(event, text=text(event.text), arguments=edited)
        case CallEnded(result=result, real=real):
            kept = None if real is None else _masked_result(real, redactor)
            return replace(event, result=_masked_result(result, redactor), real=kept)
        case ResponseFailed():
            return replace(event, message=text(event.message), error=data(event.error))
    return event


def _masked_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    content = tuple(_masked_content(piece, redactor) for piece in result.content)
    return replace(result, content=content, form=redactor.redact_data(result.form))


def _masked_content(piece: Content, redactor: Redactor) -> Content:
    return replace(piece, text=redactor.redact_text(piece.text))
