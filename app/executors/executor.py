"""What an executor is, and what all of them share: a call's deadline, progress, images, scripts,
and templates with a call's arguments.

An executor never raises but for cancellation: a failure is a result.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from app.core.arguments import ABSENT, at
from app.core.events import Problem
from app.core.late import dataclass
from app.core.tools import Content, Tool, ToolResult

LONGEST_S = 24 * 3600.0
"""How long a call may run, whatever a user grants it. Limits below the deadline's are no
shorter, so that the one that can be put off is the one that decides."""


class Report(Protocol):
    """Progress: what the tool says of itself, how far it is (0..1) or None, and what was printed
    since the last report."""

    def __call__(self, text: str, fraction: float | None, output: str = "", /) -> None: ...


class Deadline:
    """How much longer than its limits a call may run: a user grants it while it runs, and all
    limits that are set by `within` follow. `extended_s` is in seconds; `begun` says that its time
    has begun, for it has its place."""

    def __init__(self) -> None:
        self.extended_s = 0.0
        self.begun = False
        self._limits: list[asyncio.Timeout] = []

    def extend(self, by_s: float) -> bool:
        """Grant `by_s` more seconds; False where a limit was reached already."""
        if any(limit.expired() for limit in self._limits):
            return False
        self.extended_s += by_s
        for limit in self._limits:
            limit.reschedule((limit.when() or 0.0) + by_s)
        return True

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """As asyncio.timeout, for `seconds` and what is granted."""
        async with asyncio.timeout(seconds + self.extended_s) as limit:
            self._limits.append(limit)
            try:
                yield limit
            finally:
                self._limits.remove(limit)


@dataclass(frozen=True)
class Invocation:
    """One run of one call. `arguments` is sound JSON text of an object, exactly as shown.

    `code` is the SHA-256 of the tool's file as it was decided on, or "": nothing else may run.
    `folder` is a scratch folder of the session (created when needed). `timeout_s` is in seconds,
    `max_output` in bytes. `idempotency_key` is the same for every attempt at the same. `lift`
    says that the user lifted the tool's sandbox for this call. `deadline` is by how much a
    user puts off its end.
    """

    session: str
    call: str
    attempt: int
    tool: Tool
    arguments: str
    timeout_s: float
    max_output: int
    folder: Path
    idempotency_key: str
    code: str = ""
    lift: bool = False
    deadline: Deadline = field(default_factory=Deadline)


@dataclass(frozen=True)
class CallCheck:
    """What an executor says of a call before it runs.

    `code` stands for what would answer beyond the tool itself (a file, a server's command): where
    it is another when the call is to run, the card is stale. `problems` are of kind `caution` or
    `note`. `parallel_safe` may depend on the arguments.
    """

    code: str = ""
    problems: tuple[Problem, ...] = ()
    parallel_safe: bool = False


class Executor(Protocol):
    async def run(self, invocation: Invocation, report: Report) -> ToolResult: ...
    async def checked(self, session: str, tool: Tool, arguments: str) -> CallCheck: ...


class Lasting(Protocol):
    """An executor that keeps something between calls: connections, tasks, what was read."""

    async def forget(self, session: str) -> None:
        """The session was stopped or deleted: end what still runs for it."""

    async def close(self) -> None:
        """The program ends."""


# -- progress at a pace a log can hold: the first at once, then less and less often

PACES = ((200, 0.1), (400, 0.5), (700, 2.0), (1_000, 30.0))
"""(up to which report, how long after each nothing is reported, in seconds). After the last one
nothing is reported but the end."""

MAX_TEXT = 2_000
MAX_PIECE = 16_000
MAX_WHOLE = 256_000
"""Characters of words, of one piece of output, and of all pieces before they get small."""

SMALL_PIECE = 2_000


class ThrottledProgress:
    """Prints add up until they are sent; of several words in one interval the last are sent."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._text = ""
        self._fraction: float | None = None
        self._news = False
        self._output = ""
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None
        self._told = 0
        self._printed = 0
        self._closed = False

    def tell(self, text: str, fraction: float | None) -> None:
        """What the tool reports of itself. The fraction is 0..1 or None."""
        self._text, self._fraction, self._news = text[-MAX_TEXT:], fraction, True
        self._soon()

    def printed(self, text: str) -> None:
        """What the tool printed, as it came."""
        if text:
            whole = self._output + text
            self._output = whole[-MAX_PIECE:]
            self._left_out += len(whole) - len(self._output)
            self._soon()

    def close(self) -> None:
        """Tell what is left; nothing is reported after this."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush(last=True)
        self._closed = True

    def _soon(self) -> None:
        if self._timer is None and not self._closed:
            self._flush()

    def _flush(self, *, last: bool = False) -> None:
        self._timer = None
        pace = next((seconds for most, seconds in PACES if self._told < most), None)
        if self._closed or not (self._news or self._output) or (pace is None and not last):
            return
        self._told += 1
        piece = self._piece(whole=last)
        self._news = False
        if pace is not None and not last:
            self._timer = asyncio.get_running_loop().call_later(pace, self._flush)
        self._report(self._text, self._fraction, piece)

    def _piece(self, *, whole: bool) -> str:
        """What was printed, up to its last line's end, and what of it is left out."""
        end = len(self._output) if whole else self._output.rfind("\n") + 1 or len(self._output)
        piece, self._output = self._output[:end], self._output[end:]
        most = MAX_PIECE if self._printed < MAX_WHOLE else SMALL_PIECE
        left_out = self._left_out + max(0, len(piece) - most)
        piece, self._left_out = piece[-most:], 0
        self._printed += len(piece)
        return f"[… {left_out:,} characters are left out here …]\n{piece}" if left_out else piece


# -- images, recognized by their first bytes


def image_content(data: bytes) -> Content | None:
    """`data` as the image that its first bytes say it is: PNG, JPEG, GIF, WebP; else None."""
    match data[:12]:
        case head if head.startswith(b"\x89PNG\r\n\x1a\n"):
            kind = "image/png"
        case head if head.startswith(b"\xff\xd8\xff"):
            kind = "image/jpeg"
        case head if head.startswith((b"GIF87a", b"GIF89a")):
            kind = "image/gif"
        case head if head[:4] == b"RIFF" and head[8:] == b"WEBP":
            kind = "image/webp"
        case _:
            return None
    return Content("image", media_type=kind, data=base64.b64encode(data).decode("ascii"))


# -- scripts of ours, started by their path

# Nothing is imported from the folder that the interpreter is started in.
_START = """\
import sys
first = sys.path.pop(0)
from importlib.machinery import SourceFileLoader
sys.path.insert(0, first)
del sys.argv[0]
__file__ = sys.argv[0]
exec(SourceFileLoader("__main__", __file__).get_code("__main__"))
"""


def by_path(script: Path, *arguments: str) -> tuple[str, ...]:
    """What follows the interpreter and its options on the command line, to start a script of ours
    in an interpreter that may not be ours.

    As the script of its command line Python would compile it at each start; so its compiled file,
    if there is one for that Python, is looked for as for an import. To the script it makes no
    difference.
    """
    return ("-c", _START, str(script), *arguments)


# -- templates with a call's arguments: `{{ args.city }}`, `{{ args.places.0.name }}`, `{{ args }}`

# A string that is one placeholder and nothing else becomes the argument itself, number or object.
# Numbers keep their digits. Nothing else is evaluated.

PLACE = re.compile(r"\{\{\s*args((?:\.[^\s.{}]+)*)\s*\}\}")

ANY_PLACE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
"""What was meant as one, perhaps."""


class Digits(str):
    """A number exactly as the model wrote it."""


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Sound arguments, with each number as Digits."""
    value: dict[str, Any] = json.loads(arguments, parse_int=Digits, parse_float=Digits)
    return value


def fill_template(template: Any, arguments: dict[str, Any], known: Collection[str] = ()) -> Any:
    """`template` with its places filled. One that the call leaves out is an empty text where its
    argument is one of `known`, which a call may have, and stays as it is written elsewhere."""

    def value_at(place: re.Match[str]) -> Any:
        steps = steps_of(place)
        value = at(arguments, steps)
        if value is not ABSENT:
            return value
        return "" if steps and steps[0] in known else place[0]

    return _filled(template, value_at)


def left_empty(template: Any, arguments: dict[str, Any], known: Collection[str]) -> list[str]:
    """The places that `filled` makes an empty text of, each once, as they are written."""
    match template:
        case str():
            places = [(place[0], steps_of(place)) for place in PLACE.finditer(template)]
            empty = [
                text
                for text, steps in places
                if steps and steps[0] in known and at(arguments, steps) is ABSENT
            ]
            return list(dict.fromkeys(empty))
        case dict():
            return left_empty(list(template.values()), arguments, known)
        case list():
            every = (left_empty(item, arguments, known) for item in template)
            return list(dict.fromkeys(text for several in every for text in several))
    return []


def filled_or_absent(template: Any, arguments: dict[str, Any]) -> Any:
    """As `filled`, but members and items that are one place without its argument are left out,
    and a place within a longer text becomes nothing. ABSENT where nothing is left."""

    def value_at(place: re.Match[str]) -> Any:
        return at(arguments, steps_of(place))

    return _filled(template, value_at)


def unfilled(template: Any, known: Collection[str]) -> list[tuple[str, str]]:
    """The places that stay as they are written where a call has the arguments `known`: each as its
    text and the name in it."""
    match template:
        case str():
            names = []
            for place in ANY_PLACE.finditer(template):
                sound = PLACE.fullmatch(place[0])
                steps = steps_of(sound) if sound else []
                if sound is None or (steps and steps[0] not in known):
                    names.append((place[0], steps[0] if steps else place[1]))
            return list(dict.fromkeys(names))
        case dict():
            return unfilled(list(template.values()), known)
        case list():
            return list(dict.fromkeys(text for item in template for text in unfilled(item, known)))
    return []


def steps_of(place: re.Match[str]) -> list[str]:
    return place[1].split(".")[1:]


def _filled(template: Any, replace_place: Callable[[re.Match[str]], Any]) -> Any:
    match template:
        case str():
            whole = PLACE.fullmatch(template)
            if whole is not None:
                return replace_place(whole)
            return PLACE.sub(lambda place: as_text(replace_place(place)), template)
        case dict():
            members = ((key, _filled(item, replace_place)) for key, item in template.items())
            return {key: item for key, item in members if item is not ABSENT}
        case list():
            items = (_filled(item, replace_place) for item in template)
            return [item for item in items if item is not ABSENT]
    return template


def as_text(value: Any) -> str:
    """Text as it is, everything else as JSON; nothing for ABSENT."""
    if value is ABSENT:
        return ""
    return str(value) if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """Compact JSON in which numbers keep their digits."""
    match value:
        case Digits():
            return str(value)
        case dict():
            members = (
                f"{json.dumps(k, ensure_ascii=False)}: {as_json(v)}" for k, v in value.items()
            )
            return "{" + ", ".join(members) + "}"
        case list():
            return "[" + ", ".join(as_json(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
