"""What real providers accepted the simulator's ends accept: each recorded request is read again.

Requests to vendors that speak a dialect of OpenAI's go to the end of a local server, which ignores
what it does not know, as they do. Refusals are compared where they are for the body alone: models
exist or not, and keys and quotas are used up, by the provider's own state.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from playground.protocols.registry import ENDS
from playground.protocols.server import BadRequest, ProviderServer
from playground.simulator.local_servers import LOCAL_ENDS

FOLDER = Path(__file__).parents[2] / os.environ.get("PLAYGROUND_RECORDINGS", "../shared/recordings")
OWN = ("anthropic", "google_ai", "vertex_ai", "ollama", "openai", "azure")
"""The dialects of the providers' own APIs."""
PROFILES = {"llama.cpp": "llamacpp"}
"""The profiles of dialects with an end of their own; others are read by that of vllm."""
ELSEWHERE = ("vertex_anthropic",)
"""Dialects with other paths and members, which no end speaks."""
STATE = ("model_not_found", "does not exist", "too_many_prompt_tokens", "not found", "is not found")
"""Words of refusals for what a body does not show."""
VERSION = {"anthropic-version": "2023-06-01"}
"""Not every source keeps it; the real one asks for it."""


def end_for(meta: dict[str, Any]) -> ProviderServer:
    protocol, dialect = meta["protocol"], meta["dialect"]
    if dialect in OWN:
        return ENDS[protocol]
    base = f"/{PROFILES.get(dialect, 'vllm')}/v1"
    return next(end for end in LOCAL_ENDS if (end.base, end.name) == (base, protocol))


def path_at(end: ProviderServer, path: str) -> str:
    """The path below the end's base: providers put more before it."""
    if end.name != "gemini":
        return end.path
    match = re.search(r"/models/[^/]+$", path.partition("?")[0])
    assert match is not None
    return f"/v1beta{match[0]}"


def test_recorded_requests_are_accepted_and_refused_as_they_were() -> None:
    outcomes: Counter[str] = Counter()
    failures = []
    for file in sorted(FOLDER.glob("*/meta.json")):
        meta = json.loads(file.read_text("utf-8"))
        sent = json.loads(file.with_name("request.json").read_text("utf-8"))
        status = meta["http_status"]
        if sent.get("body") is None or meta["dialect"] in ELSEWHERE:
            continue
        answer = next(file.parent.glob("response.*")).read_text("utf-8")
        if status not in (200, 400, 422) or (status >= 400 and any(it in answer for it in STATE)):
            continue
        end = end_for(meta)
        body = json.dumps(sent["body"]).encode()
        try:
            end.parse(body, {**sent.get("headers", {}), **VERSION}, path_at(end, sent["path"]))
            refusal = ""
        except BadRequest as problem:
            refusal = str(problem)
        outcomes["accepted" if status == 200 else "refused"] += 1
        if (status == 200) == bool(refusal):
            failures.append(f"{file.parent.name} ({status}): {refusal or 'accepted'}")
    if not outcomes:
        pytest.skip(f"No recordings in {FOLDER}: set PLAYGROUND_RECORDINGS to their folder.")
    assert failures == []
