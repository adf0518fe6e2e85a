"""What of an agent is held for the user: answers whose calls are decided here before the agent gets
any byte of them, and results of its calls on their way to the provider. Pure.

Where all calls of one were answered here, the next request is made here, too: the request that goes
on from it. Of such an answer the agent has a copy that was made for it. To the provider goes what
the provider said, with the results from here, in this request and in every later one; several
answers where requests were made here in between.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.decide import AT_AGENT
from app.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallProgressed,
    CallStarted,
    Event,
    Logged,
    PartStarted,
    ResponseEnded,
    SessionStarted,
    StopAt,
)
from app.core.late import dataclass
from app.core.messages import Message, ModelRequest, answer_parts
from app.core.reducer import digest, fold
from app.core.session import Call, Session, Turn
from app.core.tools import Content, ToolChoice, ToolResult, text_result
from app.protocols.answer_edits import (
    BeforeCalls,
    Edit,
    NewArguments,
    PassedAnswer,
    TakeOut,
    edit_answer,
    join_answers,
)
from app.protocols.body_edits import (
    ProviderAnswer,
    ResultEdit,
    add_answers,
    follow_answer,
    key_without_id,
    leave_out,
    replace_answer,
)
from app.protocols.raw_json import Quoted
from app.protocols.registry import HISTORIES, codec
from app.protocols.request import AnswerMessage, Position, RequestItem, ResultMessage
from app.schema.validate import check_call
from app.tap.history import (
    MARK,
    AgentBody,
    fingerprint_of_answer,
    fingerprint_of_answers,
    fingerprint_of_parts,
    id_of_answer,
    is_agents,
)
from app.tap.relay import STOPPED

STREAMS = ("text/event-stream", "application/x-ndjson")
"""Media types of answers whose frames leave as they come; others are held whole."""

DENIED = "The user did not allow this call."

ENDED = "The calls of this answer were answered in the playground, which ended the answer here."

BEYOND = "This answer makes more calls than can be shown, so this one was left out."


class Unrecorded(Exception):
    """The answer came to a good end, and what its log says is another."""


class HeldAnswer:
    """The bytes of one answer as they came, and how many of them have left: of several answers
    (`pieces`), each of which goes on where the one before ends, where requests were made here."""

    def __init__(self, protocol: str, status: int, *, stream: bool) -> None:
        self.stream = stream
        self.pieces = [bytearray()]
        self._protocol = protocol
        self._before = BeforeCalls(protocol, status)
        self._answer = PassedAnswer(protocol)
        self._edited = b""
        self._left = 0

    def add(self, data: bytes) -> bytes:
        """What may leave now that `data` came: frames before the first that bears any of a call.
        Of what goes on nothing leaves before it has ended."""
        self.pieces[-1] += data
        if not self.stream or len(self.pieces) > 1:
            return b""
        self._answer.add(data)
        return self._leave(self._before.add(data))

    def go_on(self) -> None:
        """What comes from now on is another answer, which goes on from the last."""
        self.pieces.append(bytearray())

    def keepalive(self) -> bytes:
        """The event that tells a client in a stream nothing but that its answer goes on."""
        return self._answer.keepalive() if self.stream else b""

    def rest(self, turns: Sequence[Turn], *, clean: bool) -> tuple[bytes, bool]:
        """What has not left yet, with the decisions on the calls of `turns` made, and whether any
        of them changed it; each turn is that of a piece. `clean` is whether upstream ended well.
        Unrecorded where the answer has calls that were to be decided, and the log knows of none to
        decide."""
        whole, changed = b"", len(turns) > 1
        for turn, piece in zip(turns, self.pieces, strict=True):
            data, is_last = bytes(piece), turn is turns[-1]
            edits = self._edits(turn, data, clean or not is_last)
            if is_last and turn.calls and edits and all(call.answered_here for call in turn.calls):
                edits = dict.fromkeys(edits, TakeOut(ENDED))
            changed = changed or bool(edits)
            first = turn is turns[0]
            edited = edit_answer(self._protocol, data, edits, passed=self._left if first else 0)
            whole = edited if first else self._joined(whole, edited)
        self._edited = whole
        return whole[self._left :], changed

    def _joined(self, whole: bytes, more: bytes) -> bytes:
        return join_answers(self._protocol, whole, more, passed=self._left)

    def _edits(self, turn: Turn, data: bytes, clean: bool) -> dict[int, Edit]:
        """By what came, and not only by what was recorded of it: of many calls the log has some."""
        if turn.received is None or not turn.received.held:
            return {}
        decoder = codec(self._protocol).decoder(200)
        events = [event for *_, event in (*decoder.feed(data), *decoder.end(clean))]
        calls = {e.index for e in events if isinstance(e, PartStarted) and e.part_kind == "call"}
        if turn.holds:
            beyond = calls - {call.part.index for call in turn.calls}
            return edits_of(turn) | dict.fromkeys(beyond, TakeOut(BEYOND))
        ends = (event for event in events if isinstance(event, ResponseEnded))
        if calls and any(e.reason not in ("length", "refusal") and not e.abrupt for e in ends):
            raise Unrecorded("An answer with calls was not recorded to its end.")
        return {}

    def says(self) -> str:
        """The fingerprint of what the client got."""
        decoder = codec(self._protocol).decoder(200)
        spanned = [*decoder.feed(self._edited), *decoder.end(True)]
        return fingerprint_of_answer(event for *_, event in spanned)

    def again(self) -> None:
        """Another request gets it, from its first byte."""
        self._left = 0

    def _leave(self, upto: int) -> bytes:
        data = bytes(self.pieces[0][self._left : upto])
        self._left = max(self._left, upto)
        self._answer.pass_on(self._left)
        return data


def edits_of(turn: Turn) -> dict[int, Edit]:
    """What the decisions on the calls of `turn`, which are all decided, change of its answer. Only
    what runs at the agent leaves."""
    edits: dict[int, Edit] = {}
    for call in turn.calls:
        if call.answered_here:
            edits[call.part.index] = TakeOut("")  # the model reads the reason
        elif not call.to_run and call.status != "running":
            edits[call.part.index] = TakeOut(_reason(call))
        elif call.decided is not None and call.decided.arguments not in (None, call.written):
            edits[call.part.index] = NewArguments(_as_written(call, call.decided.arguments or ""))
    return edits


def _reason(call: Call) -> str:
    """Why the agent does not get the call."""
    decided, result = call.decided, call.result
    if decided is not None and decided.decision == "deny" and decided.text.strip():
        return decided.text.strip()
    return (result.text.strip() if result is not None else "") or DENIED


def _as_written(call: Call, arguments: str) -> str:
    """Edited arguments as the model would have written them: a free-form tool gets the text."""
    text = json.loads(arguments).get("input") if call.freeform else None
    return text if isinstance(text, str) else arguments


def passed_on(session: Session, turn: Turn) -> list[Event]:
    """The calls of an answer that is passed on run at the agent: those of which that is not in the
    log yet, which a kill may have left so."""
    events: list[Event] = []
    for call in turn.calls if turn.end is not None else ():
        if call.status not in ("proposed", "waiting"):
            continue
        shown = digest(session, call, "")
        problems = tuple(check_call(call.tool, call.name, call.written))
        events.append(CallChecked(call.id, problems, digest=shown))
        events.append(
            CallDecided(call.id, "run", "rule", AT_AGENT, shown, anyway=True, where="agent")
        )
        events.append(CallStarted(call.id, call.attempt))
    return events


def denials(session: Session, turn: Turn) -> list[Event]:
    """What ends the calls that are held where the user stops the session."""
    events: list[Event] = []
    for call in turn.calls:
        shown = call.digest or digest(session, call, "")
        if call.status == "proposed":
            events.append(CallChecked(call.id, digest=shown))
        if call.status in ("proposed", "waiting"):
            events.append(CallDecided(call.id, "deny", digest=shown, text=STOPPED, where="agent"))
        if call.status != "done":
            denial = text_result(STOPPED, is_error=True, kind="denied")
            events.append(CallEnded(call.id, denial))
    return events


def is_stream(headers: Mapping[str, str]) -> bool:
    """Whether an answer with these headers comes in frames."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in STREAMS


# What goes on here, and what is put back ----------------------------------------------------------


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
            answers.append(ProviderAnswer(content, [_answer_to(call) for call in turn.calls]))
    return answers


def _answer_to(call: Call) -> ResultEdit | None:
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
            _, at = _copy_at(turns, items, place) if place >= 0 else (0, ())
            body = replace_answer(turns[0].request.protocol, body, at, answers)
        except ValueError:
            if turns[-1].passed is not None or turns[-1] is not session.turn:
                missing.append(turns[-1].number)
    return PutBack(_without_left_alone(session, body), missing)


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
    alike: list[int] = []
    behind = 0
    for place, item in enumerate(items):
        if place >= behind and is_copy(item):
            alike.append(place)
            behind, _ = _copy_at(turns, items, place)
    return alike[0] if len(alike) == 1 else -1


def _copy_at(
    turns: Sequence[Turn], items: Sequence[RequestItem], first: int
) -> tuple[int, Sequence[int]]:
    """The agent's copy of an answer that begins at `first`: what is behind it, and where in the
    body it is. Some agents write each of its calls with the result behind it."""
    left = Counter(call.provider_id for call in turns[-1].calls if is_agents(call))
    at: list[int] = []
    behind = first
    for place in range(first, len(items)):
        item = items[place]
        if isinstance(item, AnswerMessage):
            called = Counter(part.call_id for part in item.parts if part.kind == "call")
            if at and (not called or "" in called or not called <= left):
                break
            left, behind = left - called, place + 1
            at += item.places
        elif not isinstance(item, ResultMessage):
            break
    return behind, at


def takes_out(turn: Turn) -> bool:
    """Whether the agent's copy of the answer lacks any of its calls."""
    return any(call.decided is not None and call.decided.decision != "run" for call in turn.calls)


def _without_left_alone(session: Session, body: bytes) -> bytes:
    """`body` without the thinking whose calls were taken out here, where its agent has nothing any
    more of what followed: a provider refuses it alone."""
    blocks = [
        part.meta.get("block")
        for turn in session.turns
        if turn.request.protocol == "openai_responses" and takes_out(turn)
        for part in turn.parts
        if part.kind == "thinking"
    ]
    words = [block.get(name) for block in blocks if isinstance(block, dict) for name in THINKING]
    return leave_out("openai_responses", body, {str(word) for word in words if word})


THINKING = ("id", "encrypted_content")
"""By which OpenAI's Responses know an item of reasoning; an agent may leave out the first."""


# Results: which wait here, and which were edited --------------------------------------------------

# A result is known by its call and by what it says: one that comes again is the one on the card,
# and what was decided of it holds in every later request. One that says something else is a new
# one.

HOLDING: tuple[StopAt, ...] = ("results", "errors")
"""Where a tap that stops there keeps results back."""

Keys = Callable[[], Mapping[Position, str]]
"""What the results of a body are known by (`body_edits.result_keys`), by where they stand."""

_FAILURE = re.compile(
    r"\s*(?:error\b|\{\s*\"(?:error|is_error)\"|(?:process )?exit(?:ed with)? code:? -?[1-9])", re.I
)
"""How agents begin a result that is an error, most of all where the protocol has no word for it."""


def leading_results(items: Sequence[RequestItem]) -> list[ResultMessage]:
    """The results that a request begins with behind the last answer."""
    results: list[ResultMessage] = []
    for item in items:
        if not isinstance(item, ResultMessage):
            break
        results.append(item)
    return results


def paired(
    session: Session, results: Iterable[ResultMessage]
) -> Iterator[tuple[ResultMessage, Call | None]]:
    """Each result with the call of the last answer that it is of: by its id, else by its name; of
    calls that share it in their order. A call that never went to the agent has none."""
    calls: dict[tuple[str, str], deque[Call]] = {}
    for call in session.current_calls:
        if is_agents(call):
            calls.setdefault(("id", call.provider_id), deque()).append(call)
            calls.setdefault(("name", call.name), deque()).append(call)
    used: set[str] = set()
    for item in results:
        alike = calls.get(("id", item.call_id) if item.call_id else ("name", item.name), deque())
        while alike and alike[0].id in used:
            alike.popleft()
        its = alike.popleft() if alike else None
        if its is not None:
            used.add(its.id)
        yield item, its


def result_of(item: ResultMessage) -> ToolResult:
    """What the agent says that its call came to."""
    return ToolResult(item.content, is_error=item.is_error, form=item.form)


def holding_events(
    session: Session, results: Sequence[ResultMessage], stop_at: StopAt, keys: Keys
) -> list[Event] | None:
    """What is to be logged of the results of a request that waits for decisions on some of them,
    before it waits; None where it does not wait."""
    events: list[Event] = []
    waits = False
    for item, call in paired(session, results):
        if call is None or not call.at_agent or call.status not in ("running", "interrupted"):
            continue
        result = result_of(item)
        if call.result_held and call.real is not None and is_same(call.real, result):
            waits = True  # on the card that is there
        elif stop_at == "results" or (stop_at == "errors" and has_failed(result)):
            waits = True
            events.append(CallProgressed(call.id, "", real=result, key=keys().get(item.at, "")))
        else:
            events.append(CallEnded(call.id, result))
    return events if waits else None


def has_failed(result: ToolResult) -> bool:
    """Whether it says that the call failed: by the protocol's word for that, or in its text, as
    agents do where there is none."""
    return result.is_error or _FAILURE.match(result.text) is not None


@dataclass(frozen=True)
class KnownResults:
    """The results of a session's calls that are held or edited: `by_key` the calls of these, by
    what they are known by. Calls without an id are known by what they ask and by their order alone,
    those of an id that comes again (`again`) by that and their order: `calls` are all of the
    session, where there is one of these."""

    by_key: Mapping[str, Call]
    calls: Sequence[Call] = ()
    again: Collection[str] = ()

    def first_key(self, key: str) -> str:
        """The key of the first of calls of which only their order is known; "" for others."""
        if key.startswith("~"):
            return "~".join(key.split("~")[:2])
        id_, mark, number = key.rpartition("~")
        first = id_ if mark and number.isdigit() and id_ in self.again else key
        return first if first in self.again else ""

    def alike(self, first: str) -> list[Call]:
        """The calls that have the id `first`, or without one ask what the one of that key does, in
        their order."""
        if not first.startswith("~"):
            return [call for call in self.calls if call.provider_id == first]
        return [
            call
            for call in self.calls
            if not call.provider_id
            and first
            in (self.first_key(call.result_key), key_without_id(call.name, call.arguments))
        ]


def known_results(session: Session, *, put_back: bool = False) -> KnownResults:
    """What of the session's results is held, or was edited by a user. `put_back` is whether a
    request has the answers that were put back: whole, and each call with an id; else of these what
    the agent ran."""
    by_key = {
        call.result_key: call
        for call in session.calls()
        if call.result_key and call.real is not None and (call.result_held or call.status == "done")
    }
    if not by_key:
        return KnownResults(by_key)
    calls = [
        call
        for turn in session.turns
        if not turn.dropped
        for call in turn.calls
        if (call.provider_id if put_back and is_put_back(turn) else is_agents(call))
    ]
    counted = Counter(call.provider_id for call in calls if call.provider_id)
    known = KnownResults(by_key, calls, {id_ for id_, count in counted.items() if count > 1})
    return known if any(map(known.first_key, by_key)) else KnownResults(by_key)


def known_in(
    known: KnownResults, items: Iterable[RequestItem], keys: Keys
) -> Iterator[tuple[str, Call]]:
    """Those of the `known` calls, with the keys that they have here, whose results come in a
    request as they did. An agent may have shortened others since, or left them out."""
    if not known.by_key:
        return
    at, items = keys(), list(items)
    came = {
        at[item.at]: result_of(item)
        for item in items
        if isinstance(item, ResultMessage) and item.at in at
    }
    equal: dict[str, list[str]] = {}
    for key, result in came.items():
        if first := known.first_key(key):
            equal.setdefault(first, []).append(key)
        elif key in known.by_key and _came_so(known.by_key[key], result):
            yield key, known.by_key[key]
    if not equal:
        return
    asked = Counter(
        part.call_id or key_without_id(part.name, part.text)
        for item in items
        if isinstance(item, AnswerMessage)
        for part in item.parts
        if part.kind == "call"
    )
    for first, key_list in equal.items():
        numbers = {key: int(key[len(first) :].lstrip("~") or "1") for key in key_list}
        for key, call in _paired_alike(known.alike(first), asked[first], numbers, came):
            if call.real is not None and call.result_key:
                yield key, call


def _paired_alike(
    calls: Sequence[Call], asked: int, numbers: Mapping[str, int], came: Mapping[str, ToolResult]
) -> Iterator[tuple[str, Call]]:
    """The results of `calls` of which only the order is known with these, by their keys with their
    `numbers` among the `asked` ones that a request has: counted from the last, for an agent leaves
    out the first ones, and may have no result of the last ones; where it went back, the newest that
    came to the same."""
    left_out = len(calls) - asked
    for key, number in numbers.items():
        place = left_out + number - 1
        if not 0 <= place < len(calls):
            continue  # one that the session does not know
        if _may_come_so(calls[place], came[key]):
            yield key, calls[place]
        elif again := next((call for call in reversed(calls) if _came_so(call, came[key])), None):
            yield key, again


def _came_so(call: Call, result: ToolResult) -> bool:
    came = call.real or call.result
    return came is not None and is_same(came, result)


def _may_come_so(call: Call, result: ToolResult) -> bool:
    return _came_so(call, result) or (call.real is None and call.result is None)


def edits_for(
    sessions: Iterable[KnownResults], items: Sequence[RequestItem], keys: Keys
) -> dict[str, ResultEdit]:
    """What of a request's results is to be replaced by what the user wrote; the first of the
    sessions outdo the others."""
    return {
        key: ResultEdit(call.result.text, call.result.is_error)
        for known in reversed(list(sessions))
        for key, call in known_in(known, items, keys)
        if call.status == "done" and call.result is not None
    }


def is_same(known: ToolResult, result: ToolResult) -> bool:
    """Whether both say the same. Which secrets are known, and starred, may have changed between."""
    return (
        known.is_error == result.is_error
        and len(known.content) == len(result.content)
        and all(map(_is_same_piece, known.content, result.content))
        and _unread(known) == _unread(result)
    )


def _unread(result: ToolResult) -> list[Any]:
    """Its pieces that have no word of ours, without the marks of the cache, which move."""
    pieces = (piece.get("other") for piece in result.form.get("pieces", ()))
    return [
        {name: value for name, value in piece.items() if name != MARK} for piece in pieces if piece
    ]


def _is_same_piece(known: Content, piece: Content) -> bool:
    if known.type != piece.type or known.data != piece.data or len(known.text) != len(piece.text):
        return False
    if known.text == piece.text:
        return True
    pairs = zip(known.text, piece.text, strict=True)
    return all(a == b or "*" in (a, b) for a, b in pairs)
