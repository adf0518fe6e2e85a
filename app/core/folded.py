"""The session as `GET /sessions/ID` gives it to scripts; see docs/contract.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.core.serialization import to_data
from app.core.session import Call, Session, Task


def folded(session: Session, title: str = "") -> Mapping[str, Any]:
    """All that a script is told of `session`."""
    return {
        "id": session.id,
        "title": title,
        "state": session.state,
        "seq": session.seq,
        "text": session.answer,
        "turns": sum(not turn.dropped for turn in session.turns),
        "calls": [_folded_call(call) for call in session.calls()],
        "tasks": [_folded_task(task) for task in session.tasks.values()],
    }


def _folded_task(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "call": task.call,
        "title": task.title,
        "how": task.how,
        "result": to_data(task.result) if task.result is not None else None,
        "running": task.ended_ms is None,
    }


def _folded_call(call: Call) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments) if not call.malformed else None
    except (ValueError, RecursionError):
        arguments = None
    decided = call.decided
    return {
        "id": call.id,
        "provider_id": call.provider_id,
        "name": call.name,
        "status": call.status,
        "arguments": arguments,
        "arguments_raw": call.raw,
        "problems": [to_data(problem) for problem in call.problems],
        "digest": call.digest,
        "decided_by": decided and (decided.by if not decided.rule else decided.rule),
        "decision": decided and decided.decision,
        "result": to_data(call.result) if call.result is not None else None,
        "fault": decided.fault if decided is not None else "",
        "real": to_data(call.real) if call.real is not None else None,
    }
