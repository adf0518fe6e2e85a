from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from playground.core.events import RequestSent, ResponseFailed
from playground.core.tools import Content, ToolResult
from playground.exchange.markdown import _json, code, escape, fenced, write
from tests.exchange.asking import Kind, weather
from tests.simulator.talking import IMAGE

NASTY = "<script>x</script>\n```\n# Head\n````\n![i](http://x.test/i)\n~~~\n<b>&lt;[a](b)"


def read(text: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)


def kinds(tokens: Sequence[Token]) -> set[str]:
    inner = [child for token in tokens for child in token.children or []]
    return {token.type for token in [*tokens, *inner]}


def test_a_session_reads_from_top_to_bottom() -> None:
    text = write(weather("anthropic", system="Be brief.").bundle("A <b>title</b>")).data.decode()
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        r"# A \<b\>title\</b\>",
        "## System prompt",
        "## Prompt 1",
        "## Turn 1",
        "### Call 1.1: `get_weather`",
        "## Turn 2",
    ]
    for words in ("11 degrees", "Run by the user", '"city": "Paris"', "input and", "UTC"):
        assert words in text


def test_nothing_that_was_said_is_markup() -> None:
    kind = Kind("anthropic", system=NASTY)
    kind.prompt(NASTY + " What is the weather in Paris?", IMAGE)
    kind.turn()
    kind.results([ToolResult((Content("text", NASTY), IMAGE), is_error=True)])
    sent = RequestSent(
        2,
        protocol="anthropic",
        method="POST",
        url="http://x.test",
        headers={},
        body="{}",
        model=NASTY,
    )
    kind.log.add(sent, ResponseFailed("http", NASTY, status=500))
    export_file = write(kind.bundle(NASTY))
    tokens = read(export_file.data.decode())
    assert not kinds(tokens) & {"html_block", "html_inline", "link_open", "image"}
    assert [token.content for token in tokens if token.type == "fence"].count(NASTY + "\n") == 3
    assert export_file.notes == ("Images are named, not shown.",)
    assert "Result, an error:" in export_file.data.decode()


@settings(derandomize=True, max_examples=25)
@example("`")
@example("``` \n```")
@example(" ")
@given(st.text(st.sampled_from("`~<>&!*_[]()#-=|\\ \na1:/."), max_size=24))
def test_a_fence_a_span_and_a_line_hold_any_text(text: str) -> None:
    fence = read(fenced(text))
    assert [(token.type, token.content) for token in fence] == [("fence", text + "\n")]
    line = " ".join(text.split())
    span = read(f"x {code(text)} y")
    assert kinds(span) <= {"paragraph_open", "paragraph_close", "inline", "text", "code_inline"}
    assert [c.content for c in span[1].children or [] if c.type == "code_inline"] == (
        [line] if line else []
    )
    words = read(f"x{escape(text)}")
    assert "".join(c.content for c in words[1].children or []) == f"x{line}"


@pytest.mark.parametrize("written", ['{"a": 1e400}', '{"a":1.10}', '{"a": 1, "a": 2}', "[", ""])
def test_arguments_keep_their_digits(written: str) -> None:
    kind = Kind("anthropic")
    kind.prompt("x")
    kind.log.request().call(0, "get_weather", written).end()
    assert f"```\n{written}\n```" in write(kind.bundle()).data.decode().replace("```json", "```")


@pytest.mark.slow
def test_arguments_nested_deep_stand_as_they_came() -> None:
    for depth in (500, *range(900, 1000, 10), 3000):
        deep = '{"x":' * depth + "1" + "}" * depth
        assert "".join(_json(deep)[0].split()) == deep
