"""What a batch shows of the tools themselves: descriptions that are taken for each other, enums
whose values the prompts do not say, arguments of another type. Each is a sentence with its figures
and what to do."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from app.core.tools import Tool
from app.evaluation.calls_made import (
    NO_TOOL,
    ArgumentUse,
    Confusion,
    add_up,
    enum_of,
    parsed,
    value_problem,
)
from app.evaluation.results import RunResult
from app.evaluation.spec import Case, Spec, Variant

ALIKE = 0.5
"""Share of words that two descriptions have in common (Dice), from which they are twins."""
LEAST_RUNS = 2
LEAST_SHARE = 0.05
MOST_NAMED = 5

FindingKind = Literal["twins", "confused", "enum_words", "argument_type", "argument_missing"]


@dataclass(frozen=True)
class ToolFinding:
    """`count` of `of` runs or calls show it; `tools` are those to be changed, `argument` the name
    of the parameter or ""."""

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
        *(each for variant in spec.variants for each in _confused(spec, tools, variant, matrices)),
        *_enums(spec, tools, uses, list(results)),
        *_arguments(uses),
    ]
    return tuple(sorted(findings, key=lambda finding: -finding.count))


# Twins --------------------------------------------------------------------------------------------


def _confused(
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
        words = f"{first} and {second} are taken for each other in {count} of {of} runs{where}"
        if len(texts) == 2 and not any(texts):
            kind: FindingKind = "twins"
            advice = ", and neither has a description. Say in each when it is the right one."
        elif len(texts) == 2 and likeness(*texts) >= ALIKE:
            kind = "twins"
            advice = (
                ", and their descriptions are nearly the same. Say in each when it, and not the"
                " other, is the right one."
            )
        else:
            kind, advice = "confused", ". Say in each description what it does not do."
        yield ToolFinding(kind, (first, second), "", count, of, words + advice)


def likeness(first: str, second: str) -> float:
    """The share of words that two descriptions have in common, 0..1; words that every description
    has are left out, and so is the plural."""
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
            yield _outside(spec, use, schema, wrong, results)
        else:
            yield from _not_meant(spec, use, schema, results)


def _outside(
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
        and isinstance(value := (parsed(call.arguments) or {}).get(use.name), str)
        and value_problem(schema, value)
        and _words(value) <= _words(_prompt(spec.by_id[result.key.case]))
    }
    cases = f"{len(prompts)} prompt{'s say' if len(prompts) > 1 else ' says'}"
    source = f"; {cases} it in that word" if prompts else ""
    return ToolFinding(
        "enum_words",
        (use.tool,),
        use.name,
        count,
        use.given,
        f"{use.name} of {use.tool} was {given} in {count} of {use.given} calls, which its enum"
        f" ({options}) does not have{source}. Take the prompts' words into the enum, or say in the"
        " description which value stands for what.",
    )


def _not_meant(
    spec: Spec, use: ArgumentUse, schema: Any, results: list[RunResult]
) -> Iterator[ToolFinding]:
    """Runs that chose another value of the enum than the expected one, which their prompt does not
    say."""
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
            (parsed(call.arguments) or {}).get(use.name)
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
            (use.tool,),
            use.name,
            count,
            of,
            f"{use.name} of {use.tool} should be {named}, which the prompts do not say, and was"
            f" another value of its enum in {count} of {of} runs. Say in the description which"
            " value stands for what.",
        )


def _prompt(case: Case) -> str:
    return case.fill(case.prompt)


def _expected_value(case: Case, use: ArgumentUse) -> Any:
    """The value that a case expects of a parameter, where it expects one alone."""
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
            yield ToolFinding("argument_type", (use.tool,), use.name, count, use.given, words)
        missing = use.calls - use.given
        if use.required and missing:
            words = f"{use.tool} was called without {use.name} in {missing} of {use.calls} calls."
            yield ToolFinding("argument_missing", (use.tool,), use.name, missing, use.calls, words)
