"""Importers and exporters: tools and servers, sessions and requests, one form a module. Pure."""
