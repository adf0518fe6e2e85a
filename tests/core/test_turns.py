"""Random turns of 1-12 calls, in whatever order things happen: the laws of running.py hold, and the
run comes to its end."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.rules import Rule
from playground.core.session import Prompt, Turn
from playground.core.settings import Limits
from tests.core.running import Crash, Planned, World

RULES: tuple[tuple[Rule, ...], ...] = (
    (),
    (Rule("*", "run"),),
    (Rule("look", "run"), Rule("get_weather", "deny", when={"/city": "Rome"})),
    (Rule("get_weather", "stop", when={"/city": "Rome"}), Rule("*", "run")),
    (Rule("look", "ask"), Rule("*", "answer", text="so"), Rule("*", "run")),
)


def world_of(chance: Random) -> World:
    """A session with 1-4 turns of 1-12 calls before it, and its limits and rules."""
    plans = [
        [planned(chance) for _ in range(chance.randint(1, 12))] for _ in range(chance.randint(1, 4))
    ]
    return World(
        limits_of(chance),
        chance.choice(RULES),
        plans,
        mishaps_in=chance.choice([0, 0.05, 0.15]),
        other_limits=[limits_of(chance)],
        other_rules=[chance.choice(RULES)],
    )


def limits_of(chance: Random) -> Limits:
    return Limits(
        max_turns=chance.choice([2, 10, 10]),
        max_calls_per_turn=chance.choice([1, 3, 32, 32, 32]),
        max_parallel=chance.choice([1, 2, 4]),
        max_run_tokens=chance.choice([0, 0, 600]),
        max_cost=chance.choice([0.0, 0.0, 0.015]),
        max_repeats=chance.choice([0, 12, 12, 1]),
        continue_on_error=chance.choice([True, True, False]),
    )


def planned(chance: Random) -> Planned:
    """Mostly sound calls of tools that are there, and as often safe as not."""
    return Planned(
        chance.choice([*5 * ["look"], *4 * ["get_weather"], "ask", "gone"]),
        safe=chance.random() < 0.75,
        problem=chance.choice([*8 * [""], "schema", "malformed"]),
        city=chance.choice(["Paris", "Paris", "Rome", "Oslo"]),
        provider_id="twin" if chance.random() < 0.1 else None,
    )


@settings(derandomize=True, deadline=None)
@given(st.randoms(use_true_random=True))
def test_the_laws_hold_in_any_order_and_the_run_ends(chance: Random) -> None:
    to_the_end(played(world_of(chance), chance, 80), chance)


@settings(derandomize=True, deadline=None, max_examples=settings().max_examples // 6)
@given(st.randoms(use_true_random=True))
def test_killed_after_any_event_the_run_asks_and_ends(chance: Random) -> None:
    world = played(world_of(chance), chance, 20)
    for count in range(2, len(world.log) + 1):  # from the first prompt on
        to_the_end(world.killed_after(count), chance)


def played(world: World, chance: Random, steps: int) -> World:
    """Up to `steps` things happen, some of them mishaps."""
    world.begin()
    for _ in range(steps):
        if world.is_over:
            break
        ways = world.mishaps() if chance.random() < world.mishaps_in else world.choices()
        try:
            chance.choice(ways)()
        except Crash:
            world.restart()
    world.fuse = 0
    return world


def to_the_end(world: World, chance: Random) -> None:
    """Nothing goes wrong any more, and a user decides what waits: it ends."""
    for _ in range(600):
        if world.is_over:
            break
        ways = world.choices()
        assert ways, f"It hangs: {world.session.state}"
        chance.choice(ways)()
    assert world.is_over
    items = world.session.items
    last = max(n for n, item in enumerate(items) if isinstance(item, Prompt))
    for turn in items[last:]:  # what a prompt after Stop left behind was said so
        if isinstance(turn, Turn) and turn.end is not None and not turn.dropped:
            assert all(call.status == "done" and call.result for call in turn.calls)
