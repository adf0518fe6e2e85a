"""Holds parts of an agent's traffic for the user: answers whose calls are decided here before the
agent gets them, and results of its calls on their way to the provider. Pure.

If all calls of an answer were answered here, the next request is made here, too, to continue it.
The agent then has a modified copy of the answer. In all its requests, the provider's original
answers are put back, with the results given here; several answers if requests were made here in
between.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from playground.core.decide import AT_AGENT
from playground.core.doubts import find_doubt
from playground.core.events import (
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
from playground.core.messages import Message, ModelRequest, answer_parts
from playground.core.reducer import digest, fold
from playground.core.session import Call, Session, Turn
from playground.core.tools import Content, ToolChoice, ToolResult, text_result
from playground.protocols.answer_edits import (
    PassableLength,
    PassedAnswer,
    edit_answer,
    join_answers,
)
from playground.protocols.base import UNREAD
from playground.protocols.body_edits import (
    ProviderAnswer,
    add_answers,
    follow_answer,
    key_without_id,
    leave_out,
    replace_answer,
)
from playground.protocols.editable_answer import CallRemoval, Edit, NewArguments
from playground.protocols.encoder import written_text
from playground.protocols.history_form import ResultEdit
from playground.protocols.raw_json import JsonText
from playground.protocols.registry import HISTORIES, codec
from playground.protocols.request import AnswerMessage, Position, RequestItem, ResultMessage
from playground.schema.validate import check_call
from playground.tap.history import (
    MARK,
    AgentBody,
    Tail,
    fingerprint_of_answer,
    fingerprint_of_answers,
    fingerprint_of_parts,
    id_of_answer,
    is_agents,
)
from playground.tap.relay import STOPPED

STREAMS = ("text/event-stream", "application/x-ndjson")
"""Media types of answers that are relayed frame by frame; others are held completely."""

DENIED = "The user did not allow this call."

ENDED = "The calls of this answer were answered in the playground, which ended the answer here."

FROM_HISTORY = "It came in the history of a request: the agent has already run it."

BEYOND = "This answer has more calls than can be shown, so this one was left out."

MOST_CONTINUED = 10
"""Most requests made here for one answer."""

Contents = Mapping[int, bytes]
"""Answers in history form by turn number, unredacted: in the log secrets are stars."""

THINKING = ("id", "encrypted_content")
"""Members that identify a reasoning item in OpenAI's Responses; an agent may omit the first."""

HOLDING: tuple[StopAt, ...] = ("results", "errors")
"""Values of a tap's `stop_at` that hold results."""

Keys = Callable[[], Mapping[Position, str]]
"""Returns the keys of the results of a body (`body_edits.result_keys`) by position."""

_FAILURE = re.compile(
    r"\s*(?:error\b|\{\s*\"(?:error|is_error)\"|(?:process )?exit(?:ed with)? code:? -?[1-9])", re.I
)
"""How agents begin an error result, especially if the protocol cannot mark errors."""


class UnsafeAnswer(Exception):
    """The rest of an answer may not be passed on: it has calls that cannot be decided, or unread
    frames in which a client may find calls."""


class HeldAnswer:
    """The received bytes of one answer, and how many were passed on; of several answers (`pieces`),
    each continuing the one before, if requests were made here."""

    def __init__(self, protocol: str, status: int, *, stream: bool) -> None:
        self.stream = stream
        self.pieces = [bytearray()]
        self._protocol = protocol
        self._before = PassableLength(protocol, status)
        self._answer = PassedAnswer(protocol)
        self._edited = b""
        self._left = 0

    def add(self, data: bytes) -> bytes:
        """The bytes that may be passed on after `data`: the frames before the first piece of a
        call. Nothing of a continuation before it has ended."""
        self.pieces[-1] += data
        if not self.stream or len(self.pieces) > 1:
            return b""
        self._answer.add(data)
        return self._pass_on(self._before.add(data))

    def start_piece(self) -> None:
        """Begins another answer, which continues the last one."""
        self.pieces.append(bytearray())

    def keepalive(self) -> bytes:
        """A keep-alive event for a client in a stream."""
        return self._answer.keepalive() if self.stream else b""

    def rest(self, turns: Sequence[Turn], *, clean: bool) -> tuple[bytes, bool]:
        """The rest to pass on, with the decisions on the calls of `turns` (one per piece) applied,
        and whether anything changed. `clean`: upstream ended well. Unsound if not all of it was
        read and decided: then nothing more leaves."""
        whole, changed = b"", len(turns) > 1
        for turn, piece in zip(turns, self.pieces, strict=True):
            data, is_last = bytes(piece), turn is turns[-1]
            read, edits = self._apply_decisions(turn, data, clean or not is_last)
            changed = changed or len(read) < len(data)
            data = read
            if is_last and turn.calls and edits and all(call.answered_here for call in turn.calls):
                edits = dict.fromkeys(edits, CallRemoval(ENDED))
            changed = changed or bool(edits)
            first = turn is turns[0]
            edited = edit_answer(self._protocol, data, edits, passed=self._left if first else 0)
            whole = edited if first else self._join(whole, edited)
        self._edited = whole
        return whole[self._left :], changed

    def _join(self, whole: bytes, more: bytes) -> bytes:
        return join_answers(self._protocol, whole, more, passed=self._left)

    def _apply_decisions(
        self, turn: Turn, data: bytes, clean: bool
    ) -> tuple[bytes, dict[int, Edit]]:
        """The bytes of one answer that were read, and the edits by the decisions on its calls.

        By the received bytes, not only by the log, which has only some of very many calls. What
        the log and the bytes do not agree on does not leave."""
        if not turn.held:
            return data, {}
        decoder = codec(self._protocol).decoder(200)
        places = decoder.locate()
        spanned = [*decoder.feed(data), *decoder.end(clean)]
        ended = next((end for _, end, e in spanned if isinstance(e, ResponseEnded)), None)
        unread = min((place.start for place in places if place.part == UNREAD), default=len(data))
        if turn.end is None or ended is None:
            if places:
                raise UnsafeAnswer(
                    "An answer that has calls, or frames that were not read, failed."
                )
            return data, {}
        if unread < ended:
            raise UnsafeAnswer("A frame of an answer was not read.")
        started = [e for *_, e in spanned if isinstance(e, PartStarted)]
        calls = {part.index for part in started if part.part_kind == "call"}
        beyond = calls - {call.part.index for call in turn.calls}
        return data[:unread], edits_of(turn) | dict.fromkeys(beyond, CallRemoval(BEYOND))

    def fingerprint(self) -> str:
        """The fingerprint of what the client got."""
        decoder = codec(self._protocol).decoder(200)
        spanned = [*decoder.feed(self._edited), *decoder.end(True)]
        return fingerprint_of_answer(event for *_, event in spanned)

    def restart(self) -> None:
        """Restarts at the first byte, for another request."""
        self._left = 0

    def _pass_on(self, upto: int) -> bytes:
        data = bytes(self.pieces[0][self._left : upto])
        self._left = max(self._left, upto)
        self._answer.pass_on(self._left)
        return data


def edits_of(turn: Turn) -> dict[int, Edit]:
    """The edits of an answer according to the decisions on all calls of `turn`. Only calls that run
    at the agent are passed on."""
    edits: dict[int, Edit] = {}
    for call in turn.calls:
        if call.answered_here:
            edits[call.part.index] = CallRemoval("")  # the model reads the reason
        elif not call.to_run and call.status != "running":
            edits[call.part.index] = CallRemoval(_reason(call))
        elif call.decided is not None and call.decided.arguments not in (None, call.written):
            edits[call.part.index] = NewArguments(
                _written_arguments(call, call.decided.arguments or "")
            )
        elif call.raw and _is_approved(call) and find_doubt(turn, call) is not None:
            # Its arguments may differ from place to place: everywhere they are those of the card.
            edits[call.part.index] = NewArguments(call.raw)
    return edits


def _is_approved(call: Call) -> bool:
    return call.decided is not None and call.decided.by == "person"


def _reason(call: Call) -> str:
    """Why the agent does not get the call."""
    decided, result = call.decided, call.result
    if decided is not None and decided.decision == "deny" and decided.text.strip():
        return decided.text.strip()
    return (result.text.strip() if result is not None else "") or DENIED


def _written_arguments(call: Call, arguments: str) -> str:
    """Edited arguments in the model's form: a free-form tool gets the text."""
    text = json.loads(arguments).get("input") if call.freeform else None
    return text if isinstance(text, str) else arguments


def passing_events(session: Session, turn: Turn, why: str = AT_AGENT) -> list[Event]:
    """Events for the calls of an answer that was passed on and runs at the agent, as far as they
    are not in the log yet, for example after a kill. `why` is a sentence."""
    events: list[Event] = []
    for call in turn.calls if turn.end is not None else ():
        if call.status not in ("proposed", "waiting"):
            continue
        shown = digest(session, call, "")
        problems = tuple(check_call(call.tool, call.name, call.written))
        events.append(CallChecked(call.id, problems, digest=shown))
        events.append(CallDecided(call.id, "run", "rule", why, shown, anyway=True, where="agent"))
        events.append(CallStarted(call.id, call.attempt))
    return events


def denials(session: Session, turn: Turn) -> list[Event]:
    """Events that end the held calls when the user stops the session."""
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
    """Whether an answer with these headers is streamed in frames."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in STREAMS


# Continuations made here, and answers that are put back ------------------------------------------


def continues_here(session: Session, turn: Turn) -> bool:
    """Whether all calls of the answer were answered here, so that the next request is made here."""
    return (
        turn.holds
        and bool(turn.calls)
        and not session.stopped
        and all(call.answered_here and call.status == "done" for call in turn.calls)
        and len(session.continued_turns(turn)) <= MOST_CONTINUED
    )


def is_put_back(turn: Turn) -> bool:
    """Whether the provider gets its own answer back in place of the agent's copy."""
    return any(call.answered_here for call in turn.calls)


def next_body(turns: Sequence[Turn], body: bytes, contents: Contents) -> bytes:
    """The request that continues the last of `turns` (`Session.continued`), the first of which had
    the request `body`. ValueError if the body has no list of messages."""
    return add_answers(turns[0].request.protocol, body, _provider_answers(turns, contents))


def content_of(turn: Turn, data: bytes | None = None) -> bytes:
    """The answer of `turn` in history form, b"" if it is empty: from the log, or from the bytes
    `data`."""
    protocol = turn.request.protocol
    parts = tuple(answer_parts(turn if data is None else _decode_turn(turn, data)))
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
    text = JsonText(encoded).member(HISTORIES[protocol].member)
    return text.encode("utf-8")


def _decode_turn(turn: Turn, data: bytes) -> Turn:
    """The turn decoded from its bytes, with the decisions that were made."""
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
    """None if the agent ran the call."""
    if call.result is None or (call.decided is not None and call.decided.decision == "run"):
        return None
    added = written_text(call.arguments)  # its arguments are {} in the answer that is put back
    text = f"{call.result.text}\n{added}" if added else call.result.text
    return ResultEdit(text, call.result.is_error)


@dataclass(frozen=True)
class RestoredBody:
    """A body with original answers put back, and the turns whose answers are missing in it."""

    body: bytes
    missing: Sequence[int] = ()


def restore_answers(
    session: Session, body: bytes, read: AgentBody, contents: Contents
) -> RestoredBody:
    """Replaces the agent's copies of answers in the body of its request (parsed: `read`) by the
    provider's own answers and the results given here. Skips answers that the agent dropped."""
    if read.follows:
        return RestoredBody(_follow_stored(session, body, read, contents))
    items = read.items
    placed: list[tuple[int, list[Turn]]] = []
    for turns in reversed(_answered_here(session)):
        place = _place_of(turns, items)
        # If the agent went back and got the same answer again, the copy is of the later one.
        placed.append((-1 if any(place == later for later, _ in placed) else place, turns))
    missing: list[int] = []
    # From the last one on: replacing shifts what comes after it.
    for place, turns in sorted(placed, key=lambda pair: pair[0], reverse=True):
        answers = _provider_answers(turns, contents)
        try:
            _, at = _copy_at(turns, items, place) if place >= 0 else (0, ())
            body = replace_answer(turns[0].request.protocol, body, at, answers)
        except ValueError:
            if turns[-1].passed is not None or turns[-1] is not session.turn:
                missing.append(turns[-1].number)
    return RestoredBody(_drop_lone_thinking(session, body), missing)


def _follow_stored(session: Session, body: bytes, read: AgentBody, contents: Contents) -> bytes:
    """The body of a request that continues an answer stored by the provider: with the id of the
    last of several that the agent got as one, and the results given here for its calls."""
    for turns in _answered_here(session):
        if id_of_answer(turns[0]) == read.follows:
            *_, last = _provider_answers(turns, contents)
            body = follow_answer(turns[0].request.protocol, body, id_of_answer(turns[-1]), last)
    return body


def _answered_here(session: Session) -> list[list[Turn]]:
    """The answers of the history with calls that were answered here."""
    turns = [turn for turn in session.turns if not turn.dropped]
    gone_on = {turn.request.continues for turn in turns}
    answers = [session.continued_turns(turn) for turn in turns if turn.number not in gone_on]
    return [answer for answer in answers if any(map(is_put_back, answer))]


def _place_of(turns: Sequence[Turn], items: Sequence[RequestItem]) -> int:
    """The index of the agent's copy of the answer: after as many messages as its request had, or at
    the only match; else -1."""
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
    """The agent's copy of an answer that begins at `first`: the index after it, and its indexes in
    the body. Some agents write each call separately, followed by its result."""
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


def lacks_calls(turn: Turn) -> bool:
    """Whether the agent's copy of the answer lacks any of its calls."""
    return any(call.decided is not None and call.decided.decision != "run" for call in turn.calls)


def _drop_lone_thinking(session: Session, body: bytes) -> bytes:
    """`body` without the thinking of calls that were removed here if its agent has nothing left of
    what followed: a provider refuses thinking alone."""
    blocks = [
        part.meta.get("block")
        for turn in session.turns
        if turn.request.protocol == "openai_responses" and lacks_calls(turn)
        for part in turn.parts
        if part.kind == "thinking"
    ]
    words = [block.get(name) for block in blocks if isinstance(block, dict) for name in THINKING]
    return leave_out("openai_responses", body, {str(word) for word in words if word})


# Results: which wait here, and which were edited --------------------------------------------------

# A result is identified by its call and its content: a repeated one is the one on the card, and the
# decision on it applies in every later request. A different content is a new result.


def leading_results(items: Sequence[RequestItem]) -> list[ResultMessage]:
    """The results at the beginning of the items after the last answer."""
    results: list[ResultMessage] = []
    for item in items:
        if not isinstance(item, ResultMessage):
            break
        results.append(item)
    return results


def index_after_answer(items: Sequence[RequestItem]) -> int:
    """The index after the last answer; 0 if there is none."""
    answers = [place for place, item in enumerate(items) if isinstance(item, AnswerMessage)]
    return answers[-1] + 1 if answers else 0


def pair_results(
    session: Session, results: Iterable[ResultMessage]
) -> Iterator[tuple[ResultMessage, Call | None]]:
    """Each result with its call of the last answer: by id, else by name; equal ones in order. None
    for a call that never went to the agent."""
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
    """The result of a call as sent by the agent."""
    return ToolResult(item.content, is_error=item.is_error, form=item.form)


def holding_events(
    session: Session, results: Sequence[ResultMessage], stop_at: StopAt, keys: Keys
) -> list[Event] | None:
    """The events to log before a request waits for decisions on some of its results; None if it
    does not wait."""
    events: list[Event] = []
    waits = False
    for item, call in pair_results(session, results):
        if call is None or not call.at_agent or call.status not in ("running", "interrupted"):
            continue
        result = result_of(item)
        if call.result_held and call.real is not None and is_same(call.real, result):
            waits = True  # on the existing card
        elif is_held(item, stop_at):
            waits = True
            events.append(CallProgressed(call.id, "", real=result, key=keys().get(item.at, "")))
        else:
            events.append(CallEnded(call.id, result))
    return events if waits else None


def is_held(item: ResultMessage, stop_at: StopAt) -> bool:
    """Whether a tap with this `stop_at` holds the result."""
    return stop_at == "results" or (stop_at == "errors" and has_failed(result_of(item)))


def unknown_results(session: Session, tail: Tail) -> list[ResultMessage]:
    """The results that the model has not read, and that are not those of calls of the last answer:
    their calls came in a history that the tap did not see, or they differ from what was decided."""
    end = index_after_answer(tail.items)
    results = [item for item in tail.items[end:] if isinstance(item, ResultMessage)]
    if end:
        return results
    return [
        item
        for item, call in pair_results(session, agent_results(session, results))
        if call is None or (call.status == "done" and not _has_result(call, result_of(item)))
    ]


def agent_results(session: Session, results: Sequence[ResultMessage]) -> Iterator[ResultMessage]:
    """`results` without those that were given here and put back: then each call has one."""
    calls = list(session.current_calls)
    if len(results) < len(calls) and not any(result.call_id for result in results):
        calls = []
    for result in results:
        its = [
            call
            for call in calls
            if result.call_id == call.provider_id and (result.call_id or result.name == call.name)
        ]
        calls = [call for call in calls if call not in its[:1]]
        if not its or its[0].decided is None or its[0].decided.decision == "run":
            yield result


def has_failed(result: ToolResult) -> bool:
    """Whether the call failed: marked by the protocol, or by its text, as agents do otherwise."""
    return result.is_error or _FAILURE.match(result.text) is not None


@dataclass(frozen=True)
class KnownResults:
    """The held or edited results of a session: `by_key` their calls by result key. Calls without an
    id are identified only by name, arguments and order, those with a repeated id (`again`) by id
    and order: if there are any, `calls` are all calls of the session."""

    by_key: Mapping[str, Call]
    calls: Sequence[Call] = ()
    again: Collection[str] = ()

    def first_key(self, key: str) -> str:
        """The key of the first of calls that only their order distinguishes; "" for other keys."""
        if key.startswith("~"):
            return "~".join(key.split("~")[:2])
        id_, mark, number = key.rpartition("~")
        first = id_ if mark and number.isdigit() and id_ in self.again else key
        return first if first in self.again else ""

    def calls_alike(self, first: str) -> list[Call]:
        """The calls with the id `first`, or without an id those with the name and arguments of that
        key, in order."""
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
    """The held or user-edited results of the session. `put_back`: the request has the answers that
    were put back, completely, each call with an id; otherwise only the calls that the agent ran."""
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


def matching_results(
    known: KnownResults, items: Iterable[RequestItem], keys: Keys
) -> Iterator[tuple[str, Call]]:
    """The `known` calls, with their keys in this request, whose results in it are unchanged. An
    agent may have shortened others since, or left them out."""
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
        elif key in known.by_key and _has_result(known.by_key[key], result):
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
        for key, call in _pair_alike(known.calls_alike(first), asked[first], numbers, came):
            if call.real is not None and call.result_key:
                yield key, call


def _pair_alike(
    calls: Sequence[Call], asked: int, numbers: Mapping[str, int], came: Mapping[str, ToolResult]
) -> Iterator[tuple[str, Call]]:
    """Pairs results with `calls` that only their order distinguishes, by key, with their `numbers`
    among the `asked` such calls in the request. Counts from the last one, because an agent drops
    the first ones, and may lack results of the last ones; if it went back, uses the newest equal
    result."""
    left_out = len(calls) - asked
    for key, number in numbers.items():
        place = left_out + number - 1
        if not 0 <= place < len(calls):
            continue  # unknown to the session
        if _may_have_result(calls[place], came[key]):
            yield key, calls[place]
        elif again := next(
            (call for call in reversed(calls) if _has_result(call, came[key])), None
        ):
            yield key, again


def _has_result(call: Call, result: ToolResult) -> bool:
    came = call.real or call.result
    return came is not None and is_same(came, result)


def _may_have_result(call: Call, result: ToolResult) -> bool:
    return _has_result(call, result) or (call.real is None and call.result is None)


def edits_for(
    sessions: Iterable[KnownResults], items: Sequence[RequestItem], keys: Keys
) -> dict[str, ResultEdit]:
    """The replacements, by user edits, for a request's results; earlier sessions take
    precedence."""
    return {
        key: ResultEdit(call.result.text, call.result.is_error)
        for known in reversed(list(sessions))
        for key, call in matching_results(known, items, keys)
        if call.status == "done" and call.result is not None
    }


def is_same(known: ToolResult, result: ToolResult) -> bool:
    """Whether both are equal, ignoring stars: the known secrets may have changed in between."""
    return (
        known.is_error == result.is_error
        and len(known.content) == len(result.content)
        and all(map(_is_same_piece, known.content, result.content))
        and _unknown_pieces(known) == _unknown_pieces(result)
    )


def _unknown_pieces(result: ToolResult) -> list[Any]:
    """Its pieces of unknown type, without cache marks, which move."""
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
