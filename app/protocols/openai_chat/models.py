"""The lists of models of servers that speak OpenAI's protocols: GET /models.

OpenAI itself tells the ids and nothing else; what others add is read where it is there, by the
names they give it. Spec: https://platform.openai.com/docs/api-reference/models/list
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.protocols.base import ModelInfo
from app.protocols.listing import listed

_WINDOWS = (
    "context_length",  # OpenRouter, Together, Fireworks
    "max_context_length",  # Mistral
    "context_window",  # Groq
    "max_model_len",  # vLLM
)


def models(value: Any) -> tuple[ModelInfo, ...]:
    """The models of a list; nothing for what is none."""
    return tuple(_model(one) for one in listed(value, "data"))


def _model(one: Mapping[str, Any]) -> ModelInfo:
    id_ = str(one.get("id") or one.get("name") or "")
    name = one.get("display_name") or one.get("name")
    takes = one.get("supported_parameters")  # OpenRouter
    inputs = _mapping(one.get("architecture")).get("input_modalities")  # OpenRouter, Hugging Face
    able = _mapping(one.get("capabilities"))  # Mistral
    windows = (one.get(key) for key in _WINDOWS)
    return ModelInfo(
        id_,
        name if isinstance(name, str) and name != id_ else "",
        tools=_first(
            "tools" in takes if isinstance(takes, list) else None,
            able.get("function_calling"),
            one.get("supports_tools"),  # Fireworks
            _any_provider(one.get("providers")),
        ),
        images=_first(
            "image" in inputs if isinstance(inputs, list) else None,
            able.get("vision"),
            one.get("supports_image_input"),  # Fireworks
        ),
        reasoning=_first(
            "reasoning" in takes if isinstance(takes, list) else None,
            able.get("reasoning"),
        ),
        window=next((window for window in windows if _is_count(window)), None),
    )


def _any_provider(value: Any) -> bool | None:
    """Hugging Face: whether one of the providers that run a model takes tools."""
    told = [_mapping(one).get("supports_tools") for one in value] if isinstance(value, list) else []
    return any(told) if any(isinstance(one, bool) for one in told) else None


def _first(*told: Any) -> bool | None:
    return next((one for one in told if isinstance(one, bool)), None)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
