"""read_file, write_file, edit_file, list_files and search_files in the scratch folder.

The type of a file is determined by its first bytes; only notebooks by name. A PDF is read in a
process of its own (`extract_pdf.py`). An existing file must have been read before it is changed;
the answer to a change is a diff. Search patterns run in linear time: none can hang.
"""

from __future__ import annotations

import asyncio
import base64
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema_rs

from playground.core.json_values import load_json
from playground.core.tools import Content, ToolResult, image_type, text_result
from playground.executors.executor import script_command
from playground.executors.workspace import MAX_ENTRIES, Folder, FolderEntry, WorkspaceError

LINES = 2_000
MAX_LINE = 2_000
MAX_TEXT = 200_000
"""Characters of a file that one call returns."""

PAGES = 20
PDF_S = 20.0

_EXTRACTORS = {kind: Path(__file__).with_name(f"extract_{kind}.py") for kind in ("pdf", "page")}

AROUND = 3

MAX_DIFFED = 600
"""Above this number, changed lines are counted and not compared: comparing is quadratic."""

MAX_DIFF = 6_000
"""Characters of a diff in a result."""

MAX_LISTED = 1_000
MAX_LINES = 1_000
MAX_HIT_LINE = 500
MAX_SEARCHED = 4 * 1024 * 1024

MAX_READ = 200 * 1024 * 1024
"""Bytes of one file, and of all files together, that a search reads."""

MOST_CHANGES = 200
MOST_BYTES = 50 * 1024 * 1024
MOST_READ = 2_000

MAX_FILE = 10 * 1024 * 1024
"""Bytes of a file that the file tools read or write."""


def is_pdf(data: bytes) -> bool:
    return data.startswith(b"%PDF-")


def render_file(path: str, data: bytes, offset: int, limit: int, most: int) -> ToolResult:
    """A file that is not a PDF, as a result of at most `most` bytes."""
    kind = image_type(data)
    if kind:
        return _image(path, data, kind, most)
    if path.endswith(".ipynb"):
        return render_notebook(path, data, most)
    return text_result(number_lines(text_of(path, data), offset, limit))


def text_of(path: str, data: bytes) -> str:
    """The text of a file; WorkspaceError E9 if it is not text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        sentence = f"{path} is not UTF-8 text (byte {error.start:,}). Read it with run_shell."
        raise WorkspaceError("E9", sentence) from None
    if "\0" in text:
        raise WorkspaceError(
            "E9", f"{path} has NUL bytes, so it is not text. Read it with run_shell."
        )
    return text


def number_lines(text: str, offset: int = 1, limit: int = LINES) -> str:
    """Lines `offset` (from 1) to `offset + limit - 1`, numbered like `cat -n`."""
    # Not `splitlines`: that would also split at form feeds and other characters inside a line.
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "(The file is empty.)"
    if offset > len(lines):
        sentence = f"The file has {len(lines):,} lines. Ask for an offset up to that."
        raise WorkspaceError("E11", sentence)
    numbered: list[str] = []
    size = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        numbered.append(f"{number:6}→{_shorten_line(line.removesuffix(chr(13)))}")
        size += len(numbered[-1])
        if size > MAX_TEXT:
            break
    last = offset + len(numbered) - 1
    if last < len(lines):
        left = len(lines) - last
        numbered.append(f"({left:,} more lines; continue with offset {last + 1}.)")
    return "\n".join(numbered)


def _shorten_line(line: str) -> str:
    more = len(line) - MAX_LINE
    return line if more <= 0 else f"{line[:MAX_LINE]}… ({more:,} more characters in this line)"


def _image(path: str, data: bytes, kind: str, most: int) -> ToolResult:
    if len(data) * 4 // 3 + 1_000 > most:
        allowed = (most - 1_000) * 3 // 4
        sentence = (
            f"{path} has {len(data):,} bytes; an image can have at most {allowed:,}. Make it "
            "smaller."
        )
        raise WorkspaceError("E8", sentence)
    words = f"{path}: {kind}, {len(data):,} bytes."
    picture = Content("image", media_type=kind, data=base64.b64encode(data).decode("ascii"))
    return ToolResult((Content(text=words), picture))


# -- notebooks


def render_notebook(path: str, data: bytes, most: int) -> ToolResult:
    """The cells with their outputs; images as images, as far as they fit."""
    try:
        cells = load_json(text_of(path, data))["cells"]
        pieces = [piece for number, cell in enumerate(cells, 1) for piece in _cell(number, cell)]
    except (ValueError, KeyError, TypeError, AttributeError):
        sentence = f"{path} is not a notebook of version 4. Read it as text with run_shell."
        raise WorkspaceError("E9", sentence) from None
    content: list[Content] = []
    room = most - 1_000
    for piece in pieces:
        size = len(piece.text.encode("utf-8", "replace")) + len(piece.data)
        if size > room:
            content.append(Content(text="(The rest of the notebook is too large to be shown.)"))
            break
        room -= size
        if content and piece.type == content[-1].type == "text":
            content[-1] = Content(text=content[-1].text + "\n" + piece.text)
        else:
            content.append(piece)
    return ToolResult(tuple(content) or (Content(text="(The notebook is empty.)"),))


def _cell(number: int, cell: Mapping[str, Any]) -> Iterator[Content]:
    kind = str(cell["cell_type"])
    yield Content(text=f"--- cell {number}, {kind} ---\n{_join_lines(cell['source'])}")
    for output in cell.get("outputs", ()):
        yield from _output(output)


def _output(output: Mapping[str, Any]) -> Iterator[Content]:
    match output.get("output_type"):
        case "stream":
            yield Content(text=f"--- output ---\n{_join_lines(output['text'])}")
        case "error":
            yield Content(text=f"--- error ---\n{output.get('ename')}: {output.get('evalue')}")
        case "display_data" | "execute_result":
            data = output.get("data", {})
            pictures = [kind for kind in ("image/png", "image/jpeg") if kind in data]
            if "text/plain" in data and not pictures:
                yield Content(text=f"--- output ---\n{_join_lines(data['text/plain'])}")
            for kind in pictures[:1]:
                encoded = re.sub(r"\s", "", _join_lines(data[kind]))
                raw = base64.b64decode(encoded, validate=True)
                if image_type(raw) == kind:
                    yield Content("image", media_type=kind, data=encoded)


def _join_lines(value: Any) -> str:
    return value if isinstance(value, str) else "".join(str(line) for line in value)


# -- PDFs


def page_range(words: str) -> tuple[int, int]:
    """The first and last page of "3", "1-3" or "" (the first PAGES). E11 otherwise."""
    match = re.fullmatch(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?|", words)
    if match is None:
        raise WorkspaceError("E11", f'{words!r} are not valid pages. Use "3" or "1-3".')
    first = int(match[1] or 1)
    last = int(match[2] or match[1] or PAGES)
    if not 1 <= first <= last:
        raise WorkspaceError(
            "E11", f'{words!r} are not valid pages. Use "3" or "1-3", starting at 1.'
        )
    if last - first >= PAGES:
        raise WorkspaceError("E11", f"At most {PAGES} pages at once. Ask for a smaller range.")
    return first, last


async def read_pdf(path: str, data: bytes, pages: str) -> ToolResult:
    """The text of some pages of a PDF."""
    assert len(data) <= MAX_FILE
    first, last = page_range(pages)
    numbers = (str(first), str(last), str(MAX_TEXT))
    try:
        extracted = await run_extractor("pdf", *numbers, data=data, limit_s=PDF_S)
    except TimeoutError:
        sentence = f"{path} took longer than {PDF_S:g} s to read. Ask for fewer pages."
        raise WorkspaceError("E8", sentence) from None
    except ValueError:
        raise WorkspaceError("E9", f"{path} is damaged or too large to be read as a PDF.") from None
    if "trouble" in extracted:
        raise WorkspaceError("E9", f"{path} {extracted['trouble']}")
    return text_result(str(extracted["text"]))


# -- extraction in a child process


async def run_extractor(kind: str, *arguments: str, data: bytes, limit_s: float) -> dict[str, Any]:
    """The JSON object that `extract_KIND.py` prints for `data` (pdf, page). TimeoutError after
    `limit_s` seconds, ValueError if it prints none; its process has ended in any case."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-B", *script_command(_EXTRACTORS[kind], *arguments)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await process.communicate(data)
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.communicate())
    extracted = json.loads(answer)
    if not isinstance(extracted, dict):
        raise ValueError("The extractor did not print a JSON object.")
    return extracted


# -- write_file and edit_file


def write_file(history: History, path: str, content: str, by: str, at_ms: int) -> str:
    """Creates or replaces a file; an existing one must have been read."""
    after = _bytes(path, content)
    before: bytes | None = None
    if history.files.exists(path):
        before, status = history.files.read(path, MAX_FILE)
        history.check_known(path, status, before)
        if before == after:
            raise WorkspaceError("E10", f"{path} already has this content.")
    history.write(path, before, after, by, at_ms)
    if before is None:
        count = content.count("\n") + (not content.endswith("\n") and bool(content))
        return f"Made {path}, {count:,} {'line' if count == 1 else 'lines'}."
    return f"Replaced {path}.\n{diff(before.decode('utf-8', 'replace'), content)}"


def edit_file(
    history: History, path: str, old: str, new: str, by: str, at_ms: int, *, every: bool = False
) -> str:
    """Replaces `old` by `new`; `old` must occur exactly once, unless `every` one is replaced."""
    if not history.files.exists(path):
        raise WorkspaceError("E6", f"There is no {path}. Create it with write_file.")
    before, status = history.files.read(path, MAX_FILE)
    history.check_known(path, status, before)
    text = text_of(path, before)
    if old == new:
        raise WorkspaceError("E10", "old and new are equal.")
    if not old:
        raise WorkspaceError("E3", "old is empty. Give the text to replace.")
    count = text.count(old)
    if not count:
        sentence = (
            "Copy old from read_file exactly, with all spaces and line ends, without line numbers."
        )
        raise WorkspaceError("E3", sentence)
    if count > 1 and not every:
        sentence = f"It occurs {count:,} times. Include more lines around it, or set replace_all."
        raise WorkspaceError("E4", sentence)
    changed = text.replace(old, new)
    history.write(path, before, _bytes(path, changed), by, at_ms)
    places = f" in {count:,} places" if count > 1 else ""
    return f"Changed {path}{places}.\n{diff(text, changed)}"


def diff(before: str, after: str) -> str:
    """A unified diff without its header; linear if little changed, only counts if much did."""
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
    return text if len(text) <= MAX_DIFF else text[:MAX_DIFF] + "\n… (the diff is longer)"


def _hunks(old: Sequence[str], new: Sequence[str], first: int) -> list[str]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    hunk_lines: list[str] = []
    for group in matcher.get_grouped_opcodes(AROUND):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        hunk_lines.append(f"@@ -{first + a + 1},{b - a} +{first + c + 1},{d - c} @@")
        for tag, i, j, k, m in group:
            if tag == "equal":
                hunk_lines += [" " + line for line in old[i:j]]
                continue
            hunk_lines += ["-" + line for line in old[i:j]]
            hunk_lines += ["+" + line for line in new[k:m]]
    return hunk_lines


def _bytes(path: str, text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise WorkspaceError(
            "E9", "The text has half of a surrogate pair, which a file cannot contain."
        ) from None
    if len(data) > MAX_FILE:
        raise WorkspaceError(
            "E8", f"{path} would have {len(data):,} bytes; at most {MAX_FILE:,} are allowed."
        )
    return data


# -- list_files and search_files


@dataclass(frozen=True)
class FileSearch:
    """`output`: lines, files or count. `around` lines are shown before and after a match."""

    pattern: str
    path: str = ""
    glob: str = ""
    output: str = "lines"
    around: int = 0
    head_limit: int = 200


def matcher(pattern: str) -> Callable[[str], bool]:
    """Tests whether a text contains a match. WorkspaceError E11 if the pattern is invalid."""
    try:
        validator = jsonschema_rs.validator_for(
            {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (jsonschema_rs.ValidationError, ValueError):
        sentence = (
            f"{pattern[:200]!r} is not a valid regular expression here. Check its brackets; "
            "look-around and back-references are not supported."
        )
        raise WorkspaceError("E11", sentence) from None
    return lambda text: bool(validator.is_valid(text))


def glob_matcher(glob: str) -> Callable[[str], bool]:
    """`*` and `?` stay within a name, `**` spans folders; without `/` only the name counts."""
    if len(glob) > 500:
        raise WorkspaceError("E11", "A glob has at most 500 characters.")
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


def list_files(folder: Folder, path: str, glob: str) -> str:
    """A line for each file and folder, with the size of files."""
    fits = glob_matcher(glob) if glob else None
    listed: list[str] = []
    left_out = looked = 0
    for entry in folder.walk(path):
        looked += 1
        if fits is not None and not (entry.kind == "file" and fits(entry.path)):
            continue
        if len(listed) < MAX_LISTED:
            listed.append(_line(entry))
        else:
            left_out += 1
    if left_out:
        listed.append(f"({left_out:,} more; name a folder or a pattern.)")
    return "\n".join((*listed, *_limit_note(looked))) or "(nothing)"


def _line(entry: FolderEntry) -> str:
    match entry.kind:
        case "file":
            return f"{entry.path}  {entry.size:,} bytes"
        case "folder":
            return f"{entry.path}/"
        case kind:
            return f"{entry.path}  ({kind}, not opened)"


def _limit_note(looked: int) -> list[str]:
    if looked < MAX_ENTRIES:
        return []
    return [f"(Only the first {MAX_ENTRIES:,} entries were read; name a folder.)"]


def search_files(
    folder: Folder, search: FileSearch, stopped: Callable[[], bool] = lambda: False
) -> str:
    """The matches, in the requested format. `stopped` is called before each file."""
    fits = glob_matcher(search.glob) if search.glob else None
    hits = matcher(search.pattern)
    hit_lines: list[str] = []
    looked = skipped = read = files = 0
    for entry in _files(folder, search.path):
        looked += 1
        if entry.kind != "file" or (fits is not None and not fits(entry.path)):
            continue
        if stopped() or len(hit_lines) >= search.head_limit or read > MAX_READ:
            break
        lines = _lines(folder, entry)
        if lines is None:
            skipped += 1
            continue
        read += entry.size
        numbers = [number for number, line in enumerate(lines) if hits(line)]
        files += bool(numbers)
        hit_lines += _hit_lines(search, entry.path, lines, numbers)
    more = len(hit_lines) > search.head_limit
    hit_lines = hit_lines[: search.head_limit]
    if more or len(hit_lines) == search.head_limit:
        hit_lines.append(f"(Cut after {search.head_limit:,} lines; narrow the search.)")
    if read > MAX_READ:
        hit_lines.append(f"(Only the first {MAX_READ:,} bytes were searched; name a folder.)")
    if skipped:
        hit_lines.append(f"({skipped:,} files that are not text or are too large were skipped.)")
    return "\n".join((*hit_lines, *_limit_note(looked))) if files or hit_lines else "No match."


def _files(folder: Folder, path: str) -> Iterator[FolderEntry]:
    """A file alone, or all under a folder."""
    try:
        yield from folder.walk(path)
    except WorkspaceError as trouble:
        if trouble.code != "E7":
            raise
        with folder.file(path) as (_, status):
            yield FolderEntry(path, "file", status.st_size)


def _lines(folder: Folder, entry: FolderEntry) -> list[str] | None:
    try:
        text = folder.read(entry.path, MAX_SEARCHED)[0].decode("utf-8")
    except (WorkspaceError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text.split("\n")


def _hit_lines(search: FileSearch, path: str, lines: list[str], numbers: list[int]) -> list[str]:
    if not numbers:
        return []
    match search.output:
        case "files":
            return [path]
        case "count":
            return [f"{path}: {len(numbers):,}"]
    hit_lines: list[str] = []
    last = -1
    hits = set(numbers)
    for hit in numbers[:MAX_LINES]:
        first = max(hit - search.around, last + 1)
        if search.around and hit_lines and first > last + 1:
            hit_lines.append("--")
        for number in range(first, min(hit + search.around, len(lines) - 1) + 1):
            mark = ":" if number in hits else "-"
            hit_lines.append(f"{path}{mark}{number + 1}{mark}{lines[number][:MAX_HIT_LINE]}")
            last = number
    return hit_lines


# Contents of files before each change, and what was read ------------------------------------------
# Next to the scratch folder, never in it. `ID.history/index.json` has the changes, newest last, and
# for each file that was read its state then; the bytes are stored next to it by their SHA-256.
# Bounded: the oldest changes are deleted.


@dataclass(frozen=True)
class FileChange:
    """`before` and `after` are the SHA-256 of the bytes, or "" if there was no file.

    `by` is the call, or "undo N"; `undone`: a user reverted it.
    """

    number: int
    path: str
    by: str
    at_ms: int
    before: str
    after: str
    size: int
    undone: bool = False


@dataclass
class Index:
    changes: list[FileChange] = field(default_factory=list)
    read: dict[str, list[object]] = field(default_factory=dict)
    """By path: modification time in ns, size and SHA-256 when it was read."""


class History:
    """The history of one session; the caller must ensure exclusive access."""

    def __init__(self, folder: Path) -> None:
        self.files = Folder(folder)
        self._place = folder.with_name(folder.name + ".history")

    @property
    def changes(self) -> list[FileChange]:
        """Newest last."""
        return self._load().changes

    def mark_read(self, path: str, status: os.stat_result, data: bytes) -> None:
        """Records that the model knows the current content of the file."""
        index = self._load()
        index.read.pop(path, None)
        index.read[path] = [status.st_mtime_ns, status.st_size, _digest(data)]
        while len(index.read) > MOST_READ:
            del index.read[next(iter(index.read))]
        self._save(index)

    def check_known(self, path: str, status: os.stat_result, data: bytes) -> None:
        """WorkspaceError E1 or E2 if the model does not know the current content of the file."""
        known = self._load().read.get(path)
        if known is None:
            raise WorkspaceError("E1", f"Read {path} with read_file before you change it.")
        if known != [status.st_mtime_ns, status.st_size, _digest(data)]:
            raise WorkspaceError("E2", f"Read {path} again with read_file, then change it.")

    def write(
        self, path: str, before: bytes | None, after: bytes, by: str, at_ms: int
    ) -> FileChange:
        """Stores `before`, and writes `after` to the file."""
        change = self._keep(path, before, after, by, at_ms)
        status = self.files.write(path, after)
        self._add(change)
        self.mark_read(path, status, after)
        return change

    def undo(self, number: int, at_ms: int) -> FileChange:
        """Restores what change `number` replaced; that is a change, too, and can be undone.

        WorkspaceError E2 if the file has changed since.
        """
        change = self.change(number)
        now = self._current(change.path)
        if (_digest(now) if now is not None else "") != change.after:
            sentence = f"{change.path} was changed after this. Undo the newer change first."
            raise WorkspaceError("E2", sentence)
        before = self.bytes_of(change.before) if change.before else None
        back = self._keep(change.path, now, before, f"undo {number}", at_ms)
        if before is None:
            self.files.remove(change.path)
        else:
            self.files.write(change.path, before)
        self._add(back, undone=number)
        return back

    def change(self, number: int) -> FileChange:
        for change in self.changes:
            if change.number == number:
                return change
        raise WorkspaceError("E6", f"Change {number} no longer exists. Reload the page.")

    def bytes_of(self, digest: str) -> bytes:
        """The bytes of that SHA-256; WorkspaceError E6 if they were deleted."""
        try:
            return (self._place / digest).read_bytes() if digest else b""
        except OSError:
            raise WorkspaceError("E6", "This state was too old or too large to keep.") from None

    def _current(self, path: str) -> bytes | None:
        return self.files.read(path, MAX_FILE)[0] if self.files.exists(path) else None

    def _keep(
        self, path: str, before: bytes | None, after: bytes | None, by: str, at_ms: int
    ) -> FileChange:
        for data in (before, after):
            if data is not None:
                self._put(_digest(data), data)
        old = "" if before is None else _digest(before)
        new = "" if after is None else _digest(after)
        return FileChange(
            0, path=path, by=by, at_ms=at_ms, before=old, after=new, size=len(after or b"")
        )

    def _add(self, change: FileChange, undone: int = 0) -> None:
        index = self._load()
        number = index.changes[-1].number + 1 if index.changes else 1
        index.changes = [
            replace(change, undone=True) if change.number == undone else change
            for change in index.changes
        ]
        index.changes.append(replace(change, number=number))
        self._trim(index)
        self._save(index)

    def _trim(self, index: Index) -> None:
        """Deletes the oldest changes beyond the limits, and unreferenced bytes."""
        del index.changes[:-MOST_CHANGES]
        sizes = {path.name: path.stat().st_size for path in self._place.iterdir()}
        while len(index.changes) > 1 and _needed_bytes(index, sizes) > MOST_BYTES:
            del index.changes[0]
        wanted = {digest for change in index.changes for digest in (change.before, change.after)}
        for name in sizes:
            if len(name) == 64 and name not in wanted:
                (self._place / name).unlink(missing_ok=True)

    def _put(self, name: str, data: bytes) -> None:
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (len(name) == 64 and (self._place / name).exists()):
            fresh = self._place / (name + ".new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(fresh, self._place / name)

    def _load(self) -> Index:
        try:
            data = json.loads((self._place / "index.json").read_bytes())
            return Index([FileChange(**change) for change in data["changes"]], data["read"])
        except FileNotFoundError:
            return Index()
        except (ValueError, KeyError, TypeError):
            raise WorkspaceError(
                "E13", f"{self._place}/index.json is damaged. Delete it."
            ) from None

    def _save(self, index: Index) -> None:
        data = {"changes": [asdict(change) for change in index.changes], "read": index.read}
        self._put("index.json", json.dumps(data).encode("ascii"))


def _needed_bytes(index: Index, sizes: Mapping[str, int]) -> int:
    wanted = {digest for change in index.changes for digest in (change.before, change.after)}
    return sum(sizes.get(digest, 0) for digest in wanted)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
