"""Words as the simulator's model reads them, and what they say of a tool's parameters.

A *feature* is a stem ("weather") or a concept ("=weather"), so that "Do I need an umbrella?" finds
a tool that says only "forecast". A parameter has a role by its name, a type, and a schema whose
references are resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from app.protocols.server import words_of

STOP = words_of(
    """a an the and or but if then so to of in on at by for from with about as is are was were be
    been am do does did done can could would should will shall may might must please me my mine i
    you your we our us it its this that these those there here what which who whom whose when where
    why how not no yes ok okay just also too very much many some any all each every both more most
    than into onto out up down over under again once only own same such now let lets s t d ll re ve
    m want need like know tell give show have has had got hi hello hey thanks thank today tomorrow
    one optional required e g string number value values name given returns return use used using"""
)

WEAK = words_of(
    """get set fetch list make do run show give add create new send update read write open check
    look tool current data info use call find start put post query by for to
    from of in the"""
)
"""Verbs half of all tools begin with: they decide only where a name holds nothing else."""

CONCEPTS = {
    "weather": """weather forecast temperature rain rainy raining umbrella sunny snow snowing hot
        cold warm warmer colder hotter windy wind humid humidity degrees celsius fahrenheit climate
        meteo sun jacket""",
    "math": """calculator calculate calculation compute math mathematics arithmetic evaluate sum
        product plus minus divided multiply multiplied expression equation solve percent root
        square eval""",
    "multiply": "multiply multiplied product mul multiplication",
    "add": "add plus sum added addition total",
    "subtract": "subtract minus difference sub subtraction",
    "divide": "divide divided quotient ratio div division",
    "email": "email mail inbox gmail e-mail mailto recipient",
    "message": "message sms text dm slack whatsapp chat ping notify notification channel",
    "search": "search google lookup find browse web internet wikipedia research bing query",
    "event": """event calendar meeting appointment schedule lunch dinner breakfast invite booking
        call standup party""",
    "remind": "remind reminder reminders alarm",
    "timer": "timer countdown stopwatch",
    "task": "task todo tasks todos chore checklist",
    "note": "note notes memo jot",
    "currency": """currency exchange usd eur gbp jpy chf euro euros dollar dollars pound pounds yen
        money rupees forex""",
    "convert": "convert converter conversion exchange",
    "unit": """unit units km kilometers kilometres miles mile meters metres feet inches pounds kg
        kilograms ounces liters gallons celsius fahrenheit""",
    "translate": "translate translation translator language",
    "language": """french spanish german italian portuguese japanese chinese korean russian arabic
        dutch swedish polish turkish hindi latin greek danish norwegian finnish english""",
    "time": "time clock timezone oclock",
    "date": "date day weekday calendar",
    "stock": "stock stocks share shares ticker nasdaq quote market",
    "price": "price cost costs expensive cheap much",
    "crypto": "crypto bitcoin btc ethereum eth coin",
    "music": "music song songs play playlist album track spotify artist listen",
    "light": "light lights lamp lamps brightness dim bulb",
    "switch": "turn switch toggle",
    "heat": "thermostat heating warmer cooler heater degrees",
    "route": "route directions navigate navigation drive distance map far way",
    "flight": "flight flights fly flying plane airline airport",
    "hotel": "hotel hotels stay accommodation room night nights airbnb",
    "restaurant": "restaurant restaurants eat sushi food dinner table reservation reserve",
    "order": "order buy purchase pizza cart checkout",
    "news": "news headlines headline article articles latest",
    "file": "file files folder directory path document txt csv",
    "delete": "delete remove erase drop trash",
    "save": "save write store create",
    "sql": "sql select database rows db",
    "url": "url http https website webpage page link fetch download",
    "person": "user customer contact account profile employee",
    "ticket": "ticket issue bug incident jira",
    "random": "random dice roll coin flip pick",
    "joke": "joke funny laugh pun",
    "code": "code python script execute program snippet",
    "image": "image picture photo draw paint illustration",
    "summary": "summarize summarise summary tldr shorten",
    "pay": "pay payment transfer send wire invoice refund",
    "track": "track package parcel shipment delivery shipping",
}

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDINGS = """izations ization ations ation ators ator ating ated ates ate ings ing ied ies ments
    ment ed es s e"""


def stem(word: str) -> str:
    """`calculator`, `calculate` and `calculations` -> `calcul`; short words stay as they are."""
    word = word.lower().removesuffix("'s").removesuffix("’s")
    for ending in _ENDINGS.split():
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word.removesuffix("s") if len(word) == 4 and word[2:] not in ("ss", "ws") else word


def words(text: str) -> list[str]:
    """The words of a prompt or of an identifier (`get_weather`, `getWeather`), in lower case."""
    return [found.lower() for found in _WORD.findall(_CAMEL.sub(" ", text.replace("_", " ")))]


def _by_stem() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for concept, members in CONCEPTS.items():
        for member in members.split():
            table[stem(member)] = (*table.get(stem(member), ()), concept)
    return table


_CONCEPTS_OF = _by_stem()


def concepts(some: Iterable[str]) -> set[str]:
    """The concepts that any of these words belongs to."""
    return {concept for word in some for concept in _CONCEPTS_OF.get(stem(word), ())}


def features(text: str) -> Iterator[str]:
    """Stems and concepts of a text; what counts for nothing is left out."""
    for word in words(text):
        if word in STOP or (len(word) < 2 and not word.isdigit()):
            continue
        yield stem(word)
        for concept in _CONCEPTS_OF.get(stem(word), ()):
            yield "=" + concept


Role = Literal[
    "expression",
    "email",
    "url",
    "path",
    "timezone",
    "language",
    "currency",
    "unit",
    "date",
    "time",
    "place",
    "code",
    "sql",
    "body",
    "query",
    "title",
    "person",
    "other",
]
Direction = Literal["from", "to", ""]

_ROLES: tuple[tuple[Role, frozenset[str]], ...] = (
    ("expression", words_of("expression expr formula equation calculation math")),
    ("email", words_of("email mail cc bcc")),
    ("url", words_of("url uri link href website")),
    ("path", words_of("path file filename filepath folder directory")),
    ("timezone", words_of("timezone tz zone")),
    ("language", words_of("language languages lang")),
    ("currency", words_of("currency currencies")),
    ("unit", words_of("unit units scale")),
    ("sql", words_of("sql statement")),
    ("date", words_of("date day when deadline due checkin checkout")),
    ("time", words_of("time datetime hour clock at start end")),
    (
        "place",
        words_of(
            """city cities location locations place places destination origin country town address
            where region departure arrival venue area room"""
        ),
    ),
    ("query", words_of("query queries q search question keyword keywords term terms ingredient")),
    ("code", words_of("id ids ticket sku tracking code number")),
    (
        "body",
        words_of(
            """body message text content contents note comment msg sentence phrase input prompt
            description"""
        ),
    ),
    (
        "person",
        words_of(
            """person recipient recipients attendee attendees guest guests contact who participants
            participant username customer assignee artist people with invitees"""
        ),
    ),
    (
        "title",
        words_of(
            """title subject summary label task topic item items event reminder song track name
            what product company dish"""
        ),
    ),
)
_FORMATS: dict[str, Role] = {
    "email": "email",
    "uri": "url",
    "date": "date",
    "time": "time",
    "date-time": "time",
}
_BARE: tuple[tuple[str, Role], ...] = (
    ("email", "email"),
    ("message", "person"),
    ("pay", "person"),
    ("currency", "currency"),
    ("translate", "language"),
    ("unit", "unit"),
    ("convert", "unit"),
)
_FROM = words_of("from source origin departure base src")
_TO = words_of("to target destination arrival dest dst into")


def direction(name: str) -> Direction:
    said = set(words(name))
    return "from" if said & _FROM else "to" if said & _TO else ""


def role(name: str, schema: Mapping[str, Any], kinds: set[str]) -> Role:
    """`kinds` are the concepts of the tool's name: they say what a bare `to` means."""
    said = words(name)
    told = _FORMATS.get(str(schema.get("format", "")))
    if told is not None:
        return told
    if said == ["name"] and re.match(r"who\b", str(schema.get("description", "")), re.I):
        return "person"
    if "time" in said and "zone" in said:
        return "timezone"
    if direction(name) and not set(said) - _FROM - _TO:
        return _bare(kinds)
    for candidate, known in _ROLES:
        if known & set(said):
            return candidate
    return "other"


def _bare(kinds: set[str]) -> Role:
    """What `from`, `to`, `source` or `target` alone stands for."""
    return next((meaning for concept, meaning in _BARE if concept in kinds), "place")


# -- reading a JSON Schema just far enough to fill it


def standalone(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """`schema` with the root's definitions, so that its references still lead somewhere."""
    kept = {key: root[key] for key in ("$defs", "definitions") if key in root}
    return {**kept, **schema}


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema without its reference and without the `null` of an optional value."""
    for _ in range(8):
        schema = mapping(schema)
        reference = schema.get("$ref")
        choices = [
            c for c in schema.get("anyOf") or schema.get("oneOf") or [] if isinstance(c, dict)
        ]
        if isinstance(reference, str) and reference.startswith("#/"):
            target: Any = root
            for step in reference[2:].split("/"):
                target = mapping(target).get(step.replace("~1", "/").replace("~0", "~"))
            schema = {**mapping(target), **{k: v for k, v in schema.items() if k != "$ref"}}
        elif choices and "type" not in schema:
            real = next((c for c in choices if c.get("type") != "null"), choices[0])
            schema = {**{k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}, **real}
        else:
            return schema  # type: ignore[no-any-return]
    return {}


def type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "string" if "enum" not in schema else ""


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
