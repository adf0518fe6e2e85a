"""One HTML file that opens from disk: the flow, the wire and a time bar that plays, without a
server. It changes nothing and loads nothing; its own CSP enforces it.

The page's own blocks are drawn again; the frames of the replay, the bytes and the images are
embedded compressed, because the same HTML is repeated often (DecompressionStream, Compression
Standard, https://compression.spec.whatwg.org). The session itself is embedded, too, for importing
the page; no script reads that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import lzma
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from playground.core.errors import BadInput
from playground.core.events import RequestSent
from playground.exchange.bundle import (
    MAX_BYTES,
    ExportFile,
    PageAssets,
    SessionBundle,
    file_name,
    write_session,
)
from playground.render.blocks import ancestors, block
from playground.render.call_status import call_block
from playground.render.replay import Player, ReplayConstants, replay
from playground.render.replay_timeline import Drawing, build_timeline, drawing

MOST_MEMORY = 64 * 1024 * 1024
_LINES = b'<script type="text/plain" id="lines">'

_IMAGE = re.compile(r'(<img\s[^>]*?)src="(data:[^"]*)"')
_CODE = re.compile(
    r'(<div\s+(?:id="[^"]*"\s+)?class="code[^>]*)>((?:(?!</?div)[^\0]){1000,}?)</div>'
)
_COPY = re.compile(r'(\sdata-copy)="([^"]{1000,})"')
_TEXT = re.compile(r">([^<]{1000,})<")
"""Long texts, as our templates write them: escaped data has no "<" in a page, and no quotes in an
attribute."""

_PIECE = re.compile(
    r'<hx-partial hx-target="#([^"]*)" hx-swap="([^"]*)">(.*?)</hx-partial>', re.DOTALL
)
_ROOT = re.compile(r'<[a-z0-9]+\s+id="([^"]*)"')
"""The output of blocks.frame_html; a block's root has its id first."""

_BESIDE = "Importing the file gives the session itself, without its side sessions."


@dataclass(frozen=True)
class PackedSession:
    """One of the sessions of a file: the data its script unpacks, and its name in the selection."""

    name: str
    data: str
    bar: Drawing
    duration: int


def write(bundle: SessionBundle) -> ExportFile:
    """The file; its name is made from the title. It shows one session at a time: first the exported
    one, followed by those `beside` it."""
    assert bundle.look is not None
    look, session = bundle.look, bundle.session
    sessions = [_pack_session(each, look) for each in (bundle, *bundle.beside)]
    html = look.env.get_template("shared.html").render(
        title=bundle.title or "Session",
        made_by=look.made_by,
        sessions=sessions,
        session=session,
        tags=bundle.tags,
        policy=_policy(look.styles, look.script),
        styles=Markup(look.styles),
        script=Markup(look.script),
        lines=_compress(write_session(bundle).data),
    )
    name = file_name(bundle.title, "html")
    notes = [_BESIDE] if bundle.beside else []
    return ExportFile(name, "text/html", html.encode("utf-8", "replace"), notes)


def _pack_session(bundle: SessionBundle, look: PageAssets) -> PackedSession:
    session = bundle.session
    calls = frozenset(call_block(call.id) for call in session.calls())
    fixed = ReplayConstants(
        session.id, bundle.title, session.updated_ms, live=False, expanded=calls
    )
    chunks = {
        recording.number: [(piece.at_ms, piece.data) for piece in recording.pieces]
        for recording in bundle.recordings.values()
    }
    recorded = build_timeline(session.id, bundle.log, chunks)
    view = replace(Player(recorded, fixed).view(recorded.count), replay=False)
    long: dict[str, int] = {}
    payload = {
        "page": {
            name: _without_repeats(block(look.env, view, name), long)
            for name in ("head", "flow", "pause", "wire")
        },
        "duration": recorded.clock.duration,
        "frames": _frames(replay(recorded, look.env, fixed)["frames"], long),
        "marks": [[recorded.ms(mark.position), mark.kind, mark.words] for mark in recorded.marks],
        "rows": {
            f"wirerow-{section.number}-{row.number}": [section.number, row.start, row.end]
            for section in view.wire.sections
            for row in section.rows
            if row.way == "down"
        },
        "bytes": {
            recording.number: recording.data.decode("latin-1")
            for recording in bundle.recordings.values()
        },
        "requests": {turn.number: _request(turn.request) for turn in session.turns},
        "long": [],
    }
    payload["long"] = list(long)
    return PackedSession(
        bundle.title or "Session",
        base64.b64encode(zlib.compress(_json(payload), 9)).decode("ascii"),
        drawing(recorded.segments, recorded.clock.duration),
        recorded.clock.duration,
    )


def lines_of(page: bytes) -> bytes:
    """The session's JSON Lines embedded in an exported page; nothing else of it is read, and
    nothing is run. BadInput if there are none."""
    _, marker, rest = page.partition(_LINES)
    if not marker:
        old = b'<body class="shared">' in page
        raise BadInput(
            "This shared page has no session to import. Share the session again, or as JSON Lines."
            if old
            else "This web page is not a shared session. Share one as HTML or JSON Lines."
        )
    try:
        packed = base64.b64decode(rest.partition(b"<")[0], validate=True)
        unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
        data = unpacking.decompress(packed, MAX_BYTES + 1)
    except (binascii.Error, lzma.LZMAError):
        raise BadInput("The session in this shared page is damaged. Share it again.") from None
    if not unpacking.eof and len(data) <= MAX_BYTES:
        raise BadInput("The session in this shared page is incomplete. Share it again.")
    return data


def is_page(data: bytes) -> bool:
    """Whether the imported data is a web page."""
    start = data[:1_000].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html"))


def _compress(lines: bytes) -> str:
    """For importing the page; lines too large for an import are left out."""
    if len(lines) > MAX_BYTES:
        return ""
    return base64.b64encode(lzma.compress(lines, preset=2)).decode("ascii")


def _frames(reel_frames: Sequence[Mapping[str, Any]], long: dict[str, int]) -> list[list[Any]]:
    """The frames as [ms, html, grow], without parts that change nothing."""
    drawn_blocks: dict[str, str] = {}
    frames: list[list[Any]] = []
    for frame in reel_frames:
        html = "".join(_changed_pieces(_without_repeats(frame["html"], long), drawn_blocks))
        if html or frame["grow"] or not frames:
            frames.append([frame["at"], html, frame["grow"]])
    return frames


def _changed_pieces(html: str, drawn_blocks: dict[str, str]) -> Iterator[str]:
    """The pieces of a frame that change something. `drawn_blocks` is the last HTML of each block,
    by id; drawing a block invalidates its ancestors and descendants."""
    for piece in _PIECE.finditer(html):
        target, swap, drawn = piece.groups()
        match = _ROOT.match(drawn)
        block_id = match[1] if match is not None else target
        if swap == "outerMorph" and drawn_blocks.get(block_id) == drawn:
            continue
        around = set(ancestors(block_id))
        for other in list(drawn_blocks):
            if other in around or block_id in ancestors(other):
                del drawn_blocks[other]
        drawn_blocks[block_id] = drawn
        yield piece[0]


def _without_repeats(html: str, long: dict[str, int]) -> str:
    """`html` with long texts replaced by their index in `long`: each is in the file once, however
    often its block is drawn, because the compression window is too small for that."""

    def place(text: str) -> int:
        return long.setdefault(text, len(long))

    html = _IMAGE.sub(lambda match: f'{match[1]}data-image="{place(match[2])}"', html)
    html = _COPY.sub(lambda match: f'{match[1]}="" data-copied="{place(match[2])}"', html)
    html = _CODE.sub(lambda match: f'{match[1]} data-long="{place(match[2])}"></div>', html)
    return _TEXT.sub(lambda match: f'><i data-long="{place(match[1])}"></i><', html)


def _request(sent: RequestSent) -> str:
    """The request in readable form."""
    headers = "".join(f"{name}: {value}\n" for name, value in sent.headers.items())
    return f"{sent.method} {sent.url}\n{headers}\n{sent.body}"


def _policy(styles: str, script: str) -> str:
    """Nothing may be loaded, sent or framed; only this script and these styles are allowed."""
    rules: Mapping[str, str] = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(styles),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _json(value: Any) -> bytes:
    """UTF-8 is shorter than escapes; a lone surrogate, which it cannot encode, is escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
