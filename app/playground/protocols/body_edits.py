"""Edits the body of an agent's request on its way to the provider: results, original answers put
back, and answers appended to continue from.

An agent keeps its own history and sends all of it each time: a result that the user edited appears
unedited in each later request, and an answer whose calls were answered here appears as the agent
got it. Bytes that are not edited stay exactly (spaces, order, escapes, duplicate keys). Pure. A
protocol's `edits` (HISTORY) defines how it writes results; its reader locates them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playground.core.arguments import canonical_text
from playground.core.json_values import is_too_deep
from playground.core.messages import MessagePart
from playground.protocols.history_form import HistoryForm, ResultEdit
from playground.protocols.raw_json import (
    DECODER,
    Changes,
    JsonText,
    Path,
    change_json,
    dump_ascii,
    parse_json,
)
from playground.protocols.registry import HISTORIES, REQUEST_READERS
from playground.protocols.request import (
    AnswerMessage,
    Body,
    Position,
    PromptMessage,
    RequestItem,
    RequestNotes,
    ResultMessage,
)

Slices = Mapping[tuple[int, int], str]
"""New text by the half-open span of the text it replaces; spans do not overlap."""


@dataclass(frozen=True)
class ProviderAnswer:
    """The provider's original answer. `content` is its JSON in a history: the assistant message,
    Gemini's content, or the array of output items of Responses.

    `results` are those of its calls given here, in order; None, or missing at the end, for calls
    that the agent ran.
    """

    content: bytes
    results: Sequence[ResultEdit | None] = ()


def result_keys(protocol: str, value: Any) -> dict[Position, str]:
    """The key of each result in a parsed body, by its `ResultMessage.at`; stable over the bodies of
    a conversation.

    It is the provider's id of the call. If several calls have the same id, a number is appended for
    the later ones. For a call without an id (Gemini, Ollama) it is a digest of its name, its
    arguments and its number among equal calls, so it does not depend on what else the agent still
    has in its history.
    """
    return {paired.result.at: paired.key for paired in _pair_results(_items(protocol, value))}


def key_without_id(name: str, arguments: str) -> str:
    """The result key of the first call with this name and arguments if it has no id."""
    return _digest(name, canonical_text(arguments))


def edit_results(protocol: str, body: bytes, edits: Mapping[str, ResultEdit]) -> bytes:
    """Applies edits, by `result_keys`, to the results in `body`; unknown keys are ignored.

    Replaces all content of a result, including images. Its other members stay, and so does a cache
    mark in its content. Returns the same bytes if the body is invalid JSON.
    """
    sent = _SentBody.read(protocol, body) if edits else None
    if sent is None:
        return body
    changed = sent.result_slices(edits)
    return sent.splice(changed) if changed else body


def replace_answer(
    protocol: str, body: bytes, at: Sequence[int], answers: Sequence[ProviderAnswer]
) -> bytes:
    """Replaces the agent's copy of an answer, the elements at the indexes `at` of messages,
    contents or input, by the provider's original `answers`.

    Each answer except the last is followed by the results of all its calls. Those of the last are
    merged with the agent's own results after it, in the order of the calls, before everything else;
    ids made up by the agent become the provider's. A cache mark in the copy is moved to the last
    answer. Indexes after `at` change and keys may: replace the last of several answers first, and
    edit results before. ValueError if there is no such index, `answers` are empty or invalid JSON,
    or a call before the last answer has no result.
    """
    sent = _SentBody.read(protocol, body)
    if not answers:
        raise ValueError("There is no answer to restore.")
    if sent is None or not at or not set(at) <= set(range(len(sent.elements))):
        raise ValueError("The body has no such answer.")
    return sent.splice(_Replacement(sent, sorted(set(at)), answers).slices())


def add_answers(protocol: str, body: bytes, answers: Sequence[ProviderAnswer]) -> bytes:
    """Appends these answers to the history in `body`, each with the results of all its calls, and
    unsets a forced call: the request that continues from them. ValueError as for `replace_answer`,
    and if the body has no list of messages."""
    sent = _SentBody.read(protocol, body)
    sent = sent.with_list() if sent is not None else None
    if sent is None or not sent.has_list:
        raise ValueError("The body has no messages to continue from.")
    new = _NewElements(sent)
    for answer in answers:
        new.add(answer)
    changes: dict[Path, str | None] = {
        (sent.form.member, len(sent.elements) + n): text for n, text in enumerate(new.texts)
    }
    changes.update(sent.form.ask_freely(sent.value))
    return sent.apply_changes(changes)


def follow_answer(protocol: str, body: bytes, answer_id: str, answer: ProviderAnswer) -> bytes:
    """Changes `body`, which continues from an answer stored by the provider, to continue from the
    answer with that id: `answer`, whose results given here precede everything else."""
    sent = _SentBody.read(protocol, body)
    if sent is None:
        return body
    sent = sent.with_list()
    _, values = _read_answer(answer.content)
    new = _NewElements(sent)
    calls = _calls(protocol, values)
    given = zip(calls, answer.results, strict=False)
    new.add_results([new.result_text(call, edit, values) for call, edit in given if edit])
    changes: dict[Path, str | None] = {("previous_response_id",): dump_ascii(answer_id)}
    if new.texts and sent.has_list:
        raw = sent.raw((sent.form.member,))
        both = [*new.texts, raw[1:-1]] if sent.elements else new.texts
        changes[sent.form.member,] = f"[{','.join(both)}]"
    return sent.apply_changes(changes)


def leave_out(protocol: str, body: bytes, known: Collection[str]) -> bytes:
    """Removes from `body` the elements with one of the `known` ids or seals that a provider would
    refuse without their successors, which are missing here."""
    sent = _SentBody.read(protocol, body) if known else None
    if sent is None:
        return body
    changes: dict[Path, str | None] = {
        (sent.form.member, place): None
        for place in sent.form.alone(sent.elements)
        if any(word in known for word in sent.elements[place].values() if isinstance(word, str))
    }
    return sent.apply_changes(changes) if changes else body


class _SentBody:
    """A body as text and as value. A byte that is invalid UTF-8 is a lone surrogate in the text,
    and the same byte again in the output of `splice`."""

    def __init__(self, protocol: str, text: str, value: Any) -> None:
        self.protocol, self.text, self.value = protocol, text, value
        self.quoted = JsonText(text)
        self.form: HistoryForm = HISTORIES[protocol]
        elements = value.get(self.form.member) if isinstance(value, dict) else None
        self.has_list = isinstance(elements, list)
        self.elements: Sequence[Any] = elements if isinstance(elements, list) else []

    @classmethod
    def read(cls, protocol: str, body: bytes) -> _SentBody | None:
        """None if the body is invalid JSON, or nested too deep."""
        text = body.decode("utf-8", "surrogateescape")
        try:
            return None if is_too_deep(text) else cls(protocol, text, DECODER.decode(text))
        except ValueError:
            return None

    def with_list(self) -> _SentBody:
        """Converts a plain text in place of the list of messages to a list."""
        value = self.value.get(self.form.member) if isinstance(self.value, dict) else None
        if not isinstance(value, str):
            return self
        at = (self.form.member,)
        text = change_json(self.text, {at: f'[{{"role":"user","content":{self.raw(at)}}}]'})
        return _SentBody(self.protocol, text, DECODER.decode(text))

    def apply_changes(self, changes: Changes) -> bytes:
        return change_json(self.text, changes).encode("utf-8", "surrogateescape")

    def result_slices(self, edits: Mapping[str, ResultEdit]) -> Slices:
        keys = result_keys(self.protocol, self.value)
        return {
            self.quoted.span(*at): self._edit_result(at, edits[key])
            for at, key in keys.items()
            if key in edits
        }

    def _edit_result(self, at: Position, edit: ResultEdit) -> str:
        return change_json(self.raw(at), self.form.write(_value_at(self.value, at), edit))

    def raw(self, at: Position) -> str:
        start, end = self.quoted.span(*at)
        return self.text[start:end]

    def splice(self, slices: Slices) -> bytes:
        out: list[str] = []
        place = 0
        for (start, end), new in sorted(slices.items()):
            out += [self.text[place:start], new]
            place = end
        return "".join([*out, self.text[place:]]).encode("utf-8", "surrogateescape")


class _NewElements:
    """New elements of a history, formatted for `sent`."""

    def __init__(self, sent: _SentBody) -> None:
        self.texts: list[str] = []
        self._sent, self._form = sent, sent.form

    def add(self, answer: ProviderAnswer) -> None:
        """Adds the answer and its results. ValueError if one is missing."""
        raws, values = _read_answer(answer.content)
        calls = _calls(self._sent.protocol, values)
        if len(answer.results) < len(calls) or None in answer.results[: len(calls)]:
            raise ValueError("A call of an answer before the last one has no result.")
        self.texts += raws
        results = [
            self.result_text(call, edit, values)
            for call, edit in zip(calls, answer.results, strict=False)
            if edit is not None
        ]
        self.add_results(results)

    def add_results(self, results: Sequence[str]) -> None:
        if not self._form.holder:
            self.texts += results
        elif results:
            self.texts.append(
                f'{{"role":"user",{dump_ascii(self._form.holder)}:[{",".join(results)}]}}'
            )

    def result_text(self, call: MessagePart, edit: ResultEdit, answer: Sequence[Body]) -> str:
        bare = self._form.make(call, answer)
        return change_json(dump_ascii(bare), self._form.write(bare, edit))


class _Replacement:
    """Replaces the elements at `places` (sorted) by the provider's `answers`."""

    def __init__(
        self, sent: _SentBody, places: Sequence[int], answers: Sequence[ProviderAnswer]
    ) -> None:
        self._sent, self._form, self._places = sent, sent.form, places
        self._copy = [element for n in places if isinstance(element := sent.elements[n], dict)]
        self._new = _NewElements(sent)
        self._slices: dict[tuple[int, int], str] = {}
        for answer in answers[:-1]:
            self._new.add(answer)
        self._add_last(answers[-1])

    def slices(self) -> Slices:
        """The new elements replace the first place; the others are removed."""
        first = self._places[0]
        span = self._span(first)
        self._slices[span] = self._separator(first).join(self._new.texts)
        for place in self._places[1:]:
            self._take(place)
        return self._slices

    def _span(self, place: int) -> tuple[int, int]:
        return self._sent.quoted.span(self._form.member, place)

    def _take(self, place: int) -> None:
        """Removes the element and the separator before it."""
        self._slices[self._span(place - 1)[1], self._span(place)[1]] = ""

    def _separator(self, place: int) -> str:
        """The separator of two elements near `place`."""
        count = len(self._sent.elements)
        if count < 2:
            return ","
        before = place if place + 1 < count else place - 1
        return self._sent.text[self._span(before)[1] : self._span(before + 1)[0]]

    def _add_last(self, answer: ProviderAnswer) -> None:
        raws, values = _read_answer(answer.content)
        if marks := self._form.keep_mark(self._copy, values[-1]):
            raws[-1] = change_json(raws[-1], marks)
        self._new.texts += raws
        calls = _calls(self._sent.protocol, values)
        ours = {
            n: self._new.result_text(call, edit, values)
            for n, (call, edit) in enumerate(zip(calls, answer.results, strict=False))
            if edit is not None
        }
        agents = self._own_results(calls, ours)
        if not ours:
            for at, raw in agents.values():
                if raw != self._sent.raw(at):
                    self._slices[self._sent.quoted.span(*at)] = raw
        elif self._form.holder:
            self._put_into_holder(len(calls), ours, agents)
        else:
            both = {**ours, **{n: raw for n, (_, raw) in agents.items()}}
            self._new.texts += [both[n] for n in range(len(calls)) if n in both]
            for at, _ in agents.values():
                self._take(_place_of(at))

    def _own_results(
        self, calls: Sequence[MessagePart], ours: Mapping[int, str]
    ) -> dict[int, tuple[Position, str]]:
        """The agent's results for the last answer, by the number of the call among the provider's
        `calls`: their position, and their text with the provider's id."""
        first, member = self._places[0], self._form.member
        copied_ids = [
            (part.call_id, place)
            for place in range(first, self._places[-1] + 1)
            for part in _calls(self._sent.protocol, [self._sent.elements[place]])
        ]
        copied = [n for n, (_, place) in enumerate(copied_ids) if place in self._places]
        left = [n for n in range(len(calls)) if n not in ours]
        by_id = {calls[n].call_id: n for n in left if calls[n].call_id}
        ids = [copied_ids[n][0] for n in copied]
        numbers: dict[int, int] = {}
        if all(id_ in by_id for id_ in ids):
            numbers = {n: by_id[id_] for n, id_ in zip(copied, ids, strict=True)}
        elif len(copied) == len(left):
            numbers = dict(zip(copied, left, strict=True))
        own: dict[int, tuple[Position, str]] = {}
        rest = {member: self._sent.elements[first:]}
        for paired in _pair_results(_items(self._sent.protocol, rest)):
            number = numbers.get(paired.number)
            if number is None or number in own:
                continue
            _, place, *inner = paired.result.at
            at = (member, first + int(place), *inner)
            own[number] = at, self._with_call_id(at, calls[number].call_id)
        return own

    def _with_call_id(self, at: Position, call_id: str) -> str:
        value, raw = _value_at(self._sent.value, at), self._sent.raw(at)
        where = self._form.id_of(value)
        old = _value_at(value, where)
        if old in (None, call_id):
            return raw
        return change_json(raw, {where: dump_ascii(call_id) if call_id else None})

    def _put_into_holder(
        self, count: int, ours: Mapping[int, str], agents: Mapping[int, tuple[Position, str]]
    ) -> None:
        """Puts all results first in the following user message; in a new one if there is none."""
        place = self._next_user_message()
        if place is None:
            self._new.add_results([ours[n] for n in range(count) if n in ours])
            return
        both = dict(ours)
        gone: set[int] = set()
        for number, (at, raw) in agents.items():
            if _place_of(at) == place:
                both[number] = raw
                gone.add(int(at[-1]))
        element = self._sent.elements[place]
        results = [both[number] for number in range(count) if number in both]
        content = element.get(self._form.holder)
        where = (self._form.member, place, self._form.holder)
        rest: list[str] = []
        opening, between, closing = "", ",", ""
        if isinstance(content, str) and content.strip():
            rest = [f'{{"type":"text","text":{self._sent.raw(where)}}}']
        elif isinstance(content, list) and content:
            raw = self._sent.raw(where)
            base = self._sent.quoted.span(*where)[0]
            spans = [self._sent.quoted.span(*where, n) for n in range(len(content))]
            rest = [
                self._sent.text[start:end] for n, (start, end) in enumerate(spans) if n not in gone
            ]
            opening, closing = raw[1 : spans[0][0] - base], raw[spans[-1][1] - base : -1]
            if len(spans) > 1:
                between = self._sent.text[spans[0][1] : spans[1][0]]
        new = f"[{opening}{between.join([*results, *rest])}{closing}]"
        if self._form.holder in element:
            self._slices[self._sent.quoted.span(*where)] = new
        else:
            span = self._span(place)
            changed = change_json(self._sent.text[slice(*span)], {(self._form.holder,): new})
            self._slices[span] = changed

    def _next_user_message(self) -> int | None:
        """The index of the user message after the answer, skipping system messages."""
        for place in range(self._places[-1] + 1, len(self._sent.elements)):
            element = self._sent.elements[place]
            role = element.get("role", "user") if isinstance(element, dict) else ""
            if role != "system":
                return place if role == "user" else None
        return None


def _place_of(at: Position) -> int:
    return int(at[1])


def _value_at(value: Any, path: Position) -> Any:
    """The value at `path`, None if there is none."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return None
    return value


def _read_answer(content: bytes) -> tuple[list[str], list[Any]]:
    """The elements of an answer, each as text and as value."""
    text = content.decode("utf-8", "surrogateescape").strip()
    value = parse_json(text)
    if not isinstance(value, list):
        value, text = [value], f"[{text}]"
    if not value or not all(isinstance(element, dict) for element in value):
        raise ValueError("The answer is neither a JSON object nor an array of objects.")
    quoted = JsonText(text)
    return [quoted.member(place) for place in range(len(value))], value


# Matches results to calls.


@dataclass(frozen=True)
class _PairedResult:
    """`number` is the index of its call among all calls, -1 if unknown."""

    result: ResultMessage
    key: str
    number: int = -1


@dataclass(frozen=True)
class _WaitingCall:
    part: MessagePart
    key: str
    number: int


def _items(protocol: str, value: Any) -> Iterator[RequestItem]:
    reader = REQUEST_READERS[protocol]
    return reader.items(value if isinstance(value, dict) else {}, RequestNotes(protocol))


def _calls(protocol: str, elements: Sequence[Any]) -> list[MessagePart]:
    """The calls in these elements of a history."""
    items = _items(protocol, {HISTORIES[protocol].member: elements})
    answers = (item for item in items if isinstance(item, AnswerMessage))
    return [part for answer in answers for part in answer.parts if part.kind == "call"]


def _pair_results(items: Iterator[RequestItem]) -> Iterator[_PairedResult]:
    """Matches results by the id of their call, else by name and order."""
    seen: Counter[str] = Counter()
    open_calls: list[_WaitingCall] = []
    count = 0
    for item in items:
        match item:
            case PromptMessage(role="user"):
                open_calls.clear()
            case AnswerMessage():
                for part in item.parts:
                    if part.kind == "call":
                        open_calls.append(
                            _WaitingCall(part, _numbered_name(_name_of(part), seen), count)
                        )
                        count += 1
            case ResultMessage():
                call = _find_call(item, open_calls)
                if call is not None:
                    open_calls.remove(call)
                    yield _PairedResult(item, call.key, call.number)
                elif item.call_id:
                    more = max(seen[item.call_id], 1)
                    key = item.call_id if more == 1 else f"{item.call_id}~{more}"
                    yield _PairedResult(item, key)
                else:
                    yield _PairedResult(item, _numbered_name(_digest(item.name), seen))


def _find_call(item: ResultMessage, open_calls: Sequence[_WaitingCall]) -> _WaitingCall | None:
    for call in open_calls:
        if item.call_id and call.part.call_id == item.call_id:
            return call
    for call in open_calls:
        if (not item.call_id or not call.part.call_id) and item.name in ("", call.part.name):
            return call
    return None


def _name_of(part: MessagePart) -> str:
    return part.call_id or key_without_id(part.name, part.text)


def _digest(*words: str) -> str:
    return "~" + hashlib.sha256(json.dumps(words).encode()).hexdigest()[:24]


def _numbered_name(name: str, seen: Counter[str]) -> str:
    """`name`; from its second occurrence on with a number."""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}~{seen[name]}"
