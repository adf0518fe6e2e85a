"""The schemas of one OpenAPI document: local refs become `$defs`, each schema converted once.

What an operation needs is gathered along the refs, never written out in their place: a document
may refer in circles, and fan out without end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from app.exchange.dialect import from_openapi_schema
from app.exchange.entry import clipped, legal_name
from app.schema.schema_checks import MAX_SCHEMA_BYTES

MOST_ALL = 3 * 1024 * 1024
"""Bytes of all the schemas of a document, as often as they are needed."""

_VALUES = ("enum", "const", "default", "example", "examples")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Words under which schemas stand by names, which may be any words."""
_MOST_STEPS = 10

HELD = "x-files"
"""The member of a document of several files that holds the others by their names."""


class Outside(ValueError):
    """A ref that is not followed, or too much of them. `str` is a sentence."""

    def __init__(self, sentence: str, *, refers: bool = False) -> None:
        super().__init__(sentence)
        self.refers = refers


def _as_written(ref: str) -> str:
    """A ref as the document of several files has it."""
    name, _, pointer = ref.removeprefix(f"#/{HELD}/").partition("/")
    if not ref.startswith(f"#/{HELD}/"):
        return ref
    file = unquote(name).replace("~1", "/").replace("~0", "~")
    return f"{file}#/{pointer}" if pointer else file


class Schemas:
    """Converts and gathers; one for each document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        # Before 3.1 what stands beside a ref counts for nothing.
        self._beside = not str(document.get("openapi", "")).startswith("3.0")
        self._names: dict[str, str] = {}  # ref -> its name in $defs
        self._refs: dict[str, str] = {}  # that name -> the ref
        self._made: dict[str, tuple[Any, frozenset[str], int]] = {}  # ref -> schema, refs, bytes
        self._used = 0

    def target(self, value: Any) -> Any:
        """`value`, or what it refers to: for parameters and bodies."""
        for _ in range(_MOST_STEPS):
            if not (isinstance(value, Mapping) and isinstance(value.get("$ref"), str)):
                return value
            value = self._at(value["$ref"])
        raise Outside("Its refs go round in a circle; correct the document.")

    def rewritten(self, schema: Any) -> Any:
        """`schema` as JSON Schema whose refs point into $defs."""
        return self._refs_named(from_openapi_schema(schema), set())

    def followed(self, schema: Any) -> Any:
        """A schema that is only a ref, as what it means."""
        for _ in range(_MOST_STEPS):
            if not (isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str)):
                break
            if schema.keys() - {"$ref", "description"}:
                break
            schema = self._converted(self._refs[schema["$ref"].rpartition("/")[2]])[0]
        return schema

    def closed(self, schema: dict[str, Any]) -> dict[str, Any]:
        """`schema` with all that its refs name, directly or not, in its $defs."""
        found: dict[str, Any] = {}
        bytes_ = 0
        todo = sorted(self._refs_in(schema))
        while todo:
            ref = todo.pop()
            if ref in found:
                continue
            found[ref], refs, size = self._converted(ref)
            bytes_ += size
            if bytes_ > MAX_SCHEMA_BYTES:
                raise Outside("What its schemas refer to is too large for a tool.")
            todo += sorted(refs)
        self._used += bytes_
        if self._used > MOST_ALL:
            raise Outside("The document is too large to be read whole; bring a part of it.")
        if not schema["required"]:
            schema = {key: value for key, value in schema.items() if key != "required"}
        defs = {self._names[ref]: found[ref] for ref in sorted(found)}
        return {**schema, "$defs": defs} if defs else schema

    def _at(self, ref: str) -> Any:
        if not ref.startswith("#/"):
            said = f"It refers to {clipped(ref or '#')!a}, outside of it; nothing is fetched."
            raise Outside(said, refers=True)
        here: Any = self._document
        for step in ref[2:].split("/"):
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(here, Mapping) and step in here:
                here = here[step]
            elif isinstance(here, list) and step.isascii() and step.isdigit():
                here = here[int(step[:6])] if int(step[:6]) < len(here) else None
            else:
                said = f"There is nothing at {clipped(_as_written(ref))!a}; correct the document."
                raise Outside(said, refers=True)
        return here

    def _converted(self, ref: str) -> tuple[Any, frozenset[str], int]:
        if ref not in self._made:
            refs: set[str] = set()
            schema = self._refs_named(from_openapi_schema(self._at(ref)), refs)
            self._made[ref] = schema, frozenset(refs), len(json.dumps(schema))
        return self._made[ref]

    def _refs_named(self, schema: Any, refs: set[str], *, by_name: bool = False) -> Any:
        match schema:
            case {"$ref": str(ref)} if not by_name:
                self._at(ref)  # refused here, where it stands
                refs.add(ref)
                kept = [key for key in schema if self._beside or key == "description"]
                beside = {key: schema[key] for key in kept if key not in ("$ref", "summary")}
                return {"$ref": self._pointer(ref), **self._refs_named(beside, refs)}
            case Mapping():
                return {
                    key: value
                    if key in _VALUES and not by_name
                    else self._refs_named(value, refs, by_name=not by_name and key in _NAMED)
                    for key, value in schema.items()
                }
            case list():
                return [self._refs_named(one, refs) for one in schema]
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
        """The refs of the document that a rewritten schema holds."""
        found: set[str] = set()
        todo = [(schema, False)]
        while todo:
            match todo.pop():
                case (Mapping() as one, by_name):
                    if isinstance(one.get("$ref"), str) and not by_name:
                        found.add(self._refs[one["$ref"].rpartition("/")[2]])
                    todo += [
                        (value, not by_name and key in _NAMED)
                        for key, value in one.items()
                        if by_name or key not in _VALUES
                    ]
                case (list() as several, _):
                    todo += [(one, False) for one in several]
        return found
