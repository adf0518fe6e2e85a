"""Reads a batch from YAML, JSON or JSON data; each error names the place (a JSON pointer).

Nothing is guessed: an unknown word is refused with a list of the known ones, and keys are refused,
too. The built-in suite is the SPEC that comes with the program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from playground.core.errors import BadInput, BadTool
from playground.core.tools import Tool
from playground.evaluation.spec import (
    EXPECTATIONS,
    LONGEST_TEXT,
    MATCHES,
    PLACE,
    SETTINGS,
    ArgumentMatch,
    Case,
    Expectation,
    ExpectationKind,
    ModelChoice,
    Spec,
    ToolEntry,
    Variant,
)
from playground.exchange.parsers import UnreadableText, json_value, yaml_value
from playground.schema import schema_checks
from playground.schema.documents import find_fault
from playground.schema.schema_checks import pointer
from playground.schema.validate import check_config, check_tool
from playground.secrets.detection import certain_spans
from playground.secrets.names import is_opaque, is_secret

MOST_RUNS = 1_000_000
MOST_FILLED = 256_000_000
"""Characters of the filled prompts and system prompts of all runs, repetitions left out."""

BUILTIN = "builtin"
"""Its name for `playground batch`."""

RIGHT, WRONG = "suite-right", "suite-wrong"
"""The scripted models: the first passes all cases, the second none."""

_FOLDER = Path(__file__).parent / "suite"


def read_spec(text: str) -> Spec:
    """The batch in a text, as JSON (comments are ignored) or YAML; BadInput otherwise."""
    return spec_from_data(parse_spec(text))


def parse_spec(text: str) -> Any:
    """The value of a text as JSON or YAML; BadInput otherwise."""
    text = text.removeprefix("\ufeff")
    try:
        return json_value(text)[0] if text.lstrip()[:1] in ("{", "[") else yaml_value(text)
    except UnreadableText as error:
        raise BadInput(f"The SPEC cannot be read. {error}") from None


def spec_from_data(data: Any, *, allow: Iterable[str] = ()) -> Spec:
    """The batch in JSON data; BadInput otherwise. `allow` comes from the command line: a SPEC
    cannot set it for itself."""
    with schema_checks.one_document():
        spec = _spec(data, allow)
    _check_filled(spec)
    return spec


def _spec(data: Any, allow: Iterable[str]) -> Spec:
    if isinstance(data, Mapping) and "allow" in data:
        _refuse("/allow", "a file cannot allow its own tools; use --allow NAME when you run it")
    if fault := find_fault("batch", data):
        _refuse(fault.pointer, fault.message)
    _refuse_keys(data)
    defaults = data.get("defaults", {})
    spec = Spec(
        cases=_cases(data["cases"]),
        name=data.get("name", ""),
        seed=int(data.get("seed", 0)),
        repetitions=int(defaults.get("repetitions", 1)),
        min_pass=float(defaults.get("min_pass", 1)),
        system=defaults.get("system", ""),
        settings=_settings(defaults),
        tools=_tools(data.get("tools", []), "/tools"),
        models=_models(data.get("models", ["simulator"])),
        variants=_variants(data.get("variants", [{"name": "default"}])),
        max_cost=float(data.get("max_cost", 0)),
        allow=tuple(allow),
    )
    if spec.runs > MOST_RUNS:
        _refuse(
            "", f"the SPEC has {spec.runs:,} runs; at most {MOST_RUNS:,} are allowed in a batch"
        )
    return spec


# Its parts ----------------------------------------------------------------------------------------


def _cases(data: Sequence[Mapping[str, Any]]) -> tuple[Case, ...]:
    cases = tuple(_case(item, f"/cases/{place}") for place, item in enumerate(data))
    _check_unique((case.id for case in cases), "/cases", "id")
    return cases


def _case(data: Mapping[str, Any], where: str) -> Case:
    case = Case(
        id=data["id"],
        prompt=data["prompt"],
        vars=data.get("vars", {}),
        expect=tuple(
            _expectation(item, f"{where}/expect/{place}")
            for place, item in enumerate(data.get("expect", []))
        ),
        system=data.get("system"),
        tools=_tools(data["tools"], f"{where}/tools") if "tools" in data else None,
        settings=data.get("settings", {}),
        answers=_answers(data.get("answers", {}), f"{where}/answers"),
        category=data.get("category", ""),
        min_pass=float(data["min_pass"]) if "min_pass" in data else None,
    )
    _check_places(case, where)
    return case


def _check_places(case: Case, where: str) -> None:
    """A placeholder without a variable is a typo, if the case has variables."""
    texts = {"prompt": case.prompt, "system": case.system or ""}
    for name, text in texts.items() if case.vars else ():
        for place in PLACE.finditer(text):
            if place[1] not in case.vars:
                known = ", ".join(case.vars)
                _refuse(f"{where}/{name}", f"{place[0]} is not in vars, which has {known}")


def _check_filled(spec: Spec) -> None:
    """A few placeholders may stand for gigabytes, so that the filled texts have bounds, too: each,
    and those of all runs that differ."""
    together = 0
    for number, case in enumerate(spec.cases):
        if not case.vars:
            continue
        lengths: dict[str, int] = {}
        for variant in spec.variants:
            system = next(
                text for text in (case.system, variant.system, spec.system) if text is not None
            )
            for name, text in (("prompt", case.prompt), ("system", system)):
                if text not in lengths:
                    lengths[text] = case.filled_length(text)
                if lengths[text] > LONGEST_TEXT:
                    what = f"filled with its vars, this text has {lengths[text]:,} characters"
                    _refuse(
                        f"/cases/{number}/{name}", f"{what}; at most {LONGEST_TEXT:,} are allowed"
                    )
                together += max(lengths[text], len(text)) * len(spec.models)
        if together > MOST_FILLED:
            what = "filled with their vars, the texts of all runs up to this case have"
            _refuse(
                f"/cases/{number}",
                f"{what} {together:,} characters; at most {MOST_FILLED:,} are allowed. Split the "
                "batch",
            )


def _answers(data: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """The config of a mock by tool; a text is short for {"result": TEXT}."""
    answers: dict[str, dict[str, Any]] = {}
    for name, answer in data.items():
        answers[name] = {"result": answer} if isinstance(answer, str) else dict(answer)
        try:
            check_config("mock", answers[name])
        except BadTool as error:
            _refuse(where + pointer((name,)) + error.pointer.removeprefix("/config"), str(error))
    return answers


def _models(data: Sequence[Any]) -> tuple[ModelChoice, ...]:
    chosen = [
        ModelChoice(item)
        if isinstance(item, str)
        else ModelChoice(item["profile"], item.get("model", ""), item.get("label", ""))
        for item in data
    ]
    labels = [model.label or model.model or model.profile for model in chosen]
    models = tuple(
        ModelChoice(model.profile, model.model, model.label or _full_name(model, labels, label))
        for model, label in zip(chosen, labels, strict=True)
    )
    _check_unique((model.label for model in models), "/models", "label")
    return models


def _full_name(model: ModelChoice, labels: list[str], label: str) -> str:
    """The model's own name, with its profile if another entry has the same."""
    return label if labels.count(label) == 1 else f"{model.profile}/{model.model}".rstrip("/")


def _variants(data: Any) -> tuple[Variant, ...]:
    """An object by name, or a list of objects with a name; the first is the baseline."""
    if isinstance(data, Mapping):
        named = [(name, item or {}, pointer(("variants", name))) for name, item in data.items()]
    else:
        named = [(item["name"], item, f"/variants/{n}") for n, item in enumerate(data)]
    variants = tuple(
        Variant(
            name,
            _settings(item),
            item.get("system"),
            item.get("descriptions", {}),
            _tools(item["tools"], f"{where}/tools") if "tools" in item else None,
        )
        for name, item, where in named
    )
    _check_unique((variant.name for variant in variants), "/variants", "name")
    return variants


def _settings(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in SETTINGS if name in data}


def _tools(data: Sequence[Any], where: str) -> tuple[ToolEntry, ...]:
    return tuple(_tool(item, f"{where}/{place}") for place, item in enumerate(data))


def _tool(data: Any, where: str) -> ToolEntry:
    if isinstance(data, str):
        return data
    try:
        tool: Tool = check_tool(data)
    except BadTool as error:
        _refuse(where + error.pointer, str(error))
    return tool


# Expectations -------------------------------------------------------------------------------------


def read_expectation(value: Any, where: str) -> Expectation:
    """The expectation in JSON data; otherwise BadInput, which names `where`."""
    if fault := find_fault("expectation", value):
        _refuse(where + fault.pointer, fault.message)
    return _expectation(value, where)


def _expectation(data: Mapping[str, Any], where: str) -> Expectation:
    kind = next(kind for kind in EXPECTATIONS if kind in data)
    arguments = _match(data["arguments"], f"{where}/arguments") if "arguments" in data else None
    return Expectation(
        kind,
        _expected(kind, data[kind]),
        arguments,
        data.get("of", ""),
        data.get("ignore_case", False),
    )


def _expected(kind: ExpectationKind, value: Any) -> Any:
    match kind:
        case "order":
            return tuple(value)
        case "count" | "max_tokens":
            return int(value)
        case "max_seconds" | "max_cost":
            return float(value)
        case _:
            return value


def _match(data: Mapping[str, Any], where: str) -> ArgumentMatch:
    kind = next(kind for kind in MATCHES if kind in data)
    operand, loose = data[kind], data.get("loose", False)
    optional: tuple[str, ...] = tuple(data.get("optional", ()))
    for name in optional:
        if not isinstance(operand, Mapping) or name not in operand:
            _refuse(f"{where}/optional", f"any_of names no parameter {name!r}")
    if kind == "schema":
        if loose:
            _refuse(f"{where}/loose", "a schema compares texts exactly; leave loose out")
        if (wrong := schema_checks.fault(operand)) is not None:
            _refuse(f"{where}/schema{wrong[1]}", wrong[0])
    return ArgumentMatch(kind, operand, optional, loose)


# Keys ---------------------------------------------------------------------------------------------


def _refuse_keys(data: Any) -> None:
    """A SPEC is shared and stored: it must not contain credentials."""
    for place, name, text in _texts(data):
        # An expected argument may have the name of a credential: there only the value decides.
        judged = place[2:3] not in (("expect",), ("vars",)) and place[-1:] != ("description",)
        named = judged and is_secret(name, text) and is_opaque(text)
        if named or next(iter(certain_spans(text)), None) is not None:
            _refuse(
                pointer(place),
                "this looks like a key, and a SPEC must not contain keys. Name the key's "
                "variable in the profile, or write ${NAME} in a header",
            )


def _texts(data: Any) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """(place, name of the member, text) of every text, including object keys."""
    todo: list[tuple[tuple[str | int, ...], str, Any]] = [((), "", data)]
    while todo:
        place, name, value = todo.pop()
        match value:
            case str():
                yield place, name, value
            case Mapping():
                yield from ((place, "", str(key)) for key in value)
                todo += [((*place, key), str(key), item) for key, item in value.items()]
            case list() | tuple():
                todo += [((*place, n), name, item) for n, item in enumerate(value)]


# Kinds --------------------------------------------------------------------------------------------


def _refuse(where: str, what: str) -> NoReturn:
    raise BadInput(f"{where or '/'}: {what if what.endswith('.') else what + '.'}")


def _check_unique(names: Iterable[str], where: str, what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            _refuse(where, f"the {what} {name!r} occurs twice; each must be different")
        seen.add(name)


# The built-in suite: 20 cases in 10 kinds, with scripted models that pass and fail them -----------


@lru_cache(maxsize=1)
def builtin_suite() -> Spec:
    """The SPEC; its tools are all definitions, its models the two scripted ones."""
    return read_spec((_FOLDER / "suite.yaml").read_text("utf-8"))


def suite_scenario() -> str:
    """The scripted models' answers, in the format of the simulator's scenarios."""
    scripts: dict[str, Any] = json.loads((_FOLDER / "scripts.json").read_text("utf-8"))
    scenarios = [
        {"model": model, "prompt": case.prompt, "turns": scripts[case.id][which]}
        for case in builtin_suite().cases
        for which, model in (("right", RIGHT), ("wrong", WRONG))
    ]
    return json.dumps({"scenarios": scenarios})
