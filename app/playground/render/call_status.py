"""The status of a call in sentences: why it ran, asks or waits, who decided, what it printed.

Uses the session only: of rules it knows what the log records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from playground.core.events import TASK_STOPS, CallDecided
from playground.core.faults import fault
from playground.core.session import Call, Session, Task, Turn, blocking_call
from playground.render.filters import duration, plural

NOTABLE_MS = 250
"""A shorter wait with no call before it is the program's own overhead and is not shown."""

CallOutcome = Literal["", "live", "ran", "failed"]


@dataclass(frozen=True)
class Fact:
    """One line of the status. `at_ms` (Unix ms) is its time, None if that is of no interest."""

    label: str
    text: str
    at_ms: int | None = None


def call_block(call_id: str) -> str:
    """The id of the block that shows a call, and the background task it may become."""
    return "call-" + call_id.replace(".", "-")


def wait_reason(session: Session, turn: Turn, call: Call) -> str:
    """What `call` waits for besides the user, as a sentence; "" if nothing holds it back.

    For an undecided call: what it will wait for once it is decided.
    """
    if turn is not session.last_item or turn.end is None:
        return ""
    will_run = call.decided is not None and call.decided.decision == "run"
    if call.status == "decided" and will_run:
        return _hold_reason(session, turn, call)
    if call.status not in ("waiting", "interrupted") or session.stopped:
        return ""
    before = blocking_call(turn.calls, call)
    if before is None:
        return _limit_sentence(session, turn, call)
    return f"If you run it, it waits for {_blocking_words(turn, before)}."


def _hold_reason(session: Session, turn: Turn, call: Call) -> str:
    if session.stopped:
        return "The run is stopped. Press Continue to run this call."
    if session.paused:
        return "The run is paused. Press Continue to run this call."
    if beyond := _limit_sentence(session, turn, call):
        return beyond
    before = blocking_call(turn.calls, call)
    if before is not None:
        return f"Waits for {_blocking_words(turn, before)}."
    assert session.settings is not None
    most = max(1, session.settings.limits.max_parallel)
    return f"Queued: at most {plural(most, 'call')} at once."


def _limit_sentence(session: Session, turn: Turn, call: Call) -> str:
    allowed = session.calls_allowed
    if any(allowed_call is call for allowed_call in turn.calls[:allowed]):
        return ""
    return f"The limit of {plural(allowed, 'call')} is reached. Continue allows more."


def _blocking_words(turn: Turn, call: Call) -> str:
    doing = {
        "proposed": "is being checked",
        "waiting": f"needs {need(call)}",
        "interrupted": "was running when the server stopped and needs a decision",
        "decided": "is waiting",
        "running": "runs",
    }
    return f"{_numbered_name(turn, call)}, which {doing.get(call.status, 'is not finished')}"


def _numbered_name(turn: Turn, call: Call) -> str:
    number = next(place for place, other in enumerate(turn.calls, 1) if other is call)
    return f"{call.name[:80]} ({number} of {len(turn.calls)})"


def answered_by_user(call: Call) -> bool:
    """Whether there is nothing to run: only an answer or a denial ends the call."""
    return call.tool is None or call.tool.answered_by == "person"


def need(call: Call, *, held: bool = False) -> str:
    """What an undecided call needs from the user: `approval`, `an answer` of a tool that the user
    answers, `a decision` after the server stopped while it ran. A call that is `held` for an agent
    runs there; its result may be held, too."""
    if call.result_held:
        return "a decision on the result"
    if call.status == "interrupted":
        return "a decision"
    return "an answer" if answered_by_user(call) and not held else "approval"


def needs(calls: Sequence[Call], *, held: bool = False) -> str:
    """What undecided calls need, counted: `2 calls need approval · 1 call needs an answer`."""
    counts = Counter(need(call, held=held) for call in calls)
    return " · ".join(
        f"{plural(counts[what], 'call')} {'needs' if counts[what] == 1 else 'need'} {what}"
        for what in ("approval", "an answer", "a decision", "a decision on the result")
        if counts[what]
    )


def calls_behind(calls: Iterable[Call], call: Call, *, checked: bool) -> Iterator[Call]:
    """The calls among `calls` (all or the first of a turn) whose `waits_for` may change once `call`
    has changed. `checked`: it may just have become parallel-safe, or have ceased to be.

    Each names the first call that it waits for, so a call after another blocking call does not
    mention `call`.
    """
    after = False
    for other in calls:
        if other is call:
            after = True
        elif not after and other.status != "done" and not other.parallel_safe:
            return
        elif not after or other.status not in ("decided", "waiting", "interrupted"):
            continue
        elif checked or not (call.parallel_safe and other.parallel_safe):
            yield other


def status_facts(turn: Turn, call: Call) -> tuple[Fact, ...]:
    """Who decided the call and its outcome; for a waiting call, why it asks. Empty before it was
    checked."""
    if call.checked_ms is None and call.decided is None:
        return ()
    if turn.failure is not None:
        return ()
    return tuple(_facts(turn, call))


def _facts(turn: Turn, call: Call) -> Iterator[Fact]:
    decided = call.decided
    if call.at_agent:
        yield from _agents_facts(call)
        return
    if call.cut is not None:
        yield from _interrupted_facts(call, call.cut)
    elif decided is None and call.status == "done":
        yield Fact("decided", "Not decided here: the call came with its result.")
    elif decided is None:
        yield Fact("asks", call.asks or _ask_reason(turn))
    if decided is not None:
        yield Fact("decided", _decision_sentence(decided), call.decided_ms)
    yield Fact("checked", check_sentence(call), call.checked_ms)
    if decided is None or decided.decision != "run":
        return
    if waited := _wait_sentence(turn, call):
        yield Fact("waited", waited)
    if call.started_ms is not None:
        again = (
            f"Attempt {call.attempt}: an earlier attempt was interrupted. "
            if call.interruptions
            else ""
        )
        yield Fact("started", f"{again}{_parallel_sentence(call)}", call.started_ms)
    if call.status == "done" and call.started_ms is not None and call.ended_ms is not None:
        yield Fact("ended", _end_sentence(call, call.ended_ms - call.started_ms), call.ended_ms)


def _ask_reason(turn: Turn) -> str:
    if turn.received is not None and turn.received.stop_at == "calls":
        return "The tap stops at every call. Waiting for your approval."
    return "No rule matched. Waiting for your approval."


def _agents_facts(call: Call) -> Iterator[Fact]:
    """For a call that was passed on to an agent: what passed it on, and its outcome there."""
    decided = call.decided or call.cut
    assert decided is not None
    passed = decided.by == "rule" and not decided.rule_id  # no rule, and no user decided
    yield Fact("decided", decided.rule if passed else _decision_sentence(decided), call.decided_ms)
    yield Fact("checked", check_sentence(call), call.checked_ms)
    if call.status == "interrupted":
        yield Fact("cut", "The agent continued without the result, or ended.", call.ended_ms)
    came = call.result if call.real is None else call.real
    over = call.status == "done" or call.result_held
    if over and came is not None and call.started_ms is not None and call.ended_ms is not None:
        what = "an error" if came.is_error else "a result"
        took = duration(call.ended_ms - call.started_ms)
        yield Fact("ended", f"After {took}, with {what} from the agent.", call.ended_ms)
    if call.result_held:
        yield Fact("asks", "The tap stops at this result. Waiting for your decision.")
    elif call.status == "done" and call.result_key:
        edited = "edited it" if call.real is not None else "let it pass unchanged"
        yield Fact("result", f"It was held for you. You {edited}.", call.released_ms)


def _interrupted_facts(call: Call, cut: CallDecided) -> Iterator[Fact]:
    """The outcome of the attempt that was running when the server stopped. Its times are known
    until another decision replaces it."""
    still = call.decided is None
    yield Fact("before", _decision_sentence(cut), call.decided_ms if still else None)
    began = call.started_ms if still else None
    yield Fact(
        "cut",
        "The call was running when the server stopped. What it had done is not undone.",
        began,
    )
    if call.status == "interrupted":
        yield Fact("asks", "An interrupted call needs your decision; rules do not apply to it.")


def _decision_sentence(decided: CallDecided) -> str:
    run = "ran it" if decided.where == "here" else "let the agent run it"
    done = {"run": run, "answer": "answered it", "deny": "denied it"}[decided.decision]
    if decided.by == "rule":
        by = f"The rule “{decided.rule}” {done}." if decided.rule else f"A rule {done}."
    else:
        how = " with edited arguments" if decided.arguments is not None else " on this card"
        anyway = " although the arguments do not match the schema" if decided.anyway else ""
        bare = " without the sandbox" if decided.lift else ""
        by = f"You {done}{how}{anyway}{bare}."
    row = fault(decided.fault) if decided.fault else None
    return f"{by} Simulated fault: {row.title if row else decided.fault}." if decided.fault else by


def check_sentence(call: Call) -> str:
    """The result of the check, in a sentence or two."""
    kinds = [problem.kind for problem in call.problems]
    if "unknown_tool" in kinds:
        sentence = "Unknown tool."
    elif "malformed" in kinds:
        sentence = "The arguments are not a valid JSON object."
    elif faults := kinds.count("schema"):
        sentence = f"Valid JSON; {plural(faults, 'schema error')}."
    else:
        sentence = "Valid JSON that matches the schema."
    return f"{sentence} There was a warning." if "caution" in kinds else sentence


def _parallel_sentence(call: Call) -> str:
    over = call.status == "done"
    if call.parallel_safe:
        return f"It {'could' if over else 'may'} run in parallel with other parallel-safe calls."
    if over:
        return "It ran alone. Later calls waited until it finished."
    return "It runs alone. Later calls wait until it finishes."


def _wait_sentence(turn: Turn, call: Call) -> str:
    """How long it was held back after the decision, and by what."""
    if call.started_ms is None or call.decided_ms is None or call.started_ms <= call.decided_ms:
        return ""
    last: Call | None = None
    for other in turn.calls:
        if other is call:
            break
        ended = other.ended_ms
        holds = not (other.parallel_safe and call.parallel_safe)
        if holds and ended is not None and call.decided_ms < ended <= call.started_ms:
            last = other if last is None or ended >= (last.ended_ms or 0) else last
    took = call.started_ms - call.decided_ms
    if last is not None:
        return f"{duration(took)} for {_numbered_name(turn, last)} to finish."
    return f"{duration(took)} for a free slot." if took >= NOTABLE_MS else ""


def _end_sentence(call: Call, took_ms: int) -> str:
    result = call.result
    what = "an error" if result is not None and result.is_error else "a result"
    staged = result is not None and result.staged
    if staged and not (call.decided and call.decided.fault):
        return f"After {duration(took_ms)}, with {what} simulated by the mock."
    if staged:
        real = " The tool's own result is kept." if call.real else ""
        return f"After {duration(took_ms)}; the model read a simulated fault.{real}"
    return f"After {duration(took_ms)}, with {what} from the tool."


# A running call, in its turn or in the background, and its printed output. The numbers are those of
# the log; the page counts the time it has run so far.


def task_of(session: Session, call: Call) -> Task | None:
    """The background task that the call became, or None."""
    return session.tasks.get(call.task_id)


def is_background(session: Session, call: Call) -> bool:
    """Whether it runs in the background now."""
    task = task_of(session, call)
    return task is not None and task.ended_ms is None


def has_progress(session: Session, call: Call) -> bool:
    """Whether it runs, and so has blocks for its progress and its output."""
    runs = call.status == "running" and not call.result_held
    return runs or is_background(session, call)


def background_words(session: Session, call: Call) -> tuple[str, CallOutcome] | None:
    """The state and colour of a call that went to the background; None for any other."""
    task = task_of(session, call)
    if task is None:
        return None
    if task.ended_ms is None:
        return "in the background", "live"
    if _failed(task):
        return "failed in the background", "failed"
    if task.result is None:
        return "stopped in the background", ""
    return "ran in the background", "ran"


def _failed(task: Task) -> bool:
    """A stopped task has no result, but is not a failure."""
    if task.result is None:
        return task.how not in TASK_STOPS
    return task.result.is_error


def running_values(session: Session, call: Call) -> dict[str, Any]:
    """The values of its blocks: `task`, whether it `has_progress`, whether it `failed` as a task,
    its time limit (`limit`, words, and `limit_s`; "" and 0 in the background) and the number of
    characters dropped `before` the stored output."""
    behind = task_of(session, call)
    limit_s = 0.0
    if behind is None and call.tool is not None and not call.at_agent:
        limit_s = call.tool.timeout_s + call.extended_s
    return {
        "call": call,
        "task": behind,
        "has_progress": has_progress(session, call),
        "failed": behind is not None and behind.ended_ms is not None and _failed(behind),
        "held": call.real is not None,
        "limit_s": limit_s,
        "limit": seconds(limit_s) if limit_s else "",
        "before": call.printed - len(call.output),
    }


def seconds(count: float) -> str:
    """`30 s`, `0.5 s`, `5 min 30 s`, `1 h 00 min`."""
    if count < 120:
        return f"{count:g} s"
    minutes, rest = divmod(round(count), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
