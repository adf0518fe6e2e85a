"""Forks as the pages show them: the form for a place, the tree of a family, and the lines that say
where a session branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment
from markupsafe import Markup

from app.core.fork_copy import Spot
from app.core.session import Call, Prompt, Session
from app.core.settings import Settings
from app.render.environment import partial
from app.render.filters import plural, shown
from app.web.session.view import PastResultRow

FIELDS = 6
"""Results that one "What if" can be given."""


@dataclass(frozen=True)
class ForkForm:
    """What is asked before a fork at a place, which is named by `name` and `value` ("" for the
    end). `settings` are those it would begin with, `profiles` the names to choose from; `past` are
    results of the call's tool. `files` is whether files were written before the place. `anew`: it
    begins with what an agent's last request said; `notes` are sentences on what it begins with."""

    session: str
    title: str
    own: bool
    name: str
    value: str
    settings: Settings
    profiles: Sequence[str] = ()
    prompt: Prompt | None = None
    call: Call | None = None
    past: Sequence[PastResultRow] = ()
    files: bool = False
    anew: bool = False
    notes: Sequence[str] = ()

    @property
    def words(self) -> str:
        """The place, in words."""
        match self.name:
            case "prompt":
                return f"Another prompt in place of prompt {self.value}"
            case "turn":
                return f"Ask again for turn {self.value}"
            case "call":
                return f"Call {self.value} once more"
            case "seq":
                return f"Go on after event {self.value}"
            case _:
                return "Go on from its end"

    @property
    def key(self) -> str:
        """What ids of its elements end with."""
        return "-".join(filter(None, (self.name or "end", self.value.replace(".", "-"))))

    @property
    def model(self) -> str:
        return self.settings.model or self.settings.profile.model

    @property
    def temperature(self) -> str:
        value = self.settings.params.get("temperature")
        return "" if value is None else f"{value:g}" if isinstance(value, int | float) else ""


def wrote_files(session: Session) -> bool:
    """Whether a tool of the workspace ran: its folder belongs to the session, not to its forks."""
    return any(
        call.tool is not None and call.tool.answered_by == "workspace" and call.started_ms
        for call in session.calls()
    )


def fork_fragment(env: Environment, form: ForkForm, now_ms: int) -> str:
    """The form alone, as it stands in the flow."""
    return env.get_template("_fork.html").render(form=form, now_ms=now_ms, fields=FIELDS)


def fork_page(env: Environment, form: ForkForm, now_ms: int) -> str:
    """The form on a page of its own."""
    return env.get_template("fork.html").render(form=form, now_ms=now_ms, fields=FIELDS)


GONE = "a session that is not here"


def parent_name(session: str, title: str) -> Markup:
    """The link to the session that another one came from."""
    return Markup('<a href="/sessions/{}">{}</a>').format(session, shown(title) or "New session")


def tree_page(env: Environment, leaves: Sequence[TreeRow], session: str, title: str) -> str:
    """The page of a family."""
    return env.get_template("forks.html").render(leaves=leaves, session=session, title=title)


def branch_lines(env: Environment, forks: Mapping[Spot, Sequence[tuple[str, str]]]) -> str:
    """`2 forks` where they branch off, each (id, title), as pieces for htmx."""
    at: dict[str, list[tuple[str, str]]] = {}
    for spot, ones in forks.items():
        kind = "prompt" if spot.kind == "prompt" else "turn"
        at.setdefault(f"branches-{kind}-{spot.number}", []).extend(ones)
    template = env.get_template("_branches.html")
    return "".join(
        partial(
            place, "innerHTML", template.render(forks=ones, count=plural(len(ones), "fork")).strip()
        )
        for place, ones in at.items()
    )


# The tree of a whole family.


Member = tuple[str, str, str, str, str]
"""(id, title, state, parent, where it branched off)."""


@dataclass(frozen=True)
class TreeRow:
    """A session of the tree, `depth` below its first. `words` is where it branched off, `here`
    whether it is the one that is looked at; one without a `state` is not here."""

    id: str
    title: str
    state: str = ""
    words: str = ""
    depth: int = 0
    here: bool = False


def family_tree(family: Sequence[Member], here: str) -> list[TreeRow]:
    """The family in the order of its tree. A parent that is not among them stands above its forks
    all the same."""
    known = {member[0] for member in family}
    below: dict[str, list[Member]] = {}
    for member in family:
        below.setdefault(member[3], []).append(member)
    gone = list(
        dict.fromkeys(member[3] for member in family if member[3] and member[3] not in known)
    )
    leaves: list[TreeRow] = []
    seen: set[str] = set()

    def place(member: Member, depth: int) -> None:
        stack = [(member, depth)]
        while stack:
            (name, title, state, _, words), level = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            leaves.append(TreeRow(name, title, state, words, level, name == here))
            stack += [(child, level + 1) for child in reversed(below.get(name, []))]

    for child in below.get("", []):
        place(child, 0)
    for parent in gone:
        leaves.append(TreeRow(parent, "A session that is not here"))
        for child in below[parent]:
            place(child, 1)
    for member in family:  # those that name one another as parents
        place(member, 0)
    return leaves
