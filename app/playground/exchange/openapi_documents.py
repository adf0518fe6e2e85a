"""Completes OpenAPI documents: resolves refs, bundles files, converts Swagger 2.0 to OpenAPI 3.

The schemas of an operation are collected along the refs, never expanded inline: a document may have
circular refs, and fan out without end. Only files that were given together are read.
https://spec.openapis.org/oas/v3.1.0#relative-references-in-api-description-uris
https://swagger.io/specification/v2/
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote, urljoin

from playground.core.arguments import name_of_step, pointer_step
from playground.exchange.parsers import MOST_VALUES, UnreadableText, json_value, yaml_value
from playground.exchange.schema_dialects import from_openapi_schema
from playground.exchange.tool_entry import clip
from playground.schema.names import legal_name
from playground.schema.schema_checks import MAX_SCHEMA_BYTES, OF_NAMES

MOST_ALL = 3 * 1024 * 1024
"""Bytes of all the schemas of a document, counted for each use."""

_VALUES = ("enum", "const", "default", "example", "examples")
_MOST_STEPS = 10

HELD = "x-files"
"""The member of a bundled document that contains the other files by name."""

_UNION = "#kinds"
"""The end of a ref to the union of the kinds of a schema, which no document has."""

MOST_IN_PARTS = 2 * MOST_VALUES
"""Values of all the other files together: each may expand by aliases."""

_VALUE_WORDS = ("enum", "const", "default", "example", "examples")
_NAMED_MEMBERS = ("properties", "patternProperties", "$defs", "definitions", "schemas")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")

_SCHEMA = (
    *("type", "format", "items", "default", "enum", "multipleOf", "pattern", "uniqueItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems"),
)
"""Keywords that are in the parameter itself in Swagger, and in its `schema` in OpenAPI 3."""

_STYLES = {"ssv": "spaceDelimited", "tsv": "tabDelimited", "pipes": "pipeDelimited"}
"""The styles of collection formats; OpenAPI 3 has none for tsv."""

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

_PLACES = ("path", "query", "header")


class UnresolvedRef(ValueError):
    """A ref that is not followed, or exceeds the limit (`too_large`). `str` is a sentence."""

    def __init__(self, sentence: str, *, refers: bool = False, too_large: bool = False) -> None:
        super().__init__(sentence)
        self.refers = refers
        self.too_large = too_large


def _original_ref(ref: str) -> str:
    """A ref as written in the document of several files."""
    name, _, pointer = ref.removeprefix(f"#/{HELD}/").partition("/")
    if not ref.startswith(f"#/{HELD}/"):
        return ref
    file = name_of_step(unquote(name))
    return f"{file}#/{pointer}" if pointer else file


class Schemas:
    """Converts and collects schemas; one instance for each document. A schema with a discriminator
    is the union of its kinds, which extend it by allOf, unless without `kinds`."""

    def __init__(self, document: Mapping[str, Any], *, kinds: bool = True) -> None:
        self._document = document
        self.kinds = _unions(document) if kinds else {}
        own = document.get("$self")
        self._self = own.partition("#")[0] if isinstance(own, str) else ""
        # Before 3.1 the siblings of a ref are ignored.
        self._beside = not str(document.get("openapi", "")).startswith("3.0")
        self._names: dict[str, str] = {}  # ref -> its name in $defs
        self._refs: dict[str, str] = {}  # that name -> the ref
        self._made: dict[str, tuple[Any, frozenset[str], int]] = {}  # ref -> schema, refs, bytes
        self._used = 0

    @cached_property
    def without_kinds(self) -> Schemas:
        """The same document, with what all kinds of a schema share in place of each."""
        return Schemas(self._document, kinds=False)

    def target(self, value: Any) -> Any:
        """`value`, or the target of its ref: for parameters and bodies."""
        for _ in range(_MOST_STEPS):
            if not (isinstance(value, Mapping) and isinstance(value.get("$ref"), str)):
                return value
            value = self._resolve_ref(value["$ref"])
        raise UnresolvedRef("Its refs are circular. Correct the document.")

    def rewrite(self, schema: Any) -> Any:
        """`schema` as JSON Schema whose refs point into $defs."""
        return self._rename_refs(from_openapi_schema(schema), set())

    def follow_ref(self, schema: Any) -> Any:
        """The target of a schema that is only a ref."""
        for _ in range(_MOST_STEPS):
            if not (isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str)):
                break
            if schema.keys() - {"$ref", "description"}:
                break
            schema = self._convert_target(self._refs[schema["$ref"].rpartition("/")[2]])[0]
        return schema

    def bundle_refs(self, schema: dict[str, Any]) -> dict[str, Any]:
        """`schema` with all its direct and indirect ref targets in its $defs."""
        schemas: dict[str, Any] = {}
        bytes_ = 0
        todo = sorted(self._refs_in(schema))
        while todo:
            ref = todo.pop()
            if ref in schemas:
                continue
            schemas[ref], refs, size = self._convert_target(ref)
            bytes_ += size
            if bytes_ > MAX_SCHEMA_BYTES:
                sentence = "The schemas it refers to are too large for a tool."
                raise UnresolvedRef(sentence, too_large=True)
            todo += sorted(refs)
        self._used += bytes_
        if self._used > MOST_ALL:
            sentence = "The document is too large. Import a part of it."
            raise UnresolvedRef(sentence, too_large=True)
        if not schema["required"]:
            schema = {key: value for key, value in schema.items() if key != "required"}
        defs = {self._names[ref]: schemas[ref] for ref in sorted(schemas)}
        return {**schema, "$defs": defs} if defs else schema

    def _resolve_ref(self, ref: str) -> Any:
        file, _, pointer = ref.partition("#")
        if file and self._self and urljoin(self._self, file) == self._self:
            ref = f"#{pointer}"
        if not ref.startswith("#/"):
            sentence = (
                f"It refers to {clip(ref or '#')!a}, which is outside the document. Nothing is "
                "fetched."
            )
            raise UnresolvedRef(sentence, refers=True)
        here: Any = self._document
        for step in ref[2:].split("/"):
            step = name_of_step(unquote(step))
            if isinstance(here, Mapping) and step in here:
                here = here[step]
            elif isinstance(here, list) and step.isascii() and step.isdigit():
                here = here[int(step[:6])] if int(step[:6]) < len(here) else None
            else:
                sentence = (
                    f"There is nothing at {clip(_original_ref(ref))!a}. Correct the document."
                )
                raise UnresolvedRef(sentence, refers=True)
        return here

    def _convert_target(self, ref: str) -> tuple[Any, frozenset[str], int]:
        if ref not in self._made:
            refs: set[str] = set()
            is_union = ref.endswith(_UNION)
            given = self.kinds[ref.removesuffix(_UNION)] if is_union else self._resolve_ref(ref)
            schema = self._rename_refs(from_openapi_schema(given), refs)
            self._made[ref] = schema, frozenset(refs), len(json.dumps(schema))
        return self._made[ref]

    def _rename_refs(
        self, schema: Any, refs: set[str], *, by_name: bool = False, extends: bool = False
    ) -> Any:
        """`extends`: a ref here is what another schema extends, not the union of its kinds."""
        match schema:
            case {"$ref": str(ref)} if not by_name:
                self._resolve_ref(ref)  # refused here, at its place
                if ref in self.kinds and not extends:
                    ref += _UNION
                refs.add(ref)
                members = [key for key in schema if self._beside or key == "description"]
                beside = {key: schema[key] for key in members if key not in ("$ref", "summary")}
                return {"$ref": self._pointer(ref), **self._rename_refs(beside, refs)}
            case Mapping():
                return {
                    key: value
                    if key in _VALUES and not by_name
                    else self._rename_refs(
                        value,
                        refs,
                        by_name=not by_name and key in OF_NAMES,
                        extends=key == "allOf" and not by_name,
                    )
                    for key, value in schema.items()
                }
            case list():
                return [self._rename_refs(inner, refs, extends=extends) for inner in schema]
        return schema

    def _pointer(self, ref: str) -> str:
        if ref not in self._names:
            plain = legal_name(ref.rpartition("/")[2]).replace(".", "_") or "schema"
            name, number = plain, 2
            while name in self._refs:
                name, number = f"{plain}_{number}", number + 1
            self._names[ref], self._refs[name] = name, ref
        return f"#/$defs/{self._names[ref]}"

    def _refs_in(self, schema: Any) -> set[str]:
        """The refs into the document in a rewritten schema."""
        refs: set[str] = set()
        todo = [(schema, False)]
        while todo:
            match todo.pop():
                case (Mapping() as inner, by_name):
                    if isinstance(inner.get("$ref"), str) and not by_name:
                        refs.add(self._refs[inner["$ref"].rpartition("/")[2]])
                    todo += [
                        (value, not by_name and key in OF_NAMES)
                        for key, value in inner.items()
                        if by_name or key not in _VALUES
                    ]
                case (list() as several, _):
                    todo += [(inner, False) for inner in several]
        return refs


# -- Discriminators ----------------------------------------------------------------------------


def _unions(document: Mapping[str, Any]) -> dict[str, Any]:
    """By its ref, each schema with a discriminator that others extend by allOf: the union of these.

    https://spec.openapis.org/oas/v3.2.0#models-with-polymorphism-support
    """
    start, holder = "#/components/schemas/", _mapping(document.get("components")).get("schemas")
    if is_swagger(document):
        start, holder = "#/definitions/", document.get("definitions")
    schemas = _mapping(holder)
    kinds: dict[str, list[str]] = {}  # a ref -> the refs of those that extend it
    for name, schema in schemas.items():
        for part in _list(_mapping(schema).get("allOf")):
            if isinstance(_mapping(part).get("$ref"), str):
                kinds.setdefault(part["$ref"], []).append(f"{start}{name}")
    unions = {}
    for ref in kinds:
        base = _mapping(schemas.get(ref.removeprefix(start)))
        given = base.get("discriminator")
        member = _mapping(given).get("propertyName") if isinstance(given, Mapping) else given
        if isinstance(member, str) and not {"oneOf", "anyOf"} & base.keys():
            values: dict[str, list[str]] = {}  # by ref
            for value, to in _mapping(_mapping(given).get("mapping")).items():
                values.setdefault(to if "/" in str(to) else f"{start}{to}", []).append(value)
            refs = [*([ref] if ref in values else []), *_descendants(ref, kinds)]
            unions[ref] = {
                "anyOf": [
                    _kind(kind, member, values.get(kind, [kind.removeprefix(start)]))
                    for kind in refs
                ]
            }
    return unions


def _kind(ref: str, member: str, values: list[str]) -> dict[str, Any]:
    """The schema at `ref`, named by one of `values` in `member`."""
    named = {"type": "object", "properties": {member: {"enum": values}}, "required": [member]}
    return {"allOf": [{"$ref": ref}, named]}


def _descendants(ref: str, kinds: Mapping[str, list[str]]) -> list[str]:
    """The refs of the schemas that extend the one at `ref`, also by way of others."""
    refs: dict[str, None] = {}
    todo = [ref]
    while todo:
        for kind in kinds.get(todo.pop(), ()):
            if kind not in refs and kind != ref:
                refs[kind] = None
                todo.append(kind)
    return list(refs)


# -- Documents of several files ----------------------------------------------------------------


class Files:
    """The texts of files by name, which may include folders."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._by_base: dict[str, list[str]] = {}
        for name in texts:
            self._by_base.setdefault(posixpath.basename(name), []).append(name)

    def name_of(self, path: str) -> str | None:
        """The file that `path` means: the one of that name, or else the only one with the same last
        part (browsers may omit folders). None if there is none."""
        if path in self._texts:
            return path
        named = self._by_base.get(posixpath.basename(path), [])
        ends = [name for name in named if path.endswith("/" + name) or name.endswith("/" + path)]
        return ends[0] if len(ends) == 1 else named[0] if len(named) == 1 else None

    def value(self, name: str) -> Any:
        """The content of the file; Unreadable if it is neither JSON nor YAML."""
        text = self._texts[name].removeprefix("\ufeff")
        return json_value(text)[0] if text.lstrip()[:1] in ("{", "[") else yaml_value(text)


def bundle(document: Mapping[str, Any], name: str, files: Files) -> tuple[Any, dict[str, str]]:
    """(`document` with all the files it refers to under HELD, the names of those files with their
    error, "" for none). A ref to a missing file stays unchanged."""
    bundler = _Bundler(name, files)
    whole = bundler.localise_refs(document, name)
    bundler.left = MOST_IN_PARTS
    # Files found while one is read are read after it: refs may be circular.
    while bundler.waiting:
        path = bundler.waiting.pop()
        try:
            part = bundler.localise_refs(files.value(path), path)
            if bundler.left < 0:
                raise UnreadableText("The files of the document have too many values.")
            bundler.held[path] = part
        except UnreadableText as error:
            bundler.parts[path] = f"{path} cannot be read: {error}"
    return ({**whole, HELD: bundler.held} if bundler.held else whole), bundler.parts


class _Bundler:
    def __init__(self, root: str, files: Files) -> None:
        self._root, self._files = root, files
        self.held: dict[str, Any] = {}
        self.parts: dict[str, str] = {}
        self.waiting: list[str] = []
        self.left = sys.maxsize

    def localise_refs(self, value: Any, base: str, *, by_name: bool = False) -> Any:
        """`value` from the file `base`, with its refs made local."""
        self.left -= 1
        if self.left < 0:
            return None
        match value:
            case Mapping():
                return {
                    key: self._ref(inner, base)
                    if key == "$ref" and isinstance(inner, str)
                    else inner
                    if key in _VALUE_WORDS and not by_name
                    else self.localise_refs(
                        inner, base, by_name=not by_name and key in _NAMED_MEMBERS
                    )
                    for key, inner in value.items()
                }
            case list():
                return [self.localise_refs(inner, base) for inner in value]
        return value

    def _ref(self, ref: str, base: str) -> str:
        path, _, pointer = ref.partition("#")
        if _SCHEME.match(path):
            return ref
        name: str | None = base
        if path:
            joined = posixpath.join(posixpath.dirname(base), unquote(path))
            name = self._target(posixpath.normpath(joined))
        if name is None:
            return ref
        if name == self._root:
            return f"#{pointer}"
        if name not in self.parts:
            self.parts[name] = ""
            self.waiting.append(name)
        step = quote(pointer_step(name), safe="~")
        return f"#/{HELD}/{step}{pointer}"

    def _target(self, path: str) -> str | None:
        if path == posixpath.normpath(self._root):
            return self._root
        return self._files.name_of(path)


# -- Swagger 2.0 as OpenAPI 3 ------------------------------------------------------------------


def is_swagger(document: Mapping[str, Any]) -> bool:
    """Whether `document` is of version 2, the last one called Swagger."""
    return str(document.get("swagger", "")).startswith("2")


def convert_swagger(document: Mapping[str, Any]) -> dict[str, Any]:
    """`document` with its servers and security schemes in OpenAPI 3. `convert_operation` converts
    its operations one by one."""
    schemes = _mapping(document.get("securityDefinitions"))
    return {
        **document,
        "openapi": "3.0.0",
        "servers": [{"url": _server(document)}],
        "components": {
            "securitySchemes": {name: _scheme(scheme) for name, scheme in schemes.items()}
        },
    }


def convert_operation(
    document: Mapping[str, Any],
    schemas: Schemas,
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
) -> dict[str, Any]:
    """The operation in OpenAPI 3, with its parameters, those of its path, and its body."""
    given = {
        (str(parameter.get("in")), str(parameter.get("name"))): parameter
        for holder in (item, operation)
        for parameter in _swagger_parameters(schemas, holder)
    }
    kinds = operation.get("consumes", document.get("consumes"))
    kinds = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
    converted = {
        **operation,
        "parameters": [
            _convert_parameter(parameter)
            for (where, _), parameter in given.items()
            if where in _PLACES
        ],
    }
    body = next((parameter for (where, _), parameter in given.items() if where == "body"), None)
    fields = [parameter for (where, _), parameter in given.items() if where == "formData"]
    if body is not None:
        converted["requestBody"] = {
            "required": body.get("required") is True,
            "content": {kind: {"schema": body.get("schema", {})} for kind in kinds or [JSON]},
        }
    elif fields:
        styles = {str(field.get("name")): _style(field) for field in fields}
        media = {"schema": _form(fields), "encoding": {k: v for k, v in styles.items() if v}}
        converted["requestBody"] = {"content": {_form_kind(fields, kinds): media}}
    return converted


def _swagger_parameters(schemas: Schemas, holder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    listed = holder.get("parameters")
    for entry in listed if isinstance(listed, list) else ():
        parameter = schemas.target(entry)
        if isinstance(parameter, Mapping):
            yield parameter


def _convert_parameter(given: Mapping[str, Any]) -> dict[str, Any]:
    converted = {key: value for key, value in given.items() if key not in _SCHEMA}
    converted["schema"] = {key: given[key] for key in _SCHEMA if key in given}
    return converted | _style(given)


def _style(given: Mapping[str, Any]) -> dict[str, Any]:
    """The style of an array in a parameter or a field of a form; {} for other types."""
    if given.get("type") != "array":
        return {}
    way = str(given.get("collectionFormat", "csv"))
    if way in _STYLES:
        return {"style": _STYLES[way], "explode": False}
    if given.get("in") in ("path", "header"):
        return {"style": "simple"}
    return {"style": "form", "explode": way == "multi"}


def _form(fields: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            str(field.get("name")): {
                key: field[key] for key in (*_SCHEMA, "description") if key in field
            }
            for field in fields
        },
        "required": [str(field.get("name")) for field in fields if field.get("required") is True],
    }


def _form_kind(fields: list[Mapping[str, Any]], kinds: list[str]) -> str:
    """A form is sent as multipart only if it has files, or if no other type is accepted."""
    has_files = any(field.get("type") == "file" for field in fields)
    return MULTIPART if has_files or kinds == [MULTIPART] else FORM


def _server(document: Mapping[str, Any]) -> str:
    """The address; without a host it is the path alone."""
    host, base = document.get("host"), document.get("basePath")
    path = base if isinstance(base, str) else ""
    if not isinstance(host, str) or not host:
        return path or "/"
    ways = document.get("schemes")
    ways = [way for way in ways if way in ("http", "https")] if isinstance(ways, list) else []
    return f"{'https' if 'https' in ways or not ways else ways[0]}://{host}/{path.lstrip('/')}"


def _scheme(given: Any) -> Any:
    if isinstance(given, Mapping) and given.get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    return given


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
