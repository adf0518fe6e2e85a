"""What a user denied: told apart by name and by what the arguments mean."""

from __future__ import annotations

import pytest

from playground.core.rule_proposals import Denials
from tests.playbook import call, session, start_events, turn


@pytest.mark.parametrize(
    ("name", "arguments", "has"),
    [
        ("get_weather", '{"city":"Paris"}', True),
        ("get_weather", '{ "city" : "Paris" }', True),
        ("get_weather", '{"city":"Rome"}', False),
        ("get_weather", "{", False),
        ("look", '{"city":"Paris"}', False),
    ],
)
def test_the_same_call_is_known_again(name: str, arguments: str, has: bool) -> None:
    denials = Denials()
    denials.add("get_weather", ['{"city":"Paris"}', '{"city":"Oslo"}'])
    whole_session = session(*start_events(), *turn(1, call(0, name, arguments)))
    assert denials.has(whole_session.call("1.0")) == has
    assert denials.has_tool(name) == (name == "get_weather")
