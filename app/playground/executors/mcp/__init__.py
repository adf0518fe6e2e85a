"""Tools of MCP servers: connections, server processes, tool lists and results."""
