"""Lists of models, as each kind of server writes them."""

from __future__ import annotations

from typing import Any

import pytest

from playground.protocols.base import ModelInfo
from playground.protocols.openai_chat.decode import models


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"id": "gpt", "object": "model", "created": 1, "owned_by": "x"}, ModelInfo("gpt")),
        (
            {
                "id": "a/b",
                "name": "A: B",
                "context_length": 131072,
                "architecture": {"input_modalities": ["text", "image"]},
                "supported_parameters": ["tools", "temperature"],
            },
            ModelInfo("a/b", name="A: B", tools=True, images=True, reasoning=False, window=131072),
        ),
        (
            {
                "id": "mistral-medium-latest",
                "name": "mistral-medium-2508",
                "capabilities": {"function_calling": True, "vision": False},
                "max_context_length": 131072,
            },
            ModelInfo("mistral-medium-latest", "mistral-medium-2508", True, False, window=131072),
        ),
        (
            {"id": "m/l", "display_name": "L", "context_length": 8192},
            ModelInfo("m/l", "L", window=8192),
        ),
        ({"id": "g", "context_window": 131072}, ModelInfo("g", window=131072)),
        ({"id": "v", "max_model_len": 4096}, ModelInfo("v", window=4096)),
        (
            {"id": "f", "supports_tools": False, "supports_image_input": True},
            ModelInfo("f", tools=False, images=True),
        ),
        (
            {"id": "h", "providers": [{"supports_tools": False}, {"supports_tools": True}]},
            ModelInfo("h", tools=True),
        ),
        (
            {"id": "odd", "capabilities": [], "context_length": True, "providers": [1]},
            ModelInfo("odd"),
        ),
    ],
)
def test_models(entry: dict[str, Any], expected: ModelInfo) -> None:
    assert models({"object": "list", "data": [entry]}) == (expected,)
    assert models([entry]) == (expected,)  # Together's list stands bare


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"data": {}}, {"data": [1, {}]}])
def test_what_is_no_list_yields_nothing(value: Any) -> None:
    assert models(value) == ()
