"""A client's loop of tool calls against the simulator's model, over the wire form of each protocol,
with histories in the shapes that clients send them in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from playground.core.messages import ModelRequest
from playground.protocols import registry
from playground.protocols.gemini import limits
from playground.protocols.server import ModelReply, ReplyBlock
from playground.simulator.model import reply as model_reply
from tests.simulator.factories import TWO

PROMPT = "What is 17*23, and the weather in Paris?"
RESULTS = {"calculator": "391", "get_weather": "sunny"}
SCHEMAS = {tool.name: dict(tool.parameters) for tool in TWO}
Shape = dict[str, Any]
"""`text`: before or behind the calls, or left out. `split`: each part of a turn, and each result,
is a message of its own. `ids`: the provider's, none, or other ones in the results. `named`: results
have the name of their tool. `beside`: text that comes with the results."""
SHAPES: list[Shape] = [
    dict(zip(("text", "split", "ids", "named", "beside"), values, strict=True))
    for values in product(
        ("before", "behind", "none"),
        (False, True),
        ("own", "none", "other"),
        (True, False),
        ("", "<system-reminder>Use calculator on 3*4.</system-reminder>", "Go on."),
    )
]


def in_order(reply: ModelReply, shape: Shape) -> list[ReplyBlock]:
    texts = [block for block in reply.blocks if block.kind == "text"]
    calls = list(reply.calls)
    match shape["text"]:
        case "before":
            return [*texts, *calls]
        case "behind":
            return [*calls, *texts]
    return calls


def grouped(entries: list[Any], shape: Shape) -> list[list[Any]]:
    return [[entry] for entry in entries] if shape["split"] else [entries]


def result_id(call_id: str, shape: Shape) -> str:
    return {"own": call_id, "none": "", "other": f"other_{call_id}"}[shape["ids"]]


def member(name: str, value: str) -> dict[str, str]:
    return {name: value} if value else {}


def chat(reply: ModelReply, shape: Shape, turn: int) -> Iterator[dict[str, Any]]:
    """The messages of a turn with its results, as Chat Completions or Ollama."""
    numbered = list(enumerate(in_order(reply, shape)))
    for group in grouped(numbered, shape):
        texts = [block.text for _, block in group if block.kind == "text"]
        calls = [
            {
                **({"id": f"c{turn}{n}"} if shape["ids"] != "none" else {}),
                **({"type": "function"} if shape["chat"] else {}),
                "function": {
                    "name": block.name,
                    "arguments": block.text if shape["chat"] else json.loads(block.text),
                },
            }
            for n, block in group
            if block.kind == "call"
        ]
        calling = {"tool_calls": calls} if calls else {}
        yield {"role": "assistant", "content": "".join(texts), **calling}
    for n, block in numbered:
        if block.kind == "call":
            name = block.name if shape["named"] else ""
            own = member("name" if shape["chat"] else "tool_name", name)
            id_ = member("tool_call_id", result_id(f"c{turn}{n}", shape))
            yield {"role": "tool", "content": RESULTS[block.name], **own, **id_}
    if shape["beside"]:
        yield {"role": "user", "content": shape["beside"]}


def anthropic(reply: ModelReply, shape: Shape, turn: int) -> Iterator[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    result_blocks: list[dict[str, Any]] = []
    for n, block in enumerate(in_order(reply, shape)):
        id_ = f"toolu_{turn}{n}"
        if block.kind == "text":
            blocks.append({"type": "text", "text": block.text})
            continue
        value = json.loads(block.text)
        blocks.append({"type": "tool_use", "id": id_, "name": block.name, "input": value})
        answered = result_id(id_, shape)
        content = RESULTS[block.name]
        result_blocks.append({"type": "tool_result", "tool_use_id": answered, "content": content})
    if shape["beside"]:
        result_blocks.append({"type": "text", "text": shape["beside"]})
    for role, entries in (("assistant", blocks), ("user", result_blocks)):
        for group in grouped(entries, shape):
            yield {"role": role, "content": group}


def gemini(reply: ModelReply, shape: Shape, turn: int) -> Iterator[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    response_parts: list[dict[str, Any]] = []
    for n, block in enumerate(in_order(reply, shape)):
        if block.kind == "text":
            parts.append({"text": block.text})
            continue
        id_ = f"g{turn}{n}" if shape["ids"] != "none" else ""
        document = {"name": block.name, "args": json.loads(block.text), **member("id", id_)}
        signed = {"thoughtSignature": limits.SKIP_VALIDATOR} if not response_parts else {}
        parts.append({"functionCall": document, **signed})
        answer = {"name": block.name, "response": {"output": RESULTS[block.name]}}
        response_parts.append(
            {"functionResponse": {**answer, **member("id", result_id(id_, shape))}}
        )
    if shape["beside"]:
        response_parts.append({"text": shape["beside"]})
    for role, entries in (("model", parts), ("user", response_parts)):
        for group in grouped(entries, shape):
            yield {"role": role, "parts": group}


def responses(reply: ModelReply, shape: Shape, turn: int) -> Iterator[dict[str, Any]]:
    numbered = list(enumerate(in_order(reply, shape)))
    for n, block in numbered:
        if block.kind == "text":
            yield {"type": "message", "role": "assistant", "content": block.text}
        else:
            document = {"name": block.name, "arguments": block.text, "call_id": f"c{turn}{n}"}
            yield {"type": "function_call", **document}
    for n, block in numbered:
        if block.kind == "call":
            id_, output = result_id(f"c{turn}{n}", shape), RESULTS[block.name]
            yield {"type": "function_call_output", "call_id": id_, "output": output}
    if shape["beside"]:
        yield {"role": "user", "content": shape["beside"]}


def function_tools(*, nested: bool) -> list[Any]:
    entries = [{"name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
    return [
        {"type": "function", "function": entry} if nested else {"type": "function", **entry}
        for entry in entries
    ]


def request(protocol: str, history: list[Any], **members: Any) -> ModelRequest:
    """The request that the protocol's server parses. BadRequest where it refuses the history."""
    body: dict[str, Any]
    match protocol:
        case "openai_chat" | "ollama":
            prompt = {"role": "user", "content": PROMPT}
            body = {"messages": [prompt, *history], "tools": function_tools(nested=True)}
        case "openai_responses":
            prompt = {"role": "user", "content": PROMPT}
            body = {"input": [prompt, *history], "tools": function_tools(nested=False)}
        case "anthropic":
            tools = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
            prompt = {"role": "user", "content": PROMPT}
            body = {"messages": [prompt, *history], "tools": tools, "max_tokens": 1000}
        case _:
            named = [{"name": n, "parametersJsonSchema": schema} for n, schema in SCHEMAS.items()]
            first = {"role": "user", "parts": [{"text": PROMPT}]}
            body = {"contents": [first, *history], "tools": [{"functionDeclarations": named}]}
    end = registry.ENDS[protocol]
    path = end.path.replace("{model}", "m")
    headers = {"anthropic-version": "2023-06-01"}
    return end.parse(json.dumps({"model": "m", **body, **members}).encode(), headers, path).request


def loop(protocol: str, shape: Shape, **members: Any) -> tuple[list[str], str]:
    """The calls of a run to its end, and the answer. `members` are further ones of each request."""
    turns = {"anthropic": anthropic, "gemini": gemini, "openai_responses": responses}
    encode = turns.get(protocol, chat)
    history: list[Any] = []
    names: list[str] = []
    for turn in range(5):
        reply = model_reply(request(protocol, history, **members))
        if not reply.calls:
            return names, reply.text
        names += [block.name for block in reply.calls]
        history += encode(reply, {**shape, "chat": protocol == "openai_chat"}, turn)
    raise AssertionError(f"no end: {names}")
