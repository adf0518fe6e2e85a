"""A session as it is compared: frozen values that nobody changes any more, and what it took.

Turns that were dropped belong to no history and are not lined up; what they took counts all the
same. Time is that of a model or a tool at work, never a person's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.core.events import Usage
from app.core.limits import tokens, turn_cost
from app.core.session import Call, Prompt, Session, SessionState, Turn
from app.core.settings import Settings
from app.core.tools import Content, ToolChoice, ToolResult


@dataclass(frozen=True)
class Measure:
    """What something took: `busy_ms` of work (side by side counts once), tokens `read` and
    `written`, `cost` in US dollars. `uncounted` and `unpriced` turns are not in these sums, for
    nobody said what they took: where there are such, a sum is less than the truth."""

    turns: int = 0
    calls: int = 0
    busy_ms: int = 0
    read: int = 0
    written: int = 0
    cost: float = 0.0
    uncounted: int = 0
    unpriced: int = 0


@dataclass(frozen=True)
class Made:
    """A call. `arguments` is the text that ran or would have; `edited`: a person wrote it."""

    id: str
    turn: int
    name: str
    arguments: str
    edited: bool
    status: str
    denied: bool
    result: ToolResult | None


@dataclass(frozen=True)
class Asked:
    """A prompt."""

    number: int
    seq: int
    text: str
    images: tuple[Content, ...] = ()


@dataclass(frozen=True)
class Answered:
    """A turn. `ended` is its finish reason, `failed`, or "" while it is open; `error` says why it
    failed, in a sentence. `settings` and `choice` are those it was asked with."""

    number: int
    seq: int
    model: str
    settings: Settings
    choice: ToolChoice
    text: str
    ended: str
    raw_reason: str
    error: str
    calls: tuple[Made, ...]
    took: Measure


Item = Asked | Answered


@dataclass(frozen=True)
class Side:
    """A session: its history, and what it took in all, of which `dropped` turns are not in the
    history. `lineage` are (session, seq): the log up to `seq` is that of `session`, its own id
    first."""

    id: str
    title: str
    state: SessionState
    model: str
    items: tuple[Item, ...]
    took: Measure
    dropped: int = 0
    lineage: tuple[tuple[str, int], ...] = field(default=())
    profile: str = ""


def side(session: Session, title: str = "") -> Side:
    """`session` as it stands."""
    kept = [item for item in session.items if isinstance(item, Prompt) or not item.dropped]
    settings = session.settings
    return Side(
        session.id,
        title,
        session.state,
        model_of(settings) if settings is not None else "",
        tuple(_asked(one) if isinstance(one, Prompt) else _answered(one) for one in kept),
        total(_took(turn) for turn in session.turns),
        sum(turn.dropped for turn in session.turns),
        tuple(_lineage(session)),
        settings.profile.name if settings is not None else "",
    )


def model_of(settings: Settings) -> str:
    """The model that is asked, or the profile where it names none."""
    return settings.model or settings.profile.model or settings.profile.name


def total(parts: Iterator[Measure] | Sequence[Measure]) -> Measure:
    """The sum of `parts`."""
    kept = list(parts)
    return Measure(
        sum(one.turns for one in kept),
        sum(one.calls for one in kept),
        sum(one.busy_ms for one in kept),
        sum(one.read for one in kept),
        sum(one.written for one in kept),
        sum(one.cost for one in kept),
        sum(one.uncounted for one in kept),
        sum(one.unpriced for one in kept),
    )


def _lineage(session: Session) -> Iterator[tuple[str, int]]:
    yield session.id, session.seq
    for _, event in reversed(session.forks):
        yield event.parent, event.parent_seq


def _asked(prompt: Prompt) -> Asked:
    return Asked(prompt.number, prompt.seq, prompt.text, prompt.images)


def _answered(turn: Turn) -> Answered:
    end, failure = turn.end, turn.failure
    closed = end or failure
    return Answered(
        turn.number,
        turn.seq,
        turn.request.model or model_of(turn.settings),
        turn.settings,
        turn.request.choice,
        turn.text,
        end.reason if end is not None else "failed" if failure is not None else "",
        closed.raw_reason if closed is not None else "",
        failure.message if failure is not None else "",
        tuple(_made(call) for call in turn.calls),
        _took(turn),
    )


def _made(call: Call) -> Made:
    decided = call.decided
    edited = decided is not None and decided.arguments is not None
    denied = decided is not None and decided.decision == "deny"
    return Made(
        call.id, call.turn, call.name, call.arguments, edited, call.status, denied, call.result
    )


def _took(turn: Turn) -> Measure:
    counted = _counted(turn)
    cost = turn_cost(turn) if not turn.open else None
    read, written = counted if counted is not None else (0, 0)
    return Measure(
        1, len(turn.calls), _busy_ms(turn), read, written, cost or 0.0,
        int(counted is None), int(cost is None),
    )  # fmt: skip


def _counted(turn: Turn) -> tuple[int, int] | None:
    """Tokens read and written, what was cached and thought among them; None where not known."""
    closed = turn.end or turn.failure
    if closed is None:
        return None
    if turn.end is None and not turn.parts:
        return 0, 0  # what failed before any output took nothing
    usage: Usage = closed.usage
    everything = tokens(turn.request.protocol, usage)
    if everything is None:
        return None
    read = usage.input_tokens or 0
    if turn.request.protocol == "anthropic":  # its input_tokens are those beside the cache
        read += (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
    return read, everything - read


def _busy_ms(turn: Turn) -> int:
    spans = [(turn.sent_ms, turn.closed_ms)] if turn.closed_ms is not None else []
    for call in turn.calls:
        if call.started_ms is not None and call.ended_ms is not None:
            spans.append((call.started_ms, call.ended_ms))
    worked, reached = 0, 0
    for start, end in sorted(spans):
        worked += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return worked
