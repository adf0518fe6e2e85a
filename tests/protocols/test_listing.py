"""Lists of models, whatever came in their place."""

from __future__ import annotations

from typing import Any

import pytest

from playground.protocols.base import ModelInfo, model_entries
from playground.protocols.registry import CODECS

ONE = {"id": "m", "name": "m", "model": "m"}


@pytest.mark.parametrize("value", [{"data": [ONE, {}, 3, None]}, [ONE, "x"]])
def test_what_has_a_name_is_a_model(value: Any) -> None:
    assert model_entries(value, "data") == [ONE]


@pytest.mark.parametrize("value", [None, 3, "x", {}, {"data": {}}, {"data": 3}, {"error": "no"}])
@pytest.mark.parametrize("protocol", CODECS)
def test_what_is_no_list_has_no_models(protocol: str, value: Any) -> None:
    assert CODECS[protocol].models(value) == ()
    assert all(isinstance(model, ModelInfo) for model in CODECS[protocol].models([ONE]))
