"""Which shell commands are known to read only: one plain command of a short list.

The parser is strict on purpose: what it does not understand may write. Knows no shell.
"""

from __future__ import annotations

import re

READS = frozenset({"ls", "cat", "head", "tail", "wc", "grep", "find", "pwd", "echo"})

_WORD = re.compile(r"""(?:[A-Za-z0-9_./,:@%+-][A-Za-z0-9_./,:@%+=-]*|'[^'\n]*'|"[^"$`\\!\n]*")+""")
_ACTS = ("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from")


def reads_only(command: str) -> bool:
    """Whether the command can be seen to change nothing."""
    words = _split(command)
    if not words or words[0] not in READS:
        return False
    return words[0] != "find" or not any(_bare(word).startswith(_ACTS) for word in words[1:])


def _split(command: str) -> list[str]:
    """The words of a command of plain and quoted words alone, or [] where it has anything else."""
    words: list[str] = []
    place = 0
    text = command.strip(" ")
    while place < len(text):
        if text[place] == " ":
            place += 1
            continue
        found = _WORD.match(text, place)
        if found is None:
            return []
        words.append(found[0])
        place = found.end()
        if place < len(text) and text[place] != " ":
            return []
    return words


def _bare(word: str) -> str:
    return word.replace("'", "").replace('"', "")
