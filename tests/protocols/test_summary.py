"""The public shape of `decode`, and every recorded answer held against what is known of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from playground.commands.decode import decode, decoded_text
from playground.core.errors import BadInput
from playground.protocols.registry import CODECS
from tests.protocols.frames import DONE, calls, chunk, fragment, message, sse

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / os.environ.get("PLAYGROUND_RECORDINGS", "../shared/recordings")
BODIES = ("response.sse", "response.json", "response.ndjson")
WITHOUT = f"No recordings in {FOLDER}: set PLAYGROUND_RECORDINGS to the folder that holds them."

KEYS = [
    "text",
    "reasoning_text",
    "refusal",
    "tool_calls",
    "server_tool_calls",
    "stop_reason",
    "usage",
    "error",
    "ended",
    "warnings",
]


def _recordings() -> list[Path]:
    """The folders of recorded answers whose protocol is built."""
    metas = sorted(FOLDER.glob("*/meta.json"))
    return [meta.parent for meta in metas if _read(meta)["protocol"] in CODECS]


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return data


RECORDINGS = _recordings()


def test_there_are_recordings() -> None:
    if not RECORDINGS:
        pytest.skip(WITHOUT)


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)
def test_the_facts_are_those_on_record(folder: Path) -> None:
    meta, expected = _read(folder / "meta.json"), _read(folder / "expected.json")
    body = next(path for name in BODIES if (path := folder / name).exists()).read_bytes()
    decoded_events = decode(meta["protocol"], body, meta["http_status"])
    for fact in (
        "text",
        "reasoning_text",
        "refusal",
        "tool_calls",
        "server_tool_calls",
        "stop_reason",
        "error",
    ):
        if fact not in (expected.get("contested") or ()):
            assert decoded_events[fact] == expected[fact], fact
    usage = expected["usage"] and {k: v for k, v in expected["usage"].items() if k != "raw"}
    assert decoded_events["usage"] == usage
    assert "bad_json" not in [warning["code"] for warning in decoded_events["warnings"]]
    for size in (1, 7):
        assert decode(meta["protocol"], body, meta["http_status"], size) == decoded_events


@pytest.mark.parametrize("body", [b"", b"<html>", sse(chunk({"content": "a"}, "stop"), DONE)])
def test_the_shape_is_always_whole_and_plain_json(body: bytes) -> None:
    facts = decode("openai_chat", body)
    assert list(facts) == KEYS
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


@pytest.mark.parametrize(
    ("text", "arguments", "state"),
    [
        ('{"a": 1}', {"a": 1}, "object"),
        ("", None, "empty"),
        ("null", None, "non_object"),
        ("[1]", [1], "non_object"),
        ('{"a"', None, "invalid"),
        ('{"a": NaN}', None, "invalid"),
        ("[" * 100_000, None, "invalid"),
    ],
)
def test_arguments(text: str, arguments: Any, state: str) -> None:
    body = sse(calls(fragment(0, "a", "f", text)), chunk({}, "tool_calls"), DONE)
    (call,) = decode("openai_chat", body)["tool_calls"]
    assert call == {
        "id": "a",
        "name": "f",
        "arguments": arguments,
        "arguments_raw": text,
        "arguments_state": state,
    }


def test_a_protocol_that_is_not_built_is_refused() -> None:
    with pytest.raises(BadInput):
        decode("nonsense", b"")


def test_the_text_for_a_reader_is_safe_to_print() -> None:
    body = message(
        [{"type": "thinking", "thinking": "why"}],
        [{"type": "text", "text": "a\x1b[31m\ud800\nb"}],
        [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}],
        [{"type": "server_tool_use", "id": "s", "name": "g", "input": {"q": 1}}],
        reason="tool_use",
    )
    assert decoded_text(decode("anthropic", body)).split("\n") == [
        "reasoning: why",
        "text: a\\x1b[31m\ufffd",
        "b",
        "tool call: f t1 {}",
        'server tool call: g s {"q": 1}',
        "ended: complete (tool_use)",
        "usage: unknown",
        "warning: Half a character (a lone surrogate) is shown as U+FFFD. [lone_surrogate]",
    ]
    cut = decoded_text(decode("anthropic", body[:300]))
    assert "ended: interrupted" in cut
    refused = decoded_text(decode("openai_chat", b'{"error": "no\\u001b"}', status=400))
    assert 'error: "no' in refused
    assert "\x1b" not in refused
