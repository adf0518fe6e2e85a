"""Which fields of a Setup form were changed, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import FormData, UploadFile

from playground.core.errors import BadInput
from playground.core.session import Session
from playground.core.settings import Profile, Settings
from playground.core.tools import ToolChoice
from playground.engine.settings import settings_from
from playground.web.forms import Body
from playground.web.session.setup import apply_changes, setup_partial, shown_settings
from playground.web.session.view import setup_form
from playground.web.site import Site
from tests.engines import StartEngine, create_session, run_engine
from tests.markup import joined_tags
from tests.render.page import ENV

pytestmark = pytest.mark.anyio

START = {
    "tools": ["calculator", "get_weather"],
    "system": "Two\nlines.",
    "model": "m1",
    "params": {"temperature": 0.5, "top_p": 0.9},
    "extra": {"top_k": 4},
}
OTHER = "simulator-openai"

# What another tab saved meanwhile; what this form changes; what comes of both.
CASES: Mapping[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing": ({"system": "Other."}, {}, {"system": "Other."}),
    "two fields": (
        {"system": "Other.", "max_turns": 3},
        {"model": "m2", "temperature": "0.75"},
        {
            "system": "Other.",
            "max_turns": 3,
            "model": "m2",
            "params": {"top_p": 0.9, "temperature": 0.75},
        },
    ),
    "limits, one of them lifted": (
        {"max_parallel": 2, "max_repeats": 5},
        {"max_cost": " .5 ", "max_repeats": "", "max_run_tokens": "5000", "max_turns": ""},
        {"max_parallel": 2, "max_cost": 0.5, "max_repeats": 0, "max_run_tokens": 5000},
    ),
    "a tick of the limits": (
        {"max_minutes": 3},
        {"continue_on_error": False},
        {"max_minutes": 3, "continue_on_error": False},
    ),
    "parameters without a field of their own": (
        {"params": {"temperature": 0.25, "top_p": 0.9}},
        {"own_params": ' {"top_k": 7} ', "max_tokens": "9"},
        {"params": {"temperature": 0.25, "top_k": 7, "max_tokens": 9}},
    ),
    "the same field": ({"model": "m3"}, {"model": "m2"}, {"model": "m2"}),
    "one tool each": (
        {"tools": ["calculator", "get_weather", "slow_report"]},
        {"tools": ["get_weather"]},
        {"tools": ["get_weather", "slow_report"]},
    ),
    "a choice of what was unticked elsewhere": (
        {"tools": ["calculator"], "parallel": False},
        {"tool_choice": "required"},
        {
            "tools": ["calculator"],
            "tool_choice": {"mode": "required", "parallel": False},
        },
    ),
    "a subset loses what is no tool any more": (
        {"tool_choice": {"mode": "auto", "allowed": ["calculator", "get_weather"]}},
        {"tools": ["calculator"], "allowed": ["calculator", "get_weather"]},
        {"tools": ["calculator"], "tool_choice": {"mode": "auto", "allowed": ["calculator"]}},
    ),
    "another provider takes the model along": (
        {"first_byte_s": 5},
        {"profile": OTHER},
        {"profile": OTHER},
    ),
    "another provider with its model": (
        {},
        {"profile": OTHER, "model": "m9"},
        {"profile": OTHER, "model": "m9"},
    ),
}


def posted(settings: Settings, **edits: Any) -> Body:
    """The form as `settings` draw it, with what a user changed in it."""
    form = setup_form(settings)
    fields: dict[str, Any] = {**form.texts, **form.ticks, **form.lists} | edits
    pairs: list[tuple[str, str | UploadFile]] = [("whole", "on")]
    for name, value in fields.items():
        match value:
            case bool():
                pairs += [(name, "on")] if value else []
            case str():
                pairs.append((name, value))
            case _:
                pairs += [(name, item) for item in value]
    data = FormData(pairs)
    return Body({key: str(value) for key, value in data.items()}, data)


@pytest.fixture
async def engine(tmp_path: Path) -> Any:
    async with run_engine(tmp_path) as engine:
        yield engine


async def test_only_what_was_changed_changes(engine: Any) -> None:
    for name, (meanwhile, edits, outcome) in CASES.items():
        base = await settings_from(engine, START)
        now = await settings_from(engine, meanwhile, base)
        changes = await apply_changes(
            posted(base, **edits), base, now, partial(settings_from, engine)
        )
        assert changes.refused == {}, name
        assert changes.settings == await settings_from(engine, outcome, base), name


async def test_a_model_goes_to_no_other_provider_than_the_one_it_was_typed_for(engine: Any) -> None:
    base = await settings_from(engine, START)
    edits = {"profile": "nobody", "model": "gpt-9"}
    outcome = await apply_changes(posted(base, **edits), base, base, partial(settings_from, engine))
    assert outcome.refused.keys() == {"profile", "model"}
    assert outcome.settings == base


async def test_of_a_part_of_the_form_what_is_absent_was_not_touched(engine: Any) -> None:
    base = await settings_from(engine, START)
    outcome = await apply_changes(
        Body({"system": "x"}, FormData()), base, base, partial(settings_from, engine)
    )
    assert outcome.settings == replace(base, system="x")


async def test_a_key_that_became_known_since_is_taken_out_place_by_place(engine: Any) -> None:
    key = "sk-0123456789abcdef"
    base = await settings_from(engine, {"model": key, "extra": {"a": key}})
    engine.keys.paste("OPENAI_API_KEY", key)
    cleaned = await settings_from(engine, {"model": "m"}, base)
    assert cleaned.model == "m"
    with pytest.raises(BadInput, match="extra contains"):
        await settings_from(engine, {"extra": {"b": key}}, cleaned)
    assert (await settings_from(engine, {"extra": {}}, cleaned)).extra == {}


async def test_a_key_that_is_a_plain_word_bars_no_honest_settings(engine: Any) -> None:
    engine.keys.paste("OPENAI_API_KEY", "lmstudio")
    assert (await settings_from(engine, {"profile": "lmstudio"})).profile.name == "lmstudio"


async def test_what_cannot_be_saved_keeps_back_nothing_else(engine: Any) -> None:
    base = await settings_from(engine, START)
    edits = {
        "profile": "nobody",
        "system": "New.",
        "temperature": "warm",
        "max_tokens": "12",
        "thinking": "budget",
        "thinking_budget": "much",
        "extra": "{",
        "max_turns": "0",
        "max_cost": "much",
        "max_minutes": "-1",
        "max_calls_per_turn": "5",
        "idle_s": "7.5",
        "tools": ["calculator"],
        "tool_choice": "tool",
        "tool_choice_name": "get_weather",
    }
    outcome = await apply_changes(posted(base, **edits), base, base, partial(settings_from, engine))
    marked = ("profile", "temperature", "thinking_budget", "extra", "max_turns", "tool_choice")
    assert outcome.refused.keys() == {*marked, "max_cost", "max_minutes"}
    assert outcome.refused["temperature"] == "temperature must be a number, not 'warm'."
    assert outcome.settings == await settings_from(
        engine,
        {
            "system": "New.",
            "params": {**START["params"], "max_tokens": 12},  # type: ignore[dict-item]
            "idle_s": 7.5,
            "max_calls_per_turn": 5,
            "tools": ["calculator"],
        },
        base,
    )


async def test_a_parameter_that_only_its_protocol_has_can_be_taken_out(engine: Any) -> None:
    save = partial(settings_from, engine)
    params = {"truncation": "auto", "temperature": 0.5}
    base = await settings_from(engine, {"profile": "simulator-responses", "params": params})
    assert setup_form(base).texts["own_params"] == '{\n  "truncation": "auto"\n}'
    alone = await apply_changes(posted(base, profile="simulator"), base, base, save)
    assert alone.refused.keys() == {"profile"}
    assert "truncation" in alone.refused["profile"]
    both = await apply_changes(posted(base, profile="simulator", own_params=""), base, base, save)
    assert (both.settings.profile.name, both.refused) == ("simulator", {})
    assert both.settings.params == {"temperature": 0.5}
    for text in ("{", "[]", '{"temperature": 1}', '{"thinking": "low"}', '{"banana": 1}'):
        outcome = await apply_changes(posted(base, own_params=text), base, base, save)
        assert outcome.refused.keys() == {"own_params"}, text
        assert outcome.settings == base


async def test_a_tool_that_is_the_choice_is_not_unticked(engine: Any) -> None:
    start = {**START, "tool_choice": "calculator"}
    base = await settings_from(engine, start)
    outcome = await apply_changes(
        posted(base, tools=["get_weather"]), base, base, partial(settings_from, engine)
    )
    assert outcome.refused.keys() == {"tools"}
    assert outcome.settings == base


async def test_the_form_says_what_it_was_drawn_from(engine: Any) -> None:
    first = await settings_from(engine, START)
    second = replace(first, tool_choice=ToolChoice("none"))
    session = Session("s1", second, settings_at=[(1, first), (5, second)])
    for base, expected in (("1", first), ("4", first), ("5", second), ("99", second), ("", second)):
        assert shown_settings(session, Body({"base": base})) == expected
    for base in ("0", "-1", "x", "1" * 16):
        with pytest.raises(BadInput, match="Reload the page"):
            shown_settings(session, Body({"base": base}))


async def test_an_edited_profile_is_chosen_and_never_slipped_in(start_engine: StartEngine) -> None:
    old = Profile("mine", "openai_chat", "http://127.0.0.1:9/a", model="m1")
    new = replace(old, base_url="http://127.0.0.1:9/b")
    engine = await start_engine()
    await engine.save_profile(old)
    session_id = await create_session(engine, asked_profile="mine")
    site, save = Site(engine, ENV), partial(settings_from, engine)
    async with engine.sessions.lock_session(session_id) as live:
        settings = live.session.settings
        assert settings is not None
        assert "previous version" not in await setup_partial(site, live, await site.view(live))
        await engine.save_profile(new)
        drawn = joined_tags(await setup_partial(site, live, await site.view(live)))
    assert (
        '<option value="mine" selected data-protocol="openai_chat">mine, previous version<' in drawn
    )
    assert '<option value="=mine" data-protocol="openai_chat">mine<' in drawn
    outcome = await apply_changes(posted(settings, system="x"), settings, settings, save)
    assert (outcome.settings.profile, outcome.settings.system) == (old, "x")
    moved = await apply_changes(posted(settings, profile="=mine"), settings, settings, save)
    assert (moved.settings.profile, moved.refused) == (new, {})
