"""write_file and edit_file: what was there is known and kept, what changed is told as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from app.executors.workspace.history import MAX_FILE, History
from app.executors.workspace.read import text_of
from app.executors.workspace.trouble import Trouble

AROUND = 3
MAX_DIFFED = 600
"""Lines that changed beyond which they are counted and not compared: comparing is quadratic."""

MAX_DIFF = 6_000
"""Characters of a diff in a result."""


def write(history: History, path: str, content: str, by: str, at_ms: int) -> str:
    """Make or replace a file; one that is there must be known."""
    after = _bytes(path, content)
    before: bytes | None = None
    if history.files.exists(path):
        before, status = history.files.read(path, MAX_FILE)
        history.check_known(path, status, before)
        if before == after:
            raise Trouble("E10", f"{path} has this very content already.")
    history.write(path, before, after, by, at_ms)
    if before is None:
        count = content.count("\n") + (not content.endswith("\n") and bool(content))
        return f"Made {path}, {count:,} {'line' if count == 1 else 'lines'}."
    return f"Replaced {path}.\n{diff(_lenient(before), content)}"


def edit(
    history: History, path: str, old: str, new: str, by: str, at_ms: int, *, every: bool = False
) -> str:
    """Put `new` in place of `old`, which must stand there once, or `every` time."""
    if not history.files.exists(path):
        raise Trouble("E6", f"There is no {path}; make it with write_file.")
    before, status = history.files.read(path, MAX_FILE)
    history.check_known(path, status, before)
    text = text_of(path, before)
    if old == new:
        raise Trouble("E10", "old and new are equal.")
    if not old:
        raise Trouble("E3", "old is empty; give the text that is to be replaced.")
    found = text.count(old)
    if not found:
        said = "Copy old from read_file, without line numbers, each space and line end as it is."
        raise Trouble("E3", said)
    if found > 1 and not every:
        said = f"It is there {found:,} times; give more lines around it, or set replace_all."
        raise Trouble("E4", said)
    changed = text.replace(old, new)
    history.write(path, before, _bytes(path, changed), by, at_ms)
    places = f" in {found:,} places" if found > 1 else ""
    return f"Changed {path}{places}.\n{diff(text, changed)}"


def diff(before: str, after: str) -> str:
    """A unified diff without its head; linear where little changed, counted where much did."""
    old, new = before.split("\n"), after.split("\n")
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first = max(start - AROUND, 0)
    last_old = len(old) - max(end - AROUND, 0)
    last_new = len(new) - max(end - AROUND, 0)
    if max(last_old, last_new) - first > MAX_DIFFED:
        gone, came = len(old) - end - start, len(new) - end - start
        return f"@@ from line {start + 1:,} on: {gone:,} lines became {came:,} @@"
    text = "\n".join(_hunks(old[first:last_old], new[first:last_new], first))
    return text if len(text) <= MAX_DIFF else text[:MAX_DIFF] + "\n… (the diff goes on)"


def _hunks(old: Sequence[str], new: Sequence[str], first: int) -> list[str]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    told: list[str] = []
    for group in matcher.get_grouped_opcodes(AROUND):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        told.append(f"@@ -{first + a + 1},{b - a} +{first + c + 1},{d - c} @@")
        for tag, i, j, k, m in group:
            if tag == "equal":
                told += [" " + line for line in old[i:j]]
                continue
            told += ["-" + line for line in old[i:j]]
            told += ["+" + line for line in new[k:m]]
    return told


def _bytes(path: str, text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise Trouble("E9", "The text has half a surrogate pair, which no file can hold.") from None
    if len(data) > MAX_FILE:
        raise Trouble("E8", f"{path} would have {len(data):,} bytes; at most {MAX_FILE:,}.")
    return data


def _lenient(data: bytes) -> str:
    return data.decode("utf-8", "replace")
