"""A local playground for tool-calling models. The floors and the laws are in docs/house.md."""

__version__ = "0.1.0"
