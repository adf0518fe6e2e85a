"""Secrets: how they look, where they are in a text, and their redaction. Pure."""
