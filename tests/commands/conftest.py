"""A command line typed into this very process: for wrong usage, which starts nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app import cli

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Typed]:
    """`typed(*words)`: exit code, stdout, stderr; in `tmp_path`, with its data folder there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLAYGROUND_HOME", str(tmp_path / "home"))
    umask = os.umask(0o077)

    def type_it(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        return code, *capsys.readouterr()

    yield type_it
    os.umask(umask)
