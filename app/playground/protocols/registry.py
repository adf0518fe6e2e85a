"""Lists the modules of each protocol, by its name in `core/settings`, which is its folder's name.

A folder has `FACTS` in `__init__`, CODEC in `decode`, READER in `request`, LIMITS in `limits`, END
in `server`, EDITOR and HISTORY in `edits`: CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from playground.core.errors import BadInput
from playground.core.late import Late
from playground.core.settings import PROTOCOLS

if TYPE_CHECKING:
    from playground.protocols import ProtocolFacts
    from playground.protocols.answer_edits import AnswerEditor
    from playground.protocols.base import Codec
    from playground.protocols.body_edits import HistoryForm
    from playground.protocols.limits import LimitTable
    from playground.protocols.request import RequestReader
    from playground.protocols.server import ProviderServer

T = TypeVar("T")


class _ByProtocol(Mapping[str, T]):
    """`name` in `module` of each folder, imported when its protocol is first used."""

    def __init__(self, module: str, name: str) -> None:
        self._name = name
        self._modules: Mapping[str, Any] = {
            protocol: Late(f"playground.protocols.{protocol}.{module}") for protocol in PROTOCOLS
        }

    def __getitem__(self, protocol: str) -> T:
        value: T = getattr(self._modules[protocol], self._name)
        return value

    def __contains__(self, protocol: object) -> bool:
        return protocol in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


FACTS: Mapping[str, ProtocolFacts] = {
    protocol: import_module(f"playground.protocols.{protocol}").FACTS for protocol in PROTOCOLS
}
CODECS: Mapping[str, Codec] = _ByProtocol("decode", "CODEC")
REQUEST_READERS: Mapping[str, RequestReader] = _ByProtocol("request", "READER")
LIMITS: Mapping[str, LimitTable] = _ByProtocol("limits", "LIMITS")
ENDS: Mapping[str, ProviderServer] = _ByProtocol("server", "END")
EDITORS: Mapping[str, AnswerEditor] = _ByProtocol("edits", "EDITOR")
HISTORIES: Mapping[str, HistoryForm] = _ByProtocol("edits", "HISTORY")


def codec(name: str) -> Codec:
    """The codec of that protocol; BadInput with a sentence if there is none."""
    match = CODECS.get(name)
    if match is None:
        names = ", ".join(CODECS)
        raise BadInput(f"This version does not speak the protocol {name!r}: choose one of {names}.")
    return match
