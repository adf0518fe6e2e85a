"""OpenAI Chat Completions and its dialects, client side: requests.

What differs between servers is a quirk of the profile, see QUIRKS.
Spec: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import Tool, ToolChoice
from app.wire.codec import WireRequest
from app.wire.encoding import Ids, Names, Notes, stop_words, wire_request

PROTOCOL = "openai_chat"
PATH = "/chat/completions"
QUIRKS: Mapping[str, str] = {
    "max_completion_tokens": "max_tokens is sent under this name (OpenAI's reasoning models)",
    "no_stream_options": "the server refuses stream_options (Mistral)",
    "developer_role": "the system prompt is sent under the role developer",
    "short_ids": "call ids must be nine letters or digits (Mistral)",
    "no_reasoning_echo": "reasoning is not sent back",
    "api_key_header": "the key travels in the header api-key (Azure)",
}

_ID = re.compile(r".{1,512}", re.DOTALL)
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")
_MOST_NAME = 64
_PARAMS = ("max_tokens", "temperature", "top_p", "stop", "thinking")


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST /chat/completions."""
    notes = Notes()
    body: dict[str, Any] = {"model": request.model, "messages": _messages(request, notes)}
    if request.offered:
        body["tools"] = [_tool(tool) for tool in request.offered]
        if request.choice.mode != "auto":
            body["tool_choice"] = _choice(request.choice)
        if not request.choice.parallel:
            body["parallel_tool_calls"] = False
    elif request.choice.forced:
        notes.add("The tool choice was left out: there is no tool to choose from.")
    _add_params(body, request, notes)
    if request.stream:
        body["stream"] = True
        if "no_stream_options" not in request.quirks:
            body["stream_options"] = {"include_usage": True}
    return wire_request(request, PATH, {}, body, notes)


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = dict(tool.parameters)
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> Any:
    if choice.mode == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return choice.mode


def _add_params(body: dict[str, Any], request: ModelRequest, notes: Notes) -> None:
    params = request.params
    for name in ("temperature", "top_p"):
        if params.get(name) is not None:
            body[name] = params[name]
    if params.get("max_tokens") is not None:
        quirk = "max_completion_tokens"
        body[quirk if quirk in request.quirks else "max_tokens"] = params["max_tokens"]
    if stop := stop_words(params.get("stop")):
        body["stop"] = stop
    match params.get("thinking"):
        case None | False | "":
            pass
        case str(effort):
            body["reasoning_effort"] = effort
        case _:
            notes.add("The setting thinking was left out: this protocol takes low, medium, high.")
    notes.unused(params, _PARAMS)


def _messages(request: ModelRequest, notes: Notes) -> list[dict[str, Any]]:
    ids = Ids(_SHORT_ID if "short_ids" in request.quirks else _ID)
    names = Names(_MOST_NAME, request.tools, notes)
    said: list[dict[str, Any]] = []
    if request.system:
        role = "developer" if "developer_role" in request.quirks else "system"
        said.append({"role": role, "content": request.system})
    legacy = False
    for message in request.messages:
        match message.role:
            case "user":
                text = "\n\n".join(part.text for part in message.parts if part.text.strip())
                if text:
                    said.append({"role": "user", "content": text})
            case "assistant":
                one = _assistant(message, request, ids, names, notes)
                legacy = "function_call" in one
                if len(one) > 1:
                    said.append(one)
            case "results":
                said += _results(message, ids, names, legacy, notes)
    return said


def _assistant(
    message: Message, request: ModelRequest, ids: Ids, names: Names, notes: Notes
) -> dict[str, Any]:
    """The message, or nothing but its role where nothing is left to say."""
    said: dict[str, Any] = {"role": "assistant"}
    calls = [part for part in message.parts if part.kind == "call"]
    if content := _content(message, request, notes):
        said["content"] = content
    elif calls:
        said["content"] = None
    refusal = "".join(part.text for part in message.parts if part.kind == "refusal")
    if refusal:
        said["refusal"] = refusal
    _add_reasoning(said, message, request, bool(calls))
    for call in calls:
        if _own(call).get("type") == "function_call":
            said["function_call"] = {"name": names.of(call.name), "arguments": call.text}
        else:
            said.setdefault("tool_calls", []).append(_call(call, ids, names))
    return said


def _own(part: MessagePart) -> Mapping[str, Any]:
    """What a part brought along, if it came by this protocol."""
    return part.meta if part.protocol == PROTOCOL else {}


def _content(message: Message, request: ModelRequest, notes: Notes) -> str | list[Any]:
    """The text; a list of typed pieces where the server sent one (Mistral)."""
    pieces: list[Any] = []
    typed = False
    for part in message.parts:
        own = _own(part)
        match part.kind:
            case "text" if part.text:
                pieces.append({"type": "text", "text": part.text})
            case "thinking" if own.get("field") == "content":
                if "no_reasoning_echo" not in request.quirks:
                    thought = [{"type": "text", "text": part.text}]
                    pieces.append({"type": "thinking", "thinking": thought})
                    typed = True
            case "other" if "block" in own:
                pieces.append(own["block"])
                typed = True
            case "thinking" | "other" | "server_call" | "server_result" if not own:
                notes.foreign(part.kind)
            case _:
                pass
    text = "".join(piece["text"] for piece in pieces if piece.get("type") == "text")
    if typed:
        return pieces
    return text if text.strip() else ""


def _add_reasoning(
    said: dict[str, Any], message: Message, request: ModelRequest, called: bool
) -> None:
    """Reasoning in the words it came in: what is signed always, bare text beside calls only.

    DeepSeek demands the text of turns with calls; other servers never read it again.
    """
    if "no_reasoning_echo" in request.quirks:
        return
    details: list[Any] = []
    for part in message.parts:
        own = _own(part)
        details += own.get("reasoning_details") or []
        if "extra_content" in own:
            said["extra_content"] = own["extra_content"]
        field = own.get("field")
        if part.kind == "thinking" and called and field and field != "content":
            said[field] = said.get(field, "") + part.text
    if details:
        said["reasoning_details"] = details


def _call(part: MessagePart, ids: Ids, names: Names) -> dict[str, Any]:
    own, name = _own(part), names.of(part.name)
    call: dict[str, Any] = {**(own.get("extra") or {}), "id": ids.of_call(part.call_id)}
    if own.get("type") == "custom":
        return {**call, "type": "custom", "custom": {"name": name, "input": part.text}}
    function = {"name": name, "arguments": part.text or "{}"}
    return {**call, "type": "function", "function": function}


def _results(
    message: Message, ids: Ids, names: Names, legacy: bool, notes: Notes
) -> list[dict[str, Any]]:
    """One message a result, then one of the user with the images, which `tool` cannot carry."""
    said: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for part in message.parts:
        text = "\n".join(piece.text for piece in part.content if piece.type == "text")
        shown = [piece for piece in part.content if piece.type == "image"]
        if shown and not text:
            text = "The image follows in the next message."
        if part.is_error and not text.startswith("Error"):
            text = f"Error: {text}" if text else "Error"
        if legacy:
            said.append({"role": "function", "name": names.of(part.name), "content": text})
        else:
            id_ = ids.of_result(part.call_id)
            said.append({"role": "tool", "tool_call_id": id_, "content": text})
        for piece in shown:
            url = f"data:{piece.media_type};base64,{piece.data}"
            images.append({"type": "image_url", "image_url": {"url": url}})
    if images:
        notes.add("Images of tool results were sent in a message of the user.")
        lead = {"type": "text", "text": "The images that the tools returned:"}
        said.append({"role": "user", "content": [lead, *images]})
    return said
