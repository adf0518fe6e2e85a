"""Every page fits a phone, reads well in light and dark, and suits who cannot see it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab
from tests.tables import rest_slow

PHONE = {"width": 390, "height": 844}
PROVIDERS = ("providers", "providers/openai")
PROMPT = "What is the weather in Oslo, in a rather long question? [[fault:args-wrong-types]]"


@pytest.fixture(scope="module")
def waiting_id(server: Server) -> str:
    return server.session(PROMPT)


def visited(tab: Tab, page: str, waiting_id: str) -> Tab:
    """The page called `page`, settled."""
    match page:
        case "session":
            tab.open(waiting_id).waits_for(1)
        case "forms":
            tab.open(waiting_id).waits_for(1)
            tab.press(tab.card(0), "e")
        case "setup" | "request":
            tab.goto(f"/sessions/{waiting_id}?tab={page}")
            expect(tab.find(f"#{page}")).to_be_attached()
        case _:
            tab.goto(f"/{page}")
            expect(tab.find("main")).to_be_visible()
    return tab


@pytest.mark.parametrize(
    "page",
    rest_slow(["forms", "tools/get_weather", "tools", "welcome", *PROVIDERS, "session"], 2),
)
def test_a_phone_scrolls_nothing_sideways(
    server: Server, new_tab: NewTab, waiting_id: str, page: str
) -> None:
    tab = visited(new_tab(server, viewport=PHONE, has_touch=True).login(), page, waiting_id)
    assert not tab.scrolls_sideways()
    wider = tab.page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((element) =>
             element.getBoundingClientRect().right > innerWidth + 1
             && element.checkVisibility() && !element.closest(".coder, .code, .unseen, svg")
           ).map((element) => element.outerHTML.slice(0, 80))"""
    )
    assert wider == []


def test_the_drawers_of_a_phone(server: Server, new_tab: NewTab, waiting_id: str) -> None:
    tab = visited(new_tab(server, viewport=PHONE, has_touch=True).login(), "session", waiting_id)
    for name, selector in (("side", "#list .row"), ("inspector", ".wirerow")):
        expect(tab.find(selector).first).not_to_be_visible()
        tab.find(f"button[data-drawer={name}]").tap()
        expect(tab.find(selector).first).to_be_in_viewport()
        tab.page.keyboard.press("Escape")
        expect(tab.find(selector).first).not_to_be_visible()
    # The menu is no longer than a low window: its last row is reached.
    tab.page.set_viewport_size({"width": 390, "height": 600})
    tab.find("#more summary").tap()
    tab.find("#more .danger").click(trial=True)
    expect(tab.find("#more .danger")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(
    ("page", "schemes"),
    rest_slow(
        [
            ("forms", ("light", "dark")),
            pytest.param("setup", ("dark",), marks=pytest.mark.slow),
            ("request", ("light", "dark")),
            pytest.param("welcome", ("light",), marks=pytest.mark.slow),
            ("tools/get_weather", ("light",)),
            pytest.param("tools/get_weather", ("dark",), marks=pytest.mark.slow),
            pytest.param("providers", ("light",), marks=pytest.mark.slow),
            pytest.param("providers", ("dark",), marks=pytest.mark.slow),
            ("providers/openai", ("dark",)),
            pytest.param("agents", ("light", "dark"), marks=pytest.mark.slow),
        ]
    ),
)
def test_axe_finds_nothing_serious(
    server: Server, new_tab: NewTab, waiting_id: str, page: str, schemes: Any
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # Without bypassing it the page's own policy would refuse the checker's script.
    tab = new_tab(server, color_scheme=schemes[0], bypass_csp=True).login()
    visited(tab, page, waiting_id)
    # Without "preload" it looks for no style sheets itself, which it would do at wrong addresses;
    # and of what is well it need not tell each element by a selector.
    options: dict[str, Any] = {"preload": False, "resultTypes": ["violations"]}
    # Around the tabs is the page that "forms" shows.
    within = "#inspector" if page in ("setup", "request") else None
    for scheme in schemes:
        tab.page.emulate_media(color_scheme=scheme)
        looked = axe.Axe().run(tab.page, within, options)
        violations = looked.response["violations"]
        serious = [item for item in violations if item["impact"] in ("serious", "critical")]
        assert [(item["id"], [node["html"] for node in item["nodes"]]) for item in serious] == []
        options["runOnly"] = ["color-contrast"]  # by its colours alone the other scheme differs
