"""Patterns of secrets: how keys look and what they are called, for what comes in and goes out.

Pure, and knows no key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# What keys of these makes begin with, and a pattern of what follows it.
_SURE: tuple[tuple[str, str], ...] = (
    ("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}"),
    ("github_pat_", r"[A-Za-z0-9_]{20,}"),
    ("glpat-", r"[A-Za-z0-9_-]{16,}"),
    ("AKIA ASIA", r"[A-Z0-9]{16}"),
    ("AIza", r"[A-Za-z0-9_-]{30,}"),
    ("ya29. GOCSPX-", r"[A-Za-z0-9_-]{20,}"),
    ("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"[A-Za-z0-9-]{10,}"),
    ("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
)
# The same of those that names of functions, tables and styles begin with, too.
_LIKE_NAMES: tuple[tuple[str, str], ...] = (
    ("sk- sk_ rk- rk_ pk- pk_", r"[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, Stripe
    ("hf_ gsk_ npm_ r8_ tgp_v1_", r"[A-Za-z0-9_-]{20,}"),
    ("fw_ ntn_ figd_ lin_api_", r"[A-Za-z0-9_-]{20,}"),
    ("shpat_ shpca_ shppa_ shpss_ whsec_", r"[A-Za-z0-9+/=_-]{20,}"),
    ("dop_v1_ doo_v1_ dor_v1_", r"[A-Za-z0-9]{20,}"),
    ("xai- pplx- nvapi- pypi- csk- tvly-", r"[A-Za-z0-9_-]{20,}"),
)
BEGINS = tuple(begins for several, _ in (*_SURE, *_LIKE_NAMES) for begins in several.split())
"""What a key of a known make begins with."""

# Each begins with letters as they are, for these are found many times as fast as a pattern.
_KEYS = tuple(
    (
        begins,
        table is _LIKE_NAMES,
        re.compile(f"{(as_is := re.escape(begins))}(?<![A-Za-z0-9_/+-]{as_is}){follows}"),
    )
    for table in (_SURE, _LIKE_NAMES)
    for several, follows in table
    for begins in several.split()
)


def find_keys(text: str) -> Iterator[tuple[int, int]]:
    """Where keys of known makes stand in `text`; plain words are none."""
    for begins, like_names, key in _KEYS:
        if begins in text:
            matches = key.finditer(text)
            yield from (
                match.span()
                for match in matches
                if not like_names or _is_random(match[0][len(begins) :])
            )


_RUN = re.compile("[A-Za-z0-9]+")
_TURN = re.compile("[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")


def _is_random(value: str) -> bool:
    """Whether a value was drawn by lot: letters and digits in one another, or a long run of small
    and large ones. Names that are put together of words and numbers are not."""
    runs = _RUN.findall(value)
    return len(_TURN.findall(value)) >= 3 or any(
        (any(letter.isdigit() for letter in run) or not (run.islower() or run.isupper()))
        if len(run) >= 16
        else len(run) >= 8 and run.isalnum() and not run.isdigit() and _digits(run) >= 3
        for run in runs
    )


def _digits(value: str) -> int:
    return sum(letter.isdigit() for letter in value)
