"""What a tool's `config` must hold, by who answers it: docs/contract.md, "Data"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from app.core.errors import BadTool
from app.core.tools import SHIPPED
from app.schema import soundness
from app.schema.keywords import pointer

TIMEOUT_S = (0.1, 3600.0)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

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


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _only(config: Mapping[str, Any], kind: str, *known: str) -> None:
    for name in config:
        if name not in known:
            what = f"config of a {kind} tool has no {name!r}; it has {', '.join(known)}."
            bad(what, pointer(("config", str(name))))


def _check_mock(config: Mapping[str, Any]) -> None:
    _only(config, "mock", "result", "is_error", "delay_s")
    if "result" not in config:
        said = "A mock tool needs config.result: a text with {{ args.name }} in it, or any JSON."
        bad(said, "/config/result")
    if not isinstance(config.get("is_error", False), bool):
        bad("config.is_error is true or false.", "/config/is_error")
    delay_s = config.get("delay_s", 0)
    if not is_number(delay_s) or not 0 <= delay_s <= TIMEOUT_S[1]:
        bad(f"config.delay_s is from 0 to {TIMEOUT_S[1]:g} seconds.", "/config/delay_s")


def _check_python(config: Mapping[str, Any]) -> None:
    if "code" in config:
        said = "Code in the tool cannot be run by this version; put it in a file and name that."
        bad(said, "/config/code")
    _only(config, "python", "file", "function", "interpreter")
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
        said = "config.interpreter is an absolute path, like /home/you/.venv/bin/python."
        bad(said, "/config/interpreter")


def _check_http(config: Mapping[str, Any]) -> None:
    _only(config, "http", "method", "url", "headers", "body", "private", "hosts")
    if config.get("method", "GET") not in METHODS:
        bad(f"config.method is one of {', '.join(METHODS)}.", "/config/method")
    url = config.get("url")
    if not isinstance(url, str) or not re.match(r"https?://[^/{}\s]+", url):
        bad("An http tool needs config.url, like https://api.example.com/{id}.", "/config/url")


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
    if "output_schema" in config and (wrong := soundness.fault(config["output_schema"])):
        bad(wrong[0], "/config/output_schema" + wrong[1])


CONFIGS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "mock": _check_mock,
    "python": _check_python,
    "http": _check_http,
    "mcp": _check_mcp,
    "person": _check_person,
    "workspace": _check_workspace,
}
