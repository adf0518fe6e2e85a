"""The table of protocols."""

from __future__ import annotations

import pytest

from playground.core.errors import BadInput
from playground.core.settings import PROTOCOLS
from playground.protocols.registry import CODECS, codec


def test_the_table_holds_what_it_says() -> None:
    assert set(CODECS) <= set(PROTOCOLS)
    assert codec("anthropic").key_header("k", ()) == {"x-api-key": "k"}
    assert codec("openai_chat").key_header("k", ()) == {"authorization": "Bearer k"}


@pytest.mark.parametrize("name", ["", "nonsense", "Anthropic"])
def test_an_unknown_protocol_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(BadInput, match=r"Choose from anthropic, openai_chat.*\.$"):
        codec(name)
