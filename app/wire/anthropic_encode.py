"""Anthropic Messages, client side: requests.

Spec: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from app.core.messages import ModelRequest
from app.wire.codec import WireRequest


def encode(request: ModelRequest) -> WireRequest:
    raise NotImplementedError
