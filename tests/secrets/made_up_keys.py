"""A made-up key for each rule of gitleaks, written from its pattern: none stands in a file, where a
scanner of others would find it."""

from __future__ import annotations

import random
import re
import string
import tomllib
from functools import cache
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from playground.secrets.vendor_rules import (
    RULES_FILE,
    VendorRule,
    compile_go,
    entropy_of,
    read_rules,
    translate_go,
)

LETTERS = string.ascii_letters + string.digits
PRINTABLE = LETTERS + "-_.+/=:;,!%&()*"
TRIES = 400
_AROUND_KEY = re.compile(
    r"^-----BEGIN.*?PRIVATE KEY(?: BLOCK)?-----|(?:PRIVATE )?KEY(?: BLOCK)?-----$"
    r"|^[\w.-]+:[ \t]*(?:\||>[-+]?)?\s*[\"']?(?=[A-Za-z0-9+/]{10,}={0,3}[\"']?$)|^[\"' ]+|[\"' ]+$"
)
"""What a rule counts to the key, and is none: the lines of a PEM, the name of a value, quotes."""

RULES = {rule.id: rule for rule in read_rules(tomllib.loads(RULES_FILE.read_text("utf-8")))}


class MadeUpKey(NamedTuple):
    """A text that the rule's own pattern finds, and the `key` in it."""

    text: str
    key: str


def made_up_key(rule: VendorRule, seed: int = 0) -> MadeUpKey:
    """By the pattern as it is in the file, the entropy and the exceptions of the rule."""
    chance = random.Random(f"{rule.id} {seed}")
    pattern = compile_go(rule.pattern)
    tree = _parser.parse(translate_go(rule.pattern))
    for nth in range(TRIES):
        text = _written(tree, chance)
        if not any(word in text.lower() for word in rule.keywords):
            if nth < TRIES // 2:
                continue
            text = f"{rule.keywords[0]} {text}"  # no part of the pattern
        match = pattern.search(f"{text}\n")
        if match is None:
            continue
        groups = [rule.group] if rule.group else range(1, pattern.groups + 1)
        key = next((match[n] for n in groups if match[n]), match[0])
        allowed = any(each.covers(key, match[0], match[0]) for each in rule.allowed)
        if entropy_of(key) > rule.entropy and not allowed:
            return MadeUpKey(text, _AROUND_KEY.sub("", key))
    raise AssertionError(f"No key was made up for {rule.id}.")


def _written(tree: Any, chance: random.Random) -> str:
    return "".join(_piece(str(op), value, chance) for op, value in tree)


def _piece(op: str, value: Any, chance: random.Random) -> str:
    match op:
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL":
            return chance.choice([letter for letter in LETTERS if ord(letter) != value])
        case "ANY":  # often a dot that should have been escaped
            return chance.choice((".", chance.choice(LETTERS)))
        case "IN":
            return _letter(value, chance)
        case "BRANCH":
            return _written(chance.choice(value[1]), chance)
        case "SUBPATTERN":
            return _written(value[3], chance)
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, inner = value
            times = chance.randint(least, min(int(most), least + 3))
            return "".join(_written(inner, chance) for _ in range(times))
        case _:
            return ""


def _letter(members: Any, chance: random.Random) -> str:
    return chance.choice(_letters_of(tuple((str(op), value) for op, value in members)))


@cache
def _letters_of(members: tuple[tuple[str, Any], ...]) -> str:
    negated = members[0][0] == "NEGATE"
    some = [letter for letter in PRINTABLE if _is_in(letter, members) != negated]
    # None of a quote, a blank, a sign.
    return "".join(some) or next((chr(value) for op, value in members if op == "LITERAL"), " ")


def _is_in(letter: str, members: Any) -> bool:
    for op, value in members:
        match op:
            case "LITERAL" if ord(letter) == value:
                return True
            case "RANGE" if value[0] <= ord(letter) <= value[1]:
                return True
            case "CATEGORY":
                kind = str(value)
                if kind.endswith("DIGIT") and letter.isdigit() != ("NOT" in kind):
                    return True
                if kind.endswith("WORD") and (letter in LETTERS + "_") != ("NOT" in kind):
                    return True
                if kind.endswith("SPACE") and "NOT" in kind:
                    return True
    return False
