"""A session in one file, opened from disk: it replays and sends no request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from playground.core.events import PartEnded
from playground.exchange import html
from tests.browser.windows import WIDE
from tests.exchange.test_html import make_bundle, unpressed
from tests.factories import Log
from tests.render.logs import STORIES

SSE = b"".join(
    b'event: content_block_delta\ndata: {"type":"content_block_delta","n":%d}\n\n' % n
    for n in range(4)
)

TEXT = """() => ["head", "flow", "pause", "wire"].map((id) =>
  [...document.querySelectorAll(`#${id} [data-ui]`)].map((one) => delete one.dataset.ui)
  && document.getElementById(id).outerHTML.replace("replay · ", ""))"""


def dragged(page: Page, ms: int) -> None:
    page.locator("#playhead").evaluate(
        "(bar, ms) => { bar.value = ms; bar.dispatchEvent(new Event('input', {bubbles: true})); }",
        ms,
    )


def test_a_shared_file_plays_from_disk_without_a_request(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "shared.html"
    file.write_bytes(
        html.write(make_bundle(STORIES["waiting"], SSE, title="<b>Paris & co</b>")).data
    )
    page = browser.new_context(viewport=WIDE, color_scheme="dark").new_page()
    requests: list[str] = []
    trouble: list[Any] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(error))
    page.goto(file.as_uri())
    expect(page.locator("#play")).to_be_enabled()
    expect(page.locator("#head h1")).to_have_text("<b>Paris & co</b>")
    expect(page.locator(".card")).to_have_count(3)
    full_text = page.evaluate(TEXT)
    length = int(page.locator("#playhead").get_attribute("max") or 0)
    dragged(page, 0)
    expect(page.locator(".card")).to_have_count(0)
    page.locator("#playhead").focus()
    page.keyboard.press("]")
    expect(page.locator(".card").first).to_contain_text("get_weather")
    page.locator("#speed").select_option("20")
    page.locator("#play").click()
    expect(page.locator("#play")).to_have_text("▶")
    assert page.locator("#playhead").input_value() == str(length)
    assert page.evaluate(TEXT) == full_text
    page.locator(".wirerow.down").first.click()
    expect(page.locator("#raw")).to_contain_text("content_block_delta")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert requests == [file.as_uri()]
    written = unpressed()
    file.write_bytes(html.write(make_bundle(written)).data)
    page.goto(file.as_uri())
    ended = [logged.event for logged in written if isinstance(logged.event, PartEnded)]
    expect(page.locator(".card .json").nth(0)).to_have_text(ended[0].text)
    expect(page.locator(".card .json").nth(1)).to_have_text(ended[1].text)
    dragged(page, 0)
    dragged(page, length * 100)
    expect(page.locator(".card .json").nth(1)).to_have_text(ended[1].text)
    assert trouble == []
    page.context.close()


@pytest.mark.slow
def test_a_file_of_several_sessions_shows_the_one_that_is_chosen(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "run.html"
    beside = make_bundle(
        Log().start().prompt("Name it").request().end("stop").events, title="A title"
    )
    file.write_bytes(
        html.write(replace(make_bundle(STORIES["waiting"], SSE), beside=[beside])).data
    )
    page = browser.new_context(viewport=WIDE).new_page()
    page.goto(file.as_uri())
    expect(page.locator(".card")).to_have_count(3)
    page.locator("#which").select_option("1")
    expect(page.locator("#head h1")).to_have_text("A title")
    expect(page.locator(".card")).to_have_count(0)
    expect(page.locator("#which")).to_have_value("1")
    page.go_back()
    expect(page.locator(".card")).to_have_count(3)
    page.close()
