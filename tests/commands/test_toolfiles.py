"""Tools from files in any form, their paths counted from the file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from playground.commands.run import read_tool_files, read_tools, tools_from_words
from playground.core.errors import BadInput
from playground.exchange.tool_import import import_tools

MOCK = {"name": "a", "answered_by": "mock", "config": {"result": "ok"}}


def python(file: str, **more: str) -> dict[str, Any]:
    config = {"file": file, "function": "f", **more}
    return {"name": "p", "answered_by": "python", "config": config}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (json.dumps(MOCK), ["a"]),
        (json.dumps([MOCK, {**MOCK, "name": "b"}]), ["a", "b"]),
        (json.dumps(MOCK) + "\n\n" + json.dumps({**MOCK, "name": "b"}) + "\n", ["a", "b"]),
    ],
)
def test_one_a_list_or_one_a_line(tmp_path: Path, text: str, names: list[str]) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)
    assert [tool["name"] for tool in read_tools(path)] == names


def test_a_tool_of_a_provider_is_left_out_of_a_list_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([MOCK, {"type": "bash_20250124", "name": "bash"}]))
    assert [tool["name"] for tool in read_tools(path)] == ["a"]
    errors = capsys.readouterr().err
    assert "bash was left out." in errors
    assert "run by the client" in errors
    path.write_text(json.dumps([{"type": "web_search"}]))
    with pytest.raises(BadInput, match="has no usable tool"):
        read_tools(path)


@pytest.mark.parametrize(
    ("config", "file", "interpreter"),
    [
        (python("tools.py"), "HERE/tools.py", None),
        (python("sub/../tools.py"), "HERE/tools.py", None),
        (python("/elsewhere/tools.py"), "/elsewhere/tools.py", None),
        (python("shipped:example_tools.py"), "shipped:example_tools.py", None),
        (python("t.py", interpreter=".venv/bin/python"), "HERE/t.py", "HERE/.venv/bin/python"),
    ],
)
def test_paths_count_from_the_file(
    tmp_path: Path, config: dict[str, Any], file: str, interpreter: str | None
) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(config))
    (tool,) = read_tools(path)
    here = str(tmp_path)
    assert tool["config"]["file"] == file.replace("HERE", here)
    wanted = interpreter and interpreter.replace("HERE", here)
    assert tool["config"].get("interpreter") == wanted


@pytest.mark.parametrize("words", [["nobody"], ["./no.json"], ["none/"]])
def test_what_is_not_there_is_said(words: list[str]) -> None:
    with pytest.raises(BadInput):
        tools_from_words([MOCK | {"group": ""}], words, read_tool_files(words))


def test_a_python_file_is_its_functions(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text('def add(a: int, b: int) -> int:\n    """Adds."""\n    return a + b\n')
    (tool,) = read_tools(path)
    assert (tool["name"], tool["answered_by"]) == ("add", "python")
    assert tool["config"] == {"file": str(path), "function": "add"}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"name": "a b", "answered_by": "person"}', '{"mcpServers": {"a": {"url": "x"}}}'],
)
def test_a_file_without_a_sound_tool_is_said_by_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"bad\.json"):
        read_tools(path)


def test_a_file_of_more_tools_than_are_read_is_refused_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.json"
    path.write_text(json.dumps([MOCK | {"name": name} for name in "abc"]))
    assert len(read_tools(path)) == 3
    monkeypatch.setattr(
        "playground.commands.tool_files.import_tools", partial(import_tools, most=2)
    )
    with pytest.raises(BadInput, match=r"many\.json has more than 2 tools"):
        read_tools(path)
