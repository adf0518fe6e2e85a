"""Answers of which calls were answered here: the request that goes on from one, and what of it is
put back into later requests of its agent. Pure.

Of such an answer the agent has a copy that was made for it. To the provider goes what the provider
said, with the results from here; several answers where requests were made here in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.core.events import Logged, SessionStarted
from app.core.messages import Message, ModelRequest, answer_parts
from app.core.reducer import fold
from app.core.session import Call, Session, Turn
from app.core.tools import ToolChoice
from app.protocols.body_edits import (
    ProviderAnswer,
    ResultEdit,
    add_answers,
    follow_answer,
    replace_answer,
)
from app.protocols.raw_json import Quoted
from app.protocols.registry import HISTORIES, codec
from app.protocols.request import AnswerMessage, RequestItem
from app.tap.history import (
    AgentBody,
    fingerprint_of_answers,
    fingerprint_of_parts,
    id_of_answer,
)

MOST_CONTINUED = 10
"""Requests that are made here in the course of one answer."""

Contents = Mapping[int, bytes]
"""By the number of a turn its answer as a history says it, where more is known than the log has:
there secrets are stars."""


def goes_on_here(session: Session, turn: Turn) -> bool:
    """Whether all calls of the answer were answered here, so that the next request is made here."""
    return (
        turn.holds
        and bool(turn.calls)
        and not session.stopped
        and all(call.answered_here and call.status == "done" for call in turn.calls)
        and len(session.continued(turn)) <= MOST_CONTINUED
    )


def is_put_back(turn: Turn) -> bool:
    """Whether the provider gets its own answer back in place of the agent's copy."""
    return any(call.answered_here for call in turn.calls)


def next_body(turns: Sequence[Turn], body: bytes, contents: Contents) -> bytes:
    """The request that goes on from the last of `turns` (`Session.continued`), the first of which
    asked with `body`. ValueError where the body has no list of messages."""
    return add_answers(turns[0].request.protocol, body, _provider_answers(turns, contents))


def content_of(turn: Turn, data: bytes | None = None) -> bytes:
    """The answer of `turn` as a history says it, b"" where it says nothing: as it was logged, or as
    `data` came."""
    protocol = turn.request.protocol
    parts = tuple(answer_parts(turn if data is None else _as_it_came(turn, data)))
    if not parts:
        return b""
    settings = turn.settings
    request = ModelRequest(
        turn.request.model,
        "",
        (Message("assistant", parts),),
        settings.tools,
        ToolChoice(),
        quirks=settings.profile.quirks,
    )
    encoded = codec(protocol).encode(request).body.decode("utf-8")
    text = Quoted(encoded).member(HISTORIES[protocol].member)
    return text.encode("utf-8")


def _as_it_came(turn: Turn, data: bytes) -> Turn:
    """The turn as its bytes tell it, with the decisions that were made."""
    decoder = codec(turn.request.protocol).decoder(200)
    answer = [event for *_, event in (*decoder.feed(data), *decoder.end(True))]
    sent = replace(turn.request, recording=1, continues=0)
    events = [SessionStarted(turn.settings), sent, *answer]
    (came,) = fold("", (Logged(seq, 0, event) for seq, event in enumerate(events, 1))).turns
    for call, known in zip(came.calls, turn.calls, strict=False):
        call.id, call.decided = known.id, known.decided
    return came


def _provider_answers(turns: Sequence[Turn], contents: Contents) -> list[ProviderAnswer]:
    answers = []
    for turn in turns:
        if content := contents.get(turn.number) or content_of(turn):
            answers.append(ProviderAnswer(content, [_result_of(call) for call in turn.calls]))
    return answers


def _result_of(call: Call) -> ResultEdit | None:
    """None where the agent ran the call."""
    if call.result is None or (call.decided is not None and call.decided.decision == "run"):
        return None
    return ResultEdit(call.result.text, call.result.is_error)


@dataclass(frozen=True)
class PutBack:
    """A body with what was put back, and the numbers of the turns whose answers are not in it."""

    body: bytes
    missing: Sequence[int] = ()


def put_back(session: Session, body: bytes, read: AgentBody, contents: Contents) -> PutBack:
    """The body of an agent's request, as it was `read`, with the provider's own answers and the
    results from here in place of the agent's copies. Of an answer that the agent no longer has
    nothing is put back."""
    if read.follows:
        return PutBack(_following(session, body, read, contents))
    items = read.items
    placed: list[tuple[int, list[Turn]]] = []
    for turns in reversed(_answered(session)):
        place = _place_of(turns, items)
        # Where the agent went back and was told the same again, the copy is of the later answer.
        placed.append((-1 if any(place == later for later, _ in placed) else place, turns))
    missing: list[int] = []
    # From the last one on: what is put back moves what is behind it.
    for place, turns in sorted(placed, key=lambda pair: pair[0], reverse=True):
        answers = _provider_answers(turns, contents)
        try:
            item = items[place] if place >= 0 else None
            at = item.places if isinstance(item, AnswerMessage) else ()
            body = replace_answer(turns[0].request.protocol, body, at, answers)
        except ValueError:
            if turns[-1].passed is not None or turns[-1] is not session.turn:
                missing.append(turns[-1].number)
    return PutBack(body, missing)


def _following(session: Session, body: bytes, read: AgentBody, contents: Contents) -> bytes:
    """The body of a request that goes on from an answer which the provider keeps: by the id of the
    last of several that the agent got as one, and with the results from here of the last calls."""
    for turns in _answered(session):
        if id_of_answer(turns[0]) == read.follows:
            *_, last = _provider_answers(turns, contents)
            body = follow_answer(turns[0].request.protocol, body, id_of_answer(turns[-1]), last)
    return body


def _answered(session: Session) -> list[list[Turn]]:
    """The answers of the history that have calls which were answered here."""
    turns = [turn for turn in session.turns if not turn.dropped]
    gone_on = {turn.request.continues for turn in turns}
    answers = [session.continued(turn) for turn in turns if turn.number not in gone_on]
    return [answer for answer in answers if any(map(is_put_back, answer))]


def _place_of(turns: Sequence[Turn], items: Sequence[RequestItem]) -> int:
    """Where the agent's copy of the answer is: behind as many messages as its request had, or at
    the only place that is like it; else -1."""
    last = turns[-1]
    ran = {call.provider_id for call in last.calls if not call.answered_here} - {""}
    says = fingerprint_of_answers(turns)

    def is_copy(item: RequestItem) -> bool:
        if not isinstance(item, AnswerMessage):
            return False
        called = {part.call_id for part in item.parts if part.kind == "call"}
        return bool(called & ran) or (says != "" and fingerprint_of_parts(item.parts) == says)

    received = turns[0].received
    place = received.messages if received is not None else len(items)
    if place < len(items) and is_copy(items[place]):
        return place
    alike = [place for place, item in enumerate(items) if is_copy(item)]
    return alike[0] if len(alike) == 1 else -1
