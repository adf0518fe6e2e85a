"""The documents name what exists, are as short as promised, and build as a site.

What their code blocks do is in test_doc_examples.py.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from bench import word_counts
from playground.cli import COMMANDS, parser
from playground.core import providers
from playground.core.providers import PROVIDER_NAMES, Provider, provider_row
from playground.core.tools import ANSWERED_BY
from playground.exchange.export_formats import EXPORTS

ROOT = Path(__file__).resolve().parents[1]
DOCS = word_counts.documents()
PATH = re.compile(
    r"`((?:app|tests|bench|docs|static|templates|vendoring)/[\w./-]*\w)`|\]\(([\w./-]+)\)"
)
ROOMS = sorted(
    path.name for path in (ROOT / "app/playground").iterdir() if (path / "__init__.py").is_file()
)
ROOM = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:/[a-z]\w*)+)(?:\.(\w+))?`")
"""A module as documents name it: `core/decide`, `web/session/setup.py`, `core/decide.obstacle`."""

BY_NAME = {path.relative_to(ROOT).as_posix(): path for path in DOCS}

ITEM = re.compile(r"( *)(?:[-*+]|\d+[.)]) \S")


@pytest.mark.parametrize("name", BY_NAME)
def test_a_file_that_a_document_names_exists(name: str) -> None:
    path = BY_NAME[name]
    text = path.read_text("utf-8")
    named = [(ROOT / match[1], match[1]) for match in PATH.finditer(text) if match[1]]
    named += [(path.parent / match[2], match[2]) for match in PATH.finditer(text) if match[2]]
    for reference in ROOM.finditer(text):
        room = ROOT / "app/playground" / reference[1]
        module = room if room.is_dir() else room.with_suffix(".py")
        named.append((module, reference[0]))
        if reference[2] not in (None, "py") and module.is_file():
            assert re.search(
                rf"^(?:class|(?:async )?def) {reference[2]}\b", module.read_text(), re.M
            )
    assert [name for place, name in named if not place.exists()] == []


def _line(command: str) -> str:
    """How the contract begins to tell of a command: its name and its words."""
    text = (ROOT / "docs" / "contract.md").read_text("utf-8")
    (line,) = re.findall(rf"^- `(playground {command}\b[^`]*)`", text, re.MULTILINE)
    return str(line)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_contract(command: str) -> None:
    (choices,) = (
        action.choices for action in parser()._actions if isinstance(action.choices, dict)
    )
    item: argparse.ArgumentParser = choices[command]
    options = {flag for action in item._actions for flag in action.option_strings[:1]}
    lines = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", _line(command)))
    assert lines ^ options - {"-h", "--db"} == set()


def test_help_names_all_that_can_be_imported() -> None:
    (choices,) = (
        action.choices for action in parser()._actions if isinstance(action.choices, dict)
    )
    message = " ".join(choices["import"].format_help().split())
    for kind in ("jsonl", "OpenAI", "Anthropic", "Gemini", "Ollama", "curl", "HAR"):
        assert kind in message


def test_providers_are_rows_where_the_recipe_says() -> None:
    text = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    recipe = text.partition("## Add a provider\n")[2].partition("\n## ")[0]
    assert "`app/playground/core/providers.py`" in recipe
    assert "`provider_row`" in recipe
    assert all(isinstance(row, Provider) for row in map(provider_row, PROVIDER_NAMES))


def how_to(name: str) -> str:
    return (ROOT / "docs" / "howto" / name).read_text("utf-8")


def test_the_how_to_pages_name_every_profile_and_executor() -> None:
    remote = [row.profile.name for row in providers.PROVIDERS if not row.profile.simulated]
    assert [name for name in remote if f"`{name}`" not in how_to("providers.md")] == []
    assert [kind for kind in ANSWERED_BY if f"| `{kind}` |" not in how_to("tools.md")] == []


def names_in_table(text: str, heading: str) -> list[str]:
    """The names in the first column of the first table below a heading."""
    table = text.partition(f"\n{heading}\n")[2].partition("\n| --- |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[1:]]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_documents_with_the_export_formats_name_exactly_those_of_the_table() -> None:
    reference = (ROOT / "docs" / "reference" / "exports.md").read_text("utf-8")
    (flag,) = re.findall(r"--as ([\w|]+)", _line("export"))
    lists = {
        "docs/contract.md": flag.split("|"),
        "docs/reference/exports.md": names_in_table(reference, "## Exports of a session"),
        "docs/howto/sessions.md": names_in_table(how_to("sessions.md"), "## Share and export"),
    }
    wrong = {name: names for name, names in lists.items() if sorted(names) != sorted(EXPORTS)}
    assert wrong == {}, f"Name each format of EXPORTS once: {', '.join(EXPORTS)}."


def test_the_platforms_are_named() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "on Linux or macOS" in text
    assert "WSL" in text


@pytest.mark.parametrize("name", word_counts.MOST_WORDS)
def test_a_document_with_a_bound_is_short(name: str) -> None:
    words = word_counts.word_count(BY_NAME[name].read_text("utf-8"))
    assert words <= word_counts.MOST_WORDS[name], f"{name} has {words} words; move some to docs/."


@pytest.mark.parametrize("name", BY_NAME)
def test_no_paragraph_is_too_long(name: str) -> None:
    paragraphs = word_counts.long_paragraphs(BY_NAME[name].read_text("utf-8"))
    most = word_counts.MOST_IN_PARAGRAPH
    hint = f"(line, words) of paragraphs over {most} words: split them, or make a list."
    assert (paragraphs, hint) == ([], hint)


def test_a_long_paragraph_is_found_wherever_it_is() -> None:
    words = "word " * 60
    for text in (
        f"A heading\n\n{words}\n{words} end",
        f"- one\n- {words}\n  {words} end\n- two",
        f"| a | b |\n| --- | --- |\n| x | {words} {words} end |",
        f"```sh\n# a block\n```\n{words} {words} end",
    ):
        assert len(word_counts.long_paragraphs(text)) == 1, text
    assert word_counts.long_paragraphs(f"```\n{words} {words} end\n```\n\n{words}\n\n{words}") == []


def misread_lines(text: str) -> list[int]:
    """Lines of lists and tables that GitHub shows as such and the site does not: they follow a
    paragraph without an empty line, or are nested by less than four spaces."""
    results, before, fenced = [], "", False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced, before = not fenced, ""
            continue
        item = None if fenced else ITEM.match(line)
        paragraph = (
            before.strip() and not before.startswith(("#", " ", "|")) and not ITEM.match(before)
        )
        table = not fenced and line.startswith("|")
        if (paragraph and (item or table)) or (item and len(item[1]) % 4):
            results.append(number)
        before = "" if fenced else line
    return results


@pytest.mark.parametrize("name", [name for name in BY_NAME if name.startswith("docs/")])
def test_the_site_shows_lists_and_tables_as_github_does(name: str) -> None:
    assert misread_lines(BY_NAME[name].read_text("utf-8")) == []


def test_a_list_that_the_site_misreads_is_found() -> None:
    assert misread_lines("Some:\n- a\n- b\n\n- c\n  - d\n\nText:\n| a |\n| - |") == [2, 6, 9]


def pages_of(nav: object) -> list[str]:
    """The files in the navigation of mkdocs.yml."""
    match nav:
        case str():
            return [nav]
        case list():
            return [page for entry in nav for page in pages_of(entry)]
        case dict():
            return [page for entry in nav.values() for page in pages_of(entry)]
    raise AssertionError(f"no navigation: {nav!r}")


def test_every_page_is_in_the_navigation_once() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    docs = sorted(name.removeprefix("docs/") for name in BY_NAME if name.startswith("docs/"))
    assert sorted(pages_of(config["nav"])) == docs


def test_each_decision_has_its_parts_and_a_line_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text("utf-8")
    pages = sorted(folder.glob("[0-9]*.md"))
    assert [int(page.name[:3]) for page in pages] == list(range(1, len(pages) + 1))
    for number, page in enumerate(pages, 1):
        title, *parts = re.findall(r"^##? (.*)$", page.read_text("utf-8"), re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences"], page.name
        assert title.startswith(f"{number}. ")
        assert f"{number}. [{title.partition(' ')[2]}]({page.name})" in index


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed (extra docs).")
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    loaded = re.compile(
        r"""(?:<(?:script|img|iframe)[^>]+src=|<link[^>]+href=|url\()["']?https?://"""
    )
    for page in (tmp_path / "site").rglob("*.html"):
        if page.name != "session.html":
            assert loaded.findall(page.read_text("utf-8")) == [], page


def test_the_test_line_of_the_readme_is_the_one_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (line,) = re.findall(r"^python3 .*pytest$", text, re.MULTILINE)
    assert "'.[dev]'" in line
