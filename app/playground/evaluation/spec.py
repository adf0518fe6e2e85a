"""A batch: cases x models x variants x repetitions, as values and as canonical JSON.

Spec.cases   Case    a prompt and the expectations of the resulting calls
Spec.models  ModelChoice
Spec.variants Variant   the first is the baseline that the others are compared with

with_tools(spec, ...)   replaces the names of tools by definitions
ImportedBatch   the result of importing another format

`spec_reader` reads one from a text; docs/batch.md documents the format.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

from playground.core.errors import BadInput
from playground.core.serialization import to_data
from playground.core.tools import Tool
from playground.exchange.tool_entry import sample_result

VERSION = 1
"""The value of `playground_batch`."""

SETTINGS = (
    *("tool_choice", "parallel", "stream", "params", "extra", "max_turns"),
    *("max_calls_per_turn", "max_calls_per_answer", "max_parallel", "max_run_tokens"),
    *("max_cost", "max_minutes"),
    *("max_repeats", "continue_on_error", "max_retries", "connect_s", "first_byte_s", "idle_s"),
)
"""The session settings that a SPEC may contain; model, system and tools have fields of their own.
`engine/settings` checks their values."""

ExpectationKind = Literal[
    "called",
    "never",
    "first",
    "order",
    "count",
    "no_call",
    "text_contains",
    "finish_reason",
    "max_tokens",
    "max_seconds",
    "max_cost",
]
EXPECTATIONS: tuple[ExpectationKind, ...] = get_args(ExpectationKind)

MatchKind = Literal["exact", "subset", "any_of", "schema"]
MATCHES: tuple[MatchKind, ...] = get_args(MatchKind)

ReadFile = Callable[[str], str]
"""The text of a file by its name in a batch, relative to the batch's file. BadInput if it cannot be
read."""


@dataclass(frozen=True)
class ArgumentMatch:
    """The requirement on the arguments of a call, by `kind`.

    `exact`: `value` and nothing else. `subset`: at least the members of `value`, at any depth.
    `any_of`: one of the objects of a list, or for an object of lists one value for each parameter,
    where those of `optional` may be missing and no others are allowed. `schema`: a JSON Schema.
    `loose`: texts are compared without case, and without `,./-_*^` and blanks.
    """

    kind: MatchKind
    value: Any
    optional: tuple[str, ...] = ()
    loose: bool = False


@dataclass(frozen=True)
class Expectation:
    """One requirement on a run.

    `value` is a tool's name (`called`, `never`, `first`), names (`order`), a number (`count`,
    `max_tokens`, `max_seconds`, `max_cost` in US dollars), a text (`text_contains`,
    `finish_reason`) or a boolean (`no_call`: False requires any call). `arguments` belongs to
    `called`, `of` (a tool, "" for any) to `count`, `ignore_case` to `text_contains`.
    """

    kind: ExpectationKind
    value: Any
    arguments: ArgumentMatch | None = None
    of: str = ""
    ignore_case: bool = False


ToolEntry = str | Tool
"""A tool of a SPEC: a definition, or a word that names a tool, a group or a file."""


@dataclass(frozen=True)
class Case:
    """A prompt, and the expectations of a run that begins with it.

    `{{ NAME }}` in `prompt` and `system` is replaced by the value in `vars`, if there are any.
    `system` and `tools` replace those of variant and batch unless None; `settings` override both.
    `answers` are results by tool: the config of a mock. `category` groups cases in a report.
    `min_pass` is the share of repetitions that must pass, None for the batch's.
    """

    id: str
    prompt: str
    vars: Mapping[str, Any] = field(default_factory=dict)
    expect: tuple[Expectation, ...] = ()
    system: str | None = None
    tools: tuple[ToolEntry, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    category: str = ""
    min_pass: float | None = None

    def fill(self, text: str) -> str:
        """`text` with the values of `vars` inserted; a value that is not a text as JSON. BadInput
        if that has more than LONGEST_TEXT characters."""
        length = self.filled_length(text)
        if length > LONGEST_TEXT:
            raise BadInput(
                f"A text of the case {self.id} has {length:,} characters after its vars are "
                f"filled in; at most {LONGEST_TEXT:,} are allowed."
            )
        return PLACE.sub(lambda place: self._value(place[0], place[1]), text) if self.vars else text

    def filled_length(self, text: str) -> int:
        """The length of the filled text, without filling it."""
        if not self.vars or "{{" not in text:
            return len(text)
        lengths = self._lengths
        return len(text) + sum(
            lengths[place[1]] - len(place[0])
            for place in PLACE.finditer(text)
            if place[1] in lengths
        )

    @cached_property
    def _lengths(self) -> Mapping[str, int]:
        return {name: len(self._value("", name)) for name in self.vars}

    def _value(self, place: str, name: str) -> str:
        value = self.vars.get(name, place)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


LONGEST_TEXT = 1_000_000
"""Characters of a text of a SPEC, as it is written and once it is filled."""

PLACE = re.compile(r"\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}")
"""A placeholder for a value of `vars` in a prompt."""


@dataclass(frozen=True)
class ModelChoice:
    """The model of a run: a profile's name, a model of it ("" for the profile's own), and the label
    of the pair in keys and reports."""

    profile: str
    model: str = ""
    label: str = ""


@dataclass(frozen=True)
class Variant:
    """The changes of a variant; None and {} keep the batch's values. `descriptions` are by tool."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    descriptions: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[ToolEntry, ...] | None = None


class RunKey(NamedTuple):
    """One run of a batch; `model` is a label, `repetition` counts from 1."""

    case: str
    variant: str
    model: str
    repetition: int


@dataclass(frozen=True)
class Spec:
    """A batch. `min_pass` is the share of a case's repetitions that must pass, `max_cost` the US
    dollars that all runs together may cost (0: no limit). `allow` names tools that run by their own
    executors although the library has not accepted them; only the command line can set it, not a
    file."""

    cases: tuple[Case, ...]
    name: str = ""
    seed: int = 0
    repetitions: int = 1
    min_pass: float = 1.0
    system: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[ToolEntry, ...] = ()
    models: tuple[ModelChoice, ...] = (ModelChoice("simulator", label="simulator"),)
    variants: tuple[Variant, ...] = (Variant("default"),)
    max_cost: float = 0.0
    allow: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """The number of its runs."""
        return len(self.cases) * len(self.models) * len(self.variants) * self.repetitions

    @cached_property
    def by_id(self) -> Mapping[str, Case]:
        """The cases by their ids."""
        return {case.id: case for case in self.cases}

    def digest(self) -> str:
        """SHA-256 (hex digits) of the canonical JSON: equal for equal content, whatever the format
        of the file, and independent of `allow`."""
        body = json.dumps(spec_data(self))
        return hashlib.sha256(body.encode()).hexdigest()

    def case_order(self) -> tuple[Case, ...]:
        """The cases in the order fixed by the seed, in which verdicts process them."""

        def place(case: Case) -> bytes:
            return hashlib.sha256(f"{self.seed}:{case.id}".encode()).digest()

        return tuple(sorted(self.cases, key=place))

    def keys(self) -> Iterator[RunKey]:
        """Every run, case by case in `case_order`."""
        for case in self.case_order():
            rounds = product(range(1, self.repetitions + 1), self.models, self.variants)
            for repetition, model, variant in rounds:
                yield RunKey(case.id, variant.name, model.label, repetition)


# The input of a run -------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunPlan:
    """The input of one run: `settings` by their names in a session's settings; `tools` with the
    variant's descriptions and the case's answers. Names of tools are not looked up yet."""

    prompt: str
    system: str
    settings: Mapping[str, Any]
    tools: tuple[ToolEntry, ...]
    model: ModelChoice


def plan_run(spec: Spec, key: RunKey) -> RunPlan:
    """The input of the run `key` of `spec`: the case overrides the variant, which overrides the
    batch. `params` and `extra` are merged member by member."""
    case = spec.by_id[key.case]
    variant = next(variant for variant in spec.variants if variant.name == key.variant)
    model = next(model for model in spec.models if model.label == key.model)
    settings: dict[str, Any] = {}
    for named in (spec.settings, variant.settings, case.settings):
        for name, value in named.items():
            joined = name in ("params", "extra") and name in settings
            settings[name] = {**settings[name], **value} if joined else value
    systems = (text for text in (case.system, variant.system) if text is not None)
    tools = next((some for some in (case.tools, variant.tools) if some is not None), spec.tools)
    return RunPlan(
        case.fill(case.prompt),
        case.fill(next(systems, spec.system)),
        settings,
        tuple(_run_tool(tool, variant, case) for tool in tools),
        model,
    )


def _run_tool(tool: ToolEntry, variant: Variant, case: Case) -> ToolEntry:
    if isinstance(tool, str):
        return tool
    description = variant.descriptions.get(tool.name, tool.description)
    answer = case.answers.get(tool.name)
    if answer is None:
        same = description == tool.description
        return tool if same else replace(tool, description=description)
    return replace(tool, description=description, answered_by="mock", config=answer)


# As JSON ------------------------------------------------------------------------------------------


def spec_data(spec: Spec) -> dict[str, Any]:
    """The SPEC as JSON data in the format of docs/batch.md, the input of `spec_from_data`.

    Excludes `allow`; leaves out default values, so that a field added later changes no digest.
    """
    defaults: dict[str, Any] = {"repetitions": spec.repetitions, "min_pass": spec.min_pass}
    if spec.system:
        defaults["system"] = spec.system
    defaults.update(to_data(spec.settings))
    return {
        "playground_batch": VERSION,
        **_nonempty_members(name=spec.name, seed=spec.seed, max_cost=spec.max_cost),
        "defaults": defaults,
        **_nonempty_members(tools=_tools_data(spec.tools)),
        "models": [_nonempty_members(**to_data(model)) for model in spec.models],
        "variants": [_variant_data(variant) for variant in spec.variants],
        "cases": [_case_data(case) for case in spec.cases],
    }


def _nonempty_members(**members: Any) -> dict[str, Any]:
    """The members that are not empty."""
    empty: tuple[Any, ...] = ("", 0, [], {}, None)
    return {name: value for name, value in members.items() if value not in empty}


def _tools_data(tools: tuple[ToolEntry, ...] | None) -> list[Any] | None:
    return None if tools is None else [to_data(tool) for tool in tools]


def _variant_data(variant: Variant) -> dict[str, Any]:
    system = {} if variant.system is None else {"system": variant.system}
    tools = {} if variant.tools is None else {"tools": _tools_data(variant.tools)}
    descriptions = _nonempty_members(descriptions=dict(variant.descriptions))
    return {"name": variant.name, **to_data(variant.settings), **system, **descriptions, **tools}


def _case_data(case: Case) -> dict[str, Any]:
    system = {} if case.system is None else {"system": case.system}
    tools = {} if case.tools is None else {"tools": _tools_data(case.tools)}
    share = {} if case.min_pass is None else {"min_pass": case.min_pass}
    return {
        "id": case.id,
        **_nonempty_members(category=case.category),
        "prompt": case.prompt,
        **_nonempty_members(vars=to_data(case.vars)),
        **system,
        **tools,
        **_nonempty_members(settings=to_data(case.settings), answers=to_data(case.answers)),
        **share,
        "expect": [expectation_data(expectation) for expectation in case.expect],
    }


def expectation_data(expectation: Expectation) -> dict[str, Any]:
    """The expectation as in a SPEC: `{"called": "f", "arguments": {"subset": {...}}}`."""
    data: dict[str, Any] = {expectation.kind: to_data(expectation.value)}
    match = expectation.arguments
    if match is not None:
        beside = _nonempty_members(optional=list(match.optional), loose=match.loose)
        data["arguments"] = {match.kind: to_data(match.value), **beside}
    return data | _nonempty_members(of=expectation.of, ignore_case=expectation.ignore_case)


# Imported cases -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OmittedCase:
    """A case that cannot be imported, by its name in the file, and why, in a sentence."""

    case: str
    reason: str


@dataclass(frozen=True)
class ImportedBatch:
    """`notes` are sentences on differences from the file; `left_out` cases are not in `spec`."""

    spec: Spec
    notes: tuple[str, ...] = ()
    left_out: tuple[OmittedCase, ...] = ()


# Tools referenced by name: only accepted ones run -------------------------------------------------


def words_of(spec: Spec) -> tuple[str, ...]:
    """The distinct words by which it names tools, groups and files."""
    entries = (entry for tools in _tool_sets(spec) for entry in tools)
    return tuple(dict.fromkeys(entry for entry in entries if isinstance(entry, str)))


def with_tools(
    spec: Spec, named: Mapping[str, Sequence[Tool]], accepted: Iterable[Tool] = ()
) -> tuple[Spec, tuple[str, ...]]:
    """The SPEC with definitions only, and notes, each a sentence.

    `named` are the tools of each of `words_of`; `accepted` those of the library. A tool that is
    in neither and is not named by `allow` becomes a mock, with a note. BadInput if a case has
    two tools of one name, or something names a tool that does not exist.
    """
    known = list(accepted)
    notes: dict[str, None] = {}

    def mock_unaccepted(tool: Tool) -> Tool:
        if tool.answered_by == "mock" or tool.name in spec.allow or tool in known:
            return tool
        notes[
            f"{tool.name} would be answered by {tool.answered_by}, which is not accepted in the "
            f"library, so it is a mock here. Use --allow {tool.name} to run it."
        ] = None
        result = sample_result(tool.config.get("output_schema"), tool.name)
        return replace(tool, answered_by="mock", config={"result": result})

    def resolve_tools(entries: tuple[ToolEntry, ...]) -> tuple[ToolEntry, ...]:
        tools = [
            mock_unaccepted(tool)
            for entry in entries
            for tool in (named.get(entry, ()) if isinstance(entry, str) else (entry,))
        ]
        _check_names(tools)
        return tuple(tools)

    spec = _map_tool_sets(spec, resolve_tools)
    _check_references(spec)
    return spec, tuple(notes)


def _map_tool_sets(
    spec: Spec, change: Callable[[tuple[ToolEntry, ...]], tuple[ToolEntry, ...]]
) -> Spec:
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
            raise BadInput(f"The tool {name!r} occurs twice in the same case. Remove one.")


def _names(tools: Iterable[ToolEntry]) -> set[str]:
    return {tool.name for tool in tools if not isinstance(tool, str)}


def _check_references(spec: Spec) -> None:
    """A reference to a missing tool is a typo: its check could never fail, or never pass."""
    sets = [_names(tools) for tools in _tool_sets(spec)]
    every = set().union(*sets)
    for variant in spec.variants:
        for name in variant.descriptions:
            _check_tool_exists(name, every, f"The variant {variant.name!r} describes")
    usual = set().union(*(_names(variant.tools or ()) for variant in spec.variants))
    if any(variant.tools is None for variant in spec.variants):
        usual |= sets[0]
    for case in spec.cases:
        tools = usual if case.tools is None else _names(case.tools)
        for name in case.answers:
            _check_tool_exists(name, every, f"The case {case.id!r} has an answer of")
        for expectation in case.expect:
            for name in _tools_in(expectation):
                _check_tool_exists(name, tools, f"The case {case.id!r} expects something of")


def _tools_in(expectation: Expectation) -> Iterator[str]:
    match expectation.kind:
        case "called" | "never" | "first":
            yield expectation.value
        case "order":
            yield from expectation.value
        case "count" if expectation.of:
            yield expectation.of


def _check_tool_exists(name: str, names: set[str], who: str) -> None:
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        raise BadInput(f"{who} the tool {name!r}, which it does not have. Its tools are {there}.")
