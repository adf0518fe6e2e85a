"""Importers and exporters: tools, servers, sessions and requests, one format per module. Pure."""
