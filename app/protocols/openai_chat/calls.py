"""Which call a fragment of `tool_calls` belongs to, whatever its server does with `index` and `id`.

The rule, for a fragment of one choice (quirks Q1-Q17 and Q28 of docs/wire.md are its cases):

1. Its index is known: that call, unless it brings another id AND a name: a new call.
2. Its index is new or absent and its id is known: that call, unless index and name are both
   its own: two calls were given one id.
3. It has a name: a new call.
4. It has nothing but arguments: the last call; its index, if any, is from now on that call's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.protocols.builder import Answer, OpenPart
from app.protocols.raw_json import Quoted, alike, joined

_OWN = frozenset({"index", "id", "type", "function", "custom"})

Where = tuple[Quoted, *tuple[str | int, ...]]
"""The JSON text of a chunk, and the path of a value in it."""


class _Call:
    __slots__ = ("bare", "extra", "id", "index", "name", "part", "told", "type")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.type = "function"
        self.extra: dict[str, Any] = {}
        self.part: OpenPart | None = None
        self.told = False  # whether arguments were sent at all, be it as ""
        self.bare = True  # whether no argument text came yet


class Calls:
    """The calls of one answer. `settle` when no more fragments can come."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._legacy: _Call | None = None
        self._doubled = False

    def take(self, message: Mapping[str, Any], where: Where) -> None:
        """The calls in a delta or a message; `where` is the JSON text and the path to it."""
        fragments = message.get("tool_calls")
        if isinstance(fragments, dict):
            self._fragment(fragments, (*where, "tool_calls"))
        elif isinstance(fragments, list):
            for place, fragment in enumerate(fragments):
                if isinstance(fragment, dict):
                    self._fragment(fragment, (*where, "tool_calls", place))
                else:
                    self._answer.warn("odd_call", "A call that is no object was left out.")
        legacy = message.get("function_call")
        if isinstance(legacy, dict) and not self._is_double(legacy, fragments):
            if self._legacy is None:
                self._legacy = self._new(None)
                self._legacy.type = "function_call"
            self._grow(self._legacy, legacy, "arguments", (*where, "function_call"))

    def _is_double(self, legacy: Mapping[str, Any], fragments: Any) -> bool:
        """Whether the old member only says once more what the new one does: it is one call."""
        beside = fragments if isinstance(fragments, list) else [fragments]
        functions = [one.get("function") for one in beside if isinstance(one, dict)]
        if self._legacy is not None or not any(
            _repeats(legacy, function) for function in functions
        ):
            return False
        self._warn_double()
        return True

    def _warn_double(self) -> None:
        if not self._doubled:
            self._answer.warn("same_call", "One call came as tool_calls and as function_call.")
        self._doubled = True

    def _doubt_double(self) -> None:
        """The same, where the two came one after the other: what began as a call is one."""
        legacy = self._legacy.part if self._legacy is not None else None
        if self._legacy is None or legacy is None or legacy.ended:
            return
        text = joined(legacy.pieces or [""])
        for call in self._calls:
            if call is self._legacy or call.part is None or call.name != self._legacy.name:
                continue
            if joined(call.part.pieces or [""]) == text:
                self._answer.doubt(legacy)
                self._warn_double()

    def settle(self) -> None:
        """End all calls; a head that nothing followed was none."""
        self._doubt_double()
        seen: set[str] = set()
        for call in self._calls:
            part = call.part
            if part is None:
                self._answer.warn("empty_call", "A call without id, name and arguments came.")
                continue
            if call.id and call.id in seen:
                self._answer.warn("same_id", f"Two calls have the id {call.id[:80]!r}.")
            seen.add(call.id)
            part.name, part.provider_id = call.name, call.id
            if call.type != "function":
                part.meta["type"] = call.type
            if call.extra:
                part.meta["extra"] = call.extra
            if not call.told:
                part.meta["absent"] = True
        self._calls = []

    def _fragment(self, fragment: Mapping[str, Any], where: Where) -> None:
        is_custom = isinstance(fragment.get("custom"), dict)
        inner, arguments = ("custom", "input") if is_custom else ("function", "arguments")
        body = fragment.get(inner)
        body = body if isinstance(body, dict) else {}
        index, id_ = _index(fragment.get("index")), _id(fragment.get("id"))
        name = body.get("name")
        name = name if isinstance(name, str) else ""
        call = self._call_of(index, id_, name)
        if index is not None:
            self._by_index[index] = call
        if id_:
            self._by_id.setdefault(id_, call)
            call.id = call.id or id_
        if is_custom or fragment.get("type") == "custom":
            call.type = "custom"
        extra = {k: v for k, v in fragment.items() if k not in _OWN and v is not None}
        call.extra.update(extra)
        self._grow(call, body, arguments, (*where, inner))

    def _call_of(self, index: int | None, id_: str, name: str) -> _Call:
        """The rule of the module's docstring."""
        at_index = self._by_index.get(index) if index is not None else None
        if at_index is not None:
            another = id_ and id_ != at_index.id and (at_index.id or not at_index.bare)
            renamed = not id_ and not at_index.bare and name and at_index.name not in ("", name)
            return self._new(index) if (another and name) or renamed else at_index
        of_id = self._by_id.get(id_)
        if of_id is not None:
            both = index is not None and of_id.index is not None and name and not of_id.bare
            return self._new(index) if both else of_id
        if name or id_ or not self._calls:
            return self._new(index)
        return self._calls[-1]

    def _new(self, index: int | None) -> _Call:
        call = _Call(index)
        self._calls.append(call)
        return call

    def _name(self, call: _Call, piece: str) -> None:
        """In pieces, until the first argument: after that a name can only be a repeat."""
        if call.name and not call.bare:
            return
        call.name += piece
        if call.part is not None:
            self._answer.beside(call.part, "name", piece)

    def _grow(self, call: _Call, body: Mapping[str, Any], member_name: str, where: Where) -> None:
        name = body.get("name")
        if isinstance(name, str) and name and name != call.name:
            self._name(call, name)
        arguments = body.get(member_name)
        if arguments is not None:
            call.told = True
        text = arguments if isinstance(arguments, str) else ""
        if call.part is None and (call.name or call.id or arguments):
            call.part = self._answer.start("call", call.name, call.id)
        part = call.part
        if part is None or arguments is None:
            return
        if not isinstance(arguments, str):
            # An object (or worse) where a text belongs: its own text is what was meant.
            source, *path = where
            text = source.member(*path, member_name)
            part.meta["as_object"] = True
            if part.pieces and not alike(joined(part.pieces), text):
                self._answer.doubt(part)
                self._answer.warn(
                    "arguments_replaced", f"Other arguments of {call.name} came; the last count."
                )
            part.pieces.clear()
        if text:
            call.bare = False
            self._answer.delta(part, text)


def _repeats(legacy: Mapping[str, Any], function: Any) -> bool:
    return isinstance(function, dict) and all(
        legacy.get(key) == function.get(key) for key in ("name", "arguments")
    )


def _index(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _id(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""
