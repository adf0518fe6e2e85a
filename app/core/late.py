"""Modules that no start needs, imported when they are first used:

    if TYPE_CHECKING:
        import httpx
    else:
        httpx = Late("httpx")

The name is used as that of the module. `load_all` loads what was put off, so that nothing waits.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

NAMES: list[str] = []
"""All modules that were put off."""


class Late:
    """Stands for the module `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        NAMES.append(name)

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)  # from now on it is found without this function
        return value


def load_all() -> None:
    """Load all modules that were put off, and those that they put off in turn."""
    for name in NAMES:  # grows meanwhile
        import_module(name)
