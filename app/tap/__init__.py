"""Other people's agents behind this program: their requests pass through here, unchanged, and
become sessions."""

from typing import Protocol

PREFIX = "/tap"
"""The path below which agents ask."""

CONNECTION = "playground.connection"
"""The extension of the scope that holds an AgentConnection: what a server lets the door decide."""


class AgentConnection(Protocol):
    """How a server treats one request, beyond what ASGI can say."""

    def wait_for_body(self) -> None:
        """The body may take as long as it takes."""

    def add_no_headers(self) -> None:
        """The answer gets no headers of the server's own."""
