"""`playground lint`: what each provider would refuse or ignore of the tools in files.

For a reader, equal findings of several tools are one line; --json has every finding.

With --fix the rewrites of `protocols/rewrite` are made in a JSON file, and shown as a diff. The
original file is kept next to it. Rewrites that would still be refused are not written.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import Any

from playground import config
from playground.commands.tool_files import read_tool_file
from playground.core.errors import BadInput
from playground.core.settings import PROTOCOLS
from playground.exchange.schema_dialects import from_openapi_schema
from playground.exchange.text_places import ToolLines
from playground.exchange.tool_entry import UNANSWERED, ImportedTool, ImportedTools
from playground.protocols.lint import WORST, Finding, Fix, findings, tool_group_findings
from playground.protocols.rewrite import apply_rewrite
from playground.protocols.tool_limits import ERRORS
from playground.protocols.vendor_limits import known_providers, protocol_of

MOST_BYTES = 50 * 1024 * 1024
ALL_TOOLS = "*"
"""Denotes all tools of a file in place of a tool's name."""
MOST_NAMED = 3
"""The most tools that a line names besides the first."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_SEVERAL = re.compile(r"''(?:(?:,| and|, and) '')+(?: and 0 more)?")
_PLACE = re.compile(r" at /\S*|, and at [0-9,]+ more places?")
_NAMED = re.compile(r"/(properties|patternProperties|\$defs|definitions)/[^/]*")
_NUMBER = re.compile(r"[0-9][0-9,.]*(?<![.,])")

_SCHEMA = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
_SNAKE = {"parametersJsonSchema": "parameters_json_schema"}
_SPELLINGS: tuple[tuple[int | str | None, tuple[str, str]], ...] = (
    *((indent, (",", ": ")) for indent in (2, 4, "\t")),
    (None, (", ", ": ")),
    (None, (",", ":")),
)


@dataclass(frozen=True)
class LintLine:
    """A finding about a tool of a file; `line` is its place in the file, if known."""

    file: str
    tool: str
    finding: Finding
    line: int | None = None

    def __str__(self) -> str:
        return self.text([self.finding.profile or self.finding.protocol])

    def text(self, providers: Sequence[str]) -> str:
        """The finding in one line, `providers` being all that it holds for."""
        finding = self.finding
        place = f"{self.file}:{self.line}" if self.line else self.file
        names = ", ".join(dict.fromkeys(filter(None, providers)))
        behind = f" [{names}]" if names else ""
        message = " ".join(finding.message.split())
        return f"{place}:{self.tool}:{finding.pointer}: {finding.severity}: {message}{behind}"

    def data(self) -> dict[str, Any]:
        """The row for --json."""
        return {
            "file": self.file,
            "tool": self.tool,
            **asdict(self.finding),
            "line": self.line,
        }


def main(arguments: argparse.Namespace) -> int:
    """0, 1 if a request would be refused or no call can be valid, 2 if a file is not a tool. With
    --json one array: a finding or, with `error`, what could not be read."""
    providers = _providers(arguments.protocols)
    lines: list[LintLine] = []
    failed: list[dict[str, str]] = []
    for path in arguments.files:
        try:
            imported, text = _read(path)
            if arguments.fix:
                change = fix_file(path, imported.tools, providers)
                _tell(path, change)
                imported, text = _read(path) if change.diff else (imported, text)
        except BadInput as error:
            failed.append(_complain({"file": str(path), "error": str(error)}, str(error)))
            continue
        _note(path, imported)
        for tool in imported.tools:
            if tool.tool is None and not tool.refers and tool.runner is None:
                name = tool.name or "a tool"
                what = {"file": str(path), "tool": tool.name, "error": tool.problem}
                failed.append(_complain(what, f"{path}: {name}: {tool.problem}"))
        lines += lint_tools(str(path), imported.tools, providers, text)
    if arguments.json:
        print(json.dumps([*(line.data() for line in lines), *failed], ensure_ascii=False, indent=2))
    else:
        for sentence in group_lines(lines):
            print(sentence)
    if failed:
        return 2
    return 1 if any(line.finding.severity in ERRORS for line in lines) else 0


def _providers(text: str) -> tuple[str, ...]:
    """The protocols and profiles that are named, all protocols if none is."""
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    known = known_providers()
    for name in names:
        if name not in known:
            message = f"--for expects protocols or profiles, not {name!r}. Choose from "
            raise BadInput(f"{message}{', '.join(known)}.")
    return tuple(name for name in known if name in names) or PROTOCOLS


def _read(path: Path) -> tuple[ImportedTools, str]:
    """The tools of a file, and its text. BadInput if it has none."""
    try:
        imported, text = read_tool_file(path, MOST_BYTES)
    except OSError as error:
        why = error.strerror or type(error).__name__
        split = " If it is too large, split it." if error.errno == errno.EFBIG else ""
        raise BadInput(f"Cannot read {path} ({why}); name a readable file.{split}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text. Name a file with tools.") from error
    if imported.problem or not imported.tools:
        why = imported.problem or "It has no tools."
        raise BadInput(f"{path}: {why}")
    if all(tool.runner is not None for tool in imported.tools):
        raise BadInput(f"{path}: It has no tool with a schema. {imported.tools[0].problem}")
    return imported, text


def _complain(what: dict[str, str], message: str) -> dict[str, str]:
    """One sentence on the error stream; `what` is the same for a program."""
    print(f"playground: {' '.join(message.split())}", file=sys.stderr)
    return what


def _note(path: Path, imported: ImportedTools) -> None:
    """Changes and omissions of the import; executors are irrelevant here."""
    for message in imported.notes:
        print(f"{path}: {message}", file=sys.stderr)
    names: dict[str, list[str]] = {}
    for tool in imported.tools:
        if tool.runner is not None:
            print(f"{path}:{tool.name}: Left out. {tool.problem}", file=sys.stderr)
        for message in tool.notes:
            if message != UNANSWERED:
                names.setdefault(message, []).append(tool.name)
    for message, several in names.items():
        print(f"{path}:{several[0]}: {message}{_also_of(several[1:])}", file=sys.stderr)


def lint_tools(
    file: str, imported: Sequence[ImportedTool], providers: Sequence[str], text: str = ""
) -> list[LintLine]:
    """All findings about the tools of one file, in order; those about all of them last."""
    lines: list[LintLine] = []
    places = ToolLines(text, file)
    counts: Counter[str] = Counter()
    for item in imported:
        if item.tool is not None:
            form = item.form if item.protocol else None
            problems = findings(item.tool, providers, form=form, form_protocol=item.protocol)
        elif item.refers:  # the file was read, but no request can contain the tool
            problems = [Finding("refused", item.problem, item.pointer)]
        else:
            problems = []
        name = item.tool.name if item.tool is not None else item.name
        for finding in problems:
            line = places.line(item, finding.pointer, counts[name])
            lines.append(LintLine(file, name, finding, line))
        counts[name] += 1
    tools = [item.tool for item in imported if item.tool is not None]
    together: dict[Finding, None] = {}
    for provider in providers:
        for finding in tool_group_findings(tools, provider):
            # Advice is the same for every protocol: printed once.
            weak = finding.severity == "weak"
            together[replace(finding, protocol="") if weak else finding] = None
    return [*lines, *(LintLine(file, ALL_TOOLS, finding) for finding in together)]


# Findings for a reader --------------------------------------------------------------------------


def group_lines(lines: Sequence[LintLine]) -> list[str]:
    """The findings as text, the worst of each file first. Equal ones of several tools are one line,
    and so are those of several providers.

    Equal are sentences that differ only in names, numbers and places. If a tool has several of
    them, its first is grouped with the first of the others, and so on: no place gets lost.
    """
    merged: dict[LintLine, list[str]] = {}
    for line in lines:
        bare = replace(line, finding=replace(line.finding, protocol="", profile=""))
        merged.setdefault(bare, []).append(line.finding.profile or line.finding.protocol)
    ordinals: Counter[tuple[Any, ...]] = Counter()
    groups: dict[tuple[Any, ...], list[LintLine]] = {}
    for line, providers in merged.items():
        key = (line.file, *_shape(line.finding), tuple(providers))
        ordinal = 0 if line.tool == ALL_TOOLS else ordinals[*key, line.tool]
        ordinals[*key, line.tool] += 1
        groups.setdefault((*key, ordinal, line.tool == ALL_TOOLS), []).append(line)
    files = list(dict.fromkeys(line.file for line in lines))
    ordered = sorted(
        groups.values(),
        key=lambda group: (files.index(group[0].file), WORST.index(group[0].finding.severity)),
    )
    return [group[0].text(merged[group[0]]) + _others(group) for group in ordered]


def _shape(finding: Finding) -> tuple[Any, ...]:
    """What equal findings have in common."""
    message = _NUMBER.sub("0", _PLACE.sub("", _QUOTED.sub("''", finding.message)))
    pointer = _NUMBER.sub("0", _NAMED.sub(r"/\1/*", finding.pointer))
    return finding.severity, _SEVERAL.sub("''", message), pointer, finding.family, finding.source


def _others(group: Sequence[LintLine]) -> str:
    """Names the tools of a group besides the first."""
    if group[0].tool != ALL_TOOLS:
        return _also_of([line.tool for line in group[1:]])
    pairs = [" and ".join(_QUOTED.findall(line.finding.message)) for line in group[1:]]
    return _also_of(pairs, "pairs", "; ")


def _also_of(names: Sequence[str], what: str = "tools", between: str = ", ") -> str:
    if not names:
        return ""
    more = len(names) - MOST_NAMED
    listing = between.join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    return f" Also of {len(names):,} more {what if len(names) > 1 else what[:-1]}: {listing}."


def _tell(path: Path, change: FileFix) -> None:
    """The changes, on the error stream: stdout is for findings."""
    message = [*change.diff, *(f"{path}:{sentence}" for sentence in change.notes)]
    if change.original:
        message.append(f"{path} was rewritten; the original is in {change.original}.")
    elif not change.notes:
        message.append(f"{path}: nothing to rewrite.")
    for line in message:
        print(line, file=sys.stderr)


# --fix ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileFix:
    """`diff` are the lines of the change, () if nothing was changed; `notes` say for each tool what
    was lost or could not be done, each beginning with the tool's name. `kept` is the path of the
    original file's copy."""

    diff: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    original: Path | None = None


def fix_file(path: Path, imported: Sequence[ImportedTool], providers: Sequence[str]) -> FileFix:
    """Rewrites the tools in the file that `providers` would refuse, or that no call can satisfy, if
    a rewrite helps.

    The file is rewritten only if something changed. BadInput if it cannot be written.
    """
    wanted = [(item, _fixes(item, providers)) for item in imported if item.tool is not None]
    wanted = [(item, fixes) for item, fixes in wanted if fixes]
    if not wanted:
        return FileFix()
    try:
        before = config.read_file(path, MOST_BYTES, plain=True).decode("utf-8-sig")
    except OSError as error:
        raise BadInput(
            f"{path} cannot be fixed ({error.strerror}). Name a regular file."
        ) from error
    try:
        whole = json.loads(before)
    except ValueError:
        names = ", ".join(item.name for item, _ in wanted)
        return FileFix(notes=(f"{names}: only JSON files can be fixed. Change this one by hand.",))
    notes: list[str] = []
    for item, fixes in wanted:
        notes += _fix(whole, item, fixes, providers)
    after = _file_text(whole, before)
    if json.loads(before) == whole:
        return FileFix(notes=tuple(notes))
    original_path = _keep(path)
    _replace(path, after)
    lines = unified_diff(
        before.splitlines(), after.splitlines(), str(path), f"{path} (fixed)", lineterm="", n=3
    )
    return FileFix(tuple(lines), tuple(notes), original_path)


def _fixes(item: ImportedTool, providers: Sequence[str]) -> list[Fix]:
    """The rewrites that would help, in the order they are made."""
    assert item.tool is not None
    form = item.form if item.protocol else None
    problems = findings(item.tool, providers, form=form, form_protocol=item.protocol)
    needed = {finding.fix for finding in problems if _is_asked(finding)}
    order: tuple[Fix, ...] = ("rename", "inline", "gemini", "drop", "strict")
    return [fix for fix in order if fix in needed]


def _is_asked(finding: Finding) -> bool:
    """Whether it is refused now, or a ref is dropped; a tool that is not strict is not made so."""
    return finding.severity in ERRORS or (finding.fix == "inline" and finding.severity == "ignored")


def _fix(
    whole: Any, item: ImportedTool, fixes: Sequence[Fix], providers: Sequence[str]
) -> list[str]:
    """Makes the rewrites in `whole` that help; returns notes for the user."""
    place = _holder(whole, item.form)
    if place is None:
        return [f"{item.name}: not found in the file; change it by hand."]
    entry, holder, key = place
    assert item.tool is not None
    before, tool, notes = holder[key], item.tool, []
    protocols = list(dict.fromkeys(map(protocol_of, providers)))
    for fix in fixes:
        change = apply_rewrite(fix, tool.parameters if fix == "gemini" else holder[key], protocols)
        holder[key] = change.parameters
        known = from_openapi_schema(change.parameters) if fix == "gemini" else change.parameters
        tool = replace(tool, parameters=known)
        notes += [f"{item.name}: could not keep: {message}" for message in change.lost]
        notes += [f"{item.name}: Still refused: {message}" for message in change.refused]
        notes += [f"{item.name}: null now means absent at {where}." for where in change.nullable]
    asked = _refusals(item, providers).keys()
    left = _refusals(replace(item, tool=tool, form=entry), providers)
    if asked and asked <= left.keys():
        holder[key] = before
        message = next(iter(left.values()))
        return [f"{item.name}: not rewritten, because it would still be refused: {message}"]
    return notes


def _refusals(item: ImportedTool, providers: Sequence[str]) -> dict[str, str]:
    """The protocols that refuse the tool for its schema, and why; "" if no call can be valid."""
    assert item.tool is not None
    form = item.form if item.protocol else None
    problems = findings(item.tool, providers, form=form, form_protocol=item.protocol)
    return {
        finding.protocol: finding.message
        for finding in reversed(problems)
        if finding.severity in ERRORS and finding.pointer.startswith("/parameters")
    }


def _holder(
    whole: Any, form: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], str] | None:
    """`form` in the file, the object of it that contains the schema, and the member it is under."""
    todo = [whole]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo.extend(value)
        elif isinstance(value, dict):
            if value == form:
                inner = value.get("function")
                holder = inner if isinstance(inner, dict) else value
                for key in _SCHEMA:
                    for name in (key, _SNAKE.get(key, key)):
                        if isinstance(holder.get(name), dict):
                            return value, holder, name
            todo.extend(value.values())
    return None


def _file_text(whole: Any, before: str) -> str:
    """The rewritten file, in its original formatting if that is one of the usual ones."""
    old = json.loads(before)
    for indent, separators in _SPELLINGS:
        if _spelled(old, indent, separators) == before.strip():
            return _spelled(whole, indent, separators) + "\n"
    return _spelled(whole, *_SPELLINGS[0]) + "\n"


def _spelled(value: Any, indent: int | str | None, separators: tuple[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def _keep(path: Path) -> Path:
    """Copies the file next to it, under an unused name, with its permissions."""
    names = (f"{path.name}.orig{number or ''}" for number in count())
    try:
        while True:
            original = path.with_name(next(names))
            try:
                with original.open("xb") as file:
                    file.write(path.read_bytes())
            except FileExistsError:
                continue
            original.chmod(path.stat().st_mode & 0o777)
            return original
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise BadInput(f"Cannot save a copy of {path} ({why}); nothing was changed.") from error


def _replace(path: Path, text: str) -> None:
    """Writes the file atomically, with its permissions."""
    beside = path.with_name(f".{path.name}.new")
    try:
        mode = path.stat().st_mode & 0o777
        beside.write_text(text, encoding="utf-8")
        beside.chmod(mode)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        why = error.strerror or type(error).__name__
        raise BadInput(f"Cannot write {path} ({why}); make it writable.") from error
