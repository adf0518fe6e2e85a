"""Every recorded answer of the protocols built, held against the facts that are known of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.wire.decoded import decode
from app.wire.protocols import CODECS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / os.environ.get("PLAYGROUND_RECORDINGS", "../shared/recordings")
BODIES = ("response.sse", "response.json", "response.ndjson")
WITHOUT = f"No recordings in {FOLDER}: set PLAYGROUND_RECORDINGS to the folder that holds them."


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
    whole = decode(meta["protocol"], body, meta["http_status"])
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
            assert whole[fact] == expected[fact], fact
    usage = expected["usage"] and {k: v for k, v in expected["usage"].items() if k != "raw"}
    assert whole["usage"] == usage
    assert "bad_json" not in [warning["code"] for warning in whole["warnings"]]
    for chunk in (1, 7):
        assert decode(meta["protocol"], body, meta["http_status"], chunk) == whole
