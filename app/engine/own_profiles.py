"""A profile from what a person or a script typed: checked, each refusal with its sentence.

No value of a key gets into a profile: keys go by the names of their variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from app.core.errors import BadInput
from app.core.settings import SIMULATOR_URL, Profile
from app.engine.no_keys import check_address
from app.engine.settings import checked_protocol, seconds, unnamed_profile
from app.net.keys import check_key_name
from app.protocols.registry import codec

PROFILE_FIELDS = (
    *("name", "protocol", "base_url", "key_name", "model", "headers", "quirks"),
    *("connect_s", "first_byte_s", "idle_s"),
)
"""The fields that a script may name."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_|~-]{1,80}")
HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1000}")
MOST_HEADERS = 20
MOST_TEXT = 2000

SECRET_HEADER = re.compile(r"key|token|secret|auth|passw|cookie|credential|signature", re.I)
OURS = {
    *("host", "content-length", "content-type", "content-encoding", "transfer-encoding"),
    *("connection", "accept-encoding", "te", "trailer", "upgrade", "expect"),
}
"""What the client writes itself, or what would break its framing."""

SECRET_VALUE = re.compile(
    r"(?i:\b(?:bearer|basic|token)\s+\S)"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|pplx|fw|csk|tgp|AIza|ya29|gh[opsu]|eyJ)[-_.A-Za-z0-9]{12,}"
    r"|(?=[A-Za-z+/=_]*\d)(?=[\d+/=_]*[A-Za-z])[A-Za-z0-9+/=_]{32,}"
)
"""What the values of keys look like: a scheme of credentials, a vendor's prefix, a long jumble."""


def profile_from(data: Mapping[str, Any], masked: Callable[[str], str]) -> Profile:
    """The profile that `data` spells; what it does not name of quirks and times is as the vendor
    has it that stands at the address. `masked` masks the values of the keys that are known.
    """
    unknown = sorted(data.keys() - set(PROFILE_FIELDS))
    if unknown:
        raise BadInput(
            f"A profile has no field {unknown[0]!r}; there is {', '.join(PROFILE_FIELDS)}."
        )
    name = _profile_text(data, "name")
    if not NAME.fullmatch(name):
        raise BadInput(
            "The name of a profile is 1 to 64 letters, digits and . _ : -, a letter or digit first;"
            f" {name[:80]!r} is not."
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
            raise BadInput(f"{place} holds the value of a key; name its variable as the key.")
    return replace(
        profile,
        connect_s=seconds(data.get("connect_s", profile.connect_s), "connect_s"),
        first_byte_s=seconds(data.get("first_byte_s", profile.first_byte_s), "first_byte_s"),
        idle_s=seconds(data.get("idle_s", profile.idle_s), "idle_s"),
    )


def _address(base_url: str, name: str) -> str:
    if name.startswith("simulator") or base_url.startswith(SIMULATOR_URL):
        raise BadInput("The simulator's profiles stay as they are; choose another name or address.")
    check_address(base_url)
    return base_url.rstrip("/")


def _headers(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or len(value) > MOST_HEADERS:
        raise BadInput(f"headers must be an object of at most {MOST_HEADERS} texts.")
    headers: dict[str, str] = {}
    for name, text in value.items():
        if not HEADER_NAME.fullmatch(name):
            raise BadInput(f"{name[:80]!r} is no name of a header; write it like x-title.")
        if not isinstance(text, str) or not HEADER_VALUE.fullmatch(text):
            raise BadInput(f"The header {name} must be one line of plain ASCII text.")
        if name.lower() in OURS:
            raise BadInput(f"The header {name} is written by this program; leave it out.")
        if SECRET_HEADER.search(name) or SECRET_VALUE.search(text):
            raise BadInput(
                f"The header {name} looks like a key, and keys are not kept: name the variable"
                " of the key instead, and it is sent in the protocol's own header."
            )
        if name.lower() in headers:
            raise BadInput(f"The header {name} is there twice.")
        headers[name.lower()] = text
    return headers


def _quirks(value: Any, protocol: str) -> tuple[str, ...]:
    known = codec(protocol).quirks
    if not isinstance(value, list | tuple):
        raise BadInput("quirks must be a list of names.")
    for one in value:
        if not isinstance(one, str) or one not in known:
            names = ", ".join(known) or "none"
            raise BadInput(f"{protocol} knows no quirk {str(one)[:80]!r}; there is {names}.")
    return tuple(dict.fromkeys(value))


def _profile_text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name, "")
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise BadInput(f"{name} must be a text of at most {MOST_TEXT} characters.")
    return value.strip()
