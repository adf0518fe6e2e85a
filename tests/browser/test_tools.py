"""The page of tools in a browser: three faces of one schema, lint while typing, all by keyboard."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Held, Tab
from tests.tables import rest_slow

FACE = ".face .cm-content"
MARK = ".face .cm-lintRange-error"


def saved(server: Server, name: str, **fields: object) -> None:
    server.post("/tools", {"name": name, "config": {"result": "ok"}, **fields})


def reach(page: Page, selector: str, key: str = "Tab", most: int = 200) -> None:
    """Press Tab, or Shift+Tab where that is the shorter way, until what `selector` names has the
    focus; Escape comes first in an editor."""
    element = page.locator(selector).first
    way: list[str] = []
    for _ in range(most):
        reached, in_editor, place = element.evaluate(
            """one => [one.matches(":focus"), !!document.querySelector(".code-editor:focus"),
              document.activeElement.id || document.activeElement.name
              || document.activeElement.outerHTML.slice(0, 60)]"""
        )
        if reached:
            return
        way.append(place)
        if in_editor:
            page.keyboard.press("Escape")
        page.keyboard.press(key)
    raise AssertionError(f"no {key} leads to {selector}, but to {way}")


@pytest.mark.slow
def test_a_tool_is_made_broken_mended_tried_and_used_by_keyboard(
    own_server: Server, new_tab: NewTab
) -> None:
    # On a server without the tools and sessions of other tests: each is a key more on the way.
    tab = new_tab(own_server).login()
    tab.goto("/tools")
    page, keys = tab.page, tab.page.keyboard
    keys.press("n")
    page.wait_for_url(lambda url: "new=1" in url)
    reach(page, ".skip")
    keys.press("Enter")
    reach(page, "#name")
    keys.type("book_table")
    reach(page, "[name=description]")
    keys.type("Book a table for guests.")

    # Made in the form.
    reach(page, "#face-form")
    keys.press("Enter")
    expect(tab.find("#rows")).to_be_visible()
    expect(tab.find("#face-form")).to_be_focused()
    reach(page, "[id='0.add']")
    keys.press("Enter")
    expect(tab.find("[id='1.name']")).to_be_focused()
    keys.type("guests")
    reach(page, "[id='1.type']")
    keys.press("i")  # its first letter alone: the row is drawn anew by what was chosen
    expect(tab.find("[id='1.low']")).to_be_attached()
    expect(tab.find("[id='1.type']")).to_be_focused()
    expect(tab.find("[id='1.type']")).to_have_value("integer")
    reach(page, "[name='1.required']")
    keys.press("Space")
    reach(page, "[id='1.description']")
    keys.type("How many people")

    # Broken as JSON; the mark is where it is wrong.
    reach(page, "#face-json", "Shift+Tab")
    keys.press("Enter")
    expect(tab.find(FACE)).to_contain_text('"guests"')
    expect(tab.find(FACE)).to_contain_text("How many people")
    reach(page, ".face .code-editor")
    keys.press("Control+Home")
    keys.press("End")
    keys.type(" oops")
    expect(tab.find(MARK).first).to_be_attached()
    expect(tab.find("#lint")).to_contain_text("Not a tool yet")
    expect(tab.find("#lint")).to_contain_text("Line 1")

    # Mended.
    for _ in range(5):
        keys.press("Backspace")
    expect(tab.find("#lint")).not_to_contain_text("Not a tool yet")
    expect(tab.find(MARK)).to_have_count(0)
    keys.press("Control+s")
    page.wait_for_url(lambda url: url.endswith("/tools/book_table?saved=1"))
    expect(tab.find("#saved")).to_have_text("v1 · saved")

    # Tried.
    reach(page, "#try-form button:has-text('Run it')", "Shift+Tab")
    keys.press("Enter")
    expect(tab.find("#try-result")).to_contain_text("ok")

    # Used in a session.
    page.keyboard.press("Escape")
    reach(page, ".top nav a")
    keys.press("Enter")
    expect(tab.find(".demo, .composer").first).to_be_visible()
    page.wait_for_load_state()  # its keys are there after its scripts
    keys.press("n")
    page.wait_for_url(lambda url: "/sessions/" in url)
    reach(page, "#setup input[name=tools][value=book_table]")
    keys.press("Space")
    expect(tab.find("#dock")).to_contain_text("5 tools")  # beside those of every first session
    reach(page, "#prompt", "Shift+Tab")
    keys.type("Use book_table, please.")
    keys.press("Control+Enter")
    card = tab.find(".card").first
    expect(card).to_contain_text("needs approval")
    expect(card).to_contain_text("book_table")
    reach(page, ".card button[data-key=a]", "Shift+Tab")
    keys.press("Enter")
    expect(card).to_contain_text("ran")
    expect(card).to_contain_text("ok")


def test_each_face_shows_what_was_typed_in_another(server: Server, tab: Tab) -> None:
    saved(server, "faces", parameters={"type": "object", "properties": {"a": {"type": "string"}}})
    tab.goto("/tools/faces?face=form")
    tab.find("[id='1.name']").fill("city")
    tab.find("[id='1.description']").fill("The town")
    tab.find("#face-python").click()
    expect(tab.find(FACE)).to_contain_text("city: Annotated[str")
    tab.find(FACE).fill('def where(city: str, day: int = 1):\n    """Tell where.\n    """\n')
    tab.find("#face-json").click()
    expect(tab.find(FACE)).to_contain_text('"default": 1')
    expect(tab.find("#name")).to_have_value("where")
    expect(tab.find("[name=description]").first).to_have_value(re.compile("Tell where"))
    tab.forgive("beforeunload")
    tab.find("#face-form").click()
    expect(tab.find("[id='2.type']")).to_have_value("integer")


@pytest.mark.slow
def test_a_line_of_python_begins_where_it_belongs(server: Server, tab: Tab) -> None:
    saved(server, "indents")
    tab.goto("/tools/indents?face=python")
    tab.find(FACE).fill("")
    tab.find(FACE).focus()
    for line in ("def f(", "a: str,", "b: int = 1", "):", '"""Says it.', "", "Args:", "a: One."):
        tab.page.keyboard.type(line)
        tab.page.keyboard.press("Enter")
    before = ["def f(", "    a: str,", "    b: int = 1", "):", '    """Says it.']
    after = ["    Args:", "        a: One.", "        "]
    lines = [*map(re.escape, before), " *", *map(re.escape, after)]
    expect(tab.find("#source")).to_have_value(re.compile("^" + "\n".join(lines) + "$"))
    tab.forgive("beforeunload")


def test_what_is_broken_stays_on_its_face_with_every_letter(server: Server, tab: Tab) -> None:
    saved(server, "broken_json")
    tab.goto("/tools/broken_json")
    tab.find(FACE).fill('{"type": "object",\n "properties": }')
    expect(tab.find(MARK).first).to_be_attached()
    tab.find("#face-form").click()
    expect(tab.find("#parameters-error")).to_contain_text("Line 2")
    expect(tab.find("#face-json")).to_have_attribute("aria-pressed", "true")
    assert tab.find("#parameters").input_value() == '{"type": "object",\n "properties": }'


def test_lint_says_what_while_it_is_typed_and_a_fix_is_seen_before_it_is_taken(
    server: Server, tab: Tab
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    saved(server, "lint_me", description="Tells what there is to tell.", parameters=schema)
    tab.goto("/tools/lint_me")
    before = tab.find("#parameters").input_value()
    fix = tab.find("#lint .fold > button[value=strict]").first
    fix.click()
    expect(tab.find(".fixed")).to_contain_text("additionalProperties")
    expect(tab.find("#apply")).to_be_focused()
    assert tab.find("#parameters").input_value() == before
    tab.page.keyboard.press("Enter")
    expect(tab.find(FACE)).to_contain_text("additionalProperties")
    expect(tab.find("#saved")).to_have_text("not saved")
    assert json.loads(tab.find("#parameters").input_value())["required"] == ["a"]


def test_finding_when_it_is_clicked_shows_its_line_or_field(server: Server, tab: Tab) -> None:
    text = {"type": "string", "description": "Some text."}
    rows = {f"p{number}": text for number in range(40)} | {"p30": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {**rows, "city_name": text},
        "required": ["cityName"],
        "additionalProperties": False,
    }
    saved(server, "click_me", description="Tells what there is to tell.", parameters=schema)
    tab.goto("/tools/click_me")
    first = tab.find("#lint .finding").first
    expect(first).to_contain_text("No call can be valid")
    expect(first).to_have_class(re.compile("unsatisfiable"))
    link = first.locator("a.goto")
    expect(link).to_have_text(re.compile(r"line \d+"))
    active = tab.find(".face .cm-activeLine")

    first.locator("p").click()
    expect(tab.find(".face .code-editor")).to_be_focused()
    expect(active).to_contain_text('"required": [')
    expect(active).to_be_in_viewport()

    tab.find(FACE).press("Control+Home")
    expect(active).not_to_contain_text("required")
    link.press("Enter")
    expect(active).to_contain_text('"required": [')
    expect(tab.find(".face .code-editor")).to_be_focused()
    assert "#" not in tab.page.url, "the link is for pages without a script"

    first.locator("button[value=rename]").click()
    tab.find("#apply").click()
    expect(tab.find("#lint")).not_to_contain_text("No call can be valid")
    assert json.loads(tab.find("#parameters").input_value())["required"] == ["city_name"]

    # What was drawn anew is clicked like what came with the page: as Python, and as a form.
    undescribed = tab.find("#lint .finding", has_text="'p30' has no description").locator("p")
    tab.find("#face-python").click()
    expect(tab.find("#face-python")).to_have_attribute("aria-pressed", "true")
    undescribed.click()
    expect(active).to_contain_text("p30")
    tab.find("#face-form").click()
    expect(tab.find("#face-form")).to_have_attribute("aria-pressed", "true")
    undescribed.click()
    expect(tab.find("[id='31.name']")).to_be_focused()
    tab.find("textarea[name=description]").fill("")
    tab.find("#lint .finding", has_text="The tool has no description").locator("p").click()
    expect(tab.find("#description")).to_be_focused()


def test_escape_then_tab_leaves_the_editor(server: Server, tab: Tab) -> None:
    saved(server, "leave_me")
    tab.goto("/tools/leave_me")
    editor = tab.find(".face .code-editor")
    tab.find(FACE).click()
    tab.page.keyboard.press("Tab")
    expect(editor).to_be_focused()
    for key in ("n", "/"):  # no key of the page is one in here
        tab.page.keyboard.press(key)
    expect(editor).to_be_focused()
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("Tab")
    expect(editor).not_to_be_focused()


@pytest.mark.slow
def test_layout_keeps_the_digits(server: Server, tab: Tab) -> None:
    saved(server, "lay_out")
    tab.page.set_viewport_size({"width": 1280, "height": 800})
    tab.goto("/tools/lay_out")
    pieces = "label => { const text = document.createRange(); text.selectNodeContents(label);"
    pieces += " return text.getClientRects().length; }"
    assert tab.find("#face-label").evaluate(pieces) == 1  # no word is broken beside its buttons
    text = (
        '{"type":"object","properties":{"a":{"type":"integer","maximum":12345678901234567890123}}}'
    )
    tab.find(FACE).fill(text)
    tab.page.keyboard.press("Shift+Alt+F")
    expect(tab.find(".face .cm-line").nth(1)).to_have_text('  "type": "object",')
    expect(tab.find(FACE)).to_contain_text("12345678901234567890123")


@pytest.mark.slow
def test_a_deleted_tool_and_an_old_version_come_back(server: Server, tab: Tab) -> None:
    saved(server, "old_one", description="first")
    saved(server, "old_one", description="second")
    tab.goto("/tools/old_one?tab=history")
    expect(tab.find("#history .gone")).to_contain_text("first")
    tab.find("#history summary", has_text="v1").click()
    tab.find("#history button").click()
    expect(tab.find("#saved")).to_have_text("v3 · saved")
    expect(tab.find("[name=description]").first).to_have_value("first")
    tab.find(".acts .danger").click()
    expect(tab.find("#tool-list")).not_to_contain_text("old_one")
    tab.find(".toast button", has_text="Undo").click()
    expect(tab.find("#saved")).to_have_text("v3 · saved")


@pytest.mark.parametrize(
    ("path", "press"),
    rest_slow(
        [
            ("/tools/faces", "#face-form"),
            pytest.param("/tools/faces", "#format", marks=pytest.mark.slow),
            pytest.param(
                "/tools/faces", "#lint .fold > button[value=strict]", marks=pytest.mark.slow
            ),
            ("/tools/lint", ""),
        ]
    ),
)
def test_what_is_typed_while_the_server_thinks_stays(
    server: Server, tab: Tab, path: str, press: str
) -> None:
    saved(server, "held", parameters={"type": "object", "properties": {"a": {"type": "string"}}})
    tab.goto("/tools/held")
    gate = Held(tab.page, path)
    group = tab.find("[name=group]")  # a field without an id
    if press:
        tab.find(press).first.click()
    else:
        group.fill("x")
    gate.arrived(tab.page)
    group.fill("typed meanwhile")
    group.press("Home")
    group.press("ArrowRight")
    tab.find("[name=is_error]").evaluate("one => { one.checked = true; }")
    gate.pass_on(tab.page)
    gate.pass_on(tab.page, 1)  # it is asked again, with what was typed
    expect(tab.find("#lint" if not press else "#tool")).to_be_visible()
    if press == "#face-form":
        expect(tab.find("#rows")).to_be_visible()
    tab.page.unroute("**" + path)
    expect(group).to_be_focused()
    expect(group).to_have_value("typed meanwhile")
    expect(tab.find("[name=is_error]")).to_be_checked()
    assert group.evaluate("one => one.selectionStart") == 1
    tab.forgive("beforeunload")


@pytest.mark.slow
def test_rows_that_move_keep_what_was_typed_in_them(server: Server, tab: Tab) -> None:
    two = {"a": {"type": "string"}, "b": {"type": "string"}}
    saved(server, "moving", parameters={"type": "object", "properties": two})
    tab.goto("/tools/moving?face=form")
    gate = Held(tab.page, "/tools/faces")
    tab.find("[id='1.remove']").click()
    gate.arrived(tab.page)
    tab.find("[id='2.description']").fill("of b")
    gate.pass_on(tab.page)
    gate.pass_on(tab.page, 1)
    expect(tab.find("[id='1.name']")).to_have_value("b")
    expect(tab.find("[id='1.description']")).to_have_value("of b")
    tab.page.unroute("**/tools/faces")
    tab.find("#undo").click()
    expect(tab.find("[id='1.name']")).to_have_value("a")
    expect(tab.find("[id='2.description']")).to_have_value("of b")
    expect(tab.find("#undo")).to_be_hidden()


def test_a_refused_save_stays_on_its_page_and_is_not_saved(server: Server, tab: Tab) -> None:
    saved(server, "refuse_me")
    tab.goto("/tools/refuse_me")
    tab.forgive("422|^dialog")
    tab.find("[name=timeout_s]").fill("soon")
    tab.page.keyboard.press("Control+s")
    expect(tab.find("#timeout_s-error")).to_be_visible()
    expect(tab.find("[name=timeout_s]")).to_be_focused()
    expect(tab.find("#saved")).to_have_text("not saved")
    assert tab.page.url.endswith("/tools/refuse_me")
    with tab.page.expect_event("dialog"):
        tab.page.evaluate("location.assign('/')")
    expect(tab.find("[name=timeout_s]")).to_have_value("soon")
    tab.find("[name=timeout_s]").fill("5")
    tab.page.keyboard.press("Control+s")
    tab.page.wait_for_url(lambda url: url.endswith("saved=1"))
    assert server.get("/tools/refuse_me")["timeout_s"] == 5


@pytest.mark.slow
def test_what_is_typed_while_it_is_saved_stays(server: Server, tab: Tab) -> None:
    saved(server, "slow_save")
    tab.goto("/tools/slow_save")
    tab.forgive("beforeunload")
    gate = Held(tab.page, "/tools")
    description = tab.find("[name=description]").first
    description.fill("asked")
    tab.page.keyboard.press("Control+s")
    gate.arrived(tab.page)
    description.fill("asked and more")
    gate.pass_on(tab.page)
    expect(tab.find("#toasts")).to_contain_text("Saved without the latest edits")
    expect(description).to_have_value("asked and more")
    expect(tab.find("#saved")).to_have_text("not saved")
    assert server.get("/tools/slow_save")["description"] == "asked"
    tab.page.unroute("**/tools")
    tab.page.keyboard.press("Control+s")
    expect(tab.find("#saved")).to_have_text("v3 · saved")


@pytest.mark.slow
def test_back_shows_what_would_be_saved(server: Server, tab: Tab) -> None:
    saved(server, "go_back")
    tab.goto("/tools/go_back")
    tab.find(FACE).fill('{"type": "object", "title": "typed"}')
    tab.forgive("dialog")
    tab.leaves = True
    tab.forgive("dialog")
    tab.goto("/tools")
    tab.page.go_back()
    expect(tab.find("#parameters")).to_have_value(re.compile("typed"))
    expect(tab.find(FACE)).to_contain_text("typed")
    expect(tab.find("#saved")).to_have_text("not saved")


@pytest.mark.slow
def test_what_a_button_changed_is_undone_like_what_was_typed(server: Server, tab: Tab) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    saved(server, "undo_me", description="Tells what there is to tell.", parameters=schema)
    tab.goto("/tools/undo_me")
    before = tab.find("#parameters").input_value()
    tab.find("#lint .fold > button[value=strict]").first.click()
    tab.find("#apply").click()
    expect(tab.find(FACE)).to_contain_text("additionalProperties")
    tab.find("#face-form").click()
    tab.find("[id='1.name']").fill("other")
    tab.find("#face-json").click()
    expect(tab.find(FACE)).to_contain_text("other")
    tab.find(FACE).click()
    tab.page.keyboard.press("Control+z")
    expect(tab.find(FACE)).not_to_contain_text("other")
    expect(tab.find(FACE)).to_contain_text("additionalProperties")
    tab.page.keyboard.press("Control+z")
    expect(tab.find("#parameters")).to_have_value(before)
    tab.forgive("beforeunload")


def test_two_tabs_do_not_overwrite_each_other(server: Server, tab: Tab) -> None:
    saved(server, "two_hands", description="first")
    tab.goto("/tools/two_hands")
    saved(server, "two_hands", description="theirs")
    tab.forgive("409|beforeunload")
    tab.find("[name=description]").first.fill("mine")
    tab.page.keyboard.press("Control+s")
    expect(tab.find("#clash .gone")).to_contain_text("theirs")
    expect(tab.find("#clash")).to_be_focused()
    expect(tab.find("[name=description]").first).to_have_value("mine")
    assert server.get("/tools/two_hands")["description"] == "theirs"
    expect(tab.find("#tool")).not_to_have_attribute("data-ui", "sent")  # so soon none counts
    tab.find("#clash button").click()
    expect(tab.find("#saved")).to_have_text("v3 · saved")


@pytest.mark.slow
def test_a_text_to_be_read_only_is_scrolled_by_keys(server: Server, tab: Tab) -> None:
    odd = {"type": "object", "properties": {"a": {"not": {"type": "null"}}}}
    saved(server, "read_me", parameters=odd)
    tab.goto("/tools/read_me?face=python")
    expect(tab.find(".face .cm-scroller")).to_have_attribute("tabindex", "0")


@pytest.mark.slow
def test_the_page_is_no_taller_than_the_window(server: Server, tab: Tab) -> None:
    many = {f"p{n}": {"type": "string"} for n in range(30)}
    saved(server, "tall_form", parameters={"type": "object", "properties": many})
    tab.goto("/tools/tall_form?face=form")
    tall = "document.documentElement.scrollHeight > document.documentElement.clientHeight"
    assert not tab.page.evaluate(tall)


@pytest.mark.parametrize("face", rest_slow(["form", "python"]))
def test_faces_and_rows_work_without_script(server: Server, new_tab: NewTab, face: str) -> None:
    name = f"plain_{face}"
    saved(server, name, parameters={"type": "object", "properties": {"a": {"type": "string"}}})
    tab = new_tab(server, java_script_enabled=False).login()
    tab.goto(f"/tools/{name}")
    tab.find(f"#face-{face}").click()
    if face == "form":
        tab.find("[id='1.name']").fill("town")
        tab.find("[id='0.add']").click()
        expect(tab.find("[id='2.name']")).to_have_value("field")
    else:
        tab.find("#source").fill(f'def {name}(town: str):\n    """Where."""\n')
    tab.find("button.primary", has_text="Save").click()
    tab.page.wait_for_url("**/tools/*saved=1")
    tool = server.get(f"/tools/{name}")
    assert next(iter(tool["parameters"]["properties"])) == "town"


@pytest.mark.slow
def test_one_button_is_filled(server: Server, tab: Tab) -> None:
    """Save where there is something to save, else Run it; never that of the list."""
    saved(server, "one_filled")
    filled = """() => {
      const accent = getComputedStyle(document.querySelector(".logo")).backgroundColor;
      return [...document.querySelectorAll("button, .button")]
        .filter((one) => getComputedStyle(one).backgroundColor === accent)
        .map((one) => one.firstChild.data.trim());
    }"""
    tab.goto("/tools/one_filled")
    assert tab.page.evaluate(filled) == ["Run it"]
    tab.find("[name=group]").fill("new")
    expect(tab.find("#saved")).to_have_text("not saved")
    assert tab.page.evaluate(filled) == ["Save"]
    tab.leaves = True
    tab.forgive("dialog")
    tab.goto("/providers?new=1")
    assert tab.page.evaluate(filled) == ["Save"]
    tab.goto("/providers")
    assert tab.page.evaluate(filled) == ["Add a provider"]
