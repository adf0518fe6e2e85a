"""What each block shows: its template and the values it needs, looked up by the block's id.

The other half of blocks.py, which knows when a block is drawn; this file knows from what.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from app.core.errors import NotFound
from app.core.events import SessionForked, Warned
from app.core.session import Call, Part, Prompt, Session, Turn
from app.render import portions
from app.render.arguments import laid_out, token_length
from app.render.card import card
from app.render.cards import CARDS, parts_of, spelled, with_more
from app.render.filters import shown
from app.render.lanes import drawing
from app.render.limits import pause, spent
from app.render.logprobs import odds
from app.render.parts import block_of, cited, cited_by, sealed, served
from app.render.portions import so_far
from app.render.running import running, task_of
from app.render.staged import choices, told
from app.render.timeline import Segment, clock, segments
from app.render.view import View, busy_words, runnable_at_once, state_words
from app.schema.json_display import readable_prefix

Drawn = tuple[str, Mapping[str, Any]]

_TEMPLATES: Mapping[str, str] = {
    **dict.fromkeys(("text", "refusal"), "_text"),
    "thinking": "_thinking",
    **dict.fromkeys(("server_call", "server_result"), "_served"),
}
_ID = re.compile(r"([a-z]+)(?:-([0-9]{1,9}))?(?:-([0-9]{1,9}))?")
_OF_PARTS = frozenset(
    ("part", "call", "prefix", "doubt", "progress", "output", "sofar", "result", "real", "later")
)
_READABLE_LIMIT = 64_000
_PREFIX_LENGTH = 400


def drawn(view: View, block_id: str) -> Drawn:
    """(template, values) of a block; NotFound where the session has none of that id."""
    match = _ID.fullmatch(block_id)
    if match is None:
        raise _missing(block_id)
    name = match[1]
    numbers = [int(number) for number in match.groups()[1:] if number is not None]
    try:
        match name, numbers:
            case (("head" | "bar" | "dock" | "tasks" | "list" | "pause" | "flow" | "wire"), []):
                return _single(view, name)
            case "prompt", [number]:
                return "_prompt.html", {"prompt": _prompt(view.session, number)}
            case (("turn" | "turnhead" | "parts" | "more" | "turnfoot"), [number]):
                return _turn(view, name, _nth(view.session.turns, number - 1))
            case (name, [number, index]) if name in _OF_PARTS:
                turn = _nth(view.session.turns, number - 1)
                return _part(view, name, turn, _nth(turn.parts, index))
            case (("wire" | "wirehead" | "wirerows"), [number]):
                section = _nth(view.wire.sections, number - 1)
                template = "_wiresection" if name == "wire" else f"_{name}"
                return f"{template}.html", {
                    "section": section,
                    "turn": view.session.turns[number - 1],
                }
            case "wirerow", [number, place]:
                section = _nth(view.wire.sections, number - 1)
                return "_wirerow.html", {"section": section, "row": _nth(section.rows, place)}
    except IndexError:
        pass
    raise _missing(block_id)


def _missing(block_id: str) -> NotFound:
    return NotFound(f"This session has no block {block_id[:60]!r}. Load the page again.")


def _nth(items: list[Any], place: int) -> Any:
    if place < 0:
        raise IndexError
    return items[place]


def _single(view: View, name: str) -> Drawn:
    session = view.session
    match name:
        case "head":
            at_once = runnable_at_once(view) if view.acts else []
            words = {"words": state_words(session), "spent": spent(session)}
            return "_head.html", words | {"at_once": at_once}
        case "pause":
            return "_pause.html", {"pause": pause(session), "spent": spent(session)}
        case "bar":
            whole = view.played.whole if view.played is not None else session
            on = clock(whole)
            return "_bar.html", {"clock": on, "bar": drawing(bar_segments(whole), on.duration)}
        case "dock":
            return "_dock.html", {"busy": busy_words(session)}
        case "flow":
            return "_flow.html", {"items": _flow_items(session)}
        case _:
            return f"_{name}.html", {}


def _flow_items(session: Session) -> list[tuple[str, SessionForked | None]]:
    """(block id, None) or ("", fork) of what stands in the flow, in order."""
    items: list[tuple[int, str, SessionForked | None]]
    items = [(item.seq, _item_id(item), None) for item in session.items]
    items += [(seq, "", fork) for seq, fork in session.forks]
    return [(block_id, fork) for _, block_id, fork in sorted(items, key=lambda item: item[0])]


def _item_id(item: Prompt | Turn) -> str:
    return f"{'prompt' if isinstance(item, Prompt) else 'turn'}-{item.number}"


def _prompt(session: Session, number: int) -> Prompt:
    for item in session.items:
        if isinstance(item, Prompt) and item.number == number:
            return item
    raise IndexError


def _turn(view: View, name: str, turn: Turn) -> Drawn:
    last = turn is view.session.last_item
    values: dict[str, Any] = {"turn": turn, "last": last, "cited_by": cited_by}
    if name == "parts":
        values["parts"] = parts_of(turn, view.most)
    if name == "more":
        values |= _more(view, turn)
    if name == "turnfoot":
        notes, repeated = _notes(view.session, turn)
        meta = turn.end.meta if turn.end is not None else {}
        found = odds(meta.get("logprobs") or meta.get("logprobsResult"))
        values |= {"notes": notes, "repeated": repeated, "odds": found}
    return f"_{name}.html", values


def _more(view: View, turn: Turn) -> dict[str, Any]:
    """How many calls are not shown, how many the next click shows, and where it leads."""
    hidden = turn.calls[view.most(turn.number) :]
    where = {"shown": spelled(with_more(view.shown, turn.number))}
    if view.replay:
        where = {"at": str(view.session.seq), **where}
    waiting = sum(call.status in ("waiting", "interrupted") for call in hidden)
    last = turn is view.session.last_item and not view.session.stopped and turn.end is not None
    return {
        "hidden": len(hidden),
        "next": min(len(hidden), CARDS),
        "waiting": waiting if last else 0,
        "query": urlencode(where, safe=","),
    }


def _notes(session: Session, turn: Turn) -> tuple[list[Warned], list[Warned]]:
    """The turn's warnings: what is new, and what its translation lost in the turn before, too."""
    before = session.turns[turn.number - 2].warnings if turn.number > 1 else []
    known = {one.message for one in before if one.code == "translation"}
    repeated = [w for w in turn.warnings if w.code == "translation" and w.message in known]
    return [w for w in turn.warnings if w not in repeated], repeated


def _part(view: View, name: str, turn: Turn, part: Part) -> Drawn:
    values: dict[str, Any] = {"turn": turn, "part": part}
    if name == "sofar":
        return "_sofar.html", values | {"so_far": so_far(part.length)}
    is_call = part.kind == "call"
    if is_call != (name != "part"):
        raise IndexError
    if name == "call":
        call = view.session.by_call[f"{turn.number}.{part.index}"]
        drawn_card, past = card(view, turn, call), told(view.session, call)
        menu = choices(view.session, call, drawn_card.offer)
        values |= {"card": drawn_card, "call": call, "staging": menu, "staged": past}
        return "_call.html", values | {"work": running(view.session, call)}
    if name in ("result", "real", "later"):
        call = view.session.by_call[f"{turn.number}.{part.index}"]
        return "_result.html", values | {"name": name} | _came(view.session, name, call)
    if name in ("progress", "output"):
        call = view.session.by_call[f"{turn.number}.{part.index}"]
        return f"_{name}.html", values | running(view.session, call)
    if name == "doubt":
        return "_doubt.html", values | {"marked": _marked(part)}
    if name == "prefix":
        return "_prefix.html", values | {"prefix": _prefix(part)}
    shows = {"sealed": sealed, "served": served, "block_of": block_of, "cited": cited}
    values["laid_out"] = laid_out
    values["odds"] = odds(part.meta.get("logprobs"))
    return f"{_TEMPLATES.get(part.kind, '_other')}.html", values | shows


def _came(session: Session, name: str, call: Call) -> dict[str, Any]:
    """What came of a call: its result, what was staged for it, or what came later."""
    past, task = told(session, call), task_of(session, call)
    came = {
        "result": call.result,
        "real": past.real if past else None,
        "later": task.result if task is not None else None,
    }[name]
    if came is None:
        raise IndexError
    return {"call": call, "came": came, "staged": past}


def _marked(part: Part) -> tuple[int, int]:
    """Where the doubt's token stands in the text as it is shown, and how long it is.

    Both are in units of UTF-16, as a browser counts.
    """
    if part.doubt is None or part.doubt.offset < 0:
        return 0, 0
    text, offset = part.text, part.doubt.offset
    token = text[offset : offset + token_length(text, offset)]
    return _units(text[:offset]), _units(token)


def _units(text: str) -> int:
    return len(shown(text).encode("utf-16-le", "surrogatepass")) // 2


def _prefix(part: Part) -> str:
    """What can be read of arguments that still stream, one `name: value` after the other."""
    if part.length > min(_READABLE_LIMIT, portions.PORTION):
        return ""
    value = readable_prefix(part.text)
    if not isinstance(value, dict):
        return ""
    words = " · ".join(f"{name}: {_brief(item)}" for name, item in value.items())
    return words if len(words) <= _PREFIX_LENGTH else "…" + words[-_PREFIX_LENGTH:]


def _brief(value: object, depth: int = 4) -> str:
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict() | list() if depth == 0:
            return "…"
        case dict():
            items = (f"{name}: {_brief(item, depth - 1)}" for name, item in value.items())
            return "{" + ", ".join(items) + "}"
        case list():
            return "[" + ", ".join(_brief(item, depth - 1) for item in value) + "]"
        case _:
            return str(value)


def bar_segments(session: Session) -> list[Segment]:
    """The segments that are wide enough to be seen, so that a long session has a short bar; a call
    that runs is shown at once, though nothing has come after it."""
    on = clock(session)
    least = on.duration / 500
    seen = (s for s in segments(session, on) if s.end_ms - s.start_ms >= least or _runs(s))
    return list(seen) if on.duration else []


def _runs(segment: Segment) -> bool:
    return segment.open and segment.kind == "tool"
