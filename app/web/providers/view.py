"""The Providers pages as HTML. Knows the names of keys and never a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jinja2 import Environment

from app.core.providers import SHIPPED, Hint
from app.core.settings import PROTOCOLS, Profile
from app.net.keys import is_loopback
from app.web.session.wire_view import NAMES

GROUPS = ("Ready", "Simulator", "Local", "Needs a key")
"""What works at once stands first."""
T = TypeVar("T")


def profile_group(profile: Profile, *, has_key: bool) -> str:
    """The title of the group that `profile` is in wherever profiles are listed; `has_key` is
    whether its key is there or none is needed."""
    vendor = SHIPPED.get(profile.name)
    if profile.simulated:
        return "Simulator"
    if (vendor is not None and vendor.local) or is_loopback(profile.base_url):
        return "Local"
    return "Ready" if has_key and profile.base_url else "Needs a key"


def in_groups(rows: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """What is in each group, of (title of its group, entry); no group is empty."""
    groups: dict[str, list[T]] = {title: [] for title in GROUPS}
    for title, entry in rows:
        groups[title].append(entry)
    return [(title, entries) for title, entries in groups.items() if entries]


@dataclass(frozen=True)
class ProviderRow:
    """A profile with all that the page says of it.

    `missing` says why its key is not sent, `unconfirmed` is the origin it may be confirmed for;
    `variable` and `place` are its name and where it was found. `state` is one of "ready",
    "key", "address". `own` is whether the user made or changed it, `shipped` whether it came with
    the program. `quirks` are (name, reason). `first` is the first model that was listed, where the
    profile names none.
    """

    profile: Profile
    title: str
    about: str
    group: str
    state: str
    missing: str = ""
    unconfirmed: str = ""
    variable: str = ""
    place: str = ""
    key_place: str = ""
    start: str = ""
    hints: Sequence[Hint] = ()
    quirks: Sequence[tuple[str, str]] = ()
    own: bool = False
    shipped: bool = True
    first: str = ""

    @property
    def protocol(self) -> str:
        return NAMES.get(self.profile.protocol, self.profile.protocol)


@dataclass(frozen=True)
class ProfileForm:
    """The editor's fields as text, so that what could not be saved comes back as it was typed."""

    name: str = ""
    protocol: str = "openai_chat"
    base_url: str = ""
    key_name: str = ""
    model: str = ""
    headers: str = ""
    quirks: tuple[str, ...] = ()
    connect_s: str = "10"
    first_byte_s: str = "60"
    idle_s: str = "60"


def profile_form(profile: Profile) -> ProfileForm:
    """The editor's fields for a profile."""
    return ProfileForm(
        profile.name,
        profile.protocol,
        profile.base_url,
        profile.key_name,
        profile.model,
        "\n".join(f"{name}: {value}" for name, value in profile.headers.items()),
        profile.quirks,
        f"{profile.connect_s:g}",
        f"{profile.first_byte_s:g}",
        f"{profile.idle_s:g}",
    )


@dataclass(frozen=True)
class RowDetails:
    """What stands in the rows besides: `answers` by the name of a profile, each HTML of `tested`
    or `listing`; `saved` is the one that was just saved.
    """

    answers: Mapping[str, str] = field(default_factory=dict)
    saved: str = ""


def providers_page(env: Environment, rows: Sequence[ProviderRow], shown: RowDetails) -> str:
    """The list of all providers."""
    return env.get_template("providers.html").render(
        groups=grouped(rows), answers=shown.answers, saved=shown.saved
    )


def profile_page(
    env: Environment,
    rows: Sequence[ProviderRow],
    form: ProfileForm,
    quirks: Mapping[str, Mapping[str, str]],
    row: ProviderRow | None = None,
    wrong: str = "",
) -> str:
    """The editor of one profile; `row` is the one that it had before, `quirks` by protocol."""
    return env.get_template("provider.html").render(
        groups=grouped(rows),
        form=form,
        row=row,
        wrong=wrong,
        protocols=[(name, NAMES.get(name, name)) for name in PROTOCOLS if name in quirks],
        quirks=quirks,
    )


def tested(env: Environment, row: ProviderRow, test: Any) -> str:
    """What came of a test, for the place below its row."""
    return env.get_template("_provider_test.html").render(row=row, test=test)


def listing(env: Environment, row: ProviderRow, models: Any) -> str:
    """The models that a provider lists, for the place below its row."""
    return env.get_template("_provider_models.html").render(row=row, found=models)


def grouped(rows: Sequence[ProviderRow]) -> list[tuple[str, list[ProviderRow]]]:
    """The rows under the titles of their groups."""
    return in_groups((row.group, row) for row in rows)
