"""Plans the calls for a prompt: splits it into clauses, finds the tool whose words each uses, and
assigns the clause's values to arguments by name and type.

Words of a tool's name count most, then those of its description, properties and enums. A clause
that matches no tool is joined to its neighbour. A value is used once, so that "add 2 and 3" fills
`a` with 2 and `b` with 3; missing values are generated from the schema. Pure pattern matching, in
the order of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from playground.core.messages import MessagePart, arguments_object
from playground.core.tools import Tool
from playground.protocols import words_of
from playground.schema.satisfy import sample_value
from playground.schema.schema_checks import Place, is_local, resolve

# Words and values: stems, quotes, numbers, names, and what a schema says of a parameter -----------

STOP = words_of(
    """a an the and or but if then so to of in on at by for from with about as is are was were be
    been am do does did done can could would should will shall may might must please me my mine i
    you your we our us it its this that these those there here what which who whom whose when where
    why how not no yes ok okay just also too very much many some any all each every both more most
    than into onto out up down over under again once only own same such now let lets s t d ll re ve
    m want need like know tell give show have has had got hi hello hey thanks thank today tomorrow
    one optional required e g string number value values name given returns return use used using"""
)
"""Ignored in the choice of a tool, and removed from both ends of a text."""
WEAK = words_of(
    """get set fetch list make do run show give add create new send update read write open check
    look tool current data info use call find start put post query by for to from of in the"""
)
"""Verbs that half of all tool names begin with: they decide only if a name has no other word."""

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDINGS = (
    *("izations", "ization", "ations", "ation", "ators", "ator", "ating", "ated", "ates", "ate"),
    *("ings", "ing", "ied", "ies", "ments", "ment", "ed", "es", "s", "e"),
)

_UP = r"[A-ZÀ-ÖØ-Þ][\w'’-]*"
_DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?"
_OPERAND = rf"(?:[a-z]{{2,5}}(?=\())?\({{0,4}}-?{_DIGITS}\){{0,4}}"
_VALUE = re.compile(
    r"\"(?P<quote>[^\"]+)\"|“(?P<quote2>[^”]+)”|`(?P<quote3>[^`]+)`|(?<!\w)'(?P<quote4>[^']+)'(?!\w)"
    r"|(?P<url>https?://[^\s\"'<>)]*[^\s\"'<>).,;:!?])"
    r"|(?P<email>(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<date>\b\d{4}-\d{2}-\d{2}\b)"
    r"|(?P<path>(?<![\w@/.~<-])(?:(?:[~.]{0,2}/)?(?:[\w-]+/)*[\w-]+\.[a-z][a-z0-9]{1,4}(?![\w@])"
    r"|~?/[\w./-]*\w))"
    rf"|(?P<sum>(?<![\w.]){_OPERAND}(?:\s{{0,3}}(?:\*\*|//|[-+*/^%])\s{{0,3}}{_OPERAND})+)"
    r"|#(?P<code>\d+)|(?P<code2>\b[A-Z]+-\d+\b)"
    rf"|(?P<number>(?<![\w.])-?{_DIGITS}(?![\w-]))"
    rf"|(?P<name>(?<![\w@'’])@?{_UP}(?:\s+(?:(?:of|de|la|del|da|van|von)\s+)?{_UP})*)"
)

_JOINT = re.compile(
    r"\s*(?:,\s*(?:and|or)?|and|or|&)\s+(?:also\s+)?(?:(?:in|for|at|near)\s+)?", re.I
)
"""The separators of an enumeration's names: "Paris, Rome and in Oslo"."""

_FORMATS = {"email": ("email",), "uri": ("url",), "date": ("date",)}
_NAMED = ("name", "email")

_WANTED: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (words_of("expression expr formula equation calculation"), ("sum",)),
    (words_of("email mail cc bcc"), ("email",)),
    (words_of("url uri link href website"), ("url",)),
    (words_of("path file filename filepath folder directory"), ("path",)),
    (words_of("id ids code ticket sku"), ("code", "number")),
    (words_of("date day when deadline"), ("date",)),
    (
        words_of(
            """city cities location locations place places country town region destination origin
            from to recipient recipients person people attendee attendees contact name user who
            language artist timezone"""
        ),
        _NAMED,
    ),
)
"""Words of a parameter's name, and the kinds of values that it accepts."""

_AT_END = re.compile(
    r"(?:[\s,]*\b(?:please|thanks|thank you|for me|today|tomorrow|now))*\W*$", re.I
)

_OPERATOR = re.compile(r"(?<=[\d\s)])[-+*/^%]+|[()a-z]")

_NAME = 3
_SIGNS = {"+": "add plus sum", "-": "subtract minus", "*": "multiply", "/": "divide"}

_MEANT = {
    "sum": "calculate calc compute math arithmetic expression evaluate",
    "url": "url link page fetch",
    "email": "email mail",
    "path": "file path",
}
"""The meaning of a value in the prompt, besides its words."""

_BREAK = re.compile(
    r"(?<=[.!?;])\s+|\n+|"
    r"\s*[,;]?\s+(?:and then|and also|and|then|also|plus|after that|as well as)\s+"
    r"|\s*,\s+(?:then\s+|also\s+)?",
    re.I,
)
_FOLLOW_UP = re.compile(
    r"^\W*(?:and|what about|how about|also|same|now|again|then|or|in|for|to)\b", re.I
)

_USING = r"(?:us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|run(?:ning)?|execut(?:e|ing)|try(?:ing)?)"
_USED = re.compile(rf"\b{_USING}\s+(?:the\s+)?(?:tool\s+|function\s+)?[`'\"“‘]?$", re.I)

_NOT_USED = re.compile(
    r"(?:\bnot|n['’]t|\bnever|\bwithout|\bavoid|\binstead of|\brather than|\bexcept)\s+"
    rf"(?:{_USING}\s+)?(?:the\s+)?(?:tool\s+|function\s+)?[`'\"“‘]?$",
    re.I,
)
"""The words before a tool's name that ask for it, and those that forbid it."""

_AROUND = re.compile(
    r"[`'\"”’]?(?P<kind>\s+(?:tool|function)\b)?(?P<call>\s{0,2}\((?:\s*\))?)?", re.I
)

_OBJECT = re.compile(r"\W*(?:$|(?:for|with|on|to|of|in|and|then|now|please)\b)", re.I)
"""What follows a name, and not an article: "call a for Paris"."""

_BEFORE = 60
"""Characters before a tool's name that are read for the words above."""


def words(text: str) -> list[str]:
    """The words of a prompt or of an identifier (`get_weather`, `getWeather`), in lower case."""
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text.replace("_", " ")))]


def stem(word: str) -> str:
    """`calculator`, `calculate` and `calculations` -> `calcul`; short words are unchanged."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word.removesuffix("s") if len(word) == 4 else word


def stems(some: Iterable[str]) -> set[str]:
    return {stem(word) for word in some if word not in STOP and len(word) > 1}


# -- the values of a text


@dataclass(frozen=True)
class TextValue:
    """A value in a text, from `start` to `end`: a `quote`, `url`, `email`, `path`, `date`, `sum`
    (an arithmetic expression), `code` (#42, R-7), `number` or (capitalised) `name`."""

    kind: str
    text: str
    start: int
    end: int


def find_values(text: str) -> list[TextValue]:
    """The values of a text, in order."""
    return [find for match in _VALUE.finditer(text) if (find := _text_value(match))]


def _text_value(match: re.Match[str]) -> TextValue | None:
    kind, text = next((kind, text) for kind, text in match.groupdict().items() if text)
    kind, start = kind.rstrip("234"), match.start()
    if kind == "sum":
        text = _balance_brackets(text)
    if kind == "name":
        # A sentence begins with a capital; a capitalised stop word is not a name either.
        before = match.string[:start].rstrip(" \t\n\"“'(")
        begins = not before or before[-1] in ".?!"
        while text and (begins or words(text.split()[0])[0] in STOP):
            text, begins = text.partition(" ")[2].strip(), False
        start = match.end() - len(text)
        text = re.sub(r"['’]s$", "", text)
    return TextValue(kind, text, start, match.end()) if text else None


def _balance_brackets(sum_: str) -> str:
    """A sum without surplus brackets of the surrounding sentence."""
    while sum_.count("(") > sum_.count(")") and sum_.startswith("("):
        sum_ = sum_[1:].lstrip()
    while sum_.count(")") > sum_.count("(") and sum_.endswith(")"):
        sum_ = sum_[:-1].rstrip()
    return sum_


def enumerations(text: str) -> list[list[TextValue]]:
    """Names in an enumeration: "in Paris, Rome and in Oslo" -> one list of three."""
    names = [find for find in find_values(text) if find.kind == "name"]
    groups = [[name] for name in names[:1]]
    for before, name in pairwise(names):
        if _JOINT.fullmatch(text[before.end : name.start]):
            groups[-1].append(name)
        else:
            groups.append([name])
    return [group for group in groups if len(group) > 1]


def mentioned_values(values: Iterable[Any], text: str) -> list[Any]:
    """The values of an enum that `text` names, in order of the text."""
    text = text.lower()
    hits = [
        (hit.start(), place, value)
        for place, value in enumerate(values)
        if (value_words := str(value).lower().replace("_", " "))
        and (hit := re.search(rf"(?<!\w){re.escape(value_words)}s?(?!\w)", text.replace("_", " ")))
    ]
    return [value for _, _, value in sorted(hits, key=lambda hit: hit[:2])]


# -- reading a JSON Schema as far as needed to fill it


def resolve_schema(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its reference resolved and the `null` of an optional value removed."""
    reached = mapping(schema)
    for _ in range(8):
        ref = reached.get("$ref")
        parts = reached.get("anyOf") or reached.get("oneOf")
        choices = [mapping(part) for part in parts] if isinstance(parts, list) else []
        if isinstance(ref, str) and is_local(ref):
            beside = {k: reached[k] for k in reached if k != "$ref"}
            reached = {**mapping(resolve(root, ref)), **beside}
        elif choices and "type" not in reached:
            real = next((part for part in choices if part.get("type") != "null"), choices[0])
            reached = {k: reached[k] for k in reached if k not in ("anyOf", "oneOf")} | dict(real)
        else:
            return reached
    return {}


def type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "string" if "enum" not in schema else ""


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# Arguments ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilledCall:
    """`used` counts the values taken from the clause; `spread` are the other values of an
    enumeration ("Paris and Rome") for the property `over`, each for a call of its own."""

    arguments: Mapping[str, Any]
    used: int
    over: str = ""
    spread: tuple[str, ...] = ()

    def argument_sets(self) -> list[dict[str, Any]]:
        """One set of arguments for each value of the enumeration."""
        first = dict(self.arguments)
        return [first, *({**first, self.over: value} for value in self.spread)]


def fill(tool: Tool, clause: str, before: Mapping[str, Any] | None = None) -> FilledCall:
    """Arguments for `tool` from `clause`; `before` are the arguments of an earlier call that it
    continues. Required values that were not given are missing: see `fitted`."""
    work = _Filling(tool, clause)
    arguments = work.object(tool.parameters, before or {}, 0)
    return FilledCall(arguments, work.used, work.over, work.spread)


def fit_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` unchanged if they satisfy the tool's schema, else the closest valid ones."""

    def wish(place: Place, schema: Mapping[str, Any]) -> Iterator[Any]:
        there = value_at(arguments, place)
        if there is not None:
            yield there

    value = sample_value(tool.parameters, wish, sparse=True)
    return value if isinstance(value, dict) else dict(arguments)


def value_at(value: Any, place: Place) -> Any:
    """The value at this place of `value`, or None."""
    for step in place:
        match value:
            case Mapping() if step in value:
                value = value[step]
            case list() if isinstance(step, int) and step < len(value):
                value = value[step]
            case _:
                return None
    return value


class _Filling:
    """The state of filling one call; `left` are the unused values."""

    def __init__(self, tool: Tool, clause: str) -> None:
        self.tool, self.clause = tool, clause
        own = stems(words(tool.name))
        values = find_values(clause)
        self.left = [f for f in values if f.kind != "name" or stems(words(f.text)) - own]
        self.listed = next(iter(enumerations(clause)), [])
        self.used = 0
        self.over = ""
        self.spread: tuple[str, ...] = ()

    def object(
        self, schema: Mapping[str, Any], before: Mapping[str, Any], depth: int
    ) -> dict[str, Any]:
        properties = mapping(schema.get("properties"))
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        if not needed and depth == 0:
            needed = list(properties)[:1]
        values: dict[str, Any] = {}
        # Required properties come first: an optional one must not take their values.
        for name in sorted(properties, key=lambda name: name not in needed):
            inner = resolve_schema(properties[name], self.tool.parameters)
            value = self.value(name, inner, name in needed, depth)
            if value is None:
                value = before.get(name)
            if value is not None:
                values[name] = value
        return {name: values[name] for name in properties if name in values}

    def value(self, name: str, schema: Mapping[str, Any], needed: bool, depth: int) -> Any:
        """The given value of this property, or None."""
        if isinstance(schema.get("enum"), list):
            named = mentioned_values(schema["enum"], self.clause)
            self.used += bool(named)
            return named[0] if named else None
        match type_of(schema):
            case "number" | "integer" as kind:
                return self.number(kind, needed)
            case "boolean":
                return self.boolean(name, needed)
            case "array":
                return self.array(name, schema, depth) or None
            case "object" if schema.get("properties") and depth < 5 and (needed or depth == 0):
                before = self.used
                inner = self.object(schema, {}, depth + 1)
                return inner if needed or self.used > before else None
            case "string":
                return self.string(name, schema, needed)
        return None

    def take(self, *kinds: str) -> str | None:
        """Takes the first value of one of these kinds, in the order of the kinds."""
        for kind in kinds:
            for find in self.left:
                if find.kind == kind:
                    self.left.remove(find)
                    self.used += 1
                    return find.text
        return None

    def number(self, kind: str, needed: bool) -> int | float | None:
        """The next number; a required one may come from an expression: "10 - 4" for two numbers."""
        if needed and all(find.kind != "number" for find in self.left):
            self.left = [
                part
                for find in self.left
                for part in (
                    find_values(_OPERATOR.sub(" ", find.text)) if find.kind == "sum" else [find]
                )
            ]
        text = self.take("number")
        return None if text is None else _number(text, kind)

    def boolean(self, name: str, needed: bool) -> bool | None:
        stems = {stem(word) for word in words(self.clause)}
        if not needed and not {stem(word) for word in words(name)} & stems:
            return None
        return not stems & {"no", "not", "don", "off", "without", "disabl", "stop"}

    def array(self, name: str, schema: Mapping[str, Any], depth: int) -> list[Any]:
        """All values that match the items."""
        items = resolve_schema(schema.get("items"), self.tool.parameters)
        if isinstance(items.get("enum"), list):
            named = mentioned_values(items["enum"], self.clause)
            self.used += bool(named)
            return named
        kind = type_of(items)
        if kind == "object" and depth < 5:
            before = self.used
            item = self.object(items, {}, depth + 1)
            return [item] if self.used > before else []
        if kind not in ("number", "integer", "string"):
            return []
        kinds = ("number",) if kind != "string" else (*_wanted_kinds(name, items), "quote", "name")
        for wanted in kinds:
            texts = [find.text for find in self.left if find.kind == wanted]
            if texts:
                self.left = [find for find in self.left if find.kind != wanted]
                self.used += len(texts)
                return texts if kind == "string" else [_number(text, kind) for text in texts]
        listed = re.split(r",\s*(?:and\s+)?|\s+and\s+", self.rest()) if kind == "string" else []
        return [item for item in listed if item]

    def string(self, name: str, schema: Mapping[str, Any], needed: bool) -> str | None:
        kinds = _wanted_kinds(name, schema)
        listed = [find.text for find in self.listed if find in self.left]
        text = self.take(*kinds)
        if text is not None and text in listed and kinds == _NAMED and not self.spread:
            self.over, self.spread = name, tuple(other for other in listed if other != text)
        # A path or an address has its own syntax: other words cannot replace it.
        if text is not None or not needed or kinds[0] in ("url", "email", "path", "date"):
            return text
        text = self.take("quote") or self.rest()
        if text or kinds[0] != "quote" or {"default", "examples"} & schema.keys():
            return text or None
        return self.clause.strip(" ,;:.!?") or None

    def rest(self) -> str:
        """The clause without the values taken from it and the leading command: "Search for ramen in
        Kyoto" -> "ramen in Kyoto"."""
        own, text = stems(words(self.tool.name)), self.clause
        for find in reversed(find_values(text)):
            if find not in self.left and find.kind not in ("name", "sum"):
                text = f"{text[: find.start]} {text[find.end :]}"
        text = _AT_END.sub("", text.strip(" ,;:"), count=1)
        while text:
            first, _, more = text.partition(" ")
            if any(word not in STOP | WEAK and stem(word) not in own for word in words(first)):
                break
            text = more.strip(" ,;:")
        return text


def _number(text: str, kind: str) -> int | float:
    number = float(text.replace(",", ""))
    return int(number) if kind == "integer" or number.is_integer() else number


def _wanted_kinds(name: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The kinds of values for a text, the best first."""
    form = _FORMATS.get(str(schema.get("format", "")))
    name_words = set(words(name))
    return form or next((kinds for known, kinds in _WANTED if known & name_words), ("quote",))


# Calls --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedCall:
    """A call planned for the prompt. The arguments satisfy the tool's schema."""

    tool: Tool
    arguments: Mapping[str, Any]


def planned_calls(
    prompt: str, tools: Sequence[Tool], last: MessagePart | None = None
) -> list[PlannedCall]:
    """The calls for `prompt`, in order, without duplicates. `last` is the call before it, which it
    may continue."""
    forbidden = [mention for mention in mentioned_tools(prompt, tools) if mention.forbidden]
    for mention in reversed(forbidden):
        prompt = mention.remove_from(prompt)
        tools = [tool for tool in tools if tool != mention.tool]
    named = mentioned_tools(prompt, tools)
    filled = [(tool, fill(tool, clause)) for tool, clause in _assign_clauses(prompt, tools, named)]
    filled = filled or list(_follow_up_call(prompt, tools, last))
    planned: list[PlannedCall] = []
    for tool, filled_call in filled:
        for arguments in filled_call.argument_sets():
            call = PlannedCall(tool, fit_arguments(tool, arguments))
            if call not in planned:
                planned.append(call)
    return planned


def forced_call(prompt: str, tools: Sequence[Tool]) -> PlannedCall:
    """The call if one is forced and no tool matches: the one that is named, or the best."""
    named = [mention for mention in mentioned_tools(prompt, tools) if not mention.forbidden]
    best = named[0].tool if named else max(tools, key=lambda tool: _score(tool, prompt))
    words_for_it = named[0].remove_from(prompt) if named else prompt
    return PlannedCall(best, fit_arguments(best, fill(best, words_for_it).arguments))


def fitting_tools(prompt: str, tools: Sequence[Tool]) -> list[Tool]:
    """The tools whose names or words `prompt` uses."""
    mentions = {mention.tool.name: mention for mention in mentioned_tools(prompt, tools)}
    return [
        tool
        for tool in tools
        if (not mentions[tool.name].forbidden if tool.name in mentions else _score(tool, prompt))
    ]


@dataclass(frozen=True)
class ToolMention:
    """The name of a tool in a prompt, from `start` to `end` with its quotes and the word `tool`.
    `sure`: it cannot be a part of a sentence by chance. `forbidden`: not to be used, as the words
    before it say, which are inside, too."""

    tool: Tool
    start: int
    end: int
    sure: bool
    forbidden: bool

    def remove_from(self, text: str) -> str:
        return f"{text[: self.start]} {text[self.end :]}"


def mentioned_tools(prompt: str, tools: Sequence[Tool]) -> list[ToolMention]:
    """The tools that `prompt` names, in order: as they are written, or with other separators ("get
    weather", "getWeather"). Of names inside each other the longest counts. A name that could be
    any word is one only where the prompt marks it: `search`, search(), "use search", "the search
    tool"; several words that could be a part of a sentence are one only where nothing else is."""
    matches = [
        (match, tool)
        for tool in tools
        if (pattern := _name_pattern(tool.name)) is not None
        for match in pattern.finditer(prompt)
    ]
    # Of several names that fit the same text, the one that is written so.
    matches.sort(key=lambda it: (it[0].start() - it[0].end(), it[0][0] != it[1].name))
    mentions: list[ToolMention] = []
    for match, tool in matches:
        overlaps = any(match.start() < m.end and m.start < match.end() for m in mentions)
        if not overlaps and (mention := _mention(prompt, match, tool)) is not None:
            mentions.append(mention)
    sure = any(mention.sure for mention in mentions)
    return sorted((m for m in mentions if m.sure or not sure), key=lambda mention: mention.start)


def _name_pattern(name: str) -> re.Pattern[str] | None:
    parts = [re.escape(word) for word in words(name)]
    if not parts:
        return None
    inner = r"[ _./:-]{0,3}".join(parts)
    return re.compile(rf"(?<![\w-])(?<!\w[./]){inner}(?![\w-])(?![./]\w)", re.I)


def _mention(prompt: str, match: re.Match[str], tool: Tool) -> ToolMention | None:
    before = prompt[max(0, match.start() - _BEFORE) : match.start()]
    around = _AROUND.match(prompt, match.end())
    end = around.end() if around is not None else match.end()
    called = around is not None and bool(around["kind"] or around["call"])
    used = _USED.search(before) is not None and (
        match[0].lower() not in STOP or _OBJECT.match(prompt, end) is not None
    )
    forbidden = _NOT_USED.search(before)
    name_words = words(tool.name)
    # No word of a sentence has separators, digits or a capital inside.
    written = match[0] == tool.name and (len(name_words) > 1 or not match[0].isalpha())
    sure = written or called or used or forbidden is not None or before.endswith("`")
    if not sure and (len(name_words) == 1 or set(name_words) <= STOP | WEAK):
        return None
    inside = len(forbidden[0]) if forbidden is not None else before[-1:] in tuple("`'\"“‘")
    return ToolMention(tool, match.start() - inside, end, sure, forbidden is not None)


def _follow_up_call(
    prompt: str, tools: Sequence[Tool], last: MessagePart | None
) -> Iterator[tuple[Tool, FilledCall]]:
    """ "And in London?" after a call for Paris: the same tool with the new values."""
    tool = next((tool for tool in tools if last is not None and tool.name == last.name), None)
    if tool is not None and last is not None and len(prompt) <= 80 and _FOLLOW_UP.match(prompt):
        filled = fill(tool, prompt, arguments_object(last.text))
        if filled.used:
            yield tool, filled


@dataclass(frozen=True)
class _Clause:
    """A clause; `tool` is the one that it names, and `bare` says that it does nothing else."""

    text: str
    tool: Tool | None = None
    bare: bool = False


def _assign_clauses(
    prompt: str, tools: Sequence[Tool], named: Sequence[ToolMention]
) -> list[tuple[Tool, str]]:
    """The clauses that name or match a tool; clauses that match none, or the same one without
    naming it again, are joined to the previous one, or else to the next. If one tool is
    named, other tools must match by their names."""
    assigned: list[tuple[Tool, str]] = []
    waiting = ""
    least = _NAME if named else 1
    for clause in _join_bare_clauses([*_clauses_with_tools(prompt, named)]):
        best = clause.tool or max(tools, key=lambda tool: _score(tool, clause.text), default=None)
        matches = best is not None and (clause.tool or _score(best, clause.text) >= least)
        if (
            best is not None
            and matches
            and (
                not assigned
                or assigned[-1][0] != best
                or clause.tool
                or _is_separate_call(best, clause.text)
            )
        ):
            assigned.append((best, waiting + clause.text))
            waiting = ""
        elif assigned:
            assigned[-1] = (assigned[-1][0], assigned[-1][1] + clause.text)
        else:
            waiting += clause.text
    return assigned


def _clauses_with_tools(prompt: str, named: Sequence[ToolMention]) -> Iterator[_Clause]:
    """The clauses, each with one mention at most, which is taken out of its text."""
    start = 0
    for text in clauses(prompt, named):
        start = prompt.index(text, start)
        inside = [mention for mention in named if start <= mention.start < start + len(text)]
        for place, mention in enumerate(inside):
            begin = start if place == 0 else mention.start
            end = inside[place + 1].start if place + 1 < len(inside) else start + len(text)
            rest = f"{prompt[begin : mention.start]} {prompt[mention.end : end]}"
            bare = not find_values(rest) and not stems(words(rest)) - stems(WEAK)
            yield _Clause(rest, mention.tool, bare)
        if not inside:
            yield _Clause(text)
        start += len(text)


def _join_bare_clauses(listed: Sequence[_Clause]) -> list[_Clause]:
    """A clause that only names a tool ("Use get_weather.") belongs to the one before it, unless
    that names another; else to the one after it."""
    joined: list[_Clause] = []
    for clause in listed:
        last = joined[-1] if joined else None
        if last is not None and clause.bare and last.tool is None:
            joined[-1] = _Clause(last.text + clause.text, clause.tool)
        elif last is not None and last.bare:
            joined[-1] = _Clause(last.text + clause.text, last.tool)
            joined += [clause] if clause.tool is not None else []
        else:
            joined.append(clause)
    return joined


def _is_separate_call(tool: Tool, clause: str) -> bool:
    """Whether a second clause for the same tool is a separate call."""
    again = stems(words(tool.name)) & stems(words(clause))
    return bool(again) or any(find.kind == "sum" for find in find_values(clause))


def clauses(prompt: str, named: Sequence[ToolMention] = ()) -> list[str]:
    """The pieces of a prompt, each including the separator before it, so that joined they are the
    prompt. Quotes, names of tools, and enumerations of names are not split."""
    guarded = [(find.start, find.end) for find in find_values(prompt) if find.kind == "quote"]
    guarded += [(mention.start, mention.end) for mention in named]
    guarded += [(group[0].start, group[-1].end) for group in enumerations(prompt)]
    cuts = [0]
    for match in _BREAK.finditer(prompt):
        if not any(start < match.end() and match.start() < end for start, end in guarded):
            cuts.append(match.start())
    cuts.append(len(prompt))
    return [prompt[a:b] for a, b in pairwise(cuts) if prompt[a:b].strip()]


def _score(tool: Tool, clause: str) -> int:
    """How well `tool` matches; 0: not at all."""
    asked = _clause_stems(clause)
    own = words(tool.name)
    strong = [word for word in own if word not in WEAK] or own
    return _NAME * len(stems(strong) & asked) + len(_description_stems(tool) & asked)


def _description_stems(tool: Tool) -> set[str]:
    """The stems of a tool's whole description except its name."""
    properties = mapping(tool.parameters.get("properties"))
    inner = [resolve_schema(schema, tool.parameters) for schema in properties.values()]
    values = [str(value) for schema in inner for value in schema.get("enum") or []]
    return stems(words(" ".join([tool.description, *properties, *values]))) - stems(WEAK)


def _clause_stems(clause: str) -> set[str]:
    """The stems of a clause without its quotes and addresses, and those of its values' meanings."""
    asked: set[str] = set()
    for find in reversed(find_values(clause)):
        meant = _MEANT.get(find.kind, "")
        if find.kind == "sum":
            meant += " " + " ".join(
                meaning for sign, meaning in _SIGNS.items() if sign in find.text
            )
        if meant or find.kind == "quote":
            clause = f"{clause[: find.start]} {clause[find.end :]}"
        asked |= stems(meant.split())
    return asked | stems(words(clause))
