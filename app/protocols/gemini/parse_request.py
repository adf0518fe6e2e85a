"""Parses Gemini requests and refuses as Gemini does: same status and words.

Tools are parsed in `request_tools`.

https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import Content
from app.protocols.gemini.parse_tools import (
    STRUCT,
    choice_of,
    fields,
    invalid,
    member_of_type,
    plain,
    referring,
    refusal,
    tools_of,
    wrong_type,
)
from app.protocols.server import (
    BadRequest,
    ParsedRequest,
    compact,
    encoded,
    object_of,
    tokens,
    words_of,
)

TAKES = re.compile(
    r"/v1(?:beta|alpha)?/(?:models|tunedModels)/([^/:]+):(generateContent|streamGenerateContent)"
)
COUNTING = re.compile(r"/v1(?:beta|alpha)?/(?:models|tunedModels)/([^/:]+):countTokens")
SIGNED_BY = b"simulator:"
"""How every signature of the simulator begins, which is how it knows its own."""
SKIP_VALIDATOR = "skip_thought_signature_validator"

CONTENTS = "https://github.com/ikechan8370/chatgpt-plugin/issues/733"
PARTS = "https://github.com/egoist/chatwise-releases/issues/250"
ROLES = "a recorded answer of Vertex (OpenTelemetry's tests of its vertexai instrumentation)"
TURNS = "https://github.com/google-gemini/gemini-cli/issues/26486"
COUNTS = "https://github.com/cloudwego/eino-ext/issues/571"
MISSING = "https://github.com/langgenius/dify-official-plugins/issues/2088"
CORRUPTED = "https://github.com/google-gemini/gemini-cli/issues/13467"
REFERENCE = "https://ai.google.dev/api/generate-content"
FUNCTIONS = "https://ai.google.dev/gemini-api/docs/function-calling"
THINKING = "https://ai.google.dev/gemini-api/docs/thinking"

MIME = "https://github.com/googleapis/python-genai/issues/867"

_MIMES = ("text/plain", "application/json", "application/xml", "application/yaml", "text/x.enum")
_KNOWN = words_of(
    """model contents systemInstruction tools toolConfig generationConfig safetySettings
    cachedContent labels serviceTier store"""
)
_CONFIG = words_of(
    """temperature topP topK candidateCount maxOutputTokens stopSequences responseMimeType
    responseSchema responseJsonSchema presencePenalty frequencyPenalty seed responseLogprobs
    logprobs responseModalities speechConfig thinkingConfig mediaResolution imageConfig
    enableEnhancedCivicAnswers audioTimestamp routingConfig modelSelectionConfig
    enableAffectiveDialog responseFormat translationConfig audioTranscriptionConfig"""
)
_DATA = words_of(
    """text inlineData fileData functionCall functionResponse executableCode codeExecutionResult
    toolCall toolResponse"""
)
_PART = _DATA | words_of(
    "thought thoughtSignature videoMetadata partMetadata mediaResolution mediaProcessing"
)
_CALL = words_of("name args id partialArgs willContinue")
_RESPONSE = words_of("id name response parts willContinue scheduling")
_LEVELS = words_of("THINKING_LEVEL_UNSPECIFIED MINIMAL LOW MEDIUM HIGH")


def is_three(model: str) -> bool:
    """Whether the model is of the third generation: it signs its calls and gives them ids."""
    return model.startswith("gemini-3")


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """The request that `body` holds. Raises BadRequest in Gemini's own words.

    Model and method stand in the path; without `alt=sse` a stream is one JSON array.
    """
    path, _, query = target.partition("?")
    match = TAKES.fullmatch(path)
    assert match is not None
    model, stream = unquote(match[1]), match[2] == "streamGenerateContent"
    as_array = stream and parse_qs(query).get("alt", [""])[-1] != "sse"
    parsed = _parse_data(object_of(body), model, stream)
    return replace(parsed, stream_type="application/json" if as_array else "")


def count(body: bytes, headers: Mapping[str, str], target: str, created: int = 0) -> bytes:
    """The answer of countTokens: of contents alone, or of a whole request."""
    match = COUNTING.fullmatch(target)
    assert match is not None
    data = fields(object_of(body), ("contents", "generateContentRequest"), "")
    whole = data.get("generateContentRequest", data)
    input_tokens = _parse_data(whole, unquote(match[1]), stream=False).input_tokens
    details = [{"modality": "TEXT", "tokenCount": input_tokens}]
    return encoded({"totalTokens": input_tokens, "promptTokensDetails": details})


def _parse_data(body: Any, model: str, stream: bool) -> ParsedRequest:
    data = fields(body, _KNOWN, "")
    tools = tools_of(data.get("tools"), model)
    choice = choice_of(data.get("toolConfig"), tools)
    params = _config(data.get("generationConfig", {}), model)
    if tools and params["format"] is not None and not is_three(model):
        raise refusal(
            "Function calling with a response mime type: 'application/json' is unsupported", MIME
        )
    contents = member_of_type(data, "contents", list, "") or []
    if not contents:
        raise invalid("contents", "contents is not specified", CONTENTS)
    request = ModelRequest(
        model=model,
        system=_system(data.get("systemInstruction")),
        messages=_messages(contents, model),
        tools=tools,
        choice=choice,
        params=params,
        stream=stream,
    )
    return ParsedRequest(request, tokens(compact([contents, data.get("tools"), request.system])))


def _system(value: Any) -> str:
    if value is None:
        return ""
    content = fields(value, ("role", "parts"), "system_instruction")
    texts = []
    for place, part in enumerate(
        member_of_type(content, "parts", list, "system_instruction") or []
    ):
        where = f"system_instruction.parts[{place}]"
        texts.append(member_of_type(fields(part, _PART, where), "text", str, where) or "")
    return "\n".join(texts)


def _config(value: Any, model: str) -> dict[str, Any]:
    where = "generation_config"
    config = fields(value, _CONFIG, where)
    most = member_of_type(config, "maxOutputTokens", int, where)
    if most is not None and most < 1:
        raise invalid(f"{where}.max_output_tokens", "must be positive.", REFERENCE, inferred=True)
    for name, high in (("temperature", 2.0), ("topP", 1.0)):
        number = config.get(name, 0.0)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise wrong_type(number, f"{where}.{name}", "TYPE_FLOAT")
        if not 0 <= number <= high:
            sentence = f"{name} must be in the range [0.0, {high}]."
            raise invalid(f"{where}.{name}", sentence, REFERENCE, inferred=True)
    for place, word in enumerate(member_of_type(config, "stopSequences", list, where) or []):
        if not isinstance(word, str):
            raise wrong_type(word, f"{where}.stop_sequences[{place}]", "TYPE_STRING")
    thinking = _thinking(config.get("thinkingConfig"), model)
    return {"max_tokens": most, "thinking": thinking, "format": _format(config, where)}


def _format(config: Mapping[str, Any], where: str) -> Mapping[str, Any] | None:
    """The form that the answer is to have: None for words."""
    kind = member_of_type(config, "responseMimeType", str, where) or "text/plain"
    if kind not in _MIMES:
        names = ", ".join(f"`{mime}`" for mime in _MIMES)
        sentence = f"allowed mimetypes are {names}."
        raise invalid(f"{where}.response_mime_type", sentence, REFERENCE, inferred=True)
    schemas = [name for name in ("responseSchema", "responseJsonSchema") if name in config]
    formed = kind in ("application/json", "text/x.enum")
    if len(schemas) > 1 or (schemas and not formed):
        sentence = (
            "only one of response_schema and response_json_schema may be set."
            if formed
            else "only allowed when the response mime type is `application/json`."
        )
        raise invalid(f"{where}.response_schema", sentence, REFERENCE, inferred=True)
    if not formed:
        return None
    schema = None
    if "responseSchema" in config:
        schema = plain(config["responseSchema"], f"{where}.response_schema")
    elif "responseJsonSchema" in config:
        schema = referring(config["responseJsonSchema"], f"{where}.response_json_schema")
    return {"schema": schema, "bare": kind == "text/x.enum"}


def _thinking(value: Any, model: str) -> bool:
    """Whether thoughts are shown; a model thinks anyhow."""
    if value is None:
        return False
    where = "generation_config.thinking_config"
    config = fields(value, ("includeThoughts", "thinkingBudget", "thinkingLevel"), where)
    budget, level = (
        member_of_type(config, "thinkingBudget", int, where),
        config.get("thinkingLevel"),
    )
    if level is not None and (not isinstance(level, str) or level.upper() not in _LEVELS):
        raise wrong_type(level, f"{where}.thinking_level", "an enum of ThinkingLevel")
    if level is not None and budget is not None:
        raise refusal("You can only set only one of thinking budget and thinking level.", THINKING)
    if level is not None and not is_three(model):
        raise refusal("Thinking level is not supported for this model.", THINKING)
    return bool(member_of_type(config, "includeThoughts", bool, where)) and budget != 0


# Contents.


def _messages(contents: Sequence[Any], model: str) -> tuple[Message, ...]:
    messages: list[Message] = []
    open_calls: list[MessagePart] = []
    before = ""
    since = _turn_start(contents)
    for place, content in enumerate(contents):
        where = f"contents[{place}]"
        entry = fields(content, ("role", "parts"), where)
        role = entry.get("role", "user")
        if role not in ("user", "model"):
            raise refusal("Please use a valid role: user, model.", ROLES)
        raw = member_of_type(entry, "parts", list, where) or []
        if not raw:
            raise invalid(f"{where}.parts", "contents.parts must not be empty.", PARTS)
        raw_parts = [fields(item, _PART, f"{where}.parts[{n}]") for n, item in enumerate(raw)]
        parts = [
            _part(item, role, f"{where}.parts[{n}]", model) for n, item in enumerate(raw_parts)
        ]
        results = [part for part in parts if part.kind == "result"]
        answers = _pair_results(results, open_calls)
        open_calls = [part for part in parts if part.kind == "call"]
        if open_calls and before != "user":
            raise refusal(
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn.",
                TURNS,
            )
        if is_three(model):
            _check_signatures(raw_parts, place, place > since)
        rest = tuple(part for part in parts if part.kind != "result")
        messages += [Message("results", answers)] if answers else []
        if rest:
            messages.append(Message("assistant" if role == "model" else "user", rest))
        before = role
    if open_calls:
        raise _counts()
    return tuple(_with_call_ids(messages))


def _with_call_ids(messages: Sequence[Message]) -> Iterator[Message]:
    """Calls that came without an id get one of ours, and so do their results: whoever reads on
    pairs them by it. Results stand in the order of the calls by now.
    """
    ids: list[str] = []
    for place, message in enumerate(messages):
        kind = "result" if message.role == "results" else "call"
        if message.role == "assistant":
            calls = [part for part in message.parts if part.kind == "call"]
            ids = [part.call_id or f"{place}.{n}" for n, part in enumerate(calls)]
        if message.role == "user":
            yield message
            continue
        next_ids = iter(ids)
        parts = (replace(p, call_id=next(next_ids)) if p.kind == kind else p for p in message.parts)
        yield replace(message, parts=tuple(parts))


def _turn_start(contents: Sequence[Any]) -> int:
    """The place of the last prompt: what the model did since then must be signed."""
    start = -1
    for place, content in enumerate(contents):
        if isinstance(content, dict) and content.get("role", "user") == "user":
            parts = content.get("parts")
            items = parts if isinstance(parts, list) else []
            if any(isinstance(part, dict) and "text" in part for part in items):
                start = place
    return start


def _pair_results(
    results: Sequence[MessagePart], calls: Sequence[MessagePart]
) -> tuple[MessagePart, ...]:
    """The results under the ids of the calls they answer: by order, for ids need not be there."""
    if len(results) != len(calls):
        if not calls:
            raise refusal(
                "Please ensure that function response turn comes immediately after a function call "
                "turn.",
                TURNS,
                inferred=True,
            )
        raise _counts()
    open_ids = {call.call_id for call in calls}
    answers = []
    for result, call in zip(results, calls, strict=True):
        if result.name != call.name or result.call_id not in ("", call.call_id):
            other = result.call_id in open_ids and result.call_id != call.call_id
            raise refusal(
                "Please ensure that function response parts come in the order of the function call "
                f"parts: {result.name} stands where {call.name} was called."
                if other or result.name != call.name
                else f"Please ensure that the id of a function response is that of its function "
                f"call: {result.call_id} is none.",
                FUNCTIONS,
                inferred=True,
            )
        answers.append(
            MessagePart(
                "result",
                name=result.name,
                call_id=call.call_id,
                content=result.content,
                is_error=result.is_error,
            )
        )
    return tuple(answers)


def _counts() -> BadRequest:
    return refusal(
        "Please ensure that the number of function response parts is equal to the number of "
        "function call parts of the function call turn.",
        COUNTS,
    )


def _check_signatures(parts: Sequence[Mapping[str, Any]], place: int, current: bool) -> None:
    """The first call of each step of this turn is signed, and every signature is our own."""
    calls = [part for part in parts if "functionCall" in part]
    if current and calls and not calls[0].get("thoughtSignature"):
        raise refusal(
            "Function call is missing a thought_signature in functionCall parts. This is required "
            "for tools to work correctly, and missing thought_signature may lead to degraded model "
            "performance. Additional data, function call "
            f"`default_api:{calls[0]['functionCall'].get('name')}` , position {place + 1}. Please "
            "refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
            MISSING,
        )
    for part in parts:
        signature = part.get("thoughtSignature")
        if (
            signature
            and signature != SKIP_VALIDATOR
            and not _bytes(signature).startswith(SIGNED_BY)
        ):
            raise refusal("Corrupted thought signature.", CORRUPTED)


def _bytes(text: str) -> bytes:
    sound = text.replace("-", "+").replace("_", "/")
    return b64decode(sound + "=" * (-len(sound) % 4), validate=True)


def _part(part: Mapping[str, Any], role: str, where: str, model: str) -> MessagePart:
    data = [name for name in part if name in _DATA]
    signature = member_of_type(part, "thoughtSignature", str, where)
    if signature is not None:
        try:
            _bytes(signature)
        except ValueError:
            kind = "TYPE_BYTES), Base64 decoding failed for (a signature"
            raise wrong_type(signature, f"{where}.thought_signature", kind) from None
    if len(data) > 1 or (not data and signature is None):
        raise invalid(
            f"{where}.data",
            "required oneof field 'data' must have one initialized field",
            PARTS,
            inferred=True,
        )
    match data[0] if data else "":
        case "text":
            kind = "thinking" if part.get("thought") is True else "text"
            return MessagePart(kind, member_of_type(part, "text", str, where))
        case "inlineData":
            return MessagePart("image", content=(_image(part["inlineData"], where),))
        case "functionCall" if role == "model":
            return _call(part["functionCall"], f"{where}.function_call")
        case "functionResponse" if role == "user":
            return _response(part["functionResponse"], f"{where}.function_response", model)
        case "functionCall" | "functionResponse":
            sides = "model, functionResponse parts in those of the user"
            raise refusal(
                f"Please ensure that functionCall parts stand in turns of the {sides}.",
                TURNS,
                inferred=True,
            )
        case _:
            return MessagePart("other")


def _image(value: Any, where: str) -> Content:
    blob = fields(value, ("mimeType", "data", "displayName"), f"{where}.inline_data")
    kind, data = (
        member_of_type(blob, name, str, f"{where}.inline_data") for name in ("mimeType", "data")
    )
    if not kind:
        raise refusal(
            f"Unable to process input at {where}: inline_data.mime_type is empty.",
            REFERENCE,
            inferred=True,
        )
    return Content("image", media_type=kind, data=data or "")


def _call(value: Any, where: str) -> MessagePart:
    call = fields(value, _CALL, where)
    name = member_of_type(call, "name", str, where) or ""
    if not name:
        raise invalid(f"{where}.name", "Name cannot be empty.", FUNCTIONS, inferred=True)
    args = member_of_type(call, "args", dict, where) or {}
    return MessagePart("call", compact(args), name, member_of_type(call, "id", str, where) or "")


def _output(response: Mapping[str, Any]) -> Any:
    """What a function returned: under the name that Google gives it, or libraries do; else all."""
    if "output" in response:
        return response["output"]
    only = next(iter(response)) if len(response) == 1 else ""
    return response[only] if only in ("result", "return_value", "content") else response


def _response(value: Any, where: str, model: str) -> MessagePart:
    entry = fields(value, _RESPONSE, where)
    name = member_of_type(entry, "name", str, where) or ""
    if not name:
        raise invalid(f"{where}.name", "Name cannot be empty.", FUNCTIONS, inferred=True)
    if "response" not in entry:
        raise wrong_type(None, f"{where}.response", STRUCT)
    response = member_of_type(entry, "response", dict, where)
    is_error = "error" in response and "output" not in response
    text = response.get("error") if is_error else _output(response)
    pieces = [Content(text=text if isinstance(text, str) else compact(text))]
    images = member_of_type(entry, "parts", list, where) or []
    if images and not is_three(model):
        raise refusal(
            f"Multimodal function responses are not supported for {model}.",
            FUNCTIONS,
            inferred=True,
        )
    for place, item in enumerate(images):
        inner = fields(item, ("inlineData", "fileData"), f"{where}.parts[{place}]")
        if "inlineData" in inner:
            pieces.append(_image(inner["inlineData"], f"{where}.parts[{place}]"))
    call_id = member_of_type(entry, "id", str, where) or ""
    return MessagePart(
        "result", name=name, call_id=call_id, content=tuple(pieces), is_error=is_error
    )
