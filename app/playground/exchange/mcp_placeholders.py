"""Placeholders in the files of other programs, as `${NAME}`, the one form that is filled in here.

A placeholder that another program fills in means nothing here: it becomes a variable, which the
server's page asks for, and a note names the placeholder and the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from playground.core.servers import VARIABLE
from playground.secrets.config_secrets import secrets_in, variable, variable_name

_PLACE = re.compile(
    r"\$\{\{(?P<expression>[^{}]*)\}\}"
    r"|\$\{(?P<braced>[^{}]*)\}"
    r"|(?<!\$)\{\{\s*\$?(?P<template>[A-Za-z_][\w.-]*)\s*(?:\|[^{}]*)?\}\}"
    r"|(?<![\w$])\{(?P<held>env|file):(?P<held_name>[^{}]+)\}"
    r"|%(?P<windows>[A-Z_][A-Z0-9_]{2,}(?:\([A-Z0-9]+\))?)%"
    r"|%(?P<windows_known>(?i:appdata|localappdata|userprofile|homepath|homedrive|username|temp"
    r"|programdata|programfiles(?:\(x86\))?|systemroot|windir))%"
    r"|\$env:(?P<powershell>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?<![\w$\\])\$(?P<bare>[A-Z_][A-Z0-9_]*)(?!\w)"
    r"|(?<![\w$\\])\$\((?P<command>[^()]+)\)"
    r"|\bop://(?P<vault>[\w.-]+(?:/[\w .-]+)*)"
)
"""Not matched: `%20` and other escapes of URLs, `{id}`, `{{.Names}}` of Go templates."""
_FOR_PEOPLE = re.compile(r"<[A-Za-z][\w.-]*(?: [\w.-]+){0,6}>")
"""What the reader of a README is to replace, like `<your-token>`."""
_HEX_PAIR = re.compile(r"[0-9A-Fa-f]{2}")
_OF_ENVIRONMENT = ("env", "localEnv", "containerEnv", "process.env")
"""Kinds of `${KIND:NAME}` that refer to variables of the environment."""
_SCOPES = ("secrets", "inputs", "env", "vars", "github", "user_config")
"""First words of a dotted placeholder that say where it comes from, and not what it is."""

_OF_SYSTEM = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "LANG", "TERM", "TMPDIR"),
    *("HOST", "HOSTNAME", "EDITOR", "PAGER", "DISPLAY", "MAIL", "TZ"),
)
"""Variables that a system sets: never those for placeholders, such as `<path>`."""

_EDITOR = "An editor"
_CLAUDE = "Claude Desktop"
_PROGRAMS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("workspaceFolder", "workspaceFolderBasename", "workspaceRoot", "userHome", "file"),
            *("fileBasename", "fileDirname", "relativeFile", "cwd", "selectedText", "execPath"),
            *("localWorkspaceFolder", "containerWorkspaceFolder", "config", "command", "input"),
        ),
        _EDITOR,
    ),
    **dict.fromkeys(("extensionPath", "workspacePath"), "Gemini CLI"),
    **dict.fromkeys(
        ("CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "CLAUDE_PROJECT_DIR"), "Claude Code"
    ),
    **dict.fromkeys(("__dirname", "user_config", "DESKTOP", "DOCUMENTS", "DOWNLOADS"), _CLAUDE),
}
"""Who fills in `${NAME}`, `${NAME:…}` and `${NAME.…}`; any other name is a variable."""
_ANOTHER = "Another program"
_YOU = "you"


@dataclass
class Placeholders:
    """The placeholders of the server called `server`. `defaults` are values for those that its file
    describes, by the text in their braces."""

    server: str
    defaults: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    filled: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By placeholder: who fills it in, and its variable here."""

    def to_variables(self, text: str, name: str = "") -> str:
        """`text` with each placeholder as `${NAME}`. `name` is that of the text's own place: a
        variable or a header."""
        in_url = "://" in text

        def replace(match: re.Match[str]) -> str:
            return self._variable(match, name, in_url)

        return _PLACE.sub(replace, text)

    def replace_blanks(self, text: str, name: str = "") -> str:
        """`text` with what a person is to replace as `${NAME}`."""
        if "</" in text:
            return text  # markup

        def replace(match: re.Match[str]) -> str:
            own = VARIABLE.fullmatch(name) and match[0] == text
            return self._add_variable(match[0], _YOU, name if own else variable_name(match[0]))

        return _FOR_PEOPLE.sub(replace, text)

    def sentences(self) -> Iterator[str]:
        """A note for each program that fills some in."""
        by_program: dict[str, dict[str, str]] = {}
        for place, (program, named) in self.filled.items():
            by_program.setdefault(program, {})[place] = named
        for program, places in by_program.items():
            written = ", ".join(places)
            needed = ", ".join(dict.fromkeys(places.values()))
            who = (
                f"Replace {written}."
                if program == _YOU
                else f"{program} fills in {written}; the playground does not."
            )
            yield (
                f"{who} Set {needed} in the environment of the playground, or write the value on "
                "the server's page."
            )

    @property
    def variables(self) -> set[str]:
        """The variables that stand for placeholders of other programs."""
        return {named for _, named in self.filled.values()}

    def _variable(self, match: re.Match[str], name: str, in_url: bool) -> str:
        whole = match[0]
        if match["braced"] is not None:
            return self._replace_braced(whole, match["braced"].strip(), name)
        if match["expression"] is not None:
            return self._add_variable(
                whole, "Continue or a workflow", _last_name(match["expression"])
            )
        if template := match["template"]:
            program = "LibreChat" if template.startswith("LIBRECHAT_") else _ANOTHER
            return self._add_variable(whole, program, _last_name(template))
        if windows := match["windows"] or match["windows_known"]:
            # In a URL %C3BC%… may be escapes.
            if in_url and _HEX_PAIR.match(windows):
                return whole
            return self._add_variable(whole, "Windows", variable_name(windows))
        if match["held"] == "file":
            named = name if VARIABLE.fullmatch(name) else variable_name(self.server, name or "file")
            return self._add_variable(whole, "opencode", named)
        if vault := match["vault"]:
            named = name if VARIABLE.fullmatch(name) else variable_name(vault)
            return self._add_variable(whole, "1Password", named)
        if command := match["command"]:
            words = name if VARIABLE.fullmatch(name) else command
            return self._add_variable(whole, "A shell", variable_name(self.server, words))
        return f"${{{_legal_variable(match['held_name'] or match['powershell'] or match['bare'])}}}"

    def _replace_braced(self, whole: str, inner: str, name: str) -> str:
        """`${NAME}`, `${NAME:-default}`, `${KIND:NAME}` or `${SCOPE.NAME}`."""
        if inner in ("/", "pathSeparator"):
            return "/"
        if not re.search(r"[A-Za-z_]", inner):
            return whole
        word, _, default = inner.partition(":-")
        kind, _, rest = word.partition(":")
        if rest and kind in _OF_ENVIRONMENT:
            return self._with_default(_legal_variable(rest), default, name)
        scope, _, scoped = kind.partition(".")
        program = _PROGRAMS.get(scope, "" if VARIABLE.fullmatch(word) else _ANOTHER)
        if not program:
            return self._with_default(_legal_variable(word), default, name)
        if rest and scope == "input":
            # It may be a key, unless it has a default.
            to_name = variable_name if inner in self.defaults else variable
            named = to_name(self.server, rest)
        elif scoped and scope == "user_config":
            named = variable_name(self.server, scoped)
        else:
            named = _legal_variable(word)
        named = self._own_name(whole, named)
        self._add_variable(whole, program, named)
        return self._with_default(named, default or self.defaults.get(inner, ""), name)

    def _add_variable(self, whole: str, program: str, named: str) -> str:
        named = self._own_name(whole, named)
        self.filled[whole] = program, named
        return f"${{{named}}}"

    def _own_name(self, whole: str, named: str) -> str:
        """`named`, unless a system sets it and the placeholder means something else by it."""
        is_system = named.upper() in _OF_SYSTEM and not re.search(r"\benv\b", whole)
        return variable_name(self.server, named) if is_system else named

    def _with_default(self, named: str, default: str, name: str) -> str:
        if default and secrets_in(default, name or named):
            self.notes.append(f"The default of ${{{named}}} may be a key and was left out.")
            default = ""
        if re.search(r"[{}]", default):
            self.notes.append(f"The default of ${{{named}}} names a variable and was left out.")
            default = ""
        return f"${{{named}:-{default}}}" if default else f"${{{named}}}"


def _legal_variable(name: str) -> str:
    """`name` if it is that of a variable, else a variable for it."""
    return name if VARIABLE.fullmatch(name) else variable_name(name)


def _last_name(expression: str) -> str:
    """The variable for `secrets.TEAM`, `user.id`, `NAME`: without the word for where it is from."""
    words = re.findall(r"[\w-]+", expression.partition("|")[0])
    has_scope = len(words) > 1 and words[0] in _SCOPES
    return _legal_variable("_".join(words[1:] if has_scope else words))
