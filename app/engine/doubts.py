"""Calls checked against their tools while they stream; knows no bytes, and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.events import CallDoubted, Event, PartDelta, PartEnded, PartStarted
from app.core.tools import Tool
from app.schema.incremental import IncrementalValidator

_NAMED_IN_PIECES = ("openai_chat",)
"""Where a name may go on after its call has started."""


class StreamingValidation:
    """The open calls of one answer. Of each at most one doubt is told: the first."""

    def __init__(self, tools: Sequence[Tool], protocol: str) -> None:
        # A free-form tool is given text, of which there is nothing to be checked.
        named = {tool.name: tool for tool in reversed(tools)}
        self._tools = {name: tool for name, tool in named.items() if tool.format is None}
        self._in_pieces = protocol in _NAMED_IN_PIECES
        self._open: dict[int, IncrementalValidator | None] = {}  # None: the name is not known yet

    def after(self, event: Event) -> CallDoubted | None:
        """What is certain once `event` was told, and was not before it."""
        match event:
            case PartStarted(index=index, part_kind="call", name=name):
                if not name or (self._in_pieces and self._goes_on(name)):
                    self._open[index] = None
                elif name in self._tools:
                    self._open[index] = IncrementalValidator(self._tools[name].parameters)
            case PartDelta(index=index, text=text):
                early = self._open.get(index)
                return None if early is None else self._fed(index, early, text)
            case PartEnded(index=index):
                self._open.pop(index, None)
        return None

    def at_end(self, event: PartEnded) -> CallDoubted | None:
        """The same for a call whose name is known only now; to be told before `event`."""
        late = event.index in self._open and self._open[event.index] is None
        tool = self._tools.get(event.name) if late else None
        if tool is None or event.meta.get("type") == "custom":
            return None
        return self._fed(event.index, IncrementalValidator(tool.parameters), event.text)

    def _goes_on(self, name: str) -> bool:
        return any(other != name and other.startswith(name) for other in self._tools)

    def _fed(self, index: int, early: IncrementalValidator, text: str) -> CallDoubted | None:
        if early.closed:
            # Some servers say all of it once more; the verdict at the end has the whole text.
            return None
        problem = early.feed(text)
        return None if problem is None else CallDoubted(index, problem)
