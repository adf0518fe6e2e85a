"""What an importer makes of somebody else's cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.evaluation.spec import Spec

ReadFile = Callable[[str], str]
"""The text of a file by the name that a batch gives it, relative to its own. BadInput where it
cannot be read."""


@dataclass(frozen=True)
class LeftOut:
    """A case that cannot be taken, by its name in the file, and why, in a sentence."""

    case: str
    reason: str


@dataclass(frozen=True)
class ImportedBatch:
    """`notes` are sentences on what is not as it was in the file; `left_out` cases are not in
    `spec`."""

    spec: Spec
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
