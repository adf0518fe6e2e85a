"""The page of tools and its pieces: the list, the editor, what lint says, the right column.

Each is a function from values to HTML; what the fields mean is in tool_form.py.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment
from markupsafe import Markup

from app.core.serialization import to_data
from app.core.tools import Tool
from app.protocols.lint import Finding, ToolAcceptance
from app.render.filters import pretty
from app.render.fragments import partial
from app.render.request import SHORT_NAMES
from app.render.tool_form import FACES, ToolForm
from app.render.when import When
from app.schema.outline import TYPES, OutlineRow
from app.store.library import LibraryEntry, Version

MOST_FINDINGS = 40
MOST_FIRST = 6
MOST_VERSIONS = 50

KINDS = (
    ("mock", "Mock"),
    ("python", "Python"),
    ("http", "HTTP"),
    ("person", "You"),
    ("mcp", "MCP"),
    ("workspace", "Workspace"),
)
"""Who can answer; the last two are chosen nowhere, but shown where they are."""

FACE_TITLES = tuple(zip(FACES, ("Form", "JSON Schema", "Python"), strict=True))

FIXES = {
    "strict": "make strict-ready",
    "gemini": "make Gemini-ready",
    "inline": "inline references",
    "drop": "leave out what is refused",
}

Diff = Sequence[tuple[str, str]]
"""Lines with how they came: "+", "-", " " or "@"."""


@dataclass(frozen=True)
class Sent:
    """A tool as one protocol sends it: JSON text, and what the protocol cannot say."""

    protocol: str
    text: str
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Judged:
    """What is known of the tool as it stands in the editor. `notes` are sentences about who answers
    it. `problem` says why nothing is known; a new tool has not even that."""

    findings: Sequence[Finding] = ()
    accepted: Sequence[ToolAcceptance] = ()
    tokens: int = 0
    sent: Sequence[Sent] = ()
    notes: Sequence[str] = ()
    problem: str = ""
    pointer: str = ""

    def laid_out(self, strict: bool) -> tuple[list[Finding], list[tuple[str, str, list[Finding]]]]:
        """The findings to be read first, and those that are folded: (title, fix, findings)."""
        first = [finding for finding in self.findings if counts(finding, strict)]
        folds = [("more of them", "", first[MOST_FIRST:])]
        for severity, title in (
            ("strict", "that strict mode would refuse; strict is off"),
            ("ignored", "that are accepted and not obeyed"),
        ):
            rest = [
                finding
                for finding in self.findings
                if finding.severity == severity and finding not in first
            ]
            fix = next((one.fix for one in rest if one.fix), "")
            folds.append((title, fix, rest))
        return first[:MOST_FIRST], [fold for fold in folds if fold[2]]


def counts(finding: Finding, strict: bool) -> bool:
    """Whether a finding is a hint: what strict mode wants is one for a strict tool only, and what
    a provider leaves out without harm is none."""
    return finding.severity in ("refused", "weak") or (strict and finding.severity == "strict")


@dataclass(frozen=True)
class Fixed:
    """A rewrite that is offered: `lost` are sentences about meaning that goes."""

    fix: str
    diff: Diff
    lost: Sequence[str] = ()


@dataclass(frozen=True)
class Clash:
    """Another hand saved the tool meanwhile: what saving would change of that, and the state that
    it would be saved over."""

    diff: Diff
    over: str


@dataclass(frozen=True)
class Editor:
    """The form of one tool. `original` is the name it was saved under, "" for a new one, and
    `drawn` the state (state_of) that the form was drawn from. `errors` by field, "" for all; `line`
    counts from 1 within the parameters. `rows` is the outline of the schema for the face that is a
    form, and `typed` what stands in its fields instead; `large` counts the rows where they are too
    many for it. `lossy` says why the Python face cannot be edited. `focus` is the id of what the
    cursor goes to. `unsaved` says that this was typed, and refused or only looked at.
    """

    form: ToolForm
    original: str = ""
    drawn: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None
    rows: OutlineRow | None = None
    typed: Mapping[str, str] = field(default_factory=dict)
    lossy: Sequence[str] = ()
    judged: Judged = Judged()
    fixed: Fixed | None = None
    focus: str = ""
    large: int = 0
    unsaved: bool = False
    clash: Clash | None = None


@dataclass(frozen=True)
class Around:
    """What stands around the editor. `entry` is the tool as it was saved. `hints` counts the
    findings of tools by name; `exports` are (format, label); `deleted` can be had back; `tried` is
    the panel that tries the tool. `when` is what becomes of its calls, `called` that of each
    tool in a word, by name. `counting`: some hints are not counted yet."""

    entries: Sequence[LibraryEntry] = ()
    hints: Mapping[str, int] = field(default_factory=dict)
    entry: LibraryEntry | None = None
    versions: Sequence[Version] = ()
    exports: Sequence[tuple[str, str]] = ()
    tried: Markup = field(default_factory=Markup)
    tab: str = "try"
    saved: bool = False
    deleted: str = ""
    now_ms: int = 0
    when: When | None = None
    called: Mapping[str, str] = field(default_factory=dict)
    counting: bool = False


@dataclass(frozen=True)
class ListRow:
    """A tool of the list, and in `words` what it is."""

    name: str
    words: Sequence[str]
    search: str


@dataclass(frozen=True)
class Saved:
    """A version with its difference to the one before."""

    number: int
    saved_ms: int
    diff: Diff


def tools_page(env: Environment, editor: Editor, around: Around) -> str:
    """The whole page."""
    return env.get_template("tools.html").render(
        around=around, groups=listed(around.entries, around.hints, around.called),
        history=history(around.versions), **_values(editor),
    )  # fmt: skip


def tool_list(env: Environment, around: Around, name: str) -> str:
    """The list alone, beside the editor of the tool `name`."""
    groups = listed(around.entries, around.hints, around.called)
    return env.get_template("_tool_list.html").render(around=around, groups=groups, here=name)


def tool_editor(env: Environment, editor: Editor, around: Around) -> str:
    """The form anew, and what beside it shows the same tool."""
    values = _values(editor) | {"around": around}
    return env.get_template("_tool_form.html").render(values) + _beside(env, editor.judged)


def tool_lint(env: Environment, editor: Editor) -> str:
    """What lint says of the tool as it is typed, and what beside it shows the same tool."""
    return env.get_template("_tool_lint.html").render(_values(editor)) + _beside(env, editor.judged)


def _beside(env: Environment, judged: Judged) -> str:
    values = {"judged": judged, "names": SHORT_NAMES}
    return "".join(
        partial(name, "outerMorph", env.get_template(f"_tool_{name}.html").render(values))
        for name in ("accepted", "sent")
    )


def _values(editor: Editor) -> dict[str, object]:
    return {
        "e": editor,
        "form": editor.form,
        "judged": editor.judged,
        "errors": editor.errors,
        "kinds": KINDS,
        "faces": FACE_TITLES,
        "types": TYPES,
        "fixes": FIXES,
        "names": SHORT_NAMES,
        "most_findings": MOST_FINDINGS,
    }


# The list -------------------------------------------------------------------------------------


def listed(
    entries: Sequence[LibraryEntry], hints: Mapping[str, int], called: Mapping[str, str]
) -> list[tuple[str, list[ListRow]]]:
    """The tools under the names of their groups: the person's own first, shipped ones last."""
    groups: dict[tuple[int, str], list[ListRow]] = {}
    for entry in entries:
        name = entry.tool.name
        row = _row(entry, hints.get(name, 0), called.get(name, ""))
        groups.setdefault(_group(entry), []).append(row)
    return [(title, rows) for (_, title), rows in sorted(groups.items())]


def _group(entry: LibraryEntry) -> tuple[int, str]:
    tool = entry.tool
    if tool.answered_by == "workspace":
        return 3, tool.group or "workspace"
    if tool.answered_by == "mcp":
        return 2, tool.group or f"mcp · {tool.config.get('server', '')}"
    if not tool.group:
        return 0, "yours"
    return (4 if entry.shipped else 1), tool.group


def _row(entry: LibraryEntry, hints: int, called: str) -> ListRow:
    tool = entry.tool
    words: list[str] = ["you" if tool.answered_by == "person" else tool.answered_by]
    words += ["off"] if not entry.enabled else [called] if called else []
    words += ["strict"] if tool.strict else []
    words += ["parallel-safe"] if tool.parallel_safe else []
    words += [f"{hints} hint{'s' if hints > 1 else ''}"] if hints else []
    search = " ".join((tool.name, tool.description[:500], _group(entry)[1], *words))
    return ListRow(tool.name, words, search)


# Differences ----------------------------------------------------------------------------------


def difference(before: str, after: str) -> Diff:
    """The unified difference of two texts."""
    old, new = (text.split("\n") if text else [] for text in (before, after))
    lines = difflib.unified_diff(old, new, lineterm="", n=2)
    return [(line[:1], line[1:] if line[:1] != "@" else line) for line in list(lines)[2:]]


def history(versions: Sequence[Version]) -> list[Saved]:
    """The newest versions, each with what it changed; the first with all that it said."""
    made = []
    for place, version in enumerate(versions[:MOST_VERSIONS]):
        before = versions[place + 1].tool if place + 1 < len(versions) else None
        diff = difference(tool_text(before) if before else "", tool_text(version.tool))
        made.append(Saved(version.number, version.saved_ms, diff))
    return made


GONE = "gone"


def state_of(entry: LibraryEntry | None) -> str:
    """A print of the tool as it is saved; GONE where there is none."""
    if entry is None:
        return GONE
    text = json.dumps(to_data(entry.tool), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def clash(saved: LibraryEntry | None, mine: Tool) -> Clash:
    """What saving `mine` would change of what stands there now."""
    before = tool_text(saved.tool) if saved else ""
    return Clash(difference(before, tool_text(mine)), state_of(saved))


def tool_text(tool: Tool) -> str:
    """A tool in our own form, laid out, without what is empty."""
    return pretty(
        {
            name: value
            for name, value in to_data(tool).items()
            if value not in ("", None) and (name != "extra" or value)
        }
    )
