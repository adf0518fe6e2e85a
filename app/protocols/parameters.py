"""Translates request parameters between our names and those of the protocols.

`params` of the settings hold our own names (OURS) or a protocol's. What the protocol itself calls
so is sent as it is; the word of another one is said in its own where the tables below, which stand
in docs/contract.md too, have an equivalent. Everything else is refused: nothing is dropped unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from app.core.errors import BadInput
from app.core.messages import ModelRequest
from app.core.settings import Settings
from app.core.tools import ToolChoice

OURS = ("max_tokens", "temperature", "top_p", "stop", "thinking")

_KINDS: Mapping[str, str] = {
    "max_tokens": "a whole number",
    "temperature": "a number",
    "top_p": "a number",
    "stop": "a text or a list of texts",
}

SAME: tuple[Mapping[str, str], ...] = (
    {
        "": "max_tokens",
        "anthropic": "max_tokens",
        "openai_chat": "max_completion_tokens",
        "openai_responses": "max_output_tokens",
        "gemini": "maxOutputTokens",
        "ollama": "num_predict",
    },
    {
        "": "temperature",
        "anthropic": "temperature",
        "openai_chat": "temperature",
        "openai_responses": "temperature",
        "gemini": "temperature",
        "ollama": "temperature",
    },
    {
        "": "top_p",
        "anthropic": "top_p",
        "openai_chat": "top_p",
        "openai_responses": "top_p",
        "gemini": "topP",
        "ollama": "top_p",
    },
    {
        "": "stop",
        "anthropic": "stop_sequences",
        "openai_chat": "stop",
        "gemini": "stopSequences",
        "ollama": "stop",
    },
    {"anthropic": "top_k", "gemini": "topK", "ollama": "top_k"},
    {"openai_chat": "seed", "gemini": "seed", "ollama": "seed"},
    {
        "openai_chat": "presence_penalty",
        "gemini": "presencePenalty",
        "ollama": "presence_penalty",
    },
    {
        "openai_chat": "frequency_penalty",
        "gemini": "frequencyPenalty",
        "ollama": "frequency_penalty",
    },
)
"""Names of one thing by protocol, of the same kind of value; under "" ours, where we have one."""

THINKING: Mapping[str, str] = {
    "anthropic": "thinking",
    "openai_chat": "reasoning_effort",
    "openai_responses": "reasoning",
    "gemini": "thinkingConfig",
    "ollama": "think",
}
"""What each calls the parameter that says how much is thought; its values differ in kind."""

OFF: Mapping[str, Any] = {
    "anthropic": {"type": "disabled"},
    "openai_chat": "none",
    "openai_responses": {"effort": "none"},
    "gemini": {"thinkingBudget": 0},
    "ollama": False,
}
FREE: Mapping[str, Any] = {
    "anthropic": {"type": "adaptive"},
    "gemini": {"thinkingBudget": -1},
    "ollama": True,
}
"""As much as the model likes."""
WORDS = ("low", "medium", "high")
BUDGETED = ("anthropic", "gemini")
"""The protocols that take a number of tokens to think."""

_INNER: Mapping[str, str] = {"gemini": "generationConfig", "ollama": "options"}
"""The member of the body that holds most of a protocol's parameters."""


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OWN: Mapping[str, frozenset[str]] = {
    "anthropic": _names(
        """cache_control container context_management inference_geo mcp_servers metadata
        output_config service_tier stop_sequences top_k"""
    ),
    "openai_chat": _names(
        """audio frequency_penalty logit_bias logprobs max_completion_tokens metadata modalities n
        prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort
        response_format safety_identifier seed service_tier store top_logprobs user verbosity
        web_search_options"""
    ),
    "openai_responses": _names(
        """context_management include max_output_tokens max_tool_calls metadata prompt
        prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store
        text top_logprobs truncation user"""
    ),
    "gemini": _names("cachedContent generationConfig labels safetySettings"),
    "ollama": _names("format keep_alive logprobs options think top_logprobs"),
}
"""The members of a body that are parameters, but for those that bear our own name."""

_INSIDE: Mapping[str, frozenset[str]] = {
    "gemini": _names(
        """audioTimestamp candidateCount enableEnhancedCivicAnswers frequencyPenalty imageConfig
        logprobs maxOutputTokens mediaResolution presencePenalty responseJsonSchema
        responseLogprobs responseMimeType responseModalities responseSchema routingConfig seed
        speechConfig stopSequences thinkingConfig topK topP"""
    ),
    "ollama": _names(
        """frequency_penalty main_gpu min_p mirostat mirostat_eta mirostat_tau num_batch num_ctx
        num_gpu num_keep num_predict num_thread penalize_newline presence_penalty repeat_last_n
        repeat_penalty seed tfs_z top_k typical_p use_mmap"""
    ),
}
"""The same of the member that holds most of them."""

_THINKING_MEMBERS: Mapping[str, frozenset[str]] = {
    "anthropic": _names("type budget_tokens"),
    "openai_responses": _names("effort summary"),
    "gemini": _names("thinkingBudget thinkingLevel includeThoughts"),
}
"""Members by which an object under our `thinking` is known for a protocol's own."""


def in_own_words(protocol: str, request: ModelRequest) -> ModelRequest:
    """`request` with nothing but our names in `params`, and in `own` what `protocol` calls so.

    BadInput names the first parameter that has neither, or that says the same as another.
    """
    ours: dict[str, Any] = {}
    own: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for param, value in request.params.items():
        if value is None:
            continue
        for place, about in _subjects(protocol, param, value):
            if about in sources:
                raise BadInput(
                    f"params: {sources[about]} and {place} say the same; leave one of them out."
                )
            sources[about] = place
        for name, form in _as_sent(protocol, param, value):
            if name in OURS:
                if not _is_of_kind(name, form):
                    raise BadInput(f"params: {param} must be {_KINDS[name]}.")
                ours[name] = form
            elif name in _INSIDE.get(protocol, ()):
                inner = own.setdefault(_INNER[protocol], {})
                own[_INNER[protocol]] = {**inner, name: form}
            elif isinstance(form, Mapping) and isinstance(own.get(name), Mapping):
                own[name] = {**form, **own[name]}
            else:
                own[name] = form
    return replace(request, params=ours, own=own)


def check_params(protocol: str, params: Mapping[str, Any]) -> None:
    """BadInput where a request of `protocol` cannot have these parameters."""
    in_own_words(protocol, ModelRequest("", "", (), (), ToolChoice(), params))


def supported_params(
    protocol: str, params: Mapping[str, Any]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Those of `params` that a request of `protocol` can have, and a note on each other one."""
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


def extra_told_to(protocol: str, settings: Settings) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The extra members of `settings` where a request of `protocol` is made of them, and a note
    where there are none: they were written for the protocol that is asked otherwise."""
    if settings.profile.protocol == protocol or not settings.extra:
        return settings.extra, ()
    names = ", ".join(settings.extra)[:200]
    return {}, (f"Left out: {names}, written for {settings.profile.protocol}.",)


def _subjects(protocol: str, name: str, value: Any) -> Iterator[tuple[str, str]]:
    """(where it stands, what it is about) of each parameter that `name` is, or has as members."""
    if name != _INNER.get(protocol):
        yield name, _about(name, protocol)
        return
    if not isinstance(value, Mapping):
        raise BadInput(f"params: {name} must be a JSON object.")
    for member, inner in value.items():
        if inner is not None:
            yield f"{name}.{member[:80]}", _about(member, protocol)


def _is_of_kind(name: str, value: Any) -> bool:
    """Whether a value, which may come by another's name, can stand under ours."""
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


def _about(name: str, protocol: str) -> str:
    """What a parameter is about, by one name for all protocols."""
    if name in THINKING.values() or name == "thinking":
        return "thinking"
    row = _row(name, protocol)
    return next(iter(row.values())) if row is not None else name


def _row(name: str, protocol: str) -> Mapping[str, str] | None:
    """The row of SAME that `name` stands in: `protocol`'s own meaning of it before another's."""
    rows = [row for row in SAME if name in row.values()]
    return next((row for row in rows if row.get(protocol) == name), (*rows, None)[0])


def _as_sent(protocol: str, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) by which `protocol`, or our half of an encoder, says the parameter."""
    if name == "thinking" and isinstance(value, Mapping):
        if value.keys() & _THINKING_MEMBERS.get(protocol, frozenset()):
            yield THINKING[protocol], value
        else:
            yield _thinking(protocol, name, value)
    elif name in OURS or name in _OWN[protocol] or name in _INSIDE.get(protocol, ()):
        yield name, value
    elif name in THINKING.values():
        yield _thinking(protocol, name, value)
    else:
        row = _row(name, protocol) or {}
        target = row.get("") if protocol in row else None
        target = target or row.get(protocol)
        if target is None:
            raise _refused(protocol, name)
        yield target, value


def _thinking(protocol: str, name: str, value: Any) -> tuple[str, Any]:
    """Another protocol's wish for thinking, in the words of `protocol`."""
    match _wish(value):
        case "off":
            return THINKING[protocol], OFF[protocol]
        case "free" if protocol in FREE:
            return THINKING[protocol], FREE[protocol]
        case str(word) if word in WORDS:
            return "thinking", word
        case int(tokens) if protocol in BUDGETED:
            return "thinking", tokens
    raise BadInput(
        f"params: {protocol} cannot be told what {name} asks for here; leave it out, or say it by "
        f"{THINKING[protocol]}."
    )


def _wish(value: Any) -> str | int | None:
    """`off`, `free`, one of WORDS or a number of tokens; None for what no other can say.

    No two protocols say different things alike, so the value alone tells.
    """
    for word, forms in (("off", OFF), ("free", FREE)):
        if any(_alike(value, form) for form in forms.values()):
            return word
    match value:
        case {"type": "enabled", "budget_tokens": tokens} if len(value) == 2:
            return _count(tokens)
        case {"thinkingBudget": tokens} if len(value) == 1:
            return _count(tokens)
        case {"effort": str(word)} | {"thinkingLevel": str(word)} if len(value) == 1:
            return word.lower() if word.lower() in WORDS else None
        case str(word) if word in WORDS:
            return word
    return None


def _alike(value: Any, form: Any) -> bool:
    return type(value) is type(form) and bool(value == form)


def _count(value: Any) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if sound else None


def _refused(protocol: str, name: str) -> BadInput:
    return BadInput(
        f"params: {protocol} has no {name[:80]} and nothing that says the same; leave it out, or "
        "put it into extra to have it sent as it is."
    )
