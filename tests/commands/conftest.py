"""A command line typed into this very process, which need not start: half a second each time.

A real process is for what only it has, such as signals and locks, and once for each command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from playground import cli
from tests.shared_state import preserve_shared_state

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Typed]:
    """`typed(*words)`: exit code, stdout, stderr; in `tmp_path`, with its data folder there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLAYGROUND_HOME", str(tmp_path / "home"))

    def type_it(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        return code, *capsys.readouterr()

    with (
        preserve_shared_state()
    ):  # a command may take keys from a file, set the umask, say who hears of a server
        yield type_it
