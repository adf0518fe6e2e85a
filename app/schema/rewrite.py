"""Safe rewrites of a schema: ready for strict mode, ready for Gemini, without `$ref`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rewrite:
    """`lost` are sentences about meaning that could not be kept; () where both schemas accept
    and refuse the same values, seen through `restored`.
    """

    parameters: Mapping[str, Any]
    lost: tuple[str, ...] = ()


def strict_ready(schema: Mapping[str, Any]) -> Rewrite:
    """`schema` as strict mode wants it."""
    return Rewrite(schema)


def gemini_ready(schema: Mapping[str, Any]) -> Rewrite:
    """`schema` in what Gemini's own `parameters` knows."""
    return Rewrite(schema)


def inlined(schema: Mapping[str, Any]) -> Rewrite:
    """`schema` with every `$ref` replaced by what it names."""
    return Rewrite(schema)


def restored(schema: Mapping[str, Any], value: Any) -> Any:
    """A value of a strict-ready schema as the original `schema` has it: without the nulls that
    stand for absent.
    """
    return value
