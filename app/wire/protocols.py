"""The protocols this version speaks, written out. A new one is a codec file and a line here."""

from __future__ import annotations

from app.core.errors import BadInput
from app.wire import anthropic, gemini, ollama, openai_chat, openai_responses
from app.wire.codec import Codec

CODECS: dict[str, Codec] = {
    "anthropic": anthropic.CODEC,
    "openai_chat": openai_chat.CODEC,
    "openai_responses": openai_responses.CODEC,
    "gemini": gemini.CODEC,
    "ollama": ollama.CODEC,
}


def codec(name: str) -> Codec:
    """The codec of that protocol; BadInput with a sentence where there is none."""
    found = CODECS.get(name)
    if found is None:
        known = ", ".join(CODECS)
        raise BadInput(f"This version does not speak the protocol {name!r}: choose one of {known}.")
    return found
