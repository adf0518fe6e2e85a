"""The server ends of the protocols: a model of patterns, scenarios and faults over real HTTP."""

SOCKET = "playground.socket"
"""The extension of the scope that holds the asyncio transport of the connection: what a server
hands over for faults below HTTP (`fault_transport`)."""

CODING_AGENT = "coding-agent"
"""The scenario `CodingAgent`, and the model that plays it; named here, for the first page names it
and loads no simulator."""
