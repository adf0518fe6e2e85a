"""The playbook of calls side by side: which of a turn's calls begin, and which is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.decide import RunCall, next_commands
from playground.core.events import (
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallStarted,
    Event,
    PromptAdded,
    SessionStarted,
)
from playground.core.session import Session, blocking_call
from playground.core.settings import Limits
from playground.core.tools import text_result
from tests.playbook import call, call_checked, run, session, settings, turn

PATTERNS: list[tuple[str, str, str]] = [
    # Alone.
    ("ud", "0", "running"),
    ("sd", "0", "running"),
    ("uw", "", "waiting"),
    ("ui", "", "waiting"),
    # What is safe goes together, past what is safe and waits or runs or was cut.
    ("sd sd sd", "0 1 2", "running"),
    ("sw sd sw sd", "1 3", "running"),
    ("sr sd", "1", "running"),
    ("si sd", "1", "running"),
    ("sx sd", "1", "running"),
    ("sf sd", "1", "running"),
    ("sa sd", "1", "running"),
    # What is unsafe waits for all before it, whatever these are.
    ("sd ud", "0", "running"),
    ("sw ud", "", "waiting"),
    ("sr ud", "", "running"),
    ("si ud", "", "waiting"),
    ("sx ud", "1", "running"),
    ("ud ud", "0", "running"),
    ("uw ud", "", "waiting"),
    ("ur ud", "", "running"),
    ("ui ud", "", "waiting"),
    ("ux ud", "1", "running"),
    ("uf ud", "1", "running"),
    ("sx ux sx ud", "3", "running"),
    ("sx sw ux ud", "", "waiting"),
    # And is waited for by all after it: a barrier.
    ("ud sd", "0", "running"),
    ("uw sd", "", "waiting"),
    ("ur sd sd", "", "running"),
    ("ui sd", "", "waiting"),
    ("ux sd sd", "1 2", "running"),
    ("sd ud sd", "0", "running"),
    ("sx ud sd", "1", "running"),
    ("sx ux sd", "2", "running"),
    ("sd uw sd", "0", "running"),
    ("sx uw sd", "", "waiting"),
    ("sd sd ud sd sd", "0 1", "running"),
    ("sx sr ud sd", "", "running"),
    # What was answered is as good as undone until its end is written, in the same breath.
    ("ua ud", "", "running"),
    ("ua sd", "", "running"),
    ("ud sa", "0", "running"),
    # What is not yet checked may be unsafe.
    ("sp sd", "", "running"),
    ("sd sp ud", "0", "running"),
    # Nobody is asked for what waits behind another.
    ("uw ud sw", "", "waiting"),
    ("ui sw ud", "", "waiting"),
]

CAPS: list[tuple[str, int, str]] = [
    ("sd sd sd", 2, "0 1"),
    ("sr sd sd", 2, "1"),
    ("sr sr sd", 2, ""),
    ("sx sr sd sd", 2, "2"),
    ("sd sd", 1, "0"),
    ("sr sd", 1, ""),
    ("sx sd", 1, "1"),
    ("sw sd sd", 1, "1"),
    ("sr sr sd", 1, ""),
    ("ud sd", 1, "0"),
    ("sd sd", 0, "0"),
    ("sd " * 9, 4, "0 1 2 3"),
]


def session_with_calls(calls: str, most: int = 4) -> Session:
    """A session whose last turn makes `calls`, each two letters: `s`afe or `u`nsafe, and then
    `p`roposed, `w`aiting, `d`ecided, `r`unning, `i`nterrupted, done (`x`), failed (`f`), or
    answered by hand and not yet written down (`a`)."""
    words = calls.split()
    events: list[Event] = [SessionStarted(replace(settings(), limits=Limits(max_parallel=most)))]
    events += [PromptAdded("hello"), *turn(1, *(call(n) for n in range(len(words))))]
    for n, word in enumerate(words):
        id_, safe, status = f"1.{n}", word[0], word[1]
        if status == "p":
            continue
        events.append(call_checked(id_, parallel_safe=safe == "s"))
        if status in "drixf":
            events.append(run(id_))
        if status in "rixf":
            events.append(CallStarted(id_, 1))
        match status:
            case "i":
                events.append(CallInterrupted(id_))
            case "x" | "f":
                events.append(CallEnded(id_, text_result("so", is_error=status == "f")))
            case "a":
                events.append(CallDecided(id_, "answer", digest="digest", text="so"))
    return session(*events)


@pytest.mark.parametrize(("calls", "begin", "state"), PATTERNS, ids=[p[0] for p in PATTERNS])
def test_which_calls_begin(calls: str, begin: str, state: str) -> None:
    session = session_with_calls(calls)
    assert _begun(session) == begin
    assert session.state == state


@pytest.mark.parametrize(("calls", "most", "begin"), CAPS, ids=[f"{c[0]} {c[1]}" for c in CAPS])
def test_how_many_at_once(calls: str, most: int, begin: str) -> None:
    assert _begun(session_with_calls(calls, most)) == begin


@pytest.mark.parametrize(
    ("calls", "behind"),
    [
        ("ud", None),
        ("uw ud", 0),
        ("ux uw sd", 1),
        ("sw sx ud", 0),
        ("sw sd", None),
        ("sw ur sd", 1),
        ("ua ud", 0),
    ],
)
def test_which_call_the_last_one_waits_for(calls: str, behind: int | None) -> None:
    session = session_with_calls(calls)
    call = blocking_call(session.current_calls, session.current_calls[-1])
    assert (call and call.part.index) == behind


def _begun(whole_session: Session) -> str:
    begun = [
        next_command
        for next_command in next_commands(whole_session)
        if isinstance(next_command, RunCall)
    ]
    assert all(item.attempt == 1 for item in begun)
    return " ".join(item.call_id.removeprefix("1.") for item in begun)
