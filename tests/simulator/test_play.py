"""Frames over ASGI: their pace, what goes out together, and ends that are none."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from playground.net.isolation import isolate_headers
from playground.protocols.server import CUT, STALL, OutgoingFrame
from playground.simulator.app import FrameResponse, SimulatorPace

pytestmark = pytest.mark.anyio

ABC = [
    OutgoingFrame(b"a", 0.3, "start"),
    OutgoingFrame(b"b", 0.02, "text"),
    OutgoingFrame(b"c", 0.01, "text"),
]


async def played(
    frames: list[OutgoingFrame], factor: float = 1.0, *, gone: bool = False
) -> tuple[list[Any], list[float]]:
    """(what was sent, the pauses taken)."""
    sent: list[Any] = []
    pauses: list[float] = []

    async def receive() -> dict[str, str]:
        if not gone:
            await anyio.sleep_forever()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    with anyio.fail_after(20):
        answer = FrameResponse(200, {"x": "y"}, frames, SimulatorPace(factor), sleep)
        await answer({"type": "http"}, receive, send)
    return sent, pauses


def bodies(sent: list[Any]) -> list[bytes]:
    return [message["body"] for message in sent if message["type"] == "http.response.body"]


async def test_each_frame_goes_out_alone_after_its_pause() -> None:
    sent, pauses = await played(ABC, 2.0)
    assert bodies(sent) == [b"a", b"b", b"c", b""]
    assert pauses == [0.6, 0.04, 0.02]
    assert sent[-1]["more_body"] is False


async def test_without_pauses_deltas_go_out_together() -> None:
    sent, pauses = await played(ABC, 0)
    assert bodies(sent) == [b"a", b"bc", b""]
    assert pauses == []


async def test_a_cut_leaves_the_response_unfinished() -> None:
    sent, _ = await played([OutgoingFrame(b"a"), CUT, OutgoingFrame(b"b")])
    assert bodies(sent) == [b"a"]
    assert all(message.get("more_body", True) for message in sent)


async def test_a_stall_ends_when_nobody_listens() -> None:
    sent, _ = await played([STALL], gone=True)
    assert bodies(sent) == []


async def test_an_answer_without_a_body_has_its_headers() -> None:
    sent, _ = await played([])
    assert sent[0]["headers"] == isolate_headers([(b"x", b"y")])
    assert bodies(sent) == [b""]
