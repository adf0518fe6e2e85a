"""What follows from an object that nobody changes, remembered for that very object.

    @lru_cache(maxsize=64)
    def size(tool: Same[Tool]) -> int: ...

    size(Same(tool))

A tool or a schema has mappings in it, so it has no hash, and to compare two of them costs as much
as what is remembered. A thousand calls of an answer bear one and the same object.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

TOOLS_IN_USE = 64
"""Of so many tools what was found out last is remembered."""


class Same(Generic[T]):
    """Equal where `value` is the same object, which lives as long as this does."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
