"""The providers' protocols as pure functions, both ends.

Client end: requests to bytes, response bytes to events. Server end (the simulator): requests
parsed and refused, replies encoded as the provider streams them. Here is what is known of a
protocol beside its code: `FACTS` of its folder, listed by `registry`. Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from app.core.late import dataclass

Verdict = Literal["yes", "no", "partly", "unknown"]


@dataclass(frozen=True)
class Assessment:
    """A verdict with a sentence that says why."""

    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class ParameterWords:
    """What a protocol calls the parameters of a request; `parameters` says how they are read.

    `same` are its words for what others have, too, by the names of `parameters.SUBJECTS`; `own` are
    the members of a body that are parameters, but for those that bear our own name, and `inside`
    the same of its member `inner`, which holds most of them. `thinking` says how much is thought,
    "" where nothing does: `off` and `free` (as much as the model likes; None: no word for it) are
    values of it, by `members` an object under our own name is known for this protocol's, and
    `budgeted` protocols take a number of tokens.
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
    """`title` is what it is called where a user reads of it, `short` where there is little room
    ("": the same). `forced`, `images` and `strict` say how a tool is taken: forced, with images as
    results, in strict mode (None: there is one, and the table of limits judges). `tool_tokens` is
    what a provider puts around a tool, estimated. `key_name` is the key of an address that is no
    vendor's, "" for none. `simulated` is where the simulator's end stands below its base URL.
    `path` is a pattern of how the paths of its requests end: what stands before is a base URL.
    """

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
    """The names of a list that is written with spaces between them."""
    return frozenset(text.split())
