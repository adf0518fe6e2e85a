"""A runner without a program: the fold, `next_commands`, and what may happen to them in any order.

It performs commands as engine/runner.py does, in one hold, and looks at the laws at each event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from playground.core.decide import (
    CheckCall,
    Command,
    Record,
    Retry,
    RunCall,
    SendRequest,
    ask_reason,
    closing_events,
    may_run,
    next_commands,
    settled_events,
)
from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallReturned,
    CallStarted,
    Event,
    Logged,
    Problem,
    PromptAdded,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionStarted,
    SettingsChanged,
    TurnDropped,
    Usage,
)
from playground.core.messages import model_request, wire_id
from playground.core.providers import SIMULATOR
from playground.core.reducer import apply, fold
from playground.core.rules import Rule, first_match
from playground.core.session import Call, CallGroup, Prompt, Session, Turn, blocking_call
from playground.core.settings import Limits, Settings
from playground.core.tools import ToolChoice, text_result
from tests import playbook

STANDS: Mapping[CallGroup, Callable[[Call], bool]] = {
    "proposed": lambda call: call.status == "proposed",
    "waiting": lambda call: call.status == "waiting",
    "interrupted": lambda call: call.status == "interrupted",
    "running": lambda call: call.status == "running",
    "to_run": lambda call: call.to_run,
    "settled": lambda call: call.status == "decided" and not call.to_run,
    "undone": lambda call: call.status != "done",
    "unsafe": lambda call: call.status != "done" and not call.parallel_safe,
    "failed": lambda call: call.failed,
}


class Crash(Exception):
    """The program is killed right after an event."""


@dataclass(frozen=True)
class Planned:
    """A call that the model will make, and what its check will find."""

    name: str
    safe: bool = False
    problem: str = ""
    city: str = "Paris"
    provider_id: str | None = None


@dataclass
class World:
    """One session. `plans` are the turns that the model answers with, then it says hi."""

    limits: Limits
    rules: Sequence[Rule]
    plans: Sequence[Sequence[Planned]]
    mishaps_in: float = 0.1
    """How much of what happens is a mishap, 0..1."""
    other_limits: Sequence[Limits] = ()
    other_rules: Sequence[Sequence[Rule]] = ()
    """What a user may make of them on the way."""
    log: list[Logged] = field(default_factory=list)
    session: Session = field(default_factory=lambda: Session("s"))
    checks: set[str] = field(default_factory=set)
    starts: dict[str, int] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    """How often a user or a rule said run, of each call; no more starts than words."""
    answers: int = 0
    fuse: int = 0
    """Events until the program is killed; 0: it is not."""

    def begin(self) -> None:
        tools = (playbook.WEATHER, playbook.SAFE, playbook.PERSON)
        settings = Settings(SIMULATOR, tools=tools, limits=self.limits)
        self.append(SessionStarted(settings))
        self.append(PromptAdded("hello"))
        self.advance()

    # What the runner does.

    def append(self, event: Event) -> None:
        results = {call.id: call.result for call in self.session.calls() if call.result}
        logged = Logged(len(self.log) + 1, 1_000 + len(self.log), event)
        apply(self.session, logged)
        self.log.append(logged)
        self._look(event)
        for id_, result in results.items():
            assert self.session.call(id_).result == result, f"the result of {id_} is lost"
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                raise Crash

    def due(self) -> list[Command]:
        commands = next_commands(self.session, self.rules)
        assert commands == next_commands(_unread(self.session), self.rules), "what is kept differs"
        return [
            command
            for command in commands
            if not (isinstance(command, CheckCall) and command.call_id in self.checks)
        ]

    def advance(self) -> None:
        for _ in range(100):
            commands = self.due()
            if not commands:
                break
            for command in commands:
                self._perform(command)
        else:
            raise AssertionError(f"It never comes to rest: {commands}")
        self.at_rest()

    def at_rest(self) -> None:
        """The state says running exactly while something is under way."""
        assert (self.session.state == "running") == self.under_way, self.session.state

    @property
    def under_way(self) -> bool:
        session = self.session
        turn = session.turn
        open_ = turn is not None and turn.open
        # What others find is not written.
        checks = not session.stopped and self.checks & {call.id for call in session.current_calls}
        return bool(open_ or self.running or checks or session.retrying)

    @property
    def running(self) -> list[Call]:
        return [call for call in self.session.current_calls if call.status == "running"]

    def _perform(self, command: Command) -> None:
        match command:
            case Record(event):
                self.append(event)
            case CheckCall(call_id):
                self.checks.add(call_id)
            case RunCall(call_id, attempt):
                self._look_at_rules(self.session.call(call_id))
                self.append(CallStarted(call_id, attempt))
            case Retry(turn, attempt):
                self.append(RetryScheduled(turn, attempt, 1.0, 9_999, "429"))
            case SendRequest():
                self._look_at_request()
                self.append(playbook.request_sent(len(self.session.turns) + 1, ToolChoice()))

    # The laws.

    def _look_at_standing(self) -> None:
        """What is kept of how the calls stand is what a walk over all of them finds."""
        calls, standing = self.session.current_calls, self.session.call_groups
        for group, holds in STANDS.items():
            assert standing.calls_in(group) == [call for call in calls if holds(call)], group
        able = [call for call in calls if call.to_run and blocking_call(calls, call) is None]
        for count in range(len(calls) + 1):
            end = calls[count].part.index if count < len(calls) else 1_000
            assert list(standing.runnable_calls(end)) == [
                call for call in able if call in calls[:count]
            ]

    def _look(self, event: Event) -> None:
        self._look_at_standing()
        match event:
            case CallStarted(call_id=call_id):
                self._look_at_start(self.session.call(call_id))
            case CallDecided(call_id=call_id, decision="run", by=by):
                call = self.session.call(call_id)
                unsound = call.unsatisfied or call.malformed or call.interruptions
                assert by == "person" or not unsound, f"{call_id} ran by a rule"
                self.words[call_id] = self.words.get(call_id, 0) + 1
            case CallReturned(call_id=call_id):
                self.words[call_id] -= 1
            case RequestSent():
                before = self.session.turns[:-1]
                left = [call.id for turn in before[-1:] for call in turn.calls if not turn.dropped]
                stopped = isinstance(self.session.items[-2], Prompt)
                undone = [id_ for id_ in left if self.session.call(id_).status != "done"]
                assert stopped or not undone or before[-1].failure, f"{undone} were left behind"

    def _look_at_start(self, call: Call) -> None:
        turn = self.session.turns[call.turn - 1]
        running = [call for call in turn.calls if call.status == "running"]
        assert self.session.settings is not None
        most = max(1, self.session.settings.limits.max_parallel)
        assert len(running) <= most, "more at once than the cap"
        assert len(running) == 1 or all(call.parallel_safe for call in running), "unsafe in company"
        for earlier in turn.calls[: turn.calls.index(call)]:
            both = earlier.parallel_safe and call.parallel_safe
            assert earlier.status == "done" or both, f"{call.id} overtook {earlier.id}"
        self.starts[call.id] = self.starts.get(call.id, 0) + 1
        assert self.starts[call.id] <= self.words[call.id], f"{call.id} ran twice"

    def _look_at_rules(self, call: Call) -> None:
        """What a rule lets run is let run by the rules of the moment when it begins."""
        assert call.decided is not None
        rule = first_match(self.rules, call)
        by_rule = call.decided.by == "rule"
        assert not by_rule or (rule and rule.action == "run"), f"{call.id} began by no rule"
        assert not by_rule or not call.taken_back, f"{call.id} was taken back, and began by a rule"

    def _look_at_request(self) -> None:
        """Results go back in the order of the calls, each with what came of it."""
        sent = [
            (part.call_id, part.content)
            for message in model_request(self.session, ToolChoice()).messages
            for part in message.parts
            if part.kind == "result"
        ]
        turns = [turn for turn in self.session.turns if not turn.dropped and turn.end is not None]
        calls = [call for turn in turns for call in turn.calls]
        assert [id_ for id_, _ in sent] == [wire_id(call) for call in calls]
        for call, (_, content) in zip(calls, sent, strict=True):
            assert call.result is None or content == call.result.content

    # What may happen.

    def killed_after(self, count: int) -> World:
        """Another world: the program was killed after `count` events, and started again."""
        other = World(self.limits, self.rules, self.plans)
        for logged in self.log[:count]:
            apply(other.session, logged)
            other._look(logged.event)
        other.log = self.log[:count]
        other.answers = sum(turn.end is not None for turn in other.session.turns)
        other.answered = dict(self.answered)
        other.restart()
        return other

    def restart(self) -> None:
        """As recovery: what was cut is closed, and nothing goes on by itself."""
        self.fuse = 0
        self.checks.clear()
        self.session = fold("s", self.log)
        for event in closing_events(self.session, "It was killed."):
            self.append(event)
        for event in settled_events(self.session):
            self.append(event)
        if next_commands(self.session, self.rules) or self.session.retrying is not None:
            self.append(RunPaused("restart"))
        assert not next_commands(self.session, self.rules)
        self.at_rest()

    def choices(self) -> list[Callable[[], None]]:
        """All that can happen now, the ways on first."""
        session, open_ = self.session, bool(self.session.turn and self.session.turn.open)
        ways: list[Callable[[], None]] = []
        ways += [partial(self._check, id_) for id_ in sorted(self.checks)]
        for item in self.running:
            ways += [partial(self._end, item, kind) for kind in ("ok", "failed")]
        ways += [self._answer] if open_ else []
        ways += [self._asked_again] if session.retrying is not None else []
        if session.paused or session.stopped:
            ways.append(partial(self._do, RunResumed()))
        for call in session.waiting:
            ways += [partial(self._decide, call, word) for word in WORDS]
        return ways

    def mishaps(self) -> list[Callable[[], None]]:
        """What may go wrong, or be stopped, at any time."""
        ways: list[Callable[[], None]] = [self.restart, self._light]
        ways += [partial(self._end, call, "interrupted") for call in self.running]
        if self.session.turn is not None and self.session.turn.open:
            ways.append(self._fail)
        if self.session.stopped and not self.under_way:
            ways.append(lambda: self._do(PromptAdded("never mind")))
        ways += [partial(self._changed, limits) for limits in self.other_limits]
        ways += [partial(self._ruled, rules) for rules in self.other_rules]
        for current_call in self.session.current_calls:
            if (
                current_call.status == "decided"
                and current_call.decided
                and current_call.decided.decision == "run"
            ):
                ways.append(partial(self._do, CallReturned(current_call.id, "person")))
        if self.session.state in ("running", "waiting") and not self.session.stopped:
            ways.append(self._stop)
        return ways

    @property
    def is_over(self) -> bool:
        last = self.session.turn
        closed = last is not None and (last.failure is not None or not last.calls)
        held = self.session.stopped or self.session.paused
        return not self.under_way and closed and not held

    def _light(self) -> None:
        """It will be killed in the middle of what is done next."""
        self.fuse = 2

    def _do(self, event: Event) -> None:
        self.append(event)
        self.advance()

    def _check(self, call_id: str) -> None:
        session, call = self.session, self.session.call(call_id)
        self.checks.discard(call_id)
        if call.status != "proposed" or call not in session.current_calls or session.stopped:
            return self.advance()
        plan = self.plans[self.answered[call.turn]][call.part.index]
        problems = (Problem(plan.problem, "x"),) if plan.problem else ()  # type: ignore[arg-type]
        event = CallChecked(call_id, problems, plan.safe, "digest")
        self._do(replace(event, asks=ask_reason(session, call, event, self.rules)))
        return None

    def _end(self, call: Call, kind: str) -> None:
        is_error = kind != "ok"
        result = text_result(f"{call.id} {kind} {call.attempt}", is_error=is_error)
        self._do(CallEnded(call.id, replace(result, kind=kind if is_error else "")))  # type: ignore[arg-type]

    def _decide(self, call: Call, word: str) -> None:
        turn = self.session.turns[call.turn - 1]
        edited = '{"city":"Oslo"}' if word == "edited" else None
        if word in ("run", "edited") and not may_run(turn, call):
            word = "deny"
        decision = "run" if word == "edited" else word
        text = f"{call.id} {word}"
        self._do(
            CallDecided(call.id, decision, digest="digest", arguments=edited, text=text)  # type: ignore[arg-type]
        )

    answered: dict[int, int] = field(default_factory=dict)
    """Which plan each turn was answered by."""

    def _answer(self) -> None:
        number = len(self.session.turns)
        plan = self.plans[self.answers] if self.answers < len(self.plans) else ()
        self.answered[number] = self.answers
        self.answers += 1
        parts = [
            event
            for index, planned in enumerate(plan)
            for event in playbook.call(
                index, planned.name, f'{{"city":"{planned.city}"}}', planned.provider_id
            )
        ] or playbook.part(0)
        usage = Usage(400, 100)
        for event in (*parts, ResponseEnded("calls" if plan else "stop", usage=usage, cost=0.01)):
            self.append(event)
        self.advance()

    def _fail(self) -> None:
        self.append(ResponseFailed("http", "Too many.", 429))
        self.advance()

    def _asked_again(self) -> None:
        waited = self.session.retrying
        assert waited is not None
        self._do(TurnDropped(waited.turn, automatic=True))

    def _changed(self, limits: Limits) -> None:
        assert self.session.settings is not None
        self._do(SettingsChanged(replace(self.session.settings, limits=limits)))

    def _ruled(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.advance()

    def _stop(self) -> None:
        """As Driver.stop: what runs is cancelled, the answer is closed, the checks are given up."""
        self.append(RunStopped())
        self.checks.clear()
        for call in self.running:
            self.append(CallEnded(call.id, text_result("stopped", is_error=True)))
        for event in closing_events(self.session, "It was stopped.", stopped=True):
            assert not isinstance(event, CallInterrupted)
            self.append(event)
        self.advance()


WORDS = ("run", "answer", "deny", "edited")


def _unread(session: Session) -> Session:
    """The same session as if nobody had asked yet how the calls of its last turn stand."""
    last = session.last_item
    items = [
        replace(item) if item is last and isinstance(item, Turn) else item for item in session.items
    ]
    return replace(session, items=items)
