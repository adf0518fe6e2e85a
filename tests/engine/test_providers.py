"""Test and model list: the simulator's five ends, and servers on loopback that misbehave."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from playground.core.providers import SHIPPED, SIMULATORS
from playground.core.serialization import to_data
from playground.core.settings import Profile
from playground.engine.engine import Engine
from playground.protocols.registry import CODECS
from tests.engines import StartEngine, run_engine, run_prompt
from tests.net.test_client import serving

pytestmark = pytest.mark.anyio

KEY = "sk-canary-7c1e0b5a9d3f8642"
OURS = Profile("ours", "openai_chat", "", "OPENAI_API_KEY", "m", connect_s=2.0, first_byte_s=2.0)
ENVIRONMENT = {"OPENAI_API_KEY": KEY}

HTML = b"<!doctype html><title>Sign in</title>"


def answering(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nX-Request-Id: req-7\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def profile_at(url: str) -> Profile:
    return replace(OURS, base_url=url + "/v1")


async def confirmed(engine: Engine, url: str) -> Profile:
    profile = profile_at(url)
    await engine.confirm(profile.key_name, profile.base_url)
    return profile


def test_every_quirk_of_a_row_is_known_to_its_codec() -> None:
    for vendor in SHIPPED.values():
        known = CODECS[vendor.profile.protocol].quirks
        assert set(vendor.profile.quirks) <= known.keys(), vendor.profile.name


async def test_each_end_of_the_simulator_answers_and_lists_its_models(engine: Engine) -> None:
    for vendor in SIMULATORS:
        profile = vendor.profile
        tested = await engine.providers.test(profile)
        assert (tested.ok, tested.status) == (True, 200), (profile.name, tested)
        assert tested.words
        assert tested.first_ms is not None
        assert tested.total_ms is not None
        assert tested.first_ms <= tested.total_ms
        assert engine.providers.known_models(profile) == ()
        listing = await engine.providers.models(profile)
        assert listing.ok, (profile.name, listing)
        assert engine.providers.known_models(profile) == listing.models
    assert await engine.log.summaries() == []  # a test is no session
    moved = replace(SIMULATORS[0].profile, base_url="http://127.0.0.1:9")
    assert engine.providers.known_models(moved) == ()  # another address, another list


async def test_a_wrong_key_is_told_in_the_provider_s_words(tmp_path: Path) -> None:
    error = {"error": {"message": f"Incorrect API key provided: {KEY}.", "type": "invalid"}}
    play = answering(json.dumps(error).encode(), "401 Unauthorized")
    async with serving(play) as server, run_engine(tmp_path, environment=ENVIRONMENT) as engine:
        profile = await confirmed(engine, server.url)
        tested = await engine.providers.test(profile)
        assert (tested.ok, tested.status, tested.request_id) == (False, 401, "req-7")
        assert "Check OPENAI_API_KEY." in tested.sentence
        assert "Incorrect API key provided" in tested.words
        listing = await engine.providers.models(profile)
        assert (listing.ok, listing.status) == (False, 401)
        assert KEY not in repr((tested, listing))
        heads = [seen.partition(b"\r\n\r\n") for seen in server.seen]
        assert all(f"Bearer {KEY}".encode() in head for head, *_ in heads)
        body = json.loads(heads[0][2])
        assert "tools" not in body
        assert body["max_tokens"] == 64
        assert (heads[1][0].split(b" ")[:2], heads[1][2]) == ([b"GET", b"/v1/models"], b"")


@pytest.mark.parametrize(
    "body", [f"<p>{KEY}</p>", json.dumps({"data": [{"id": f"m {KEY}"}]}), json.dumps({"k": KEY})]
)
async def test_a_list_that_echoes_the_key_is_masked(tmp_path: Path, body: str) -> None:
    play = answering(body.encode())
    async with serving(play) as server, run_engine(tmp_path, environment=ENVIRONMENT) as engine:
        listing = await engine.providers.models(await confirmed(engine, server.url))
        assert "***" in repr(listing)
        assert KEY not in repr(listing)


ECHOES = (
    answering(b"nope", kind=f"{KEY}/x"),
    answering(b"nope", kind="x" * 70 + KEY),
    answering(json.dumps({"data": [{"id": "m" * 290 + KEY.replace("s", "\\u0073")}]}).encode()),
    b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://h/?k="
    + b"x" * 480
    + f"{KEY}\r\n\r\n".encode(),
    f"HTTP/1.1 200 OK\r\nContent-Encoding: {KEY}\r\nContent-Length: 0\r\n\r\n".encode(),
    f"HTTP/1.1 200 OK\r\nContent-Encoding: {'x' * 30}{KEY}\r\n\r\n".encode(),
)


@pytest.mark.parametrize("play", ECHOES)
async def test_no_echo_is_cut_before_it_is_masked(tmp_path: Path, play: bytes) -> None:
    async with serving(play) as server, run_engine(tmp_path, environment=ENVIRONMENT) as engine:
        profile = await confirmed(engine, server.url)
        outcome = (await engine.providers.models(profile), await engine.providers.test(profile))
        session = await run_prompt(engine, "hello", profile=profile)
        assert session.turns
        stored_items = [to_data(item) for item in outcome]
        log = "".join(str(event.event) for event in await engine.log.events(session.id))
        assert KEY[:9] not in json.dumps(stored_items) + log


async def test_a_key_that_is_not_confirmed_is_not_sent(tmp_path: Path) -> None:
    async with serving(answering(b"{}")) as server:
        async with run_engine(tmp_path, environment=ENVIRONMENT) as engine:
            for answer in (
                await engine.providers.test(profile_at(server.url)),
                await engine.providers.models(profile_at(server.url)),
            ):
                assert not answer.ok
                assert "OPENAI_API_KEY is not confirmed for" in answer.sentence
                assert answer.status is None
        assert server.seen == []


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with (
        serving(answering(b"{}")) as other,
        run_engine(tmp_path, environment=ENVIRONMENT) as e,
    ):
        moved = f"HTTP/1.1 307 Moved\r\nLocation: {other.url}/v1\r\nContent-Length: 0\r\n\r\n"
        async with serving(moved.encode()) as server:
            profile = await confirmed(e, server.url)
            for answer in (await e.providers.test(profile), await e.providers.models(profile)):
                assert (answer.ok, answer.status) == (False, 307)
                assert "not followed" in answer.sentence
        assert other.seen == []


LISTS: tuple[tuple[bytes, str], ...] = (
    (answering(HTML, kind="text/html; charset=utf-8"), "not JSON but text/html"),
    (answering(b'{"hello": 1}'), "names no model"),
    (answering(b'{"data": []}'), "no model yet"),
    (answering(b"[" * 9000), "not JSON"),
    (answering(HTML, "404 Not Found", "text/html"), "not list its models there"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{", "broke off"),
)


async def test_what_is_no_list_of_models_is_told(engine: Engine) -> None:
    for play, words in LISTS:
        async with serving(play) as server:
            profile = replace(profile_at(server.url), key_name="")
            listing = await engine.providers.models(profile)
            assert (listing.ok, listing.models) == (False, ()), words
            assert words in listing.sentence
            assert listing.sentence.endswith((".", "?"))
            assert not (await engine.providers.test(profile)).ok


async def test_a_server_that_is_not_there_is_told_how_to_start(start_engine: StartEngine) -> None:
    async with serving(b"") as server:
        url = server.url
    engine = await start_engine()
    for name, words in (("llamacpp", "llama-server"), ("ours", "Is the server running?")):
        known = SHIPPED[name].profile if name in SHIPPED else replace(OURS, key_name="")
        tested = await engine.providers.test(replace(known, base_url=url, model="m"))
        assert not tested.ok
        assert "cannot reach" in tested.sentence
        assert words in tested.sentence


async def test_what_cannot_be_asked_is_a_sentence(engine: Engine) -> None:
    for profile in (
        replace(OURS, protocol="smtp"),  # type: ignore[arg-type]
        replace(OURS, base_url="http://127.0.0.1:9", key_name="", model=""),
        replace(OURS, base_url="", key_name=""),
    ):
        tested = await engine.providers.test(profile)
        assert not tested.ok
        assert tested.sentence.endswith((".", "?"))


async def test_without_a_name_the_first_model_of_the_list_is_asked(tmp_path: Path) -> None:
    play = answering(b'{"data": [{"id": "first"}, {"id": "second"}]}')
    async with serving(play) as server, run_engine(tmp_path) as engine:
        profile = replace(profile_at(server.url), key_name="", model="")
        assert (await engine.providers.test(profile)).model == "first"
        assert [seen[:4] for seen in server.seen] == [b"GET ", b"POST"]
        assert (await engine.providers.test(profile)).model == "first"
        assert len(server.seen) == 3  # the list is remembered


async def test_a_silent_server_is_left_after_its_time(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as server, run_engine(tmp_path) as engine:
        profile = replace(profile_at(server.url), key_name="", first_byte_s=0.1)
        tested = await engine.providers.test(profile)
        assert "sent nothing for 0.1 s" in tested.sentence
