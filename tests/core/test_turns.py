"""Random turns of 1-12 calls, in whatever order things happen: the laws of running.py hold, and the
run comes to its end."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.rules import Rule
from app.core.settings import Limits
from tests.core.running import Crash, Planned, World

SEEN = settings(derandomize=True, deadline=None, max_examples=60)

CALLS = st.builds(
    Planned,
    st.sampled_from(["look", "look", "get_weather", "get_weather", "ask", "gone"]),
    st.booleans(),
    st.sampled_from(["", "", "", "", "schema", "malformed"]),
    st.sampled_from(["Paris", "Rome"]),
)
TURNS = st.lists(st.lists(CALLS, min_size=1, max_size=12), min_size=1, max_size=3)
LIMITS = st.builds(
    Limits,
    max_turns=st.sampled_from([1, 2, 10]),
    max_calls_per_turn=st.sampled_from([1, 3, 32]),
    max_parallel=st.integers(1, 4),
    max_run_tokens=st.sampled_from([0, 600]),
    max_cost=st.sampled_from([0.0, 0.015]),
    max_repeats=st.sampled_from([0, 1, 12]),
    continue_on_error=st.booleans(),
)
RULES = st.sampled_from(
    [
        (),
        (Rule("*", "run"),),
        (Rule("look", "run"), Rule("get_weather", "deny", when={"/city": "Rome"})),
        (Rule("get_weather", "stop", when={"/city": "Rome"}), Rule("*", "run")),
        (Rule("look", "ask"), Rule("*", "answer", text="so"), Rule("*", "run")),
    ]
)
TAPE = st.lists(st.integers(0, 999), max_size=60)


@SEEN
@given(LIMITS, RULES, TURNS, TAPE)
def test_the_laws_hold_in_any_order_and_the_run_ends(
    limits: Limits, rules: Sequence[Rule], plans: list[list[Planned]], tape: list[int]
) -> None:
    world = World(limits, rules, plans)
    world.begin()
    for number in tape:
        if world.over:
            break
        # Of ten things that happen two are mishaps.
        ways = world.mishaps() if number % 10 < 2 else world.choices()
        try:
            ways[number // 10 % len(ways)]()
        except Crash:
            world.restart()
    to_the_end(world)


def to_the_end(world: World) -> None:
    """Nothing goes wrong any more, and a person decides what waits: it ends."""
    world.fuse = 0
    for place in range(600):
        if world.over:
            break
        ways = world.choices()
        assert ways, f"It hangs: {world.session.state}"
        ways[place % len(ways)]()
    assert world.over
    for turn in world.session.turns:
        if turn.end is not None and not turn.dropped:
            assert all(call.status == "done" and call.result for call in turn.calls)
