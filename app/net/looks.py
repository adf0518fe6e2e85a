"""How keys look and what they are called: one list for what is imported and for what leaves.

Pure, and knows no key.
"""

from __future__ import annotations

import re
from itertools import pairwise

_MIXED = r"(?=[A-Za-z0-9_-]*[0-9])"
_MAKES: tuple[tuple[str, str], ...] = (
    # What a key of this make begins with, and what follows it.
    (r"(?:sk|rk|pk)[-_]", rf"{_MIXED}[A-Za-z0-9_-]{{16,}}"),  # OpenAI, Anthropic, Stripe
    (r"gh[pousr]_", r"[A-Za-z0-9]{20,}"),
    (r"github_pat_", r"[A-Za-z0-9_]{20,}"),
    (r"glpat-", r"[A-Za-z0-9_-]{16,}"),
    (r"(?:AKIA|ASIA)", r"[A-Z0-9]{16}"),
    (r"AIza", r"[A-Za-z0-9_-]{30,}"),
    (r"ya29\.", r"[A-Za-z0-9_-]{20,}"),
    (r"GOCSPX-", r"[A-Za-z0-9_-]{20,}"),
    (r"xox[abeoprs]-", r"[A-Za-z0-9-]{10,}"),
    (r"xapp-", r"[A-Za-z0-9-]{10,}"),
    (r"(?:hf|gsk|npm|r8|tgp_v1|fw|ntn|figd|lin_api)_", rf"{_MIXED}[A-Za-z0-9_-]{{20,}}"),
    (r"(?:shp(?:at|ca|pa|ss)|whsec|do[opr]_v1)_", rf"{_MIXED}[A-Za-z0-9+/=_-]{{20,}}"),
    (r"(?:xai|pplx|nvapi|pypi|csk|tvly)-", rf"{_MIXED}[A-Za-z0-9_-]{{20,}}"),
    (r"SG\.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    (r"eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
)
MAKE = "|".join(begins + follows for begins, follows in _MAKES)
"""A pattern of a whole key of a known make; plain words are none."""

BEGINS = "|".join(begins for begins, _ in _MAKES)
"""A pattern of what such a key begins with."""

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
