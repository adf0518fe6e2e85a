"""How many tokens a tool takes in every request, estimated. Knows no tokenizer."""

from __future__ import annotations

import json
from math import ceil

from app.core.tools import Tool

_LETTERS = 3.5
_AROUND = {"anthropic": 40, "openai_chat": 10, "openai_responses": 10, "gemini": 10, "ollama": 12}


def estimated(tool: Tool, protocol: str) -> int:
    """Tokens of name, description and schema as `protocol` sends them: compact JSON, 3.5 letters
    a token, and a fixed part for what the provider puts around it. Off by a third either way.
    """
    said = [tool.name, tool.description, tool.format or tool.parameters]
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    return ceil(len(text) / _LETTERS) + _AROUND.get(protocol, 10)
