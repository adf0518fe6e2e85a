"""The Request tab, images of a draft, another provider in mid-session, as a user meets them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
"""One red dot."""

PASTE = """(data) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const carrier = new DataTransfer();
  carrier.items.add(new File([bytes], "dot.png", {type: "image/png"}));
  carrier.items.add(new File(["no"], "notes.txt", {type: "text/plain"}));
  const field = document.getElementById("prompt");
  const options = {clipboardData: carrier, bubbles: true, cancelable: true};
  field.dispatchEvent(new ClipboardEvent("paste", options));
}"""

PROFILES = (
    "simulator",
    "simulator-openai",
    "simulator-responses",
    "simulator-gemini",
    "simulator-ollama",
)


def file(name: str, data: bytes = DOT) -> Any:
    return {"name": name, "mimeType": "image/png", "buffer": data}


def test_the_request_follows_the_draft_the_settings_and_the_wire(server: Server, tab: Tab) -> None:
    session_id = server.session()
    tab.open(session_id)
    tab.find("#tab-request").click()
    request = tab.find("#request")
    expect(request).to_contain_text("There is no prompt yet")
    tab.find("#prompt").fill("What is 17*23?")
    expect(request.locator(".laid")).to_contain_text("What is 17*23?")
    expect(request).to_contain_text("$PLAYGROUND_TOKEN")

    tab.find("#wires span", has_text="Gemini").click()
    expect(request.locator(".target")).to_contain_text("/gemini/")
    expect(request.locator(".laid")).to_contain_text("What is 17*23?")
    tab.find("#wires span", has_text="This provider").click()
    expect(request.locator(".target")).to_contain_text("/v1/messages")
    tab.find("#wires span", has_text="Exact bytes").click()
    expect(request.locator(".exact")).to_be_visible()
    expect(request.locator(".laid")).to_be_hidden()

    tab.find("#tab-setup").click()
    tab.find("[name=system]").fill("Be brief.")
    tab.find("[name=system]").blur()
    tab.find("#tab-request").click()
    expect(request.locator(".exact")).to_contain_text('"system":"Be brief."')
    copied_text = request.locator("[data-copy]").get_attribute("data-copy")
    tab.find("#dock button").click()
    tab.waits_for(1)
    expect(request).to_contain_text("A result is missing (calculator)")
    events = server.script.get(f"/sessions/{session_id}/events").text
    log = [json.loads(line) for line in events.splitlines()]
    sent = next(item for item in log if item["kind"] == "request_sent")
    assert sent["body"] == copied_text


@pytest.mark.slow
def test_images_are_pasted_removed_and_sent(server: Server, tab: Tab) -> None:
    tab.open(server.session())
    tab.page.evaluate(PASTE, base64.b64encode(DOT).decode())
    expect(tab.find("#thumbs img")).to_have_count(1)
    expect(tab.find("#toasts")).to_contain_text("notes.txt is not a PNG")
    tab.find("#images").set_input_files([file("a.png"), file("b.png")])
    expect(tab.find("#thumbs img")).to_have_count(3)
    tab.find("#thumbs button").first.click()
    expect(tab.find("#thumbs img")).to_have_count(2)
    # What only says that it is an image is told at once, each sentence once, and takes no place.
    for _ in range(2):
        tab.find("#images").set_input_files([file("page.png", b"<!doctype html>")])
        expect(tab.find("#toasts .toast")).to_have_count(2)
    expect(tab.find("#toasts")).to_contain_text("page.png is not a PNG")
    expect(tab.find("#thumbs img")).to_have_count(2)
    tab.page.reload()
    expect(tab.find("#thumbs img")).to_have_count(2)
    tab.find("#dock button").click()  # an image says enough
    expect(tab.find(".prompt .image")).to_have_count(2)
    expect(tab.find("#thumbs img")).to_have_count(0)
    tab.state("idle")
    picture = tab.find(".prompt .image img").first
    assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 1
    tab.page.reload()
    expect(tab.find(".prompt .image")).to_have_count(2)
    expect(tab.find("#thumbs img")).to_have_count(0)
    tab.find(".prompt .image summary").first.click()
    expect(tab.find(".prompt .image[open]")).to_have_count(1)
    tab.send("And now?")
    expect(tab.find(".prompt")).to_have_count(2)
    expect(tab.find(".prompt .image")).to_have_count(2)


@pytest.mark.slow
def test_the_provider_is_switched_in_mid_session(server: Server, tab: Tab) -> None:
    session_id = server.session("What is 17*23?", ["calculator"])
    tab.open(session_id).waits_for(1)
    tab.find("#tab-setup").click()
    for number, profile in enumerate(PROFILES[1:], 1):
        tab.find("[name=profile]").select_option(profile)
        expect(tab.find("#setup label > small").first).to_contain_text("built-in simulator")
        expect(tab.find("[name=profile]")).to_have_value(profile)
        if number == 1:
            tab.press(tab.card(0), "a")  # the first goes on with a call of the other's
        else:
            tab.send("What is 2+3?")
            tab.waits_for(1)
            tab.press(tab.card(number - 1), "a")
        tab.state("idle")
        expect(tab.find(".part.text").last).to_contain_text("391" if number == 1 else "5")
    assert not any("failed" in str(call) for call in server.get_session(session_id)["calls"])


@pytest.mark.slow
def test_the_request_fits_a_phone(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server, viewport={"width": 390, "height": 844}).login()
    tab.goto(f"/sessions/{server.session('What is 17*23?')}?tab=request")
    tab.find("[data-drawer=inspector]").click()
    expect(tab.find("#request .laid")).to_be_visible()
    assert not tab.scrolls_sideways()
    tab.find("#wires span", has_text="Ollama").click()
    expect(tab.find("#request .target")).to_contain_text("/ollama/")
    wide = "(panel) => panel.scrollWidth > panel.clientWidth"
    assert not tab.find("#panel-request").evaluate(wide)
