"""A run as lines for a reader."""

from __future__ import annotations

import pytest

from playground.commands.run import RunPrinter
from playground.core.events import CallDecided, Logged


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (CallDecided("1.0", "deny"), "  deny by the user\n"),
        (CallDecided("1.0", "answer", "rule", "--answer all=5"), "  answer by --answer all=5\n"),
        (CallDecided("1.0", "run"), ""),
    ],
)
def test_who_decided(event: CallDecided, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    RunPrinter(False, "s1").tell(Logged(1, 0, event))
    assert capsys.readouterr().out == message
