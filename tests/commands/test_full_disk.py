"""A real server whose files may not grow for a while: the system refuses, nothing is played."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.commands.conftest import Typed
from tests.servers import ServerProcess, messages, run_server_process, wait_for_session
from tests.tables import rest_slow

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="limits of another process"),
]

PROMPTS = ("[[fault:stall-after-8]] hello", "What is 17 * 23?")


def limit(server_process: ServerProcess, most: int) -> None:
    hard = resource.prlimit(server_process.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server_process.process.pid, resource.RLIMIT_FSIZE, (most, hard))


async def wait_for_trouble(stream: AsyncIterator[Mapping[str, str]], trouble: bool) -> None:
    async for data in stream:
        if ("Nothing can be saved" in data.get("data", "")) is trouble and "data" in data:
            return
    raise AssertionError("The stream ended.")


@pytest.mark.slow
@pytest.mark.parametrize("lifted", rest_slow([True, False]))
async def test_stop_the_rest_and_the_end(tmp_path: Path, run_cli: Typed, lifted: bool) -> None:
    db = tmp_path / "a.db"
    with run_server_process(db, PLAYGROUND_PACE="0.2") as server_process:
        async with server_process.client() as client:
            ids = [(await client.post("/sessions", json={})).json()["id"] for _ in range(2)]
            headers = {"accept": "text/event-stream"}
            async with client.stream("GET", "/stream?store=1", headers=headers) as answer:
                stream = messages(answer)
                await wait_for_trouble(stream, False)
                for session_id, text in zip(ids, PROMPTS, strict=True):
                    response = await client.post(
                        f"/sessions/{session_id}/prompts", json={"text": text}
                    )
                    assert response.status_code == 202
                limit(server_process, 0)
                await wait_for_trouble(stream, True)
                assert (await client.post("/sessions", json={})).status_code == 503
                assert (await client.post(f"/sessions/{ids[0]}/stop")).status_code == 200
                if lifted:
                    limit(server_process, resource.RLIM_INFINITY)
                    await wait_for_trouble(stream, False)
            if lifted:
                states = [(await wait_for_session(client, each))["state"] for each in ids]
                assert states == ["interrupted", "idle"]
        # 120: Python's own word for a last line of the log that could not be written either.
        assert server_process.end() in ((0,) if lifted else (0, 120))
    code, out, _ = await asyncio.to_thread(run_cli, "verify", "--db", str(db))
    assert code == 0, out
