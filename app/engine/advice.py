"""What a failure advises, with what the decoder could not know. Pure."""

from __future__ import annotations

from app.core.decide import LONGEST_WAIT_S
from app.core.events import ResponseFailed
from app.protocols.errors import KEY_ADVICE, REQUEST_ADVICE, WAIT_ADVICE
from app.simulator.recorded import ADVICE


def message_with_advice(event: ResponseFailed, key_name: str) -> str:
    """Its message with what the decoder could not know: the key's name, the wait that is asked."""
    message = event.message
    if message.endswith(f"{ADVICE} {REQUEST_ADVICE}"):  # no provider: a recording, with a way on
        return message.removesuffix(f" {REQUEST_ADVICE}").partition(": ")[2]
    if message.endswith(KEY_ADVICE):
        advice = f"Check {key_name}." if key_name else "The profile names no key (Providers)."
        message = message.removesuffix(KEY_ADVICE) + advice
    if event.retry_after:
        unasked = "; not waited for by itself" if event.retry_after > LONGEST_WAIT_S else ""
        message = message.removesuffix(f" {WAIT_ADVICE}")
        message += f" It asks to wait {_wait(event.retry_after)}{unasked}."
    return message


def _wait(seconds: float) -> str:
    """Seconds for a sentence; what is beyond a day is only called long."""
    if seconds > 86_400:
        return "more than a day"
    return f"{seconds:.1f}".removesuffix(".0") + " s"
