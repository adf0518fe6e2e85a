"""Finding sessions over HTTP: the page, the list beside a session, marks, the bin."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from playground.engine.engine import Engine
from tests.engines import run_prompt
from tests.web.asking import JSON, PAGE
from tests.web.test_providers import Asked

pytestmark = pytest.mark.anyio
HTMX = ("hx-request", "true")


def data(output: Any) -> Any:
    assert output.status == 200, output.body
    return json.loads(output.body)


async def test_found_marked_binned_and_purged(engine: Engine) -> None:
    client = Asked(engine)
    empty = (await client.get("/find", PAGE)).body
    assert (b"No sessions. Deleted" in empty, b"No results" in empty) == (True, False)
    assert b"No results for <q>two</q>" in (await client.get("/find?q=two", PAGE)).body
    text = (await run_prompt(engine, "What is <i>two & two</i>?")).id
    other = (await run_prompt(engine, "Say zebra at all")).id

    async def ids(query: str) -> list[str]:
        return [hit["id"] for hit in data(await client.get(f"/find?{query}", JSON))["hits"]]

    (hit,) = data(await client.get("/find?q=two&state=idle", JSON))["hits"]
    assert (hit["id"], hit["tags"], hit["pinned"]) == (text, [], False)
    assert [row["id"] for row in data(await client.get("/sessions?q=zebra", JSON))] == [other]
    page = (await client.get("/find?q=two", PAGE)).body.decode()
    assert "What is &lt;i&gt;" in page
    assert "<i>two" not in page
    beside = (await client.get("/sessions?q=two", HTMX)).body.decode()
    assert f'href="/sessions/{text}' in beside
    assert f"/sessions/{other}" not in beside
    assert "Nothing matches “qq&lt;b&gt;”" in (
        (await client.get("/sessions?q=qq%3Cb%3E", HTMX)).body.decode()
    )
    output = await client.get("/sessions?q=a%20b", PAGE)
    assert (output.status, output.header("location")) == (303, "/find?q=a+b")

    assert data(await client.post(f"/sessions/{text}/tags", {"tags": ["b", "a"]}, JSON)) == {
        "ok": True,
        "tags": ["a", "b"],
    }
    for act in ("pin", "archive"):
        assert data(await client.post(f"/sessions/{text}/{act}", {}, JSON)) == {"ok": True}
    assert await ids("tag=a&is=pinned") == await ids("q=is:archived") == [text]
    rows = data(await client.get("/sessions", JSON))
    assert [row["id"] for row in rows] == [other]
    html = (await client.get(f"/sessions/{text}", PAGE)).body.decode()
    assert 'action="/sessions/' + text + '/unpin"' in html
    assert 'value="a, b"' in html

    several = {"act": "delete", "sessions": [text, other], "q": "two"}
    output = await client.post("/find/marks", several, PAGE)
    assert (output.status, output.header("location")) == (303, "/find?q=two")
    assert await ids("q=two") == []
    assert sorted(await ids("is=deleted")) == sorted([text, other])
    assert "cannot be undone" in (await client.get("/find?is=deleted", PAGE)).body.decode()
    data(await client.post("/find/marks", {"act": "restore", "sessions": [other]}, JSON))
    data(await client.post("/find/marks", {"act": "empty"}, JSON))
    assert await ids("is=deleted") == []
    assert await ids("") == [other]
    assert (await client.get(f"/sessions/{text}", JSON)).status == 404
    assert data(await client.get("/find/size", JSON))["sessions"] == 1
    assert b"1 session" in (await client.get("/find/size", PAGE)).body


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/find/marks", {"act": "pin"}, 422),
        ("/find/marks", {"act": "eat", "sessions": ["x"]}, 422),
        ("/find/marks", {"act": "purge", "sessions": ["x"]}, 404),
        ("/sessions/x/pin", {}, 404),
        ("/sessions/x/tags", {"tags": "a"}, 422),
    ],
)
async def test_what_cannot_be_done_is_said(
    path: str, body: dict[str, Any], status: int, engine: Engine
) -> None:
    output = await Asked(engine).post(path, body, JSON)
    assert (output.status, json.loads(output.body)["error"][-1]) == (status, ".")


async def test_whatever_is_typed_is_answered(engine: Engine) -> None:
    client = Asked(engine)
    for text in ('"', "NEAR(a b)", "* ^ - :", "w " * 5_000, "\x00\x1f", "tag:", "after:x is:y"):
        for address in ("/find", "/sessions"):
            for headers in (PAGE, JSON, HTMX):
                output = await client.get(f"{address}?q={quote(text)}", headers)
                assert output.status in (200, 303), (text, output.body)
