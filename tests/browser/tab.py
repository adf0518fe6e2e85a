"""A tab that is watched: whatever a page must never do is noted, and fails the test at its end."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import (
    ConsoleMessage,
    Dialog,
    Error,
    Frame,
    Locator,
    Page,
    Route,
    expect,
)

from tests.browser.serving import Server

WAIT_MS = 20_000

NOTE_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
new PerformanceObserver((list) => {
  const foreign = ({name}) => !name.startsWith(`${origin}/`) && !name.startsWith("data:");
  for (const {name} of list.getEntries().filter(foreign)) console.error(`request: ${name}`);
}).observe({type: "resource", buffered: true});
"""
"""Runs in each page. It sees itself what the page asks for: to hear of each request here would cost
a quarter of the page."""

APP_MODULES = """import(document.querySelector("script[src*='/static/app-']").src)"""
"""What the page's own modules export, in JavaScript: `(await …).toasts_js.say`."""


class Tab:
    """One page on `server`. `forgiven` are patterns of trouble that a test causes on purpose.

    `links` are those whose cookie the page has; `leaves` says that it may be left as it is.
    Until it is `begun` the page is still that of the test before.
    """

    def __init__(self, page: Page, server: Server, links: set[str]) -> None:
        self.page, self.server, self._links = page, server, links
        self.trouble: list[str] = []
        self.forgiven: list[str] = []
        self.leaves = self.begun = False
        page.set_default_timeout(WAIT_MS)
        self.watch(True)

    def watch(self, yes: bool) -> None:
        """Begin or end to note what the page does."""
        do: Any = self.page.on if yes else self.page.remove_listener
        do("console", self._console)
        do("pageerror", self._error)
        do("framenavigated", self._navigated)
        do("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if self.begun and message.type in ("error", "warning"):
            self.trouble.append(f"console: {message.text}")

    def _error(self, error: Error) -> None:
        if self.begun:
            self.trouble.append(f"script: {error}")

    def _navigated(self, frame: Frame) -> None:
        self.begun = True
        if not frame.url.startswith((self.server.url + "/", "data:", "about:")):
            self.trouble.append(f"request: {frame.url}")

    def _dialog(self, dialog: Dialog) -> None:
        if self.begun:
            self.trouble.append(f"dialog: {dialog.message}")
        if self.leaves or not self.begun:
            dialog.accept()
        else:
            dialog.dismiss()

    def forgive(self, pattern: str) -> None:
        """What this test causes on purpose, as a regular expression."""
        self.forgiven.append(pattern)

    def unforgiven(self) -> list[str]:
        return [
            text
            for text in self.trouble
            if not any(re.search(known, text) for known in self.forgiven)
        ]

    # --- getting about ---

    def login(self) -> Tab:
        """Take the cookie of the printed link, without the time it takes to draw its page."""
        if self.server.link not in self._links:
            self.page.context.request.get(self.server.link)
            self._links.add(self.server.link)
        return self

    def open(self, session_id: str) -> Tab:
        """The page of a session, with its stream connected."""
        self.goto(f"/sessions/{session_id}")
        return self

    def goto(self, path: str) -> None:
        self.page.goto(self.server.url + path)

    def find(self, selector: str, **has: Any) -> Locator:
        return self.page.locator(selector, **has)

    # --- what stands on a session's page ---

    @property
    def cards(self) -> Locator:
        return self.find(".card")

    def card(self, number: int) -> Locator:
        return self.cards.nth(number)

    def send(self, prompt: str) -> None:
        self.find("#prompt").fill(prompt)
        self.find("#dock button").click()

    def state(self, word: str) -> None:
        """Wait until the session is in this state."""
        expect(self.find("#head")).to_have_attribute("data-state", word, timeout=WAIT_MS)

    def waits_for(self, calls: int) -> None:
        """Wait until so many calls wait for a user."""
        expect(self.find("#head")).to_have_attribute("data-waiting", str(calls), timeout=WAIT_MS)

    def press(self, card: Locator, key: str) -> None:
        """The button of a card that `key` stands for."""
        card.locator(f"[data-key={key}]").click()

    def words(self) -> str:
        """All that the flow says, without what is there to be pressed."""
        output: str = self.page.evaluate(
            """() => [...document.querySelectorAll(
                 "#flow .raw, #flow .prose, #flow .card h3, #flow .args .code")]
               .map((element) => element.innerText).join("\\n")"""
        )
        return output

    def scrolls_sideways(self) -> bool:
        wide: bool = self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return wide


class Held:
    """Answers of the server that come when the test lets them."""

    def __init__(self, page: Page, path: str) -> None:
        self.routes: list[Route] = []
        page.route(f"**{path}", lambda route: self.routes.append(route))

    def arrived(self, page: Page, count: int = 1) -> None:
        for _ in range(1000):
            if len(self.routes) >= count:
                return
            page.wait_for_timeout(25)
        raise AssertionError(f"{len(self.routes)} of {count} requests came")

    def pass_on(self, page: Page, number: int = 0) -> None:
        self.arrived(page, number + 1)
        self.routes[number].continue_()
