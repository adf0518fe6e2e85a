"""What a clause has to offer for arguments. A find is handed out once, so that "add 2 and 3" fills
`a` with 2 and `b` with 3; only this file keeps such a tally.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date

from app.protocols.server import spaced
from app.simulator import arithmetic, entities
from app.simulator.entities import SECONDS, Number, Place
from app.simulator.roles import Direction
from app.simulator.words import stem

_POLITE = re.compile(
    r"^(?:please|pls|hey|hi|hello|ok|okay|and|then|also|so|now|but|next|finally|first|"
    r"(?:could|can|would|will) you(?: please| kindly)?|i(?:'d| would) like (?:you )?to|"
    r"i (?:want|need)(?: you)? to|i want|let'?s|help me(?: to)?|go ahead and)\b[,:]?\s*",
    re.I,
)
_COMMAND = re.compile(
    r"^(?:(?:do a |run a )?(?:web )?search(?: the (?:web|internet))?(?: online)?(?: for| about)?|"
    r"look(?: up| for)|find(?: me| out)?(?: about)?|google|browse(?: for)?|"
    r"(?:draw|paint|generate|create|make)(?: me)?(?: an?| the)?"
    r" (?:picture|image|photo|painting|drawing) of|"
    r"tell me(?: about| more about)?|show me|give me|get me|get|fetch|explain|research|read up on|"
    r"(?:create|add|make|set up|open|write|take|save|put|file|post|start|play|order|buy|run)"
    r"(?: me| us)?(?: an?| the| some| down)?(?: new)?|translate|summari[sz]e|"
    r"(?:schedule|book|plan|arrange)(?: an?| the)?|remind me(?: to| about| of| that)?)\s+",
    re.I,
)
_BODY = re.compile(
    r"(?:\b(?:that says|saying|says|say|with the (?:message|text|body|content)|"
    r"telling (?:him|her|them|everyone)(?: that)?|"
    r"(?:to )?(?:tell|let) (?:him|her|them|everyone|\w+ know|(?-i:[A-Z])\w+)(?: that)?|"
    r"that reads|reading)|:)\s+[\"'“]?(.+?)[\"'”]?[.!]?\s*$",
    re.I | re.S,
)
_ABOUT = re.compile(
    r"\b(?:about|called|named|titled|entitled|with (?:the )?(?:subject|title)|regarding|re:|"
    r"for(?! \d| an? ))\s+"
    r"[\"'“]?((?:the |our |my )?[^\"”,.!?]+?)"
    r"(?=[\"”,.!?]|\s+(?:and|at|on|to|in|tomorrow|today|next|that|saying|says|with|by|from)\b|$)",
    re.I,
)
_OCCASION = re.compile(
    r"\b((?:(?:team|project|birthday|phone|weekly|budget|sales|design|job|code) )?"
    r"(?:meeting|lunch|dinner|breakfast|call|coffee|appointment|standup|stand-up|party|"
    r"review|interview|workshop|demo)(?: with [A-Z]\w+(?: and [A-Z]\w+)?)?)",
)
_TOPIC = re.compile(
    r"\b(?:about|on|regarding|of)\s+(.+?)"
    r"(?=\s+(?:in|for|within|taking)\s+\d|\s*[,.!?;]|,?\s+please\b|$)",
    re.I,
)
_TASK = re.compile(
    r"\b(?:remind me|remember|reminder|alarm|todo|task)\s+(?:to|about|that|for)\s+(.+)", re.I
)
_PERSON = re.compile(
    r"\b(?i:to|with|for|tell|ask|email|mail|message|text|call|invite|ping|pay|by|from|contact)\s+"
    r"(?:my\s+)?([A-ZÀ-Þ][\w'’-]+(?:\s+(?!I\b)[A-ZÀ-Þ][\w'’-]+)*|@[\w-]+|#[\w-]+|"
    r"(?:my )?(?:mom|mum|dad|boss|team|wife|husband|landlord|everyone))"
)
_TAIL = re.compile(
    r"\s+(?:(?:at|on|by|for|in)\s+)?(?:today|tonight|tomorrow|(?:next|this) \w+|on \w+day|"
    r"at \d[\d:]*\s*(?:am|pm)?|in \d+ \w+|for \d+ (?:minutes?|hours?))$",
    re.I,
)
_LIMITED = re.compile(
    r"\b(?:top|first|last|up to|at most|limit(?:ed)?(?: to)?|max(?:imum)?)\s+(\d+)"
)
_COUNTED = spaced(
    """result item article headline match hit entry page row song movie book idea recipe hotel paper
    file record story post document restaurant joke"""
)


@dataclass
class Supply:
    """The finds of one text, each handed out once."""

    text: str
    today: date
    numbers: list[Number] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    emails: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    languages: list[tuple[str, str]] = field(default_factory=list)
    currencies: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str, today: date) -> Supply:
        return cls(
            text,
            today,
            entities.numbers(text),
            entities.quotes(text),
            entities.emails(text),
            entities.urls(text),
            entities.files(text),
            entities.codes(text),
            entities.places(text),
            entities.languages(text),
            entities.currencies(text),
        )

    def expression(self) -> str:
        return arithmetic.expression(self.text)

    def rest(self) -> str:
        """The clause without courtesy and without its command: "search for X" -> "X"."""
        text = plain(self.text)
        shorter = _COMMAND.sub("", text, count=1)
        return shorter.strip() or text

    def body(self) -> str:
        if self.quotes:
            return self.quotes.pop(0)
        found = _BODY.search(_without_urls(self.text))
        return found[1].strip() if found else ""

    def title(self) -> str:
        for pattern in (_TASK, _OCCASION, _ABOUT):
            found = pattern.search(self.text)
            if found:
                return _without_tail(found[1])
        return ""

    def subject(self) -> str:
        """A title as the head of a message or page: what is quoted goes first."""
        return self.quotes.pop(0) if self.quotes else self.title()

    def task(self) -> str:
        """What a reminder or note is about: "remind me to call mom at 6pm" -> "call mom"."""
        return self.quotes.pop(0) if self.quotes else _without_tail(self.title() or self.rest())

    def topic(self) -> str:
        """What something is about: "a report on tides in 3 seconds" -> "tides"."""
        found = _TOPIC.search(self.text)
        return self.quotes.pop(0) if self.quotes else found[1].strip() if found else self.title()

    def sql(self) -> str:
        return entities.sql(self.text)

    def people(self) -> list[str]:
        """All who are named: addresses, else names after "to", "with" and the like."""
        if self.emails:
            return self.emails
        found = _PERSON.findall(self.text)
        together = entities.listed(self.text)
        return together if set(found) & set(together) else found

    def place(self, direction: Direction) -> str:
        """The place that lies in `direction`, taken out of the supply, or ""."""
        wanted = {"from": ("from",), "to": ("to", "in", "at", "visit", "into", "for")}
        order = wanted.get(direction, ("in", "at", "for", "near", "of", "around", "over", "to"))
        for before in order:
            for place in self.places:
                if place.before == before:
                    self.places.remove(place)
                    return place.name
        if direction == "from" or not self.places:
            return ""
        return self.places.pop(0).name

    def language(self, direction: Direction) -> str:
        """The language after "to" or "into" is the target; one after "from" the source."""
        for before, language in self.languages:
            source = before == "from"
            if source == (direction == "from"):
                self.languages.remove((before, language))
                return language
        return ""

    def currency(self, direction: Direction) -> str:
        if not self.currencies:
            return ""
        return self.currencies.pop(-1 if (direction == "to") != self.backwards else 0)

    @property
    def backwards(self) -> bool:
        """Whether the target is named first: "How many euros are 100 dollars?"."""
        return bool(re.match(r"\W*(?:and )?how many\b", self.text, re.I))

    def number(self, name: set[str], hints: set[str], *, limit: bool) -> float | None:
        """The number whose unit fits the words of the property, else the first that is left.

        `limit`: the property only bounds a list ("max_results"): a number must say so.
        """
        if limit:
            found = _LIMITED.search(self.text)
            counted = [n for n in self.numbers if n.unit in _COUNTED]
            return int(found[1]) if found else counted[0].value if counted else None
        span = self._span(name) or (self._span(hints) if self._is_duration(name) else None)
        if span is not None:
            return span
        stems = {stem(word) for word in name}
        for number in self.numbers:
            if number.unit and stem(number.unit) in stems:
                return self._take(number)
        if "year" in name:
            years = [n for n in self.numbers if 1900 <= n.value <= 2100]
            return self._take(years[0]) if years else None
        return self._take(self.numbers[0]) if self.numbers else None

    def _span(self, said: set[str]) -> float | None:
        """All lengths of time together, in the unit that `said` names."""
        units = [
            SECONDS[word.removesuffix("s")] for word in said if word.removesuffix("s") in SECONDS
        ]
        spans = [n for n in self.numbers if n.seconds is not None]
        if not units or not spans:
            return None
        for number in spans:
            self.numbers.remove(number)
        total = sum(number.seconds or 0 for number in spans) / units[0]
        return int(total) if total == int(total) else total

    @staticmethod
    def _is_duration(name: set[str]) -> bool:
        return bool(name & spaced("duration length time delay timeout interval"))

    def _take(self, number: Number) -> float:
        self.numbers.remove(number)
        return number.value


def plain(text: str) -> str:
    """`text` without courtesy in front and without its closing mark."""
    text = text.strip(" \t\n,;")
    while (shorter := _POLITE.sub("", text, count=1)) != text:
        text = shorter
    return re.sub(r",?\s*(?:please|thanks|thank you|for me)?\s*[.?!,;]*$", "", text, flags=re.I)


def _without_urls(text: str) -> str:
    return re.sub(r"https?://\S+|\d:\d", " ", text)


def _without_tail(text: str) -> str:
    text = text.strip(" .!?,;")
    while (shorter := _TAIL.sub("", text)) != text:
        text = shorter
    return text
