from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.events import RequestSent
from playground.core.settings import Profile
from playground.exchange.requests_export import (
    encode_request,
    export_request,
    package_base,
    request_of_turn,
    session_before,
)
from playground.protocols.registry import CODECS
from tests.exchange.asking import PROTOCOLS, weather
from tests.simulator.talking import accepted

SENT = RequestSent(
    1,
    protocol="openai_chat",
    method="POST",
    url="https://x.test/v1/chat/completions",
    headers={},
    body="{}",
    model="m",
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_turn_is_written_again_as_it_was_sent(protocol: str) -> None:
    kind = weather(protocol)
    for turn, body in zip(kind.session.turns, kind.bodies, strict=True):
        again = encode_request(
            kind.session, turn.settings.profile.protocol, turn, kind.settings.profile
        )
        assert again.body.decode() == turn.request.body
        assert request_of_turn(turn).value == body
        assert request_of_turn(turn).streams


@pytest.mark.parametrize("other", PROTOCOLS)
def test_every_other_protocol_takes_it(other: str) -> None:
    kind = weather("anthropic" if other != "anthropic" else "gemini")
    protocol = next(name for name in PROTOCOLS if name == other)
    sent = encode_request(kind.session, protocol, kind.session.turns[-1])  # type: ignore[arg-type]
    assert accepted(other, sent).request.messages[-1].role == "results"
    assert set(CODECS) == set(PROTOCOLS)


def test_what_came_before_a_turn_is_all_there_is() -> None:
    session = weather("anthropic").session
    assert [type(item).__name__ for item in session_before(session, session.turns[0]).items] == [
        "Prompt"
    ]


@pytest.mark.parametrize(
    ("protocol", "url", "match"),
    [
        ("anthropic", "https://x.test/a/v1/messages", "https://x.test/a"),
        ("openai_chat", "https://x.test/v1/chat/completions", "https://x.test/v1"),
        ("openai_responses", "https://x.test/v1/responses", "https://x.test/v1"),
        ("gemini", "https://x.test/v1beta/models/g:generateContent", "https://x.test"),
        ("ollama", "http://x.test:11434/api/chat", "http://x.test:11434"),
        ("ollama", "http://x.test:11434/other", None),
    ],
)
def test_the_base_is_what_stands_before(protocol: str, url: str, match: str | None) -> None:
    request = export_request(
        replace(SENT, protocol=protocol, url=url), Profile("p", "ollama", "https://x.test")
    )
    outcome = package_base(request)
    assert (outcome and outcome[0]) == match


def test_only_the_profiles_own_variable_is_a_key() -> None:
    profile = Profile("p", "openai_chat", "https://x.test", key_name="X_API_KEY")
    headers = {"authorization": "Bearer $X_API_KEY", "a": "$HOME", "b": "x\r\ny", "c": "abc*****"}
    request = export_request(replace(SENT, headers=headers), profile)
    assert request.key_header == "authorization"
    assert set(request.headers) == {"authorization", "a", "c"}
    assert [note.split()[0:2] for note in request.notes] == [["A", "header"], ["The", "header"]]
    assert export_request(replace(SENT, headers={"a": "$HOME"}), profile).key_header == ""
    assert export_request(SENT, replace(profile, key_name="X;id")).key_name == ""


def test_a_body_that_is_no_object_has_no_value() -> None:
    profile = Profile("p", "openai_chat", "https://x.test")
    assert [
        export_request(replace(SENT, body=b), profile).value for b in ("", "[]", '{"a":NaN}')
    ] == [None] * 3
