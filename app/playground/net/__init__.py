"""The network: requests to providers, tools and MCP servers, and the keys they carry."""
