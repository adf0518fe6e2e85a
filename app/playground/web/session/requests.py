"""The next request of a session, its images, any request of it as curl or Python code, and the
changes from one request to the next."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.errors import BadInput, NotFound
from playground.core.events import RequestSent, Usage
from playground.core.run_limits import cache_missed, output_tokens, turn_usage
from playground.core.session import Prompt, Session, Turn
from playground.core.settings import Profile
from playground.core.tools import Content, image_type
from playground.core.value_diff import JsonChange, TextPiece, visible_pieces
from playground.engine.engine import Engine
from playground.engine.preview import NO_DRAFT, WIRES, Draft, Preview, preview, profile_for_wire
from playground.engine.responses import join_headers
from playground.exchange import requests_export, sdk_script
from playground.exchange.requests_export import (
    SIMULATOR,
    SIMULATOR_KEY,
    ExportedRequest,
    encode_request,
    export_request,
    sent_turns,
)
from playground.protocols.base import join_url
from playground.protocols.facts import FACTS
from playground.protocols.registry import codec
from playground.protocols.request import FirstDifference, RequestBlock, RequestChanges
from playground.render.environment import partial
from playground.render.filters import duration, number, plural
from playground.web.forms import answer_format, as_json, body_of, images_of, wants_file
from playground.web.session.wire_view import (
    CodeOption,
    NextRequest,
    ShownCode,
    code_fragment,
    request_fragment,
    setup_notes,
)
from playground.web.site import Site, site_of

IMAGE_HEADERS = {"Content-Disposition": "inline"}

FORMS = ("curl", "python")
FILES = {"curl": ("request.sh", "application/x-sh"), "python": ("request.py", "text/x-python")}

MOST_SETTINGS = 20
"""The maximum number of other members shown."""

MOST_NAMES = 40
"""The maximum number of tools or marked blocks named in one line."""

_HOW = {
    "changed": "was changed",
    "added": "was added",
    "removed": "was removed",
    "moved": "was moved",
}

UNREAD = "One of the two bodies cannot be read, so there is no comparison."


async def next_request(request: Request) -> Response:
    """GET or POST /sessions/ID/request?wire=: shows the next request as it would be sent now,
    including the draft. `wire` names the protocol to show it in. Nothing is sent, and the session
    does not change."""
    site, draft = site_of(request), NO_DRAFT
    wire = request.query_params.get("wire", "")
    if request.method == "POST":
        body = await body_of(request)
        draft, wire = Draft(body.text("text"), await images_of(body)), body.text("wire", wire)
    async with site.engine.sessions.lock_session(request.path_params["id"]) as live:
        # In a thread: images make requests of many megabytes; the session is held meanwhile.
        shown = await asyncio.to_thread(preview, site.engine, live.session, draft, wire)
        own = shown
        if wire and answer_format(request) == "htmx":
            own = await asyncio.to_thread(preview, site.engine, live.session, draft)
    if answer_format(request) == "json":
        return as_json(_request_data(shown))
    drawn = await asyncio.to_thread(request_fragment, site.env, to_next_request(shown, wire))
    notes = setup_notes(site.env, request.path_params["id"], to_next_request(own))
    pieces = (("request", drawn), ("setup-notes", notes))
    return HTMLResponse("".join(partial(where, "outerMorph", html) for where, html in pieces))


def to_next_request(shown: Preview, wire: str = "") -> NextRequest:
    """A preview in the form the templates take."""
    return NextRequest(
        shown.profile.name,
        sent=shown.sent,
        notes=shown.notes,
        says=shown.says,
        failed=shown.failed,
        wire=wire,
    )


def _request_data(shown: Preview) -> dict[str, object]:
    """See docs/contract.md; `body` is the text of the exact bytes."""
    sent = shown.sent
    return {
        "profile": shown.profile.name,
        "protocol": sent.protocol,
        "method": sent.method,
        "url": sent.url,
        "headers": dict(sent.headers),
        "body": sent.body,
        "notes": list(shown.notes),
        "says": list(shown.says),
        "failed": shown.failed or None,
    }


async def prompt_image(request: Request) -> Response:
    """GET /sessions/ID/images/SEQ/N: reads image N, from 0, of the prompt that is event SEQ.

    ---
    responses:
      200: {description: The image., content: {image/*: {}}}
    """
    seq = request.path_params["number"]
    async with site_of(request).engine.sessions.lock_session(request.path_params["id"]) as live:
        prompts = (item for item in live.session.items if isinstance(item, Prompt))
        images = next((item.images for item in prompts if item.seq == seq), ())
    return _image(images, request)


async def result_image(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/images/N: reads image N, from 0, of a tool's result.

    ---
    responses:
      200: {description: The image., content: {image/*: {}}}
    """
    async with site_of(request).engine.sessions.lock_session(request.path_params["id"]) as live:
        images = _result_images(live.session, request.path_params["call"])
    return _image(images, request)


def _result_images(session: Session, call_id: str) -> Sequence[Content]:
    result = session.call(call_id).result
    return [piece for piece in result.content if piece.type == "image"] if result else []


def _image(images: Sequence[Content], request: Request) -> Response:
    place: int = request.path_params["place"]
    if place >= len(images):
        raise NotFound("There is no such image in this session.")
    try:
        raw = base64.b64decode(images[place].data)
    except ValueError:
        raise NotFound("This image cannot be read: its base64 is broken.") from None
    # Its declared type is ignored: a tool, or an imported log, may declare anything.
    return Response(raw, 200, IMAGE_HEADERS, image_type(raw) or "application/octet-stream")


# A request as code: curl and Python, in any protocol.


async def code(request: Request) -> Response:
    """GET /sessions/ID/code?turn=&wire=&form=&file=: writes a request as curl and as Python.
    `file=1`: as a file. As JSON: `{"turn", "protocol", "curl", "python", "notes", "failed"}`.

    ---
    responses:
      200:
        description: The code.
        content: {application/json: {}, text/html: {}, text/plain: {}}
    """
    shown = await shown_code(request)
    texts = {form.name: form.text for form in shown.forms}
    as_file = bool(request.query_params.get("file")) and wants_file(request)
    if answer_format(request) == "json" and not as_file:
        about = {"turn": shown.number, "protocol": shown.protocol, "failed": shown.failed or None}
        return as_json({**about, **dict.fromkeys(FORMS), **texts, "notes": list(shown.notes)})
    if as_file:
        if shown.failed:
            raise BadInput(shown.failed)
        name, kind = FILES[shown.form]
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        raw = texts[shown.form].encode("utf-8", "replace")
        return Response(raw, 200, headers, f"{kind}; charset=utf-8")
    html = code_fragment(site_of(request).env, shown)
    return HTMLResponse(partial("code", "outerMorph", html))


async def shown_code(request: Request) -> ShownCode:
    """The code that the query of `request` selects. BadInput and NotFound with a sentence."""
    site, session_id = site_of(request), request.path_params["id"]
    here = str(request.base_url).rstrip("/") + "/sim"
    query = request.query_params
    chosen = {name: query.get(name, "") for name in ("turn", "wire", "form")}
    async with site.engine.sessions.lock_session(session_id) as live:
        # In a thread: images make requests of many megabytes; the session is held meanwhile.
        return await asyncio.to_thread(_build_code, site, live.session, chosen, here)


def _build_code(site: Site, session: Session, chosen: Mapping[str, str], here: str) -> ShownCode:
    turn, wire = chosen["turn"], chosen["wire"]
    form = chosen["form"] or FORMS[0]
    if form not in FORMS:
        raise BadInput(f"The form must be one of {', '.join(FORMS)}, not {form[:80]!r}.")
    turns = sent_turns(session)
    chosen_turn = _turn(turns, turn)
    export, failed = _exported_request(site.engine, session, chosen_turn, wire, here)
    results = {} if chosen_turn is None else sdk_script.recorded_results(session, chosen_turn)
    text, notes = sdk_script.source(export, results)
    redactor = site.engine.keys.redactor()
    sent = export.value is not None and not failed
    forms = [
        CodeOption(
            "curl", "curl", redactor.redact_text(requests_export.curl_command(export) + "\n")
        ),
        CodeOption("python", "Python", redactor.redact_text(text)),
    ]
    return ShownCode(
        session.id,
        turn=turn,
        number=chosen_turn.number if chosen_turn is not None else 0,
        turns=[turn.number for turn in reversed(turns)],
        wire=wire,
        wires=WIRES,
        protocol=export.protocol,
        form=form,
        forms=forms if sent else (),
        notes=tuple(dict.fromkeys((*export.notes, *notes))) if sent else (),
        failed=failed or ("" if sent else "There is no request to show. The body is empty."),
        ahead=session.tapped is None,
    )


def _turn(turns: list[Turn], chosen: str) -> Turn | None:
    """The selected turn, None for the next request."""
    if chosen == "":
        return turns[-1] if turns else None
    if chosen == "next":
        return None
    for turn in turns:
        if str(turn.number) == chosen:
            return turn
    raise NotFound(f"This session has no request {chosen[:20]!r} that is part of its history.")


def _exported_request(
    engine: Engine, session: Session, turn: Turn | None, wire: str, here: str
) -> tuple[ExportedRequest, str]:
    """(the request, why it could not be built or "")."""
    if turn is None:
        ahead = preview(engine, session, wire=wire)
        # A missing key is no obstacle: the code contains only its name.
        failed = ahead.failed if not ahead.sent.body else ""
        return export_request(ahead.sent, ahead.profile, 0, here), failed
    own = turn.settings.profile
    if not wire or wire == own.protocol:
        return export_request(turn.request, own, turn.number, here), ""
    profile = profile_for_wire(engine.profiles(), own, wire)
    try:
        sent, notes = _encode_turn(session, turn, profile)
    except BadInput as error:
        return export_request(turn.request, own, turn.number, here), str(error)
    export = export_request(sent, profile, turn.number, here)
    return replace(export, notes=(*export.notes, *notes)), ""


def _encode_turn(
    session: Session, turn: Turn, profile: Profile
) -> tuple[RequestSent, tuple[str, ...]]:
    """`turn` as `profile` would have sent it, and what its protocol cannot express."""
    request = encode_request(session, profile.protocol, turn, profile)
    base = profile.base_url
    if profile.simulated:
        base = SIMULATOR + FACTS[profile.protocol].simulated
    name = SIMULATOR_KEY if profile.simulated else profile.key_name
    key = codec(profile.protocol).key_header("$" + name, profile.quirks) if name else {}
    headers = join_headers(request.headers, profile.headers, key)
    url, body = join_url(base, request.path), request.body.decode("utf-8")
    sent = RequestSent(
        turn.number,
        protocol=profile.protocol,
        method=request.method,
        url=url,
        headers=headers,
        body=body,
    )
    return sent, request.notes


# The changes of a request from the one before it, in words: blocks, tools, tokens, cache. Pure.


@dataclass(frozen=True)
class OtherSettings:
    """Differences other than tools, system prompt and messages; `more` is the number not shown."""

    changes: Sequence[JsonChange]
    more: int


@dataclass(frozen=True)
class ShownChanges:
    """Turn `now` compared with the turn `before` it; `changes` is None if incomparable."""

    session_id: str
    before: Turn
    now: Turn
    changes: RequestChanges | None

    @property
    def lead(self) -> str:
        """The most important fact."""
        changes = self.changes
        if changes is None:
            return UNREAD
        before, now = changes.messages
        if (first := changes.first) is not None:
            return f"The first difference: {_block_name(first)} {_HOW[first.how]}."
        if now > before:
            added = _added_words(now - before)
            return f"Everything in request {self.before.number} is unchanged; {added}."
        return f"Same content as request {self.before.number}."

    @property
    def pieces(self) -> Sequence[TextPiece]:
        first = self.changes.first if self.changes is not None else None
        return visible_pieces(first.pieces) if first is not None else ()

    @property
    def lines(self) -> Sequence[tuple[str, str]]:
        """(what, words) of additions, removals and changes."""
        changes = self.changes
        if changes is None:
            return ()
        before, now = changes.messages
        counts = (
            plural(now, "message")
            if before == now
            else f"{number(before)} messages became {number(now)}"
        )
        standing = (
            "all unchanged"
            if changes.same == before == now
            else f"the first {number(changes.same)}"
        )
        if changes.same != now or before != now:
            standing = f"{standing} unchanged" if changes.same else "none unchanged"
        marks = [_names(each) for each in changes.marks]
        lines = [
            ("Messages", f"{counts}, {standing}"),
            ("Added tools", _names(changes.came)),
            ("Removed tools", _names(changes.went)),
            ("Changed tools", _names(changes.altered)),
            ("Cache markers", marks[1] or ("nothing" if marks[0] else "")),
            ("Cache markers before", marks[0] if marks[0] != marks[1] else ""),
        ]
        return [line for line in lines if line[1]]

    @property
    def settings(self) -> OtherSettings | None:
        listed = self.changes.settings if self.changes is not None else ()
        if not listed:
            return None
        return OtherSettings(listed[:MOST_SETTINGS], max(0, len(listed) - MOST_SETTINGS))

    @property
    def tokens(self) -> Sequence[tuple[str, str, str, str]]:
        """(what, previous request, this request, difference), as counted by the provider."""
        was, now = _counters(self.before), _counters(self.now)
        rows = [(name, was[name], now[name]) for name in was]
        return [
            (name, _count(old), _count(new), _difference_words(old, new))
            for name, old, new in rows
            if (old, new) != (None, None)
        ]

    @property
    def cache(self) -> str:
        """Why the cache was missed, as far as the two requests show; "" if it was not."""
        if not cache_missed(self.before, self.now):
            return ""
        first = self.changes.first if self.changes is not None else None
        if first is not None:
            return f"Cache miss: the cached part ends before {_block_name(first)}."
        if self.changes is not None and self.changes.settings:
            return "Cache miss: no block changed, but other settings did."
        waited = duration(max(0, self.now.sent_ms - (self.before.closed_ms or self.before.sent_ms)))
        return (
            "Cache miss although nothing changed: the provider did not keep the cache until this "
            f"request ({waited} after the previous answer)."
        )

    def data(self) -> Mapping[str, Any]:
        """See docs/contract.md."""
        about: dict[str, Any] = {
            "request": self.now.number,
            "against": self.before.number,
            "missed": cache_missed(self.before, self.now),
            "tokens": {"before": _counters(self.before), "now": _counters(self.now)},
        }
        changes = self.changes
        if changes is None:
            return {**about, "failed": UNREAD}
        first = changes.first
        return {
            **about,
            "failed": None,
            "first": None if first is None else _first_data(first),
            "tools": {
                "came": list(changes.came),
                "went": list(changes.went),
                "changed": list(changes.altered),
            },
            "messages": {
                "before": changes.messages[0],
                "now": changes.messages[1],
                "same": changes.same,
            },
            "marks": {"before": list(changes.marks[0]), "now": list(changes.marks[1])},
            "settings": [
                {"pointer": change.pointer, "old": change.old, "new": change.new}
                for change in changes.settings
            ],
        }


def changes_fragment(env: Environment, shown: ShownChanges) -> str:
    """The fragment below the wire's rows."""
    return env.get_template("_request_changes.html").render(shown=shown)


def _first_data(first: FirstDifference) -> Mapping[str, Any]:
    block = first.block
    pieces = [{"how": piece.how, "text": piece.text} for piece in visible_pieces(first.pieces)]
    about = {"kind": block.kind, "number": block.number, "name": block.name}
    return {**about, "how": first.how, "pieces": pieces}


def _block_name(first: FirstDifference) -> str:
    block: RequestBlock = first.block
    return "the system prompt" if block.label == "system 1" else block.label


def _added_words(count: int) -> str:
    return f"{plural(count, 'message')} {'was' if count == 1 else 'were'} added"


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {number(more)} more" if more > 0 else "")


def _counters(turn: Turn) -> Mapping[str, int | None]:
    closed = turn.end or turn.failure
    usage = closed.usage if closed is not None else Usage()
    counted = turn_usage(turn) if turn.end is not None else None
    return {
        "read": counted[0] if counted is not None else usage.input_tokens,
        "cached": usage.cached_tokens,
        "cache_written": usage.cache_write_tokens,
        "written": output_tokens(turn.request.protocol, usage),
        "bytes": len(turn.request.body.encode("utf-8", "replace")),
    }


def _count(count: int | None) -> str:
    return "?" if count is None else number(count)


def _difference_words(old: int | None, new: int | None) -> str:
    if old is None or new is None or old == new:
        return ""
    return f"{'+' if new > old else '−'}{number(abs(new - old))}"
