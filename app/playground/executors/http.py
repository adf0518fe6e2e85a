"""HTTP tools: a call as an HTTP request to a public host, and the response as its result.

Arguments cannot change scheme, host or port, which have no placeholders, nor the structure of path
and query: every value is percent-encoded, and values that may be read as a path step (`..`, also
after an encoded slash) are refused. `net/addresses` decides where a request may go (threat 20 of
docs/safety.md).
config: {"method", "url", "parameters", "headers", "body", "private", "hosts"}. In the URL `{name}`
is replaced by an argument; a query pair without its argument is left out. In headers and body
`{{ args.name }}` is (`executor.py`); a header without its argument is left out. `parameters` are
arguments that are written in a style of OpenAPI, in path, query, headers, cookies or a form
(`schema/http_parameters`). `body` is "none", "form", "multipart" or "json" (all arguments that are
not used elsewhere), an object or array as a template of JSON, or other text, in which arguments are
inserted unchanged. Without `body` it is "json" for POST, PUT and PATCH; for the others the
remaining arguments go into the query. `private` allows this machine and private networks, `hosts`
allows only these. `${NAME}` in a header or the value of a parameter is a key of the environment,
sent only to the host of the tool's own URL and redacted in the response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from playground.core.arguments import ABSENT, value_at_steps
from playground.core.errors import BadInput, PlaygroundError
from playground.core.events import Problem
from playground.core.json_values import load_spelled
from playground.core.tools import Content, ResultKind, Tool, ToolResult, text_result
from playground.executors.executor import (
    PLACE,
    CallCheck,
    Invocation,
    ReportProgress,
    ThrottledProgress,
    as_json,
    as_text,
    fill_present,
    image_content,
    parse_arguments,
    steps_of,
)
from playground.executors.form_bodies import FORM, form_body, multipart_body, value_body
from playground.executors.parameter_styles import encode_as, write_parameter
from playground.net import fetch as net_fetch
from playground.net.addresses import Resolve, resolve_host
from playground.net.client import NetworkError
from playground.net.keys import Keys, origin
from playground.schema.http_parameters import HttpParameter, parameters_of
from playground.schema.validate import URL_PLACE, WITH_BODY
from playground.secrets.redaction import Redactor

_CHARSET = re.compile(r"utf-?8|utf-?16|us-ascii|iso-8859-\d+|latin-?1|windows-125\d|koi8-[ru]|"
                      r"shift_jis|euc-(?:jp|kr)|gbk?|gb2312|gb18030|big5", re.I)  # fmt: skip
_TEXT = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-ndjson|jsonl|javascript|"
    r"x-www-form-urlencoded|graphql|toml)|",
    re.I,
)
_JSON = re.compile(r"application/(?:.*\+)?json", re.I)
_MOST_NOTE = 2_000
"""Characters of a request as a note on a card."""

SAFE = ("GET", "HEAD", "OPTIONS", "QUERY")
"""Methods that change nothing; a call by another one has an idempotency key."""

VARIABLE = re.compile(r"\$\{(\w+)\}")
_EITHER = re.compile(rf"{VARIABLE.pattern}|{PLACE.pattern}")
_END = re.compile(r"[/?]|$")

_MOST_DECODINGS = 20
"""A step of the path that is percent-encoded more often is refused."""


class Http:
    """`resolve` looks names up; tests pass their own."""

    def __init__(self, keys: Keys, resolve: Resolve = resolve_host) -> None:
        self._keys, self._resolve = keys, resolve

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        """One request. A response status of 300 and above is an error, with the server's body."""
        config = invocation.tool.config
        progress = ThrottledProgress(report)
        secrets: list[str] = []
        try:
            request = request_of(config, invocation.arguments, invocation.idempotency_key)
            headers = {
                name: self._header(pieces, request.url, secrets)
                for name, pieces in request.headers.items()
            }
            url = VARIABLE.sub(lambda key: self._key(key[1], request.url, secrets), request.url)
            progress.tell(f"{request.method} {request.url}", None)
            fetched = await net_fetch.fetch(
                request.method,
                url,
                headers,
                request.body,
                private=bool(config.get("private", False)),
                hosts=tuple(config.get("hosts", ())),
                max_bytes=invocation.max_output,
                timeout_s=None,  # the limit of all executors can be extended, and decides
                report=lambda came, whole: progress.tell(*_progress(came, whole)),
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

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        """Adds a note with the request if arguments are written in a style, so that the card shows
        what they become."""
        problems = (_request_note(tool, arguments),) if tool.config.get("parameters") else ()
        return CallCheck(problems=problems, parallel_safe=tool.parallel_safe)

    def _key(self, name: str, url: str, secrets: list[str]) -> str:
        """The key, written for a query and added to `secrets`. BadInput if it is missing."""
        key = self._keys.tool_key(name, url)
        secrets.append(key)
        return quote(key, safe="")

    def _header(self, pieces: tuple[str, ...], url: str, secrets: list[str]) -> str:
        """The value to send; its keys are added to `secrets`. BadInput if one is missing."""
        words = list(pieces)
        for place in range(1, len(words), 2):
            words[place] = self._keys.tool_key(words[place], url)
            secrets.append(words[place])
        value = "".join(words)
        if not value.isprintable() or not value.isascii():
            raise BadInput("A key for a header is not one line of plain text. Fix the variable.")
        return value


def _request_note(tool: Tool, arguments: str) -> Problem:
    """What the call sends, with its keys by name."""
    try:
        request = request_of(tool.config, arguments)
    except PlaygroundError as error:
        return Problem("note", f"This call would fail: {error}")
    except ValueError:  # invalid arguments, which the check reports
        return Problem("note", "The request is built when the arguments are valid.")
    styled = {
        parameter.name.lower()
        for parameter in parameters_of(tool.config)
        if parameter.place == "header"
    }
    lines = [f"Sends {request.method} {request.url}"]
    for name, pieces in request.headers.items():
        if name.lower() in {*styled, "cookie"}:
            words = [f"${{{piece}}}" if n % 2 else piece for n, piece in enumerate(pieces)]
            lines.append(f"with the header {name}: {''.join(words)}")
    if tool.config.get("body") == "form":
        lines.append(f"with the form {request.body.decode()}")
    elif request.body:
        lines.append(f"with a body of {len(request.body):,} bytes")
    text = ", ".join(lines)
    return Problem("note", text if len(text) <= _MOST_NOTE else f"{text[: _MOST_NOTE - 1]}…")


def _progress(came: int, whole: int | None) -> tuple[str, float | None]:
    if not whole:
        return f"{came:,} bytes received", None
    return f"{came:,} of {whole:,} bytes received", min(1.0, came / whole)


def _result(
    request: HttpRequest, fetched: net_fetch.FetchResponse, redactor: Redactor
) -> ToolResult:
    bad = fetched.status >= 300
    pieces = [_piece(fetched, redactor)] if fetched.body else []
    if bad or not fetched.body:
        pieces.insert(0, Content(text=redactor.redact_text(_status(request, fetched))))
    return ToolResult(tuple(pieces), is_error=bad, kind="failed" if bad else "")


def _status(request: HttpRequest, fetched: net_fetch.FetchResponse) -> str:
    line = f"HTTP {fetched.status} {fetched.reason}".strip()
    if request.method in ("HEAD", "OPTIONS") and fetched.status < 300:
        lines = [f"{name}: {value}" for name, value in fetched.headers.items()]
        return "\n".join([line, *lines])
    location = fetched.headers.get("location", "")
    if 300 <= fetched.status < 400 and location:
        return f"{line}: it points to {location}, which was not followed."
    return line if fetched.body else f"{line}, without a body."


def _piece(fetched: net_fetch.FetchResponse, redactor: Redactor) -> Content:
    """The body as text, as JSON if it is declared and valid, as an image, or its size."""
    kind = fetched.headers.get("content-type", "").split(";")[0].strip()
    picture = image_content(fetched.body)
    if picture is not None:
        return picture
    binary = b"\0" in fetched.body[:1000] and "16" not in _charset(fetched)
    if binary or not _TEXT.fullmatch(kind):
        return Content(text=f"{len(fetched.body):,} bytes of {kind or 'an unknown type'}.")
    text = fetched.body.decode(_charset(fetched), "replace").removeprefix("\ufeff")
    sound = bool(_JSON.fullmatch(kind)) and _is_json(text)
    return Content(text=redactor.redact_text(text), media_type="application/json" if sound else "")


def _charset(fetched: net_fetch.FetchResponse) -> str:
    match = re.search(r"charset=[\"']?([\w.:-]+)", fetched.headers.get("content-type", ""), re.I)
    return match[1] if match and _CHARSET.fullmatch(match[1]) else "utf-8"


def _is_json(text: str) -> bool:
    try:
        load_spelled(text)
    except ValueError:
        return False
    return True


# -- the request, without its keys; pure


@dataclass(frozen=True)
class HttpRequest:
    """A header's value is a list of pieces: every second one, from the second on, is the name of a
    key, which the tool wrote as `${NAME}`; the others are text. A key in the URL is written as
    `${NAME}`. Arguments cannot name a key: their braces are percent-encoded in the URL."""

    method: str
    url: str
    headers: Mapping[str, tuple[str, ...]]
    body: bytes


def request_of(config: Mapping[str, Any], arguments: str, idempotency_key: str = "") -> HttpRequest:
    """BadInput, with a sentence, if the request cannot be built with the arguments."""
    method = str(config.get("method", "GET"))
    values = parse_arguments(arguments)
    parameters = parameters_of(config)
    template = str(config["url"])
    headers = _headers(config.get("headers", {}), values)
    _add_headers(headers, parameters, values)
    used = {_argument(name, values) for name in URL_PLACE.findall(template)}
    used |= _argument_names(config.get("headers", {}))
    used |= {parameter.argument for parameter in parameters if parameter.place != "body"}
    rest = {name: value for name, value in values.items() if name not in used}
    body = config.get("body", "json" if method in WITH_BODY else None)
    query = rest if "body" not in config and body is None else {}
    url = _url(template, values, query, parameters)
    fields = {field.argument: field for field in parameters if field.place == "body"}
    data, kind = _body(body, values, rest, fields)
    given = {name.lower() for name in headers}
    if kind and "content-type" not in given:
        headers["Content-Type"] = (kind,)
    if method not in SAFE and idempotency_key and "idempotency-key" not in given:
        headers["Idempotency-Key"] = (idempotency_key,)
    return HttpRequest(method, url, headers, data)


def _argument(name: str, values: Mapping[str, Any]) -> str:
    """The argument of a placeholder in the URL: `user.id` may be one, or a part of `user`."""
    return name if name in values else name.split(".")[0]


def _value(name: str, values: dict[str, Any]) -> Any:
    """ABSENT if there is none, or it is null."""
    value = values[name] if name in values else value_at_steps(values, name.split("."))
    return ABSENT if value is None else value


def _argument_names(template: Any) -> set[str]:
    """The arguments that `template` names in any of its strings."""
    match template:
        case str():
            return {steps[0] for place in PLACE.finditer(template) if (steps := steps_of(place))}
        case Mapping():
            return set().union(*map(_argument_names, template.values()))
        case list():
            return set().union(*map(_argument_names, template))
    return set()


# -- the URL


def _url(
    template: str,
    values: dict[str, Any],
    rest: Mapping[str, Any],
    parameters: Sequence[HttpParameter],
) -> str:
    begin = template.index("://") + 3
    end = _END.search(template, begin)
    assert end is not None  # it always matches at the end of the text
    path, _, query = template[end.start() :].partition("?")
    styled = {step.argument: step for step in parameters if step.place == "path"}
    steps = [_step(step, values, styled) for step in path.split("/")]
    pairs = [_pair(pair, values) for pair in query.split("&") if pair]
    pairs += [_query(parameter, values) for parameter in parameters]
    pairs += [_query_pairs(quote(name, safe=""), value) for name, value in rest.items()]
    whole = template[: end.start()] + "/".join(steps)
    asked = "&".join(pair for pair in pairs if pair)
    return f"{whole}?{asked}" if asked else whole


def _step(step: str, values: dict[str, Any], styled: Mapping[str, HttpParameter]) -> str:
    """One step of the path."""

    def fill_place(place: re.Match[str]) -> str:
        value = _value(place[1], values)
        if value is ABSENT:
            raise BadInput(f"The path of the URL needs the argument {place[1]!r}.")
        parameter = styled.get(place[1])
        if parameter is None:
            return _percent_encode(as_text(value))
        return write_parameter(parameter, value)

    done = URL_PLACE.sub(fill_place, step)
    if done != step and (not done or _leads_away(done)):
        raise BadInput(
            f"{unquote(done)!r} cannot be part of the URL's path. Nothing was sent. Change the "
            "argument."
        )
    return done


def _leads_away(step: str) -> bool:
    """Whether a proxy or server may read `step` as several steps after any number of decodings.
    What follows a `;` in each of them may be dropped (RFC 3986, 3.3)."""
    for _ in range(_MOST_DECODINGS):
        if any(part.partition(";")[0] in (".", "..") for part in re.split(r"[/\\]", step)):
            return True
        step, before = unquote(step), step
        if step == before:
            return False
    return True


def _pair(pair: str, values: dict[str, Any]) -> str:
    """One `name=value` of the query, or "" if an argument of it is absent."""
    filled = {name: _value(name, values) for name in URL_PLACE.findall(pair)}
    if any(value is ABSENT for value in filled.values()):
        return ""
    name, _, template = pair.partition("=")
    whole = URL_PLACE.fullmatch(template)
    if whole is not None and not URL_PLACE.search(name):
        return _query_pairs(name, filled[whole[1]])
    return URL_PLACE.sub(lambda place: _percent_encode(as_text(filled[place[1]])), pair)


def _query_pairs(name: str, value: Any) -> str:
    """`name=value`; for an array one pair per item. The name is encoded already."""
    items = value if isinstance(value, list) else [] if value is None else [value]
    return "&".join(f"{name}={_percent_encode(as_text(item))}" for item in items)


def _query(parameter: HttpParameter, values: dict[str, Any]) -> str:
    """The pairs of a parameter in the query, "" if it is in another place or absent."""
    if parameter.place not in ("query", "querystring"):
        return ""
    if parameter.value:
        pieces = VARIABLE.split(parameter.value)
        texts = [
            f"${{{piece}}}" if n % 2 else _percent_encode(piece) for n, piece in enumerate(pieces)
        ]
        return f"{_percent_encode(parameter.name)}={''.join(texts)}"
    value = _value(parameter.argument, values)
    if value is ABSENT:
        return ""
    if parameter.place == "query":
        return write_parameter(parameter, value)
    if parameter.content_type == FORM and isinstance(value, dict):
        return form_body(value, {}).decode()
    return _percent_encode(encode_as(parameter.content_type, value))


def _percent_encode(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="")


# -- headers and body


def keys_of(tool: Tool) -> list[tuple[str, str]]:
    """(name, origin) of each key that an HTTP tool sends; empty for other kinds."""
    if tool.answered_by != "http":
        return []
    headers = tool.config.get("headers", {})
    place = origin(str(tool.config.get("url", "")))
    texts = [*headers.values(), *(parameter.value for parameter in parameters_of(tool.config))]
    names = {name: None for text in texts for name in VARIABLE.findall(str(text))}
    return [(name, place) for name in names]


def _headers(templates: Mapping[str, str], values: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    headers = {}
    for name, template in templates.items():
        pieces, text, done = [], "", 0
        absent = False
        for place in _EITHER.finditer(template):
            text += template[done : place.start()]
            done = place.end()
            if place[1] is not None:
                pieces += [text, place[1]]
                text = ""
                continue
            value = value_at_steps(values, place[2].split(".")[1:])
            absent = absent or value is ABSENT or value is None
            text += _check_header(name, "" if value is None else as_text(value))
        if not absent:
            headers[name] = (*pieces, text + template[done:])
    return headers


def _add_headers(
    headers: dict[str, tuple[str, ...]],
    parameters: Sequence[HttpParameter],
    values: dict[str, Any],
) -> None:
    """Adds the parameters that are headers, and all the cookies as one."""
    cookies = []
    for parameter in parameters:
        if parameter.place not in ("header", "cookie"):
            continue
        is_cookie = parameter.place == "cookie"
        if parameter.value:
            pieces = VARIABLE.split(parameter.value)
            pieces[0] = f"{parameter.name}={pieces[0]}" if is_cookie else pieces[0]
        else:
            value = _value(parameter.argument, values)
            text = "" if value is ABSENT else write_parameter(parameter, value)
            if not text:
                continue
            pieces = [_check_header("Cookie" if is_cookie else parameter.name, text)]
        if is_cookie:
            cookies.append(pieces)
        else:
            headers[parameter.name] = tuple(pieces)
    if cookies:
        name = next((name for name in headers if name.lower() == "cookie"), "Cookie")
        given = [list(headers[name])] if name in headers else []
        headers[name] = _join_pieces([*given, *cookies])


def _join_pieces(values: Sequence[Sequence[str]]) -> tuple[str, ...]:
    whole = list(values[0])
    for pieces in values[1:]:
        whole[-1] += f"; {pieces[0]}"
        whole += pieces[1:]
    return tuple(whole)


def _check_header(name: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        sentence = f"The argument for the header {name} is not one line of plain text"
        raise BadInput(f"{sentence}; nothing was sent.")
    return value


def _body(
    template: Any,
    values: dict[str, Any],
    rest: Mapping[str, Any],
    fields: Mapping[str, HttpParameter],
) -> tuple[bytes, str]:
    """The body, and its media type."""
    match template:
        case None | "none":
            return b"", ""
        case "json":
            return _bytes(as_json(dict(rest))), "application/json"
        case "form":
            return form_body(rest, fields), FORM
        case "multipart":
            return multipart_body(rest, fields)
        case str() if (field := _whole_body(template, fields)) and values.get(
            field.argument
        ) is not None:
            return value_body(field, values[field.argument])
        case str():
            text = fill_present(template, values)
            return _bytes(as_text(text)), "text/plain; charset=utf-8"
    return _bytes(as_json(fill_present(template, values))), "application/json"


def _whole_body(template: str, fields: Mapping[str, HttpParameter]) -> HttpParameter | None:
    """The parameter that is the body, if `template` is a placeholder for one."""
    place = PLACE.fullmatch(template)
    steps = steps_of(place) if place else []
    return fields.get(steps[0]) if len(steps) == 1 else None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
