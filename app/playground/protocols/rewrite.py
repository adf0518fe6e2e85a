"""Rewrites a schema: for strict mode, for Gemini, without `$ref`, or with names corrected. Pure.

Lists what cannot be preserved; never raises, and the work is bounded by the limits of
`schema_checks` and `rewrite_parts`. Input and output both pass `schema_checks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from playground.core.settings import PROTOCOLS
from playground.protocols.anthropic import limits as anthropic
from playground.protocols.facts import FACTS
from playground.protocols.gemini.limits import FORMATS, KNOWN, PLAIN, has_too_many_items
from playground.protocols.openai_chat import limits as openai
from playground.protocols.rewrite_parts import (
    ANNOTATIONS,
    MOST_NODES,
    UNJUDGED,
    Losses,
    SchemaTooLarge,
    add_to_description,
    branches_of,
    exclude_each_other,
    inline,
    is_equal,
    kind_of,
    merge_all_of,
    spread_any_of,
    types_of,
    without_items,
    without_patterns,
)
from playground.protocols.tool_limits import Fix, SentTool, refused_keywords
from playground.schema import schema_checks
from playground.schema.contradictions import MOST_FOUND, similar_name
from playground.schema.schema_checks import Place, all_subschemas, pointer

STRICT_PROTOCOLS = tuple(name for name in PROTOCOLS if FACTS[name].strict is None)
_UNCHANGED = "Nothing was changed"

_FOLDED = ("allOf", "oneOf")
"""Keywords that are preserved in another form."""

_ANYTHING = ("string", "number", "boolean", "null")
_ROOT_ONLY = ("anyOf", "oneOf", "enum", "const")
_DEFINITIONS = ("$defs", "definitions")

_NULL = {"type": "null"}
_MOST_CHOICES = 20


@dataclass(frozen=True)
class Rewrite:
    """`lost` are sentences about meaning that was lost; () if both schemas accept the same values,
    treating null as absent. `nullable` are the pointers of properties that were optional: null now
    means absent there. `refused` are lint's sentences about what no rewrite can fix."""

    parameters: Mapping[str, Any]
    lost: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def apply_rewrite(
    fix: Fix, schema: Mapping[str, Any], protocols: Sequence[str] = PROTOCOLS
) -> Rewrite:
    """`schema` rewritten by `fix` for `protocols`."""
    match fix:
        case "inline":
            return inline_refs(schema)
        case "gemini":
            return rewrite_for_gemini(schema)
        case "drop":
            return rewrite_without_refused(schema, protocols)
        case "rename":
            return with_similar_names(schema)
    strict = [name for name in protocols if name in STRICT_PROTOCOLS]
    return rewrite_for_strict(schema, strict[0] if len(strict) == 1 else "")


def rewrite_for_strict(schema: Mapping[str, Any], protocol: str = "") -> Rewrite:
    """`schema` rewritten for the strict mode of `protocol`; "" means all that have one.

    Meaning that no keyword can express is moved to the description for the model.
    """
    losses = Losses()
    strict = StrictRewriter((protocol,) if protocol else STRICT_PROTOCOLS, losses)
    result = strict.rewrite_root(schema)
    return _rewrite(schema, result, losses, tuple(sorted(map(pointer, strict.nullable))))


def rewrite_for_gemini(schema: Mapping[str, Any]) -> Rewrite:
    """`schema` in Gemini's own `parameters` form: `nullable` instead of a type null."""
    losses = Losses()
    try:
        result = GeminiRewriter(losses).rewrite_root(schema)
    except SchemaTooLarge:
        return _unchanged_too_large(schema)
    return _rewrite(schema, result, losses)


def rewrite_without_refused(
    schema: Mapping[str, Any], protocols: Sequence[str] = PROTOCOLS
) -> Rewrite:
    """`schema` without the patterns that OpenAI cannot compile and, if its lists are too long for
    Gemini, without maxItems; only for `protocols`. Both are moved to descriptions."""
    losses = Losses()
    result: Mapping[str, Any] = schema
    if not {"openai_chat", "openai_responses"}.isdisjoint(protocols):
        result = without_patterns(result, losses)
    if "gemini" in protocols and has_too_many_items(result):
        result = without_items(result, losses)
    return _rewrite(schema, result, losses)


def with_similar_names(schema: Mapping[str, Any]) -> Rewrite:
    """`schema` with the names in `required` that are no property replaced by the similar property
    that was probably meant."""
    return _rewrite(schema, _rename_required(schema), Losses())


def _rename_required(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_rename_required(inner) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    result = {key: _rename_required(value) for key, value in schema.items()}
    names, properties = schema.get("required"), schema.get("properties")
    if isinstance(names, list) and isinstance(properties, Mapping):
        result["required"] = renamed = list(names)
        missing = [
            (index, name)
            for index, name in enumerate(names)
            if isinstance(name, str) and name not in properties
        ]
        for index, name in missing[:MOST_FOUND]:
            rest = {**schema, "required": renamed}
            renamed[index] = similar_name(name, rest) or name
    return result


def inline_refs(schema: Mapping[str, Any]) -> Rewrite:
    """`schema` with every `$ref` replaced by its target, except recursive ones."""
    losses = Losses()
    try:
        result = inline(schema, losses)
    except SchemaTooLarge:
        return _unchanged_too_large(schema)
    return _rewrite(schema, result, losses)


def _unchanged_too_large(schema: Mapping[str, Any]) -> Rewrite:
    sentence = f"{_UNCHANGED}: with its references expanded, the schema has more than "
    return Rewrite(schema, (f"{sentence}{MOST_NODES:,} values.",))


def _rewrite(
    schema: Mapping[str, Any],
    result: Mapping[str, Any],
    losses: Losses,
    nullable: tuple[str, ...] = (),
) -> Rewrite:
    wrong = schema_checks.fault(result)
    if wrong is not None:
        return Rewrite(schema, (f"{_UNCHANGED}: {wrong[0]}",))
    return Rewrite(result, losses.sentences(), nullable, tuple(dict.fromkeys(losses.refused)))


# Strict mode requires closed objects with all properties required, and few keywords.


class StrictRewriter:
    """A rewrite for those of `protocols` that have a strict mode."""

    def __init__(self, protocols: tuple[str, ...], losses: Losses) -> None:
        self.losses = losses
        self.anthropic = "anthropic" in protocols
        self.openai = bool({"openai_chat", "openai_responses"} & set(protocols))
        self.nullable: list[Place] = []
        formats = set(anthropic.FORMATS) & set(openai.FORMATS)
        self.formats = formats if self.openai else set(anthropic.FORMATS)
        words = refused_keywords(openai.LIMITS)
        words += refused_keywords(anthropic.LIMITS) if self.anthropic else ()
        self.words = tuple(dict.fromkeys(("additionalItems", *words)))

    def rewrite_root(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        root = dict(schema)
        if _has_ref_beside(root):
            try:
                root = inline(root, self.losses)
            except SchemaTooLarge:
                self.losses.add("The schema is too large when its references are expanded", ())
        root = self.merge_branches(root, ())
        for key in _ROOT_ONLY:
            if key in root:
                self.losses.add(f"{key} at the top level is dropped", ())
                del root[key]
        definitions = {key: root[key] for key in _DEFINITIONS if isinstance(root.get(key), Mapping)}
        result = self.rewrite_node({**root, "type": "object"}, ())
        for key, schemas in definitions.items():
            result[key] = {
                name: self.rewrite_node(inner, (key, name)) for name, inner in schemas.items()
            }
        self.collect_refusals(result)
        return result

    def collect_refusals(self, schema: Mapping[str, Any]) -> None:
        """What no rewrite can fix, by lint's own rules."""
        tool = SentTool("x", "", schema, strict=True)
        findings = anthropic.LIMITS.findings(tool) if self.anthropic else []
        findings += openai.LIMITS.findings(tool) if self.openai else []
        for finding in findings:
            if finding.severity == "refused":
                self.losses.refused.append(finding.message)

    def rewrite_node(self, schema: Any, place: Place) -> dict[str, Any]:
        if schema is False:
            self.losses.add("A schema that accepts no value is no longer enforced", place)
        if not isinstance(schema, Mapping):
            return self.accept_simple_types({}, place)
        node = self.merge_branches(
            {k: v for k, v in schema.items() if k not in _DEFINITIONS}, place
        )
        if "$ref" in node:
            beside = sorted(node.keys() - {"$ref", *ANNOTATIONS})
            if beside:
                self.losses.add(f"{', '.join(beside)} next to $ref is no longer checked", place)
            return {"$ref": node["$ref"]}
        dropped = self.drop(node, place)
        self.choices(node, place)
        if "anyOf" not in node:
            node = self.add_type(node, place)
        kinds = types_of(node) if "type" in node else frozenset()
        if "object" in kinds:
            self.close(node, place)
        if "array" in kinds:
            node["items"] = self.rewrite_node(node.get("items", {}), (*place, "items"))
        return add_to_description(node, dropped)

    def merge_branches(self, schema: Mapping[str, Any], place: Place) -> dict[str, Any]:
        node, complete = merge_all_of(schema)
        if not complete:
            self.losses.add("allOf is dropped where its parts cannot be merged", place)
        return node

    def drop(self, node: dict[str, Any], place: Place) -> dict[str, Any]:
        """Removes what strict mode refuses; the description says it instead."""
        dropped: dict[str, Any] = {}
        words = (*self.words, "items") if isinstance(node.get("items"), list) else self.words
        for key in words:
            if key in node and key not in _FOLDED:
                value = node.pop(key)
                if key == "uniqueItems" and value is False:
                    continue
                if key == "minLength" and value == 0:
                    continue
                self.losses.add(f"{key} is no longer checked", place)
                if not isinstance(value, Mapping | list):
                    dropped[key] = value
        if self.anthropic and node.get("minItems", 0) not in (0, 1):
            dropped["minItems"] = node.pop("minItems")
            self.losses.add("minItems is no longer checked", place)
        if "format" in node and node["format"] not in self.formats:
            dropped["format"] = node.pop("format")
            self.losses.add("format is no longer checked", place)
        if not self.keeps_pattern(str(node.get("pattern", ""))):
            dropped["pattern"] = node.pop("pattern")
            self.losses.add("pattern is no longer checked", place)
        return dropped

    def keeps_pattern(self, pattern: str) -> bool:
        if self.anthropic and anthropic.is_uncompiled(pattern):
            return False
        return not self.openai or openai.takes_pattern(pattern)

    def choices(self, node: dict[str, Any], place: Place) -> None:
        """`oneOf` becomes `anyOf`, which is equivalent if the choices exclude each other."""
        if "oneOf" in node:
            several = list(branches_of(node, "oneOf"))
            del node["oneOf"]
            if "anyOf" in node:
                self.losses.add("oneOf next to anyOf is dropped", place)
            else:
                if not exclude_each_other(several):
                    self.losses.add("A value may match several choices of the former oneOf", place)
                node["anyOf"] = several
        if "anyOf" not in node:
            return
        several = spread_any_of(node, self.losses, place)
        node["anyOf"] = [
            self.rewrite_node(branch, (*place, "anyOf", index))
            for index, branch in enumerate(several)
        ]

    def add_type(self, node: dict[str, Any], place: Place) -> dict[str, Any]:
        """`node` with a type: that of its values, of its keywords, or all simple ones."""
        if "type" in node:
            return node
        if "const" in node:
            return {"type": kind_of(node["const"]), **node}
        values = node.get("enum")
        if isinstance(values, list) and values:
            kinds = list(dict.fromkeys(map(kind_of, values)))
            return {"type": kinds[0] if len(kinds) == 1 else kinds, **node}
        for key, kind in (("properties", "object"), ("required", "object"), ("items", "array")):
            if key in node:
                self.losses.add(f"Only {'an ' + kind} is accepted", place)
                return {"type": kind, **node}
        return self.accept_simple_types(node, place)

    def accept_simple_types(self, node: Mapping[str, Any], place: Place) -> dict[str, Any]:
        self.losses.add("Lists and objects are no longer accepted", place)
        return {"type": list(_ANYTHING), **node}

    def close(self, node: dict[str, Any], place: Place) -> None:
        """Requires all properties, with null for optional ones, and permits no others."""
        value = node.get("properties")
        properties = dict(value) if isinstance(value, Mapping) else {}
        required = dict.fromkeys(
            name for name in node.get("required") or () if isinstance(name, str)
        )
        for name in required:
            if name not in properties:
                self.losses.add(f"{name!r} is required but was not described", place)
                properties[name] = {}
        if node.get("additionalProperties") is not False:
            self.losses.add("Unnamed properties are no longer accepted", place)
        members: dict[str, Any] = {}
        for name, prop in properties.items():
            below = (*place, "properties", name)
            if prop is False and name not in required:
                continue  # closed: it cannot be given
            members[name] = self.rewrite_node(prop, below)
            if name not in required and not takes_null(members[name]):
                members[name] = make_nullable(members[name])
                self.nullable.append(below)
            elif name not in required:
                self.nullable.append(below)
        node["properties"], node["required"] = members, list(members)
        node["additionalProperties"] = False


def takes_null(schema: Mapping[str, Any]) -> bool:
    """Whether a schema made here accepts null; a `$ref` is not followed and counts as no."""
    if "$ref" in schema or ("type" in schema and "null" not in types_of(schema)):
        return False
    if "anyOf" in schema and not any(map(takes_null, branches_of(schema, "anyOf"))):
        return False
    return schema.get("const") is None and None in schema.get("enum", (None,))


def make_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` or null."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    result = dict(schema)
    kinds = result["type"] if isinstance(result["type"], list) else [result["type"]]
    result["type"] = [*kinds, *(() if "null" in kinds else ("null",))]
    if "const" in result:
        only = result.pop("const")
        result["enum"] = [value for value in result.get("enum", [only]) if is_equal(value, only)]
    if "enum" in result:
        result["enum"] = [*(value for value in result["enum"] if value is not None), None]
    return result


def _has_ref_beside(schema: Mapping[str, Any]) -> bool:
    """A `$ref` with a neighbour, or within allOf."""
    for _, node in all_subschemas(schema):
        if isinstance(node, Mapping) and "$ref" in node and len(node) > 1:
            return True
        if any(isinstance(each, Mapping) and "$ref" in each for each in branches_of(node, "allOf")):
            return True
    return False


# Gemini's own `parameters`, a subset of OpenAPI's schemas: no refs, one type each, strings in
# enums, no other member next to an anyOf.


class GeminiRewriter:
    """One rewrite; `losses` are what could not be expressed."""

    def __init__(self, losses: Losses) -> None:
        self.losses = losses

    def rewrite_root(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        root = self.merge_branches(inline(schema, self.losses, cut=True), ())
        for key in ("anyOf", "oneOf", "enum", "const"):
            if key in root:
                self.losses.add(f"{key} at the top level is dropped", ())
                del root[key]
        result = self.rewrite_node({**root, "type": "object"}, ())
        if has_too_many_items(result):
            result = without_items(result, self.losses)
        for finding in PLAIN.findings(SentTool("x", "", result)):
            if finding.severity == "refused":
                self.losses.refused.append(finding.message)
        return result

    def rewrite_node(self, schema: Any, place: Place) -> dict[str, Any]:
        if not isinstance(schema, Mapping):
            if schema is not True:
                self.losses.add("A schema that accepts no value is no longer enforced", place)
            return {}
        node = self.merge_branches(schema, place)
        nullable = bool(node.pop("nullable", False))
        self.bounds(node, place)
        self.values(node, place)
        self.choose(node, place)
        dropped = self.drop(node, place)
        if "anyOf" in node:
            return self.union(node, dropped, nullable, place)
        if nullable:
            node["nullable"] = True
        self.rewrite_children(node, place)
        self.format(node, dropped, place)
        return add_to_description(node, dropped)

    def format(self, node: dict[str, Any], dropped: dict[str, Any], place: Place) -> None:
        """Moves a format that its type does not support to the description."""
        form = node.get("format")
        formats = FORMATS.get(str(node.get("type")), ())
        if form is None or (form in formats and (form != "enum" or node.get("enum"))):
            return
        dropped["format"] = node.pop("format")
        self.losses.add("format is no longer checked", place)

    def merge_branches(self, schema: Mapping[str, Any], place: Place) -> dict[str, Any]:
        node, complete = merge_all_of(schema)
        if not complete:
            self.losses.add("allOf is dropped where its parts cannot be merged", place)
        return node

    def bounds(self, node: dict[str, Any], place: Place) -> None:
        """An exclusive bound of an integer becomes the adjacent inclusive one."""
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
        """`const` and `enum`: strings as an enum, integers as bounds, others as choices."""
        if "const" in node:
            only = node.pop("const")
            node["enum"] = [value for value in node.get("enum", [only]) if is_equal(value, only)]
        values = node.get("enum")
        if not isinstance(values, list):
            return
        kinds = types_of(node) if "type" in node else None
        values = [
            value for value in values if kinds is None or kind_of(value) in _widen_kinds(kinds)
        ]
        if "" in values:
            self.losses.add("The empty text in an enum is no longer accepted", place)
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
            self.losses.add("An enum with values other than texts is dropped", place)
            return
        node.pop("type", None)
        if len(choices) == 1:
            for key, value in choices[0].items():
                pick = {"minimum": max, "maximum": min}.get(key)
                node[key] = pick(value, node[key]) if pick and key in node else value
        elif "anyOf" in node or "oneOf" in node:
            self.losses.add("An enum next to anyOf is dropped", place)
        else:
            node["anyOf"] = choices

    def choose(self, node: dict[str, Any], place: Place) -> None:
        """`oneOf` and lists of types as `anyOf`, the only keyword for a choice."""
        if "oneOf" in node:
            several = node.pop("oneOf")
            if "anyOf" in node:
                self.losses.add("oneOf next to anyOf is dropped", place)
            else:
                if not exclude_each_other(several):
                    self.losses.add("A value may match several choices of the former oneOf", place)
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
            self.losses.add("A list of types next to anyOf is dropped", place)
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
                self.losses.add("Unnamed properties are no longer refused", place)
                continue
            if not key.startswith("x-"):
                self.losses.add(f"{key} is no longer checked", place)
                if not isinstance(value, Mapping | list):
                    dropped[key] = value
        return dropped

    def union(
        self, node: dict[str, Any], dropped: Mapping[str, Any], nullable: bool, place: Place
    ) -> dict[str, Any]:
        """Moves the members next to an anyOf into each of its choices: none are allowed next to
        it."""
        nullable = bool(node.pop("nullable", False)) or nullable
        several = spread_any_of(node, self.losses, place)
        description = node.get("description")
        branches: list[dict[str, Any]] = []
        for index, branch in enumerate(several):
            choice = self.rewrite_node(branch, (*place, "anyOf", index))
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

    def rewrite_children(self, node: dict[str, Any], place: Place) -> None:
        """Rewrites the items of arrays and the properties of objects; other types have none."""
        raw = node.pop("properties", None)
        properties = dict(raw) if isinstance(raw, Mapping) else {}
        for name in node.get("required") or ():
            properties.setdefault(name, {})
        if "type" not in node and (properties or "items" in node):
            node["type"] = kind = "object" if properties else "array"
            self.losses.add(f"Only an {kind} is accepted", place)
        if node.get("type") == "array":
            node["items"] = self.rewrite_node(node.get("items", {}), (*place, "items"))
        else:
            node.pop("items", None)
        if node.get("type") == "object":
            if raw is not None or properties:
                node["properties"] = {
                    name: self.rewrite_node(prop, (*place, "properties", name))
                    for name, prop in properties.items()
                }
        else:
            node.pop("required", None)


def _widen_kinds(kinds: frozenset[str]) -> frozenset[str]:
    return kinds | {"integer"} if "number" in kinds else kinds
