"""What a person or a script typed holds no key: addresses, settings and tools, before any of it is
kept or shown. Keys go by the names of their variables.

Knows no key itself: it is handed what masks them. Threat 16 of docs/safety.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.core.errors import BadInput
from app.core.rules import Rule
from app.core.serialization import to_data
from app.core.settings import Settings
from app.core.tools import Tool
from app.net.keys import origin
from app.secrets.redaction import Redactor

SECRET_QUERY = re.compile(r"[?&;](?:[^=&]*(?:key|token|secret|sig|auth|passw)[^=&]*)=", re.I)


def check_address(base_url: str) -> None:
    """BadInput where `base_url` is no address, or one that takes a key along."""
    origin(base_url)
    if "#" in base_url:
        raise BadInput("A base URL has no part behind a #; leave that out.")
    if SECRET_QUERY.search(base_url):
        raise BadInput("A base URL takes no key along; leave it out and name its variable.")


def check_settings(settings: Settings, redactor: Redactor, before: Settings) -> None:
    """BadInput that names the place, never the value, where one holds a known key.

    What stood in `before` is not looked at again: a key that became known since must not keep
    anybody from taking it out, place by place. The system prompt is left out: what people write
    may hold a key, and is masked where it is kept.
    """
    old = _places(before)
    _check(
        {name: value for name, value in _places(settings).items() if value != old[name]}, redactor
    )
    check_tools((tool for tool in settings.tools if tool not in before.tools), redactor)


def _places(settings: Settings) -> dict[str, Any]:
    profile = settings.profile
    return {
        "model": settings.model,
        "base_url": profile.base_url,
        "The profile": [profile.name, profile.key_name, profile.model, profile.headers],
        "tool_choice": to_data(settings.tool_choice),
        "params": settings.params,
        "extra": settings.extra,
    }


def check_tools(tools: Iterable[Tool], redactor: Redactor) -> None:
    """BadInput where a tool holds a known key; tools are numbered, for a name may be the place."""
    for number, tool in enumerate(tools, 1):
        data = to_data(tool)
        _check({f"{name} of tool {number}": value for name, value in data.items()}, redactor)


def check_rule(rule: Rule, redactor: Redactor) -> None:
    """BadInput where a rule holds a known key, in whichever of its places."""
    names = ("tool", "source", "when", "text", "words")
    _check({f"{name} of the rule": getattr(rule, name) for name in names}, redactor)


def _check(places: Mapping[str, Any], redactor: Redactor) -> None:
    for place, value in places.items():
        if redactor.holds(value):
            raise BadInput(
                f"{place} holds the value of a key; take it out: a key goes by the name of its "
                "variable, and is sent in the protocol's own header."
            )
