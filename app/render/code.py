"""A request as code for the eye: curl, and Python for the official package of its protocol.

Knows nothing of how either is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment

from app.render.request import COPIED_LIMIT, EXACT_LIMIT, NAMES


@dataclass(frozen=True)
class Form:
    """`text` in one language; `more` is how many characters of it the page does not show."""

    name: str
    label: str
    text: str

    @property
    def shown(self) -> str:
        return self.text[:EXACT_LIMIT]

    @property
    def more(self) -> int:
        return max(len(self.text) - EXACT_LIMIT, 0)

    @property
    def copied(self) -> str | None:
        """What its button copies, None where it is too long to stand in the page twice."""
        return self.text if len(self.text) <= COPIED_LIMIT else None


@dataclass(frozen=True)
class ShownCode:
    """`turn` is what was chosen: "" for the newest request, "next", or a turn's number; `number`
    is the turn that is shown, 0 for the next request. `turns` are the numbers there are, the
    newest first; `wire` the protocol that was chosen, "" for its own. `failed` is a sentence where
    there is nothing to show."""

    session_id: str
    turn: str = ""
    number: int = 0
    turns: Sequence[int] = ()
    wire: str = ""
    wires: Sequence[str] = ()
    protocol: str = ""
    form: str = "curl"
    forms: Sequence[Form] = ()
    notes: Sequence[str] = ()
    failed: str = ""

    @property
    def choices(self) -> list[tuple[str, str]]:
        """(value, words) of what can be chosen."""
        newest = [("", "Newest request")] if self.turns else []
        return [
            *newest,
            ("next" if self.turns else "", "Next request"),
            *((str(number), f"Request {number}") for number in self.turns),
        ]

    @property
    def protocols(self) -> list[tuple[str, str]]:
        return [(name, NAMES.get(name, name)) for name in self.wires]


def code_fragment(env: Environment, shown: ShownCode) -> str:
    """The panel's content, its id `code`."""
    return env.get_template("_code.html").render(code=shown)
