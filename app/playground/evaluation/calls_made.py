"""The calls of a batch's runs: which tool instead of which, with what, and in which order.

Confusion      expected tool x called tool
ArgumentUse    the values that a parameter was given
Ways           the usual order of calls of a model or variant, and its deviations
ToolFinding    conclusions about the tools themselves
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, Literal

from playground.core.json_values import load_json
from playground.core.tools import Tool
from playground.evaluation.results import RunResult
from playground.evaluation.spec import Case, Expectation, Spec, Variant

NO_TOOL = "(none)"
"""In a confusion matrix: no tool was expected, or none called. It is not a valid tool name."""
MOST_VALUES = 6
MOST_DEVIATIONS = 5
LONGEST_VALUE = 60

Confusion = Mapping[str, Mapping[str, int]]
"""The number of runs by expected and called tool. An expected tool that was called counts in its
own column only; one that was not counts for each tool that was called unexpectedly, or for none."""

_FORMS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}

ALIKE = 0.5
"""The share of words that two descriptions have in common (Dice) from which they count as twins."""

LEAST_RUNS = 2
LEAST_SHARE = 0.05
MOST_NAMED = 5

FindingKind = Literal["twins", "confused", "enum_words", "argument_type", "argument_missing"]


@dataclass(frozen=True)
class ValueUse:
    """A value as JSON text (cut), its frequency, and its problem, or ""."""

    value: str
    count: int
    problem: str = ""


@dataclass(frozen=True)
class ArgumentUse:
    """A parameter of a tool over all its calls: `calls` of the tool, how many `given` it, its
    values, the most frequent and the wrong ones first, and the number of further values. `form` is
    its type in the schema, or "enum"."""

    tool: str
    name: str
    form: str
    calls: int
    given: int
    values: tuple[ValueUse, ...]
    further: int
    required: bool


@dataclass(frozen=True)
class CallOrder:
    """The order of calls of one model and variant: the `usual` tools in order, called so by `runs`
    of `of` runs, and sentences on deviations from the runs of the same case that passed."""

    model: str
    variant: str
    usual: tuple[str, ...]
    runs: int
    of: int
    deviations: tuple[str, ...]


# Confused tools -----------------------------------------------------------------------------------


def expected_tools(case: Case) -> tuple[str, ...]:
    """The tools that a case expects to be called; NO_TOOL alone if it expects none, empty if it
    does not specify it."""
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
    """The sum of several matrices."""
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for matrix in matrices:
        for tool, row in matrix.items():
            total[tool].update(row)
    return dict(total)


# Arguments ----------------------------------------------------------------------------------------


def tools_of(spec: Spec) -> dict[str, Tool]:
    """The definitions in a SPEC by name, the first of each; nothing is looked up in the library."""
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
    """The use of each parameter of the tools that were called, in the order of the schema;
    parameters not in a schema come last."""
    raw = Counter((call.name, call.arguments) for result in results for call in result.calls)
    calls: Counter[str] = Counter()
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    values: dict[str, Any] = {}
    for (tool, text), times in raw.items():
        arguments = parse_arguments(text)
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
            uses.append(
                ArgumentUse(
                    tool,
                    name=name,
                    form=form,
                    calls=calls[tool],
                    given=sum(each.values()),
                    values=_select_values(given),
                    further=max(0, len(given) - MOST_VALUES),
                    required=name in required,
                )
            )
    return tuple(uses)


def _select_values(values: list[ValueUse]) -> tuple[ValueUse, ...]:
    """As many as fit: wrong ones are selected first, but listed last."""
    first = sorted(values, key=lambda use: not use.problem)[:MOST_VALUES]
    return tuple(sorted(first, key=lambda use: (bool(use.problem), -use.count)))


@lru_cache(maxsize=4096)
def parse_arguments(text: str) -> Mapping[str, Any] | None:
    """Arguments that are a JSON object, or None. Others are reported among the failures."""
    try:
        value = load_json(text or "{}")
    except ValueError:
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
    """The enum values of a parameter; () if there are none."""
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


def value_problem(schema: Any, value: Any) -> str:
    """A quick check against the parameter's own schema: `not in enum`, `string, not number`; "" if
    valid. The whole schema is checked elsewhere."""
    if not isinstance(schema, Mapping):
        return ""
    form = schema.get("type")
    forms = [form] if isinstance(form, str) else list(form or ())
    if forms and not any(_is_of_type(value, each) for each in forms):
        own = next(name for name in _FORMS if _is_of_type(value, name))
        return f"{own}, not {' or '.join(map(str, forms))}"
    options = enum_of(schema)
    return "not in enum" if options and value not in options else ""


def _is_of_type(value: Any, form: Any) -> bool:
    types = _FORMS.get(form)
    if types is None:
        return True
    if isinstance(value, bool):
        return bool in types
    whole = form == "integer" and isinstance(value, float) and value.is_integer()
    return whole or isinstance(value, types)


# Order of calls -----------------------------------------------------------------------------------


def call_orders(
    spec: Spec, groups: Mapping[tuple[str, str], Sequence[RunResult]]
) -> tuple[CallOrder, ...]:
    """For each (model, variant); passed runs of all groups define what a case requires."""
    passed: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for results in groups.values():
        for result in results:
            if result.outcome == "passed":
                passed[result.key.case][_called_names(result)] += 1
    right = {case: counts.most_common(1)[0][0] for case, counts in passed.items()}
    return tuple(
        _call_order(model, variant, results, right) for (model, variant), results in groups.items()
    )


def _called_names(result: RunResult) -> tuple[str, ...]:
    return tuple(call.name for call in result.calls)


def _call_order(
    model: str,
    variant: str,
    results: Sequence[RunResult],
    right: Mapping[str, tuple[str, ...]],
) -> CallOrder:
    order = [_called_names(result) for result in results]
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
    return CallOrder(
        model, variant=variant, usual=names, runs=runs, of=len(results), deviations=tuple(sentences)
    )


def _deviations(way: tuple[str, ...], right: tuple[str, ...]) -> Iterator[str]:
    called, wanted = Counter(way), Counter(right)
    for name in wanted - called:
        yield f"Skipped {name}" if name not in called else f"Called {name} less often"
    for name in called - wanted:
        yield f"Also called {name}" if name not in wanted else f"Called {name} more often"
    if called == wanted:
        yield f"A different order than {' → '.join(right)}"


# Findings -----------------------------------------------------------------------------------------


# Descriptions that are confused, enums whose values the prompts do not mention, arguments of
# another type: each is a sentence with its figures and a recommendation.


@dataclass(frozen=True)
class ToolFinding:
    """`count` of `of` runs or calls show it; `tools` are those to change, `argument` the name of
    the parameter or ""."""

    kind: FindingKind
    tools: tuple[str, ...]
    argument: str
    count: int
    of: int
    sentence: str


def find(
    spec: Spec,
    tools: Mapping[str, Tool],
    matrices: Mapping[tuple[str, str], Confusion],
    uses: Sequence[ArgumentUse],
    results: Iterable[RunResult],
) -> tuple[ToolFinding, ...]:
    """All findings, the most frequent first. `matrices` are by (model, variant)."""
    findings = [
        *(
            each
            for variant in spec.variants
            for each in _confusion_findings(spec, tools, variant, matrices)
        ),
        *_enums(spec, tools, uses, list(results)),
        *_arguments(uses),
    ]
    return tuple(sorted(findings, key=lambda finding: -finding.count))


# Twins --------------------------------------------------------------------------------------------


def _confusion_findings(
    spec: Spec,
    tools: Mapping[str, Tool],
    variant: Variant,
    matrices: Mapping[tuple[str, str], Confusion],
) -> Iterator[ToolFinding]:
    matrix = add_up(each for (_, name), each in matrices.items() if name == variant.name)
    names = sorted({*matrix, *(called for row in matrix.values() for called in row)} - {NO_TOOL})
    own = {tool.name: tool for tool in variant.tools or () if isinstance(tool, Tool)}
    where = f" with “{variant.name}”" if len(spec.variants) > 1 else ""
    for first, second in combinations(names, 2):
        rows = [matrix.get(name, Counter()) for name in (first, second)]
        count = rows[0][second] + rows[1][first]
        of = sum(rows[0].values()) + sum(rows[1].values())
        if count < LEAST_RUNS or count < LEAST_SHARE * of:
            continue
        texts = [
            variant.descriptions.get(name, tool.description)
            for name in (first, second)
            if (tool := own.get(name) or tools.get(name)) is not None
        ]
        words = f"{first} and {second} are confused in {count} of {of} runs{where}"
        if len(texts) == 2 and not any(texts):
            kind: FindingKind = "twins"
            advice = ", and neither has a description. Describe when to use each."
        elif len(texts) == 2 and similarity(*texts) >= ALIKE:
            kind = "twins"
            advice = (
                ", and their descriptions are nearly the same. Describe when to use each and "
                "not the other."
            )
        else:
            kind, advice = "confused", ". Describe what each does not do."
        yield ToolFinding(
            kind, tools=(first, second), argument="", count=count, of=of, sentence=words + advice
        )


def similarity(first: str, second: str) -> float:
    """The share of words that two descriptions have in common, 0..1; ignores words that every
    description has, and plural endings."""
    a, b = _words_of_weight(first), _words_of_weight(second)
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


_COMMON = _words(
    "a an and any are as at be by for from get given has have if in into is it its of on one or"
    " return returns that the their them this to use used when which who with you your"
)


def _words_of_weight(text: str) -> set[str]:
    return {re.sub(r"(?<=\w{3})(?:es|s)$", "", word) for word in _words(text) - _COMMON}


# Enums --------------------------------------------------------------------------------------------


def _enums(
    spec: Spec, tools: Mapping[str, Tool], uses: Sequence[ArgumentUse], results: list[RunResult]
) -> Iterator[ToolFinding]:
    for use in uses:
        tool = tools.get(use.tool)
        schema = tool.parameters.get("properties", {}).get(use.name) if tool else None
        if not enum_of(schema):
            continue
        wrong = [value for value in use.values if value.problem]
        if wrong:
            yield _outside_finding(spec, use, schema, wrong, results)
        else:
            yield from _wrong_value_findings(spec, use, schema, results)


def _outside_finding(
    spec: Spec,
    use: ArgumentUse,
    schema: Any,
    wrong: Sequence[Any],
    results: list[RunResult],
) -> ToolFinding:
    """Values that the enum does not have; most often they are the prompts' own words."""
    count = sum(value.count for value in wrong)
    given = ", ".join(value.value for value in wrong[:MOST_NAMED])
    options = ", ".join(map(str, enum_of(schema)))
    prompts = {
        result.key.case
        for result in results
        for call in result.calls
        if call.name == use.tool
        and isinstance(value := (parse_arguments(call.arguments) or {}).get(use.name), str)
        and value_problem(schema, value)
        and _words(value) <= _words(_prompt(spec.by_id[result.key.case]))
    }
    cases = f"{len(prompts)} prompt{'s use' if len(prompts) > 1 else ' uses'}"
    source = f"; {cases} that word" if prompts else ""
    return ToolFinding(
        "enum_words",
        tools=(use.tool,),
        argument=use.name,
        count=count,
        of=use.given,
        sentence=f"{use.name} of {use.tool} was {given} in {count} of {use.given} calls, which its "
        f"enum ({options}) does not have{source}. Add the prompts' words to the enum, or describe "
        "what each value means.",
    )


def _wrong_value_findings(
    spec: Spec, use: ArgumentUse, schema: Any, results: list[RunResult]
) -> Iterator[ToolFinding]:
    """Runs that chose another enum value than the expected one, which their prompt does not
    mention."""
    count = of = 0
    meant: dict[str, None] = {}
    for result in results:
        case = spec.by_id[result.key.case]
        wanted = _expected_value(case, use)
        if not isinstance(wanted, str) or wanted not in enum_of(schema):
            continue
        if _words(wanted) <= _words(_prompt(case)):
            continue
        of += 1
        values = [
            (parse_arguments(call.arguments) or {}).get(use.name)
            for call in result.calls
            if call.name == use.tool
        ]
        if values and wanted not in values:
            count += 1
            meant[json.dumps(wanted, ensure_ascii=False)] = None
    if count >= LEAST_RUNS and count >= LEAST_SHARE * of:
        named = ", ".join([*meant][:MOST_NAMED])
        yield ToolFinding(
            "enum_words",
            tools=(use.tool,),
            argument=use.name,
            count=count,
            of=of,
            sentence=f"{use.name} of {use.tool} should be {named}, which the prompts do not say, "
            f"and was another value of its enum in {count} of {of} runs. Describe what each value "
            "means.",
        )


def _prompt(case: Case) -> str:
    return case.fill(case.prompt)


def _expected_value(case: Case, use: ArgumentUse) -> Any:
    """The expected value of a parameter, if a case expects exactly one."""
    for expectation in case.expect:
        match = expectation.arguments
        if expectation.kind != "called" or expectation.value != use.tool or match is None:
            continue
        if match.kind in ("exact", "subset") and isinstance(match.value, Mapping):
            return match.value.get(use.name)
        if match.kind == "any_of" and isinstance(match.value, Mapping):
            options = match.value.get(use.name)
            if isinstance(options, list | tuple) and len(options) == 1:
                return options[0]
    return None


# Types --------------------------------------------------------------------------------------------


def _arguments(uses: Sequence[ArgumentUse]) -> Iterator[ToolFinding]:
    for use in uses:
        problems: dict[str, int] = {}
        for value in use.values:
            if value.problem and use.form != "enum":
                problems[value.problem] = problems.get(value.problem, 0) + value.count
        for problem, count in problems.items():
            where = f"in {count} of {use.given} calls"
            words = f"{use.name} of {use.tool} was of type {problem}, {where}."
            yield ToolFinding(
                "argument_type",
                tools=(use.tool,),
                argument=use.name,
                count=count,
                of=use.given,
                sentence=words,
            )
        missing = use.calls - use.given
        if use.required and missing:
            words = f"{use.tool} was called without {use.name} in {missing} of {use.calls} calls."
            yield ToolFinding(
                "argument_missing",
                tools=(use.tool,),
                argument=use.name,
                count=missing,
                of=use.calls,
                sentence=words,
            )
