from __future__ import annotations

import json

import pytest

from playground.core.events import RequestSent
from playground.web.session.wire_view import (
    NextRequest,
    request_fragment,
    setup_notes,
    shorten_strings,
)
from tests.render.logs import NASTY
from tests.render.page import ENV, parse


def request(body: str, **more: object) -> NextRequest:
    sent = RequestSent(
        1,
        protocol="gemini",
        method="POST",
        url="https://x.test/v1",
        headers={"x-key": "$A_KEY"},
        body=body,
        model="m",
    )
    return NextRequest("row", sent, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "stored_text"),
    [
        ("short", "short"),
        ("word " * 500, "word " * 500),
        ("A1b2" * 100, ("A1b2" * 20) + "… 320 more characters"),
        ("two words " * 1000, ("two words " * 200) + "… 8\u2009000 more characters"),
        ("x" + '"' * 4000, None),
        ("\u0001" * 1000, None),
        ("\\" * 4001, None),
        ("é" * 5000, "é" * 2000 + "… 3\u2009000 more characters"),
    ],
)
def test_long_texts_are_cut_and_it_stays_json(value: str, stored_text: str | None) -> None:
    for ascii_only in (True, False) if stored_text is None else (False,):
        text = json.dumps({"a": value, "b": 1.50}, ensure_ascii=ascii_only)
        output = json.loads(shorten_strings(text))
        assert output["b"] == 1.5
        assert len(output["a"]) < 4100
        assert stored_text is None or output["a"] == stored_text
        assert value.startswith(output["a"].partition("…")[0])


def test_the_layout_keeps_the_digits() -> None:
    body = '{"a":1e400,"b":0.10,"c":[],"d":{"e":[true,null,"é"],"f":"twenty characters or so"}}'
    output = "".join(token.text for token in request(body).tokens)
    assert json.loads(output) == json.loads(body)
    assert output.startswith('{\n  "a": 1e400,\n  "b": 0.10,\n  "c": [],\n  "d": {')
    assert '"e": [true, null, "é"]' in output


@pytest.mark.parametrize("body", ["no json", "[" * 100_000, '["' + "a b " * 40_000 + '"'])
def test_what_cannot_be_laid_out_is_shown_in_part(body: str) -> None:
    assert "".join(token.text for token in request(body).tokens)[:2] == body[:2]


def test_what_is_copied_is_what_is_sent() -> None:
    body = json.dumps({"text": NASTY.replace("\ud800", "")})
    tree = parse(request_fragment(ENV, request(body)))
    (copy,) = (node for node in tree.walk() if "data-copy" in node.attributes)
    assert copy.attributes["data-copy"] == body
    fetched = parse(request_fragment(ENV, request('"' + "x" * 300_000 + '"')))
    assert "copy-request" in str(fetched)
    assert "more characters in the copy" in fetched.text


def test_the_panel_says_what_is_lost_and_what_is_missing() -> None:
    panel_html = request("{}", notes=("No is_error.",), says=("It waits.",), failed="No key.")
    text = parse(request_fragment(ENV, panel_html)).text
    for words in ("Not supported by Gemini", "No is_error.", "It waits.", "No key.", "$A_KEY"):
        assert words in text
    line = parse(setup_notes(ENV, "s1", panel_html)).text
    assert "1 item not supported by Gemini" in line
    assert not parse(setup_notes(ENV, "s1", request("{}"))).text.strip()
