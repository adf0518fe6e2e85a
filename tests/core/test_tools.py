"""Names of tools: letters, digits and signs that every address can hold."""

from __future__ import annotations

import pytest

from playground.core.errors import BadTool
from playground.schema.validate import check_tool


@pytest.mark.parametrize("name", [".", "..", "", "a/b", "a b", "x" * 129, "é", "a\n"])
def test_a_name_that_no_address_can_hold_is_refused(name: str) -> None:
    with pytest.raises(BadTool) as refused:
        check_tool({"name": name, "answered_by": "person"})
    assert refused.value.pointer == "/name"


@pytest.mark.parametrize("name", ["...", ".a", "a.", "-", "import", "export", "try", "new"])
def test_odd_names_are_names(name: str) -> None:
    assert check_tool({"name": name, "answered_by": "person"}).name == name
