"""Bodies of requests to chat APIs, read into neutral messages, answers and results.

The inverse of the encoders in app/protocols, as far as others write it; a row of `READERS` for
each protocol. An answer of the model is kept in its protocol's form, so that the codec which
decodes answers decodes this one, too. What is not understood becomes a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.core.settings import Protocol
from app.core.tools import Content, ToolChoice


@dataclass(frozen=True)
class ImportedMessage:
    """A message of the person or of the system; `form` as in PromptAdded."""

    text: str
    images: tuple[Content, ...] = ()
    role: Literal["user", "system"] = "user"
    form: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedAnswer:
    """A turn of the model: the JSON of a whole answer of its protocol that says it."""

    answer: Mapping[str, Any]


@dataclass(frozen=True)
class ImportedResult:
    """What a call came to. `call_id` is the provider's, or "" where it has none: then it belongs
    to the first call named `name` that is still open. `form` as in ToolResult."""

    call_id: str
    name: str
    content: tuple[Content, ...]
    is_error: bool = False
    form: Mapping[str, Any] = field(default_factory=dict)


ImportedItem = ImportedMessage | ImportedAnswer | ImportedResult


@dataclass(frozen=True)
class RequestSetup:
    """How the request was set up. `tools` are in the protocol's own form; `extra` is what has no
    word of ours, to be sent along as it is."""

    model: str = ""
    system: str = ""
    tools: Sequence[Any] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    params: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False


@dataclass(frozen=True)
class ImportedRequest:
    """One request of a chat API. `base_url` is where it went, "" where nothing says; `body` is its
    text. `response` are the bytes that came back, None where they are not here, with their
    `status`; `at_ms` is when it was sent (Unix ms), 0 for unknown. `notes` are sentences."""

    protocol: Protocol
    setup: RequestSetup
    items: Sequence[ImportedItem]
    base_url: str = ""
    path: str = ""
    body: str = ""
    response: bytes | None = None
    status: int = 200
    at_ms: int = 0
    notes: Sequence[str] = ()


_DATA = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/=]+)", re.ASCII)


def image_of(url: object) -> Content | None:
    """The image of a data: URL, None where it is none; nothing is fetched."""
    match = _DATA.fullmatch(url) if isinstance(url, str) else None
    return Content("image", media_type=match[1], data=match[2]) if match is not None else None


def text_of(value: object) -> str:
    """The text of a text, or of a list of pieces that have some."""
    match value:
        case str():
            return value
        case list():
            pieces = (entry.get("text") for entry in value if isinstance(entry, dict))
            return "\n\n".join(piece for piece in pieces if isinstance(piece, str))
    return ""


Body = Mapping[str, Any]


@dataclass
class RequestNotes:
    """Notes of what could not be taken, each once."""

    notes: dict[str, None] = field(default_factory=dict)

    def note(self, sentence: str) -> None:
        self.notes[sentence] = None

    def _piece(self, body: Body, by: Protocol) -> Content | None:
        """Text or an image in any of the protocols' words; None for all else, and it is said."""
        if isinstance(body.get("text"), str):
            return Content(text=body["text"])
        source, url = body.get("source"), body.get("image_url")
        if isinstance(source, dict) and source.get("type") == "base64":
            url = f"data:{source.get('media_type')};base64,{source.get('data')}"
        elif isinstance(url, dict):
            url = url.get("url")
        elif isinstance(body.get("inlineData"), dict):
            data = body["inlineData"]
            url = f"data:{data.get('mimeType')};base64,{data.get('data')}"
        image = image_of(url)
        if image is None:
            kind = str(body.get("type") or next(iter(body), "empty"))[:40]
            self.note(
                f"A piece of kind {kind} is not shown, for only text and whole images are read; it "
                f"is kept as it came and goes back to {by} alone."
            )
        return image

    def messages(
        self, value: object, by: Protocol, word: str = "user", own: Body | None = None
    ) -> Iterator[ImportedMessage]:
        """What a message says, and how it was written where more than that would be lost; `own` is
        what stood beside the whole."""
        texts, images, pieces = list[str](), list[Content](), list[dict[str, Any]]()
        for body in _dicts([{"text": value}] if isinstance(value, str) else value):
            piece = self._piece(body, by)
            if piece is None:
                pieces.append({"other": dict(body)})
                continue
            beside = _other_members(body)
            if piece.type == "image":
                images.append(piece)
                pieces.append({"image": True, **beside})
            elif piece.text.strip():
                texts.append(piece.text)
                pieces.append({"chars": len(piece.text), **beside})
        role: Literal["user", "system"] = "system" if word in _SYSTEM else "user"
        form: dict[str, Any] = {"protocol": by}
        if word not in ("user", "system"):
            form["role"] = word
        if len(texts) > 1 or any(piece.keys() != {"chars"} for piece in pieces):
            form["pieces"] = pieces
        if own:
            form["own"] = dict(own)
        if pieces or own:
            yield ImportedMessage(
                "\n\n".join(texts), tuple(images), role, form if len(form) > 1 else {}
            )

    def result(self, value: object, by: Protocol, **own: Any) -> tuple[tuple[Content, ...], Any]:
        """(the content of a result, its form)."""
        content, pieces = list[Content](), list[dict[str, Any]]()
        for body in _dicts([{"text": value}] if isinstance(value, str) else value):
            piece = self._piece(body, by)
            if piece is None:
                pieces.append({"other": dict(body)})
            elif piece.type == "image" or piece.text:
                content.append(piece)
                pieces.append(_other_members(body))
        form: dict[str, Any] = {"own": own} if own else {}
        if any(pieces):
            form["pieces"] = pieces
        return tuple(content), {"protocol": by, **form} if form else {}


_SYSTEM = ("system", "developer")
_SHOWN = ("type", "text", "source", "image_url", "inlineData")
"""Members of a piece that a text or an image says."""


def _other_members(body: Body) -> dict[str, Any]:
    """What stood beside a text or an image, as `own`."""
    own = _rest(body, *_SHOWN)
    if isinstance(url := body.get("image_url"), dict) and (inner := _rest(url, "url")):
        own["image_url"] = inner
    return {"own": own} if own else {}


def _system_messages(messages: object) -> int:
    """How many messages at the head are the system's and nothing but text: they are the system
    prompt. All others of the system stay where they are."""
    count = 0
    for body in _dicts(messages):
        pieces = _dicts(body.get("content"))
        beside = set(body) - {"type", "id", "status", "role", "content"}
        if body.get("role") not in _SYSTEM or beside:
            break
        if any(set(it) - {"type", "text"} for it in pieces):
            break
        count += 1
    return count


def _dicts(value: object) -> list[Body]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _rest(body: Body, *known: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in known}


def _params(body: Body, **words: str) -> dict[str, Any]:
    """The neutral parameters, by what the protocol calls them."""
    return {ours: body[own] for ours, own in words.items() if body.get(own) is not None}


# OpenAI Chat Completions, and what speaks like it ---------------------------------------------


def _chat_setup(body: Body, reading: RequestNotes) -> RequestSetup:
    tokens = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
    words = {"max_tokens": tokens, "temperature": "temperature", "top_p": "top_p", "stop": "stop"}
    params = _params(body, **words)
    if isinstance(body.get("reasoning_effort"), str):
        params["thinking"] = body["reasoning_effort"]
    known = (*words.values(), "reasoning_effort", "model", "messages", "tools", "tool_choice")
    system = [
        text_of(message.get("content"))
        for message in _dicts(body.get("messages"))[: _system_messages(body.get("messages"))]
    ]
    return RequestSetup(
        model=str(body.get("model") or ""),
        system="\n\n".join(system),
        tools=_dicts(body.get("tools")),
        choice=_chat_choice(body, reading),
        params=params,
        extra=_rest(body, *known, "parallel_tool_calls", "stream", "stream_options"),
        stream=body.get("stream") is True,
    )


def _chat_choice(body: Body, reading: RequestNotes) -> ToolChoice:
    parallel, said = body.get("parallel_tool_calls") is not False, body.get("tool_choice")
    match said:
        case None | "auto":
            return ToolChoice(parallel=parallel)
        case "required" | "any":
            return ToolChoice("required", parallel=parallel)
        case "none":
            return ToolChoice("none", parallel=parallel)
        case {"type": "allowed_tools"}:
            inner = said.get("allowed_tools") or said
            names = tuple(filter(None, (_name(body) for body in _dicts(inner.get("tools")))))
            if inner.get("mode") == "required":
                return ToolChoice("required", allowed=names, parallel=parallel)
            return ToolChoice(allowed=names, parallel=parallel)
        case dict() if name := _name(said):
            return ToolChoice("tool", name, parallel=parallel)
    reading.note("The tool choice was not understood; it is auto here.")
    return ToolChoice(parallel=parallel)


def _name(choice: Body) -> str:
    """The name in a choice, bare or one level deeper."""
    inner = choice.get(str(choice.get("type")))
    found = inner.get("name") if isinstance(inner, dict) else choice.get("name")
    return found if isinstance(found, str) else ""


def _chat_items(body: Body, reading: RequestNotes) -> Iterator[ImportedItem]:
    for item in _dicts(body.get("messages"))[_system_messages(body.get("messages")) :]:
        match item.get("role"):
            case "assistant":
                called = "tool_calls" if item.get("tool_calls") else "stop"
                calls = [
                    {**call, "index": n} for n, call in enumerate(_dicts(item.get("tool_calls")))
                ]
                message = {**item, "tool_calls": calls}  # told apart by more than an id, if need be
                choice = {"index": 0, "message": message, "finish_reason": called}
                yield ImportedAnswer({"object": "chat.completion", "choices": [choice]})
            case "tool" | "function":
                known = ("role", "content", "tool_call_id", "name")
                content, form = reading.result(
                    item.get("content"), "openai_chat", **_rest(item, *known)
                )
                id_, name = str(item.get("tool_call_id") or ""), str(item.get("name") or "")
                yield ImportedResult(id_, name, content, form=form)
            case "user" | "system" | "developer" as role:
                beside = _rest(item, "role", "content")
                yield from reading.messages(item.get("content"), "openai_chat", role, beside)
            case role:
                reading.note(f"A message of the role {str(role)[:40]} was left out.")


# Anthropic Messages ----------------------------------------------------------------------------


def _claude_setup(body: Body, reading: RequestNotes) -> RequestSetup:
    words = {"max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
    params = _params(body, **words, stop="stop_sequences", thinking="thinking")
    known = (*words, "stop_sequences", "thinking", "model", "messages", "tools", "tool_choice")
    system, extra = body.get("system"), _rest(body, *known, "system", "stream")
    if isinstance(system, list) and any(set(body) - {"type", "text"} for body in _dicts(system)):
        extra["system"] = system  # marks for the cache, and whatever else stands beside the text
    said = body.get("tool_choice")
    choice = said if isinstance(said, dict) else {}
    parallel = choice.get("disable_parallel_tool_use") is not True
    match choice.get("type"):
        case "any":
            chosen = ToolChoice("required", parallel=parallel)
        case "none":
            chosen = ToolChoice("none")
        case "tool":
            chosen = ToolChoice("tool", str(choice.get("name") or ""), parallel=parallel)
        case _:
            chosen = ToolChoice(parallel=parallel)
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=text_of(system),
        tools=_dicts(body.get("tools")),
        choice=chosen,
        params=params,
        extra=extra,
        stream=body.get("stream") is True,
    )


def _claude_items(body: Body, reading: RequestNotes) -> Iterator[ImportedItem]:
    for message in _dicts(body.get("messages")):
        content = message.get("content")
        if message.get("role") == "assistant":
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            called = any(block.get("type") == "tool_use" for block in _dicts(blocks))
            reason = "tool_use" if called else "end_turn"
            head = {"type": "message", "role": "assistant", "model": "", "id": "", "usage": {}}
            yield ImportedAnswer({**head, "content": _dicts(blocks), "stop_reason": reason})
            continue
        role = "system" if message.get("role") == "system" else "user"
        own = _rest(message, "role", "content")
        if isinstance(content, str):
            yield from reading.messages(content, "anthropic", role, own)
            continue
        blocks = _dicts(content)
        for block in blocks:
            if block.get("type") == "tool_result":
                id_, failed = str(block.get("tool_use_id") or ""), block.get("is_error") is True
                beside = _rest(block, "type", "tool_use_id", "is_error", "content")
                given, form = reading.result(block.get("content"), "anthropic", **beside)
                yield ImportedResult(id_, "", given, failed, form)
        rest = [block for block in blocks if block.get("type") != "tool_result"]
        yield from reading.messages(rest, "anthropic", role, own)


# OpenAI Responses ------------------------------------------------------------------------------


def _responses_setup(body: Body, reading: RequestNotes) -> RequestSetup:
    words = {"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}
    params = _params(body, **words, thinking="reasoning")
    known = (*words.values(), "reasoning", "model", "input", "instructions", "tools")
    more = ("tool_choice", "parallel_tool_calls", "stream", "store", "include")
    system = [text_of(body.get("instructions"))]
    system += [
        text_of(item.get("content"))
        for item in _dicts(body.get("input"))[: _instruction_items(body)]
    ]
    if body.get("store") is True:
        reading.note("It asked the provider to keep the answer; here store is false.")
    if body.get("previous_response_id"):
        reading.note("It goes on from an answer that the provider kept, which is not here.")
    return RequestSetup(
        model=str(body.get("model") or ""),
        system="\n\n".join(text for text in system if text),
        tools=_dicts(body.get("tools")),
        choice=_chat_choice(body, reading),
        params=params,
        extra=_rest(body, *known, *more, "previous_response_id"),
        stream=body.get("stream") is True,
    )


def _instruction_items(body: Body) -> int:
    """How many items at the head are the system prompt: none where there are instructions."""
    return 0 if body.get("instructions") else _system_messages(body.get("input"))


def _responses_items(body: Body, reading: RequestNotes) -> Iterator[ImportedItem]:
    given = body.get("input")
    if isinstance(given, str):
        yield from reading.messages(given, "openai_responses")
        return
    output: list[Body] = []
    for item in _dicts(given)[_instruction_items(body) :]:
        kind, role = item.get("type", "message"), item.get("role")
        if kind in ("function_call_output", "custom_tool_call_output"):
            yield from _responses_answer(output)
            beside = _rest(item, "type", "id", "status", "call_id", "output")
            content, form = reading.result(item.get("output"), "openai_responses", **beside)
            yield ImportedResult(str(item.get("call_id") or ""), "", content, form=form)
        elif kind != "message" or role == "assistant":
            output.append(_output_item(item))
        elif role in ("user", *_SYSTEM):
            yield from _responses_answer(output)
            own = _rest(item, "type", "id", "status", "role", "content")
            yield from reading.messages(item.get("content"), "openai_responses", role, own)
    yield from _responses_answer(output)


def _output_item(item: Body) -> Body:
    """A message of the model as answers have it: with typed content."""
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, str):
        pieces = [{"type": "output_text", "text": content, "annotations": []}]
        return {**item, "type": "message", "content": pieces}
    return {"type": "message", **item} if item.get("role") == "assistant" else item


def _responses_answer(output: list[Body]) -> Iterator[ImportedAnswer]:
    if output:
        head = {"object": "response", "status": "completed", "error": None}
        yield ImportedAnswer({**head, "output": list(output)})
        output.clear()


# Gemini and Ollama -----------------------------------------------------------------------------


def _gemini_setup(body: Body, reading: RequestNotes) -> RequestSetup:
    given = body.get("generationConfig")
    config: Body = given if isinstance(given, dict) else {}
    words = {"max_tokens": "maxOutputTokens", "temperature": "temperature", "top_p": "topP"}
    params = _params(config, **words, stop="stopSequences")
    rest = _rest(config, *words.values(), "stopSequences")
    extra = _rest(body, "contents", "systemInstruction", "tools", "toolConfig", "generationConfig")
    config_of = body.get("toolConfig") or {}
    calling = config_of.get("functionCallingConfig") or {}
    names = tuple(
        allowedFunctionName
        for allowedFunctionName in calling.get("allowedFunctionNames") or ()
        if isinstance(allowedFunctionName, str)
    )
    match calling.get("mode"):
        case "ANY" if len(names) == 1:
            choice = ToolChoice("tool", names[0])
        case "ANY":
            choice = ToolChoice("required", allowed=names or None)
        case "NONE":
            choice = ToolChoice("none")
        case _:
            choice = ToolChoice()
    system = body.get("systemInstruction")
    return RequestSetup(
        system=text_of(system.get("parts")) if isinstance(system, dict) else "",
        tools=_dicts(body.get("tools")),
        choice=choice,
        params=params,
        extra={
            **extra,
            **({"generationConfig": rest} if rest else {}),
            **({"toolConfig": more} if (more := _rest(config_of, "functionCallingConfig")) else {}),
        },
    )


def _gemini_items(body: Body, reading: RequestNotes) -> Iterator[ImportedItem]:
    for content in _dicts(body.get("contents")):
        parts = _dicts(content.get("parts"))
        if content.get("role") == "model":
            yield ImportedAnswer(
                {"candidates": [{"content": dict(content), "finishReason": "STOP"}]}
            )
            continue
        for part in parts:
            if isinstance(given := part.get("functionResponse"), dict):
                id_, name = str(given.get("id") or ""), str(given.get("name") or "")
                text, failed = _gemini_result(given.get("response"))
                shown, _ = reading.result(given.get("parts"), "gemini")
                beside = _rest(given, "id", "name", "response", "parts")
                form = {"protocol": "gemini", "own": beside} if beside else {}
                yield ImportedResult(id_, name, (Content(text=text), *shown), failed, form)
        rest = [part for part in parts if "functionResponse" not in part]
        yield from reading.messages(rest, "gemini")


def _gemini_result(response: object) -> tuple[str, bool]:
    """What a tool gave, and whether it failed: `output` and `error` are the words for it."""
    match response:
        case {"output": value, **rest} if not rest:
            failed = False
        case {"error": value, **rest} if not rest:
            failed = True
        case _:
            value, failed = response, False
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), failed


def _ollama_setup(body: Body, reading: RequestNotes) -> RequestSetup:
    given = body.get("options")
    options: Body = given if isinstance(given, dict) else {}
    words = {"max_tokens": "num_predict", "temperature": "temperature", "top_p": "top_p"}
    rest = _rest(options, *words.values(), "stop")
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=_chat_setup(body, reading).system,
        tools=_dicts(body.get("tools")),
        params=_params(options, **words, stop="stop"),
        extra={
            **_rest(body, "model", "messages", "tools", "stream", "options"),
            **({"options": rest} if rest else {}),
        },
        stream=body.get("stream") is not False,
    )


def _ollama_items(body: Body, reading: RequestNotes) -> Iterator[ImportedItem]:
    for message in _dicts(body.get("messages"))[_system_messages(body.get("messages")) :]:
        match message.get("role"):
            case "assistant":
                yield ImportedAnswer(
                    {"message": dict(message), "done": True, "done_reason": "stop"}
                )
            case "tool":
                name = str(message.get("tool_name") or message.get("name") or "")
                content, _ = reading.result(message.get("content"), "ollama")
                yield ImportedResult("", name, content)
            case "user" | "system" as role:
                images = tuple(
                    Content("image", media_type="image/png", data=data)
                    for data in message.get("images") or ()
                    if isinstance(data, str)
                )
                text = message.get("content")
                if images or (isinstance(text, str) and text.strip()):
                    yield ImportedMessage(text if isinstance(text, str) else "", images, role)
            case role:
                reading.note(f"A message of the role {str(role)[:40]} was left out.")


Reader = tuple[
    Callable[[Body, RequestNotes], RequestSetup],
    Callable[[Body, RequestNotes], Iterator[ImportedItem]],
]

READERS: Mapping[Protocol, Reader] = {
    "anthropic": (_claude_setup, _claude_items),
    "openai_chat": (_chat_setup, _chat_items),
    "openai_responses": (_responses_setup, _responses_items),
    "gemini": (_gemini_setup, _gemini_items),
    "ollama": (_ollama_setup, _ollama_items),
}


def guess_protocol(body: Body) -> Protocol | None:
    """The protocol that a body is written in, told by its shape; None for none of ours."""
    if isinstance(body.get("contents"), list):
        return "gemini"
    if "input" in body and "messages" not in body:
        return "openai_responses"
    messages = _dicts(body.get("messages"))
    if not messages:
        return None
    tools = _dicts(body.get("tools"))
    blocks = [block for message in messages for block in _dicts(message.get("content"))]
    kinds = {block.get("type") for block in blocks}
    if any("input_schema" in tool for tool in tools) or kinds & {"tool_use", "tool_result"}:
        return "anthropic"
    if "system" in body or "stop_sequences" in body or "anthropic_version" in body:
        return "anthropic"
    if (
        "options" in body
        or "keep_alive" in body
        or any("tool_name" in message for message in messages)
    ):
        return "ollama"
    return "openai_chat"
