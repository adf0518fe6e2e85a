"""The providers' protocols as pure functions, both ends.

Client end: requests to bytes, response bytes to events. Server end (the simulator): parses and
refuses requests, encodes replies as the provider streams them. This module defines the facts about
a protocol: `FACTS` of its folder, listed by `registry`. Imports no other module of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["yes", "no", "partly", "unknown"]


@dataclass(frozen=True)
class Assessment:
    """A verdict with a sentence that gives the reason."""

    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class ParameterWords:
    """The names of a protocol's request parameters; `parameters` translates them.

    `same` are its names for parameters that other protocols have, too, by the names of
    `parameters.SUBJECTS`; `own` are further parameters in the body, except those that have our own
    name, and `inside` the same for its member `inner`, which holds most of them. `thinking` is the
    parameter for thinking, "" if none: `off` and `free` (no fixed budget; None: inexpressible) are
    its values; an object under our own name is recognized as this protocol's by its `members`;
    `budgeted` protocols accept a number of tokens.
    """

    same: Mapping[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    inner: str = ""
    inside: frozenset[str] = frozenset()
    thinking: str = ""
    off: Any = None
    free: Any = None
    members: frozenset[str] = frozenset()
    budgeted: bool = False


@dataclass(frozen=True)
class ProtocolFacts:
    """`title` is its name for users, `short` a short form ("": the same). `forced`, `images` and
    `strict` say how a tool is accepted: forced, with images in results, in strict mode (None: it
    exists, and the table of limits decides). `tool_tokens` is the provider's estimated overhead per
    tool. `key_name` is the key for an address of no known vendor, "" for none. `simulated` is the
    path of the simulator's end below its base URL. `path` is a pattern of the end of its request
    paths: what precedes it is a base URL."""

    title: str
    simulated: str
    path: str
    parameters: ParameterWords
    forced: Assessment
    images: Assessment
    strict: Assessment | None = None
    short: str = ""
    tool_tokens: int = 10
    key_name: str = ""


def words_of(text: str) -> frozenset[str]:
    """Splits a space-separated list of names."""
    return frozenset(text.split())
