"""`playground decode`: exit codes and shapes; what bodies mean is tested beside the codecs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Typed
from tests.servers import run_command

BODY = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
FIELDS = {
    *("file", "text", "reasoning_text", "refusal", "tool_calls", "server_tool_calls"),
    *("stop_reason", "usage", "error", "ended", "warnings"),
}


def test_one_object_a_file_in_order(tmp_path: Path, run_cli: Typed) -> None:
    (tmp_path / "a.sse").write_bytes(BODY)
    (tmp_path / "b.sse").write_bytes(BODY[:70])
    (tmp_path / "c.sse").write_bytes(b"\xff\x00<html>")
    (tmp_path / "d.sse").write_bytes(b"")
    names = ["b.sse", "a.sse", "c.sse", "d.sse"]
    done = run_command("decode", "openai_chat", *names, "--json", cwd=tmp_path)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [item["file"] for item in results] == names
    assert all(item.keys() == FIELDS for item in results)
    assert [item["ended"] for item in results[:2]] == ["interrupted", "complete"]
    assert results[1]["text"] == "Hi"
    assert all(item["error"] for item in results[2:])
    _, pieces, _ = run_cli("decode", "openai_chat", *names, "--json", "--chunk", "1")
    assert pieces == done.stdout
    code, read, _ = run_cli("decode", "openai_chat", "a.sse")
    assert (code, "Hi" in read) == (0, True)


def test_an_unreadable_file_does_not_hide_the_others(tmp_path: Path, run_cli: Typed) -> None:
    (tmp_path / "a.sse").write_bytes(BODY)
    code, out, message = run_cli("decode", "openai_chat", "gone.sse", ".", "a.sse", "--json")
    results = [json.loads(line) for line in out.splitlines()]
    assert code == 2
    assert [item["file"] for item in results] == ["gone.sse", ".", "a.sse"]
    assert [bool(item["error"]) for item in results] == [True, True, False]
    assert message.count("\n") == 2


@pytest.mark.parametrize(
    "words",
    [
        ("smtp", "a.sse"),
        ("openai_chat",),
        ("openai_chat", "a.sse", "--chunk", "-1"),
        ("openai_chat", "a.sse", "--chunk", "x"),
        ("openai_chat", "a.sse", "--status", "x"),
    ],
    ids=" ".join,
)
def test_wrong_usage(tmp_path: Path, run_cli: Typed, words: tuple[str, ...]) -> None:
    (tmp_path / "a.sse").write_bytes(BODY)
    code, out, message = run_cli("decode", *words)
    assert (code, out, message.count("\n")) == (2, "", 1)
