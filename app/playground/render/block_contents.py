"""The content of each block: its template and the values it needs, looked up by the block's id.

blocks.py decides when a block is drawn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any
from urllib.parse import urlencode

from playground.core.errors import NotFound
from playground.core.events import SessionForked, Warned
from playground.core.messages import sealed_texts
from playground.core.session import Call, Part, Prompt, Session, Turn
from playground.render import paging
from playground.render.arguments import lay_out, readable_prefix, token_length
from playground.render.call_status import running_values, task_of
from playground.render.card import card, fault_choices, staged_fault, unheld_words
from playground.render.filters import clip, pretty_json, show_hidden
from playground.render.limit_words import pause, spent_words
from playground.render.paging import (
    CARDS,
    first_section,
    first_seq,
    format_shown,
    parts_of,
    rounded_length,
    show_more,
)
from playground.render.replay_timeline import Segment, clock, drawing, segments
from playground.render.view import View, busy_words, runnable_at_once, state_words

BlockTemplate = tuple[str, Mapping[str, Any]]

_TEMPLATES: Mapping[str, str] = {
    **dict.fromkeys(("text", "refusal"), "_text"),
    "thinking": "_thinking",
    **dict.fromkeys(("server_call", "server_result"), "_served"),
}
_ID = re.compile(r"([a-z]+)(?:-([0-9]{1,9}))?(?:-([0-9]{1,9}))?")
_OF_PARTS = frozenset(
    (
        "part",
        "call",
        "plain",
        "prefix",
        "doubt",
        "progress",
        "output",
        "sofar",
        "result",
        "real",
        "later",
    )
)
_READABLE_LIMIT = 64_000
_PREFIX_LENGTH = 400

MOST = 500
"""The maximum number of rows shown; if there are more, their number is stated."""

BESIDE = 5
"""Alternatives shown per token."""

MOST_SOURCES = 200
_DEPTH = 12
_OUTER = ("type", "id", "status", "name", "caller", "call_id", "tool_use_id", "item_id")
_CITED = ("citations", "annotations", "groundingMetadata", "citationMetadata")


def block_template(view: View, block_id: str) -> BlockTemplate:
    """(template, values) of a block; NotFound if the session has no block of that id."""
    match = _ID.fullmatch(block_id)
    if match is None:
        raise _missing(block_id)
    name = match[1]
    numbers = [int(number) for number in match.groups()[1:] if number is not None]
    try:
        match name, numbers:
            case (("head" | "bar" | "dock" | "tasks" | "list" | "pause" | "flow" | "wire"), []):
                return _single_block(view, name)
            case "prompt", [number]:
                return "_prompt.html", {"prompt": _prompt(view.session, number)}
            case "mark", [number]:
                return "_mark.html", {"mark": _nth(view.session.marks, number - 1)}
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
                    "first": first_section(view),
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


def _single_block(view: View, name: str) -> BlockTemplate:
    session = view.session
    match name:
        case "head":
            at_once = runnable_at_once(view) if view.decides else []
            words = {"words": state_words(session), "spent": spent_words(session)}
            return "_head.html", words | {"at_once": at_once}
        case "pause":
            return "_pause.html", {"pause": pause(session), "spent": spent_words(session)}
        case "bar":
            whole = view.played.whole if view.played is not None else session
            on = clock(whole)
            return "_bar.html", {"clock": on, "bar": drawing(bar_segments(whole), on.duration)}
        case "dock":
            return "_dock.html", {"busy": busy_words(session)}
        case "flow":
            return "_flow.html", {"items": _flow_items(session), "first": first_seq(view)}
        case "wire":
            return "_wire.html", {"first": first_section(view)}
        case _:
            return f"_{name}.html", {}


def _flow_items(session: Session) -> list[tuple[int, str, SessionForked | None]]:
    """(seq, block id, None) or (seq, "", fork) of each item in the flow, in order."""
    items: list[tuple[int, str, SessionForked | None]]
    items = [(item.seq, _item_id(item), None) for item in session.items]
    items += [(mark.seq, f"mark-{mark.number}", None) for mark in session.marks]
    items += [(seq, "", fork) for seq, fork in session.forks]
    return sorted(items, key=lambda item: item[0])


def _item_id(item: Prompt | Turn) -> str:
    return f"{'prompt' if isinstance(item, Prompt) else 'turn'}-{item.number}"


def _prompt(session: Session, number: int) -> Prompt:
    for item in session.items:
        if isinstance(item, Prompt) and item.number == number:
            return item
    raise IndexError


def _turn(view: View, name: str, turn: Turn) -> BlockTemplate:
    last = turn is view.session.last_item
    values: dict[str, Any] = {"turn": turn, "last": last, "turn_citations": turn_citations}
    if name == "parts":
        values["parts"] = parts_of(turn, view.calls_shown)
    if name == "more":
        values |= _hidden_calls(view, turn)
    if name == "turnfoot":
        notes, repeated = _notes(view.session, turn)
        meta = turn.end.meta if turn.end is not None else {}
        alternatives = odds(meta.get("logprobs") or meta.get("logprobsResult"))
        values |= {"notes": notes, "repeated": repeated, "odds": alternatives}
        values["unheld"] = unheld_words(turn)
    return f"_{name}.html", values


def _hidden_calls(view: View, turn: Turn) -> dict[str, Any]:
    """The number of hidden calls, how many the next click shows, and its address."""
    most = view.calls_shown(turn.number)
    hidden = max(len(turn.calls) - most, 0)
    where = {"shown": format_shown(show_more(view.shown, turn.number))}
    if view.replay:
        where = {"at": str(view.session.seq), **where}
    waiting, end = 0, turn.part_after(most)
    if turn is view.session.last_item and not view.session.stopped and turn.end is not None:
        shown = len(turn.call_groups.calls_in("waiting", end)) + len(
            turn.call_groups.calls_in("interrupted", end)
        )
        waiting = turn.call_groups.count("waiting") + turn.call_groups.count("interrupted") - shown
    return {
        "hidden": hidden,
        "next": min(hidden, CARDS),
        "waiting": waiting,
        "query": urlencode(where, safe=","),
    }


def _notes(session: Session, turn: Turn) -> tuple[list[Warned], list[Warned]]:
    """The turn's new warnings, and the translation losses it repeats from the turn before."""
    before = session.turns[turn.number - 2].warnings if turn.number > 1 else []
    known = {warning.message for warning in before if warning.code == "translation"}
    repeated = [w for w in turn.warnings if w.code == "translation" and w.message in known]
    return [w for w in turn.warnings if w not in repeated], repeated


def _part(view: View, name: str, turn: Turn, part: Part) -> BlockTemplate:
    values: dict[str, Any] = {"turn": turn, "part": part}
    if name == "sofar":
        return "_sofar.html", values | {"so_far": rounded_length(part.length)}
    if name == "plain":
        return "_plain.html", {"part": part}
    is_call = part.kind == "call"
    if is_call != (name != "part"):
        raise IndexError
    if name == "call":
        call = view.session.by_call[f"{turn.number}.{part.index}"]
        drawn_card, past = card(view, turn, call), staged_fault(view.session, call)
        menu = fault_choices(view.session, call, drawn_card.offer)
        values |= {"card": drawn_card, "call": call, "staging": menu, "staged": past}
        return "_call.html", values | {"work": running_values(view.session, call)}
    if name in ("result", "real", "later"):
        call = view.session.by_call[f"{turn.number}.{part.index}"]
        return "_result.html", values | {"name": name} | _outcome_values(view.session, name, call)
    if name in ("progress", "output"):
        call = view.session.by_call[f"{turn.number}.{part.index}"]
        return f"_{name}.html", values | running_values(view.session, call)
    if name == "doubt":
        return "_doubt.html", values | {"marked_span": _marked_span(part)}
    if name == "prefix":
        return "_prefix.html", values | {"prefix": _prefix(part)}
    shows = {
        "sealed_size": sealed_size,
        "server_part": server_part,
        "block_of": block_of,
        "part_citations": part_citations,
    }
    values["layout"] = lay_out
    values["odds"] = odds(part.meta.get("logprobs"))
    return f"{_TEMPLATES.get(part.kind, '_other')}.html", values | shows


def _outcome_values(session: Session, name: str, call: Call) -> dict[str, Any]:
    """The outcome of a call: its result, the fault staged for it, or a later result."""
    past, task = staged_fault(session, call), task_of(session, call)
    came = {
        "result": call.result,
        "real": call.real if call.at_agent else past.real if past else None,
        "later": task.result if task is not None else None,
    }[name]
    if came is None:
        raise IndexError
    return {"call": call, "came": came, "staged": past}


def _marked_span(part: Part) -> tuple[int, int]:
    """The position and length of the invalid token in the text as it is shown.

    Both in UTF-16 units, as a browser counts.
    """
    if part.doubt is None or part.doubt.offset < 0:
        return 0, 0
    text, offset = part.text, part.doubt.offset
    token = text[offset : offset + token_length(text, offset)]
    return _units(text[:offset]), _units(token)


def _units(text: str) -> int:
    return len(show_hidden(text).encode("utf-16-le", "surrogatepass")) // 2


def _prefix(part: Part) -> str:
    """The readable part of arguments that still stream, as a list of `name: value`."""
    if part.length > min(_READABLE_LIMIT, paging.PORTION):
        return ""
    value = readable_prefix(part.text)
    if not isinstance(value, dict):
        return ""
    words = " · ".join(f"{name}: {_brief_text(item)}" for name, item in value.items())
    return words if len(words) <= _PREFIX_LENGTH else "…" + words[-_PREFIX_LENGTH:]


def _brief_text(value: object, depth: int = 4) -> str:
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
            items = (f"{name}: {_brief_text(item, depth - 1)}" for name, item in value.items())
            return "{" + ", ".join(items) + "}"
        case list():
            return "[" + ", ".join(_brief_text(item, depth - 1) for item in value) + "]"
        case _:
            return str(value)


def bar_segments(session: Session) -> list[Segment]:
    """The segments wide enough to be seen, so that a long session has a short bar. A running call
    is shown at once, even if no event follows it yet."""
    on = clock(session)
    least = on.duration / 500
    seen = (
        s for s in segments(session, on) if s.end_ms - s.start_ms >= least or _is_running_tool(s)
    )
    return list(seen) if on.duration else []


def _is_running_tool(segment: Segment) -> bool:
    return segment.open and segment.kind == "tool"


# Log probabilities: how likely each token was, as rows of a small table.
# https://platform.openai.com/docs/api-reference/chat/object (`logprobs.content`, also Ollama's),
# https://ai.google.dev/api/generate-content#LogprobsResult


@dataclass(frozen=True)
class TokenOdds:
    """A token, its probability in percent (`97.3`), and its alternatives."""

    text: str
    percent: str
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Odds:
    """The first tokens, and the total number."""

    tokens: tuple[TokenOdds, ...]
    count: int


def odds(logprobs: Any) -> Odds | None:
    """None if nothing can be read."""
    entries = list(_entries(logprobs))
    tokens = (_token(entry, others) for entry, others in entries[:MOST])
    return Odds(tuple(tokens), len(entries)) if entries else None


def _entries(logprobs: Any) -> Iterator[tuple[Mapping[str, Any], Sequence[Any]]]:
    match logprobs:
        case {"chosenCandidates": list(chosen), **rest}:  # Gemini
            steps = rest.get("topCandidates")
            for entry, step in zip_longest(chosen, steps if isinstance(steps, list) else ()):
                others = step.get("candidates") if isinstance(step, Mapping) else None
                if isinstance(entry, Mapping):
                    yield entry, others if isinstance(others, list) else ()
        case Mapping():
            for name in ("content", "refusal"):
                yield from _entries(logprobs.get(name))
        case list():
            for entry in logprobs:
                if isinstance(entry, Mapping) and "token" in entry:
                    others = entry.get("top_logprobs")
                    yield entry, others if isinstance(others, list) else ()
                elif isinstance(entry, Mapping):
                    yield from _entries(entry)


def _token(entry: Mapping[str, Any], others: Sequence[Any]) -> TokenOdds:
    text = _text(entry)
    beside = [other for other in others if isinstance(other, Mapping) and _text(other) != text]
    pairs = tuple((_text(other), _percent(other)) for other in beside[:BESIDE])
    return TokenOdds(text, _percent(entry), pairs)


def _text(entry: Mapping[str, Any]) -> str:
    token = entry.get("token")
    return token if isinstance(token, str) else "?"


def _percent(entry: Mapping[str, Any]) -> str:
    value = entry.get("logprob", entry.get("logProbability"))
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return "?"
    return f"{100 * math.exp(min(value, 0)):.1f}"


# A part's data besides its text: sealed thoughts, server calls, sources. Read from the provider
# blocks that codecs store in `meta`, by shape and not by protocol.


@dataclass(frozen=True)
class TextCitation:
    """A source that a text cites; `quote` is the cited passage."""

    url: str
    title: str = ""
    quote: str = ""

    @property
    def linked(self) -> bool:
        """Whether the address may be a link; a model can write any."""
        return self.url.lower().startswith(("https://", "http://"))


@dataclass(frozen=True)
class ServerPart:
    """A call that the provider ran itself, or its result.

    `text` is the call's input ("" if not reported) or its result; `places` are the sources it
    found; `error` is the provider's error code.
    """

    name: str
    text: str
    places: tuple[TextCitation, ...]
    error: str


def sealed_size(part: Part) -> int:
    """The size in bytes of a thought that only its provider can read; 0 if there is none."""
    return sum(len(text.encode("utf-8", "replace")) for text in sealed_texts(part.meta))


def server_part(part: Part) -> ServerPart:
    """A server call or its result, for display."""
    block = block_of(part)
    content = block.get("content")
    error = content.get("error_code") if isinstance(content, Mapping) else block.get("error")
    asked = {key: item for key, item in block.items() if key not in _OUTER and item is not None}
    shown_texts = (
        _server_call_text(asked)
        if part.kind == "server_call"
        else pretty_json(asked)
        if asked
        else ""
    )
    return ServerPart(
        part.name or str(block.get("type") or part.meta.get("type") or ""),
        part.text or shown_texts,
        find_citations(block),
        error if isinstance(error, str) else "",
    )


def _server_call_text(asked: Mapping[str, Any]) -> str:
    """The input of a server call, if its block has it; a single text is shown without its key."""
    match list(asked.values()):
        case []:
            return ""
        case [str(text)]:
            return text
    return pretty_json(asked)


def block_of(part: Part) -> Mapping[str, Any]:
    """The provider's own block, under whichever key the codec stores it."""
    for name in ("block", "part"):
        block = part.meta.get(name)
        if isinstance(block, Mapping):
            return block
    return {}


def part_citations(part: Part) -> tuple[TextCitation, ...]:
    """The sources that a part's text cites."""
    content = part.meta.get("content")
    holders = (block_of(part), content if isinstance(content, Mapping) else {}, part.meta)
    return find_citations([holder[name] for holder in holders for name in _CITED if name in holder])


def turn_citations(turn: Turn) -> tuple[TextCitation, ...]:
    """The sources that the provider listed at the end of an answer."""
    meta = turn.end.meta if turn.end is not None else {}
    return find_citations([meta[name] for name in _CITED if name in meta])


def find_citations(value: Any) -> tuple[TextCitation, ...]:
    """Every address in `value` with its title and quote, each once."""
    by_name: dict[str, TextCitation] = {}
    for place in _find_citations(value, 0):
        if len(by_name) >= MOST_SOURCES:
            break
        by_name.setdefault(place.url + "\n" + place.quote, place)
    return tuple(by_name.values())


def _find_citations(value: Any, depth: int) -> Iterator[TextCitation]:
    if depth > _DEPTH:
        return
    match value:
        case {"url": str(url)} | {"uri": str(url)} if url:
            words = (value.get(name) for name in ("cited_text", "snippet"))
            quote = next((word for word in words if isinstance(word, str)), "")
            title = value.get("title")
            yield TextCitation(url, title if isinstance(title, str) else "", clip(quote, 300))
        case {"cited_text": str(quote)}:
            title = value.get("document_title") or value.get("title")
            yield TextCitation("", title if isinstance(title, str) else "", clip(quote, 300))
        case Mapping():
            for item in value.values():
                yield from _find_citations(item, depth + 1)
        case list():
            for item in value:
                yield from _find_citations(item, depth + 1)
