"""A session as one trace in OTLP/JSON, with OpenTelemetry's attributes for models.

Ids are derived from the session's, so that repeated exports of a session are the same trace.
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids as hex digits, 64-bit numbers
as strings, enumerations as numbers.
https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from playground import __version__
from playground.core.run_limits import output_tokens
from playground.core.session import Call, Prompt, Session, Turn
from playground.exchange.bundle import ExportFile, SessionBundle, file_name
from playground.protocols.base import url_parts

INTERNAL, CLIENT = 1, 3
ERROR = 2
PROVIDERS: Mapping[str, str] = {
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers that differ from our profiles'."""
PARAMS: Mapping[str, str] = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_tokens": "gen_ai.request.max_tokens",
}
PORTS = {"http": 80, "https": 443}

Attributes = Mapping[str, Any]


def write(bundle: SessionBundle) -> ExportFile:
    """An ExportTraceServiceRequest; unfinished spans end with the session's last event."""
    about = {"service.name": "tool-playground", "service.version": __version__}
    scope = {"name": "tool-playground", "version": __version__}
    spans = list(_spans(bundle.session, bundle.title))
    resource = {"attributes": _attributes(about)}
    data = {"resourceSpans": [{"resource": resource, "scopeSpans": [
        {"scope": scope, "spans": spans}
    ]}]}  # fmt: skip
    text = json.dumps(data, indent=1).encode("ascii") + b"\n"
    return ExportFile(file_name(bundle.title, "otlp.json"), "application/json", text)


def _spans(session: Session, title: str) -> Iterator[dict[str, Any]]:
    times = (session.started_ms, session.updated_ms)
    about = {"gen_ai.conversation.id": session.id, "playground.title": title}
    yield _span(session, kind="session", seq=0, parent="", times=times, about=about)
    for run in _runs(session):
        yield from _run(session, run)


def _runs(session: Session) -> Iterator[list[Prompt | Turn]]:
    """A prompt with the resulting turns."""
    run: list[Prompt | Turn] = []
    for item in session.items:
        if isinstance(item, Prompt) and any(isinstance(earlier, Turn) for earlier in run):
            yield run
            run = []
        run.append(item)
    if run:
        yield run


def _run(session: Session, run: Sequence[Prompt | Turn]) -> Iterator[dict[str, Any]]:
    first, own = run[0], _span_id(session, "run", run[0].seq)
    turns = [item for item in run if isinstance(item, Turn)]
    start = first.at_ms if isinstance(first, Prompt) else first.sent_ms
    ends = [_end(session, turn) for turn in turns]
    ends += [_call_times(session, call)[1] for turn in turns for call in turn.calls]
    about: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": session.id,
    }
    if turns:
        about["gen_ai.provider.name"] = _provider(turns[-1])
        about["gen_ai.request.model"] = turns[-1].request.model
    root = _span_id(session, "session", 0)
    yield _span(
        session,
        kind="run",
        seq=first.seq,
        parent=root,
        times=(start, max([start, *ends])),
        about=about,
    )
    for turn in turns:
        yield _chat(session, turn, own)
        for call in turn.calls:
            yield _tool(session, call, own)


def _chat(session: Session, turn: Turn, parent: str) -> dict[str, Any]:
    sent, place = turn.request, url_parts(turn.request.url)
    about: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _provider(turn),
        "gen_ai.conversation.id": session.id,
        "gen_ai.request.model": sent.model,
        "server.address": place.hostname or "",
        "server.port": place.port or PORTS.get(place.scheme),
        "playground.turn": turn.number,
        "playground.protocol": sent.protocol,
        **{PARAMS[n]: v for n, v in turn.settings.params.items() if n in PARAMS},
    }
    if turn.response is not None:
        about["http.response.status_code"] = turn.response.status
    closed = turn.end or turn.failure
    if closed is not None:
        usage = closed.usage
        about["gen_ai.usage.input_tokens"] = usage.input_tokens
        about["gen_ai.usage.output_tokens"] = output_tokens(sent.protocol, usage)
        about["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
        about["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
    if turn.end is not None:
        about["gen_ai.response.finish_reasons"] = [turn.end.raw_reason or turn.end.reason]
        about["playground.cost_usd"] = turn.end.cost
    failed = ""
    if turn.failure is not None:
        failed = turn.failure.message
        status = turn.failure.status
        about["error.type"] = str(status) if status is not None else turn.failure.failure
    times = (turn.sent_ms, _end(session, turn))
    span = _span(
        session, kind="chat", seq=turn.seq, parent=parent, times=times, about=about, failed=failed
    )
    return {**span, "name": f"chat {sent.model}".strip(), "kind": CLIENT}


def _tool(session: Session, call: Call, parent: str) -> dict[str, Any]:
    result, decided = call.result, call.decided
    about: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.provider_id or call.id,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": call.arguments,
        "playground.call": call.id,
        "playground.status": call.status,
    }
    if call.tool is not None and call.tool.description:
        about["gen_ai.tool.description"] = call.tool.description
    if decided is not None:
        about["playground.decision"] = decided.decision
        about["playground.decided_by"] = decided.rule or decided.by
    failed = ""
    if result is not None:
        about["gen_ai.tool.call.result"] = result.text
        if result.is_error:
            failed = "The tool returned an error."
            about["error.type"] = result.kind or "tool_error"
    times = _call_times(session, call)
    span = _span(
        session,
        kind="tool",
        seq=call.part.seq,
        parent=parent,
        times=times,
        about=about,
        failed=failed,
    )
    return {**span, "name": f"execute_tool {call.name}".strip()}


def _call_times(session: Session, call: Call) -> tuple[int, int]:
    """The time it ran; for a call that did not run, from its request until it was settled."""
    asked = call.checked_ms or call.part.started_ms
    start = call.started_ms or call.decided_ms or asked
    return start, max(start, call.ended_ms or call.decided_ms or session.updated_ms)


def _end(session: Session, turn: Turn) -> int:
    return max(turn.sent_ms, turn.closed_ms or session.updated_ms)


def _provider(turn: Turn) -> str:
    name = turn.settings.profile.name
    return PROVIDERS.get(name, name)


def _span(
    session: Session,
    kind: str,
    seq: int,
    parent: str,
    times: tuple[int, int],
    about: Attributes,
    *,
    failed: str = "",
) -> dict[str, Any]:
    start, end = times
    return {
        "traceId": hashlib.sha256(f"trace/{session.id}".encode()).hexdigest()[:32],
        "spanId": _span_id(session, kind, seq),
        **({"parentSpanId": parent} if parent else {}),
        "name": "invoke_agent" if kind == "run" else kind,
        "kind": INTERNAL,
        "startTimeUnixNano": str(start * 1_000_000),
        "endTimeUnixNano": str(max(start, end) * 1_000_000),
        "attributes": _attributes(about),
        "status": {"code": ERROR, "message": failed} if failed else {},
    }


def _span_id(session: Session, kind: str, seq: int) -> str:
    return hashlib.sha256(f"span/{session.id}/{kind}/{seq}".encode()).hexdigest()[:16]


def _attributes(about: Attributes) -> list[dict[str, Any]]:
    """Unknown values are left out, never 0."""
    return [
        {"key": key, "value": _value(value)}
        for key, value in about.items()
        if value is not None and value != ""
    ]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(inner) for inner in value]}}
    # A lone surrogate, which JSON may contain, is invalid in protobuf.
    return {"stringValue": str(value).encode("utf-8", "replace").decode("utf-8")}
