"""What a server hands over for faults below HTTP (`fault_transport`)."""

SOCKET = "playground.socket"
"""The extension of the scope that holds the asyncio transport of the connection."""
