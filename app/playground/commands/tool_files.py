"""A file with tools as a command reads it, which every command does in the same way."""

from __future__ import annotations

import os
from pathlib import Path

from playground import config
from playground.exchange.tool_entry import ImportedTools
from playground.exchange.tool_import import import_tools


def read_tool_file(path: Path, most: int, *, plain: bool = False) -> tuple[ImportedTools, str]:
    """The tools of a file of at most `most` bytes, and its text. Relative paths in it are relative
    to its folder. `plain` refuses a pipe.

    OSError or UnicodeDecodeError if it cannot be read. What is wrong with its tools is in these.
    """
    text = config.read_file(path, most, plain=plain).decode("utf-8-sig")
    # Only an absolute path says what the paths in the file are relative to.
    return import_tools(text, os.path.abspath(path)), text
