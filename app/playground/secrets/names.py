"""Names of secrets: headers, query parameters, variables. Pure; does not know any secret."""

from __future__ import annotations

import re
from itertools import pairwise

# Patterns of whole names; compiled on first use, which a start does not need.
_PAGE = r"(?!.*(?:page|next|continuation|sync|cursor)[-_]?token)"
"""Pagination tokens are not secrets."""

_SECRET_NAME = (
    rf"{_PAGE}(?:(?:proxy-)?authorization|(?:set-)?cookie2?|.*(?:api|access|secret)[-_]?key(?:[-_]?id)?"
    r"|.*[-_](?:token|secret)|.*(?:secret|passw(?:or)?d|passphrase|credentials?))"
)
"""Names of headers and similar fields whose values are always secret."""

_LIKE_SECRET_NAME = (
    rf"{_PAGE}(?!.*(?:idempotency|cache|public|primary|foreign|sort|partition)[-_]?key)"
    r"(?:.*[-_.])?(?:[a-z]*(?:key|token)|auth|authori[sz]ation|authentication|jwt|bearer|pwd"
    r"|assertion|sig|session(?:[-_]?id)?|sid)"
    r"|(?:(?:.*[-_.])?(?:auth[a-z]*|access|device|verification|user)[-_.]?)?code"
)

_WORD = re.compile("[A-Za-z]+|[0-9]+")

LONG = 16
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?![0-9A-Za-z])|\d{4}-\d\d-\d\dT\d\d")

NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_COMPOUND = (
    r".*(?:token|secret|password|passwd|passphrase)"
    r"|.*(?:api|access|secret|private|auth|master|license|service|app|account|user|client|admin)key"
)

_KIND = r"(?i:bearer|basic|digest|token|api[-_ ]?key|oauth ?2?)|[a-z][a-z_-]{0,24}"
"""Values of `auth` and similar names that only name the scheme."""

_OPAQUE = "0a1B2c3D4e5F6g7H8i9J"


def is_opaque(value: str) -> bool:
    """Whether a value is machine-readable only: no words, numbers or sentences."""
    if len(value) < 8 or any(letter.isspace() or letter in "<>{}$" for letter in value[:200]):
        return False
    if _WORD.fullmatch(value.rstrip("=")):
        changes = sum(a.islower() != b.islower() for a, b in pairwise(value))
        least = 20 if value[-1] != "=" else 12
        return len(value) >= least and changes * 5 >= len(value) * 2  # more than in CamelCase
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_long_opaque(value: str) -> bool:
    """Same, and too long to be accidental. Dates are excluded."""
    return len(value) >= LONG and is_opaque(value) and not _DATE.match(value)


def is_secret(name: str, value: str) -> bool:
    """Whether `value` of a header or query parameter `name` is a secret: by its name alone, or, for
    ambiguous names, also by its looks."""
    if re.fullmatch(_SECRET_NAME, name, re.I):
        return True
    return is_long_opaque(value) and bool(re.fullmatch(_LIKE_SECRET_NAME, name, re.I))


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STRONG = word_set(
    "token secret secrets password passwords passwd passphrase passcode credential "
    "credentials creds authorization bearer mnemonic"
)
"""Words that denote a secret anywhere in a name."""
_LAST = word_set("pass pwd pw pat jwt auth cookie cookies psk")
"""Words that denote a secret only at the end of a name."""
_WEAK = word_set("session sid sig signature code nonce salt seed webhook")
"""Words of a name that denote a secret only if the value looks like a key."""
_NO_KEY = word_set(
    "public primary foreign sort partition cache idempotency project issue space host object "
    "registry index map hot short feature file lookup group row column dedup routing press "
    "answer"
)
"""Words before a "key" that is not a secret: a primary key, the key of a project."""
_NO_TOKEN = word_set(
    "max min minimum maximum num number total page next sync continuation cursor no disable "
    "without skip require use csrf"
)
_ABOUT = word_set(
    "file files path paths dir directory folder location url uri endpoint host port domain "
    "name names type types mode method header headers prefix suffix provider providers "
    "enabled disabled required timeout ttl expiry expires expiration lifetime limit limits "
    "max min size count length budget usage scope scopes env var variable format algorithm "
    "alg region manager store storage backend server service user username email id ids "
    "rotation policy source helper command cmd audience issuer from through version engine "
    "cache strategy flow callback redirect "
    "vault pair ring space address addresses contract symbol decimals list arn"
)
"""Words after such a word if the value is about a key instead of a key."""
_ITSELF = word_set(
    "value string text raw plain hex base64 b64 encoded json prod production dev development "
    "staging stage test testing live sandbox main primary secondary backup old new default "
    "here v"
)


def names_key(name: str, value: str) -> bool:
    """Whether `name` says that `value` is a key: a whole word denotes one, and no following word
    says that the value is only about it."""
    words = [word.lower() for word in NAME_WORDS.findall(name)]
    places = [place for place in range(len(words)) if _is_key_word(words, place)]
    if not places:
        weak = bool(words) and (words[-1] in _WEAK or words[-2:] in (["session", "id"],))
        return weak and is_long_opaque(value)
    last, after = words[places[-1]], words[places[-1] + 1 :]
    if after == ["id"]:
        return last in ("key", "accesskey") and is_opaque(value)
    if any(word in _ABOUT for word in after):
        return False
    if last in ("auth", "bearer", "credential", "credentials", "creds", "cookie", "cookies"):
        return not re.fullmatch(_KIND, value)
    return all(word in _ITSELF or word.isdigit() for word in after) or is_opaque(value)


def _is_key_word(words: list[str], place: int) -> bool:
    word, before = words[place], words[place - 1] if place else ""
    if word in ("key", "keys"):
        return before not in _NO_KEY and (word == "key" or before in ("api", "access", "secret"))
    if word == "tokens":
        return before in ("access", "api", "auth", "bot", "refresh")
    if before in _NO_TOKEN:
        return False
    if word in _LAST:
        return all(word in _ITSELF or word.isdigit() for word in words[place + 1 :])
    return word in _STRONG or re.fullmatch(_COMPOUND, word) is not None


def may_name_secret(name: str) -> bool:
    """Whether any value of a header, query parameter or variable called `name` can be a secret: a
    literal is refused or left out there."""
    return is_secret(name, _OPAQUE) or names_key(name, _OPAQUE)
