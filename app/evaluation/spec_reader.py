"""Reads a batch from YAML, JSON or JSON data; each error names the place (a JSON pointer).

Nothing is guessed: an unknown word is refused with a list of the known ones, and keys are refused,
too. The built-in suite is the SPEC that comes with the program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from app.core.errors import BadInput, BadTool
from app.core.tools import Tool
from app.evaluation.spec import (
    EXPECTATIONS,
    LONGEST_TEXT,
    MATCHES,
    PLACE,
    SETTINGS,
    VERSION,
    ArgumentMatch,
    Case,
    Expectation,
    ExpectationKind,
    ModelChoice,
    Spec,
    ToolEntry,
    Variant,
)
from app.exchange.parsers import Unreadable, json_value, yaml_value
from app.schema import schema_checks
from app.schema.schema_checks import is_number, pointer
from app.schema.strict_json import kind_of
from app.schema.validate import CONFIGS, check_tool
from app.secrets.detection import certain_spans
from app.secrets.names import is_opaque, is_secret

MOST_CASES = 20_000
MOST_RUNS = 1_000_000
MOST_REPETITIONS = 10_000
MOST_MODELS = 64
MOST_VARIANTS = 64
MOST_TOOLS = 1_000
MOST_EXPECTED = 200
"""Maximum number of expectations of one case."""
MOST_FILLED = 256_000_000
"""Characters of the filled prompts and system prompts of all runs, repetitions left out."""
"""Maximum length of a prompt in characters."""

_ID = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_TOP = (
    *("playground_batch", "name", "seed", "max_cost", "defaults", "tools", "models", "variants"),
    "cases",
)
_CASE = (
    *("id", "prompt", "vars", "expect", "system", "tools", "settings", "answers", "category"),
    "min_pass",
)


def read_spec(text: str) -> Spec:
    """The batch in a text, as JSON (comments are ignored) or YAML; BadInput otherwise."""
    return spec_from_data(parse_spec(text))


def parse_spec(text: str) -> Any:
    """The value of a text as JSON or YAML; BadInput otherwise."""
    text = text.removeprefix("\ufeff")
    try:
        return json_value(text)[0] if text.lstrip()[:1] in ("{", "[") else yaml_value(text)
    except Unreadable as error:
        raise BadInput(f"The SPEC cannot be read. {error}") from None


def spec_from_data(data: Any, *, allow: Iterable[str] = ()) -> Spec:
    """The batch in JSON data; BadInput otherwise. `allow` comes from the command line: a SPEC
    cannot set it for itself."""
    with schema_checks.one_document():
        spec = _spec(data, allow)
    _check_filled(spec)
    return spec


def _spec(data: Any, allow: Iterable[str]) -> Spec:
    top = _object(data, "", "a SPEC")
    if "playground_batch" not in top:
        _refuse("", f"this is no SPEC of a batch: it begins with playground_batch: {VERSION}")
    if top["playground_batch"] != VERSION or isinstance(top["playground_batch"], bool):
        _refuse("/playground_batch", f"this version reads {VERSION} alone")
    if "allow" in top:
        _refuse("/allow", "a file cannot allow its own tools; say --allow NAME when you run it")
    _only(top, "", _TOP)
    _refuse_keys(top)
    defaults = _object(top.get("defaults", {}), "/defaults")
    _only(defaults, "/defaults", ("repetitions", "min_pass", "system", *SETTINGS))
    spec = Spec(
        cases=_cases(top.get("cases")),
        name=_text(top.get("name", ""), "/name", 200),
        seed=_whole(top.get("seed", 0), "/seed", 0, 2**63 - 1),
        repetitions=_whole(
            defaults.get("repetitions", 1), "/defaults/repetitions", 1, MOST_REPETITIONS
        ),
        min_pass=_share(defaults.get("min_pass", 1.0), "/defaults/min_pass"),
        system=_text(defaults.get("system", ""), "/defaults/system"),
        settings=_settings(defaults, "/defaults"),
        tools=_tools(top.get("tools", []), "/tools"),
        models=_models(top.get("models", ["simulator"])),
        variants=_variants(top.get("variants", [{"name": "default"}])),
        max_cost=_amount(top.get("max_cost", 0), "/max_cost"),
        allow=tuple(allow),
    )
    if spec.runs > MOST_RUNS:
        _refuse("", f"these are {spec.runs:,} runs; {MOST_RUNS:,} at most make one batch")
    return spec


# Its parts ----------------------------------------------------------------------------------------


def _cases(value: Any) -> tuple[Case, ...]:
    several = _list(value, "/cases", "at least one case, {id, prompt, expect}")
    if not several:
        _refuse("/cases", "there is no case; give at least one, {id, prompt, expect}")
    if len(several) > MOST_CASES:
        _refuse("/cases", f"these are {len(several):,} cases; {MOST_CASES:,} at most")
    cases = tuple(_case(item, f"/cases/{place}") for place, item in enumerate(several))
    _each_once((case.id for case in cases), "/cases", "id")
    return cases


def _case(value: Any, where: str) -> Case:
    data = _object(value, where, "a case")
    _only(data, where, _CASE)
    for needed in ("id", "prompt"):
        if needed not in data:
            _refuse(where, f"a case needs {needed!r}")
    prompt = _text(data["prompt"], f"{where}/prompt")
    if not prompt.strip():
        _refuse(f"{where}/prompt", "the prompt is empty; say what the model should do")
    expected = _list(data.get("expect", []), f"{where}/expect", "expectations")
    if len(expected) > MOST_EXPECTED:
        _refuse(f"{where}/expect", f"a case has at most {MOST_EXPECTED} expectations")
    settings = _object(data.get("settings", {}), f"{where}/settings")
    _only(settings, f"{where}/settings", SETTINGS)
    case = Case(
        id=_name(data["id"], f"{where}/id"),
        prompt=prompt,
        vars=_object(data.get("vars", {}), f"{where}/vars"),
        expect=tuple(
            read_expectation(item, f"{where}/expect/{place}") for place, item in enumerate(expected)
        ),
        system=_text(data["system"], f"{where}/system") if "system" in data else None,
        tools=_tools(data["tools"], f"{where}/tools") if "tools" in data else None,
        settings=settings,
        answers=_answers(data.get("answers", {}), f"{where}/answers"),
        category=_text(data.get("category", ""), f"{where}/category", 200),
        min_pass=_share(data["min_pass"], f"{where}/min_pass") if "min_pass" in data else None,
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
                    _refuse(f"/cases/{number}/{name}", f"{what}; {LONGEST_TEXT:,} at most")
                together += max(lengths[text], len(text)) * len(spec.models)
        if together > MOST_FILLED:
            what = "filled with their vars, the texts of all runs up to this case have"
            _refuse(
                f"/cases/{number}",
                f"{what} {together:,} characters; {MOST_FILLED:,} at most. Divide the batch",
            )


def _answers(value: Any, where: str) -> dict[str, dict[str, Any]]:
    """The config of a mock by tool; a text is short for {"result": TEXT}."""
    answers: dict[str, dict[str, Any]] = {}
    for name, answer in _object(value, where).items():
        here = where + pointer((name,))
        if isinstance(answer, str):
            answer = {"result": answer}
        if not isinstance(answer, Mapping):
            wanted = 'a text, or an object as a mock has it: {"result": ...} holds any JSON'
            _refuse(here, f"an answer is {wanted}, not {kind_of(answer)}")
        try:
            CONFIGS["mock"](answer)
        except BadTool as error:
            _refuse(here + error.pointer.removeprefix("/config"), str(error))
        answers[name] = dict(answer)
    return answers


def _models(value: Any) -> tuple[ModelChoice, ...]:
    several = _list(value, "/models", "profiles, or {profile, model}")
    if not 0 < len(several) <= MOST_MODELS:
        _refuse("/models", f"a batch has 1 to {MOST_MODELS} models, not {len(several)}")
    chosen = [_model(item, f"/models/{place}") for place, item in enumerate(several)]
    labels = [model.label or model.model or model.profile for model in chosen]
    models = tuple(
        ModelChoice(model.profile, model.model, model.label or _full(model, labels, label))
        for model, label in zip(chosen, labels, strict=True)
    )
    _each_once((model.label for model in models), "/models", "label")
    return models


def _full(model: ModelChoice, labels: list[str], label: str) -> str:
    """The model's own name, with its profile if another entry has the same."""
    return label if labels.count(label) == 1 else f"{model.profile}/{model.model}".rstrip("/")


def _model(value: Any, where: str) -> ModelChoice:
    if isinstance(value, str):
        return ModelChoice(_name(value, where))
    data = _object(value, where, "a model is a profile's name, or {profile, model}; it")
    _only(data, where, ("profile", "model", "label"))
    if "profile" not in data:
        _refuse(where, "a model needs a profile, the name of a provider")
    return ModelChoice(
        _name(data["profile"], f"{where}/profile"),
        _text(data.get("model", ""), f"{where}/model", 200),
        _text(data.get("label", ""), f"{where}/label", 200),
    )


def _variants(value: Any) -> tuple[Variant, ...]:
    """An object by name, or a list of objects with a name; the first is the baseline."""
    if isinstance(value, Mapping):
        named = [(name, item, pointer(("variants", name))) for name, item in value.items()]
    else:
        wanted = "variants by name"
        several = enumerate(_list(value, "/variants", wanted))
        named = [(None, item, f"/variants/{place}") for place, item in several]
    if not 0 < len(named) <= MOST_VARIANTS:
        _refuse("/variants", f"a batch has 1 to {MOST_VARIANTS} variants, not {len(named)}")
    variants = tuple(_variant(name, item, where) for name, item, where in named)
    _each_once((variant.name for variant in variants), "/variants", "name")
    return variants


def _variant(name: str | None, value: Any, where: str) -> Variant:
    data = _object({} if value is None else value, where, "a variant")
    own = ("system", "descriptions", "tools", *SETTINGS)
    _only(data, where, own if name is not None else ("name", *own))
    if name is None and "name" not in data:
        _refuse(where, "a variant in a list needs a name")
    texts = _object(data.get("descriptions", {}), f"{where}/descriptions")
    return Variant(
        _name(data["name"] if name is None else name, where),
        _settings(data, where),
        _text(data["system"], f"{where}/system") if "system" in data else None,
        {
            tool: _text(text, f"{where}/descriptions{pointer((tool,))}")
            for tool, text in texts.items()
        },
        _tools(data["tools"], f"{where}/tools") if "tools" in data else None,
    )


def _settings(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    settings = {name: data[name] for name in SETTINGS if name in data}
    for name in ("params", "extra"):
        if name in settings:
            _object(settings[name], f"{where}/{name}")
    return settings


def _tools(value: Any, where: str) -> tuple[ToolEntry, ...]:
    several = _list(value, where, "tools: names, groups, files or definitions")
    if len(several) > MOST_TOOLS:
        _refuse(where, f"these are {len(several):,} tools; {MOST_TOOLS:,} at most")
    return tuple(_tool(item, f"{where}/{place}") for place, item in enumerate(several))


def _tool(value: Any, where: str) -> ToolEntry:
    if isinstance(value, str):
        return _name(value, where)
    try:
        tool: Tool = check_tool(_object(value, where, "a tool is a name or a definition; it"))
    except BadTool as error:
        _refuse(where + error.pointer, str(error))
    return tool


# Expectations -------------------------------------------------------------------------------------

_BESIDE: Mapping[str, str] = {
    "called": "arguments",
    "count": "of",
    "text_contains": "ignore_case",
}


def read_expectation(value: Any, where: str) -> Expectation:
    """The expectation in JSON data; otherwise BadInput, which names `where`."""
    data = _object(value, where, "an expectation is an object like {called: NAME}; it")
    kinds = [kind for kind in EXPECTATIONS if kind in data]
    if len(kinds) != 1:
        what = "says nothing that is known" if not kinds else f"says {' and '.join(kinds)} at once"
        _refuse(where, f"this expectation {what}; it is one of {', '.join(EXPECTATIONS)}")
    kind = kinds[0]
    _only(data, where, (kind, *filter(None, (_BESIDE.get(kind),))))
    arguments = None
    if "arguments" in data:
        arguments = _match(data["arguments"], f"{where}/arguments")
    return Expectation(
        kind,
        _expected(kind, data[kind], f"{where}/{kind}"),
        arguments,
        _name(data["of"], f"{where}/of") if "of" in data else "",
        _truth(data.get("ignore_case", False), f"{where}/ignore_case"),
    )


def _expected(kind: ExpectationKind, value: Any, where: str) -> Any:
    match kind:
        case "called" | "never" | "first" | "finish_reason":
            return _name(value, where)
        case "order":
            names = _list(value, where, "names of tools in their order")
            if len(names) < 2:
                _refuse(where, "an order has at least two names of tools")
            return tuple(_name(name, f"{where}/{place}") for place, name in enumerate(names))
        case "count" | "max_tokens":
            return _whole(value, where, 0, 1_000_000_000)
        case "no_call":
            return _truth(value, where)
        case "text_contains":
            text = _text(value, where)
            if not text:
                _refuse(where, "every text holds the empty text; name one that it must hold")
            return text
        case "max_seconds" | "max_cost":
            return _amount(value, where)


def _match(value: Any, where: str) -> ArgumentMatch:
    data = _object(value, where, "arguments are an object like {subset: {city: Oslo}}; it")
    kinds = [kind for kind in MATCHES if kind in data]
    if len(kinds) != 1:
        _refuse(where, f"arguments are tested by one of {', '.join(MATCHES)}: {{subset: ...}}")
    kind = kinds[0]
    _only(data, where, (kind, *(("optional",) if kind == "any_of" else ()), "loose"))
    loose = _truth(data.get("loose", False), f"{where}/loose")
    optional: tuple[str, ...] = ()
    operand, here = data[kind], f"{where}/{kind}"
    if kind == "any_of":
        _check_options(operand, here)
        listed = _list(data.get("optional", []), f"{where}/optional", "names of parameters")
        optional = tuple(_name(name, f"{where}/optional/{n}") for n, name in enumerate(listed))
        for name in optional:
            if not isinstance(operand, Mapping) or name not in operand:
                _refuse(f"{where}/optional", f"any_of names no parameter {name!r}")
    elif kind == "schema":
        if loose:
            _refuse(f"{where}/loose", "a schema compares texts exactly; leave loose out")
        if (wrong := schema_checks.fault(operand)) is not None:
            _refuse(here + wrong[1], wrong[0])
    else:
        _object(operand, here)
    return ArgumentMatch(kind, operand, optional, loose)


def _check_options(value: Any, where: str) -> None:
    wanted = "a list of objects, or an object of lists: {city: [Oslo, Bergen]}"
    if not isinstance(value, Mapping | list) or not value:
        _refuse(where, f"any_of is {wanted}")
    members = value.items() if isinstance(value, Mapping) else enumerate(value)
    for step, item in members:
        fits = isinstance(item, list if isinstance(value, Mapping) else Mapping)
        if not fits or (isinstance(item, list) and not item):
            _refuse(where + pointer((step,)), f"any_of is {wanted}")


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
                "this looks like a key, and a SPEC holds none: a profile names the variable that "
                "holds it, and a header is written ${NAME}",
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


def _only(data: Mapping[str, Any], where: str, known: Iterable[str]) -> None:
    for name in data:
        if name not in known:
            _refuse(where + pointer((name,)), f"there is no such word here; use {', '.join(known)}")


def _each_once(names: Iterable[str], where: str, what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            _refuse(where, f"the {what} {name!r} is there twice; each must differ")
        seen.add(name)


def _object(value: Any, where: str, what: str = "this") -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(where, f"{what} must be an object, not {kind_of(value)}")
    return value


def _list(value: Any, where: str, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        _refuse(where, f"this must be a list of {what}")
    return list(value)


def _text(value: Any, where: str, most: int = LONGEST_TEXT) -> str:
    if not isinstance(value, str):
        _refuse(where, f"this must be a text, not {kind_of(value)}")
    if len(value) > most:
        _refuse(where, f"this text has more than {most:,} characters")
    return value


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value) or not value.strip():
        _refuse(where, "this must be a text of 1 to 200 characters on one line")
    return value


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        _refuse(where, f"this must be true or false, not {kind_of(value)}")
    return value


def _whole(value: Any, where: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        _refuse(where, f"this must be a whole number from {least} to {most:,}")
    return value


def _amount(value: Any, where: str) -> float:
    if not is_number(value) or not isfinite(value) or value < 0:
        _refuse(where, "this must be a number from 0")
    return float(value)


def _share(value: Any, where: str) -> float:
    if not is_number(value) or not 0 < value <= 1:
        _refuse(where, "this must be a share above 0 and up to 1: 0.8 is four of five")
    return float(value)


# The built-in suite: 20 cases in 10 kinds, with scripted models that pass and fail them -----------


BUILTIN = "builtin"
"""Its name for `playground batch`."""

RIGHT, WRONG = "suite-right", "suite-wrong"
"""The scripted models: the first passes all cases, the second none."""

_FOLDER = Path(__file__).parent / "suite"


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
