"""The replay over HTTP: pieces, moments, the page of a moment, and a recording as the model."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.markup import joined_tags
from tests.servers import wait_for_session

pytestmark = pytest.mark.anyio

WEATHER = "What is the weather in Paris?"
PAGE = {"accept": "text/html"}


async def story(script: httpx.AsyncClient) -> str:
    run_all = [{"tool": "*", "action": "run"}]
    response = await script.post("/sessions", json={"tools": ["get_weather"], "rules": run_all})
    session_id: str = response.json()["id"]
    await script.post(f"/sessions/{session_id}/prompts", json={"text": WEATHER})
    assert (await wait_for_session(script, session_id))["state"] == "idle"
    return session_id


async def get_json(script: httpx.AsyncClient, path: str) -> Any:
    answer = await script.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_frames_come_in_pieces_and_lead_from_one_to_the_next(
    script: httpx.AsyncClient,
) -> None:
    here = f"/sessions/{await story(script)}/replay"
    reel = await get_json(script, here + "/reel")
    assert reel["marks"][0][0] == "prompt"
    first = await get_json(script, f"{here}/at?position=0")
    assert (first["from"], first["to"]) == (None, reel["first"])
    position = first["to"]
    while position < reel["count"]:
        frames = (await get_json(script, f"{here}/frames?from={position}&every=20&most=3"))[
            "frames"
        ]
        assert 0 < len(frames) <= 3
        for frame in frames:
            assert frame["from"] == position
            position = frame["to"]
    assert (await get_json(script, f"{here}/frames?from={position}"))["frames"] == []
    end = await get_json(script, f"{here}/at?ms={reel['duration']}")
    assert end == await get_json(script, f"{here}/at?seq={reel['seq']}")
    assert end == await get_json(script, f"{here}/at")
    refused = await script.get(f"{here}/frames?from=x")
    assert (refused.status_code, refused.json()["error"]) == (
        422,
        "from must be a whole number, 0 or more.",
    )
    assert (await script.get("/sessions/none/replay/reel")).status_code == 404


async def test_a_session_that_went_on_is_laid_out_anew(script: httpx.AsyncClient) -> None:
    session_id = await story(script)
    before = await get_json(script, f"/sessions/{session_id}/replay/reel")
    await script.post(f"/sessions/{session_id}/prompts", json={"text": "And thanks."})
    await wait_for_session(script, session_id)
    # A replay that is under way goes on with what it has.
    still = await get_json(script, f"/sessions/{session_id}/replay/at?position=100000")
    assert still["seq"] == before["seq"]
    after = await get_json(script, f"/sessions/{session_id}/replay/reel")
    assert after["count"] > before["count"]
    assert after["marks"][: len(before["marks"])] == before["marks"]


async def test_the_page_of_a_moment_holds_nothing_that_came_later(
    script: httpx.AsyncClient,
) -> None:
    session_id = await story(script)
    call = next(m for m in (await get_json(script, f"/sessions/{session_id}/replay/reel"))["marks"]
                if m[0] == "call")  # fmt: skip
    answer = await script.get(f"/sessions/{session_id}?at={call[3]}", headers=PAGE)
    assert answer.status_code == 200
    page = joined_tags(answer.text)
    assert 'id="call-1-' in page
    assert 'id="turn-2"' not in page
    assert 'id="composer"' not in page
    assert f'id="fork-here" href="/sessions/{session_id}/fork?seq={call[3]}"' in page
    assert f'href="?at={call[3] + 1}"' in page
    assert (await script.get(f"/sessions/{session_id}?at=x", headers=PAGE)).status_code == 422


async def test_a_recording_plays_in_a_new_session(script: httpx.AsyncClient) -> None:
    session_id = await story(script)
    response = await script.post(f"/sessions/{session_id}/play", json={"pace": "0"})
    assert response.status_code == 201
    new = response.json()["id"]
    page = (await script.get(f"/sessions/{new}", headers=PAGE)).text
    assert f">\n{WEATHER}</textarea>" in page
    assert f'href="/sessions/{session_id}">Recorded session' in page
    # Its settings stay as they are while others of them change.
    changed = await script.post(f"/sessions/{new}/settings", json={"system": "Be brief."})
    assert changed.status_code == 200, changed.text
    await script.post(f"/sessions/{new}/prompts", json={"text": WEATHER})
    session_data = await wait_for_session(script, new)
    assert session_data["state"] == "waiting"
    recordings = [f"/sessions/{item}/recordings/1" for item in (session_id, new)]
    first, second = [(await script.get(path)).content for path in recordings]
    assert first == second != b""
    refused = await script.post(f"/sessions/{session_id}/play", json={"pace": "7"})
    assert refused.status_code == 422


async def test_a_long_text_is_asked_for_by_portions(script: httpx.AsyncClient) -> None:
    session_id = (await script.post("/sessions", json={})).json()["id"]
    prompt = {"text": "[[fault:big-delta-1]] Say it."}
    await script.post(f"/sessions/{session_id}/prompts", json=prompt)
    seq = (await wait_for_session(script, session_id))["seq"]
    here = f"/sessions/{session_id}"
    for path, least, most in (
        (here, 262_144, 400_000),
        (f"{here}?at={seq}", 262_144, 400_000),
        (f"{here}/replay/at?seq={seq}", 262_144, 400_000),
        (f"{here}?upto=part-1-0.600000", 600_000, 800_000),
        (f"{here}?at={seq}&upto=part-1-0.600000", 600_000, 800_000),
        (f"{here}/blocks/part-1-0?upto=600000", 600_000, 610_000),
        (f"{here}/blocks/part-1-0?upto=600000&at={seq}", 600_000, 610_000),
        (f"{here}/blocks/part-1-0?all=1", 2**20, 1_100_000),
    ):
        answer = await script.get(path, headers=PAGE)
        assert answer.status_code == 200, answer.text
        assert least < len(answer.text) < most, path
