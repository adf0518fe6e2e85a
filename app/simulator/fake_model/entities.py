"""Entities in a piece of a prompt: numbers, quotes, places, dates, currencies, enum values, sums.

Pure pattern matching; each function gives its matches in the order of the text. Which argument a
match belongs to is decided in `arguments`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from app.protocols.server import words_of
from app.simulator.fake_model.words import CONCEPTS, STOP, concepts

_UP = r"[A-ZÀ-ÖØ-Þ]"
_NAME = rf"{_UP}[\w'’.-]*\w(?:\s+(?:(?:of|de|la|del|da|upon|von|van)\s+)?{_UP}[\w'’-]*\w)*"
_AGAIN = r"(?:(?:also\s+)?(?:in|for|at|near)\s+)?"
"""The small word of a list said once more: "in Paris and in Rome"."""
_LIST = re.compile(rf"({_NAME}(?:\s*,\s*{_AGAIN}{_NAME})*)\s*,?\s*(?:and|&|or)\s+{_AGAIN}({_NAME})")
_PLACE = re.compile(
    rf"\b(in|for|at|to|from|near|around|of|over|via|visit|visiting|into)\s+(?:the\s+)?"
    rf"({_NAME}(?:,\s+{_NAME})?)"
)
_LOWER_PLACE = re.compile(r"\b(in|for|near|from|to|at)\s+((?:[a-zà-ÿ][\w'’-]+\s*){1,3})")
_LOWER_LIST = re.compile(
    r"\b(?:in|for)\s+([a-zà-ÿ]{3,})\s+(?:and|or|&)\s+(?:(?:in|for)\s+)?([a-zà-ÿ]{3,})\b"
)
_CAPITALS = re.compile(rf"(?<![\w@]){_NAME}")
_QUOTE = re.compile(r"\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(r"https?://[^\s\"'<>)]+[^\s\"'<>).,;:!?]")
_FILE = re.compile(
    r"(?<![\w@])(?:[~.]?/)?(?:[\w-]+/)*[\w-]+\.[a-z][a-z0-9]{1,4}(?![\w@])|~?/[\w./-]+"
)
_CODE = re.compile(
    r"#(\d+)|\b([A-Z]+-\d+)\b|\b(?:order|ticket|invoice|id|number|issue)\s+#?(\w*\d\w*)"
)
_NUMBER = re.compile(r"(?<![\w.#-])(-?\d+(?:,\d{3})*(?:\.\d+)?)\s*(%|°|[a-zA-Z]+)?(?!\d)(?!-\d)")
_CLOCK = re.compile(r"\b(\d{1,2})(?::(\d{2}))?\s*(am|pm|a\.m\.|p\.m\.)|\b(\d{1,2}):(\d{2})\b", re.I)
_ISO = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_WHEN = re.compile(
    r"\b(the day after tomorrow|day after tomorrow|today|tonight|tomorrow|yesterday|"
    r"(?:(?:next|this|on)\s+)?(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)|"
    r"next week|next month|this weekend|in \d+ (?:days?|weeks?)|"
    r"(?:\d{1,2}(?:st|nd|rd|th)?\s+)?(?:january|february|march|april|may|june|july|august|"
    r"september|october|november|december)(?:\s+\d{1,2}(?:st|nd|rd|th)?)?(?=\b))",
    re.I,
)
_ROOM = re.compile(
    r"\b(?:living room|bedroom|kitchen|bathroom|office|hallway|garage|basement|garden)\b"
)
_SQL = re.compile(
    r"\b(?:select\b.+?\bfrom\b|insert into\b|update\b.+?\bset\b|delete from\b).*?(?=[;?]|$)",
    re.I | re.S,
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)

LANGUAGES = {
    "english": "en",
    "french": "fr",
    "spanish": "es",
    "german": "de",
    "italian": "it",
    "portuguese": "pt",
    "japanese": "ja",
    "chinese": "zh",
    "korean": "ko",
    "russian": "ru",
    "arabic": "ar",
    "dutch": "nl",
    "swedish": "sv",
    "polish": "pl",
    "turkish": "tr",
    "hindi": "hi",
    "latin": "la",
    "greek": "el",
    "danish": "da",
    "norwegian": "no",
    "finnish": "fi",
}
_CURRENCIES = {
    "$": "USD",
    "dollar": "USD",
    "€": "EUR",
    "euro": "EUR",
    "£": "GBP",
    "pound": "GBP",
    "¥": "JPY",
    "yen": "JPY",
    "franc": "CHF",
    "rupee": "INR",
    "yuan": "CNY",
    "krona": "SEK",
    "peso": "MXN",
    "real": "BRL",
}
_CODES = words_of(
    """USD EUR GBP JPY CHF INR CNY SEK NOK DKK PLN CZK HUF AUD CAD NZD MXN BRL KRW SGD HKD ZAR TRY
    BTC"""
)
_CURRENCY = re.compile(
    r"[$€£¥]|\b(?:"
    + "|".join(sorted(_CODES))
    + r"|(?:us |swiss |british )?(?:dollar|euro|pound|franc|"
    r"rupee|peso)s?|yen|yuan)\b",
    re.I,
)
_SPELLED = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "hundred": 100,
    "dozen": 12,
}
_PHRASES = (
    (r"\bhalf an hour\b", "30 minutes"),
    (r"\b(?:a quarter of an|quarter) hour\b", "15 minutes"),
    (r"\ban? (hour|minute|second|day|week|couple|dozen|hundred)\b", r"1 \1"),
    (r"\b1 couple\b", "2"),
    (r"\b1 dozen\b", "12"),
    (r"\b1 hundred\b", "100"),
)
SECONDS = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "day": 86400}


@dataclass(frozen=True)
class Number:
    """`unit` is the word or sign after the number, in lower case and singular, or ""."""

    value: float
    unit: str = ""

    @property
    def seconds(self) -> float | None:
        size = SECONDS.get(self.unit)
        return None if size is None else self.value * size


@dataclass(frozen=True)
class NamedPlace:
    """A name and the small word before it ("" where there is none)."""

    before: str
    name: str


def quotes(text: str) -> list[str]:
    return ["".join(found) for found in _QUOTE.findall(text)]


def rooms(text: str) -> list[str]:
    return _ROOM.findall(text)


def emails(text: str) -> list[str]:
    return _EMAIL.findall(text)


def urls(text: str) -> list[str]:
    return _URL.findall(text)


def files(text: str) -> list[str]:
    return _FILE.findall(_EMAIL.sub(" ", _URL.sub(" ", text)))


def sql(text: str) -> str:
    """A statement in SQL, up to its semicolon, or ""."""
    found = _SQL.search(text)
    return found.group().strip() if found else ""


def codes(text: str) -> list[str]:
    """Numbers of orders, tickets and the like: `#42`, `ABC-123`, "order 1234"."""
    return ["".join(found) for found in _CODE.findall(text)]


def numbers(text: str) -> list[Number]:
    """All numbers, those in words too; clock times, dates and addresses are none."""
    for other in (_URL, _EMAIL, _ISO, _CLOCK):
        text = other.sub(" ", text)
    for phrase, plain in _PHRASES:
        text = re.sub(phrase, plain, text, flags=re.I)
    spelled = r"\b(" + "|".join(_SPELLED) + r")\b(?!\s+of\s+(?:us|them|the))"
    text = re.sub(spelled, lambda m: str(_SPELLED[m.group().lower()]), text, flags=re.I)
    return [Number(_plain(n), _singular(unit)) for n, unit in _NUMBER.findall(text)]


def _plain(digits: str) -> float:
    number = float(digits.replace(",", ""))
    return int(number) if number.is_integer() else number


def _singular(unit: str) -> str:
    unit = unit.lower()
    return unit[:-1] if len(unit) > 2 and unit.endswith("s") else unit


def places(text: str) -> list[NamedPlace]:
    """Names after a preposition, then any other name, then small-lettered words after "in"."""
    text = _QUOTE.sub(" ", text)
    found = [
        NamedPlace(before.lower(), name)
        for before, whole in _PLACE.findall(text)
        if (name := _name(whole))
    ]
    known = {part for place in found for part in (place.name, *place.name.split(", "))}
    loose = [NamedPlace("", name) for name in names(text) if name not in known]
    return found + loose or _lower_places(text)


def _lower_places(text: str) -> list[NamedPlace]:
    found = []
    for before, phrase in _LOWER_PLACE.findall(text):
        taken: list[str] = []
        for word in phrase.split():
            if word in STOP or _WHEN.fullmatch(word) or word in _VAGUE or _CURRENCY.match(word):
                break
            taken.append(word)
        if taken and not concepts(taken[:1]):
            found.append(NamedPlace(before, " ".join(taken).title()))
    return found


_VAGUE = words_of(
    "right next week weekend morning afternoon evening night minutes hours seconds days"
)


def names(text: str) -> list[str]:
    """Capitalised names, without the everyday words a sentence may begin with."""
    found = (_name(whole) for whole in _CAPITALS.findall(_QUOTE.sub(" ", text)))
    return [name for name in found if name]


def _name(whole: str) -> str:
    """`whole` without everyday words in front: "Weather Tokyo" -> "Tokyo", "Please" -> ""."""
    first, _, rest = whole.partition(" ")
    word = first.lower().strip("'’.,")
    if word in STOP or word in _EVERYDAY or concepts([word]):
        return _name(rest) if rest else ""
    return "" if word in _DAYS or word in _MONTHS or word.upper() in _CODES else whole


_EVERYDAY = words_of(
    """i'm i'd i'll what's who's where's how's it's let's search find look book schedule set remind
    turn play translate convert calculate compute add remove delete email write read open close
    check compare summarize explain call message text order buy start stop wake plan draft post
    create update list show tell get give make run put use count sort say ask let're dear maybe ok
    next then after before first finally meanwhile good morning evening thanks i i've what're
    meet good well sure could flights weather"""
) | frozenset(CONCEPTS)


def listed(text: str) -> list[str]:
    """The names of an enumeration: "Paris, Rome and Oslo" -> three; otherwise empty."""
    text = _QUOTE.sub(" ", text)
    found = _LIST.search(text)
    if found is None:
        small = _LOWER_LIST.search(text)
        usual = small is None or concepts(small.groups()) or STOP & set(small.groups())
        return [] if usual or small is None else [name.title() for name in small.groups()]
    said = [re.sub(rf"^{_AGAIN}", "", item.strip()) for item in found[1].split(",")]
    items = [*map(_name, said), _name(found[2])]
    return items if all(items) else []


def list_spans(text: str) -> list[tuple[int, int]]:
    """Where enumerations of names stand."""
    return [found.span() for found in _LIST.finditer(text) if listed(found.group())]


def languages(text: str) -> list[tuple[str, str]]:
    """(the small word before, the language), e.g. ("to", "French")."""
    found = re.findall(r"(?:\b(\w+)\s+)?\b(" + "|".join(LANGUAGES) + r")\b", text, re.I)
    return [(before.lower(), language.title()) for before, language in found]


def currencies(text: str) -> list[str]:
    """ISO codes in the order of the text: "100 dollars to €" -> USD, EUR."""
    return [_code(found.group()) for found in _CURRENCY.finditer(text)]


def _code(word: str) -> str:
    last = word.lower().split()[-1]
    return _CURRENCIES.get(last) or _CURRENCIES.get(last.removesuffix("s")) or last.upper()


def when(text: str) -> str:
    """The day as it was said ("tomorrow", "next friday", "2026-01-31"), or ""."""
    exact = _ISO.search(text)
    if exact:
        return exact.group()
    found = _WHEN.search(text)
    return re.sub(r"^on\s+", "", found.group(), flags=re.I) if found else ""


def clock(text: str) -> str:
    """The time of day as HH:MM, or ""."""
    found = _CLOCK.search(text)
    if found is None:
        return "12:00" if re.search(r"\bnoon\b", text, re.I) else ""
    hour, minute = int(found[1] or found[4]), int(found[2] or found[5] or 0)
    half = (found[3] or "").lower()[:1]
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour:02}:{minute:02}" if hour < 24 and minute < 60 else ""


def day(said: str, today: date) -> date | None:
    """The date that was meant by what `when` found."""
    said = said.lower()
    if _ISO.fullmatch(said):
        try:
            return date.fromisoformat(said)
        except ValueError:
            return None
    ahead = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "next week": 7}
    if said in ahead:
        return today + timedelta(ahead[said])
    if "after tomorrow" in said:
        return today + timedelta(2)
    counted = re.fullmatch(r"in (\d{1,3}) (day|week)s?", said)
    if counted:
        return today + timedelta(int(counted[1]) * (7 if counted[2] == "week" else 1))
    if said in ("this weekend", "next month"):
        return today + timedelta((5 - today.weekday()) % 7 if "weekend" in said else 30)
    for index, name in enumerate(_DAYS):
        if name in said:
            return today + timedelta((index - today.weekday() - 1) % 7 + 1)
    return _day_of_month(said, today)


def _day_of_month(said: str, today: date) -> date | None:
    month = next((index + 1 for index, name in enumerate(_MONTHS) if name in said), 0)
    number = re.search(r"\d{1,2}", said)
    if not month:
        return None
    try:
        then = date(today.year, month, int(number.group()) if number else 1)
        return then if then >= today else then.replace(year=today.year + 1)
    except ValueError:
        return None


# -- values of an enum

_SAME = {
    "celsius": "metric c °c centigrade degreesc",
    "fahrenheit": "imperial f °f degreesf",
    "metric": "celsius c °c",
    "imperial": "fahrenheit f °f",
    "high": "urgent important critical asap",
    "low": "whenever minor trivial",
    "true": "on yes",
    "false": "off no",
    "km": "kilometers kilometres kilometer",
    "mi": "miles mile",
    "kg": "kilograms kilos kilogram",
    "lb": "pounds lbs pound",
}


def mentioned(values: Sequence[Any], text: str) -> list[Any]:
    """The values that `text` names, in its order."""
    text = text.lower()
    places = [(min(_places(value, text), default=-1), value) for value in values]
    found = [(place, value) for place, value in places if place >= 0]
    return [value for _, value in sorted(found, key=lambda pair: pair[0])]


def _places(value: Any, text: str) -> list[int]:
    own = str(value).lower()
    spellings = [own, own.replace("_", " "), *_SAME.get(own, "").split()]
    spellings += [language for language, code in LANGUAGES.items() if code == value]
    found = [_position(spelling, text) for spelling in spellings if spelling]
    return [place for place in found if place >= 0]


def _position(spelling: str, text: str) -> int:
    ending = "s?" if len(spelling) > 2 and spelling[-1].isalpha() else ""
    found = re.search(
        rf"(?<!\w){re.escape(spelling.removesuffix('s') or spelling)}{ending}(?!\w)", text
    )
    exact = re.search(rf"(?<!\w){re.escape(spelling)}(?!\w)", text)
    hit = exact or (found if len(spelling) > 3 else None)
    return hit.start() if hit else -1


# -- arithmetic: evaluation walks the syntax tree, nothing is executed

_DECIMAL = r"(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_OPERAND = rf"(?:sqrt\s*\([^()]*\)|[-+]?\({{0,4}}{_DECIMAL}\s{{0,3}}%?\){{0,4}})"
_OPERATOR = r"(?:\*\*|[-+*/×÷^−]|//)"
_CHAIN = re.compile(
    rf"\({{0,4}}{_OPERAND}(?:\s{{0,3}}{_OPERATOR}\s{{0,3}}\({{0,4}}{_OPERAND})+\){{0,4}}"
)
_DATE_LIKE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{2,4}|\+?\d{1,4}-\d{3,4}-\d{3,4}")

_SPOKEN: tuple[tuple[str, str], ...] = (
    (rf"({_DECIMAL})\s*(?:%|percent)\s+of\s+({_DECIMAL})", r"\1 / 100 * \2"),
    (rf"(?:the\s+)?square root of\s+({_DECIMAL})", r"\1 ** 0.5"),
    (rf"({_DECIMAL})\s+squared", r"\1 ** 2"),
    (rf"({_DECIMAL})\s+cubed", r"\1 ** 3"),
    (rf"({_DECIMAL})\s+to the power of\s+({_DECIMAL})", r"\1 ** \2"),
    (rf"(?:the\s+)?sum of\s+({_DECIMAL})\s+and\s+({_DECIMAL})", r"\1 + \2"),
    (rf"(?:the\s+)?product of\s+({_DECIMAL})\s+and\s+({_DECIMAL})", r"\1 * \2"),
    (rf"(?:the\s+)?difference (?:of|between)\s+({_DECIMAL})\s+and\s+({_DECIMAL})", r"\1 - \2"),
    (rf"\badd\s+({_DECIMAL})\s+(?:and|to)\s+({_DECIMAL})", r"\1 + \2"),
    (rf"\bsubtract\s+({_DECIMAL})\s+from\s+({_DECIMAL})", r"\2 - \1"),
    (rf"\bmultiply\s+({_DECIMAL})\s+(?:by|and|with)\s+({_DECIMAL})", r"\1 * \2"),
    (rf"\bdivide\s+({_DECIMAL})\s+by\s+({_DECIMAL})", r"\1 / \2"),
    (rf"({_DECIMAL})\s+(?:times|multiplied by|x)\s+(?={_DECIMAL})", r"\1 * "),
    (rf"({_DECIMAL})\s+plus\s+(?={_DECIMAL})", r"\1 + "),
    (rf"({_DECIMAL})\s+minus\s+(?={_DECIMAL})", r"\1 - "),
    (rf"({_DECIMAL})\s+divided by\s+(?={_DECIMAL})", r"\1 / "),
)

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def in_signs(text: str) -> str:
    """`text` with arithmetic in words written in signs: "2 times 3" -> "2 * 3"."""
    for pattern, signs in _SPOKEN:
        text = re.sub(pattern, signs, text, flags=re.IGNORECASE)
    return text


def expression(text: str) -> str:
    """The longest arithmetic expression of a prompt, as written, or ""."""
    chains = [
        found.group().strip() for found in _CHAIN.finditer(_DATE_LIKE.sub(" ", in_signs(text)))
    ]
    chains = [_balanced(chain) for chain in chains]
    return max(chains, key=len, default="")


def _balanced(chain: str) -> str:
    """A chain that took a bracket too many from the sentence around it, without it."""
    while chain.count("(") > chain.count(")") and chain.startswith("("):
        chain = chain[1:].lstrip()
    while chain.count(")") > chain.count("(") and chain.endswith(")"):
        chain = chain[:-1].rstrip()
    return chain


def operation(text: str) -> str:
    """`add`, `subtract`, `multiply` or `divide` where `text` holds one such expression, or ""."""
    match list(set(re.findall(r"[-+*/×÷−]+", expression(text)))):
        case ["+"]:
            return "add"
        case ["-"] | ["−"]:
            return "subtract"
        case ["*"] | ["×"]:
            return "multiply"
        case ["/"] | ["÷"]:
            return "divide"
        case _:
            return ""


def evaluate(text: str) -> str:
    """What an expression comes to, as a person writes it; "" where it is not arithmetic."""
    plain = text.replace(",", "").replace("×", "*").replace("÷", "/").replace("−", "-")
    plain = re.sub(r"(\d)\s*%", r"\1 / 100", plain.replace("^", "**"))
    try:
        number = _number(ast.parse(plain.strip(), mode="eval").body)
        return _written(number)
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, TypeError, MemoryError):
        return ""


def _written(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    if not math.isfinite(number):
        raise ArithmeticError
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:.10g}"


def _number(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _number(operand)
        case ast.Call(func=ast.Name(id="sqrt"), args=[operand]):
            return math.sqrt(_number(operand))
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _number(left), _number(right)
            if isinstance(op, ast.Pow) and (abs(first) > 1e6 or abs(second) > 64):
                raise ValueError("too large to be worked out here")
            return _OPERATIONS[type(op)](first, second)
        case _:
            raise ValueError("not arithmetic")
