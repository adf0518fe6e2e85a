"""Players are kept for the last few sessions, and laid out anew where a session went on."""

from __future__ import annotations

import pytest

from playground.core.errors import NotFound
from playground.render.replay import Player
from playground.web.site import KEPT, ReplayCache
from tests.engines import StartEngine, create_session

pytestmark = pytest.mark.anyio


async def test_the_last_few_are_kept_and_a_change_is_seen_when_it_is_asked_for(
    start_engine: StartEngine,
) -> None:
    replays, players = ReplayCache(), list[Player]()

    def count(player: Player) -> int:
        players.append(player)
        return player.timeline.count

    engine = await start_engine()
    ids = [await create_session(engine) for _ in range(KEPT + 1)]
    assert await replays.render(engine.sessions, ids[0], count) == 1
    assert await replays.render(engine.sessions, ids[0], count, latest=True) == 1
    assert players[0] is players[1]
    async with engine.sessions.lock_session(ids[0]) as live:
        await engine.sessions.rename(live, "Another name")
    await replays.render(engine.sessions, ids[0], count)
    assert players[2] is players[0]
    await replays.render(engine.sessions, ids[0], count, latest=True)
    assert players[3] is not players[0]
    assert players[3].fixed.title == "Another name"
    for other in ids[1:]:
        await replays.render(engine.sessions, other, count)
    await replays.render(engine.sessions, ids[0], count)
    assert players[-1] is not players[3]
    with pytest.raises(NotFound):
        await replays.render(engine.sessions, "nobody", count)
