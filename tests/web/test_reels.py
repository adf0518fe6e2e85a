"""Players are kept for the last few sessions, and laid out anew where a session went on."""

from __future__ import annotations

import pytest

from playground.core.errors import NotFound
from playground.render.replay import Player
from playground.web.site import KEPT, Reels
from tests.engines import StartEngine, create_session

pytestmark = pytest.mark.anyio


async def test_the_last_few_are_kept_and_a_change_is_seen_when_it_is_asked_for(
    start_engine: StartEngine,
) -> None:
    reels, seen = Reels(), list[Player]()

    def count(player: Player) -> int:
        seen.append(player)
        return player.reel.count

    engine = await start_engine()
    ids = [await create_session(engine) for _ in range(KEPT + 1)]
    assert await reels.drawn(engine.sessions, ids[0], count) == 1
    assert await reels.drawn(engine.sessions, ids[0], count, anew=True) == 1
    assert seen[0] is seen[1]
    async with engine.sessions.holding(ids[0]) as live:
        await engine.sessions.rename(live, "Another name")
    await reels.drawn(engine.sessions, ids[0], count)
    assert seen[2] is seen[0]
    await reels.drawn(engine.sessions, ids[0], count, anew=True)
    assert seen[3] is not seen[0]
    assert seen[3].fixed.title == "Another name"
    for other in ids[1:]:
        await reels.drawn(engine.sessions, other, count)
    await reels.drawn(engine.sessions, ids[0], count)
    assert seen[-1] is not seen[3]
    with pytest.raises(NotFound):
        await reels.drawn(engine.sessions, "nobody", count)
