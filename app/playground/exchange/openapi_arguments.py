"""What an operation of an OpenAPI document asks for as arguments of a tool, and where each is sent.

A parameter is a placeholder in the URL or a header where that says the same; else it is one of the
tool's own `parameters`, with its style. So is a field of a form that has an encoding.
https://spec.openapis.org/oas/v3.2.0#parameter-object
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from playground.exchange.openapi_documents import FORM, JSON, MULTIPART, Schemas
from playground.exchange.tool_entry import clip
from playground.schema.http_parameters import EXPLODED, STYLES
from playground.schema.names import PORTABLE_NAME, legal_name, shorten_name
from playground.schema.validate import OURS

_WITH_BODY = ("post", "put", "patch")
_NOT_SET = ("accept", "content-type", "authorization", "cookie")
"""Headers that OpenAPI has other words for; a parameter of that name is to be ignored."""

_JSON = re.compile(r"application/(?:[\w.+-]*\+)?json\b|\*/\*", re.I)
_WHOLE = (
    *("minProperties", "maxProperties", "patternProperties", "propertyNames"),
    *("additionalProperties", "dependentRequired", "dependentSchemas"),
)
"""Keywords about a body as a whole, which its members cannot express separately."""
_SCALARS = {"string", "number", "integer", "boolean", "null"}
_PLACEHOLDER = re.compile(r"\{([^{}/]*)\}")
_OPERATORS = re.compile(r"^[+#.;]|(?:[*+]|:.*)$")
"""The operators around a parameter's name in path templates other than OpenAPI's."""
_FILE = (
    "The content of the file as text, or bytes as a data URL, like "
    "data:image/png;name=photo.png;base64,iVBORw0..."
)


@dataclass
class OperationTool:
    """One operation while it is parsed."""

    notes: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)  # query parameters written in the path
    query: dict[str, str] = field(default_factory=dict)  # name -> argument, as a placeholder
    headers: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)  # name in the path -> argument
    parameters: list[dict[str, Any]] = field(default_factory=list)  # those of the config
    body: Any = None

    def drop(self, place: str, name: str) -> bool:
        """Takes a query parameter, a header or a cookie back; whether there was one."""
        same = str.lower if place == "header" else str
        arguments = []
        for entry in [given for given in self.parameters if given["in"] == place]:
            if same(entry["name"]) == same(name):
                self.parameters.remove(entry)
                arguments.append(entry.get("argument", entry["name"]))
        if place == "query" and name in self.query:
            arguments.append(self.query.pop(name))
        if place == "header":
            for header in [header for header in self.headers if same(header) == same(name)]:
                value = self.headers.pop(header)
                arguments.append(value.removeprefix("{{ args.").removesuffix(" }}"))
        for argument in arguments:
            if self.properties.pop(argument, None) is not None and argument in self.required:
                self.required.remove(argument)
        return bool(arguments)


class InvalidOperation(ValueError):
    """Why an operation cannot be a tool."""


# -- parameters


def read_parameters(
    schemas: Schemas,
    path: str,
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
    tool: OperationTool,
) -> None:
    """The parameters of the path and of the operation."""
    parameters = _described_parameters(schemas, item, operation)
    names = list(dict.fromkeys(_PLACEHOLDER.findall(path)))
    for (where, name), parameter in parameters.items():
        if where == "path" and name not in names:
            tool.notes.append(f"{clip(name)!a} was left out: the path has no placeholder for it.")
        else:
            _parameter(schemas, where, name, parameter, tool)
    for name in names:
        # A place in the query of the path may be that of a query parameter.
        is_query = ("query", name) in parameters and f"{{{name}}}" not in path.partition("?")[0]
        if name not in tool.places and not is_query:
            tool.notes.append(
                f"{clip(name)!a} in the path is not described, so it accepts any text."
            )
            _parameter(schemas, "path", name, {"schema": {"type": "string"}}, tool)


def _described_parameters(
    schemas: Schemas, item: Mapping[str, Any], operation: Mapping[str, Any]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The parameters by place and name; those of the operation override those of the path."""
    parameters: dict[tuple[str, str], Mapping[str, Any]] = {}
    for holder in (item, operation):
        listed = holder.get("parameters")
        for entry in listed if isinstance(listed, list) else ():
            parameter = schemas.target(entry)
            if isinstance(parameter, Mapping):
                parameters[str(parameter.get("in")), str(parameter.get("name"))] = parameter
    return parameters


def _parameter(
    schemas: Schemas, where: str, name: str, parameter: Mapping[str, Any], tool: OperationTool
) -> None:
    if where not in STYLES or where == "body":
        tool.notes.append(
            f"{clip(name)!a} was left out: it is in {clip(where)!a}, which is unknown."
        )
        return
    if where == "header" and name.lower() in (*_NOT_SET, *OURS):
        if name.lower() not in _NOT_SET:
            tool.notes.append(f"The header {clip(name)} was left out: a tool cannot set it.")
        return
    content = parameter.get("content")
    media_types = content if isinstance(content, Mapping) else {}
    kind = str(next(iter(media_types), ""))
    media = schemas.target(media_types.get(kind))
    media = media if isinstance(media, Mapping) else {}
    schema = schemas.rewrite(parameter.get("schema", media.get("schema", {})))
    if isinstance(parameter.get("description"), str) and isinstance(schema, Mapping):
        schema = {**schema, "description": parameter["description"]}
    argument = _argument(name, where, tool)
    tool.properties[argument] = schema
    if parameter.get("required") is True or where == "path":
        tool.required.append(argument)
    if where == "path":
        tool.places[name] = argument
    types = _all_types(schemas, schema)
    entry = {"in": where, "name": name}
    if argument != name:
        entry["argument"] = argument
    if kind or where == "querystring":
        entry["content_type"] = kind or JSON
        if media.get("encoding"):
            tool.notes.append(f"The encoding of {argument} was left out.")
    else:
        entry |= _style(where, parameter, argument, tool)
        _note_nested(schemas, schema, entry, argument, tool)
    if not _is_placeholder(entry, types):
        tool.parameters.append(entry)
    elif where == "query":
        tool.query[name] = argument
    elif where == "header":
        tool.headers[name] = f"{{{{ args.{argument} }}}}"


def _style(
    where: str, given: Mapping[str, Any], argument: str, tool: OperationTool
) -> dict[str, Any]:
    """The members of a parameter about its style, without those that are the default."""
    members: dict[str, Any] = {}
    default = STYLES[where][0]
    style = given.get("style", default)
    if style not in STYLES[where]:
        tool.notes.append(
            f"The document gives {argument} the style {clip(style)!a}, which a {where} parameter "
            f"cannot have; it is sent as {default or 'form'}."
        )
        style = default
    if style != default:
        members["style"] = style
    explode = given.get("explode")
    if isinstance(explode, bool) and explode != (style in EXPLODED):
        members["explode"] = explode
    if given.get("allowReserved") is True and where in ("path", "query", "body"):
        members["allow_reserved"] = True
    return members


def _is_placeholder(entry: Mapping[str, Any], types: Collection[str] | None) -> bool:
    """Whether a placeholder in the URL or a header sends the same as this parameter."""
    if types is None or not entry.keys() <= {"in", "name", "argument", "explode"}:
        return False
    if entry["in"] == "query" and "explode" not in entry:
        return {*types} <= _SCALARS | {"array"}
    return entry["in"] in ("path", "query", "header") and {*types} <= _SCALARS


def _note_nested(
    schemas: Schemas, schema: Any, entry: Mapping[str, Any], argument: str, tool: OperationTool
) -> None:
    """Says how lists and objects within the value are sent: no style of OpenAPI has them."""
    schema = schemas.follow_ref(schema)
    if not isinstance(schema, Mapping):
        return
    members = schema.get("properties")
    inner = [schema.get("items"), schema.get("additionalProperties")]
    inner += members.values() if isinstance(members, Mapping) else []
    kinds = [_all_types(schemas, value) for value in inner if isinstance(value, Mapping)]
    nested = any(kind is not None and {"array", "object"} & {*kind} for kind in kinds)
    if entry.get("style") == "deepObject" and (nested or "array" in _types(schema)):
        tool.notes.append(
            f"OpenAPI does not say how lists and objects in {argument} are sent as deepObject; "
            f"they are sent as {clip(entry['name'])}[a][0]=..."
        )
    elif nested and {"array", "object"} & {*_types(schema)}:
        tool.notes.append(f"Lists and objects within {argument} are sent as JSON.")


def _all_types(schemas: Schemas, schema: Any, depth: int = 0) -> set[str] | None:
    """The types that a value may have; None if the schema does not limit them."""
    schema = schemas.follow_ref(schema)
    if not isinstance(schema, Mapping) or depth > 8:
        return None
    if kinds := _types(schema):
        return set(kinds)
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        return {_type_of(value) for value in values}
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list) and schema[word]:
            several = [_all_types(schemas, inner, depth + 1) for inner in schema[word]]
            return set().union(*filter(None, several)) if all(several) else None
    if isinstance(schema.get("allOf"), list):
        known = [_all_types(schemas, inner, depth + 1) for inner in schema["allOf"]]
        return next(filter(None, known), None)
    return None


def _type_of(value: Any) -> str:
    match value:
        case Mapping():
            return "object"
        case list():
            return "array"
    return "string"


def _is_object(schemas: Schemas, schema: Any) -> bool:
    """Whether a member may be an object, alone or as one of several types."""
    schema = schemas.follow_ref(schema)
    if not isinstance(schema, Mapping):
        return False
    several = [alternative for word in ("anyOf", "oneOf") for alternative in schema.get(word, ())]
    all_types = [_types(alternative) for alternative in (schema, *map(schemas.follow_ref, several))]
    return any("object" in types for types in all_types)


def _types(schema: Any) -> Collection[str]:
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    return [
        kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)
    ]


def _argument(name: str, where: str, tool: OperationTool) -> str:
    plain = shorten_name(legal_name(name.replace(".", "_")), PORTABLE_NAME) or where
    free, number = plain, 1
    while free in tool.properties:
        number += 1
        free = f"{plain}_{where}" if number == 2 else f"{plain}_{where}_{number - 1}"
    return free


def plain_places(
    schemas: Schemas,
    path: str,
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
    tool: OperationTool,
) -> str:
    """`path` with its places as OpenAPI writes them, where these are described: `{proxy+}` of AWS,
    `{id:[0-9]+}` of web frameworks and `{+path}` of RFC 6570 are `{proxy}`, `{id}` and `{path}`;
    `{?page,size}` goes, because parameters of the query are sent without a place."""
    described = _described_parameters(schemas, item, operation)

    def normalise(place: re.Match[str]) -> str:
        expression = place[1]
        if expression[:1] in ("?", "&"):
            names = [name.removesuffix("*") for name in expression[1:].split(",")]
            return "" if all(("query", name) in described for name in names) else place[0]
        name = _OPERATORS.sub("", expression)
        if ("path", expression) in described or ("path", name) not in described:
            return place[0]
        if {expression[0], expression[-1]} & {"+", "*"}:
            tool.notes.append(f"A slash in {clip(name)!a} is sent as %2F; the path has {place[0]}.")
        return f"{{{name}}}"

    return _PLACEHOLDER.sub(normalise, path)


def without_fragment(path: str, tool: OperationTool) -> str:
    """The path without `#...`, which is not part of an address and only makes it unique."""
    path, sign, fragment = path.partition("#")
    if sign:
        tool.notes.append(f"{clip('#' + fragment)!a} at the end of its path was left out.")
    return path


def url_path(path: str, tool: OperationTool) -> str:
    """The path with its placeholders named by the arguments, and all else URL-encoded. What follows
    a `?` in it becomes `tool.fixed`."""
    path, _, query = path.partition("?")
    for pair in filter(None, query.split("&")):
        _add_fixed_parameter(pair, tool)
    url_path = _with_arguments(path, "/:@!$&'()*+,;=~%-._", tool)
    return url_path if url_path.startswith("/") else f"/{url_path}"


def _add_fixed_parameter(pair: str, tool: OperationTool) -> None:
    """Takes a query parameter that is written in the path. It wins over a described parameter of
    its name, unless it is a place for that."""
    name = unquote(pair.partition("=")[0])
    if any(place not in tool.places for place in _PLACEHOLDER.findall(pair)):
        return  # the place of a query parameter, which is sent anyway
    if not _PLACEHOLDER.search(name) and tool.drop("query", name):
        tool.notes.append(f"{clip(name)!a} is not an argument: the path says {clip(pair)!a}.")
    tool.fixed.append(_with_arguments(pair, "/:@!$'()*+,;=~%-._?", tool))


def _with_arguments(text: str, safe: str, tool: OperationTool) -> str:
    parts = _PLACEHOLDER.split(text)
    # `${` in a URL would be a key.
    return "".join(
        f"{{{tool.places[part]}}}" if number % 2 else re.sub(r"\$$", "%24", quote(part, safe=safe))
        for number, part in enumerate(parts)
    )


# -- the body


def read_body(
    schemas: Schemas, operation: Mapping[str, Any], method: str, tool: OperationTool
) -> None:
    body = schemas.target(operation.get("requestBody"))
    content = body.get("content") if isinstance(body, Mapping) else None
    if not isinstance(content, Mapping) or not content:
        tool.body = "none" if method in _WITH_BODY else None
        return
    kinds = [str(kind) for kind in content]
    picked = next((kind for kind in kinds if _JSON.match(kind)), None)
    if picked is None:
        forms = [kind for kind in (FORM, MULTIPART) if kind in kinds]
        if len(forms) > 1 and _has_files(schemas, content[MULTIPART]):
            forms = [MULTIPART]
        picked = [*forms, *kinds][0]
    if picked.startswith("multipart/") and picked != MULTIPART:
        raise InvalidOperation(f"Its body is {clip(picked)}. A tool can send only {MULTIPART}.")
    media = schemas.target(content[picked])
    media = media if isinstance(media, Mapping) else {}
    schema = schemas.rewrite(media.get("schema", {}))
    flat = schemas.follow_ref(schema)
    if picked in (FORM, MULTIPART):
        _form(schemas, media, flat, picked, tool)
        return
    if "itemSchema" in media:
        tool.notes.append(f"Its body is a series of items as {clip(picked)}, sent as one text.")
    kind = picked if picked != "*/*" else JSON
    if _JSON.match(picked) and _is_flat(flat, tool):
        required = flat.get("required", [])
        lost = [word for word in _WHOLE if flat.get(word) and flat[word] is not True]
        tool.notes += [_loss_note(word, flat[word]) for word in lost]
        for name, prop in flat["properties"].items():
            followed = schemas.follow_ref(prop)
            if isinstance(followed, Mapping) and followed.get("readOnly") is True:
                continue
            tool.properties[name] = prop
            tool.required += [name] if name in required else []
        tool.body = "json"
        if kind != JSON:
            tool.headers["Content-Type"] = kind
        return
    name = _argument("body", "body", tool)
    tool.properties[name] = schema if _JSON.match(picked) else {"type": "string"}
    tool.required += [name] if body.get("required") is True else []
    tool.body = f"{{{{ args.{name} }}}}"
    types = _all_types(schemas, schema)
    if not _JSON.match(picked):
        is_file = _is_file(schemas, schema)
        if is_file:
            tool.properties[name] = _file_schema(schemas, schema)
            tool.parameters.append({"in": "body", "name": name, "content_type": kind, "file": True})
    elif types is None or "string" in types:
        # As JSON, a text has quotes, which a placeholder does not write.
        tool.parameters.append({"in": "body", "name": name, "content_type": kind})
    tool.headers["Content-Type"] = kind


def _is_flat(schema: Any, tool: OperationTool) -> bool:
    """Whether the members of a body can be separate arguments."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        return False
    if any(word in schema for word in ("allOf", "anyOf", "oneOf", "not", "if", "$ref")):
        return False
    names = schema["properties"]
    legal = all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in names)
    return legal and not any(name in tool.properties for name in names)


def _form(
    schemas: Schemas, media: Mapping[str, Any], schema: Any, kind: str, tool: OperationTool
) -> None:
    """The members of a form as arguments, each written as its encoding says."""
    members, required = _form_members(schemas, schema, tool)
    if not members and not _takes_more(schema):
        tool.body = "none"
        return
    if not members:
        raise InvalidOperation("Its form has no simple members, so it gives no arguments.")
    encodings = media.get("encoding")
    nested = []
    for name, prop in members.items():
        followed = schemas.follow_ref(prop)
        if isinstance(followed, Mapping) and followed.get("readOnly") is True:
            continue
        legal = re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) and name not in tool.properties
        argument = name if legal else _argument(name, "body", tool)
        entry: dict[str, Any] = {} if argument == name else {"argument": argument}
        encoding = encodings.get(name) if isinstance(encodings, Mapping) else None
        if isinstance(encoding, Mapping):
            entry |= _encoding(encoding, argument, kind, tool)
        media_type = followed.get("contentMediaType") if isinstance(followed, Mapping) else None
        if (
            kind == MULTIPART
            and isinstance(media_type, str)
            and not {"style", "content_type"} & {*entry}
        ):
            entry["content_type"] = media_type
        if kind == MULTIPART and _is_file(schemas, prop):
            entry["file"] = True
            prop = _file_schema(schemas, prop)
        elif "style" not in entry and _is_object(schemas, prop):
            nested.append(name)
        if entry:
            tool.parameters.append({"in": "body", "name": name, **entry})
        tool.properties[argument] = prop
        tool.required += [argument] if name in required else []
    tool.body = "form" if kind == FORM else "multipart"
    if nested and kind == FORM:
        names = ", ".join(nested[:5]) + (" and others" if nested[5:] else "")
        tool.notes.append(f"An object is sent as JSON within the form: {clip(names)}.")


def _takes_more(schema: Any) -> bool:
    """Whether a form without members may have any: it says which, or that it is not an object."""
    if not isinstance(schema, Mapping) or "object" not in _types(schema):
        return True
    return bool(schema.get("additionalProperties", "properties" not in schema))


def _form_members(
    schemas: Schemas, schema: Any, tool: OperationTool, depth: int = 0
) -> tuple[dict[str, Any], set[str]]:
    """(the members of an object by name, those that are required). Those of `allOf` belong to it;
    of alternatives all members do, and are required only where all agree."""
    schema = schemas.follow_ref(schema)
    if not isinstance(schema, Mapping) or depth > 8:
        return {}, set()
    own = schema.get("properties")
    members = dict(own) if isinstance(own, Mapping) else {}
    listed = schema.get("required")
    required = (
        {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    )
    for word in ("allOf", "anyOf", "oneOf"):
        inner = schema.get(word)
        parts = [
            _form_members(schemas, part, tool, depth + 1)
            for part in (inner if isinstance(inner, list) else ())
        ]
        for more, _ in parts:
            members |= {name: prop for name, prop in more.items() if name not in members}
        needed = [names for _, names in parts]
        if word == "allOf":
            required |= set().union(*needed)
        elif parts:
            required |= set.intersection(*needed)
            tool.notes.append(
                f"The members of all alternatives ({word}) of its form became arguments."
            )
    for word in _WHOLE if depth == 0 else ():
        if schema.get(word) and schema[word] is not True:
            tool.notes.append(_loss_note(word, schema[word]))
    return members, required


def _encoding(
    given: Mapping[str, Any], argument: str, kind: str, tool: OperationTool
) -> dict[str, Any]:
    """The members of a parameter for a field of a form that has an encoding."""
    if any(word in given for word in ("style", "explode", "allowReserved")):
        return {"style": "form", **_style("body", {"style": "form", **given}, argument, tool)}
    members: dict[str, Any] = {}
    kinds = [part.strip() for part in str(given.get("contentType", "")).split(",")]
    plain = next((name for name in kinds if name and "*" not in name), "")
    if plain:
        members["content_type"] = plain
    headers = given.get("headers")
    if kind == MULTIPART and isinstance(headers, Mapping):
        fixed = {str(name): _constant(header) for name, header in headers.items()}
        if lost := [name for name, value in fixed.items() if value is None]:
            names = clip(", ".join(lost))
            tool.notes.append(f"The headers of the part {argument} were left out: {names}.")
        if known := {name: value for name, value in fixed.items() if value is not None}:
            members["headers"] = known
    return members


def _constant(header: Any) -> str | None:
    """The only value that a header may have, or its default."""
    schema = header.get("schema") if isinstance(header, Mapping) else None
    if not isinstance(schema, Mapping):
        return None
    options = schema.get("enum")
    value = options[0] if isinstance(options, list) and len(options) == 1 else None
    value = schema.get("const", schema.get("default", value))
    return value if isinstance(value, str) else None


def _has_files(schemas: Schemas, media: Any) -> bool:
    """Whether a multipart body has a file."""
    media = schemas.target(media)
    schema = schemas.rewrite(media.get("schema", {})) if isinstance(media, Mapping) else {}
    members, _ = _form_members(schemas, schema, OperationTool())
    return any(_is_file(schemas, member) for member in members.values())


def _is_file(schemas: Schemas, schema: Any) -> bool:
    """Whether a field of a multipart body is a file, or several."""
    schema = schemas.follow_ref(schema)
    if not isinstance(schema, Mapping):
        return False
    if "array" in _types(schema):
        return _is_file(schemas, schema.get("items"))
    if schema.get("format") == "binary" or "file" in _types(schema):
        return True
    return "contentMediaType" in schema and "contentEncoding" not in schema


def _file_schema(schemas: Schemas, schema: Any) -> dict[str, Any]:
    """The argument for a file: a text."""
    followed = schemas.follow_ref(schema)
    members = {key: schema[key] for key in ("title", "description", "default") if key in schema}
    given = members.get("description", followed.get("description", ""))
    text = {"type": "string", "description": f"{given} {_FILE}".strip()}
    if "array" not in _types(followed):
        return {**members, **text}
    counts = {key: followed[key] for key in ("minItems", "maxItems") if key in followed}
    return {**members, "type": "array", **counts, "items": {"type": "string", "description": _FILE}}


def _loss_note(word: str, value: Any) -> str:
    return (
        f"{word} of its body ({value!s:.60}) was left out, because the members of the body are "
        "separate arguments."
    )
