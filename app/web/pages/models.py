"""The same prompt to up to four models at once: a form, and the sessions that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput
from app.core.session import Prompt
from app.core.settings import Profile, Settings
from app.engine.ask_models import asked_anew, asked_of_forks, settings_at
from app.engine.fork import ForkPlace
from app.engine.preview import WIRES
from app.engine.settings import settings_from
from app.render.beside import AskedFrom, ModelRow, models_page
from app.web.beside import MOST, address
from app.web.forms import Body, answer, body_of
from app.web.pages.sessions import like_the_last
from app.web.setup import grouped
from app.web.site import Site, site_of

FIELDS = ("text", "session", "prompt", "settings", "models", "beside")


async def form(request: Request) -> Response:
    """GET /compare/new?session=ID: the form; without a session it is about new ones."""
    site = site_of(request)
    source, settings = await _asked_from(site, request.query_params.get("session", ""))
    engine = site.engine
    if settings is None:
        settings = await like_the_last(site, {})
    profiles = [profile for profile in engine.profiles() if profile.protocol in WIRES]
    if settings.profile not in profiles:
        profiles.insert(0, settings.profile)
    groups = grouped(
        profiles, {profile.name: not engine.keys.missing(profile) for profile in profiles}
    )
    models = {
        model_info.id: None
        for profile in profiles
        for model_info in engine.providers.known_models(profile)
    }
    first = ModelRow(settings.profile.name, settings.model, needed=True)
    second = ModelRow(_other(settings.profile, groups), needed=True)
    rows = [first, second, *[ModelRow() for _ in range(MOST - 2)]]
    return HTMLResponse(models_page(site.env, source, settings, rows, groups, list(models)))


def _other(first: Profile, groups: Sequence[tuple[str, Sequence[Profile]]]) -> str:
    """A profile to compare `first` with: one that can be asked now, of its own kind at best."""
    kinds = ("Simulator", "Ready") if first.simulated else ("Ready", "Simulator")
    ready = {title: rows for title, rows in groups if title in kinds}
    found = [one.name for kind in kinds for one in ready.get(kind, ()) if one.name != first.name]
    return found[0] if found else first.name


async def _asked_from(site: Site, session_id: str) -> tuple[AskedFrom | None, Settings | None]:
    """The session that is asked otherwise, and its settings as its last prompt found them."""
    if not session_id:
        return None, None
    async with site.engine.sessions.holding(session_id) as live:
        session = live.session
        prompts = [
            item for item in session.items if isinstance(item, Prompt) and item.role == "user"
        ]
        last = prompts[-1] if prompts else None
        place = ForkPlace(prompt=last.number) if last is not None else ForkPlace()
        source = AskedFrom(
            session.id,
            live.title,
            last.number if last is not None else 0,
            last.text if last is not None else "",
            len(session.turns),
        )
        return source, settings_at(session, place)


async def create(request: Request) -> Response:
    """POST /compare: a session for each model, all of them asked at once; 201 with their ids."""
    site, body = site_of(request), await body_of(request)
    rows, source = _rows(body), body.text("session" if body.is_json else "from")
    text = body.text("text")
    async with site.changing:
        if source:
            place = await _place(site, source, body)
            ids = await asked_of_forks(site.engine, source, place, text, rows)
        else:
            ids = await asked_anew(site.engine, text, rows, await _base(site, body))
    shown = [source, *ids] if source and body.flag("beside") else ids
    return answer(request, {"ids": ids}, status=201, location=address(shown))


def _rows(body: Body) -> list[Mapping[str, Any]]:
    """What each session has of its own. Of a form, rows without a profile are none."""
    if body.is_json:
        if others := sorted(body.data.keys() - set(FIELDS)):
            raise BadInput(f"There is no field {others[0][:80]!r}; there is {', '.join(FIELDS)}.")
        listed = body.data.get("models", [])
        if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
            raise BadInput('models must be a list of settings, such as {"profile", "model"}.')
        rows: list[Mapping[str, Any]] = list(listed)
    else:
        fields = (body.all(name) for name in ("profile", "model", "choice"))
        rows = [_row(*one) for one in zip_longest(*fields, fillvalue="") if one[0]]
    most = MOST - 1 if body.flag("beside") else MOST
    if not 1 <= len(rows) <= most:
        raise BadInput(f"Choose one to {most} models; {MOST} sessions stand side by side at most.")
    return rows


def _row(profile: str, model: str, choice: str) -> Mapping[str, Any]:
    """A row of the form; what is left empty is as it is."""
    row = {"profile": profile, "model": model.strip(), "tool_choice": choice}
    return {name: value for name, value in row.items() if value}


async def _place(site: Site, session_id: str, body: Body) -> ForkPlace:
    """Where the forks begin: before prompt N, or at the end."""
    if body.is_json:
        number = body.data.get("prompt")
        if number is None:
            return ForkPlace()
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise BadInput("prompt must be the number of a prompt, from 1.")
        return ForkPlace(prompt=number)
    if body.text("at") != "prompt":
        return ForkPlace()
    async with site.engine.sessions.holding(session_id) as live:
        return ForkPlace(prompt=live.session.prompts)


async def _base(site: Site, body: Body) -> Settings:
    """What new sessions share: a script's settings, or as the last session was set up."""
    if not body.is_json:
        return await like_the_last(site, {})
    wanted = body.data.get("settings", {})
    if not isinstance(wanted, Mapping):
        raise BadInput("settings must be an object, as POST /sessions takes it.")
    return await settings_from(site.engine, wanted)
