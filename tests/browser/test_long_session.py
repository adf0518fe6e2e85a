"""A session that is too long for one page: what it has not got comes when it is looked at."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from playground.render import paging
from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import APP_MODULES, Tab

TURNS = 8
LATER = "#flow [data-later]"
RULES = [{"tool": "get_weather", "action": "run"}]


@pytest.fixture(scope="module")
def long_session_id(server: Server) -> str:
    """Prompts of which each fills the window, the second and the last with a call."""
    session_id = server.session(rules=RULES)
    for number in range(1, TURNS - 1):
        words = "What is the weather in Paris?" if number in (2, 6) else f"Tell me of {number}."
        text = words + "\n".join(f"line {line}" for line in range(80))
        server.post(f"/sessions/{session_id}/prompts", {"text": text})
        server.comes_to(session_id, "idle")
    assert server.get_session(session_id)["turns"] == TURNS
    return session_id


@pytest.fixture
def tab(
    server: Server, new_tab: NewTab, long_session_id: str, monkeypatch: pytest.MonkeyPatch
) -> Tab:
    monkeypatch.setattr(paging, "TURNS", 2)
    monkeypatch.setattr(paging, "SECTIONS", 1)
    return new_tab(server, viewport={"width": 1280, "height": 600}).login()


def test_a_page_has_its_end_and_the_rest_comes_on_the_way_up(
    tab: Tab, long_session_id: str
) -> None:
    tab.open(long_session_id)
    expect(tab.find(f"#turn-{TURNS} .part.text")).to_be_visible()
    expect(tab.find("#turn-1")).to_be_empty()
    tab.find("#scroll").hover()
    tab.page.mouse.wheel(0, -100_000)
    expect(tab.find("#prompt-1 .raw")).to_be_in_viewport()
    expect(tab.find("#turn-1")).not_to_be_empty()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["call-2-1", "turn-1", "prompt-2"])
def test_a_link_into_what_is_not_there_brings_it(
    tab: Tab, long_session_id: str, place: str
) -> None:
    tab.goto(f"/sessions/{long_session_id}#{place}")
    expect(tab.find(f"#{place} *").first).to_be_in_viewport()
    expect(tab.find("#turn-2")).not_to_be_empty()
    expect(tab.find(f"#{place} *").first).to_be_in_viewport()


@pytest.mark.slow
def test_the_keys_go_from_call_to_call_over_what_is_not_there(
    tab: Tab, long_session_id: str
) -> None:
    tab.open(long_session_id)
    expect(tab.cards).to_have_count(1)
    for key, call in (("k", "call-7-1"), ("k", "call-2-1"), ("j", "call-7-1"), ("j", "call-7-1")):
        tab.page.keyboard.press(key)
        expect(tab.find(f"#{call}")).to_be_focused()


@pytest.mark.slow
def test_who_looks_for_a_word_finds_it_in_all_of_the_flow(tab: Tab, long_session_id: str) -> None:
    tab.open(long_session_id)
    expect(tab.find("#prompt-1")).to_be_empty()
    tab.page.keyboard.press("Control+f")
    expect(tab.find(LATER)).to_have_count(0)
    assert tab.page.evaluate("window.find('Tell me of 1.')")


@pytest.mark.slow
def test_the_wire_comes_when_it_is_looked_at(tab: Tab, long_session_id: str) -> None:
    tab.goto(f"/sessions/{long_session_id}?tab=setup")
    expect(tab.find("#wire")).to_be_hidden()
    assert tab.find(".wirerow").count() == 0
    tab.find("#tab-wire").click()
    expect(tab.find(f"#wirerows-{TURNS} .wirerow").last).to_be_in_viewport()
    expect(tab.find("#wire-1")).not_to_be_empty()  # a line each: all of them are in sight
    tab.find("#wiretools > summary").click()
    tab.find("#wireq").fill("toolu_")
    tab.find(".wirefind button").click()
    tab.find("#raw a", has_text="request 2").first.click()
    expect(tab.find("#wirerows-2 .wirerow[data-ui=marked]")).to_have_count(1)


@pytest.mark.slow
def test_the_rows_of_an_older_request_come_when_it_is_opened(
    tab: Tab, long_session_id: str
) -> None:
    tab.goto(f"/sessions/{long_session_id}?tab=wire")
    expect(tab.find("#wirehead-3")).to_be_attached()
    expect(tab.find("#wirerows-3")).to_be_empty()
    tab.find("#wirefold-3 > summary").click()
    expect(tab.find("#wirerows-3 .wirerow").last).to_contain_text("message_stop")
    expect(tab.find("#wirerows-4")).to_be_empty()


@pytest.mark.slow
def test_the_filter_is_over_all_rows(tab: Tab, long_session_id: str) -> None:
    tab.open(long_session_id)
    tab.find("#wiretools > summary").click()
    tab.find("#wirefilter").fill("get_weather ran")
    expect(tab.find(".wirerow:visible")).to_have_count(2)


@pytest.mark.slow
def test_the_filter_is_over_all_rows_also_where_the_wire_itself_comes_later(
    server: Server, tab: Tab
) -> None:
    """The row that is wanted is far above, where nothing is nearly in sight."""
    session_id = server.session(rules=RULES)
    for words in ("What is the weather in Paris?", *(f"Say {number}." for number in range(34))):
        server.post(f"/sessions/{session_id}/prompts", {"text": words})
        server.comes_to(session_id, "idle")
    tab.goto(f"/sessions/{session_id}?tab=setup")
    expect(tab.find("#stream[data-htmx-powered]")).to_be_attached()
    routes: list[Route] = []
    tab.page.route("**/blocks?*", lambda it: it.continue_() if routes else routes.append(it))
    tab.find("#tab-wire").click()
    tab.find("#wiretools > summary").click()
    tab.find("#wirefilter").fill("get_weather ran")
    routes[0].continue_()
    expect(tab.find(".wirerow:visible")).to_have_count(1)


@pytest.mark.slow
def test_what_comes_while_the_page_is_read_stands_in_its_place(
    server: Server, tab: Tab, long_session_id: str
) -> None:
    forked = server.post(f"/sessions/{long_session_id}/fork", {"turn": TURNS})["id"]
    tab.goto(f"/sessions/{forked}?tab=setup")
    expect(tab.find("#turn-2")).to_be_empty()
    before = server.get_session(forked)["turns"]
    tab.send("One more.")
    expect(tab.find(f"#turn-{before + 1} .part.text")).to_be_visible()
    tab.state("idle")
    tab.find("#tab-wire").click()
    expect(tab.find(f"#wirerows-{before + 1}")).to_contain_text("message_stop")
    expect(tab.find("#turn-2")).to_be_empty()


@pytest.mark.slow
def test_a_replay_has_all_of_its_moment(tab: Tab, long_session_id: str) -> None:
    tab.open(long_session_id)
    expect(tab.find("#turn-1")).to_be_empty()
    tab.page.evaluate(
        """() => {
          const head = document.getElementById("playhead");
          head.value = head.max;
          head.dispatchEvent(new Event("input", { bubbles: true }));
        }"""
    )
    expect(tab.find("#turn-1 .part.text")).to_have_count(1)
    expect(tab.find(LATER)).to_have_count(0)


@pytest.mark.slow
def test_without_a_script_a_link_leads_to_all_of_it(
    server: Server, new_tab: NewTab, long_session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "TURNS", 2)
    tab = new_tab(server, java_script_enabled=False).login()
    tab.open(long_session_id)
    expect(tab.find("#turn-1 .part")).to_have_count(0)
    tab.find("a", has_text="Show the earlier turns").click()
    expect(tab.find("#turn-1 .part")).to_have_count(1)
    assert tab.find("#wirerows-1 .wirerow").first.is_hidden()  # of older requests one line is shown
    tab.find("#wirefold-1 > summary").click()
    expect(tab.find("#wirerows-1 .wirerow").first).to_be_visible()


def test_a_long_text_grows_in_pieces_that_are_laid_out_once(server: Server, tab: Tab) -> None:
    tab.open(server.session())
    output = tab.page.evaluate(
        f"""async () => {{
          const {{ stream_js: {{ grow }} }} = await {APP_MODULES};
          const text = document.createElement("div");
          Object.assign(text, {{ id: "text-9-0", className: "raw caret" }}).dataset.length = 0;
          document.getElementById("flow").append(text);
          let whole = "";
          for (let number = 0; number < 400; number++) {{
            const words = "word ".repeat(20) + (number % 9 ? "" : "\\n");
            const piece = number < 300 ? words : "x".repeat(99) + "\U0001f600";
            const before = whole.length;
            whole += piece;
            grow([["text-9-0", before, whole.length, piece, number, "part-9-0"]]);
          }}
          const open = text.lastChild;
          const closed = [...text.children];
          return [text.textContent === whole, closed.length, open.nodeType, open.length,
                  closed.every((one) => one.textContent.isWellFormed())];
        }}"""
    )
    same, closed, kind, left, well_formed = output
    assert (same, kind, well_formed) == (True, 3, True)
    assert (closed > 6, left < paging.LINE) == (True, True)
