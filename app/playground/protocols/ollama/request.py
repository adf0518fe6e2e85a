"""Encodes a neutral request for Ollama's own chat API, and reads one back.

It has no tool choice, no strict mode and no failed results: what it cannot express is narrowed or
left out, and noted. Spec: https://docs.ollama.com/api/chat
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Content, Tool
from playground.protocols.base import WireRequest
from playground.protocols.encoder import (
    Ids,
    Names,
    Notes,
    error_text,
    freeform_note,
    input_object,
    message_members,
    no_tools_note,
    note_foreign,
    preflight,
    stop_words,
    tool_extra,
    wire_request,
    with_sound_arguments,
)
from playground.protocols.ollama import FACTS, limits
from playground.protocols.parameters import translate_params
from playground.protocols.request import (
    AnswerMessage,
    Body,
    PromptMessage,
    RequestItem,
    RequestNotes,
    RequestReader,
    RequestSetup,
    ResultMessage,
    call_part,
    dicts,
    indexed_dicts,
    leading_system_messages,
    leading_system_text,
    member,
    params_of,
    rest_of,
)

PROTOCOL = "ollama"
NDJSON = "application/x-ndjson"
QUIRKS: Mapping[str, str] = {}
OPTIONS = {"max_tokens": "num_predict", "temperature": "temperature", "top_p": "top_p"}
"""Our settings by the names of Ollama's options."""

_MOST_NAME = 128
_EFFORTS = ("low", "medium", "high")


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST /api/chat."""
    notes = Notes()
    request = with_sound_arguments(translate_params(PROTOCOL, request), notes)
    body: dict[str, Any] = {"model": request.model, "messages": _messages(request, notes)}
    if tools := _tools_for_choice(request, notes):
        body["tools"] = [_tool(tool, notes) for tool in tools]
        preflight(tools, limits.LIMITS, notes, request.model)
        if request.stream:
            notes.add("Ollama sends a call's arguments in one piece, not in deltas.")
    _add_params(body, request.params, notes)
    body["stream"] = request.stream  # the default is true
    return wire_request(
        request, path=FACTS.path, headers={}, body=body, notes=notes, stream_type=NDJSON
    )


def _tools_for_choice(request: ModelRequest, notes: Notes) -> tuple[Tool, ...]:
    """The tools to send, to approximate the tool choice."""
    choice, tools = request.choice, request.offered
    if not tools:
        no_tools_note(request, notes)
        return ()
    ignores = "Ollama ignores tool_choice:"
    match choice.mode:
        case "none":
            notes.add(f"{ignores} the tools were left out, so that none can be called.")
            return ()
        case "required":
            notes.add(f"{ignores} the tools were sent, but nothing makes the model call one.")
        case "tool":
            tools = tuple(tool for tool in tools if tool.name == choice.name)
            notes.add(f"{ignores} only {choice.name} was sent, and the model may not call it.")
        case "auto" if len(tools) < len(request.tools):
            notes.add(f"{ignores} only the allowed tools were sent.")
        case "auto":
            pass
    if not choice.parallel:
        notes.add("Ollama cannot turn off parallel calls.")
    return tools


def _tool(tool: Tool, notes: Notes) -> dict[str, Any]:
    if tool.strict:
        notes.add("Ollama has no strict mode. Arguments may not match their schema.")
    freeform_note(tool, "Ollama", notes)
    extra = tool_extra(tool, PROTOCOL, notes)
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = dict(tool.parameters)
    return {**extra, "type": "function", "function": function}


def _add_params(body: dict[str, Any], params: Mapping[str, Any], notes: Notes) -> None:
    options = {own: params[name] for name, own in OPTIONS.items() if params.get(name) is not None}
    if stop := stop_words(params.get("stop")):
        options["stop"] = stop
    if options:
        body["options"] = options
    match params.get("thinking"):
        case None | "":
            pass
        case False | "none" | "disabled":
            body["think"] = False  # models that can think do so by default
        case True:
            body["think"] = True
        case str(effort) if effort in _EFFORTS:
            body["think"] = effort
        case int() | "adaptive":
            body["think"] = True
            notes.add(
                "Ollama does not accept a thinking budget. Thinking was turned on without one."
            )
        case _:
            notes.add("The setting thinking was left out. Use true, false, low, medium or high.")


def _messages(request: ModelRequest, notes: Notes) -> list[dict[str, Any]]:
    ids, names = Ids(limits.CALL_ID, notes), Names(_MOST_NAME, request.tools, notes)
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": request.system})
    for message in request.messages:
        match message.role:
            case "user" | "system" as role:
                messages += _user(message, role, notes)
            case "assistant":
                entry = _assistant(message, ids, names, notes)
                if len(entry) > 2 or entry["content"]:
                    messages.append(entry)
            case "results":
                messages += _results(message, ids, names, notes)
    return messages


def _user(message: Message, role: str, notes: Notes) -> list[dict[str, Any]]:
    message_members(message, PROTOCOL, notes)
    for part in message.parts:
        note_foreign(part, PROTOCOL, notes)
    text = "\n\n".join(part.text for part in message.parts if part.text.strip())
    images = [piece for part in message.parts if part.kind == "image" for piece in part.content]
    return [_text_message(text, images, role)] if text or images else []


def _text_message(text: str, images: list[Content], role: str = "user") -> dict[str, Any]:
    """A user or system message; images are beside the text, as bare base64."""
    entry: dict[str, Any] = {"role": role, "content": text}
    return {**entry, "images": [image.data for image in images]} if images else entry


def _assistant(message: Message, ids: Ids, names: Names, notes: Notes) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": "assistant", "content": ""}
    for part in message.parts:
        match part.kind:
            case "text" | "refusal":
                entry["content"] += part.text
            case "thinking" if part.protocol == PROTOCOL or part.origin == "model":
                # Plain text, signed by no server: any model there may read it.
                entry["thinking"] = entry.get("thinking", "") + part.text
            case "call":
                entry.setdefault("tool_calls", []).append(_call(part, ids, names, notes))
            case _:
                notes.note_foreign_part(part)
    return entry


def _call(part: MessagePart, ids: Ids, names: Names, notes: Notes) -> dict[str, Any]:
    """The call with its id: older servers ignore it, newer ones match the result by it."""
    own = part.meta if part.protocol == PROTOCOL else {}
    function = {
        **(own.get("function") or {}),
        "name": names.allowed_name(part.name),
        "arguments": input_object(part),
    }
    return {**(own.get("extra") or {}), "id": ids.assign_call_id(part), "function": function}


def _results(message: Message, ids: Ids, names: Names, notes: Notes) -> list[dict[str, Any]]:
    """One message per result, then a user message with the images, which `tool` cannot have."""
    messages: list[dict[str, Any]] = []
    images: list[Content] = []
    for part in message.parts:
        pieces = [piece for piece in part.content if piece.type == "image"]
        note_foreign(part, PROTOCOL, notes)
        text = error_text(part, "Ollama", notes)
        messages.append(
            {
                "role": "tool",
                "tool_name": names.allowed_name(part.name),
                "tool_call_id": ids.take_result_id(part.call_id),
                "content": text or ("The image follows in the next message." if pieces else ""),
            }
        )
        images += pieces
    if images:
        notes.add("Images of tool results were sent in a user message.")
        messages.append(_text_message("The images that the tools returned:", images))
    return messages


# Reading a body back ------------------------------------------------------------------------------


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    options = member(body, "options")
    words = {"max_tokens": "num_predict", "temperature": "temperature", "top_p": "top_p"}
    rest = rest_of(options, *words.values(), "stop")
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=leading_system_text(body.get("messages")),
        tools=dicts(body.get("tools")),
        params=params_of(options, **words, stop="stop"),
        extra={
            **rest_of(body, "model", "messages", "tools", "stream", "options"),
            **({"options": rest} if rest else {}),
        },
        stream=body.get("stream") is not False,
    )


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    first = leading_system_messages(body.get("messages"))
    calls = (call for it in dicts(body.get("messages")) for call in dicts(it.get("tool_calls")))
    call_ids = [call.get("id") for call in calls]
    for place, message in list(indexed_dicts(body.get("messages")))[first:]:
        at = ("messages", place)
        match message.get("role"):
            case "assistant":
                answer = {"message": dict(message), "done": True, "done_reason": "stop"}
                yield AnswerMessage(answer, tuple(_parts(message)), at)
            case "tool":
                name = str(message.get("tool_name") or message.get("name") or "")
                id_ = str(message.get("tool_call_id") or "")
                if name and id_ not in call_ids:
                    id_ = ""  # made up by the client for a call without an id
                content, _ = notes.result(message.get("content"))
                yield ResultMessage(id_, name, content, at=at)
            case "user" | "system" as role:
                listed = message.get("images")
                images = tuple(
                    Content("image", media_type="image/png", data=data)
                    for data in (listed if isinstance(listed, list) else ())
                    if isinstance(data, str)
                )
                text = message.get("content")
                yield PromptMessage(text if isinstance(text, str) else "", images, role, at=at)
            case role:
                notes.add(f"A message of the role {str(role)[:40]} was left out.")


def _parts(message: Body) -> Iterator[MessagePart]:
    for kind, name in (("thinking", "thinking"), ("text", "content")):
        if isinstance(text := message.get(name), str) and text:
            yield MessagePart(kind, text)
    for call in dicts(message.get("tool_calls")):
        if isinstance(function := call.get("function"), dict):
            id_ = str(call.get("id") or "")
            yield call_part(id_, function.get("name"), function.get("arguments"))


READER = RequestReader(_setup, _items)
