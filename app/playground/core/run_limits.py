"""The limits that pause a run, each with a sentence. Pure: reads only the fold.

A run begins with a prompt, and again with Continue, which so allows the same amount again; but if
the reached limit was raised before Continue, the run keeps counting. Limits are checked between
requests: work in progress is completed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from math import fsum

from playground.core.arguments import canonical_text
from playground.core.events import RunPaused, Usage, Warned
from playground.core.session import Call, Session, Turn
from playground.core.settings import Limits, Settings

SETTING: Mapping[str, str] = {
    "max_turns": "max_turns",
    "max_calls": "max_calls_per_turn",
    "max_run_tokens": "max_run_tokens",
    "max_cost": "max_cost",
    "max_minutes": "max_minutes",
    "max_repeats": "max_repeats",
}
"""By name of a pause: the setting of the numeric limit."""

LEAST_CACHED = 1024
"""Minimum tokens of a prompt that any provider caches."""


def is_limit_raised(session: Session) -> bool:
    """Whether the limit that paused the run was changed since, and is no longer reached."""
    name = SETTING.get(session.paused)
    if name is None or session.settings is None or session.turn is None:
        return False
    if session.paused == "max_repeats":  # or the repeated calls were answered or denied
        return repeat_pause(session, session.turn) is None
    before = _before_halt(session)
    if getattr(before.limits, name) == getattr(session.settings.limits, name):
        return False
    if session.paused == "max_calls":
        return call_limit_pause(session, session.turn) is None
    pauses = (pause for pause in _run_limit_events(session) if isinstance(pause, RunPaused))
    return all(pause.limit != session.paused for pause in pauses)


def is_continued_run(session: Session) -> bool:
    """Whether the current run began with Continue, not with a prompt."""
    since = takewhile(lambda item: isinstance(item, Turn), reversed(session.items))
    return any(item.number <= session.resumed_turn for item in since)


def run_start_words(session: Session) -> str:
    """Where the current run began, in words, if not with a prompt; else ""."""
    if not is_continued_run(session):
        return ""
    forked = session.forks[-1][0] if session.forks else 0
    before = sum(turn.seq < forked for turn in session.turns)
    return " since the fork" if forked and before == session.resumed_turn else " since Continue"


def request_limit_event(session: Session) -> RunPaused | Warned | None:
    """What precedes the next request of a run: a pause for the first limit reached, or a warning
    about one that cannot be enforced; None if nothing does."""
    return next(_run_limit_events(session), None)


def _run_limit_events(session: Session) -> Iterator[RunPaused | Warned]:
    assert session.settings is not None
    limits, run = session.settings.limits, session.run
    began = run_start_words(session)
    turns = sum(not turn.dropped for turn in run)
    if turns >= max(1, limits.max_turns):
        sentence = f"{_count_text(turns, 'turn')} made{began}, which is the limit"
        yield RunPaused("max_turns", f"{sentence}; Continue allows as many again.")
    if limits.max_run_tokens:
        used = [turn_tokens(turn) for turn in run]
        total = sum(count or 0 for count in used)
        if total >= limits.max_run_tokens:
            sentence = f"{total:,} tokens of {limits.max_run_tokens:,} were used{began}"
            yield RunPaused("max_run_tokens", f"{sentence}; Continue allows as many again.")
        if None in used:
            yield from _unenforceable_limit(
                session, f"of {limits.max_run_tokens:,} tokens", "tokens"
            )
    if limits.max_cost:
        costs = [turn_cost(turn) for turn in run]
        spent = fsum(cost or 0.0 for cost in costs)
        if spent >= limits.max_cost:
            sentence = f"${spent:.4g} of ${limits.max_cost:g} were spent{began}"
            yield RunPaused("max_cost", f"{sentence}; Continue allows as much again.")
        if None in costs:
            yield from _unenforceable_limit(session, f"of ${limits.max_cost:g}", "price")
    if limits.max_minutes:
        minutes = busy_ms(session) / 60_000
        if minutes >= limits.max_minutes:
            sentence = f"{minutes:.3g} of {limits.max_minutes:g} minutes were used{began}"
            yield RunPaused("max_minutes", f"{sentence}; Continue allows as many again.")


def _unenforceable_limit(session: Session, limit: str, what: str) -> Iterator[Warned]:
    """Warns once per run: unknown is not 0."""
    code = f"{what}_unknown"
    if not any(warned.code == code for turn in session.run for warned in turn.warnings):
        if what == "price":
            why = "no price is known for this model"
        else:
            why = "the provider does not report the tokens used"
        yield Warned(code, f"The limit {limit} can't be enforced: {why}.")


def call_limit_pause(session: Session, turn: Turn) -> RunPaused | None:
    """A pause if all calls of the turn that the limit allows are done, and there are more."""
    allowed = session.calls_allowed
    if len(turn.calls) <= allowed or not turn.call_groups.count("undone"):
        return None
    if turn.call_groups.first("undone") < turn.part_after(allowed):
        return None
    sentence = f"This answer makes {len(turn.calls)} calls; {allowed} are done, which is the limit."
    return RunPaused("max_calls", f"{sentence} Continue allows as many again.")


def repeat_pause(session: Session, turn: Turn) -> RunPaused | None:
    """A pause if the turn makes a call that the run, including this turn, has made often enough."""
    assert session.settings is not None
    return _find_repeat(session, turn, session.settings.limits)


def repeats_no_more(session: Session) -> bool:
    """Whether the repeated calls that paused the run were answered or denied since: by the limit at
    that time, because a changed limit alone resumes no run, and by the current one."""
    turn = session.turn
    if turn is None:
        return False
    then = _before_halt(session).limits
    return _find_repeat(session, turn, then) is None and repeat_pause(session, turn) is None


def _before_halt(session: Session) -> Settings:
    return [settings for seq, settings in session.settings_at if seq < session.halted_seq][-1]


def _find_repeat(session: Session, turn: Turn, limits: Limits) -> RunPaused | None:
    most = limits.max_repeats
    run = [past for past in session.run if past.number <= turn.number and not past.dropped]
    if not most or sum(map(_most_equal_calls, run)) <= most:
        return None
    repeats = _repeats(run, turn, most)
    while repeats and repeats[0][0].status == "done":  # done calls stay done
        repeats.popleft()
    if not repeats:
        return None
    call, times = repeats[0]
    sentence = f"The model made this call of {call.name} {_times_text(times)} before"
    sentence += run_start_words(session) or " in this run"
    return RunPaused("max_repeats", f"{sentence}; Continue allows it again.")


def _repeats(run: Sequence[Turn], turn: Turn, most: int) -> deque[tuple[Call, int]]:
    """The calls of `turn` that `run` has made `most` times or more before, with that number;
    without those seen done in earlier queries. Computed once."""
    named = (most, [turn.number for turn in run])
    if turn.repeats is not None and turn.repeats[0] == named:
        return turn.repeats[1]
    times = Counter(key for earlier in run if earlier is not turn for key in _keys(earlier))
    repeats: deque[tuple[Call, int]] = deque()
    for call, key in zip(turn.calls, _keys(turn), strict=True):
        if times[key] >= most:
            repeats.append((call, times[key]))
        times[key] += 1
    if not turn.open:
        turn.repeats = named, repeats
    return repeats


def _keys(turn: Turn) -> tuple[int, ...]:
    """A key for each call of the turn, equal for equal calls. Cached when the turn is over, so that
    each text is parsed once over all rounds."""
    if turn.keys is not None:
        return turn.keys
    keys = tuple(map(_key, turn.calls))
    if not turn.open:
        turn.keys = keys
    return keys


def _key(call: Call) -> int:
    return hash((call.name, canonical_text(call.written)))


def _most_equal_calls(turn: Turn) -> int:
    """The largest number of equal calls in the turn, or an upper bound while it is open."""
    if turn.alike is not None:
        return turn.alike
    if turn.open:
        return len(turn.calls)
    turn.alike = max(Counter(_keys(turn)).values(), default=0)
    return turn.alike


def repeats_recent_call(session: Session, call: Call) -> bool:
    """Whether one of the two previous turns made the same call: the model may be looping."""
    turns = (turn for turn in reversed(session.turns[: call.turn - 1]) if not turn.dropped)
    key = _key(call)
    return any(key in _turn_keys(turn) for turn in islice(turns, 2))


def _turn_keys(turn: Turn) -> frozenset[int]:
    """The keys of the turn's calls, cached because the turn is over."""
    if turn.call_keys is None:
        turn.call_keys = frozenset(_keys(turn))
    return turn.call_keys


def error_pause(session: Session, turn: Turn) -> RunPaused | None:
    """A pause if a call failed, nothing runs any more, and errors must pause the run."""
    assert session.settings is not None
    if session.settings.limits.continue_on_error:
        return None
    failed = (
        failed_call
        for failed_call in turn.call_groups.calls_in("failed")
        if failed_call.id not in session.forgiven
    )
    if (call := next(failed, None)) is None:
        return None
    sentence = f"{call.name} failed, and the run pauses after an error"
    return RunPaused("error", f"{sentence}; Continue resumes it.")


def busy_ms(session: Session) -> int:
    """The time in ms in which a model or a tool worked in this run; overlaps count once."""
    # Times after that are invalid: copied by a fork from an imported log.
    spans = (span for span in _spans(session.turns) if span[1] <= session.updated_ms)
    return _covered_ms(spans, session.run_ms)


def turn_busy_ms(turn: Turn) -> int:
    """The time in ms in which its model or a tool of it worked; overlaps count once."""
    return _covered_ms(_spans([turn]), 0)


def _covered_ms(spans: Iterable[tuple[int, int]], begin: int) -> int:
    total, reached = 0, begin
    for start, end in sorted(spans):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total


def _spans(turns: Iterable[Turn]) -> Iterator[tuple[int, int]]:
    for turn in turns:
        if turn.closed_ms is not None:
            yield turn.sent_ms, turn.closed_ms
        for call in turn.calls:
            if call.started_ms is not None and call.ended_ms is not None:
                yield call.started_ms, call.ended_ms


def turn_cost(turn: Turn) -> float | None:
    """In US dollars; None if unknown. A failure before any output costs nothing."""
    if turn.end is not None:
        return turn.end.cost
    return None if turn.parts else 0.0


def turn_tokens(turn: Turn) -> int | None:
    """Tokens read and written by a turn; None if the provider does not report them."""
    counted = turn_usage(turn)
    return None if counted is None else sum(counted)


def turn_usage(turn: Turn) -> tuple[int, int] | None:
    """Tokens read and written; None if not reported. 0 for an open turn, or one that failed before
    any output."""
    closed = turn.end or turn.failure
    if closed is None or (turn.end is None and not turn.parts):
        return 0, 0
    return input_output_tokens(turn.request.protocol, closed.usage)


def input_output_tokens(protocol: str, usage: Usage) -> tuple[int, int] | None:
    """Tokens including cached and thinking ones; None if unknown."""
    read, wrote = usage.input_tokens, output_tokens(protocol, usage)
    if read is None or wrote is None:
        return None
    if protocol == "anthropic":  # its input_tokens exclude cached ones
        read += (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
    return read, wrote


def output_tokens(protocol: str, usage: Usage) -> int | None:
    """Tokens written including thinking; None if unknown."""
    written_tokens, thought = usage.output_tokens, usage.reasoning_tokens
    if protocol != "gemini" or thought is None:
        return written_tokens
    # Gemini's output_tokens exclude thinking, and are missing if the answer ended before output.
    return (written_tokens or 0) + thought


def cache_missed(before: Turn, turn: Turn) -> bool:
    """Whether `turn` read less than half of what the request `before` it had read from or written
    to the provider's prompt cache."""
    if before.end is None or turn.end is None or turn.request.model != before.request.model:
        return False
    was, now = before.end.usage, turn.end.usage
    there = (was.cached_tokens or 0) + (was.cache_write_tokens or 0)
    return there >= LEAST_CACHED and now.cached_tokens is not None and 2 * now.cached_tokens < there


def writing_speed(turns: Iterable[Turn]) -> float | None:
    """Output tokens per second, from the first part of each answer to its end; None without counts,
    or if all arrived in one piece."""
    tokens = took_ms = 0
    for turn in turns:
        if turn.end is None or turn.first_part_ms is None or turn.closed_ms is None:
            continue
        if wrote := output_tokens(turn.request.protocol, turn.end.usage):
            tokens += wrote
            took_ms += turn.closed_ms - turn.first_part_ms
    return 1000 * tokens / took_ms if took_ms > 0 else None


def _times_text(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun} was" if count == 1 else f"{count} {noun}s were"
