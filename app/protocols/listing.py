"""The list of models as providers answer it: whatever came, the objects in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def listed(value: Any, member: str) -> list[Mapping[str, Any]]:
    """The objects of the list at `member` of `value`, or of `value` where it is the list itself
    (Together); those without a name are left out, and of anything else nothing.
    """
    found = value.get(member) if isinstance(value, Mapping) else value
    entries = found if isinstance(found, list) else []
    named = (entry for entry in entries if isinstance(entry, Mapping))
    return [one for one in named if any(one.get(key) for key in ("id", "name", "model"))]
