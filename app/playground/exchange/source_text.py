"""What kind of text something is: the code blocks of Markdown, and the language of source code."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

MARKDOWN = (".md", ".markdown", ".mdx", ".mdc")
"""Endings of Markdown files."""

_FENCE = re.compile(r"[ \t]*(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?)\n---[ \t]*\r?(?:\n|\Z)", re.DOTALL)
_SERVERS = re.compile(r"(?m)^mcp[-_]?[sS]ervers:")
_LANGUAGES: Mapping[str, str] = {
    **dict.fromkeys((".ts", ".tsx", ".mts", ".cts"), "TypeScript"),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), "JavaScript"),
    **{".go": "Go", ".rs": "Rust", ".java": "Java", ".kt": "Kotlin", ".kts": "Kotlin"},
    **{".cs": "C#", ".rb": "Ruby", ".php": "PHP", ".swift": "Swift", ".scala": "Scala"},
    **{".c": "C", ".h": "C", ".cpp": "C++", ".cc": "C++", ".hpp": "C++", ".dart": "Dart"},
    **{".lua": "Lua", ".ex": "Elixir", ".exs": "Elixir", ".sh": "a shell script"},
}
"""Languages by the endings of their files."""

_BY_CONTENT: Mapping[str, re.Pattern[str]] = {
    "Go": re.compile(r"(?m)^package \w+[ \t]*$"),
    "Java": re.compile(r"(?m)^(?:package [\w.]+|import (?:static )?[\w.]+(?:\.\*)?)[ \t]*;"),
    "C#": re.compile(r"(?m)^(?:using [\w.]+;|namespace [\w.]+)"),
    "Rust": re.compile(r"(?m)^(?:use [\w:]+.*;|(?:pub )?(?:async )?fn \w+|#\[\w+)"),
    "C": re.compile(r"(?m)^#include[ \t]*[<\"]"),
    "a shell script": re.compile(r"\A#!.*\b(?:ba|z|da|k)?sh\b"),
    "TypeScript": re.compile(
        r"(?m)^(?:import type |(?:export |declare |abstract )+(?:interface|type|enum|namespace) "
        r"|interface \w+.*\{|type \w+ *=)"
    ),
    "JavaScript or TypeScript": re.compile(
        r"(?m)^(?:(?:import|export|\})[^\n\"']*\bfrom *[\"']|import *[\"']"
        r"|export (?:default|const|let|async|function|class) |(?:const|let|var) [\w${\[].*="
        r"|(?:async )?function[ *]+\w* *\(|(?:module\.)?exports(?:\.\w+)? *=)"
    ),
}
"""Lines that only one language has; those of two languages come last."""
_MOST_LOOKED = 64 * 1024


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block of Markdown: its text, and the number of its first line, from 1."""

    text: str
    line: int


def code_blocks(text: str) -> list[CodeBlock]:
    """The fenced blocks of Markdown, in order; the last may be open. The front matter of an agent
    is a block, too, if it has MCP servers.
    https://spec.commonmark.org/0.31.2/#fenced-code-blocks
    """
    blocks: list[CodeBlock] = []
    front = _FRONT_MATTER.match(text)
    if front and _SERVERS.search(front[1]):
        blocks.append(CodeBlock(front[1], 2))
    fence, indent, first, inside = "", 0, 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        match = _FENCE.match(line.rstrip("\r"))
        if not fence:
            if match:
                fence, first, inside = match["fence"], number + 1, []
                indent = len(line) - len(line.lstrip())
        elif match and not match["info"].strip() and match["fence"].startswith(fence):
            blocks.append(CodeBlock("\n".join(inside), first))
            fence = ""
        else:
            margin = len(line) - len(line.lstrip(" \t"))
            inside.append(line[min(indent, margin) :])
    if fence:
        blocks.append(CodeBlock("\n".join(inside), first))
    return blocks


def language_by_ending(name: str) -> str:
    """The language of a file with this name, "" if it is none of those or Python."""
    return _LANGUAGES.get(posixpath.splitext(name.lower())[1], "")


def language_by_content(text: str) -> str:
    """The language that `text` is clearly written in, "" for any other text. Python is not looked
    for: its own parser decides."""
    start = text[:_MOST_LOOKED]
    return next((name for name, line in _BY_CONTENT.items() if line.search(start)), "")
