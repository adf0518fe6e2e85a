"""Rewrites a schema for Gemini's own `parameters`, which take a part of OpenAPI's schemas.

No refs, one type each, texts in enums, nothing beside an anyOf.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from app.protocols.gemini.limits import FORMATS, KNOWN, PLAIN, has_too_many_items
from app.protocols.limits import SentTool
from app.protocols.rewrite_parts import (
    UNJUDGED,
    Losses,
    add_to_description,
    exclude_each_other,
    inline,
    kind_of,
    merge_all_of,
    same,
    spread_any_of,
    types_of,
    without_items,
)
from app.schema.schema_checks import Place

_NULL = {"type": "null"}
_MOST_CHOICES = 20


class Gemini:
    """One rewrite; `losses` are what it could not say."""

    def __init__(self, losses: Losses) -> None:
        self.losses = losses

    def whole(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        root = self.folded(inline(schema, self.losses, cut=True), ())
        for key in ("anyOf", "oneOf", "enum", "const"):
            if key in root:
                self.losses.add(f"{key} at the top level is dropped", ())
                del root[key]
        result = self.of({**root, "type": "object"}, ())
        if has_too_many_items(result):
            result = without_items(result, self.losses)
        for finding in PLAIN.findings(SentTool("x", "", result)):
            if finding.severity == "refused":
                self.losses.refused.append(finding.message)
        return result

    def of(self, schema: Any, place: Place) -> dict[str, Any]:
        if not isinstance(schema, Mapping):
            if schema is not True:
                self.losses.add("A schema that accepts no value is no longer enforced", place)
            return {}
        node = self.folded(schema, place)
        nullable = bool(node.pop("nullable", False))
        self.bounds(node, place)
        self.values(node, place)
        self.choose(node, place)
        dropped = self.drop(node, place)
        if "anyOf" in node:
            return self.union(node, dropped, nullable, place)
        if nullable:
            node["nullable"] = True
        self.inner(node, place)
        self.format(node, dropped, place)
        return add_to_description(node, dropped)

    def format(self, node: dict[str, Any], dropped: dict[str, Any], place: Place) -> None:
        """A format that its type does not have goes into the description."""
        form = node.get("format")
        formats = FORMATS.get(str(node.get("type")), ())
        if form is None or (form in formats and (form != "enum" or node.get("enum"))):
            return
        dropped["format"] = node.pop("format")
        self.losses.add("format is no longer checked", place)

    def folded(self, schema: Mapping[str, Any], place: Place) -> dict[str, Any]:
        node, complete = merge_all_of(schema)
        if not complete:
            self.losses.add("allOf is dropped where its parts do not fit into one", place)
        return node

    def bounds(self, node: dict[str, Any], place: Place) -> None:
        """An open bound of an integer is a closed one beside it."""
        for name, closed, step in (
            ("exclusiveMinimum", "minimum", 1),
            ("exclusiveMaximum", "maximum", -1),
        ):
            value = node.get(name)
            whole = types_of(node) == {"number"} and node.get("type") == "integer"
            if isinstance(value, bool) or value is None or not whole or not isfinite(value):
                continue
            bound = (value // 1 + 1) if step > 0 else -((-value) // 1) - 1
            del node[name]
            pick = max if step > 0 else min
            node[closed] = pick(int(bound), node[closed]) if closed in node else int(bound)

    def values(self, node: dict[str, Any], place: Place) -> None:
        """`const` and `enum`: texts as an enum, integers as bounds, others as choices."""
        if "const" in node:
            only = node.pop("const")
            node["enum"] = [value for value in node.get("enum", [only]) if same(value, only)]
        values = node.get("enum")
        if not isinstance(values, list):
            return
        kinds = types_of(node) if "type" in node else None
        values = [
            value for value in values if kinds is None or kind_of(value) in _widen_kinds(kinds)
        ]
        if "" in values:
            self.losses.add("The empty text in an enum is no longer taken", place)
            values = [value for value in values if value != ""]
        del node["enum"]
        texts = [value for value in values if isinstance(value, str)]
        choices: list[dict[str, Any]] = [{"type": "string", "enum": texts}] if texts else []
        for item in values:
            match kind_of(item):
                case "integer":
                    whole = int(item)
                    choices.append({"type": "integer", "minimum": whole, "maximum": whole})
                case "null":
                    choices.append({"type": "null"})
                case "string":
                    pass
                case kind:
                    self.losses.add(f"The {kind} in an enum is no longer the only one", place)
                    choices.append({"type": kind})
        if len(choices) > _MOST_CHOICES or not choices:
            self.losses.add("An enum of other values than texts is dropped", place)
            return
        node.pop("type", None)
        if len(choices) == 1:
            for key, value in choices[0].items():
                pick = {"minimum": max, "maximum": min}.get(key)
                node[key] = pick(value, node[key]) if pick and key in node else value
        elif "anyOf" in node or "oneOf" in node:
            self.losses.add("An enum beside anyOf is dropped", place)
        else:
            node["anyOf"] = choices

    def choose(self, node: dict[str, Any], place: Place) -> None:
        """`oneOf` and lists of types as `anyOf`, the one word for a choice."""
        if "oneOf" in node:
            several = node.pop("oneOf")
            if "anyOf" in node:
                self.losses.add("oneOf beside anyOf is dropped", place)
            else:
                if not exclude_each_other(several):
                    self.losses.add("A value may fit several choices of what was oneOf", place)
                node["anyOf"] = list(several)
        kinds = node.get("type")
        if not isinstance(kinds, list):
            return
        real = [kind for kind in kinds if kind != "null"]
        if len(real) <= 1:
            node["type"] = real[0] if real else "null"
            if real and "null" in kinds:
                node["nullable"] = True
        elif "anyOf" in node:
            self.losses.add("A list of types beside anyOf is dropped", place)
            del node["type"]
        else:
            del node["type"]
            node["anyOf"] = [{"type": kind} for kind in kinds]

    def drop(self, node: dict[str, Any], place: Place) -> dict[str, Any]:
        dropped: dict[str, Any] = {}
        for key in list(node):
            if key in KNOWN and not (key == "items" and isinstance(node[key], list)):
                continue
            value = node.pop(key)
            if key in UNJUDGED or (value is True and key == "additionalProperties"):
                continue
            if key == "additionalProperties" and value is False:
                self.losses.add("Properties that are not named are no longer refused", place)
                continue
            if not key.startswith("x-"):
                self.losses.add(f"{key} is no longer checked", place)
                if not isinstance(value, Mapping | list):
                    dropped[key] = value
        return dropped

    def union(
        self, node: dict[str, Any], dropped: Mapping[str, Any], nullable: bool, place: Place
    ) -> dict[str, Any]:
        """Nothing stands beside an anyOf: what did goes into each choice."""
        nullable = bool(node.pop("nullable", False)) or nullable
        several = spread_any_of(node, self.losses, place)
        description = node.get("description")
        branches: list[dict[str, Any]] = []
        for index, branch in enumerate(several):
            choice = self.of(branch, (*place, "anyOf", index))
            branches += choice.get("anyOf", [choice])
        nullable = nullable or _NULL in branches
        branches = [add_to_description(branch, dropped) for branch in branches if branch != _NULL]
        if isinstance(description, str):
            branches = [
                {**branch, "description": branch.get("description", description)}
                for branch in branches
            ]
        if not branches:
            return dict(_NULL)
        if len(branches) == 1:
            return {**branches[0], "nullable": True} if nullable else branches[0]
        return {"anyOf": [*branches, dict(_NULL)] if nullable else branches}

    def inner(self, node: dict[str, Any], place: Place) -> None:
        """The items of arrays and the properties of objects; of no other type are there any."""
        raw = node.pop("properties", None)
        properties = dict(raw) if isinstance(raw, Mapping) else {}
        for name in node.get("required") or ():
            properties.setdefault(name, {})
        if "type" not in node and (properties or "items" in node):
            node["type"] = kind = "object" if properties else "array"
            self.losses.add(f"Nothing but an {kind} is taken", place)
        if node.get("type") == "array":
            node["items"] = self.of(node.get("items", {}), (*place, "items"))
        else:
            node.pop("items", None)
        if node.get("type") == "object":
            if raw is not None or properties:
                node["properties"] = {
                    name: self.of(prop, (*place, "properties", name))
                    for name, prop in properties.items()
                }
        else:
            node.pop("required", None)


def _widen_kinds(kinds: frozenset[str]) -> frozenset[str]:
    return kinds | {"integer"} if "number" in kinds else kinds
