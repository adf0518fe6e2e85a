"""`playground lint --fix`: the rewrites of `schema/rewrite` made in a file of JSON, as a diff."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from app.core.errors import BadInput
from app.formats.found import Found
from app.schema.lint import Finding, Fix, findings
from app.schema.rewrite import STRICT_PROTOCOLS, Rewrite, gemini_ready, inlined, strict_ready

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
    what could not be kept or done, each beginning with the tool's name.
    """

    diff: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


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
    _replace(path, after)
    lines = unified_diff(
        before.splitlines(), after.splitlines(), str(path), f"{path} (fixed)", lineterm="", n=3
    )
    return Fixed(tuple(lines), tuple(told))


def _fixes(one: Found, protocols: Sequence[str]) -> list[Fix]:
    """The rewrites that would help, in the order they are made."""
    assert one.tool is not None
    form = one.form if one.protocol else None
    told = findings(one.tool, protocols, form=form, form_protocol=one.protocol)
    needed = {finding.fix for finding in told if _is_asked(finding)}
    order: tuple[Fix, ...] = ("inline", "gemini", "strict")
    return [fix for fix in order if fix in needed]


def _is_asked(finding: Finding) -> bool:
    """What is refused now; a tool that is not strict is not made so. Refs that are dropped, too."""
    return finding.severity == "refused" or (
        finding.fix == "inline" and finding.severity == "ignored"
    )


def _fix(whole: Any, one: Found, fixes: Sequence[Fix], protocols: Sequence[str]) -> list[str]:
    """Make the rewrites in `whole`; what is to be told of them."""
    place = _holder(whole, one.form)
    if place is None:
        return [f"{one.name}: not found again in the file; change it by hand."]
    holder, key = place
    schema, told = holder[key], []
    for fix in fixes:
        made = _made(fix, schema if fix != "gemini" else _plain(one), protocols)
        schema = made.parameters
        told += [f"{one.name}: could not keep: {said}" for said in made.lost]
        told += [f"{one.name}: null now stands for absent at {where}." for where in made.nullable]
    holder[key] = schema
    return told


def _made(fix: Fix, schema: Mapping[str, Any], protocols: Sequence[str]) -> Rewrite:
    match fix:
        case "inline":
            return inlined(schema)
        case "gemini":
            return gemini_ready(schema)
    strict = [name for name in protocols if name in STRICT_PROTOCOLS]
    return strict_ready(schema, strict[0] if len(strict) == 1 else "")


def _plain(one: Found) -> Mapping[str, Any]:
    """The schema as JSON Schema, whatever words the file has it in."""
    assert one.tool is not None
    return one.tool.parameters


def _holder(whole: Any, form: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """The object of the file that holds the schema of `form`, and the member it is under."""
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
                            return holder, name
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
