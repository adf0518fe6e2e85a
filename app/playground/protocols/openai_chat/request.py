"""Encodes a neutral request as Chat Completions (OpenAI and its dialects), and reads one back.

Differences between servers are quirks of the profile. Spec:
https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Content, Tool, ToolChoice
from playground.protocols.base import WireRequest
from playground.protocols.encoder import (
    Ids,
    Names,
    Notes,
    error_text,
    freeform_note,
    message_members,
    no_tools_note,
    note_foreign,
    own_block,
    own_members,
    preflight,
    role_word,
    sound_object,
    stop_words,
    tool_extra,
    wire_request,
    with_sound_arguments,
)
from playground.protocols.openai_chat import FACTS, limits
from playground.protocols.parameters import translate_params
from playground.protocols.request import (
    AnswerMessage,
    Body,
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
    openai_choice,
    params_of,
    rest_of,
)

PROTOCOL = "openai_chat"
_MOST_NAME = limits.LONGEST_NAME
_BRIDGE = "Understood."
_SEALED = frozenset(("reasoning_details", "extra_content"))

QUIRKS: Mapping[str, str] = {
    "max_completion_tokens": "max_tokens is sent under this name (OpenAI's reasoning models)",
    "no_stream_options": "the server refuses stream_options (Mistral)",
    "developer_role": "the system prompt is sent under the role developer",
    "short_ids": "call ids must be nine letters or digits (Mistral)",
    "long_ids": (
        "the server's call ids are sent back unchanged, whatever their length, because they "
        "may carry data; OpenAI refuses more than 40 characters (LiteLLM, vLLM)"
    ),
    "assistant_after_tool": (
        "the server refuses a user message right after a tool message, so a short assistant "
        "message is put in between (Mistral, error 3230)"
    ),
    "no_reasoning_echo": "reasoning is not sent back",
    "api_key_header": "the key is sent in the header api-key (Azure)",
    "custom_tools": "the server supports free-form tools; others get a tool with one text argument "
    "(OpenAI)",
    "allowed_tools": (
        "the server accepts a named subset of the tools; other servers are sent only that "
        "subset (OpenAI)"
    ),
    "any_for_required": "required is called any, and a single tool cannot be named (Mistral)",
    "no_forced_with_thinking": "the server refuses a forced tool while thinking is on (DeepSeek)",
    "no_strict": "the server has no strict mode, or a different one (DeepSeek)",
    "no_parallel": "the server refuses parallel_tool_calls, so parallel calls cannot be turned off",
    "whole_arguments": "the arguments of a call come in one chunk (Groq, Mistral, xAI)",
    "text_only": "the server does not accept images at all (DeepSeek)",
    "image_results": "a tool message accepts images; otherwise they follow in a user message",
    "text_only_results": "a tool message accepts only text, which is the default now",
}


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST /chat/completions."""
    notes = Notes()
    request = with_sound_arguments(translate_params(PROTOCOL, request), notes)
    body: dict[str, Any] = {"model": request.model, "messages": _messages(request, notes)}
    add_tools(body, request, notes)
    _add_params(body, request, notes)
    if request.stream:
        body["stream"] = True
        if "no_stream_options" not in request.quirks:
            body["stream_options"] = {"include_usage": True}
    return wire_request(request, FACTS.path, {}, body, notes)


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
        case str(effort) if effort not in ("adaptive", "disabled"):
            body["reasoning_effort"] = effort
        case _:
            notes.add(
                "The setting thinking was left out. This protocol accepts low, medium and high."
            )


def _messages(request: ModelRequest, notes: Notes) -> list[dict[str, Any]]:
    limit = limits.SHORT_CALL_ID if "short_ids" in request.quirks else limits.CALL_ID
    ids = Ids(limit, notes, limits.OWN_CALL_ID if "long_ids" in request.quirks else limit)
    names = Names(_MOST_NAME, request.tools, notes)
    messages: list[dict[str, Any]] = []
    system = "developer" if "developer_role" in request.quirks else "system"
    if request.system:
        messages.append({"role": system, "content": request.system})
    legacy = False
    for message in request.messages:
        match message.role:
            case "user" | "system" as role:
                own = message_members(message, PROTOCOL, notes)
                if prompt := _prompt(message, request, notes):
                    word = role_word(message, PROTOCOL, system) if role == "system" else role
                    messages.append({**own, "role": word, "content": prompt})
            case "assistant":
                entry = _assistant(message, request, ids, names, notes)
                legacy = "function_call" in entry
                if len(entry) > 1:
                    messages.append(entry)
            case "results":
                messages += _results(
                    message, request=request, ids=ids, names=names, legacy=legacy, notes=notes
                )
    return (
        _bridge_results(messages, notes) if "assistant_after_tool" in request.quirks else messages
    )


def _bridge_results(messages: list[dict[str, Any]], notes: Notes) -> list[dict[str, Any]]:
    """Inserts an assistant message between a result and the user message after it."""
    whole: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "user" and whole and whole[-1]["role"] == "tool":
            notes.add(
                f"{_BRIDGE!r} was put between results and prompt, because this server requires "
                "an assistant message there."
            )
            whole.append({"role": "assistant", "content": _BRIDGE})
        whole.append(message)
    return whole


def _prompt(message: Message, request: ModelRequest, notes: Notes) -> str | list[Any]:
    """The prompt as text, or, if it has images, as pieces in order."""
    pieces: list[Any] = []
    for part in message.parts:
        if part.kind == "other":
            pieces += own_block(part.meta, part, PROTOCOL, notes)
            continue
        own = own_members(part.meta, part, PROTOCOL, notes)
        images = [piece for piece in part.content if piece.type == "image"]
        pieces += [
            _with_own_members(_image(image), own)
            for image in _supported_images(images, request, notes)
        ]
        if part.text.strip():
            pieces.append({**own, **_text(part.text)})
    if any(piece != _text(str(piece.get("text"))) for piece in pieces):
        return pieces
    return "\n\n".join(piece["text"] for piece in pieces)


def _supported_images(images: list[Content], request: ModelRequest, notes: Notes) -> list[Content]:
    """The images, if the server accepts any."""
    if images and "text_only" in request.quirks:
        notes.add("Images were left out, because this server accepts only text.")
        return []
    return images


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(image: Content) -> dict[str, Any]:
    url = f"data:{image.media_type};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _with_own_members(piece: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """An image with its further members, including those next to its URL."""
    inner = own.get("image_url")
    inner = inner if isinstance(inner, Mapping) else {}
    return {**own, **piece, "image_url": {**inner, **piece["image_url"]}}


def _assistant(
    message: Message, request: ModelRequest, ids: Ids, names: Names, notes: Notes
) -> dict[str, Any]:
    """The message; only its role if it has no content."""
    entry: dict[str, Any] = {"role": "assistant"}
    calls = [part for part in message.parts if part.kind == "call"]
    if content := _content(message, request, notes):
        entry["content"] = content
    elif calls:
        entry["content"] = None
    refusal = "".join(part.text for part in message.parts if part.kind == "refusal")
    if refusal:
        entry["refusal"] = refusal
    _add_reasoning(entry, message, request, bool(calls))
    custom = custom_names(request)
    for call in calls:
        if _own_data(call).get("type") == "function_call":
            entry["function_call"] = {"name": names.allowed_name(call.name), "arguments": call.text}
        else:
            entry.setdefault("tool_calls", []).append(_call(call, ids, names, custom, notes))
    return entry


def _own_data(part: MessagePart) -> Mapping[str, Any]:
    """The original data of a part, if received by this protocol."""
    return part.meta if part.protocol == PROTOCOL else {}


def _field(part: MessagePart) -> str:
    """The member that plain reasoning came in. It is unsigned: any model of its server may read it,
    and DeepSeek's require it."""
    is_own = part.kind == "thinking" and (part.protocol == PROTOCOL or part.origin == "model")
    return str(part.meta.get("field") or "") if is_own else ""


def _content(message: Message, request: ModelRequest, notes: Notes) -> str | list[Any]:
    """The text; a list of typed pieces if the server sent one (Mistral)."""
    pieces: list[Any] = []
    as_list = False
    for part in message.parts:
        own = _own_data(part)
        match part.kind:
            case "text" if part.text:
                pieces.append({"type": "text", "text": part.text})
            case "thinking" if _field(part) == "content":
                if "no_reasoning_echo" not in request.quirks:
                    thought = [{"type": "text", "text": part.text}]
                    pieces.append({"type": "thinking", "thinking": thought})
                    as_list = True
            case "other" if "block" in own:
                pieces.append(own["block"])
                as_list = True
            case "thinking" if _field(part) and not _SEALED & part.meta.keys():
                pass
            case "thinking" | "other" | "server_call" | "server_result" if not own:
                notes.note_foreign_part(part)
            case _:
                pass
    text = "".join(piece["text"] for piece in pieces if piece.get("type") == "text")
    if as_list:
        return pieces
    return text if text.strip() else ""


def _add_reasoning(
    entry: dict[str, Any], message: Message, request: ModelRequest, has_calls: bool
) -> None:
    """Adds reasoning in its original form: signed reasoning always, plain text only with calls.

    DeepSeek requires the text for turns with calls; other servers ignore it.
    """
    if "no_reasoning_echo" in request.quirks:
        return
    details: list[Any] = []
    for part in message.parts:
        own = _own_data(part)
        details += own.get("reasoning_details") or []
        if "extra_content" in own:
            entry["extra_content"] = own["extra_content"]
        field = _field(part)
        if has_calls and field and field != "content":
            entry[field] = entry.get(field, "") + part.text
    if details:
        entry["reasoning_details"] = details


def _call(
    part: MessagePart, ids: Ids, names: Names, custom: Collection[str], notes: Notes
) -> dict[str, Any]:
    own, name, id_ = _own_data(part), names.allowed_name(part.name), ids.assign_call_id(part)
    call: dict[str, Any] = {**(own.get("extra") or {}), "id": id_}
    if own.get("type") == "custom" or (not own and part.name in custom):
        return {**call, "type": "custom", "custom": {"name": name, "input": _custom_input(part)}}
    function = {"name": name, "arguments": part.text}
    return {**call, "type": "function", "function": function}


def _custom_input(part: MessagePart) -> str:
    """The text of a free-form call, which is stored as `{"input": text}`."""
    value = (sound_object(part.text) or {}).get("input")
    return value if isinstance(value, str) else part.text


def _results(
    message: Message,
    request: ModelRequest,
    ids: Ids,
    names: Names,
    legacy: bool,
    notes: Notes,
) -> list[dict[str, Any]]:
    """One message per result, which can have text only; a user message follows with the images."""
    messages: list[dict[str, Any]] = []
    later: list[dict[str, Any]] = []
    beside = legacy or "image_results" not in request.quirks
    for part in message.parts:
        pieces = [piece for piece in part.content if piece.type == "image"]
        images = [_image(image) for image in _supported_images(pieces, request, notes)]
        content: str | list[Any] = error_text(part, "OpenAI's format", notes)
        note_foreign(part, PROTOCOL, notes)
        content = _result_pieces(part) or content
        if images and beside:
            content = content or "The image follows in the next message."
            later += images
        elif images:
            content = [*([_text(str(content))] if content else []), *images]
        elif pieces and not content:
            content = "The tool returned an image, which cannot be shown here."
        if legacy:
            messages.append(
                {"role": "function", "name": names.allowed_name(part.name), "content": content}
            )
        else:
            id_ = ids.take_result_id(part.call_id)
            own = own_members(part.meta, part, PROTOCOL, notes)
            messages.append({**own, "role": "tool", "tool_call_id": id_, "content": content})
    if later:
        notes.add("Images of tool results were sent in a user message.")
        lead = _text("The images that the tools returned:")
        messages.append({"role": "user", "content": [lead, *later]})
    return messages


def _result_pieces(part: MessagePart) -> list[Any]:
    """The texts of a result as typed pieces, if one of them has further members."""
    pieces: list[Any] = []
    for piece, own in part.pieces if part.protocol == PROTOCOL else ():
        if piece is None:
            pieces.append(dict(own))
        elif piece.type == "text":
            pieces.append({**own, **_text(piece.text)})
    return pieces if any(piece.keys() != {"type", "text"} for piece in pieces) else []


# Tools and tool choice. Differences between servers are quirks of the profile. What cannot be
# expressed is narrowed or left out and noted; nothing is changed silently.


def add_tools(body: dict[str, Any], request: ModelRequest, notes: Notes) -> None:
    """Adds `tools`, `tool_choice` and `parallel_tool_calls` to `body`, unless they are defaults."""
    choice, quirks = request.choice, request.quirks
    if not request.offered:
        no_tools_note(request, notes)
        return
    tools, tool_choice = _tools_and_choice(request, notes)
    body["tools"] = [_tool(tool, quirks, notes) for tool in tools]
    strict = "no_strict" not in quirks
    preflight(tools, limits.LIMITS, notes, request.model, sure=False, strict=strict)
    if tool_choice is not None:
        body["tool_choice"] = tool_choice
    if not choice.parallel and "no_parallel" in quirks:
        notes.add("This server cannot turn off parallel calls.")
    elif not choice.parallel:
        body["parallel_tool_calls"] = False
    _preflight(request, notes)


def custom_names(request: ModelRequest) -> frozenset[str]:
    """The tools that are sent as free-form ones."""
    if "custom_tools" not in request.quirks:
        return frozenset()
    return frozenset(tool.name for tool in request.tools if tool.format is not None)


def _tools_and_choice(request: ModelRequest, notes: Notes) -> tuple[tuple[Tool, ...], Any]:
    """The tools to send and the choice; None for the default."""
    choice, tools = request.choice, request.offered
    custom = custom_names(request)
    narrowed = len(tools) < len(request.tools)
    if narrowed and choice.mode in ("auto", "required"):
        if "allowed_tools" in request.quirks:
            entries = [_named_tool(tool.name, custom) for tool in tools]
            subset = {"mode": choice.mode, "tools": entries}
            return request.tools, {"type": "allowed_tools", "allowed_tools": subset}
        notes.add("Only the allowed tools were sent, because this server does not accept a subset.")
    if "any_for_required" in request.quirks and choice.forced:
        if choice.mode == "tool":
            tools = tuple(tool for tool in tools if tool.name == choice.name)
            notes.add(
                f"Only {choice.name} was sent, with the choice any, because this server cannot "
                "name a tool."
            )
        return tools, "any"
    return tools, _choice(choice, custom)


def _choice(choice: ToolChoice, custom: Collection[str]) -> Any:
    match choice.mode:
        case "auto":
            return None
        case "tool":
            return _named_tool(choice.name, custom)
        case _:
            return choice.mode


def _named_tool(name: str, custom: Collection[str]) -> dict[str, Any]:
    kind = "custom" if name in custom else "function"
    return {"type": kind, kind: {"name": name}}


def _tool(tool: Tool, quirks: Collection[str], notes: Notes) -> dict[str, Any]:
    extra = tool_extra(tool, "openai_chat", notes)
    entry: dict[str, Any] = {"name": tool.name}
    if tool.description:
        entry["description"] = tool.description
    if tool.format is not None and "custom_tools" in quirks:
        return {**extra, "type": "custom", "custom": {**entry, "format": _format(tool.format)}}
    freeform_note(tool, "This server", notes)
    entry["parameters"] = dict(tool.parameters)
    if tool.strict and "no_strict" in quirks:
        notes.add(
            "Strict mode was left out, because this server has none. Arguments may not match "
            "their schema."
        )
    elif tool.strict:
        entry["strict"] = True
    return {**extra, "type": "function", "function": entry}


def _format(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A grammar is nested one level deeper than in the Responses API, whose form is ours."""
    if spec.get("type") != "grammar":
        return dict(spec)
    return {"type": "grammar", "grammar": {k: v for k, v in spec.items() if k != "type"}}


def _preflight(request: ModelRequest, notes: Notes) -> None:
    """Notes how the server will handle it. It is sent as requested anyway."""
    thinks = request.extra.get("thinking") != {"type": "disabled"}
    if request.choice.forced and thinks and "no_forced_with_thinking" in request.quirks:
        notes.add(
            "A forced tool is refused while thinking is on, which may be the model's default. Add "
            '"thinking": {"type": "disabled"} to the extra members, or use auto.'
        )
    if request.stream and "whole_arguments" in request.quirks:
        notes.add("This server sends a call's arguments in one chunk, so they are not streamed.")


# Reading a body back ------------------------------------------------------------------------------


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    tokens = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
    words = {"max_tokens": tokens, "temperature": "temperature", "top_p": "top_p", "stop": "stop"}
    params = params_of(body, **words)
    if isinstance(body.get("reasoning_effort"), str):
        params["thinking"] = body["reasoning_effort"]
    known = (*words.values(), "reasoning_effort", "model", "messages", "tools", "tool_choice")
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=leading_system_text(body.get("messages")),
        tools=dicts(body.get("tools")),
        choice=openai_choice(body, notes),
        params=params,
        extra=rest_of(body, *known, "parallel_tool_calls", "stream", "stream_options"),
        stream=body.get("stream") is True,
    )


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    first = leading_system_messages(body.get("messages"))
    for place, item in list(indexed_dicts(body.get("messages")))[first:]:
        at = ("messages", place)
        match item.get("role"):
            case "assistant":
                called = "tool_calls" if item.get("tool_calls") else "stop"
                calls = [
                    {**call, "index": n} for n, call in enumerate(dicts(item.get("tool_calls")))
                ]
                message = {**item, "tool_calls": calls}  # not always identified by the id alone
                choice = {"index": 0, "message": message, "finish_reason": called}
                answer = {"object": "chat.completion", "choices": [choice]}
                yield AnswerMessage(answer, tuple(_parts(item)), at)
            case "tool" | "function":
                known = ("role", "content", "tool_call_id", "name")
                content, form = notes.result(item.get("content"), **rest_of(item, *known))
                id_, name = str(item.get("tool_call_id") or ""), str(item.get("name") or "")
                yield ResultMessage(id_, name, content, form=form, at=at)
            case "user" | "system" | "developer" as role:
                beside = rest_of(item, "role", "content")
                yield from notes.messages(item.get("content"), at, role, beside)
            case role:
                notes.add(f"A message of the role {str(role)[:40]} was left out.")


def _parts(message: Body) -> Iterator[MessagePart]:
    content = message.get("content")
    for piece in [{"text": content}] if isinstance(content, str) else dicts(content):
        kind = "refusal" if piece.get("type") == "refusal" else "text"
        if isinstance(text := piece.get(kind), str) and text:
            yield MessagePart(kind, text)
    if isinstance(message.get("refusal"), str):
        yield MessagePart("refusal", message["refusal"])
    calls = dicts(message.get("tool_calls"))
    if isinstance(message.get("function_call"), dict):
        calls.append({"function": message["function_call"]})  # the older dialect has no ids
    for call in calls:
        id_, function, custom = str(call.get("id") or ""), call.get("function"), call.get("custom")
        if isinstance(function, dict):
            yield call_part(id_, function.get("name"), function.get("arguments"))
        elif isinstance(custom, dict):
            yield call_part(id_, custom.get("name"), {"input": custom.get("input")})


READER = RequestReader(_setup, _items)
