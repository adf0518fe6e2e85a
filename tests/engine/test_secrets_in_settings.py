"""No key gets into what is kept and shown: each place is refused by its name, never its value."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.engine.engine import Engine
from playground.engine.settings import settings_from
from tests.engines import StartEngine

pytestmark = pytest.mark.anyio

KEY = "sk-canary-ABCDEFGHIJ0123456789"
HOST = {"protocol": "openai_chat", "base_url": "http://127.0.0.1:9/v1"}


def tool(**fields: Any) -> dict[str, Any]:
    return {"name": "t", "answered_by": "mock", "config": {"result": "ok"}, **fields}


PLACES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"extra": {"user": [{"deep": KEY}]}}, "extra contains"),
    ({"extra": {KEY: 1}}, "extra contains"),
    ({"params": {"stop": ["x", f"a {KEY}"]}}, "params contains"),
    ({"model": f"m-{KEY}"}, "model contains"),
    ({**HOST, "base_url": f"http://127.0.0.1:9/{KEY}/v1"}, "base_url contains"),
    ({**HOST, "base_url": f"http://127.0.0.1:9/v1?k={KEY}"}, "base_url contains"),
    ({**HOST, "model": KEY}, "contains"),
    ({"tools": [tool(description=f"d {KEY}")]}, "description of tool 1 contains"),
    ({"tools": ["calculator", tool(config={"result": KEY})]}, "config of tool 2 contains"),
    ({"tools": [tool(parameters={"type": "object", "title": KEY})]}, "parameters of tool 1"),
    ({"tools": [tool(name=KEY)]}, "name of tool 1 contains"),
)


async def test_a_key_in_the_settings_is_refused_by_its_place(start_engine: StartEngine) -> None:
    engine = await start_engine(environment={"OPENAI_API_KEY": KEY})
    for key_settings, place in PLACES:
        with pytest.raises(BadInput, match=place) as caught:
            await settings_from(engine, key_settings)
        assert KEY[:12] not in str(caught.value)
    assert (await settings_from(engine, {"system": KEY})).system == KEY  # masked when kept


async def test_a_title_and_an_address_are_masked(engine: Engine) -> None:
    place = f"http://127.0.0.1:9/{KEY}"
    settings = await settings_from(engine, {**HOST, "base_url": place, "model": "m"})
    session_id = await engine.sessions.create(settings, "before")
    engine.keys.paste("MY_KEY", KEY)  # known only now
    async with engine.sessions.lock_session(session_id) as live:
        await engine.sessions.rename(live, f"T {KEY}")
        assert live.title == "T " + "*" * len(KEY)
        prepared = engine.client.prepare(live.session, settings.tool_choice)
    assert KEY in prepared.url
    assert KEY not in prepared.sent.url
    other = await engine.sessions.create(await settings_from(engine, {}), f"T {KEY}")
    async with engine.sessions.lock_session(other) as live:
        assert KEY not in live.title
