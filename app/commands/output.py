"""Output of a run as lines: for a reader, or for a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from app.config import one_line
from app.core.events import (
    CallDecided,
    CallEnded,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    RequestSent,
    ResponseFailed,
    RetryScheduled,
    RunPaused,
    SessionStarted,
    SettingsChanged,
    Warned,
)
from app.core.serialization import EVENTS, from_data, logged_data

STOPPED = "stopped"
"""What a run comes to that is ended by Ctrl-C; no state of a session."""


class RunPrinter:
    """Tells each event once, in order."""

    def __init__(self, as_json: bool, session_id: str) -> None:
        self._json = as_json
        self._session_id = session_id
        self._kinds: dict[int, str] = {}
        self._names: dict[str, str] = {}
        self._turn = 0
        self._retries = 0
        self._paused = ""
        self._open_line = False

    def tell(self, logged: Logged) -> None:
        if isinstance(logged.event, RunPaused):
            self._paused = logged.event.message or f"The run was paused ({logged.event.limit})."
        if self._json:
            self._print(json.dumps(logged_data(logged)))
            if isinstance(logged.event, ResponseFailed):
                self._say(logged.event.message)
        else:
            self._tell(logged.event)

    def rest(self, state: str, waiting: Sequence[str]) -> None:
        """What a person must know when the run rests."""
        self._end_line()
        here = f"Open session {self._session_id} in the page."
        if state == "waiting":
            self._say(f"Needs a decision: {', '.join(waiting)}. {here}")
        elif state == "paused":
            self._say(f"{self._paused or 'The run is paused.'} {here}")
        elif state in ("failed", "interrupted"):
            self._say(here)  # where Retry, Setup and Providers are, of which the reason may speak

    def stopped(self, where: str) -> None:
        """What a person must know who ended the run by Ctrl-C."""
        self._end_line()
        self._say(f"The run was stopped. Session {self._session_id} waits {where}.")

    def _tell(self, event: Event) -> None:
        match event:
            case RequestSent(recording=recording):
                self._turn, self._kinds = recording, {}
            case PartStarted(index=index, part_kind=kind):
                self._kinds[index] = kind
            case PartDelta(index=index, text=text) if self._kinds.get(index) in ("text", "refusal"):
                self._write(text)
            case PartEnded(index=index) if self._kinds.get(index) == "call":
                self._names[f"{self._turn}.{index}"] = event.name
                self._line(f"→ {event.name} {event.text or '{}'}")
            case PartEnded():
                self._end_line()
            case CallDecided() if event.decision != "run":
                who = "the user" if event.by == "person" else event.rule
                self._line(f"  {event.decision} by {who}")
            case CallEnded(call_id=call_id, result=result):
                error = " (error)" if result.is_error else ""
                self._line(f"← {self._names.get(call_id, call_id)}{error} {result.text}")
            case ResponseFailed(message=message):
                self._end_line()
                self._say(message)
            case SessionStarted(settings=settings) | SettingsChanged(settings=settings):
                self._retries = settings.limits.max_retries
            case RetryScheduled():
                place = f"{event.attempt} of {self._retries}"
                self._say(f"Trying again in {event.wait_s:.3g} s ({place}): {event.reason}.")
            case RunPaused() | Warned():
                pass

    def _write(self, text: str) -> None:
        lines = text.split("\n")
        self._out("\n".join(one_line(line) for line in lines))
        self._open_line = bool(lines[-1]) or (self._open_line and len(lines) == 1)

    def _line(self, text: str) -> None:
        self._end_line()
        self._print("\n".join(one_line(line) for line in text.split("\n")))

    def _end_line(self) -> None:
        if self._open_line:
            self._out("\n")
            self._open_line = False

    def _print(self, text: str) -> None:
        self._out(text + "\n")

    def _out(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _say(self, text: str) -> None:
        print(f"playground: {one_line(text)}", file=sys.stderr)


def parse_log_line(line: dict[str, object]) -> Logged:
    """The Logged of a line of the log as scripts read it."""
    from_line = dict(line)
    seq, at_ms, kind = (from_line.pop(name) for name in ("seq", "at_ms", "kind"))
    from_line.pop("source", None)
    assert isinstance(seq, int)
    assert isinstance(at_ms, int)
    assert isinstance(kind, str)
    return Logged(seq, at_ms, from_data(EVENTS[kind], from_line))
