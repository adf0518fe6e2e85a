"""A browser that never answers ends the test, and serves the next one."""

from __future__ import annotations

import pytest

from tests.bounded import NotDone, within
from tests.browser.tab import Tab


def test_a_page_that_hangs_is_left(tab: Tab) -> None:
    with pytest.raises(NotDone), within(0.5):
        tab.page.evaluate("new Promise(() => {})")
    assert tab.page.evaluate("6 * 7") == 42
