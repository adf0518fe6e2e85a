"""The server side of the protocols: a model of patterns, scenarios and faults over real HTTP."""

SOCKET = "playground.socket"
"""The ASGI scope extension with the asyncio transport of the connection: servers provide it for
faults below HTTP (`fault_transport`)."""

CODING_AGENT = "coding-agent"
"""The scenario `CodingAgent`, and the model that plays it; defined here, because the first page
uses it without importing the simulator."""
