"""Finds keys in a text by the rules of gitleaks (`vendor/gitleaks.toml`), which find the keys of
some 180 services by their form, or by the name of the service before them. Pure; does not know the
actual keys.

A rule is a pattern, the keywords of which a text must have at least one, the least entropy of a
key, and texts that are not keys. The file is read, and a rule compiled, when a text first has a
keyword. What differs from gitleaks:

- Its patterns are made for a linear engine. Here a pattern is tried near its keywords alone, in
  windows of bounded length; without the optional name before a service's, which is found
  backwards where it matters; and the few with nested repetitions are replaced (`_LINEAR`).
- A text has no path: rules for certain files apply to every text, and rules that have only a path
  to none.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from playground.secrets.detection import blank_escapes
from playground.secrets.forms import Span

RULES_FILE = Path(__file__).parent / "vendor" / "gitleaks.toml"

_BEFORE = 400
"""Characters before a keyword in which a match with it begins."""
_AFTER = 1024
"""Characters after a keyword that are searched at once; a match needs at most half of them."""

_OPTIONAL_NAME = r"[\w.-]{0,50}?"
"""What many patterns begin with, and which costs a backtracking engine 50 attempts a character."""
_NAME = re.compile(r"[\w.-]{0,50}\Z", re.ASCII)

_LINEAR: Mapping[str, str] = {
    # Without the command before the option.
    "curl-auth-header": r"""(?i)-(?:H|-header)(?:=|[ \t]{0,5})["'](?:Authorization:[ \t]{0,5}"""
    r"""(?:(?:Basic|Bearer|(?:Api-)?Token)[ \t])?|(?:X-(?:[a-z]+-)?)?(?:Api-?)?(?:Key|Token):"""
    r"""[ \t]{0,5})([\w=~@.+/-]{8,})["']""",
    "curl-auth-user": r"""-(?<!\S-)(?:u|-user)(?:=|[ \t]{0,5})(?:"""
    r"""(["'][^"'\r\n]{0,200}:[^"'\r\n]{0,200}["'])|(HALF:HALF)(?=\s|\z))""".replace(
        "HALF", r"""(?: {0,3}["'][^"'\r\n]{0,200}["']|[\w${}@.-]{0,200})"""
    ),
    # Without the lines that begin and end it.
    "private-key": r"""(?i)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----([\s\S]{64,}?)"""
    r"""(?:-----END[ A-Z0-9_-]{0,100})?KEY(?: BLOCK)?-----""",
    # All of the address that is secret.
    "microsoft-teams-webhook": r"""webhook\.office\.com/webhookb2/([a-z0-9-]{36}@[a-z0-9-]{36}/"""
    r"""IncomingWebhook/[a-z0-9]{32}/[a-z0-9-]{36})""",
    # The values of a manifest, whichever of its members comes first.
    "kubernetes-secret-yaml": r""":(?<=[\w"'.-]:)[ \t]*(?:[|>][-+]?\s{1,20})?["']?"""
    r"""((?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/]{10,}(?:={1,3}|(?![\w(-])))""",
}
"""Patterns for the same keys in place of those that try each end of each line again for each
beginning, or whose match has more than the key."""
_NEEDS: Mapping[str, re.Pattern[str]] = {
    "curl-auth-header": re.compile(r"curl"),
    "curl-auth-user": re.compile(r"curl"),
    "kubernetes-secret-yaml": re.compile(r"kind[\"']?:[ \t]*[\"']?secret\b"),
}
"""What is near, in lower case, where a pattern above says less than the rule's own."""
_NEAR = 1_000
"""Characters."""

_ANYWHERE = (
    *("curl-auth-header", "curl-auth-user", "kubernetes-secret-yaml"),
    *("airtable-personnal-access-token", "facebook-access-token", "sourcegraph-access-token"),
)
"""Rules whose keyword may be anywhere in the text, and no part of a match."""
_WITHIN = (
    *("atlassian-api-token", "azure-ad-client-secret", "gocardless-api-token"),
    *("hashicorp-tf-api-token", "lob-api-key", "lob-pub-api-key", "maxmind-license-key"),
    *("new-relic-browser-api-token", "new-relic-insert-key", "new-relic-user-api-key"),
    *("openai-api-key", "typeform-api-token", "freemius-secret-key", "sidekiq-sensitive-url"),
    "slack-webhook-url",
)
"""Rules whose keyword comes after the beginning of a match; other matches begin with the
keyword."""

GENERIC = ("generic-api-key", "kubernetes-secret-yaml", "curl-auth-user", "hashicorp-tf-password")
"""Rules that go by the place alone: what they find may be a plain word elsewhere."""

_PAGE = re.compile(r"(?i)(?:page|next|continuation|sync|cursor)[-_]?token")
"""The place in a list, and no key."""
_WORD = re.compile(r"[^\s\"'`\\]+")
"""A part of a key; quotes and escapes stay, so that what is JSON stays it."""
_ESCAPED_QUOTE = re.compile(
    r"(?P<escapes>\\(?<!\\\\)\\*+)(?P<quote>[\"'])(?P<closes>(?=[\s,;:)\]}\\]|\Z))?"
)
_CLASS = re.compile(r"\[\^?\]?(?:\[:[a-z]+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_POSIX = {"[:alnum:]": "A-Za-z0-9"}
_AROUND = " \"'`\\"
"""What a pattern's group may have around a key."""


class RuleMatch(NamedTuple):
    """The span of a key, or of a word or line of it. `certain`: its form says so, or the name of
    its service before it."""

    start: int
    end: int
    certain: bool


def find_by_rules(text: str) -> Iterator[RuleMatch]:
    """The keys in `text`, in no order; those of several rules may overlap."""
    text = _plain_quotes(blank_escapes(text))
    # "İ" is the one letter with a longer lower case.
    lower = text.replace("\u0130", "i").lower()
    rules = _load_rules()
    places: dict[str, list[int]] = {}  # of keywords, by the id of the rule
    for begin, keywords in rules.keywords:
        for letter in begin.finditer(lower):
            for keyword, ids in keywords:
                if lower.startswith(keyword, letter.start()):
                    for id in ids:
                        places.setdefault(id, []).append(letter.start())
    for id in places:
        yield from rules.by_id[id].find(text, lower, sorted(places[id]), rules.allowed)


def _plain_quotes(text: str) -> str:
    """Quotes without escapes, next to what they enclose; as long as before."""

    def unescape(match: re.Match[str]) -> str:
        blanks = " " * len(match["escapes"])
        return blanks + match["quote"] if match["closes"] is None else match["quote"] + blanks

    return _ESCAPED_QUOTE.sub(unescape, text) if "\\" in text else text


@dataclass(frozen=True)
class _AllowedText:
    """What is not a key: a text of which one of the patterns or words is a part. `target` says of
    which: the key, the whole match, or its line."""

    patterns: Sequence[str]
    words: Sequence[str] = ()
    target: str = "secret"

    def covers(self, secret: str, match: str, line: str) -> bool:
        text = {"secret": secret, "match": match, "line": line}[self.target]
        if any(pattern.search(text) for pattern in self._compiled):
            return True
        lower = secret.lower()
        return any(word in lower for word in self.words)

    @cached_property
    def _compiled(self) -> Sequence[re.Pattern[str]]:
        return [compile_go(pattern) for pattern in self.patterns]


@dataclass(frozen=True)
class VendorRule:
    id: str
    pattern: str
    keywords: Sequence[str]
    entropy: float
    group: int
    allowed: Sequence[_AllowedText]

    @property
    def certain(self) -> bool:
        return self.id not in GENERIC

    def find(
        self, text: str, lower: str, places: Sequence[int], allowed: Sequence[_AllowedText]
    ) -> Iterator[RuleMatch]:
        """The keys in `text`, whose `lower` case has the rule's keywords at `places`."""
        needed = _NEEDS.get(self.id)
        if needed is not None and needed.search(lower) is None:
            return
        for match in self._matches(text, places):
            near = (max(0, match.start() - _NEAR), match.end() + _NEAR)
            if needed is not None and needed.search(lower, *near) is None:
                continue
            start, end = self._group_span(match)
            secret = text[start:end]
            if not secret.strip("*") or (self.entropy and entropy_of(secret) <= self.entropy):
                continue
            inner = secret.strip(_AROUND)
            if not self._is_allowed(match, inner, allowed):
                start += secret.find(inner)
                for word in _WORD.finditer(text, start, start + len(inner)):
                    yield RuleMatch(*word.span(), self.certain)

    def _matches(self, text: str, places: Sequence[int]) -> Iterator[re.Match[str]]:
        pattern, done = self._compiled, 0
        if self.id in _ANYWHERE:
            yield from pattern.finditer(text)
        elif self.id in _WITHIN:
            searched = 0
            for place in places:
                if place >= searched:
                    end = min(place + _AFTER, len(text))
                    for match in pattern.finditer(text, max(done, place - _BEFORE), end):
                        done = match.end()
                        yield match
                    searched = max(done, place + _AFTER // 2)
        else:
            for place in places:
                matched = pattern.match(text, place) if place >= done else None
                if matched is not None:
                    done = matched.end()
                    yield matched

    def _group_span(self, match: re.Match[str]) -> Span:
        """The group of the rule, else the first that has text, else all."""
        groups = [self.group] if self.group else range(1, match.re.groups + 1)
        return next((match.span(n) for n in groups if match[n]), match.span())

    def _is_allowed(
        self, match: re.Match[str], secret: str, allowed: Sequence[_AllowedText]
    ) -> bool:
        text = match.string
        name = _NAME.search(text[max(0, match.start() - 50) : match.start()])
        whole = (name[0] if name else "") + match[0]
        if _PAGE.search(whole):
            return True
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.end()]
        return any(each.covers(secret, whole, line) for each in (*self.allowed, *allowed))

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return compile_go(_LINEAR.get(self.id, self.pattern.replace(_OPTIONAL_NAME, "")))


class _Rules(NamedTuple):
    """All rules. `keywords`: for each first letter of a keyword, a pattern that finds the first
    letter of all that begin with it, and these with the ids of their rules."""

    by_id: Mapping[str, VendorRule]
    keywords: Sequence[tuple[re.Pattern[str], Sequence[tuple[str, Sequence[str]]]]]
    allowed: Sequence[_AllowedText]


@lru_cache(maxsize=1)
def _load_rules() -> _Rules:
    data = tomllib.loads(RULES_FILE.read_text("utf-8"))
    by_id = {rule.id: rule for rule in read_rules(data)}
    ids: dict[str, list[str]] = {}
    for rule in by_id.values():
        for keyword in rule.keywords:
            ids.setdefault(keyword, []).append(rule.id)
    keywords = []
    for letter, group in groupby(sorted(ids), lambda keyword: keyword[0]):
        words = list(group)
        begin = re.compile(f"{re.escape(letter)}(?={_prefix_pattern(word[1:] for word in words)})")
        keywords.append((begin, [(word, ids[word]) for word in words]))
    return _Rules(by_id, keywords, _read_allowed([data["allowlist"]]))


def _prefix_pattern(words: Iterable[str]) -> str:
    """A pattern of a text that begins with one of `words`, factored by their letters."""
    rests: dict[str, set[str]] = {}
    for word in words:
        if not word:
            return ""
        rests.setdefault(word[0], set()).add(word[1:])
    return (
        f"(?:{'|'.join(re.escape(first) + _prefix_pattern(rest) for first, rest in rests.items())})"
    )


def read_rules(data: Mapping[str, Any]) -> Iterator[VendorRule]:
    """The rules of the file but those of paths alone."""
    for rule in data["rules"]:
        if "regex" in rule:
            yield VendorRule(
                rule["id"],
                pattern=rule["regex"],
                keywords=rule["keywords"],
                entropy=rule.get("entropy", 0.0),
                group=rule.get("secretGroup", 0),
                allowed=_read_allowed(rule.get("allowlists", ())),
            )


def _read_allowed(lists: Sequence[Mapping[str, Any]]) -> Sequence[_AllowedText]:
    """Those that need a certain path, which no text has, are left out."""
    return [
        _AllowedText(
            each.get("regexes", ()), each.get("stopwords", ()), each.get("regexTarget", "secret")
        )
        for each in lists
        if each.get("condition") != "AND" or "paths" not in each
    ]


def entropy_of(text: str) -> float:
    """Shannon's, in bits a character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


# Patterns of Go's regexp -------------------------------------------------------------------------


def compile_go(pattern: str) -> re.Pattern[str]:
    """A pattern in Go's syntax. Go allows a flag in the middle, from which it holds to the end of
    its group; and its `$` is the end of the text."""
    return re.compile(translate_go(pattern), re.ASCII)


def translate_go(pattern: str) -> str:
    out: list[str] = []
    flags = [""]  # of each open group: the flag that was set in it
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        size = 1
        if sign == "\\":
            size = 2
            out.append(r"\Z" if pattern[at + 1] == "z" else pattern[at : at + 2])
        elif sign == "[" and (letter_class := _CLASS.match(pattern, at)):
            letters, size = letter_class[0], len(letter_class[0])
            for name, members in _POSIX.items():
                letters = letters.replace(name, members)
            out.append("[" + letters[1:].replace("[", r"\["))
        elif pattern.startswith("(?i)", at):
            size = 4
            if not flags[-1]:
                out.append("(?i:")
                flags[-1] = "(?i:"
        elif sign == "(":
            flags.append("")
            out.append(sign)
        elif sign == ")":
            out.append("))" if flags.pop() else ")")
        elif sign == "|":
            out.append(f")|{flags[-1]}" if flags[-1] else "|")
        else:
            out.append(r"\Z" if sign == "$" else sign)
        at += size
    return "".join(out) + (")" if flags[-1] else "")
