"""Encodes a neutral request as a Gemini request (Gemini API and Vertex), and reads one back.

A turn received by this protocol goes back part by part, unchanged, with signatures; of turns from
another protocol, whatever this one can express. A prompt after results is in the same content,
because roles alternate. Spec: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.settings import Protocol
from playground.core.tools import Content, Tool, ToolChoice
from playground.protocols import words_of
from playground.protocols.base import WireRequest
from playground.protocols.encoder import (
    CUT,
    Names,
    Notes,
    exact_object,
    input_object,
    message_members,
    move_system_messages,
    no_tools_note,
    note_foreign,
    own_block,
    own_members,
    preflight,
    sound_object,
    stop_words,
    tool_extra,
    wire_request,
    with_sound_arguments,
)
from playground.protocols.gemini import limits
from playground.protocols.gemini.limits import SKIP_VALIDATOR, camel_names
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
    member,
    params_of,
    rest_of,
    text_of,
)

PROTOCOL: Protocol = "gemini"
VERSION = "/v1beta"
MODELS_PATH = f"{VERSION}/models?pageSize=1000"
QUIRKS: Mapping[str, str] = {
    "vertex": (
        "the base URL ends in publishers/google, and the key is sent as Authorization: Bearer "
        "(Vertex)"
    ),
    "stream_arguments": "arguments are streamed (Vertex with Gemini 3)",
}
BUDGETS = {"minimal": 512, "low": 1024, "medium": 4096, "high": 16384}
"""Thinking tokens for the levels of Gemini 3, for earlier models."""

_DATA = (
    *("text", "inlineData", "inline_data", "fileData", "file_data"),
    *("executableCode", "executable_code", "codeExecutionResult", "code_execution_result"),
    *("toolCall", "toolResponse", "functionResponse", "function_response"),
    *("functionCall", "function_call"),
)
"""The members of which a part has one: with two, the provider refuses it."""

_MOST_NAME = 128
_ODD = re.compile(r"[^A-Za-z0-9_.:-]")
_NUMBERED = re.compile(r"gemini-(\d+)")
_MODES = {"auto": "AUTO", "required": "ANY", "tool": "ANY", "none": "NONE"}

_BODY = words_of("contents systemInstruction tools toolConfig generationConfig")
_PARAMS = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
}
_CALLING = words_of("mode allowedFunctionNames")
_PART = words_of("functionCall functionResponse thoughtSignature")


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST models/MODEL:streamGenerateContent, or :generateContent."""
    notes = Notes()
    request = with_sound_arguments(translate_params(PROTOCOL, request), notes)
    request = move_system_messages(request, notes)
    body: dict[str, Any] = {"contents": _Contents(request, notes).build_contents()}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.offered:
        _add_tools(body, request, notes)
    else:
        no_tools_note(request, notes)
    if generation := _generation(request, notes):
        body["generationConfig"] = generation
    request = replace(request, extra=_with_spelling_of(request.extra, body))
    return wire_request(request, _path(request), {}, body, notes, stream_in_path=True)


def _with_spelling_of(extra: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """`extra` with the spelling in `body` of the same fields, which may occur only once."""
    groups = ("generationConfig", "toolConfig")
    named = limits.camel_names(extra, {*body, *groups})
    for group in groups:
        inner, ours = named.get(group), body.get(group)
        if isinstance(inner, Mapping) and isinstance(ours, Mapping):
            named[group] = limits.camel_names(inner, ours)
    return named


def key_header(key: str, quirks: Sequence[str]) -> Mapping[str, str]:
    if "vertex" in quirks:
        return {"authorization": f"Bearer {key}"}
    return {"x-goog-api-key": key}


def _path(request: ModelRequest) -> str:
    """Accepts `gemini-x` and, as listed, `models/gemini-x`."""
    model = request.model.strip("/")
    if not model.startswith(("models/", "tunedModels/")):
        model = f"models/{model}"
    method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
    version = "" if "vertex" in request.quirks else VERSION
    return f"{version}/{quote(model, safe='/@.-_~', errors='replace')}:{method}"


def thinks_in_levels(model: str) -> bool:
    """Whether it is Gemini 3 or later, which has thinking levels, demands signatures and accepts
    images in results; also for names without a version, which mean the latest."""
    name = model.rpartition("/")[2]
    match = _NUMBERED.match(name)
    return int(match[1]) >= 3 if match else name.startswith("gemini-")


def split_part(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A part for each member with data. `thought` stays with its text, a signature and all else
    with the last, which is the call if there is one."""
    data = [key for key in _DATA if part.get(key) not in (None, "")]
    if not data:
        return [part]
    *most, last = data
    own = {key: item for key, item in part.items() if key not in _DATA}
    thought = {"thought": own.pop("thought")} if most[:1] == ["text"] and "thought" in own else {}
    parts = [{key: part[key]} for key in most] + [{last: part[last], **own}]
    return [{**parts[0], **thought}, *parts[1:]]


# Tools.


def _add_tools(body: dict[str, Any], request: ModelRequest, notes: Notes) -> None:
    choice, allowed = request.choice, request.choice.allowed
    tools = request.tools if allowed is not None else request.offered
    body["tools"] = [{"functionDeclarations": [_tool(tool, notes) for tool in tools]}]
    preflight(tools, limits.LIMITS, notes, request.model)
    config: dict[str, Any] = {"mode": _MODES[choice.mode]}
    if choice.mode == "tool":
        config["allowedFunctionNames"] = [choice.name]
    elif allowed is not None and choice.mode != "none":
        config["allowedFunctionNames"] = [tool.name for tool in request.offered]
        if choice.mode == "auto":
            config["mode"] = "VALIDATED"
            notes.add(
                "Only some tools are allowed. This was sent as mode VALIDATED, because AUTO "
                "does not accept names."
            )
    if any(tool.strict for tool in tools) and config["mode"] == "AUTO":
        config["mode"] = "VALIDATED"
        notes.add("strict was sent as mode VALIDATED, which applies to all tools.")
    if not choice.parallel and choice.mode != "none":
        notes.add("Gemini cannot turn off parallel calls.")
    if "stream_arguments" in request.quirks and request.stream:
        config["streamFunctionCallArguments"] = True
    elif request.stream:
        notes.add("Gemini sends a call's arguments in one piece, not in deltas.")
    if config != {"mode": "AUTO"}:
        body["toolConfig"] = {"functionCallingConfig": config}


def _tool(tool: Tool, notes: Notes) -> dict[str, Any]:
    """A tool with plain JSON Schema: `parameters` supports only a subset of OpenAPI's."""
    if tool.format is not None:
        notes.add(
            f"{tool.name} is a free-form tool. It was sent as a function with one text argument."
        )
    entry: dict[str, Any] = {"name": tool.name}
    if tool.description:
        entry["description"] = tool.description
    extra = tool_extra(tool, PROTOCOL, notes)
    return {**extra, **entry, "parametersJsonSchema": dict(tool.parameters)}


# Settings.


def _generation(request: ModelRequest, notes: Notes) -> dict[str, Any]:
    params, config = request.params, dict[str, Any]()
    names = {"temperature": "temperature", "top_p": "topP", "max_tokens": "maxOutputTokens"}
    for name, word in names.items():
        if params.get(name) is not None:
            config[word] = params[name]
    if stop := stop_words(params.get("stop")):
        config["stopSequences"] = stop
    thinking = _thinking(params.get("thinking"), thinks_in_levels(request.model), notes)
    if thinking is not None:
        config["thinkingConfig"] = thinking
    return config


def _thinking(value: Any, levels: bool, notes: Notes) -> dict[str, Any] | None:
    """`thinking` as given: an object is sent unchanged, a number is a budget, a word a level."""
    match value:
        case None | False | "" | "none":
            return None
        case dict():
            return dict(value)
        case True:
            return {"includeThoughts": True}
        case 0 | "disabled":
            return {"thinkingBudget": 0}
        case int():
            return {"includeThoughts": True, "thinkingBudget": value}
        case "adaptive":
            return {"includeThoughts": True, "thinkingBudget": -1}
        case str() if value in BUDGETS and levels:
            return {"includeThoughts": True, "thinkingLevel": value.upper()}
        case str() if value in BUDGETS:
            return {"includeThoughts": True, "thinkingBudget": BUDGETS[value]}
    notes.add(
        "The setting thinking was left out. Use a budget in tokens or minimal, low, medium, high."
    )
    return None


# The history.


class _Contents:
    """The contents of one request. `_made` are the last turn's calls by our ids: the name each was
    sent with, and the id that Gemini gave it, or ""."""

    def __init__(self, request: ModelRequest, notes: Notes) -> None:
        self._request = request
        self._notes = notes
        self._names = Names(_MOST_NAME, request.tools, notes, _ODD)
        self._new = thinks_in_levels(request.model)
        self._made: dict[str, deque[tuple[str, str]]] = {}

    def build_contents(self) -> list[dict[str, Any]]:
        contents: list[dict[str, Any]] = []
        for message in self._request.messages:
            role, parts = "user", list[dict[str, Any]]()
            match message.role:
                case "assistant":
                    role, parts = "model", self._turn(message)
                case "results":
                    parts = self._results(message)
                case "user" | "system":
                    message_members(message, PROTOCOL, self._notes)
                    parts = [
                        piece for part in message.parts for piece in _prompt(part, self._notes)
                    ]
                    if message.role == "system":
                        self._notes.add(
                            "Later system messages were sent as user messages in their place: "
                            "Gemini accepts system messages only at the beginning."
                        )
            if not parts:
                continue
            if contents and contents[-1]["role"] == role:
                contents[-1]["parts"] += parts
            else:
                contents.append({"role": role, "parts": parts})
        return contents

    def _turn(self, message: Message) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        self._made = {}
        signed = not self._new
        for part in message.parts:
            own = part.meta if part.protocol == PROTOCOL else {}
            sent = self._call(part, own) if part.kind == "call" else self._part(part, own)
            for item in map(dict, split_part(sent) if sent is not None else ()):
                if "functionCall" in item and not signed:
                    signed = True
                    if "thoughtSignature" not in item:
                        item["thoughtSignature"] = SKIP_VALIDATOR
                        self._notes.add(
                            f"Calls without a Gemini signature were sent with {SKIP_VALIDATOR}, "
                            "because Gemini 3 refuses calls without one."
                        )
                parts.append(item)
        return parts

    def _part(self, part: MessagePart, own: Mapping[str, Any]) -> dict[str, Any] | None:
        rest = own.get("part")
        rest = dict(rest) if isinstance(rest, Mapping) else {}
        if own.get("verbatim") and rest and part.complete:
            return rest
        match part.kind:
            case kind if kind not in ("text", "refusal") and not part.complete:
                self._notes.note_omission(part, CUT)
                return None
            case "text" | "refusal":
                return {"text": part.text, **rest} if part.text.strip() or rest else None
            case "thinking" if part.protocol == PROTOCOL and part.text:
                return {"text": part.text, "thought": True, **rest}
            case _:
                self._notes.note_foreign_part(part)
                return None

    def _call(self, part: MessagePart, own: Mapping[str, Any]) -> dict[str, Any]:
        own_id = own.get("id")
        own_id = own_id if isinstance(own_id, str) else ""
        name = self._name(part.name)
        self._made.setdefault(part.call_id, deque()).append((name, own_id))
        extra, rest = own.get("call"), own.get("part")
        call: dict[str, Any] = {"name": name, "args": input_object(part)}
        if own.get("absent") and part.text.strip() in ("", "{}"):
            del call["args"]
        if own_id:
            call["id"] = own_id
        if isinstance(extra, Mapping):
            call = {**extra, **call}
        return {"functionCall": call, **(rest if isinstance(rest, Mapping) else {})}

    def _name(self, name: str) -> str:
        """Names must begin with a letter or an underscore here."""
        sent_name = self._names.allowed_name(name)
        fits = (
            sent_name[0].isalpha()
            or sent_name[0] == "_"
            or sent_name in (t.name for t in self._request.tools)
        )
        return sent_name if fits else f"_{sent_name}"[:_MOST_NAME]

    def _results(self, message: Message) -> list[dict[str, Any]]:
        """One response per call, then the images if the model does not accept them inside it."""
        parts: list[dict[str, Any]] = []
        image_parts: list[dict[str, Any]] = []
        for part in message.parts:
            queue = self._made.get(part.call_id)
            name, own_id = queue.popleft() if queue else (self._name(part.name), "")
            note_foreign(part, PROTOCOL, self._notes)
            own = dict(part.meta) if part.protocol == PROTOCOL else {}
            answer: dict[str, Any] = {**own, "name": name, "response": _response(part)}
            if own_id:
                answer["id"] = own_id
            images = [_image(piece) for piece in part.content if piece.type == "image"]
            if images and self._new:
                answer["parts"] = images
            else:
                image_parts += images
            parts.append({"functionResponse": answer})
        if image_parts:
            self._notes.add(
                "Images of tool results were put next to them: only Gemini 3 accepts images in "
                "results."
            )
            parts += [{"text": "The images that the tools returned:"}, *image_parts]
        return parts


def _prompt(part: MessagePart, notes: Notes) -> list[dict[str, Any]]:
    if part.kind == "other":
        return own_block(part.meta, part, PROTOCOL, notes)
    own = own_members(part.meta, part, PROTOCOL, notes)
    if part.kind == "image":
        return [{**own, **_image(piece)} for piece in part.content if piece.type == "image"]
    return [{**own, "text": part.text}] if part.text.strip() else []


def _image(piece: Content) -> dict[str, Any]:
    return {"inlineData": {"mimeType": piece.media_type, "data": piece.data}}


def _response(part: MessagePart) -> dict[str, Any]:
    """`response` must be an object: `output` is the tool's output, `error` the failure.

    A result that is an object is sent as it is, unless Google's server would misread it.
    """
    text = "\n".join(piece.text for piece in part.content if piece.type == "text")
    if part.is_error:
        return {"error": text or "The tool failed and gave no reason."}
    value = exact_object(text) if sound_object(text) is not None else None
    return {"output": text if value is None else value}


# Reading a body back: its names are in camelCase or snake_case; unknown members keep theirs.
# https://protobuf.dev/programming-guides/json/#json-options


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    body = camel_names(body, _BODY)
    config = camel_names(member(body, "generationConfig"), _PARAMS.values())
    choosing = camel_names(member(body, "toolConfig"), ("functionCallingConfig",))
    extra = rest_of(body, *_BODY)
    if more := rest_of(config, *_PARAMS.values()):
        extra["generationConfig"] = more
    if more := rest_of(choosing, "functionCallingConfig"):
        extra["toolConfig"] = more
    return RequestSetup(
        system=text_of(member(body, "systemInstruction").get("parts")),
        tools=dicts(body.get("tools")),
        choice=_choice(camel_names(member(choosing, "functionCallingConfig"), _CALLING)),
        params=params_of(config, **_PARAMS),
        extra=extra,
    )


def _choice(calling: Body) -> ToolChoice:
    allowed = calling.get("allowedFunctionNames")
    listed = allowed if isinstance(allowed, list) else []
    names = tuple(name for name in listed if isinstance(name, str))
    match str(calling.get("mode") or "").upper():
        case "ANY" if len(names) == 1:
            return ToolChoice("tool", names[0])
        case "ANY":
            return ToolChoice("required", allowed=names or None)
        case "NONE":
            return ToolChoice("none")
    return ToolChoice(allowed=names or None)  # VALIDATED is auto with names


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    for place, content in indexed_dicts(body.get("contents")):
        at = ("contents", place)
        named = [
            (number, camel_names(part, _PART))
            for number, part in indexed_dicts(content.get("parts"))
        ]
        parts = [single for _, part in named for single in split_part(part)]
        if content.get("role") == "model":
            candidate = {"content": {**content, "parts": parts}, "finishReason": "STOP"}
            yield AnswerMessage({"candidates": [candidate]}, tuple(map(_part, parts)), at)
            continue
        for number, part in named:
            if isinstance(given := part.get("functionResponse"), dict):
                id_, name = str(given.get("id") or ""), str(given.get("name") or "")
                text, failed = _result(given.get("response"))
                shown, _ = notes.result(given.get("parts"))
                beside = rest_of(given, "id", "name", "response", "parts")
                form = {"protocol": PROTOCOL, "own": beside} if beside else {}
                pieces = (Content(text=text), *shown)
                yield ResultMessage(
                    id_,
                    name=name,
                    content=pieces,
                    is_error=failed,
                    form=form,
                    at=(*at, "parts", number),
                )
        rest = [part for part in parts if "functionResponse" not in part]
        yield from notes.messages(rest, at)


def _part(part: Body) -> MessagePart:
    if isinstance(call := part.get("functionCall"), dict):
        return call_part(str(call.get("id") or ""), call.get("name"), call.get("args"))
    if isinstance(text := part.get("text"), str):
        return MessagePart("thinking" if part.get("thought") is True else "text", text)
    return MessagePart("other", meta=part)


def _result(response: object) -> tuple[str, bool]:
    """The output of a tool, and whether it failed: from the members `output` and `error`."""
    match response:
        case {"output": value, **rest} if not rest:
            failed = False
        case {"error": value, **rest} if not rest:
            failed = True
        case _:
            value, failed = response, False
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), failed


READER = RequestReader(_setup, _items)
