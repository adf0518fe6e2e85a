"""The limits of a run for the user: in Setup, while it runs, and where it paused.

Reads the folded session only. core/run_limits decides which limit is reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from playground.core.run_limits import run_start_words, turn_cost, turn_tokens
from playground.core.session import Session
from playground.core.settings import Limits
from playground.render.filters import plural


@dataclass(frozen=True)
class Field:
    """A limit in words: `unit` follows its number, `most` is the maximum setting."""

    unit: str
    whole: bool
    most: float


LIFTED: Mapping[str, Field] = {
    "max_run_tokens": Field("tokens", True, 1_000_000_000),
    "max_cost": Field("dollars", False, 1_000_000),
    "max_minutes": Field("minutes", False, 10_080),
    "max_repeats": Field("times", True, 1000),
}
"""The limits of a run that 0 removes; their fields are empty then."""

_RAISED: Mapping[str, tuple[str, Field]] = {
    "max_turns": ("max_turns", Field("turns", True, 1000)),
    "max_calls": ("max_calls_per_turn", Field("calls per turn", True, 1000)),
    **{name: (name, field) for name, field in LIFTED.items()},
}
"""By pause name: the setting that is raised to continue."""

_WORDS: Mapping[str, tuple[str, str]] = {
    "max_turns": ("Turn limit reached", "Continue allows as many again."),
    "max_calls": ("Call limit reached", "Continue allows as many again."),
    "max_run_tokens": ("Token limit reached", "Continue allows as many again."),
    "max_cost": ("Cost limit reached", "Continue allows as much again."),
    "max_minutes": ("Time limit reached", "Continue allows as much again."),
    "max_repeats": ("Repeated call", "Continue allows it to be called again."),
    "error": ("A call failed", "Continue sends the error to the model."),
    "restart": (
        "Paused by a restart",
        "The playground was restarted during this run. Nothing was sent or run since then."
        " Press Continue to go on from here.",
    ),
    "fork": (
        "A fork",
        "Everything above is a copy; nothing was sent or run. Check the settings, then press"
        " Continue.",
    ),
    "brought": ("Imported", "Nothing in this session was sent or run here."),
    "left_out": (
        "Calls were left out",
        "The provider does not accept the history without them, so nothing is sent.",
    ),
    "store": (
        "Saving failed",
        "The next step could not be saved, so it was not done. Free disk space and check that the"
        " disk is writable. Then press Continue.",
    ),
}
"""By pause name: its title, and its sentence if the log has none."""


def limit_text(name: str, limits: Limits) -> str:
    """The form field of a removable limit."""
    value: float = getattr(limits, name)
    return _plain_number(value) if value else ""


def limits_summary(limits: Limits) -> str:
    """All limits in one line: `10 turns · 32 calls · $0.50`. Default values are left out, except
    the first two."""
    usual = Limits()
    words = [plural(limits.max_turns, "turn"), plural(limits.max_calls_per_turn, "call")]
    if limits.max_calls_per_answer != usual.max_calls_per_answer:
        words.append(f"keeps {plural(limits.max_calls_per_answer, 'call')} per answer")
    if limits.max_parallel != usual.max_parallel:
        words.append(f"{limits.max_parallel} at once")
    if limits.max_run_tokens:
        words.append(f"{limits.max_run_tokens:,} tokens")
    if limits.max_cost:
        words.append(money(limits.max_cost))
    if limits.max_minutes:
        words.append(f"{_plain_number(limits.max_minutes)} min")
    if limits.max_repeats != usual.max_repeats:
        repeats = f"{limits.max_repeats} repeats"
        words.append(repeats if limits.max_repeats else "unlimited repeats")
    if not limits.continue_on_error:
        words.append("pauses at errors")
    return " · ".join(words)


def money(dollars: float) -> str:
    """`$0.50`, `$0.0123`, `under $0.0001`."""
    if 0 < dollars < 0.00005:
        return "under $0.0001"
    text = f"{dollars:,.4f}"
    return "$" + text[:-2] + text[-2:].rstrip("0")


def spent_words(session: Session) -> str:
    """What the run used so far, with those of its limits that are set: `3 of 10 turns · 4,210
    tokens · $0.012 of $0.50`; "" if nothing was sent yet."""
    return " · ".join(_spent_parts(session))


def _spent_parts(session: Session) -> Iterator[str]:
    settings, run = session.settings, session.run
    if settings is None or not run:
        return
    limits, asked = settings.limits, sum(not turn.dropped for turn in run)
    if session.tapped is not None:  # our limits do not apply to an agent
        yield plural(asked, "turn")
    else:
        yield f"{asked} of {plural(limits.max_turns, 'turn')}{run_start_words(session)}"
    closed = [turn for turn in run if not turn.open]
    used = [turn_tokens(turn) for turn in closed]
    total = sum(tokens or 0 for tokens in used)
    if total or limits.max_run_tokens:
        bound = f" of {limits.max_run_tokens:,}" if limits.max_run_tokens else ""
        known = total > 0 or None not in used
        yield (
            f"{_at_least_prefix(used, total)}{total:,}{bound} tokens" if known else "tokens unknown"
        )
    costs = [turn_cost(turn) for turn in closed]
    paid = sum(cost or 0.0 for cost in costs)
    if paid or limits.max_cost:
        bound = f" of {money(limits.max_cost)}" if limits.max_cost else ""
        known = paid > 0 or None not in costs
        cost_words = (
            f"{_at_least_prefix(costs, paid)}{money(paid)}{bound}" if known else "cost unknown"
        )
        yield cost_words + (
            ", limit can't be enforced" if limits.max_cost and None in costs else ""
        )


def _at_least_prefix(counted: Sequence[float | None], total: float) -> str:
    return "at least " if total and None in counted else ""


def counts_no_tokens(session: Session) -> bool:
    """Whether the last complete answer of the current model reported no tokens."""
    for turn in reversed(session.turns):
        if turn.end is not None:
            same = turn.settings.profile == getattr(session.settings, "profile", None)
            return same and turn_tokens(turn) is None
    return False


@dataclass(frozen=True)
class Pause:
    """Why the run is paused, and which buttons there are. `raises` is the setting that Continue can
    raise to `value`; "" if there is none."""

    title: str
    sentence: str
    raises: str = ""
    value: str = ""
    field: Field | None = None
    forgives: bool = False


def pause(session: Session) -> Pause | None:
    """The notice at the end of the flow; None while the run is going or is over."""
    if session.paused:
        title, usual = _WORDS.get(session.paused, ("Paused", "Press Continue to go on."))
        sentence = session.paused_because or usual
        raises, field = _RAISED.get(session.paused, ("", None))
        value = _raised_limit(session, raises, field) if field is not None else ""
        forgives = session.paused == "error"
        return Pause(
            title,
            sentence=sentence,
            raises=raises if value else "",
            value=value,
            field=field,
            forgives=forgives,
        )
    still_open = session.call_groups.calls_in("undone") if session.stopped else []
    if not still_open or session.tapped is not None:
        return None
    count = f"{plural(len(still_open), 'call')} {'is' if len(still_open) == 1 else 'are'} open"
    rule = next((call.stopped_by for call in still_open if call.stopped_by), "")
    by = f"The rule “{rule}” stopped the run here" if rule else "You stopped the run"
    return Pause("Stopped", f"{by}; {count}. Press Continue to decide them.")


def paused_words(name: str) -> str:
    """The head's words for a pause: `paused: the limit of turns is reached`."""
    title, _ = _WORDS.get(name, (name, ""))
    return title.lower() if name == "restart" else f"paused: {title[:1].lower()}{title[1:]}"


def _raised_limit(session: Session, name: str, field: Field) -> str:
    """Twice the current limit, so that the run may use the same amount again."""
    value: float = getattr(session.settings.limits, name) if session.settings is not None else 0
    return _plain_number(min(2 * value, field.most)) if 0 < value < field.most else ""


def _plain_number(value: float) -> str:
    """A number as a user types it: no exponent, no trailing zeros."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Bounds:
    """The limits in Setup: all in one line, which of them cannot be enforced, and why a limit of
    money or tokens could not."""

    summary: str
    money: str
    tokens: str
    broken: str = ""


def bounds(session: Session, unpriced: str) -> Bounds:
    """`unpriced` says why the model's answers have no price, "" if they have one."""
    assert session.settings is not None
    limits = session.settings.limits
    uncounted = "The last answer reported no token counts."
    uncounted = uncounted if counts_no_tokens(session) else ""
    broken = []
    if limits.max_cost and unpriced:
        broken.append("cost")
    if limits.max_run_tokens and uncounted:
        broken.append("token")
    broken_limits = f"can't enforce {' and '.join(broken)} limit" if broken else ""
    return Bounds(limits_summary(limits), unpriced, uncounted, broken_limits)
