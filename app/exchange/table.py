"""The forms a session leaves in. A new one is a file beside this and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.exchange import (
    anthropic_messages,
    curl_export,
    har_export,
    html,
    jsonl,
    markdown,
    messages_export,
    otlp,
    replay_test,
    sdk_script,
)
from app.exchange.bundle import Kept, Written


@dataclass(frozen=True)
class Export:
    """`label` and `words` are for the page that offers it."""

    label: str
    words: str
    write: Callable[[Kept], Written]


EXPORTS: Mapping[str, Export] = {
    "html": Export(
        "One HTML file", "Opens from disk, plays, and asks nobody for anything.", html.write
    ),
    "jsonl": Export(
        "JSON Lines", "The whole session, to be brought back to a playground.", jsonl.write
    ),
    "markdown": Export(
        "Markdown", "To be read: prompts, answers, calls and who decided them.", markdown.write
    ),
    "openai": Export(
        "OpenAI messages",
        "One line of messages and tools, in the chat form.",
        messages_export.write,
    ),
    "anthropic": Export(
        "Anthropic request",
        "The last request, as the Messages API takes it.",
        anthropic_messages.write,
    ),
    "curl": Export("curl", "Every request as a command, to the byte.", curl_export.write),
    "python": Export(
        "Python", "The last run, by the official package of its protocol.", sdk_script.write
    ),
    "har": Export(
        "HAR", "Requests and answers, for a browser's developer tools.", har_export.write
    ),
    "pytest": Export(
        "pytest", "A test with its recording: names, order, required arguments.", replay_test.write
    ),
    "otlp": Export("OTLP/JSON", "One trace, for OpenTelemetry's tools.", otlp.write),
}
"""By the name that `playground export --as` takes."""
