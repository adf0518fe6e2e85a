"""Reads an agent's request: identifies its conversation, and what is new in it. Pure.

An agent sends its whole history each time. The part known to a session is found by the digests of
the messages of the last request, and by the last answer; the rest is the tail.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from playground.core.arguments import canonical_text
from playground.core.events import PartEnded, PartStarted
from playground.core.messages import MessagePart
from playground.core.serialization import to_data
from playground.core.session import Call, Session, Turn
from playground.protocols.registry import REQUEST_READERS
from playground.protocols.request import (
    AnswerMessage,
    PromptMessage,
    RequestItem,
    RequestNotes,
    RequestSetup,
    ResultMessage,
    is_empty,
)
from playground.store.writes import title_of

THREAD_HEADERS = ("x-claude-code-session-id", "session-id", "x-session-id")
"""Headers with an agent's id of the conversation: Claude Code, Codex, opencode."""

AGENT_HEADER, PARENT_HEADER = "x-claude-code-agent-id", "x-claude-code-parent-agent-id"
"""Headers with Claude Code's id of a subagent, and of the agent that started it."""

ID_HEADERS = (*THREAD_HEADERS, AGENT_HEADER, PARENT_HEADER)

MARK = "cache_control"
"""Moves with each request, so it is ignored in comparisons."""

_GONE_BACK = "The agent continued from an answer that is not its last one."


@dataclass(frozen=True)
class AgentBody:
    """A parsed request body; `digests` are those of `items`. `follows` is the id of the answer that
    it continues if the provider stores the history, else ""."""

    setup: RequestSetup
    items: Sequence[RequestItem]
    digests: Sequence[str]
    follows: str = ""


@dataclass(frozen=True)
class Tail:
    """The new part of a request. `changed` is a sentence on changes to the known part, or "";
    `again`: it repeats the last request; `goes_on`: the agent has the last answer."""

    items: Sequence[RequestItem] = ()
    changed: str = ""
    again: bool = False
    goes_on: bool = False


@dataclass(frozen=True)
class ThreadName:
    """The agent's ids of the conversation and of itself; "" if missing."""

    thread: str = ""
    agent: str = ""
    parent_agent: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)


def thread_of(headers: Iterable[tuple[bytes, bytes]]) -> ThreadName:
    """The conversation identified by the headers of a request."""
    named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
    ids = {name: named[name][:200] for name in ID_HEADERS if named.get(name)}
    thread = next((ids[name] for name in THREAD_HEADERS if name in ids), "")
    return ThreadName(thread, ids.get(AGENT_HEADER, ""), ids.get(PARENT_HEADER, ""), ids)


def read_body(protocol: str, body: Any, model: str = "", *, stream: bool = False) -> AgentBody:
    """Parses any body; `model` and `stream` are from its path, for protocols that have them
    there."""
    reader, notes = REQUEST_READERS[protocol], RequestNotes(protocol)
    value = body if isinstance(body, dict) else {}
    setup = reader.setup(value, notes)
    if model:
        setup = replace(setup, model=model, stream=stream)
    items = [item for item in reader.items(value, notes) if not is_empty(item)]
    follows = value.get("previous_response_id") if protocol == "openai_responses" else None
    digests = [_digest(item) for item in items]
    return AgentBody(setup, items, digests, follows if isinstance(follows, str) else "")


def _digest(item: RequestItem) -> str:
    match item:
        case PromptMessage():
            words = [item.role, item.text, to_data(item.images), _form_words(item.form)]
        case AnswerMessage():
            words = ["answer", _strip_marks(to_data(item.answer))]
        case ResultMessage():
            words = [item.call_id, item.name, to_data(item.content), item.is_error]
    text = json.dumps(words, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _form_words(form: Mapping[str, Any]) -> Any:
    """The content of a prompt's form without text boundaries, which are in it only while a piece
    has a member of its own, such as a cache mark."""
    words = _strip_marks(to_data(form))
    if not any(piece.keys() - {"chars"} for piece in words.get("pieces", ())):
        words.pop("pieces", None)
    return words if words.keys() - {"protocol"} else None


def _strip_marks(value: Any) -> Any:
    """`value` without cache marks, which move; also without objects that are empty after that."""
    match value:
        case dict():
            members = {name: _strip_marks(item) for name, item in value.items() if name != MARK}
            return {name: item for name, item in members.items() if item != {}}
        case list():
            items = [_strip_marks(item) for item in value]
            return items if any(item != {} for item in items) else []
    return value


def fingerprint_of_parts(parts: Iterable[MessagePart]) -> str:
    """A digest of an answer's text and calls, independent of their form; "" if it has none."""
    parts = [part for part in parts if part.kind in ("text", "call")]
    return _fingerprint(
        "".join(part.text for part in parts if part.kind == "text"),
        [(part.name, part.text) for part in parts if part.kind == "call"],
    )


def fingerprint_of_answer(events: Iterable[object]) -> str:
    """The same for a decoded answer."""
    kinds: dict[int, str] = {}
    text, calls = "", list[tuple[str, str]]()
    for event in events:
        if isinstance(event, PartStarted):
            kinds[event.index] = event.part_kind
        elif isinstance(event, PartEnded) and kinds.get(event.index) == "text":
            text += event.text
        elif isinstance(event, PartEnded) and kinds.get(event.index) == "call":
            calls.append((event.name, event.text))
    return _fingerprint(text, calls)


def fingerprint_of_turn(turn: Turn) -> str:
    """The same for a recorded answer, or for what the agent got in its place."""
    calls = [(call.name, call.written) for call in turn.calls]
    return _recorded_fingerprint(turn) or _fingerprint(_text(turn), calls)


def fingerprint_put_back(turn: Turn) -> str:
    """The same for an answer as it is put back: with all its calls, and edited arguments."""
    return _fingerprint(_text(turn), [(call.name, call.arguments) for call in turn.calls])


def fingerprint_of_answers(turns: Sequence[Turn]) -> str:
    """The same for what the agent got of `turns` as one answer: with the calls that it runs."""
    if says := _recorded_fingerprint(turns[-1]):
        return says
    ran = [call for call in turns[-1].calls if not call.answered_here]
    return _fingerprint("".join(map(_text, turns)), [(call.name, call.arguments) for call in ran])


def _recorded_fingerprint(turn: Turn) -> str:
    return turn.passed.says if turn.passed is not None else ""


def _text(turn: Turn) -> str:
    return "".join(part.text for part in turn.parts if part.kind == "text")


def _fingerprint(text: str, calls: Sequence[tuple[str, str]]) -> str:
    text = "".join(text.split())
    if not text and not calls:
        return ""
    words = json.dumps([text, [[name, canonical_text(arguments)] for name, arguments in calls]])
    return hashlib.sha256(words.encode()).hexdigest()[:24]


def prefixes_of(digests: Sequence[str]) -> list[str]:
    """A digest of each prefix of the messages, the shortest first."""
    prefixes, hashed = list[str](), hashlib.sha256()
    for each in digests:
        hashed.update(each.encode())
        prefixes.append(hashed.copy().hexdigest()[:24])
    return prefixes


def tail_of(session: Session, known: Sequence[str], body: AgentBody) -> Tail:
    """The part of `body` that is new to `session`, whose last request had the messages `known`."""
    items, digests = body.items, body.digests
    if session.turn is None and not known:
        return Tail(items)
    was_void = session.turns and session.turns[-1].dropped
    if was_void and list(digests[: len(known)]) == list(known):
        return Tail(items[len(known) :], again=len(items) == len(known))
    if body.follows:
        before = id_of_answer(session.turn)
        if list(digests) == list(known) and before != body.follows:
            return Tail(again=True)
        gone_back = _GONE_BACK if before not in ("", body.follows) else ""
        return Tail(_results_first(items), gone_back, goes_on=before == body.follows)
    answered = _place_of_answer(session, items)
    if answered is not None:
        first = _first_of_answer(session.turn, items, answered)
        between = [item for item in items[first:answered] if isinstance(item, ResultMessage)]
        behind = _results_first([*between, *items[answered + 1 :]])
        tail = _with_own_ids(session.turn, items[answered], behind)
        return Tail(tail, _changes(known, digests[:first]), goes_on=True)
    if list(digests[: len(known)]) == list(known):
        tail = items[len(known) :]
        if tail and session.turn is not None and session.turn.end is not None and _is_mute(tail[0]):
            tail = tail[1:]  # the last answer, which was empty
        return Tail(tail, again=len(items) == len(known))
    answers = (place for place, item in enumerate(items) if isinstance(item, AnswerMessage))
    last = max(answers, default=-1)
    return Tail(items[last + 1 :], _rewrite_sentence(known, digests))


def _is_mute(item: RequestItem) -> bool:
    return isinstance(item, AnswerMessage) and not fingerprint_of_parts(item.parts)


def id_of_answer(turn: Turn | None) -> str:
    """The provider's id of the answer, "" for none."""
    id_ = turn.end.meta.get("id") if turn is not None and turn.end is not None else None
    return id_ if isinstance(id_, str) else ""


def _place_of_answer(session: Session, items: Sequence[RequestItem]) -> int | None:
    """The index of the last answer of `session` in `items`."""
    turn = session.turn
    alike = (
        {fingerprint_of_turn(turn), fingerprint_put_back(turn)} if turn is not None else set()
    ) - {""}
    ids = (
        {call.provider_id for call in turn.calls if call.provider_id} if turn is not None else set()
    )
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if not isinstance(item, AnswerMessage):
            continue
        called = {part.call_id for part in item.parts if part.kind == "call" and part.call_id}
        if (called & ids) or fingerprint_of_parts(item.parts) in alike:
            return place
    return None


def _first_of_answer(turn: Turn | None, items: Sequence[RequestItem], last: int) -> int:
    """The index where the answer of `turn`, which ends at `last`, begins: some agents write each
    call separately, followed by its result. Ids may recur in each answer, so each call that the
    agent got counts once."""
    calls = turn.calls if turn is not None else ()
    left = Counter(call.provider_id for call in calls if is_agents(call))
    first = last
    for place in range(last, -1, -1):
        item = items[place]
        if isinstance(item, AnswerMessage):
            called = Counter(part.call_id for part in item.parts if part.kind == "call")
            if place < last and (not called or "" in called or not called <= left):
                break
            left, first = left - called, place
        elif not isinstance(item, ResultMessage):
            break
    return first


def is_agents(call: Call) -> bool:
    """Whether the agent got the call, or still may."""
    return call.decided is None or call.decided.decision == "run"


def results_first(tail: Tail) -> Tail:
    """`tail` with its results, up to the next answer, before all other items: an agent may write a
    word of its user or of the system between a call and its result."""
    return replace(tail, items=_results_first(tail.items))


def _results_first(tail: Sequence[RequestItem]) -> list[RequestItem]:
    """`tail` with its results, up to the next answer, before all other items."""
    end = next((n for n, item in enumerate(tail) if isinstance(item, AnswerMessage)), len(tail))
    head = sorted(tail[:end], key=lambda item: not isinstance(item, ResultMessage))
    return [*head, *tail[end:]]


def _with_own_ids(
    turn: Turn | None, copy: RequestItem, tail: Sequence[RequestItem]
) -> Sequence[RequestItem]:
    """`tail` with the provider's ids of the calls of `turn` in the results at its beginning. If the
    provider gave none, Gemini CLI makes up ids, which are in its `copy` of the answer; its results
    are then sorted in the order of the calls, the only remaining information."""
    if turn is None or not isinstance(copy, AnswerMessage):
        return tail
    theirs = [part.call_id for part in copy.parts if part.kind == "call"]
    own = {
        called: (place, call.provider_id)
        for place, (called, call) in enumerate(zip(theirs, turn.calls, strict=False))
        if called not in ("", call.provider_id) and len(theirs) == len(turn.calls)
    }
    results: list[tuple[int, ResultMessage]] = []
    for item in tail:
        if not isinstance(item, ResultMessage):
            break
        place, call_id = own.get(item.call_id, (len(theirs), item.call_id))
        results.append((place, replace(item, call_id=call_id)))
    results.sort(key=lambda placed: placed[0])
    return [*(result for _, result in results), *tail[len(results) :]]


def _changes(known: Sequence[str], before: Sequence[str]) -> str:
    if len(known) != len(before):
        return _rewrite_sentence(known, before)
    changed = sum(old != new for old, new in zip(known, before, strict=True))
    if not changed:
        return ""
    return f"The agent changed {changed} of its earlier {_messages(len(known))}."


def _rewrite_sentence(known: Sequence[str], now: Sequence[str]) -> str:
    if len(known) == len(now):
        return f"The agent rewrote its history of {_messages(len(now))}."
    return f"The agent rewrote its history: {_messages(len(known))} became {len(now)}."


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def title_from(item: Any) -> str:
    """The last paragraph of a prompt that the agent itself did not add (`<system-reminder>`)."""
    if not isinstance(item, PromptMessage) or item.role != "user":
        return ""
    pieces = [piece.strip() for piece in item.text.split("\n\n")]
    return title_of(next((p for p in reversed(pieces) if p and not p.startswith("<")), ""))
