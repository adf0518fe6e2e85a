"""Decides what happens next. `next_commands` is pure; the runner executes its commands.

"Waiting for a user" is not stored as a state: it is a session for which `next_commands` returns
nothing. So a closed tab or a killed server loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from playground.core.arguments import canonical_text
from playground.core.doubts import find_doubt
from playground.core.events import (
    ENDED_WITH_PROGRAM,
    CallChecked,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallReturned,
    ClientGone,
    EndReason,
    Event,
    Logged,
    PartEnded,
    ResponseFailed,
    RunPaused,
    RunResumed,
    RunStopped,
    TaskEnded,
    TurnDropped,
)
from playground.core.faults import scene, stage_result, staging_obstacle
from playground.core.messages import sealed_history_pause
from playground.core.reducer import apply
from playground.core.rules import Rule, first_match, unbound_reason, unread_rule
from playground.core.run_limits import (
    call_limit_pause,
    error_pause,
    repeat_pause,
    repeats_no_more,
    request_limit_event,
)
from playground.core.session import Call, CallGroups, Prompt, Session, Turn
from playground.core.tools import ToolChoice, ToolResult, text_result

JUDGED: frozenset[EndReason] = frozenset({"stop", "calls", "other"})
"""Finish reasons that are checked; not if cut by a limit, refused or paused."""

_EXPORTED = "The session was exported before this answer was complete."


@dataclass(frozen=True)
class SendRequest:
    """Asks the model. `note` says which setting is no longer in force, or is ""."""

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
    """Turn `turn` failed before any output: sends its request again after a wait."""

    turn: int
    attempt: int


@dataclass(frozen=True)
class Record:
    """Writes an event that follows from the others."""

    event: Event


Command = SendRequest | CheckCall | RunCall | Retry | Record

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""HTTP statuses of temporary errors."""

LONGEST_WAIT_S = 60.0
"""The longest wait before an automatic retry."""

DenialCheck = Callable[[Call], bool]
"""Whether a user denied the same call before, in any session."""

AT_AGENT = "This tap stops at nothing: the agent runs the call."
"""Replaces the rule's words for a call that was passed on."""


def no_denials(call: Call) -> bool:
    """For callers without denials from other sessions."""
    return False


def next_commands(
    session: Session,
    rules: Sequence[Rule] = (),
    denied: DenialCheck = no_denials,
    checking: int = 0,
) -> list[Command]:
    """All that can be done now; empty while work is in progress or a user is needed.

    `checking` is how many calls are being checked: no check is started if no more are proposed."""
    if session.settings is None or session.stopped:
        return []
    if session.tapped is not None:
        return list(_agent_commands(session, rules, denied, checking))
    if session.paused:
        return list(_paused_commands(session))
    item = session.last_item
    if item is None or session.retrying is not None:
        return []
    if isinstance(item, Prompt):
        return [_ask(session)]
    if item.end is None:
        # Also by the limit when it was sent: a change of settings alone sends no request.
        most = min(settings.limits.max_retries for settings in (session.settings, item.settings))
        left = session.retries < most
        return [Retry(item.number, session.retries + 1)] if left and is_retryable(item) else []
    commands = list(_call_commands(session, item, rules, denied, checking))
    if commands or item.call_groups.count("undone"):
        return commands
    if item.calls or (item.end is not None and item.end.reason == "pause"):
        return [_continue_run(session)]
    return []


def _agent_commands(
    session: Session, rules: Sequence[Rule], denied: DenialCheck, checking: int
) -> Iterable[Command]:
    """The agent sends requests and runs calls itself; for held calls this decides only whether the
    agent gets them."""
    turn = session.last_item
    if not isinstance(turn, Turn) or turn.received is None or not turn.holds:
        return
    standing = turn.call_groups
    if standing.count("proposed") > checking:
        yield from (CheckCall(call.id) for call in standing.calls_in("proposed"))
    yield from map(Record, settled_events(session))
    ruled = _decide_by_rules(session, turn, standing.calls_in("waiting"), rules, denied) or []
    stop = next((event for event in ruled if isinstance(event, RunStopped)), None)
    if stop is not None:
        yield Record(stop)
        return
    events = {event.call_id: event for event in ruled if isinstance(event, CallDecided)}
    if turn.received.stop_at == "calls":  # a rule must not run a call before the calls after it
        events = {name: event for name, event in events.items() if event.decision != "run"}
    elif turn.received.stop_at != "unruled":
        for call in standing.calls_in("waiting"):
            rule = first_match(rules, call)
            passes = rule is None or rule.action == "run"
            if call.id not in events and passes and unread_rule(rules, call) is None:
                events[call.id] = CallDecided(
                    *(call.id, "run", "rule", AT_AGENT, call.digest), anyway=True, where="agent"
                )
    yield from map(Record, events.values())


def _paused_commands(session: Session) -> Iterable[Command]:
    """Settles answered and denied calls; if nothing that repeats is left after that, resumes the
    run."""
    ends = settled_events(session)
    yield from map(Record, ends)
    if session.paused == "max_repeats" and not ends and repeats_no_more(session):
        yield Record(RunResumed())


def is_retryable(turn: Turn) -> bool:
    """Whether repeating the request may succeed without duplicating output or effects.

    A server that asks for a longer wait than ours, or says that a retry is useless, is obeyed.
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


def _continue_run(session: Session) -> Command:
    """The request after a settled turn, or a pause if a limit is reached."""
    before = request_limit_event(session)
    return Record(before) if before is not None else _ask(session)


def _ask(session: Session) -> Command:
    """The next request, or a pause if its history may not be sent back."""
    kept_back = sealed_history_pause(session)
    return Record(kept_back) if kept_back is not None else next_request(session)


def next_request(session: Session) -> SendRequest:
    """The request that follows the last item, ignoring limits and pauses."""
    assert session.settings is not None
    choice = session.settings.tool_choice
    if not choice.forced or isinstance(session.last_item, Prompt):
        return SendRequest(choice)
    note = f"tool_choice was {choice.label} for the first request; from here on it is auto."
    return SendRequest(replace(choice, mode="auto", name=""), note)


def _call_commands(
    session: Session, turn: Turn, rules: Sequence[Rule], denied: DenialCheck, checking: int
) -> Iterable[Command]:
    standing = turn.call_groups
    proposed = standing.count("proposed")
    if proposed > checking:
        yield from (CheckCall(call.id) for call in standing.calls_in("proposed"))
    ends = settled_events(session)
    yield from map(Record, ends)
    circle, error = repeat_pause(session, turn), error_pause(session, turn)
    if circle is not None or error is not None:
        # Before any decision or run, but only when all calls are checked.
        if not proposed and not ends and not (error and standing.count("running")):
            yield Record(circle or error or RunPaused("error"))
        return
    allowed = turn.part_after(session.calls_allowed)
    ruled = _decide_by_rules(
        session, turn, standing.unevaluated_calls((rules, denied), allowed), rules, denied
    )
    if ruled is None:
        return
    stop = next((event for event in ruled if isinstance(event, RunStopped)), None)
    if stop is not None:  # before anything else is decided or run, whichever call it is
        yield Record(stop)
        return
    begins = _calls_to_begin(session, standing, allowed)
    checked = (_revoke_decision(session, turn, call, rules, denied) for call in begins)
    returned = [command for command in checked if command]
    if returned:  # their consequence may be a stop, so nothing begins before
        yield from map(Record, returned)
        return
    yield from map(Record, ruled)
    for call in begins:
        yield RunCall(call.id, call.attempt, call.arguments)
    beyond = call_limit_pause(session, turn)
    if beyond is not None and not proposed and not ends:
        yield Record(beyond)


def _decide_by_rules(
    session: Session, turn: Turn, calls: Sequence[Call], rules: Sequence[Rule], denied: DenialCheck
) -> list[CallDecided | RunStopped] | None:
    """The decisions of the rules on `calls`. Calls left to the user are not evaluated again until
    they change. None if a rule will stop the run at a call that is still being checked: until then
    no call is decided or begun. Other checks block nothing, because one may be slow."""
    ruled: list[CallDecided | RunStopped] = []
    for call in calls:
        event: CallDecided | RunStopped | None = None
        if call.status == "waiting":
            event = _decide_by_rule(session, turn, call, rules, denied)
            ruled += [] if event is None else [event]
        elif (rule := first_match(rules, call)) is not None and rule.action == "stop":
            event = _decide_by_rule(session, turn, call, rules, denied)
            if event is not None:
                return None
        if event is None:
            turn.call_groups.mark_evaluated(call)
    return ruled


def _calls_to_begin(session: Session, standing: CallGroups, end: int) -> list[Call]:
    """The calls before part `end` that may begin now."""
    assert session.settings is not None
    free = max(1, session.settings.limits.max_parallel) - standing.count("running")
    return list(islice(standing.runnable_calls(end), max(0, free)))


def _revoke_decision(
    session: Session, turn: Turn, call: Call, rules: Sequence[Rule], denied: DenialCheck
) -> CallReturned | None:
    """The revocation of a rule's decision that the current rules would not make: the call waited
    for other calls, and the user changed the rules in between."""
    decision = call.decided
    if decision is None or decision.by != "rule":
        return None
    rule = first_match(rules, call)
    if rule is None or (rule.id, rule.action, rule.fault) != (
        decision.rule_id,
        "run",
        decision.fault,
    ):
        why = f"The rule “{decision.rule}” decided this call, but no longer does."
    # The rule decided the call, so it existed in time, whatever has changed since.
    elif not (why := obstacle(session, turn, call, replace(rule, since_ms=0), denied)):
        return None
    return CallReturned(call.id, "rule", why)


def settled_events(session: Session) -> list[Event]:
    """End events of the answered or denied calls: nothing has to run for them."""
    return [
        CallEnded(call.id, decided_result(session, call, call.decided))
        for call in session.call_groups.calls_in("settled")
        if call.decided is not None
    ]


def _decide_by_rule(
    session: Session, turn: Turn, call: Call, rules: Sequence[Rule], denied: DenialCheck
) -> CallDecided | RunStopped | None:
    # A rule never decides an interrupted call: only a user can know its effect.
    rule = first_match(rules, call)
    if rule is None or rule.action == "ask" or obstacle(session, turn, call, rule, denied):
        return None
    if rule.action == "stop":
        return RunStopped(rule.sentence, call.id)
    return CallDecided(
        call.id,
        rule.action,
        by="rule",
        rule=rule.sentence,
        rule_id=rule.id,
        digest=call.digest,
        text=rule.text,
        is_error=rule.is_error,
        fault=rule.fault,
        where="here" if session.tapped is None else "agent",
    )


def ask_reason(
    session: Session,
    call: Call,
    checked: CallChecked,
    rules: Sequence[Rule],
    denied: DenialCheck = no_denials,
) -> str:
    """Why a rule that matches `call`, with the result `checked`, leaves it to the user; "" if none
    matches, or the matching one decides."""
    checked_call = replace(call, problems=checked.problems, code=checked.code)
    rule = first_match(rules, checked_call)
    passes = session.tapped is not None and (rule is None or rule.action == "run")
    if passes and (unread := unread_rule(rules, checked_call)) is not None:
        return f"The arguments cannot be read, so the rule “{unread.sentence}” asks."
    if rule is None:
        return ""
    if rule.action == "ask":
        return f"The rule “{rule.sentence}” asks."
    return obstacle(session, session.turns[call.turn - 1], checked_call, rule, denied)


def obstacle(
    session: Session, turn: Turn, call: Call, rule: Rule, denied: DenialCheck = no_denials
) -> str:
    """Why `rule`, which matches `call`, does not decide it, as a sentence; "" if it does."""
    if rule.here != session.id and (call.part.ended_ms or 0) < rule.since_ms:
        return f"The rule “{rule.sentence}” was written after this call was made, so it asks."
    if session.tapped is not None and (rule.action == "answer" or rule.fault):
        return f"An agent runs this call, so the rule “{rule.sentence}” asks."
    if call.taken_back:
        return "You withdrew the decision on this call. It needs a new decision."
    if call.stopped_by:
        return "A rule stopped the run here. The call needs your decision."
    if changed := unbound_reason(rule, call):
        return changed
    if rule.proposed and rule.action == "run" and (_was_denied(session, call) or denied(call)):
        return f"You denied this call before, so the rule “{rule.sentence}” asks."
    if reason := staging_obstacle(session, call, rule.fault):
        return reason
    if rule.action == "run":
        return _unseen_obstacle(turn, call)
    return ""


def _unseen_obstacle(turn: Turn, call: Call) -> str:
    """Why a user must see the call before it runs, or ""."""
    if turn.end is not None and turn.end.reason == "other":
        return "The answer ended with an unknown finish reason, so no rule runs its calls."
    if turn.end is not None and turn.end.abrupt:
        return "The connection broke before the answer was complete, so no rule runs its calls."
    if call.provider_id in doubled_ids(turn):
        return "Another call of this answer has the same id, so no rule runs either."
    if (doubt := find_doubt(turn, call)) is not None:
        return f"{doubt.message} So no rule runs this call."
    if not may_run_unseen(turn, call):
        return "No rule runs a call that must be reviewed first."
    return ""


def _was_denied(session: Session, call: Call) -> bool:
    """Whether a user denied the same call before, in this session."""
    denied_alike = session.denied_alike
    for other in session.denied[session.denied_read :]:
        of_name = denied_alike.setdefault(other.name, {})
        of_name.setdefault(hash(canonical_text(other.written)), set()).add(other.id)
    session.denied_read = len(session.denied)
    if call.name not in denied_alike:
        return False
    return bool(denied_alike[call.name].get(hash(canonical_text(call.written)), set()) - {call.id})


def may_run(turn: Turn, call: Call) -> bool:
    """Whether the call can run as its card shows it (schema violations aside): the table in
    docs/laws.md. A user may run edited arguments however the answer ended. An agent that runs it
    has its own tools."""
    tool = call.tool
    ours = tool is not None and tool.answered_by != "person"
    return (
        ((turn.runnable and call.part.complete) or call.judged != call.written)
        and not call.malformed
        and (ours or turn.received is not None)
    )


def may_run_unseen(turn: Turn, call: Call) -> bool:
    """Whether it may run without a separate look, by a rule or with others by one key press.

    If the turn ended with an unknown finish reason or a broken connection, or a warning doubts the
    call, a user must look at it.
    """
    known = turn.end is not None and turn.end.reason != "other" and not turn.end.abrupt
    sound = known and may_run(turn, call) and not (call.unsatisfied or call.cautioned)
    return sound and find_doubt(turn, call) is None


def doubled_ids(turn: Turn) -> frozenset[str]:
    """Provider ids shared by several calls of the turn: possibly one call sent twice."""
    if turn.doubled is not None:
        return turn.doubled
    counted = Counter(call.provider_id for call in turn.calls if call.provider_id)
    doubled = frozenset(id_ for id_, times in counted.items() if times > 1)
    if not turn.open:  # it gets no more calls now, and every call needs this
        turn.doubled = doubled
    return doubled


def decided_result(session: Session, call: Call, decided: CallDecided) -> ToolResult:
    """The result of a call that was answered or denied instead of run."""
    if decided.fault:
        return stage_result(decided.fault, scene(session, call))
    if decided.decision == "deny":
        reason = decided.text.strip() or "The user did not allow this call."
        return text_result(reason, is_error=True, kind="denied")
    result = text_result(decided.text, is_error=decided.is_error)
    if not decided.images:
        return result
    words = result.content if decided.text.strip() else ()
    return replace(result, content=(*words, *decided.images))


# Checks whether an answer obeyed its tool choice --------------------------------------------------


def ignored_tool_choice(
    choice: ToolChoice, calls: Sequence[str], reason: EndReason, server_calls: int = 0
) -> list[str]:
    """Sentences on how an answer with `calls` (tool names) and that finish reason ignored `choice`.

    `server_calls` counts calls run by the provider: they satisfy `required`, too.
    """
    if reason not in JUDGED:
        return []
    ways = [*_mode_violations(choice, calls, server_calls)]
    allowed = choice.allowed
    if allowed is not None and choice.mode in ("auto", "required"):
        outside = [name for name in calls if name not in allowed]
        if outside:
            these = f"Only {_names(allowed)}" if allowed else "No tool"
            ways.append(f"{these} might be called, but the model called {_names(outside)}.")
    if not choice.parallel and len(calls) > 1:
        ways.append(f"tool_choice allows one call at a time, but the model made {len(calls)}.")
    return ways


def _mode_violations(choice: ToolChoice, calls: Sequence[str], server_calls: int) -> list[str]:
    match choice.mode:
        case "required" if not calls and not server_calls:
            return ["tool_choice is required, but the model made no call."]
        case "tool" if not calls:
            return [f"tool_choice is {choice.name}, but the model made no call."]
        case "tool":
            others = _names(name for name in calls if name != choice.name)
            return (
                [f"tool_choice is {choice.name}, but the model called {others}."] if others else []
            )
        case "none" if calls:
            return [f"tool_choice is none, but the model called {_names(calls)}."]
    return []


def _names(names: Iterable[str]) -> str:
    """The distinct names in order; calls without a name get a placeholder."""
    return ", ".join(dict.fromkeys(name or "(no name)" for name in names))


# Events that close answers and calls in progress --------------------------------------------------


def closing_events(
    session: Session, message: str, *, stopped: bool = False, alive: Collection[str] = ()
) -> list[Event]:
    """Events that close the open answer and running calls, except calls in `alive` and those that a
    tapped agent runs."""
    events: list[Event] = []
    turn = session.turn
    if turn is not None and turn.open:
        events += [
            PartEnded(part.index, part.text, part.name, part.provider_id, complete=False)
            for part in turn.parts
            if not part.ended
        ]
        events.append(ResponseFailed("stopped" if stopped else "interrupted", message))
    events += [
        CallInterrupted(call.id)
        if call.real is None
        else CallEnded(call.id, replace(call.real, staged=True), real=call.real)  # held back
        for call in session.current_calls
        if call.status == "running" and call.id not in alive and session.tapped is None
    ]
    return events


def over_events(session: Session, message: str) -> list[Event]:
    """Events that close all work of a session, including background tasks."""
    tasks = [TaskEnded(task.id, ENDED_WITH_PROGRAM) for task in session.open_tasks]
    return [*closing_events(session, message), *tasks]


def left_events(session: Session) -> list[Event]:
    """Events for an agent's running calls: their results will never come."""
    if session.tapped is None:
        return []
    running = (call for call in session.current_calls if call.status == "running")
    return [CallInterrupted(call.id) for call in running]


def gone_events(session: Session) -> list[Event]:
    """Events for an agent that waited when the program ended: it has disconnected, also where all
    is decided and only the answer has not left."""
    turn = session.turn
    if session.tapped is None or turn is None:
        return []
    if session.received is not None:
        return [] if session.received_gone else [ClientGone(len(session.turns) + 1)]
    waited = turn.holds and not turn.client_gone and not turn.dropped
    return [ClientGone(turn.number)] if waited else []


def void_events(session: Session) -> list[Event]:
    """Events that void what waits for the user after the waiting agent disconnected: it never got
    that answer, or the results of its calls never came, or came only through another session. Later
    requests are treated separately."""
    turn = session.turn
    if session.tapped is None or not session.waits or turn is None:
        return []
    held = session.call_groups.calls_in("held")
    if session.received is not None or held:
        still_waits = session.received is not None and not session.received_gone
        return [CallInterrupted(call.id) for call in held if not still_waits]
    if not (turn.holds and turn.client_gone):
        return []
    turns = reversed(session.continued_turns(turn))
    return [TurnDropped(each.number, automatic=True) for each in turns]


def close_imported(session: Session) -> None:
    """Closes running work in the fold of an imported session: it may have been exported in mid-run,
    and nothing continues here. Its log stays unchanged."""
    running, seq = session.state == "running", session.seq
    for event in (*left_events(session), *over_events(session, _EXPORTED)):
        apply(session, Logged(session.seq + 1, session.updated_ms, event))
    session.seq, session.cut_off = seq, running
