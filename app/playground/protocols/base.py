"""Defines a codec: the client end of one protocol, sans-IO (no socket, clock or id generator).

Also what codecs share: lists of models, addresses, and error messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

from playground.core.decide import LONGEST_WAIT_S
from playground.core.events import WireEvent
from playground.core.messages import ModelRequest
from playground.core.settings import Limits

Spanned = tuple[int, int, WireEvent]
"""(start, end, event): the event and its half-open span of body bytes."""

_ENDPOINT = re.compile(
    r"/chat/completions$"
    r"|(?<=/v1)/messages$"
    r"|(?<=/api)/chat$"
    r"|(?:(?<=/v1)|(?<=/openai))/responses$"
    r"|/models/[^/]+:(?:streamG|g)enerateContent$"
)
"""Full endpoint URLs that people paste from a provider's examples: the base is what precedes."""

_VERSION = re.compile(r"v\d+[a-z]*\d*")
_GOOGLE = re.compile(r"(?:.*\.)?googleapis\.com(?::\d+)?")

MAX_WORDS = 2000
MAX_DEPTH = 3

_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")

_CHECK_REQUEST = (
    "Check the request in the wire view against this error, change the settings, and retry."
)
_WHAT_TO_DO = {
    400: _CHECK_REQUEST,
    402: "Check the account's balance with the provider.",
    403: "Check that the key may use this model.",
    404: "Check the model's name and the base URL.",
    408: "Retry.",
    413: "Shorten the session or start a new one.",
}


@dataclass(frozen=True)
class SideText:
    """A text of the answer that is in no delta, as received: of the member `member` of part `part`;
    with "" the arguments of a call that is left out, whose number is below 0; each `token` of
    `logprobs`, whose part is not known yet (TOKENS). Not an event of the log: only for the
    detection of secrets in pieces."""

    part: int
    member: str
    text: str


TOKENS: Mapping[str, int] = {"text": -(10**9), "refusal": -(10**9) - 1}
"""The part number used for the tokens of a kind of text."""

ReadItem = tuple[int, int, WireEvent | SideText]
"""That for the tokens of all text."""

UNDECIDED = -(10**9) - 2
"""The part number of a piece that may turn out to be of a call, or not."""

UNREAD = UNDECIDED - 1
"""The part number of a frame that was not read: a client may find a call in it."""


class CallPlace(NamedTuple):
    """The position of a piece of a call: the frame of bytes `start`..`end`, and `path` in its JSON
    value, () for the whole frame. `part` is the call's PartStarted.index, UNDECIDED if it is not
    known yet whether, and of which call, it is a piece, or UNREAD."""

    start: int
    end: int
    part: int
    path: tuple[str | int, ...]


@dataclass(frozen=True)
class WireRequest:
    """`path` is appended to the profile's base URL by `join_url`; `headers` contain no key.

    `body` is UTF-8 JSON. `notes` are sentences about what the protocol cannot express and was
    omitted or changed. `expects` is the media type of the requested stream, or "".
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    notes: tuple[str, ...] = ()
    expects: str = ""


@dataclass(frozen=True)
class ModelInfo:
    """A model as its provider lists it. Unknown values are None or "".

    `tools` is whether it supports tools, `window` its maximum number of input tokens.
    """

    id: str
    name: str = ""
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    window: int | None = None


class Decoder(Protocol):
    """Decodes one response body. Output grammar: docs/laws.md.

    `feed` takes bytes cut at any position and costs O(len(data)). `end(clean)` is called once:
    `clean` is whether the connection closed properly; if we gave up the answer (`stopped`), even a
    finish reason does not make it complete. Then exactly one ResponseEnded or ResponseFailed has
    been yielded for any bytes; never raises. `limit` may be called before the first
    byte: the maximum size of an event, and of the number of calls; further calls are counted in one
    warning at the end. `advise` provides what the message of a failure may say beyond the body;
    waits are mentioned only then. `settled` is the position in the body before which no event can
    come any more: all earlier frames are complete. `stray` is that of unframed text that is in no
    frame yet, which `settled` waits for only up to a size; it is the end if there is none. `hear`
    and `end_all` are like `feed` and `end`, but also yield side texts. `locate` may be called
    before the first byte: the list it returns gets every position of every call, and the frames in
    which a client may find others.
    """

    def limit(self, limits: Limits) -> None: ...

    def advise(self, advice: Advice) -> None: ...

    def locate(self) -> list[CallPlace]: ...

    @property
    def settled(self) -> int: ...

    @property
    def stray(self) -> int: ...

    def feed(self, data: bytes) -> list[Spanned]: ...

    def end(self, clean: bool, stopped: bool = False) -> list[Spanned]: ...

    def feed_all(self, data: bytes) -> list[ReadItem]: ...

    def end_all(self, clean: bool, stopped: bool = False) -> list[ReadItem]: ...


@dataclass(frozen=True)
class Codec:
    """A protocol's client end: CODEC of its folder's `decode`.

    `decoder(status)` creates a Decoder for a response with that HTTP status. `label(frame)` is the
    short name of a decoded frame in the protocol's own terms ("content_block_delta
    input_json_delta"), for the wire view. `key_header(key, quirks)` is the header with the key.
    `models_path` lists the provider's models by GET, and `models(value)` reads the JSON response;
    it never raises. `quirks` are those that a profile may name, each with its reason as a sentence.
    `says_again`: the end of a part repeats its whole text.
    """

    name: str
    encode: Callable[[ModelRequest], WireRequest]
    decoder: Callable[[int], Decoder]
    label: Callable[[Mapping[str, Any]], str]
    key_header: Callable[[str, Sequence[str]], Mapping[str, str]]
    models_path: str
    models: Callable[[Any], tuple[ModelInfo, ...]]
    quirks: Mapping[str, str]
    says_again: bool = False


# The list of models in a provider's response; ignores anything that is no object.


def model_entries(value: Any, member: str) -> list[Mapping[str, Any]]:
    """The named objects of the list at `member` of `value`, or of `value` if it is the list itself
    (Together); else nothing."""
    items = value.get(member) if isinstance(value, Mapping) else value
    entries = items if isinstance(items, list) else []
    objects = (entry for entry in entries if isinstance(entry, Mapping))
    return [entry for entry in objects if any(entry.get(key) for key in ("id", "name", "model"))]


# Addresses: joins a base URL and a protocol's path. Pure text; checks nothing.


def join_url(base_url: str, path: str) -> str:
    """Appends `path` to `base_url`.

    A query of the base URL (Azure's `?api-version=`) goes after the path. Segments that both end
    the base URL and begin the path are written once: people write `https://api.anthropic.com/v1` as
    well as `https://api.anthropic.com`, or paste an endpoint.
    """
    base, _, query = base_url.partition("?")
    path, _, own_query = path.partition("?")
    scheme, mark, rest = base.partition("://")
    host, _, before = (rest if mark else base).strip().partition("/")
    above = _ENDPOINT.sub("", f"/{before}".rstrip("/"))
    segments = above.split("/")[1:]
    steps = path.split("/")[1:]
    own = {part for part in own_query.split("&") if part} | {"alt=sse"}
    queries = [own_query, *(part for part in query.split("&") if part not in own)]
    if segments and steps and _names_version(host, segments[-1], steps[0]):
        steps = steps[1:]
    else:
        steps = steps[_overlap(segments, steps) :]
    whole = "/".join([(scheme + mark if mark else "") + host, *segments, *steps])
    whole_query = "&".join(query for query in queries if query)
    return whole + (f"?{whole_query}" if whole_query else "")


def url_parts(url: str) -> SplitResult:
    """Its parts, including host and port; empty parts if it is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.hostname, parts.port
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


def _names_version(host: str, last: str, first: str) -> bool:
    """Whether the base contains an API version of Google's, which replaces that of the path."""
    versions = _VERSION.fullmatch(last) and _VERSION.fullmatch(first)
    return bool(versions and _GOOGLE.fullmatch(host))


def _overlap(segments: list[str], steps: list[str]) -> int:
    """How many segments at the end of the base are also the beginning of the path."""
    most = min(len(segments), len(steps))
    return next((n for n in range(most, 0, -1) if segments[-n:] == steps[:n]), 0)


def rate_limits(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of `headers` on rate limits and their reset; names in lower case."""
    return {
        name.lower(): value
        for name, value in headers.items()
        if "ratelimit" in name.lower().replace("-", "") or name.lower().startswith("retry-after")
    }


# Error bodies of providers, and our messages for them. The user reads our sentence; the provider's
# error object is stored beside it, unchanged.


@dataclass(frozen=True)
class ProviderError:
    """An error as a provider sent it: the object or text, and its message for people."""

    error: Any
    words: str


def read_error(
    value: Mapping[str, Any], event: str = "", expected: bool = False
) -> ProviderError | None:
    """The error in a JSON object, or None.

    `event` is the name of the event that carried it; `expected`: it can only be an error (a status
    of 400 or above), so looser forms are recognized.
    """
    error = value.get("error")
    if isinstance(error, Mapping) and error:
        return ProviderError(error, _words(error))
    if isinstance(error, str) and error:
        # {"error": "text"} of Ollama, {"code", "error": "text"} of xAI.
        return ProviderError(dict(value) if len(value) > 1 else error, error)
    named = event == "error" or "error" in (value.get("type"), value.get("object"))
    if expected or named or _is_bare_error(value) or (not value.get("type") and _error_key(value)):
        return ProviderError(dict(value), _words(value)) if value else None
    return None


def requested_wait(error: Any) -> float | None:
    """The wait in seconds that an error object asks for, or None.

    Google sends no Retry-After but, in `details`, a google.rpc.RetryInfo with its retryDelay
    ("17s"): https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
    """
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, Mapping) and str(detail.get("@type")).endswith("rpc.RetryInfo"):
            match = _SECONDS.fullmatch(str(detail.get("retryDelay")))
            if match:
                return float(match[1])
    return None


def _is_bare_error(value: Mapping[str, Any]) -> bool:
    """`{"detail": ...}` and `{"code", "message", "type"}`, if it has nothing else."""
    keys = value.keys()
    return bool(keys) and (
        keys == {"detail"} or ("message" in keys and keys <= {"message", "code", "type", "status"})
    )


def _error_key(value: Mapping[str, Any]) -> str:
    """The member whose name begins with "error" and that says something; "" if there is none.

    Ollama sends {"error parsing tool call": "raw=..."}.
    """
    keys = (key for key, item in value.items() if item and isinstance(item, str | dict | list))
    return next((key for key in keys if key.lower().startswith("error")), "")


def _words(error: Mapping[str, Any], depth: int = 0) -> str:
    for key in ("message", "error", "detail", "msg", "error_description", "title"):
        words = error.get(key)
        if isinstance(words, str) and words.strip():
            return words.strip()[:MAX_WORDS]
        if isinstance(words, Mapping) and depth < MAX_DEPTH:
            return _words(words, depth + 1)
        if isinstance(words, list) and words and depth < MAX_DEPTH:
            texts = (_item_words(item, depth + 1) for item in words[:5])
            return "; ".join(texts)[:MAX_WORDS]
    if depth < MAX_DEPTH and (key := _error_key(error)):
        listed = error[key] if isinstance(error[key], list) else [error[key]]
        texts = (_item_words(item, depth + 1) for item in listed[:5])
        return f"{key}: {'; '.join(texts)}"[:MAX_WORDS]
    code = error.get("code") or error.get("type")
    return str(code)[:MAX_WORDS] if code else ""


def _item_words(item: Any, depth: int) -> str:
    return (_words(item, depth) if isinstance(item, Mapping) else "") or str(item)[:MAX_WORDS]


@dataclass(frozen=True)
class Advice:
    """Information for the message of a failure that is not in the body.

    `key_name` is the variable of the key; "" if the profile names none, None if unknown.
    `retry_after` is the wait in seconds that the headers ask for. A recording that answers
    (`from_recording`) has its own advice in the message.
    """

    key_name: str | None = None
    retry_after: float | None = None
    from_recording: bool = False

    def wait_s(self, error: Any) -> float | None:
        """The wait in seconds that headers or error ask for, or None."""
        return requested_wait(error) if self.retry_after is None else self.retry_after

    def with_wait(self, message: str, error: Any) -> str:
        """`message`, followed by the requested wait, if any."""
        seconds = self.wait_s(error)
        if not seconds:
            return message
        unasked = ", too long for an automatic retry" if seconds > LONGEST_WAIT_S else ""
        return f"{message} It asks to wait {_wait(seconds)}{unasked}."


def _wait(seconds: float) -> str:
    """Seconds as words; more than a day is just called long."""
    if seconds > 86_400:
        return "more than a day"
    return f"{seconds:.1f}".removesuffix(".0") + " s"


def _what_to_do(status: int, advice: Advice | None, error: Any) -> str:
    if status == 401:
        if advice is None or advice.key_name is None:
            return "Check the key that the profile names."
        if not advice.key_name:
            return "The profile names no key (Providers)."
        return f"Check {advice.key_name}."
    if status == 429:
        waits = advice is not None and advice.wait_s(error)
        return "" if waits else "Wait a moment, then retry."
    return _WHAT_TO_DO.get(status) or (
        "Retry, or try again later." if status >= 500 else _CHECK_REQUEST
    )


def http_sentence(status: int, words: str, advice: Advice | None = None, error: Any = None) -> str:
    """A sentence on a response with status 400 or above, without the requested wait."""
    what_to_do = _what_to_do(status, advice, error)
    if advice is not None and advice.from_recording and what_to_do == _CHECK_REQUEST and words:
        return _end_sentence(words)
    sentence = f"The provider answered with status {status}"
    if words.lstrip()[:1] == "<":
        sentence = f"{sentence} and an HTML or XML page instead of an API answer."
    else:
        sentence = f"{sentence}: {_end_sentence(words)}" if words else f"{sentence}."
    return f"{sentence} {what_to_do}".rstrip()


def error_sentence(words: str) -> str:
    """A sentence on an error inside an answer whose status was good."""
    if not words:
        return "The provider ended the answer with an error. Retry."
    return f"The provider ended the answer with an error: {_end_sentence(words)} Retry."


def not_api_sentence(api: str, size: int, text: str) -> str:
    """A sentence on a body without any content of the protocol. `size` is in bytes."""
    if not size:
        what = "an empty body"
    elif text.lstrip()[:1] == "<":
        what = f"HTML or XML ({size} bytes)"
    else:
        what = f"{size} bytes of something else"
    start = " ".join(text.split())[:120]
    quoted = f', which begins "{start}"' if start else ""
    return (
        f"This is not an answer of the {api}, but {what}{quoted}. Check the base URL and the "
        "protocol."
    )


def _end_sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else words + "."
