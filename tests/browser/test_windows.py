"""A window goes from test to test, and nothing of the one is there for the next."""

from __future__ import annotations

from playwright.sync_api import Browser

from tests.browser.serving import Server
from tests.browser.windows import WIDE, Windows

LEAVE = "localStorage.left = sessionStorage.left = 'it'; onbeforeunload = (event) => 'stay'"
LEFT = """[localStorage.left ?? "", sessionStorage.left ?? "", innerWidth,
  matchMedia("(prefers-color-scheme: dark)").matches]"""


def test_a_window_is_handed_on_as_if_it_were_new(server: Server, browser: Browser) -> None:
    windows = Windows(browser)
    first = windows.open(server, viewport={"width": 500, "height": 500}, color_scheme="dark")
    first.login().goto("/rules")
    first.find("main").click()  # without one no page may ask whether to leave
    first.page.evaluate(LEAVE)
    first.page.route("**/rules", lambda route: route.abort())
    assert windows.end() == []
    again = windows.open(server).login()
    assert again.page == first.page
    again.goto("/rules")
    assert again.page.evaluate(LEFT) == ["", "", WIDE["width"], False]
    again.page.evaluate("console.error('seen')")
    assert windows.end() == ["console: seen"]
    assert first.trouble == []
    windows.close()


def test_a_request_to_elsewhere_is_noted_though_it_is_answered(
    server: Server, browser: Browser
) -> None:
    windows, there = Windows(browser), "https://elsewhere.example/"
    tab = windows.open(server, bypass_csp=True).login()
    answer = {"access-control-allow-origin": "*"}
    tab.page.route(there, lambda route: route.fulfill(body="well", headers=answer))
    tab.goto("/rules")
    with tab.page.expect_console_message():
        assert tab.page.evaluate(f"fetch('{there}').then((one) => one.text())") == "well"
    with tab.page.expect_event("framenavigated"):
        tab.page.evaluate(f"location.href = '{there}'")
    assert windows.end() == [f"console: request: {there}", f"request: {there}"]
    windows.close()
