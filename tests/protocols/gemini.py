"""Events of Gemini, written by hand."""

from __future__ import annotations

from typing import Any


def event(*parts: Any, reason: Any = None, **more: Any) -> dict[str, Any]:
    """A GenerateContentResponse whose one candidate says these parts."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "gemini-3-x", **more}


def text(message: str, **more: Any) -> dict[str, Any]:
    return {"text": message, **more}


def call(name: str = "f", *, signature: str = "", **more: Any) -> dict[str, Any]:
    """A part with a functionCall whose members are `more`."""
    part: dict[str, Any] = {"functionCall": {"name": name, **more} if name else more}
    return {**part, "thoughtSignature": signature} if signature else part


def growing(*partial: dict[str, Any], goes_on: bool = True, name: str = "") -> dict[str, Any]:
    """A part with a piece of a streamed call."""
    inner: dict[str, Any] = {"name": name} if name else {}
    inner |= {"partialArgs": list(partial)} if partial else {}
    return {"functionCall": {**inner, "willContinue": True} if goes_on else inner}


def partial_arg(path: str, *, more: bool = False, **value: Any) -> dict[str, Any]:
    """One entry of partialArgs: what stands at this JSON path, and whether its text goes on."""
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}
