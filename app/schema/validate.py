"""Validates values against schemas, and tools in our own format against the rules for tools.

Answers in bounded time whatever the schema: see `schema_checks`. Fetches nothing, opens no file.
docs/contract.md, "Data", documents the format of a tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import Any, NoReturn

from app.core.arguments import TESTS
from app.core.errors import BadTool
from app.core.events import Problem
from app.core.providers import KEY_NAME
from app.core.tools import ANSWERED_BY, FREEFORM, NAME, SHIPPED, Same, Tool
from app.schema import schema_checks
from app.schema.describe import cut
from app.schema.http_parameters import check_parameters
from app.schema.schema_checks import Place, is_number, pointer
from app.schema.sentences import Explainer, Naming, name_in_arguments
from app.schema.strict_json import InvalidJSON, json_text, kind_of, parse, read_arguments
from app.secrets.names import may_name_secret

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


def bad(sentence: str, where: str) -> NoReturn:
    """Raises BadTool."""
    raise BadTool(sentence, where)


def _only(config: Mapping[str, Any], kind: str, *known: str) -> None:
    for name in config:
        if name not in known:
            what = f"config of a {kind} tool has no {name!r}; it has {', '.join(known)}."
            bad(what, pointer(("config", str(name))))


MOCKED = ("result", "sequence", "cases", "sample")
"""A mock's ways to answer; it has at least one of them."""


def _check_mock(config: Mapping[str, Any]) -> None:
    _only(config, "mock", *MOCKED, "is_error", "cycle", "output_schema", *_MOCK_TRAITS)
    if not any(name in config for name in MOCKED):
        message = "A mock tool needs a result: a text with {{ args.name }} in it, or any JSON."
        bad(message, "/config/result")
    for name in ("is_error", "cycle", "sample"):
        _check_flag(config, name)
    for name, most in _MOCK_NUMBERS.items():
        number = config.get(name, 0)
        if not is_number(number) or not 0 <= number <= most:
            what = f"{most:g} seconds" if name == "delay_s" else "1: the share of calls that fail"
            bad(f"config.{name} is from 0 to {what}.", f"/config/{name}")
    if not isinstance(config.get("failure", ""), str):
        bad("config.failure is the text of a call that fails.", "/config/failure")
    for name in ("sequence", "cases"):
        if name in config:
            _check_results(config[name], name)
    if config.get("sample") and "output_schema" not in config:
        bad("config.sample needs config.output_schema, to make a value from.", "/config/sample")
    _check_output_schema(config)


_MOCK_NUMBERS: Mapping[str, float] = {"delay_s": TIMEOUT_S[1], "failure_rate": 1}
_MOCK_TRAITS = (*_MOCK_NUMBERS, "failure")


def _check_results(results: Any, name: str) -> None:
    where: tuple[str | int, ...] = ("config", name)
    if not isinstance(results, list) or not 0 < len(results) <= 1000:
        bad(f'config.{name} is a list of {{"result": ...}}, 1 to 1000 of them.', pointer(where))
    for place, result in enumerate(results):
        here = (*where, place)
        keys = ("when", "result", "is_error") if name == "cases" else ("result", "is_error")
        if not isinstance(result, Mapping) or "result" not in result or set(result) - set(keys):
            bad(f"Each of config.{name} has {', '.join(keys)}, and nothing else.", pointer(here))
        if not isinstance(result.get("is_error", False), bool):
            bad("is_error is true or false.", pointer((*here, "is_error")))
        if name == "cases":
            _check_when(result.get("when"), (*here, "when"))


def _check_when(when: Any, where: tuple[str | int, ...]) -> None:
    if not isinstance(when, Mapping):
        bad('when is an object, like {"/city": "Oslo"}; {} fits every call.', pointer(where))
    for place, test in when.items():
        here = pointer((*where, place))
        if place and not place.startswith("/"):
            bad(f"{place!r} is not a JSON pointer; write it like /city.", here)
        # An object whose only key is one of our words is a test; any other is a value to equal.
        if not isinstance(test, Mapping) or len(test) != 1 or next(iter(test)) not in TESTS:
            continue
        [(word, operand)] = test.items()
        if word in ("prefix", "glob") and not isinstance(operand, str):
            bad(f"The {word} of a test is a text.", here)
        if word == "one_of" and not isinstance(operand, list):
            bad("The one_of of a test is a list of values.", here)


def _check_flag(config: Mapping[str, Any], name: str) -> None:
    if not isinstance(config.get(name, False), bool):
        bad(f"config.{name} is true or false.", f"/config/{name}")


def _check_output_schema(config: Mapping[str, Any]) -> None:
    if "output_schema" in config and (wrong := schema_checks.fault(config["output_schema"])):
        bad(wrong[0], "/config/output_schema" + wrong[1])


def _check_python(config: Mapping[str, Any]) -> None:
    if "code" in config:
        _check_code(config)
        return
    _only(config, "python", "file", "function", "interpreter", "keep")
    _check_flag(config, "keep")
    for name, what in (("file", "the path of a .py file"), ("function", "the name of one in it")):
        value = config.get(name)
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            bad(f"A Python tool needs a {name}: enter {what}.", f"/config/{name}")
    if not config["file"].startswith((*_ABSOLUTE, SHIPPED)):
        bad(
            "A Python tool's file is an absolute path, like /home/you/tools.py.",
            "/config/file",
        )
    holder, dot, member = config["function"].partition(".")
    if not holder.isidentifier() or (dot and not NAME.fullmatch(member)):
        bad(
            "A Python tool's function is a bare name, like get_weather, or the name of what holds "
            "the tool, a dot and the tool's name, like toolkit.get_weather.",
            "/config/function",
        )
    interpreter = config.get("interpreter", "")
    if not isinstance(interpreter, str) or "\0" in interpreter:
        bad("config.interpreter is the path of a Python, or left out.", "/config/interpreter")
    if interpreter and not interpreter.startswith(_ABSOLUTE):
        message = "config.interpreter is an absolute path, like /home/you/.venv/bin/python."
        bad(message, "/config/interpreter")


def _check_code(config: Mapping[str, Any]) -> None:
    _only(config, "python", "code", "function")
    code = config["code"]
    if not isinstance(code, str) or not _FUNCTION.search(code) or "\0" in code:
        bad("config.code is Python with a function in it: def NAME(...): ...", "/config/code")
    if len(code) > MOST_CODE:
        message = f"config.code has at most {MOST_CODE:,} characters; put more into a file."
        bad(message, "/config/code")
    function = config.get("function", "")
    if not isinstance(function, str) or (function and not function.isidentifier()):
        bad("config.function is the bare name of a function in the code.", "/config/function")


_FUNCTION = re.compile(r"^(?:async +)?def +\w", re.M)
MOST_CODE = 100_000


def _check_http(config: Mapping[str, Any]) -> None:
    _only(config, "http", "method", "url", "parameters", "headers", "body", "private", "hosts")
    method = config.get("method", "GET")
    if not isinstance(method, str) or not _OTHER_METHOD.fullmatch(method):
        sentence = f"config.method is one of {', '.join(METHODS)}, or another in capitals."
        bad(sentence, "/config/method")
    _check_url(config.get("url"))
    _check_flag(config, "private")
    hosts = config.get("hosts", [])
    if not isinstance(hosts, list) or not all(
        isinstance(host, str) and _HOST.fullmatch(host) for host in hosts
    ):
        message = "config.hosts is a list of names, like api.example.com or *.example.com."
        bad(message, "/config/hosts")
    headers = config.get("headers", {})
    if not isinstance(headers, Mapping):
        bad('config.headers is an object, like {"Accept": "text/csv"}.', "/config/headers")
    for name, value in headers.items():
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


def _check_url(url: Any) -> None:
    if not isinstance(url, str) or not _URL.match(url):
        bad("An HTTP tool needs a URL, like https://api.example.com/{id}.", "/config/url")
    if "${" in url:
        message = (
            "A key does not belong into config.url; send it as ${NAME} in a header, or as the "
            "value of a parameter."
        )
        bad(message, "/config/url")
    if "#" in url or not url.isprintable() or " " in url or len(url) > MOST_URL:
        message = f"config.url has no spaces, no # and at most {MOST_URL:,} characters."
        bad(message, "/config/url")
    if re.search(r"[{}]", URL_PLACE.sub("", url)):
        bad("A place in config.url is written {name}, by the argument's name.", "/config/url")


def _check_header(name: str, value: Any) -> None:
    where = pointer(("config", "headers", name))
    _check_header_name(name, where)
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        bad(f"The header {name} is plain text on one line.", where)
    _check_keys(value, where)
    if may_name_secret(name) and "${" not in value and "{{" not in value:
        _refuse_secret(name, where)


def _check_header_name(name: str, where: str) -> None:
    if not HEADER.fullmatch(name) or name.lower() in OURS:
        bad(f"{name!r} is not a header that a tool can set.", where)


def _check_keys(value: str, where: str) -> None:
    for variable in re.findall(r"\$\{([^}]*)\}", value):
        if not KEY_NAME.fullmatch(variable):
            message = (
                f"${{{variable}}} does not look like a key: its name has KEY, TOKEN or SECRET."
            )
            bad(message, where)


def _refuse_secret(name: str, where: str) -> NoReturn:
    bad(f"Write {name} with the name of a variable, like ${{MY_API_KEY}}, not with the key.", where)


_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(?=[/?]|$)")
URL_PLACE = re.compile(r"\{([A-Za-z0-9_.-]+)\}")
"""A placeholder for an argument in the path or the query of an HTTP tool's URL."""

MOST_URL = 8000
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""Names of headers that tools, MCP servers and profiles may set: a token (RFC 9110, 5.6.2)."""
OURS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te")


def _check_mcp(config: Mapping[str, Any]) -> None:
    _only(config, "mcp", "server", "tool", "annotations", "output_schema")
    server, tool = config.get("server"), config.get("tool")
    if not isinstance(server, str) or not _SERVER.fullmatch(server):
        bad("An mcp tool needs config.server, the name of one of your servers.", "/config/server")
    if not isinstance(tool, str) or not tool:
        bad("An mcp tool needs config.tool, its name on that server.", "/config/tool")


def _check_workspace(config: Mapping[str, Any]) -> None:
    _only(config, "workspace", "tool")
    if config.get("tool") not in WORKSPACE:
        bad(f"config.tool is one of {', '.join(WORKSPACE)}.", "/config/tool")


def _check_person(config: Mapping[str, Any]) -> None:
    _only(config, "person", "output_schema")
    _check_output_schema(config)


CONFIGS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "mock": _check_mock,
    "python": _check_python,
    "http": _check_http,
    "mcp": _check_mcp,
    "person": _check_person,
    "workspace": _check_workspace,
}


# Values against schemas, tools, and calls.

MAX_PROBLEMS = 50
MAX_DESCRIPTION = 64 * 1024

_EXPLAINED_STEPS = 40_000
"""Above it a value is only found valid or not: listing its errors could take seconds."""

_FIXED_STEPS = 2_000
_FIXED_PROBLEMS = 8
_FIXABLE = {"type", "enum", "const", "anyOf", "oneOf"}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?")


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
    validator = schema_checks.usable(Same(schema))
    if isinstance(validator, tuple):
        return (Problem("schema", f"This tool's schema cannot be used. {validator[0]}"),)
    work = schema_checks.steps(schema, value)
    if work > schema_checks.MAX_STEPS:
        message = "Checking these arguments against this schema would take too long; read them."
        return (Problem("schema", message),)
    try:
        if validator.is_valid(value):
            return ()
        if work > _EXPLAINED_STEPS and (
            schema_checks.steps(schema, value, _EXPLAINED_STEPS, with_matches=False)
            > _EXPLAINED_STEPS
        ):
            message = "The schema is not satisfied; there is too much here to say where."
            return (Problem("schema", message),)
        errors = list(validator.iter_errors(value))
        if but_missing:
            errors = [error for error in errors if _missing(error) not in but_missing]
        fixer = validator if work <= _FIXED_STEPS else None
        return _problems(schema, value, errors, fixer, naming)
    except (ValueError, RecursionError) as error:
        message = f"The arguments could not be checked against the schema: {cut(str(error), 120)}."
        return (Problem("schema", message),)


def _missing(error: Any) -> str:
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
            return (*problems, _more_than(len(problems)))
        for reason in explainer.reasons(error):
            problem = reason.problem
            if fixer is not None and tried < _FIXED_PROBLEMS and reason.error.kind.name in _FIXABLE:
                tried += 1
                problem = replace(problem, fix=_fix(value, reason.error, error, fixer))
            problems[problem] = None
            if len(problems) > MAX_PROBLEMS:
                return (*list(problems)[:MAX_PROBLEMS], _more_than(MAX_PROBLEMS))
    if errors and not problems:  # a value with an error is never taken for a valid one
        return (Problem("schema", "The schema is not satisfied; no reason is known."),)
    return tuple(problems)


def _more_than(number: int) -> Problem:
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
        raise BadTool(f"{what} is a JSON object, not {kind_of(value)}; begin with {{.")
    return value


def check_tool(tool_data: Mapping[str, Any]) -> Tool:
    """The tool that `tool_data` describes in our own format.

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
        isinstance(value, Mapping) for value in extra.values()
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
    if (wrong := schema_checks.fault(parameters)) is not None:
        bad(wrong[0], "/parameters" + wrong[1])
    if parameters.get("type") != "object":
        bad('Arguments are an object: give the schema "type": "object".', "/parameters/type")


def _check_format(form: Any, parameters: Any) -> None:
    """OpenAI's own formats, flat as in its Responses API."""
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
        bad("A free-form tool expects text: leave its parameters out.", "/parameters")


def _check_kind(kind: Any) -> None:
    if kind not in ANSWERED_BY:
        known = ", ".join(ANSWERED_BY)
        bad(f"answered_by {json_text(kind)} is not known; use one of {known}.", "/answered_by")


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
