"""What is shown of a call while it runs, in its turn or in the background, and of what it printed.

Its numbers are those of the log; how long it has run by now is counted by the page.
"""

from __future__ import annotations

from typing import Any, Literal

from app.core.session import Call, Session, Task

Outcome = Literal["", "live", "ran", "failed"]


def task_of(session: Session, call: Call) -> Task | None:
    """The task that the call went on as in the background, or None."""
    return session.tasks.get(call.task_id)


def goes_behind(session: Session, call: Call) -> bool:
    """Whether it runs in the background now."""
    task = task_of(session, call)
    return task is not None and task.ended_ms is None


def tells(session: Session, call: Call) -> bool:
    """Whether it runs, and so has blocks for its progress and its output."""
    return call.status == "running" or goes_behind(session, call)


def behind_words(session: Session, call: Call) -> tuple[str, Outcome] | None:
    """The state of a call that went on in the background, and its colour; None for any other."""
    task = task_of(session, call)
    if task is None:
        return None
    if task.ended_ms is None:
        return "in the background", "live"
    if _failed(task):
        return "failed in the background", "failed"
    if task.result is None:
        return "stopped in the background", ""
    return "ran in the background", "ran"


def _failed(task: Task) -> bool:
    """What was stopped has no result, and is no failure."""
    if task.result is None:
        return not task.how.startswith(("stopped", "ended with the program"))
    return task.result.is_error


def running(session: Session, call: Call) -> dict[str, Any]:
    """The values of its blocks: `task`, whether it `tells`, whether it `failed` as a task, how long
    it may run (`limit`, words, and `limit_s`; "" and 0 in the background) and how many characters
    came `before` what is kept of its output."""
    behind = task_of(session, call)
    limit_s = 0.0
    if behind is None and call.tool is not None:
        limit_s = call.tool.timeout_s + call.extended_s
    return {
        "call": call,
        "task": behind,
        "tells": tells(session, call),
        "failed": behind is not None and behind.ended_ms is not None and _failed(behind),
        "held": call.real is not None,
        "limit_s": limit_s,
        "limit": seconds(limit_s) if limit_s else "",
        "before": call.printed - len(call.output),
    }


def seconds(count: float) -> str:
    """`30 s`, `0.5 s`, `5 min 30 s`, `1 h 00 min`."""
    if count < 120:
        return f"{count:g} s"
    minutes, rest = divmod(round(count), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
