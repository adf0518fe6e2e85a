"""The user's own profiles: what is taken, what is refused and why, and that they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import BadInput, NotFound
from playground.core.providers import OPENAI
from playground.engine.settings import profile_from, settings_from
from playground.net.keys import Keys
from playground.secrets.detection import KEY_SHAPES
from tests.engines import run_engine

pytestmark = pytest.mark.anyio

KEY = "canary-of-the-shell-0123"
MASKED = Keys({"OPENAI_API_KEY": KEY}).redactor().redact_text

MINE: dict[str, Any] = {
    "name": "mine",
    "protocol": "openai_chat",
    "base_url": "https://llm.example/v1/",
    "key_name": "MY_KEY",
    "model": " m ",
    "headers": {"x-title": "my app", "anthropic-beta": "fine-grained-tool-streaming-2025-05-14"},
    "quirks": ["max_completion_tokens"],
    "idle_s": 300,
}

BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"colour": "red"}, "no field 'colour'"),
    ({"name": ""}, "letters, digits"),
    ({"name": "a/b"}, "letters, digits"),
    ({"name": "x" * 65}, "letters, digits"),
    ({"name": "simulator"}, "cannot be changed"),
    ({"name": 7}, "name must be a text"),
    ({"protocol": "smtp"}, "protocol must be one of"),
    ({"base_url": "sim:"}, "cannot be changed"),
    ({"base_url": ""}, "Invalid URL"),
    ({"base_url": "https://me@evil.example"}, "Invalid URL"),
    ({"base_url": "https://h/v1#x"}, "must not contain #"),
    ({"base_url": "https://h/v1?api-key=abc"}, "must not contain a key"),
    ({"base_url": f"https://h/{KEY}/v1"}, "value of a key"),
    ({"model": f"m-{KEY}"}, "value of a key"),
    ({"key_name": "HOME"}, "KEY, TOKEN or SECRET"),
    ({"model": ["m"]}, "model must be a text"),
    ({"headers": ["x"]}, "headers must be"),
    ({"headers": {f"x-{n}": "" for n in range(21)}}, "at most 20"),
    ({"headers": {"a b": "x"}}, "is not a header name"),
    ({"headers": {"x-a": "one\r\ntwo"}}, "one line"),
    ({"headers": {"x-a": 7}}, "one line"),
    ({"headers": {"Content-Length": "0"}}, "set by this program"),
    ({"headers": {"Authorization": "x"}}, "looks like a key"),
    ({"headers": {"x-api-key": "x"}}, "looks like a key"),
    ({"headers": {"x-a": "Bearer abc"}}, "looks like a key"),
    ({"headers": {"x-a": "sk-proj-0123456789abc"}}, "looks like a key"),
    ({"headers": {"x-a": "0a1b2c3d" * 4}}, "looks like a key"),
    *(
        ({"headers": {"x-a": f"of {begins}0a1B-2c3D4e5"}}, "looks like a key")
        for shape in KEY_SHAPES
        for begins in shape.begins.split()
        if shape.place != "config"
    ),
    ({"headers": {"x-a": f"my {KEY}"}}, "value of a key"),
    ({"headers": {"x-a": "1", "X-A": "2"}}, "twice"),
    ({"quirks": "short_ids"}, "list of names"),
    ({"quirks": ["no_such"]}, "has no quirk 'no_such'"),
    ({"quirks": [{}]}, "has no quirk"),
    ({"idle_s": 0}, "idle_s must be"),
    ({"connect_s": "soon"}, "connect_s must be"),
)


def test_words_that_begin_as_keys_do_are_no_keys() -> None:
    for value in (
        "skillful-assistant",
        "hfs-volume-of-ours",
        "key-of-the-project",
        "task-force-nine",
    ):
        assert profile_from({**MINE, "headers": {"x-a": value}}, MASKED).headers == {"x-a": value}


def test_what_cannot_be_kept_is_refused_with_a_sentence() -> None:
    for changed, words in BAD:
        with pytest.raises(BadInput, match=words) as caught:
            profile_from({**MINE, **changed}, MASKED)
        assert str(caught.value).endswith("."), changed
        assert KEY not in str(caught.value)


def test_a_sound_profile_is_taken_as_it_was_meant() -> None:
    profile = profile_from(MINE, MASKED)
    assert (profile.base_url, profile.model) == ("https://llm.example/v1", "m")
    assert profile.headers == MINE["headers"]
    assert (profile.connect_s, profile.idle_s) == (10.0, 300.0)
    azure = {**MINE, "base_url": "https://r.openai.azure.com/openai/x?api-version=2024-10-21"}
    assert profile_from(azure, MASKED).base_url.endswith("?api-version=2024-10-21")


async def test_own_profiles_are_found_by_name_and_hide_shipped_ones(tmp_path: Path) -> None:
    mine = profile_from(MINE, MASKED)
    changed = profile_from({**MINE, "name": "openai"}, MASKED)
    environment = {"MY_KEY": "canary-of-mine-0123", "OPENAI_BASE_URL": "http://localhost:1/v1"}
    async with run_engine(tmp_path, environment=environment) as engine:
        shipped = [profile.name for profile in engine.profiles()]
        await engine.save_profile(mine)
        await engine.save_profile(changed)
        assert [profile.name for profile in engine.profiles()] == [*shipped, "mine"]
        settings = await settings_from(engine, {"profile": "mine"})
        assert (settings.profile, settings.limits.idle_s) == (mine, 300.0)
        # To save an address is not to say that a key may go there.
        assert engine.keys.key_for(mine) is None
        assert engine.keys.unconfirmed_origin(mine) == "https://llm.example"
    async with run_engine(tmp_path, environment=environment) as engine:
        assert (engine.profile("mine"), engine.profile("openai")) == (mine, changed)
        await engine.delete_profile("openai")
        await engine.delete_profile("mine")
        assert engine.profile("openai").base_url == environment["OPENAI_BASE_URL"]
        assert engine.profile("openai").quirks == OPENAI.quirks
        for name in ("openai", "mine"):
            with pytest.raises(NotFound, match="of your own"):
                await engine.delete_profile(name)
        with pytest.raises(NotFound):
            await settings_from(engine, {"profile": "mine"})
    async with run_engine(tmp_path) as engine:
        assert engine.own == {}


def test_headers_are_written_small() -> None:
    profile = profile_from({**MINE, "headers": {"X-Title": "my app"}}, MASKED)
    assert profile.headers == {"x-title": "my app"}


@pytest.mark.parametrize(
    ("profile_fields", "quirks", "first_byte_s"),
    [
        ({"base_url": "https://api.openai.com/v1"}, OPENAI.quirks, 60),
        ({"base_url": "https://api.openai.com/v1", "quirks": []}, (), 60),
        ({"base_url": "https://api.openai.com/v1", "quirks": ["short_ids"]}, ("short_ids",), 60),
        ({"base_url": "http://127.0.0.1:8000/v1"}, ("long_ids",), 300),
        ({"base_url": "http://127.0.0.1:8000/v1", "first_byte_s": 7}, ("long_ids",), 7),
        ({"base_url": "https://llm.example/v1"}, (), 60),
    ],
)
def test_what_a_profile_does_not_name_is_as_the_vendor_at_its_address_has_it(
    profile_fields: dict[str, Any], quirks: tuple[str, ...], first_byte_s: float
) -> None:
    own = profile_from({"name": "mine", "protocol": "openai_chat", **profile_fields}, MASKED)
    assert (own.quirks, own.first_byte_s) == (quirks, first_byte_s)
