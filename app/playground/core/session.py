"""The state of a session, and values derived from it alone.

    session.items    Prompt | Turn, in order
    turn.parts       Part, in order of appearance; turn.calls are those to be answered here

Only the reducer (reducer.py) changes these; all other code reads.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from playground.core.errors import NotFound
from playground.core.events import (
    AnswerPassed,
    CallDecided,
    CallProgressed,
    PartKind,
    Problem,
    RequestReceived,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    SessionForked,
    Tapped,
    Warned,
)
from playground.core.json_values import load_json
from playground.core.serialization import to_data
from playground.core.settings import Settings
from playground.core.tools import Content, Tool, ToolResult

CallStatus = Literal[
    "streaming", "proposed", "waiting", "decided", "running", "interrupted", "done"
]
CallGroup = Literal[
    "proposed",
    "waiting",
    "interrupted",
    "running",
    "to_run",
    "settled",
    "held",
    "undone",
    "unsafe",
    "unasked",
    "failed",
]
SessionState = Literal["running", "paused", "waiting", "failed", "interrupted", "idle"]

MARKED = frozenset(("history_changed", "history_left_out", "brought"))
"""Warning codes on an agent's changes to its history: each is shown at its place."""


@dataclass
class Part:
    """A part of an answer. `started_ms` and `ended_ms` are Unix ms; `seq` is its first event.

    `doubt` says why a call's arguments can no longer satisfy the schema, once that is certain.
    """

    index: int
    kind: PartKind
    name: str
    provider_id: str
    meta: dict[str, Any]
    seq: int
    started_ms: int
    ended_ms: int | None = None
    complete: bool = False
    deltas: int = 0
    length: int = 0
    pieces: list[str] = field(default_factory=list)
    doubt: Problem | None = None

    @property
    def ended(self) -> bool:
        return self.ended_ms is not None

    @property
    def text(self) -> str:
        return self.pieces[0] if len(self.pieces) == 1 else "".join(self.pieces)


@dataclass
class Call:
    """A tool call. Its own id is `TURN.PART`; the provider's id is in the part.

    `asks` says why a matching rule does not decide it, `stopped_by` is the rule that stopped the
    run at it. `cut` is the decision by which it ran when the server stopped, with the edited
    arguments, if any. `output` is the end of the `printed` characters of output, truncated at event
    `cut_seq`; `extended_s` is the total extension of its time limit. `real` is what the tool
    returned if `result` was staged or edited; `result_key` identifies a result held for the user,
    `released_ms` is when the user decided it. `returned` counts how often its decision was revoked;
    `taken_back`: a user did so, or reopened it in a fork: then no rule decides it.
    """

    id: str
    turn: int
    part: Part
    tool: Tool | None
    status: CallStatus = "streaming"
    problems: tuple[Problem, ...] = ()
    parallel_safe: bool = False
    digest: str = ""
    code: str = ""
    decided: CallDecided | None = None
    cut: CallDecided | None = None
    progress: CallProgressed | None = None
    result: ToolResult | None = None
    real: ToolResult | None = None
    asks: str = ""
    stopped_by: str = ""
    output: str = ""
    printed: int = 0
    cut_seq: int = 0
    extended_s: float = 0.0
    result_key: str = ""
    interruptions: int = 0
    returned: int = 0
    taken_back: bool = False
    checked_ms: int | None = None
    decided_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    released_ms: int | None = None

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def provider_id(self) -> str:
        return self.part.provider_id

    @property
    def raw(self) -> str:
        """The arguments exactly as the model wrote them; may be unfinished or malformed."""
        return self.part.text

    @property
    def at_agent(self) -> bool:
        """Whether it runs, or ran, at the agent that it was passed to, and not here."""
        decided = self.decided or self.cut
        return decided is not None and decided.where == "agent"

    @property
    def result_held(self) -> bool:
        """Whether its agent has sent its result, which waits here for the user."""
        return self.status == "running" and self.real is not None and self.at_agent

    @property
    def answered_here(self) -> bool:
        """Whether it was answered or denied here, so that the model reads that."""
        decided = self.decided
        return decided is not None and decided.where == "here" and decided.decision != "run"

    @property
    def task_id(self) -> str:
        """The id of its background task, if it has one."""
        return "call-" + self.id.replace(".", "-")

    @property
    def freeform(self) -> bool:
        """Whether the model wrote plain text, not JSON: the call of a custom tool."""
        return self.part.meta.get("type") == "custom"

    @property
    def written(self) -> str:
        """The model's arguments as JSON text; a free-form text becomes the single member."""
        return json.dumps({"input": self.raw}, ensure_ascii=False) if self.freeform else self.raw

    @property
    def attempt(self) -> int:
        return 1 + self.interruptions

    @property
    def judged(self) -> str:
        """The arguments on the card, to which `problems` refer; they run unless edited again."""
        cut = self.cut.arguments if self.cut is not None else None
        return self.written if cut is None else cut

    @property
    def arguments(self) -> str:
        """The arguments that run: edited if a user edited them, `{}` if empty."""
        edited = self.decided.arguments if self.decided is not None else None
        text = self.judged if edited is None else edited
        return text if text.strip() not in ("", "null") else "{}"

    @property
    def malformed(self) -> bool:
        return any(p.kind in ("malformed", "unknown_tool") for p in self.problems)

    @property
    def unsatisfied(self) -> bool:
        """The schema is violated (and nothing worse)."""
        return any(p.kind == "schema" for p in self.problems)

    @property
    def cautioned(self) -> bool:
        """The tool itself needs a user's attention: no rule runs the call."""
        return any(p.kind == "caution" for p in self.problems)

    @property
    def to_run(self) -> bool:
        """Whether it was decided to run and has not begun."""
        decided = self.decided
        return self.status == "decided" and decided is not None and decided.decision == "run"

    @property
    def failed(self) -> bool:
        """It ran and failed, or a failure was staged; cancelled calls do not count."""
        decided, result = self.decided, self.result
        ran = decided is not None and (decided.decision == "run" or decided.fault != "")
        return ran and result is not None and result.is_error and result.kind != "interrupted"


class CallGroups:
    """The calls of an ended turn, grouped by state; each group in the order of the calls.

    Updated lazily for calls that changed: a round of `next_commands` costs what changed since the
    last one, not the whole turn.

    `to_run` and `settled` (answered or denied) are decided; `held` are at an agent, and their
    result waits for the user. `undone` are all but the done; `unsafe` the undone that are not
    parallel-safe; `unasked` those waiting or proposed for which no rule was evaluated in their
    current state; `failed` the done that ran and failed.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = {call.part.index: call for call in calls}
        self._changed = list(calls)
        self._groups: dict[int, tuple[CallGroup, ...]] = {}
        self._places: dict[CallGroup, list[int]] = {group: [] for group in get_args(CallGroup)}
        self._rules: object = None

    def mark_changed(self, call: Call) -> None:
        """Marks `call` as changed."""
        self._changed.append(call)

    def calls_in(self, group: CallGroup, end: int = sys.maxsize) -> list[Call]:
        """The calls of `group` before part `end`."""
        places = self._places_in(group)
        return [self._calls[place] for place in places[: bisect_left(places, end)]]

    def count(self, group: CallGroup) -> int:
        return len(self._places_in(group))

    def first(self, group: CallGroup) -> int:
        """The part of the first call of `group`; sys.maxsize if there is none."""
        return next(iter(self._places_in(group)), sys.maxsize)

    def runnable_calls(self, end: int) -> Iterator[Call]:
        """The calls before part `end` that are to run and that no other call blocks (`held`)."""
        alone, first = self.first("unsafe"), self.first("undone")
        for place in self._places_in("to_run"):
            if place >= end or place > alone:
                return
            if place < alone or place == first:
                yield self._calls[place]

    def unevaluated_calls(self, rules: object, end: int) -> list[Call]:
        """The calls before part `end` for which the current `rules` were not evaluated."""
        if self._rules != rules:
            self._rules = rules
            self._places_in("undone")
            self._places["unasked"] = sorted(self._places["waiting"] + self._places["proposed"])
        return self.calls_in("unasked", end)

    def mark_evaluated(self, call: Call) -> None:
        """The rules leave it to the user until it changes."""
        _take(self._places["unasked"], call.part.index)

    def _places_in(self, group: CallGroup) -> list[int]:
        for call in self._changed:
            self._put(call)
        self._changed.clear()
        return self._places[group]

    def _put(self, call: Call) -> None:
        place = call.part.index
        for group in self._groups.get(place, ()):
            _take(self._places[group], place)
        self._groups[place] = groups = tuple(_groups(call))
        for group in groups:
            insort(self._places[group], place)


_NOBODY = CallGroups(())


def _take(places: list[int], place: int) -> None:
    at = bisect_left(places, place)
    if at < len(places) and places[at] == place:
        del places[at]


def _groups(call: Call) -> Iterator[CallGroup]:
    match call.status:
        case "done":
            if call.failed:
                yield "failed"
            return
        case "proposed" | "waiting":
            yield call.status
            yield "unasked"
        case "interrupted" | "running":
            yield call.status
            if call.result_held:
                yield "held"
        case "decided":
            yield "to_run" if call.to_run else "settled"
    yield "undone"
    if not call.parallel_safe:
        yield "unsafe"


@dataclass
class Task:
    """A background task of a call; `how` it ended, "" while it runs; `result` is that of the call,
    if the call itself was moved to the background."""

    id: str
    call: str
    title: str
    started_ms: int
    ended_ms: int | None = None
    ended_seq: int = 0
    how: str = ""
    result: ToolResult | None = None


@dataclass
class Prompt:
    """`role` and `form` as in PromptAdded; `by_agent`: it came in a request of a tapped agent,
    which may have added to its user's words."""

    number: int
    text: str
    seq: int
    at_ms: int
    images: tuple[Content, ...] = ()
    role: Literal["user", "system"] = "user"
    form: Mapping[str, Any] = field(default_factory=dict)
    by_agent: bool = False

    @property
    def others(self) -> list[str]:
        """The parts of its form that are not shown: kinds of pieces other than text and image, and
        names of further members."""
        listed = self.form.get("pieces")
        pieces = listed if isinstance(listed, list | tuple) else ()
        blocks = [piece.get("other") for piece in pieces if isinstance(piece, Mapping)]
        known = [block for block in blocks if isinstance(block, Mapping)]
        own = self.form.get("own")
        beside = [str(name) for name in own] if isinstance(own, Mapping) else []
        return [*(str(block.get("type") or next(iter(block), "empty")) for block in known), *beside]


@dataclass
class Mark:
    """A warning on the history of an agent's session, at its place; counts from 1."""

    number: int
    warning: Warned
    seq: int


@dataclass
class Turn:
    """One request and its answer. `number` counts from 1 and equals the recording's number.

    `retries` counts the failed automatic attempts before it; `calls_before` is how many of its
    calls were done when a user last continued beyond their limit; `doubled`, `keys`, `call_keys`,
    `alike` and `repeats` cache results on its calls (decide.doubled_ids, limits._keys, _turn_keys,
    _alike and _repeats), None before. `cached_groups` caches `standing`. For an agent's request:
    how it was `received`, how its answer was `passed`, whether the agent had disconnected before
    (`client_gone`), and when it repeated the request (`joined_ms`, Unix ms).
    """

    number: int
    request: RequestSent
    settings: Settings
    seq: int
    sent_ms: int
    response: ResponseStarted | None = None
    answered_ms: int | None = None
    first_part_ms: int | None = None
    parts: list[Part] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    end: ResponseEnded | None = None
    failure: ResponseFailed | None = None
    closed_ms: int | None = None
    dropped: bool = False
    retries: int = 0
    calls_before: int = 0
    doubled: frozenset[str] | None = field(default=None, compare=False)
    keys: tuple[int, ...] | None = field(default=None, compare=False)
    call_keys: frozenset[int] | None = field(default=None, compare=False)
    alike: int | None = field(default=None, compare=False)
    repeats: tuple[object, deque[tuple[Call, int]]] | None = field(
        default=None, init=False, compare=False, repr=False
    )
    cached_groups: CallGroups | None = field(default=None, init=False, compare=False, repr=False)
    received: RequestReceived | None = None
    passed: AnswerPassed | None = None
    client_gone: bool = False
    joined_ms: int | None = None

    @property
    def open(self) -> bool:
        return self.end is None and self.failure is None

    @property
    def runnable(self) -> bool:
        """Whether its calls may run unchanged: the answer ended well."""
        return self.end is not None and self.end.reason not in ("length", "refusal")

    @property
    def held(self) -> bool:
        """Whether no call of it leaves for its agent before its decision. Of an answer that failed
        no call leaves at all."""
        return self.received is not None and self.received.held

    @property
    def holds(self) -> bool:
        """Whether its calls can be decided here before the agent gets them: also those of an answer
        that was cut short, as far as any user can decide them."""
        return self.held and self.end is not None and self.passed is None

    @property
    def call_groups(self) -> CallGroups:
        """Cached once the turn is over: from then on the fold reports changes of calls to it."""
        if self.cached_groups is not None:
            return self.cached_groups
        standing = CallGroups(self.calls)
        if not self.open:
            self.cached_groups = standing
        return standing

    def part_after(self, count: int) -> int:
        """The part of the first call after `count` calls; sys.maxsize if there is none."""
        return self.calls[count].part.index if count < len(self.calls) else sys.maxsize

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.kind in ("text", "refusal"))


@dataclass
class Session:
    """`stopped` is set by Stop until the next prompt; `paused` names the reached limit, and
    `paused_because` is a sentence on it; `halted_seq` is the event that did either.

    `retrying` is the pending retry; `retries` counts retries since a user acted or an answer came.
    Continue restarts the run: after turn `resumed_turn`, at `resumed_ms`, ignoring earlier failures
    (`forgiven`, call ids). `forks` are (event, SessionForked) of each time the log up to there was
    copied from another session. `cut_off`: imported in mid-run, nothing continues here. `denied`
    are the calls that a user denied; `denied_alike` indexes the first `denied_read` of them: ids by
    name and hash of the arguments (decide._was_denied). `tapped` is set if an agent runs the
    session: then nothing is requested or run here; `received` is its latest request, from its
    arrival (`received_ms`, Unix ms) until it is sent, and `received_gone` whether the agent has
    disconnected since then; `marks` are its changes to its history.
    """

    id: str
    settings: Settings | None = None
    items: list[Prompt | Turn] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    prompts: int = 0
    stopped: bool = False
    cut_off: bool = False
    paused: str = ""
    paused_because: str = ""
    halted_seq: int = 0
    retrying: RetryScheduled | None = None
    retries: int = 0
    resumed_turn: int = 0
    resumed_ms: int = 0
    forgiven: frozenset[str] = frozenset()
    seq: int = 0
    started_ms: int = 0
    updated_ms: int = 0
    by_call: dict[str, Call] = field(default_factory=dict)
    settings_at: list[tuple[int, Settings]] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)
    forks: list[tuple[int, SessionForked]] = field(default_factory=list)
    denied: list[Call] = field(default_factory=list)
    denied_alike: dict[str, dict[int, set[str]]] = field(default_factory=dict, compare=False)
    denied_read: int = field(default=0, compare=False)
    tapped: Tapped | None = None
    received: RequestReceived | None = None
    received_ms: int = 0
    received_gone: bool = False
    marks: list[Mark] = field(default_factory=list)

    @property
    def open_tasks(self) -> list[Task]:
        """The tasks that run in the background."""
        return [task for task in self.tasks.values() if task.ended_ms is None]

    @property
    def turn(self) -> Turn | None:
        """The last turn that was not dropped."""
        return next((turn for turn in reversed(self.turns) if not turn.dropped), None)

    def continued_turns(self, turn: Turn) -> list[Turn]:
        """The turns that an agent gets as one answer, ending with `turn`: beginning with the
        agent's own request, each continues the one before."""
        turns = [turn]
        while number := turns[0].request.continues:
            turns.insert(0, self.turns[number - 1])
        return turns

    def call(self, call_id: str) -> Call:
        """The call with that id; NotFound with a sentence."""
        call = self.by_call.get(call_id)
        if call is None:
            raise NotFound(f"This session has no call {call_id!r}.")
        return call

    def calls(self) -> Iterator[Call]:
        for turn in self.turns:
            yield from turn.calls

    @property
    def current_calls(self) -> list[Call]:
        """The calls that can still be decided: those of the last turn, if it has ended."""
        item = self.last_item
        return item.calls if isinstance(item, Turn) and item.end is not None else []

    def is_current(self, call: Call) -> bool:
        """Whether it is one of `current_calls`, without searching them: there can be thousands."""
        turns = {call.turn for call in self.current_calls[:1]}
        return call.turn in turns and self.by_call.get(call.id) is call

    @property
    def waiting(self) -> list[Call]:
        """The calls that need a user, in order."""
        if not self.waits:
            return []
        ours: tuple[CallGroup, ...] = ("waiting", "interrupted")
        groups: tuple[CallGroup, ...] = ours if self.tapped is None else ("waiting", "held")
        calls = [call for group in groups for call in self.call_groups.calls_in(group)]
        return sorted(calls, key=lambda call: call.part.index)

    @property
    def waits(self) -> int:
        """How many calls need a user. For a tapped session interrupted calls do not count, but held
        results do."""
        if self.stopped or self.cut_off:
            return 0
        after: CallGroup = "interrupted" if self.tapped is None else "held"
        return self.call_groups.count("waiting") + self.call_groups.count(after)

    @property
    def call_groups(self) -> CallGroups:
        """The standing of `current_calls`."""
        item = self.last_item
        if isinstance(item, Turn) and item.end is not None:
            return item.call_groups
        return _NOBODY

    @property
    def answer(self) -> str:
        """The text of the last answer, "" if there is none."""
        texts = (turn.text for turn in reversed(self.turns) if not turn.dropped)
        return next(filter(None, texts), "")

    @property
    def state(self) -> SessionState:
        """The first state that applies, in the order of docs/contract.md."""
        if self.cut_off:
            return "interrupted"
        item = self.last_item
        answered = not (isinstance(item, Turn) and item.open)
        if self.tapped is not None and self.stopped and answered:
            return "interrupted"  # whatever its agent still runs
        if self.tapped is not None and self.call_groups.count("held"):
            return "waiting"  # its agent waits, whatever else it runs
        if self.call_groups.count("running"):
            return "running"
        if self.tapped is not None and self.call_groups.count("interrupted"):
            return "interrupted"
        if not answered or self.retrying is not None:
            return "running"
        if self.paused:
            return "paused"
        if self.waits:
            # Other calls that are already decided may still be running or about to run.
            return "running" if self._goes_on else "waiting"
        if isinstance(item, Turn) and item.failure is not None:
            cut = item.failure.failure in ("interrupted", "stopped")
            return "interrupted" if cut else "failed"
        if self.stopped or (self.tapped is not None and isinstance(item, Prompt)):
            return "interrupted"  # it continues with the agent's request
        if isinstance(item, Turn) and item.end is not None:
            goes_on = item.calls or item.end.reason == "pause"
            return "running" if goes_on and not self._waits_for_agent(item) else "idle"
        return "idle" if item is None else "running"

    @property
    def stoppable(self) -> bool:
        """Whether Stop has an effect: something runs or waits, or an agent may send a request at
        any time."""
        if self.stopped or self.cut_off:
            return False
        return self.tapped is not None or self.state in ("running", "waiting", "paused")

    @property
    def last_item(self) -> Prompt | Turn | None:
        in_history = (i for i in reversed(self.items) if isinstance(i, Prompt) or not i.dropped)
        return next(in_history, None)

    @property
    def calls_allowed(self) -> int:
        """How many calls of the last turn may currently be decided by rules and run."""
        assert self.settings is not None
        before = self.turn.calls_before if self.turn is not None else 0
        return before + max(1, self.settings.limits.max_calls_per_turn)

    def _waits_for_agent(self, last: Turn) -> bool:
        """Whether nothing happens until the agent sends a request, and none is due: it has
        disconnected, or it got the `last` answer without any call."""
        if self.tapped is None or last.end is None:
            return False
        if last.client_gone or (self.received is not None and self.received_gone):
            return True
        decisions = [call.decided.decision for call in last.calls if call.decided is not None]
        has_calls = "run" in decisions or last.end.reason == "pause"
        return last.passed is not None and not has_calls

    @property
    def _goes_on(self) -> bool:
        """Whether some call proceeds without a user: it will be checked, is running, or can run."""
        standing, turn = self.call_groups, self.turn
        if any((standing.count("proposed"), standing.count("running"), standing.count("settled"))):
            return True
        if self.tapped is not None:  # the agent gets the answer when all calls are decided
            return False
        end = turn.part_after(self.calls_allowed) if turn is not None else 0
        return next(standing.runnable_calls(end), None) is not None

    @property
    def run(self) -> list[Turn]:
        """The turns since the last prompt, or since a user continued the run; including dropped
        ones, which have a cost, too."""
        turns: list[Turn] = []
        for item in reversed(self.items):
            if isinstance(item, Prompt):
                break
            if item.number > self.resumed_turn:
                turns.append(item)
        return turns[::-1]

    @property
    def run_ms(self) -> int:
        """The start of the run, in Unix ms."""
        at = self.forks[-1][0] if self.forks else 0  # earlier times may be from an imported log
        prompts = (i.at_ms for i in reversed(self.items) if isinstance(i, Prompt) and i.seq > at)
        return max(self.resumed_ms, next(prompts, 0 if at else self.started_ms))


def blocking_call(calls: Sequence[Call], call: Call) -> Call | None:
    """The first of `calls` that `call` must wait for, or None: calls keep the model's order.

    Only parallel-safe calls run together. An earlier call that still waits for a user counts: a
    read must not overtake a preceding write, in any order of decisions.
    """
    for other in calls:
        if other is call:
            return None
        if other.status != "done" and not (other.parallel_safe and call.parallel_safe):
            return other
    return None


def snapshot(session: Session) -> Session:
    """A copy of the session for reading while the fold continues on the original: copies what the
    fold mutates, and shares what it only replaces."""
    now = copy(session)
    turns = {turn.number: _copy_turn(turn) for turn in session.turns}
    now.turns = list(turns.values())
    now.items = [item if isinstance(item, Prompt) else turns[item.number] for item in session.items]
    now.by_call = {**session.by_call, **{call.id: call for call in now.calls()}}
    now.tasks = {name: copy(task) for name, task in session.tasks.items()}
    now.settings_at, now.forks = list(session.settings_at), list(session.forks)
    now.marks = list(session.marks)
    now.denied = [now.by_call[call.id] for call in session.denied]
    now.denied_alike, now.denied_read = {}, 0
    return now


def _copy_turn(turn: Turn) -> Turn:
    now = copy(turn)
    now.parts = [_copy_part(part) for part in turn.parts]
    now.calls = [copy(call) for call in turn.calls]
    for call in now.calls:
        call.part = now.parts[call.part.index]
    now.warnings = list(turn.warnings)
    now.cached_groups, now.repeats = None, None
    return now


def _copy_part(part: Part) -> Part:
    now = copy(part)
    now.pieces, now.meta = list(part.pieces), dict(part.meta)
    return now


# JSON for scripts -------------------------------------------------------------------------------


def session_data(session: Session, title: str = "") -> Mapping[str, Any]:
    """The session as `GET /sessions/ID` returns it to scripts; see docs/contract.md."""
    return {
        "id": session.id,
        "title": title,
        "state": session.state,
        "seq": session.seq,
        "text": session.answer,
        "turns": sum(not turn.dropped for turn in session.turns),
        "calls": [_folded_call(call) for call in session.calls()],
        "tasks": [_folded_task(task) for task in session.tasks.values()],
        **({"tapped": to_data(session.tapped)} if session.tapped is not None else {}),
    }


def _folded_task(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "call": task.call,
        "title": task.title,
        "how": task.how,
        "result": to_data(task.result) if task.result is not None else None,
        "running": task.ended_ms is None,
    }


def _folded_call(call: Call) -> dict[str, Any]:
    try:
        arguments = load_json(call.arguments) if not call.malformed else None
    except ValueError:
        arguments = None
    decided = call.decided
    return {
        "id": call.id,
        "provider_id": call.provider_id,
        "name": call.name,
        "status": call.status,
        "arguments": arguments,
        "arguments_raw": call.raw,
        "problems": [to_data(problem) for problem in call.problems],
        "digest": call.digest,
        "decided_by": decided and (decided.by if not decided.rule else decided.rule),
        "decision": decided and decided.decision,
        "result": to_data(call.result) if call.result is not None else None,
        "fault": decided.fault if decided is not None else "",
        "real": to_data(call.real) if call.real is not None else None,
    }
