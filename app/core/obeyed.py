"""Whether a reply did what its tool choice asked for. A sentence for each way in which it did not.

A reply that was cut by a limit, refused or is only paused is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.core.events import EndReason
from app.core.tools import ToolChoice

JUDGED: frozenset[EndReason] = frozenset({"stop", "calls", "other"})


def ignored(
    choice: ToolChoice, calls: Sequence[str], reason: EndReason, server_calls: int = 0
) -> list[str]:
    """What of `choice` was ignored by a reply with `calls` (the tools' names) that ended so.

    `server_calls` are those that the provider ran itself: calls, too, where one was required.
    """
    if reason not in JUDGED:
        return []
    said = [*_of_mode(choice, calls, server_calls)]
    allowed = choice.allowed
    if allowed is not None and choice.mode in ("auto", "required"):
        outside = [name for name in calls if name not in allowed]
        if outside:
            these = f"Only {_names(allowed)}" if allowed else "No tool"
            said.append(f"{these} might be called, but the model called {_names(outside)}.")
    if not choice.parallel and len(calls) > 1:
        said.append(f"Asked for one call at a time, but the model made {len(calls)}.")
    return said


def _of_mode(choice: ToolChoice, calls: Sequence[str], server_calls: int) -> list[str]:
    match choice.mode:
        case "required" if not calls and not server_calls:
            return ["Asked for required, but the model made no call."]
        case "tool" if not calls:
            return [f"Asked for {choice.name}, but the model made no call."]
        case "tool":
            others = _names(name for name in calls if name != choice.name)
            return [f"Asked for {choice.name}, but the model called {others}."] if others else []
        case "none" if calls:
            return [f"Asked for none, but the model called {_names(calls)}."]
    return []


def _names(names: Iterable[str]) -> str:
    """Each once, in order; a call without a name has one to be read."""
    return ", ".join(dict.fromkeys(name or "(no name)" for name in names))
