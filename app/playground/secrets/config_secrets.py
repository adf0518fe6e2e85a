"""Finds possible keys in a configuration, and chooses names of variables to replace them.

Does not know the keys. A value is a possible key by its prefix (known vendors), by its name (a
whole word of it, as in MY_API_KEY), by its position (a password in a URL, text after Bearer), or
because it is random. Ordinary values are not reported: a region, a path, a package, an id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count

from playground.secrets.detection import BEGINS, SURE_BEGINS, find_keys
from playground.secrets.names import NAME_WORDS, is_opaque, names_key, word_set

PREFIX = "it begins like a key"
NAME = "its name is that of a key"
PLACE = "it is where a key is expected"
RANDOM = "it looks random"

# -- names

_IDENTIFIES = word_set(
    "id ids ref sha sha256 hash digest address commit checksum uuid guid arn account tenant "
    "project image model revision version profile branch tag container session workspace"
)
"""Last words of names whose values are random but no secrets."""

# -- values

_PLAIN = re.compile(
    r"(?i:true|false|yes|no|on|off|null|none|nil|undefined|default|auto|enabled|disabled)"
    r"|-?[0-9](?:\.[0-9]+)?"
    r"|(?:~|\.{1,2})?[/\\][^\s?#=]{0,400}|[A-Za-z]:[/\\][^?#=]{0,400}"
    r"|[\w./\\-]+\.(?:json|ya?ml|toml|txt|env|ini|cfg|conf|pem|crt|cer|key|p12|pfx|jks|js|ts|py|db)"
    r"|[a-z][a-z0-9+.-]*://\S*"
)
"""Values that are not keys, whatever their name. The parts of a URL are still checked."""
_REFERENCE = re.compile(
    r"\$\{[^{}]*\}|\{env:[^{}]*\}|(?<![\w$])\$[A-Z_][A-Z0-9_]*(?!\w)|%[A-Z_][A-Z0-9_()]*%|\{\{[^{}]*\}\}"
)
_SCHEME = re.compile(r"(?i:bearer|basic|token|digest|apikey|bot) +")
_AUTHORIZED = re.compile(r"(?i)\b(?:bearer|basic) +([^\s\"',;]{6,})")
_WORD = re.compile(r"[a-z]+")
_USER = re.compile(
    r"(?i)(?<![\w+.-])[a-z][a-z0-9+.-]*://(?P<user>[^\s/?#@:\"']*)"
    r"(?::(?P<password>[^\s\"'/?#]*(?=@)|(?![0-9]{1,5}[/?#])[^\s\"'@]*(?=@)))?@"
)
_PAIR = re.compile(
    r"(?<![\w./@:-])(?P<flag>--?[A-Za-z][\w-]*)(?:=|[ \t]+)"
    r"(?P<shell>\"[^\"]+\"|'[^']+'|[^\s\"'-]\S*)"
    r"|(?<![\w/@.-])(?P<name>[A-Za-z][\w.-]*)(?P<sign>=|\\?[\"'] *: *\\?[\"']|: +|:(?![/\\]))"
    r"(?P<value>\"[^\"]+\"|'[^']+'|(?:(?i:bearer|basic|token|digest) +)?[^\s\"'&;,|}\]\\]+)"
)
_PEM = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_BEGINS = re.compile(
    rf"(?<![A-Za-z0-9_-])({'|'.join(map(re.escape, sorted(BEGINS, key=len)[::-1]))})"
    r"([-_.A-Za-z0-9+/=]{6,})"
)
_RUN = re.compile(r"[A-Za-z0-9]+")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_JSON = re.compile(r"\s*[{\[]")
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f]{32,}|[0-9A-F]{32,})")
_ATOM = re.compile(r"[^\s\"'=,;&|<>()\[\]{}\\]+=*")
_NAMED = re.compile(r"[\w.-]+(?==\Z)")
_LONGEST_NAME = 100
_LOCAL = re.compile(r"~|\.{0,2}/|[A-Za-z]:")
_MOST_READ = 8_192
LONG = 20
"""Minimum characters of a word that is tested for randomness."""


@dataclass(frozen=True)
class SecretSpan:
    """The span of a possible key in a text; `word` is its name there, or ""."""

    start: int
    end: int
    word: str
    why: str


def secrets_in(text: str, name: str = "") -> list[SecretSpan]:
    """The spans of possible keys in the value called `name`, in order and disjoint."""
    if not text or len(text) > _MOST_READ:
        return []
    covered = bytearray(len(text))
    for match in _REFERENCE.finditer(text):
        covered[match.start() : match.end()] = b"\1" * len(match[0])
    secrets: list[SecretSpan] = []
    for spot in (
        *_spans_by_name(text, name),
        *_spans_by_prefix(text),
        *_spans_by_place(text),
        *_spans_by_randomness(text, name),
    ):
        if spot.start < spot.end and 1 not in covered[spot.start : spot.end]:
            covered[spot.start : spot.end] = b"\1" * (spot.end - spot.start)
            secrets.append(spot)
    return sorted(secrets, key=lambda span: span.start)


def _spans_by_name(text: str, name: str) -> Iterator[SecretSpan]:
    """The whole value, after an authentication scheme; if it refers to variables, the text next to
    them, if that looks like a key itself."""
    scheme = _SCHEME.match(text)
    start = scheme.end() if scheme else 0
    value = text[start:]
    plain = _PLAIN.fullmatch(value) and not _is_random(value)
    if not name or plain or not names_key(name, value):
        return
    if _JSON.match(value) and any(_spans_by_place(value)):
        return  # the key inside it is reported instead
    if not _REFERENCE.search(value):
        yield SecretSpan(start, len(text), name, NAME)
        return
    beside = _REFERENCE.sub(lambda reference: " " * len(reference[0]), text)
    for match in re.finditer(r"[^\s{}$:,;]{8,}", beside):
        if is_opaque(match[0]):
            yield SecretSpan(*match.span(), name, NAME)


def _spans_by_prefix(text: str) -> Iterator[SecretSpan]:
    for match in _PEM.finditer(text):
        yield SecretSpan(match.start(), match.end(), "", PREFIX)
    for start, end in find_keys(text):
        yield SecretSpan(start, end, "", PREFIX)
    for match in _BEGINS.finditer(text):
        rest = match[2].rstrip(".")
        sure = match[0].startswith(SURE_BEGINS) and len(rest) >= 8
        if sure or any(_is_mixed(run) for run in _RUN.findall(rest)):
            yield SecretSpan(match.start(), match.start() + len(match[1]) + len(rest), "", PREFIX)


def _is_mixed(run: str) -> bool:
    """Whether a run is not a word: it mixes letters and digits, or is long."""
    digits = sum(char.isdigit() for char in run)
    return len(run) >= 12 or (len(run) >= 8 and digits >= 2)


def _spans_by_place(text: str) -> Iterator[SecretSpan]:
    for match in _USER.finditer(text):
        if match["password"]:
            yield SecretSpan(*match.span("password"), "password", PLACE)
        elif _is_random(match["user"]):
            yield SecretSpan(*match.span("user"), "", RANDOM)
    for match in _PAIR.finditer(text):
        group = "shell" if match["flag"] else "value"
        word = match["flag"] or match["name"]
        start, end = match.span(group)
        if text[start] in "\"'":
            start, end = start + 1, end - 1
        if scheme := _SCHEME.match(text, start, end):
            start = scheme.end()
        sign = match["sign"] or "="
        if sign == ":" and not re.search(r"[-_]|^(?i:authorization|cookie)$", word):
            continue  # an image and its tag
        value = text[start:end]
        if not _PLAIN.fullmatch(value) and names_key(word, value):
            yield SecretSpan(start, end, word, NAME)
    for match in _AUTHORIZED.finditer(text):
        if not _WORD.fullmatch(match[1]):
            yield SecretSpan(*match.span(1), "", PLACE)


def _spans_by_randomness(text: str, name: str) -> Iterator[SecretSpan]:
    """The random pieces of the value; no file paths, digests or values named as identifiers."""
    if "git+" in text or ".git" in text:
        return
    for match in _ATOM.finditer(text):
        atom, start = match[0], match.start()
        if len(atom) < LONG:
            continue
        named = _NAMED.search(text[max(0, start - _LONGEST_NAME) : start])
        words = [word.lower() for word in NAME_WORDS.findall(named[0] if named else name)]
        if (words and words[-1] in _IDENTIFIES) or "sha256:" in atom or "sha512-" in atom:
            continue
        if "://" in atom:
            host = atom.index("://") + 3
            begin = atom.find("/", host)
            pieces = re.finditer(r"[^/?#]+", atom[begin:]) if begin > 0 else iter(())
            start += max(begin, 0)
        elif _LOCAL.match(atom) or "%PATH%" in atom:
            continue
        else:
            pieces = re.finditer(r"[^:@]+", atom)
        for piece in pieces:
            if _is_random(piece[0]):
                yield SecretSpan(start + piece.start(), start + piece.end(), "", RANDOM)


def _is_random(word: str) -> bool:
    """Whether a word is random: long, and it changes between letters, cases and digits more often
    than names made of words. Ids with the usual dashes are not."""
    if len(word) < LONG or _UUID.search(word) or re.search(r"[^A-Za-z0-9+/=._~%-]", word):
        return False
    if _HEX.fullmatch(word):
        return any(letter.isdigit() for letter in word) and any(
            letter.isalpha() for letter in word[2:]
        )
    runs = _RUN.findall(word)
    longest = max(runs, key=len, default="")
    if len(set(longest)) < 8:
        return False
    digits = any(letter.isdigit() for letter in longest)
    if len(longest) >= LONG:
        return _length_of_pieces([longest]) < (3.3 if digits else 2.3)
    every = "".join(runs)
    sizes = (str.isdigit, str.isupper, str.islower)
    mixed = all(any(is_one(char) for char in every) for is_one in sizes)
    most = 2.8 if len(every) >= 32 else 2.4
    return len(every) >= LONG and len(longest) >= 8 and mixed and _length_of_pieces(runs) < most


def _length_of_pieces(runs: Iterable[str]) -> float:
    """The mean length of the pieces: words of camelCase, and numbers."""
    pieces = [piece for run in runs for piece in _PIECE.findall(run)]
    return sum(map(len, pieces)) / max(len(pieces), 1)


# -- variables


def variable_name(*words: str) -> str:
    """The name of a variable made of words: ("my-server", "Folder") is MY_SERVER_FOLDER."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(words)).strip("_").upper()[:64] or "VALUE"
    return name if not name[0].isdigit() else f"MY_{name}"


def variable(*words: str) -> str:
    """The name of a key's variable made of words: ("my-server", "X-Key") is MY_SERVER_X_KEY."""
    name = variable_name(*words)
    says_secret = any(word in name for word in ("KEY", "TOKEN", "SECRET", "PASS"))
    return name if says_secret else f"{name}_KEY"


class Variables:
    """The variables of one file: one per value, and none that the file refers to already."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._values: dict[str, str | None] = dict.fromkeys(names, None)

    def name_for(self, value: str, *names: str) -> str:
        """The first of `names` that is free for `value`, or the last one with a number."""
        numbered = (f"{names[-1]}_{number}" for number in count(2))
        free = (name for name in chain(names, numbered) if self._values.get(name, value) == value)
        name = next(free)
        self._values[name] = value
        return name
