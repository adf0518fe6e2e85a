"""`playground lint --fix`: the rewrites of `protocols/rewrite` made in a file of JSON, as a diff.

The file as it was is kept beside it. What would be refused all the same is not written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import Any

from app.core.errors import BadInput
from app.exchange.dialect import json_schema
from app.exchange.found import Found
from app.protocols.lint import Finding, Fix, findings
from app.protocols.rewrite import (
    STRICT_PROTOCOLS,
    Rewrite,
    gemini_ready,
    inline_refs,
    strict_ready,
    without_refused,
)

_SCHEMA = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
_SNAKE = {"parametersJsonSchema": "parameters_json_schema"}
_SPELLINGS: tuple[tuple[int | str | None, tuple[str, str]], ...] = (
    *((indent, (",", ": ")) for indent in (2, 4, "\t")),
    (None, (", ", ": ")),
    (None, (",", ":")),
)


@dataclass(frozen=True)
class Fixed:
    """`diff` are the lines of the change, () where nothing was changed; `told` says of each tool
    what could not be kept or done, each beginning with the tool's name. `kept` is where the file
    as it was stands now.
    """

    diff: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    kept: Path | None = None


def fixed(path: Path, found: Sequence[Found], protocols: Sequence[str]) -> Fixed:
    """Rewrite the tools in the file that `protocols` would refuse, where a rewrite helps.

    The file is written anew only if something changed. BadInput where it cannot be written.
    """
    wanted = [(one, _fixes(one, protocols)) for one in found if one.tool is not None]
    wanted = [(one, fixes) for one, fixes in wanted if fixes]
    if not wanted:
        return Fixed()
    before = path.read_bytes().decode("utf-8-sig")
    try:
        whole = json.loads(before)
    except ValueError:
        names = ", ".join(one.name for one, _ in wanted)
        return Fixed(told=(f"{names}: only files of JSON are fixed; change this one by hand.",))
    told: list[str] = []
    for one, fixes in wanted:
        told += _fix(whole, one, fixes, protocols)
    after = _written(whole, before)
    if json.loads(before) == whole:
        return Fixed(told=tuple(told))
    kept = _keep(path)
    _replace(path, after)
    lines = unified_diff(
        before.splitlines(), after.splitlines(), str(path), f"{path} (fixed)", lineterm="", n=3
    )
    return Fixed(tuple(lines), tuple(told), kept)


def _fixes(one: Found, protocols: Sequence[str]) -> list[Fix]:
    """The rewrites that would help, in the order they are made."""
    assert one.tool is not None
    form = one.form if one.protocol else None
    told = findings(one.tool, protocols, form=form, form_protocol=one.protocol)
    needed = {finding.fix for finding in told if _is_asked(finding)}
    order: tuple[Fix, ...] = ("inline", "gemini", "drop", "strict")
    return [fix for fix in order if fix in needed]


def _is_asked(finding: Finding) -> bool:
    """What is refused now; a tool that is not strict is not made so. Refs that are dropped, too."""
    return finding.severity == "refused" or (
        finding.fix == "inline" and finding.severity == "ignored"
    )


def _fix(whole: Any, one: Found, fixes: Sequence[Fix], protocols: Sequence[str]) -> list[str]:
    """Make the rewrites in `whole` that help; what is to be told of them."""
    place = _holder(whole, one.form)
    if place is None:
        return [f"{one.name}: not found again in the file; change it by hand."]
    entry, holder, key = place
    assert one.tool is not None
    before, tool, told = holder[key], one.tool, []
    for fix in fixes:
        made = _made(fix, tool.parameters if fix == "gemini" else holder[key], protocols)
        holder[key] = made.parameters
        known = json_schema(made.parameters) if fix == "gemini" else made.parameters
        tool = replace(tool, parameters=known)
        told += [f"{one.name}: {_worded(said)}" for said in made.lost]
        told += [f"{one.name}: null now stands for absent at {where}." for where in made.nullable]
    asked = _refusals(one, protocols).keys()
    left = _refusals(replace(one, tool=tool, form=entry), protocols)
    if asked and asked <= left.keys():
        holder[key] = before
        said = next(iter(left.values()))
        return [f"{one.name}: not rewritten, it would be refused all the same: {said}"]
    return told


def _worded(said: str) -> str:
    """A sentence of Rewrite.lost; that it is refused still is no loss of meaning."""
    return said if said.startswith("Still refused: ") else f"could not keep: {said}"


def _refusals(one: Found, protocols: Sequence[str]) -> dict[str, str]:
    """Which protocols refuse the tool for its schema, and why."""
    assert one.tool is not None
    form = one.form if one.protocol else None
    told = findings(one.tool, protocols, form=form, form_protocol=one.protocol)
    return {
        finding.protocol: finding.message
        for finding in reversed(told)
        if finding.severity == "refused" and finding.pointer.startswith("/parameters")
    }


def _made(fix: Fix, schema: Mapping[str, Any], protocols: Sequence[str]) -> Rewrite:
    match fix:
        case "inline":
            return inline_refs(schema)
        case "gemini":
            return gemini_ready(schema)
        case "drop":
            return without_refused(schema, protocols)
    strict = [name for name in protocols if name in STRICT_PROTOCOLS]
    return strict_ready(schema, strict[0] if len(strict) == 1 else "")


def _holder(
    whole: Any, form: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], str] | None:
    """`form` in the file, the object of it that holds the schema, and the member it is under."""
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


def _written(whole: Any, before: str) -> str:
    """The file anew, spelled as it was where that is one of the usual ways."""
    old = json.loads(before)
    for indent, separators in _SPELLINGS:
        if _spelled(old, indent, separators) == before.strip():
            return _spelled(whole, indent, separators) + "\n"
    return _spelled(whole, *_SPELLINGS[0]) + "\n"


def _spelled(value: Any, indent: int | str | None, separators: tuple[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def _keep(path: Path) -> Path:
    """A copy of the file beside it, under a name that is free, with the rights the file has."""
    names = (f"{path.name}.orig{number or ''}" for number in count())
    try:
        while True:
            kept = path.with_name(next(names))
            try:
                with kept.open("xb") as file:
                    file.write(path.read_bytes())
            except FileExistsError:
                continue
            kept.chmod(path.stat().st_mode & 0o777)
            return kept
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise BadInput(f"Cannot keep a copy of {path} ({why}); nothing was changed.") from error


def _replace(path: Path, text: str) -> None:
    """Write all of it or nothing, with the rights the file had."""
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
