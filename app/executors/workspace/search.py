"""list_files and search_files. Patterns run on a linear-time engine: none can hang.

That engine is the one the validator has for `pattern` (Rust's regex): no look-around and no
back-references, https://docs.rs/regex/latest/regex/#syntax
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jsonschema_rs

from app.executors.workspace.folder import MAX_ENTRIES, Entry, Folder
from app.executors.workspace.trouble import Trouble

MAX_LISTED = 1_000
MAX_LINES = 1_000
MAX_LINE = 500
MAX_FILE = 4 * 1024 * 1024
MAX_READ = 200 * 1024 * 1024
"""Bytes of one file, and of all files together, that a search looks at."""


@dataclass(frozen=True)
class Search:
    """`output`: lines, files or count. `around` lines are shown before and after a hit."""

    pattern: str
    path: str = ""
    glob: str = ""
    output: str = "lines"
    around: int = 0
    head_limit: int = 200


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text has a match somewhere. Trouble E11 where it is no pattern."""
    try:
        found = jsonschema_rs.validator_for(
            {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (jsonschema_rs.ValidationError, ValueError):
        said = (
            f"{pattern[:200]!r} is no regular expression that can be used here: check its "
            "brackets; look-around and back-references are not known."
        )
        raise Trouble("E11", said) from None
    return lambda text: bool(found.is_valid(text))


def glob_matcher(glob: str) -> Callable[[str], bool]:
    """`*` and `?` stay within a name, `**` goes on below; without `/` only the name counts."""
    if len(glob) > 500:
        raise Trouble("E11", "A glob has at most 500 characters.")
    pattern = ""
    for piece in re.findall(r"\*\*/|\*\*|\*|\?|.", glob.removeprefix("./"), re.DOTALL):
        match piece:
            case "**/":
                pattern += "(?:.*/)?"
            case "**":
                pattern += ".*"
            case "*":
                pattern += "[^/]*"
            case "?":
                pattern += "[^/]"
            case _:
                pattern += re.escape(piece)
    whole = matcher(f"^(?:{pattern})$")
    if "/" in glob:
        return whole
    return lambda path: whole(path.rpartition("/")[2])


def listed(folder: Folder, path: str, glob: str) -> str:
    """A line for each file and folder, with the size of files."""
    fits = glob_matcher(glob) if glob else None
    told: list[str] = []
    left_out = looked = 0
    for entry in folder.walk(path):
        looked += 1
        if fits is not None and not (entry.kind == "file" and fits(entry.path)):
            continue
        if len(told) < MAX_LISTED:
            told.append(_line(entry))
        else:
            left_out += 1
    if left_out:
        told.append(f"({left_out:,} more; ask for a folder, or with a pattern.)")
    return "\n".join((*told, *_cut_short(looked))) or "(nothing)"


def _line(entry: Entry) -> str:
    match entry.kind:
        case "file":
            return f"{entry.path}  {entry.size:,} bytes"
        case "folder":
            return f"{entry.path}/"
        case kind:
            return f"{entry.path}  ({kind}, not opened)"


def _cut_short(looked: int) -> list[str]:
    if looked < MAX_ENTRIES:
        return []
    return [f"(Only the first {MAX_ENTRIES:,} entries were looked at; name a folder.)"]


def searched(folder: Folder, search: Search, stopped: Callable[[], bool] = lambda: False) -> str:
    """What was found, in the form asked for. `stopped` is asked before each file."""
    fits = glob_matcher(search.glob) if search.glob else None
    hits = matcher(search.pattern)
    told: list[str] = []
    looked = skipped = read = files = 0
    for entry in _files(folder, search.path):
        looked += 1
        if entry.kind != "file" or (fits is not None and not fits(entry.path)):
            continue
        if stopped() or len(told) >= search.head_limit or read > MAX_READ:
            break
        lines = _lines(folder, entry)
        if lines is None:
            skipped += 1
            continue
        read += entry.size
        found = [number for number, line in enumerate(lines) if hits(line)]
        files += bool(found)
        told += _told(search, entry.path, lines, found)
    more = len(told) > search.head_limit
    told = told[: search.head_limit]
    if more or len(told) == search.head_limit:
        told.append(f"(Cut after {search.head_limit:,} lines; narrow the search.)")
    if read > MAX_READ:
        told.append(f"(Only the first {MAX_READ:,} bytes were searched; name a folder.)")
    if skipped:
        told.append(f"({skipped:,} files are no text or too large and were left out.)")
    return "\n".join((*told, *_cut_short(looked))) if files or told else "No match."


def _files(folder: Folder, path: str) -> Iterator[Entry]:
    """A file alone, or all under a folder."""
    try:
        yield from folder.walk(path)
    except Trouble as trouble:
        if trouble.code != "E7":
            raise
        with folder.file(path) as (_, status):
            yield Entry(path, "file", status.st_size, status.st_mtime_ns)


def _lines(folder: Folder, entry: Entry) -> list[str] | None:
    try:
        text = folder.read(entry.path, MAX_FILE)[0].decode("utf-8")
    except (Trouble, UnicodeDecodeError):
        return None
    return None if "\0" in text else text.split("\n")


def _told(search: Search, path: str, lines: list[str], found: list[int]) -> list[str]:
    if not found:
        return []
    match search.output:
        case "files":
            return [path]
        case "count":
            return [f"{path}: {len(found):,}"]
    told: list[str] = []
    last = -1
    hits = set(found)
    for hit in found[:MAX_LINES]:
        first = max(hit - search.around, last + 1)
        if search.around and told and first > last + 1:
            told.append("--")
        for number in range(first, min(hit + search.around, len(lines) - 1) + 1):
            mark = ":" if number in hits else "-"
            told.append(f"{path}{mark}{number + 1}{mark}{lines[number][:MAX_LINE]}")
            last = number
    return told
