"""kill -9 at any instant: three rounds of bench/kill_rounds.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.killing import kill_round


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_what_was_told_holds_after_a_kill(tmp_path: Path, seed: int) -> None:
    outcome = await kill_round(tmp_path, seed)
    assert outcome.violations == []
    assert outcome.reported > 20
