"""What a failed connection or a header tells: sentences and seconds, no socket and no clock."""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

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
