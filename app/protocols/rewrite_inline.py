"""Every `$ref` replaced by what it names, as far as that ends and does not grow too large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.protocols.lint_rules import recursive_refs
from app.protocols.rewrite_parts import ANNOTATIONS, UNJUDGED, Losses, merged
from app.schema.keywords import Place, is_local, resolved

MOST_NODES = 20_000
_OLD = ("draft-04", "draft-06", "draft-07")
_DEFINITIONS = ("$defs", "definitions")


class TooLarge(Exception):
    """Written out the schema would be too large."""


def inline(schema: Mapping[str, Any], losses: Losses, *, cut: bool = False) -> dict[str, Any]:
    """`schema` without refs; those that lead back to themselves stay, bare, or are cut off.

    TooLarge where the result would have more than MOST_NODES values.
    """
    return _Inliner(schema, losses, cut).whole()


class _Inliner:
    def __init__(self, root: Mapping[str, Any], losses: Losses, cut: bool) -> None:
        self.root, self.losses, self.cut = root, losses, cut
        self.recursive = recursive_refs(root)
        # Before draft 2019-09 nothing beside a `$ref` counted.
        self.alone = any(draft in str(root.get("$schema", "")) for draft in _OLD)
        self.begun: set[str] = set()
        self.written = 0

    def whole(self) -> dict[str, Any]:
        keep = bool(self.recursive) and not self.cut
        done: dict[str, Any] = self.of(
            {key: one for key, one in self.root.items() if keep or key not in _DEFINITIONS}, ()
        )
        return done

    def of(self, value: Any, place: Place) -> Any:
        """A copy of any value of a schema with the refs in it replaced."""
        self.written += 1
        if self.written > MOST_NODES:
            raise TooLarge
        if isinstance(value, list):
            return [self.of(one, (*place, index)) for index, one in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        ref = value.get("$ref")
        if isinstance(ref, str) and is_local(ref) and not _is_data(place):
            return self.referred(value, ref, place)
        return {
            key: one if key in ("enum", "const", "default", "examples") and not _named(place)
            else self.of(one, (*place, key))
            for key, one in value.items()
        }  # fmt: skip

    def referred(self, value: Mapping[str, Any], ref: str, place: Place) -> Any:
        beside = {key: one for key, one in value.items() if key != "$ref"}
        if self.alone:
            beside = {key: one for key, one in beside.items() if key in UNJUDGED}
        beside = self.of(beside, place)
        if ref in self.recursive and not self.begins(ref, place):
            return self.looped(ref, beside, place)
        target = self.of(resolved(self.root, ref), place)
        if not beside:
            return target
        if isinstance(target, bool):
            return beside if target else False
        both = {**target, **beside} if not set(beside) - set(UNJUDGED) else None
        both = both if both is not None else merged(beside, target)
        return {**beside, "allOf": [*beside.get("allOf", ()), target]} if both is None else both

    def begins(self, ref: str, place: Place) -> bool:
        """Whether this is the ref of the whole schema, which is written out once: arguments are an
        object, and a provider wants to see it."""
        outermost = not place or (len(place) == 2 and place[0] == "allOf")
        if not outermost or ref in self.begun:
            return False
        self.begun.add(ref)
        return True

    def looped(self, ref: str, beside: Mapping[str, Any], place: Place) -> Any:
        """A ref that leads back to itself has no end written out."""
        if self.cut:
            self.losses.add(f"What {ref} names, which refers to itself, is taken unchecked", place)
            return {key: one for key, one in beside.items() if key in ("title", "description")}
        real = {key: one for key, one in beside.items() if key not in ANNOTATIONS}
        bare = {"$ref": ref}
        return {**real, "allOf": [*real.get("allOf", ()), bare]} if real else bare


def _named(place: Place) -> bool:
    """Whether the last step is a name rather than a keyword: `/properties` and the like."""
    return _holder(place)


def _holder(place: Place) -> bool:
    """Whether the value at `place` maps names to schemas."""
    named = (
        *("properties", "patternProperties", "$defs", "definitions"),
        *("dependentSchemas", "dependencies", "dependentRequired"),
    )
    inside = False
    for step in place:
        inside = not inside and step in named
    return inside


def _is_data(place: Place) -> bool:
    """Whether a member "$ref" at `place` is the name of a property."""
    return _holder(place)
