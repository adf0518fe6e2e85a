"""The pages of MCP servers: everything is shown before it is accepted, and nothing starts by it."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from playground.core.servers import Server, fingerprint
from playground.engine.engine import Engine
from tests.engines import StartEngine
from tests.executors.mcp_servers import by_stdio
from tests.markup import joined_tags
from tests.web.asking import JSON, PAGE
from tests.web.test_providers import Asked

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_mcp")]
CANARY = "canary-55f20b9e1d7c4a36"


def data(output: Any) -> Any:
    return json.loads(output.body)


async def test_a_server_from_the_form_to_its_tools(start_engine: StartEngine) -> None:
    server = by_stdio("fine")
    line = f"'{server.command}' {server.args[0]} 'fine'"
    engine = await start_engine()
    client = Asked(engine)
    assert b"No servers yet" in (await client.get("/servers", PAGE)).body
    assert (await client.get("/servers?new=1", PAGE)).status == 200
    result = await client.post("/servers", {"name": "fine", "line": line}, PAGE)
    assert (result.status, result.header("location")) == (303, "/servers/fine")
    assert (await engine.servers.get("fine")).server == server

    page = (await client.get("/servers/fine", PAGE)).body.decode()
    for word in (server.command, *server.args):
        assert f'<code class="word">{html.escape(word)}</code>' in page
    assert "not accepted" in page
    assert "List tools" not in page
    early = await client.post("/servers/fine/list", {"x": ""}, PAGE)
    assert (early.status, b"was not accepted yet" in early.body) == (422, True)

    response = await client.post("/servers/fine/accept", {"fingerprint": "0" * 64}, JSON)
    assert (response.status, data(response)["fingerprint"]) == (409, fingerprint(server))
    right = {"fingerprint": fingerprint(server)}
    assert f'value="{right["fingerprint"]}"' in page
    assert (await client.post("/servers/fine/accept", right, PAGE)).status == 303
    listed = await client.post("/servers/fine/list", {"x": ""}, PAGE)
    assert listed.header("location") == "/servers/fine#tools"
    page = (await client.get("/servers/fine", PAGE)).body.decode()
    tool = next(tool for tool in data(await client.get("/servers/fine", JSON))["tools"])
    chosen = f"{tool['fingerprint']} {tool['name']}"
    assert f'value="{chosen}" checked' in joined_tags(page)
    accepted = await client.post("/servers/fine/take", {"tools": chosen}, PAGE)
    assert accepted.header("location") == "/servers/fine?taken=1#tools"
    assert (await engine.library.tool("add")).config == {"server": "fine", "tool": "add"} | (
        {"output_schema": tool["output_schema"]}
    )
    assert b"add in the library" in (await client.get("/servers/fine?taken=1", PAGE)).body
    none = await client.post("/servers/fine/take", {"x": ""}, JSON)
    assert (none.status, data(none)["error"]) == (422, "Choose the tools to add.")
    old = await client.post("/servers/fine/take", {"tools": ["0 say"]}, JSON)
    assert old.status == 409

    assert (await client.post("/servers/fine/stop", {"x": ""}, PAGE)).status == 303
    assert (await client.post("/servers/fine/withdraw", {"x": ""}, PAGE)).status == 303
    assert data(await client.get("/servers/fine", JSON))["accepted"] is False
    gone = await client.post("/servers/fine/delete", {"x": ""}, PAGE)
    assert gone.header("location") == "/servers"
    assert (await client.get("/servers/fine", JSON)).status == 404


async def test_a_listing_that_failed_is_not_called_missing(engine: Engine) -> None:
    client = Asked(engine)
    await engine.servers.save(Server("gone", "/no/such/program", ()))
    row = await engine.servers.get("gone")
    accepted = {"fingerprint": fingerprint(row.server)}
    assert (await client.post("/servers/gone/accept", accepted, PAGE)).status == 303
    assert b"Tools are not listed yet." in (await client.get("/servers/gone", PAGE)).body
    await client.post("/servers/gone/list", {"x": ""}, PAGE)
    page = (await client.get("/servers/gone", PAGE)).body
    assert b"No tools listed: see the error above." in page


async def test_a_script_keeps_and_reads_servers(engine: Engine) -> None:
    client = Asked(engine)
    body = {"name": "far", "url": "https://mcp.example/x", "headers": {"x-a": "${A_KEY}"}}
    result = await client.post("/servers", body, JSON)
    assert (result.status, result.header("location")) == (201, "/servers/far")
    output = data(result)
    assert (output["state"], output["accepted"], output["private"]) == ("new", False, False)
    assert output["missing"] == ["A_KEY"]
    assert [item["name"] for item in data(await client.get("/servers", JSON))] == ["far"]
    again = await client.post("/servers", {**body, "url": "https://mcp.example/y"}, JSON)
    assert data(again)["url"] == "https://mcp.example/y", "a script writes over its own"
    page = (await client.get("/servers/far", PAGE)).body.decode()
    assert '<code class="word">https://mcp.example/y</code>' in page
    assert "x-a: ${A_KEY}" in page
    assert "public addresses only" in page
    edit = (await client.get("/servers/far?edit=1", PAGE)).body.decode()
    assert 'value="https://mcp.example/y"' in edit


async def test_what_is_hidden_is_exposed_and_markup_is_text(start_engine: StartEngine) -> None:
    words = ("-c", "echo\u200b a\u202eb", "<script>x</script>", "", "two\nlines")
    engine = await start_engine()
    client = Asked(engine)
    await engine.servers.save(Server("odd", "/bin/sh", words, {"A": "b\u00a0c"}))
    page = (await client.get("/servers/odd", PAGE)).body.decode()
    assert "echo\\u200b a\\u202eb" in page
    assert "two\\nlines" in page
    assert "A=b\\u00a0c" in page
    assert "<li><small>empty</small></li>" in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "<script>x" not in page
    assert "characters here are hidden or unusual" in page


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"name": "a", "line": "npx 'x"}, "close its quotes"),
        ({"name": "a", "line": "npx", "env": "MY_TOKEN=abc"}, "MY_TOKEN looks like a key"),
        ({"name": "a", "line": "npx", "env": "nothing"}, "like NAME=value"),
        ({"name": "a", "url": "http://x", "headers": "nothing"}, "like Name: value"),
        ({"name": "a", "line": "npx", "env": "A=" + CANARY}, "contains the value of a key"),
        ({"name": "taken", "line": "npx"}, "already"),
    ],
)
async def test_what_is_refused_stays_in_the_form(
    typed: dict[str, str], words: str, start_engine: StartEngine
) -> None:
    engine = await start_engine(environment={"MY_API_KEY": CANARY})
    await engine.servers.save(Server("taken", "x"))
    output = await Asked(engine).post("/servers", typed, PAGE)
    assert output.status == 422
    page = output.body.decode()
    assert words in page
    assert f'value="{typed["name"]}"' in page
    assert CANARY not in page
    assert [shown_server.server.name for shown_server in await engine.servers.list_servers()] == [
        "taken"
    ]


async def test_a_changed_tool_is_shown_with_what_is_new(start_engine: StartEngine) -> None:
    server = by_stdio("turncoat")
    engine = await start_engine()
    client = Asked(engine)
    await engine.servers.save(server)
    await engine.servers.accept("turncoat", fingerprint(server))
    listed_server = await engine.servers.list_tools("turncoat")
    assert listed_server.offered[0].listed is not None
    await engine.servers.add_tools("turncoat", [("t", listed_server.offered[0].listed.fingerprint)])
    tool = await engine.library.tool("t")
    await engine.library.save(tool.__class__(**{**vars(tool), "description": "Older."}), 1)
    await engine.library.save_server(
        server, type(listed_server.accepted)(fingerprint(server), {"t": "0" * 64, "z": "1"}), 1
    )
    page = (await client.get("/servers/turncoat", PAGE)).body.decode()
    assert '<code class="line old">- Older.</code>' in page
    assert '<code class="line new">+ A tool.</code>' in page
    assert "no longer lists this tool" in page
    checkbox = page.partition('name="tools"')[2].partition(">")[0]
    assert "checked" not in checkbox, "a change is not accepted by the way"


async def test_times_of_a_server_are_set_in_its_form(engine: Engine) -> None:
    client = Asked(engine)
    form = {"name": "slow", "line": "npx slow", "start_s": "120", "call_s": " 0.5 "}
    assert (await client.post("/servers", form, PAGE)).status == 303
    saved = data(await client.get("/servers/slow", JSON))
    assert (saved["start_s"], saved["call_s"]) == (120, 0.5)
    page = (await client.get("/servers/slow", PAGE)).body.decode()
    assert "up to 120 s to start and list tools, up to 0.5 s for a call" in page
    editor = (await client.get("/servers/slow?edit=1", PAGE)).body.decode()
    assert re.search(r'name="start_s"[^>]*value="120"', editor)
    assert re.search(r'name="call_s"[^>]*value="0.5"', editor)
    response = await client.post("/servers", form | {"original": "slow", "call_s": "soon"}, PAGE)
    assert (response.status, b"not a number of seconds" in response.body) == (422, True)
    assert b'value="soon"' in response.body
    far = await client.post("/servers", form | {"original": "slow", "call_s": "inf"}, PAGE)
    assert (far.status, b"call_s must be a number of seconds" in far.body) == (422, True)
    usual = form | {"original": "slow", "start_s": "", "call_s": ""}
    assert (await client.post("/servers", usual, PAGE)).status == 303
    page = (await client.get("/servers/slow", PAGE)).body.decode()
    assert "for a call" not in page


async def test_variable_that_is_not_set_leads_to_the_place_where_its_value_is_written(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(environment={})
    client = Asked(engine)
    headers = {"X-User": "${LIBRECHAT_USER_ID}"}
    await engine.servers.save(Server("books", url="https://h.example/mcp", headers=headers))
    page = (await client.get("/servers/books", PAGE)).body.decode()
    assert "<code>LIBRECHAT_USER_ID</code> is not set in the environment" in page
    assert '<a href="/servers/books?edit=1">enter the value</a>' in page
