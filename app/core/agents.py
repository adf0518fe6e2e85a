"""What the agents are called that `playground tap` starts. How it does so is in tap/agents.py."""

from __future__ import annotations

from collections.abc import Mapping

AGENT_TITLES: Mapping[str, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
}


def agent_title(name: str) -> str:
    """What a user calls the agent; one that has no name, or another one, was started by hand."""
    return AGENT_TITLES.get(name, name) or "an agent"
