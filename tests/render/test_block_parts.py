"""What parts of all protocols show, from the shapes that the codecs keep."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from playground.core.events import (
    CallDecided,
    CallEnded,
    CallStarted,
    PartDelta,
    PartEnded,
    PartKind,
    PartStarted,
    ResponseEnded,
    TaskEnded,
    TaskStarted,
)
from playground.core.session import Part
from playground.core.tools import text_result
from playground.render.block_contents import (
    TextCitation,
    find_citations,
    part_citations,
    sealed_size,
    server_part,
)
from playground.render.blocks import block
from playground.render.paging import PORTION, upto_from
from tests.factories import DIGEST, WEATHER, Log, settings, turn_with_calls
from tests.render.logs import NASTY
from tests.render.page import ENV, Live, Node, parse
from tests.tables import rest_slow

SEARCH_RESULTS = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [
        {"type": "web_search_result", "url": "https://a.test/1", "title": "One"},
        {"type": "web_search_result", "url": "javascript:alert(1)", "title": "Two"},
    ],
}


def part(kind: PartKind, text: str = "", name: str = "", **meta: Any) -> Part:
    part = Part(
        0,
        kind=kind,
        name=name,
        provider_id="",
        meta=meta,
        seq=1,
        started_ms=0,
        ended_ms=1,
        complete=True,
    )
    part.pieces, part.length = [text], len(text)
    return part


def part_block(kind: PartKind, text: str = "", name: str = "", **meta: Any) -> Node:
    """The block of an ended part, parsed."""
    log = Log().start(settings(WEATHER)).prompt().request()
    log.add(PartStarted(0, kind, name), PartEnded(0, text, name, meta=meta)).end()
    live = Live(log.events)
    live.go(len(log.events))
    return parse(block(ENV, live.view, "call-1-0" if kind == "call" else "part-1-0"))


@pytest.mark.parametrize(
    ("meta", "size"),
    [
        ({}, 0),
        ({"block": {"type": "thinking", "signature": "abcd"}}, 4),
        ({"block": {"type": "redacted_thinking", "data": "xyz"}}, 3),
        ({"block": {"type": "reasoning", "encrypted_content": "12345", "summary": []}}, 5),
        ({"part": {"thoughtSignature": "sig"}}, 3),
        ({"extra_content": {"google": {"thought_signature": "sig"}}}, 3),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "ab"}]}, 2),
        ({"block": {"type": "image", "data": "no thought"}}, 0),
    ],
)
def test_what_only_the_provider_can_read(meta: dict[str, Any], size: int) -> None:
    assert sealed_size(part("thinking", **meta)) == size


def test_thoughts_are_folded_and_say_their_length() -> None:
    thinking_block = part_block("thinking", "I wonder. " * 200)
    assert "2\u2009000 characters" in thinking_block.text
    assert [node.name for node in thinking_block.walk()].count("details") == 1
    hidden = part_block("thinking", block={"type": "redacted_thinking", "data": "x" * 1234})
    assert "Encrypted reasoning, 1\u2009234 bytes, sent back to the provider." in hidden.text
    assert "Thinking without text." in part_block("thinking").text


def test_a_search_by_the_provider() -> None:
    search_block = part_block(
        "server_call", '{"query": "tides"}', "web_search", block={"id": "srv_1"}
    )
    assert "run by the provider" in search_block.text
    assert "web_search" in search_block.text
    assert "button" not in {node.name for node in search_block.walk()}
    came = part_block("server_result", "", "", block=SEARCH_RESULTS)
    assert "2 sources" in came.text
    links = [node.attributes["href"] for node in came.walk() if node.name == "a"]
    assert links == ["https://a.test/1"]  # what is no address of the web is only told
    assert "javascript:alert(1)" in came.text


@pytest.mark.parametrize(
    ("meta", "output"),
    [
        ({"block": {"type": "web_search_call", "action": {"query": "tides"}}}, "tides"),
        ({"block": {"type": "code_interpreter_call", "code": "a = 1\nb"}}, "a = 1\nb"),
        ({"part": {"executableCode": {"code": "print(1)"}}}, "print(1)"),
    ],
)
def test_what_the_provider_was_asked_may_stand_in_its_block(
    meta: dict[str, Any], output: str
) -> None:
    assert output in server_part(part("server_call", **meta)).text


def test_a_server_tool_that_failed() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    came = part_block("server_result", block={"type": "web_search_tool_result", "content": error})
    assert "max_uses_exceeded" in came.text


def test_what_a_text_leans_on() -> None:
    claude = part(
        "text", "x", block={"citations": [{"url": "https://a.test", "cited_text": "Said."}]}
    )
    assert part_citations(claude) == (TextCitation("https://a.test", "", "Said."),)
    document = part(
        "text", "x", block={"citations": [{"cited_text": "Said.", "document_title": "Doc"}]}
    )
    assert part_citations(document) == (TextCitation("", "Doc", "Said."),)
    responses = part(
        "text", "x", content={"annotations": [{"type": "url_citation", "url": "https://b.test"}]}
    )
    assert [place.url for place in part_citations(responses)] == ["https://b.test"]
    assert part_citations(part("text", "see https://c.test")) == ()
    deep: Any = {"url": "https://deep.test"}
    for _ in range(50):
        deep = [deep]
    assert find_citations(deep) == ()
    assert len(find_citations([{"url": f"https://{n}.test"} for n in range(999)])) == 200


def test_an_unknown_block_has_a_name_and_its_json() -> None:
    odd = part_block("other", block={"type": "hologram", "size": 3})
    assert "hologram" in odd.text
    assert '"size": 3' in odd.text
    nasty = part_block("other", block={"type": NASTY})
    assert "script" not in {node.name for node in nasty.walk()}


def test_a_free_form_call_is_shown_as_text_and_edited_as_json() -> None:
    log = Log().start(settings(WEATHER)).prompt().request()
    log.add(PartStarted(0, "call", "get_weather"))
    log.add(PartEnded(0, 'print("hi")', "get_weather", meta={"type": "custom"})).end().check("1.0")
    live = Live(log.events)
    live.go(len(log.events))
    card = parse(block(ENV, live.view, "call-1-0"))
    code = next(n for n in card.walk() if n.attributes.get("class") == "code")
    assert code.text == 'print("hi")'
    field = next(n for n in card.walk() if n.attributes.get("name") == "arguments")
    assert json.loads(field.text) == {"input": 'print("hi")'}


def test_sources_stand_below_the_text_and_below_the_answer() -> None:
    text = part_block("text", "So.", block={"citations": [{"url": "https://a.test", "title": "A"}]})
    assert "1 source" in text.text
    log = Log().start().prompt().request().part(0, "text", "So.")
    grounding = {"groundingChunks": [{"web": {"uri": "https://b.test", "title": "B"}}]}
    log.add(ResponseEnded("stop", meta={"groundingMetadata": grounding}))
    live = Live(log.events)
    live.go(len(log.events))
    foot = parse(block(ENV, live.view, "turnfoot-1"))
    links = [node.attributes["href"] for node in foot.walk() if node.name == "a"]
    assert [link for link in links if "/fork?" not in link] == ["https://b.test"]


def test_a_part_that_grows_keeps_its_place() -> None:
    log = Log().start().prompt().request()
    log.add(PartStarted(0, "server_call", "web_search"), PartDelta(0, '{"q'))
    live = Live(log.events)
    live.go(len(log.events))
    growing = parse(block(ENV, live.view, "part-1-0")).find("text-1-0")
    assert growing is not None
    assert growing.text == '{"q'


@pytest.mark.parametrize(
    "kind", rest_slow(["text", "refusal", "thinking", "other", "server_call", "server_result"], 2)
)
def test_a_very_long_text_is_shown_in_portions(kind: PartKind) -> None:
    first = PORTION if kind in ("text", "refusal", "thinking") else 16_000
    total = first + PORTION + 5
    log = Log().start(settings(WEATHER)).prompt().request()
    log.add(PartStarted(0, kind), PartEnded(0, "é" * total)).end()
    shows_all_by_clicks("part-1-0", log, [first, first + PORTION, total])


def test_a_very_long_result_is_shown_in_portions() -> None:
    total = 16_000 + PORTION + 5
    log = turn_with_calls(("get_weather", {"city": "Paris"}), checked=False).check("1.1")
    log.add(CallDecided("1.1", "run", digest=DIGEST, fault="wrong_type"), CallStarted("1.1", 1))
    real = text_result("é" * total)
    log.add(CallEnded("1.1", replace(real, is_error=True, staged=True), real))
    for block_id in ("result-1-1", "real-1-1"):
        shows_all_by_clicks(block_id, log, [16_000, 16_000 + PORTION, total])


def test_what_a_background_call_came_to_is_shown_in_portions() -> None:
    total = 16_000 + PORTION + 5
    log = turn_with_calls(("get_weather", {"city": "Paris"}), checked=False).check("1.1")
    log.add(CallDecided("1.1", "run", digest=DIGEST), CallStarted("1.1", 1))
    log.add(TaskStarted("call-1-1", "1.1", "get_weather"))
    log.add(CallEnded("1.1", text_result("It goes on.")))
    log.add(TaskEnded("call-1-1", "completed", text_result("é" * total)))
    shows_all_by_clicks("later-1-1", log, [16_000, 16_000 + PORTION, total])
    live = Live(log.events)
    live.go(len(log.events))
    card = parse(block(ENV, live.view, "call-1-1"))
    assert card.find("later-1-1") is not None


def test_a_block_says_of_which_text_it_shows_how_much() -> None:
    """The page keeps what was opened of a text where as little of it as at first comes again."""
    rows: list[tuple[str, str]] = []
    for text, chosen in (
        ("a" * 20_000, {}),
        ("a" * 20_000, {"part-1-0": 18_000}),
        ("b" * 20_000, {}),
    ):
        log = Log().start(settings(WEATHER)).prompt().request()
        log.add(PartStarted(0, "other"), PartEnded(0, text)).end()
        live = Live(log.events)
        live.go(len(log.events))
        root = parse(block(ENV, replace(live.view, upto=chosen), "part-1-0")).find("part-1-0")
        assert root is not None
        rows.append((root.attributes["data-of"], root.attributes["data-shown"]))
    (first, few), (again, more), (other, _) = rows
    assert first == again != other
    assert (few, more) == ("16000", "18000")


def shows_all_by_clicks(block_id: str, log: Log, counts: list[int]) -> None:
    """The block shows so many characters after each click, and all of them in a file."""
    live = Live(log.events)
    live.go(len(log.events))
    for replayed in (False, True):
        view = replace(live.view, replay=replayed)
        for count in counts:
            drawn = parse(block(ENV, view, block_id))
            texts = ("code", "code json", "raw", "prose")
            text = next(n for n in drawn.walk() if n.attributes.get("class") in texts)
            assert text.text.count("é") == count
            links = [n.attributes for n in drawn.walk() if "hx-get" in n.attributes]
            assert bool(links) == (count < counts[-1])
            if links:
                query = parse_qs(urlsplit(links[0]["hx-get"]).query)
                assert ("at" in query) == replayed
                (spelled,) = parse_qs(urlsplit(links[0]["href"]).query)["upto"]
                upto = upto_from(spelled)
                assert upto == {block_id: int(query["upto"][0])}
                view = replace(view, upto=upto)
    for view in (
        replace(live.view, expanded=frozenset({block_id})),
        replace(live.view, live=False),  # a file holds everything
    ):
        full_block = parse(block(ENV, view, block_id))
        assert full_block.text.count("é") >= counts[-1]
        assert "how all" not in full_block.text
