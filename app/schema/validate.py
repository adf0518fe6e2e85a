"""Values against schemas, and tools in our own form against the rules for tools.

Answers in bounded time whatever the schema: see `soundness` and `cost`. Fetches nothing, opens no
file. The form of a tool is in docs/contract.md, "Data".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from app.core.errors import BadTool
from app.core.events import Problem
from app.core.tools import ANSWERED_BY, FREEFORM, NAME, Tool
from app.schema import cost, soundness
from app.schema.arguments import json_text, kind_of
from app.schema.configs import CONFIGS, TIMEOUT_S, bad, is_number
from app.schema.keywords import pointer
from app.schema.sentences import cut, problems_of
from app.schema.strict import Unsound, parse

MAX_PROBLEMS = 50
MAX_DESCRIPTION = 64 * 1024

_EXPLAINED_STEPS = 40_000
"""Above it a value is only found valid or not: listing its errors could take seconds."""

_FIXED_STEPS = 2_000
_FIXED_PROBLEMS = 8
_FIXABLE = {"type", "enum", "const", "anyOf", "oneOf"}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?")


def schema_problems(schema: Mapping[str, Any], value: Any) -> tuple[Problem, ...]:
    """All that keeps `value` from satisfying `schema`, at most MAX_PROBLEMS; () if nothing.

    Bounded in time and memory; never raises. A schema that cannot be used is one problem.
    """
    if (wrong := soundness.fault(schema)) is not None:
        return (Problem("schema", f"This tool's schema cannot be used. {wrong[0]}"),)
    work = cost.steps(schema, value)
    if work > cost.MAX_STEPS:
        said = "Checking these arguments against this schema would take too long; read them."
        return (Problem("schema", said),)
    validator = soundness.validator(schema)
    try:
        if validator.is_valid(value):
            return ()
        if work > _EXPLAINED_STEPS:
            said = "The schema is not satisfied; there is too much here to say where."
            return (Problem("schema", said),)
        errors = list(validator.iter_errors(value))
    except (ValueError, RecursionError) as error:
        said = f"The arguments could not be checked against the schema: {cut(str(error), 120)}."
        return (Problem("schema", said),)
    return _told(schema, value, errors, validator if work <= _FIXED_STEPS else None)


def _told(
    schema: Mapping[str, Any], value: Any, errors: list[Any], fixer: soundness.Validator | None
) -> tuple[Problem, ...]:
    problems: dict[Problem, None] = {}  # an ordered set: branches of a schema say the same twice
    for number, error in enumerate(errors):
        found = list(problems_of(error, schema))
        if fixer is not None and number < _FIXED_PROBLEMS and error.kind.name in _FIXABLE:
            fix = _fix(value, error, fixer)
            found = [replace(problem, fix=fix) for problem in found]
        problems.update(dict.fromkeys(found))
        if len(problems) > MAX_PROBLEMS:
            more = f"There are more problems than the {MAX_PROBLEMS} shown."
            return (*list(problems)[:MAX_PROBLEMS], Problem("schema", more))
    return tuple(problems)


def _fix(root: Any, error: Any, validator: soundness.Validator) -> str:
    """The same value in another JSON type, or an option that differs in capital letters alone,
    if that satisfies the schema there; or ""."""
    place, value = list(error.instance_path), error.instance
    other = _option(value, error.kind.options) if error.kind.name == "enum" else ""
    text = _other_form(value) or other
    if not text:
        return ""
    try:
        changed = _replaced(root, place, json.loads(text))
    except (KeyError, IndexError, TypeError, AttributeError):
        return ""  # jsonschema-rs leaves keys that are empty out of the place it tells
    errors = validator.iter_errors(changed)
    hit = any(list(error.instance_path)[: len(place)] == place for error in errors)
    return "" if hit else text


def _option(value: Any, options: Any) -> str:
    """The one option that is the text `value` but for small and capital letters, as JSON text."""
    if not isinstance(value, str):
        return ""
    texts = [option for option in options if isinstance(option, str)]
    alike = [option for option in texts if option.casefold() == value.casefold()]
    return json_text(alike[0]) if len(alike) == 1 else ""


def _other_form(value: Any) -> str:
    """The one lossless reading of a value in another type, as JSON text; nothing is guessed.

    A float is not made a string: how its digits were written is no longer known here.
    """
    match value:
        case bool() | None:
            return ""
        case int():
            return json_text(str(value))
        case str() if value in ("true", "false"):
            return value
        case str() if _INTEGER.fullmatch(value) or _DECIMAL.fullmatch(value):
            return value
        case str() if value[:1] in ("{", "["):
            try:
                parse(value)
            except Unsound:
                return ""
            return value
    return ""


def _replaced(root: Any, place: list[str | int], value: Any) -> Any:
    """A copy of `root` with `value` at `place`; what lies beside the way is shared."""
    if not place:
        return value
    copy = root.copy()
    copy[place[0]] = _replaced(root[place[0]], place[1:], value)
    return copy


def parse_tool_json(text: str) -> dict[str, Any]:
    """The JSON object of a tool as typed; BadTool with line and column where it is none."""
    try:
        value = parse(text)
    except Unsound as error:
        raise BadTool(f"{error} Correct it there.") from None
    if not isinstance(value, dict):
        raise BadTool(f"A tool is a JSON object, not {kind_of(value)}; begin with {{.")
    return value


def check_tool(tool_data: Mapping[str, Any]) -> Tool:
    """The tool that `tool_data` describes in our own form.

    BadTool otherwise: a sentence that says what to do, and the pointer of the place.
    """
    if not isinstance(tool_data, Mapping):
        bad('A tool is a JSON object with at least a "name".', "")
    known = [item.name for item in fields(Tool)]
    for name in tool_data:
        if name not in known:
            bad(f"A tool has no {name!r}; it has {', '.join(known)}.", pointer((str(name),)))
    _check_name(tool_data.get("name"))
    _check_description(tool_data.get("description", ""))
    form = tool_data.get("format")
    if form is not None:
        _check_format(form, tool_data.get("parameters", FREEFORM))
    parameters = tool_data.get("parameters", Tool("x").parameters if form is None else FREEFORM)
    _check_parameters(parameters)
    kind = tool_data.get("answered_by", "mock")
    _check_kind(kind)
    config = tool_data.get("config", {})
    if not isinstance(config, Mapping):
        bad(f"config is an object of what a {kind} tool needs, not {kind_of(config)}.", "/config")
    CONFIGS[kind](config)
    for flag in ("strict", "parallel_safe", "eager", "read_only"):
        if not isinstance(tool_data.get(flag, False), bool):
            bad(f"{flag} is true or false.", f"/{flag}")
    extra = tool_data.get("extra", {})
    if not isinstance(extra, Mapping) or not all(
        isinstance(one, Mapping) for one in extra.values()
    ):
        bad('extra holds objects by protocol: {"anthropic": {"defer_loading": true}}.', "/extra")
    timeout_s = tool_data.get("timeout_s", 30.0)
    low, high = TIMEOUT_S
    if not is_number(timeout_s) or not low <= timeout_s <= high:
        bad(f"timeout_s is a number of seconds from {low} to {high:g}.", "/timeout_s")
    if not isinstance(tool_data.get("group", ""), str) or len(tool_data.get("group", "")) > 100:
        bad("group is a short text of at most 100 characters.", "/group")
    return Tool(**{**tool_data, "parameters": parameters, "timeout_s": float(timeout_s)})


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        bad(
            "A tool needs a name of 1 to 128 letters, digits, underscores, dots or hyphens; "
            '"." and ".." are none.',
            "/name",
        )


def _check_description(description: Any) -> None:
    if not isinstance(description, str):
        bad("description is a text that tells the model when to call the tool.", "/description")
    if len(description) > MAX_DESCRIPTION:
        bad(f"The description has more than {MAX_DESCRIPTION:,} characters.", "/description")
    if any("\ud800" <= char <= "\udfff" for char in description):
        bad("The description holds half of a surrogate pair; remove it.", "/description")


def _check_parameters(parameters: Any) -> None:
    if (wrong := soundness.fault(parameters)) is not None:
        bad(wrong[0], "/parameters" + wrong[1])
    if parameters.get("type") != "object":
        bad('Arguments are an object: give the schema "type": "object".', "/parameters/type")


def _check_format(form: Any, parameters: Any) -> None:
    """OpenAI's own forms, flat as its Responses API has them."""
    match form:
        case {"type": "text", **rest} if not rest:
            pass
        case {"type": "grammar", "syntax": "lark" | "regex", "definition": str(), **rest}:
            if rest:
                bad("format of a grammar has type, syntax and definition.", "/format")
        case _:
            bad(
                'format is {"type": "text"}, or {"type": "grammar", "syntax": "lark" or "regex", '
                '"definition": ...}; leave it out for a tool with JSON arguments.',
                "/format",
            )
    if parameters != FREEFORM:
        bad("A free-form tool takes text: leave its parameters out.", "/parameters")


def _check_kind(kind: Any) -> None:
    if kind not in ANSWERED_BY:
        known = ", ".join(ANSWERED_BY)
        bad(f"answered_by {json_text(kind)} is not known; use one of {known}.", "/answered_by")
