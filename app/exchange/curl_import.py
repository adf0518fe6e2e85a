"""A curl command line read as a shell would read it, without running anything.

Quotes of a POSIX shell, `$'...'`, a here-document, and the carets of Windows' command prompt. A
body in a file, or a variable in it, is not here to be read. https://curl.se/docs/manpage.html
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.exchange.text import Unreadable

_BODY = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")
_TAKES = (
    *("-A", "--user-agent", "-b", "--cookie", "-e", "--referer", "-m", "--max-time", "-o"),
    *("--output", "-u", "--user", "-x", "--proxy", "--connect-timeout", "--retry", "-w"),
    *("--write-out", "--cacert", "--cert", "--key", "--resolve", "--limit-rate", "-T"),
    *("-c", "-C", "-D", "-E", "-F", "-K", "-P", "-Q", "-r", "-t", "-U", "-y", "-Y", "-z"),
)
_VALUED = {name[1] for name in (*_BODY, *_TAKES, "-X", "-H") if len(name) == 2}
"""Letters of the short options that take a value."""

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"', "0": "\0", "a": "\a"}
_ANSI = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CURL = re.compile(r"(?m)^\s*(?:\$\s+)?(?:\S*/)?curl(?:\.exe)?\s|^printf %s ")
_CARETS = re.compile(r'curl(?:\.exe)?\s+(?:-\S+\s+)*\^"')
"""What a browser copies for Windows' command prompt has a caret before each sign, in quotes too."""

_HEREDOC = re.compile(
    r"""\$'(?:[^'\\]|\\.)*+'|'[^']*+'|"(?:[^"\\]|\\.)*+"|\\.|(?<!\S)#[^\n]*"""
    r"""|<<-?\s*(['"]?)(?P<end>[A-Za-z_][A-Za-z0-9_]*)\1""",
    re.DOTALL,
)
"""Quoted text and comments, which may say anything, or the word that a here-document ends by."""


@dataclass
class CurlCommand:
    """What a command line would send."""

    method: str = ""
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""


def is_curl(text: str) -> bool:
    """Whether `text` is a command line of curl, or a script of them."""
    return _CURL.search(text) is not None


def curl_commands(text: str) -> list[CurlCommand]:
    """The curl commands of `text`, in order; Unreadable with a sentence where one cannot be read,
    or where there is none."""
    if _CARETS.search(text):
        text = re.sub(r"\^(\r?\n|.)", lambda one: " " if "\n" in one[1] else one[1], text)
    text, here = _without_heredoc(text)
    found, words = [], list[str]()
    for word in (*_words(text), "\n"):
        if word not in ("\n", "&&"):
            words.append(word)
            continue
        if any(_is_curl_word(word) for word in words):
            found.append(_curl_command(words, here))
        words.clear()
    if not found:
        raise Unreadable("There is no curl command in it.")
    return found


def _is_curl_word(word: str) -> bool:
    return word.removesuffix(".exe").rpartition("/")[2] == "curl"


def _curl_command(line: list[str], here: str | None) -> CurlCommand:
    start = next(place for place, word in enumerate(line) if _is_curl_word(word))
    found, words, piped = CurlCommand(), iter(line[start + 1 :]), line[:start]
    if piped[:2] == ["printf", "%s"] and len(piped) > 2:
        here = _decode_base64(piped[2]) if "base64" in piped else piped[2]
    for word in words:
        name, value = _option(word)
        if name in _BODY:
            given = next(words, "") if value is None else value
            piece = here if given == "@-" and here is not None else given
            if piece.startswith("@"):
                raise Unreadable("The body is in a file that is not here; put its text in place.")
            found.body += "&" + piece if found.body else piece
        elif name in ("-X", "--request"):
            found.method = (next(words, "") if value is None else value).upper()
        elif name in ("-H", "--header"):
            header, _, told = (next(words, "") if value is None else value).partition(":")
            found.headers[header.strip().lower()] = told.strip()
        elif name == "--url":
            found.url = next(words, "") if value is None else value
        elif name in _TAKES and value is None:
            next(words, "")
        elif word in ("|", ">", "2>"):
            break
        elif not word.startswith("-") and not found.url:
            found.url = word
    if not found.url:
        raise Unreadable("The command names no URL; paste the whole of it.")
    return found


def _decode_base64(coded: str) -> str:
    try:
        return base64.b64decode(coded, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise Unreadable("The body is piped as base64 that cannot be read.") from None


def _option(word: str) -> tuple[str, str | None]:
    """The name of an option, and its value where that is written in the same word."""
    if word.startswith("--"):
        name, joined, value = word.partition("=")
        return name, value if joined else None
    # Letters stand together as in -sSLXPOST; the first that takes a value has the rest for it.
    letters = word[1:] if word.startswith("-") else ""
    place = next((place for place, letter in enumerate(letters) if letter in _VALUED), None)
    if place is None:
        return word, None
    return "-" + letters[place], letters[place + 1 :] or None


def _without_heredoc(text: str) -> tuple[str, str | None]:
    """The command without its here-document, and that; None where it has none."""
    match = next((match for match in _HEREDOC.finditer(text) if match["end"]), None)
    if match is None:
        return text, None
    line_end = text.find("\n", match.end())
    body = text[line_end + 1 :] if line_end >= 0 else ""
    end = re.search(rf"(?m)^\t*{match['end']}[ \t\r]*$", body)
    if end is None:
        raise Unreadable(f"The here-document has no end {match['end']}; paste the whole of it.")
    rest = text[: match.start()] + text[match.end() : max(line_end, match.end())]
    # The line end before the closing word is the shell's; curl sends it, and no JSON minds it.
    return rest, body[: end.start()].removesuffix("\n")


def _words(text: str) -> Iterator[str]:
    """The words of command lines, and the end of each line as a word of its own."""
    text = re.sub(r"[ \t]*(?:\\|\^|`)\r?\n", " ", text)
    word, began, place = "", False, 0
    while place < len(text):
        sign = text[place]
        if sign in " \t\r\n;":
            if began:
                yield word
            if sign in "\n;":
                yield "\n"
            word, began = "", False
            place += 1
            continue
        if sign == "#" and not began:
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
            continue
        began = True
        if text.startswith("$'", place):
            piece, place = _ansi_quoted(text, place + 2)
        elif sign == "'":
            end = text.find("'", place + 1)
            if end < 0:
                raise Unreadable("A quote is not closed; paste the whole command.")
            piece, place = text[place + 1 : end], end + 1
        elif sign == '"':
            piece, place = _double_quoted(text, place + 1)
        elif sign in "\\^" and place + 1 < len(text):
            piece, place = text[place + 1], place + 2
        else:
            piece, place = sign, place + 1
        word += piece
    if began:
        yield word


def _ansi_quoted(text: str, start: int) -> tuple[str, int]:
    match = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL).match(text, start)
    if match is None:
        raise Unreadable("A quote is not closed; paste the whole command.")

    def spelled(found: re.Match[str]) -> str:
        number = found[1] or found[2] or found[3]
        if number and int(number, 16) < 0x110000:
            return chr(int(number, 16))
        return _ESCAPES.get(found[4] or "", found[0])

    return _ANSI.sub(spelled, match[0][:-1]), match.end()


def _double_quoted(text: str, start: int) -> tuple[str, int]:
    match = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL).match(text, start)
    if match is None:
        raise Unreadable("A quote is not closed; paste the whole command.")
    inner = re.sub(r'\\([\\"$`\n])', lambda one: "" if one[1] == "\n" else one[1], match[0][:-1])
    return inner, match.end()
