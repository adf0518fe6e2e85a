"""A session as a readable document: prompts, answers, calls and who decided them, as Markdown.

Its texts are in fences longer than any run of backticks in them, so that they are shown verbatim
and nothing in them is HTML, a link or a heading of this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from playground.core.events import Usage
from playground.core.json_values import load_json
from playground.core.providers import agent_title
from playground.core.run_limits import output_tokens
from playground.core.session import Call, Mark, Part, Prompt, Session, Turn
from playground.core.tools import Content
from playground.exchange.bundle import ExportFile, SessionBundle, file_name, one_line

_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+\-!|&~=^:@$]|\.(?!\d)|(?<!\d)\.)")
_TICKS = re.compile(r"`+")
_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
TITLES = {
    "text": "",
    "thinking": "Thinking",
    "refusal": "Refusal",
    "server_call": "Call that the provider runs",
    "server_result": "Result from the provider",
    "other": "Something else",
}

_BY = {"person": "by the user", "rule": "by a rule"}


def write(bundle: SessionBundle) -> ExportFile:
    """The whole session; images are only mentioned."""
    text = "\n\n".join(_blocks(bundle)) + "\n"
    data = text.encode("utf-8", "replace")
    notes = ("Images are named, not shown.",) if _images(bundle.session) else ()
    return ExportFile(file_name(bundle.title, "md"), "text/markdown", data, notes)


def _blocks(bundle: SessionBundle) -> Iterator[str]:
    session = bundle.session
    yield f"# {escape(bundle.title) or 'A session'}"
    yield f"Begun {_time(session.started_ms)}."
    if session.settings is not None and session.settings.system:
        yield "## System prompt"
        yield fenced(session.settings.system)
    if session.tapped is not None:
        yield f"Run by {escape(agent_title(session.tapped.agent))}, not here."
    for item in sorted([*session.items, *session.marks], key=lambda item: item.seq):
        match item:
            case Mark():
                yield f"*{escape(item.warning.message)}*"
            case Prompt():
                yield f"## {'System message' if item.role == 'system' else 'Prompt'} {item.number}"
                yield from _contents(item.images)
                yield fenced(item.text)
            case Turn():
                yield from _turn(item)


def _turn(turn: Turn) -> Iterator[str]:
    dropped = ", no longer part of the history" if turn.dropped else ""
    yield f"## Turn {turn.number}{dropped}"
    yield f"{escape(turn.request.model)}, {_time(turn.sent_ms)}{_elapsed(turn)}{_tokens(turn)}."
    for part in turn.parts:
        if part.kind == "call":
            yield from _call(next(call for call in turn.calls if call.part is part))
        elif part.text:
            yield from _part(part)
    if turn.failure is not None:
        yield f"**Failed** ({escape(turn.failure.failure)}):"
        yield fenced(turn.failure.message)
    elif turn.end is not None and turn.end.reason not in ("stop", "calls"):
        yield f"Ended by {escape(turn.end.raw_reason or turn.end.reason)}."


def _part(part: Part) -> Iterator[str]:
    if TITLES[part.kind]:
        yield f"**{TITLES[part.kind]}**{f' {code(part.name)}' if part.name else ''}"
    yield fenced(part.text, "markdown" if part.kind == "text" else "")


def _call(call: Call) -> Iterator[str]:
    yield f"### Call {escape(call.id)}: {code(call.name)}"
    yield fenced(*_json(call.written))
    if call.decided is not None and call.decided.arguments is not None:
        yield "Arguments as the user edited them:"
        yield fenced(*_json(call.decided.arguments))
    for problem in call.problems:
        yield f"- {escape(problem.message)}"
    yield _decision(call)
    if call.result is not None:
        yield "Result, an error:" if call.result.is_error else "Result:"
        yield from _contents(call.result.content)
        yield fenced(*_json(call.result.text))


def _decision(call: Call) -> str:
    decided = call.decided
    if decided is None:
        return f"Not decided ({escape(call.status)})."
    words = {"run": "Run", "answer": "Answered by hand", "deny": "Denied"}[decided.decision]
    who = f"by the rule {code(decided.rule)}" if decided.rule else _BY[decided.by]
    who = "at the agent" if call.at_agent else who
    took = ""
    if call.started_ms is not None and call.ended_ms is not None:
        took = f", in {_duration(call.ended_ms - call.started_ms)}"
    fault = f"; staged: {code(decided.fault)}" if decided.fault else ""
    return f"{words} {who}{took}{fault}."


def _contents(content: tuple[Content, ...]) -> Iterator[str]:
    for piece in content:
        if piece.type == "image":
            yield f"(An image, {escape(piece.media_type)})"


def _images(session: Session) -> bool:
    asked = any(isinstance(item, Prompt) and item.images for item in session.items)
    return asked or any(
        piece.type == "image" for call in session.calls() if call.result is not None
        for piece in call.result.content
    )  # fmt: skip


def _json(text: str) -> tuple[str, str]:
    """Laid out if that changes no digit."""
    try:
        value = load_json(text)
        same = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        indented = json.dumps(value, indent=2, ensure_ascii=False)
    except ValueError:
        return text, ""
    flat = re.sub(r"[ \n\r\t]", "", text)
    return (indented if re.sub(r"[ \n\r\t]", "", same) == flat else text), "json"


def _tokens(turn: Turn) -> str:
    closed = turn.end or turn.failure
    usage = closed.usage if closed is not None else Usage()
    counts = (usage.input_tokens, output_tokens(turn.request.protocol, usage))
    if counts == (None, None):
        return ""
    known = ("?" if count is None else f"{count:,}" for count in counts)
    return ", {} input and {} output tokens".format(*known)


def _elapsed(turn: Turn) -> str:
    return "" if turn.closed_ms is None else f", {_duration(turn.closed_ms - turn.sent_ms)}"


def _duration(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def fenced(text: str, kind: str = "") -> str:
    """`text` verbatim, whatever it contains."""
    shown = _UNSEEN.sub("\ufffd", text)
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{shown}\n{fence}"


def code(text: str) -> str:
    """`text` as a code span on one line."""
    shown = one_line(text)
    if not shown:
        return "(nothing)"
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {shown} {ticks}" if "`" in shown else f"{ticks}{shown}{ticks}"


def escape(text: str) -> str:
    """`text` as words of a line, with all Markdown characters escaped."""
    return _MARKS.sub(r"\\\1", one_line(text))
