"""The interface of executors, and their shared code: a call's deadline, progress, images, scripts,
and templates with a call's arguments.

An executor never raises except for cancellation: a failure is a result.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from playground.core.arguments import ABSENT, value_at_steps
from playground.core.events import Problem
from playground.core.json_values import ExactNumber, load_spelled
from playground.core.tools import Content, Tool, ToolResult, image_type

LONGEST_S = 24 * 3600.0
"""The maximum duration of a call in seconds, including all extensions. Limits other than the
deadline are not shorter, so that the deadline, which can be extended, is the one that decides."""

PACES = ((200, 0.1), (400, 0.5), (700, 2.0), (1_000, 30.0))
"""(up to which report, the minimum interval after each, in seconds). After the last one only the
end is reported."""

MAX_TEXT = 2_000
MAX_PIECE = 16_000

MAX_WHOLE = 256_000
"""Characters of messages, of one piece of output, and of all pieces before they get small."""

SMALL_PIECE = 2_000

# Nothing is imported from the interpreter's working directory.
_START = """\
import sys
first = sys.path.pop(0)
from importlib.machinery import SourceFileLoader
sys.path.insert(0, first)
del sys.argv[0]
__file__ = sys.argv[0]
exec(SourceFileLoader("__main__", __file__).get_code("__main__"))
"""

PLACE = re.compile(r"\{\{\s*args((?:\.[^\s.{}]+)*)\s*\}\}")

ANY_PLACE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
"""Also matches text that may only have been meant as a placeholder."""


class ReportProgress(Protocol):
    """Progress: the tool's own message, its fraction done (0..1) or None, and what was printed
    since the last report."""

    def __call__(self, text: str, fraction: float | None, output: str = "", /) -> None: ...


class Deadline:
    """The extension of a call's limits: a user grants it while the call runs, and all limits set by
    `within` follow. `extended_s` is in seconds; `begun`: the call has a slot, and its time is
    running."""

    def __init__(self) -> None:
        self.extended_s = 0.0
        self.begun = False
        self._limits: list[asyncio.Timeout] = []

    def extend(self, by_s: float) -> bool:
        """Grants `by_s` more seconds; False if a limit was reached already."""
        if any(limit.expired() for limit in self._limits):
            return False
        self.extended_s += by_s
        for limit in self._limits:
            limit.reschedule((limit.when() or 0.0) + by_s)
        return True

    @asynccontextmanager
    async def time_limit(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Like asyncio.timeout, for `seconds` and extensions."""
        async with asyncio.timeout(seconds + self.extended_s) as limit:
            self._limits.append(limit)
            try:
                yield limit
            finally:
                self._limits.remove(limit)


def _identity(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Invocation:
    """One run of one call. `arguments` is valid JSON text of an object, exactly as shown.

    `code` is the SHA-256 of the tool's file at the decision, or "": no other version may run.
    `folder` is a scratch folder of the session (created when needed). `timeout_s` is in seconds,
    `max_output` in bytes. `idempotency_key` is the same for every attempt at the same call. `lift`:
    the user removed the tool's sandbox for this call. `deadline` is the user's extension. `redact`
    masks the known keys in JSON data.
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
    redact: Callable[[Any], Any] = _identity


@dataclass(frozen=True)
class CallCheck:
    """An executor's check of a call before it runs.

    `code` identifies what would run besides the tool itself (a file, a server's command): if it
    differs when the call is to run, the card is out of date. `problems` are of kind `caution` or
    `note`. `parallel_safe` may depend on the arguments.
    """

    code: str = ""
    problems: tuple[Problem, ...] = ()
    parallel_safe: bool = False


class Executor(Protocol):
    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult: ...
    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck: ...


@runtime_checkable
class StatefulExecutor(Protocol):
    """An executor with state between calls: connections, tasks, caches."""

    async def forget(self, session: str) -> None:
        """The session was stopped or deleted: ends what still runs for it."""

    async def close(self) -> None:
        """The program ends."""


# -- progress at a rate that a log can hold: the first at once, then less and less often


class ThrottledProgress:
    """Collects printed text until it is sent; of the messages in one interval the last is sent."""

    def __init__(self, report: ReportProgress) -> None:
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
        """The tool's own report. The fraction is 0..1 or None."""
        self._text, self._fraction, self._news = text[-MAX_TEXT:], fraction, True
        self._schedule_flush()

    def add_output(self, text: str) -> None:
        """The tool's output, as it is printed."""
        if text:
            whole = self._output + text
            self._output = whole[-MAX_PIECE:]
            self._left_out += len(whole) - len(self._output)
            self._schedule_flush()

    def close(self) -> None:
        """Sends what is left; nothing is reported after this."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush(last=True)
        self._closed = True

    def _schedule_flush(self) -> None:
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
        """The output up to the end of its last line, with a note on omitted text."""
        end = len(self._output) if whole else self._output.rfind("\n") + 1 or len(self._output)
        piece, self._output = self._output[:end], self._output[end:]
        most = MAX_PIECE if self._printed < MAX_WHOLE else SMALL_PIECE
        left_out = self._left_out + max(0, len(piece) - most)
        piece, self._left_out = piece[-most:], 0
        self._printed += len(piece)
        return f"[… {left_out:,} characters omitted …]\n{piece}" if left_out else piece


# -- images, recognized by their first bytes


def image_content(data: bytes) -> Content | None:
    """`data` as an image of the type of its first bytes; None if it is none."""
    kind = image_type(data)
    if not kind:
        return None
    return Content("image", media_type=kind, data=base64.b64encode(data).decode("ascii"))


# -- our own scripts, started by their path


def script_command(script: Path, *arguments: str) -> tuple[str, ...]:
    """The command line after the interpreter and its options, to start one of our scripts in an
    interpreter that may not be ours.

    Python would compile the script of its command line at each start; so its compiled file, if
    there is one for that Python, is looked up as for an import. The script does not notice the
    difference.
    """
    return ("-c", _START, str(script), *arguments)


# -- templates with a call's arguments: `{{ args.city }}`, `{{ args.places.0.name }}`, `{{ args }}`

# A string that is only one placeholder becomes the argument itself, number or object. Numbers keep
# their digits. Nothing else is evaluated.


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Valid arguments, with each number as an ExactNumber. ValueError if they are invalid."""
    value: dict[str, Any] = load_spelled(arguments)
    return value


def fill_template(template: Any, arguments: dict[str, Any], known: Collection[str] = ()) -> Any:
    """`template` with its placeholders filled. One whose argument is missing becomes an empty text
    if the argument is one of `known`, which a call may have, and otherwise stays as written."""

    def value_at(place: re.Match[str]) -> Any:
        steps = steps_of(place)
        value = value_at_steps(arguments, steps)
        if value is not ABSENT:
            return value
        return "" if steps and steps[0] in known else place[0]

    return _fill(template, value_at)


def empty_placeholders(
    template: Any, arguments: dict[str, Any], known: Collection[str]
) -> list[str]:
    """The distinct placeholders that `fill_template` replaces by an empty text, as written."""
    match template:
        case str():
            places = [(place[0], steps_of(place)) for place in PLACE.finditer(template)]
            empty = [
                text
                for text, steps in places
                if steps and steps[0] in known and value_at_steps(arguments, steps) is ABSENT
            ]
            return list(dict.fromkeys(empty))
        case dict():
            return empty_placeholders(list(template.values()), arguments, known)
        case list():
            every = (empty_placeholders(item, arguments, known) for item in template)
            return list(dict.fromkeys(text for several in every for text in several))
    return []


def fill_present(template: Any, arguments: dict[str, Any]) -> Any:
    """Like `fill_template`, but members and items that are a single placeholder without its
    argument are left out, and a placeholder in a longer text becomes empty. ABSENT if nothing
    remains."""

    def value_at(place: re.Match[str]) -> Any:
        return value_at_steps(arguments, steps_of(place))

    return _fill(template, value_at)


def unfilled_placeholders(template: Any, known: Collection[str]) -> list[tuple[str, str]]:
    """The placeholders that stay as written if a call has the arguments `known`: each as its text
    and the name in it."""
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
            return unfilled_placeholders(list(template.values()), known)
        case list():
            return list(
                dict.fromkeys(
                    text for item in template for text in unfilled_placeholders(item, known)
                )
            )
    return []


def steps_of(place: re.Match[str]) -> list[str]:
    return place[1].split(".")[1:]


def _fill(template: Any, replace_place: Callable[[re.Match[str]], Any]) -> Any:
    match template:
        case str():
            whole = PLACE.fullmatch(template)
            if whole is not None:
                return replace_place(whole)
            return PLACE.sub(lambda place: as_text(replace_place(place)), template)
        case dict():
            members = ((key, _fill(item, replace_place)) for key, item in template.items())
            return {key: item for key, item in members if item is not ABSENT}
        case list():
            items = (_fill(item, replace_place) for item in template)
            return [item for item in items if item is not ABSENT]
    return template


def as_text(value: Any) -> str:
    """Text unchanged, everything else as JSON; empty for ABSENT."""
    if value is ABSENT:
        return ""
    return str(value) if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """Compact JSON in which numbers keep their digits."""
    match value:
        case ExactNumber():
            return str(value)
        case dict():
            members = (
                f"{json.dumps(k, ensure_ascii=False)}: {as_json(v)}" for k, v in value.items()
            )
            return "{" + ", ".join(members) + "}"
        case list():
            return "[" + ", ".join(as_json(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
