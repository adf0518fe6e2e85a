"""A history without calls that were left out goes back only where its provider can take it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.decide import Command, Record, SendRequest, next_commands
from playground.core.events import (
    Event,
    PromptAdded,
    RunPaused,
    RunResumed,
    RunStopped,
    SettingsChanged,
    Warned,
)
from playground.core.session import Session
from tests.playbook import (
    call,
    call_checked,
    part,
    run,
    run_call,
    session,
    settings,
    start_events,
    turn,
)

SIGNED: dict[str, Any] = {"meta": {"block": {"type": "thinking", "signature": "sealed"}}}
OPEN: dict[str, Any] = {"meta": {"field": "reasoning_content"}}
TOLD = Warned("calls_left_out", "Too many.", {"count": 44, "most": 1})


def run_left_out(*parts: list[Event], warned: bool = True) -> list[Event]:
    """A run whose only taken call, 1.N, is done; calls of its answer were left out."""
    events = turn(1, *parts)
    place = next(n for n, items in enumerate(parts) if getattr(items[0], "part_kind", "") == "call")
    id_ = f"1.{place}"
    before_end = [TOLD] if warned else []
    return [
        *start_events(model="m"),
        *events[:-1],
        *before_end,
        events[-1],
        call_checked(id_),
        run(id_),
        *run_call(id_),
    ]


def pause_of(results: list[Command]) -> str:
    (item,) = results
    if isinstance(item, Record) and isinstance(item.event, RunPaused):
        assert "44 calls that were not kept" in item.event.message
        return item.event.limit
    assert isinstance(item, SendRequest)
    return ""


@pytest.mark.parametrize(
    ("events", "limit"),
    [
        (run_left_out(call(0)), ""),
        # Before its call, which goes back: the signed thoughts go with it.
        (run_left_out(part(0, "thinking", **SIGNED), call(1)), ""),
        (run_left_out(call(0), part(1, "thinking", **SIGNED)), "left_out"),
        (
            run_left_out(call(0), part(1, "text", meta={"part": {"thoughtSignature": "x"}})),
            "left_out",
        ),
        (run_left_out(call(0), part(1, "thinking", **OPEN)), ""),
        (run_left_out(call(0), part(1, "thinking", **SIGNED), warned=False), ""),
    ],
)
def test_sealed_thoughts_among_calls_that_were_left_out_are_not_sent(
    events: list[Event], limit: str
) -> None:
    assert pause_of(next_commands(session(*events))) == limit


SEALED = run_left_out(call(0), part(1, "thinking", **SIGNED))


def after(*events: Event) -> Session:
    return session(*SEALED, *events)


def test_it_stays_so_until_another_model_is_asked() -> None:
    paused = RunPaused("left_out", "Not sent.")
    assert pause_of(next_commands(after(paused, RunResumed()))) == "left_out"
    assert pause_of(next_commands(after(RunStopped(), PromptAdded("again")))) == "left_out"
    other = SettingsChanged(replace(settings(), model="another"))
    assert pause_of(next_commands(after(paused, other, RunResumed()))) == ""
