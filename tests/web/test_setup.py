"""Setup follows the session in every tab."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.providers import SHIPPED
from playground.core.settings import Profile
from playground.engine.engine import Engine
from playground.web.session.setup import group_profiles
from playground.web.site import Site
from playground.web.stream import Cursor, _next_messages
from tests.engines import create_session
from tests.markup import joined_tags
from tests.render.page import ENV

pytestmark = pytest.mark.anyio

PARTIAL = '<hx-partial hx-target="#panel-setup" hx-swap="innerMorph">'


async def test_a_change_of_settings_draws_setup_anew(engine: Engine) -> None:
    site, session_id = Site(engine, ENV), await create_session(engine, ["calculator"])
    page = Cursor(engine.sessions.position, -1)
    script = Cursor(-1, 1, by_seq=True)
    assert PARTIAL not in await _next_messages(site, session_id, page, slow=True)
    async with engine.sessions.lock_session(session_id) as live:
        settings = live.session.settings
    assert settings is not None
    await engine.runner.settings(session_id, replace(settings, model="m2"))
    sent = await _next_messages(site, session_id, page, slow=True)
    assert sent.count(PARTIAL) == 1
    assert 'name="base" value="2"' in sent
    assert 'name="model" value="m2"' in joined_tags(sent.replace("\ndata:", "\n"))
    # The stream of one session alone has no Setup to draw into.
    assert PARTIAL not in await _next_messages(site, session_id, script, slow=True)
    lost = Cursor(-1, -1)
    assert PARTIAL in await _next_messages(site, session_id, lost, slow=True)


async def test_profiles_stand_in_groups() -> None:
    local = next(value.profile for value in SHIPPED.values() if value.local)
    keyed = Profile("mine", "openai_chat", "https://api.example/v1", "SOME_KEY")
    free = Profile("free", "openai_chat", "https://free.example/v1")
    simulator = Profile("simulator", "anthropic", "sim:")
    here = Profile("here", "openai_chat", "http://localhost:9999/v1")
    nowhere = Profile("nowhere", "openai_chat", "")
    rows = [simulator, keyed, local, free, here, nowhere]
    keys = {row.name: row is not keyed for row in rows}
    assert group_profiles(rows, keys) == [
        ("Ready", [free]),
        ("Simulator", [simulator]),
        ("Local", [local, here]),
        ("Needs a key", [keyed, nowhere]),
    ]
