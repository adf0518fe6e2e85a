"""Secrets: their patterns, their positions in a text, and their redaction. Pure."""
