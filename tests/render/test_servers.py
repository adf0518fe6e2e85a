"""The pages of MCP servers as values: the editor's fields, hidden characters, differences."""

from __future__ import annotations

import shlex

import pytest

from playground.core.servers import Server
from playground.core.tools import Tool
from playground.engine.servers import OfferedTool
from playground.executors.mcp.connection import ListedTool
from playground.web.servers import difference, hidden_characters, server_form


def test_the_editor_shows_a_server_as_it_is_kept() -> None:
    words = ("-y", "two words", "it's", "", "${NAME}")
    form = server_form(Server("s", "npx", words, {"A": "b=c"}, "/home/me"))
    assert shlex.split(form.line) == ["npx", *words]
    assert (form.env, form.cwd, form.url, form.private) == ("A=b=c", "/home/me", "", False)
    far = server_form(Server("s", url="http://x", headers={"a": "b: c"}, private=True))
    assert (far.line, far.headers, far.url, far.private) == ("", "a: b: c", "http://x", True)


@pytest.mark.parametrize(
    ("server", "count"),
    [
        (Server("s", "npx", ("-y", "a b")), 0),
        (Server("s", "n\u200bpx", ("a\u202e", "b\nc")), 3),
        (Server("s", "npx", env={"A\u200b": "\u00a0"}, cwd="/\u2009"), 3),
        (Server("s", url="http://x/\u200b", headers={"a": "\u200b"}), 2),
    ],
)
def test_hidden_characters_are_counted_wherever_they_are(server: Server, count: int) -> None:
    assert hidden_characters(server) == count


def test_a_difference_is_of_what_a_model_is_told() -> None:
    own = Tool("t", "Reads.\nA file.", {"type": "object"})
    now = ListedTool("t", "", "Reads.\nAll files.", {"type": "object", "x": 1})
    lines = difference(OfferedTool("t", "changed", now, own))
    signed = [line for line in lines if line[0] != " "]
    assert signed == [
        ("-", "A file."),
        ("+", "All files."),
        ("-", '  "type": "object"'),
        ("+", '  "type": "object",'),
        ("+", '  "x": 1'),
    ]
    assert (" ", "Reads.") in lines
    alone = difference(OfferedTool("t", "changed", now, None))
    assert {line[0] for line in alone} == {"+"}
