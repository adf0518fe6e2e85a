"""OpenAI Chat Completions, client side: requests.

Spec: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from app.core.messages import ModelRequest
from app.wire.codec import WireRequest


def encode(request: ModelRequest) -> WireRequest:
    raise NotImplementedError
