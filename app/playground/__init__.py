"""A local playground for tool-calling models. docs/architecture.md has the floors, docs/laws.md the
laws."""

__version__ = "0.1.0"
