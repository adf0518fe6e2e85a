"""Validates values against schemas, and tools in our own format against the rules for tools.

Answers in bounded time whatever the schema: see `schema_checks`. Fetches nothing, opens no file.
docs/contract.md, "Data", documents the format of a tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from playground.core.errors import BadTool
from playground.core.events import Problem
from playground.core.providers import KEY_NAME
from playground.core.tools import (
    FREEFORM,
    NAME,
    NO_PARAMETERS,
    AnsweredBy,
    ByKind,
    IdentityKey,
    Tool,
)
from playground.schema import schema_checks
from playground.schema.describe import cut
from playground.schema.documents import find_fault
from playground.schema.http_parameters import check_parameters
from playground.schema.schema_checks import Place, pointer
from playground.schema.sentences import Explainer, Naming, name_in_arguments
from playground.schema.strict_json import InvalidJSON, json_text, kind_of, parse, read_arguments
from playground.secrets.names import may_name_secret

# The `config` of a tool, by executor.

TIMEOUT_S = (0.1, 3600.0)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "QUERY")
_OTHER_METHOD = re.compile(r"(?!CONNECT$|TRACE$)[A-Z][A-Z_-]{1,30}")
"""Methods of registries and single servers, like COPY. CONNECT and TRACE are about the connection
itself."""

WITH_BODY = ("POST", "PUT", "PATCH")
"""For an HTTP tool without a configured body, the remaining arguments are sent as a JSON body."""

WORKSPACE = (
    *("read_file", "write_file", "edit_file", "list_files", "search_files"),
    *("run_shell", "read_task", "stop_task", "fetch_url"),
)
"""The kinds of workspace tools, by `config.tool`."""

_ABSOLUTE = ("/", "~/")
"""Prefixes of paths that do not depend on the working directory."""

_SERVER = re.compile(r"[A-Za-z0-9_.-]{1,64}")

MOCKED = ("result", "sequence", "cases", "sample")
"""A mock's ways to answer; it has at least one of them."""

MOST_CODE = 100_000

_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(?=[/?]|$)")

URL_PLACE = re.compile(r"\{([A-Za-z0-9_.-]+)\}")
"""A placeholder for an argument in the path or the query of an HTTP tool's URL."""

MOST_URL = 8000
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?")

HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""Names of headers that tools, MCP servers and profiles may set: a token (RFC 9110, 5.6.2)."""

OURS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te")

MAX_PROBLEMS = 50
MAX_DESCRIPTION = 64 * 1024

_EXPLAINED_STEPS = 40_000
"""Above it a value is only found valid or not: listing its errors could take seconds."""

_FIXED_STEPS = 2_000
_FIXED_PROBLEMS = 8
_FIXABLE = {"type", "enum", "const", "anyOf", "oneOf"}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?")


def refuse(sentence: str, where: str) -> NoReturn:
    """Raises BadTool."""
    raise BadTool(sentence, where)


def _check_mock(config: Mapping[str, Any]) -> None:
    if config.get("sample") and "output_schema" not in config:
        refuse(
            "config.sample needs config.output_schema, which describes its value.", "/config/sample"
        )
    _check_output_schema(config)


def _check_output_schema(config: Mapping[str, Any]) -> None:
    if "output_schema" in config and (wrong := schema_checks.fault(config["output_schema"])):
        refuse(wrong[0], "/config/output_schema" + wrong[1])


def _check_python(config: Mapping[str, Any]) -> None:
    if "code" in config:
        _check_code(config)
        return
    holder, dot, member = config["function"].partition(".")
    if not holder.isidentifier() or (dot and not NAME.fullmatch(member)):
        refuse(
            "A Python tool's function must be a plain name, such as get_weather, or a dotted "
            "name, such as toolkit.get_weather.",
            "/config/function",
        )


def _check_code(config: Mapping[str, Any]) -> None:
    if "\0" in config["code"]:
        refuse("config.code contains a NUL character. Remove it.", "/config/code")
    function = config.get("function", "")
    if function and not function.isidentifier():
        refuse(
            "config.function must be the plain name of a function in the code.", "/config/function"
        )


def _check_http(config: Mapping[str, Any]) -> None:
    _check_url(config["url"])
    for name, value in config.get("headers", {}).items():
        _check_header(name, value)
    check_parameters(config.get("parameters", []))
    for number, parameter in enumerate(config.get("parameters", [])):
        _check_parameter(parameter, ("config", "parameters", number))


def _check_parameter(parameter: Mapping[str, Any], where: Place) -> None:
    """What a parameter that is a header, or has a value of its own, may not be."""
    name, value = parameter["name"], parameter.get("value", "")
    if parameter["in"] == "header":
        _check_header_name(name, pointer((*where, "name")))
    _check_keys(value, pointer((*where, "value")))
    if value and may_name_secret(name) and "${" not in value:
        _refuse_secret(name, pointer((*where, "value")))


def _check_url(url: str) -> None:
    if not _URL.match(url):
        refuse("An HTTP tool needs a URL, such as https://api.example.com/{id}.", "/config/url")
    if "${" in url:
        message = (
            "config.url must not contain a key. Send it as ${NAME} in a header, or as the value "
            "of a parameter."
        )
        refuse(message, "/config/url")
    if "#" in url or not url.isprintable() or " " in url or len(url) > MOST_URL:
        message = f"config.url must have no spaces, no #, and at most {MOST_URL:,} characters."
        refuse(message, "/config/url")
    if re.search(r"[{}]", URL_PLACE.sub("", url)):
        refuse(
            "A placeholder in config.url is written {name}, with the argument's name.",
            "/config/url",
        )


def _check_header(name: str, value: Any) -> None:
    where = pointer(("config", "headers", name))
    _check_header_name(name, where)
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        refuse(f"The header {name} must be one line of plain text.", where)
    _check_keys(value, where)
    if may_name_secret(name) and "${" not in value and "{{" not in value:
        _refuse_secret(name, where)


def _check_header_name(name: str, where: str) -> None:
    if not HEADER.fullmatch(name) or name.lower() in OURS:
        refuse(f"{name!r} is not a header that a tool can set.", where)


def _check_keys(value: str, where: str) -> None:
    for variable in re.findall(r"\$\{([^}]*)\}", value):
        if not KEY_NAME.fullmatch(variable):
            message = (
                f"${{{variable}}} does not look like a key. Its name must contain KEY, TOKEN or "
                "SECRET."
            )
            refuse(message, where)


def _refuse_secret(name: str, where: str) -> NoReturn:
    refuse(
        f"Write {name} with the name of a variable, such as ${{MY_API_KEY}}, not with the key.",
        where,
    )


_CONFIGS: ByKind[Callable[[Mapping[str, Any]], None] | None] = {
    "mock": _check_mock,
    "python": _check_python,
    "http": _check_http,
    "person": _check_output_schema,
    "mcp": None,
    "workspace": None,
}
"""What the published schema of a config cannot say."""


def check_config(kind: AnsweredBy, config: Any) -> None:
    """Checks the `config` of a tool that is answered by `kind`; BadTool with the place."""
    fault = find_fault(f"{kind}_config", config, naming=lambda place: pointer(("config", *place)))
    if fault:
        refuse(fault.message, "/config" + fault.pointer)
    if (check := _CONFIGS[kind]) is not None:
        check(config)


# Values against schemas, tools, and calls.


def schema_problems(
    schema: Mapping[str, Any],
    value: Any,
    naming: Naming = name_in_arguments,
    but_missing: Collection[str] = (),
) -> tuple[Problem, ...]:
    """All reasons why `value` does not satisfy `schema`, at most MAX_PROBLEMS; () if it does.
    Missing values at the pointers `but_missing` are not reported.

    Bounded in time and memory; never raises. A schema that cannot be used is one problem.
    """
    validator = schema_checks.cached_validator(IdentityKey(schema))
    if isinstance(validator, tuple):
        return (Problem("schema", f"This tool's schema cannot be used. {validator[0]}"),)
    work = schema_checks.steps(schema, value)
    if work > schema_checks.MAX_STEPS:
        message = (
            "Checking these arguments against this schema would take too long. Check them yourself."
        )
        return (Problem("schema", message),)
    try:
        if validator.is_valid(value):
            return ()
        if work > _EXPLAINED_STEPS and (
            schema_checks.steps(schema, value, _EXPLAINED_STEPS, with_matches=False)
            > _EXPLAINED_STEPS
        ):
            message = "The arguments do not match the schema. They are too large to show where."
            return (Problem("schema", message),)
        errors = list(validator.iter_errors(value))
        if but_missing:
            errors = [error for error in errors if _missing_pointer(error) not in but_missing]
        fixer = validator if work <= _FIXED_STEPS else None
        return _problems(schema, value, errors, fixer, naming)
    except ValueError as error:
        message = f"The arguments could not be checked against the schema: {cut(str(error), 120)}."
        return (Problem("schema", message),)


def _missing_pointer(error: Any) -> str:
    """The pointer of the missing value in this error, "" if none is missing."""
    is_missing = error.kind.name == "required"
    return pointer((*error.instance_path, error.kind.property)) if is_missing else ""


def _problems(
    schema: Mapping[str, Any],
    value: Any,
    errors: list[Any],
    fixer: schema_checks.Validator | None,
    naming: Naming,
) -> tuple[Problem, ...]:
    explainer = Explainer(schema, value, naming=naming)
    problems: dict[Problem, None] = {}  # an ordered set: branches of a schema repeat problems
    tried = 0
    for error in errors:
        if problems and explainer.left < 0:
            return (*problems, _too_many_problem(len(problems)))
        for reason in explainer.reasons(error):
            problem = reason.problem
            if fixer is not None and tried < _FIXED_PROBLEMS and reason.error.kind.name in _FIXABLE:
                tried += 1
                problem = replace(problem, fix=_fix(value, reason.error, error, fixer))
            problems[problem] = None
            if len(problems) > MAX_PROBLEMS:
                return (*list(problems)[:MAX_PROBLEMS], _too_many_problem(MAX_PROBLEMS))
    if errors and not problems:  # a value with an error is never taken for a valid one
        return (Problem("schema", "The arguments do not match the schema, for an unknown reason."),)
    return tuple(problems)


def _too_many_problem(number: int) -> Problem:
    return Problem("schema", f"There are more problems than the {number} shown.")


def _fix(root: Any, error: Any, whole: Any, validator: schema_checks.Validator) -> str:
    """The value of `error` in another JSON type, or an option that differs only in case, if that
    leaves no error where `whole` is; or "". `whole` is the error that `error` is a part of."""
    place, scope, value = list(error.instance_path), list(whole.instance_path), error.instance
    other = _option(value, error.kind.options) if error.kind.name == "enum" else ""
    text = _other_form(value) or other
    if not text:
        return ""
    try:
        candidate = _replace_at(root, place, json.loads(text))
    except (KeyError, IndexError, TypeError, AttributeError):
        return ""  # jsonschema-rs omits empty keys from the place
    errors = validator.iter_errors(candidate)
    hit = any(list(error.instance_path)[: len(scope)] == scope for error in errors)
    return "" if hit else text


def _option(value: Any, options: Any) -> str:
    """The one option equal to the text `value` except for case, as JSON text."""
    if not isinstance(value, str):
        return ""
    texts = [option for option in options if isinstance(option, str)]
    alike = [option for option in texts if option.casefold() == value.casefold()]
    return json_text(alike[0]) if len(alike) == 1 else ""


def _other_form(value: Any) -> str:
    """The one lossless conversion of a value to another type, as JSON text; nothing is guessed.

    A float is not converted to a string: its original digits are no longer known here.
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
            except InvalidJSON:
                return ""
            return value
    return ""


def _replace_at(root: Any, place: list[str | int], value: Any) -> Any:
    """A copy of `root` with `value` at `place`; unaffected parts are shared."""
    if not place:
        return value
    copy = root.copy()
    copy[place[0]] = _replace_at(root[place[0]], place[1:], value)
    return copy


def parse_tool_json(text: str, what: str = "A tool") -> dict[str, Any]:
    """The JSON object of a tool as typed; BadTool with line and column otherwise. `what` names the
    object in the sentence."""
    try:
        value = parse(text)
    except InvalidJSON as error:
        raise BadTool(f"{error} Correct it there.", line=error.line) from None
    if not isinstance(value, dict):
        raise BadTool(f"{what} must be a JSON object, not {kind_of(value)}. Begin with {{.")
    return value


def check_tool(tool_data: Mapping[str, Any]) -> Tool:
    """The tool that `tool_data` describes in our own format.

    BadTool otherwise: a sentence that says what to do, and the pointer of the place.
    """
    if isinstance(tool_data, Mapping):
        _check_text(tool_data.get("description"))
        tool_data = {key: value for key, value in tool_data.items() if key != "$schema"}
        tool_data.setdefault("config", {})
    fault = find_fault("tool", tool_data, naming=lambda place: pointer(place) or "A tool")
    if fault:
        refuse(fault.message, fault.pointer)
    free = tool_data.get("format") is not None
    parameters = tool_data.get("parameters", FREEFORM if free else NO_PARAMETERS)
    if free and parameters != FREEFORM:
        refuse("A free-form tool expects text. Remove its parameters.", "/parameters")
    if (wrong := schema_checks.fault(parameters)) is not None:
        refuse(wrong[0], "/parameters" + wrong[1])
    if parameters.get("type") != "object":
        refuse('Arguments must be an object. Give the schema "type": "object".', "/parameters/type")
    check_config(tool_data.get("answered_by", "mock"), tool_data["config"])
    timeout_s = float(tool_data.get("timeout_s", 30))
    return Tool(**{**tool_data, "parameters": parameters, "timeout_s": timeout_s})


def _check_text(description: Any) -> None:
    if isinstance(description, str) and any("\ud800" <= char <= "\udfff" for char in description):
        refuse("The description contains half of a surrogate pair. Remove it.", "/description")


# All problems of a call: its arguments, its tool, its schema. Decides nothing.


def check_call(tool: Tool | None, name: str, raw: str) -> tuple[Problem, ...]:
    """The problems of a call of `name` with the arguments `raw`; `tool` is None if unknown."""
    arguments = read_arguments(raw)
    if tool is None:
        message = (
            f"There is no tool named {cut(json_text(name), 80)}" if name else "The call has no name"
        )
        unknown = Problem("unknown_tool", f"{message}; answer by hand or deny.")
        return (unknown, *arguments.problems)
    if arguments.value is None:
        return arguments.problems
    return (*arguments.problems, *schema_problems(tool.parameters, arguments.value))
