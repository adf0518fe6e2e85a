"""What an answer whose calls are held says of what is not held, and of what a denial costs."""

from __future__ import annotations

import pytest

from playground.core.events import PartEnded, PartStarted, RequestReceived, SessionStarted, Tapped
from playground.core.session import Turn
from playground.core.settings import Profile
from playground.render.card import denial_words, unheld_words
from tests.factories import Log, settings

SIGNED: dict[str, object] = {"part": {"thoughtSignature": "c2ln"}}
SHELL: dict[str, object] = {"block": {"type": "local_shell_call"}}
SEARCH: dict[str, object] = {"block": {"type": "web_search_call"}}


def answer(protocol: str, *parts: tuple[str, dict[str, object]], held: bool = True) -> Turn:
    profile = Profile("a", protocol, "https://a.example")  # type: ignore[arg-type]
    log = Log().add(SessionStarted(settings(profile=profile), Tapped("tap")))
    log.add(RequestReceived("/", held=held)).prompt().request()
    for index, (kind, meta) in enumerate(parts):
        log.add(
            PartStarted(index, kind, "f", meta=meta),  # type: ignore[arg-type]
            PartEnded(index, "{}", "f", meta=meta),
        )
    (turn,) = log.end("calls").session().turns
    return turn


def test_what_the_client_runs_beside_its_calls_is_said_not_to_be_held() -> None:
    parts: list[tuple[str, dict[str, object]]]
    parts = [("server_call", SEARCH), ("server_call", SHELL), ("call", {})]
    message = unheld_words(answer("openai_responses", *parts))
    assert message == "Not held: local_shell_call. The agent runs them without waiting for you."
    assert unheld_words(answer("openai_responses", *parts, held=False)) == ""
    assert unheld_words(answer("openai_responses", parts[0])) == ""


@pytest.mark.parametrize(
    ("metas", "costly"),
    [
        ([SIGNED, {}, {}], [True, False, False]),
        ([SIGNED, SIGNED], [False, False]),
        ([SIGNED], [False]),
        ([{}, {}], [False, False]),
    ],
)
def test_a_denial_says_that_it_takes_the_signature_of_others(
    metas: list[dict[str, object]], costly: list[bool]
) -> None:
    turn = answer("gemini", *(("call", meta) for meta in metas))
    assert [denial_words(turn, call) != "" for call in turn.calls] == costly
