"""The file is parsed by the published protocol itself, which refuses a field it does not know."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from playground.core.events import Problem, RequestSent, ResponseFailed
from playground.core.tools import text_result
from playground.exchange.bundle import SessionBundle
from playground.exchange.otlp import write
from tests.exchange.asking import PROTOCOLS, Kind, weather

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def parsed(session_bundle: SessionBundle) -> ExportTraceServiceRequest:
    """OTLP writes ids in hex, where protobuf's own JSON has base64: the one difference."""
    data = json.loads(write(session_bundle).data)
    for span in spans(data):
        for name, size in IDS.items():
            if name in span:
                raw = bytes.fromhex(span[name])
                assert len(raw) == size
                span[name] = base64.b64encode(raw).decode()
        for time in ("startTimeUnixNano", "endTimeUnixNano"):
            assert isinstance(span[time], str)
    return ParseDict(data, ExportTraceServiceRequest())


def spans(data: Any) -> list[Any]:
    results: list[Any] = data["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return results


def attributes_of(span: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in span.attributes
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_session_is_one_trace_of_the_published_form(protocol: str) -> None:
    kind = weather(protocol, params={"temperature": 0.5})
    message = parsed(kind.bundle())
    spans = list(message.resource_spans[0].scope_spans[0].spans)
    root, run, chat, tool, last = spans
    assert len({span.trace_id for span in spans}) == 1
    assert len({span.span_id for span in spans}) == 5
    assert (root.parent_span_id, run.parent_span_id) == (b"", root.span_id)
    assert [span.parent_span_id for span in (chat, tool, last)] == [run.span_id] * 3
    assert [span.kind for span in spans] == [1, 1, 3, 1, 3]
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)
    assert run.start_time_unix_nano <= chat.start_time_unix_nano
    assert run.end_time_unix_nano >= last.end_time_unix_nano
    turn, call = kind.session.turns[0], next(kind.session.calls())
    assert turn.end is not None
    about = attributes_of(chat)
    assert about["gen_ai.operation.name"] == "chat"
    assert about["gen_ai.request.temperature"] == 0.5
    assert about["gen_ai.usage.output_tokens"] == turn.end.usage.output_tokens
    assert about["gen_ai.response.finish_reasons"].values[0].string_value == turn.end.raw_reason
    assert (about["server.address"], about["server.port"]) == ("127.0.0.1", 1234)
    assert tool.name == "execute_tool get_weather"
    assert attributes_of(tool)["gen_ai.tool.call.result"] == "11 degrees"
    assert json.loads(attributes_of(tool)["gen_ai.tool.call.arguments"]) == {"city": "Paris"}
    assert attributes_of(tool)["gen_ai.tool.call.id"] == (call.provider_id or call.id)


def test_trouble_is_an_error_and_what_is_unknown_is_left_out() -> None:
    kind = Kind("anthropic")
    kind.prompt("\ud800 Weather in Paris?")
    kind.turn()
    kind.log.check("1.1", Problem("note", "x"))
    kind.results([text_result("\ud800", is_error=True)])
    sent = RequestSent(
        2,
        protocol="anthropic",
        method="POST",
        url="http://[::1]:x/v1",
        headers={},
        body="{}",
        model="m",
    )
    kind.log.add(sent, ResponseFailed("http", "Overloaded.", status=529))
    container = parsed(kind.bundle()).resource_spans[0].scope_spans[0].spans
    *_, tool, failed = container
    assert (tool.status.code, failed.status.code) == (2, 2)
    assert attributes_of(failed)["error.type"] == "529"
    assert "gen_ai.usage.input_tokens" not in attributes_of(failed)
    assert "server.port" not in attributes_of(failed)


def test_it_is_the_same_file_each_time_and_a_session_of_nothing_has_one() -> None:
    session_bundle = weather("gemini").bundle()
    assert write(session_bundle) == write(session_bundle)
    assert len(parsed(Kind("gemini").bundle()).resource_spans[0].scope_spans[0].spans) == 1


def test_the_schema_is_strict() -> None:
    with pytest.raises(ParseError):
        ParseDict({"resourceSpans": [{"spans": []}]}, ExportTraceServiceRequest())
