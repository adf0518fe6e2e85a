"""Says why a value does not satisfy a schema: errors of the validator as sentences.

Theory of operation. An error names a keyword, and `_RULES` has a sentence for each. Most keywords
require something of the value itself ("an integer of at least 5"); these share one sentence.
`anyOf` and `oneOf` come with the errors of every branch. If each branch requires something of the
value itself, all are listed; else the branch that was meant is chosen (by the type of the value,
then by the constant that tells the branches apart, then by the fewest errors), and its errors are
the reasons. Where a branch of `if`, a dependency or a constant decided which schema applies, the
sentence ends with that condition.

Bounded whatever the schema: at most `MOST_READ` errors are read, and a sentence has at most
`LONGEST_SENTENCE` characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import jsonschema_rs

from playground.core.events import Problem
from playground.core.json_values import load_json
from playground.schema.describe import (
    BOUNDS,
    LENGTHS,
    MOST_BRANCHES,
    MOST_NAMES,
    MOST_PARTS,
    MOST_SHOWN,
    TEXTS,
    alternatives,
    cut,
    describe,
    describe_exactly,
    joined_schema,
    list_of,
    mapping,
    names_of,
    one_of,
    options_of,
    own_words,
    quote_name,
    schema_parts,
    value_text,
    word_list,
)
from playground.schema.schema_checks import Place, pointer, resolve
from playground.schema.strict_json import json_text

MOST_READ = 4_000
"""Errors, those within branches included, and members of schemas that are read for one value."""

LONGEST_SENTENCE = 1_000

_LONGEST_PLACE = 200
_MOST_TOLD_APART = 200
"""Branches searched for the constant that tells them apart."""
_MOST_ITEMS = 10_000
"""Items searched for two that are equal."""

_Kind = jsonschema_rs.ValidationErrorKind
_GAVE_UP = (_Kind.BacktrackLimitExceeded, _Kind.RegexEngineFailure)
_VALUE_KEYWORDS = frozenset(
    ("type", "const", "enum", "not", *(row[0] for row in (*BOUNDS, *LENGTHS, *TEXTS)))
)
"""Keywords that require something of the value itself."""
_KIND_KEYWORDS = frozenset(("type", "const", "enum", "falseSchema"))
"""Keywords by which a value is of another kind than a branch."""
_ARGUMENTS = {
    "type": "types",
    "const": "expected_value",
    "enum": "options",
    "not": "schema",
    "multipleOf": "multiple_of",
    "pattern": "pattern",
    "format": "format",
    "contentEncoding": "content_encoding",
    "contentMediaType": "content_media_type",
}
"""The member of an error's `kind` that holds the keyword's value; `limit` for the others."""

_NAMED_STEPS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_LISTED_STEPS = ("anyOf", "oneOf", "allOf", "prefixItems")
_INTO_MEMBERS = (
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
)

Naming = Callable[[Place], str]
"""The name of the value at a place, for problems."""

UNNAMED_CONDITION = ' where the "if" of the schema holds'
"""The end of a sentence about a `then` whose `if` has no words of its own."""


def name_in_arguments(place: Place) -> str:
    return pointer(place) or "The arguments object"


@dataclass(frozen=True)
class Reason:
    """A problem, and the error of the validator that it is about: within a union, the error of the
    branch that was chosen."""

    problem: Problem
    error: Any


def problems_of(
    error: Any,
    root: Mapping[str, Any],
    value: Any,
    at: Place = (),
    naming: Naming = name_in_arguments,
) -> Iterator[Problem]:
    """The problems that one error of validating `value` represents; `at` is its place in the
    arguments."""
    return (reason.problem for reason in Explainer(root, value, at, naming).reasons(error))


def unexpected_key(place: Place, expected: Any, naming: Naming = name_in_arguments) -> Problem:
    """The key at `place` is not allowed by the schema `expected`."""
    node = expected if isinstance(expected, Mapping) else {}
    names, patterns = mapping(node.get("properties")), mapping(node.get("patternProperties"))
    return _unknown_key(place, names, patterns, naming)


@dataclass(frozen=True)
class _Tag:
    """The member whose constant tells the branches of a union apart. `options`: the JSON texts it
    may have in each branch, None where the branch leaves it open."""

    name: str
    options: Sequence[tuple[str, ...] | None]

    def allows(self, number: int, value: Any) -> bool:
        """Whether the object `value` has the constant of this branch."""
        options = self.options[number] if number < len(self.options) else None
        return (
            options is not None
            and isinstance(value, Mapping)
            and self.name in value
            and _canonical(value[self.name]) in options
        )


class Explainer:
    """Explains the errors of `value`, whose place in the arguments is `at`. `left` is what may
    still be read."""

    def __init__(
        self,
        root: Mapping[str, Any],
        value: Any,
        at: Place = (),
        naming: Naming = name_in_arguments,
    ) -> None:
        self.root, self.value, self.at, self.naming = root, value, at, naming
        self.left = MOST_READ
        self._tags: dict[int, _Tag | None] = {}

    def reasons(self, error: Any) -> Iterator[Reason]:
        """The reasons that one error gives; at least one for the errors of a value together."""
        self.left -= 1
        if error.kind.name in ("anyOf", "oneOf"):
            yield from self._union(error)
            return
        condition = self._condition(error)
        for problem in self._problems(error):
            yield Reason(_with_ending(problem, condition), error)

    def _problems(self, error: Any) -> Iterable[Problem]:
        if isinstance(error.kind, _GAVE_UP):
            what = "could not be checked, because the schema's pattern takes too long."
            return [self.problem(error, what)]
        rule = _RULES.get(_keyword(error))
        if rule is not None:
            return rule(self, error)
        return [self._value_problem(error, self.requirement(error) or "something else")]

    def _value_problem(self, error: Any, wanted: str) -> Problem:
        return self.problem(
            error, f"is {value_text(error.instance)}; the schema requires {wanted}."
        )

    def problem(self, error: Any, predicate: str, *steps: str | int) -> Problem:
        """A problem of the value of `error`, or of what is at `steps` inside it."""
        place = (*self.place(error), *steps)
        return _problem(f"{self.name(place)} {predicate}", place)

    def name(self, place: Place) -> str:
        return cut(self.naming(place), _LONGEST_PLACE)

    def reference(self, place: Place) -> str:
        """How a sentence names another place than its own."""
        return cut(pointer(place), _LONGEST_PLACE)

    def place(self, error: Any) -> Place:
        return (*self.at, *error.instance_path)

    def expected(self, error: Any) -> Mapping[str, Any]:
        """The schema that has the keyword of `error`."""
        return mapping(value_at(self.root, error.schema_path[:-1]))

    def requirement(self, error: Any) -> str | None:
        """What is required of the value itself; None if that is not what `error` is about, "" if no
        value is allowed."""
        keyword = _keyword(error)
        if keyword == "falseSchema":
            return ""
        if isinstance(error.kind, _Kind.AnyOf | _Kind.OneOfNotValid):
            return self._branches_requirement(error.kind.context, self.place(error))
        if keyword not in _VALUE_KEYWORDS:
            return None
        expected = self.expected(error)
        if keyword not in expected:  # jsonschema-rs omits empty keys from the path
            argument = _ARGUMENTS.get(keyword, "limit")
            expected = {keyword: error.kind.as_dict().get(argument)}
        match keyword:
            case "const" | "enum":
                return options_of({keyword: expected[keyword]})
            case "not":
                return describe({"not": expected["not"]}, self.root)
            case "type" if unmet := _unmet_options(expected, error.instance):
                return options_of(unmet)
        return own_words(expected)

    def _branches_requirement(self, branches: Sequence[Sequence[Any]], place: Place) -> str | None:
        """What the branches require of the value itself; None if that is not what is wrong: one of
        them requires nothing of it, or has errors inside a value of its kind."""
        of_same_kind = set(self._branches_of_kind(branches, place))
        several: dict[str, None] = {}
        for number, errors in enumerate(branches):
            self.left -= len(errors)
            if self.left < 0:
                return None
            own = [
                wanted
                for error in errors
                if self.place(error) == place and (wanted := self.requirement(error)) is not None
            ]
            if not own or (number in of_same_kind and len(own) < len(errors)):
                return None
            several[" and ".join(dict.fromkeys(filter(None, own)))] = None
        return alternatives([words for words in several if words])

    # Unions.

    def _union(self, error: Any) -> Iterator[Reason]:
        if isinstance(error.kind, _Kind.OneOfMultipleValid):
            yield Reason(_with_ending(self._several_problem(error), self._condition(error)), error)
            return
        branches, place = error.kind.context, self.place(error)
        left = self._branches_of_kind(branches, place)
        wanted = self._branches_requirement(branches, place)
        if wanted is not None or not left or self.left < 0:
            wanted = wanted or describe(self.expected(error), self.root)
            problem = self._value_problem(error, wanted)
            yield Reason(_with_ending(problem, self._condition(error)), error)
            return
        tag = self._tag(error)
        if tag is not None and isinstance(error.instance, Mapping):
            wrong_tag, left = self._select_by_tag(error, tag, left)
            if wrong_tag is not None:
                yield Reason(_with_ending(wrong_tag, self._condition(error)), error)
                return
        if len(left) > 1 and (names := self._missing_members(branches, left, place)):
            what = f"has none of {word_list(names)}; the schema requires one of them."
            yield Reason(_with_ending(self.problem(error, what), self._condition(error)), error)
            return
        yield from self._nearest_reasons(error, branches, left)

    def _branches_of_kind(self, branches: Sequence[Sequence[Any]], place: Place) -> list[int]:
        """The branches that do not refuse the value by its kind."""
        left: list[int] = []
        for number, errors in enumerate(branches):
            self.left -= 1
            if self.left < 0:
                break
            if not any(
                _keyword(error) in _KIND_KEYWORDS and self.place(error) == place
                for error in errors[:MOST_NAMES]
            ):
                left.append(number)
        return left

    def _select_by_tag(
        self, error: Any, tag: _Tag, left: list[int]
    ) -> tuple[Problem | None, list[int]]:
        """The branches left by the tag of the value; or the problem, if it is missing or wrong."""
        value, options = error.instance, [tag.options[number] for number in left]
        known = dict.fromkeys(text for several in options for text in several or ())
        listed = word_list([cut(text, MOST_SHOWN) for text in known])
        open_ = [number for number in left if tag.options[number] is None]
        if tag.name not in value:
            if open_ or not self._requires(error, left, tag.name):
                return None, left
            name = quote_name(tag.name)
            what = f"has no {name}, which the schema requires to be one of {listed}."
            return self.problem(error, what), left
        chosen = [number for number in left if tag.allows(number, value)]
        if chosen or open_:
            return None, chosen or open_
        what = f"is {value_text(value[tag.name])}; the schema requires one of {listed}."
        return self.problem(error, what, tag.name), left

    def _requires(self, error: Any, left: list[int], name: str) -> bool:
        """Whether each of these branches reports that the member `name` is missing."""
        place, branches = self.place(error), error.kind.context
        return all(
            any(
                inner.kind.name == "required"
                and inner.kind.property == name
                and self.place(inner) == place
                for inner in branches[number]
            )
            for number in left
        )

    def _missing_members(
        self, branches: Sequence[Sequence[Any]], left: list[int], place: Place
    ) -> list[str]:
        """The missing members of each branch, if nothing else is wrong in any of them."""
        names: dict[str, None] = {}
        for number in left:
            self.left -= len(branches[number])
            if not all(
                error.kind.name == "required" and self.place(error) == place
                for error in branches[number]
            ):
                return []
            missing = [quote_name(error.kind.property) for error in branches[number]]
            names[" with ".join(missing[:MOST_NAMES])] = None
        return list(names) if len(names) > 1 else []

    def _nearest_reasons(
        self, error: Any, branches: Sequence[Sequence[Any]], left: list[int]
    ) -> Iterator[Reason]:
        """The reasons of the branch with the fewest errors; among equals, of the one with the
        deepest errors; the first reason of each where several are equally near."""
        scores = {number: _distance(branches[number]) for number in left}
        least = min(scores.values())
        best = [number for number in left if scores[number] == least]
        if len(best) == 1:
            note = ""
            if len(left) > 1:
                keyword = error.kind.name
                note = f" (branch {best[0]} of {keyword}, the nearest of {len(branches)})"
            for inner in branches[best[0]]:
                for reason in self.reasons(inner):
                    yield replace(reason, problem=_with_ending(reason.problem, note))
                if self.left < 0:
                    return
            return
        first: dict[str, Reason] = {}
        for number in best[:MOST_BRANCHES]:
            for reason in islice(self.reasons(branches[number][0]), 1):
                first.setdefault(reason.problem.message, reason)
        if len(first) == 1:
            yield from first.values()
            return
        each = [f"Branch {number}: {text}" for number, text in zip(best, first, strict=False)]
        more = f" And {len(best) - len(each)} more." if len(best) > len(each) else ""
        what = f"satisfies no branch of {error.kind.name}. {' '.join(each)}{more}"
        yield Reason(self.problem(error, what), error)

    def _several_problem(self, error: Any) -> Problem:
        """A value that satisfies more than one branch of `oneOf`."""
        met = [number for number, errors in enumerate(error.kind.context) if not errors]
        branches = list_of(self.expected(error).get("oneOf"))
        words = [
            f"{number} ({describe(branches[number], self.root, 1)})"
            for number in met[:MOST_BRANCHES]
            if number < len(branches)
        ]
        more = f" and {len(met) - len(words)} more" if len(met) > len(words) else ""
        what = (
            f"is {value_text(error.instance)}, which satisfies branches "
            f"{' and '.join(words)}{more} "
            "of oneOf; the schema requires exactly one."
        )
        return self.problem(error, what)

    def _branches(self, error: Any) -> list[Any]:
        return list_of(self.expected(error).get(error.kind.name))

    def _tag(self, error: Any) -> _Tag | None:
        return self._tag_of(self.expected(error), self._branches(error))

    def _tag_of(self, union: Mapping[str, Any], branches: list[Any]) -> _Tag | None:
        key = id(branches)
        if not branches:
            return None
        if key not in self._tags:
            self._tags[key] = self._find_tag(union, branches)
        return self._tags[key]

    def _find_tag(self, union: Mapping[str, Any], branches: Sequence[Any]) -> _Tag | None:
        """The member that has a constant in the most branches, in each another one; that of an
        OpenAPI `discriminator` before others."""
        if len(branches) > _MOST_TOLD_APART:
            return None
        constants = [self._constants(branch) for branch in branches]
        hint = mapping(union.get("discriminator")).get("propertyName")
        best: _Tag | None = None
        highest = (False, 1, False)
        for name in dict.fromkeys(name for known in constants for name in known):
            options = [known.get(name) for known in constants]
            given = [several for several in options if several is not None]
            texts = [text for several in given for text in several]
            rank = (name == hint, len(given), all(len(several) == 1 for several in given))
            if len(given) > 1 and len(set(texts)) == len(texts) and rank > highest:
                best, highest = _Tag(name, options), rank
        return best

    def _constants(self, branch: Any) -> dict[str, tuple[str, ...]]:
        """The members of an object that are constants, with their JSON texts."""
        constants: dict[str, tuple[str, ...]] = {}
        for part in schema_parts(branch, self.root):
            for name, member in islice(mapping(part.get("properties")).items(), MOST_PARTS):
                self.left -= 1
                if self.left < 0:
                    return constants
                inner = joined_schema(member, self.root) if isinstance(member, Mapping) else {}
                options = [inner["const"]] if "const" in inner else list_of(inner.get("enum"))
                if options and not any(isinstance(option, Mapping | list) for option in options):
                    texts = map(_canonical, options[:_MOST_TOLD_APART])
                    constants[name] = tuple(dict.fromkeys(texts))
        return constants

    # What decided that a schema applies.

    def _condition(self, error: Any) -> str:
        """` where /kind is "us"`: the last condition on the way to the keyword, or ""."""
        node: Any = self.root
        path, steps = list(error.evaluation_path), list(error.instance_path)
        depth, words, index = 0, "", 0
        while index < len(path) and isinstance(node, Mapping):
            keyword, inner = path[index], node.get(path[index])
            following = path[index + 1] if index + 1 < len(path) else None
            words = self._decision(node, keyword, following, steps[:depth]) or words
            depth += keyword in _INTO_MEMBERS
            if keyword == "$ref":
                node = resolve(self.root, inner) if isinstance(inner, str) else None
            elif following is not None and (
                keyword in _NAMED_STEPS or (keyword in (*_LISTED_STEPS, "items") and list_of(inner))
            ):
                node = value_at(inner, [following])
                index += 1
            else:
                node = inner
            index += 1
        return words

    def _decision(self, node: Mapping[str, Any], keyword: Any, following: Any, steps: Any) -> str:
        """What decided that the schema at `keyword` and `following` applies, or ""."""
        here, value = (*self.at, *steps), value_at(self.value, steps)
        if keyword in ("then", "else"):
            return self._if_condition(node.get("if"), here, value, holds=keyword == "then")
        if keyword in ("dependentSchemas", "dependencies") and following is not None:
            return f" where {self.reference((*here, str(following)))} is given"
        if keyword in ("anyOf", "oneOf") and isinstance(following, int):
            tag = self._tag_of(node, list_of(node.get(keyword)))
            if tag is not None and tag.allows(following, value):
                text = _canonical(value[tag.name])
                return f" where {self.reference((*here, tag.name))} is {cut(text, MOST_SHOWN)}"
        return ""

    def _if_condition(self, schema: Any, here: Place, value: Any, *, holds: bool) -> str:
        """The condition of an `if`; in words where it is about one member."""
        members = mapping(mapping(schema).get("properties"))
        required = names_of(mapping(schema).get("required"))
        names = list(dict.fromkeys([*members, *required]))
        if mapping(schema).keys() <= {"properties", "required", "type"} and len(names) == 1:
            [name] = names
            where, given = self.reference((*here, name)), name in mapping(value)
            if not given and name in required:
                return f" where {where} is not given"
            options = self._constants(schema).get(name)
            if given and (options or not members):
                is_given = "is given" if holds else "is not given"
                verb = "is" if holds else "is not"
                return f" where {where} " + (f"{verb} {one_of(options)}" if options else is_given)
        return UNNAMED_CONDITION if holds else ' where the "if" of the schema does not hold'


# The sentences of keywords that are not about the value itself.


def _required(explainer: Explainer, error: Any) -> Iterator[Problem]:
    if error.kind.property in error.instance:
        return  # jsonschema-rs reports it where `additionalProperties` forbids it as well
    name = quote_name(error.kind.property)
    yield explainer.problem(error, f"has no {name}, which the schema requires.")


def _dependent_required(explainer: Explainer, error: Any) -> Iterator[Problem]:
    named = mapping(explainer.expected(error).get(error.schema_path[-1]))
    given = [
        explainer.reference((*explainer.place(error), name))
        for name, needed in named.items()
        if name in error.instance and error.kind.property in list_of(needed)
    ]
    where = f" where {given[0]} is given" if given else ""
    name = quote_name(error.kind.property)
    yield explainer.problem(error, f"has no {name}, which the schema requires{where}.")


def _additional_properties(explainer: Explainer, error: Any) -> Iterator[Problem]:
    place, expected = explainer.place(error), explainer.expected(error)
    for name in error.kind.unexpected:
        yield unexpected_key((*place, name), expected, explainer.naming)


def _unevaluated_properties(explainer: Explainer, error: Any) -> Iterator[Problem]:
    expected = explainer.expected(error)
    others = expected.get("unevaluatedProperties")
    names, patterns = _known_members(expected, explainer.root)
    always = {
        name
        for part in schema_parts(expected, explainer.root)
        for name in mapping(part.get("properties"))
    }
    for name in error.kind.unexpected:
        if name in always:
            continue  # its schema or one next to it is not satisfied, which has its own error
        if isinstance(others, Mapping) and name in error.instance:
            what = f"is {value_text(error.instance[name])}; the schema requires"
            words = describe_exactly(others, explainer.root)
            yield explainer.problem(error, f"{what} {words}.", name)
        elif name in names:
            what = "is only in a branch of the schema that does not apply here."
            yield explainer.problem(error, what, name)
        else:
            place = (*explainer.place(error), name)
            yield _unknown_key(place, names, patterns, explainer.naming)


def _property_names(explainer: Explainer, error: Any) -> Iterator[Problem]:
    inner = error.kind.error
    # The path leads on into the schema of the names.
    steps = list(error.schema_path)
    expected = value_at(explainer.root, steps[: len(steps) - steps[::-1].index("propertyNames")])
    words = describe(expected, explainer.root)
    name = cut(json_text(inner.instance), MOST_SHOWN)
    yield explainer.problem(
        error, f"has the key {name}; the schema requires each key to be {words}."
    )


def _additional_items(explainer: Explainer, error: Any) -> Iterator[Problem]:
    most = int(error.kind.limit)
    yield explainer.problem(error, _too_many(most), most)


def _unevaluated_items(explainer: Explainer, error: Any) -> Iterator[Problem]:
    others = explainer.expected(error).get("unevaluatedItems")
    if isinstance(others, Mapping):
        wants = f"the schema requires {describe_exactly(others, explainer.root)}"
    else:
        wants = "the schema allows no such item"
    for index in _last_places(error.instance, error.kind.unexpected):
        what = f"is {value_text(error.instance[index])}; {wants}."
        yield explainer.problem(error, what, index)


def _last_places(items: Sequence[Any], texts: Sequence[str]) -> list[int]:
    """The places of the items whose JSON texts the library gives, in order.

    Of equal items the last are meant: a position only ever allows the first items of an array.
    """
    left = [_canonical_text(text) for text in texts[-_MOST_ITEMS:]]
    places: list[int] = []
    for index in range(len(items) - 1, -1, -1):
        if left and _canonical(items[index]) == left[-1]:
            left.pop()
            places.append(index)
    return places[::-1]


def _canonical_text(text: str) -> str:
    try:
        return _canonical(load_json(text))
    except ValueError:
        return ""


def _contains(explainer: Explainer, error: Any) -> Iterator[Problem]:
    expected, keyword = explainer.expected(error), _keyword(error)
    words = describe_exactly(expected.get("contains", True), explainer.root)
    number = expected.get(keyword)
    match keyword:
        case "maxContains":
            has = f"more than {number} {_plural(number, 'item that is', 'items that are')}"
            wants = f"at most {number}"
        case "minContains":
            has = f"fewer than {number} items that are"
            wants = f"at least {number}"
        case _:
            has, wants = "no item that is", "at least 1"
    yield explainer.problem(error, f"has {has} {words}; the schema requires {wants}.")


def _unique_items(explainer: Explainer, error: Any) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, item in enumerate(error.instance[:_MOST_ITEMS]):
        first = seen.setdefault(_canonical(item), index)
        if first != index:
            same = explainer.reference((*explainer.place(error), first))
            what = f"is {value_text(item)}, like {same}; the schema requires each item once."
            yield explainer.problem(error, what, index)
            return
    yield explainer.problem(error, "holds the same item twice; the schema forbids it.")


def _false_schema(explainer: Explainer, error: Any) -> Iterator[Problem]:
    keyword = error.schema_path[-1] if error.schema_path else ""
    index = error.instance_path[-1] if error.instance_path else None
    if keyword in ("items", "additionalItems") and isinstance(index, int):
        expected = explainer.expected(error)
        first = list_of(expected.get("items")) or list_of(expected.get("prefixItems"))
        if index == len(first):  # once, not for each item after it
            yield explainer.problem(error, _too_many(len(first)))
        return
    if keyword == "propertyNames":
        yield explainer.problem(
            error, f"is {value_text(error.instance)}; the schema allows no keys."
        )
        return
    yield explainer.problem(error, "is not allowed by the schema.")


_RULES: Mapping[str, Callable[[Explainer, Any], Iterator[Problem]]] = {
    "required": _required,
    "dependentRequired": _dependent_required,
    "dependencies": _dependent_required,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "propertyNames": _property_names,
    "additionalItems": _additional_items,
    "unevaluatedItems": _unevaluated_items,
    "contains": _contains,
    "minContains": _contains,
    "maxContains": _contains,
    "uniqueItems": _unique_items,
    "falseSchema": _false_schema,
}


def _plural(number: Any, single: str, several: str) -> str:
    return single if number == 1 else several


def _too_many(most: int) -> str:
    return f"is one item too many; the schema requires at most {most}."


def _unknown_key(
    place: Place, names: Iterable[str], patterns: Iterable[str], naming: Naming
) -> Problem:
    known = []
    if listed := [quote_name(name) for name in names]:
        known.append(f"only {word_list(listed)}")
    if listed := [cut(pattern, MOST_SHOWN) for pattern in patterns]:
        known.append(f"{'' if known else 'only '}names that match {word_list(listed)}")
    only = f", which knows {' and '.join(known)}" if known else ""
    where = cut(naming(place), _LONGEST_PLACE)
    return _problem(f"{where} is not in the schema{only}.", place)


def _known_members(
    schema: Mapping[str, Any], root: Mapping[str, Any]
) -> tuple[dict[str, None], dict[str, None]]:
    """The names and the patterns that the schemas of the same value know."""
    names: dict[str, None] = {}
    patterns: dict[str, None] = {}
    for part in schema_parts(schema, root):
        inner = [branch for key in ("anyOf", "oneOf") for branch in list_of(part.get(key))]
        inner += [part.get(key) for key in ("if", "then", "else")]
        inner += mapping(part.get("dependentSchemas")).values()
        nested = [more for branch in inner[:MOST_PARTS] for more in schema_parts(branch, root)]
        for schema_part in (part, *nested):
            names |= dict.fromkeys(mapping(schema_part.get("properties")))
            patterns |= dict.fromkeys(mapping(schema_part.get("patternProperties")))
    return names, patterns


def _distance(errors: Sequence[Any]) -> tuple[int, int]:
    """How far a value is from a branch: the number of its errors; of equal numbers, the deeper."""
    count = sum(
        len(error.kind.unexpected) if error.kind.name == "additionalProperties" else 1
        for error in errors
    )
    return count, -min((len(error.instance_path) for error in errors), default=0)


def _keyword(error: Any) -> str:
    """The keyword of an error; its `kind` names a few that are alike by the same name."""
    name = str(error.kind.name)
    if name in ("contains", "required") and error.schema_path:
        return str(error.schema_path[-1])
    return name


def _unmet_options(schema: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """The const or the enum of `schema` that `value` does not satisfy either; or {}."""
    text = json_text(value)
    if "const" in schema:
        return {} if text == json_text(schema["const"]) else {"const": schema["const"]}
    options = schema.get("enum")
    if not isinstance(options, list) or text in map(json_text, options):
        return {}
    return {"enum": options}


def _canonical(value: Any) -> str:
    """The same text for values that JSON Schema takes for equal: 1 and 1.0."""
    if isinstance(value, float) and value.is_integer():
        return json_text(int(value))
    match value:
        case Mapping():
            return json_text({name: _canonical(value[name]) for name in sorted(value)})
        case list():
            return json_text([_canonical(item) for item in value])
    return json_text(value)


def _with_ending(problem: Problem, ending: str) -> Problem:
    """`problem` with more words at the end of its sentence."""
    if not ending:
        return problem
    return _problem(problem.message.removesuffix(".") + ending + ".", problem.pointer)


def value_at(root: Any, steps: Iterable[Any]) -> Any:
    here = root
    for step in steps:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return None
    return here


def _problem(sentence: str, place: Place | str) -> Problem:
    if len(sentence) > LONGEST_SENTENCE:
        sentence = f"{sentence[:LONGEST_SENTENCE]}... (truncated)."
    return Problem("schema", sentence, place if isinstance(place, str) else pointer(place))
