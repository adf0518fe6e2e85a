"""What the runs of a batch called: which tool instead of which, with what, and by which way.

Confusion      expected tool x called tool
ArgumentUse    the values that a parameter was given
Ways           the usual order of calls of a model or variant, and what it does otherwise
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.core.tools import Tool
from app.evaluation.results import RunResult
from app.evaluation.spec import Case, Expectation, Spec

NO_TOOL = "(none)"
"""In a confusion matrix: no tool was expected, or none called. No tool can be called so."""
MOST_VALUES = 6
MOST_DEVIATIONS = 5
LONGEST_VALUE = 60

Confusion = Mapping[str, Mapping[str, int]]
"""By expected tool and called tool the number of runs. An expected tool that was called counts in
its own column alone; one that was not counts for each tool that was called without being expected,
or for none."""


@dataclass(frozen=True)
class ValueUse:
    """A value as JSON text (cut), how often it was given, and what is wrong with it, or ""."""

    value: str
    count: int
    problem: str = ""


@dataclass(frozen=True)
class ArgumentUse:
    """A parameter of a tool over all its calls: `calls` of the tool, how many `given` it, its
    values, the most frequent and the wrong ones first, and how many further values there were.
    `form` is its type in the schema, or "enum"."""

    tool: str
    name: str
    form: str
    calls: int
    given: int
    values: tuple[ValueUse, ...]
    further: int
    required: bool


@dataclass(frozen=True)
class Ways:
    """Of the runs of one model and variant: the `usual` tools in their order and how many `runs`
    of `of` called these, and sentences on what was otherwise than in the runs of the same case
    that passed."""

    model: str
    variant: str
    usual: tuple[str, ...]
    runs: int
    of: int
    deviations: tuple[str, ...]


# Which tool instead of which ----------------------------------------------------------------------


def expected_tools(case: Case) -> tuple[str, ...]:
    """The tools that a case wants to be called; NO_TOOL alone where it wants none, nothing where it
    says nothing of it."""
    if any(_wants_none(expectation) for expectation in case.expect):
        return (NO_TOOL,)
    names: dict[str, None] = {}
    for expectation in case.expect:
        match expectation.kind:
            case "called" | "first":
                names[expectation.value] = None
            case "order":
                names.update(dict.fromkeys(expectation.value))
            case "count" if expectation.of:
                names[expectation.of] = None
    return tuple(names)


def _wants_none(expectation: Expectation) -> bool:
    if expectation.kind == "no_call":
        return True
    return expectation.kind == "count" and not expectation.value and not expectation.of


def confusion(spec: Spec, results: Iterable[RunResult]) -> dict[str, Counter[str]]:
    """The matrix of runs that count; see `Confusion`."""
    expected = {case.id: expected_tools(case) for case in spec.cases}
    matrix: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        wanted = expected[result.key.case]
        called = {call.name for call in result.calls} or {NO_TOOL}
        others = called.difference(wanted) or {NO_TOOL}
        for tool in wanted:
            matrix[tool].update((tool,) if tool in called else others)
    return dict(matrix)


def add_up(matrices: Iterable[Confusion]) -> dict[str, Counter[str]]:
    """One matrix of several."""
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for matrix in matrices:
        for tool, row in matrix.items():
            total[tool].update(row)
    return dict(total)


# With what ----------------------------------------------------------------------------------------


def tools_of(spec: Spec) -> dict[str, Tool]:
    """The definitions in a SPEC by name, the first of each; words are not looked up here."""
    sets = [
        spec.tools,
        *(variant.tools or () for variant in spec.variants),
        *(case.tools or () for case in spec.cases),
    ]
    tools: dict[str, Tool] = {}
    for entry in (entry for entries in sets for entry in entries):
        if isinstance(entry, Tool):
            tools.setdefault(entry.name, entry)
    return tools


def argument_uses(
    tools: Mapping[str, Tool], results: Iterable[RunResult]
) -> tuple[ArgumentUse, ...]:
    """Of each parameter of the tools that were called, in the order of the schema; parameters that
    no schema knows come last."""
    raw = Counter((call.name, call.arguments) for result in results for call in result.calls)
    calls: Counter[str] = Counter()
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    values: dict[str, Any] = {}
    for (tool, text), times in raw.items():
        arguments = parsed(text)
        if arguments is None:
            continue
        calls[tool] += times
        for name, value in arguments.items():
            written = json.dumps(value, ensure_ascii=False)
            values[written] = value
            counts[tool][name][written] += times
    uses = []
    for tool in sorted(calls):
        schemas, required = _parameters(tools.get(tool))
        for name in (*schemas, *(name for name in counts[tool] if name not in schemas)):
            schema, each = schemas.get(name), counts[tool][name]
            given = [
                ValueUse(_cut(written), count, value_problem(schema, values[written]))
                for written, count in each.most_common()
            ]
            form = "enum" if enum_of(schema) else _form(schema)
            sums = (calls[tool], sum(each.values()))
            further = max(0, len(given) - MOST_VALUES)
            shown = _shown(given)
            uses.append(ArgumentUse(tool, name, form, *sums, shown, further, name in required))
    return tuple(uses)


def _shown(values: list[ValueUse]) -> tuple[ValueUse, ...]:
    """As many as there is room for: wrong ones before the others, but behind them in the list."""
    first = sorted(values, key=lambda use: not use.problem)[:MOST_VALUES]
    return tuple(sorted(first, key=lambda use: (bool(use.problem), -use.count)))


@lru_cache(maxsize=4096)
def parsed(text: str) -> Mapping[str, Any] | None:
    """Arguments that are a JSON object, or None. What fails to be one is among the failures."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parameters(tool: Tool | None) -> tuple[Mapping[str, Any], Sequence[str]]:
    if tool is None:
        return {}, ()
    schemas, required = tool.parameters.get("properties"), tool.parameters.get("required")
    return (
        schemas if isinstance(schemas, Mapping) else {},
        required if isinstance(required, list | tuple) else (),
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def enum_of(schema: Any) -> Sequence[Any]:
    """The values of a parameter that has some; () for none."""
    options = schema.get("enum") if isinstance(schema, Mapping) else None
    return options if isinstance(options, list | tuple) else ()


def _form(schema: Any) -> str:
    form = schema.get("type") if isinstance(schema, Mapping) else None
    match form:
        case str():
            return form
        case list() | tuple():
            return " or ".join(str(each) for each in form)
    return ""


_FORMS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def value_problem(schema: Any, value: Any) -> str:
    """What a look at the parameter's own schema shows: `not in enum`, `string, not number`; "" for
    nothing. The whole schema is checked elsewhere."""
    if not isinstance(schema, Mapping):
        return ""
    form = schema.get("type")
    forms = [form] if isinstance(form, str) else list(form or ())
    if forms and not any(_is(value, each) for each in forms):
        own = next(name for name in _FORMS if _is(value, name))
        return f"{own}, not {' or '.join(map(str, forms))}"
    options = enum_of(schema)
    return "not in enum" if options and value not in options else ""


def _is(value: Any, form: Any) -> bool:
    types = _FORMS.get(form)
    if types is None:
        return True
    if isinstance(value, bool):
        return bool in types
    whole = form == "integer" and isinstance(value, float) and value.is_integer()
    return whole or isinstance(value, types)


# By which way -------------------------------------------------------------------------------------


def ways(spec: Spec, groups: Mapping[tuple[str, str], Sequence[RunResult]]) -> tuple[Ways, ...]:
    """Of each (model, variant); the runs that passed, of whatever group, say what a case takes."""
    passed: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for results in groups.values():
        for result in results:
            if result.outcome == "passed":
                passed[result.key.case][_way(result)] += 1
    right = {case: counts.most_common(1)[0][0] for case, counts in passed.items()}
    return tuple(
        _ways_of(model, variant, results, right) for (model, variant), results in groups.items()
    )


def _way(result: RunResult) -> tuple[str, ...]:
    return tuple(call.name for call in result.calls)


def _ways_of(
    model: str,
    variant: str,
    results: Sequence[RunResult],
    right: Mapping[str, tuple[str, ...]],
) -> Ways:
    order = [_way(result) for result in results]
    usual = Counter(order).most_common(1)
    otherwise: Counter[str] = Counter()
    for result, way in zip(results, order, strict=True):
        if way != right.get(result.key.case, way):
            otherwise.update(set(_deviations(way, right[result.key.case])))
    invalid = Counter(call.name for result in results for call in result.calls if not call.valid)
    calls = Counter(call.name for result in results for call in result.calls)
    sentences = [
        f"{words} in {count} of {len(results)} runs."
        for words, count in otherwise.most_common(MOST_DEVIATIONS)
    ]
    sentences += [
        f"Arguments of {name} do not satisfy its schema in {count} of {calls[name]} calls."
        for name, count in invalid.most_common(MOST_DEVIATIONS)
    ]
    names, runs = usual[0] if usual else ((), 0)
    return Ways(model, variant, names, runs, len(results), tuple(sentences))


def _deviations(way: tuple[str, ...], right: tuple[str, ...]) -> Iterator[str]:
    called, wanted = Counter(way), Counter(right)
    for name in wanted - called:
        yield f"Skipped {name}" if name not in called else f"Called {name} less often"
    for name in called - wanted:
        yield f"Called {name} besides" if name not in wanted else f"Called {name} more often"
    if called == wanted:
        yield f"Another order than {' → '.join(right)}"
