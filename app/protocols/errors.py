"""Reads the error bodies of providers and words them for the user.

The user reads the sentence; the provider's error object is kept beside it as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.core.decide import LONGEST_WAIT_S

MAX_WORDS = 2000
MAX_DEPTH = 3


@dataclass(frozen=True)
class ProviderError:
    """An error as a provider sent it: its object or text as sent, and its words for a person."""

    error: Any
    words: str


def read_error(
    value: Mapping[str, Any], event: str = "", expected: bool = False
) -> ProviderError | None:
    """The error in a JSON object, or None.

    `event` is the name of the event that carried it; `expected` says that nothing but an error
    can be meant (a status of 400 or above), so that looser shapes are believed.
    """
    error = value.get("error")
    if isinstance(error, Mapping) and error:
        return ProviderError(error, _words(error))
    if isinstance(error, str) and error:
        # {"error": "text"} of Ollama, {"code", "error": "text"} of xAI.
        return ProviderError(dict(value) if len(value) > 1 else error, error)
    named = event == "error" or "error" in (value.get("type"), value.get("object"))
    if expected or named or _bare(value):
        return ProviderError(dict(value), _words(value)) if value else None
    return None


_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


def asked_wait(error: Any) -> float | None:
    """The seconds to wait that an error object itself asks for, or None.

    Google sends no Retry-After but, among `details`, a google.rpc.RetryInfo with its retryDelay
    ("17s"): https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
    """
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, Mapping) and str(detail.get("@type")).endswith("rpc.RetryInfo"):
            match = _SECONDS.fullmatch(str(detail.get("retryDelay")))
            if match:
                return float(match[1])
    return None


def _bare(value: Mapping[str, Any]) -> bool:
    """`{"detail": ...}` and `{"code", "message", "type"}`, when nothing else is in it."""
    keys = value.keys()
    return bool(keys) and (
        keys == {"detail"} or ("message" in keys and keys <= {"message", "code", "type", "status"})
    )


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
    code = error.get("code") or error.get("type")
    return str(code)[:MAX_WORDS] if code else ""


def _item_words(item: Any, depth: int) -> str:
    return (_words(item, depth) if isinstance(item, Mapping) else "") or str(item)[:MAX_WORDS]


@dataclass(frozen=True)
class Advice:
    """What the sentence on a failed answer can say that is not in the answer's body.

    `key_name` is the variable of the key; "" where the profile names none, None where nobody knows.
    `retry_after` are the seconds that the headers ask to wait. A recording that answers
    (`from_recording`) says itself how to go on.
    """

    key_name: str | None = None
    retry_after: float | None = None
    from_recording: bool = False

    def wait_s(self, error: Any) -> float | None:
        """The seconds that headers or error ask to wait, or None."""
        return asked_wait(error) if self.retry_after is None else self.retry_after

    def with_wait(self, message: str, error: Any) -> str:
        """`message`, and the wait that is asked for."""
        seconds = self.wait_s(error)
        if not seconds:
            return message
        unasked = "; not waited for by itself" if seconds > LONGEST_WAIT_S else ""
        return f"{message} It asks to wait {_wait(seconds)}{unasked}."


def _wait(seconds: float) -> str:
    """Seconds for a sentence; what is beyond a day is only called long."""
    if seconds > 86_400:
        return "more than a day"
    return f"{seconds:.1f}".removesuffix(".0") + " s"


_CHECK_REQUEST = (
    "Compare the request in the wire view with what it complains about, change the settings, and "
    "retry."
)
_WHAT_TO_DO = {
    400: _CHECK_REQUEST,
    402: "Check the account's balance with the provider.",
    403: "Check that the key may use this model.",
    404: "Check the model's name and the base URL.",
    408: "Retry.",
    413: "Shorten the session or start a new one.",
}


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
    """A sentence on an answer whose status is 400 or above, without the wait that it asks for."""
    what_to_do = _what_to_do(status, advice, error)
    if advice is not None and advice.from_recording and what_to_do == _CHECK_REQUEST and words:
        return _end_sentence(words)
    sentence = f"The provider answered with status {status}"
    if words.lstrip()[:1] == "<":
        sentence = f"{sentence} and a page of HTML or XML, which is no answer of an API."
    else:
        sentence = f"{sentence}: {_end_sentence(words)}" if words else f"{sentence}."
    return f"{sentence} {what_to_do}".rstrip()


def error_sentence(words: str) -> str:
    """A sentence on an error inside an answer whose status was good."""
    if not words:
        return "The provider broke the answer off with an error. Retry."
    return f"The provider broke the answer off: {_end_sentence(words)} Retry."


def not_api_sentence(api: str, size: int, text: str) -> str:
    """A sentence on a body in which nothing of the protocol was found. `size` is in bytes."""
    if not size:
        what = "an empty body"
    elif text.lstrip()[:1] == "<":
        what = f"HTML or XML ({size} bytes)"
    else:
        what = f"{size} bytes of something else"
    start = " ".join(text.split())[:120]
    quoted = f', which begins "{start}"' if start else ""
    return (
        f"This is no answer of the {api}, but {what}{quoted}. Check the base URL and the protocol."
    )


def _end_sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else words + "."
