"""Limits of Ollama: refuses a body that does not fit its types, and refuses or drops parts of
tools: it reads a few keywords of the supported types.

Derived from its source: ChatRequest, ToolFunctionParameters and ToolProperty. Roles, ids and the
order of messages are not checked. https://docs.ollama.com/api/chat
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from playground.protocols.server import (
    BadRequest,
    Citation,
    Phrases,
    Shape,
    check_shape,
    compact_json,
    predicate_rule,
)
from playground.protocols.tool_limits import (
    LACKS_EAGER,
    TWICE,
    CallIdLimit,
    Limit,
    LimitTable,
    Match,
    Node,
    at_root,
    equal_names,
    lacks_freeform,
    lacks_strict,
    walk_nodes,
)
from playground.schema.schema_checks import Place

ROUTES = Citation("https://github.com/ollama/ollama/blob/main/server/routes.go (ChatHandler)")
_FORMAT = Citation("https://github.com/ollama/ollama/blob/main/llm/server.go (Completion)")
TYPES = Citation("https://github.com/ollama/ollama/blob/main/api/types.go")
_ASSUMED = Citation(TYPES.words, inferred=True)

CALL_ID = CallIdLimit(
    re.compile("[^\ud800-\udfff]{1,512}"),
    "Ollama is sent 512 characters",
    Citation(f"{TYPES.words}: it checks no id; the length is ours", inferred=True),
)

_ROOT = ("type", "properties", "required", "$defs", "items", "description", "title", "$schema")
_PROPERTY = ("type", "description", "enum", "items", "anyOf", "properties", "required", "title")
_TYPE = ("type",)
_GO_KINDS = {dict: "object", list: "array", str: "string", bool: "bool"}
_CANNOT = (
    "json: cannot unmarshal {kind} into Go struct field ToolFunction.tools.function.parameters"
)

_STRUCTS = {"api.Tool": "Tool.tools", "api.ToolFunction": "ToolFunction.tools.function"}
"""The names of these structs in Go's messages."""

_Field = partial(Shape, null=True)
_TEXT = _Field(str, "string")

# fmt: off
_FUNCTION = _Field(dict, "api.ToolFunction", members={
    "name": _TEXT, "description": _TEXT, "parameters": _Field(dict, "api.ToolFunctionParameters")})
_CALLED = Shape(dict, "api.ToolCallFunction", members={
    "name": _TEXT, "arguments": _Field(dict, "api.ToolCallFunctionArguments")})
_CALL = Shape(dict, "api.ToolCall", required=("function",),
    members={"function": _CALLED, "id": _TEXT})

_INTEGERS = ("num_predict", "num_ctx", "num_keep", "seed", "top_k")

_TOOL = Shape(dict, "api.Tool", members={"function": _FUNCTION})


def go_kind(value: Any) -> str:
    """The type of a JSON value in messages of Go's encoding/json."""
    return _GO_KINDS.get(type(value), "number")


def read_nodes(schema: Any, *, strict: bool = False) -> list[Node]:
    """The schemas that Ollama reads: the root, properties, their properties, choices of anyOf.
    `items` may be anything."""
    is_object = isinstance(schema, Mapping)
    return walk_nodes(schema, _read_below, strict=strict) if is_object else []


def _read_below(node: Node) -> Iterator[tuple[Place, Any, str]]:
    for name, inner in node.properties.items():
        yield ("properties", name), inner, ""
    branches = node.keys.get("anyOf") if node.led else ()
    for number, inner in enumerate(branches if isinstance(branches, list) else ()):
        yield ("anyOf", number), inner, ""


def _dropped_members(node: Node) -> Match:
    known = _PROPERTY if node.led else _ROOT
    closed = node.keys.get("additionalProperties") is False
    odd = [key for key in node.keys if key not in known]
    odd = [key for key in odd if not (key == "additionalProperties" and closed)]
    return [{"key": str(key)[:60], "step": (str(key),)} for key in odd if key != "$ref"]


def _other_type(key: str, kind: type, *, root: bool) -> Callable[[Node], Match]:
    def find(node: Node) -> Match:
        value = node.keys.get(key)
        wrong = value is not None and not isinstance(value, kind) and root != bool(node.led)
        return wrong and {"kind": go_kind(value)}

    return find


def _no_single_type(node: Node) -> Match:
    kind = node.keys.get("type")
    return kind is not None and not isinstance(kind, str) and {"kind": go_kind(kind), "step": _TYPE}


def _type_limits() -> Iterator[Limit[Node]]:
    """Members that do not fit Go's types: of the root schema, and of a property."""
    for key, kind, ours, root, inner in (
        ("description", str, "a text", "", "string"),
        ("enum", list, "a list", "", "[]interface {}"),
        ("anyOf", list, "a list", "", "[]api.ToolProperty"),
        ("properties", dict, "an object", "map[string]api.ToolProperty", "api.ToolPropertiesMap"),
        ("required", list, "a list", "[]string", "[]string"),
    ):
        for go, at_root_, where in ((root, True, ""), (inner, False, ".properties")):
            if go:
                yield Limit(
                    f"needs {ours} for `{key}`",
                    _other_type(key, kind, root=at_root_),
                    TYPES,
                    f"{_CANNOT}{where}.{key} of type {go}",
                )


def _no_name(node: Node) -> Match:
    """The first required name that is not a string."""
    required = node.keys.get("required")
    names = required if isinstance(required, list) else []
    kinds = (go_kind(name) for name in names if not isinstance(name, str))
    return next(({"kind": kind} for kind in kinds), False)


# fmt: off
LIMITS = LimitTable(
    "ollama",
    "Ollama",
    of_tool=(
        LACKS_EAGER,
        lacks_strict("has no strict mode: arguments may not match their schema",
                     "docs/wire.md, section 5: there is no strict mode"),
        lacks_freeform("has no free-form tools: a tool with one text argument is sent",
                       "docs/wire.md, section 5: there are no free-form tools"),
        Limit("needs an object for parameters",
              lambda tool: not isinstance(tool.schema, Mapping) and {"kind": go_kind(tool.schema)},
              TYPES, f"{_CANNOT} of type api.ToolFunctionParameters", pointer="/parameters"),
    ),
    of_schema=(
        Limit("accepts one type at the root, not a list at /type", at_root(_no_single_type), TYPES,
              f"{_CANNOT}.type of type string"),
        Limit("accepts an object for a property, not true or false",
              lambda node: not isinstance(node.schema, Mapping) and {"kind": go_kind(node.schema)},
              Citation("https://github.com/can1357/oh-my-pi/issues/4488"),
              f"{_CANNOT}.properties of type api.ToolProperty"),
        *_type_limits(),
        Limit("needs texts for `required`", at_root(_no_name), TYPES,
              f"{_CANNOT}.required of type string"),
        Limit("drops `$ref`{at}: the model does not get it",
              lambda node: "$ref" in node.keys and {"step": ("$ref",)}, _ASSUMED,
              severity="ignored", fix="inline"),
        Limit("drops `{key}`{at}: the model does not get it", _dropped_members, _ASSUMED,
              severity="ignored"),
    ),
    of_request=(equal_names(TWICE),),
    walk=read_nodes,
)
# fmt: on


# The shape of a body: like Go's encoding/json for ChatRequest, where null means absent.


class _GoPhrases(Phrases):
    """A type that does not fit a struct's field; entries of lists have no place of their own."""

    def refuse_type(self, value: Any, where: str, shape: Shape) -> BadRequest:
        kind = go_kind(value)
        return TYPES.refusal(
            f"json: cannot unmarshal {kind} into Go struct field {where} of type {shape.name}"
        )

    def join(self, where: str, step: str | int) -> str:
        return where if isinstance(step, int) else f"{where}.{step}"

    def inner_place(self, where: str, shape: Shape, kind: str = "") -> str:
        return _STRUCTS.get(shape.name, where)


class _OptionPhrases(_GoPhrases):
    """Options are not a struct: each is checked by itself."""

    def refuse_type(self, value: Any, where: str, shape: Shape) -> BadRequest:
        option = where.rpartition(".")[2]
        words = f'option "{option}" must be of {shape.name}'
        return BadRequest(words, 500, source=TYPES.words)


def _think(value: Any, where: str) -> BadRequest | None:
    if isinstance(value, bool) or value in ("high", "medium", "low", None):
        return None
    return TYPES.refusal(
        f"invalid think value: {compact_json(value)} "
        '(must be "high", "medium", "low", true, or false)'
    )


def _format(value: Any, where: str) -> BadRequest | None:
    if isinstance(value, dict) or value in ("", "json", None):
        return None
    sentence = (
        f'invalid format: {compact_json(value)}; expected "json" or a valid JSON Schema object'
    )
    return BadRequest(sentence, 500, source=_FORMAT.words)


def _image(value: Any, where: str) -> BadRequest | None:
    try:
        b64decode(value, validate=True)
    except ValueError:
        return TYPES.refusal("illegal base64 data at input byte 0")
    return None


def _list(name: str, each: Shape) -> Shape:
    return _Field(list, f"[]{name}", each=each)


def _option(kind: Any, name: str, **more: Any) -> Shape:
    return _Field(kind, name, phrases=_OptionPhrases(), **more)


_MESSAGE = Shape(
    dict,
    "api.Message",
    members={
        "content": _TEXT,
        "images": _list("api.ImageData", Shape(str, "api.ImageData", rules=(_image,))),
        "thinking": _TEXT,
        "tool_calls": _list("api.ToolCall", _CALL),
        "tool_name": _TEXT,
        "tool_call_id": _TEXT,
    },
)
_OPTIONS = _Field(
    dict,
    "map[string]interface {}",
    members={
        **dict.fromkeys(("temperature", "top_p"), _option((int, float), "type float32")),
        **dict.fromkeys(_INTEGERS, _option((int, float), "type integer")),
        "stop": _option(list, "type array", each=Shape(str, "an array of strings")),
    },
)
"""Unknown ones are ignored, and any number is accepted as an integer."""
_REQUEST = Shape(
    dict,
    members={
        "top_logprobs": Shape(
            rules=(
                predicate_rule(
                    lambda value: not isinstance(value, int) or 0 <= value <= 20,
                    "top_logprobs must be between 0 and 20",
                    ROUTES,
                ),
            )
        ),
        "model": _TEXT,
        "tools": _Field(list, "api.Tools", each=_TOOL),
        "think": Shape(rules=(_think,)),
        "messages": _list("api.Message", _MESSAGE),
        "stream": _Field(bool, "bool"),
        "options": _OPTIONS,
        "format": Shape(rules=(_format,)),
    },
)
# fmt: on


def check(body: Any) -> None:
    """Raises BadRequest if it is not a valid ChatRequest."""
    check_shape(body, _REQUEST, _GoPhrases(), "ChatRequest")
