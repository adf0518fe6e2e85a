"""Settings from what a script asked for: what is taken, and what is refused with a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import BadInput, NotFound, PlaygroundError
from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.providers import SIMULATOR
from playground.core.settings import Limits
from playground.core.tools import Content, ToolChoice
from playground.engine.engine import Engine
from playground.engine.settings import KNOWN, settings_from, sound_params
from playground.protocols.openai_chat.request import encode
from tests.engines import StartEngine, run_engine

pytestmark = pytest.mark.anyio

OWN = {"name": "mine", "answered_by": "mock", "config": {"result": "ok"}}

BAD: tuple[dict[str, Any], ...] = (
    {"profile": "nobody"},
    {"profile": 1},
    {"profile": None},
    {"protocol": "smtp", "base_url": "http://x/v1"},
    {"protocol": [], "base_url": "http://x/v1"},
    {"protocol": "anthropic"},
    {"base_url": "http://x/v1"},
    {"protocol": "anthropic", "base_url": "no address"},
    {"protocol": "anthropic", "base_url": 7},
    {"protocol": "anthropic", "base_url": "http://h/v1?api_key=x"},
    {"protocol": "anthropic", "base_url": "http://h/v1#x"},
    {"model": 1},
    {"system": ["x"]},
    {"tools": "calculator"},
    {"tools": ["no_such_tool"]},
    {"tools": ["calculator", "calculator"]},
    {"tools": [7]},
    {"tools": [{"name": "x", "answered_by": "magic"}]},
    {"tools": [{"name": "not a name"}]},
    {"tool_choice": "no_such_tool"},
    {"tool_choice": "required"},
    {"tool_choice": 7},
    {"tool_choice": ""},
    {"tool_choice": {"mode": "sometimes"}},
    {"tool_choice": {"mode": []}},
    {"tool_choice": {"mode": "auto", "oops": 1}},
    {"tool_choice": {"mode": "auto", "allowed": "calculator"}},
    {"tool_choice": {"mode": "auto", "allowed": [["calculator"]]}, "tools": ["calculator"]},
    {"tool_choice": {"mode": "auto", "allowed": ["nobody"]}, "tools": ["calculator"]},
    {"tool_choice": {"mode": "tool", "name": 7}, "tools": ["calculator"]},
    {
        "tool_choice": {"mode": "tool", "name": "calculator", "allowed": ["get_weather"]},
        "tools": ["calculator", "get_weather"],
    },
    {"parallel": "yes"},
    {"stream": 1},
    {"params": []},
    {"params": {"banana": 1}},
    {"params": {"top_k": 1}, "protocol": "openai_chat", "base_url": "http://h/v1"},
    {"params": {"max_tokens": 1, "max_output_tokens": 2}},
    {"params": {"stop": 5}},
    {"params": {"stop": [5]}},
    {"params": {"max_tokens": "x"}},
    {"params": {"max_tokens": 0}},
    {"params": {"temperature": float("nan")}},
    {"params": {"temperature": True}},
    {"params": {"temperature": int("1" * 400)}},
    {"params": {"temperature": -0.1}},
    {"params": {"top_p": 1e308}},
    {"params": {"max_tokens": int("9" * 390)}},
    {"params": {"thinking": 10**300}},
    {"params": {"thinking": "much"}},
    {"profile": "anthropic", "key_name": "OPENAI_API_KEY"},
    {"key_name": ""},
    {"nonsense": 1},
    {"tool_choice": {"mode": "required", "allowed": []}, "tools": ["calculator"]},
    {"extra": "x"},
    {"max_turns": 0},
    {"max_turns": 1001},
    {"max_turns": "3"},
    {"max_turns": True},
    {"max_turns": 2.5},
    {"max_calls_per_turn": 0},
    {"max_calls_per_turn": 1001},
    {"max_calls_per_answer": 0},
    {"max_calls_per_answer": 10_001},
    {"max_parallel": 0},
    {"max_parallel": 17},
    {"max_run_tokens": -1},
    {"max_run_tokens": 1.5},
    {"max_repeats": 1001},
    {"max_repeats": None},
    {"max_cost": -0.5},
    {"max_cost": 0.00001},
    {"max_cost": "0.5"},
    {"max_cost": float("nan")},
    {"max_cost": float("inf")},
    {"max_cost": 10**400},
    {"max_cost": True},
    {"max_minutes": 10_081},
    {"continue_on_error": 1},
    {"continue_on_error": None},
    {"max_retries": -1},
    {"max_retries": 11},
    {"first_byte_s": 0},
    {"idle_s": 3601},
    {"connect_s": "10"},
    {"connect_s": True},
    {"idle_s": float("nan")},
)

HOST = "http://127.0.0.1:9"
ASKED = {"protocol": "openai_chat", "base_url": f"{HOST}/v1", "model": "m"}
KEYED = {**ASKED, "key_name": "OPENAI_API_KEY"}
ENVIRONMENT = {"OPENAI_API_KEY": "sk-0123456789abcdef"}


async def test_what_cannot_be_used_is_refused_with_a_sentence(engine: Engine) -> None:
    for bad_settings in BAD:
        with pytest.raises(PlaygroundError) as caught:
            await settings_from(engine, bad_settings)
        assert str(caught.value).endswith("."), bad_settings


async def test_what_is_not_named_stays_as_it_was(engine: Engine) -> None:
    first = await settings_from(engine, {})
    assert first.profile == SIMULATOR
    assert (first.tools, first.tool_choice, first.limits.max_turns) == ((), ToolChoice(), 10)
    second = await settings_from(
        engine,
        {
            "model": "m",
            "system": "Be brief.",
            "tools": ["calculator", OWN],
            "tool_choice": {"mode": "tool", "name": "mine", "allowed": ["mine"]},
            "parallel": False,
            "stream": False,
            "params": {"temperature": 0},
            "max_turns": 3,
        },
        first,
    )
    assert [tool.name for tool in second.tools] == ["calculator", "mine"]
    assert second.tool_choice == ToolChoice("tool", "mine", ("mine",), parallel=False)
    assert await settings_from(engine, {}, second) == second
    third = await settings_from(engine, {"tool_choice": "auto"}, second)
    assert third.tool_choice == ToolChoice(parallel=False)


async def test_every_limit_of_a_run_is_set_by_its_name_and_lifted_by_0(
    start_engine: StartEngine,
) -> None:
    limit_fields = {
        "max_turns": 2,
        "max_calls_per_turn": 3,
        "max_parallel": 1,
        "max_run_tokens": 5000,
        "max_cost": 1,
        "max_minutes": 0.5,
        "max_repeats": 4,
        "continue_on_error": False,
        "max_calls_per_answer": 10_000,
    }
    engine = await start_engine()
    set_all = (await settings_from(engine, limit_fields)).limits
    accepted = {"max_calls_per_answer": 10_000}
    assert set_all == Limits(
        2,
        max_calls_per_turn=3,
        max_parallel=1,
        max_run_tokens=5000,
        max_cost=1.0,
        max_minutes=0.5,
        max_repeats=4,
        continue_on_error=False,
        **accepted,
    )
    # The twins of each other: what can be set is what a run has.
    assert limit_fields.keys() < set(KNOWN)
    lifted = dict.fromkeys(("max_run_tokens", "max_cost", "max_minutes", "max_repeats"), 0)
    base = await settings_from(engine, limit_fields)
    none = (await settings_from(engine, lifted, base)).limits
    assert none == Limits(
        2,
        max_calls_per_turn=3,
        max_parallel=1,
        max_run_tokens=0,
        max_cost=0.0,
        max_minutes=0.0,
        max_repeats=0,
        continue_on_error=False,
        **accepted,
    )


@pytest.mark.parametrize(
    ("protocol", "name"), [("anthropic", "simulator"), ("openai_chat", "simulator-openai_chat")]
)
async def test_the_simulator_s_ends(protocol: str, name: str, engine: Engine) -> None:
    settings = await settings_from(engine, {"protocol": protocol, "base_url": "sim:"})
    assert (settings.profile.name, settings.profile.protocol) == (name, protocol)
    assert settings.profile.simulated


async def test_an_address_alone_takes_no_key_along(tmp_path: Path) -> None:
    async with run_engine(tmp_path, environment=ENVIRONMENT) as engine:
        settings = await settings_from(engine, ASKED)
        assert (settings.profile.key_name, engine.keys.confirmations()) == ("", [])
        assert (settings.model, settings.profile.model) == ("m", "m")
        own = await settings_from(engine, {**ASKED, "base_url": "https://api.openai.com/v1"})
        assert engine.keys.key_for(own.profile) == ENVIRONMENT["OPENAI_API_KEY"]
        with pytest.raises(BadInput):
            await settings_from(engine, {**KEYED, "max_turns": 0})
        assert engine.keys.confirmations() == []  # what is refused confirms nothing
    moved = {**ENVIRONMENT, "OPENAI_BASE_URL": HOST}
    async with run_engine(tmp_path, environment=moved) as engine:
        settings = await settings_from(engine, ASKED)
        assert engine.keys.key_for(settings.profile) == ENVIRONMENT["OPENAI_API_KEY"]
        assert (await settings_from(engine, {**ASKED, "key_name": ""})).profile.key_name == ""


async def test_a_key_that_was_named_goes_to_its_address_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with run_engine(tmp_path, environment=ENVIRONMENT) as engine:
        settings = await settings_from(engine, KEYED)
        assert engine.keys.key_for(settings.profile) == ENVIRONMENT["OPENAI_API_KEY"]
    async with run_engine(tmp_path, environment=ENVIRONMENT) as engine:
        assert engine.keys.confirmations() == [("OPENAI_API_KEY", HOST)]
        assert engine.keys.key_for(settings.profile) == ENVIRONMENT["OPENAI_API_KEY"]
        assert (await settings_from(engine, ASKED)).profile == settings.profile
    for path in tmp_path.iterdir():
        if path.is_file():
            assert ENVIRONMENT["OPENAI_API_KEY"].encode() not in path.read_bytes()


@pytest.mark.parametrize("name", ["HOME", "PATH", "a b KEY", "DATABASE_URL", "KEY\n"])
async def test_only_a_key_is_sent(name: str, start_engine: StartEngine) -> None:
    engine = await start_engine(environment={name: "x" * 20})
    with pytest.raises(BadInput, match="KEY, TOKEN or SECRET"):
        await settings_from(engine, {**ASKED, "key_name": name})


async def test_a_vendor_s_address_takes_the_vendor_s_key(start_engine: StartEngine) -> None:
    names = ("GROQ_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "OLLAMA_API_KEY")
    environment = {name: f"canary-of-{name}" for name in names} | {"OPENAI_ORG_ID": "org-1"}
    expected = [
        ("openai_chat", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("openai_chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("openai_chat", "https://api.mistral.ai/v1", ""),
        ("openai_chat", "http://127.0.0.1:8000/v1", ""),
        ("anthropic", "https://api.anthropic.com", ""),
        ("anthropic", "https://openrouter.ai/api", ""),
    ]
    engine = await start_engine(environment=environment)
    for protocol, url, key_name in expected:
        form = {"protocol": protocol, "base_url": url, "model": "m"}
        profile = (await settings_from(engine, form)).profile
        assert profile.key_name == key_name, url
        assert bool(profile.headers) is (key_name == "OPENAI_API_KEY")


async def test_a_profile_brings_its_waits_and_a_session_may_set_its_own(engine: Engine) -> None:
    first = await settings_from(engine, {"max_turns": 3})
    local = await settings_from(engine, {"profile": "vllm"}, first)
    assert (local.limits.first_byte_s, local.limits.idle_s) == (300.0, 300.0)
    assert (local.limits.connect_s, local.limits.max_turns) == (10.0, 3)
    own = await settings_from(engine, {"idle_s": 5, "max_retries": 0}, local)
    assert (own.limits.first_byte_s, own.limits.idle_s) == (300.0, 5.0)
    assert (own.limits.max_retries, first.limits.max_retries) == (0, 2)
    assert (await settings_from(engine, {"profile": "vllm"}, own)).limits == own.limits
    back = await settings_from(engine, {"profile": "simulator", "connect_s": 0.5}, own)
    assert (back.limits.connect_s, back.limits.idle_s) == (0.5, 60.0)


async def test_a_session_keeps_a_profile_of_its_own(engine: Engine) -> None:
    base = await settings_from(engine, ASKED)
    again = await settings_from(engine, {"profile": "127.0.0.1:9", "system": "Be brief."}, base)
    assert (again.profile, again.model) == (base.profile, "m")
    with pytest.raises(NotFound):
        await settings_from(engine, {"profile": "127.0.0.1:10"}, base)


@pytest.mark.parametrize(
    ("base_url", "tokens"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://api.groq.com/openai/v1", "max_tokens"),
        ("https://llm.example/v1", "max_tokens"),
    ],
)
async def test_an_address_has_the_options_of_the_vendor_there(
    tmp_path: Path, base_url: str, tokens: str
) -> None:
    form = {"protocol": "openai_chat", "base_url": base_url, "params": {"max_tokens": 9}}
    async with run_engine(tmp_path) as engine:
        own = await settings_from(engine, form)
    image = Content("image", data="aGk=", media_type="image/png")
    image_result = MessagePart("result", call_id="a", name="f", content=(image,))
    history = (
        Message("assistant", (MessagePart("call", "{}", name="f", call_id="a"),)),
        Message("results", (image_result,)),
    )
    quirks = own.profile.quirks
    body = json.loads(
        encode(
            ModelRequest(
                "m",
                system="",
                messages=history,
                tools=(),
                choice=ToolChoice(),
                params=own.params,
                quirks=quirks,
            )
        ).body
    )
    assert body[tokens] == 9
    assert not {"max_tokens", "max_completion_tokens"} - {tokens} & body.keys()
    assert [message["role"] for message in body["messages"]] == ["assistant", "tool", "user"]
    assert isinstance(body["messages"][1]["content"], str)


async def test_another_protocol_of_a_vendor_has_what_it_knows_of_its_options(
    start_engine: StartEngine,
) -> None:
    """Azure's key travels in a header of its own by either of OpenAI's protocols."""
    there = "https://mine.openai.azure.com/openai/v1"
    engine = await start_engine()
    for protocol, quirks in (("openai_responses", ("api_key_header",)), ("gemini", ())):
        own = await settings_from(engine, {"protocol": protocol, "base_url": there})
        assert own.profile.quirks == quirks


async def test_parameters_go_along_to_a_provider_that_can_be_told_them(engine: Engine) -> None:
    before = await settings_from(engine, {"params": {"top_k": 4}})
    after = await settings_from(engine, {"profile": "simulator-gemini"}, before)
    assert after.params == {"top_k": 4}
    with pytest.raises(BadInput, match="openai_chat has no top_k"):
        await settings_from(engine, {"profile": "simulator-openai"}, before)
    # What is there already is refused when it is sent, and keeps back no other change.
    old = replace(before, params={"banana": 1})
    assert (await settings_from(engine, {"system": "x"}, old)).params == {"banana": 1}


def test_of_somebody_else_s_parameters_none_is_taken_that_setup_does_not_have() -> None:
    theirs = {"temperature": 1, "top_k": 4, "metadata": {"user_id": "u"}, "thinking": {"type": "x"}}
    assert sound_params(theirs) == {"temperature": 1}
