"""Literal values that may be a key, and the name of a variable put in their place.

Knows no key: it goes by names and by looks, and takes too many rather than too few.
"""

from __future__ import annotations

import re

from app.net.looks import BEGINS

_NAME = re.compile(r"key|token|secret|passw|pwd|auth|credential|cookie|session|bearer|sig", re.I)
_PREFIX = re.compile(
    rf"(?:{'|'.join(map(re.escape, BEGINS))}|(?:secret|key)[-_.])[-_.A-Za-z0-9]{{8,}}"
)
_HARMLESS = re.compile(
    r"(?i:true|false|yes|no|on|off|info|debug|error|warn|warning|production|development|stdio|test)"
    r"|[0-9.]{1,12}|[a-z]{1,12}|(?:/|~/|\./|[A-Za-z]:\\)[^\s?#=]{0,400}"
    r"|https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?"
)
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_QUERY = re.compile(r"([?&;])([^=&#]*)=([^&#]*)")
_USER = re.compile(r"^([a-z]+://)[^/@]*@", re.I)
_LONG = re.compile(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[A-Za-z0-9_+/=.-]{24,}")


def is_reference(value: str) -> bool:
    """Whether a value says nothing but the names of variables (and words like Bearer)."""
    rest = _REFERENCE.sub("", value)
    return rest != value and re.fullmatch(r"(?i:bearer|basic|token)?[\s:]*", rest) is not None


def may_be_key(name: str, value: str) -> bool:
    """Whether a literal value of a variable or a header may be a secret."""
    if not value or is_reference(value):
        return False
    if _NAME.search(name) or _PREFIX.search(value):
        return True
    return _HARMLESS.fullmatch(value) is None


def in_word(value: str) -> bool:
    """Whether an argument of a command shows a secret by its looks alone."""
    return bool(_PREFIX.search(value) or _LONG.fullmatch(value)) and "/" not in value


def names_key(flag: str) -> bool:
    """Whether the word before or in an argument says that a secret follows."""
    return bool(_NAME.search(flag))


def variable(*words: str) -> str:
    """The name of a key's variable made of words: ("my-server", "X-Key") is MY_SERVER_X_KEY."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(words)).strip("_").upper()[:64]
    name = name if any(word in name for word in ("KEY", "TOKEN", "SECRET")) else f"{name}_KEY"
    return name if not name[0].isdigit() else f"MY_{name}"


def reference(value: str, name: str) -> str:
    """`${NAME}` in the place of `value`, behind the scheme that a header may begin with."""
    scheme = re.match(r"(?i:bearer|basic|token) +", value)
    return f"{scheme[0] if scheme else ''}${{{name}}}"


def url_without(url: str, name: str) -> str:
    """`url` with a user and the values of suspicious query members replaced by `${NAME}`."""

    def member(match: re.Match[str]) -> str:
        if may_be_key(match[2], match[3]):
            return f"{match[1]}{match[2]}=${{{name}}}"
        return match[0]

    return _QUERY.sub(member, _USER.sub(rf"\g<1>${{{name}}}@", url))
