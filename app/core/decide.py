"""What happens next. `next_commands` is pure and decides; the driver performs.

Waiting for a person is no state of its own anywhere: it is a session for which `next_commands`
returns nothing. A closed tab or a killed server therefore loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.core.events import CallDecided, CallEnded, Event, RunPaused
from app.core.messages import arguments_object
from app.core.rules import Rule, first_match
from app.core.state import Call, Prompt, Session, Turn, held
from app.core.tools import ToolChoice, ToolResult, text_result


@dataclass(frozen=True)
class SendRequest:
    """Ask the model. `note` says what of the settings could not stay in force, or is ""."""

    choice: ToolChoice
    note: str = ""


@dataclass(frozen=True)
class CheckCall:
    call_id: str


@dataclass(frozen=True)
class RunCall:
    call_id: str
    attempt: int
    arguments: str


@dataclass(frozen=True)
class Retry:
    """Turn `turn` failed before any output: send its request again, after a wait."""

    turn: int
    attempt: int


@dataclass(frozen=True)
class Record:
    """Write a fact that follows from the others."""

    event: Event


Command = SendRequest | CheckCall | RunCall | Retry | Record

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""Statuses that may be another one the next time."""

LONGEST_WAIT_S = 60.0
"""Nobody is kept waiting for longer than this without having asked for it."""


def next_commands(session: Session, rules: Sequence[Rule] = ()) -> list[Command]:
    """All that can be done now; empty while something is under way or a person is needed."""
    if session.settings is None or session.stopped or session.paused:
        return []
    item = session.last_item
    if item is None or session.retrying is not None:
        return []
    if isinstance(item, Prompt):
        return [SendRequest(session.settings.tool_choice)]
    if item.end is None:
        left = session.retries < session.settings.limits.max_retries
        return [Retry(item.number, session.retries + 1)] if left and retryable(item) else []
    commands = list(_call_commands(session, item, rules))
    if commands or any(call.status != "done" for call in item.calls):
        return commands
    if item.calls or (item.end is not None and item.end.reason == "pause"):
        return [_go_on(session)]
    return []


def retryable(turn: Turn) -> bool:
    """Whether the same request may do better, and nothing would be said or done twice.

    A server that names a longer wait than ours, or says that a retry is no use, is believed.
    """
    failure = turn.failure
    if failure is None or turn.parts or (failure.retry_after or 0) > LONGEST_WAIT_S:
        return False
    if turn.response is not None and turn.response.headers.get("x-should-retry") == "false":
        return False
    match failure.failure:
        case "unreachable":
            return True
        case "http":
            return failure.status in RETRIED
    return False


def _go_on(session: Session) -> Command:
    """The request after a turn that is settled, or a pause where a limit is reached."""
    assert session.settings is not None
    if session.turns_since_prompt >= session.settings.limits.max_turns:
        return Record(RunPaused("max_turns"))
    choice = session.settings.tool_choice
    if not choice.forced:
        return SendRequest(choice)
    note = f"tool_choice was {choice.label} for the first request; from here on it is auto."
    return SendRequest(replace(choice, mode="auto", name=""), note)


def _call_commands(session: Session, turn: Turn, rules: Sequence[Rule]) -> Iterable[Command]:
    assert session.settings is not None
    limits = session.settings.limits
    doubled = doubled_ids(turn)
    running = [call for call in turn.calls if call.status == "running"]
    for place, call in enumerate(turn.calls):
        match call.status:
            case "proposed":
                yield CheckCall(call.id)
            case "waiting":
                # An interrupted call is never decided by a rule: only a person knows its effect.
                beyond = place >= limits.max_calls_per_turn
                event = _by_rule(turn, call, rules, beyond or call.provider_id in doubled)
                if event is not None:
                    yield Record(event)
            case "decided":
                assert call.decided is not None
                if call.decided.decision != "run":
                    yield Record(CallEnded(call.id, decided_result(call.decided)))
                elif not held(turn.calls, call) and len(running) < max(1, limits.max_parallel):
                    running.append(call)
                    yield RunCall(call.id, call.attempt, call.arguments)
            case _:
                pass


def _by_rule(turn: Turn, call: Call, rules: Sequence[Rule], looked_at: bool) -> CallDecided | None:
    """What the rules decide; `looked_at` says that a person must see the call before it runs."""
    rule = first_match(rules, call)
    if rule is None:
        return None
    if rule.action == "run" and (looked_at or not may_run_unseen(turn, call)):
        return None
    decision = rule.action
    assert decision != "ask"
    return CallDecided(
        call.id, decision, by="rule", rule=rule.words, digest=call.digest, text=rule.text
    )


def may_run(turn: Turn, call: Call) -> bool:
    """Whether the call can run as it came (a schema problem aside): the table in docs/house.md."""
    tool = call.tool
    return (
        turn.runnable
        and call.part.complete
        and not call.malformed
        and tool is not None
        and tool.answered_by != "person"
    )


def may_run_unseen(turn: Turn, call: Call) -> bool:
    """Whether it may run without a look at it, by a rule or with others at one key.

    Of a turn that ended by a word that nobody knows, each call needs a person.
    """
    known = turn.end is not None and turn.end.reason != "other"
    return known and may_run(turn, call) and not (call.unsatisfied or call.cautioned)


def doubled_ids(turn: Turn) -> frozenset[str]:
    """The providers' ids that several calls of the turn bear: it may be one call, told twice."""
    counted = Counter(call.provider_id for call in turn.calls if call.provider_id)
    return frozenset(id_ for id_, times in counted.items() if times > 1)


def repeats(session: Session, call: Call) -> bool:
    """Whether one of the two turns before made the same call: a model that goes in circles."""
    before = [turn for turn in session.turns[: call.turn - 1] if not turn.dropped]
    return any(_same(one, call) for turn in before[-2:] for one in turn.calls)


def _same(one: Call, other: Call) -> bool:
    """Equal in name and arguments, however these are spaced."""
    if one.name != other.name:
        return False
    given = arguments_object(one.raw)
    return one.raw == other.raw or (given is not None and given == arguments_object(other.raw))


def decided_result(decided: CallDecided) -> ToolResult:
    """The result of a call that was answered or denied instead of run."""
    if decided.decision == "deny":
        reason = decided.text.strip() or "The person did not allow this call."
        return text_result(reason, is_error=True, kind="denied")
    return text_result(decided.text, is_error=decided.is_error)
