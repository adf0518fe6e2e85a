"""Takes requests and encodes replies, streamed or whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from playground.core.tools import Tool
from playground.protocols.request import dicts, model_request
from playground.protocols.server import (
    BadRequest,
    IdSource,
    ModelReply,
    OutgoingFrame,
    ParsedRequest,
    ProviderServer,
    encode_json,
    object_of,
    pieces,
    tokens,
)

from . import FACTS
from .request import READER


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """The request that `body` holds."""
    value = object_of(body)
    tools = tuple(
        Tool(entry["name"], entry["about"], entry["schema"]) for entry in dicts(value["tools"])
    )
    request = model_request(READER, value, tools, {"max_tokens": value.get("most")})
    return ParsedRequest(request, tokens(body.decode()))


def frames(reply: ModelReply, parsed: ParsedRequest, ids: IdSource) -> Iterator[OutgoingFrame]:
    """The stream of one answer."""
    for place, block in enumerate(reply.blocks):
        if block.kind == "call":
            line = {"call": block.name, "id": ids.id("c", place), "arguments": block.text}
            yield OutgoingFrame(encode_json(line) + b"\n", tag="args")
        elif block.kind == "text":
            for piece in pieces(block, ids.chance()):
                yield OutgoingFrame(encode_json({"say": piece}) + b"\n", tag="text")
    yield OutgoingFrame(encode_json({"end": reply.stop}) + b"\n", tag="finish")


def body(reply: ModelReply, parsed: ParsedRequest, ids: IdSource) -> bytes:
    """The same lines at once."""
    return b"".join(frame.data for frame in frames(reply, parsed, ids))


def key(headers: Mapping[str, str]) -> str:
    """The key of a request, "" where it has none."""
    return headers.get("authorization", "").removeprefix("Bearer ")


def error(problem: BadRequest, request_id: str) -> bytes:
    """A sentence and nothing else."""
    return encode_json({"error": str(problem)})


END = ProviderServer(
    name="say",
    base=FACTS.simulated,
    path=FACTS.path,
    takes=re.compile(FACTS.path),
    models_path="/models",
    key=key,
    parse=parse,
    frames=frames,
    whole=body,
    error=error,
    error_frame=lambda problem: error(problem, "") + b"\n",
    kinds={400: ("", None), 404: ("", None)},
    no_key=None,
    bad_key=lambda key: BadRequest("The key is wrong.", 401),
    headers=lambda request_id: {},
    models=lambda created: encode_json({"models": [{"id": "simulator"}]}),
    stream_type="application/x-ndjson",
)
