"""A request as a curl command, to the byte, for any POSIX shell.

Everything stands in single quotes, within which a shell reads nothing; only the key's own variable
stands outside of them.
"""

from __future__ import annotations

import base64
import re

from app.exchange.bundle import ExportFile, SessionBundle
from app.exchange.naming import comment_text, file_name
from app.exchange.requests_export import ExportedRequest, keyed, of_turn, sent_turns

MOST_WORD = 100_000
"""Bytes; a system takes no longer word on a command line."""

_GLOB = re.compile(r"[][{}]")
"""What curl takes for several addresses, unless it is told `-g`."""
_UNSEEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal would act on, and not show."""


def write_curl(kept: SessionBundle) -> ExportFile:
    """Every request of the session, one command each."""
    turns = sent_turns(kept.session)
    asked = [of_turn(turn, kept.base_url) for turn in turns]
    notes = list(dict.fromkeys(note for one in asked for note in one.notes))
    lines = [
        "#!/bin/sh",
        *(f"# {comment_text(one)}" for one in (kept.title or "A session", *notes)),
    ]
    for one in asked:
        lines += ["", f"# Request {one.number}", curl_command(one)]
    if not asked:
        lines.append("# Nothing was sent yet.")
    text = "\n".join(lines) + "\n"
    data = text.encode("utf-8", "replace")
    return ExportFile(file_name(kept.title, "sh"), "application/x-sh", data, notes)


def curl_command(asked: ExportedRequest) -> str:
    """The command; what it sends is `asked.body` in UTF-8, byte by byte."""
    said = ["curl"]
    if _GLOB.search(asked.url):
        said.append("-g")
    if asked.method != "POST":
        said.append(f"-X {shell_quote(asked.method)}")
    if asked.url.startswith("-"):
        said.append("--url")
    words = [" ".join([*said, shell_quote(asked.url)])]
    if asked.streams:
        words.append("--no-buffer")
    for name, value in asked.headers.items():
        if keyed(value, asked.key_name):
            bare = value.partition("$")[0]
            words.append(f'-H {shell_quote(f"{name}: {bare}")}"${asked.key_name}"')
        else:
            # A header without a value is asked for by a semicolon.
            words.append(f"-H {shell_quote(f'{name}: {value}' if value else f'{name};')}")
    body = asked.body.encode("utf-8", "replace")
    if _UNSEEN.search(asked.body):
        coded = base64.b64encode(body).decode("ascii")
        piped, sent = f"printf %s {shell_quote(coded)} | base64 -d | ", "--data-binary @-"
    elif len(body) > MOST_WORD:
        # printf is part of the shell, and takes a word of any length.
        piped, sent = f"printf %s {shell_quote(asked.body)} | ", "--data-binary @-"
    else:
        piped, sent = "", f"--data-raw {shell_quote(asked.body)}"
    return piped + " \\\n  ".join([*words, sent])


def shell_quote(text: str) -> str:
    """One word of a POSIX shell, whatever is in it."""
    return "'" + text.replace("\x00", "").replace("'", "'\\''") + "'"
