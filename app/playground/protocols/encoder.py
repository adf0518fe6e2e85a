"""Encodes requests: the common part of all protocols (ids, names, arguments, bytes)."""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from playground.core.errors import BadInput
from playground.core.json_values import is_deeper, load_json, refuse_constant
from playground.core.messages import Message, MessagePart, ModelRequest, Origin
from playground.core.tools import Content, IdentityKey, Tool
from playground.protocols.base import WireRequest
from playground.protocols.raw_json import whole_characters
from playground.protocols.tool_limits import CallIdLimit, LimitTable, SentTool
from playground.schema.strict_json import InvalidJSON, parse, read_arguments

# Notes before sending what the provider will refuse of the tools. Changes nothing: the tools are
# sent as they are, because a local server may accept what others refuse.

_REMEMBERED = 512
"""Number of tools whose findings are cached: a request may have hundreds, the same in each turn."""

_GROUPS = frozenset(
    (
        *("generationConfig", "toolConfig", "reasoning", "options", "stream_options"),
        "output_config",
    )
)
"""Members whose own members are independent: ours and extra ones are merged."""

JSON_HEADERS = {"content-type": "application/json"}
SSE = "text/event-stream"

_ODD = re.compile(r"[^A-Za-z0-9_-]")
"""Characters in tool names that some providers refuse."""

_ORIGINS: Mapping[Origin, str] = {
    "": "by another protocol",
    "protocol": "by another protocol",
    "address": "from another address",
    "model": "from another model",
}
CUT = "were incomplete"
HALVES = (
    "Halves of surrogate pairs, which are not characters, were sent as U+FFFD, because servers "
    "refuse them."
)

_PLACE: Mapping[Any, int] = {"1": 0, 1: 0}

_WRITTEN = '{"1":0,"1":0}'
"""A placeholder for an Exact during encoding: a duplicate key, which no other value of a body can
have; in strings its quotes would be escaped."""

_MOST_WRITTEN = 700
"""Every version of Python writes this many levels. A schema of any depth is sent as it is."""


def preflight(
    tools: Sequence[Tool],
    limits: LimitTable,
    notes: Notes,
    model: str = "",
    *,
    sure: bool = True,
    strict: bool = True,
) -> None:
    """Notes what `model` will refuse of `tools`. `sure`: all servers of the protocol refuse what
    exceeds its `limits`; `strict`: they have a strict mode."""
    outcome = "will be refused" if sure else "may be refused"
    for tool in tools:
        for message in _refusals(IdentityKey(limits), IdentityKey(tool), model, strict):
            notes.add(f"The tool {tool.name[:80]!r} {outcome}: {message}")
    for finding in limits.group_findings(list(map(SentTool.from_tool, tools)), model):
        notes.add(f"The request {outcome}: {finding.message}")


@lru_cache(maxsize=_REMEMBERED)
def _refusals(
    limits: IdentityKey[LimitTable], tool: IdentityKey[Tool], model: str, strict: bool
) -> tuple[str, ...]:
    sent_tool = SentTool.from_tool(tool.value)
    sent_tool = sent_tool if strict else replace(sent_tool, strict=False)
    return tuple(finding.message for finding in limits.value.findings(sent_tool, model))


class Ids:
    """The ids of calls and their results in one request: as `limit` allows, and unique.

    A provider may have sent one id for two calls, or calls come from another provider, whose ids
    this one refuses. Results come in the order of their calls. A replacement is the same in each
    later request: it depends on the id and, if several calls have that id, on their order.
    `own_limit` is for ids that this server gave itself.
    """

    def __init__(
        self, limit: CallIdLimit, notes: Notes, own_limit: CallIdLimit | None = None
    ) -> None:
        self._limit = limit
        self._own_limit = own_limit or limit
        self._notes = notes
        self._changed = 0
        self._given: set[str] = set()
        self._waiting: dict[str, deque[str]] = {}

    def assign_call_id(self, part: MessagePart) -> str:
        call_id, again = part.call_id, 2
        sent_id = self._allowed_id(call_id, self._own_limit if part.protocol else self._limit)
        while sent_id in self._given:
            sent_id, again = self._allowed_id(f"{call_id}_{again}", self._limit), again + 1
        self._given.add(sent_id)
        if sent_id != call_id:
            self._note_changes()
        self._waiting.setdefault(call_id, deque()).append(sent_id)
        return sent_id

    def take_result_id(self, call_id: str) -> str:
        waiting = self._waiting.get(call_id)
        return waiting.popleft() if waiting else self._allowed_id(call_id, self._limit)

    def _note_changes(self) -> None:
        self._changed += 1
        many = self._changed > 1
        subject = f"The ids of {self._changed} calls were" if many else "The id of one call was"
        self._notes.add(
            f"{subject} changed: {self._limit.says}, and accepts each only once.", "ids"
        )

    def _allowed_id(self, call_id: str, limit: CallIdLimit) -> str:
        if limit.pattern.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


class Notes:
    """Sentences about what a protocol cannot express, without repetition."""

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    def add(self, sentence: str, about: str = "") -> None:
        """Adds `sentence`, which replaces an earlier one on the same topic `about`."""
        self._notes[about or sentence] = sentence

    def note_foreign_part(self, part: MessagePart) -> None:
        """Notes a part that only its originator can read."""
        self.note_omission(part, f"came {_ORIGINS[part.origin]}")

    def note_omission(self, part: MessagePart, why: str) -> None:
        self.add(f"Left out of the history: {part.kind.replace('_', ' ')} parts that {why}.")

    def sentences(self) -> tuple[str, ...]:
        return tuple(self._notes.values())


def own_members(
    meta: Mapping[str, Any], part: MessagePart, where: str, notes: Notes
) -> dict[str, Any]:
    """Further members of an imported piece: sent back only in its own protocol."""
    if meta and part.protocol != where:
        notes.add(f"Left out: {_list_names(meta)}, which came from {part.protocol}.")
        return {}
    return dict(meta)


def note_foreign(part: MessagePart, where: str, notes: Notes) -> None:
    """Notes further members of a part, and of its pieces, that came by another protocol."""
    if part.kind == "other" and part.protocol != where:
        own_block(part.meta, part, where, notes)
    else:
        own_members(part.meta, part, where, notes)
    for piece, own in part.pieces if part.protocol != where else ():
        if piece is None:
            own_block(own, part, where, notes)
        else:
            own_members(own, part, where, notes)


def own_block(block: Mapping[str, Any], part: MessagePart, where: str, notes: Notes) -> list[Any]:
    """The same for a piece of unknown type: the whole piece, or nothing."""
    if part.protocol == where:
        return [dict(block)]
    kind = str(block.get("type") or next(iter(block), "empty"))[:40]
    notes.add(f"Left out: content of the kind {kind}, which came from {part.protocol}.")
    return []


def role_word(message: Message, where: str, usual: str) -> str:
    """The role of a system message: the original one if it came by this protocol."""
    came = any(part.protocol == where for part in message.parts)
    return message.word if came and message.word else usual


def message_members(message: Message, where: str, notes: Notes) -> dict[str, Any]:
    """Further members of an imported message."""
    return own_members(message.own, message.parts[0], where, notes) if message.own else {}


def move_system_messages(request: ModelRequest, notes: Notes) -> ModelRequest:
    """Moves leading system messages to the system prompt, for a protocol that accepts them only
    there, or only later."""
    if not request.messages or request.messages[0].role != "system":
        return request
    first, *rest = request.messages
    for meta in (first.own, *(part.meta for part in first.parts)):
        if meta:
            notes.add(f"Left out of the system prompt: {_list_names(meta)}.")
    texts = [request.system, *(part.text for part in first.parts)]
    system = "\n\n".join(text for text in texts if text.strip())
    return replace(request, system=system, messages=tuple(rest))


def tool_extra(tool: Tool, where: str, notes: Notes) -> dict[str, Any]:
    """The members of a tool's definition that are specific to `where`."""
    for protocol, members in tool.extra.items():
        if protocol != where and members:
            notes.add(f"Left out of the tools: {_list_names(members)}, which only {protocol} has.")
    return dict(tool.extra.get(where) or {})


def _list_names(members: Mapping[str, Any]) -> str:
    return ", ".join(sorted(members))[:80]


class Names:
    """The names of calls and their results in one request, each at most `most` characters.

    A model may invent a name that no provider accepts; sent back unchanged, it would make every
    further request of the session fail. The name of a tool that is sent along is kept: if the tool
    is accepted, so is the call. `odd` matches characters that are not accepted.
    """

    def __init__(
        self, most: int, tools: Iterable[Tool], notes: Notes, odd: re.Pattern[str] = _ODD
    ) -> None:
        self._most = most
        self._odd = odd
        self._sent = frozenset(tool.name for tool in tools)
        self._notes = notes

    def allowed_name(self, name: str) -> str:
        allowed = self._odd.sub("_", name)[: self._most] or "unknown_tool"
        if name == allowed or name in self._sent:
            return name
        self._notes.add(
            f"The tool's name {name[:80]!r} cannot be sent; {allowed!r} was sent instead."
        )
        return allowed


@dataclass(frozen=True)
class ExactJson:
    """A JSON object as text: sent exactly, including all digits."""

    text: str


def exact_object(text: str) -> ExactJson | None:
    """The object in `text`, if it is strict JSON, or None. It goes on exactly as it is written."""
    try:
        value = parse(text)
    except InvalidJSON:
        return None
    return ExactJson(text.strip()) if isinstance(value, dict) else None


def sound_object(text: str) -> dict[str, Any] | None:
    """The object in `text`, if it is strict JSON, or None."""
    try:
        value = load_json(text, parse_constant=refuse_constant)
        # An infinity cannot be encoded again, so it is invalid, too.
        json.dumps(value, allow_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def input_object(part: MessagePart) -> ExactJson:
    """The arguments of a call in a protocol that sends an object: see `with_sound_arguments`."""
    return ExactJson(part.text.strip())


def with_sound_arguments(request: ModelRequest, notes: Notes) -> ModelRequest:
    """`request` with a JSON object for the arguments of every call in its history: nothing else
    could have run (docs/laws.md), and nothing else is sent.

    Servers that parse the history (llama.cpp, vLLM, SGLang, Anthropic) refuse each further request
    of a session if one of its calls has anything else. Such a call is sent with {}, and its result
    says what the model wrote.
    """
    written: dict[str, deque[str]] = {}
    messages = []
    for message in request.messages:
        parts = []
        for part in message.parts:
            if part.kind == "call":
                text, problem = sound_arguments(part.text)
                if problem:
                    notes.add(
                        f"The arguments of {part.name[:80] or 'a call'} are not a JSON object. "
                        f"They were sent as {{}}, with the original text in the result. "
                        f"{problem}"
                    )
                if not problem and whole_characters(part.text) != part.text:
                    notes.add(HALVES)
                added = written_text(part.text) if problem else ""
                written.setdefault(part.call_id, deque()).append(added)
                part = part if text == part.text else replace(part, text=text)
            elif part.kind == "result" and (waiting := written.get(part.call_id)):
                part = _with_text(part, waiting.popleft())
            parts.append(part)
        messages.append(replace(message, parts=tuple(parts)))
    return replace(request, messages=tuple(messages))


def sound_arguments(text: str) -> tuple[str, str]:
    """The arguments to send for a call whose arguments are `text`: {} if they are not a JSON
    object, and why not, else "".

    Half of a surrogate pair, which no request can contain, is replaced as in all other texts.
    """
    text = whole_characters(text)
    if exact_object(text) is not None:
        return text, ""
    read = read_arguments(text)  # empty, or what is wrong
    return "{}", " ".join(each.message for each in read.problems if read.value is None)


def written_text(text: str) -> str:
    """What the result of a call with the arguments `text` has to add if these are not sent, else
    ""."""
    _, problem = sound_arguments(text)
    if not problem:
        return ""
    return (
        "[The arguments that you wrote for this call are not a JSON object that could run, so the "
        f"call is shown with {{}}. {problem} You wrote:]\n{whole_characters(text)}"
    )


def _with_text(part: MessagePart, text: str) -> MessagePart:
    """The result with `text` at its end: in its last text, or as a further piece."""
    if not text:
        return part
    *before, last = part.content or (Content(),)
    if part.pieces or last.type != "text":
        before, last = [*part.content], Content(text=text)
    else:
        last = Content(text=f"{last.text}\n{text}" if last.text else text)
    pieces = (*part.pieces, (last, {})) if part.pieces else ()
    return replace(part, content=(*before, last), pieces=pieces)


def no_tools_note(request: ModelRequest, notes: Notes) -> None:
    """Why no tool is sent although there are some or one is required."""
    if request.tools:
        notes.add("No tool is allowed, so none was sent.")
    if request.choice.forced:
        notes.add("The tool choice was left out: there is no tool to choose from.")


def freeform_note(tool: Tool, where: str, notes: Notes) -> None:
    """Notes a free-form tool in a protocol without them: it is sent as a function."""
    if tool.format is not None:
        notes.add(
            f"{where} has no free-form tools. {tool.name} was sent as a tool with one text "
            "argument, and no grammar is enforced."
        )


def error_text(part: MessagePart, where: str, notes: Notes) -> str:
    """The text of a result in a protocol that cannot mark failures: the text says it."""
    text = "\n".join(piece.text for piece in part.content if piece.type == "text")
    if not part.is_error:
        return text
    notes.add(f"{where} has no is_error field. A failed result says so in its text.")
    if text.startswith("Error"):
        return text
    return f"Error: {text}" if text else "Error"


def stop_words(value: Any) -> list[str]:
    """The setting `stop`, one text or several, as a list."""
    words = [value] if isinstance(value, str) else list(value or [])
    return [word for word in words if isinstance(word, str) and word]


def wire_request(
    request: ModelRequest,
    path: str,
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    notes: Notes,
    stream_type: str = SSE,
    *,
    stream_in_path: bool = False,
) -> WireRequest:
    """The request with `own` and `extra` merged into its body. BadInput if it cannot be JSON.

    If extra members set the stream option they win, unless the path determines it.
    """
    merged, stream = _merge(body, request.own, notes, "params"), request.stream
    merged = _merge(merged, request.extra, notes, "extra")
    if "stream" in request.extra and not stream_in_path:
        stream = bool(request.extra["stream"])
        if not stream:
            merged.pop("stream_options", None)
    expects = stream_type if stream else ""
    accept = {"accept": expects} if expects else {}
    all_headers = {**JSON_HEADERS, **accept, **headers}
    text = _json_text(merged)
    whole = whole_characters(text)
    if whole != text:
        notes.add(HALVES)
    return WireRequest(
        "POST",
        path=path,
        headers=all_headers,
        body=whole.encode(),
        notes=notes.sentences(),
        expects=expects,
    )


def _merge(
    body: Mapping[str, Any], extra: Mapping[str, Any], notes: Notes, source: str
) -> dict[str, Any]:
    """Merges `extra` into `body`: notes replaced members, but merges groups of settings."""
    merged = dict(body)
    for name, value in extra.items():
        ours = body.get(name)
        if name in _GROUPS and isinstance(ours, Mapping) and isinstance(value, Mapping):
            merged[name] = {**ours, **value}
            replaced = [f"{name}.{key}" for key in value if key in ours and value[key] != ours[key]]
        else:
            merged[name] = value
            replaced = [name] if name in body and value != ours else []
        for member in replaced:
            notes.add(f"{source} replaces {member}.")
    return merged


def _json_text(body: Mapping[str, Any]) -> str:
    exact: list[str] = []

    def place(value: Any) -> Mapping[Any, int]:
        if not isinstance(value, ExactJson):
            raise TypeError(f"{type(value).__name__} is not JSON")
        exact.append(value.text)
        return _PLACE

    if is_deeper(body, _MOST_WRITTEN):
        raise BadInput(
            f"The request is nested deeper than {_MOST_WRITTEN} levels: flatten the settings or "
            "the tools' parameters."
        )
    try:
        text = json.dumps(
            body, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=place
        )
    except (ValueError, TypeError) as error:
        raise BadInput(
            f"The request cannot be written as JSON ({error}): change the settings."
        ) from error
    first, *rest = text.split(_WRITTEN)
    assert len(rest) == len(exact)
    return first + "".join(text + more for text, more in zip(exact, rest, strict=True))
