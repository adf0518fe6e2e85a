"""Refuses what OpenAI refuses of a Responses request: same status, code and words.

A table defines the shape of a body; functions check relations between members or items. Limits for
tools are in `limits`. Recognizes the simulator's own reasoning by its form; `stored` has the
stored responses.
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from playground.core.tools import Tool
from playground.protocols import words_of
from playground.protocols.openai_chat.limits import (
    FLAG,
    OBJECT,
    TEXT,
    OpenAIPhrases,
    check_format,
    check_tools,
    max_length,
    object_with,
    tool_name,
    typed_object,
)
from playground.protocols.openai_responses import limits
from playground.protocols.openai_responses.limits import NAMES, REFERENCE, SHORT_NAME
from playground.protocols.server import ANY, BadRequest, Citation, Shape, check_shape, compact_json
from playground.protocols.tool_limits import (
    TWICE,
)

# The shape of a body.


_TOO_LONG = Citation("https://github.com/AnswerDotAI/fastllm/issues/45")
_ENCRYPTED = Citation("https://github.com/openai/codex/issues/8145")
_PREFIX = Citation("https://github.com/jlcodes99/cockpit-tools/issues/2090")
_MINIMUM = Citation("https://github.com/vectorize-io/hindsight/issues/58")
_MOVED = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
}

_ID = replace(TEXT, rules=(max_length(64, _TOO_LONG),))
_NAME = replace(TEXT, rules=(tool_name(limits.LIMITS),))

_CALL = "async caller namespace"

_GRAMMAR = Shape(
    tag="syntax",
    variants=dict.fromkeys(("lark", "regex"), object_with(definition=TEXT)),
    closed=True,
)
_FORM = replace(OBJECT, variants={"text": ANY, "grammar": _GRAMMAR}, closed=True)

_FORMAT_NAME = replace(TEXT, rules=(max_length(SHORT_NAME, NAMES), tool_name(limits.LIMITS)))
_SCHEMA = Shape(
    members={"name": _FORMAT_NAME, "schema": OBJECT, "strict": FLAG}, required=("name", "schema")
)
_FORMAT = replace(
    typed_object(text=ANY, json_schema=_SCHEMA, json_object=ANY), name=OBJECT.name, null=True
)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARIES = ("auto", "concise", "detailed")
_INCLUDE = (
    *("file_search_call.results", "web_search_call.results", "web_search_call.action.sources"),
    *("message.input_image.image_url", "computer_call_output.output.image_url"),
    *("code_interpreter_call.outputs", "reasoning.encrypted_content"),
    "message.output_text.logprobs",
)

_KNOWN = words_of(
    """access_programs background_options context_management image instructions max_tool_calls
    metadata moderation prompt prompt_cache_key prompt_cache_options prompt_cache_retention
    safety_identifier service_tier stream_options tool_choice top_logprobs truncation user"""
)

_NO_OUTPUT = Citation("https://github.com/openai/codex/issues/93")
_NO_CUSTOM_OUTPUT = Citation("https://github.com/diegosouzapw/OmniRoute/issues/8946")
_NO_CALL = Citation("https://github.com/continuedev/continue/issues/10092")
_NO_FOLLOWER = Citation("https://github.com/continuedev/continue/issues/8933")
_STORED = Citation("https://github.com/openai/openai-agents-python/issues/919")
_CHOICE = Citation("https://github.com/vllm-project/vllm/pull/40399")
_SAY_JSON = Citation("OpenAI guide: Structured outputs, JSON mode", inferred=True)
_TWICE = replace(TWICE, inferred=False)
_DEFERRED = Citation("https://github.com/Wei-Shaw/sub2api/issues/5942")

OWN_ID = re.compile(r"[a-z]+_[A-Za-z1-9]{32}")
"""The form of the ids of the simulator's items."""

_OPENAIS_ID = re.compile(r"rs_[0-9a-f]{40,64}")
"""The form of OpenAI's: whether it stores such an item is unknown here."""


class _ResponsesPhrases(OpenAIPhrases):
    def refuse_unknown(self, name: str, where: str, shape: Shape) -> BadRequest:
        where = self.join(where, name)
        if where not in _MOVED:
            sentence = f"Unknown parameter: '{where}'."
            return self.reference.refusal(sentence, param=where, code="unknown_parameter")
        return self.reference.refusal(
            f"Unsupported parameter: '{where}'. In the Responses API, this parameter has moved to "
            f"'{_MOVED[where]}'. Try again with the new parameter. See the API documentation for "
            "more information: https://platform.openai.com/docs/api-reference/responses/create.",
            param=where,
            code="unsupported_parameter",
        )


_SAYS = _ResponsesPhrases(REFERENCE)
_OWN_TOOLS = (
    *("web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation"),
    *("mcp", "shell", "local_shell", "apply_patch", "computer", "computer_use_preview"),
    *("tool_search", "namespace", "programmatic_tool_calling"),
)
"""Type prefixes of the provider's own tools."""
_OWN_ITEMS = words_of(
    """web_search_call file_search_call code_interpreter_call image_generation_call mcp_call
    mcp_list_tools mcp_approval_request mcp_approval_response computer_call computer_call_output
    local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call
    apply_patch_call_output tool_search_call tool_search_output compaction compaction_trigger
    program program_output additional_tools configuration_update"""
)
"""Items of the provider's own tools: accepted unchecked."""
_CODEX = "internal_chat_message_metadata_passthrough"
"""Added by Codex to every item for OpenAI itself, which accepts it."""
PREFIXES = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
_CALLS = {"function_call": "function call", "custom_tool_call": "custom tool call"}
_DATA_URL = re.compile(r"data:([^;,]*);base64,.*", re.DOTALL)
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_SHORTEST_TOKEN, _FERNET = 100, 0x80

_SETTING = {
    "effort": Shape(null=True, rules=(_SAYS.one_of(*_EFFORTS),)),
    "summary": Shape(null=True, rules=(_SAYS.one_of(*_SUMMARIES),)),
}


def sealed_reasoning(text: str) -> str:
    """Reasoning in requests: opaque, recognized by its seal."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"gAAAAAB{digest}{_seal(digest)}=="


def _is_openais(value: str) -> bool:
    """Whether it has the form of OpenAI's own encrypted reasoning, a long Fernet token: these
    cannot be verified here."""
    try:
        data = urlsafe_b64decode(value)
    except ValueError:
        return False
    return len(data) >= _SHORTEST_TOKEN and data[0] == _FERNET


def _seal(digest: str) -> str:
    return hashlib.sha256(f"simulator {digest}".encode()).hexdigest()[:16]


def _check_seal(value: Any, where: str) -> BadRequest | None:
    match = re.fullmatch(r"gAAAAAB([0-9a-f]{64})([0-9a-f]{16})==", value)
    if _is_openais(value) if match is None else _seal(match[1]) == match[2]:
        return None
    excerpt = value if len(value) < 9 else f"{value[:4]}...{value[-4:]}"
    sentence = f"The encrypted content {excerpt} could not be verified."
    return _ENCRYPTED.refusal(sentence, code="invalid_encrypted_content")


def _id_of(prefix: str) -> Shape:
    """An id with this prefix."""

    def rule(value: Any, where: str) -> BadRequest | None:
        if value.startswith(prefix):
            return None
        sentence = f"Invalid '{where}': '{value}'. Expected an ID that begins with '{prefix}'."
        return _PREFIX.refusal(sentence, param=where, code="invalid_value")

    return replace(_ID, rules=(*_ID.rules, rule))


def _image(value: Any, where: str) -> BadRequest | None:
    """A piece with an image: a file of the provider, a URL, or data."""
    if value.get("file_id") is not None:
        return None
    where, url = f"{where}.image_url", value.get("image_url")
    if not isinstance(url, str):
        return (
            _SAYS.refuse_missing(where, TEXT)
            if url is None
            else _SAYS.refuse_type(url, where, TEXT)
        )
    match = _DATA_URL.fullmatch(url)
    if url.startswith(("http://", "https://")) or (match is not None and match[1] in _IMAGES):
        return None
    sentence = f"Invalid '{where}'. Expected a valid URL, but got a value with an invalid format."
    if match is not None:
        sentence = (
            f"Invalid '{where}'. Expected a base64-encoded data URL with an image MIME type (e.g. "
            "'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got unsupported MIME type "
            f"'{match[1]}'."
        )
    return REFERENCE.refusal(sentence, param=where, code="invalid_value")


def _odd_tool(value: Any, where: str) -> BadRequest | None:
    known = ("function", "custom", *_OWN_TOOLS)
    if value in known or (isinstance(value, str) and value.startswith(_OWN_TOOLS)):
        return None
    return _SAYS.refuse_value(value, where, *known)


def _check_chat_form(value: Any, where: str) -> BadRequest | None:
    """Detects a tool in Chat Completions form: here its members are at the top level."""
    return _SAYS.refuse_missing(f"{where}.name", ANY) if "function" in value else None


def _content(null: bool = False, /, **pieces: Shape) -> Shape:
    """Text, or a list of pieces of these types."""
    name = "one of a string or array of objects"
    return Shape((str, list), name, null=null, each=typed_object(**pieces))


def _item(type_: str, more: str, **members: Shape) -> Shape:
    """An item with required `members` and optional `more`."""
    known = dict.fromkeys(("type", "status", _CODEX, *more.split()), ANY)
    return Shape(
        dict,
        members={**known, "id": _id_of(PREFIXES.get(type_, "")), **members},
        required=tuple(members),
        closed=True,
    )


_GIVEN = {
    "input_text": object_with(text=TEXT),
    "input_image": Shape(rules=(_image,)),
    "input_file": ANY,
}
_PROMPT = _item("message", "role phase", content=_content(**_GIVEN))
_ANSWER = _content(output_text=object_with(text=TEXT), refusal=object_with(refusal=TEXT))
_RESULT = _item("", "caller namespace", call_id=_ID, output=_content(True, **_GIVEN))
_SEALED = replace(TEXT, rules=(_check_seal,))
_REASONING = _item("reasoning", "content", summary=Shape(list, null=True))
_ITEM = Shape(
    dict,
    "an input item",
    variants={
        "message": Shape(
            tag="role",
            variants={
                "assistant": _item("message", "role phase", content=_ANSWER),
                **dict.fromkeys(("system", "developer", "user"), _PROMPT),
            },
            closed=True,
        ),
        "function_call": _item("function_call", _CALL, call_id=_ID, name=_NAME, arguments=TEXT),
        "custom_tool_call": _item("custom_tool_call", _CALL, call_id=_ID, name=_NAME, input=TEXT),
        **dict.fromkeys(("function_call_output", "custom_tool_call_output"), _RESULT),
        "reasoning": replace(
            _REASONING, members={**_REASONING.members, "encrypted_content": _SEALED}
        ),
        "item_reference": Shape(members={"type": ANY, _CODEX: ANY, "id": _ID}, closed=True),
        **dict.fromkeys(sorted(_OWN_ITEMS), ANY),
    },
    required=("type",),
    closed=True,
)
_FUNCTION = Shape(
    members={"name": TEXT, "parameters": OBJECT, "strict": FLAG, "description": TEXT},
    required=("name",),
    rules=(_check_chat_form,),
)
_TOOL = Shape(
    dict,
    variants={
        "function": _FUNCTION,
        "custom": Shape(
            members={"name": TEXT, "format": _FORM, "description": TEXT}, required=("name",)
        ),
    },
    members={"type": Shape(null=True, rules=(_odd_tool,))},
    required=("type",),
)


def _decimal(most: float) -> Shape:
    below = replace(_MINIMUM, inferred=True)
    rule = _SAYS.bounds(0, most, "decimal", below)
    return Shape((int, float), "a decimal", null=True, rules=(rule,))


BODY = Shape(
    dict,
    members={
        **dict.fromkeys(_KNOWN, ANY),
        "client_metadata": OBJECT,
        **dict.fromkeys(("store", "parallel_tool_calls", "stream", "background"), FLAG),
        "previous_response_id": Shape(str, "a string", null=True),
        "conversation": Shape((str, dict), "a string or an object", null=True),
        "model": TEXT,
        "tools": Shape(list, "an array of objects", null=True, each=_TOOL),
        "input": Shape(
            list,
            "one of a string or array of input items",
            null=True,
            rules=(
                _SAYS.not_empty(
                    "Expected an array with minimum length 1, but got an empty array instead.",
                    "empty_array",
                ),
            ),
            each=_ITEM,
        ),
        "instructions": TEXT,
        "max_output_tokens": Shape(
            int, "an integer", null=True, rules=(_SAYS.bounds(16, below=_MINIMUM),)
        ),
        "temperature": _decimal(2),
        "top_p": _decimal(1),
        "reasoning": replace(OBJECT, members=_SETTING),
        "text": replace(OBJECT, members={"format": _FORMAT}),
        "include": Shape(
            list,
            "an array of strings",
            null=True,
            each=Shape(rules=(_SAYS.one_of(*_INCLUDE),)),
        ),
    },
    closed=True,
)
"""A string input was converted to an item before."""
_ITEMS = Shape(members={"items": Shape(list, "an array of input items", null=True, each=_ITEM)})


# Relations between members or items.


def check_body(data: Mapping[str, Any]) -> None:
    """Raises BadRequest, in OpenAI's own words, for the first error in the shape of a body whose
    input is a list."""
    check_shape(data, BODY, _SAYS)
    prompt = data.get("prompt") is not None  # it may name a model, and have messages
    if data.get("model") is None and not prompt:
        raise _SAYS.refuse_missing("model", TEXT)
    continues = ("previous_response_id", "conversation")
    if data.get("input") is None and not prompt and not any(map(data.get, continues)):
        raise _SAYS.refuse_missing("input", ANY)


def check_items(items: Any) -> Sequence[Mapping[str, Any]]:
    """The items of a conversation, each with its type; raises BadRequest for the first error."""
    data = {"items": with_types(items)}
    check_shape(data, _ITEMS, _SAYS)
    return data["items"] or ()


def with_types(items: Any) -> Any:
    """A list of items, each with its type where it can be inferred; anything else as it is."""
    if not isinstance(items, list):
        return items
    return [
        {"type": "message", **item} if isinstance(item, dict) and "role" in item else item
        for item in items
    ]


def check(data: Mapping[str, Any], before: Sequence[Mapping[str, Any]] = ()) -> None:
    """Raises BadRequest for the first error in the relations of a well-formed body, except in its
    tools. `before` are the stored items that it continues."""
    given = data.get("input") or ()
    if data.get("stream_options") is not None and not data.get("stream"):
        sentence = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise REFERENCE.refusal(sentence, param="stream_options")
    _check_stored(given, data.get("store") is not False)
    _check_ids([*before, *given])
    _check_reasoning(given)
    _check_calls([*before, *given])
    _check_format(data)


def _check_format(data: Mapping[str, Any]) -> None:
    form = (data.get("text") or {}).get("format") or {}
    if form.get("type") == "json_object" and "json" not in compact_json(data.get("input")).lower():
        raise _SAY_JSON.refusal(
            "Response input messages must contain the word 'json' in some form to use "
            "'text.format' of type 'json_object'.",
            param="input",
        )
    if form.get("type") == "json_schema":
        strict, param = form.get("strict") is True, "text.format.schema"
        check_format(
            limits.LIMITS,
            name=form["name"],
            schema=form["schema"],
            strict=strict,
            param=param,
            code="invalid_json_schema",
        )


def _check_stored(items: Iterable[Mapping[str, Any]], store: bool) -> None:
    """Unsealed reasoning, and references, would be looked up in stored responses."""
    for place, item in enumerate(items):
        id_, is_reasoning = item.get("id"), item["type"] == "reasoning"
        if is_reasoning and item.get("encrypted_content") is not None:
            continue
        if is_reasoning and id_ is None:
            raise _SAYS.refuse_missing(f"input[{place}].id", TEXT)
        if not store and (is_reasoning or item["type"] == "item_reference"):
            sentence = (
                f"Item with id '{id_}' not found. Items are not persisted when `store` is set to "
                "false. Try again with `store` set to true, or remove this item from your input."
            )
            raise BadRequest(sentence, 404, param="input", source=_STORED.words)
        known = OWN_ID.fullmatch(str(id_)) or _OPENAIS_ID.fullmatch(str(id_))
        if is_reasoning and not known:
            sentence = f"Item with id '{id_}' not found."
            raise BadRequest(sentence, 404, param="input", source=_STORED.words, inferred=True)


def _check_ids(items: Iterable[Mapping[str, Any]]) -> None:
    seen: set[str] = set()
    for item in items:
        id_ = item.get("id")
        if isinstance(id_, str) and id_ in seen:
            raise _TWICE.refusal(
                f"Duplicate item found with id {id_}. Remove duplicate items from your input and "
                "try again.",
                param="input",
            )
        seen |= {id_} if isinstance(id_, str) else set()


def _check_reasoning(items: Sequence[Mapping[str, Any]]) -> None:
    """Checks that an item of the model follows each reasoning item directly."""
    for item, after in zip(items, [*items[1:], {"type": ""}], strict=False):
        led = after["type"] in PREFIXES or after["type"].endswith(("_call", "_tools"))
        if item["type"] == "reasoning" and (
            not led or after.get("role", "assistant") != "assistant"
        ):
            raise _NO_FOLLOWER.refusal(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                "following item.",
                param="input",
            )


def _check_calls(items: Iterable[Mapping[str, Any]]) -> None:
    """Checks that every call has its output, and every output its call before it."""
    open_calls: dict[str, str] = {}
    calls: set[tuple[str, str]] = set()
    for item in items:
        type_, call_id = item["type"], str(item.get("call_id"))
        call_type = type_.removesuffix("_output")
        if type_ in _CALLS:
            open_calls[call_id] = type_
            calls.add((type_, call_id))
        elif call_type in _CALLS:
            if (call_type, call_id) not in calls:
                raise replace(_NO_CALL, inferred=call_type != "function_call").refusal(
                    f"No tool call found for {_CALLS[call_type]} output with call_id {call_id}.",
                    param="input",
                )
            open_calls.pop(call_id, None)
    for call_id, type_ in open_calls.items():
        source = _NO_CUSTOM_OUTPUT if type_ == "custom_tool_call" else _NO_OUTPUT
        sentence = f"No tool output found for {_CALLS[type_]} {call_id}."
        raise source.refusal(sentence, param="input")


def check_offer(data: Mapping[str, Any], tools: Sequence[Tool]) -> None:
    """Raises BadRequest for the first error in the client's `tools` of a well-formed body, or in
    the choice among all tools."""
    entries = data.get("tools") or ()
    hosted = frozenset(entry["type"] for entry in entries) - {"function", "custom"}
    if "tool_search" not in hosted and any(entry.get("defer_loading") for entry in entries):
        raise _DEFERRED.refusal(
            "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search.",
            param="tools",
        )
    places = [f"tools[{n}]" for n, entry in enumerate(entries) if entry["type"] not in hosted]
    check_tools(limits.LIMITS, tools, places, data.get("model") or "")
    match data.get("tool_choice"):
        case None | "auto" | "none":
            pass
        case "required":
            if not entries:
                raise _CHOICE.refusal(
                    "Tool choice 'required' must be specified with 'tools' parameter.",
                    param="tool_choice",
                )
        case {"type": "function" | "custom" as kind, "name": str() as name}:
            _check_offered(kind, name, tools)
        case {"type": "allowed_tools", "mode": "auto" | "required", "tools": list() as allowed}:
            for entry in allowed:
                _check_allowed(entry, tools)
        case {"type": str() as kind} if kind.startswith(_OWN_TOOLS):
            if kind not in hosted:
                raise _not_offered_refusal(kind)
        case choice:
            text = choice if isinstance(choice, str) else compact_json(choice)
            raise _SAYS.refuse_value(text, "tool_choice", "none", "auto", "required")


def _check_allowed(entry: Any, tools: Sequence[Tool]) -> None:
    match entry:
        case {"type": "function" | "custom" as kind, "name": str() as name}:
            _check_offered(kind, name, tools)
        case {"type": str()}:
            pass  # the provider runs it
        case _:
            raise _SAYS.refuse_missing("tool_choice.tools[0].type", ANY)


def _check_offered(kind: str, name: str, tools: Sequence[Tool]) -> None:
    match = next((tool for tool in tools if tool.name == name), None)
    if match is None or (match.format is not None) != (kind == "custom"):
        raise _not_offered_refusal(kind)


def _not_offered_refusal(kind: str) -> BadRequest:
    sentence = f"Tool choice '{kind}' not found in 'tools' parameter."
    return replace(_CHOICE, inferred=kind != "function").refusal(sentence, param="tool_choice")
