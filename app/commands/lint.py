"""`playground lint`: what each provider would refuse or ignore of the tools in files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from app.commands.lint_fix import Fixed, fixed
from app.core.errors import BadInput
from app.core.settings import PROTOCOLS
from app.exchange.entry import UNANSWERED
from app.exchange.found import Brought, Found
from app.exchange.tool_import import read
from app.protocols.lint import Finding, findings, of_group

MOST_BYTES = 50 * 1024 * 1024
ALL_TOOLS = "*"
"""Stands for a tool's name where all tools of a file are meant."""


@dataclass(frozen=True)
class Line:
    """A finding about a tool of a file."""

    file: str
    tool: str
    finding: Finding

    def __str__(self) -> str:
        one = self.finding
        behind = f" [{one.protocol}]" if one.protocol else ""
        said = " ".join(one.message.split())
        return f"{self.file}:{self.tool}:{one.pointer}: {one.severity}: {said}{behind}"


def main(arguments: argparse.Namespace) -> int:
    """0, 1 where a request would be refused, 2 where a file is no tool. With --json one array: a
    finding or, with `error`, what could not be read."""
    protocols = _protocols(arguments.protocols)
    lines: list[Line] = []
    failed: list[dict[str, str]] = []
    for path in arguments.files:
        try:
            brought = _read(path)
            if arguments.fix:
                change = fixed(path, brought.tools, protocols)
                _tell(path, change)
                brought = _read(path) if change.diff else brought
        except BadInput as error:
            failed.append(_complain({"file": str(path), "error": str(error)}, str(error)))
            continue
        _note(path, brought)
        for tool in brought.tools:
            if tool.tool is None and not tool.refers:
                name = tool.name or "a tool"
                what = {"file": str(path), "tool": tool.name, "error": tool.problem}
                failed.append(_complain(what, f"{path}: {name}: {tool.problem}"))
        lines += judged(str(path), brought.tools, protocols)
    if arguments.json:
        told = [{"file": line.file, "tool": line.tool, **asdict(line.finding)} for line in lines]
        print(json.dumps([*told, *failed], ensure_ascii=False, indent=2))
    else:
        for line in lines:
            print(line)
    if failed:
        return 2
    return 1 if any(line.finding.severity == "refused" for line in lines) else 0


def _protocols(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PROTOCOLS:
            known = ", ".join(PROTOCOLS)
            raise BadInput(f"--for takes protocols, not {name!r}: choose among {known}.")
    return tuple(name for name in PROTOCOLS if name in names or not names)


def _read(path: Path) -> Brought:
    """What a file holds. BadInput where it holds no tools."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path} is larger than {MOST_BYTES // 2**20} MB; split it.")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise BadInput(f"Cannot read {path} ({why}); name a readable file.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is no text in UTF-8; name a file of tools.") from error
    brought = read(text, str(path))
    if brought.problem or not brought.tools:
        why = brought.problem or "It holds no tools."
        raise BadInput(f"{path}: {why}")
    return brought


def _complain(what: dict[str, str], said: str) -> dict[str, str]:
    """One sentence on the error stream; `what` is the same for a program."""
    print(f"playground: {' '.join(said.split())}", file=sys.stderr)
    return what


def _note(path: Path, brought: Brought) -> None:
    """What was changed or left out to read it; who answers a tool is no matter here."""
    for said in brought.notes:
        print(f"{path}: {said}", file=sys.stderr)
    for tool in brought.tools:
        for said in tool.notes:
            if said != UNANSWERED:
                print(f"{path}:{tool.name}: {said}", file=sys.stderr)


def judged(file: str, found: Sequence[Found], protocols: Sequence[str]) -> list[Line]:
    """All lines about the tools of one file, in their order; what is about all of them last."""
    lines = []
    for one in found:
        if one.tool is None:
            if one.refers:  # the file was read, and no request can be made of the tool
                refused = Finding("refused", one.problem, one.pointer)
                lines.append(Line(file, one.name, refused))
            continue
        form = one.form if one.protocol else None
        told = findings(one.tool, protocols, form=form, form_protocol=one.protocol)
        lines += [Line(file, one.tool.name, finding) for finding in told]
    tools = [one.tool for one in found if one.tool is not None]
    together: dict[Finding, None] = {}
    for protocol in protocols:
        for finding in of_group(tools, protocol):
            # Advice is the same for every protocol: said once.
            weak = finding.severity == "weak"
            together[replace(finding, protocol="") if weak else finding] = None
    return [*lines, *(Line(file, ALL_TOOLS, finding) for finding in together)]


def _tell(path: Path, change: Fixed) -> None:
    """What was changed, on the error stream: the other one is for findings."""
    said = [*change.diff, *(f"{path}:{one}" for one in change.told)]
    if change.kept:
        said.append(f"{path} was written anew; as it was it is kept in {change.kept}.")
    elif not change.told:
        said.append(f"{path}: nothing to rewrite.")
    for line in said:
        print(line, file=sys.stderr)
