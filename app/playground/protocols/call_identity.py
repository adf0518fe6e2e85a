"""Finds the call that a fragment of a streamed answer belongs to. Used by every decoder. Pure.

Servers name the call of a fragment by an index, by the id of its item, by the id of the call, or
not at all. They leave these out, repeat them, use one for two calls, or tell them late
(docs/wire.md, section 8). A decoder makes a `Clue` of what a fragment says, and asks its
`CallDirectory`. The order is the same in all protocols: the index, then the ids, then the last call
of that type. Two calls with one index are told apart by their ids.

The protocols differ in how a call begins, so there is one question for each way:

* `find_start` for a marked start (Responses, Messages), with `find` for what follows;
* `find_unmarked` where a fragment with a name may be a start or not (Chat Completions);
* `find_in_turn` where one call at a time is written (Gemini).

Ollama sends whole calls, so each is a new one; only its ids are read here. A decoder calls `add`
for each new call, and `learn` for each fragment of a known one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

_NO_ID = frozenset({"null", "None", "undefined"})
"""Words that a server writes where it has no id."""


@dataclass(slots=True)
class Clue:
    """What a fragment says about its call: None or "" where it says nothing.

    `type` tells items apart that share indexes and ids: a call and a message are never the same.
    """

    index: int | None = None
    item_id: str = ""
    call_id: str = ""
    name: str = ""
    type: str = ""


class KnownCall:
    """What is known about a call, or about another item that grows. Decoders extend it.

    `bare`: no argument text came yet. `done`: its end came. `number` counts all of an answer.
    """

    __slots__ = ("bare", "call_id", "done", "index", "item_id", "name", "number", "type")

    def __init__(self, clue: Clue) -> None:
        self.index = clue.index
        self.item_id = clue.item_id
        self.call_id = clue.call_id
        self.name = clue.name
        self.type = clue.type
        self.bare = True
        self.done = False
        self.number = -1


C = TypeVar("C", bound=KnownCall)


class CallDirectory(Generic[C]):
    """The calls of one answer, in the order of their starts."""

    def __init__(self) -> None:
        self.calls: list[C] = []
        self._at: dict[tuple[str, int], C] = {}  # by type and index: the last call with it
        self._by_id: dict[tuple[str, str], C] = {}  # by type and id of the item or of the call
        self._open: dict[str, dict[int, C]] = defaultdict(dict)
        self._latest: dict[str, C] = {}
        self._indexes: set[int] = set()
        self._interrupted: set[str] = set()  # ids of calls that another call interrupted

    def add(self, call: C) -> None:
        """Adds a call that has begun."""
        call.number = len(self.calls)
        self.calls.append(call)
        self._latest[call.type] = self._open[call.type][call.number] = call
        if call.index is not None:
            self._at[call.type, call.index] = call
            self._indexes.add(call.index)
        for id_ in (call.item_id, call.call_id):
            if id_:
                self._by_id[call.type, id_] = call

    def learn(self, call: C, clue: Clue) -> None:
        """From now on, this fragment's index and ids find its call. Those that it had stay: an id
        of an item may be another one in each event (GitHub Copilot), so it is not taken over."""
        if call.index is None:
            call.index = clue.index
        call.call_id = call.call_id or clue.call_id
        if clue.index is not None:
            self._at[call.type, clue.index] = call
            self._indexes.add(clue.index)
        if clue.item_id and clue.item_id != call.item_id:
            self._by_id.setdefault((call.type, clue.item_id), call)
        if clue.call_id:
            self._by_id.setdefault((call.type, clue.call_id), call)

    def close(self, call: C) -> None:
        """The end of a call came: others come before it if a fragment says nothing."""
        call.done = True
        self._open[call.type].pop(call.number, None)

    def has_index(self, index: int | None) -> bool:
        """Whether something of any type has this index."""
        return index in self._indexes

    # Which call a fragment is about.

    def find(self, clue: Clue) -> C | None:
        """The call that a piece, or an end, continues; None: its start is missing.

        1. The last one at its index, but that with its id if both have the index.
        2. The one with its id. With an index that is new: only if it is open.
        3. The last open one, else the last one. With an index that is new: only if it is open and
           has no index yet.
        """
        here, named = self._at_index(clue), self._with_id(clue)
        if here is not None:
            return named if named is not None and named.index == clue.index else here
        is_new_index = clue.index is not None
        if named is not None and not (is_new_index and named.done):
            return named
        last = self._last(clue.type)
        if last is None or not is_new_index:
            return last
        return last if last.index is None and not last.done else None

    def find_start(self, clue: Clue) -> C | None:
        """The call at the place of a start that is marked as one: at its index, else with its id.
        If it `has_id_of` the clue, it starts again; else this is another call."""
        named = self._with_id(clue)
        if clue.index is None or (named is not None and named.index == clue.index):
            return named
        return self._at_index(clue)

    def find_unmarked(self, clue: Clue) -> C | None:
        """The call of a fragment that may be a start or not; None: a new call.

        1. Its index is known: that call, or that with its id if both have the index. A new call if
           it brings a name and an id of its own, or another name after arguments.
        2. Its id is known: that call. A new one if index and name are both its own: two calls were
           given one id.
        3. It has a name or an id: a new call.
        4. It has nothing but arguments: the last call.
        """
        here, named = self._at_index(clue), self._with_id(clue)
        if here is not None:
            if named is not None and named.index == clue.index:
                return named
            has_other_id = clue.call_id and clue.call_id != here.call_id
            is_other = has_other_id and (here.call_id or not here.bare) and clue.name
            is_renamed = not clue.call_id and not here.bare and clue.name not in ("", here.name)
            return None if is_other or (is_renamed and here.name) else here
        if named is not None:
            has_both = clue.index is not None and named.index is not None and clue.name
            return None if has_both and not named.bare else named
        return None if clue.name or clue.call_id else self._last(clue.type)

    def find_in_turn(self, clue: Clue) -> C | Literal["new", "stray"]:
        """The open call, of which there is one at most, if the fragment continues it.

        "stray": it belongs to another call than the open one, or to one that was interrupted. What
        is missing in between is unknown, so neither call is ever complete. The caller closes the
        open one (`interrupt`).
        """
        open_ = self.open_call(clue.type)
        if clue.call_id and self._is_stray(clue, open_):
            self._interrupted.add(clue.call_id)
            return "stray"
        repeats_name = open_ is not None and has_id_of(open_, clue)
        return "new" if open_ is None or (clue.name and not repeats_name) else open_

    def _is_stray(self, clue: Clue, open_: C | None) -> bool:
        if open_ is not None and clue.call_id == open_.call_id:
            return clue.name not in ("", open_.name)
        if open_ is None:
            return clue.call_id in self._interrupted and not clue.name
        return clue.call_id in self._interrupted or (not clue.name and bool(open_.call_id))

    def interrupt(self, call: C) -> None:
        """Closes a call without its end: further pieces of it are strays."""
        self._interrupted.add(call.call_id)
        self.close(call)

    def match_list(
        self,
        clues: Mapping[int, Clue],
        *,
        conflicts: Callable[[C, int], bool] | None = None,
        differs: Callable[[C, int], bool] | None = None,
    ) -> dict[int, C]:
        """The calls that a list at the end of the answer repeats, by the key of the entry's clue.

        First those with an id that is listed, unless they conflict with the entry; then, in order,
        those of the type that are left, unless they differ from it.
        """
        same_id: dict[tuple[str, str], deque[C]] = defaultdict(deque)
        for call in self.calls:
            if call.call_id:
                same_id[call.type, call.call_id].append(call)
        matches: dict[int, C] = {}
        matched: set[int] = set()
        for key, clue in clues.items():
            twins = same_id.get((clue.type, clue.call_id))
            named = twins.popleft() if twins else self._by_id.get((clue.type, clue.item_id))
            if named is None or named.number in matched or (conflicts and conflicts(named, key)):
                continue
            matches[key] = named
            matched.add(named.number)
        left: dict[str, deque[C]] = defaultdict(deque)
        for call in self.calls:
            if call.number not in matched:
                left[call.type].append(call)
        for key, clue in clues.items():
            waiting = left[clue.type]
            if key not in matches and waiting and not (differs and differs(waiting[0], key)):
                matches[key] = waiting.popleft()
        return matches

    def open_call(self, type_: str = "") -> C | None:
        """The last open call of that type."""
        still_open = self._open[type_]
        return still_open[next(reversed(still_open))] if still_open else None

    def _last(self, type_: str) -> C | None:
        return self.open_call(type_) or self._latest.get(type_)

    def _at_index(self, clue: Clue) -> C | None:
        return None if clue.index is None else self._at.get((clue.type, clue.index))

    def _with_id(self, clue: Clue) -> C | None:
        known = self._by_id
        named = known.get((clue.type, clue.item_id)) if clue.item_id else None
        if named is None and clue.call_id:
            return known.get((clue.type, clue.call_id))
        return named


def has_id_of(call: KnownCall, clue: Clue) -> bool:
    """Whether the fragment has the id of this call; of its item, if one has no id of the call."""
    if call.call_id and clue.call_id:
        return call.call_id == clue.call_id
    return bool(call.item_id) and call.item_id == clue.item_id


def read_index(value: Any) -> int | None:
    """An index; None if it is no number, or negative."""
    is_index = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_index else None


def read_id(value: Any) -> str:
    """An id as text, "" for none. Some servers number their calls; others write "null"."""
    if isinstance(value, str):
        return "" if value in _NO_ID else value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
