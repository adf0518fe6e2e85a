"""The Providers pages: the list, a test of a provider, its models, and the user's own profiles."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.errors import BadInput
from playground.core.providers import SHIPPED, Hint
from playground.core.serialization import to_data
from playground.core.settings import PROTOCOLS, Profile
from playground.engine.engine import Engine
from playground.engine.providers import Listing, ProviderCheck
from playground.engine.settings import profile_from
from playground.net.keys import is_loopback
from playground.protocols.registry import CODECS
from playground.web.forms import Body, answer, answer_format, as_json, body_of
from playground.web.session.wire_view import NAMES
from playground.web.site import Site, site_of

GONE = 499
"""A status that is never read, because the client has disconnected."""

GROUPS = ("Ready", "Simulator", "Local", "Needs a key")
"""Profiles that work at once come first."""

FOLDED = ("Simulator", "Local", "Needs a key")
"""Groups with one-line rows: providers that were found are highlighted."""

T = TypeVar("T")


async def providers(request: Request) -> Response:
    """GET /providers?new=1: lists the providers. `new` opens the editor of a new one."""
    site = site_of(request)
    rows = rows_of(site.engine)
    if answer_format(request) == "json":
        return as_json([data_of(row) for row in rows])
    if request.query_params.get("new"):
        return HTMLResponse(profile_page(site.env, rows, ProfileForm(), _quirks()))
    return HTMLResponse(
        providers_page(site.env, rows, RowDetails(saved=request.query_params.get("saved", "")))
    )


async def provider(request: Request) -> Response:
    """GET /providers/NAME: shows the editor of a provider, or its data as JSON."""
    site, row = site_of(request), _row(request)
    if answer_format(request) == "json":
        return as_json(data_of(row))
    if row.profile.simulated:
        raise BadInput("The simulator's profiles cannot be changed. Add your own profile.")
    form = profile_form(site.engine.editable_profile(row.profile.name))
    return HTMLResponse(profile_page(site.env, rows_of(site.engine), form, _quirks(), row))


async def save(request: Request) -> Response:
    """POST /providers: saves a profile of the user, from a script or the editor.

    ---
    responses:
      201: {description: The profile.}
    """
    site, body = site_of(request), await body_of(request)
    engine, original = site.engine, "" if body.is_json else body.text("original")
    mask = engine.keys.redactor().redact_text
    try:
        profile = profile_from(body.data if body.is_json else _from_form(body, engine), mask)
        _check_taken(engine, profile.name, original, is_json=body.is_json)
    except BadInput as error:
        if answer_format(request) != "page":
            raise
        row = next(
            (candidate for candidate in rows_of(engine) if candidate.profile.name == original), None
        )
        html = profile_page(
            site.env,
            rows=rows_of(engine),
            form=_read_form(body),
            quirks=_quirks(),
            row=row,
            wrong=mask(str(error)),
        )
        return HTMLResponse(mask(html), 422)
    await engine.save_profile(profile)
    if original != profile.name and original in engine.own:
        await engine.delete_profile(original)
    here = f"/providers/{quote(profile.name, safe='')}"
    if answer_format(request) == "json":
        return as_json(to_data(profile), 201, {"Location": here})
    there = f"/providers?saved={quote(profile.name)}#provider-{profile.name}"
    return answer(request, {"name": profile.name}, location=there)


async def delete(request: Request) -> Response:
    """POST /providers/NAME/delete: deletes the user's profile. A shipped one is reset."""
    await site_of(request).engine.delete_profile(request.path_params["name"])
    return answer(request, {"ok": True}, location="/providers")


async def test(request: Request) -> Response:
    """POST /providers/NAME/test: sends one tiny request, cancelled if the client disconnects."""
    body, row = await body_of(request), _row(request)
    asked = site_of(request).engine.providers.test(row.profile, body.text("model").strip())
    return await _respond_when_done(request, row, asked)


async def models(request: Request) -> Response:
    """POST /providers/NAME/models: asks the provider for its list of models."""
    await body_of(request)
    row = _row(request)
    return await _respond_when_done(
        request, row, site_of(request).engine.providers.models(row.profile)
    )


def rows_of(engine: Engine) -> list[ProviderRow]:
    """Every profile, as a row of the page."""
    return [row_of(engine, profile) for profile in engine.profiles()]


def row_of(engine: Engine, profile: Profile) -> ProviderRow:
    """The facts about a profile; only the name of its key."""
    keys, vendor = engine.keys, SHIPPED.get(profile.name)
    missing = keys.missing_reason(profile)
    state = ("key" if missing else "ready") if profile.base_url else "address"
    variable, place = keys.key_source(profile.key_name) if profile.key_name else ("", "")
    listed = () if profile.model else engine.providers.known_models(profile)
    known = CODECS[profile.protocol].quirks if profile.protocol in CODECS else {}
    return ProviderRow(
        profile,
        title=vendor.title if vendor is not None else profile.name,
        about=vendor.about if vendor is not None else "A profile of your own.",
        group=profile_group(profile, has_key=not missing),
        state=state,
        missing=missing,
        unconfirmed=keys.unconfirmed_origin(profile) if profile.base_url else "",
        variable=variable,
        place=place,
        key_place=vendor.key_place if vendor is not None else "",
        start=vendor.start if vendor is not None else "",
        hints=vendor.hints if vendor is not None else (),
        quirks=[(name, known.get(name, "")) for name in profile.quirks],
        own=profile.name in engine.own,
        shipped=vendor is not None,
        first=next((model.id for model in listed), ""),
    )


def data_of(row: ProviderRow) -> Mapping[str, Any]:
    """A row as scripts read it: keys by their names alone."""
    return {
        **to_data(row.profile),
        "title": row.title,
        "state": row.state,
        "missing": row.missing,
        "unconfirmed": row.unconfirmed,
        "key_found": row.variable,
        "key_from": row.place,
        "local": row.group == "Local",
        "own": row.own,
        "shipped": row.shipped,
        "quirks": dict(row.quirks),
        "hints": [to_data(hint) for hint in row.hints],
    }


def _row(request: Request) -> ProviderRow:
    engine = site_of(request).engine
    return row_of(engine, engine.profile(request.path_params["name"]))


async def _respond_when_done(
    request: Request, row: ProviderRow, asked: Coroutine[Any, Any, ProviderCheck | Listing]
) -> Response:
    """The provider's result in the format of the request; cancelled when the client disconnects."""
    came = await _cancel_on_disconnect(request, asked)
    if came is None:
        return Response(status_code=GONE)
    site = site_of(request)
    match answer_format(request):
        case "json":
            return as_json(to_data(came))
        case "htmx":
            return HTMLResponse(_result_html(site, row, came))
    shown = RowDetails({row.profile.name: Markup(_result_html(site, row, came))})
    return HTMLResponse(providers_page(site.env, rows_of(site.engine), shown))


def _result_html(site: Site, row: ProviderRow, came: ProviderCheck | Listing) -> str:
    if isinstance(came, ProviderCheck):
        return render_test(site.env, row, came)
    return render_models(site.env, row, came)


async def _cancel_on_disconnect(
    request: Request, asked: Coroutine[Any, Any, ProviderCheck | Listing]
) -> ProviderCheck | Listing | None:
    """The result of `asked`, or None if the client disconnected before."""
    work, gone = asyncio.create_task(asked), asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        for task in (work, gone):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _check_taken(engine: Engine, name: str, original: str, *, is_json: bool) -> None:
    """The editor never overwrites another profile by giving this one its name."""
    if is_json or name == original:
        return
    if any(profile.name == name for profile in engine.profiles()):
        raise BadInput(f"There is a profile {name!r} already; choose another name.")


def _quirks() -> Mapping[str, Mapping[str, str]]:
    return {name: codec.quirks for name, codec in CODECS.items()}


def _read_form(body: Body) -> ProfileForm:
    """The input of the editor, unchanged."""
    return ProfileForm(**body.form_fields(ProfileForm), quirks=_chosen_quirks(body))


def _from_form(body: Body, engine: Engine) -> dict[str, Any]:
    """The profile in the editor's fields; a new one gets the name of its host."""
    headers = {}
    for line in body.text("headers").splitlines():
        name, colon, value = line.partition(":")
        if line.strip() and not colon:
            raise BadInput("Write one header per line, like x-title: my program.")
        if line.strip():
            headers[name.strip()] = value.strip()
    names = ("name", "protocol", "base_url", "key_name", "model")
    chosen = list(_chosen_quirks(body))
    texts = {name: body.text(name).strip() for name in names}
    if not body.text("original") and not texts["name"]:
        texts["name"] = _free_name(texts["base_url"], [it.name for it in engine.profiles()])
    return {
        **texts,
        "headers": headers,
        # A new profile without ticked quirks leaves them out: it gets those of the vendor.
        **({"quirks": chosen} if chosen or body.text("original") else {}),
        **{name: _number(body, name) for name in ("connect_s", "first_byte_s", "idle_s")},
    }


def _free_name(base_url: str, existing: Collection[str]) -> str:
    """A name derived from the host of `base_url` that is not used yet."""
    host = re.sub(r"[^\w.:-]|[^\x00-\x7f]", "", urlsplit(base_url).netloc.rpartition("@")[2])[:60]
    if not host:
        raise BadInput("Enter the base URL of the provider, such as https://api.example.com/v1.")
    host = host.strip("._:-") or "provider"
    names = (host, *(f"{host}-{number}" for number in range(2, len(existing) + 3)))
    return next(name for name in names if name not in existing)


def _chosen_quirks(body: Body) -> tuple[str, ...]:
    """The quirks of the chosen protocol; those of others are in hidden boxes."""
    before = body.text("protocol") + ":"
    return tuple(
        shown.removeprefix(before) for shown in body.getlist("quirks") if shown.startswith(before)
    )


def _number(body: Body, name: str) -> float:
    text = body.text(name).strip()
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(f"{name}: {text[:40]!r} is not a number of seconds.") from error


# How they are drawn ------------------------------------------------------------------------------
# Knows the names of keys and never a value.


def profile_group(profile: Profile, *, has_key: bool) -> str:
    """The title of the group that `profile` is listed under; `has_key`: its key is available or
    none is needed."""
    vendor = SHIPPED.get(profile.name)
    if profile.simulated:
        return "Simulator"
    if (vendor is not None and vendor.local) or is_loopback(profile.base_url):
        return "Local"
    return "Ready" if has_key and profile.base_url else "Needs a key"


def group_by_title(rows: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """The entries of each group, from (title of its group, entry); no group is empty."""
    groups: dict[str, list[T]] = {title: [] for title in GROUPS}
    for title, entry in rows:
        groups[title].append(entry)
    return [(title, entries) for title, entries in groups.items() if entries]


@dataclass(frozen=True)
class ProviderRow:
    """A profile with everything the page shows.

    `missing` says why its key is not sent, `unconfirmed` is the origin it may be confirmed for;
    `variable` and `place` are its name and where it was found. `state` is one of "ready", "key",
    "address". `own`: the user made or changed it; `shipped`: it came with the program. `quirks` are
    (name, reason). `first` is the first listed model, if the profile has none.
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
    """The editor's fields as text, so that refused input is returned unchanged."""

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
        protocol=profile.protocol,
        base_url=profile.base_url,
        key_name=profile.key_name,
        model=profile.model,
        headers="\n".join(f"{name}: {value}" for name, value in profile.headers.items()),
        quirks=profile.quirks,
        connect_s=f"{profile.connect_s:g}",
        first_byte_s=f"{profile.first_byte_s:g}",
        idle_s=f"{profile.idle_s:g}",
    )


@dataclass(frozen=True)
class RowDetails:
    """Further content of the rows: `answers` by profile name, each HTML of `tested` or `listing`;
    `saved` is the one that was just saved."""

    answers: Mapping[str, str] = field(default_factory=dict)
    saved: str = ""


def providers_page(env: Environment, rows: Sequence[ProviderRow], shown: RowDetails) -> str:
    """The list of all providers."""
    return env.get_template("providers.html").render(
        groups=group_rows(rows), answers=shown.answers, saved=shown.saved, folded=FOLDED
    )


def profile_page(
    env: Environment,
    rows: Sequence[ProviderRow],
    form: ProfileForm,
    quirks: Mapping[str, Mapping[str, str]],
    row: ProviderRow | None = None,
    wrong: str = "",
) -> str:
    """The editor of one profile; `row` is its saved state, `quirks` by protocol."""
    return env.get_template("provider.html").render(
        groups=group_rows(rows),
        form=form,
        row=row,
        wrong=wrong,
        protocols=[(name, NAMES.get(name, name)) for name in PROTOCOLS if name in quirks],
        quirks=quirks,
    )


def render_test(env: Environment, row: ProviderRow, test: Any) -> str:
    """The result of a test, for the place below its row."""
    return env.get_template("_provider_test.html").render(row=row, test=test)


def render_models(env: Environment, row: ProviderRow, models: Any) -> str:
    """The models that a provider lists, for the place below its row."""
    return env.get_template("_provider_models.html").render(row=row, found=models)


def group_rows(rows: Sequence[ProviderRow]) -> list[tuple[str, list[ProviderRow]]]:
    """The rows under the titles of their groups."""
    return group_by_title((row.group, row) for row in rows)
