"""Taps: relays the requests of other agents unchanged and records them as sessions."""

from typing import Protocol

PREFIX = "/tap"
"""The path prefix for agents' requests."""

CONNECTION = "playground.connection"
"""The ASGI scope extension that holds an AgentConnection: what the server lets the door decide."""


class AgentConnection(Protocol):
    """Options of a server for one request, beyond ASGI."""

    def wait_for_body(self) -> None:
        """The body may take any time."""

    def add_no_headers(self) -> None:
        """The server must add no headers to the answer."""
