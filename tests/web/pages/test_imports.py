"""The import page as a plain form, and tools that a script brings in another form than ours."""

from __future__ import annotations

import json
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.markup import joined_tags

pytestmark = pytest.mark.anyio

KEY = "sk-test-0123456789abcdef"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Pets"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {"/pets/{id}": {"get": {"operationId": "getPet", "parameters": [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]}}},
}  # fmt: skip

PYTHON = "def price(sku: str) -> str:\n    'Doc.'\n    return sku\n\n\nclass Kept:\n    pass\n"

NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "P", "language": "python"}},
    "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [PYTHON]}],
}


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    return {"OPENAI_API_KEY": KEY}


def anthropic(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "Weather.", "input_schema": SCHEMA, **more}


def fields_of(html: str) -> dict[str, list[str]]:
    """What a browser would send of the form that takes: its hidden, text and ticked fields."""
    fields: dict[str, list[str]] = {}
    for tag in re.findall(r"<input [^>]*>", joined_tags(html)):
        result = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if "name" in result and ('type="checkbox"' not in tag or " checked" in tag):
            fields.setdefault(result["name"], []).append(unescape(result.get("value", "")))
    return fields


async def looked(page: httpx.AsyncClient, *texts: Any) -> tuple[str, dict[str, list[str]]]:
    files = [
        ("file", (f"f{number}.json", text if isinstance(text, str) else json.dumps(text)))
        for number, text in enumerate(texts)
    ]
    answer = await page.post("/import", files=files, follow_redirects=True)
    return answer.text, fields_of(answer.text)


async def post_take(page: httpx.AsyncClient, fields: dict[str, list[str]]) -> httpx.Response:
    return await page.post("/import/take", data=fields)


async def enabled(script: httpx.AsyncClient, name: str) -> bool:
    return bool((await script.get(f"/tools/{name}")).json()["enabled"])


async def test_what_was_found_is_shown_and_nothing_is_kept_before_it_is_taken(
    page: httpx.AsyncClient, script: httpx.AsyncClient
) -> None:
    html, fields = await looked(page, [anthropic("forecast"), {"name": "<b>", "x": 1}], OPENAPI)
    assert "Nothing has been imported" in html
    assert "https://pets.example/pets/{id}" in html
    assert "Cannot be imported." in html
    assert "<b>" not in re.sub(r"<b( [^>]*)?>[A-Z]", "", html)
    assert (await script.get("/tools/forecast")).status_code == 404
    # Nothing is switched on but by the user, not even what runs nothing.
    assert (fields["take"], fields.get("on")) == (["0", "2"], None)
    answer = await post_take(page, {**fields, "on": ["0"]})
    assert answer.status_code == 303, answer.text
    assert "2 tools imported." in (await page.get(answer.headers["location"])).text
    assert await enabled(script, "forecast")
    assert not await enabled(script, "getPet")
    names = [tool["name"] for tool in (await script.get("/tools")).json()]
    assert "forecast" in names
    assert "getPet" not in names


async def test_only_what_is_ticked_is_taken_under_the_name_that_was_typed(
    page: httpx.AsyncClient, script: httpx.AsyncClient
) -> None:
    _, fields = await looked(page, [anthropic("left"), anthropic("right")])
    answer = await post_take(page, {**fields, "take": ["1"], "as:1": ["starboard"], "on": []})
    assert answer.status_code == 303, answer.text
    assert not await enabled(script, "starboard")
    for name in ("left", "right"):
        assert (await script.get(f"/tools/{name}")).status_code == 404
    nothing = await post_take(page, {key: value for key, value in fields.items() if key != "take"})
    assert nothing.status_code == 422
    assert "Nothing is selected" in nothing.text


async def test_a_name_that_is_there_is_never_taken_over_without_a_word(
    page: httpx.AsyncClient, script: httpx.AsyncClient
) -> None:
    mine = {"name": "mine", "answered_by": "person", "description": "My own."}
    assert (await script.post("/tools", json=mine)).status_code == 201
    html, fields = await looked(page, [anthropic("mine"), anthropic("mine")])
    assert (fields["as:0"], fields["as:1"]) == (["mine_2"], ["mine_3"])
    assert "replace the existing tool mine" in html
    refused = await post_take(page, {**fields, "as:0": ["mine"]})
    assert refused.status_code == 422
    assert "There is a" in refused.text
    twice = await post_take(page, {**fields, "as:0": ["other"], "as:1": ["other"]})
    assert "Two of these" in unescape(twice.text)
    odd = await post_take(page, {**fields, "as:0": ["a b"]})
    assert "is not a valid name" in odd.text
    assert fields_of(odd.text)["as:0"] == ["a b"]  # what was typed is there still
    assert (await script.get("/tools/mine")).json()["description"] == "My own."
    replaced = await post_take(page, {**fields, "replace:0": ["on"], "on": []})
    assert replaced.status_code == 303, replaced.text
    assert (await script.get("/tools/mine")).json()["description"] == "Weather."
    assert not await enabled(script, "mine")


async def test_servers_arrive_not_accepted_and_start_nothing(
    page: httpx.AsyncClient, script: httpx.AsyncClient, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    servers = {
        "evil": {
            "command": "sh",
            "args": ["-c", f"touch {marker}", "--api-key", "literal-value-1"],
            "env": {"MY_TOKEN": "ghp_abcdefghijklmnop", "LOG_LEVEL": "debug"},
            "autoApprove": ["*"],
        },
        "remote": {"url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer abc"}},
    }
    html, fields = await looked(page, {"mcpServers": servers})
    assert "literal-value-1" not in html
    assert "ghp_abcdefghijklmnop" not in html
    assert str(marker) in unescape(html)
    assert "autoApprove was not imported" in html
    answer = await post_take(page, fields)
    assert answer.status_code == 303, answer.text
    done = (await page.get(answer.headers["location"])).text
    assert 'href="/servers/evil"' in done
    stored_data = {item["name"]: item for item in (await script.get("/servers")).json()}
    assert {"evil", "remote"} <= set(stored_data)  # and what other tests left on this server
    assert {value["state"] for value in stored_data.values()} == {"new"}
    assert not marker.exists()


async def test_each_replaced_value_is_shown_and_can_be_put_back(
    page: httpx.AsyncClient, script: httpx.AsyncClient
) -> None:
    args = ["--key", "task-board", "--token", "real-secret-1", "https://h.example/?token=t-two"]
    text = {"mcpServers": {"board": {"command": "npx", "args": args}}}
    html, fields = await looked(page, text)
    page_text = " ".join(re.sub("<[^>]*>", " ", unescape(html)).split())
    for place, variable in (("2", "KEY"), ("4", "TOKEN"), ("5", "TOKEN_2")):
        assert f"argument {place} " in page_text
        assert f"becomes ${{BOARD_{variable}}}" in page_text
    for value in ("task-board", "real-secret-1", "t-two"):
        assert value not in html
    assert "back:0" not in fields  # nothing is put back but by the user
    lost = await post_take(page, {**fields, "back:0": ["7"]})
    assert "Import the file again" in lost.text
    answer = await post_take(page, {**fields, "back:0": ["0", "2"]})
    assert answer.status_code == 303, answer.text
    stored = (await script.get("/servers/board")).json()
    assert stored["args"] == ["--key", "task-board", "--token", "${BOARD_TOKEN}", args[4]]
    # It can be edited on, and another value that looks like a key is refused as ever.
    form = {"name": "board", "original": "board", "line": "npx --key task-board --mode fast"}
    assert (await page.post("/servers", data=form)).status_code == 303
    form["line"] = "npx --key other-board"
    assert "looks like a key" in (await page.post("/servers", data=form)).text


async def test_a_known_key_cannot_be_put_back(page: httpx.AsyncClient) -> None:
    text = {"mcpServers": {"known": {"command": "npx", "env": {"A_KEY": KEY}}}}
    html, fields = await looked(page, text)
    assert KEY not in html
    answer = await post_take(page, {**fields, "back:0": ["0"]})
    assert answer.status_code == 422
    assert "contains the value of a key" in answer.text
    assert KEY not in answer.text
    assert 'name="back:0" value="0" checked' in joined_tags(answer.text)


async def test_a_script_is_told_what_was_replaced(script: httpx.AsyncClient) -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "x", "env": {"A_KEY": "secret-1"}}}})
    answer = await script.post("/import", json={"text": text})
    [server] = answer.json()["servers"]
    why = "its name is that of a key"
    assert server["replaced"] == [{"place": "variable A_KEY", "variable": "A_KEY", "why": why}]
    assert "secret-1" not in answer.text


async def test_a_known_key_is_not_kept_and_not_shown(page: httpx.AsyncClient) -> None:
    html, fields = await looked(page, anthropic("leak", description=f"Use {KEY}."))
    assert "contains the value of a key" in html
    assert KEY not in html
    assert "take" not in fields


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([("file", ("a.zip", b"PK\x03\x04\xff\xff"))], "It is not UTF-8 text"),
        ([("file", ("a.txt", b"hello there"))], "Unknown format"),
        ([("file", ("a.json", b'{"a": '))], "not valid JSON"),
        ([("file", ("", b""))], "Paste a text or choose a file."),
        ([("file", (f"{n}.json", b"{}")) for n in range(501)], "At most 500 files"),
    ],
)
async def test_what_is_nothing_is_said(
    page: httpx.AsyncClient, files: list[Any], message: str
) -> None:
    answer = await page.post("/import", files=files)
    assert answer.status_code == 422
    assert message in answer.text


async def test_what_was_typed_is_there_still_when_nothing_was_found(
    page: httpx.AsyncClient,
) -> None:
    answer = await page.post("/import", data={"text": "{broken </textarea>"})
    assert answer.status_code == 422
    assert "{broken &lt;/textarea&gt;</textarea>" in answer.text


@pytest.mark.parametrize("carried", ["[]", "{", '{"source": 1}', '{"tool": {}}', "1e5", "null"])
async def test_a_form_that_is_not_ours_is_refused(page: httpx.AsyncClient, carried: str) -> None:
    answer = await post_take(page, {"row:0": [carried], "take": ["0"]})
    assert answer.status_code == 422
    assert (await post_take(page, {"row:x": ["{}"], "take": ["x"]})).status_code == 422


async def test_a_script_sees_what_is_in_a_text(script: httpx.AsyncClient) -> None:
    text = 'def add(a: int) -> int:\n    """Adds."""\n'
    answer = await script.post("/import", json={"text": text, "name": "a.py"})
    [tool] = answer.json()["tools"]
    assert (tool["name"], tool["kind"], tool["problem"]) == ("add", "Python", "")
    assert tool["tool"]["answered_by"] == "mock"


@pytest.mark.parametrize(
    ("body", "answered"),
    [
        (anthropic("a1"), {"name": "a1", "enabled": False}),
        (
            {"type": "function", "function": {"name": "o1", "parameters": SCHEMA}},
            {"name": "o1", "enabled": False},
        ),
        ({"name": "plain", "parameters": SCHEMA}, {"name": "plain", "enabled": False}),
        (
            {"functionDeclarations": [{"name": "g1"}, {"name": "g2"}]},
            [{"name": "g1", "enabled": False}, {"name": "g2", "enabled": False}],
        ),
        (
            [
                {"type": "function", "function": {"name": "l1", "parameters": SCHEMA}},
                {"type": "function", "name": "l2", "parameters": SCHEMA},
            ],
            [{"name": "l1", "enabled": False}, {"name": "l2", "enabled": False}],
        ),
        (
            [{"name": "l3", "answered_by": "person"}, anthropic("l4")],
            [{"name": "l3", "enabled": False}, {"name": "l4", "enabled": False}],
        ),
    ],
)
async def test_another_form_than_ours_arrives_switched_off(
    script: httpx.AsyncClient, body: Any, answered: Any
) -> None:
    answer = await script.post("/tools", json=body)
    assert (answer.status_code, answer.json()) == (201, answered)
    for item in answered if isinstance(answered, list) else [answered]:
        assert not await enabled(script, item["name"])
    again = await script.post("/tools", json=body)
    assert again.status_code == 409, again.text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (anthropic("k", description=KEY), "contains the value of a key"),
        (anthropic("k", input_schema={"type": "array"}), "Arguments must be an object"),
        ({"tools": [anthropic("k"), {"type": "teleport", "name": "t"}]}, "'teleport' is unknown"),
        ([{"type": "bash_20250124", "name": "bash"}], "run by the client"),
        ({"tools": [{"type": "web_search"}]}, "run by its provider"),
        ({"mcpServers": {"a": {"command": "x"}}}, "/import"),
        ({"name": "k", "answered_by": "person", "enabled": True}, "/enabled is not in the schema"),
        (
            [{"name": "k", "answered_by": "person"}, {"name": "k b", "answered_by": "mock"}],
            "letters, digits",
        ),
        ([anthropic("k"), 5], "Nothing was saved"),
        ([{"mcpServers": {"a": {"command": "x"}}}], "/import"),
        ([], "no tools"),
        (5, "The body must be a JSON object or a list."),
    ],
)
async def test_what_a_script_cannot_bring_is_refused_and_nothing_is_saved(
    script: httpx.AsyncClient, body: Any, message: str
) -> None:
    answer = await script.post("/tools", json=body)
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["error"]
    assert (await script.get("/tools/k")).status_code == 404


async def test_a_list_with_a_tool_of_a_provider_is_saved_without_it(
    script: httpx.AsyncClient,
) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    answer = await script.post("/tools", json={"tools": [anthropic("kept"), search]})
    assert answer.status_code == 201, answer.text
    saved, left_out = answer.json()
    assert saved == {"name": "kept", "enabled": False}
    assert (left_out["name"], left_out["enabled"]) == ("web_search", False)
    assert "run by its provider" in left_out["problem"]
    assert (await script.get("/tools/web_search")).status_code == 404


async def test_a_list_that_has_a_name_twice_says_so(script: httpx.AsyncClient) -> None:
    own = {"name": "k", "answered_by": "person"}
    for body in ([own, own], [anthropic("k"), own], [anthropic("k"), anthropic("k")]):
        answer = await script.post("/tools", json=body)
        assert answer.status_code == 409
        assert answer.json()["error"] == "The list has two tools named 'k'. Nothing was saved."
        assert (await script.get("/tools/k")).status_code == 404


async def test_a_list_in_our_own_form_is_the_persons_own(script: httpx.AsyncClient) -> None:
    body = [{"name": f"own{n}", "answered_by": "person"} for n in range(2)]
    answer = await script.post("/tools", json=body)
    assert answer.json() == [{"name": f"own{n}", "enabled": True} for n in range(2)]
    assert await enabled(script, "own1")


async def test_a_tool_is_switched_on_and_off(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    assert (await script.post("/tools", json=anthropic("lamp"))).status_code == 201
    on = await script.post("/tools/lamp/switch", json={"enabled": True})
    assert on.json() == {"name": "lamp", "enabled": True}
    assert await enabled(script, "lamp")
    off = await page.post("/tools/lamp/switch", data={"enabled": "false"})
    assert (off.status_code, off.headers["location"]) == (303, "/tools/lamp")
    assert not await enabled(script, "lamp")
    assert (await script.post("/tools/lamp/switch", json={})).status_code == 422
    assert (
        await script.post("/tools/calculator/switch", json={"enabled": False})
    ).status_code == 422
    assert (await script.post("/tools/none/switch", json={"enabled": True})).status_code == 404


async def test_of_too_many_tools_the_person_chooses(
    page: httpx.AsyncClient, script: httpx.AsyncClient
) -> None:
    paths = {f"/p/{n}": {"get": {"operationId": f"op{n}", "tags": ["All"]}} for n in range(501)}
    text = json.dumps({**OPENAPI, "paths": paths})
    html, fields = await looked(page, text)
    assert "501 tools found." in html
    assert html.count('name="pick"') == 501
    (upload,) = fields["upload"]
    again = await page.get("/import", params={"upload": upload})  # a reload, and the way back
    assert fields_of(again.text) == fields
    assert (await page.get("/import", params={"upload": "gone"})).status_code == 422
    chosen = {"upload": upload, "pick": ["0 GET /p/500", "0 GET /p/7"]}
    rows = fields_of((await page.post("/import", data=chosen)).text)
    assert (rows["as:0"], rows["as:1"]) == (["op7"], ["op500"])
    assert (await post_take(page, rows)).status_code == 303
    assert (await script.get("/tools/op500")).status_code == 200
    refused: list[tuple[dict[str, Any], str]] = [
        ({"upload": upload}, "Nothing is selected"),
        ({"upload": "gone", "pick": ["0 GET /p/7"]}, "out of date"),
        ({"upload": upload, "pick": [f"0 GET /p/{n}" for n in range(501)]}, "at most 500"),
    ]
    for sent, message in refused:
        answer = await page.post("/import", data=sent)
        assert (answer.status_code, message in answer.text) == (422, True), message
    response = await script.post("/import", json={"text": text, "pick": ["GET /p/3"]})
    assert [tool["name"] for tool in response.json()["tools"]] == ["op3"]
    assert len((await script.post("/import", json={"text": text})).json()["choices"]) == 501


async def test_two_files_of_one_name_are_told_apart(page: httpx.AsyncClient) -> None:
    def document(word: str) -> str:
        paths = {f"/{word}{n}": {"get": {"operationId": f"{word}{n}"}} for n in range(501)}
        return json.dumps({**OPENAPI, "paths": paths})

    files = [("file", ("openapi.json", document(word))) for word in ("left", "right")]
    html = (await page.post("/import", files=files, follow_redirects=True)).text
    assert "openapi (2).json" in html
    fields = fields_of(html)
    chosen = {"upload": fields["upload"], "pick": ["0 GET /left4", "1 GET /right5"]}
    assert {*chosen["pick"]} <= {*re.findall('name="pick" value="([^"]*)"', html)}
    rows = fields_of((await page.post("/import", data=chosen)).text)
    assert (rows["as:0"], rows["as:1"]) == (["left4"], ["right5"])


async def test_files_that_belong_together_are_read_as_one(
    page: httpx.AsyncClient, script: httpx.AsyncClient
) -> None:
    document = {**OPENAPI, "paths": {"/a": {"get": {"$ref": "ops/a.json"}}}}
    part = {"operationId": "parted", "parameters": [{"name": "q", "in": "query"}]}
    files = [
        ("file", ("api/ops/a.json", json.dumps(part))),
        ("file", ("/../api/openapi.json", json.dumps(document))),
        ("file", ("api/README.txt", "hello")),
    ]
    html = (await page.post("/import", files=files)).text
    assert fields_of(html)["as:0"] == ["parted"]
    assert "api/README.txt" in html
    assert "api/ops/a.json" not in html
    alone = await script.post("/import", json={"text": json.dumps(document)})
    assert "outside the document" in alone.json()["tools"][0]["problem"]
    beside = {"text": json.dumps(document), "files": {"ops/a.json": json.dumps(part)}}
    assert (await script.post("/import", json=beside)).json()["tools"][0]["name"] == "parted"


@pytest.mark.slow
async def test_a_thousand_tools_are_taken_at_once(script: httpx.AsyncClient) -> None:
    """Each with more keys than a call's arguments may have together, by a session and by the
    library, whole."""
    properties = {f"p{number}": {"type": "string"} for number in range(8)}
    tools = [
        {"name": f"t{number}", "parameters": {"type": "object", "properties": properties}}
        for number in range(1_000)
    ]
    own = [{**tool, "answered_by": "person"} for tool in tools]
    response = await script.post("/sessions", json={"tools": own})
    assert response.status_code == 201, response.text
    log = (await script.get(f"/sessions/{response.json()['id']}/events")).text.splitlines()
    assert len(json.loads(log[0])["settings"]["tools"]) == 1_000
    saved = await script.post("/tools", json=[{"type": "function", **tool} for tool in tools])
    assert saved.status_code == 201, saved.text
    assert [item["name"] for item in saved.json()] == [tool["name"] for tool in tools]
    assert (await script.get("/tools/t999")).status_code == 200


@pytest.mark.slow
async def test_a_body_beyond_the_bounds_is_told_which(script: httpx.AsyncClient) -> None:
    body = {"tools": [{f"k{number}": 1 for number in range(200_001)}]}
    refused = await script.post("/sessions", json=body)
    assert refused.status_code == 422
    assert "more than 200,000 keys" in refused.json()["error"]


async def reader_of(page: httpx.AsyncClient, text: str, name: str = "tools.py") -> dict[str, str]:
    """The hidden fields of the form that reads a Python file with an interpreter."""
    answer = await page.post("/import", files=[("file", (name, text))])
    html = joined_tags(answer.text)
    match = re.search(r'<form method="post" action="/import/read".*?</form>', html, re.S)
    assert match, html
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', match[0])
    assert "This runs the file’s code with that interpreter" in match[0]
    return dict(fields)


async def test_python_file_when_read_by_interpreter_shows_its_tools(
    page: httpx.AsyncClient, script: httpx.AsyncClient, tmp_path: Path
) -> None:
    file, marker = tmp_path / "tools.py", tmp_path / "ran"
    file.write_text(f"open({str(marker)!r}, 'w').close()\n{PYTHON}")
    fields = await reader_of(page, file.read_text())
    assert not marker.exists()  # nothing runs before the button
    answer = await page.post("/import/read", data={**fields, "file": str(file)})
    assert answer.status_code == 200, answer.text
    assert marker.exists()
    assert "The file was run to read it. Nothing has been imported yet." in answer.text
    taken_fields = fields_of(answer.text)
    assert (taken_fields["take"], taken_fields["as:0"]) == (["0"], ["price"])
    done = await post_take(page, {**taken_fields, "as:0": ["read_price"], "take": ["0"]})
    assert done.status_code == 303, done.text
    stored = (await script.get("/tools/read_price")).json()
    assert stored["config"] == {"file": str(file), "function": "price"}
    assert not await enabled(script, "read_price")


async def test_python_file_when_reading_fails_keeps_the_page_and_what_was_typed(
    page: httpx.AsyncClient,
) -> None:
    fields = await reader_of(page, PYTHON + "import absent_module\n")
    typed = {"interpreter": sys.executable}
    answer = await page.post("/import/read", data={**fields, **typed})
    assert answer.status_code == 422
    text = unescape(answer.text)
    assert "ModuleNotFoundError: No module named 'absent_module'" in text
    assert f"{sys.executable} -m pip install absent_module" in text
    assert f'value="{sys.executable}"' in text
    assert fields_of(answer.text)["as:0"] == ["price"]
    assert (
        "The file could not be read by running it. The tools below are read from its text." in text
    )
    assert "The file was run to read it" not in text  # with another interpreter it may not have run
    refused = await page.post("/import/read", data={**fields, "interpreter": "python3"})
    assert "The interpreter must be an absolute path" in refused.text
    assert "Nothing has been imported, run or" in refused.text


@pytest.mark.parametrize(
    ("name", "text", "offered"),
    [
        ("a.ipynb", json.dumps(NOTEBOOK), False),
        ("README.md", f"# Tools\n\n```python\n{PYTHON}```\n", False),
        ("a.txt", PYTHON, True),
        ("a.txt", "from shop import SearchTool\n\nsearch = SearchTool()\n", True),
    ],
)
async def test_text_when_it_is_no_python_file_is_not_offered_to_run(
    name: str, text: str, offered: bool, page: httpx.AsyncClient
) -> None:
    answer = await page.post("/import", files=[("file", (name, text.encode()))])
    assert ('action="/import/read"' in answer.text) == offered


async def test_python_file_when_beside_no_text_is_read_without_it(page: httpx.AsyncClient) -> None:
    """A file that is no text is not there for the one that is run, rather than empty."""
    text = "import os\nassert os.listdir() == ['tools.py'], os.listdir()\n" + PYTHON
    files = [("file", ("tools.py", text.encode())), ("file", ("weights.bin", b"\xff\x00"))]
    answer = await page.post("/import", files=files)
    upload = re.search(r'name="upload" value="([^"]+)"', answer.text)
    assert upload
    answer = await page.post("/import/read", data={"upload": upload[1], "number": "0"})
    assert answer.status_code == 200, answer.text


async def test_class_file_when_text_has_no_tool_offers_to_read_it(
    page: httpx.AsyncClient,
) -> None:
    text = "class Price:\n    def forward(self, sku): ...\n"
    answer = await page.post("/import", data={"text": text})
    assert answer.status_code == 422
    assert 'action="/import/read"' in answer.text
    json_text = await page.post("/import", data={"text": json.dumps([anthropic("a_tool")])})
    assert 'action="/import/read"' not in json_text.text


async def test_read_when_asked_by_script_answers_as_import_does(
    script: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "tools.py").write_text(PYTHON)
    by_file = await script.post("/import/read", json={"file": str(tmp_path / "tools.py")})
    assert [tool["name"] for tool in by_file.json()["tools"]] == ["price"]
    by_text = await script.post(
        "/import/read",
        json={
            "text": "from beside import price\nTOOLS = [price]\n",
            "name": "tools.py",
            "files": {"beside.py": PYTHON},
        },
    )
    (only,) = by_text.json()["tools"]
    assert only["tool"] is None
    assert "Import the file that defines it at the top level." in only["problem"]
    nothing = await script.post("/import/read", json={})
    assert nothing.status_code == 422
    gone = await script.post("/import/read", data={"upload": "x", "number": "0"})
    assert gone.status_code == 422


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Authorization": "no"}])
async def test_read_when_request_is_not_the_users_runs_nothing(
    headers: dict[str, str], script: httpx.AsyncClient, tmp_path: Path
) -> None:
    file, marker = tmp_path / "tools.py", tmp_path / "ran"
    file.write_text(f"open({str(marker)!r}, 'w').close()\n")
    answer = await script.post("/import/read", json={"file": str(file)}, headers=headers)
    assert answer.status_code in (401, 403)
    assert not marker.exists()
