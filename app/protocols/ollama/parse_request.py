"""Parses requests of Ollama's chat API and refuses as Ollama does.

It refuses little: what its types cannot hold, and what the model cannot do. Roles, ids and the
order of messages it leaves to the model.

https://docs.ollama.com/api/chat
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import Content, Tool, ToolChoice
from app.protocols.server import BadRequest, ParsedRequest, compact, tokens
from app.protocols.server import object_of as json_object

ROUTES = "https://github.com/ollama/ollama/blob/main/server/routes.go (ChatHandler)"
TYPES = "https://github.com/ollama/ollama/blob/main/api/types.go"
FORMAT = "https://github.com/ollama/ollama/blob/main/llm/server.go (Completion)"
NO_TOOLS, NO_THINKING = "-no-tools", "-no-thinking"
"""How the models of the simulator are named that cannot do this."""

_ERROR = re.compile(r"\s*(?:error\b|\{\s*\"(?:error|is_error)\")", re.I)
_NUMBERS = {"temperature": "float32", "top_p": "float32"}
_INTEGERS = ("num_predict", "num_ctx", "num_keep", "seed", "top_k")
_OURS = "without an id "
"""How the ids begin that calls get here which came without one."""
_THINK = ("high", "medium", "low")


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """The request that `body` holds. Raises BadRequest in Ollama's own words.

    A request without messages asks only that the model be loaded: its param `load` is set.
    """
    if not body.strip():
        raise _refusal("missing request body", ROUTES)
    data = json_object(body)
    most = data.get("top_logprobs")
    if isinstance(most, int) and not 0 <= most <= 20:
        raise _refusal("top_logprobs must be between 0 and 20", ROUTES)
    model = _member_of_type(data, "model", str, "ChatRequest.model of type string") or ""
    if not model:
        raise _refusal("model is required", ROUTES)
    tools = _tools(data.get("tools"))
    if tools and model.endswith(NO_TOOLS):
        raise _refusal(f"registry.ollama.ai/library/{model} does not support tools", ROUTES)
    think = _think(data.get("think"), model)
    messages, system = _messages(data.get("messages"))
    stream = _member_of_type(data, "stream", bool, "ChatRequest.stream of type bool")
    request = ModelRequest(
        model=model,
        system=system,
        messages=messages or (Message("user", (MessagePart("text", ""),)),),
        tools=tools,
        choice=ToolChoice(),
        params={
            "max_tokens": _most(data.get("options")),
            "thinking": think,
            "format": _format(data.get("format")),
            "load": not messages,
        },
        stream=stream is not False and bool(messages),
    )
    return ParsedRequest(request, tokens(compact([data.get("messages"), data.get("tools")])))


def _refusal(sentence: str, source: str, status: int = 400, inferred: bool = False) -> BadRequest:
    return BadRequest(sentence, status, source=source, inferred=inferred)


def _wrong(value: Any, field: str) -> BadRequest:
    """As Go's encoding/json says it."""
    kinds = {dict: "object", list: "array", str: "string", bool: "bool"}
    kind = kinds.get(type(value), "number")
    return _refusal(f"json: cannot unmarshal {kind} into Go struct field {field}", TYPES)


def _member_of_type(data: Mapping[str, Any], name: str, kind: type, field: str) -> Any:
    """The member `name`, which is null or of this kind."""
    value = data.get(name)
    if value is not None and not isinstance(value, kind):
        raise _wrong(value, field)
    return value


def _most(options: Any) -> int | None:
    """`num_predict`; options that do not exist are ignored, those of a wrong type are not."""
    if options is None:
        return None
    if not isinstance(options, dict):
        raise _wrong(options, "ChatRequest.options of type map[string]interface {}")
    for name, value in options.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is None or (name not in _NUMBERS and name not in _INTEGERS and name != "stop"):
            continue
        if name == "stop":
            if not isinstance(value, list):
                raise _refusal('option "stop" must be of type array', TYPES, 500)
            if not all(isinstance(word, str) for word in value):
                raise _refusal('option "stop" must be of an array of strings', TYPES, 500)
        elif not number:
            kind = _NUMBERS.get(name, "integer")
            raise _refusal(f'option "{name}" must be of type {kind}', TYPES, 500)
    most = options.get("num_predict")
    return int(most) if most is not None and most > 0 else None


def _format(value: Any) -> Mapping[str, Any] | None:
    """The form that the answer is to have: None for words."""
    if value is None or value == "":
        return None
    if value == "json":
        return {}
    if not isinstance(value, dict):
        sentence = (
            f'invalid format: {compact(value)}; expected "json" or a valid JSON Schema object'
        )
        raise _refusal(sentence, FORMAT, 500)
    return {"schema": value}


def _think(value: Any, model: str) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool) and value not in _THINK:
        raise _refusal(
            f'invalid think value: {compact(value)} (must be "high", "medium", "low", true, or '
            "false)",
            TYPES,
        )
    if value and model.endswith(NO_THINKING):
        raise _refusal(f'"{model}" does not support thinking', ROUTES)
    return bool(value)


def _tools(value: Any) -> tuple[Tool, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _wrong(value, "ChatRequest.tools of type api.Tools")
    return tuple(_tool(entry) for entry in value)


def _tool(entry: Any) -> Tool:
    """A tool. Of its schema Ollama reads the types and names; a keyword it lacks is dropped."""
    if not isinstance(entry, dict):
        raise _wrong(entry, "ChatRequest.tools of type api.Tool")
    function = (
        _member_of_type(entry, "function", dict, "Tool.tools.function of type api.ToolFunction")
        or {}
    )
    where = "ToolFunction.tools.function"
    name = _member_of_type(function, "name", str, f"{where}.name of type string")
    about = _member_of_type(function, "description", str, f"{where}.description of type string")
    schema = _member_of_type(
        function, "parameters", dict, f"{where}.parameters of type api.ToolFunctionParameters"
    )
    schema = {"type": "object", "properties": {}} if schema is None else schema
    where += ".parameters"
    _member_of_type(schema, "type", str, f"{where}.type of type string")
    required = _member_of_type(schema, "required", list, f"{where}.required of type []string") or []
    for item in required:
        if not isinstance(item, str):
            raise _wrong(item, f"{where}.required of type string")
    properties = _member_of_type(
        schema, "properties", dict, f"{where}.properties of type map[string]api.ToolProperty"
    )
    for prop in (properties or {}).values():
        _check_property(prop, f"{where}.properties")
    return Tool(name or "", about or "", schema)


_PROPERTY: Mapping[str, tuple[type, str]] = {
    "description": (str, "string"),
    "enum": (list, "[]interface {}"),
    "anyOf": (list, "[]api.ToolProperty"),
    "properties": (dict, "api.ToolPropertiesMap"),
    "required": (list, "[]string"),
}


def _check_property(value: Any, where: str) -> None:
    """A property, those of its own and the choices of its anyOf; `items` may be anything."""
    todo = [value]
    while todo:
        node = todo.pop()
        if not isinstance(node, dict):
            raise _wrong(node, f"{where} of type api.ToolProperty")
        for key, (kind, name) in _PROPERTY.items():
            _member_of_type(node, key, kind, f"{where}.{key} of type {name}")
        todo += [*(node.get("properties") or {}).values(), *(node.get("anyOf") or ())]


def _messages(value: Any) -> tuple[tuple[Message, ...], str]:
    if value is None:
        return (), ""
    if not isinstance(value, list):
        raise _wrong(value, "ChatRequest.messages of type []api.Message")
    messages: list[Message] = []
    system: list[str] = []
    waiting: list[MessagePart] = []
    for entry in value:
        if not isinstance(entry, dict):
            raise _wrong(entry, "ChatRequest.messages of type api.Message")
        text = (
            _member_of_type(entry, "content", str, "ChatRequest.messages.content of type string")
            or ""
        )
        images = _images(entry)
        match str(entry.get("role") or "").lower():
            case "system":
                system.append(text)
            case "assistant":
                messages.append(_assistant(entry, text, len(messages)))
                # Some clients send each call of a turn as a message of its own.
                waiting += [part for part in messages[-1].parts if part.kind == "call"]
            case "tool":
                part = _result(entry, text, waiting)
                if messages and messages[-1].role == "results":
                    messages[-1] = Message("results", (*messages[-1].parts, part))
                else:
                    messages.append(Message("results", (part,)))
            case _:  # a role that the template does not know is not refused
                waiting = []
                messages.append(Message("user", (*images, MessagePart("text", text))))
    return tuple(messages), "\n".join(system)


def _images(entry: Mapping[str, Any]) -> list[MessagePart]:
    values = _member_of_type(
        entry, "images", list, "ChatRequest.messages.images of type []api.ImageData"
    )
    images = []
    for image in values or []:
        if not isinstance(image, str):
            raise _wrong(image, "ChatRequest.messages.images of type api.ImageData")
        try:
            b64decode(image, validate=True)
        except ValueError as error:
            raise _refusal("illegal base64 data at input byte 0", TYPES) from error
        images.append(MessagePart("image", content=(Content("image", data=image),)))
    return images


def _assistant(entry: Mapping[str, Any], text: str, place: int) -> Message:
    where = "ChatRequest.messages"
    thought = _member_of_type(entry, "thinking", str, f"{where}.thinking of type string")
    parts = [MessagePart("thinking", thought)] if thought else []
    parts += [MessagePart("text", text)] if text else []
    where += ".tool_calls"
    for number, call in enumerate(
        _member_of_type(entry, "tool_calls", list, f"{where} of type []api.ToolCall") or []
    ):
        if not isinstance(call, dict):
            raise _wrong(call, f"{where} of type api.ToolCall")
        function = call.get("function")
        if not isinstance(function, dict):
            raise _wrong(function, f"{where}.function of type api.ToolCallFunction")
        name = _member_of_type(function, "name", str, f"{where}.function.name of type string") or ""
        arguments = _member_of_type(
            function,
            "arguments",
            dict,
            f"{where}.function.arguments of type api.ToolCallFunctionArguments",
        )
        id_ = _member_of_type(call, "id", str, f"{where}.id of type string")
        id_ = id_ or f"{_OURS}{place}_{number}"
        parts.append(MessagePart("call", compact(arguments or {}), name, id_))
    return Message("assistant", tuple(parts))


def _result(entry: Mapping[str, Any], text: str, waiting: list[MessagePart]) -> MessagePart:
    """A result, paired with its call by id, else by name, else by order; none of it is checked."""
    name = (
        _member_of_type(entry, "tool_name", str, "ChatRequest.messages.tool_name of type string")
        or ""
    )
    name = name or str(entry.get("name") or "")  # as older clients say it
    call_id = _member_of_type(
        entry, "tool_call_id", str, "ChatRequest.messages.tool_call_id of type string"
    )
    id_, call_name = _pair_result(call_id or "", name, waiting)
    return MessagePart(
        "result",
        name=call_name,
        call_id=id_,
        content=(Content(text=text),) if text else (),
        # There is no field for a failure in this protocol: clients say it in the text.
        is_error=bool(_ERROR.match(text)),
    )


def _pair_result(call_id: str, name: str, waiting: list[MessagePart]) -> tuple[str, str]:
    """The call that a result answers, taken out of `waiting`."""
    tests: Sequence[Any] = (
        lambda call: call_id and call.call_id == call_id,
        lambda call: name and call.name == name,
        # Of a call that came without an id, a client makes up one for the result.
        lambda call: not name and (not call_id or call.call_id.startswith(_OURS)),
    )
    for test in tests:
        match = next((call for call in waiting if test(call)), None)
        if match is not None:
            waiting.remove(match)
            return match.call_id, match.name
    return call_id, name
