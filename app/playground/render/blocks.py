"""Blocks: the parts of the page that an event changes, and how each part is drawn.

Theory of operation. The page is a tree of blocks. Every block has an id that never changes and one
template, `templates/_NAME.html`, whose single root element has that id; its content depends only on
the View. So there is one renderer and three ways to use it:

the page     block(page) for every block
the stream   events since the cursor -> touched -> pieces -> frame
the replay   the same, by the clock (replay.py)

`touched` names the blocks an event changes: `new` ones (with the parent they are appended to),
`changed` ones (drawn again and morphed), and `grown` ones (a text that got longer: only the
addition is sent). Touches of many events are merged: a block inside another block that is drawn
anyway is dropped, so a slow reader gets fewer and larger frames and ends with the same page. The
given session may be newer than the event: all numbers are looked up by the event's place in the
log. A turn with many calls shows only some of them (paging.py): an event of a hidden call touches
more-N, which counts them. The page of a long session does not have all blocks at first: an empty
element with the id of each missing prompt-N, turn-N and wire-N holds its place, and the page
requests the block when a frame would change it (static/later.js).

head  bar  dock  tasks  list  pause
flow  > prompt-N, mark-N
      > turn-N > turnhead-N, parts-N > part-N-I | call-N-I > text-N-I, sofar-N-I, prefix-N-I,
                                 doubt-N-I, progress-N-I, output-N-I > print-N-I,
                                 result-N-I, real-N-I, later-N-I
                 more-N, turnfoot-N
wire  > wire-N > wirehead-N, wirerows-N > wirerow-N-K
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, assert_never

from jinja2 import Environment
from markupsafe import Markup

from playground.core.events import (
    AnswerPassed,
    CallChecked,
    CallDecided,
    CallDoubted,
    CallEnded,
    CallExtended,
    CallInterrupted,
    CallProgressed,
    CallReturned,
    CallStarted,
    ClientGone,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestReceived,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionForked,
    SessionStarted,
    SettingsChanged,
    TaskEnded,
    TaskStarted,
    TurnDropped,
    Warned,
)
from playground.core.session import Mark, Part, Prompt, Session, Turn
from playground.render import paging
from playground.render.block_contents import block_template
from playground.render.call_status import call_block, calls_behind, has_progress
from playground.render.filters import show_hidden
from playground.render.paging import (
    CallsShown,
    all_calls,
    calls_of,
    end_of,
    has_hidden_text,
    rounded_length,
)
from playground.render.view import View

How = Literal["new", "changed", "grown"]
TextGrowth = tuple[str, int, int, str, int, str] | tuple[str, int, int, str, int, str, str]
"""(element id, from, to, shown text, deltas so far, block id); lengths in code points, raw. If
blocks of Markdown were completed, their HTML is the last item, and the text is what follows them.
"""

_PART = re.compile(r"(?:call|part|text|sofar|prefix|doubt|progress|output|print)-([0-9]+)-([0-9]+)")

_RANK = {"new": 0, "changed": 1, "grown": 2}
_STATE = ("head", "dock", "list", "pause")
_RUN = ("head", "dock", "bar", "list", "pause")


@dataclass(frozen=True)
class Touch:
    """Block `id` is new in `parent`, changed, or grown."""

    id: str
    how: How
    parent: str = ""


@dataclass(frozen=True)
class PageFrame:
    """One step of the page: `html` first, then `grow`."""

    html: str
    grow: list[TextGrowth]

    @property
    def empty(self) -> bool:
        return not self.html and not self.grow


def block(env: Environment, view: View, block_id: str) -> str:
    """The HTML of one block; NotFound if the session has no such block."""

    def nested(inner: str) -> Markup:
        return Markup(block(env, view, inner))

    template, values = block_template(view, block_id)
    html = env.get_template(template).render(view=view, id=block_id, block=nested, **values)
    return html.strip()


def changed_blocks(
    logged: Logged, session: Session, most: CallsShown = all_calls
) -> tuple[Touch, ...]:
    """The blocks that `logged` changes. `session` is at the event or later; `most` gives the number
    of calls shown of a turn."""
    return tuple(_visible_touches(session, _event_touches(logged, session, most), most))


def _visible_touches(
    session: Session, touches: Iterable[Touch], most: CallsShown
) -> Iterator[Touch]:
    """The touches without those of hidden blocks."""
    for touch in touches:
        match = _PART.fullmatch(touch.id)
        if match is None or int(match[2]) < end_of(session.turns[int(match[1]) - 1], most):
            yield touch
        else:
            yield Touch(f"more-{match[1]}", "changed")


def pieces(touches: Iterable[Touch]) -> list[Touch]:
    """The merged touches: new blocks first, then changed, then grown; nothing drawn twice."""
    united: dict[str, Touch] = {}
    for touch in touches:
        before = united.get(touch.id)
        if before is None or _RANK[touch.how] < _RANK[before.how]:
            united[touch.id] = touch
    whole = {touch.id for touch in united.values() if touch.how != "grown"}
    outer = [touch for touch in united.values() if not any(a in whole for a in ancestors(touch.id))]
    return sorted(outer, key=lambda touch: _RANK[touch.how])


def frame(
    env: Environment,
    view: View,
    events: Sequence[Logged],
    wire_since: int | None = None,
    leave: frozenset[str] = frozenset(),
    late: Iterable[str] = (),
) -> PageFrame:
    """Updates a page from before `events` to `view`, whose session has applied them all.

    `wire_since` is the version of `view.wire` that the page shows; None leaves the wire unchanged.
    `leave` are ids of blocks not to draw. `late` are ids of blocks that were skipped this way
    before, or named by `text_growth`, and have not been drawn since.
    """
    touches = [
        touch
        for logged in events
        for touch in changed_blocks(logged, view.session, view.calls_shown)
    ]
    touches.extend(late_touches(view.session, late))
    if wire_since is not None:
        touches.extend(_wire_touches(view, wire_since))
    hidden = leave if view.rows is not None else leave | {"list"}
    touches = _limit_growth(view, events, touches)
    steps = pieces(touch for touch in touches if touch.id not in hidden)
    html = frame_html(env, view, (step for step in steps if step.how != "grown"))
    grown = {step.id for step in steps if step.how == "grown"}
    return PageFrame(html, list(_grow(view.session, events, grown)) if grown else [])


def text_growth(
    session: Session, events: Sequence[Logged], most: CallsShown
) -> tuple[list[TextGrowth], set[str]] | None:
    """The growth of texts if all `events` are deltas of open parts that are shown, plus the other
    blocks about these parts; None if the events touch anything else."""
    turn = session.turn
    if turn is None:
        return None
    end, ids, late = end_of(turn, most), set[str](), set[str]()
    for logged in events:
        if not isinstance(logged.event, PartDelta) or logged.seq < turn.seq:
            return None
        index = logged.event.index
        part = turn.parts[index]
        if part.ended or part.length > paging.PORTION or index >= end:
            return None
        ids.add(f"text-{turn.number}-{index}")
        if part.kind == "call":
            late.add(f"prefix-{turn.number}-{index}")
    return list(_grow(session, events, ids)), late


def late_touches(session: Session, late: Iterable[str]) -> Iterator[Touch]:
    """The blocks of `late` that still exist: a part that has ended has none."""
    for block_id in late:
        if block_id == "bar":
            yield Touch(block_id, "changed")
            continue
        _, turn, index = block_id.split("-")
        part = session.turns[int(turn) - 1].parts[int(index)]
        if not part.ended and part.length <= paging.PORTION:
            yield Touch(block_id, "changed")


def frame_html(env: Environment, view: View, steps: Iterable[Touch]) -> str:
    """New and changed blocks as the partials that htmx swaps in."""
    return "".join(
        f'<hx-partial hx-target="#{step.parent if step.how == "new" else step.id}" '
        f'hx-swap="{"beforeend" if step.how == "new" else "outerMorph"}">'
        f"{block(env, view, step.id)}</hx-partial>"
        for step in steps
    )


def ancestors(block_id: str) -> Iterator[str]:
    """The ids of the possible ancestors of `block_id`, innermost first."""
    name, _, rest = block_id.partition("-")
    number, _, _ = rest.partition("-")
    match name:
        case (
            "text" | "sofar" | "prefix" | "doubt" | "progress" | "output" | "result" | "real"
            | "later"
        ):  # fmt: skip
            yield from (f"part-{rest}", f"call-{rest}")
            yield from (f"parts-{number}", f"turn-{number}", "flow")
        case "print":
            yield from (f"output-{rest}", f"call-{rest}")
            yield from (f"parts-{number}", f"turn-{number}", "flow")
        case "part" | "call":
            yield from (f"parts-{number}", f"turn-{number}", "flow")
        case "turnhead" | "parts" | "more" | "turnfoot":
            yield from (f"turn-{number}", "flow")
        case "turn" | "prompt" | "mark":
            yield "flow"
        case "wirerow":
            yield from (f"wirerows-{number}", f"wire-{number}", "wire")
        case "wirehead" | "wirerows":
            yield from (f"wire-{number}", "wire")
        case "wire" if number:
            yield "wire"


def _event_touches(logged: Logged, session: Session, most: CallsShown) -> Iterator[Touch]:
    event = logged.event
    match event:
        case SessionStarted():
            yield from _mark_changed(*_STATE)
        case SessionForked():
            yield from _mark_changed(*_RUN, "flow", "tasks")
        case SettingsChanged():
            # Waiting calls show how many calls may run, and how many at once.
            yield from _mark_changed(
                *_STATE, *_open_blocks(_turn_before(session, logged.seq), most)
            )
        case PromptAdded():
            prompt = _prompt_at(session, logged.seq)
            yield Touch(f"prompt-{prompt.number}", "new", "flow")
            yield from _mark_changed(*_RUN, *_open_blocks(_turn_before(session, logged.seq), most))
        case RequestSent():
            yield Touch(f"turn-{event.recording}", "new", "flow")
            yield from _mark_changed(
                *_RUN, *_open_blocks(_turn_before(session, logged.seq - 1), most)
            )
        case ResponseStarted():
            yield from _turn_touches(session, logged, "turnhead", "turnfoot")
        case PartStarted(index=index):
            turn = _turn_at(session, logged.seq)
            new = part_block(turn, turn.parts[index])
            yield Touch(new, "new", f"parts-{turn.number}")
            yield from _mark_changed(
                "head", "bar", f"turnhead-{turn.number}", f"turnfoot-{turn.number}"
            )
        case PartDelta(index=index):
            yield from _delta(_turn_at(session, logged.seq), index)
        case CallDoubted(index=index):
            turn = _turn_at(session, logged.seq)
            part = turn.parts[index]
            ended = part_block(turn, part) if part.ended else ""
            yield Touch(ended or f"doubt-{turn.number}-{index}", "changed")
        case PartEnded(index=index):
            turn = _turn_at(session, logged.seq)
            yield from _mark_changed("head", "bar", part_block(turn, turn.parts[index]))
        case ResponseEnded() | ResponseFailed():
            turn = _turn_at(session, logged.seq)
            yield from _turn_touches(session, logged, "turnhead", "turnfoot")
            cards = (part_block(turn, call.part) for call in calls_of(turn, most))
            yield from _mark_changed(*_RUN, f"more-{turn.number}", *cards)
        case Warned() if (mark := _mark_at(session, logged.seq)) is not None:
            yield Touch(f"mark-{mark.number}", "new", "flow")
        case Warned():
            if _turn_before(session, logged.seq) is not None:
                yield from _turn_touches(session, logged, "turnfoot")
        case (
            CallChecked() | CallDecided() | CallReturned() | CallStarted() | CallEnded()
            | CallInterrupted()
        ):  # fmt: skip
            number = event.call_id.split(".")[0]
            yield from _mark_changed(*_RUN, call_block(event.call_id), f"turnfoot-{number}")
            checked = isinstance(event, CallChecked)
            yield from _mark_changed(*_waiting_cards(session, event.call_id, most, checked=checked))
            if isinstance(event, CallDecided) and event.where == "agent" and not session.waits:
                # No call of its turn waits for another one any more.
                yield from _mark_changed(*_open_blocks(session.turns[int(number) - 1], most))
        case TaskStarted(task_id=task_id) | TaskEnded(task_id=task_id):
            task = session.tasks.get(task_id)  # None where a fork reopened its call
            goes_on = task is not None and task_id == session.by_call[task.call].task_id
            yield from _mark_changed("tasks", *((task_id,) if goes_on else ()))
        case CallProgressed() | CallExtended():
            yield from _progress_touches(session, logged.seq, event)
        case RunPaused() | RunResumed() | RunStopped():
            yield from _mark_changed(*_RUN, *_open_blocks(_turn_before(session, logged.seq), most))
        case RetryScheduled(turn=number):
            yield from _mark_changed(*_RUN, f"turnfoot-{number}")
        case RequestReceived():
            yield from _mark_changed(
                *_STATE, *_open_blocks(_turn_before(session, logged.seq), most)
            )
        case AnswerPassed() | ClientGone():
            yield from _mark_changed(*_RUN, *_open_blocks(_turn_before(session, logged.seq), most))
        case TurnDropped(turn=number):
            before = session.turns[number - 2] if number > 1 else None
            yield from _mark_changed(*_RUN, f"turn-{number}", *_open_blocks(before, most))
        case _:
            assert_never(event)


def _mark_changed(*ids: str) -> Iterator[Touch]:
    return (Touch(block_id, "changed") for block_id in ids)


def _turn_touches(session: Session, logged: Logged, *names: str) -> Iterator[Touch]:
    number = _turn_at(session, logged.seq).number
    return _mark_changed(*(f"{name}-{number}" for name in names))


def _delta(turn: Turn, index: int) -> Iterator[Touch]:
    part = turn.parts[index]
    if part.ended:
        # The session is newer than the event: the text that grew is a complete block by now.
        yield Touch(part_block(turn, part), "changed")
        return
    yield Touch(f"text-{turn.number}-{index}", "grown")
    if part.kind == "call":
        yield Touch(f"prefix-{turn.number}-{index}", "changed")


def _limit_growth(view: View, events: Sequence[Logged], touches: list[Touch]) -> list[Touch]:
    """The touches, except that a text longer than its first portion no longer grows: the step in
    which it crosses that length draws its block, later ones only update its size now and then."""
    gained: dict[tuple[int, int], int] = {}
    for logged in events:
        if isinstance(logged.event, PartDelta):
            turn, index = _turn_at(view.session, logged.seq), logged.event.index
            if has_hidden_text(view, turn.parts[index]):
                place = turn.number, index
                gained[place] = gained.get(place, 0) + len(logged.event.text)
    if not gained:
        return touches
    silent = {f"{name}-{n}-{i}" for n, i in gained for name in ("text", "prefix")}
    shown = [touch for touch in touches if touch.id not in silent]
    for (number, index), count in gained.items():
        part = view.session.turns[number - 1].parts[index]
        before = part.length - count
        if before <= paging.PORTION:
            shown.append(Touch(part_block(view.session.turns[number - 1], part), "changed"))
        elif rounded_length(before) != rounded_length(part.length):
            shown.append(Touch(f"sofar-{number}-{index}", "changed"))
    return list(_visible_touches(view.session, shown, view.calls_shown))


def _progress_touches(
    session: Session, seq: int, event: CallProgressed | CallExtended
) -> Iterator[Touch]:
    """Its status words are drawn again, its printed output grows; if the session is newer than the
    event and the call is over, the whole card is drawn."""
    call, block_id = session.by_call[event.call_id], call_block(event.call_id)
    if isinstance(event, CallProgressed) and event.real is not None and call.at_agent:
        yield from _mark_changed(*_RUN, block_id)  # its result waits for the user
        return
    if not has_progress(session, call):
        yield Touch(block_id, "changed")
        return
    yield Touch(block_id.replace("call-", "progress-"), "changed")
    printed = isinstance(event, CallProgressed) and bool(event.output)
    if printed and seq <= call.cut_seq:
        yield Touch(block_id.replace("call-", "output-"), "changed")
    elif printed:
        yield Touch(block_id.replace("call-", "print-"), "grown")


def _open_blocks(turn: Turn | None, most: CallsShown) -> Iterator[str]:
    """The blocks of the last turn that look different once the run continues, stops or pauses."""
    if turn is None:
        return
    yield from (f"turnfoot-{turn.number}", f"more-{turn.number}")
    for call in calls_of(turn, most):
        if call.status != "done":
            yield part_block(turn, call.part)


def _waiting_cards(
    session: Session, call_id: str, most: CallsShown, *, checked: bool
) -> Iterator[str]:
    """The cards that state what they wait for, and may state something else now."""
    call = session.by_call[call_id]
    turn = session.turns[call.turn - 1]
    shown = calls_of(turn, most)
    return (part_block(turn, other.part) for other in calls_behind(shown, call, checked=checked))


def _wire_touches(view: View, since: int) -> Iterator[Touch]:
    for section, row, new in view.wire.changes_since(since):
        number = section.number
        if row is None:
            kind = "wire" if new else "wirehead"
            yield Touch(f"{kind}-{number}", "new" if new else "changed", "wire" if new else "")
        else:
            block_id = f"wirerow-{number}-{row.number}"
            parent = f"wirerows-{number}" if new else ""
            yield Touch(block_id, "new" if new else "changed", parent)


def _grow(session: Session, events: Sequence[Logged], ids: set[str]) -> Iterator[TextGrowth]:
    """The growth of each text. Counted back from its end, where `events` ended."""
    gained: dict[str, list[str]] = {}
    ends: dict[str, tuple[int, int, str, Part | None]] = {}
    for logged in events:
        event, part = logged.event, None
        match event:
            case PartDelta(index=index, text=text):
                turn = _turn_at(session, logged.seq)
                part = turn.parts[index]
                element, end = f"text-{turn.number}-{index}", (part.length, part.deltas)
                block_id = part_block(turn, part)
            case CallProgressed(call_id=call_id, output=text):
                block_id = call_block(call_id)
                element = block_id.replace("call-", "print-")
                end = (session.by_call[call_id].printed, 0)
            case _:
                continue
        if element in ids:
            gained.setdefault(element, []).append(text)
            ends[element] = (*end, block_id, part)
    for element, texts in gained.items():
        length, deltas, block_id, part = ends[element]
        text = "".join(texts)
        before = length - len(text)
        if part is not None and part.kind in paging.PROSE:
            blocks = paging.text_blocks(part)
            first = bisect_right(blocks.done, before, key=itemgetter(0))
            if closed := blocks.done[first:]:
                html = "".join(html for _, html in closed)
                yield element, before, length, show_hidden(blocks.open), deltas, block_id, html
                continue
        yield element, before, length, show_hidden(text), deltas, block_id


def part_block(turn: Turn, part: Part) -> str:
    return f"{'call' if part.kind == 'call' else 'part'}-{turn.number}-{part.index}"


def _turn_at(session: Session, seq: int) -> Turn:
    turn = _turn_before(session, seq)
    assert turn is not None
    return turn


def _turn_before(session: Session, seq: int) -> Turn | None:
    """The last turn that had begun at event `seq`."""
    place = bisect_right(session.turns, seq, key=lambda turn: turn.seq)
    return session.turns[place - 1] if place else None


def _mark_at(session: Session, seq: int) -> Mark | None:
    return next((mark for mark in reversed(session.marks) if mark.seq == seq), None)


def _prompt_at(session: Session, seq: int) -> Prompt:
    return next(i for i in reversed(session.items) if isinstance(i, Prompt) and i.seq == seq)
