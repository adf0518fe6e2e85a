"""Session -> ModelRequest: the history a provider accepts, whatever happened on the way.

Turns that were dropped or failed without a word are left out; of a turn that was cut only its
text remains; every call that goes back is followed by its result, in the order of the calls.
What came of a call in the background is reported once, by the user's side, before the first answer
that came after it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from app.core.events import RunPaused
from app.core.late import dataclass
from app.core.session import Call, Prompt, Session, Task, Turn
from app.core.settings import Settings
from app.core.tools import Content, Tool, ToolChoice, ToolResult, text_result

Role = Literal["user", "system", "assistant", "results"]
Origin = Literal["", "protocol", "address", "model"]
"""What is another one now than when a part came: "" where nothing is."""


@dataclass(frozen=True)
class MessagePart:
    """One piece of a message, in neutral words.

    kind `text`, `thinking`, `refusal`, `other` (opaque), `server_call`, `server_result`: as the
    parts of an answer; `meta` holds the provider's own block. `protocol` is that of the provider
    it came from, or "" where another one is asked now, or another of its models: what is opaque
    goes back to nobody else, and `origin` says why. `complete` is whether it came to its end, and
    its turn did.
    `call`: `name`, `call_id` (the provider's id, or ours where it sent none), `text` the arguments
    as JSON text. `result`: `call_id`, `name`, `content`, `is_error`. `image`: one piece of
    `content`, in a prompt. Of a prompt and of a result that were imported, `meta` is what stood
    beside (of an `other` one the whole of it), and goes back by `protocol` alone; `pieces` are
    those of a result's `content`, each with what stood beside it, and (None, what came) for others.
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
    """role `user` (prompts), `system` (what it says in the course of a conversation), `assistant`
    (a turn), `results` (the answers to its calls). `word` is what a protocol called the role of a
    message that was imported, where that has several; "" for the usual one. `own` is what stood
    beside such a message, and goes back by the `protocol` of its parts alone."""

    role: Role
    parts: tuple[MessagePart, ...]
    word: str = ""
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelRequest:
    """All that a codec needs to write a request. `tools` are all that are switched on; where the
    protocol has no word for `choice.allowed`, only those `offered` are sent. `own` are members of
    the body that the codec itself found among `params`.
    """

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
    """The next request of `session` under `choice`."""
    settings = session.settings
    assert settings is not None
    return ModelRequest(
        model=_model(settings),
        system=settings.system,
        messages=tuple(_merged(_messages(session))),
        tools=settings.tools,
        choice=choice,
        params=settings.params,
        extra=settings.extra,
        stream=settings.stream,
        quirks=settings.profile.quirks,
    )


def _messages(session: Session) -> Iterator[Message]:
    assert session.settings is not None
    over = _over(session)
    for place, item in enumerate(session.items):
        # Before the prompt that the same request brings, if there is one: what is asked comes last.
        until = _sent_seq(session.items[place:]) if over and not _dropped(item) else 0
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
    """The images and the text; or the pieces that an imported request had them in, as the
    `form` of its PromptAdded tells."""
    written = tuple(_pieces(text, images, form))
    shown = [part.content for part in written if part.kind == "image"]
    shown_text = "\n\n".join(part.text for part in written if part.kind == "text")
    # What a form says must be all that is shown, and nothing else: it may come from anybody.
    if written and shown_text == text and shown == [(image,) for image in images]:
        return written
    protocol = str(form.get("protocol") or "")
    parts = tuple(MessagePart("image", content=(image,)) for image in images)
    if text.strip() or not parts:
        parts += (MessagePart("text", text, protocol=protocol),)
    return parts


def _pieces(text: str, images: Sequence[Content], form: Mapping[str, Any]) -> Iterator[MessagePart]:
    """The pieces as `form` tells them, as far as it can be read."""
    protocol, unused, start = str(form.get("protocol") or ""), iter(images), 0
    for piece in _listed(form):
        own = _mapping(piece.get("own"))
        match piece:
            case {"chars": int(length)} if length > 0:
                words, start = text[start : start + length], start + length + 2
                yield MessagePart("text", words, meta=own, protocol=protocol)
            case {"image": True} if (image := next(unused, None)) is not None:
                yield MessagePart("image", content=(image,), meta=own, protocol=protocol)
            case {"other": Mapping() as block}:
                yield MessagePart("other", meta=block, protocol=protocol)


def _dropped(item: Prompt | Turn) -> bool:
    return isinstance(item, Turn) and item.dropped


def _sent_seq(items: Sequence[Prompt | Turn]) -> int | None:
    """When the first request went out that has the first of `items`; None where it is to come."""
    turns = (item for item in items if isinstance(item, Turn) and not item.dropped)
    turn = next(turns, None)
    return None if turn is None else turn.seq


def _over(session: Session) -> list[Task]:
    """The calls that went on in the background and are over, in the order of their ends."""
    dropped = {turn.number for turn in session.turns if turn.dropped}
    behind = {call.task_id for call in session.calls() if call.turn not in dropped}
    ended = [
        task for task in session.tasks.values() if task.ended_ms is not None and task.id in behind
    ]
    return sorted(ended, key=lambda task: task.ended_seq)


def _task_message(task: Task) -> tuple[MessagePart, ...]:
    """What came of a call in the background, as the model reads it; the call's own result, which
    stands before, has told it the task."""
    head = f"[Task {task.id}, which went on in the background, is over: "
    if task.result is None:
        words = f"{head}{task.how}. It has no result, and what it had done by then is not undone.]"
        return (MessagePart("text", words),)
    text = task.result.text
    # What a text says cannot hold its own digest, so no output can end itself and go on as another.
    mark = hashlib.sha256(f"{task.id}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]
    words = f"{head}{task.how}. What follows up to {mark} is output of the tool:]\n{text}\n[{mark}]"
    images = (piece for piece in task.result.content if piece.type == "image")
    return (MessagePart("text", words), *(MessagePart("image", content=(i,)) for i in images))


def _merged(messages: Iterator[Message]) -> Iterator[Message]:
    """Two messages of one role in a row (a prompt after a cut turn) become one."""
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
    """What `turn` came by that is not asked now."""
    sent = turn.request
    if sent.protocol != asked.profile.protocol:
        return "protocol"
    if turn.settings.profile.base_url != asked.profile.base_url:
        return "address"
    return "model" if sent.model and sent.model != _model(asked) else ""


def _model(settings: Settings) -> str:
    return settings.model or settings.profile.model


def answer_parts(turn: Turn, origin: Origin = "") -> Iterator[MessagePart]:
    """What the model said in `turn`, as it goes back."""
    protocol = turn.request.protocol if not origin else ""
    calls = {call.part.index: call for call in turn.calls}
    for part in turn.parts:
        if turn.end is None and (part.kind != "text" or not part.text.strip()):
            continue  # of a cut turn only what was said stays: a half block goes nowhere
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
    """The id a result is sent back under: the provider's, or one made from ours."""
    return call.provider_id or "call_" + call.id.replace(".", "_")


def sent_arguments(call: Call) -> str:
    """The arguments that go back with the history: what ran, or what the model wrote.

    A text that is no JSON object stays as it is where the protocol carries text; a codec whose
    protocol carries an object sends `{}` for it (the result tells the model what was wrong).
    """
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
    """None where the form does not tell of each piece."""
    listed, content = _listed(result.form), iter(result.content)
    if sum("other" not in piece for piece in listed) != len(result.content):
        return
    for piece in listed:
        if "other" in piece:
            yield None, _mapping(piece["other"])
        else:
            yield next(content), _mapping(piece.get("own"))


def _listed(form: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    pieces = form.get("pieces")
    return [_mapping(piece) for piece in pieces] if isinstance(pieces, list | tuple) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def arguments_object(text: str) -> dict[str, Any] | None:
    """The object that `text` spells, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


# Whether a history without the calls that were left out may go back to its provider -------------

_SEALS = ("encrypted_content", "signature", "thoughtSignature", "thought_signature")
_DEPTH = 12


def seals(value: Any, depth: int = 0) -> Iterator[str]:
    """Every sealed text in `value`, which is what a provider sent with a part."""
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
                    yield from seals(item, depth + 1)
        case list():
            for item in value:
                yield from seals(item, depth + 1)


CALLS_LEFT_OUT = "calls_left_out"
"""The code of the warning that counts them: `count` in its meta."""


def left_out(turn: Turn) -> int:
    """How many calls of the turn were not taken."""
    counts = (warned.meta.get("count") for warned in turn.warnings if warned.code == CALLS_LEFT_OUT)
    return sum(count for count in counts if isinstance(count, int))


def cannot_go_back(session: Session) -> RunPaused | None:
    """The pause in place of the next request, where its history has sealed parts that stand among
    calls which were left out: a provider takes these back only with what they led to. Where another
    provider or model is asked, they do not go along."""
    assert session.settings is not None
    for turn in session.turns:
        if turn.dropped or turn.end is None or not left_out(turn):
            continue
        if not origin(turn, session.settings) and _sealed_among(turn):
            return RunPaused("left_out", _left_out_message(turn))
    return None


def _sealed_among(turn: Turn) -> bool:
    """Whether something sealed stands behind the last call that was taken."""
    last = turn.calls[-1].part.index if turn.calls else -1
    return any(next(seals(part.meta), None) is not None for part in turn.parts[last + 1 :])


def _left_out_message(turn: Turn) -> str:
    return (
        f"Of turn {turn.number} {left_out(turn):,} calls were left out, and among them stand "
        "thoughts that only the provider can read; it takes these back only with their calls, so "
        "nothing is sent. Fork before that turn with a higher limit of calls an answer, or choose "
        "another model in Setup and press Continue: it gets the history without such thoughts."
    )
