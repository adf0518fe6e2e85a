"""Tools, tool choices, and results of calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypedDict, TypeVar, get_args

AnsweredBy = Literal["mock", "python", "http", "mcp", "person", "workspace"]
ANSWERED_BY: tuple[AnsweredBy, ...] = get_args(AnsweredBy)

T = TypeVar("T")


class ByKind(TypedDict, Generic[T]):
    """A table with a row for each member of AnsweredBy. The type checker names a table that lacks
    one."""

    mock: T
    python: T
    http: T
    person: T
    mcp: T
    workspace: T


TOOLS_IN_USE = 64
"""Entries of an `lru_cache` whose key is an `IdentityKey[Tool]`."""


@dataclass(frozen=True)
class ToolKind:
    """What the program says of a kind of tools, besides its executor.

    `label` is its name in the editor of tools, `about` what an import shows, `failure` the error
    that a staged fault answers with. `runs` is whether a call runs anything. Where `chosen` is
    False the editor does not offer it: such tools come from a server or with the program.
    """

    label: str
    about: str
    failure: str
    runs: bool = True
    chosen: bool = True


TOOL_KINDS: ByKind[ToolKind] = {
    "mock": ToolKind(
        "Mock",
        "Nothing runs: a simulated result.",
        "The tool failed: internal error.",
        runs=False,
    ),
    "python": ToolKind(
        "Python",
        "Python, as you, on this computer",
        "RuntimeError: the database connection was lost",
    ),
    "http": ToolKind("HTTP", "An HTTP request", "The server answered 500 Internal Server Error."),
    "person": ToolKind(
        "You",
        "Nothing runs: you answer each call.",
        "The user could not be reached.",
        runs=False,
    ),
    "mcp": ToolKind(
        "MCP",
        "A tool of an MCP server",
        "The server answered with an error: Internal error (-32603).",
        chosen=False,
    ),
    "workspace": ToolKind(
        "Workspace",
        "A workspace tool",
        "Input/output error: the disk did not answer.",
        chosen=False,
    ),
}
"""In the order of the editor."""

SHIPPED = "shipped:"
"""Prefix of the path of a Python file of this program. It does not depend on the install location,
so sessions stay valid."""

NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.-]{1,128}")
"""Our rule for names; "." and ".." are folders in a URL. Protocols' stricter rules are left to
lint."""

FREEFORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
"""The parameters of every free-form tool: the model's text is the single member."""

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""


@dataclass(frozen=True)
class Tool:
    """A tool as the user defined it.

    `parameters` is a JSON Schema of an object. `config` depends on `answered_by`: see
    docs/reference/tools.md. `timeout_s` is in seconds. `format` makes it a free-form tool (a
    "custom" tool of OpenAI), which gets text instead of JSON: `{"type": "text"}`, or `{"type":
    "grammar", "syntax": "lark" | "regex", "definition": ...}`; its parameters are FREEFORM.
    `eager` requests its arguments as they are written, unchecked (Claude's eager streaming).
    `read_only`: it declares to change nothing; for an MCP tool its server declares it. `extra`
    holds further members of its definition by protocol, sent unchanged.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: NO_PARAMETERS)
    answered_by: AnsweredBy = "mock"
    config: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    parallel_safe: bool = False
    timeout_s: float = 30.0
    group: str = ""
    format: Mapping[str, Any] | None = None
    eager: bool = False
    read_only: bool = False
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


ChoiceMode = Literal["auto", "required", "none", "tool"]


@dataclass(frozen=True)
class ToolChoice:
    """Which tools a model may or must call. `name` is set for mode `tool` only.

    `allowed` is a subset of the tools' names (None: all). `parallel` False asks for at most one
    call per turn.
    """

    mode: ChoiceMode = "auto"
    name: str = ""
    allowed: tuple[str, ...] | None = None
    parallel: bool = True

    @property
    def forced(self) -> bool:
        return self.mode in ("required", "tool")

    @property
    def label(self) -> str:
        return self.name if self.mode == "tool" else self.mode


ResultKind = Literal[
    "",
    "malformed",
    "invalid",
    "denied",
    "timeout",
    "failed",
    "too_large",
    "interrupted",
    "unknown_tool",
]

IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""The supported media types of images."""
_FIRST_BYTES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


@dataclass(frozen=True)
class Content:
    """One piece of a tool result: text, or an image as base64 `data` with its `media_type`.

    Text that the tool declares to be JSON has the media type `application/json`.
    """

    type: Literal["text", "image"] = "text"
    text: str = ""
    media_type: str = ""
    data: str = ""


@dataclass(frozen=True)
class ToolResult:
    """What the model will read. `kind` classifies an error; `staged`: it was made up. `form` is the
    wire form in an imported request: its `protocol`, further members of it (`own`) and of its
    `pieces`: {"own": ...} for each of `content`, and {"other": ...} verbatim for unknown ones.
    `mismatch`, for the user, says why it does not satisfy the tool's output schema."""

    content: tuple[Content, ...] = ()
    is_error: bool = False
    kind: ResultKind = ""
    staged: bool = False
    form: Mapping[str, Any] = field(default_factory=dict)
    mismatch: str = ""

    @property
    def text(self) -> str:
        return "\n".join(piece.text for piece in self.content if piece.type == "text")


def text_result(text: str, *, is_error: bool = False, kind: ResultKind = "") -> ToolResult:
    """A result of one piece of text."""
    return ToolResult((Content(text=text),), is_error=is_error, kind=kind)


# Caches results for a tool or a schema, by identity of the object. It contains mappings, so it has
# no hash, and comparing two costs as much as the cached computation; a thousand calls of an answer
# share one object:
#
#     @lru_cache(maxsize=TOOLS_IN_USE)
#     def size(tool: Same[Tool]) -> int: ...


class IdentityKey(Generic[T]):
    """Equal if `value` is the same object, which is kept alive by this."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def image_type(data: bytes) -> str:
    """The media type of an image by its first bytes, "" if models do not accept it."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for first, kind in _FIRST_BYTES.items() if data.startswith(first)), "")
