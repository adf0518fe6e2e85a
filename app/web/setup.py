"""What the Setup form of a session shows, drawn for its page and for the streams of all tabs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.core.providers import SHIPPED
from app.core.settings import Profile
from app.core.tools import Tool
from app.engine.preview import WIRES, notes_alone
from app.engine.responses import why_unknown
from app.engine.sessions import LiveSession
from app.render.fragments import partial
from app.render.pages import Surroundings, setup_fragment
from app.render.view import View
from app.web.pages.request import drawable
from app.web.site import Site

GROUPS = ("Ready", "Simulator", "Local", "Needs a key")


async def drawn_setup(site: Site, live: LiveSession, view: View) -> str:
    """Setup as the session stands now, as the piece that takes its place; the caller holds
    `live`."""
    around = surroundings(site, live, await site.engine.library.tools())
    return partial("panel-setup", "innerMorph", setup_fragment(site.env, view, around))


def surroundings(site: Site, live: LiveSession, library: Sequence[Tool]) -> Surroundings:
    """What Setup needs; the caller holds `live`."""
    engine, settings = site.engine, live.session.settings
    assert settings is not None
    profiles = [profile for profile in engine.profiles() if profile.protocol in WIRES]
    if settings.profile not in profiles:
        profiles.insert(0, settings.profile)
    keys = {profile.name: not engine.keys.missing(profile) for profile in profiles}
    return Surroundings(
        profiles,
        keys,
        library,
        after=engine.sessions.position,
        unconfirmed=engine.keys.unconfirmed(settings.profile),
        groups=grouped(profiles, keys),
        models=[model_info.id for model_info in engine.providers.known_models(settings.profile)],
        wires=WIRES,
        own=drawable(notes_alone(engine, live.session)),
        unpriced=why_unknown(settings.profile, settings.model or settings.profile.model),
    )


def grouped(
    profiles: Sequence[Profile], keys: Mapping[str, bool]
) -> list[tuple[str, Sequence[Profile]]]:
    """The profiles as a person looks for them: what works at once stands first."""
    groups: dict[str, list[Profile]] = {title: [] for title in GROUPS}
    for profile in profiles:
        vendor = SHIPPED.get(profile.name)
        if profile.simulated:
            title = "Simulator"
        elif vendor is not None and vendor.local:
            title = "Local"
        else:
            title = "Ready" if keys[profile.name] else "Needs a key"
        groups[title].append(profile)
    return [(title, rows) for title, rows in groups.items() if rows]
