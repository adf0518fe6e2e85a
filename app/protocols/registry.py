"""Lists the codecs by protocol name. A new protocol is a package and a line here."""

from __future__ import annotations

from app.core.errors import BadInput
from app.protocols.anthropic import decode as anthropic
from app.protocols.base import Codec
from app.protocols.gemini import decode as gemini
from app.protocols.ollama import decode as ollama
from app.protocols.openai_chat import decode as openai_chat
from app.protocols.openai_responses import decode as openai_responses

CODECS: dict[str, Codec] = {
    "anthropic": anthropic.CODEC,
    "openai_chat": openai_chat.CODEC,
    "openai_responses": openai_responses.CODEC,
    "gemini": gemini.CODEC,
    "ollama": ollama.CODEC,
}


def codec(name: str) -> Codec:
    """The codec of that protocol; BadInput with a sentence where there is none."""
    match = CODECS.get(name)
    if match is None:
        names = ", ".join(CODECS)
        raise BadInput(f"This version does not speak the protocol {name!r}: choose one of {names}.")
    return match
