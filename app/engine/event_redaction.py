"""Keeps secrets out of the log: masks those in events, and refuses those in what is typed.

`redact_event` masks the texts of an event: typed by a person, put together from pieces by a
decoder, or returned by a tool. What was sent and what arrived is masked before, by its bytes; the
deltas of an answer, of which none holds a whole secret, part by part (engine/stream_redaction). The
checks refuse addresses, settings, tools and rules that hold a known key, before any of it is kept
or shown: keys go by the names of their variables. Threat 16 of docs/safety.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.core.errors import BadInput
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
from app.core.rules import Rule
from app.core.serialization import to_data
from app.core.settings import Settings
from app.core.tools import Content, Tool, ToolResult
from app.net.keys import origin
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


SECRET_QUERY = re.compile(r"[?&;](?:[^=&]*(?:key|token|secret|sig|auth|passw)[^=&]*)=", re.I)


def check_address(base_url: str) -> None:
    """BadInput where `base_url` is no address, or one that takes a key along."""
    origin(base_url)
    if "#" in base_url:
        raise BadInput("A base URL has no part behind a #; leave that out.")
    if SECRET_QUERY.search(base_url):
        raise BadInput(
            "A base URL must not contain a key. Remove it and enter the name of its variable."
        )


def check_settings(settings: Settings, redactor: Redactor, before: Settings) -> None:
    """BadInput that names the place, never the value, where one holds a known key.

    What stood in `before` is not looked at again: a key that became known since must not keep
    anybody from taking it out, place by place. The system prompt is left out: what people write
    may hold a key, and is masked where it is kept.
    """
    old = _places(before)
    _check(
        {name: value for name, value in _places(settings).items() if value != old[name]}, redactor
    )
    check_tools((tool for tool in settings.tools if tool not in before.tools), redactor)


def _places(settings: Settings) -> dict[str, Any]:
    profile = settings.profile
    return {
        "model": settings.model,
        "base_url": profile.base_url,
        "The profile": [profile.name, profile.key_name, profile.model, profile.headers],
        "tool_choice": to_data(settings.tool_choice),
        "params": settings.params,
        "extra": settings.extra,
    }


def check_tools(tools: Iterable[Tool], redactor: Redactor) -> None:
    """BadInput where a tool holds a known key; tools are numbered, for a name may be the place."""
    for number, tool in enumerate(tools, 1):
        data = to_data(tool)
        _check({f"{name} of tool {number}": value for name, value in data.items()}, redactor)


def check_rule(rule: Rule, redactor: Redactor) -> None:
    """BadInput where a rule holds a known key, in whichever of its places."""
    names = ("tool", "source", "when", "text", "words")
    _check({f"{name} of the rule": getattr(rule, name) for name in names}, redactor)


def _check(places: Mapping[str, Any], redactor: Redactor) -> None:
    for place, value in places.items():
        if redactor.holds(value):
            raise BadInput(
                f"{place} holds the value of a key; take it out: a key goes by the name of its "
                "variable, and is sent in the protocol's own header."
            )
