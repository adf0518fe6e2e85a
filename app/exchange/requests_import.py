"""The door for requests that people bring: a body, a curl command, an HTTP archive, or JSON Lines
of messages. Nothing is sent; keys among the headers are left out by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from app.core.settings import Protocol
from app.exchange import curl_import, har_import
from app.exchange.pasted import ImportedAnswer, ImportedRequest
from app.exchange.request_bodies import READERS, RequestNotes, guess_protocol
from app.exchange.text import MOST_BYTES, Unreadable, json_lines, json_value

MOST_ITEMS = 5_000
"""Messages of one request, and entries of an archive that are looked at."""

ENDS: Mapping[str, Protocol] = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/v1/messages": "anthropic",
    "/api/chat": "ollama",
}
"""By the end of an address. Gemini's has a method behind its model."""

_KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie")


@dataclass(frozen=True)
class ImportedRequests:
    """`requests` in order; `problem` says why there is none, "" where there is one."""

    requests: Sequence[ImportedRequest] = ()
    notes: Sequence[str] = ()
    problem: str = ""


def read_requests(text: str) -> ImportedRequests:
    """What requests `text` holds. Never raises."""
    try:
        if len(text) > MOST_BYTES:
            raise Unreadable(f"The text is larger than {MOST_BYTES >> 20} MB.")
        return _read(text.removeprefix("\ufeff"))
    except Unreadable as error:
        return ImportedRequests(problem=str(error))
    except (RecursionError, MemoryError):
        return ImportedRequests(problem="The text is nested too deep.")
    # Whatever else it stumbles over, it is the text's fault: people bring anything.
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        return ImportedRequests(problem=f"This request cannot be read ({type(error).__name__}).")


def _read(text: str) -> ImportedRequests:
    if curl_import.is_curl(text):
        found = curl_import.curl_commands(text)
        last = found[-1]
        notes = [f"Of {len(found)} commands the last was taken."] if len(found) > 1 else []
        return _request(last.url, last.body, last.headers, notes)
    if text.lstrip()[:1] not in ("{", "["):
        raise Unreadable("This is no curl command, no HTTP archive and no body of a request.")
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and all(line.lstrip().startswith("{") for line in lines):
        return _read_lines(text)
    value, note = json_value(text)
    if har_import.is_har(value):
        return _read_archive(value)
    if isinstance(value, list):
        if len(value) > MOST_ITEMS:
            raise Unreadable(f"The list has more than {MOST_ITEMS:,} messages.")
        value = {"messages": value}
    if not isinstance(value, dict):
        raise Unreadable("This is no body of a request.")
    return _request("", json.dumps(value), {}, [note] if note else [], body=value)


def _read_lines(text: str) -> ImportedRequests:
    """JSON Lines of messages, as they are made for fine-tuning: the first of them is taken."""
    values = [value for _, value in json_lines(text)]
    if bad := next((value for value in values if isinstance(value, Unreadable)), None):
        raise bad
    notes = [f"Of {len(values)} lines the first was taken."]
    return _request("", json.dumps(values[0]), {}, notes, body=values[0])


def _read_archive(value: Any) -> ImportedRequests:
    found = list(har_import.har_exchanges(value))[:MOST_ITEMS]
    known = [one for one in found if _protocol(one.url, None) is not None]
    if not known:
        raise Unreadable("No entry of this archive is a request to a chat API that is known here.")
    # Later requests of a run hold the earlier ones: the one with the longest body tells most.
    last = max(known, key=lambda one: len(one.body))
    taken = known.index(last) + 1
    notes = [f"Of {len(known)} requests in the archive number {taken}, the longest, was taken."]
    kept = _request(last.url, last.body, last.headers, notes if len(known) > 1 else [])
    request = kept.requests[0]
    status = last.status or 200
    whole = replace(request, response=last.response, status=status, at_ms=last.at_ms)
    return ImportedRequests((whole,), kept.notes)


def _request(
    url: str,
    text: str,
    headers: Mapping[str, str],
    notes: Sequence[str],
    body: dict[str, Any] | None = None,
) -> ImportedRequests:
    value = json_value(text)[0] if body is None else body
    if not isinstance(value, dict):
        raise Unreadable("The body of this request is no JSON object.")
    protocol = _protocol(url, value)
    if protocol is None:
        raise Unreadable("This is no request to a chat API that is known here.")
    told = [*notes]
    if left := [name for name in _KEYS if name in headers]:
        told.append(f"Left out, for they may hold a key: {', '.join(left)}.")
    base_url, path = _address(url, protocol)
    model = path.partition("/models/")[2].partition(":")[0] if protocol == "gemini" else ""
    setup, items = READERS[protocol]
    reading = RequestNotes()
    made = list(items(value, reading))[:MOST_ITEMS]
    if not made:
        raise Unreadable("This request has no messages.")
    if not any(isinstance(one, ImportedAnswer) for one in made) and not base_url:
        told.append(f"Taken for a request of {protocol}, by its form.")
    ready = setup(value, reading)
    if model:
        ready = replace(ready, model=model, stream="stream" in path)
    request = ImportedRequest(protocol, ready, made, base_url, path, text)
    return ImportedRequests((request,), (*told, *reading.notes))


def _protocol(url: str, body: Mapping[str, Any] | None) -> Protocol | None:
    path = urlsplit(url).path
    for end, protocol in ENDS.items():
        if path.endswith(end):
            return protocol
    if "/models/" in path and "enerateContent" in path:
        return "gemini"
    return guess_protocol(body) if body is not None else None


def _address(url: str, protocol: Protocol) -> tuple[str, str]:
    """(base URL, path behind it), without what may hold a key; no URL has no base."""
    parts = urlsplit(url)
    end = next((end for end, name in ENDS.items() if name == protocol), "/models")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "", end
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    origin = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    path = parts.path
    ends = [end for end, name in ENDS.items() if name == protocol and path.endswith(end)]
    if ends:
        return origin + path.removesuffix(ends[0]), ends[0]
    before, found, rest = path.partition("/models/")
    return (origin + before, f"/models/{rest}") if found else (origin, path)
