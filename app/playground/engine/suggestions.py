"""Drafts for an answer by hand: earlier results of the tool, or generated ones.

A draft depends only on the call: the same call and number always give the same text. Runs and sends
nothing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from playground.core.errors import NotFound
from playground.core.events import CallEnded
from playground.core.json_values import ExactNumber
from playground.core.session import Call
from playground.core.tools import Tool, ToolResult
from playground.executors.executor import as_json, parse_arguments
from playground.schema import strict_json
from playground.schema.satisfy import sample_value
from playground.schema.validate import schema_problems
from playground.simulator.plan import stems, words
from playground.store.log import Log

_MOST_SEEDS = 16
"""How many seeds are tried to find a draft that differs."""

_MOST_REPEATED = 8
_LONGEST_REPEATED = 200
"""Limits for arguments repeated in a draft: how many, and characters of one."""


@dataclass(frozen=True)
class SuggestedResult:
    """`text` is for the editor; `made_from` says what it was generated from."""

    text: str
    made_from: Literal["schema", "name"]


async def past_result(log: Log, session: str, seq: int) -> ToolResult:
    """The result in event `seq` of `session`; NotFound if there is none (any more)."""
    summary = await log.summary(session)
    events = await log.events(session, seq - 1, limit=1) if seq > 0 else []
    if summary is None or summary.deleted or not events:
        raise NotFound("This result no longer exists. Open the list again.")
    event = events[0].event
    if events[0].seq != seq or not isinstance(event, CallEnded):
        raise NotFound("This result no longer exists. Open the list again.")
    return event.result


def suggest_result(call: Call, number: int = 0) -> SuggestedResult:
    """Draft `number`, from 0, for `call`: consecutive drafts differ if possible.

    From the tool's output schema, or without one from the words of its name or description.
    """
    tool = call.tool if call.tool is not None else Tool(call.name)
    arguments = _arguments(call.arguments)
    schema = tool.config.get("output_schema")
    if schema is not None:
        first = zlib.crc32(as_json(arguments).encode()) | 1  # same seed as mocks with samples
        return SuggestedResult(
            _distinct_draft(schema, arguments, first, number, checked=True), "schema"
        )
    first = zlib.crc32(f"{tool.name} {as_json(arguments)}".encode()) | 1
    return SuggestedResult(
        _distinct_draft(_shape(tool), arguments, first, number, checked=False), "name"
    )


def _arguments(text: str) -> dict[str, Any]:
    try:
        return parse_arguments(text) if isinstance(strict_json.parse(text), dict) else {}
    except strict_json.InvalidJSON:
        return {}


def _distinct_draft(
    schema: Any, arguments: Mapping[str, Any], first: int, number: int, *, checked: bool
) -> str:
    distinct: dict[str, None] = {}  # an ordered set
    for step in range(_MOST_SEEDS):
        value = sample_value(schema, seed=first + step)
        value = _echo_arguments(value, arguments, schema if checked else None)
        distinct[value if isinstance(value, str) and not checked else as_json(value)] = None
        if len(distinct) > number:
            break
    return list(distinct)[number % len(distinct)]


def _echo_arguments(value: Any, arguments: Mapping[str, Any], schema: Any) -> Any:
    """Adds the arguments that a result would repeat: those that the schema permits, or without a
    schema the short ones, in front."""
    if not isinstance(value, dict):
        return value
    short = {name: argument for name, argument in arguments.items() if _is_short(argument)}
    if schema is None:
        some = dict(list(short.items())[:_MOST_REPEATED]) if "results" not in value else {}
        return {**some, **value}
    echoed = {**value, **{name: short[name] for name in value if name in short}}
    return value if schema_problems(schema, json.loads(as_json(echoed))) else echoed


def _is_short(value: Any) -> bool:
    return isinstance(value, ExactNumber | bool) or (
        isinstance(value, str) and len(value) <= _LONGEST_REPEATED
    )


def _shape(tool: Tool) -> Any:
    for text in (tool.name, tool.description[:_LONGEST_REPEATED]):
        about = stems(words(text))
        for known, shape in _SHAPES:
            if about & stems(known.split()):
                return shape
    return _DONE


def _enum_schema(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _results(**properties: Any) -> dict[str, Any]:
    return _object(results={"type": "array", "items": _object(**properties), "minItems": 1})


_DONE = _object(ok={"const": True}, id=_enum_schema("a1b2", "c3d4", "e5f6"))

_SHAPES: tuple[tuple[str, Any], ...] = (
    (
        """weather forecast temperature rain rainy umbrella sunny snow hot cold warm wind windy
        humid humidity degrees celsius fahrenheit climate meteo sun""",
        _object(
            sky=_enum_schema("clear", "light rain", "cloudy", "snow"),
            temperature=_enum_schema(18, 11, 24, 3),
            unit={"const": "celsius"},
            wind_kmh=_enum_schema(9, 21, 34),
        ),
    ),
    (
        "event calendar meeting appointment schedule lunch dinner breakfast booking call party",
        _object(ok={"const": True}, id=_enum_schema("evt_4821", "evt_1093", "evt_77")),
    ),
    (
        "email mail inbox recipient",
        _object(
            ok={"const": True}, id=_enum_schema("msg_31", "msg_58"), status=_enum_schema("sent")
        ),
    ),
    (
        "message sms text slack chat ping notify notification channel",
        _object(
            ok={"const": True}, id=_enum_schema("msg_12", "msg_90"), status=_enum_schema("sent")
        ),
    ),
    (
        "flight fly flying plane airline airport",
        _results(
            flight=_enum_schema("XX 1204", "YY 88", "ZZ 417"),
            departs=_enum_schema("2026-05-04T07:25", "2026-05-04T13:10"),
            price=_enum_schema(129, 84.5, 212),
            currency=_enum_schema("EUR"),
        ),
    ),
    (
        "hotel room accommodation stay restaurant eat food dinner table reservation reserve",
        _results(
            name=_enum_schema("Riverside", "The Old Mill", "Station House"),
            price=_enum_schema(89, 34.5, 140),
            rating=_enum_schema(4.4, 3.9, 4.8),
        ),
    ),
    (
        "route directions navigate navigation drive distance map",
        _object(distance_km=_enum_schema(12.4, 3.1, 88), minutes=_enum_schema(19, 42, 65)),
    ),
    (
        """stock share ticker quote market crypto bitcoin coin price cost currency exchange money
        euro dollar""",
        _object(price=_enum_schema(182.4, 97.15, 1.08), currency=_enum_schema("USD", "EUR")),
    ),
    (
        "sql select database rows db",
        _object(
            rows=_enum_schema(
                [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Alan"}], [{"id": 7, "name": "Grace"}]
            )
        ),
    ),
    (
        "translate translation translator language",
        _object(text=_enum_schema("Bonjour", "Hola", "Guten Tag")),
    ),
    (
        """calculator calculate calculation compute math arithmetic evaluate sum product plus minus
        divide multiply expression equation solve percent root square""",
        _enum_schema("42", "7", "3.5"),
    ),
    (
        "user customer contact account profile employee",
        _object(
            id=_enum_schema(42, 7),
            name=_enum_schema("Ada Lovelace", "Alan Turing"),
            active=_enum_schema(True),
        ),
    ),
    (
        "track package parcel shipment delivery shipping",
        _object(status=_enum_schema("in transit", "delivered"), days_left=_enum_schema(2, 1)),
    ),
    (
        "news headlines article latest",
        _results(
            title=_enum_schema("Notes of the week", "A quiet day"), source=_enum_schema("Wire")
        ),
    ),
    (
        "search google lookup find browse web internet wikipedia research query",
        _results(
            title=_enum_schema("A short introduction", "Questions and answers", "The manual"),
            url=_enum_schema("https://example.com/page", "https://example.org/"),
            snippet=_enum_schema("What it is, and how it is used.", "Five steps, with examples."),
        ),
    ),
    (
        "url http https website webpage page link fetch download",
        _enum_schema("# Example\n\nThis page is an example.", "# Welcome\n\nNothing new today."),
    ),
    ("delete remove erase drop trash", _object(ok={"const": True}, deleted=_enum_schema(1, 3))),
    (
        "file folder directory path document txt csv",
        _enum_schema("First line\nSecond line\n", "# Notes\n\n- one\n- two\n"),
    ),
    (
        "time clock timezone",
        _object(time=_enum_schema("2026-05-04T14:30:00Z", "2026-11-21T08:05:00Z")),
    ),
)
"""Words of a tool's name or description, and a schema for its result; the first match is used."""
