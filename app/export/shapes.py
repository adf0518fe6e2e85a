"""What looks like a secret in any text: keys of well-known makes, bearer tokens, cookies, URLs with
a password, private keys; also behind base64 and percent signs. Pure, and knows no key.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from urllib.parse import unquote

_NO_WORD = r"(?<![A-Za-z0-9_/+-])"

_MAKES = (
    r"(?:sk|rk|pk)[-_](?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, Stripe
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"xapp-[A-Za-z0-9-]{10,}",
    r"(?:hf|gsk|npm|r8|tgp_v1)_[A-Za-z0-9_-]{20,}",
    r"(?:xai|pplx|nvapi|pypi|csk)-(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{20,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
)
_KEY = re.compile(f"{_NO_WORD}(?P<v>{'|'.join(_MAKES)})")
_SLACK = re.compile(r"hooks\.slack\.com/services/(?P<v>[A-Za-z0-9/]{20,})")
_BEARER = re.compile(
    r"\b(?:bearer|basic)(?:\s|%20|\+)+(?P<v>(?![A-Za-z]+(?:[^A-Za-z0-9._~+/=-]|\Z))"
    r"[A-Za-z0-9._~+/=-]{12,})",
    re.I,
)
_ASSIGNED = re.compile(
    r"(?:api[-_ ]?key|access[-_]?key(?:[-_]?id)?|(?:access|auth|refresh|session)[-_]?token"
    r"|client[-_]?secret|secret[-_]?key|secret[-_]?access[-_]?key|passw(?:or)?d|passphrase)"
    r"(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?(?P<v>[^\s\"',;{}\[\]()<>$*\\&]{8,})",
    re.I,
)
_IN_URL = re.compile(r"(?<=://)[^\s/:@\"'\\]*:(?P<v>[^\s/@\"'\\]+)(?=@)")
_COOKIES = re.compile(
    r"\b(?:set-)?cookie(?:\\*[\"'])?\s*:\s*(?:\\*[\"'])?"
    r"(?P<all>[\w.-]+=[^;\s\"'\\]*(?:;\s*[\w.-]+(?:=[^;\s\"'\\]*)?)*)",
    re.I,
)
_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY(?: BLOCK)?-----(?P<all>[A-Za-z0-9+/=\\\s:,-]{16,}?)"
    r"(?:-----END|\Z)"
)
_LINE = re.compile(r"\\[nr]|\s+|(?P<v>[^\\\s]+)")

_COOKIE = re.compile(r"(?P<name>[^=;,\s]+)=(?P<v>[^;,\s]*)")
_ATTRIBUTES = {"path", "domain", "expires", "max-age", "samesite", "priority", "version"}

SECRET_HEADER = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie2?|.*(?:api|access|secret)[-_]?key(?:[-_]?id)?"
    r"|.*[-_](?:token|secret)|.*(?:secret|passw(?:or)?d|passphrase|credentials?)",
    re.I,
)
"""Names of headers, and of fields like them, whose values are nobody's to read."""

_NAMED = re.compile(r"(?:[A-Za-z]+ )?(?:\$\{?[A-Za-z_][A-Za-z0-9_]*\}?|\*+)")
"""The name of a variable in place of its value, or what is masked already."""

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9-]* )?(?P<v>.+)", re.DOTALL)

_WORD = re.compile("[A-Za-z]+|[0-9]+")
_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}")
_LONG_RUN = 64 * 1024
"""A longer one is a file or an image, whose base64 begins where it does."""

Span = tuple[int, int]


def spans(text: str) -> list[Span]:
    """Where something that looks like a secret stands in `text`, as it is."""
    found = [one.span("v") for one in _KEY.finditer(text)]
    lower = text.lower()
    if "slack" in lower:
        found += [one.span("v") for one in _SLACK.finditer(text)]
    if "bearer" in lower or "basic" in lower:
        found += [one.span("v") for one in _BEARER.finditer(text)]
    found += [one.span("v") for one in _ASSIGNED.finditer(text) if not _WORD.fullmatch(one["v"])]
    if "://" in text:
        found += [one.span("v") for one in _IN_URL.finditer(text) if not _NAMED.fullmatch(one["v"])]
    if "cookie" in lower:
        for one in _COOKIES.finditer(text):
            found += _cookies(text, *one.span("all"))
    if "PRIVATE KEY" in text:
        for one in _PRIVATE.finditer(text):
            lines = _LINE.finditer(text, *one.span("all"))
            found += [line.span("v") for line in lines if line["v"]]
    return found


def header_spans(name: str, value: str) -> list[Span]:
    """What of the header (or a field like one) `name` is secret, by its name alone."""
    if not SECRET_HEADER.fullmatch(name) or _NAMED.fullmatch(value):
        return []
    if "cookie" in name.lower():
        return _cookies(value, 0, len(value))
    whole = _SCHEME.fullmatch(value)
    authorizes = "authorization" in name.lower()
    return [] if whole is None else [whole.span("v") if authorizes else (0, len(value))]


def hidden(text: str) -> Iterator[str]:
    """The texts behind the base64 and the percent signs of `text`."""
    if "%" in text:
        yield unquote(text, errors="replace")
    for run in _RUN.finditer(text):
        data = run[0].translate(_STANDARD)
        for shift in range(4 if len(data) <= _LONG_RUN else 1):
            whole = len(data) - (len(data) - shift) % 4
            try:
                yield base64.b64decode(data[shift:whole]).decode("latin-1")
            except (binascii.Error, ValueError):
                continue


def _cookies(text: str, start: int, end: int) -> list[Span]:
    return [
        one.span("v")
        for one in _COOKIE.finditer(text, start, end)
        if one["v"] and one["name"].lower() not in _ATTRIBUTES
    ]


_STANDARD = str.maketrans("-_", "+/")
