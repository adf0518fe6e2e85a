"""Parses the input items of an OpenAI Responses request and refuses what OpenAI refuses.

Nothing is stored here: what came from this end is known again by its form.
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.core.messages import Message, MessagePart, Role
from app.core.provider_limits import OPENAI_LONGEST_NAME
from app.core.tools import Content
from app.protocols import openai_schema
from app.protocols.server import BadRequest, compact, words_of

# What the provider says when it refuses a request, and where that is known from.

REFERENCE = "OpenAI API reference: create a response"
NAMES = openai_schema.NAMES["openai_responses"]
NO_OUTPUT = "https://github.com/openai/codex/issues/93"
NO_CALL = "https://github.com/continuedev/continue/issues/10092"
NO_FOLLOWER = "https://github.com/continuedev/continue/issues/8933"
TOO_LONG = "https://github.com/AnswerDotAI/fastllm/issues/45"
ENCRYPTED = "https://github.com/openai/codex/issues/8145"
PREFIX = "https://github.com/jlcodes99/cockpit-tools/issues/2090"
STORED = "https://github.com/openai/openai-agents-python/issues/919"
DUPLICATE = "https://github.com/continuedev/continue/issues/10200"
NO_CUSTOM_OUTPUT = "https://github.com/diegosouzapw/OmniRoute/issues/8946"
NOT_ENCRYPTED = "https://github.com/pydantic/pydantic-ai/issues/2865"
CHOICE = "https://github.com/vllm-project/vllm/pull/40399"
SAY_JSON = "OpenAI guide: Structured outputs, JSON mode"
DEFERRED = "https://github.com/Wei-Shaw/sub2api/issues/5942"
MINIMUM = "https://github.com/vectorize-io/hindsight/issues/58"

_NAME = re.compile(r"[a-zA-Z0-9_-]+")


def refusal(
    sentence: str,
    param: str | None,
    code: str | None = None,
    *,
    source: str = REFERENCE,
    inferred: bool = True,
    status: int = 400,
) -> BadRequest:
    """A refusal. Unless an issue or a recording shows its words, they are `inferred`."""
    return BadRequest(sentence, status, param=param, code=code, source=source, inferred=inferred)


def wrong_type(param: str, expected: str, value: Any) -> BadRequest:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    kind = "null" if value is None else kinds.get(type(value), "a number")
    return refusal(
        f"Invalid type for '{param}': expected {expected}, but got {kind} instead.",
        param,
        "invalid_type",
    )


def missing(param: str) -> BadRequest:
    return refusal(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def unknown(param: str) -> BadRequest:
    return refusal(f"Unknown parameter: '{param}'.", param, "unknown_parameter")


def unsupported(param: str, value: Any, known: tuple[str, ...]) -> BadRequest:
    """A value that is none of those known."""
    words = [f"'{choice}'" for choice in known]
    last = f" and {words[-1]}" if len(words) == 2 else f", and {words[-1]}"
    listing = words[0] if len(words) == 1 else ", ".join(words[:-1]) + last
    return refusal(
        f"Invalid value: '{value}'. Supported values are: {listing}.", param, "invalid_value"
    )


def too_long(param: str, most: int, length: int, source: str = TOO_LONG) -> BadRequest:
    return refusal(
        f"Invalid '{param}': string too long. Expected a string with maximum length {most}, but "
        f"got a string with length {length} instead.",
        param,
        "string_above_max_length",
        source=source,
        inferred=False,
    )


def text_of(value: Any, param: str, most: int = 0, source: str = TOO_LONG) -> str:
    """`value` as a text of `most` letters at most (0: any)."""
    if value is None:
        raise missing(param)
    if not isinstance(value, str):
        raise wrong_type(param, "a string", value)
    if most and len(value) > most:
        raise too_long(param, most, len(value), source)
    return value


def name_of(value: Any, param: str, most: int = OPENAI_LONGEST_NAME["openai_responses"]) -> str:
    """`value` as the name of a tool, or of something else of `most` letters."""
    name = text_of(value, param, most, NAMES)
    if not name:
        raise refusal(
            f"Invalid '{param}': empty string. Expected a string with minimum length 1, but got "
            "an empty string instead.",
            param,
            "empty_string",
        )
    if not _NAME.fullmatch(name):
        raise refusal(
            f"Invalid '{param}': string does not match pattern. Expected a string that matches "
            "the pattern '^[a-zA-Z0-9_-]+$'.",
            param,
            "invalid_value",
            source=NAMES,
            inferred=False,
        )
    return name


def number_of(value: Any, param: str, least: float, most: float | None, whole: bool) -> None:
    """Refuse what is no number within these bounds."""
    if value is None:
        return
    kind, word = (int, "integer") if whole else ((int, float), "decimal")
    if isinstance(value, bool) or not isinstance(value, kind):
        raise wrong_type(param, "an integer" if whole else "a decimal", value)
    if value < least:
        raise refusal(
            f"Invalid '{param}': {word} below minimum value. Expected a value >= {least}, but got "
            f"{value} instead.",
            param,
            f"{word}_below_min_value",
            source=MINIMUM,
            inferred=not whole,
        )
    if most is not None and value > most:
        raise refusal(
            f"Invalid '{param}': {word} above maximum value. Expected a value <= {most}, but got "
            f"{value} instead.",
            param,
            f"{word}_above_max_value",
        )


_ERROR = re.compile(r"\s*(?:error\b|\{\s*\"(?:error|is_error)\")", re.I)
_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_OWN_ID = re.compile(r"rs_[A-Za-z1-9]{32}")
_MOST = 64

_MEMBERS: Mapping[str, frozenset[str]] = {
    "message": words_of("type role content id status phase"),
    "function_call": words_of("type id call_id name arguments status async caller namespace"),
    "custom_tool_call": words_of("type id call_id name input status async caller namespace"),
    "function_call_output": words_of("type id call_id output status caller"),
    "custom_tool_call_output": words_of("type id call_id output status caller"),
    "reasoning": words_of("type id summary content encrypted_content status"),
    "item_reference": words_of("type id"),
}
_HOSTED = words_of(
    """web_search_call file_search_call code_interpreter_call image_generation_call mcp_call
    mcp_list_tools mcp_approval_request mcp_approval_response computer_call computer_call_output
    local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call
    apply_patch_call_output tool_search_call tool_search_output compaction compaction_trigger
    program program_output additional_tools"""
)
"""Items of the provider's own tools: taken as they are."""
_CODEX = "internal_chat_message_metadata_passthrough"
"""What Codex puts on every item for OpenAI itself, which takes it."""
_PREFIXES = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
_CALLS = {"function_call": "function call", "custom_tool_call": "custom tool call"}
_ROLES = ("assistant", "system", "developer", "user")
_GIVEN = ("input_text", "input_image", "input_file")
_SAID = ("output_text", "refusal")


def sealed(text: str) -> str:
    """Reasoning as it travels: opaque, and known again by its seal."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"gAAAAAB{digest}{_seal(digest)}=="


def _seal(digest: str) -> str:
    return hashlib.sha256(f"simulator {digest}".encode()).hexdigest()[:16]


def _is_sealed(text: str) -> bool:
    match = re.fullmatch(r"gAAAAAB([0-9a-f]{64})([0-9a-f]{16})==", text)
    return match is not None and _seal(match[1]) == match[2]


def read_input(value: Any, store: bool) -> tuple[tuple[Message, ...], str]:
    """The messages of `input`, and the words of its system and developer messages."""
    if isinstance(value, str):
        value = [{"role": "user", "content": value}] if value else []
    if value is None:
        raise missing("input")
    if not isinstance(value, list):
        raise wrong_type("input", "one of a string or array of input items", value)
    if not value:
        raise refusal(
            "Invalid 'input': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            "input",
            "empty_array",
        )
    items = [_check_item(item, f"input[{place}]", store) for place, item in enumerate(value)]
    _check_ids(items)
    _check_reasoning(items)
    _check_calls(items)
    messages: list[Message] = []
    system: list[str] = []
    for place, item in enumerate(items):
        where = f"input[{place}]"
        if item["type"] == "message" and item["role"] in ("system", "developer"):
            parts = _content(item["content"], f"{where}.content", _GIVEN)
            system += [part.text for part in parts if part.text]
            continue
        role, parts = _message(item, where)
        if messages and messages[-1].role == role and role != "user":
            messages[-1] = Message(role, messages[-1].parts + parts)
        else:
            messages.append(Message(role, parts))
    return tuple(messages), "\n".join(system)


def _check_item(item: Any, where: str, store: bool) -> dict[str, Any]:
    """The item with its type, its members checked."""
    if not isinstance(item, dict):
        raise wrong_type(where, "an input item", item)
    type_ = item.get("type", "message" if "role" in item else None)
    if type_ is None:
        raise missing(f"{where}.type")
    if type_ in _HOSTED:
        return item
    if type_ not in _MEMBERS:
        raise unsupported(f"{where}.type", type_, (*_MEMBERS, *sorted(_HOSTED)))
    for name in item:
        if name not in _MEMBERS[type_] and name != _CODEX:
            raise unknown(f"{where}.{name}")
    _check_id(item, type_, where)
    if type_ in _CALLS or type_.endswith("_output"):
        text_of(item.get("call_id"), f"{where}.call_id", _MOST)
    match type_:
        case "message":
            if item.get("role") not in _ROLES:
                raise unsupported(f"{where}.role", item.get("role"), _ROLES)
            if "content" not in item:
                raise missing(f"{where}.content")
        case "function_call":
            name_of(item.get("name"), f"{where}.name")
            text_of(item.get("arguments"), f"{where}.arguments")
        case "custom_tool_call":
            name_of(item.get("name"), f"{where}.name")
            text_of(item.get("input"), f"{where}.input")
        case "reasoning":
            _check_sealed(item, where, store)
        case "item_reference" if not store:
            raise _not_stored(item.get("id"))
        case _:
            pass
    return {**item, "type": type_}


def _check_id(item: Mapping[str, Any], type_: str, where: str) -> None:
    raw = item.get("id")
    if raw is None:
        return
    id_, prefix = text_of(raw, f"{where}.id", _MOST), _PREFIXES.get(type_, "")
    if not id_.startswith(prefix):
        raise refusal(
            f"Invalid '{where}.id': '{id_}'. Expected an ID that begins with '{prefix}'.",
            f"{where}.id",
            "invalid_value",
            source=PREFIX,
            inferred=False,
        )


def _not_stored(id_: Any) -> Exception:
    return refusal(
        f"Item with id '{id_}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input.",
        "input",
        source=STORED,
        inferred=False,
        status=404,
    )


def _check_sealed(item: Mapping[str, Any], where: str, store: bool) -> None:
    """Reasoning is read from its seal, or looked up where it was stored."""
    if not isinstance(item.get("summary"), list):
        raise missing(f"{where}.summary")
    sealed_text = item.get("encrypted_content")
    if sealed_text is None:
        id_ = text_of(item.get("id"), f"{where}.id")
        if not store:
            raise _not_stored(id_)
        if not _OWN_ID.fullmatch(id_):
            raise refusal(f"Item with id '{id_}' not found.", "input", source=STORED, status=404)
        return
    text = text_of(sealed_text, f"{where}.encrypted_content")
    if not _is_sealed(text):
        excerpt = text if len(text) < 9 else f"{text[:4]}...{text[-4:]}"
        raise refusal(
            f"The encrypted content {excerpt} could not be verified.",
            None,
            "invalid_encrypted_content",
            source=ENCRYPTED,
            inferred=False,
        )


def _check_ids(items: Iterable[Mapping[str, Any]]) -> None:
    seen: set[str] = set()
    for item in items:
        id_ = item.get("id")
        if isinstance(id_, str) and id_ in seen:
            raise refusal(
                f"Duplicate item found with id {id_}. Remove duplicate items from your input and "
                "try again.",
                "input",
                source=DUPLICATE,
                inferred=False,
            )
        seen |= {id_} if isinstance(id_, str) else set()


def _check_reasoning(items: Sequence[Mapping[str, Any]]) -> None:
    """Reasoning goes with what it led to: an item of the model right behind it."""
    for item, after in zip(items, [*items[1:], None], strict=True):
        if item["type"] != "reasoning":
            continue
        led = after is not None and (
            after["type"] in _PREFIXES or after["type"].endswith(("_call", "_tools"))
        )
        if not led or (after is not None and after.get("role", "assistant") != "assistant"):
            raise refusal(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                "following item.",
                "input",
                source=NO_FOLLOWER,
                inferred=False,
            )


def _check_calls(items: Iterable[Mapping[str, Any]]) -> None:
    """Every call has its output, every output its call before it."""
    open_calls: dict[str, str] = {}
    calls: set[tuple[str, str]] = set()
    for item in items:
        type_, call_id = str(item["type"]), str(item.get("call_id"))
        if type_ in _CALLS:
            open_calls[call_id] = type_
            calls.add((type_, call_id))
            continue
        call_type = type_.removesuffix("_output")
        if type_.endswith("_output") and call_type in _CALLS:
            if (call_type, call_id) not in calls:
                raise refusal(
                    f"No tool call found for {_CALLS[call_type]} output with call_id {call_id}.",
                    "input",
                    source=NO_CALL,
                    inferred=call_type != "function_call",
                )
            open_calls.pop(call_id, None)
    for call_id, type_ in open_calls.items():
        custom = type_ == "custom_tool_call"
        raise refusal(
            f"No tool output found for {_CALLS[type_]} {call_id}.",
            "input",
            source=NO_CUSTOM_OUTPUT if custom else NO_OUTPUT,
            inferred=False,
        )


def _message(item: Mapping[str, Any], where: str) -> tuple[Role, tuple[MessagePart, ...]]:
    """The role of an item, and its parts."""
    match item["type"]:
        case "message" if item["role"] == "user":
            return "user", _content(item["content"], f"{where}.content", _GIVEN)
        case "message":
            return "assistant", _content(item["content"], f"{where}.content", _SAID)
        case "function_call":
            part = MessagePart("call", item["arguments"], item["name"], item["call_id"])
            return "assistant", (part,)
        case "custom_tool_call":
            text = compact({"input": item["input"]})
            return "assistant", (MessagePart("call", text, item["name"], item["call_id"]),)
        case "function_call_output" | "custom_tool_call_output":
            return "results", (_result(item, where),)
        case "reasoning":
            return "assistant", (MessagePart("thinking", meta=item),)
        case _:
            return "assistant", (MessagePart("other", meta=item),)


def _result(item: Mapping[str, Any], where: str) -> MessagePart:
    output = item.get("output")
    if output is None:
        raise missing(f"{where}.output")
    parts = _content(output, f"{where}.output", _GIVEN)
    content = [piece for part in parts for piece in part.content]
    content += [Content(text=part.text) for part in parts if part.text]
    # There is no field for a failure in this protocol: clients say it in the text.
    is_error = bool(_ERROR.match("\n".join(part.text for part in parts)))
    id_ = item["call_id"]
    return MessagePart("result", call_id=id_, content=tuple(content), is_error=is_error)


def _content(value: Any, where: str, known: tuple[str, ...]) -> tuple[MessagePart, ...]:
    """The pieces of a message or an output, which is a string or a list of `known` types."""
    if isinstance(value, str):
        return (MessagePart("text", value),) if value else ()
    if not isinstance(value, list):
        raise wrong_type(where, "one of a string or array of objects", value)
    return tuple(_piece(piece, f"{where}[{place}]", known) for place, piece in enumerate(value))


def _piece(piece: Any, where: str, known: tuple[str, ...]) -> MessagePart:
    type_ = piece.get("type") if isinstance(piece, dict) else None
    if type_ is None:
        raise missing(f"{where}.type")
    if type_ not in known:
        raise unsupported(f"{where}.type", type_, known)
    match type_:
        case "input_text" | "output_text":
            return MessagePart("text", text_of(piece.get("text"), f"{where}.text"))
        case "refusal":
            return MessagePart("refusal", text_of(piece.get("refusal"), f"{where}.refusal"))
        case "input_image":
            return MessagePart("image", content=(_image(piece, where),))
        case _:
            return MessagePart("other", meta=piece)


def _image(piece: Mapping[str, Any], where: str) -> Content:
    if piece.get("file_id") is not None:
        return Content("image")
    url = text_of(piece.get("image_url"), f"{where}.image_url")
    if url.startswith(("http://", "https://")):
        return Content("image")
    match = _DATA_URL.fullmatch(url)
    if match is None:
        raise refusal(
            f"Invalid '{where}.image_url'. Expected a valid URL, but got a value with an invalid "
            "format.",
            f"{where}.image_url",
            "invalid_value",
        )
    if match[1] not in _IMAGES:
        raise refusal(
            f"Invalid '{where}.image_url'. Expected a base64-encoded data URL with an image MIME "
            "type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got unsupported MIME "
            f"type '{match[1]}'.",
            f"{where}.image_url",
            "invalid_value",
        )
    return Content("image", media_type=match[1], data=match[2])
