"""Executes imported operations against a loopback server, and reads each request by its document.

`compare` is the whole way: arguments for the tool's schema, HTTP executor, recorded bytes,
`openapi_reader`, and what was read against the arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playground.core.tools import Tool
from playground.executors.executor import Invocation
from playground.executors.http import Http, keys_of
from playground.net.keys import DEFAULT_ORIGINS, Keys
from playground.schema.satisfy import sample_value
from playground.schema.schema_checks import Place
from tests.exchange.openapi_reader import (
    RecordedRequest,
    parameters_of,
    read_request,
    resolve,
)
from tests.net.tool_server import Server

KEY = "k3y-of-the-test"
TEXTS = (
    "plain",
    "two words",
    "a/b?c#d",
    "50% & x=y+z",
    "Zoë 東京",
    'it\'s "so"; (a) [b] {c}',
    "%2F..%20",
    "a|b,c;d:e@f$g!h*i",
)
"""What an argument may be: each has characters with a meaning in some place of a request."""
HEADER_TEXTS = ("plain", "two words", "a/b?c#d", 'W/"1-2; 3"', "50%25 & x=y")
INTEGERS = (7, 0, -12, 9007199254740993, 100)
NUMBERS = (1.5, 0, -0.25, 1e-7, 12345678.9)
STANDARD_HEADERS = ("accept", "accept-encoding", "authorization", "connection", "content-length",
                    "content-type", "cookie", "host", "idempotency-key", "user-agent")  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """What was read and is not what was meant. `where` is a location and a name."""

    where: str
    expected: Any
    read: Any

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected!r}, read {self.read!r}"


@dataclass
class Comparison:
    arguments: Mapping[str, Any]
    request: RecordedRequest | None = None
    equal: list[str] = field(default_factory=list)
    different: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        sent = self.request
        lines = [f"  {entry}" for entry in self.different]
        lines.append(f"  arguments: {json.dumps(self.arguments, ensure_ascii=False)}")
        if sent is not None:
            lines.append(f"  sent: {sent.method.upper()} {sent.target}")
            header_names = {*sent.headers} - {*STANDARD_HEADERS} | {"cookie", "content-type"} & {
                *sent.headers
            }
            lines += [f"        {name}: {sent.headers[name]}" for name in sorted(header_names)]
            lines.append(f"        {sent.body!r}")
        return "\n".join(lines)


def argument_names(
    parameters: Iterable[tuple[str, str]], properties: Iterable[str]
) -> dict[tuple[str, str], str]:
    """The argument of each parameter: its name with what no argument may have as `_`, and with its
    place behind where that name is taken."""
    free, result = [*properties], {}
    for where, name in parameters:
        plain_name = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or where
        choices = (
            plain_name,
            f"{plain_name}_{where}",
            *(f"{plain_name}_{where}_{n}" for n in range(2, 6)),
        )
        argument = next((choice for choice in choices if choice in free), None)
        if argument is not None:
            free.remove(argument)
            result[where, name] = argument
    return result


def arguments_of(
    document: Mapping[str, Any], path: str, method: str, tool: Tool, number: int
) -> dict[str, Any]:
    """Valid arguments: all of them for an even `number`, the required ones for an odd one."""
    parameters = parameters_of(document, path, method)
    names = argument_names(parameters, tool.parameters.get("properties", {}))
    places = {argument: key for key, argument in names.items()}

    def wish(place: Place, schema: Mapping[str, Any]) -> Iterator[Any]:
        if not place:
            return
        where, name = places.get(str(place[0]), ("body", ""))
        texts = _texts_for(parameters.get((where, name), {}), where, place)
        yield from _values(schema, number + sum(map(ord, repr(place))), texts)

    result = sample_value(tool.parameters, wish=wish, sparse=number % 2 == 1)
    assert isinstance(result, dict)
    # null stands for a parameter that is not given
    return {
        name: value for name, value in result.items() if name not in places or value is not None
    }


def _values(schema: Mapping[str, Any], start: int, texts: Sequence[str]) -> Iterator[Any]:
    """The preferred values of a schema, from another one for each `start`."""
    schema_type = schema.get("type")
    types = schema_type if isinstance(schema_type, list) else [schema_type]
    if schema.get("format") == "byte":
        yield "aGk="
    elif "string" in types:
        yield from _from(texts, start)
    elif "integer" in types:
        yield from _from(INTEGERS, start)
    elif "number" in types:
        yield from _from(NUMBERS, start)
    elif "boolean" in types:
        yield from _from((True, False), start)
    elif "array" in types and schema.get("items") == {"type": "string"}:
        for length in _from((3, 1, 2), start):
            yield list(_from(texts, start))[:length]


def _from(values: Sequence[Any], start: int) -> Iterator[Any]:
    start %= len(values) or 1
    yield from (*values[start:], *values[:start])


def _texts_for(parameter: Mapping[str, Any], where: str, place: Place) -> Sequence[str]:
    """Texts that the style of a parameter can express at all."""
    style = parameter.get("style", "")
    if style in ("pipeDelimited", "spaceDelimited"):
        return [text for text in TEXTS if not re.search(r"[ |]|%20", text)]
    if parameter.get("allowReserved"):  # there `%2F` stands for itself (RFC 6570, 3.2.3)
        return [text for text in TEXTS if "%2F" not in text]
    if where == "header" and "content" not in parameter:
        inside = len(place) > 1
        return [text for text in HEADER_TEXTS if not (inside and re.search("[,=]", text))]
    # a step of a path with `..` in it is refused, however it is encoded
    return [text for text in TEXTS if ".." not in text] if where == "path" else TEXTS


async def compare(
    document: Mapping[str, Any],
    path: str,
    method: str,
    tool: Tool,
    arguments: Mapping[str, Any],
    server: Server,
) -> Comparison:
    """One call, and what its request says by `document`."""
    comparison = Comparison(arguments)
    data, failure = await execute(tool, arguments, server)
    if data is None:
        comparison.different.append(Difference("request", "a request", failure))
        return comparison
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(str(tool.config["url"])))
    comparison.request = request = RecordedRequest.parse(data, origin)
    if request.method != method:
        comparison.different.append(Difference("method", method, request.method))
        return comparison
    read = read_request(document, path, method, request)
    names = argument_names(
        parameters_of(document, path, method), tool.parameters.get("properties", {})
    )
    for (where, name), parameter in parameters_of(document, path, method).items():
        if (where, name.lower()) in {("header", header) for header in STANDARD_HEADERS}:
            continue  # no parameters, by the specification or because a tool cannot set them
        if (where, name) not in names:
            if parameter.get("required"):
                comparison.different.append(Difference(f"{where} {name}", "an argument", None))
            continue
        expected = arguments.get(names[where, name])
        value = read.parameters.get((where, name))
        default = resolve(document, parameter.get("schema", {})).get("default")
        if expected is None and default is not None and value == default:
            value = None  # openapi-core fills it in
        _add(comparison, f"{where} {name}", expected, value)
    rest = {name: value for name, value in arguments.items() if name not in names.values()}
    _add(comparison, "body", *_bodies(document, path, method, rest, read.body))
    comparison.different += [Difference("problem", None, problem) for problem in read.problems]
    return comparison


async def execute(
    tool: Tool, arguments: Mapping[str, Any], server: Server
) -> tuple[bytes | None, str]:
    """(the bytes that the server got, "") or (None, the sentence of the executor)."""
    url = str(tool.config["url"])
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    here = f"http://tools.lan:{server.port}"
    config = {**tool.config, "url": url.replace(origin, here, 1), "private": True}
    tool = replace(tool, config=config)
    named = keys_of(tool)
    keys = Keys({name: KEY for name, _ in named})
    for name, place in named:
        if name not in DEFAULT_ORIGINS:
            keys.confirm(name, place)
    before = len(server.seen)
    call = Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=json.dumps(dict(arguments)),
        timeout_s=5.0,
        max_output=100_000,
        folder=Path(),
        idempotency_key="",
    )
    result = await Http(keys, _loopback).run(call, lambda *progress: None)
    if len(server.seen) == before:
        return None, result.text
    return server.seen[-1], ""


async def _loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def _add(comparison: Comparison, where: str, expected: Any, read: Any) -> None:
    if read is None and (expected is None or (not expected and isinstance(expected, list | dict))):
        return  # an empty list or object is in no request but as JSON
    if is_same(expected, read):
        comparison.equal.append(where)
    else:
        comparison.different.append(Difference(where, expected, read))


def _bodies(
    document: Mapping[str, Any], path: str, method: str, rest: Mapping[str, Any], read: Any
) -> tuple[Any, Any]:
    """(the body that the remaining arguments mean, the one that was read)."""
    operation = resolve(document, resolve(document, document["paths"][path])[method])
    body = resolve(document, operation.get("requestBody", {}))
    schemas = [
        resolve(document, media.get("schema", {})) for media in body.get("content", {}).values()
    ]
    members = {
        name: member for schema in schemas for name, member in schema.get("properties", {}).items()
    }
    names = {argument: name for (_, name), argument in
             argument_names((("body", name) for name in members), rest).items()}  # fmt: skip
    if len(rest) == 1 and not names and next(iter(rest)).startswith("body"):
        return next(iter(rest.values())), read
    expected = {names.get(argument, argument): value for argument, value in rest.items()}
    if isinstance(read, Mapping):  # openapi-core fills in defaults, and empty lists of parts
        read = {
            name: value
            for name, value in read.items()
            if name in expected
            or value not in ([], resolve(document, members.get(name, {})).get("default"))
        }
    return expected or None, read or None


def is_same(expected: Any, read: Any) -> bool:
    """Equal, where a text of a request may stand for a number, a boolean or bytes."""
    if isinstance(read, bytes) and isinstance(expected, str):
        return read == expected.encode()
    match expected, read:
        case Mapping(), Mapping():
            present = {key: value for key, value in read.items() if value is not None}
            expected_fields = {
                key: value
                for key, value in expected.items()
                if value is not None and (value not in ({}, []) or key in present)
            }
            return expected_fields.keys() == present.keys() and all(
                is_same(expected_fields[key], present[key]) for key in expected_fields
            )
        case list(), list():
            return len(expected) == len(read) and all(map(is_same, expected, read))
        case bool(), str():
            return read == str(expected).lower()
        case ((int() | float()), str()) if not isinstance(expected, bool):
            return read == json.dumps(expected)
    return bool(expected == read) and isinstance(expected, bool) == isinstance(read, bool)
