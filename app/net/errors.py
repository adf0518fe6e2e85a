"""Network errors: what went wrong with one request, why, and what had come by then.

Knows no socket and no clock. The sentences are written where the error is met.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from app.core.errors import PlaygroundError
from app.core.events import FailKind

MOST_QUOTED = 500
"""Characters of a server's own words in a sentence of ours."""

REQUEST_IDS = ("request-id", "x-request-id", "apim-request-id", "x-goog-request-id", "cf-ray")


def request_id(headers: Mapping[str, str]) -> str:
    """The id that the answer names for its request, or ""."""
    return next((headers[name] for name in REQUEST_IDS if headers.get(name)), "")


class NetworkError(PlaygroundError):
    """What went wrong with one request, as ResponseFailed will tell it.

    `status` is the answer's, where there was one. `quoted` is what the sentence repeats of the
    server's own words, in full: `sentence` cuts it, once it is redacted.
    `began` is whether any byte of a body had come: then a second try would repeat output.
    `retry_after` is in seconds. `headers` are the answer's where it is told of nowhere else.
    """

    def __init__(
        self,
        failure: FailKind,
        message: str,
        *,
        status: int | None = None,
        quoted: str = "",
        began: bool = False,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.status = status
        self.quoted = quoted
        self.began = began
        self.retry_after = retry_after
        self.headers = headers or {}
        self.request_id = request_id(self.headers)

    def sentence(self, redact: Callable[[str], str]) -> str:
        """The message, redacted and only then cut: no redactor knows half of a secret."""
        message, quoted = redact(str(self)), redact(self.quoted)
        if len(quoted) <= MOST_QUOTED:
            return message
        return message.replace(quoted, quoted[:MOST_QUOTED] + "…")


# What a failed connection or a header says ------------------------------------------------------


FOREVER_S = 1e9
"""More than anybody waits; what a server asks for in more digits than a float has."""


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait as the answer asks for them: a number or a date; None for junk or the past.

    A number that is beyond all floats is a very long time, and no junk.

    The caller decides how much of it to honour.
    """
    text = headers.get("retry-after", "").strip()
    asked = _number(headers.get("retry-after-ms", ""))
    seconds = _number(text) if asked is None else asked / 1000
    if seconds is None:
        try:
            seconds = (parsedate_to_datetime(text) - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if seconds >= 0 else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isinf(number) and number > 0 and text.strip()[:1].isdigit():
        return FOREVER_S
    return min(number, FOREVER_S) if math.isfinite(number) else None


def rate_limits(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of `headers` that tell how much may be asked, and when; the names in lower case."""
    return {
        name.lower(): value
        for name, value in headers.items()
        if "ratelimit" in name.lower().replace("-", "") or name.lower().startswith("retry-after")
    }


def connect_reason(error: BaseException) -> str:
    """Why no connection came about, and what to do, from the chain of causes."""
    for cause in _causes(error):
        match cause:
            case socket.gaierror():
                return "the name is not known (DNS); check the spelling and your network."
            case ssl.SSLCertVerificationError():
                reason = getattr(cause, "verify_message", "unknown issuer")
                return f"its TLS certificate is not trusted ({reason}); check the host name."
            case ssl.SSLError():
                return "it does not speak TLS there; check the port, or use http://."
            case ConnectionRefusedError():
                return "the connection was refused; is the server running on that port?"
    return "the connection failed; check the address and your network."


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and all that stands behind it, groups too."""
    unread: list[BaseException | None] = [error]
    seen: set[int] = set()
    while unread:
        cause = unread.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        unread += [cause.__context__, cause.__cause__]
        if isinstance(cause, BaseExceptionGroup):
            unread += cause.exceptions
