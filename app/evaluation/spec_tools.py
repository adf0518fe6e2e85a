"""Puts the tools into a SPEC that it names by words, and lets nothing run that was not accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from app.core.errors import BadInput
from app.core.tools import Tool
from app.evaluation.spec import Case, Expectation, Spec, ToolEntry, Variant
from app.exchange.tool_entry import sample_result


def words_of(spec: Spec) -> tuple[str, ...]:
    """The words by which it names tools, groups and files, each once."""
    entries = (entry for tools in _tool_sets(spec) for entry in tools)
    return tuple(dict.fromkeys(entry for entry in entries if isinstance(entry, str)))


def with_tools(
    spec: Spec, named: Mapping[str, Sequence[Tool]], accepted: Iterable[Tool] = ()
) -> tuple[Spec, tuple[str, ...]]:
    """The SPEC with definitions alone, and notes, each a sentence.

    `named` are the tools of each of `words_of`; `accepted` those of the library. A tool that is
    neither one of these nor named by `allow` becomes a mock, with a note. BadInput where a case has
    two tools of one name, or something names a tool that is not there.
    """
    known = list(accepted)
    notes: dict[str, None] = {}

    def safe(tool: Tool) -> Tool:
        if tool.answered_by == "mock" or tool.name in spec.allow or tool in known:
            return tool
        notes[
            f"{tool.name} would be answered by {tool.answered_by}, which the library has not"
            f" accepted: it is a mock here. --allow {tool.name} lets it run."
        ] = None
        result = sample_result(tool.config.get("output_schema"), tool.name)
        return replace(tool, answered_by="mock", config={"result": result})

    def resolved(entries: tuple[ToolEntry, ...]) -> tuple[ToolEntry, ...]:
        tools = [
            safe(tool)
            for entry in entries
            for tool in (named.get(entry, ()) if isinstance(entry, str) else (entry,))
        ]
        _check_names(tools)
        return tuple(tools)

    spec = _each_set(spec, resolved)
    _check_references(spec)
    return spec, tuple(notes)


def _each_set(spec: Spec, change: Callable[[tuple[ToolEntry, ...]], tuple[ToolEntry, ...]]) -> Spec:
    def variant(old: Variant) -> Variant:
        return old if old.tools is None else replace(old, tools=change(old.tools))

    def case(old: Case) -> Case:
        return old if old.tools is None else replace(old, tools=change(old.tools))

    return replace(
        spec,
        tools=change(spec.tools),
        variants=tuple(map(variant, spec.variants)),
        cases=tuple(map(case, spec.cases)),
    )


def _tool_sets(spec: Spec) -> Iterator[tuple[ToolEntry, ...]]:
    yield spec.tools
    yield from (variant.tools or () for variant in spec.variants)
    yield from (case.tools or () for case in spec.cases)


def _check_names(tools: Sequence[Tool]) -> None:
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"The tool {name!r} is there twice for the same case; leave one out.")


def _names(tools: Iterable[ToolEntry]) -> set[str]:
    return {tool.name for tool in tools if not isinstance(tool, str)}


def _check_references(spec: Spec) -> None:
    """A tool that is named and not there is a slip of the pen: its check could never fail, or never
    pass."""
    sets = [_names(tools) for tools in _tool_sets(spec)]
    every = set().union(*sets)
    for variant in spec.variants:
        for name in variant.descriptions:
            _check_there(name, every, f"The variant {variant.name!r} describes")
    usual = set().union(*(_names(variant.tools or ()) for variant in spec.variants))
    if any(variant.tools is None for variant in spec.variants):
        usual |= sets[0]
    for case in spec.cases:
        tools = usual if case.tools is None else _names(case.tools)
        for name in case.answers:
            _check_there(name, every, f"The case {case.id!r} has an answer of")
        for expectation in case.expect:
            for name in _tools_in(expectation):
                _check_there(name, tools, f"The case {case.id!r} expects something of")


def _tools_in(expectation: Expectation) -> Iterator[str]:
    match expectation.kind:
        case "called" | "never" | "first":
            yield expectation.value
        case "order":
            yield from expectation.value
        case "count" if expectation.of:
            yield expectation.of


def _check_there(name: str, names: set[str], who: str) -> None:
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        raise BadInput(f"{who} the tool {name!r}, which it does not have; there is {there}.")
