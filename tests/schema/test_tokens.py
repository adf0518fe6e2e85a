"""The estimate grows with what is sent, and stays within reach of what is counted."""

from __future__ import annotations

from playground.core.settings import PROTOCOLS
from playground.core.tools import FREEFORM, Tool
from playground.protocols.lint import estimate_tokens


def test_more_text_is_more_tokens() -> None:
    small = Tool("look", "Looks.")
    large = Tool("look", "Looks. " * 50)
    for protocol in PROTOCOLS:
        assert 10 < estimate_tokens(small, protocol) < estimate_tokens(large, protocol) < 500


def test_a_free_form_tool_costs_its_format_not_its_parameters() -> None:
    tool = Tool("write", "Writes.", FREEFORM)
    assert estimate_tokens(
        Tool("write", "Writes.", FREEFORM, format={"type": "text"}), "openai_chat"
    ) < (estimate_tokens(tool, "openai_chat"))
