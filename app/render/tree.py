"""The tree of forks: a whole family, and the rows of the list with forks below their parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Member = tuple[str, str, str, str, str]
"""(id, title, state, parent, where it branched off)."""


@dataclass(frozen=True)
class Leaf:
    """A session of the tree, `depth` below its first. `words` is where it branched off, `here`
    whether it is the one that is looked at; one without a `state` is not here."""

    id: str
    title: str
    state: str = ""
    words: str = ""
    depth: int = 0
    here: bool = False


def tree(family: Sequence[Member], here: str) -> list[Leaf]:
    """The family in the order of its tree. A parent that is not among them stands above its forks
    all the same."""
    known = {member[0] for member in family}
    below: dict[str, list[Member]] = {}
    for one in family:
        below.setdefault(one[3], []).append(one)
    gone = list(
        dict.fromkeys(member[3] for member in family if member[3] and member[3] not in known)
    )
    leaves: list[Leaf] = []
    seen: set[str] = set()

    def place(one: Member, depth: int) -> None:
        stack = [(one, depth)]
        while stack:
            (name, title, state, _, words), level = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            leaves.append(Leaf(name, title, state, words, level, name == here))
            stack += [(child, level + 1) for child in reversed(below.get(name, []))]

    for one in below.get("", []):
        place(one, 0)
    for parent in gone:
        leaves.append(Leaf(parent, "A session that is not here"))
        for one in below[parent]:
            place(one, 1)
    for one in family:  # those that name one another as parents
        place(one, 0)
    return leaves
