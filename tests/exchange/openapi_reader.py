"""Reads a recorded HTTP request by its OpenAPI document, with openapi-core.

openapi-core finds the operation and its server, splits and casts the parameters, reads forms and
multipart bodies, and validates all of it. Around it stands what it leaves to web frameworks or does
not know; each follows the text of the specification:

- it gets values as they were sent and its results are decoded, because a delimiter within a value
  is percent-encoded (RFC 6570);
- `form` with `explode` of an object in the query, and nested `deepObject`, are read here;
- `label` and `matrix` are looked up by it under the name of a RFC 6570 expression;
- an object in a form without `style` is JSON (OpenAPI 3.0.4, Encoding Object), and so is read what
  is not text in a multipart body: openapi-core casts nothing there;
- the media types of the parts of a multipart body are checked here;
- a path with `#` or `?` is read as its address and the pairs of its query;
- `querystring` of OpenAPI 3.2 is read here as a whole form.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from fnmatch import fnmatch
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

from jsonschema_path import SchemaPath
from openapi_core import V30RequestUnmarshaller, V31RequestUnmarshaller, V32RequestUnmarshaller
from openapi_core.casting.schemas import (
    oas30_write_schema_casters_factory,
    oas31_schema_casters_factory,
    oas32_schema_casters_factory,
)
from openapi_core.datatypes import RequestParameters
from openapi_core.deserializing.media_types.util import json_loads, plain_loads
from openapi_core.deserializing.styles import StyleDeserializersFactory, style_deserializers
from openapi_core.deserializing.styles.deserializers import StyleDeserializer
from werkzeug.datastructures import Headers, ImmutableMultiDict

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
NO_PARAMETERS = [("header", name) for name in ("accept", "content-type", "authorization")]
"""Described or not: the specification says that these are ignored."""
FORM = "application/x-www-form-urlencoded"
UNMARSHALLERS: dict[str, Any] = {
    "3.0": (V30RequestUnmarshaller, oas30_write_schema_casters_factory),
    "3.1": (V31RequestUnmarshaller, oas31_schema_casters_factory),
    "3.2": (V32RequestUnmarshaller, oas32_schema_casters_factory),
}


@dataclass(frozen=True)
class RecordedRequest:
    """A request as it was on the wire; `origin` is the one of the document."""

    method: str
    origin: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def parse(cls, data: bytes, origin: str) -> RecordedRequest:
        head, _, body = data.partition(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in
                   (header.partition(":") for header in rest)}  # fmt: skip
        return cls(method.lower(), origin, target, headers, body)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        """(name, value as it was sent)."""
        return _pairs(self.target.partition("?")[2], "&")

    @property
    def cookies(self) -> list[tuple[str, str]]:
        return _pairs(self.headers.get("cookie", ""), ";")


@dataclass
class ReadRequest:
    """`parameters` by (in, name); `problems` are sentences of openapi-core and of this module."""

    parameters: dict[tuple[str, str], Any] = field(default_factory=dict)
    body: Any = None
    problems: list[str] = field(default_factory=list)


class SentValues(ImmutableMultiDict[str, str]):
    """Values as they were sent, to be percent-decoded after they were split."""

    decode: Callable[[str], str] = staticmethod(unquote)


class SentQuery(SentValues):
    decode = staticmethod(unquote_plus)


@dataclass
class CoreRequest:
    """The request in the form that openapi-core asks for."""

    method: str
    host_url: str
    path: str
    parameters: RequestParameters
    content_type: str
    body: bytes | None


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, method, operation)."""
    for path, item in document["paths"].items():
        if path.startswith("x-"):
            continue
        item = resolve(document, item)
        for method in METHODS:
            if method in item:
                yield path, method, resolve(document, item[method])


def resolve(document: Mapping[str, Any], value: Any) -> Any:
    """The target of a local ref."""
    for _ in range(20):
        if not (isinstance(value, Mapping) and isinstance(value.get("$ref"), str)):
            return value
        at: Any = document
        for step in unquote(value["$ref"]).removeprefix("#/").split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            at = at[int(step)] if isinstance(at, list) else at[step]
        value = at
    raise ValueError("a circle of refs")


def parameters_of(
    document: Mapping[str, Any], path: str, method: str
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The parameters of an operation by (in, name); its own replace those of its path."""
    item = resolve(document, document["paths"][path])
    result = {}
    for holder in (item, resolve(document, item[method])):
        for entry in holder.get("parameters", ()):
            parameter = resolve(document, entry)
            result[parameter["in"], parameter["name"]] = parameter
    return result


def _in_query(path: str, parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    """`/search?q={q}`: the parameter `q` of the path is one of the query."""
    query = urlsplit(path).query
    pair = re.search(rf"(?:^|&)([^&=]*)=\{{{re.escape(parameter['name'])}\}}", query)
    if parameter["in"] == "path" and pair:
        return {**parameter, "in": "query", "name": unquote_plus(pair[1])}
    return parameter


def read_request(
    document: Mapping[str, Any], path: str, method: str, request: RecordedRequest
) -> ReadRequest:
    """What `request` says by the document, if it is a request for this operation and no other."""
    whole, document = document, _single_operation(document, path, method)
    parameters = parameters_of(document, _address(path), method)
    querystring = [name for where, name in parameters_of(whole, path, method)
                   if where == "querystring"]  # fmt: skip
    unknown = [] if querystring else list(_unknown_parts(document, parameters, request))
    read = ReadRequest(problems=unknown)
    unmarshaller, casters = UNMARSHALLERS[document["openapi"][:3]]
    location = RequestParameters(
        query=SentQuery(_for_content(parameters, "query", request.query, unquote_plus)),
        header=Headers(list(request.headers.items())),
        cookie=SentValues(_for_content(parameters, "cookie", request.cookies, unquote)),
        path=SentValues(list(_path_values(document, path, parameters, request))),
    )
    content_type = request.headers.get("content-type", "")
    core_request = CoreRequest(
        method=request.method,
        host_url=request.origin,
        path=request.path,
        parameters=location,
        content_type=content_type,
        body=request.body or None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # OAuth, `deprecated`, `allowEmptyValue`
        result = unmarshaller(
            SchemaPath.from_dict(document),
            base_url=request.origin + "/",
            style_deserializers_factory=_Styles(casters),
            extra_format_unmarshallers=_FormatsAsSent(),
            extra_media_type_deserializers=_further_media_types(content_type),
        ).unmarshal(core_request)
    read.problems += [_sentence(error) for error in result.errors]
    read.problems += _wrong_parts(whole, path, method, request)
    for name in querystring if request.query else ():
        read.parameters["querystring", name] = {
            key: unquote_plus(value) for key, value in request.query
        }
    for where in ("path", "query", "header", "cookie"):
        for name, value in getattr(result.parameters, where, {}).items():
            read.parameters[where, name] = value
    for where, name in parameters_of(whole, path, method):
        other = _in_query(path, {"in": where, "name": name})
        if other["in"] != where:
            read.parameters[where, name] = read.parameters.pop(("query", other["name"]), None)
    read.body = result.body
    return read


class _FormatsAsSent(dict[str, Any]):
    """Each format is left as the text that was sent: a date is no `datetime.date`."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> Any:
        return lambda value: value


def _further_media_types(content_type: str) -> dict[str, Any]:
    """openapi-core knows JSON and text by five names, and bytes that a schema calls a string are
    a text."""
    kind = content_type.partition(";")[0].strip().lower()
    if re.fullmatch(r"[\w.-]+/(?:[\w.-]+\+)?json", kind):
        return {kind: json_loads, "*/*": json_loads}
    text = kind.startswith("text/") or kind == "application/octet-stream"
    return {kind: plain_loads} if text else {}


def _sentence(error: BaseException) -> str:
    """An error with its causes."""
    results = []
    cause: BaseException | None = error
    while cause is not None:
        reasons = [inner.message for inner in getattr(cause, "schema_errors", ())]
        try:
            text = "; ".join(reasons) or str(cause)
        except Exception:  # some of its errors expect bytes for their sentence, and have a text
            text = repr(cause)
        results.append(f"{type(cause).__name__}: {text}")
        cause = cause.__cause__
    return " <- ".join(results[-2:])


# -- the document as openapi-core reads it


def _address(path: str) -> str:
    """The path alone, with a `$` before a parameter as it is sent."""
    return re.split("[?#]", path, maxsplit=1)[0].replace("${", "%24{")


def _single_operation(document: Mapping[str, Any], path: str, method: str) -> dict[str, Any]:
    """`document` with this operation alone under its address. Pairs that stand in the path become
    required parameters of one value."""
    item = resolve(document, document["paths"][path])
    operation = dict(resolve(document, item[method]))
    fixed = parse_qsl(urlsplit(path).query, keep_blank_values=True)
    shared, own = (
        [
            _in_query(path, entry)
            for entry in (resolve(document, entry) for entry in holder.get("parameters", ()))
            if entry["in"] != "querystring"
            and (entry["in"], entry["name"].lower()) not in NO_PARAMETERS
        ]
        for holder in (item, operation)
    )
    own += [
        {"in": "query", "name": name, "required": True, "allowEmptyValue": True,
         "schema": {"type": "string", "enum": [value]}}
        for name, value in fixed if "{" not in value
    ]  # fmt: skip
    operation["parameters"] = [_single_typed(document, entry) for entry in own]
    if "requestBody" in operation:
        body = resolve(document, operation["requestBody"])
        content = {kind: _say_json(document, kind, media)
                   for kind, media in body["content"].items()}  # fmt: skip
        operation["requestBody"] = {**body, "content": content}
    stored_data = {key: value for key, value in item.items() if key not in METHODS}
    stored_data["parameters"] = [_single_typed(document, entry) for entry in shared]
    paths = {_address(path): {**stored_data, method: operation}}
    return {**document, "paths": paths, "webhooks": {}}


def _single_typed(document: Mapping[str, Any], parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    if "schema" not in parameter:
        return parameter
    return {**parameter, "schema": _without_null(resolve(document, parameter["schema"]))}


def _without_null(schema: Any) -> Any:
    """A parameter that may be null is absent then; openapi-core casts by a single type."""
    types = schema.get("type")
    if isinstance(types, list) and len(rest := [kind for kind in types if kind != "null"]) == 1:
        return {**schema, "type": rest[0]}
    for word in ("anyOf", "oneOf"):
        rest = [part for part in schema.get(word, ()) if part != {"type": "null"}]
        if len(rest) == 1:
            return {**{key: value for key, value in schema.items() if key != word}, **rest[0]}
    return schema


def _say_json(document: Mapping[str, Any], kind: str, media: Mapping[str, Any]) -> Any:
    """`media` with the members that are JSON by default said to be so."""
    multipart = kind.startswith("multipart/")
    types = ("integer", "number", "boolean") if multipart else ("object",)
    if not multipart and kind != FORM:
        return media
    members = resolve(document, media.get("schema", {})).get("properties", {})
    as_json = {
        name: {"contentType": "application/json"}
        for name, member in members.items()
        if resolve(document, member).get("type") in types
    }
    encoding = {**as_json, **media.get("encoding", {})}
    return {**media, "encoding": encoding} if encoding else media


# -- the request as openapi-core reads it


def _pairs(text: str, delimiter: str) -> list[tuple[str, str]]:
    parts = [part.strip().partition("=") for part in text.split(delimiter) if part.strip()]
    return [(unquote_plus(name), value) for name, _, value in parts]


def _for_content(
    parameters: Mapping[tuple[str, str], Mapping[str, Any]],
    where: str,
    pairs: list[tuple[str, str]],
    decode: Callable[[str], str],
) -> list[tuple[str, str]]:
    """A parameter with a media type is read as a whole, so it is decoded here."""
    content_names = {name for (place, name), entry in parameters.items()
             if place == where and "content" in entry}  # fmt: skip
    return [(name, decode(value) if name in content_names else value) for name, value in pairs]


def _path_values(
    document: Mapping[str, Any],
    path: str,
    parameters: Mapping[tuple[str, str], Mapping[str, Any]],
    request: RecordedRequest,
) -> Iterator[tuple[str, str]]:
    """The values in the path as they were sent, under the names that openapi-core looks them up."""
    steps = re.split(r"\{([^{}]*)\}", _address(path))
    pattern = "".join(
        re.escape(step) if place % 2 == 0 else "([^/]*)" for place, step in enumerate(steps)
    )
    match = re.search(pattern + "$", request.path)
    for name, value in zip(steps[1::2], match.groups() if match else (), strict=False):
        parameter = parameters.get(("path", name), {})
        mark = {"matrix": ";", "label": "."}.get(parameter.get("style", ""), "")
        if "content" in parameter:
            value = unquote(value)
        yield f"{mark}{name}{'*' if mark and parameter.get('explode') else ''}", value


def _unknown_parts(
    document: Mapping[str, Any],
    parameters: Mapping[tuple[str, str], Mapping[str, Any]],
    request: RecordedRequest,
) -> Iterator[str]:
    """What the request has and the document does not: openapi-core looks only for what it knows."""
    schemes = document.get("components", {}).get("securitySchemes", {}).values()
    keys = {(scheme.get("in"), scheme.get("name")) for scheme in schemes}
    for where, pairs in (("query", request.query), ("cookie", request.cookies)):
        names = {name for place, name in {*parameters, *keys} if place == where and name}
        free = False
        for (place, _), parameter in parameters.items():
            schema = resolve(document, parameter.get("schema", {}))
            style, explode = parameter.get("style", "form"), parameter.get("explode", True)
            if place == where and (style, explode, schema.get("type")) == ("form", True, "object"):
                names |= {*schema.get("properties", {})}
                free = free or "additionalProperties" in schema
        for name, _ in pairs:
            if not free and name not in names and name.partition("[")[0] not in names:
                yield f"{where} {name!r} was sent and is not in the document"
    operation = next(iter(document["paths"].values()))[request.method]
    if request.body and "requestBody" not in operation:
        yield "a body was sent and is not in the document"


def _wrong_parts(
    document: Mapping[str, Any], path: str, method: str, request: RecordedRequest
) -> Iterator[str]:
    content_type = request.headers.get("content-type", "")
    if not content_type.startswith("multipart/"):
        return
    operation = resolve(document, resolve(document, document["paths"][path])[method])
    body = resolve(document, operation.get("requestBody", {}))
    media = body.get("content", {}).get("multipart/form-data", {})
    members = resolve(document, media.get("schema", {})).get("properties", {})
    message = message_from_bytes(f"Content-Type: {content_type}\n\n".encode() + request.body)
    for part in message.walk():
        name = part.get_param("name", header="content-disposition")
        encoding = media.get("encoding", {}).get(name, {})
        kind = encoding.get("contentType") or _default_part_type(document, members.get(name))
        kinds = [pattern.strip() for pattern in kind.split(",")]
        if name in members and kind and not any(fnmatch(part.get_content_type(), pattern)
                                                for pattern in kinds):  # fmt: skip
            yield f"the part {name!r} is {part.get_content_type()}, and not {kind}"


def _default_part_type(document: Mapping[str, Any], schema: Any) -> str:
    """By the type of the member (Encoding Object), "" where it says nothing."""
    schema = resolve(document, schema) or {}
    match schema.get("type"):
        case "array":
            return _default_part_type(document, schema.get("items"))
        case "object":
            return "application/json"
        case "string" if schema.get("format") == "binary":
            return "application/octet-stream"
        case "string":
            return str(schema.get("contentMediaType", "text/plain"))
        case "integer" | "number" | "boolean":
            return "text/plain"
    return ""


# -- styles


class _Styles(StyleDeserializersFactory):
    """openapi-core's own, with what it does not know."""

    def create(
        self, spec: SchemaPath, schema: SchemaPath, style: str, explode: bool, name: str
    ) -> StyleDeserializer:
        own = super().create(spec, schema, style, explode, name)
        known = own.deserializer_callable or style_deserializers.get(style)
        members = (schema / "properties").str_keys() if "properties" in schema else ()
        properties = [str(member) for member in members]

        def deserialize(explode: bool, name: str, kind: str, location: Mapping[str, Any]) -> Any:
            if (style, explode, kind) == ("form", True, "object"):
                value: Any = _exploded(location, properties)
            elif style == "deepObject" and isinstance(location, ImmutableMultiDict):
                value = _deep(location, name)
            elif style == "cookie" and kind not in ("array", "object"):
                return location[name]  # OpenAPI 3.2: cookies as they are
            else:
                assert known is not None, f"openapi-core does not know the style {style}"
                if style == "pipeDelimited":  # "|" is no character of a URL
                    location = SentQuery([(name, location[name].replace("%7C", "|"))])
                value = known(explode, name, kind, location)
            return _decoded(value, location)

        own.deserializer_callable = deserialize
        return own


def _exploded(location: Mapping[str, Any], properties: list[str]) -> dict[str, Any]:
    result = {name: location[name] for name in properties if name in location}
    if not result:
        raise KeyError
    return result


def _deep(location: ImmutableMultiDict[str, str], name: str) -> dict[str, Any]:
    """`name[a][b]=1` as `{"a": {"b": "1"}}`; `[0]` and `[]` are items of an array."""
    result: dict[str, Any] = {}
    for key, value in location.items(multi=True):
        steps = re.findall(r"\[([^\]]*)\]", key.removeprefix(name))
        if not key.startswith(f"{name}[") or not steps:
            continue
        at = result
        for step in steps[:-1]:
            at = at.setdefault(step, {})
        at[str(len(at)) if steps[-1] == "" else steps[-1]] = value
    if not result:
        raise KeyError(name)
    return {key: _with_lists(value) for key, value in result.items()}


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _with_lists(item) for key, item in value.items()}
    numbered = [str(place) for place in range(len(inner))]
    return list(inner.values()) if inner and list(inner) == numbered else inner


def _decoded(value: Any, location: Mapping[str, Any]) -> Any:
    """Header values are not percent-encoded; forms were decoded before."""
    if not isinstance(location, SentValues):
        return value
    match value:
        case str():
            return location.decode(value)
        case list():
            return [_decoded(inner, location) for inner in value]
        case dict():
            return {location.decode(key): _decoded(inner, location)
                    for key, inner in value.items()}  # fmt: skip
    return value
