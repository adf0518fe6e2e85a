"""The facts of each protocol, by its name in `core/settings`: FACTS in `__init__` of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from playground.core.settings import PROTOCOLS
from playground.protocols import ProtocolFacts

FACTS: Mapping[str, ProtocolFacts] = {
    protocol: import_module(f"playground.protocols.{protocol}").FACTS for protocol in PROTOCOLS
}
