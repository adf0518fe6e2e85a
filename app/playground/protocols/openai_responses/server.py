"""Accepts requests like OpenAI Responses and encodes replies, streamed or whole. The checks are in
`refuse`.

https://platform.openai.com/docs/api-reference/responses/create
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from random import Random
from typing import Any

from playground.core.tools import Tool
from playground.protocols.openai_chat import server
from playground.protocols.openai_responses import FACTS, refuse
from playground.protocols.openai_responses.request import READER
from playground.protocols.openai_responses.stored import RequestContext, ResponseStore
from playground.protocols.request import member, model_request
from playground.protocols.server import (
    FIRST_TOKEN_S,
    BadRequest,
    IdSource,
    ModelReply,
    OutgoingFrame,
    ParsedRequest,
    ProviderServer,
    ReplyBlock,
    SideEndpoint,
    Tag,
    compact_json,
    delta_pause,
    encode_json,
    object_of,
    pieces,
    raw_input,
    tokens,
)

_STATUSES = {"stop": "completed", "calls": "completed", "error": "failed"}
_FAILED = "The server had an error while processing your request. Sorry about that!"
_REASONS = {"length": "max_output_tokens", "refusal": "content_filter"}
_DEFAULTS: Mapping[str, Any] = {
    "background": False,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
    "metadata": {},
}
_ECHOED = (
    *("instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"),
    *("previous_response_id", "reasoning", "store", "temperature", "text", "tool_choice"),
    *("tools", "top_p", "truncation", "background", "conversation", "prompt", "user"),
)
"""Members of the request that an answer repeats."""

_COUNTING = re.compile("/responses/input_tokens")


def parse(
    body: bytes, headers: Mapping[str, str], target: str = "", store: ResponseStore | None = None
) -> ParsedRequest:
    """Parses a request body. Raises BadRequest in OpenAI's own words. Without a `store` nothing is
    stored yet."""
    data = object_of(body)
    listed = with_items(data)
    refuse.check_body(listed)
    context = (store or ResponseStore()).context(listed)
    listed = {"model": server.MODELS[0], **listed, "input": context.given}
    refuse.check(listed, context.before)
    refuse.check_offer(data, tuple(_tools(data.get("tools") or ())))
    return read({"model": listed["model"], **data}, context)


def read(data: Mapping[str, Any], context: RequestContext) -> ParsedRequest:
    """The request of a body with a valid shape; `context` has its input."""
    tools = tuple(_tools(data.get("tools") or ()))
    with_context = {**data, "input": context.items}
    request = model_request(READER, with_context, tools, _params(data), failures_in_text=True)
    spent = [data.get("input"), data.get("tools"), data.get("instructions")]
    spent += [context.before] if context.before else []
    return ParsedRequest(
        replace(request, tools=request.offered),
        tokens(compact_json(spent)),
        context=context,
        # The same request may be sent to a conversation twice; its items need other ids then.
        salt=str(len(context.before)) if context.conversation else "",
    )


def keep(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource, store: ResponseStore) -> None:
    """Stores the response to a request that `parse` read with this store."""
    params, context = parsed.request.params, parsed.context
    if not params["store"] and not context.conversation:
        return
    store.keep(
        answer_body(reply, parsed, stamp),
        context,
        store=params["store"],
        background=params["background"],
    )


def with_items(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body with a list as input, whose items have a type where it can be inferred."""
    given = data.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}] if given else []
    return {**data, "input": refuse.with_types(given)} if isinstance(given, list) else data


def _tools(entries: Sequence[Mapping[str, Any]]) -> Iterator[Tool]:
    """The tools that the client runs."""
    for entry in entries:
        if entry["type"] == "function":
            # Without the member, the real server makes a schema strict, and never refuses.
            yield server.function_tool(entry)
        elif entry["type"] == "custom":
            yield server.free_tool(entry, entry.get("format") or {"type": "text"})


def _params(data: Mapping[str, Any]) -> dict[str, Any]:
    reasoning, form = member(data, "reasoning"), member(member(data, "text"), "format")
    summary, effort = reasoning.get("summary"), reasoning.get("effort")
    forms = {"json_object": {}, "json_schema": {"schema": form.get("schema")}}
    return {
        "max_tokens": data.get("max_output_tokens"),
        "thinking": summary is not None and effort != "none",
        "format": forms.get(form.get("type", "")),
        "encrypted": "reasoning.encrypted_content" in (data.get("include") or ()),
        "store": data.get("store") is not False,
        "background": data.get("background") is True,
        "echo": _echo(data),
    }


def _echo(data: Mapping[str, Any]) -> dict[str, Any]:
    echo = {name: data[name] for name in _ECHOED if data.get(name) is not None}
    if isinstance(echo.get("conversation"), str):
        echo["conversation"] = {"id": echo["conversation"]}
    return echo


@dataclass(frozen=True)
class _Kind:
    """How an item's text is streamed: its deltas, and the event with the whole."""

    delta: str
    whole: str
    member: str
    tag: Tag


_KINDS = {
    "reasoning": _Kind(
        "reasoning_summary_text.delta", "reasoning_summary_text.done", "text", "text"
    ),
    "message": _Kind("output_text.delta", "output_text.done", "text", "text"),
    "function_call": _Kind(
        "function_call_arguments.delta", "function_call_arguments.done", "arguments", "args"
    ),
    "custom_tool_call": _Kind(
        "custom_tool_call_input.delta", "custom_tool_call_input.done", "input", "args"
    ),
}


@dataclass(frozen=True)
class _Item:
    """One item of the output: `block` holds its text as sent."""

    index: int
    type: str
    id: str
    block: ReplyBlock
    call_id: str = ""
    encrypted: str = ""
    cut: bool = False

    def announced_item(self) -> dict[str, Any]:
        """The item as announced in a stream."""
        return self._item_json("in_progress", None)

    def finished_item(self) -> dict[str, Any]:
        return self._item_json("incomplete" if self.cut else "completed", self.block.text)

    def _item_json(self, status: str, text: str | None) -> dict[str, Any]:
        head = {"id": self.id, "type": self.type}
        match self.type:
            case "reasoning":
                summary = [] if text is None else [{"type": "summary_text", "text": text}]
                opaque = {"encrypted_content": self.encrypted} if self.encrypted else {}
                return {**head, **opaque, "summary": summary}
            case "message":
                content = [] if text is None else [_piece(text)]
                return {**head, "status": status, "content": content, "role": "assistant"}
            case "function_call":
                members = {"arguments": text or "", "call_id": self.call_id}
                return {**head, "status": status, **members, "name": self.block.name}
            case _:
                members = {"call_id": self.call_id, "input": text or ""}
                return {**head, "status": status, **members, "name": self.block.name}


def _piece(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _items(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> list[_Item]:
    freeform = {tool.name for tool in parsed.request.tools if tool.format is not None}
    cut = len(reply.blocks) - 1 if reply.stop == "length" else -1
    items = []
    for index, block in enumerate(reply.blocks):
        encrypted = call_id = ""
        match block.kind:
            case "thinking":
                type_, prefix = "reasoning", "rs_"
                encrypted = (
                    refuse.sealed_reasoning(block.text)
                    if parsed.request.params.get("encrypted")
                    else ""
                )
            case "text":
                type_, prefix = "message", "msg_"
            case "call" if block.name in freeform:
                type_, prefix, call_id = "custom_tool_call", "ctc_", stamp.id("call_", index)
                block = raw_input(block)
            case "call":
                type_, prefix, call_id = "function_call", "fc_", stamp.id("call_", index)
        id_ = stamp.id(prefix, index, 32)
        items.append(
            _Item(
                index,
                type=type_,
                id=id_,
                block=block,
                call_id=call_id,
                encrypted=encrypted,
                cut=index == cut,
            )
        )
    return items


def frames(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> Iterator[OutgoingFrame]:
    """The stream of one answer: each item is announced, grows, is sent whole and is done."""
    chance, number = stamp.chance(), count()

    def frame(type_: str, pause: float = 0.0, tag: Tag = "other", **members: Any) -> OutgoingFrame:
        event = {"type": f"response.{type_}", "sequence_number": next(number), **members}
        return OutgoingFrame(_sse(event), pause, tag)

    response = _response(parsed, stamp, "in_progress")
    yield frame("created", chance.uniform(*FIRST_TOKEN_S), "start", response=response)
    yield frame("in_progress", response=response)
    items = _items(reply, parsed, stamp)
    for item in items:
        opening: Tag = "args" if item.block.kind == "call" else "other"
        yield frame(
            "output_item.added", 0.0, opening, output_index=item.index, item=item.announced_item()
        )
        for type_, pause, tag, members in _growth(item, chance):
            place = {"item_id": item.id, "output_index": item.index}
            yield frame(type_, pause, tag, **place, **members)
        yield frame("output_item.done", output_index=item.index, item=item.finished_item())
    status, final = _final_response(items, reply, parsed, stamp)
    yield frame(status, 0.0, "finish", response=final)


def _growth(item: _Item, chance: Random) -> Iterator[tuple[str, float, Tag, dict[str, Any]]]:
    """The events between the announcement of an item and its end."""
    kind, text = _KINDS[item.type], item.block.text
    place: dict[str, Any] = {}
    opened = ""
    if item.type == "reasoning":
        place, opened = {"summary_index": 0}, "reasoning_summary_part"
        part, whole = ({"type": "summary_text", "text": content} for content in ("", text))
    elif item.type == "message":
        place, opened, part, whole = {"content_index": 0}, "content_part", _piece(""), _piece(text)
    if opened:
        yield f"{opened}.added", 0.0, "other", {**place, "part": part}
    logprobs: dict[str, Any] = {"logprobs": []} if item.type == "message" else {}
    for piece in pieces(item.block, chance):
        noise = {
            "obfuscation": "".join(chance.choices("abcdefghij0123456789", k=16 - len(piece) % 16))
        }
        members = {**place, **logprobs, **noise, "delta": piece}
        yield kind.delta, delta_pause(item.block, chance), kind.tag, members
    yield kind.whole, 0.0, "other", {**place, **logprobs, kind.member: text}
    if opened:
        yield f"{opened}.done", 0.0, "other", {**place, "part": whole}


def _sse(event: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), encode_json(event))


def _response(parsed: ParsedRequest, stamp: IdSource, status: str) -> dict[str, Any]:
    head = {
        "id": stamp.id("resp_", 0, 32),
        "object": "response",
        "created_at": stamp.created,
        "status": status,
        "model": parsed.request.model,
        "output": [],
        "usage": None,
    }
    return {**_DEFAULTS, **parsed.request.params.get("echo", {}), **head}


def _final_response(
    items: list[_Item], reply: ModelReply, parsed: ParsedRequest, stamp: IdSource
) -> tuple[str, dict[str, Any]]:
    """The final status, and the response with it."""
    status = _STATUSES.get(reply.stop, "incomplete")
    body = _response(parsed, stamp, status) | {"usage": _usage(reply, parsed)}
    if status == "incomplete":
        body["incomplete_details"] = {"reason": _REASONS.get(reply.stop, reply.stop)}
    elif status == "failed":
        body["error"] = {"code": "server_error", "message": _FAILED}
    body["output"] = [item.finished_item() for item in items]
    return status, body


def answer_body(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> bytes:
    """The answer to a request with `stream` false."""
    return encode_json(_final_response(_items(reply, parsed, stamp), reply, parsed, stamp)[1])


def _usage(reply: ModelReply, parsed: ParsedRequest) -> dict[str, Any]:
    output_tokens = sum(tokens(b.text) + (8 if b.kind == "call" else 0) for b in reply.blocks)
    thought = sum(tokens(block.text) for block in reply.blocks if block.kind == "thinking")
    return {
        "input_tokens": parsed.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": parsed.input_tokens + output_tokens,
    }


def error_frame(problem: BadRequest) -> bytes:
    """The error as the two events that end a stream which has begun."""
    body = {"code": problem.code or problem.kind, "message": str(problem)}
    event = {"type": "error", "sequence_number": 0}
    full = {"type": problem.kind, **body, "param": problem.param}
    response = {"object": "response", "status": "failed", "error": body, "output": []}
    failure = {"type": "response.failed", "sequence_number": 1, "response": response}
    return _sse({**event, "error": full}) + _sse(failure)


def _count(
    body: bytes,
    headers: Mapping[str, str],
    target: str,
    created: int,
    store: ResponseStore | None = None,
) -> bytes:
    """Answers a token count request, which is parsed like one for a response."""
    input_tokens = parse(body, headers, store=store).input_tokens
    return encode_json({"object": "response.input_tokens", "input_tokens": input_tokens})


def _storing_end() -> ProviderServer:
    """The end with a store of its own, for one key."""
    store = ResponseStore()
    counting = SideEndpoint("POST", _COUNTING, partial(_count, store=store))
    return replace(
        END,
        parse=partial(parse, store=store),
        keep=partial(keep, store=store),
        beside=(counting, *store.endpoints()),
    )


END = ProviderServer(
    name="openai_responses",
    base=FACTS.simulated,
    path=FACTS.path,
    takes=re.compile(FACTS.path),
    models_path=server.END.models_path,
    key=server.key,
    parse=parse,
    frames=frames,
    whole=answer_body,
    error=server.error,
    error_frame=error_frame,
    kinds=server.KINDS,
    no_key=server.END.no_key,
    bad_key=server.END.bad_key,
    headers=server.END.headers,
    models=server.models,
    beside=(SideEndpoint("POST", _COUNTING, _count), *ResponseStore().endpoints()),
    for_key=_storing_end,
)
