"""What the documents say of the program is so: the files they name are there, and the command line
is the one of docs/contract.md."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from playground.cli import COMMANDS, parser
from playground.core import providers
from playground.core.providers import Provider

ROOT = Path(__file__).resolve().parents[1]
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PATH = re.compile(
    r"`((?:app|tests|bench|docs|static|templates|vendoring)/[\w./-]*\w)`|\]\(([\w./-]+)\)"
)
ROOMS = sorted(
    path.name for path in (ROOT / "app/playground").iterdir() if (path / "__init__.py").is_file()
)
ROOM = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:/[a-z]\w*)+)(?:\.(\w+))?`")
"""A module as documents name it: `core/decide`, `web/session/setup.py`, `core/decide.obstacle`."""


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_the_files_that_are_named_are_there(path: Path) -> None:
    text = path.read_text("utf-8")
    named = [(ROOT / found[1], found[1]) for found in PATH.finditer(text) if found[1]]
    named += [(path.parent / found[2], found[2]) for found in PATH.finditer(text) if found[2]]
    for found in ROOM.finditer(text):
        room = ROOT / "app/playground" / found[1]
        module = room if room.is_dir() else room.with_suffix(".py")
        named.append((module, found[0]))
        if found[2] not in (None, "py") and module.is_file():
            assert re.search(rf"^(?:class|(?:async )?def) {found[2]}\b", module.read_text(), re.M)
    assert [name for place, name in named if not place.exists()] == []


def _line(command: str) -> str:
    """How the contract begins to tell of a command: its name and its words."""
    text = (ROOT / "docs" / "contract.md").read_text("utf-8")
    (line,) = re.findall(rf"^- `(playground {command}\b[^`]*)`", text, re.MULTILINE)
    return str(line)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_contract(command: str) -> None:
    (choices,) = (one.choices for one in parser()._actions if isinstance(one.choices, dict))
    one: argparse.ArgumentParser = choices[command]
    options = {flag for action in one._actions for flag in action.option_strings[:1]}
    told = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", _line(command)))
    assert told ^ options - {"-h", "--db"} == set()


def test_help_names_all_that_can_be_imported() -> None:
    (choices,) = (one.choices for one in parser()._actions if isinstance(one.choices, dict))
    said = " ".join(choices["import"].format_help().split())
    for kind in ("jsonl", "OpenAI", "Anthropic", "Gemini", "Ollama", "curl", "HAR"):
        assert kind in said


def test_providers_are_rows_where_a_contributor_is_sent() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (said,) = re.findall(r"A new provider is a row in ([^;]*);", text)
    assert re.findall(r"`app/playground/core/(\w+)\.py`", said) == ["providers"]
    assert all(isinstance(row, Provider) for row in (*providers.OWN_PROTOCOLS, *providers.REMOTE))


def test_the_platforms_are_named() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "on Linux or macOS" in text
    assert "WSL" in text
