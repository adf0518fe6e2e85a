"""Windows of the browser that tests use one after the other: to open one costs more than a page.

What a test leaves in one is put back: its routes, its size, its colours, what the page stored.
Cookies stay (their names bear the server's port), and the cache, as with a user who comes again.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, Dialog

from tests.browser.serving import Server
from tests.browser.tab import NOTE_VIOLATIONS, Tab

WIDE: Any = {"width": 1440, "height": 900}

FORGET = "localStorage.clear(); sessionStorage.clear()"


class Window:
    """A browser context with one page, which may stay where a test left it until the next one goes
    elsewhere: an empty page in between would cost a third of a page. `options` never change."""

    def __init__(self, browser: Browser, options: dict[str, Any]) -> None:
        self.options = options
        self.context = browser.new_context(reduced_motion="reduce", viewport=WIDE, **options)
        self.context.add_init_script(NOTE_VIOLATIONS)
        self.page = self.context.new_page()
        self.links: set[str] = set()

    def opened(self, server: Server, size: Any, scheme: Any) -> Tab:
        if not self.page.url.startswith((server.url, "about:")):
            self.leave()  # its server may be gone, and it may say so
        if size != self.page.viewport_size:
            self.page.set_viewport_size(size)
        self.page.emulate_media(color_scheme=scheme)
        return Tab(self.page, server, self.links)

    def tidy(self, tab: Tab, stays: bool) -> None:
        tab.watch(False)
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.mouse.move(-1, -1)
        if self.page.url.startswith("http"):
            self.page.evaluate(FORGET)
            if not stays:
                self.leave()

    def leave(self) -> None:
        """Go to an empty page, whatever this one asks."""
        self.page.on("dialog", Dialog.accept)
        self.page.goto("about:blank")
        self.page.remove_listener("dialog", Dialog.accept)


class Windows:
    """Those that no test uses just now, and those that one does."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.free: list[Window] = []
        self.used: list[tuple[Window, Tab, bool]] = []

    def open(
        self,
        server: Server,
        *,
        own: bool = False,
        viewport: Any = WIDE,
        color_scheme: str = "light",
        **options: Any,
    ) -> Tab:
        """A tab in a window that no other tab has; `own` where the test puts something into it
        that cannot be taken out: a script that runs in each page, another clock."""
        fit = [window for window in self.free if window.options == options and not own]
        if fit:
            self.free.remove(fit[-1])
        window = fit[-1] if fit else Window(self.browser, options)
        tab = window.opened(server, viewport, color_scheme)
        self.used.append((window, tab, own))
        return tab

    def end(self) -> list[str]:
        """The end of a test; what went wrong in its tabs."""
        used, self.used = self.used, []
        for window, tab, own in reversed(used):
            if own:
                window.context.close()
            else:
                # The next test takes this one; the streams of others would go on in all that come.
                stays = window is used[0][0] and not window.options
                window.tidy(tab, stays)
                self.free.append(window)
        return [trouble for _, tab, _ in used for trouble in tab.unforgiven()]

    def close(self) -> None:
        for window in self.free:
            window.context.close()
