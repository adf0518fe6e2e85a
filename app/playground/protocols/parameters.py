"""Translates request parameters between our names and those of the protocols.

`params` of the settings have our names (OURS) or a protocol's. The protocol's own names are sent
unchanged; another protocol's are translated if SAME, which is in docs/contract.md too, has an
equivalent. Everything else is refused: nothing is dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from playground.core.errors import BadInput
from playground.core.messages import ModelRequest
from playground.core.settings import Settings
from playground.core.tools import ToolChoice
from playground.protocols import ParameterWords
from playground.protocols.facts import FACTS

OURS = ("max_tokens", "temperature", "top_p", "stop", "thinking")

_KINDS: Mapping[str, str] = {
    "max_tokens": "a whole number",
    "temperature": "a number",
    "top_p": "a number",
    "stop": "a text or a list of texts",
}

SUBJECTS = (
    *("max_tokens", "temperature", "top_p", "stop"),
    *("top_k", "seed", "presence_penalty", "frequency_penalty"),
)
"""Meanings that parameters of several protocols share, with the same kind of value."""

_WORDS: Mapping[str, ParameterWords] = {name: FACTS[name].parameters for name in FACTS}

SAME: tuple[Mapping[str, str], ...] = tuple(
    {
        **({"": subject} if subject in OURS else {}),
        **{name: words.same[subject] for name, words in _WORDS.items() if subject in words.same},
    }
    for subject in SUBJECTS
)
"""Equivalent names by protocol; under "" ours, if any."""

THINKING: Mapping[str, str] = {
    name: words.thinking for name, words in _WORDS.items() if words.thinking
}
"""The parameter for thinking by protocol; its values differ in kind."""

EFFORTS = ("low", "medium", "high")


def translate_params(protocol: str, request: ModelRequest) -> ModelRequest:
    """`request` with only our names in `params`, and the names of `protocol` in `own`.

    BadInput names the first parameter that has neither, or that duplicates another.
    """
    ours: dict[str, Any] = {}
    own: dict[str, Any] = {}
    sources: dict[str, str] = {}
    words = _WORDS[protocol]
    for param, value in request.params.items():
        if value is None:
            continue
        for place, about in _subjects(protocol, param, value):
            if about in sources:
                raise BadInput(
                    f"params: {sources[about]} and {place} set the same parameter. Leave one out."
                )
            sources[about] = place
        for name, form in _sent_params(protocol, param, value):
            if name in OURS:
                if not _is_of_kind(name, form):
                    raise BadInput(f"params: {param} must be {_KINDS[name]}.")
                ours[name] = form
            elif name in words.inside:
                own[words.inner] = {**own.get(words.inner, {}), name: form}
            elif isinstance(form, Mapping) and isinstance(own.get(name), Mapping):
                own[name] = {**form, **own[name]}
            else:
                own[name] = form
    return replace(request, params=ours, own=own)


def check_params(protocol: str, params: Mapping[str, Any]) -> None:
    """BadInput if a request of `protocol` cannot have these parameters."""
    translate_params(
        protocol,
        ModelRequest("", system="", messages=(), tools=(), choice=ToolChoice(), params=params),
    )


def supported_params(
    protocol: str, params: Mapping[str, Any]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Those of `params` that `protocol` supports, and a note on each other one."""
    usable: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in params.items():
        try:
            check_params(protocol, {**usable, name: value})
        except BadInput:
            notes.append(
                f"The parameter {name[:80]} was left out: {protocol} has no such parameter."
            )
        else:
            usable[name] = value
    return usable, tuple(notes)


def extra_for(protocol: str, settings: Settings) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The extra members of `settings` for a request of `protocol`; empty, with a note, if they were
    written for another protocol."""
    if settings.profile.protocol == protocol or not settings.extra:
        return settings.extra, ()
    names = ", ".join(settings.extra)[:200]
    return {}, (f"Left out: {names}, written for {settings.profile.protocol}.",)


def _subjects(protocol: str, name: str, value: Any) -> Iterator[tuple[str, str]]:
    """(place, meaning) of the parameter `name`, or of each of its members."""
    if not name or name != _WORDS[protocol].inner:
        yield name, _meaning(name, protocol)
        return
    if not isinstance(value, Mapping):
        raise BadInput(f"params: {name} must be a JSON object.")
    for member, inner in value.items():
        if inner is not None:
            yield f"{name}.{member[:80]}", _meaning(member, protocol)


def _is_of_kind(name: str, value: Any) -> bool:
    """Whether a value, possibly from another protocol's parameter, fits ours."""
    match name, value:
        case "max_tokens", int():
            return not isinstance(value, bool)
        case (("temperature" | "top_p"), int() | float()):
            return not isinstance(value, bool)
        case "stop", list():
            return all(isinstance(word, str) for word in value)
        case "stop", str():
            return True
    return name not in _KINDS


def _meaning(name: str, protocol: str) -> str:
    """The meaning of a parameter, by one name for all protocols."""
    if name in THINKING.values() or name == "thinking":
        return "thinking"
    row = _row(name, protocol)
    return next(iter(row.values())) if row is not None else name


def _row(name: str, protocol: str) -> Mapping[str, str] | None:
    """The row of SAME with `name`, preferring `protocol`'s own meaning."""
    rows = [row for row in SAME if name in row.values()]
    return next((row for row in rows if row.get(protocol) == name), (*rows, None)[0])


def _sent_params(protocol: str, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of the parameter for `protocol`, or for our part of an encoder."""
    words = _WORDS[protocol]
    if name == "thinking" and isinstance(value, Mapping):
        if value.keys() & words.members:
            yield words.thinking, value
        else:
            yield _thinking(protocol, name, value)
    elif name in OURS or name in words.own or name in words.inside:
        yield name, value
    elif name in THINKING.values():
        yield _thinking(protocol, name, value)
    else:
        row = _row(name, protocol) or {}
        target = row.get("") if protocol in row else None
        target = target or row.get(protocol)
        if target is None:
            raise _refusal(protocol, name)
        yield target, value


def _thinking(protocol: str, name: str, value: Any) -> tuple[str, Any]:
    """Another protocol's thinking setting, converted to `protocol`."""
    words = _WORDS[protocol]
    if not words.thinking:
        raise _refusal(protocol, name)
    match _wish(value):
        case "off" if words.off is not None:
            return words.thinking, words.off
        case "free" if words.free is not None:
            return words.thinking, words.free
        case str(word) if word in EFFORTS:
            return "thinking", word
        case int(tokens) if words.budgeted:
            return "thinking", tokens
    raise BadInput(
        f"params: {protocol} cannot express this value of {name}. Leave it out, or use "
        f"{words.thinking}."
    )


def _wish(value: Any) -> str | int | None:
    """`off`, `free`, one of EFFORTS or a number of tokens; None if not convertible.

    No value has different meanings in two protocols, so the value alone is sufficient.
    """
    for words in _WORDS.values():
        for wish, form in (("off", words.off), ("free", words.free)):
            if form is not None and _is_same(value, form):
                return wish
    match value:
        case {"type": "enabled", "budget_tokens": tokens} if len(value) == 2:
            return _count(tokens)
        case {"thinkingBudget": tokens} if len(value) == 1:
            return _count(tokens)
        case {"effort": str(word)} | {"thinkingLevel": str(word)} if len(value) == 1:
            return word.lower() if word.lower() in EFFORTS else None
        case str(word) if word in EFFORTS:
            return word
    return None


def _is_same(value: Any, form: Any) -> bool:
    return type(value) is type(form) and bool(value == form)


def _count(value: Any) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if sound else None


def _refusal(protocol: str, name: str) -> BadInput:
    return BadInput(
        f"params: {protocol} has no {name[:80]} and no equivalent. Leave it out, or put it into "
        "extra to send it unchanged."
    )
