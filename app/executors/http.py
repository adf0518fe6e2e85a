"""A call as an HTTP request to a public host, and the answer as its result.

What is sent is http_request.py's matter; where it may go, net/addresses' (threat 20 of
docs/safety.md). config: as there, with "private" (this machine and private networks are allowed)
and "hosts" (nothing else is). `${NAME}` in a header is a key of the environment, sent to the host
of the tool's own URL alone and masked in everything that comes back.
"""

from __future__ import annotations

import json
import re

from app.core.errors import BadInput, PlaygroundError
from app.core.tools import Content, ResultKind, Tool, ToolResult, text_result
from app.executors.executor import Checked, Invocation, Report
from app.executors.http_request import Request, request_of
from app.executors.images import image
from app.executors.progress import Progress
from app.net.addresses import Resolve, resolve_host
from app.net.errors import NetworkError
from app.net.fetch import FetchResponse, fetch
from app.net.keys import Keys
from app.secrets.redaction import Redactor

_CHARSET = re.compile(r"utf-?8|utf-?16|us-ascii|iso-8859-\d+|latin-?1|windows-125\d|koi8-[ru]|"
                      r"shift_jis|euc-(?:jp|kr)|gbk?|gb2312|gb18030|big5", re.I)  # fmt: skip
_TEXT = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-ndjson|jsonl|javascript|"
    r"x-www-form-urlencoded|graphql|toml)|",
    re.I,
)
_JSON = re.compile(r"application/(?:.*\+)?json", re.I)


class Http:
    """`resolve` looks names up; the tests have their own."""

    def __init__(self, keys: Keys, resolve: Resolve = resolve_host) -> None:
        self._keys, self._resolve = keys, resolve

    async def run(self, invocation: Invocation, report: Report) -> ToolResult:
        """One request. An answer of 300 and above is an error, with what the server said."""
        config = invocation.tool.config
        progress = Progress(report)
        secrets: list[str] = []
        try:
            request = request_of(config, invocation.arguments, invocation.idempotency_key)
            headers = {
                name: self._header(pieces, request.url, secrets)
                for name, pieces in request.headers.items()
            }
            progress.tell(f"{request.method} {request.url}", None)
            fetched = await fetch(
                request.method,
                request.url,
                headers,
                request.body,
                private=bool(config.get("private", False)),
                hosts=tuple(config.get("hosts", ())),
                max_bytes=invocation.max_output,
                timeout_s=None,  # the limit of all executors can be put off, and it decides
                report=lambda came, whole: progress.tell(*_so_far(came, whole)),
                resolve=self._resolve,
            )
        except NetworkError as trouble:
            kind: ResultKind = "too_large" if trouble.failure == "too_large" else "failed"
            return text_result(str(trouble), is_error=True, kind=kind)
        except PlaygroundError as error:
            return text_result(str(error), is_error=True, kind="failed")
        finally:
            progress.close()
        return _result(request, fetched, Redactor(secrets))

    async def checked(self, session: str, tool: Tool, arguments: str) -> Checked:
        return Checked(parallel_safe=tool.parallel_safe)

    def _header(self, pieces: tuple[str, ...], url: str, secrets: list[str]) -> str:
        """The value to send; its keys are added to `secrets`. BadInput where one is missing."""
        words = list(pieces)
        for place in range(1, len(words), 2):
            words[place] = self._keys.for_tool(words[place], url)
            secrets.append(words[place])
        value = "".join(words)
        if not value.isprintable() or not value.isascii():
            raise BadInput("A key in a header is not plain text on one line; mend the variable.")
        return value


def _so_far(came: int, whole: int | None) -> tuple[str, float | None]:
    if not whole:
        return f"{came:,} bytes received", None
    return f"{came:,} of {whole:,} bytes received", min(1.0, came / whole)


def _result(request: Request, fetched: FetchResponse, redactor: Redactor) -> ToolResult:
    bad = fetched.status >= 300
    pieces = [_piece(fetched, redactor)] if fetched.body else []
    if bad or not fetched.body:
        pieces.insert(0, Content(text=redactor.redact_text(_status(request, fetched))))
    return ToolResult(tuple(pieces), is_error=bad, kind="failed" if bad else "")


def _status(request: Request, fetched: FetchResponse) -> str:
    said = f"HTTP {fetched.status} {fetched.reason}".strip()
    if request.method in ("HEAD", "OPTIONS") and fetched.status < 300:
        lines = [f"{name}: {value}" for name, value in fetched.headers.items()]
        return "\n".join([said, *lines])
    location = fetched.headers.get("location", "")
    if 300 <= fetched.status < 400 and location:
        return f"{said}: it points to {location}, which was not followed."
    return said if fetched.body else f"{said}, without a body."


def _piece(fetched: FetchResponse, redactor: Redactor) -> Content:
    """The body as text, as JSON where it says so and is, as an image, or told by its size."""
    kind = fetched.headers.get("content-type", "").split(";")[0].strip()
    picture = image(fetched.body)
    if picture is not None:
        return picture
    binary = b"\0" in fetched.body[:1000] and "16" not in _charset(fetched)
    if binary or not _TEXT.fullmatch(kind):
        return Content(text=f"{len(fetched.body):,} bytes of {kind or 'an unknown type'}.")
    text = fetched.body.decode(_charset(fetched), "replace").removeprefix("\ufeff")
    sound = bool(_JSON.fullmatch(kind)) and _is_json(text)
    return Content(text=redactor.redact_text(text), media_type="application/json" if sound else "")


def _charset(fetched: FetchResponse) -> str:
    found = re.search(r"charset=[\"']?([\w.:-]+)", fetched.headers.get("content-type", ""), re.I)
    return found[1] if found and _CHARSET.fullmatch(found[1]) else "utf-8"


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str)
    except (ValueError, RecursionError):
        return False
    return True
