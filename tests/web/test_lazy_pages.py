"""Pages come when they are asked for; each that a route names is there."""

from __future__ import annotations

import subprocess
import sys

from playground.core.late import NAMES, load_all
from playground.web.app import _routes, warm
from tests.served import environment

STARTED = """
import sys
import playground.commands.serve
from playground.core import late as put_off
from playground.web.app import _routes
import playground.web.session_list
late = {route.endpoint.__module__ for route in _routes()}
late |= {"playground.simulator.app", "playground.simulator.plan"}
late -= {"playground.web.session_list"}
late |= set(put_off.NAMES)
late |= {"playground.exchange.html", "playground.exchange.tool_import"}
late |= {"playground.engine.import_session"}
print(*late & set(sys.modules))
"""


def test_no_page_and_no_simulator_is_imported_for_a_start() -> None:
    """They would be more than half of it."""
    found = subprocess.run(
        [sys.executable, "-c", STARTED],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout.split() == []


def test_each_module_that_is_put_off_is_there() -> None:
    load_all()
    assert len(NAMES) > 5
    assert set(NAMES) <= set(sys.modules)


def test_each_page_of_a_route_is_there() -> None:
    warm()
    for route in _routes():
        module = sys.modules[route.endpoint.__module__]
        assert callable(getattr(module, route.endpoint.__name__)), route.path


def test_the_pattern_of_a_route_is_compiled_for_a_path_with_its_words() -> None:
    """All of them would be a twentieth of a start."""
    asked = next(route for route in _routes() if route.path == "/tools/{name}")
    compiled = []
    for path in ("/", "/rules/x", "/tools/", "/tools/x"):
        asked.matches({"type": "http", "method": "GET", "path": path})
        compiled.append("_compiled" in vars(asked))
    assert compiled == [False, False, False, True]
