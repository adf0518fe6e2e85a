"""Lists the modules of each protocol, by its name in `core/settings`, which is its folder's name.

A folder has FACTS in `__init__`, CODEC in `decode`, READER in `request`, LIMITS in `limits`, END
in `server`, EDITOR and HISTORY in `edits`, without which it cannot be tapped. docs/recipes.md
says how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from playground.core.errors import BadInput
from playground.core.settings import PROTOCOLS
from playground.protocols.base import Codec
from playground.protocols.editable_answer import AnswerEditor
from playground.protocols.history_form import HistoryForm
from playground.protocols.request import RequestReader
from playground.protocols.server import ProviderServer
from playground.protocols.tool_limits import LimitTable


def _members(module: str, name: str, *, optional: bool = False) -> Mapping[str, Any]:
    """`name` in `module` of each protocol's folder; of those that have it if `optional`."""
    folders = {protocol: f"playground.protocols.{protocol}" for protocol in PROTOCOLS}
    return {
        protocol: getattr(import_module(f"{folder}.{module}"), name)
        for protocol, folder in folders.items()
        if not optional or find_spec(f"{folder}.{module}") is not None
    }


CODECS: Mapping[str, Codec] = _members("decode", "CODEC")
REQUEST_READERS: Mapping[str, RequestReader] = _members("request", "READER")
LIMITS: Mapping[str, LimitTable] = _members("limits", "LIMITS")
ENDS: Mapping[str, ProviderServer] = _members("server", "END")
EDITORS: Mapping[str, AnswerEditor] = _members("edits", "EDITOR", optional=True)
HISTORIES: Mapping[str, HistoryForm] = _members("edits", "HISTORY", optional=True)


def codec(name: str) -> Codec:
    """The codec of that protocol; BadInput with a sentence if there is none."""
    match = CODECS.get(name)
    if match is None:
        names = ", ".join(CODECS)
        raise BadInput(f"This version does not support the protocol {name!r}. Choose from {names}.")
    return match
