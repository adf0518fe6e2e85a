"""How keys look and what they are called: one list for what is imported and for what leaves.

Pure, and knows no key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_MIXED = r"(?=[A-Za-z0-9_-]*[0-9])"
_MAKES: tuple[tuple[str, str], ...] = (
    # What keys of these makes begin with, and a pattern of what follows it.
    ("sk- sk_ rk- rk_ pk- pk_", rf"{_MIXED}[A-Za-z0-9_-]{{16,}}"),  # OpenAI, Anthropic, Stripe
    ("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}"),
    ("github_pat_", r"[A-Za-z0-9_]{20,}"),
    ("glpat-", r"[A-Za-z0-9_-]{16,}"),
    ("AKIA ASIA", r"[A-Z0-9]{16}"),
    ("AIza", r"[A-Za-z0-9_-]{30,}"),
    ("ya29. GOCSPX-", r"[A-Za-z0-9_-]{20,}"),
    ("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"[A-Za-z0-9-]{10,}"),
    ("hf_ gsk_ npm_ r8_ tgp_v1_", r"[A-Za-z0-9_-]{20,}"),
    ("fw_ ntn_ figd_ lin_api_", rf"{_MIXED}[A-Za-z0-9_-]{{20,}}"),
    ("shpat_ shpca_ shppa_ shpss_ whsec_", rf"{_MIXED}[A-Za-z0-9+/=_-]{{20,}}"),
    ("dop_v1_ doo_v1_ dor_v1_", rf"{_MIXED}[A-Za-z0-9]{{20,}}"),
    ("xai- pplx- nvapi- pypi- csk- tvly-", rf"{_MIXED}[A-Za-z0-9_-]{{20,}}"),
    ("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
)
BEGINS = tuple(begins for several, _ in _MAKES for begins in several.split())
"""What a key of a known make begins with."""

# Each begins with letters as they are, for these are found many times as fast as a pattern.
_KEYS = tuple(
    (begins, re.compile(f"{(as_is := re.escape(begins))}(?<![A-Za-z0-9_/+-]{as_is}){follows}"))
    for several, follows in _MAKES
    for begins in several.split()
)


def keys(text: str) -> Iterator[tuple[int, int]]:
    """Where keys of known makes stand in `text`; plain words are none."""
    for begins, key in _KEYS:
        if begins in text:
            yield from (one.span() for one in key.finditer(text))


SECRET_NAME = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie2?|.*(?:api|access|secret)[-_]?key(?:[-_]?id)?"
    r"|.*[-_](?:token|secret)|.*(?:secret|passw(?:or)?d|passphrase|credentials?)",
    re.I,
)
"""Names of headers, and of fields like them, whose values are nobody's to read."""

_LIKE_SECRET_NAME = re.compile(
    r"(?!.*(?:idempotency|cache|public|primary|foreign|sort|partition)[-_]?key)"
    r"(?:.*[-_.])?(?:[a-z]*(?:key|token)|auth|authori[sz]ation|authentication|jwt|bearer|pwd"
    r"|assertion|sig|session(?:[-_]?id)?|sid|code)",
    re.I,
)

_WORDS = re.compile("[A-Za-z]+|[0-9]+")


def opaque(value: str) -> bool:
    """Whether a value is made of what only a machine reads: no words, numbers or sentences."""
    if len(value) < 8 or any(one.isspace() or one in "<>{}$" for one in value[:200]):
        return False
    if _WORDS.fullmatch(value):
        changes = sum(a.islower() != b.islower() for a, b in pairwise(value))
        return len(value) >= 20 and changes * 5 >= len(value) * 2  # more than CamelCase has
    return any(one.isdigit() for one in value) and any(one.isalpha() for one in value)


def is_secret(name: str, value: str) -> bool:
    """Whether `value` of a header or a query's member `name` is a secret: by its name alone, or
    for a name that may be a harmless one also by its looks."""
    if SECRET_NAME.fullmatch(name):
        return True
    return _LIKE_SECRET_NAME.fullmatch(name) is not None and opaque(value)
