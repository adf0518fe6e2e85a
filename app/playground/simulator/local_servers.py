"""llama.cpp and vLLM as the simulator imitates them: OpenAI's two protocols, below a base path with
the name of the server's profile (`/llamacpp/v1`).

They are lenient where OpenAI is strict (unknown members, names of tools, results without calls) and
strict where it is not: chat templates get the arguments of earlier calls as an object, so a call
whose arguments are not JSON is refused, with every later request of its conversation. llama.cpp
writes its own form of a Responses stream, without indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from playground.core.json_values import load_json
from playground.protocols.openai_chat import server as chat
from playground.protocols.openai_chat.limits import OpenAIPhrases
from playground.protocols.openai_responses import server as responses
from playground.protocols.openai_responses.stored import RequestContext
from playground.protocols.request import dicts, member
from playground.protocols.server import (
    FIRST_TOKEN_S,
    BadRequest,
    Citation,
    IdSource,
    ModelReply,
    OutgoingFrame,
    ParsedRequest,
    ProviderServer,
    ReplyBlock,
    Shape,
    check_shape,
    delta_pause,
    encode_json,
    object_of,
    pieces,
    tokens,
)

_OPEN_CALL = "Cannot continue an assistant message that contains tool calls."

_DELTAS = {
    "thinking": "reasoning_text.delta",
    "text": "output_text.delta",
    "call": "function_call_arguments.delta",
}
_TAGS: Mapping[str, Any] = {"thinking": "text", "text": "text", "call": "args"}


@dataclass(frozen=True)
class LocalServerKind:
    """What is its own of a server. `name` is that of its profile; `refuse_arguments` says that the
    arguments of a call are no JSON, `refuse_stored` that something stored is named.
    `closes_calls`: it refuses a history that ends with a call, and items given by reference."""

    name: str
    error_type: str
    refuse_arguments: Callable[[str], BadRequest]
    refuse_stored: Callable[[str], BadRequest]
    takes_empty_arguments: bool
    closes_calls: bool
    frames: Callable[[ModelReply, ParsedRequest, IdSource], Iterator[OutgoingFrame]]
    whole: Callable[[ModelReply, ParsedRequest, IdSource], bytes]

    def ends(self) -> tuple[ProviderServer, ...]:
        kinds = {**chat.KINDS, 400: (self.error_type, None), 404: (self.error_type, None)}

        def local_end(end: ProviderServer) -> ProviderServer:
            return replace(
                end,
                base=f"/{self.name}/v1",
                error=_error,
                error_frame=_error_frame,
                no_key=None,
                kinds=kinds,
                for_key=None,
            )

        return (
            replace(local_end(chat.END), parse=partial(_parse_chat, self)),
            replace(
                local_end(responses.END),
                parse=partial(_parse_responses, self),
                frames=self.frames,
                whole=self.whole,
                beside=(),
            ),
        )


# Requests.

_SERVERS = Citation("llama.cpp and vLLM refuse other types; the words are ours", inferred=True)
_LLAMACPP = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-common.cpp"
_VLLM = "https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/chat_utils.py"
_OBJECT, _LIST = Shape(dict, "an object", null=True), Shape(list, "an array", null=True)
_FUNCTION = Shape(
    dict,
    "an object",
    members={
        "name": Shape(str, "a string"),
        "description": Shape(str, "a string", null=True),
        "parameters": _OBJECT,
    },
    required=("name",),
)
_COUNTS = dict.fromkeys(
    ("max_tokens", "max_completion_tokens", "max_output_tokens", "n"),
    Shape(int, "an integer", null=True),
)
_CHAT = Shape(
    dict,
    members={
        **_COUNTS,
        "model": Shape(str, "a string", null=True),
        "stream_options": _OBJECT,
        "response_format": _OBJECT,
        "messages": replace(_LIST, null=False, each=Shape(dict, "an object")),
        "tools": replace(
            _LIST,
            each=Shape(
                dict, "an object", tag="type", variants={"function": Shape(
                    members={"function": _FUNCTION}, required=("function",))},
                closed=True, untagged="function",
            ),
        ),
    },
    required=("messages",),
)  # fmt: skip
_RESPONSES = Shape(
    dict,
    members={
        **_COUNTS,
        "model": Shape(str, "a string", null=True),
        "instructions": Shape(str, "a string", null=True),
        "reasoning": _OBJECT,
        "text": _OBJECT,
        "include": _LIST,
        "input": replace(
            _LIST, null=False, each=Shape(dict, "an object", required=("type",),
                                          members={"type": Shape(str, "a string")}),
        ),
        "tools": replace(_LIST, each=Shape(
            dict, "an object", members={"type": Shape(str, "a string")}, required=("type",),
            variants={"function": _FUNCTION, "custom": _FUNCTION})),
    },
    required=("input",),
)  # fmt: skip


def _parse_chat(
    server: LocalServerKind, body: bytes, headers: Mapping[str, str], target: str = ""
) -> ParsedRequest:
    data = {"model": chat.MODELS[0], **object_of(body)}
    check_shape(data, _CHAT, OpenAIPhrases(_SERVERS))
    functions = (member(call, "function") for call in _chat_calls(data["messages"]))
    _check_arguments(server, (function.get("arguments") for function in functions))
    if server.closes_calls and any(_chat_calls(data["messages"][-1:])):
        raise BadRequest(_OPEN_CALL, kind=server.error_type, source=_LLAMACPP)
    return chat.read({name: value for name, value in data.items() if name != "functions"})


def _parse_responses(
    server: LocalServerKind, body: bytes, headers: Mapping[str, str], target: str = ""
) -> ParsedRequest:
    data = {"model": chat.MODELS[0], **object_of(body)}
    listed = responses.with_items(data)
    check_shape(listed, _RESPONSES, OpenAIPhrases(_SERVERS))
    if (previous := data.get("previous_response_id")) is not None:
        raise server.refuse_stored(str(previous))
    items = listed["input"]
    if server.closes_calls and any(item["type"] == "item_reference" for item in items):
        sentence = "Cannot determine type of 'item'"
        raise BadRequest(sentence, kind=server.error_type, source=_LLAMACPP)
    calls = (item for item in items if item["type"] == "function_call")
    _check_arguments(server, (call.get("arguments") for call in calls))
    if server.closes_calls and items and items[-1]["type"] == "function_call":
        raise BadRequest(_OPEN_CALL, kind=server.error_type, source=_LLAMACPP)
    return responses.read(data, RequestContext((), items))


def _chat_calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        yield from dicts(message.get("tool_calls"))


def _check_arguments(server: LocalServerKind, several: Iterable[Any]) -> None:
    """Checks the arguments of the calls of a history. Any JSON is accepted."""
    for arguments in several:
        if not isinstance(arguments, str) or (not arguments and server.takes_empty_arguments):
            continue
        try:
            load_json(arguments)
        except ValueError as error:
            raise server.refuse_arguments(str(error)) from error


# Errors.


def _error(problem: BadRequest, request_id: str) -> bytes:
    body = {"code": problem.status, "message": str(problem), "type": problem.kind}
    return encode_json({"error": body})


def _error_frame(problem: BadRequest) -> bytes:
    return b"data: %s\n\n" % _error(problem, "")


def _llamacpp_arguments(reason: str) -> BadRequest:
    return BadRequest(
        f"Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] {reason}",
        500,
        kind="server_error",
        source=_LLAMACPP,
    )


def _llamacpp_stored(id_: str) -> BadRequest:
    return BadRequest("llama.cpp does not support 'previous_response_id'.", source=_LLAMACPP)


def _vllm_arguments(reason: str) -> BadRequest:
    return BadRequest(reason, kind="BadRequestError", source=_VLLM, inferred=True)


def _vllm_stored(id_: str) -> BadRequest:
    sentence = f"Response with id '{id_}' not found."
    return BadRequest(sentence, 404, kind="NotFoundError", source=_VLLM, inferred=True)


# The Responses of llama.cpp: items are told apart by ids, calls by their call ids; all ends come
# after all deltas. https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-task.cpp


def _llamacpp_frames(
    reply: ModelReply, parsed: ParsedRequest, stamp: IdSource
) -> Iterator[OutgoingFrame]:
    chance = stamp.chance()
    response = {"id": stamp.id("resp_", 0, 32), "object": "response", "status": "in_progress"}
    start = chance.uniform(*FIRST_TOKEN_S)
    yield OutgoingFrame(_event("created", response=response), start, "start")
    yield OutgoingFrame(_event("in_progress", response=response))
    for place, block in enumerate(reply.blocks):
        item, id_ = _begun_item(block, place, stamp), _item_id(block, place, stamp)
        yield OutgoingFrame(_event("output_item.added", item=item))
        if block.kind == "text":
            part = {"type": "output_text", "text": ""}
            yield OutgoingFrame(_event("content_part.added", item_id=id_, part=part))
        for piece in pieces(block, chance):
            data = _event(_DELTAS[block.kind], item_id=id_, delta=piece)
            tag = _TAGS[block.kind]
            yield OutgoingFrame(data, delta_pause(block, chance), tag)
    for place, block in enumerate(reply.blocks):
        id_ = _item_id(block, place, stamp)
        if block.kind == "text":
            yield OutgoingFrame(_event("output_text.done", item_id=id_, text=block.text))
            part = _text_part(block)
            yield OutgoingFrame(_event("content_part.done", item_id=id_, part=part))
        yield OutgoingFrame(_event("output_item.done", item=_ended_item(block, place, stamp)))
    final = _llamacpp_response(reply, parsed, stamp)
    yield OutgoingFrame(_event("completed", response=final), 0.0, "finish")


def _event(type_: str, **members: Any) -> bytes:
    event = {"type": f"response.{type_}", **members}
    return b"event: response.%s\ndata: %s\n\n" % (type_.encode(), encode_json(event))


def _item_id(block: ReplyBlock, place: int, stamp: IdSource) -> str:
    prefix = {"thinking": "rs_", "text": "msg_", "call": "fc_"}[block.kind]
    return stamp.id(prefix, place, 32)


def _begun_item(block: ReplyBlock, place: int, stamp: IdSource) -> dict[str, Any]:
    id_ = _item_id(block, place, stamp)
    match block.kind:
        case "thinking":
            head = {"id": id_, "summary": [], "type": "reasoning", "content": []}
            return {**head, "encrypted_content": "", "status": "in_progress"}
        case "text":
            head = {"content": [], "id": id_, "role": "assistant"}
            return {**head, "status": "in_progress", "type": "message"}
        case _:
            head = {"arguments": "", "call_id": id_, "name": block.name}
            return {**head, "type": "function_call", "status": "in_progress"}


def _text_part(block: ReplyBlock) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": block.text}


def _ended_item(block: ReplyBlock, place: int, stamp: IdSource) -> dict[str, Any]:
    item = {**_begun_item(block, place, stamp), "status": "completed"}
    match block.kind:
        case "thinking":
            return {**item, "content": [{"text": block.text, "type": "reasoning_text"}]}
        case "text":
            return {**item, "content": [_text_part(block)]}
        case _:
            return {**item, "arguments": block.text}


def _llamacpp_response(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> dict[str, Any]:
    spent = sum(tokens(block.text) for block in reply.blocks)
    return {
        "id": stamp.id("resp_", 0, 32),
        "object": "response",
        "created_at": stamp.created,
        "status": "completed",
        "model": parsed.request.model,
        "output": [_ended_item(block, place, stamp) for place, block in enumerate(reply.blocks)],
        "usage": {
            "input_tokens": parsed.input_tokens,
            "output_tokens": spent,
            "total_tokens": parsed.input_tokens + spent,
            "input_tokens_details": {"cached_tokens": 0},
        },
    }


def _llamacpp_whole(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> bytes:
    return encode_json(_llamacpp_response(reply, parsed, stamp))


LOCAL_SERVERS = (
    LocalServerKind(
        name="llamacpp",
        error_type="invalid_request_error",
        refuse_arguments=_llamacpp_arguments,
        refuse_stored=_llamacpp_stored,
        takes_empty_arguments=False,
        closes_calls=True,
        frames=_llamacpp_frames,
        whole=_llamacpp_whole,
    ),
    LocalServerKind(
        name="vllm",
        error_type="BadRequestError",
        refuse_arguments=_vllm_arguments,
        refuse_stored=_vllm_stored,
        takes_empty_arguments=True,
        closes_calls=False,
        frames=responses.frames,
        whole=responses.answer_body,
    ),
)
LOCAL_ENDS: tuple[ProviderServer, ...] = tuple(
    end for server in LOCAL_SERVERS for end in server.ends()
)
