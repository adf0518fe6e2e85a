"""A session with its log and recordings, the input of exporters, and the file they make; and its
export as JSON Lines, written, and read back with every line checked.

The lines are a header, the events of the log, and the bytes of the recordings. A file may be
untrusted: no address in it is requested and no tool is run; the folded session is only displayed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment

from playground.core.errors import BadInput, IllegalEvent
from playground.core.events import Logged, RequestSent, ResponseStarted, Source
from playground.core.json_values import TooDeepError, load_json
from playground.core.reducer import apply
from playground.core.serialization import EVENTS, from_data, logged_data, type_mismatch
from playground.core.session import Session
from playground.core.settings import PROTOCOLS
from playground.protocols.base import url_parts

DEFAULT_BASE = "http://127.0.0.1:8765"
"""The default address of `playground serve`."""

MAX_BYTES = 32 * 1024 * 1024
"""The size limit of an imported file; larger ones are refused before any of it is parsed."""

LATEST_MS = 253_402_300_799_000
"""The end of the year 9999, in Unix ms."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""

_SPAN = 2
_VERSION = 1
_MOST_TAGS, _LONGEST = 1_000, 10_000


@dataclass(frozen=True)
class RecordedChunk:
    """Bytes of a recording as received, at `at_ms` (Unix ms)."""

    at_ms: int
    data: bytes


@dataclass(frozen=True)
class Recording:
    """The response to one request. `masked` are half-open spans of stars of the same length as the
    secrets they replace; `sha256` is of the stored bytes, "" if the end was never received."""

    number: int
    pieces: Sequence[RecordedChunk] = ()
    clean: bool = False
    masked: Sequence[tuple[int, int]] = ()
    sha256: str = ""

    @property
    def data(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)


@dataclass(frozen=True)
class PageAssets:
    """The assets of an exported page. `styles` and `script` are self-contained: they refer to no
    other file. `made_by` is the program with its version."""

    env: Environment
    styles: str
    script: str
    made_by: str


@dataclass(frozen=True)
class SessionBundle:
    """A session with its whole `log`, including deltas, and its recordings by number.

    `session` is folded from `log`. `title`, `tags` and `parent` come from the library. `look` is
    for HTML exports, None for others. `base_url` is the address of the server whose simulator
    repeats the simulator's answers. `beside` are the sub-agents and side requests of its agent, the
    oldest first, for formats that can contain them. `expect` is what a batch expected of it, if it
    is a run of one: expectations as in a SPEC.
    """

    session: Session
    title: str
    log: Sequence[Logged]
    recordings: Mapping[int, Recording] = field(default_factory=dict)
    tags: Sequence[str] = ()
    parent: str = ""
    created_ms: int = 0
    look: PageAssets | None = None
    base_url: str = DEFAULT_BASE
    beside: Sequence[SessionBundle] = ()
    expect: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class ExportFile:
    """A file: its name consists of letters, digits, "-", "_" and dots. `notes` are sentences on
    what this format cannot represent."""

    file_name: str
    media_type: str
    data: bytes
    notes: Sequence[str] = ()


# -- Names of files and comments in programs ---------------------------------------------------


def file_name(title: str, ending: str) -> str:
    """`A title!` -> `a-title.html`: letters, digits and dashes, at most 60 of them."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-")
    return f"{words or 'session'}.{ending}"


def one_line(text: str) -> str:
    """`text` without line breaks, control characters or direction marks."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def comment_text(text: str) -> str:
    """`text` for a comment or a docstring of a program: one line, with nothing in it that ends
    either. All text of a session outside of literals must pass through here."""
    return one_line(text).replace("\\", "/").replace('"', "'")


# -- As JSON Lines -----------------------------------------------------------------------------


def write_session(bundle: SessionBundle) -> ExportFile:
    """The whole session: the file is complete, even for a fork."""
    lines = [json.dumps(line) for line in _lines(bundle)]
    data = "".join(f"{line}\n" for line in lines).encode("ascii")
    return ExportFile(file_name(bundle.title, "jsonl"), "application/x-ndjson", data)


def _lines(bundle: SessionBundle) -> Iterator[Mapping[str, Any]]:
    forks = bundle.session.forks
    about = {
        "id": bundle.session.id,
        "title": bundle.title,
        "tags": list(bundle.tags),
        "parent": forks[-1][1].parent if forks else "",
        "created_ms": bundle.created_ms,
    }
    yield {"playground": _VERSION, "session": about}
    yield from map(logged_data, bundle.log)
    for number, recording in sorted(bundle.recordings.items()):
        start = 0
        for piece in recording.pieces:
            text = base64.b64encode(piece.data).decode("ascii")
            yield {"recording": number, "at_ms": piece.at_ms, "start": start, "bytes": text}
            start += len(piece.data)
        if recording.clean or recording.masked or recording.sha256:
            spans = [list(span) for span in recording.masked]
            end = {"clean": recording.clean, "masked": spans, "sha256": recording.sha256}
            yield {"recording": number, **end}


def read_session(
    data: bytes, session_id: str, check: Callable[[Session], None] = lambda session: None
) -> SessionBundle:
    """The session of a file, under `session_id`; BadInput names the invalid line, and then nothing
    of the file is used. `check` is called after each event, and may refuse it by BadInput, too."""
    if len(data) > MAX_BYTES:
        raise BadInput(f"The file is larger than {MAX_BYTES >> 20} MiB. Export it without images.")
    reading = _SessionReader(Session(session_id), check)
    for number, line in enumerate(io.BytesIO(data), 1):
        try:
            reading.take(_object(line))
        except (IllegalEvent, BadInput) as error:
            raise BadInput(f"Line {number} cannot be read: {error} Nothing was saved.") from error
        # Any other exception while folding is caused by the file, not by the program.
        except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
            sentence = f"Line {number} cannot follow the lines before it. Nothing was saved."
            raise BadInput(sentence) from error
    return reading.build_bundle()


@dataclass
class _SessionReader:
    """The state of reading."""

    session: Session
    check: Callable[[Session], None]
    about: Mapping[str, Any] | None = None
    log: list[Logged] = field(default_factory=list)
    pieces: dict[int, list[RecordedChunk]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    ended: dict[int, Recording] = field(default_factory=dict)

    def take(self, line: dict[str, Any]) -> None:
        if self.about is None:
            self.about = _header(line)
        elif "recording" in line and "kind" not in line:
            self._bytes(line) if "bytes" in line else self._end(line)
        elif self.pieces or self.ended:
            raise BadInput("an event follows the recordings.")
        else:
            self._event(line)

    def _event(self, line: dict[str, Any]) -> None:
        logged = read_event(line)
        if logged.seq != len(self.log) + 1:
            raise BadInput(f"its seq should be {len(self.log) + 1}.")
        apply(self.session, logged)
        self.check(self.session)
        self.log.append(logged)

    def _bytes(self, line: dict[str, Any]) -> None:
        number, start = self._number(line), line.get("start")
        text = line["bytes"]
        if line.keys() != {"recording", "at_ms", "start", "bytes"} or not isinstance(text, str):
            raise BadInput("a piece needs recording, at_ms, start and bytes.")
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise BadInput("its bytes are not base64.") from None
        if not data or isinstance(start, bool) or start != self.sizes.get(number, 0):
            raise BadInput("it is not the next piece of its recording.")
        self.pieces.setdefault(number, []).append(RecordedChunk(_time(line["at_ms"]), data))
        self.sizes[number] = start + len(data)

    def _end(self, line: dict[str, Any]) -> None:
        number = self._number(line)
        if line.keys() != {"recording", "clean", "masked", "sha256"}:
            raise BadInput("the end of a recording needs clean, masked and sha256.")
        pieces = self.pieces.get(number, [])
        spans = tuple(_span(recording, self.sizes.get(number, 0)) for recording in line["masked"])
        digest = line["sha256"]
        if not isinstance(line["clean"], bool) or not isinstance(digest, str):
            raise BadInput("clean must be true or false, and sha256 a text.")
        recording = Recording(number, pieces, line["clean"], spans, digest)
        if digest and hashlib.sha256(recording.data).hexdigest() != digest:
            raise BadInput("the bytes do not match this hash.")
        self.ended[number] = recording

    def _number(self, line: dict[str, Any]) -> int:
        number = line["recording"]
        if isinstance(number, bool) or not isinstance(number, int) or number in self.ended:
            raise BadInput("its recording has already ended, or has no number.")
        if not 0 < number <= len(self.session.turns):
            raise BadInput(f"it answers request {number}, which does not exist.")
        return number

    def build_bundle(self) -> SessionBundle:
        if self.about is None or self.session.settings is None:
            raise BadInput("This is not an exported session. Export one as JSON Lines (jsonl).")
        open_ones = {n: Recording(n, pieces) for n, pieces in self.pieces.items()}
        recordings = dict(sorted({**open_ones, **self.ended}.items()))
        title, tags, created = (self.about[name] for name in ("title", "tags", "created_ms"))
        return SessionBundle(
            self.session,
            title=title,
            log=self.log,
            recordings=recordings,
            tags=tuple(tags),
            parent="",
            created_ms=created,
        )


def read_event(line: dict[str, Any]) -> Logged:
    """A line of the log, as written by `logged_data`; BadInput if it is invalid."""
    cls = EVENTS.get(line["kind"]) if isinstance(line.get("kind"), str) else None
    if cls is None:
        raise BadInput(f"this version does not know the event {str(line.get('kind'))[:40]!r}.")
    rest = {k: v for k, v in line.items() if k not in ("seq", "at_ms", "kind", "source")}
    event = from_data(cls, rest)
    if wrong := type_mismatch(cls, event):
        raise BadInput(f"{wrong}.")
    if isinstance(event, RequestSent) and event.protocol not in PROTOCOLS:
        raise BadInput(f"this version does not support {event.protocol[:40]!r}.")
    if isinstance(event, RequestSent) and not url_parts(event.url).netloc:
        raise BadInput(f"{event.url[:80]!r} is not an address.")
    if isinstance(event, RequestSent | ResponseStarted):
        odd = [name for name in event.headers if not HEADER_NAME.fullmatch(name)]
        if odd:
            raise BadInput(f"HTTP allows no header {odd[0][:40]!r}.")
    source = None
    if "source" in line:
        recording, start, end = line["source"]
        if not all(type(number) is int for number in (recording, start, end)):
            raise BadInput("its source must be three whole numbers.")
        if not (0 < recording < 2**31 and 0 <= start <= end < 2**53):
            raise BadInput("its source is not a span of a recording.")
        source = Source(recording, start, end)
    if type(line.get("seq")) is not int:
        raise BadInput("it has no seq.")
    return Logged(line["seq"], _time(line.get("at_ms")), event, source)


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = load_json(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadInput("it is not UTF-8 text.") from None
    except TooDeepError:
        raise BadInput("it is nested too deep.") from None
    except ValueError:
        raise BadInput("it is not JSON.") from None
    if not isinstance(value, dict):
        raise BadInput("it is not a JSON object.")
    return value


def _header(line: dict[str, Any]) -> Mapping[str, Any]:
    about = line.get("session")
    if line.get("playground") != _VERSION or not isinstance(about, dict):
        raise BadInput('a session must begin with {"playground": 1, "session": {...}}.')
    title, tags = about.get("title", ""), about.get("tags", [])
    if not isinstance(title, str) or len(title) > _LONGEST:
        raise BadInput(f"a title must be a text of at most {_LONGEST} characters.")
    texts = isinstance(tags, list) and all(isinstance(tag, str) and tag for tag in tags)
    if not texts or len(tags) > _MOST_TAGS or any(len(tag) > _LONGEST for tag in tags):
        raise BadInput(f"its tags must be at most {_MOST_TAGS} texts.")
    created_ms = _time(about.get("created_ms", 0))
    return {"title": title, "tags": list(dict.fromkeys(tags)), "created_ms": created_ms}


def _time(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LATEST_MS:
        raise BadInput("its time is not a Unix time in ms.")
    return value


def _span(value: Any, size: int) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != _SPAN:
        raise BadInput("masked must be a list of [start, end].")
    start, end = value
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= size:
        raise BadInput("a masked range is outside the bytes.")
    return start, end
