"""Finds what a client may take for a call in a JSON value of any protocol. Pure.

A decoder reads calls only where its protocol has them, but a client may look elsewhere: in another
member, in another protocol's spelling, in the snapshot of an unfinished answer. What is found here
and not located by the decoder has not been decided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from playground.protocols.raw_json import Path, parse_json

_CALL_MEMBERS = frozenset({"toolcall", "toolcalls", "functioncall", "functioncalls"})
"""Names of members that have calls: folded, as by `_fold_name`."""
_CALL_TYPES = frozenset(
    {"tooluse", "functioncall", "customtoolcall", "toolcall"}
    | {"functioncallarguments", "customtoolcallinput"}
)
"""Words in the `type` of objects that are calls or, in events, pieces of one: folded."""
_NOT_SEARCHED = frozenset({"tools", "toolchoice", "schema", "usage", "usagemetadata"})
"""Members that repeat the request, or count: names in them are those of tools and parameters."""
_BARE = frozenset({"index", "type", "extra_content"})
"""The members of the beginning of a call that does not say yet which one it is."""

_Link = tuple["_Link", str | int] | None
"""A path, last step first: longer ones share the steps of shorter ones."""


def has_unlocated_call(
    value: Any, calls: Collection[Path], *, begun: Collection[Path] = (), own: Collection[Path] = ()
) -> bool:
    """Whether `value` has a call at no located path.

    `calls` are the paths of pieces of calls in it. A path above a call stands for that one alone:
    another next to it is not located. `begun` are those of pieces that may become calls, and `own`
    those of calls that the provider runs itself.
    """
    unused, owned = set(calls), set(own)
    # Few lengths, however many calls there are and however deep they are.
    lengths, own_lengths = {len(path) for path in unused}, {len(path) for path in owned}
    for path, call in _calls_in(value):
        if path in calls or any(path[:n] in owned for n in own_lengths):
            unused.discard(path)
        elif path in begun:
            if not _is_bare(call):
                return True
        else:
            above = next((path[:n] for n in sorted(lengths) if path[:n] in unused), None)
            if above is None:
                return True
            unused.discard(above)
    return False


def has_call(text: str) -> bool:
    """Whether the JSON `text` has a call. False if it is invalid."""
    try:
        return has_unlocated_call(parse_json(text), ())
    except ValueError:
        return False


def _calls_in(value: Any) -> Iterator[tuple[Path, Any]]:
    """The calls in `value` with their paths; what is inside of a call belongs to it, unless that is
    the whole value. JSON in a string counts only if it is the whole value."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            return
    stack: list[tuple[Any, _Link]] = [(value, None)]
    while stack:
        here, link = stack.pop()
        if isinstance(here, list):
            stack += [(item, (link, n)) for n, item in enumerate(here) if _is_tree(item)]
            continue
        if not isinstance(here, dict):
            continue
        if _is_call_type(here.get("type")):
            yield _path(link), here
            if link is not None:
                continue
        for name, item in here.items():
            folded = _fold_name(name)
            if folded in _NOT_SEARCHED:
                continue
            if folded not in _CALL_MEMBERS:
                if _is_tree(item):
                    stack.append((item, (link, name)))
            elif isinstance(item, list):
                for n, entry in enumerate(item):
                    if _says_something(entry):
                        yield _path(((link, name), n)), entry
            elif isinstance(item, dict | str) and _says_something(item):
                yield _path((link, name)), item


def _is_tree(value: Any) -> bool:
    return isinstance(value, dict | list)


def _is_call_type(type_: Any) -> bool:
    return isinstance(type_, str) and not _CALL_TYPES.isdisjoint(_fold_name(type_).split("."))


def _says_something(value: Any) -> bool:
    """Whether any leaf is not empty: a stub without a name is not a call."""
    stack = [value]
    while stack:
        here = stack.pop()
        if isinstance(here, dict):
            stack += here.values()
        elif isinstance(here, list):
            stack += here
        elif here is not None and here != "":
            return True
    return False


def _is_bare(call: Any) -> bool:
    """Whether the beginning of a call has no name and no arguments, wherever a client looks."""
    return isinstance(call, Mapping) and not any(
        _says_something(item) for name, item in call.items() if name not in _BARE
    )


def _fold_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _path(link: _Link) -> Path:
    steps: list[str | int] = []
    while link is not None:
        link, step = link
        steps.append(step)
    return tuple(reversed(steps))
