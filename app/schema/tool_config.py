"""Checks a tool's `config` by who answers its calls: docs/contract.md, "Data"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from app.core.arguments import TESTS
from app.core.errors import BadTool
from app.core.providers import KEY_NAME
from app.core.tools import SHIPPED
from app.schema import schema_checks
from app.schema.schema_checks import is_number, pointer
from app.secrets.names import may_name_secret

TIMEOUT_S = (0.1, 3600.0)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
WITH_BODY = ("POST", "PUT", "PATCH")
"""Of an HTTP tool that says nothing of a body, what is left of the arguments is one as JSON."""

WORKSPACE = (
    *("read_file", "write_file", "edit_file", "list_files", "search_files"),
    *("run_shell", "read_task", "stop_task", "fetch_url"),
)
"""What a workspace tool may be, by `config.tool`."""

_ABSOLUTE = ("/", "~/")
"""How paths begin that mean the same wherever the program is started."""

_SERVER = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def bad(sentence: str, where: str) -> NoReturn:
    """Raise BadTool."""
    raise BadTool(sentence, where)


def _only(config: Mapping[str, Any], kind: str, *known: str) -> None:
    for name in config:
        if name not in known:
            what = f"config of a {kind} tool has no {name!r}; it has {', '.join(known)}."
            bad(what, pointer(("config", str(name))))


MOCKED = ("result", "sequence", "cases", "sample")
"""What a mock can answer with; it has at least one of them."""


def _check_mock(config: Mapping[str, Any]) -> None:
    _only(config, "mock", *MOCKED, "is_error", "cycle", "output_schema", *_MOCK_TRAITS)
    if not any(name in config for name in MOCKED):
        message = "A mock tool needs config.result: a text with {{ args.name }} in it, or any JSON."
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
        # An object that has one of our words alone is a test; any other is a value to equal.
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
    for name, what in (("file", "the path of a .py file"), ("function", "a function in it")):
        value = config.get(name)
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            bad(f"A python tool needs config.{name}: {what}.", f"/config/{name}")
    if not config["file"].startswith((*_ABSOLUTE, SHIPPED)):
        bad("config.file is an absolute path, like /home/you/tools.py.", "/config/file")
    if not config["function"].isidentifier():
        bad("config.function is the bare name of a function.", "/config/function")
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
    _only(config, "http", "method", "url", "headers", "body", "private", "hosts")
    if config.get("method", "GET") not in METHODS:
        bad(f"config.method is one of {', '.join(METHODS)}.", "/config/method")
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


def _check_url(url: Any) -> None:
    if not isinstance(url, str) or not _URL.match(url):
        bad("An http tool needs config.url, like https://api.example.com/{id}.", "/config/url")
    if "${" in url:
        message = "A key does not belong into config.url; send it in a header, as ${NAME}."
        bad(message, "/config/url")
    if "#" in url or not url.isprintable() or " " in url or len(url) > MOST_URL:
        message = f"config.url has no spaces, no # and at most {MOST_URL:,} characters."
        bad(message, "/config/url")
    if re.search(r"[{}]", URL_PLACE.sub("", url)):
        bad("A place in config.url is written {name}, by the argument's name.", "/config/url")


def _check_header(name: str, value: Any) -> None:
    where = pointer(("config", "headers", name))
    if not HEADER.fullmatch(name) or name.lower() in _OURS:
        bad(f"{name!r} is not a header that a tool can set.", where)
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        bad(f"The header {name} is plain text on one line.", where)
    for variable in re.findall(r"\$\{([^}]*)\}", value):
        if not KEY_NAME.fullmatch(variable):
            message = (
                f"${{{variable}}} does not look like a key: its name has KEY, TOKEN or SECRET."
            )
            bad(message, where)
    if may_name_secret(name) and "${" not in value and "{{" not in value:
        message = (
            f"Write {name} with the name of a variable, like ${{MY_API_KEY}}, not with the key."
        )
        bad(message, where)


_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(?=[/?]|$)")
URL_PLACE = re.compile(r"\{([A-Za-z0-9_.-]+)\}")
"""An argument in the path or the query of an HTTP tool's URL."""

MOST_URL = 8000
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""Names of headers that tools, MCP servers and profiles may set: a token (RFC 9110, 5.6.2)."""
_OURS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te")


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
