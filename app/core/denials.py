"""What a person denied, in whatever session: no rule that the program proposed lets it through."""

from __future__ import annotations

from collections.abc import Iterable

from app.core.limits import spelled
from app.core.session import Call


class Denials:
    """The names and arguments of denied calls, as hashes: there may be many, and long ones."""

    def __init__(self) -> None:
        self._denied: dict[str, set[int]] = {}

    def add(self, name: str, arguments: Iterable[str]) -> None:
        """Calls of the tool `name` with these arguments, as the model wrote them, were denied."""
        self._denied.setdefault(name, set()).update(hash(spelled(text)) for text in arguments)

    def of(self, name: str) -> bool:
        """Whether some call of the tool was denied."""
        return bool(self._denied.get(name))

    def has(self, call: Call) -> bool:
        """Whether the same call was denied."""
        denied = self._denied.get(call.name, set())
        return bool(denied) and hash(spelled(call.written)) in denied
