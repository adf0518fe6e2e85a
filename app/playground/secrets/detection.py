"""Patterns of keys, positions of likely secrets in a text, and decoded forms of a text. Pure; does
not know the actual keys."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import chain
from typing import Literal, NamedTuple
from urllib.parse import unquote

from playground.secrets.forms import Span, wrapped_base64
from playground.secrets.names import is_long_opaque, is_opaque, is_secret, names_key

_KEY_RUN = re.compile("[A-Za-z0-9]+")
_TURN = re.compile("[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")

_CREDENTIALS = r"(?i:\b(?:bearer|basic|token)\s+\S)"
_JUMBLE = r"(?=[A-Za-z+/=_]*\d)(?=[\d+/=_]*[A-Za-z])[A-Za-z0-9+/=_]{32,}"

_SLACK = re.compile(r"hooks\.slack\.com/services/(?P<v>[A-Za-z0-9/]{20,})")
_BEARER = tuple(
    re.compile(
        rf"{scheme}(?<![a-z0-9]{scheme})(?:\s|%20|\+)+"
        r"(?P<v>(?![A-Za-z]+(?:[^A-Za-z0-9._~+/=-]|\Z))[A-Za-z0-9._~+/=-]{12,})"
    )
    for scheme in ("bearer", "basic")
)
_AUTHORIZED = re.compile(
    r"authorization(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?(?:[A-Za-z][A-Za-z0-9-]* +)?"
    r"(?P<v>[^\s\"'\\,;<>{}$]{8,})",
)
_VALUE = (
    r"(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?(?P<v>[^\s\"',;{}\[\]()<>$*\\&]{8,})"  # of an assignment
)

_NAMED_LIKE_KEYS = tuple(
    re.compile(
        rf"{word}(?P<rest>[\w.-]{{0,40}}+)(?:\\*[\"'])?(?:\s*(?:=>|:=|[:=])\s*|[ \t]+)(?:\\*[\"'])?"
        r"(?P<v>[^\s\"',;{}\[\]()<>$*\\&]{16,})"
    )
    for word in ("token", "secret", "key", "pass", "pwd", "pat", "jwt", "psk", "auth", "cred")
)
"""A name with one of these words, and its value, also as an option of a command."""

_NAME_BEFORE = re.compile(r"[\w.-]{0,60}\Z")

_IN_URL = re.compile(r"(?<=://)[^\s/:@\"'\\]*:(?P<v>[^\s/@\"'\\]+)(?=@)")
_USER = re.compile(r"(?<=://)(?P<v>[^\s/:@\"'\\]{8,})(?=:[^\s/@\"'\\]*@|@)")
_MEMBER = re.compile(r"[?&;](?P<name>[A-Za-z0-9_.-]{2,40})=(?P<v>[^\s&;#\"'\\<>]{8,})")
_COOKIES = re.compile(
    r"cookie(?<![a-z0-9]cookie)(?:\\*[\"'])?\s*:\s*(?:\\*[\"'])?"
    r"(?P<all>[\w.-]+=[^;\s\"'\\]*(?:;\s*[\w.-]+(?:=[^;\s\"'\\]*)?)*)",
)
_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY(?: BLOCK)?-----(?P<all>[A-Za-z0-9+/=\\\s:,-]{16,}?)"
    r"(?:-----END|\Z)"
)
_LINE = re.compile(r"\\[nr]|\s+|(?P<v>[^\\\s]+)")

_COLOUR = r"\[[0-9;]*+[A-Za-z]"

_BORDERS = (
    re.compile(rf"\x1b{_COLOUR}"),
    re.compile(
        r"\\(?<!\\\\)\\*+"
        rf"(?:(?:u001[bB]|x1[bB]|033|e){_COLOUR}|[nrtbfv]|u[0-9a-fA-F]{{4}}|x[0-9a-fA-F]{{2}})"
    ),
)
"""Escapes that are one character in JSON and similar notations, or invisible on a terminal, but end
in a letter or a digit, which is not part of the following word."""

_COOKIE = re.compile(r"(?P<name>[^=;,\s]+)=(?P<v>[^;,\s]*)")
_ATTRIBUTES = {"path", "domain", "expires", "max-age", "samesite", "priority", "version"}

AGENTS_OWN = "(the agent's own)"
"""Replaces the value of a credential that an agent sent, which is never stored."""

_NAMED = re.compile(
    rf"(?:[A-Za-z]+ )?(?:\$\{{?[A-Za-z_][A-Za-z0-9_]*\}}?|\*+|{re.escape(AGENTS_OWN)})"
)
"""A variable reference in place of a value, or an already masked value."""

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9-]* )?(?P<v>.+)", re.DOTALL)

_WORD = re.compile("[A-Za-z]+|[0-9]+")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_NAME = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*")
_DOTTED = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*\.?")
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<plain>[\"'\\/]))")
_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}")

_LONG_RUN = 64 * 1024
"""A longer run is a file or an image, whose base64 begins where the run does."""

_APART = "\n<>\n"

_STANDARD = str.maketrans("-_", "+/")


class KeyShape(NamedTuple):
    """Keys of some vendors: their prefixes, separated by spaces, and a pattern of the rest in texts
    ("" if texts are not searched for them). `place` is where they are searched for, and how:

    - "anywhere": in any text;
    - "random": also in any text, but names of functions, tables and styles begin alike: the rest
      must be random;
    - "config": only in values of configurations, because too much in texts begins alike.

    A match of a `sure` one is a key even if words follow.
    """

    begins: str
    follows: str
    place: Literal["anywhere", "random", "config"] = "anywhere"
    sure: bool = False


_ANY = r"[A-Za-z0-9_-]{20,}"
KEY_SHAPES: tuple[KeyShape, ...] = (
    KeyShape("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}", sure=True),
    KeyShape("github_pat_", r"[A-Za-z0-9_]{20,}", sure=True),
    KeyShape("glpat-", r"[A-Za-z0-9_-]{16,}", sure=True),
    KeyShape("AKIA ASIA", r"[A-Z0-9]{16}"),
    KeyShape("AIza", r"[A-Za-z0-9_-]{30,}"),
    KeyShape("ya29. GOCSPX-", _ANY),
    KeyShape("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", r"[A-Za-z0-9-]{10,}", sure=True),
    KeyShape("xapp-", r"[A-Za-z0-9-]{10,}"),
    KeyShape("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    KeyShape("eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    # OpenAI, Anthropic, Stripe
    KeyShape("sk- sk_ rk- rk_ pk- pk_", r"[A-Za-z0-9_-]{16,}", "random"),
    KeyShape("hf_ gsk_ npm_ r8_ tgp_v1_", _ANY, "random"),
    KeyShape("fw_ ntn_ figd_ lin_api_", _ANY, "random"),
    KeyShape("shpat_ shpca_ shppa_ shpss_ whsec_", r"[A-Za-z0-9+/=_-]{20,}", "random"),
    KeyShape("dop_v1_ doo_v1_ dor_v1_", r"[A-Za-z0-9]{20,}", "random"),
    KeyShape("xai- pplx- nvapi- pypi- csk- tvly-", _ANY, "random"),
    KeyShape("sbp_ sb_secret_ secret_ dapi glsa_ fc- ctx7sk- apify_api_ tskey-", "", "config"),
    KeyShape("rnd_ nfp_ dckr_pat_ ATATT hvs. ops_ e2b_ jina_ key- ocpat_", "", "config"),
)
BEGINS = tuple(begins for shape in KEY_SHAPES for begins in shape.begins.split())
"""Prefixes of keys of known vendors."""
SURE_BEGINS = (
    *(begins for shape in KEY_SHAPES if shape.sure for begins in shape.begins.split()),
    "sk-ant-",
)

# Each pattern begins with a literal, which is found many times as fast.
_KEYS = tuple(
    (
        begins,
        shape.place == "random",
        re.compile(f"{(as_is := re.escape(begins))}(?<![A-Za-z0-9_/+-]{as_is}){shape.follows}"),
    )
    for shape in KEY_SHAPES
    if shape.place != "config"
    for begins in shape.begins.split()
)


def find_keys(text: str) -> Iterator[tuple[int, int]]:
    """The spans of keys of known vendors in `text`; plain words do not match."""
    for begins, like_names, key in _KEYS:
        if begins in text:
            matches = key.finditer(text)
            yield from (
                match.span()
                for match in matches
                if not like_names or _is_random(match[0][len(begins) :])
            )


def _is_random(value: str) -> bool:
    """Whether a value is random: letters mixed with digits, or a long run of mixed case. Names
    composed of words and numbers are not."""
    runs = _KEY_RUN.findall(value)
    return len(_TURN.findall(value)) >= 3 or any(
        (any(letter.isdigit() for letter in run) or not (run.islower() or run.isupper()))
        if len(run) >= 16
        else len(run) >= 8 and run.isalnum() and not run.isdigit() and _digits(run) >= 3
        for run in runs
    )


def _digits(value: str) -> int:
    return sum(letter.isdigit() for letter in value)


def may_be_key(value: str) -> bool:
    """Whether a header's value could be a key: it follows an authentication scheme, has a key
    prefix, or is a long mixture. Errs towards True: a refused value can be put into a variable."""
    return re.search(f"{_CREDENTIALS}|{_JUMBLE}", value) is not None or any(
        re.search(rf"(?<![A-Za-z0-9]){re.escape(begins)}[-_.A-Za-z0-9]{{12,}}", value)
        for begins, _, _ in _KEYS
        if begins in value
    )


# In a text ----------------------------------------------------------------------------------------


def _pattern_after(last: str, *firsts: str) -> str:
    """A pattern of `last` preceded by one of `firsts`. It begins with a literal, which is found
    many times as fast."""
    named = (f"(?<={first}{gap}{last})" for first in firsts for gap in ("", "[-_ ]"))
    return f"{last}(?:{'|'.join(named)})"


_ASSIGNED = tuple(
    re.compile(name + _VALUE)
    for name in (
        _pattern_after("key", "api", "access", "secret", "subscription", "functions")
        + "(?:[-_]?id)?",
        _pattern_after("token", "access", "auth", "refresh", "session"),
        _pattern_after("secret", "client"),
        "passw(?:or)?d",
        "passphrase",
    )
)


def secret_spans(text: str) -> list[Span]:
    """The spans in `text`, as it is, that look like secrets."""
    text = blank_escapes(text)
    spans = list(find_keys(text))
    # Same length: "İ" is the one letter with a longer lower case. Much faster than ignoring case.
    lower = text.replace("\u0130", "i").lower()
    if "slack" in lower:
        spans += [match.span("v") for match in _SLACK.finditer(text)]
    for scheme in _BEARER:
        schemes = scheme.finditer(lower)
        spans += [match.span("v") for match in schemes if _is_credential(text, match)]
    if "authorization" in lower:
        places = (match.span("v") for match in _AUTHORIZED.finditer(lower))
        spans += [(start, end) for start, end in places if is_opaque(text[start:end])]
    for assigned in _ASSIGNED:
        spans += [
            match.span("v") for match in assigned.finditer(lower) if not _is_code(text, match)
        ]
    for named in _NAMED_LIKE_KEYS:
        matches = named.finditer(lower)
        spans += [match.span("v") for match in matches if _is_named_key(text, match)]
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


def blank_escapes(text: str) -> str:
    """`text` with blanks in place of what ends in a letter but belongs to no word."""
    if "\\" in text or "\x1b" in text:
        for border in _BORDERS:
            text = border.sub(lambda escape: " " * len(escape[0]), text)
    return text


def certain_spans(text: str) -> list[Span]:
    """The spans that are secrets by vendor or position, whatever their length."""
    spans = list(find_keys(text))
    if "://" in text:
        spans += [match.span("v") for match in _IN_URL.finditer(text) if is_opaque(match["v"])]
    return spans


def _is_credential(text: str, match: re.Match[str]) -> bool:
    """Whether "Bearer" or "Basic" is a header's scheme here: "basic" is also a plain word."""
    value = text[match.start("v") : match.end("v")]
    if is_opaque(value) if match[0][:2] == "be" else is_long_opaque(value):
        return True
    try:
        return b":" in base64.b64decode(value, validate=True) and is_opaque(value)
    except (binascii.Error, ValueError):
        return False


def _is_code(text: str, match: re.Match[str]) -> bool:
    """Whether the assigned value is a word, a URL, the name of a variable, or code that reads it: a
    name, an attribute, a call."""
    value = match["v"]
    if _WORD.fullmatch(value) or "://" in value or _VARIABLE.fullmatch(text, *match.span("v")):
        return True
    text = match.string
    if text[match.start("v") - 1] in "\"'":
        return False
    if _DOTTED.fullmatch(value) and text[match.end("v") : match.end("v") + 1] in ("(", "["):
        return True
    return _NAME.fullmatch(value) is not None and not any(letter.isdigit() for letter in value)


def _is_named_key(text: str, match: re.Match[str]) -> bool:
    """Whether the name says that the value is a key, and the value looks like one."""
    start, end = match.span("v")
    value = text[start:end]
    is_whole = "=" not in value.rstrip("=") and "://" not in value
    if not (is_whole and is_long_opaque(value) and _is_random(value)):
        return False
    before = _NAME_BEFORE.search(text[max(0, match.start() - 60) : match.start()])
    name = (before[0] if before else "") + text[match.start() : match.end("rest")]
    is_assigned = any(sign in match.string[match.end("rest") : start] for sign in ":=")
    return (is_assigned or name.startswith("--")) and names_key(name, value)


def header_spans(name: str, value: str) -> list[Span]:
    """The secret spans of the header (or similar field) `name`, judged by name, or by name and
    looks."""
    whole = _SCHEME.fullmatch(value)
    if whole is None or not is_secret(name, whole["v"]) or _NAMED.fullmatch(value):
        return []
    if "cookie" in name.lower():
        return _cookie_spans(value, 0, len(value))
    return [whole.span("v") if "auth" in name.lower() else (0, len(value))]


def decoded_texts(text: str) -> Iterator[str]:
    """The texts encoded in `text` by base64, percent signs or escapes."""
    if "%" in text and (unquoted := unquote(text, errors="replace")) != text:
        yield unquoted
    before = text
    for _ in range(2):
        unescaped = _ESCAPE.sub(_unescape, before) if "\\" in before else before
        if unescaped == before:
            break
        yield unescaped
        before = unescaped
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
    # In one text, because there may be very many; the separator keeps them apart.
    yield _APART.join(texts)


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match["code"], 16)) if match["code"] else match["plain"]


def _cookie_spans(text: str, start: int, end: int) -> list[Span]:
    return [
        match.span("v")
        for match in _COOKIE.finditer(text, start, end)
        if match["v"] and match["name"].lower() not in _ATTRIBUTES
    ]
