"""The editor while it is typed in: another face, a row, a fix, lint; nothing of it is saved."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from playground.web.forms import MOST_FIELDS
from tests.markup import joined_tags

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}, "days": {"type": "integer"}},
}
ODD = json.dumps({"type": "object", "properties": {"a": {"not": {"type": "null"}}}})
FORM = {
    "name": "weather",
    "description": "Tells the weather of a city.",
    "now": "json",
    "parameters": json.dumps(SCHEMA),
    "answered_by": "mock",
    "timeout_s": "30",
}
LISTED = '{"type": "object", "properties": {"a": {"type": "array"}}}'
AROUND = '{"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?=b)"}}}'
MOCK = {"name": "x", "config": {"result": ""}}
HTMX = {"hx-request": "true"}

WIDE: dict[str, Any] = {
    "type": "object",
    "properties": {f"p{n}": {"type": "string"} for n in range(500)},
}

MISSPELLED = json.dumps(
    {
        "type": "object",
        "properties": {"city_name": {"type": "string"}},
        "required": ["cityName"],
        "additionalProperties": False,
    },
    indent=2,
)


@pytest.mark.parametrize("headers", [HTMX, {}], ids=["htmx", "plain"])
@pytest.mark.parametrize(
    ("typed", "shows"),
    [
        ({"face": "form"}, ['name="1.name"', 'value="city"', "pattern", 'name="now" value="form"']),
        ({"face": "python"}, ["def weather(", 'name="now" value="python"']),
        ({"face": "python", "parameters": ODD}, ["Python cannot express all of it", "readonly"]),
        ({"face": "nothing"}, ['name="now" value="json"']),
        ({"act": "format"}, ["  &#34;properties&#34;: {", 'data-focus="parameters"']),
        ({"now": "form", "act": "add 0"}, ['value="field"', 'data-focus="3.name"']),
        ({"now": "form", "act": "add 1", "parameters": LISTED}, ['data-focus="2.type"']),
        ({"now": "form", "act": "remove 1"}, ['value="days"', 'data-focus="0.add"']),
        ({"now": "form", "act": "down 1"}, ['data-focus="2.down"']),
        ({"now": "form", "1.name": "town", "face": "json"}, ["&#34;town&#34;"]),
        ({"fix": "strict"}, ["additionalProperties", 'value="strict" class="primary"']),
        (
            {"fix": "drop", "parameters": AROUND},
            ["Remove what is refused", 'value="drop" class="primary"', "no longer checked"],
        ),
        ({"apply": "strict"}, ["&#34;additionalProperties&#34;: false", 'data-focus="lint"']),
        # What cannot be done leaves every letter, and says why.
        ({"parameters": "{oops", "face": "form"}, ["{oops</textarea>", 'id="parameters-error"']),
        ({"parameters": "[1]", "act": "format"}, ["[1]</textarea>", 'id="parameters-error"']),
        (
            {"now": "form", "2.low": "few", "face": "json"},
            ['name="now" value="form"', 'value="few"', 'id="2-low-error"'],
        ),
        (
            {"now": "python", "source": "def a(:\n", "face": "json"},
            ["def a(:", 'id="source-error"', 'name="now" value="python"'],
        ),
        (
            {"now": "form", "parameters": "{", "act": "add 0"},
            ["{</textarea>", 'id="parameters-err'],
        ),
        ({"now": "form", "act": "add 99"}, ['name="1.name"']),
        ({"timeout_s": "soon", "face": "form"}, ['id="timeout_s-error"', 'value="soon"']),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
async def test_the_editor_after_one_of_its_buttons(
    page: httpx.AsyncClient, typed: dict[str, str], shows: list[str], headers: dict[str, str]
) -> None:
    drawn = await page.post("/tools/faces", data={**FORM, **typed}, headers=headers)
    assert drawn.status_code == 200, drawn.text
    assert ("<!doctype html>" in drawn.text) is (not headers)
    html = joined_tags(drawn.text).replace("&quot;", "&#34;")
    for text in shows:
        assert text in html, text
    if "source-error" not in str(shows):
        assert 'value="weather"' in drawn.text
    assert (await page.get("/tools/weather")).status_code == 404


@pytest.mark.slow
async def test_a_large_schema_is_not_shown_as_a_form(page: httpx.AsyncClient) -> None:
    text = json.dumps(WIDE)
    drawn = await page.post("/tools/faces", data={**FORM, "parameters": text, "face": "form"})
    assert drawn.status_code == 200
    assert 'name="now" value="json"' in drawn.text
    assert "would have 500 rows" in drawn.text
    assert "&#34;p499&#34;" in drawn.text
    assert 'name="1.name"' not in drawn.text
    most = json.dumps({**WIDE, "properties": dict(list(WIDE["properties"].items())[:400])})
    drawn = await page.post("/tools/faces", data={**FORM, "parameters": most, "face": "form"})
    assert len(re.findall(r'<(?:input|select|textarea)[^>]* name="', drawn.text)) < MOST_FIELDS
    assert 'name="400.name"' in drawn.text


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("{{city}}", "`{{city}}` is not replaced. Write `{{ args.city }}`"),
        ("{{ args.town }}", "`{{ args.town }}` is not replaced: no parameter"),
        ('{"a": ["{{ City }}"]}', "`{{ City }}` is not replaced: no parameter"),
        ("{{ args.city }} {{args}} {{ args.city.0 }}", None),
    ],
)
async def test_a_place_that_nothing_fills_is_told(
    page: httpx.AsyncClient, result: str, message: str | None
) -> None:
    output = (await page.post("/tools/lint", data={**FORM, "result": result}, headers=HTMX)).text
    plain_text = output.replace("<code>", "`").replace("</code>", "`")
    assert ("is not replaced" in plain_text) is (message is not None)
    assert message is None or message in plain_text


@pytest.mark.parametrize(
    ("typed", "shows"),
    [
        ({}, ["tokens in every request", 'id="accepted"', 'id="sent"', "parametersJsonSchema"]),
        ({"parameters": '{"type": 1}'}, ["Not a tool yet", 'data-pointer="/parameters/type"']),
        ({"parameters": '{\n"type": }'}, ["Not a tool yet", 'data-line="2"']),
        ({"now": "python", "source": "def f():\n  )"}, ["Not a tool yet", 'data-line="2"']),
        ({"name": ""}, ["Not a tool yet", "needs a name"]),
        ({"takes": "text", "parameters": "{"}, ["tokens in every request"]),
        ({"now": "form", "parameters": json.dumps(SCHEMA), "1.type": "text"}, ["Not a tool yet"]),
    ],
)
async def test_lint_while_typing(
    page: httpx.AsyncClient, typed: dict[str, str], shows: list[str]
) -> None:
    response = await page.post("/tools/lint", data={**FORM, **typed}, headers=HTMX)
    assert response.status_code == 200
    assert [text for text in shows if text not in response.text] == []


@pytest.mark.parametrize(
    ("typed", "shows"),
    [
        ({}, '<a class="goto" href="#parameters">line 8</a>'),
        ({"now": "form", "1.name": "city_name", "1.type": "string"}, 'href="#0.add">show</a>'),
    ],
)
async def test_finding_when_no_call_is_possible_is_first_and_leads_to_its_place(
    page: httpx.AsyncClient, typed: dict[str, str], shows: str
) -> None:
    data = {**FORM, "parameters": MISSPELLED, **typed}
    drawn = (await page.post("/tools/lint", data=data, headers=HTMX)).text
    first = drawn[drawn.index('class="finding') :].partition("</div>\n</div>")[0]
    assert 'class="finding unsatisfiable"' in first
    assert "No call can be valid" in first
    assert "dot failed" in first
    assert shows in first
    assert 'value="rename"' in first


async def test_fix_when_a_required_name_is_misspelled_renames_it(page: httpx.AsyncClient) -> None:
    data = {**FORM, "parameters": MISSPELLED, "apply": "rename"}
    drawn = (await page.post("/tools/faces", data=data, headers=HTMX)).text
    assert "&#34;cityName&#34;" not in drawn
    assert "No call can be valid" not in drawn


async def test_a_script_is_told_the_findings(page: httpx.AsyncClient) -> None:
    response = await page.post("/tools/lint", json={**MOCK, "parameters": SCHEMA})
    data = response.json()
    assert set(data) == {"findings", "accepted", "tokens"}
    assert len(data["accepted"]) == 5
    assert any("description" in finding["message"] for finding in data["findings"])
    refused = await page.post("/tools/lint", json={**MOCK, "parameters": {"type": 1}})
    assert refused.status_code == 422
    assert refused.json()["pointer"] == "/parameters/type"
