"""The Tools page and its pieces as HTML: list, editor, lint, "When called", trying a tool.

The editor itself, its fields and its checks, is in editor.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jinja2 import Environment
from markupsafe import Markup

from playground.core.events import Problem
from playground.core.rules import KEEPS_BACK, LETS_THROUGH, Rule
from playground.core.serialization import to_data
from playground.core.tools import TOOL_KINDS, Content, Tool, ToolResult
from playground.core.value_diff import LineChange, line_changes
from playground.exchange.tool_export import WireForm
from playground.render.arguments import LAYOUT_LIMIT, FieldRow, LayoutToken, flat_rows, lay_out
from playground.render.card import Tone
from playground.render.environment import partial
from playground.render.filters import duration, pretty_json, size
from playground.schema.outline import TYPES
from playground.store.library import LibraryEntry, Version
from playground.web.session.wire_view import COPIED_LIMIT, NAMES, SHORT_NAMES, shorten_strings
from playground.web.tools.editor import FACES, FIELDS, Clash, Editor, ToolCheck, finding_places

MOST_FINDINGS = 40
MOST_VERSIONS = 50

FACE_TITLES = tuple(zip(FACES, ("Form", "JSON Schema", "Python"), strict=True))

FIXES = {
    "strict": "make strict-ready",
    "gemini": "make Gemini-ready",
    "inline": "inline references",
    "drop": "remove what is refused",
    "rename": "use the property name",
}

GONE = "gone"

BindingState = Mapping[str, str] | None
"""The state of a rule's binding: "same", "changed", "new" or "gone" by tool name."""

WORDS = {"run": "runs", "answer": "answered by rule", "deny": "denied", "stop": "stops the run"}

Mode = Literal["form", "json"]


@dataclass(frozen=True)
class EditorContext:
    """The context of the editor. `entry` is the tool as saved. `hints` counts the findings of tools
    by name; `exports` are (format, label); `deleted` can be restored; `tried` is the panel that
    tries the tool. `when` says how its calls are decided, `called` that of each tool in a word, by
    name. `counting`: some hints are not counted yet."""

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
    when: WhenCalled | None = None
    called: Mapping[str, str] = field(default_factory=dict)
    counting: bool = False


@dataclass(frozen=True)
class ListRow:
    """A tool of the list; `words` describe it."""

    name: str
    words: Sequence[str]
    search: str


@dataclass(frozen=True)
class SavedVersion:
    """A version with its diff to the previous one."""

    number: int
    saved_ms: int
    diff: Sequence[LineChange]


def tools_page(env: Environment, editor: Editor, around: EditorContext) -> str:
    """The whole page."""
    return env.get_template("tools.html").render(
        context=around, groups=tools_by_group(around.entries, around.hints, around.called),
        history=history(around.versions), **_editor_values(editor),
    )  # fmt: skip


def tool_list(env: Environment, around: EditorContext, name: str) -> str:
    """The list alone, next to the editor of the tool `name`."""
    groups = tools_by_group(around.entries, around.hints, around.called)
    return env.get_template("_tool_list.html").render(context=around, groups=groups, here=name)


def tool_editor(env: Environment, editor: Editor, around: EditorContext) -> str:
    """The form again, and the other parts of the page that show the same tool."""
    values = _editor_values(editor) | {"context": around}
    return env.get_template("_tool_form.html").render(values) + _other_parts(env, editor.check)


def tool_lint(env: Environment, editor: Editor) -> str:
    """The lint findings of the edited tool, and the other parts of the page that show it."""
    return env.get_template("_tool_lint.html").render(_editor_values(editor)) + _other_parts(
        env, editor.check
    )


def _other_parts(env: Environment, check: ToolCheck) -> str:
    values = {"check": check, "names": SHORT_NAMES}
    return "".join(
        partial(name, "outerMorph", env.get_template(f"_tool_{name}.html").render(values))
        for name in ("accepted", "sent")
    )


def _editor_values(editor: Editor) -> dict[str, object]:
    return {
        "e": editor,
        "form": editor.form,
        "check": editor.check,
        "errors": editor.errors,
        "kinds": TOOL_KINDS,
        "without_fields": [kind for kind in TOOL_KINDS if kind not in FIELDS],
        "faces": FACE_TITLES,
        "types": TYPES,
        "fixes": FIXES,
        "names": SHORT_NAMES,
        "most_findings": MOST_FINDINGS,
        "place_of": finding_places(editor),
    }


# The list -------------------------------------------------------------------------------------


def tools_by_group(
    entries: Sequence[LibraryEntry], hints: Mapping[str, int], called: Mapping[str, str]
) -> list[tuple[str, list[ListRow]]]:
    """The tools by group: the user's own first, shipped ones last."""
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


def history(versions: Sequence[Version]) -> list[SavedVersion]:
    """The newest versions, each with its changes; the first with its full text."""
    versions_shown = []
    for place, version in enumerate(versions[:MOST_VERSIONS]):
        before = versions[place + 1].tool if place + 1 < len(versions) else None
        diff = line_changes(tool_text(before) if before else "", tool_text(version.tool))
        versions_shown.append(SavedVersion(version.number, version.saved_ms, diff))
    return versions_shown


def state_of(entry: LibraryEntry | None) -> str:
    """A fingerprint of the saved tool; GONE if there is none."""
    if entry is None:
        return GONE
    text = json.dumps(to_data(entry.tool), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def clash(saved: LibraryEntry | None, mine: Tool) -> Clash:
    """The changes that saving `mine` would make to the saved tool."""
    before = tool_text(saved.tool) if saved else ""
    return Clash(line_changes(before, tool_text(mine)), state_of(saved))


def tool_text(tool: Tool) -> str:
    """A tool in our own format, laid out, without empty members."""
    return pretty_json(
        {
            name: value
            for name, value in to_data(tool).items()
            if value not in ("", None) and (name != "extra" or value)
        }
    )


# "When called": how a tool's calls are decided without asking, by the rules for all sessions; a
# session may have rules of its own.


@dataclass(frozen=True)
class WhenCalled:
    """The rule that names just this tool: `action` is ask if there is none, `text` its answer or
    reason. `stale`: it was written for another version. `before` is the rule that is evaluated
    before it, or ""; `choices` are the actions available for such a tool. `chosen` and `typed` are
    the unsaved input of the form."""

    tool: str
    action: str = "ask"
    text: str = ""
    stale: bool = False
    before: str = ""
    choices: Sequence[str] = ("ask", "run", "answer", "deny")
    chosen: str = ""
    typed: str | None = None


def own_rule(name: str, rules: Sequence[Rule]) -> Rule | None:
    """The rule that names only this tool and tests no arguments."""
    return next((rule for rule in rules if rule.tool == name and _is_plain(rule)), None)


def _is_plain(rule: Rule) -> bool:
    return not (rule.when or rule.source or rule.read_only or rule.fault)


def place_for(tool: Tool, rules: Sequence[Rule]) -> int:
    """The place of a new rule for just this tool: before other rules that match it, but never
    before one that blocks its calls."""
    about = [place for place, rule in enumerate(rules) if rule.covers(tool)]
    back = [place for place in about if rules[place].action in KEEPS_BACK]
    return max(back[-1] + 1 if back else 0, about[0] if about else len(rules))


def when_called(tool: Tool, rules: Sequence[Rule], held: Sequence[BindingState]) -> WhenCalled:
    """`rules` are those for all sessions, in order, and `held` the binding of each now."""
    person = tool.answered_by == "person"
    when = WhenCalled(
        tool.name, choices=("ask", "answer", "deny") if person else WhenCalled.choices
    )
    first = next((rule for rule in rules if rule.enabled and rule.covers(tool)), None)
    rule = own_rule(tool.name, rules)
    if rule is None or not rule.enabled or rule.action not in when.choices:
        return WhenCalled(tool.name, before=first.sentence if first else "", choices=when.choices)
    before = first.sentence if first is not None and first is not rule else ""
    stale = _asks_again(tool, rule, held[rules.index(rule)])
    return WhenCalled(
        tool.name,
        action=rule.action,
        text=rule.text,
        stale=stale,
        before=before,
        choices=when.choices,
    )


def _asks_again(tool: Tool, rule: Rule, held: BindingState) -> bool:
    return rule.action in LETS_THROUGH and held is not None and held.get(tool.name) != "same"


def called_words(tool: Tool, rules: Sequence[Rule], held: Sequence[BindingState]) -> str:
    """For the list, in a word or two: the first rule that matches all its calls."""
    for rule, state in zip(rules, held, strict=True):
        if not rule.enabled or rule.when or not rule.covers(tool):
            continue
        if rule.action == "ask" or _asks_again(tool, rule, state):
            break
        if rule.action == "run" and tool.answered_by == "person":
            break
        return WORDS[rule.action]
    return "asks"


def when_partial(env: Environment, when: WhenCalled) -> str:
    """The piece with the editor's field."""
    html = env.get_template("_tool_when.html").render(when=when)
    return partial("when-called", "outerMorph", html)


# The panel that tries a tool: what would run, its arguments, and the result.


@dataclass(frozen=True)
class PastArguments:
    """A past call to copy the arguments from; `key` is its value in a form."""

    key: str
    label: str


@dataclass(frozen=True)
class TryPanel:
    """`tool` is None if the one in the editor is invalid, and `broken` says why. `name` is the one
    it is saved under, "" for none. `others` are problems of no single field; `off`: it is switched
    off. `text` is the JSON of mode json. `seen` is sent back with Run (engine/try_tool)."""

    tool: Tool | None
    name: str = ""
    broken: str = ""
    source: str = ""
    mode: Mode = "form"
    rows: tuple[FieldRow, ...] = ()
    text: str = ""
    others: tuple[Problem, ...] = ()
    unsatisfied: bool = False
    malformed: bool = False
    off: bool = False
    person: bool = False
    lifts: bool = False
    seen: str = ""
    scratch: str = ""
    past: Sequence[PastArguments] = ()

    @property
    def verdict(self) -> tuple[str, Tone]:
        """In words, with its colour."""
        wrong = sum(bool(row.wrong) for row in flat_rows(self.rows))
        wrong += sum(problem.kind in ("schema", "malformed") for problem in self.others)
        if self.malformed:
            return "cannot be read", "failed"
        if wrong:
            return f"{wrong} problem{'s' if wrong > 1 else ''}", "failed"
        return "valid", "ran"


@dataclass(frozen=True)
class ResultOnWire:
    """What one provider would receive. `copied` is the exact text, None if too long."""

    name: str
    tokens: tuple[LayoutToken, ...]
    copied: str | None
    notes: Sequence[str]


@dataclass(frozen=True)
class TryOutcome:
    """The state of a try. `took` is set once it ended; `changed` is the next cursor."""

    id: str
    tool: str
    source: str
    started_ms: int
    changed: int
    progress: str
    fraction: float | None
    took_ms: int | None
    result: ToolResult | None
    wires: Sequence[ResultOnWire] = ()

    @property
    def running(self) -> bool:
        return self.result is None

    @property
    def words(self) -> tuple[str, Tone]:
        if self.result is None:
            return "running", "live"
        if self.result.is_error:
            return self.result.kind.replace("_", " ") or "error", "failed"
        return "ok", "ran"

    @property
    def line(self) -> str:
        """`38 ms · 21 B · simulated`"""
        if self.result is None:
            return ""
        count = sum(len(content.text.encode("utf-8", "replace")) for content in self.result.content)
        count += sum(len(content.data) * 3 // 4 for content in self.result.content)
        words = [duration(self.took_ms or 0), size(count), self.source]
        return " · ".join([*words, *(["simulated"] if self.result.staged else [])])

    @property
    def pieces(self) -> list[tuple[Content, tuple[LayoutToken, ...]]]:
        """Each piece of the result with its tokens: laid out if it is JSON."""
        content = self.result.content if self.result is not None else ()
        return [(part, tokens_of(part.text) if part.type == "text" else ()) for part in content]

    @property
    def copied(self) -> str | None:
        text = self.result.text if self.result is not None else ""
        return text if len(text) <= COPIED_LIMIT else None


def tokens_of(text: str) -> tuple[LayoutToken, ...]:
    """Indented JSON with long strings cut; any other text unformatted, up to a limit."""
    if text.lstrip()[:1] in ("{", "["):
        text = shorten_strings(text)
        if len(text) <= LAYOUT_LIMIT:
            return lay_out(text)
    rest = len(text) - LAYOUT_LIMIT
    more = f"\n… {rest:,} more characters" if rest > 0 else ""
    return (LayoutToken("raw", text[:LAYOUT_LIMIT] + more),)


def result_on_wire(sent: WireForm) -> ResultOnWire:
    """One provider's data in display form."""
    copied = sent.text if len(sent.text) <= COPIED_LIMIT else None
    name = NAMES.get(sent.protocol, sent.protocol)
    return ResultOnWire(name, tokens_of(sent.text), copied, sent.notes)


def try_panel(env: Environment, panel: TryPanel, shown: TryOutcome | None = None) -> str:
    """The whole panel, its id `try`."""
    return env.get_template("_try.html").render(panel=panel, shown=shown)


def try_page(env: Environment, panel: TryPanel, shown: TryOutcome | None, back: str) -> str:
    """The panel as a page of its own, for users without a script."""
    return env.get_template("try.html").render(panel=panel, shown=shown, back=back)


def try_arguments(env: Environment, panel: TryPanel) -> str:
    """The panel without its result, as pieces for htmx: the tool or the input mode has changed."""
    html = env.get_template("_try_arguments.html").render(panel=panel)
    return partial("try-arguments", "outerMorph", html)


def try_check(env: Environment, panel: TryPanel) -> str:
    """The check's result and the sentence of each field, as pieces for htmx; inputs stay."""
    pieces = [
        partial("try-verdict", "outerMorph", _verdict(env, panel)),
        partial("try-acts", "outerMorph", env.get_template("_try_acts.html").render(panel=panel)),
    ]
    macros = env.get_template("_fields.html").make_module()
    for row in flat_rows(panel.rows):
        error = macros.field_error("try", row)  # type: ignore[attr-defined]
        pieces.append(partial(f"try-wrong-{row.number}", "outerMorph", error))
    return "".join(pieces)


def try_message(env: Environment, sentence: str, tone: str = "failed") -> str:
    """Why an action failed, in place of the check's result; with tone `told` if nothing failed."""
    html = env.get_template("_try_verdict.html").render(panel=None, sentence=sentence, tone=tone)
    return partial("try-verdict", "outerMorph", html)


def try_result(env: Environment, shown: TryOutcome) -> str:
    """The result or the progress of a try, as a piece for htmx."""
    html = env.get_template("_try_result.html").render(shown=shown)
    return partial("try-result", "outerMorph", html)


def _verdict(env: Environment, panel: TryPanel) -> str:
    return env.get_template("_try_verdict.html").render(panel=panel, sentence="")
