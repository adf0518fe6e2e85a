"""Faults that replace the whole answer: an error status, a page of HTML, a redirect, nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.core.errors import BadInput
from app.protocols.server import BadRequest, ProviderServer

_SENTENCES = {
    400: "This request is refused on purpose: the simulator plays a fault.",
    401: "Incorrect API key provided. Check your key.",
    402: "Your credit balance is too low.",
    403: "Your key does not have permission to use this resource.",
    404: "The model does not exist or you do not have access to it.",
    408: "The request took too long.",
    409: "The request conflicts with another one.",
    413: "Request exceeds the maximum size.",
    422: "The request cannot be processed.",
    429: "Rate limit reached. Please slow down.",
    500: "The server had an error while processing your request.",
    502: "Bad gateway.",
    503: "The server is temporarily unavailable.",
    504: "The gateway timed out.",
    529: "Overloaded",
}
_HTML = b"<!doctype html><html><body><h1>It works!</h1><p>This is no API.</p></body></html>"


@dataclass(frozen=True)
class Canned:
    """An answer as it goes out, whatever the request was."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


Answer = Callable[[ProviderServer, int, str], Canned]
"""(end, the number in the fault's name, the key that was given) -> the answer."""


def told(end: ProviderServer, status: int, sentence: str = "") -> BadRequest:
    """An error of this status in the words of the protocol."""
    kind, code = end.kinds.get(status) or end.kinds[400]
    sentence = sentence or _SENTENCES[status]
    return BadRequest(sentence, status, kind=kind, code=code, source="a fault on purpose")


def status(status: int, headers: Mapping[str, str] | None = None) -> Answer:
    """An error answer of `status`."""

    def answer(end: ProviderServer, number: int, key: str) -> Canned:
        body = end.error(told(end, status), "req_fault")
        return Canned(status, body, {"content-type": "application/json", **(headers or {})})

    return answer


def retry(end: ProviderServer, number: int, key: str) -> Canned:
    """429 that asks to come back after so many seconds, where this provider says it."""
    problem = told(end, 429)
    problem.retry_s = number
    headers = {} if end.waits_in_body else {"retry-after": str(number)}
    body = end.error(problem, "req_fault")
    return Canned(429, body, {"content-type": "application/json", **headers})


def echo_key(end: ProviderServer, number: int, key: str) -> Canned:
    """401 that repeats the key, as careless gateways do."""
    problem = told(end, 401, f"Incorrect API key provided: {key}. Check your key.")
    return Canned(401, end.error(problem, "req_fault"))


def html(status: int, kind: str = "text/html; charset=utf-8") -> Answer:
    return lambda end, number, key: Canned(status, _HTML, {"content-type": kind})


def huge(end: ProviderServer, number: int, key: str) -> Canned:
    """An error page of a MiB."""
    return Canned(500, _HTML + b"<!-- " + b"x" * 1024 * 1024, {"content-type": "text/html"})


def odd_success(end: ProviderServer, number: int, key: str) -> Canned:
    """A status that nobody has heard of, with a body that says nothing."""
    return Canned(299, b'{"ok":true}')


def empty(status: int, kind: str = "application/json") -> Answer:
    return lambda end, number, key: Canned(status, b"", {"content-type": kind})


def error_as_success(end: ProviderServer, number: int, key: str) -> Canned:
    """An error object under status 200."""
    return Canned(200, end.error(told(end, 500), "req_fault"))


def error_event(end: ProviderServer, number: int, key: str) -> Canned:
    """A stream that holds an error and nothing else."""
    return Canned(200, end.error_frame(told(end, 500)), {"content-type": end.stream_type})


def redirect(end: ProviderServer, number: int, key: str) -> Canned:
    """A redirect into a name that leads nowhere: nobody should follow it with a key in hand."""
    if number not in (301, 302, 303, 307, 308):
        raise BadInput(f"{number} is no redirect. Use 301, 302, 303, 307 or 308.")
    return Canned(number, b"", {"location": f"https://elsewhere.invalid{end.path}"})
