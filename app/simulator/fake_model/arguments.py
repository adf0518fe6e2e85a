"""A tool's arguments, filled from a clause: what was said first, then what the schema suggests.

A value of the clause is handed out once, so that "add 2 and 3" fills `a` with 2 and `b` with 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from app.core.tools import Tool
from app.protocols.server import words_of
from app.schema.sample import sample
from app.simulator.fake_model import entities
from app.simulator.fake_model.entities import SECONDS, NamedPlace, Number, mentioned
from app.simulator.fake_model.words import (
    Direction,
    concepts,
    direction,
    mapping,
    resolved,
    role,
    standalone,
    stem,
    type_of,
    words,
)

_MISSING = object()
_LIMITS = words_of("limit max maximum page offset count n top results size per k skip")
_PLAUSIBLE = {
    "place": "Paris",
    "person": "Anna",
    "email": "anna@example.com",
    "language": "French",
    "currency": "EUR",
    "timezone": "UTC",
    "date": "tomorrow",
    "time": "12:00",
    "url": "https://example.com/",
    "path": "notes.txt",
    "code": "1001",
    "expression": "6 * 7",
}
_ZONES = {
    "tokyo": "Asia/Tokyo",
    "london": "Europe/London",
    "paris": "Europe/Paris",
    "berlin": "Europe/Berlin",
    "new york": "America/New_York",
    "san francisco": "America/Los_Angeles",
    "los angeles": "America/Los_Angeles",
    "sydney": "Australia/Sydney",
    "mumbai": "Asia/Kolkata",
    "singapore": "Asia/Singapore",
}


@dataclass(frozen=True)
class Filled:
    """`said` counts the values that the person's words gave; `spread` are the other values of an
    enumeration ("Paris and Rome") for the property `over`, each worth a call of its own.
    """

    arguments: Mapping[str, Any]
    said: int
    over: str = ""
    spread: tuple[str, ...] = ()

    def each(self) -> list[dict[str, Any]]:
        """One set of arguments for each value of the enumeration."""
        first = dict(self.arguments)
        return [first, *({**first, self.over: value} for value in self.spread)]


@dataclass
class _Filling:
    """The work on one call. `background` are earlier texts, the nearest first."""

    clause: Supply
    background: Sequence[Supply]
    kinds: set[str]
    root: Mapping[str, Any]
    said: int = 0
    over: str = ""
    spread: list[str] = field(default_factory=list)


def fill(
    tool: Tool,
    clause: str,
    background: Sequence[str],
    today: date,
    before: Mapping[str, Any] | None = None,
) -> Filled:
    """Arguments for `tool` from `clause`; `before` are those of an earlier call it follows up."""
    work = _Filling(
        Supply.of(clause, today),
        [Supply.of(text, today) for text in background],
        concepts(words(tool.name)) or concepts(words(tool.description)),
        tool.parameters,
    )
    arguments = _object(tool.parameters, work, before or {}, 0)
    return Filled(arguments, work.said, work.over, tuple(work.spread))


def _object(
    schema: Mapping[str, Any], work: _Filling, before: Mapping[str, Any], depth: int
) -> dict[str, Any]:
    properties = mapping(schema.get("properties"))
    required = schema.get("required")
    needed = list(required) if isinstance(required, list) else []
    if not needed and not work.root.get("required"):
        needed = [name for name in list(properties)[:1] if depth == 0]
    values: dict[str, Any] = {}
    # What must be there is served first: an optional property takes nothing away from it.
    for name in sorted(properties, key=lambda name: name not in needed):
        value = _property(name, resolved(properties[name], work.root), name in needed, work, depth)
        if value is _MISSING:
            value = before.get(name, _MISSING)
        if value is _MISSING and name in needed:
            value = _suggested(name, resolved(properties[name], work.root), work)
        if value is not _MISSING:
            values[name] = value
    return {name: values[name] for name in properties if name in values}


def _property(
    name: str, schema: Mapping[str, Any], needed: bool, work: _Filling, depth: int
) -> Any:
    """What the person said for this property, or _MISSING."""
    if "const" in schema:
        return schema["const"]
    value: Any = _MISSING
    match type_of(schema):
        case _ if isinstance(schema.get("enum"), list):
            value = _enum(name, schema["enum"], work)
        case "number" | "integer" as kind:
            value = _number(name, schema, kind, needed, work)
        case "boolean":
            value = _boolean(name, work.clause.text)
        case "array":
            value = _array(name, schema, work, depth)
        case "object" if schema.get("properties") and depth < 5 and (needed or depth == 0):
            known = work.said
            inner = _object(schema, work, {}, depth + 1)
            return inner if needed or work.said > known else _MISSING
        case "string":
            value = _string(name, schema, needed, work) or _MISSING
        case _:
            pass
    work.said += value is not _MISSING
    return value


def _enum(name: str, values: Sequence[Any], work: _Filling) -> Any:
    """The value that was named; of several, `to` takes the last and any other the first."""
    found = mentioned(values, work.clause.text)
    if found:
        return found[-1 if (direction(name) == "to") != work.clause.backwards else 0]
    coded = set(work.clause.currencies) & set(map(str, values))
    return work.clause.currency(direction(name)) if coded else _MISSING


def _number(name: str, schema: Mapping[str, Any], kind: str, needed: bool, work: _Filling) -> Any:
    said = set(words(name))
    hints = set(words(str(schema.get("description", ""))))
    if "duration" in said and not hints & set(entities.SECONDS) and not _has_unit(work):
        hints |= {"minute" if "event" in work.kinds else "second"}
    value = work.clause.number(said, hints, limit=bool(said & _LIMITS) and not needed)
    if value is None:
        return _MISSING
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    if isinstance(lowest, int | float):
        value = max(value, lowest)
    if isinstance(highest, int | float):
        value = min(value, highest)
    return int(value) if kind == "integer" else value


def _has_unit(work: _Filling) -> bool:
    return any("unit" in words(name) for name in mapping(work.root.get("properties")))


def _boolean(name: str, text: str) -> Any:
    said = {stem(word) for word in words(text)}
    own = {stem(word) for word in words(name)} - {"is", "should", "includ", "enabl", "use"}
    if {stem(word) for word in words(name)} & {"on", "stat", "enabl", "pow", "power"}:
        if re.search(r"\b(?:off|disable|stop)\b", text, re.I):
            return False
        if re.search(r"\b(?:on|enable|start)\b", text, re.I):
            return True
    if not own or not own & said:
        return _MISSING
    return not re.search(rf"\b(?:no|not|without|don'?t)\b[^.,]*\b{min(own & said)}", text, re.I)


def _array(name: str, schema: Mapping[str, Any], work: _Filling, depth: int) -> Any:
    items = resolved(mapping(schema.get("items")), work.root)
    clause = work.clause
    match type_of(items):
        case "number" | "integer" as kind:
            numbers = [n.value for n in clause.numbers]
            clause.numbers.clear()
            found: list[Any] = [int(n) if kind == "integer" else n for n in numbers]
        case "object" if depth < 5:
            known = work.said
            item = _object(items, work, {}, depth + 1)
            found = [item] if work.said > known else []
        case _ if isinstance(items.get("enum"), list):
            found = mentioned(items["enum"], clause.text)
        case "string":
            found = _strings(name, items, work)
        case _:
            found = []
    return found or _MISSING


def _strings(name: str, items: Mapping[str, Any], work: _Filling) -> list[Any]:
    clause = work.clause
    match role(name, items, work.kinds):
        case "email" | "person":
            return clause.people()
        case "place":
            return entities.listed(clause.text) or [place.name for place in clause.places]
        case "url":
            return clause.urls
        case _:
            enumerated = re.search(
                r"(?::|\b(?i:of|with|buy|add|order|get))\s+([^:.?!]+)$", clause.text
            )
            listed = re.split(r",\s*(?:and\s+)?|\s+and\s+", enumerated[1]) if enumerated else []
            listed = [re.sub(r"\s+(?:to|for)\s+.*$", "", item).strip() for item in listed]
            return clause.quotes or [item for item in listed if item] or entities.names(clause.text)


def _string(name: str, schema: Mapping[str, Any], needed: bool, work: _Filling) -> str:
    clause, towards = work.clause, direction(name)
    kind = role(name, schema, work.kinds)
    match kind:
        case "place" | "person" | "language" | "timezone":
            return _listable(name, kind, schema, work)
        case "expression":
            return clause.expression() or (clause.rest() if needed else "")
        case "email":
            return _first(clause.emails) or next(iter(_people(work, name)), "")
        case "url":
            return _first(clause.urls) or _from_background("urls", work)
        case "path":
            return _first(clause.files)
        case "currency":
            return clause.currency(towards)
        case "date" | "time":
            return _moment(kind, schema, needed, work)
        case "code":
            return _first(clause.codes) or _first([f"{n.value}" for n in clause.numbers])
        case "sql":
            return clause.sql()
        case "query":
            return clause.sql() if "sql" in work.kinds else _query(clause, needed)
        case "body":
            said = clause.task() if work.kinds & {"remind", "task", "note"} else clause.body()
            return said or (_letter(work) if needed else "")
        case "title":
            said = clause.topic() if "topic" in words(name) else clause.subject()
            return said or (_rest(work).partition(" by ")[0] if needed else "")
        case _:
            return _unknown(name, needed, work)


def _unknown(name: str, needed: bool, work: _Filling) -> str:
    """A property whose name says nothing: an expression for a calculator, else what is left."""
    if not needed:
        found = re.search(
            rf"\b{re.escape(name.replace('_', ' '))}\s+(?:is\s+|=\s*|of\s+)?([\w@.-]+)",
            work.clause.text,
            re.I,
        )
        return found[1] if found else ""
    if "math" in work.kinds and work.clause.expression():
        return work.clause.expression()
    if work.clause.quotes:
        return work.clause.quotes.pop(0)
    if work.clause.places:
        return work.clause.places.pop(0).name
    return _first(work.clause.codes)


def _listable(name: str, kind: str, schema: Mapping[str, Any], work: _Filling) -> str:
    """A place, person or language; of an enumeration the first, the others are kept aside."""
    clause = work.clause
    match kind:
        case "person":
            several = _people(work, name)
            candidate = several[0] if several else ""
        case "language":
            several = [language for before, language in clause.languages if before != "from"]
            if direction(name) == "from":
                several = []
            candidate = clause.language(direction(name))
        case _:
            rooms = entities.rooms(clause.text) if "room" in words(name) else []
            several = rooms or entities.listed(clause.text) if direction(name) != "from" else []
            candidate = several[0] if several else clause.place(direction(name))
            candidate = candidate or (_background_place(work) if direction(name) != "from" else "")
    spelled = [_spelled(kind, value, schema) for value in [candidate, *several[1:]] if value]
    if len(spelled) > 1 and not work.spread:
        work.over, work.spread = name, spelled[1:]
    return spelled[0] if spelled else ""


def _spelled(kind: str, value: str, schema: Mapping[str, Any]) -> str:
    hint = f"{schema.get('description', '')} {schema.get('examples', '')}".lower()
    if kind == "language" and (
        re.search(r"\b(?:iso|codes?)\b", hint) or schema.get("maxLength") == 2
    ):
        return entities.LANGUAGES[value.lower()]
    if kind == "timezone":
        return _ZONES.get(value.lower(), value)
    return value


def _people(work: _Filling, name: str) -> list[str]:
    found = work.clause.people()
    if "artist" in words(name):
        by = re.search(r"\bby\s+((?:[Tt]he\s+)?[A-Z]\w*(?:\s+[A-Z]\w*)*)", work.clause.text)
        return [by[1]] if by else []
    return found


def _background_place(work: _Filling) -> str:
    return next((s.places[0].name for s in work.background if s.places), "")


def _from_background(kind: str, work: _Filling) -> str:
    return next((getattr(s, kind)[0] for s in work.background if getattr(s, kind)), "")


def _query(clause: Supply, needed: bool) -> str:
    if clause.quotes:
        return clause.quotes.pop(0)
    return clause.rest() if needed else ""


def _rest(work: _Filling) -> str:
    """What remains of the clause when the command is gone; for a message, all of it."""
    text = re.sub(
        r"\s+(?:in|into|to) (?:" + "|".join(entities.LANGUAGES) + r")\b.*$",
        "",
        work.clause.rest(),
        flags=re.I,
    )
    return text or plain(work.clause.text)


def _letter(work: _Filling) -> str:
    """The text of a message of which only the subject was told."""
    topic = work.clause.title() if work.kinds & {"email", "message"} else ""
    return f"Hello, I am writing about {topic}." if topic else _rest(work)


def _moment(kind: str, schema: Mapping[str, Any], needed: bool, work: _Filling) -> str:
    """A day or time: ISO 8601 where the schema asks for it or says how, else as it was said."""
    clause = work.clause
    said = entities.when(clause.text)
    if needed and not said and work.background:
        said = entities.when(work.background[0].text)
    clock = entities.clock(clause.text)
    hint = f"{schema.get('format', '')} {schema.get('description', '')}".lower()
    day = entities.day(said, clause.today) if said else None
    if kind == "date" and schema.get("format") != "date-time":
        exact = day is not None and re.search(r"\bdate\b|iso|yyyy", hint)
        return day.isoformat() if exact and day else " ".join(filter(None, (said, clock)))
    if schema.get("format") == "date-time" or re.search(r"iso|yyyy", hint):
        return f"{(day or clause.today).isoformat()}T{clock or '09:00'}:00" if day or clock else ""
    dated = any("date" in words(name) for name in mapping(work.root.get("properties")))
    return clock or ("" if dated else said)


def _suggested(name: str, schema: Mapping[str, Any], work: _Filling) -> Any:
    """What the schema itself offers for a value nobody gave."""
    if "default" in schema:
        return schema["default"]
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        return examples[0]
    if type_of(schema) == "boolean" and set(words(name)) & {"on", "enabled", "active", "confirm"}:
        return True
    if type_of(schema) == "string" and not set(schema) & {"enum", "format", "pattern", "const"}:
        quoted = re.search(r"e\.g\.,?\s*[\"'“]?([^\"'”).;]+)", str(schema.get("description", "")))
        if quoted:
            return quoted[1].strip()
        if role(name, schema, work.kinds) in ("body", "title", "query", "other"):
            return _rest(work)
        if plausible := _PLAUSIBLE.get(role(name, schema, work.kinds)):
            return plausible
    return sample(standalone(schema, work.root))


def _first(found: list[str]) -> str:
    return found.pop(0) if found else ""


# -- the values that a clause offers, each handed out once

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
_COUNTED = words_of(
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
    places: list[NamedPlace] = field(default_factory=list)
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
        return entities.expression(self.text)

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
        return bool(name & words_of("duration length time delay timeout interval"))

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
