"""Encodes a neutral request as OpenAI Responses (and its dialects), and reads one back.

Does not depend on stored responses: sends the whole history, the provider's own items unchanged.
Differences between servers are quirks of the profile, see QUIRKS. Spec:
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Content, Tool, ToolChoice
from playground.protocols.base import WireRequest
from playground.protocols.encoder import (
    CUT,
    Ids,
    Names,
    Notes,
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
from playground.protocols.openai_responses import FACTS, limits
from playground.protocols.parameters import translate_params
from playground.protocols.request import (
    SYSTEM_ROLES,
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
    openai_choice,
    params_of,
    rest_of,
    text_of,
)

PROTOCOL = "openai_responses"
QUIRKS: Mapping[str, str] = {
    "no_encrypted_reasoning": (
        "reasoning.encrypted_content is not requested: models without reasoning and servers "
        "without encryption refuse it (LM Studio, vLLM)"
    ),
    "no_custom_tools": "free-form tools are sent as functions: the server has no type custom "
    "(LM Studio, DeepSeek, xAI)",
    "no_allowed_tools": "tools outside the allowed subset are not sent: the server has no choice "
    "allowed_tools (LM Studio, DeepSeek, xAI)",
    "api_key_header": "the key is sent in the header api-key (Azure)",
}

_MOST_NAME = limits.SHORT_NAME
"""For names that the model invented: the limit of other servers of this protocol."""
_MOST_ID = 64
_UNTHINKING = re.compile(r"(?:.*[/:])?(?:gpt-4|gpt-3\.5|chatgpt-4|gpt-5-chat)")
"""Models that refuse the reasoning option: https://github.com/pydantic/pydantic-ai/issues/2865 and
3326. A model with a deployment name (Azure) needs the quirk."""
_OURS = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call")
"""Calls that a client may have to answer: refused in a history without their output."""

_Item = dict[str, Any]
_CUT: _Item = {"type": "reasoning"}
"""Placeholder for incomplete reasoning."""


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST /responses."""
    notes = Notes()
    request = with_sound_arguments(translate_params(PROTOCOL, request), notes)
    body: dict[str, Any] = {"model": request.model}
    if request.system:
        body["instructions"] = request.system
    body["input"] = _History(request, notes).items()
    if request.offered:
        _add_tools(body, request, notes)
    else:
        no_tools_note(request, notes)
    _add_params(body, request.params, notes)
    body["store"] = False
    if "no_encrypted_reasoning" not in request.quirks and not _UNTHINKING.match(request.model):
        body["include"] = ["reasoning.encrypted_content"]
    if request.stream:
        body["stream"] = True
    return wire_request(request, FACTS.path, {}, body, notes)


def _add_tools(body: dict[str, Any], request: ModelRequest, notes: Notes) -> None:
    choice = request.choice
    native = "no_allowed_tools" not in request.quirks and choice.mode in ("auto", "required")
    tools = request.tools if native else request.offered
    if choice.mode == "tool" and not any(tool.name == choice.name for tool in tools):
        tools = request.tools
    body["tools"] = _group_namespaces([_tool(tool, request, notes) for tool in tools])
    preflight(tools, limits.LIMITS, notes, request.model)
    tool_choice = _choice(choice, request, limited=native and choice.allowed is not None)
    if tool_choice != "auto":
        body["tool_choice"] = tool_choice
    if not choice.parallel:
        body["parallel_tool_calls"] = False


def _group_namespaces(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups the tools of a namespace at the position of its first one."""
    result: list[dict[str, Any]] = []
    spaces: dict[str, dict[str, Any]] = {}
    for tool in tools:
        space = tool.pop("namespace", None)
        if not isinstance(space, Mapping):
            result.append(tool)
            continue
        name = str(space.get("name"))
        if name not in spaces:
            spaces[name] = {**space, "type": "namespace", "name": name, "tools": []}
            result.append(spaces[name])
        spaces[name]["tools"].append(tool)
    return result


def _space(tool: Tool) -> str:
    """The name of the namespace that a tool is in, or ""."""
    space = (tool.extra.get(PROTOCOL) or {}).get("namespace")
    return str(space.get("name") or "") if isinstance(space, Mapping) else ""


def _is_custom(tool: Tool, request: ModelRequest) -> bool:
    return tool.format is not None and "no_custom_tools" not in request.quirks


def _tool(tool: Tool, request: ModelRequest, notes: Notes) -> dict[str, Any]:
    entry = {"description": tool.description} if tool.description else {}
    entry = {**tool_extra(tool, PROTOCOL, notes), **entry}
    if _is_custom(tool, request):
        form = dict(tool.format or {})
        return {**entry, "type": "custom", "name": tool.name, "format": form}
    if tool.format is not None:
        notes.add(f"The free-form tool {tool.name} was sent as a function with one text argument.")
    # Without `strict` this protocol assumes true.
    rest = {"parameters": dict(tool.parameters), "strict": tool.strict}
    return {**entry, "type": "function", "name": tool.name, **rest}


def _choice(choice: ToolChoice, request: ModelRequest, limited: bool) -> Any:
    if choice.mode == "tool":
        tool = next((tool for tool in request.tools if tool.name == choice.name), Tool(choice.name))
        return _named_tool(tool, request)
    if limited:
        tools = [_named_tool(tool, request) for tool in request.offered]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
    return choice.mode


def _named_tool(tool: Tool, request: ModelRequest) -> dict[str, Any]:
    return {"type": "custom" if _is_custom(tool, request) else "function", "name": tool.name}


def _add_params(body: dict[str, Any], params: Mapping[str, Any], notes: Notes) -> None:
    for name in ("temperature", "top_p"):
        if params.get(name) is not None:
            body[name] = params[name]
    if params.get("max_tokens") is not None:
        body["max_output_tokens"] = params["max_tokens"]
    if stop_words(params.get("stop")):
        notes.add("The setting stop was left out, because this protocol does not have it.")
    match params.get("thinking"):
        case None | False | "":
            pass
        case True:
            body["reasoning"] = {"summary": "auto"}
        case str(effort):
            body["reasoning"] = {"effort": effort, "summary": "auto"}
        case dict(reasoning):
            body["reasoning"] = dict(reasoning)
        case _:
            notes.add(
                "The setting thinking was left out. This protocol accepts low, medium and high."
            )


def _text_item(role: str, content: list[_Item]) -> _Item:
    return {"type": "message", "role": role, "content": content}


class _History:
    """The messages of one request as input items."""

    def __init__(self, request: ModelRequest, notes: Notes) -> None:
        self._request = request
        self._notes = notes
        self._ids = Ids(limits.CALL_ID, notes)
        self._names = Names(_MOST_NAME, request.tools, notes)
        self._spaces = {tool.name: _space(tool) for tool in request.tools if _space(tool)}
        self._freeform = {tool.name for tool in request.tools if _is_custom(tool, request)}
        self._custom: set[str] = set()  # ids of calls sent as custom ones

    def items(self) -> list[_Item]:
        items: list[_Item] = []
        for message in self._request.messages:
            match message.role:
                case "user" | "system" as role:
                    content = [item for part in message.parts for item in self._prompt_items(part)]
                    is_system = role == "system"
                    word = role_word(message, PROTOCOL, "developer") if is_system else "user"
                    own = message_members(message, PROTOCOL, self._notes)
                    items += [{**own, **_text_item(word, content)}] if content else []
                case "assistant":
                    items += self._assistant(message)
                case "results":
                    items += [self._result(part) for part in message.parts]
        return list(_with_unique_ids(items))

    def _prompt_items(self, part: MessagePart) -> list[_Item]:
        """The pieces of one part of a prompt."""
        if part.kind == "other":
            return own_block(part.meta, part, PROTOCOL, self._notes)
        own = own_members(part.meta, part, PROTOCOL, self._notes)
        return [item for piece in _content(part) for item in _imported_piece(piece, own)]

    def _assistant(self, message: Message) -> list[_Item]:
        """The items of a turn. If an item is left out, its reasoning is, too; and if reasoning is
        missing, its items go without the ids that require it."""
        items = list(self._turn(message))
        sendable: list[_Item] = []
        lost = False
        follows = False
        for item in reversed(items):
            if item is None:
                follows = False
            elif item.get("type") != "reasoning":
                follows = True
                sendable.append(item)
            elif item is _CUT:
                lost = True
                self._notes.add("Incomplete reasoning was left out.")
            elif not follows:
                lost = True
                self._notes.add("Reasoning without a following item was left out.")
            elif not self._is_readable(item):
                lost = True
                self._notes.add("Reasoning that came without its encrypted content was left out.")
            else:
                sendable.append(item)
        if lost:
            sendable = [_without_id(item) for item in sendable]
        return sendable[::-1]

    def _is_readable(self, item: _Item) -> bool:
        """Whether a server that stored nothing can use this reasoning."""
        quirk = "no_encrypted_reasoning" in self._request.quirks
        return bool(quirk or item.get("encrypted_content") or item.get("content"))

    def _turn(self, message: Message) -> Iterator[_Item | None]:
        """The items of a turn; None for one that is left out."""
        answered_ids = _call_ids(message, "server_result")
        open_block: Any = None  # of the last part's message
        content: list[_Item] = []
        for part in message.parts:
            own = part.meta if part.protocol == PROTOCOL else {}
            block = own.get("block")
            block = block if isinstance(block, Mapping) else None
            if block is not None and not part.complete:
                block = _without_id(dict(block))
            if part.kind in ("text", "refusal") or (part.kind == "other" and "content" in own):
                if content and (block is None or block != open_block):
                    yield _message(open_block, content)
                    content = []
                open_block = block
                content += _output_content(part, own)
                continue
            if content:
                yield _message(open_block, content)
                content = []
            match part.kind:
                case "call":
                    yield self._call(part, own, block)
                case _ if part.protocol != PROTOCOL:
                    self._notes.note_foreign_part(part)
                    yield None
                case "thinking" if not part.complete:
                    yield _CUT
                case _ if not part.complete:
                    self._notes.note_omission(part, CUT)
                    yield None
                case _ if block is None:
                    pass  # its item is in a later part
                case "server_call" if block.get("type") in _OURS and (
                    block.get("call_id") not in answered_ids
                ):
                    self._notes.add(f"A {block['type']} without an output was left out.")
                    yield None
                case _:
                    yield dict(block)
        if content:
            yield _message(open_block, content)

    def _call(
        self, part: MessagePart, own: Mapping[str, Any], block: Mapping[str, Any] | None
    ) -> _Item:
        call_id = self._ids.assign_call_id(part)
        item = {**(block or {}), "call_id": call_id, "name": self._names.allowed_name(part.name)}
        if "namespace" not in item and part.name in self._spaces:
            item["namespace"] = self._spaces[part.name]  # a call without it is refused
        if part.name in self._freeform or (
            own.get("type") == "custom" and "no_custom_tools" not in self._request.quirks
        ):
            value = (sound_object(part.text) or {}).get("input")
            if isinstance(value, str):
                self._custom.add(call_id)
                return {**_with_type(item, "custom_tool_call"), "input": value}
        return {**_with_type(item, "function_call"), "arguments": part.text}

    def _result(self, part: MessagePart) -> _Item:
        call_id = self._ids.take_result_id(part.call_id)
        type_ = "custom_tool_call_output" if call_id in self._custom else "function_call_output"
        own = own_members(part.meta, part, PROTOCOL, self._notes)
        note_foreign(part, PROTOCOL, self._notes)
        return {**own, "type": type_, "call_id": call_id, "output": self._output(part)}

    def _output(self, part: MessagePart) -> Any:
        """A string; a list of pieces if it has images."""
        text = "\n".join(piece.text for piece in part.content if piece.type == "text")
        is_error = part.is_error and not text.startswith("Error")
        if is_error:
            self._notes.add(
                "Failed results begin with Error, because this protocol has no field for errors."
            )
        if part.pieces and part.protocol == PROTOCOL and not is_error:
            return [item for piece, own in part.pieces for item in _imported_piece(piece, own)]
        if all(piece.type == "text" for piece in part.content):
            return (f"Error: {text}" if text else "Error") if is_error else text
        lead = [{"type": "input_text", "text": "Error"}] if is_error else []
        return lead + [
            _piece(content) for content in part.content if content.type == "image" or content.text
        ]


def _imported_piece(piece: Content | None, own: Mapping[str, Any]) -> list[_Item]:
    """An imported piece with its further members; of our own members they may replace only an
    image's detail."""
    if piece is None:
        return [dict(own)]
    item = _piece(piece)
    return [{**own, **item, **({"detail": own["detail"]} if "detail" in own else {})}]


def _with_type(item: _Item, type_: str) -> _Item:
    """The item with this type; its id belongs to its original type."""
    if item.get("type", type_) == type_:
        return {"type": type_, **item}
    return {**_without_id(item), "type": type_}


def _without_id(item: _Item) -> _Item:
    return {key: value for key, value in item.items() if key != "id"}


def _with_unique_ids(items: list[_Item]) -> Iterator[_Item]:
    """Makes ids unique and limits their length: otherwise all further requests would be refused."""
    seen: set[str] = set()
    for item in items:
        id_ = item.get("id")
        if isinstance(id_, str) and (id_ in seen or len(id_) > _MOST_ID):
            yield _without_id(item)
            continue
        seen |= {id_} if isinstance(id_, str) else set()
        yield item


def _call_ids(message: Message, kind: str) -> set[Any]:
    blocks = (part.meta.get("block") for part in message.parts if part.kind == kind)
    return {str(block.get("call_id")) for block in blocks if isinstance(block, Mapping)}


def _content(part: MessagePart) -> tuple[Content, ...]:
    """User content: non-empty text, and images."""
    if part.kind == "image":
        return part.content
    return (Content(text=part.text),) if part.text.strip() else ()


def _piece(piece: Content) -> _Item:
    if piece.type == "text":
        return {"type": "input_text", "text": piece.text}
    url = f"data:{piece.media_type};base64,{piece.data}"
    return {"type": "input_image", "detail": "auto", "image_url": url}


def _output_content(part: MessagePart, own: Mapping[str, Any]) -> list[_Item]:
    """The piece of a message for a part."""
    content = own.get("content")
    content = dict(content) if isinstance(content, Mapping) else {}
    if part.kind == "other":
        return [content]
    if part.kind == "refusal":
        return [{"type": "refusal", **content, "refusal": part.text}]
    if not part.text.strip() and not content:
        return []
    return [{"type": "output_text", "annotations": [], **content, "text": part.text}]


def _message(block: Mapping[str, Any] | None, content: list[_Item]) -> _Item:
    if block is None:
        return _text_item("assistant", content)
    return {**block, "content": content}


# Reading a body back ------------------------------------------------------------------------------


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    words = {"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}
    params = params_of(body, **words, thinking="reasoning")
    known = (*words.values(), "reasoning", "model", "input", "instructions", "tools")
    more = ("tool_choice", "parallel_tool_calls", "stream", "store", "include")
    system = [text_of(body.get("instructions"))]
    system += [
        text_of(item.get("content")) for _, item in _listed_items(body)[: _instruction_items(body)]
    ]
    if body.get("store") is True:
        notes.add("It asked the provider to store the answer. Here, store is false.")
    if body.get("previous_response_id"):
        notes.add(
            "It continues from an answer stored by the provider, which is not available here."
        )
    return RequestSetup(
        model=str(body.get("model") or ""),
        system="\n\n".join(text for text in system if text),
        tools=[*dicts(body.get("tools")), *_additional_tools(body)],
        choice=openai_choice(body, notes),
        params=params,
        extra=rest_of(body, *known, *more, "previous_response_id"),
        stream=body.get("stream") is True,
    )


def _instruction_items(body: Body) -> int:
    """How many leading items are the system prompt: none if there are instructions."""
    messages = [item for _, item in _listed_items(body)]
    return 0 if body.get("instructions") else leading_system_messages(messages)


def _listed_items(body: Body) -> list[tuple[int, Body]]:
    """The items of the conversation, each with its index."""
    return [
        (place, item) for place, item in indexed_dicts(body.get("input")) if not _has_tools(item)
    ]


def _additional_tools(body: Body) -> Iterator[Body]:
    """The tools in items: Codex sends them this way for some models, before its instructions."""
    for item in dicts(body.get("input")):
        if _has_tools(item):
            yield from dicts(item.get("tools"))


def _has_tools(item: Body) -> bool:
    """Whether a client adds tools by it; without a role it is an item of an answer."""
    return item.get("type") == "additional_tools" and item.get("role") in SYSTEM_ROLES


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    given = body.get("input")
    if isinstance(given, str):
        yield from notes.messages(given, ("input",))
        return
    output: list[tuple[int, Body]] = []
    for place, item in _listed_items(body)[_instruction_items(body) :]:
        kind, role, at = item.get("type", "message"), item.get("role"), ("input", place)
        if kind in ("function_call_output", "custom_tool_call_output"):
            yield from _answer(output)
            beside = rest_of(item, "type", "id", "status", "call_id", "output")
            content, form = notes.result(item.get("output"), **beside)
            yield ResultMessage(str(item.get("call_id") or ""), "", content, form=form, at=at)
        elif kind != "message" or role == "assistant":
            output.append((place, _output_item(item)))
        elif role in ("user", *SYSTEM_ROLES):
            yield from _answer(output)
            own = rest_of(item, "type", "id", "status", "role", "content")
            yield from notes.messages(item.get("content"), at, role, own)
    yield from _answer(output)


def _output_item(item: Body) -> Body:
    """A message of the model in the form of answers: with typed content."""
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, str):
        pieces = [{"type": "output_text", "text": content, "annotations": []}]
        return {**item, "type": "message", "content": pieces}
    return {"type": "message", **item} if item.get("role") == "assistant" else item


def _answer(output: list[tuple[int, Body]]) -> Iterator[AnswerMessage]:
    """The model's items since the last other item, as one answer; empties `output`."""
    if output:
        items = [item for _, item in output]
        head = {"object": "response", "status": "completed", "error": None}
        parts = tuple(part for item in items for part in _parts(item))
        first, *more = (place for place, _ in output)
        yield AnswerMessage({**head, "output": items}, parts, ("input", first), tuple(more))
        output.clear()


def _parts(item: Body) -> Iterator[MessagePart]:
    id_ = str(item.get("call_id") or "")
    match item.get("type"):
        case "message":
            for piece in dicts(item.get("content")):
                kind = "refusal" if piece.get("type") == "refusal" else "text"
                yield MessagePart(kind, str(piece.get(kind) or ""))
        case "function_call":
            yield call_part(id_, item.get("name"), item.get("arguments"))
        case "custom_tool_call":
            yield call_part(id_, item.get("name"), {"input": item.get("input")})
        case "reasoning":
            yield MessagePart("thinking", meta=item)
        case _:
            yield MessagePart("other", meta=item)


READER = RequestReader(_setup, _items)
