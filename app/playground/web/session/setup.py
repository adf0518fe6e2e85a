"""The user's changes in the Setup form, determined by comparing it with what it showed.

The form carries the number of the settings it was drawn from. A field that still has the value of
these settings was not edited and keeps its current value, even if another client changed it. Each
edited field is saved separately, so that one that cannot be saved does not block the others.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import FormData

from playground.core.errors import BadInput, NotFound
from playground.core.session import Session
from playground.core.settings import Profile, Settings
from playground.core.tools import Tool, ToolChoice
from playground.engine.preview import WIRES, preview_notes
from playground.engine.prices import unknown_price_reason
from playground.engine.sessions import LiveSession
from playground.render.environment import partial
from playground.render.limit_words import LIFTED
from playground.render.view import View
from playground.web.demos import example_prompts
from playground.web.forms import Body, json_of
from playground.web.providers import group_by_title, profile_group
from playground.web.session.requests import to_next_request
from playground.web.session.view import (
    PARAMS,
    SessionPageContext,
    SetupForm,
    group_of,
    setup_form,
    setup_fragment,
)
from playground.web.site import Site

THINKING_BUDGET = 4096
STALE = "This form is out of date. Reload the page."

Save = Callable[[Mapping[str, Any], Settings], Awaitable[Settings]]
"""Applies a change of settings in the format of docs/contract.md."""

RUN_LIMITS = (
    *("max_turns", "max_calls_per_turn", "max_parallel", *LIFTED),
    "continue_on_error",
)
"""The limits that may be raised when a run is continued."""

Data = Callable[[Settings], Mapping[str, Any]]
"""Returns the change of the current settings, in the format of docs/contract.md."""

SetupStep = tuple[str, Data]
SetupSteps = Sequence[SetupStep]

_PARAMS = {"temperature": False, "max_tokens": True}

_LIMITS = {
    **dict.fromkeys(("max_turns", "max_calls_per_turn", "max_calls_per_answer"), True),
    **dict.fromkeys(("max_parallel", "max_retries"), True),
    **dict.fromkeys(("first_byte_s", "idle_s"), False),
    **{name: field.whole for name, field in LIFTED.items()},
}
"""Whether each limit accepts only whole numbers."""


@dataclass(frozen=True)
class SetupOutcome:
    """`refused` has a sentence for each field that was not changed."""

    settings: Settings
    refused: Mapping[str, str]


def shown_settings(session: Session, body: Body) -> Settings:
    """The settings that the form was drawn from; the current ones if it does not say."""
    assert session.settings is not None
    seq = body.text("base")
    if not seq:
        return session.settings
    if not re.fullmatch("[0-9]{1,15}", seq, re.ASCII):
        raise BadInput(STALE)
    known = [settings for at, settings in session.settings_at if at <= int(seq)]
    if not known:
        raise BadInput(STALE)
    return known[-1]


def with_group(body: Body, library: Sequence[Tool]) -> Body:
    """`body` after its button for a whole group of tools; with a script the page ticks the boxes
    itself."""
    if body.form is None or not {"all_of", "none_of"} & set(body.data):
        return body
    names = [tool.name for tool in library if group_of(tool) == body.text("all_of")]
    chosen = [] if "none_of" in body.data else body.getlist("tools")
    pairs = [pair for pair in body.form.multi_items() if pair[0] != "tools"]
    pairs += [("tools", name) for name in dict.fromkeys((*chosen, *names))]
    form = FormData(pairs)
    return Body({key: value for key, value in form.items() if isinstance(value, str)}, form)


async def apply_changes(body: Body, shown: Settings, now: Settings, save: Save) -> SetupOutcome:
    """`now` with the fields in which `body` differs from `shown`."""
    change = _SetupChange(body, setup_form(shown))
    refused: dict[str, str] = {}
    settings = now

    async def step(field: str, data: Data) -> bool:
        nonlocal settings
        try:
            settings = await save(data(settings), settings)
        except (BadInput, NotFound) as error:
            refused[field] = str(error)
        return field not in refused

    for field, data in change.first_steps():
        if field == "model" and "profile" in refused:
            # A model belongs to its provider: it is not sent to another.
            refused[field] = "Not saved, because the provider was not saved."
        else:
            await step(field, data)
    if change.has_changed("tools", "tool_choice", "tool_choice_name", "allowed_only", "allowed"):
        both = change.tools and change.chosen
        field = "tool_choice" if change.chosen else "tools"
        if not await step(field, change.offer) and both:
            await step("tools", lambda current: change.offer(current, choose=False))
    for field, data in change.other_steps():
        await step(field, data)
    return SetupOutcome(settings, refused)


def sent_limits(body: Body) -> Mapping[str, Any]:
    """The limits sent with Continue, in the format of docs/contract.md; BadInput for other fields,
    because ignoring them silently would mislead."""
    others = sorted(body.data.keys() - {*RUN_LIMITS, "pause"})
    if others:
        known = ", ".join(RUN_LIMITS)
        raise BadInput(f"Continue has no field {others[0][:80]!r}; the fields are {known}.")
    if body.is_json:
        return {name: value for name, value in body.data.items() if name != "pause"}
    texts = {name: body.text(name).strip() or "0" for name in _LIMITS if name in body.data}
    limits: dict[str, Any] = {
        name: _number(text, name, whole=_LIMITS[name]) for name, text in texts.items()
    }
    if "continue_on_error" in body.data:
        limits["continue_on_error"] = body.flag("continue_on_error")
    return limits


@dataclass(frozen=True)
class _SetupChange:
    """A posted form, with what it showed."""

    body: Body
    form: SetupForm

    def text(self, name: str) -> str:
        """A field as typed, or as shown where it was not sent."""
        return self.body.text(name, self.form.texts[name])

    def has_changed(self, *names: str) -> bool:
        """Whether any of these fields differs from what was shown."""
        return any(self._differs(name) for name in names)

    def _differs(self, name: str) -> bool:
        form = self.form
        if name in form.texts:
            return self.text(name) != form.texts[name]
        if not self.body.flag("whole") and name not in self.body.data:
            return False  # In a part of the form, an absent box was not unticked.
        if name in form.ticks:
            return self.body.flag(name) != form.ticks[name]
        return set(self.body.getlist(name)) != set(form.lists[name])

    @property
    def tools(self) -> bool:
        return self.has_changed("tools")

    @property
    def chosen(self) -> bool:
        return self.has_changed("tool_choice", "tool_choice_name", "allowed_only", "allowed")

    def first_steps(self) -> SetupSteps:
        """The profile comes first, because it changes the model and the timeouts, too; only the
        removal of parameters unknown to the new protocol comes before it."""
        steps: list[SetupStep] = []
        if self.has_changed("own_params"):
            steps.append(("own_params", self._own_params))
        if self.body.text("base_url").strip():
            names = ("protocol", "base_url", "key_name")
            place = {name: self.body.text(name).strip() for name in names}
            steps.append(("profile", lambda _: place))
        elif self.has_changed("profile"):
            # "=NAME" is the current profile of the session's own name.
            name = self.text("profile").removeprefix("=")
            steps.append(("profile", lambda _: {"profile": name}))
        if self.has_changed("model"):
            steps.append(("model", lambda _: {"model": self.text("model").strip()}))
        if self.has_changed("system"):
            steps.append(("system", lambda _: {"system": self.text("system")}))
        return steps

    def other_steps(self) -> SetupSteps:
        ticks = ("parallel", "stream", "continue_on_error")
        steps = [(tick, self._tick(tick)) for tick in ticks if self.has_changed(tick)]
        steps += [(name, self._param(name)) for name in _PARAMS if self.has_changed(name)]
        if self.has_changed("thinking", "thinking_budget"):
            field = "thinking_budget" if self.text("thinking") == "budget" else "thinking"
            steps.append((field, self._thinking))
        # An empty field means no limit; a mandatory limit that is empty was not changed.
        limits = (
            n for n in _LIMITS if self.has_changed(n) and (self.text(n).strip() or n in LIFTED)
        )
        steps += [(name, self._limit(name)) for name in limits]
        if self.has_changed("extra"):
            steps.append(
                ("extra", lambda _: {"extra": _json(self.text("extra"), "Extra parameters")})
            )
        return steps

    def _tick(self, name: str) -> Data:
        return lambda _: {name: self.body.flag(name)}

    def _limit(self, name: str) -> Data:
        text = self.text(name).strip() or "0"
        return lambda _: {name: _number(text, name, whole=_LIMITS[name])}

    def _param(self, name: str) -> Data:
        def data(now: Settings) -> Mapping[str, Any]:
            params = {key: value for key, value in now.params.items() if key != name}
            if self.text(name).strip():
                params[name] = _number(self.text(name), name, whole=_PARAMS[name])
            return {"params": params}

        return data

    def _own_params(self, now: Settings) -> Mapping[str, Any]:
        own = _json(self.text("own_params"), "Other parameters")
        if not isinstance(own, dict):
            raise BadInput("Other parameters must be a JSON object.")
        if twice := next((name for name in PARAMS if name in own), ""):
            raise BadInput(f"Other parameters: {twice} has its own field. Use that.")
        return {"params": {**{n: now.params[n] for n in PARAMS if n in now.params}, **own}}

    def _thinking(self, now: Settings) -> Mapping[str, Any]:
        params = {key: value for key, value in now.params.items() if key != "thinking"}
        match self.text("thinking"):
            case "":
                pass
            case "budget":
                budget = self.text("thinking_budget").strip() or str(THINKING_BUDGET)
                params["thinking"] = _number(budget, "The thinking budget", whole=True)
            case "kept":
                params = dict(now.params)
            case effort:
                params["thinking"] = effort
        return {"params": params}

    def offer(self, now: Settings, *, choose: bool = True) -> Mapping[str, Any]:
        """The tools and the tool choice; without `choose` the tool choice stays."""
        tools = self._merge_list("tools", [tool.name for tool in now.tools])
        choice = self._choice(now.tool_choice, tools) if choose else _choice_data(now.tool_choice)
        if "allowed" in choice:
            choice["allowed"] = [name for name in choice["allowed"] if name in tools]
        return {"tools": tools, "tool_choice": choice} if self.tools else {"tool_choice": choice}

    def _choice(self, now: ToolChoice, tools: Sequence[str]) -> dict[str, Any]:
        choice_data = _choice_data(now)
        if self.has_changed("tool_choice"):
            choice_data["mode"] = self.text("tool_choice")
        if self.has_changed("tool_choice_name") or now.mode != "tool":
            choice_data["name"] = self.text("tool_choice_name")
        only = (
            self.body.flag("allowed_only")
            if self.has_changed("allowed_only")
            else "allowed" in choice_data
        )
        before = choice_data.pop("allowed", tools)
        return choice_data | ({"allowed": self._merge_list("allowed", before)} if only else {})

    def _merge_list(self, name: str, now: Sequence[str]) -> list[str]:
        """The current list with the ticked items added and the unticked ones removed."""
        posted, shown = self.body.getlist(name), self.form.lists[name]
        names = [name for name in posted if name in now or name not in shown]
        return names + [name for name in now if name not in posted and name not in shown]


def _choice_data(choice: ToolChoice) -> dict[str, Any]:
    data: dict[str, Any] = {"mode": choice.mode, "name": choice.name}
    return data if choice.allowed is None else data | {"allowed": choice.allowed}


def _json(text: str, name: str) -> Any:
    """The parsed JSON of a field."""
    try:
        return json_of(text.encode("utf-8", "replace")) if text.strip() else {}
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from error


def _number(text: str, name: str, *, whole: bool) -> int | float:
    pattern = r"-?[0-9]{1,15}" if whole else r"-?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})"
    if not re.fullmatch(pattern, text.strip(), re.ASCII):
        kind = "whole number" if whole else "number"
        raise BadInput(f"{name} must be a {kind}, not {text.strip()[:40]!r}.")
    return int(text) if whole else float(text)


# The content of the Setup form, for its page and for the streams of all tabs.


async def setup_partial(site: Site, live: LiveSession, view: View) -> str:
    """Setup in the session's current state, as the piece that replaces it; the caller holds
    `live`."""
    around = page_context(site, live, await site.engine.library.tools())
    return partial("panel-setup", "innerMorph", setup_fragment(site.env, view, around))


def page_context(site: Site, live: LiveSession, library: Sequence[Tool]) -> SessionPageContext:
    """The input of Setup; the caller holds `live`."""
    engine, settings = site.engine, live.session.settings
    assert settings is not None
    profiles = [profile for profile in engine.profiles() if profile.protocol in WIRES]
    if settings.profile not in profiles:
        profiles.insert(0, settings.profile)
    keys = {profile.name: not engine.keys.missing_reason(profile) for profile in profiles}
    return SessionPageContext(
        profiles,
        keys,
        library,
        after=engine.sessions.cursor,
        unconfirmed=engine.keys.unconfirmed_origin(settings.profile),
        groups=group_profiles(profiles, keys),
        models=[model_info.id for model_info in engine.providers.known_models(settings.profile)],
        wires=WIRES,
        own=to_next_request(preview_notes(engine, live.session)),
        unpriced=unknown_price_reason(settings.profile, settings.model or settings.profile.model),
        examples=example_prompts({tool.name for tool in settings.tools}),
    )


def group_profiles(
    profiles: Sequence[Profile], keys: Mapping[str, bool]
) -> list[tuple[str, list[Profile]]]:
    """The profiles in order of usefulness: those that work at once come first."""
    return group_by_title(
        (profile_group(profile, has_key=keys[profile.name]), profile) for profile in profiles
    )
