"""A copy of the program that a test may change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT, START_S, environment


class ProgramCopy:
    """The program in `root`. `touched` are the files that were changed or added."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.touched: set[str] = set()
        shutil.copytree(ROOT / "app", root / "app")  # with what is compiled, and the files' times
        for name in ("templates", "static"):
            (root / name).symlink_to(ROOT / name)

    def add(self, path: str, text: str) -> None:
        """A new file below app/playground."""
        place = self.root / "app/playground" / path
        assert not place.exists()
        place.write_text(text, "utf-8")
        self.touched.add(path)

    def replace(self, path: str, old: str, new: str) -> None:
        """Another text in place of `old`, which is in the file once."""
        place = self.root / "app/playground" / path
        text = place.read_text("utf-8")
        assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
        place.write_text(text.replace(old, new), "utf-8")
        self.touched.add(path)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command of the copy, in its folder and with a data folder there."""
        return self._run("-m", "playground.cli", *words, **variables)

    def evaluate(self, code: str) -> str:
        """What this code prints, with the copy's `playground` and these tests beside it."""
        done = self._run("-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-B", *words],
            capture_output=True,
            text=True,
            cwd=self.root,
            env=environment(
                PYTHONPATH=f"{self.root / 'app'}:{ROOT}",
                PLAYGROUND_HOME=str(self.root / "home"),
                **variables,
            ),
            timeout=START_S,
        )


@pytest.fixture
def program(tmp_path: Path) -> ProgramCopy:
    return ProgramCopy(tmp_path)
