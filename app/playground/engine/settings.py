"""Settings of a session, and profiles of providers, from the input of a user or a script.

All input is checked; each error is a sentence that says what to do. A profile never contains the
value of a key: keys are referenced by variable name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from playground.core.errors import BadInput
from playground.core.providers import add_account_headers, provider_at
from playground.core.settings import (
    PROTOCOLS,
    SIMULATOR_URL,
    Limits,
    Profile,
    Protocol,
    Settings,
    apply_timeouts,
)
from playground.core.tools import ChoiceMode, Tool, ToolChoice
from playground.engine.engine import Engine
from playground.engine.redaction import check_address, check_settings
from playground.net.keys import check_key_name, origin, provider_keys
from playground.net.threads import run_in_daemon
from playground.protocols.facts import FACTS
from playground.protocols.parameters import check_params
from playground.protocols.registry import CODECS, codec
from playground.schema.schema_checks import one_document
from playground.schema.validate import HEADER, check_tool
from playground.secrets import detection
from playground.secrets.names import may_name_secret

KNOWN = (
    *("profile", "protocol", "base_url", "key_name", "model", "system", "tools"),
    *("tool_choice", "parallel", "stream", "params", "extra", "max_turns"),
    *("max_calls_per_turn", "max_calls_per_answer", "max_parallel", "max_run_tokens"),
    *("max_cost", "max_minutes"),
    *("max_repeats", "continue_on_error", "max_retries", "connect_s", "first_byte_s", "idle_s"),
)
"""The fields a script may name."""

PARAMS: Mapping[str, str] = {
    "temperature": "a number from 0 to 100",
    "top_p": "a number from 0 to 1",
    "max_tokens": "a whole number from 1 to 100000000",
    "stop": "a text or a list of texts",
    "thinking": "low, medium, high, a number of tokens, or an object in the protocol's form",
}

MOST_SECONDS = 3600
MOST_RETRIES = 10
MOST_TOKENS = 100_000_000
MOST_STOPS, LONGEST_STOP = 16, 1_000
"""For imported settings: most stop texts, and most characters of one."""

COUNTS: Mapping[str, tuple[int, int]] = {
    "max_turns": (1, 1000),
    "max_calls_per_turn": (1, 1000),
    "max_calls_per_answer": (1, 10_000),
    "max_parallel": (1, 16),
    "max_run_tokens": (0, 1_000_000_000),
    "max_repeats": (0, 1000),
    "max_retries": (0, MOST_RETRIES),
}
"""Integer limits: minimum and maximum; 0 means no limit, except for retries."""

AMOUNTS: Mapping[str, tuple[float, float]] = {
    "max_cost": (0.0001, 1_000_000),
    "max_minutes": (0.01, 10_080),
}
"""Limits in US dollars and minutes; 0 means no limit."""

PROFILE_FIELDS = (
    *("name", "protocol", "base_url", "key_name", "model", "headers", "quirks"),
    *("connect_s", "first_byte_s", "idle_s"),
)
"""The fields that a script may name."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1000}")
MOST_HEADERS = 20
MOST_TEXT = 2000

OURS = {
    *("host", "content-length", "content-type", "content-encoding", "transfer-encoding"),
    *("connection", "accept-encoding", "te", "trailer", "upgrade", "expect"),
}
"""Headers that the client writes itself, or that would break its framing."""


async def settings_from(
    engine: Engine, data: Mapping[str, Any], base: Settings | None = None
) -> Settings:
    """`base` (or the simulator's settings) changed by `data`; BadInput says what is wrong.

    Fields missing in `data` stay unchanged. A key named together with a base URL is permitted for
    that address; `key_name` "" means no key.
    """
    unknown = sorted(data.keys() - set(KNOWN))
    if unknown:
        raise BadInput(f"Settings have no field {unknown[0]!r}. The fields are {', '.join(KNOWN)}.")
    if data.get("key_name") is not None and not data.get("base_url"):
        raise BadInput("key_name needs a base_url. A profile names its own key.")
    before = base or Settings(engine.profile("simulator"))
    settings = before
    if "profile" in data or "protocol" in data or "base_url" in data:
        profile = _profile(engine, data, settings.profile)
        if profile != settings.profile:
            limits = apply_timeouts(settings.limits, profile)
            settings = replace(settings, profile=profile, model="", limits=limits)
    tools = settings.tools
    if "tools" in data:
        tools = tuple(await tools_from(engine, _list(data["tools"], "tools"), tools))
    settings = replace(
        settings,
        model=_text(data.get("model", settings.model), "model"),
        system=_text(data.get("system", settings.system), "system"),
        tools=tools,
        params=_params(_object(data.get("params", settings.params), "params")),
        extra=_object(data.get("extra", settings.extra), "extra"),
        stream=_boolean(data.get("stream", settings.stream), "stream"),
        limits=_limits(data, settings.limits),
    )
    choice = settings.tool_choice
    if "tool_choice" in data:
        choice = _choice(data["tool_choice"], choice.parallel)
    if "parallel" in data:
        choice = replace(choice, parallel=_boolean(data["parallel"], "parallel"))
    settings = replace(settings, tool_choice=checked_choice(choice, tools))
    if (settings.params, settings.profile) != (before.params, before.profile):
        check_params(settings.profile.protocol, settings.params)
    check_settings(settings, engine.keys.redactor(), before)
    if data.get("base_url") and data.get("key_name") and not settings.profile.simulated:
        await engine.confirm(settings.profile.key_name, settings.profile.base_url)
    return settings


async def tools_from(engine: Engine, wanted: Sequence[Any], own: Sequence[Tool] = ()) -> list[Tool]:
    """Tools by name (from the library, else from `own`) or as definitions; names are unique."""
    library = {tool.name: tool for tool in (*own, *await engine.library.tools())}
    if not all(isinstance(item, str) for item in wanted):
        wanted = await run_in_daemon(_check_defined, wanted)
    tools: dict[str, Tool] = {}
    for item in wanted:
        if isinstance(item, str):
            if item not in library:
                raise BadInput(f"There is no tool {item!r} in the library.")
            tool = library[item]
        else:
            tool = item
        if tool.name in tools:
            raise BadInput(f"Two tools are called {tool.name!r}. Give each its own name.")
        tools[tool.name] = tool
    return list(tools.values())


def _check_defined(wanted: Sequence[Any]) -> list[str | Tool]:
    """Names, and definitions as tools. A schema may take a while to check."""
    with one_document():
        return [item if isinstance(item, str) else check_tool(item) for item in wanted]


def checked_choice(choice: ToolChoice, tools: Sequence[Tool]) -> ToolChoice:
    """`choice`, if `tools` can fulfil it; BadInput otherwise."""
    names = {tool.name for tool in tools}
    if choice.mode == "tool" and choice.name not in names:
        raise BadInput(f"tool_choice names {choice.name!r}, which is not one of the tools.")
    if choice.mode == "required" and not names:
        raise BadInput("tool_choice is required, but no tool is switched on.")
    if choice.forced and choice.allowed == ():
        raise BadInput("tool_choice requires a call, but the allowed subset is empty.")
    for name in choice.allowed or ():
        if name not in names:
            raise BadInput(f"The allowed subset names {name!r}, which is not one of the tools.")
    if choice.mode == "tool" and choice.allowed is not None and choice.name not in choice.allowed:
        raise BadInput(f"tool_choice names {choice.name!r}, which the allowed subset leaves out.")
    return choice


def _limits(data: Mapping[str, Any], limits: Limits) -> Limits:
    """`limits` changed by `data`; times in seconds."""
    named: dict[str, Any] = {
        name: _integer(data[name], name, least, most)
        for name, (least, most) in COUNTS.items()
        if name in data
    }
    named |= {name: _amount(data[name], name, *AMOUNTS[name]) for name in AMOUNTS if name in data}
    waits = ("connect_s", "first_byte_s", "idle_s")
    named |= {name: seconds(data[name], name) for name in waits if name in data}
    if "continue_on_error" in data:
        named["continue_on_error"] = _boolean(data["continue_on_error"], "continue_on_error")
    return replace(limits, **named)


def _amount(value: Any, name: str, least: float, most: float) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (value == 0 or least <= value <= most):
        raise BadInput(f"{name} must be a number from {least:g} to {most:,}, or 0 for none.")
    return float(value)


def seconds(value: Any, name: str) -> float:
    """Checks a time limit; BadInput if it is out of range."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0.1 <= value <= MOST_SECONDS:
        raise BadInput(f"{name} must be a number of seconds from 0.1 to {MOST_SECONDS}.")
    return float(value)


def _profile(engine: Engine, data: Mapping[str, Any], current: Profile) -> Profile:
    """The profile that `data` names or defines; a session may keep a profile of its own."""
    if "protocol" not in data and "base_url" not in data:
        name = _text(data["profile"], "profile")
        if name == current.name and all(name != profile.name for profile in engine.profiles()):
            return current
        return engine.profile(name)
    protocol = checked_protocol(data.get("protocol"))
    base_url = _text(data.get("base_url", ""), "base_url")
    model = _text(data.get("model", ""), "model")
    if base_url.startswith(SIMULATOR_URL):
        name = "simulator" if protocol == "anthropic" else f"simulator-{protocol}"
        return Profile(name, protocol, SIMULATOR_URL, model=model or "simulator")
    check_address(base_url)
    place = origin(base_url)
    profile = unnamed_profile(place.split("//")[1], protocol, base_url)
    profile = replace(profile, model=model)
    if data.get("key_name") is not None:
        key_name = _text(data["key_name"], "key_name")
        if key_name:
            check_key_name(key_name)
        return replace(profile, key_name=key_name)
    # A bare address may come from anybody, so it gets a key only if that is permitted there.
    for own in keys_for(protocol, place):
        keyed = replace(profile, key_name=own)
        if not engine.keys.missing_reason(keyed):
            return add_account_headers(keyed, engine.environment)
    return profile


def unnamed_profile(name: str, protocol: Protocol, base_url: str) -> Profile:
    """A profile for an address, without a key, with the quirks and times of the vendor at that
    address. If the vendor's own protocol is another one, it has the quirks that exist here, too."""
    profile, vendor = Profile(name, protocol, base_url), provider_at(base_url, protocol)
    if vendor is None:
        return profile
    own, known = vendor.profile, CODECS[protocol].quirks
    return replace(
        profile,
        quirks=tuple(quirk for quirk in own.quirks if quirk in known),
        connect_s=own.connect_s,
        first_byte_s=own.first_byte_s,
        idle_s=own.idle_s,
    )


def keys_for(protocol: str, place: str) -> list[str]:
    """Variable names of keys for a server at the origin `place`: those of its vendor, or of the
    protocol if the origin is of no vendor. A vendor never gets another vendor's key. An unknown
    `protocol` has no key."""
    facts = FACTS.get(protocol)
    own = facts.key_name if facts is not None else ""
    return provider_keys(place) or ([own] if own else [])


def checked_protocol(value: Any) -> Protocol:
    """`value`, if it is a supported protocol; BadInput lists them."""
    if isinstance(value, str) and value in CODECS:
        for known in PROTOCOLS:
            if known == value:
                return known
    raise BadInput(f"The protocol must be one of {', '.join(CODECS)}, not {value!r}.")


def _choice(value: Any, parallel: bool) -> ToolChoice:
    match value:
        case "auto" | "required" | "none":
            return ToolChoice(value, parallel=parallel)
        case str() if value:
            return ToolChoice("tool", value, parallel=parallel)
        case dict() if not value.keys() - {"mode", "name", "allowed", "parallel"}:
            mode = next((m for m in get_args(ChoiceMode) if m == value.get("mode")), None)
            if mode is not None:
                return _choice_of(mode, value, parallel)
    raise BadInput(
        "tool_choice must be auto, required, none, a tool's name, or an object with mode, name "
        f"and allowed, not {json.dumps(value)[:80]}."
    )


def _choice_of(mode: ChoiceMode, value: Mapping[str, Any], parallel: bool) -> ToolChoice:
    allowed = value.get("allowed")
    return ToolChoice(
        mode,
        _text(value.get("name", ""), "tool_choice.name") if mode == "tool" else "",
        None if allowed is None else _names(allowed, "tool_choice.allowed"),
        _boolean(value.get("parallel", parallel), "tool_choice.parallel"),
    )


def _params(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The neutral parameters, type-checked; protocol-specific limits are left to the provider."""
    for name, value in params.items():
        match name, value:
            case (("temperature" | "top_p"), float() | int()) if not isinstance(value, bool):
                # Providers differ in what they accept, so the bounds are wide.
                sound = 0 <= value <= (100 if name == "temperature" else 1)
            case (("max_tokens" | "thinking"), int()) if not isinstance(value, bool):
                sound = 1 <= value <= MOST_TOKENS
            case "thinking", dict():
                sound = True
            case "thinking", str():
                sound = value in ("low", "medium", "high")
            case "stop", str():
                sound = True
            case "stop", list():
                sound = all(isinstance(text, str) for text in value)
            case _:
                sound = name not in PARAMS
        if not sound:
            raise BadInput(f"params: {name} must be {PARAMS[name]}.")
    return params


def sound_params(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those of the imported `params` that a user could have chosen in Setup."""
    return {name: param for name, param in params.items() if _is_valid_param(name, param)}


def _is_valid_param(name: str, value: Any) -> bool:
    if name not in PARAMS or (name == "thinking" and isinstance(value, dict)):
        return False
    if name == "stop":
        texts = value if isinstance(value, list) else [value]
        if len(texts) > MOST_STOPS or any(len(str(text)) > LONGEST_STOP for text in texts):
            return False
    try:
        _params({name: value})
    except BadInput:
        return False
    return True


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a text.")
    return value


def _boolean(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false.")
    return value


def _integer(value: Any, name: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadInput(f"{name} must be a whole number from {least} to {most}.")
    return value


def _names(value: Any, name: str) -> tuple[str, ...]:
    return tuple(_text(item, f"each of {name}") for item in _list(value, name))


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInput(f"{name} must be a JSON object.")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise BadInput(f"{name} must be a list.")
    return list(value)


def profile_from(data: Mapping[str, Any], masked: Callable[[str], str]) -> Profile:
    """The profile that `data` defines; missing quirks and times are those of the vendor at the
    address. `masked` masks the values of known keys."""
    unknown = sorted(data.keys() - set(PROFILE_FIELDS))
    if unknown:
        raise BadInput(
            f"A profile has no field {unknown[0]!r}. The fields are {', '.join(PROFILE_FIELDS)}."
        )
    name = _profile_text(data, "name")
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name[:80]!r} cannot be the name of a profile. Use 1 to 64 letters, digits and . _ "
            ": -, starting with a letter or digit."
        )
    protocol = checked_protocol(data.get("protocol"))
    base_url = _address(_profile_text(data, "base_url"), name)
    key_name = _profile_text(data, "key_name")
    if key_name:
        check_key_name(key_name)
    profile = unnamed_profile(name, protocol, base_url)
    profile = replace(
        profile,
        key_name=key_name,
        model=_profile_text(data, "model"),
        headers=_headers(data.get("headers", {})),
        quirks=_quirks(data.get("quirks", profile.quirks), protocol),
    )
    texts = {"name": name, "base_url": base_url, "key_name": key_name, "model": profile.model}
    for place, text in (*texts.items(), *profile.headers.items()):
        if masked(text) != text:
            raise BadInput(f"{place} contains the value of a key. Name the key's variable instead.")
    return replace(
        profile,
        connect_s=seconds(data.get("connect_s", profile.connect_s), "connect_s"),
        first_byte_s=seconds(data.get("first_byte_s", profile.first_byte_s), "first_byte_s"),
        idle_s=seconds(data.get("idle_s", profile.idle_s), "idle_s"),
    )


def _address(base_url: str, name: str) -> str:
    if name.startswith("simulator") or base_url.startswith(SIMULATOR_URL):
        raise BadInput(
            "The simulator's profiles cannot be changed. Choose another name or address."
        )
    check_address(base_url)
    return base_url.rstrip("/")


def _headers(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or len(value) > MOST_HEADERS:
        raise BadInput(f"headers must be an object of at most {MOST_HEADERS} texts.")
    headers: dict[str, str] = {}
    for name, text in value.items():
        if not HEADER.fullmatch(name):
            raise BadInput(f"{name[:80]!r} is not a header name. Use a name like x-title.")
        if not isinstance(text, str) or not HEADER_VALUE.fullmatch(text):
            raise BadInput(f"The header {name} must be one line of plain ASCII text.")
        if name.lower() in OURS:
            raise BadInput(f"The header {name} is set by this program. Remove it.")
        if may_name_secret(name) or detection.may_be_key(text):
            raise BadInput(
                f"The header {name} looks like a key, and keys are not saved. Name the key's "
                "variable instead; the key is sent in the protocol's own header."
            )
        if name.lower() in headers:
            raise BadInput(f"The header {name} is given twice.")
        headers[name.lower()] = text
    return headers


def _quirks(value: Any, protocol: str) -> tuple[str, ...]:
    known = codec(protocol).quirks
    if not isinstance(value, list | tuple):
        raise BadInput("quirks must be a list of names.")
    for quirk in value:
        if not isinstance(quirk, str) or quirk not in known:
            names = ", ".join(known) or "none"
            raise BadInput(f"{protocol} has no quirk {str(quirk)[:80]!r}. Choose from {names}.")
    return tuple(dict.fromkeys(value))


def _profile_text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name, "")
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise BadInput(f"{name} must be a text of at most {MOST_TEXT} characters.")
    return value.strip()
