"""The protocol's own parameters are sent; others are translated by the tables of the contract."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.core.settings import PROTOCOLS
from playground.protocols.parameters import SAME, THINKING, supported_params
from tests.protocols.requests import encoded, request

CONTRACT = Path(__file__).parents[2] / "docs" / "contract.md"
INNER = {"gemini": "generationConfig", "ollama": "options"}


def table(head: str) -> list[list[str]]:
    """The rows of the contract's table whose head begins with this cell, without the head."""
    text = CONTRACT.read_text("utf-8")
    _, _, rest = text[text.index(f"\n| {head} |") :].partition("\n| ---")
    lines = rest.partition("\n\n")[0].split("\n")[1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def encoded_params(protocol: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters in the body of a request, those of an inner member beside the others."""
    wanted = request(tools=(), params=params)
    body, _ = encoded(protocol, type(wanted)(**{**vars(wanted), "model": "gemini-3-x"}))
    return {**body, **body.get(INNER.get(protocol, ""), {})}


def quoted(cell: str) -> str:
    return cell.removeprefix("`").removesuffix("`") if cell.startswith("`") else ""


def test_the_names_are_those_of_the_contract() -> None:
    rows = [[quoted(cell) for cell in row] for row in table("ours")]
    assert rows == [[row.get(name, "") for name in ("", *PROTOCOLS)] for row in SAME]


@pytest.mark.parametrize("row", SAME, ids=lambda row: next(iter(row.values())))
def test_a_name_of_another_protocol_is_said_in_ones_own_or_refused(row: Mapping[str, str]) -> None:
    value: Any = ["x"] if row.get("") == "stop" else 1
    for there in set(row.values()) - {row.get("")}:
        for protocol in PROTOCOLS:
            if protocol not in row:
                with pytest.raises(BadInput, match=f"{protocol} has no {there}"):
                    encoded_params(protocol, {there: value})
                continue
            body = encoded_params(protocol, {there: value})
            # Chat Completions' own name is sent as it is; ours goes by the older of its two.
            older = row[protocol] == "max_completion_tokens" and there != row[protocol]
            assert body["max_tokens" if older else row[protocol]] == value


def test_a_wish_to_think_is_said_in_ones_own_words_or_refused() -> None:
    rows = [row[1:] for row in table("`thinking`")]
    assert len(rows) == 4
    for row in rows:
        cells = dict(zip(PROTOCOLS, row, strict=True))
        documented_values = {
            name: json.loads(quoted(cell)) for name, cell in cells.items() if quoted(cell)
        }
        for source, value in documented_values.items():
            for name in (
                {THINKING[source], "thinking"} if isinstance(value, dict) else {THINKING[source]}
            ):
                for target, cell in cells.items():
                    check_wish(target, {name: value}, cell, documented_values.get(target))


def check_wish(target: str, params: dict[str, Any], cell: str, expected: Any) -> None:
    if cell == "–":
        with pytest.raises(BadInput, match=re.escape(f"params: {target}")):
            encoded_params(target, params)
        return
    text = encoded_params(target, params)[THINKING[target]]
    if expected is None:  # a sentence: tokens for words
        assert text == {"type": "enabled", "budget_tokens": 1024}
    elif isinstance(expected, dict):
        assert expected.items() <= text.items()
    else:
        assert text == expected


@pytest.mark.parametrize(
    ("protocol", "params", "expected"),
    [
        ("anthropic", {"top_k": 5, "metadata": {"user_id": "u"}}, None),
        ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 2000, "new": 1}}, None),
        ("openai_chat", {"reasoning_effort": "xhigh", "verbosity": "low"}, None),
        ("openai_chat", {"max_completion_tokens": 9}, None),
        ("openai_responses", {"max_output_tokens": 9, "truncation": "auto"}, None),
        ("openai_responses", {"reasoning": {"effort": "minimal", "summary": "detailed"}}, None),
        (
            "gemini",
            {"thinkingConfig": {"thinkingLevel": "minimal"}, "topK": 4, "max_tokens": 9},
            {"thinkingConfig": {"thinkingLevel": "minimal"}, "topK": 4, "maxOutputTokens": 9},
        ),
        (
            "gemini",
            {"generationConfig": {"seed": 3}, "topK": 4},
            {"generationConfig": {"seed": 3, "topK": 4}},
        ),
        ("gemini", {"thinking": {"includeThoughts": True}},
         {"thinkingConfig": {"includeThoughts": True}}),
        ("ollama", {"think": "high", "num_ctx": 8192, "keep_alive": "5m"}, None),
        ("ollama", {"options": {"mirostat": 1}, "seed": 2}, {"mirostat": 1, "seed": 2}),
    ],
)  # fmt: skip
def test_a_protocol_s_own_are_sent_as_they_are(
    protocol: str, params: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    assert (expected or params).items() <= encoded_params(protocol, params).items()


@pytest.mark.parametrize(
    ("protocol", "params", "words"),
    [
        ("gemini", {"banana": 1}, "gemini has no banana"),
        ("openai_chat", {"top_k": 1}, "put it into extra"),
        ("openai_responses", {"messages": []}, "has no messages"),
        (
            "gemini",
            {"thinking": {"type": "enabled", "budget_tokens": "many"}},
            "use thinkingConfig",
        ),
        (
            "gemini",
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            "use thinkingConfig",
        ),
        ("anthropic", {"thinking": {"thinkingBudget": True}}, "or use thinking"),
        (
            "openai_chat",
            {"reasoning": {"effort": "low", "summary": "auto"}},
            "use reasoning_effort",
        ),
        ("openai_responses", {"max_tokens": 1, "max_output_tokens": 2}, "set the same"),
        ("ollama", {"thinking": "low", "think": True}, "set the same"),
        ("gemini", {"topK": 1, "generationConfig": {"topK": 2}}, "topK and generationConfig.topK"),
        ("gemini", {"generationConfig": {"maxOutputTokens": 2}, "max_tokens": 1}, "set the same"),
        ("ollama", {"top_k": 1, "options": {"num_predict": 2}, "max_tokens": 1}, "set the same"),
        ("gemini", {"generationConfig": "x", "topK": 1}, "generationConfig must be a JSON object"),
        ("ollama", {"num_ctx": 1, "options": 1}, "options must be a JSON object"),
        ("openai_chat", {"stop_sequences": 5}, "stop_sequences must be a text or a list of texts"),
        ("anthropic", {"maxOutputTokens": "x", "thinking": 1024}, "maxOutputTokens must be a whol"),
        ("anthropic", {"topP": True}, "topP must be a number"),
    ],
)
def test_what_cannot_be_said_is_refused(protocol: str, params: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        encoded_params(protocol, params)
    assert str(caught.value).endswith(".")


def test_what_is_null_says_nothing_and_what_is_replaced_is_told() -> None:
    wanted = request(params={"seed": None, "include": ["x"]})
    body, whole = encoded("openai_responses", wanted)
    assert body["include"] == ["x"]
    assert whole.notes == ("params replaces include.",)


def test_what_another_protocol_cannot_be_told_is_left_out_of_an_export_and_noted() -> None:
    params = {"num_ctx": 1, "top_k": 2, "num_predict": 3, "banana": 4}
    stored_data, notes = supported_params("anthropic", params)
    assert stored_data == {"top_k": 2, "num_predict": 3}
    assert [note.split()[2] for note in notes] == ["num_ctx", "banana"]
