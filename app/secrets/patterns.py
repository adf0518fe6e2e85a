"""Patterns of secrets: how keys look and what they are called, for what comes in and goes out.

Pure, and knows no key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple


class KeyShape(NamedTuple):
    """Keys of some makes: what they begin with, several apart by spaces, and a pattern of what
    follows in texts ("" where they are not looked for there). `place` is where they are looked for,
    and how:

    - "anywhere": in any text;
    - "random": there too, but names of functions, tables and styles begin so as well: what follows
      must have been drawn by lot;
    - "config": in values of configurations alone, for in texts too much begins so.

    What is `sure` is a key there even where words follow.
    """

    begins: str
    follows: str
    place: Literal["anywhere", "random", "config"] = "anywhere"
    sure: bool = False


_ANY = r"[A-Za-z0-9_-]{20,}"
KEY_SHAPES: tuple[KeyShape, ...] = (
    KeyShape("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}", sure=True),
    KeyShape("github_pat_", r"[A-Za-z0-9_]{20,}", sure=True),
    KeyShape("glpat-", r"[A-Za-z0-9_-]{16,}", sure=True),
    KeyShape("AKIA ASIA", r"[A-Z0-9]{16}"),
    KeyShape("AIza", r"[A-Za-z0-9_-]{30,}"),
    KeyShape("ya29. GOCSPX-", _ANY),
    KeyShape("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", r"[A-Za-z0-9-]{10,}", sure=True),
    KeyShape("xapp-", r"[A-Za-z0-9-]{10,}"),
    KeyShape("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    KeyShape("eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    # OpenAI, Anthropic, Stripe
    KeyShape("sk- sk_ rk- rk_ pk- pk_", r"[A-Za-z0-9_-]{16,}", "random"),
    KeyShape("hf_ gsk_ npm_ r8_ tgp_v1_", _ANY, "random"),
    KeyShape("fw_ ntn_ figd_ lin_api_", _ANY, "random"),
    KeyShape("shpat_ shpca_ shppa_ shpss_ whsec_", r"[A-Za-z0-9+/=_-]{20,}", "random"),
    KeyShape("dop_v1_ doo_v1_ dor_v1_", r"[A-Za-z0-9]{20,}", "random"),
    KeyShape("xai- pplx- nvapi- pypi- csk- tvly-", _ANY, "random"),
    KeyShape("sbp_ sb_secret_ secret_ dapi glsa_ fc- ctx7sk- apify_api_ tskey-", "", "config"),
    KeyShape("rnd_ nfp_ dckr_pat_ ATATT hvs. ops_ e2b_ jina_ key- ocpat_", "", "config"),
)
BEGINS = tuple(begins for shape in KEY_SHAPES for begins in shape.begins.split())
"""What a key of a known make begins with."""
SURE_BEGINS = (
    *(begins for shape in KEY_SHAPES if shape.sure for begins in shape.begins.split()),
    "sk-ant-",
)

# Each begins with letters as they are, for these are found many times as fast as a pattern.
_KEYS = tuple(
    (
        begins,
        shape.place == "random",
        re.compile(f"{(as_is := re.escape(begins))}(?<![A-Za-z0-9_/+-]{as_is}){shape.follows}"),
    )
    for shape in KEY_SHAPES
    if shape.place != "config"
    for begins in shape.begins.split()
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


_CREDENTIALS = r"(?i:\b(?:bearer|basic|token)\s+\S)"
_JUMBLE = r"(?=[A-Za-z+/=_]*\d)(?=[\d+/=_]*[A-Za-z])[A-Za-z0-9+/=_]{32,}"


def may_be_key(value: str) -> bool:
    """Whether a header's value could be a key: it is behind a scheme of credentials, begins as keys
    do, or is a long jumble. Rather once too often: what is refused can be named by a variable."""
    return re.search(f"{_CREDENTIALS}|{_JUMBLE}", value) is not None or any(
        re.search(rf"(?<![A-Za-z0-9]){re.escape(begins)}[-_.A-Za-z0-9]{{12,}}", value)
        for begins, _, _ in _KEYS
        if begins in value
    )
