"""A local playground for tool-calling models. The floors are in docs/architecture.md, the laws in
docs/laws.md."""

__version__ = "0.1.0"
