"""Checks tools before they are sent: what each provider will refuse or ignore. Pure.

`findings` checks a single tool, `tool_group_findings` several in one request, `acceptance_matrix`
summarizes who accepts a tool. Providers' limits are in the tables of `NAME/limits.py`,
those of single vendors in `vendor_limits`; contradictions in a schema are found by
`schema/contradictions`. This module has the checks for what models mishandle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from math import ceil
from typing import Any

from playground.core.settings import PROTOCOLS
from playground.core.tools import FREEFORM, NO_PARAMETERS, Tool
from playground.protocols import Assessment, Verdict
from playground.protocols.facts import FACTS
from playground.protocols.gemini import limits as gemini
from playground.protocols.tool_limits import (
    Finding,
    Fix,
    Node,
    SentTool,
    Severity,
    nodes,
    place_phrase,
)
from playground.protocols.vendor_limits import protocol_of, tables_for
from playground.schema.contradictions import MOST_FOUND, Impossibility, contradictions, similar_name
from playground.schema.schema_checks import pointer

__all__ = [
    "Assessment",
    "Finding",
    "Fix",
    "Severity",
    "ToolAcceptance",
    "Verdict",
    "acceptance_matrix",
    "findings",
    "merge_by_protocol",
    "tool_group_findings",
    "weak_spots",
]

WORST: tuple[Severity, ...] = ("unsatisfiable", "refused", "ignored", "strict", "weak")
"""In the order of findings."""

ADVICE = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use"
VALIDATION = "https://json-schema.org/draft/2020-12/json-schema-validation"
FEW = (
    "https://platform.openai.com/docs/guides/function-calling#best-practices-for-defining-functions"
)

SHORTEST_DESCRIPTION = 15
DEEPEST = 5
MOST_ENUM = 50
MOST_PARAMETERS = 20
MOST_TOKENS = 2000
MOST_TOOLS = 20
MOST_NAMED = 8
_ALIKE = 0.9
_MOST_COMPARED = 200

_VAGUE = frozenset(
    (
        *("data", "do_it", "doit", "do", "thing", "things", "stuff", "tool", "function", "func"),
        *("call", "run", "execute", "process", "get", "set", "main", "test", "foo", "bar", "baz"),
        *("action", "misc", "query", "input", "output", "value", "args", "params", "object"),
        *("item", "info"),
    )
)
_NUMBERED = re.compile(r"[a-z]{1,4}_?\d+|.{1,2}")
_SEPARATORS = re.compile(r"[-_.]")
_LOOKS = str.maketrans({"1": "l", "I": "l", "i": "l", "0": "o", "O": "o", "5": "s"})

_OTHER_PROPERTIES = frozenset(("patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"))
"""Keywords that may define what `properties` does not."""

_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}

_LETTERS = 3.5


@dataclass(frozen=True)
class ToolAcceptance:
    """Whether a protocol accepts a tool: plain, in strict mode, forced, with images in results."""

    protocol: str
    plain: Assessment
    strict: Assessment
    forced: Assessment
    images: Assessment


def findings(
    tool: Tool,
    providers: Sequence[str] = PROTOCOLS,
    *,
    form: Mapping[str, Any] | None = None,
    form_protocol: str = "",
) -> list[Finding]:
    """What no call can satisfy, what is refused, ignored, or refused in strict mode, and the weak
    spots, worst first. `providers` are names of protocols and of profiles.

    `form` is the entry in a file of `form_protocol`: that protocol checks it as it is, the others
    check the tool as our encoder sends it.
    """
    result: list[Finding] = []
    for name in providers:
        if form is not None and protocol_of(name) == form_protocol:
            result += form_findings(tool, form, name)
        else:
            result += provider_findings(tool, name)
    result += weak_spots(tool)
    return sorted(dict.fromkeys(result), key=lambda finding: WORST.index(finding.severity))


def merge_by_protocol(all_findings: Sequence[Finding]) -> list[Finding]:
    """Merges equal findings of several protocols; `protocol` then names all, separated by commas;
    in the order of `all_findings`. For users who read them together."""
    protocols: dict[Finding, list[str]] = {}
    for finding in all_findings:
        protocols.setdefault(replace(finding, protocol=""), []).append(finding.protocol)
    return [replace(finding, protocol=", ".join(names)) for finding, names in protocols.items()]


def provider_findings(tool: Tool, name: str) -> list[Finding]:
    """The findings of one protocol or profile about the tool as our encoder sends it, without weak
    spots."""
    sent_tool = SentTool.from_tool(tool)
    return [finding for table in tables_for(name) for finding in table.findings(sent_tool)]


# The matrix "Accepted by": summarizes findings and a protocol's own limits in four columns.


def acceptance_matrix(tool: Tool) -> list[ToolAcceptance]:
    """A row for each protocol: the matrix "Accepted by"."""
    return [acceptance(protocol, tool) for protocol in PROTOCOLS]


def acceptance(protocol: str, tool: Tool) -> ToolAcceptance:
    """The row of one protocol. A tool that is refused plainly is refused in strict mode and when it
    is forced, too."""
    facts = FACTS[protocol]
    plain = _assess_plain(provider_findings(replace(tool, strict=False), protocol))
    if plain.verdict == "no":
        return ToolAcceptance(protocol, plain, plain, plain, facts.images)
    strict = facts.strict or _assess_strict(
        tool, provider_findings(replace(tool, strict=True), protocol)
    )
    return ToolAcceptance(protocol, plain, strict, facts.forced, facts.images)


def _assess_plain(all_findings: Sequence[Finding]) -> Assessment:
    """`all_findings` are those of the tool with strict mode off."""
    for finding in all_findings:
        if finding.severity == "refused":
            return Assessment("no", finding.message)
    for finding in all_findings:
        if finding.severity == "ignored":
            return Assessment("partly", finding.message)
    return Assessment("yes", "The request is accepted.")


def _assess_strict(tool: Tool, all_findings: Sequence[Finding]) -> Assessment:
    """`all_findings` are those of the tool with strict mode on; a rewrite makes it partly."""
    if tool.format is not None:
        return Assessment("no", "A free-form tool has no schema, so strict mode does not apply.")
    against = [finding for finding in all_findings if finding.severity == "refused"]
    if not against:
        return Assessment("yes", "Strict mode accepts the schema.")
    fixable = all(finding.fix for finding in against)
    return Assessment("partly" if fixable else "no", against[0].message)


# A tool in a file in a protocol's own form, checked as if that file were sent.


def form_findings(tool: Tool, form: Mapping[str, Any], provider: str) -> list[Finding]:
    """What a protocol or profile refuses or ignores of the entry `form`, which is in its protocol's
    form; pointers are into our own form.

    Without the member `strict` Responses makes a schema strict by itself.
    """
    protocol, tables = protocol_of(provider), tables_for(provider)
    members, freeform = form, tool.format is not None
    match protocol:
        case "anthropic":
            key, default = "input_schema", None
        case "gemini":
            members = gemini.camel_entry(form)
            if "parameters" in members:
                tables = (gemini.PLAIN, *tables[1:])
            key = "parameters" if "parameters" in members else "parametersJsonSchema"
            default = NO_PARAMETERS
        case "openai_chat":
            inner = form.get("custom", form.get("function", form))
            members = inner if isinstance(inner, Mapping) else {}
            key, default = "parameters", NO_PARAMETERS
        case _:
            key, default = "parameters", NO_PARAMETERS
    name, about = members.get("name"), members.get("description")
    schema = default if members.get(key) is None else members[key]
    sent_tool = SentTool(
        name if isinstance(name, str) else "",  # our own form may have a legalized name
        about if isinstance(about, str) else "",
        FREEFORM if freeform else schema,
        members.get("strict") is True,
        freeform,
        members=form,
    )
    return [finding for table in tables for finding in table.findings(sent_tool)]


def tool_group_findings(tools: Sequence[Tool], provider: str) -> list[Finding]:
    """The findings about `tools` together in one request of a protocol or profile, not on single
    tools."""
    protocol, sent_tools = protocol_of(provider), list(map(SentTool.from_tool, tools))
    result = [
        finding for table in tables_for(provider) for finding in table.group_findings(sent_tools)
    ]
    result += [replace(finding, protocol=protocol) for finding in tool_count_findings(tools)]
    return [
        *result,
        *(replace(finding, protocol=protocol) for finding in similar_tool_findings(tools)),
    ]


# Finds what models mishandle in a tool or a set of tools, with any provider. Advice only.


def weak_spots(tool: Tool) -> list[Finding]:
    """What no call can satisfy, and the weak spots of one tool."""
    result = [*_name_findings(tool), *_description_findings(tool)]
    if tool.format is None:
        result += [*_parameter_findings(nodes(tool.parameters)), *_contradictions(tool.parameters)]
    tokens = estimate_tokens(tool, "openai_chat")
    if tokens > MOST_TOKENS:
        message = (
            f"This tool adds about {tokens:,} tokens to every request. Models follow shorter "
            "tools better."
        )
        result.append(_weak_spot(message, "", FEW))
    return result


def _weak_spot(message: str, where: str, source: str = ADVICE) -> Finding:
    return Finding("weak", message, where, source=source, inferred=True)


def _name_findings(tool: Tool) -> Iterator[Finding]:
    name = tool.name.lower()
    if name in _VAGUE or _NUMBERED.fullmatch(name):
        message = (
            f"The name {tool.name!r} says little. Name what the tool does, such as get_weather."
        )
        yield _weak_spot(message, "/name")


def _description_findings(tool: Tool) -> Iterator[Finding]:
    text = tool.description.strip()
    if not text:
        yield _weak_spot(
            "The tool has no description: say what it does and when to call it.", "/description"
        )
    elif len(text) < SHORTEST_DESCRIPTION or text.lower() == tool.name.lower().replace("_", " "):
        yield _weak_spot(
            "The description says little. Say when to call the tool and what it returns.",
            "/description",
        )


def _parameter_findings(all_nodes: Sequence[Node]) -> list[Finding]:
    result: list[Finding] = []
    if bare := _undescribed_properties(all_nodes):
        single = f"The parameter {bare[0][0][:60]!r} has no description."
        several = f"{len(bare)} parameters have no description: {_list_names(bare)}."
        result.append(_weak_spot(several if len(bare) > 1 else single, bare[0][1]))
    if mixed := [(place_phrase(node.place), _where(node)) for node in all_nodes if _is_union(node)]:
        places = "" if len(mixed) == 1 else f", and at {len(mixed) - 1} more places"
        message = f"Several kinds of value are possible{mixed[0][0]}{places}: models confuse them. "
        result.append(_weak_spot(message + "Use one kind, or one tool for each.", mixed[0][1]))
    root = all_nodes[0]
    if len(root.properties) > MOST_PARAMETERS:
        message = f"The tool has {len(root.properties)} parameters. Models often "
        result.append(
            _weak_spot(message + f"confuse more than {MOST_PARAMETERS}.", "/parameters/properties")
        )
    for node in all_nodes:
        result += _node_findings(node)
    if all_nodes[-1].depth > DEEPEST:
        deepest = max(all_nodes, key=lambda node: node.depth)
        message = (
            f"The schema is nested {deepest.depth} levels deep{place_phrase(deepest.place)}: "
            "models make more mistakes below five. Flatten it."
        )
        result.append(_weak_spot(message, _where(deepest)))
    return result


def _undescribed_properties(all_nodes: Sequence[Node]) -> list[tuple[str, str]]:
    """Names and pointers of properties without a description; a target of a `$ref` has its own."""
    result = []
    for node in all_nodes:
        for name, prop in node.properties.items():
            if isinstance(prop, dict) and not prop.keys() & {"description", "$ref", "const"}:
                result.append((name, _where(node) + pointer(("properties", name))))
    return result


def _list_names(several: Sequence[tuple[str, str]]) -> str:
    names = ", ".join(repr(name[:60]) for name, _ in several[:MOST_NAMED])
    more = len(several) - MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names


def _node_findings(node: Node) -> Iterator[Finding]:
    enum = node.keys.get("enum")
    if isinstance(enum, list) and len(enum) > MOST_ENUM:
        message = (
            f"The enum{place_phrase(node.place)} has {len(enum)} values: for more than "
            f"{MOST_ENUM}, a text with a check in the tool works better."
        )
        yield _weak_spot(message, _where(node))
    yield from _mismatches(node)


def _contradictions(schema: Mapping[str, Any]) -> Iterator[Finding]:
    """What no call, or no value of a part of the schema, can satisfy."""
    for each in contradictions(schema):
        reason = each.reason
        clause = reason.clause[:1].upper() + reason.clause[1:]
        severity: Severity = "unsatisfiable" if each.whole else "weak"
        place = (
            " there" if each.where and reason.place[:-1] == each.where else place_phrase(each.where)
        )
        if each.whole:
            message = f"No call can be valid: {reason.sentence}"
        elif each.kind:
            article = "an" if each.kind[0] in "aio" else "a"
            message = f"{clause}: {article} {each.kind} cannot be valid{place}"
        else:
            message = f"{clause}: no value can be valid{place}"
        advice = f" {_advise(reason)}" if reason.missing else ""
        fix: Fix = "rename" if reason.similar else ""
        where = "/parameters" + pointer(reason.place)
        yield Finding(severity, f"{message}.{advice}", where, source=VALIDATION, fix=fix)


def _advise(reason: Impossibility) -> str:
    """What to do about a required name that is not defined."""
    return f"Did you mean {reason.similar!r}?" if reason.similar else "Define or rename it."


def _mismatches(node: Node) -> Iterator[Finding]:
    """Required names without a definition, and values of an enum that its type excludes."""
    if (
        not node.keys.keys() & _OTHER_PROPERTIES
        and node.keys.get("additionalProperties") is not False
    ):
        for number, name in enumerate(sorted(node.required - node.properties.keys())):
            similar = similar_name(name, node.keys) if number < MOST_FOUND else ""
            advice = f"did you mean {similar!r}?" if similar else "define it, or correct its name."
            required = f"{name[:60]!r} is required{place_phrase(node.place)}"
            message = f"{required} but is not in `properties`: {advice}"
            where = _where(node) + "/required"
            yield replace(_weak_spot(message, where), fix="rename" if similar else "")
    types = [kind for kind in node.types if isinstance(kind, str)]
    if node.enum and types and all(kind in _JSON_TYPES for kind in types):
        wrong = [value for value in node.enum if not any(_is_of(value, kind) for kind in types)]
        left = len(node.enum) - len(wrong)
        if wrong and left:  # without any it is a contradiction
            examples = ", ".join(json.dumps(value, ensure_ascii=False)[:40] for value in wrong[:3])
            yield _weak_spot(
                f"Only {left} of the values of the enum{place_phrase(node.place)} can be used: "
                f"{examples} "
                f"{'is' if len(wrong) == 1 else 'are'} not of type {' or '.join(types)}.",
                _where(node) + "/enum",
            )


def _is_of(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _JSON_TYPES[kind])


def _is_union(node: Node) -> bool:
    """Choices between different kinds, apart from null."""
    for keyword in ("anyOf", "oneOf"):
        several = node.keys.get(keyword)
        if isinstance(several, list):
            real = [branch for branch in several if branch != {"type": "null"}]
            return len(real) > 1
    return len([kind for kind in node.types if kind != "null"]) > 1


def _where(node: Node) -> str:
    return "/parameters" + pointer(node.place)


# Combinations of tools.


def similar_tool_findings(tools: Sequence[Tool]) -> Iterator[Finding]:
    """Pairs of tools that a model may confuse."""
    some = tools[:_MOST_COMPARED]
    for index, first in enumerate(some):
        for second in some[index + 1 :]:
            if first.name == second.name:
                continue
            if _lookalike_key(first.name) == _lookalike_key(second.name):
                message = (
                    f"{first.name!r} and {second.name!r} are similar. Give one a different name."
                )
                yield _weak_spot(message, "/name")
            elif _is_alike(first.description, second.description):
                message = (
                    f"{first.name!r} and {second.name!r} have similar descriptions. Say when to "
                    "call which."
                )
                yield _weak_spot(message, "/description")


def _lookalike_key(name: str) -> str:
    return _SEPARATORS.sub("", name).translate(_LOOKS).lower()


def _is_alike(first: str, second: str) -> bool:
    if not first.strip() or not second.strip():
        return False
    if first == second:
        return True
    match = SequenceMatcher(None, first[:500].lower(), second[:500].lower(), autojunk=False)
    return (
        match.real_quick_ratio() > _ALIKE
        and match.quick_ratio() > _ALIKE
        and (match.ratio() > _ALIKE)
    )


def tool_count_findings(tools: Sequence[Tool]) -> Iterator[Finding]:
    """More tools than a model chooses from well."""
    if len(tools) > MOST_TOOLS:
        tokens = sum(estimate_tokens(tool, "openai_chat") for tool in tools)
        message = (
            f"There are {len(tools)} tools, about {tokens:,} tokens: with more than {MOST_TOOLS}, "
        )
        yield _weak_spot(message + "models choose less well. Allow fewer at a time.", "", FEW)


# Estimates how many tokens a tool takes in every request, without a tokenizer.


def estimate_tokens(tool: Tool, protocol: str) -> int:
    """Tokens of name, description and schema as `protocol` sends them: compact JSON at 3.5
    characters per token, plus the provider's fixed overhead. Accurate to about a third."""
    parts = [tool.name, tool.description, tool.format or tool.parameters]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return ceil(len(text) / _LETTERS) + FACTS[protocol].tool_tokens
