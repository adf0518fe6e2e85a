"""The preview has the exact bytes that are sent, and making it changes nothing."""

from __future__ import annotations

import copy

import pytest

from playground.core.errors import BadInput
from playground.core.providers import PROFILES
from playground.core.session import Prompt, Session
from playground.core.settings import Profile, Settings
from playground.core.tools import Content
from playground.engine.engine import Engine
from playground.engine.preview import (
    WIRES,
    Draft,
    Preview,
    preview,
    preview_notes,
    profile_for_wire,
)
from tests.engines import ALLOW_ALL, StartEngine, create_session
from tests.tables import rest_slow
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

DOT = Content("image", media_type="image/png", data="iVBORw0KGgo=")
ASK = "What is 17*23, and the weather in Paris?"


async def safe_preview(engine: Engine, session_id: str, text: str = "", wire: str = "") -> Preview:
    """A preview that is sure to have left the session as it was."""
    async with engine.sessions.lock_session(session_id) as live:
        before = copy.deepcopy(live.session)
        draft_preview = preview(engine, live.session, Draft(text), wire)
        assert live.session == before
    return draft_preview


async def session_of(engine: Engine, session_id: str) -> Session:
    async with engine.sessions.lock_session(session_id) as live:
        return live.session


@pytest.mark.parametrize("wire", rest_slow(WIRES))
async def test_what_is_shown_is_what_is_sent(wire: str, engine: Engine) -> None:
    profile = profile_for_wire(engine.profiles(), engine.profile("simulator"), wire)
    session_id = await create_session(
        engine, ["calculator", "get_weather"], profile=profile, tool_choice="required"
    )
    draft_preview = await safe_preview(engine, session_id, ASK)
    assert draft_preview.sent.protocol == wire
    assert not draft_preview.failed
    await engine.runner.prompt(session_id, ASK)
    session = await wait_while_running(engine, session_id)
    assert session.turns[0].request == draft_preview.sent
    assert len(session.waiting) == 2

    waits = await safe_preview(engine, session_id, "And Rome?")
    assert [word for word in waits.says if "2 results are missing" in word]
    assert [word for word in waits.says if "not part of this request" in word]
    assert [word for word in waits.says if "from here on it is auto" in word]
    assert waits.sent.choice.mode == "auto"
    assert "Rome" not in waits.sent.body
    assert "Not run" in waits.sent.body

    await engine.rules.put(session_id, ALLOW_ALL, session.turns[0].settings.tools)
    await engine.runner.advance(session_id)
    session = await wait_while_running(engine, session_id)
    assert session.state == "idle", session.turns[-1].failure
    assert (await safe_preview(engine, session_id)).says == (
        "There is no prompt yet. Your text is added at the end.",
    )
    draft_preview = await safe_preview(engine, session_id, "Thanks.")
    await engine.runner.prompt(session_id, "Thanks.")
    session = await wait_while_running(engine, session_id)
    assert session.turns[draft_preview.sent.recording - 1].request == draft_preview.sent


async def test_the_same_request_on_the_other_wires(engine: Engine) -> None:
    session_id = await create_session(engine, ["calculator"])
    previews = {wire: await safe_preview(engine, session_id, "Hello", wire) for wire in WIRES}
    assert {wire: preview.sent.protocol for wire, preview in previews.items()} == {
        w: w for w in WIRES
    }
    assert len({value.sent.url for value in previews.values()}) == len(WIRES)
    assert previews["anthropic"].sent == (await safe_preview(engine, session_id, "Hello")).sent
    for item in previews.values():
        assert "Hello" in item.sent.body
        assert any("PLAYGROUND_TOKEN" in value for value in item.sent.headers.values())
    with pytest.raises(BadInput, match="must be one of anthropic"):
        await safe_preview(engine, session_id, wire="telepathy")


async def test_what_keeps_a_request_from_being_sent_is_said(engine: Engine) -> None:
    session_id = await create_session(engine, asked_profile="openai")
    draft_preview = await safe_preview(engine, session_id, "Hello")
    assert "OPENAI_API_KEY" in draft_preview.failed
    assert draft_preview.sent.url.startswith("https://")
    # On another wire it is only looked at.
    assert not (await safe_preview(engine, session_id, "Hello", "anthropic")).failed


async def test_after_a_failure_it_is_what_retry_sends(engine: Engine) -> None:
    session_id = await create_session(engine, asked_profile="openai")
    await engine.runner.prompt(session_id, "Hello")
    await wait_while_running(engine, session_id)
    draft_preview = await safe_preview(engine, session_id)
    assert "This is what Retry sends." in draft_preview.says
    await engine.runner.retry(session_id)
    session = await wait_while_running(engine, session_id)
    assert session.turns[-1].request == draft_preview.sent


async def test_a_secret_in_the_draft_and_an_image(start_engine: StartEngine) -> None:
    secret = "sk-secret-0123456789abcdef"
    engine = await start_engine(environment={"OPENAI_API_KEY": secret})
    session_id = await create_session(engine)
    assert secret not in (await safe_preview(engine, session_id, f"It is {secret}.")).sent.body
    session = await session_of(engine, session_id)
    draft = Draft("", (DOT,))
    draft_preview = preview(engine, session, draft)
    await engine.runner.prompt(session_id, draft.text, draft.images)
    session = await wait_while_running(engine, session_id)
    assert session.turns[0].request == draft_preview.sent


def test_the_row_that_stands_for_a_wire() -> None:
    vendor = next(profile for profile in PROFILES if profile.name == "openai")
    simulator = Settings(PROFILES[0]).profile
    assert profile_for_wire(PROFILES, simulator, "openai_chat").simulated
    assert profile_for_wire(PROFILES, vendor, "anthropic").name == "anthropic"
    assert profile_for_wire([], Profile("x", "openai_chat", "sim:"), "anthropic").base_url == "sim:"


async def test_notes_are_made_without_the_data_of_images(start_engine: StartEngine) -> None:
    """The line in Setup is drawn with every page: it says what the whole request would say."""
    image = Content("image", media_type="image/webp", data="QUJD" * 50_000)
    engine = await start_engine()
    for profile in engine.profiles():
        if not profile.simulated:
            continue
        session_id = await create_session(engine, ["calculator"], asked_profile=profile.name)
        await engine.runner.prompt(session_id, "look", (image,))
        session = await wait_while_running(engine, session_id)
        whole, alone = preview(engine, session), preview_notes(engine, session)
        assert (alone.notes, alone.says, alone.failed) == (
            whole.notes,
            whole.says,
            whole.failed,
        )
        assert len(alone.sent.body) < 20_000 < len(whole.sent.body)
        first = session.items[0]
        assert isinstance(first, Prompt)
        assert first.images == (image,)
