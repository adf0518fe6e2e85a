"""Tools of MCP servers: connections, the processes of servers, what they list and answer."""
