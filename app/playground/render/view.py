"""The input of rendering: a View for the blocks of a session, a context for each page.

The look of a block depends only on its View. Reads no clock and writes no HTML; `now_ms` is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from playground.core.decide import doubled_ids, may_run_unseen
from playground.core.providers import agent_title
from playground.core.session import Call, Session, SessionState
from playground.core.settings import Settings, model_of
from playground.render import paging
from playground.render.call_status import needs
from playground.render.filters import clip, one_line, plural
from playground.render.limit_words import paused_words
from playground.render.paging import ShownCounts, Upto, calls_of, format_shown, query_of
from playground.render.replay_timeline import ReplayMoment
from playground.render.wire_rows import WireRows
from playground.store.search import ExcerptPart

SHOWN_ARGUMENTS = 16_000
"""Characters of arguments a card shows; before a longer call runs, a user must open the rest."""

DEEPEST = 3
"""The maximum indentation of rows in the list; deeper ones are indented as far."""

AGES = (("Last 24 hours", 86_400_000), ("Last 7 days", 604_800_000), ("Older", None))
"""The sections of the list, and their maximum age in ms; the last has none."""


@dataclass(frozen=True)
class SessionRow:
    """A session in the list. `calls` counts all of them, `waiting` those that need a user; `parent`
    is the session it was forked from. `agent` is the name of the agent that runs it, "" if none
    does, and `above` that agent's main session, under which it is listed. In search results,
    `excerpt` is the match and `place` the block that shows it."""

    id: str
    title: str
    state: SessionState
    updated_ms: int
    model: str = ""
    calls: int = 0
    waiting: int = 0
    pinned: bool = False
    archived: bool = False
    tags: tuple[str, ...] = ()
    parent: str = ""
    place: str = ""
    excerpt: Sequence[ExcerptPart] = ()
    agent: str = ""
    above: str = ""

    @property
    def query(self) -> str:
        """The query of its address that is needed to show `place`."""
        return query_of(self.place)

    @property
    def words(self) -> str:
        """The second line of the row: first what needs the user, for the end of a line is cut."""
        last = {
            "running": "running",
            "paused": "paused",
            "waiting": f"{self.waiting} waiting" if self.waiting else "waiting",
            "failed": "failed",
            "interrupted": "interrupted",
            "idle": "",
        }[self.state]
        calls = plural(self.calls, "call") if self.calls else ""
        agent = clip(one_line(self.agent), 40)
        return " · ".join(word for word in (last, agent, self.model, calls) if word)

    @property
    def busy(self) -> bool:
        """Whether it is running or needs a user."""
        return self.state in ("running", "waiting", "paused")


@dataclass(frozen=True)
class View:
    """One session as a page, a stream, a replay or a file shows it.

    `live`: a server backs it, so forms work. `replay`: it shows the past. `own`: it was made here
    and may be changed. `expanded`: ids of the blocks whose long arguments or text are shown whole.
    `rows` is the list next to it, None if there is none. `unasked` says in few words what runs here
    without asking; rules are not events, so a stream queries it itself. `played` is the position of
    a page without a script in a replay. `pinned`, `archived` and `tags` were set by the user; they
    are not events either. `shown` is how many calls of long turns are shown, `upto` how much of
    long texts; `framed`: it is a column of another page. `stops_at` says which of an agent's calls
    wait here, "" if its tap is not in use; it is not an event either.
    """

    session: Session
    title: str
    wire: WireRows
    now_ms: int
    live: bool = True
    replay: bool = False
    own: bool = True
    expanded: frozenset[str] = frozenset()
    rows: Sequence[SessionRow] | None = None
    unasked: tuple[str, ...] = ()
    played: ReplayMoment | None = None
    pinned: bool = False
    archived: bool = False
    tags: tuple[str, ...] = ()
    shown: ShownCounts = field(default_factory=dict)
    upto: Upto = field(default_factory=dict)
    framed: bool = False
    stops_at: str = ""

    def calls_shown(self, number: int) -> int:
        """The number of calls shown of turn `number`."""
        most = paging.most_of(self.shown) if self.live else paging.all_calls
        return most(number)

    @property
    def cards(self) -> str:
        """The `shown` selection, for an address."""
        return format_shown(self.shown)

    @property
    def acts(self) -> bool:
        """Whether buttons are shown."""
        return self.live and self.own and not self.replay

    @property
    def ours(self) -> bool:
        """Whether buttons are shown that ask or run something here. A session that an agent runs
        has none of these; it is stopped, forked and organised like any other."""
        return self.acts and self.session.tapped is None

    @property
    def decides(self) -> bool:
        """Whether calls are decided here: ours, and those that are held for an agent."""
        turn = self.session.turn
        if self.acts and self.session.call_groups.count("held"):
            return True
        return self.ours or (self.acts and turn is not None and turn.holds)

    @property
    def agent(self) -> str:
        """The name of the agent that runs it, "" if none does."""
        tapped = self.session.tapped
        return clip(one_line(agent_title(tapped.agent)), 40) if tapped is not None else ""

    @property
    def settings(self) -> Settings:
        assert self.session.settings is not None
        return self.session.settings

    @property
    def model(self) -> str:
        return model_of(self.settings)


def state_words(session: Session) -> str:
    """What the session is doing or needs, for the head: `2 calls need approval`."""
    match session.state:
        case "running":
            return _running_words(session)
        case "paused":
            return paused_words(session.paused)
        case "waiting":
            return needs(session.waiting, held=session.tapped is not None)
        case "failed":
            return "failed"
        case "interrupted":
            return "stopped" if session.stopped else "interrupted"
        case "idle":
            return "done" if session.turns else "new"


def _running_words(session: Session) -> str:
    turn = session.turn
    if session.retrying is not None:
        return "waiting to retry"
    if turn is None:
        return "starting"
    if turn.open:
        part = next((part for part in reversed(turn.parts) if not part.ended), None)
        if part is not None:
            return {"thinking": "thinking", "call": "calling a tool"}.get(part.kind, "streaming")
        return "streaming" if turn.parts else "waiting for the model"
    running = [call.name for call in turn.call_groups.calls_in("running")]
    words = f"running {running[0]}" if len(running) == 1 else f"{len(running)} calls run"
    if not running:
        words = "working"
    elif session.tapped is not None:
        words += " at the agent"
    if not session.waits:
        return words
    return f"{words} · {needs(session.waiting, held=session.tapped is not None)}"


def busy_words(session: Session) -> str:
    """Why a running session accepts no message: `the model is answering`, `look_up runs`."""
    if session.retrying is not None:
        return "waiting to try again"
    running = [call.name for call in session.call_groups.calls_in("running")]
    if not running:
        return "the model is answering"
    return (
        f"{clip(one_line(running[0]), 40)} runs"
        if len(running) == 1
        else f"{len(running)} calls run"
    )


def runnable_at_once(view: View) -> list[Call]:
    """The waiting calls that one key may run together: their cards are shown, they are valid, and
    need no second click."""
    session = view.session
    if not session.waits:
        return []
    turn = session.turns[session.current_calls[0].turn - 1]
    doubled = doubled_ids(turn)
    return [
        call
        for call in calls_of(turn, view.calls_shown)
        if call.status == "waiting"
        and may_run_unseen(session.turns[call.turn - 1], call)
        and call.provider_id not in doubled
        and len(call.judged) <= SHOWN_ARGUMENTS
    ]


def nest_forks(rows: Iterable[SessionRow]) -> list[tuple[SessionRow, int]]:
    """The rows, each fork below the row of its parent if that is listed, with its depth. A family
    takes the place of its first row."""
    rows = list(rows)
    known = {row.id: row for row in rows}
    below: dict[str, list[SessionRow]] = {}
    for row in rows:
        if row.parent in known:
            below.setdefault(row.parent, []).append(row)
    placed: list[tuple[SessionRow, int]] = []
    seen: set[str] = set()
    for row in rows:
        stack = [(_oldest_ancestor(row, known), 0)]
        while stack:
            placed_row, depth = stack.pop()
            if placed_row.id not in seen:
                seen.add(placed_row.id)
                placed.append((placed_row, min(depth, DEEPEST)))
                stack += [(child, depth + 1) for child in reversed(below.get(placed_row.id, []))]
    return placed


@dataclass(frozen=True)
class Fold:
    """A row of the list, `depth` steps to the right, and the sessions folded below it: side
    requests of its agent, and agents that it starts."""

    row: SessionRow
    depth: int = 0
    below: Sequence[SessionRow] = ()

    @property
    def busy(self) -> str:
        """The state of the first session below that is running or needs a user, or ""."""
        return next((row.state for row in self.below if row.busy), "")


def fold_agents(rows: Iterable[SessionRow]) -> list[Fold]:
    """The rows, forks below their parents (`nest_forks`), and side requests of an agent folded
    below the main session of that agent, if that is listed."""
    rows = list(rows)
    above = {row.id: row.above for row in rows}
    tops = {row.id: _top(row.id, above) for row in rows}
    below: dict[str, list[SessionRow]] = {}
    for row in rows:
        if tops[row.id] != row.id:
            below.setdefault(tops[row.id], []).append(row)
    shown = nest_forks(row for row in rows if tops[row.id] == row.id)
    return [Fold(row, depth, tuple(below.get(row.id, ()))) for row, depth in shown]


def rows_by_age(
    rows: Iterable[SessionRow], now_ms: int
) -> Sequence[tuple[str, Sequence[SessionRow]]]:
    """The rows by section of the list. Side requests of an agent are listed with its session, whose
    age is that of the youngest of them."""
    rows = list(rows)
    above = {row.id: row.above for row in rows}
    tops = {row.id: _top(row.id, above) for row in rows}
    newest: dict[str, int] = {}
    for row in rows:
        newest[tops[row.id]] = max(row.updated_ms, newest.get(tops[row.id], 0))
    parts: list[list[SessionRow]] = [[] for _ in AGES]
    for row in rows:
        age = now_ms - newest[tops[row.id]]
        nth = next(nth for nth, (_, most) in enumerate(AGES) if most is None or age < most)
        parts[nth].append(row)
    return [(label, part) for (label, _), part in zip(AGES, parts, strict=True)]


def _top(id: str, above: Mapping[str, str]) -> str:
    """The topmost session above it; imported sessions may form a circle."""
    met = {id}
    while above.get(id, "") in above and above[id] not in met:
        id = above[id]
        met.add(id)
    return id


def _oldest_ancestor(row: SessionRow, known: Mapping[str, SessionRow]) -> SessionRow:
    """Its topmost ancestor among the rows; imported sessions may form a circle."""
    met = {row.id}
    while row.parent in known and row.parent not in met:
        row = known[row.parent]
        met.add(row.id)
    return row


def model_names(asked: Sequence[tuple[str, str]]) -> list[str]:
    """A short name for each (model, profile): its model, or else what distinguishes it."""
    models = Counter(model for model, _ in asked)
    called = [model if models[model] == 1 else profile for model, profile in asked]
    alike = Counter(called)
    return [
        f"{number}. {name}" if alike[name] > 1 else name for number, name in enumerate(called, 1)
    ]
