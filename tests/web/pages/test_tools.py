"""The tool editor as a plain form: what a model writes for a tool, and what comes back."""

from __future__ import annotations

import html
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from playground.core.tools import FREEFORM
from tests.markup import joined_tags

pytestmark = pytest.mark.anyio

FORM = {"original": "", "name": "write", "answered_by": "mock", "result": "ok", "timeout_s": "30"}


@pytest.mark.parametrize(
    ("typed", "format", "parameters"),
    [
        ({"takes": "json", "parameters": '{"type": "object"}'}, None, {"type": "object"}),
        ({"parameters": '{"type": "object"}', "eager": "on"}, None, {"type": "object"}),
        ({"takes": "text", "parameters": "{"}, {"type": "text"}, dict(FREEFORM)),
        (
            {"takes": "lark", "definition": 'start: "a"'},
            {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'},
            dict(FREEFORM),
        ),
    ],
)
async def test_what_a_tool_takes_is_kept(
    page: httpx.AsyncClient, typed: dict[str, str], format: Any, parameters: Any
) -> None:
    saved = await page.post("/tools", data={**FORM, **typed, "original": "write"})
    assert saved.status_code == 303, saved.text
    tool = (await page.get("/tools/write", headers={"accept": "application/json"})).json()
    assert (tool["format"], tool["parameters"]) == (format, parameters)
    assert tool["eager"] == ("eager" in typed)
    html = joined_tags((await page.get("/tools/write")).text)
    takes = (format or {}).get("syntax", "text") if format else "json"
    assert f'value="{takes}" checked' in html


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"takes": "regex", "definition": " "}, "Enter the grammar"),
        ({"takes": "prose", "definition": "x"}, "format is"),
        ({"takes": "json", "parameters": "{"}, "parameters-error"),
    ],
)
async def test_what_cannot_be_is_said_and_nothing_typed_is_lost(
    page: httpx.AsyncClient, typed: dict[str, str], message: str
) -> None:
    refused = await page.post("/tools", data={**FORM, **typed, "name": "other"})
    assert refused.status_code == 422
    assert message in refused.text
    assert 'value="other"' in refused.text


async def save_tool(page: httpx.AsyncClient, name: str, **fields: Any) -> None:
    """Save a tool as a script does."""
    data = {"name": name, "config": {"result": "x"}, **fields}
    saved = await page.post("/tools", json=data)
    assert saved.status_code == 201, saved.text


async def described(page: httpx.AsyncClient, name: str) -> Any:
    return (await page.get(f"/tools/{name}", headers={"accept": "application/json"})).json()


async def test_a_deleted_tool_is_had_back_with_its_versions(page: httpx.AsyncClient) -> None:
    await save_tool(page, "gone", description="one")
    await save_tool(page, "gone", description="two")
    deleted = await page.post("/tools/gone/delete", data={}, follow_redirects=True)
    assert "/tools/gone/restore" in deleted.text
    assert (await page.get("/tools/gone")).status_code == 404
    assert (await page.post("/tools/gone/restore", data={})).status_code == 303
    assert "v2" in (await page.get("/tools/gone")).text
    assert (await described(page, "gone"))["description"] == "two"
    again = await page.post("/tools/gone/restore", data={})
    assert again.status_code == 404


async def test_a_name_that_was_taken_again_is_not_overwritten(page: httpx.AsyncClient) -> None:
    await save_tool(page, "twice", description="old")
    await page.post("/tools/twice/delete", data={})
    await save_tool(page, "twice", description="new")
    refused = await page.post("/tools/twice/restore", data={})
    assert refused.status_code == 422
    assert (await described(page, "twice"))["description"] == "new"


async def test_an_old_version_becomes_the_newest(page: httpx.AsyncClient) -> None:
    await save_tool(page, "versions", description="one")
    await save_tool(page, "versions", description="two")
    assert (await page.post("/tools/versions/versions/1/restore", data={})).status_code == 303
    assert (await described(page, "versions"))["description"] == "one"
    assert "v3 · saved" in (await page.get("/tools/versions")).text
    assert (await page.post("/tools/versions/versions/9/restore", data={})).status_code == 404


async def test_saving_switches_nothing_on(page: httpx.AsyncClient) -> None:
    await save_tool(page, "off")
    await page.post("/tools/off/switch", data={"enabled": "false"})
    html = (await page.get("/tools/off")).text
    assert "switched off" in html
    assert "Switch on" in html
    await page.post(
        "/tools",
        data={**FORM, "name": "off", "original": "off", "parameters": '{"type": "object"}'},
    )
    assert (await described(page, "off"))["enabled"] is False
    await page.post("/tools/off/duplicate", data={})
    assert (await described(page, "off_2"))["enabled"] is False
    await page.post("/tools/off/switch", data={"enabled": "true"})
    assert "Switch on" not in (await page.get("/tools/off")).text


async def test_nothing_of_a_config_is_lost_by_the_form(page: httpx.AsyncClient) -> None:
    config = {"cases": [{"when": {"/a": 1}, "result": "b"}], "result": " ", "delay_s": 0.25}
    await save_tool(page, "rich", config=config)
    form = {**FORM, "name": "rich", "original": "rich", "parameters": '{"type": "object"}'}
    page_html = joined_tags((await page.get("/tools/rich")).text)
    rest = html.unescape(
        page_html.split('<textarea name="rest_mock"')[1].split(">\n", 1)[1].split("</textarea>")[0]
    )
    typed = {"result": "", "rest_mock": rest, "delay_s": "0.25"}
    saved = await page.post("/tools", data={**form, **typed})
    assert saved.status_code == 303, saved.text
    assert (await described(page, "rich"))["config"] == config


async def test_an_edit_keeps_the_parameters_of_an_http_tool(page: httpx.AsyncClient) -> None:
    """The form as it is drawn, with another description."""
    config = {
        "method": "COPY",
        "url": "https://api.example.com/{ids}",
        "parameters": [
            {"in": "path", "name": "ids", "style": "matrix", "explode": True},
            {"in": "query", "name": "tags", "argument": "t", "explode": False},
            {"in": "cookie", "name": "sid", "value": "${SID_KEY}"},
            {"in": "body", "name": "f", "file": True},
        ],
        "body": "multipart",
    }
    await save_tool(page, "styled", answered_by="http", config=config)
    html = (await page.get("/tools/styled")).text
    assert "tags=a,b" in html  # in words, with an example
    assert ";ids=a;ids=b" in html
    form = drawn_form(html)
    assert form["method"] == "COPY"
    saved = await page.post("/tools", data={**form, "description": "Edited."})
    assert saved.status_code == 303, saved.text
    tool = await described(page, "styled")
    assert (tool["description"], tool["config"]) == ("Edited.", config)


async def test_wrong_parameters_are_said_at_their_field(page: httpx.AsyncClient) -> None:
    config = {"url": "https://api.example.com"}
    await save_tool(page, "mistyped", answered_by="http", config=config)
    form = drawn_form((await page.get("/tools/mistyped")).text)
    typed = '[{"in": "query", "name": "t", "style": "matrix"}]'
    refused = await page.post("/tools", data={**form, "http_parameters": typed})
    assert refused.status_code == 422
    assert "The style of a query parameter must be one of" in refused.text
    assert html.unescape(drawn_form(refused.text)["http_parameters"]) == typed


def drawn_form(html: str) -> dict[str, str]:
    """What a browser would send of the editor's form, untouched."""
    reader = FormReader()
    reader.feed(html)
    return reader.fields


class FormReader(HTMLParser):
    """The fields of the form that saves a tool."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._inside = False
        self._select = self._area = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        attribute_map = dict(attributes)
        name = attribute_map.get("name") or ""
        if tag == "form":
            self._inside = attribute_map.get("action") == "/tools"
        if not self._inside:
            return
        if (
            tag == "input"
            and name
            and attribute_map.get("type") not in ("checkbox", "radio", "submit")
        ):
            self.fields[name] = attribute_map.get("value") or ""
        elif tag == "input" and name and "checked" in attribute_map:
            self.fields[name] = attribute_map.get("value") or "on"
        elif tag == "textarea" and name:
            self._area, self.fields[name] = name, ""
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and "selected" in attribute_map:
            self.fields[self._select] = attribute_map.get("value") or "text"

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        if tag == "textarea" and self._area:
            self.fields[self._area] = self.fields[self._area].removeprefix("\n")
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] += data
        elif self._select and self.fields.get(self._select) == "text":
            self.fields[self._select] = data.strip()
            self._select = ""


def field(html: str, name: str) -> str:
    """The value of a hidden field."""
    return html.split(f'name="{name}" value="')[1].split('"')[0]


async def test_what_was_refused_is_marked_as_not_saved(page: httpx.AsyncClient) -> None:
    await save_tool(page, "refused_one")
    html = (await page.get("/tools/refused_one")).text
    assert "data-unsaved" not in html
    assert "v1 · saved" in html
    typed = {**FORM, "name": "", "original": "refused_one", "parameters": "{}"}
    for headers in ({}, {"hx-request": "true"}):
        refused = await page.post("/tools", data=typed, headers=headers)
        assert refused.status_code == 422
        assert "data-unsaved" in refused.text
        assert "v1 · saved" not in refused.text
        assert ("<!doctype html>" in refused.text) is (not headers)


@pytest.mark.parametrize("gone", [False, True])
async def test_another_hand_is_not_overwritten_unseen(page: httpx.AsyncClient, gone: bool) -> None:
    name = f"two_tabs_{gone}".lower()
    await save_tool(page, name, description="first")
    drawn = field((await page.get(f"/tools/{name}")).text, "drawn")
    if gone:
        await page.post(f"/tools/{name}/delete", data={})
    else:
        await save_tool(page, name, description="theirs")
    form = {**FORM, "name": name, "original": name, "parameters": '{"type": "object"}'}
    form |= {"drawn": drawn, "description": "mine"}
    refused = await page.post("/tools", data=form)
    assert refused.status_code == 409
    assert "elsewhere after you opened it" in refused.text
    assert "\nmine</textarea>" in refused.text
    assert "data-unsaved" in refused.text
    if not gone:
        assert "theirs" in refused.text.split('id="clash"')[1].split("</pre>")[0]
        assert (await described(page, name))["description"] == "theirs"
    else:
        assert (await page.get(f"/tools/{name}")).status_code == 404
    over = refused.text.split('name="over" value="')[1].split('"')[0]
    # What was seen is what is saved over: a third hand is told again.
    await save_tool(page, name, description="third")
    assert (await page.post("/tools", data={**form, "over": over})).status_code == 409
    await page.post(f"/tools/{name}/delete", data={})
    if not gone:
        await save_tool(page, name, description="theirs")
    saved = await page.post("/tools", data={**form, "over": over})
    assert saved.status_code == 303, saved.text
    assert (await described(page, name))["description"] == "mine"


async def test_a_new_tool_is_neither_praised_nor_blamed(page: httpx.AsyncClient) -> None:
    html = (await page.get("/tools")).text
    assert "No issues" not in html
    assert "note failed" not in html
    assert "Give the tool a name to try it here." in html
    await save_tool(page, "now_broken")
    typed = {**FORM, "name": "now_broken", "original": "now_broken", "parameters": "{"}
    refused = (await page.post("/tools", data=typed)).text
    assert "not a valid tool yet" in refused
    assert "Give the tool a name" not in refused
    look = {**FORM, "name": "", "parameters": "{}", "try_tool": "", "do": "look"}
    output = (await page.post("/tools/try", data=look, headers={"hx-request": "true"})).text
    assert "note told" in output
    assert "note failed" not in output
