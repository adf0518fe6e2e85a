"""What went wrong with one request, as a value: why, in a sentence, and what had come by then.

Knows no socket; the sentences are written where the trouble is met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.core.errors import PlaygroundError
from app.core.events import FailKind

MOST_QUOTED = 500
"""Characters of a server's own words in a sentence of ours."""

REQUEST_IDS = ("request-id", "x-request-id", "apim-request-id", "x-goog-request-id", "cf-ray")


def request_id(headers: Mapping[str, str]) -> str:
    """The id that the answer names for its request, or ""."""
    return next((headers[name] for name in REQUEST_IDS if headers.get(name)), "")


class NetTrouble(PlaygroundError):
    """What went wrong with one request, as ResponseFailed will tell it.

    `status` is the answer's, where there was one. `quoted` is what the sentence repeats of the
    server's own words, in full: `told` cuts it, once it is masked.
    `began` is whether any byte of a body had come: then a second try would repeat output.
    `retry_after` is in seconds. `headers` are the answer's where it is told of nowhere else.
    """

    def __init__(
        self,
        failure: FailKind,
        message: str,
        *,
        status: int | None = None,
        quoted: str = "",
        began: bool = False,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.status = status
        self.quoted = quoted
        self.began = began
        self.retry_after = retry_after
        self.headers = headers or {}
        self.request_id = request_id(self.headers)

    def told(self, masked: Callable[[str], str]) -> str:
        """The sentence, masked and only then cut: half a secret is none that a redactor knows."""
        said, quoted = masked(str(self)), masked(self.quoted)
        return (
            said.replace(quoted, quoted[:MOST_QUOTED] + "…") if len(quoted) > MOST_QUOTED else said
        )
