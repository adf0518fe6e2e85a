"""Converts a Session to a ModelRequest: a history that providers accept in every case.

Dropped turns, and turns that failed without output, are left out; of an interrupted turn only the
text remains; every call is followed by its result, in the order of the calls. The result of a
background call is reported once, as a user message, before the first answer after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from playground.core.events import RunPaused
from playground.core.json_values import load_json
from playground.core.session import Call, Prompt, Session, Task, Turn
from playground.core.settings import Settings
from playground.core.tools import Content, Tool, ToolChoice, ToolResult, text_result

Role = Literal["user", "system", "assistant", "results"]
Origin = Literal["", "protocol", "address", "model"]
"""What has changed since a part was received: "" if nothing."""

_SEALS = ("encrypted_content", "signature", "thoughtSignature", "thought_signature")
_DEPTH = 12

CALLS_LEFT_OUT = "calls_left_out"
"""The code of the warning on left-out calls, whose meta has their `count`."""


@dataclass(frozen=True)
class MessagePart:
    """A part of a message, independent of the protocol.

    kind `text`, `thinking`, `refusal`, `other` (opaque), `server_call`, `server_result`: as the
    parts of an answer; `meta` holds the provider's own block. `protocol` is that of the provider it
    came from, or "" if the request goes to another provider or model: opaque data goes back only to
    its origin, and `origin` says what differs. `complete`: the part and its turn have ended.
    `call`: `name`, `call_id` (the provider's id, or ours if it sent none), `text` the arguments as
    JSON text. `result`: `call_id`, `name`, `content`, `is_error`. `image`: one piece of `content`,
    in a prompt. For imported prompts and results, `meta` are their further members (of an `other`
    one the whole), which go back only in `protocol`; `pieces` are those of a result's `content`,
    each with its further members, and (None, verbatim data) for unknown ones.
    """

    kind: str
    text: str = ""
    name: str = ""
    call_id: str = ""
    content: tuple[Content, ...] = ()
    is_error: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""
    origin: Origin = ""
    complete: bool = True
    pieces: tuple[tuple[Content | None, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True)
class Message:
    """role `user` (prompts), `system` (system messages within a conversation), `assistant` (a
    turn), `results` (of its calls). `word` is the protocol's role of an imported message, if it has
    several; "" for the usual one. `own` are further members of such a message, which go back only
    in the `protocol` of its parts."""

    role: Role
    parts: tuple[MessagePart, ...]
    word: str = ""
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelRequest:
    """All that a codec needs to encode a request. `tools` are all enabled ones; if the protocol
    cannot express `choice.allowed`, only those `offered` are sent. `own` are members of the body
    that the codec itself found among `params`."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    choice: ToolChoice
    params: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True
    quirks: tuple[str, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that the choice allows."""
        allowed = self.choice.allowed
        return tuple(tool for tool in self.tools if allowed is None or tool.name in allowed)


def model_request(session: Session, choice: ToolChoice) -> ModelRequest:
    """The next request of `session` with `choice`."""
    settings = session.settings
    assert settings is not None
    return ModelRequest(
        model=_model(settings),
        system=settings.system,
        messages=tuple(_merge_messages(_messages(session))),
        tools=settings.tools,
        choice=choice,
        params=settings.params,
        extra=settings.extra,
        stream=settings.stream,
        quirks=settings.profile.quirks,
    )


def _messages(session: Session) -> Iterator[Message]:
    assert session.settings is not None
    over = _ended_tasks(session)
    for place, item in enumerate(session.items):
        # Before the prompt of the same request, if any: the prompt comes last.
        until = _sent_seq(session.items[place:]) if over and not _is_dropped(item) else 0
        while over and (until is None or over[0].ended_seq < until):
            yield Message("user", _task_message(over.pop(0)))
        if isinstance(item, Prompt):
            word = item.form.get("role")
            word = word if isinstance(word, str) else ""
            parts = prompt_parts(item.text, item.images, item.form)
            yield Message(item.role, parts, word, _mapping(item.form.get("own")))
        elif not item.dropped:
            parts = tuple(answer_parts(item, origin(item, session.settings)))
            if not parts:
                continue
            yield Message("assistant", parts)
            if item.end is not None and item.calls:
                yield Message("results", tuple(_result(call) for call in item.calls))
    for task in over:
        yield Message("user", _task_message(task))


def prompt_parts(
    text: str, images: Sequence[Content], form: Mapping[str, Any]
) -> tuple[MessagePart, ...]:
    """The images and the text; or the pieces of the imported request, as described by the `form` of
    its PromptAdded."""
    written = tuple(_pieces(text, images, form))
    shown = [part.content for part in written if part.kind == "image"]
    shown_text = "\n\n".join(part.text for part in written if part.kind == "text")
    # The form must contain exactly what is shown: it may come from an untrusted file.
    if written and shown_text == text and shown == [(image,) for image in images]:
        return written
    protocol = str(form.get("protocol") or "")
    parts = tuple(MessagePart("image", content=(image,)) for image in images)
    if text.strip() or not parts:
        parts += (MessagePart("text", text, protocol=protocol),)
    return parts


def _pieces(text: str, images: Sequence[Content], form: Mapping[str, Any]) -> Iterator[MessagePart]:
    """The pieces described by `form`, as far as it is valid."""
    protocol, unused, start = str(form.get("protocol") or ""), iter(images), 0
    for piece in _form_pieces(form):
        own = _mapping(piece.get("own"))
        match piece:
            case {"chars": int(length)} if length > 0:
                words, start = text[start : start + length], start + length + 2
                yield MessagePart("text", words, meta=own, protocol=protocol)
            case {"image": True} if (image := next(unused, None)) is not None:
                yield MessagePart("image", content=(image,), meta=own, protocol=protocol)
            case {"other": Mapping() as block}:
                yield MessagePart("other", meta=block, protocol=protocol)


def _is_dropped(item: Prompt | Turn) -> bool:
    return isinstance(item, Turn) and item.dropped


def _sent_seq(items: Sequence[Prompt | Turn]) -> int | None:
    """The event number of the first request with the first of `items`; None if not sent."""
    turns = (item for item in items if isinstance(item, Turn) and not item.dropped)
    turn = next(turns, None)
    return None if turn is None else turn.seq


def _ended_tasks(session: Session) -> list[Task]:
    """The ended background calls, in the order of their ends."""
    dropped = {turn.number for turn in session.turns if turn.dropped}
    behind = {call.task_id for call in session.calls() if call.turn not in dropped}
    ended = [
        task for task in session.tasks.values() if task.ended_ms is not None and task.id in behind
    ]
    return sorted(ended, key=lambda task: task.ended_seq)


def _task_message(task: Task) -> tuple[MessagePart, ...]:
    """The result of a background call as a message; the call's own earlier result named the
    task."""
    head = f"[Task {task.id}, which went on in the background, is over: "
    if task.result is None:
        words = f"{head}{task.how}. It has no result, and what it had done by then is not undone.]"
        return (MessagePart("text", words),)
    text = task.result.text
    # A text cannot contain its own digest, so no output can fake its end and continue as another.
    mark = hashlib.sha256(f"{task.id}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]
    words = f"{head}{task.how}. What follows up to {mark} is output of the tool:]\n{text}\n[{mark}]"
    images = (piece for piece in task.result.content if piece.type == "image")
    return (MessagePart("text", words), *(MessagePart("image", content=(i,)) for i in images))


def _merge_messages(messages: Iterator[Message]) -> Iterator[Message]:
    """Merges consecutive messages of one role (a prompt after an interrupted turn)."""
    held: Message | None = None
    for message in messages:
        alike = held is not None and (held.role, held.word) == (message.role, message.word)
        if held is not None and alike and not held.own and not message.own:
            held = replace(held, parts=held.parts + message.parts)
            continue
        if held is not None:
            yield held
        held = message
    if held is not None:
        yield held


def origin(turn: Turn, asked: Settings) -> Origin:
    """What differs between the request of `turn` and `asked`."""
    sent = turn.request
    if sent.protocol != asked.profile.protocol:
        return "protocol"
    if turn.settings.profile.base_url != asked.profile.base_url:
        return "address"
    return "model" if sent.model and sent.model != _model(asked) else ""


def _model(settings: Settings) -> str:
    return settings.model or settings.profile.model


def answer_parts(turn: Turn, origin: Origin = "") -> Iterator[MessagePart]:
    """The parts of the answer of `turn` for the history."""
    protocol = turn.request.protocol if not origin else ""
    calls = {call.part.index: call for call in turn.calls}
    for part in turn.parts:
        if turn.end is None and (part.kind != "text" or not part.text.strip()):
            continue  # incomplete blocks of an interrupted turn are not sent back
        if part.kind in ("text", "refusal") and not part.text and not part.meta:
            continue  # providers refuse an empty block
        if part.kind == "call":
            call = calls[part.index]
            yield MessagePart(
                "call",
                sent_arguments(call),
                name=part.name,
                call_id=wire_id(call),
                meta=part.meta,
                protocol=protocol,
                origin=origin,
                complete=part.complete,
            )
        else:
            yield MessagePart(
                part.kind,
                part.text,
                name=part.name,
                call_id=part.provider_id,
                meta=part.meta,
                protocol=protocol,
                origin=origin,
                complete=part.complete and turn.end is not None,
            )


def wire_id(call: Call) -> str:
    """The id of a call in requests: the provider's, or one made from ours."""
    return call.provider_id or "call_" + call.id.replace(".", "_")


def sent_arguments(call: Call) -> str:
    """The arguments for the history: what ran, or what the model wrote. Encoders send `{}` for what
    is not a JSON object (`with_sound_arguments`)."""
    return call.arguments


def _result(call: Call) -> MessagePart:
    result = call.result or text_result(
        "Not run: the user stopped the run before this call was answered.",
        is_error=True,
        kind="interrupted",
    )
    return MessagePart(
        "result",
        name=call.name,
        call_id=wire_id(call),
        content=result.content,
        is_error=result.is_error,
        meta=_mapping(result.form.get("own")),
        protocol=str(result.form.get("protocol") or ""),
        pieces=tuple(_result_pieces(result)),
    )


def _result_pieces(result: ToolResult) -> Iterator[tuple[Content | None, Mapping[str, Any]]]:
    """Empty if the form does not describe each piece."""
    listed, content = _form_pieces(result.form), iter(result.content)
    if sum("other" not in piece for piece in listed) != len(result.content):
        return
    for piece in listed:
        if "other" in piece:
            yield None, _mapping(piece["other"])
        else:
            yield next(content), _mapping(piece.get("own"))


def _form_pieces(form: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    pieces = form.get("pieces")
    return [_mapping(piece) for piece in pieces] if isinstance(pieces, list | tuple) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def arguments_object(text: str) -> dict[str, Any] | None:
    """The object in the JSON text, or None."""
    try:
        value = load_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


# Whether a history without the left-out calls may go back to its provider -------------------------


def sealed_texts(value: Any, depth: int = 0) -> Iterator[str]:
    """All sealed texts in `value`, the provider's data of a part."""
    if depth > _DEPTH:
        return
    match value:
        case {"type": "redacted_thinking" | "reasoning.encrypted", "data": str(data)}:
            yield data
        case Mapping():
            for key, item in value.items():
                if key in _SEALS and isinstance(item, str):
                    yield item
                else:
                    yield from sealed_texts(item, depth + 1)
        case list():
            for item in value:
                yield from sealed_texts(item, depth + 1)


def left_out_count(turn: Turn) -> int:
    """How many calls of the turn were left out."""
    counts = (warned.meta.get("count") for warned in turn.warnings if warned.code == CALLS_LEFT_OUT)
    return sum(count for count in counts if isinstance(count, int))


def sealed_history_pause(session: Session) -> RunPaused | None:
    """A pause instead of the next request if its history has sealed parts among left-out calls: a
    provider accepts these only together with the calls. Another provider or model does not get
    them."""
    assert session.settings is not None
    for turn in session.turns:
        if turn.dropped or turn.end is None or not left_out_count(turn):
            continue
        if not origin(turn, session.settings) and _has_sealed_part(turn):
            return RunPaused("left_out", _left_out_message(turn))
    return None


def _has_sealed_part(turn: Turn) -> bool:
    """Whether a sealed part follows the last call that was kept."""
    last = turn.calls[-1].part.index if turn.calls else -1
    return any(next(sealed_texts(part.meta), None) is not None for part in turn.parts[last + 1 :])


def _left_out_message(turn: Turn) -> str:
    return (
        f"Turn {turn.number} has {left_out_count(turn):,} calls that were not kept, with encrypted "
        "reasoning that the provider accepts only together with them. Nothing was sent. Fork "
        "before that turn with a higher limit of calls per answer, or choose another model in "
        "Setup and press Continue: it gets the history without this reasoning."
    )
