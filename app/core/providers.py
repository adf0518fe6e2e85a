"""The shipped profiles by name, moved to where the environment says. Reads no environment itself
and checks no key: which address a key may go to is the matter of `net.keys`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from app.core.errors import NotFound
from app.core.settings import Profile
from app.core.vendor import Vendor
from app.core.vendors import VENDORS

PROFILES: tuple[Profile, ...] = tuple(vendor.profile for vendor in VENDORS)
SHIPPED: Mapping[str, Vendor] = {vendor.profile.name: vendor for vendor in VENDORS}

SIMULATOR = SHIPPED["simulator"].profile
SIMULATOR_OPENAI = SHIPPED["simulator-openai"].profile
ANTHROPIC = SHIPPED["anthropic"].profile
OPENAI = SHIPPED["openai"].profile

BASE_URL_NAMES: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
}
"""The variables by which the person moves a vendor to another address."""

ACCOUNT: Mapping[str, str] = {
    "OPENAI_ORG_ID": "openai-organization",
    "OPENAI_PROJECT_ID": "openai-project",
}
"""What names the account to OpenAI, and to nobody else: the variable, and its header."""

OLLAMA_PORT = 11434
_PLACE = re.compile(r"[a-z0-9][a-z0-9:.-]{0,99}")


def profiles(environment: Mapping[str, str]) -> tuple[Profile, ...]:
    """All shipped profiles, moved to where the environment says."""
    return tuple(with_account(_moved(one, environment), environment) for one in PROFILES)


def profile(name: str, environment: Mapping[str, str]) -> Profile:
    """The shipped profile of that name; NotFound names those there are."""
    return named(name, profiles(environment))


def named(name: str, among: tuple[Profile, ...]) -> Profile:
    """The profile of that name among these; NotFound names those there are."""
    for profile in among:
        if profile.name == name:
            return profile
    known = ", ".join(profile.name for profile in among)
    raise NotFound(f"There is no profile {name!r}; there are {known}.")


def vendor_at(base_url: str, protocol: str) -> Vendor | None:
    """The shipped vendor that stands at `base_url`: the row that speaks `protocol` before one that
    speaks another. None where nobody that is known does.
    """
    there = [one for one in VENDORS if not one.profile.simulated and one.stands_at(base_url)]
    return next((one for one in there if one.profile.protocol == protocol), (*there, None)[0])


def with_account(profile: Profile, environment: Mapping[str, str]) -> Profile:
    """`profile` with the headers that name the account, where it is OpenAI that gets them."""
    if not profile.base_url.lower().startswith("https://api.openai.com/"):
        return profile
    named = {header: environment.get(name, "").strip() for name, header in ACCOUNT.items()}
    own = {name.lower() for name in profile.headers}
    added = {header: value for header, value in named.items() if value and header not in own}
    return replace(profile, headers={**profile.headers, **added}) if added else profile


def ollama_url(host: str) -> str:
    """The base URL that OLLAMA_HOST means, in any of its forms; "" where it names none.

    An address to listen at (0.0.0.0) is reached at this machine's own. As Ollama's client reads it,
    but for the port after a scheme without one: the scheme's own holds.
    """
    text = host.strip().rstrip("/")
    if not text:
        return ""
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "http", text
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return ""
    if name in ("0.0.0.0", "::"):
        name = "127.0.0.1"
    port = port if port is not None or found else OLLAMA_PORT
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}" + (f":{port}" if port is not None else "") + parts.path


def vertex_url(environment: Mapping[str, str]) -> str:
    """Where the project of the environment stands on Vertex, or ""."""
    project = environment.get("GOOGLE_CLOUD_PROJECT", "").strip()
    location = environment.get("GOOGLE_CLOUD_LOCATION", "").strip() or "global"
    if not _PLACE.fullmatch(project) or not re.fullmatch(r"[a-z0-9-]{2,40}", location):
        return ""
    host = "aiplatform" if location == "global" else f"{location}-aiplatform"
    place = f"projects/{project}/locations/{location}"
    return f"https://{host}.googleapis.com/v1/{place}/publishers/google"


def azure_url(environment: Mapping[str, str]) -> str:
    """The v1 API of the resource that the environment names, or ""."""
    endpoint = environment.get("AZURE_OPENAI_ENDPOINT", "").strip().rstrip("/")
    if not endpoint:
        return ""
    return endpoint if "/openai" in endpoint else endpoint + "/openai/v1"


def _moved(profile: Profile, environment: Mapping[str, str]) -> Profile:
    match profile.name:
        case "ollama":
            url = ollama_url(environment.get("OLLAMA_HOST", ""))
        case "azure":
            url = azure_url(environment)
        case "vertex":
            url = vertex_url(environment)
        case name:
            url = environment.get(BASE_URL_NAMES.get(name, ""), "").strip()
    return replace(profile, base_url=url) if url else profile
