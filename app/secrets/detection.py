"""Where something that looks like a secret stands in a text; and the texts behind its encodings."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import chain
from urllib.parse import unquote

from app.secrets.forms import Span, wrapped_base64
from app.secrets.names import is_long_opaque, is_opaque, is_secret
from app.secrets.patterns import find_keys

_SLACK = re.compile(r"hooks\.slack\.com/services/(?P<v>[A-Za-z0-9/]{20,})")
_BEARER = re.compile(
    r"(?<![a-z0-9])(?:bearer|basic)(?:\s|%20|\+)+(?P<v>(?![A-Za-z]+(?:[^A-Za-z0-9._~+/=-]|\Z))"
    r"[A-Za-z0-9._~+/=-]{12,})",
)
_AUTHORIZED = re.compile(
    r"authorization(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?(?:[A-Za-z][A-Za-z0-9-]* +)?"
    r"(?P<v>[^\s\"'\\,;<>{}$]{8,})",
)
_VALUE = (
    r"(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?(?P<v>[^\s\"',;{}\[\]()<>$*\\&]{8,})"  # of an assignment
)


def _preceded_by(last: str, *firsts: str) -> str:
    """A pattern of `last` where one of `firsts` stands before it. It begins with plain letters,
    which are found many times as fast."""
    named = (f"(?<={first}{gap}{last})" for first in firsts for gap in ("", "[-_ ]"))
    return f"{last}(?:{'|'.join(named)})"


_ASSIGNED = tuple(
    re.compile(name + _VALUE)
    for name in (
        _preceded_by("key", "api", "access", "secret", "subscription", "functions")
        + "(?:[-_]?id)?",
        _preceded_by("token", "access", "auth", "refresh", "session"),
        _preceded_by("secret", "client"),
        "passw(?:or)?d",
        "passphrase",
    )
)
_IN_URL = re.compile(r"(?<=://)[^\s/:@\"'\\]*:(?P<v>[^\s/@\"'\\]+)(?=@)")
_USER = re.compile(r"(?<=://)(?P<v>[^\s/:@\"'\\]{8,})(?=:[^\s/@\"'\\]*@|@)")
_MEMBER = re.compile(r"[?&;](?P<name>[A-Za-z0-9_.-]{2,40})=(?P<v>[^\s&;#\"'\\<>]{8,})")
_COOKIES = re.compile(
    r"(?<![a-z0-9])(?:set-)?cookie(?:\\*[\"'])?\s*:\s*(?:\\*[\"'])?"
    r"(?P<all>[\w.-]+=[^;\s\"'\\]*(?:;\s*[\w.-]+(?:=[^;\s\"'\\]*)?)*)",
)
_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY(?: BLOCK)?-----(?P<all>[A-Za-z0-9+/=\\\s:,-]{16,}?)"
    r"(?:-----END|\Z)"
)
_LINE = re.compile(r"\\[nr]|\s+|(?P<v>[^\\\s]+)")

_BORDER = re.compile(
    r"(?:\x1b|(?<!\\)\\++(?:u001[bB]|x1[bB]|033|e))\[[0-9;]*+[A-Za-z]"
    r"|(?<!\\)\\++(?:[nrtbfv]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})"
)
"""What is one character inside of JSON and like it, or none on a terminal, and ends in a letter or
a digit that is no part of the word after it."""

_COOKIE = re.compile(r"(?P<name>[^=;,\s]+)=(?P<v>[^;,\s]*)")
_ATTRIBUTES = {"path", "domain", "expires", "max-age", "samesite", "priority", "version"}

AGENTS_OWN = "(the agent's own)"
"""Stands for the value of a credential that an agent sent, which is kept nowhere."""

_NAMED = re.compile(
    rf"(?:[A-Za-z]+ )?(?:\$\{{?[A-Za-z_][A-Za-z0-9_]*\}}?|\*+|{re.escape(AGENTS_OWN)})"
)
"""The name of a variable in place of its value, or what is masked already."""

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9-]* )?(?P<v>.+)", re.DOTALL)

_WORD = re.compile("[A-Za-z]+|[0-9]+")
_NAME = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*")
_DOTTED = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*\.?")
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<plain>[\"'\\/]))")
_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}")
_LONG_RUN = 64 * 1024
"""A longer one is a file or an image, whose base64 begins where it does."""


def secret_spans(text: str) -> list[Span]:
    """Where something that looks like a secret stands in `text`, as it is."""
    if "\\" in text or "\x1b" in text:
        text = _BORDER.sub(lambda border: " " * len(border[0]), text)
    spans = list(find_keys(text))
    # Of the same length, for there is one letter whose small form is longer; and many times as fast
    # as a pattern that takes both.
    lower = text.replace("\u0130", "i").lower()
    if "slack" in lower:
        spans += [match.span("v") for match in _SLACK.finditer(text)]
    if "bearer" in lower or "basic" in lower:
        places = (
            match.span("v") for match in _BEARER.finditer(lower) if _is_credential(text, match)
        )
        spans += places
    if "authorization" in lower:
        places = (match.span("v") for match in _AUTHORIZED.finditer(lower))
        spans += [(start, end) for start, end in places if is_opaque(text[start:end])]
    for named in _ASSIGNED:
        spans += [match.span("v") for match in named.finditer(lower) if not _is_code(match)]
    if "://" in text:
        spans += [
            match.span("v") for match in _IN_URL.finditer(text) if not _NAMED.fullmatch(match["v"])
        ]
        spans += [match.span("v") for match in _USER.finditer(text) if is_opaque(match["v"])]
    if "?" in text:
        members = _MEMBER.finditer(text)
        spans += [member.span("v") for member in members if is_secret(member["name"], member["v"])]
    if "cookie" in lower:
        for match in _COOKIES.finditer(lower):
            spans += _cookie_spans(text, *match.span("all"))
    if "PRIVATE KEY" in text:
        for match in _PRIVATE.finditer(text):
            lines = _LINE.finditer(text, *match.span("all"))
            spans += [line.span("v") for line in lines if line["v"]]
    return spans


def certain_spans(text: str) -> list[Span]:
    """Those whose make or place says that they are secret, whatever their length."""
    spans = list(find_keys(text))
    if "://" in text:
        spans += [match.span("v") for match in _IN_URL.finditer(text) if is_opaque(match["v"])]
    return spans


def _is_credential(text: str, match: re.Match[str]) -> bool:
    """Whether "Bearer" or "Basic" means a header: a command-line tool may be basic, too."""
    value = text[match.start("v") : match.end("v")]
    if is_opaque(value) if match[0][:2] == "be" else is_long_opaque(value):
        return True
    try:
        return b":" in base64.b64decode(value, validate=True) and is_opaque(value)
    except (binascii.Error, ValueError):
        return False


def _is_code(match: re.Match[str]) -> bool:
    """Whether what is assigned is a word, an address, or what a program reads it from: a name, a
    member of one, a call."""
    value, text = match["v"], match.string
    if _WORD.fullmatch(value) or "://" in value:
        return True
    if text[match.start("v") - 1] in "\"'":
        return False
    if _DOTTED.fullmatch(value) and text[match.end("v") : match.end("v") + 1] in ("(", "["):
        return True
    return _NAME.fullmatch(value) is not None and not any(letter.isdigit() for letter in value)


def header_spans(name: str, value: str) -> list[Span]:
    """What of the header (or a field like one) `name` is secret, by its name alone, or by its name
    and looks."""
    whole = _SCHEME.fullmatch(value)
    if whole is None or not is_secret(name, whole["v"]) or _NAMED.fullmatch(value):
        return []
    if "cookie" in name.lower():
        return _cookie_spans(value, 0, len(value))
    return [whole.span("v") if "auth" in name.lower() else (0, len(value))]


def decoded_texts(text: str) -> Iterator[str]:
    """The texts behind the base64, the percent signs and the escapes of `text`."""
    if "%" in text:
        yield unquote(text, errors="replace")
    if "\\" in text:
        once = _ESCAPE.sub(_unescape, text)
        yield once
        if "\\" in once:
            yield _ESCAPE.sub(_unescape, once)
    lines = (block for block, _ in wrapped_base64(text))
    texts: list[str] = []
    for data in chain((run[0] for run in _RUN.finditer(text)), lines):
        data = data.translate(_STANDARD)
        for shift in range(4 if len(data) <= _LONG_RUN else 1):
            whole = len(data) - (len(data) - shift) % 4
            try:
                texts.append(base64.b64decode(data[shift:whole]).decode("latin-1"))
            except (binascii.Error, ValueError):
                continue
    # Together, for there may be very many of them; nothing goes on from one to the next.
    yield _APART.join(texts)


_APART = "\n<>\n"


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match["code"], 16)) if match["code"] else match["plain"]


def _cookie_spans(text: str, start: int, end: int) -> list[Span]:
    return [
        match.span("v")
        for match in _COOKIE.finditer(text, start, end)
        if match["v"] and match["name"].lower() not in _ATTRIBUTES
    ]


_STANDARD = str.maketrans("-_", "+/")
