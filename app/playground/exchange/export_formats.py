"""The export formats of a session. A new one is a module in this folder and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from playground.exchange import (
    batch_export,
    html,
    markdown,
    otlp,
    replay_test,
    requests_export,
    sdk_script,
)
from playground.exchange.bundle import ExportFile, SessionBundle, write_session


@dataclass(frozen=True)
class ExportFormat:
    """`label` and `words` are for the page that offers it."""

    label: str
    words: str
    write: Callable[[SessionBundle], ExportFile]


EXPORTS: Mapping[str, ExportFormat] = {
    "html": ExportFormat(
        "One HTML file", "Opens from disk and replays without a network.", html.write
    ),
    "jsonl": ExportFormat(
        "JSON Lines",
        "The whole session, for import into a playground.",
        write_session,
    ),
    "markdown": ExportFormat(
        "Markdown", "For reading: prompts, answers, calls and who decided them.", markdown.write
    ),
    "openai": ExportFormat(
        "OpenAI messages",
        "Messages and tools in one line, in the chat format.",
        requests_export.write_openai,
    ),
    "anthropic": ExportFormat(
        "Anthropic request",
        "The last request, as the Messages API expects it.",
        requests_export.write_anthropic,
    ),
    "curl": ExportFormat(
        "curl", "Every request as a command, byte for byte.", requests_export.write_curl
    ),
    "python": ExportFormat(
        "Python", "The last run, with the official package of its protocol.", sdk_script.write
    ),
    "har": ExportFormat(
        "HAR", "Requests and answers, for a browser's developer tools.", requests_export.write_har
    ),
    "pytest": ExportFormat(
        "pytest", "A test with its recording: names, order, required arguments.", replay_test.write
    ),
    "batch": ExportFormat(
        "Test for a batch", "Its prompt, expected calls and results.", batch_export.write
    ),
    "otlp": ExportFormat("OTLP/JSON", "One trace, for OpenTelemetry's tools.", otlp.write),
}
"""By the name used by `playground export --as`."""
