"""Tools and tool choices as the servers of OpenAI Chat Completions are told them."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.tools import FREEFORM, Tool, ToolChoice
from playground.protocols.openai_chat.request import QUIRKS
from tests.protocols.requests import encoded, request

FREE = Tool("sql", "", FREEFORM, format={"type": "text"})
TOOLS = (Tool("f"), Tool("g", strict=True), FREE)

F = {"type": "function", "function": {"name": "f"}}


def tooled(choice: ToolChoice, *quirks: str, **changes: Any) -> tuple[list[str], Any, str]:
    """The names of the tools that were sent, the choice, and the notes."""
    wanted = request(tools=TOOLS, choice=choice, quirks=quirks, **changes)
    body, sent = encoded("openai_chat", wanted)
    names = [tool[tool["type"]]["name"] for tool in body["tools"]]
    return names, body.get("tool_choice"), "\n".join(sent.notes)


@pytest.mark.parametrize(
    ("choice", "quirks", "names", "text", "note"),
    [
        (ToolChoice(allowed=("f",)), (), ["f"], None, "Only the allowed tools were sent"),
        (ToolChoice("required", allowed=("f",)), (), ["f"], "required", "Only the allowed tools"),
        (ToolChoice("none", allowed=("f",)), (), ["f"], "none", ""),
        (
            ToolChoice("required", allowed=("f", "sql")),
            ("allowed_tools", "custom_tools"),
            ["f", "g", "sql"],
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [F, {"type": "custom", "custom": {"name": "sql"}}],
                },
            },
            "",
        ),
        (ToolChoice(allowed=("f", "g", "sql")), ("allowed_tools",), ["f", "g", "sql"], None, ""),
        (ToolChoice("required"), ("any_for_required",), ["f", "g", "sql"], "any", ""),
        (ToolChoice("tool", "f"), ("any_for_required",), ["f"], "any", "Only f was sent"),
        (ToolChoice("none"), ("any_for_required",), ["f", "g", "sql"], "none", ""),
        (
            ToolChoice("tool", "f"),
            ("no_forced_with_thinking",),
            ["f", "g", "sql"],
            F,
            "refused while thinking is on",
        ),
    ],
)
def test_choices(
    choice: ToolChoice, quirks: tuple[str, ...], names: list[str], text: Any, note: str
) -> None:
    sent, expected, notes = tooled(choice, *quirks)
    assert (sent, expected) == (names, text)
    assert note in notes
    if not note:
        assert "sent" not in notes.replace("sql was sent as", "")


def test_what_a_server_cannot_do_is_left_out_and_said() -> None:
    plain_body = encoded("openai_chat", request(choice=ToolChoice(parallel=False)))
    assert plain_body[0]["parallel_tool_calls"] is False
    assert plain_body[0]["tools"][1]["function"]["strict"] is True
    assert plain_body[1].notes == ()
    quirks = ("no_parallel", "no_strict", "whole_arguments")
    body, sent = encoded("openai_chat", request(choice=ToolChoice(parallel=False), quirks=quirks))
    assert "parallel_tool_calls" not in body
    assert "strict" not in body["tools"][1]["function"]
    assert len(sent.notes) == 3
    whole = encoded("openai_chat", request(quirks=("whole_arguments",), stream=False))
    assert whole[1].notes == ()


def test_thinking_that_was_switched_off_needs_no_note() -> None:
    off = {"extra": {"thinking": {"type": "disabled"}}}
    assert "thinks" not in tooled(ToolChoice("required"), "no_forced_with_thinking", **off)[2]
    assert "thinks" not in tooled(ToolChoice(), "no_forced_with_thinking")[2]


def test_every_quirk_has_a_reason_that_stands_after_a_colon() -> None:
    for name, reason in QUIRKS.items():
        assert name.isidentifier()
        assert reason[0].islower()
        assert not reason.endswith(".")
