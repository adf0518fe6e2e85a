"""Which commands are known to read: only what is plainly so."""

from __future__ import annotations

import pytest

from playground.executors.workspace.shell import reads_only


@pytest.mark.parametrize(
    "command",
    [
        *("ls", "ls -la src", "  pwd ", "cat a.txt b/c.txt", "head -n 5 a", "tail -f x", "wc -l a"),
        *(
            "grep -rn 'two words' src",
            'grep "a b" x',
            "grep --include=*.py".replace("*", "a"),
            "echo hi",
        ),
        *("find . -name '*.py' -size +1k", "find . -type f"),
    ],
)
def test_reads(command: str) -> None:
    assert reads_only(command)


@pytest.mark.parametrize(
    "command",
    [
        *("", " ", "rm a", "lsx", "./ls", "/bin/ls", "LS=1 ls", "sed -n 1p a", "awk 1 a", "sort a"),
        *("ls > x", "ls>x", "ls >> x", "ls; rm a", "ls && rm a", "ls || rm a", "ls & rm a"),
        *("ls | tee x", "cat <a", "cat $(rm a)", "cat `rm a`", 'cat "$(rm a)"', 'cat "`rm a`"'),
        *(
            "ls\nrm a",
            "ls\rrm a",
            "cat $HOME",
            "cat ${X}",
            "cat {a,b}",
            "cat *",
            "find *",
            "cat a\\ b",
        ),
        *(
            "(ls)",
            "! ls",
            "ls #x",
            "'ls",
            'ls "a',
            "l's'",
            "ls\trm",
            "echo ~",
            "cat a[b]",
            "cat a?",
        ),
        *("find . -delete", "find . -exec rm {} +", "find . '-delete'", 'find . "-exec" rm'),
        *(
            "find . -ok rm",
            "find . -execdir rm",
            "find . -fprint x",
            "find . -fprintf x y",
            "find . -fls x",
        ),
        *("find . -del'ete'", 'find . -d"elete"', "ls \u00e9\u2028rm"),
    ],
)
def test_may_write(command: str) -> None:
    assert not reads_only(command)
