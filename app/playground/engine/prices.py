"""The price of a response in US dollars, from the extra `prices`. Unknown is None, never 0.

https://github.com/pydantic/genai-prices counts input and output tokens including cached ones; the
providers count them differently, each in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from playground.core.events import Usage
from playground.core.run_limits import output_tokens
from playground.core.settings import Profile
from playground.net.keys import is_loopback

INSTALLED = find_spec("genai_prices") is not None

_list_read = False


def needs_price_list(profile: Profile) -> bool:
    """Whether `cost` has to load the price list first, which is slow."""
    return not (_list_read or not INSTALLED or profile.simulated or is_loopback(profile.base_url))


def cost(profile: Profile, model: str, usage: Usage) -> float | None:
    """The cost; None if the extra is missing, nothing is billed, or anything needed is unknown."""
    counted = counts(profile.protocol, usage)
    if not INSTALLED or counted is None or profile.simulated or is_loopback(profile.base_url):
        return None
    import genai_prices
    from genai_prices.data_snapshot import get_snapshot

    global _list_read
    try:
        snapshot = get_snapshot()
        _list_read = True
        provider = snapshot.find_provider(None, None, profile.base_url)
        if not _matches_whole_host(provider.api_pattern, profile.base_url):
            return None
        price = genai_prices.calc_price(
            genai_prices.Usage(**counted), model, provider_id=provider.id
        )
    except (LookupError, ValueError):
        return None
    # A model without a price in the list yields 0.
    return float(price.total_price) or None


def unknown_price_reason(profile: Profile, model: str) -> str:
    """A sentence on why answers of `model` have no price here; "" if they have one."""
    if profile.simulated:
        return "The simulator is free, so no cost is counted."
    if is_loopback(profile.base_url):
        return "A server on this computer is free, so no cost is counted."
    if not INSTALLED:
        return (
            "Prices are unknown, because the price list is not installed (the extra “prices”). "
            "Only costs that the provider reports are counted."
        )
    if not model:
        return "No model is chosen, so the price is unknown."
    if cost(profile, model, Usage(1_000_000, 1_000_000)) is None:
        return (
            f"The price list does not have {model} of this provider. Only costs that the "
            "provider reports are counted."
        )
    return ""


def counts(protocol: str, usage: Usage) -> dict[str, int] | None:
    """All input and output tokens, and the cached ones included; None if unknown."""
    read, wrote = usage.input_tokens, output_tokens(protocol, usage)
    if read is None or wrote is None:
        return None
    cached, cache_writes = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    thought = usage.reasoning_tokens or 0
    counted = {"cache_read_tokens": cached, "cache_write_tokens": cache_writes}
    match protocol:
        case "anthropic":
            read += cached + cache_writes  # Anthropic's input_tokens exclude cached ones
            long = _whole_number(usage.raw.get("cache_creation"), "ephemeral_1h_input_tokens")
            if 0 < long <= cache_writes:
                counted["cache_write_1h_tokens"] = long
        case "gemini":
            read += _whole_number(usage.raw, "toolUsePromptTokenCount")
        case "openai_chat":
            apart = read + wrote + thought == _whole_number(usage.raw, "total_tokens")
            wrote += thought if apart else 0  # xAI counts them this way
    return {"input_tokens": read, "output_tokens": wrote, **{k: v for k, v in counted.items() if v}}


def _whole_number(value: Any, name: str) -> int:
    count = value.get(name) if isinstance(value, Mapping) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def _matches_whole_host(pattern: str, url: str) -> bool:
    """Whether `pattern` matches the whole host of `url`, not just the beginning of it."""
    return re.match(rf"(?:{pattern})(?:(?<=[./])|[/:?]|$)", url) is not None
