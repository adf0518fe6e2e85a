"""All requests of a batch, before anything is sent: the settings of each run, checked like a
session's, the rules that decide its calls, and estimates of its time and cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from playground.batch.run_case import CaseRun
from playground.core.errors import BadInput, NotFound, PlaygroundError
from playground.core.events import Usage
from playground.core.rules import Rule
from playground.core.serialization import to_data
from playground.core.settings import Profile, Settings
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.prices import cost, unknown_price_reason
from playground.engine.redaction import check_settings
from playground.engine.settings import settings_from
from playground.evaluation.spec import RunKey, RunPlan, Spec, plan_run, with_tools, words_of
from playground.net.keys import is_loopback
from playground.net.threads import run_in_daemon
from playground.schema.schema_checks import one_document

RETRIES = 5
"""The default number of retries per request of a batch: concurrent runs hit limits that a single
run does not."""

CHARACTERS_PER_TOKEN = 3.0
"""A low estimate for any model, so that token counts are rather too high."""

MOST_WRITTEN = 4096
"""The assumed maximum of tokens in an answer if max_tokens is not set."""

AT_A_TIME = 32
"""Cases planned before the event loop runs other tasks."""

ReadFile = Callable[[str], Sequence[Tool]]
"""The tools of a file named in a SPEC. BadInput says why they cannot be read."""

_WORDS = {True: "a mock answers {}", False: "--allow {}"}


@dataclass(frozen=True)
class PlannedRun:
    """One run without its repetition. Token counts are upper bounds, without tool results; `price`
    is theirs in US dollars, 0 if free, None if unknown: then `unknown` says why."""

    prompt: str
    settings: Settings
    rules: tuple[Rule, ...]
    tokens_in: int
    tokens_out: int
    price: float | None
    unknown: str = ""


@dataclass(frozen=True)
class BatchPlan:
    """The tools of `spec` are all definitions; `notes` are sentences on what was changed in it."""

    spec: Spec
    notes: tuple[str, ...]
    planned: Mapping[tuple[str, str, str], PlannedRun]

    def planned_run(self, key: RunKey) -> PlannedRun:
        return self.planned[key.case, key.variant, key.model]

    def run(self, key: RunKey, session: str, batch: str) -> CaseRun:
        """The run `key`, whose session gets the id `session`."""
        planned = self.planned_run(key)
        title = f"{key.case} · {key.variant} · {key.model} · {key.repetition}"
        return CaseRun(
            session,
            title=title,
            prompt=planned.prompt,
            settings=planned.settings,
            rules=planned.rules,
            batch=batch,
        )

    def lane(self, key: RunKey) -> str:
        """The key of runs that share a provider's limits: the address of their requests."""
        return self.planned_run(key).settings.profile.base_url

    @property
    def most_tokens(self) -> tuple[int, int]:
        """Upper bounds of input and output tokens of all runs."""
        often = self.spec.repetitions
        several = self.planned.values()
        return (
            often * sum(planned.tokens_in for planned in several),
            often * sum(planned.tokens_out for planned in several),
        )

    @property
    def most_price(self) -> float | None:
        """The total of all runs, in US dollars; None if one of them is unknown."""
        prices = [planned.price for planned in self.planned.values()]
        known = [price for price in prices if price is not None]
        return self.spec.repetitions * sum(known) if len(known) == len(prices) else None

    @property
    def unknown_price(self) -> str:
        """Why a price is unknown, "" if all are known."""
        sentences = (run.unknown for run in self.planned.values() if run.price is None)
        return next(sentences, "")


async def plan_batch(engine: Engine, spec: Spec, read_file: ReadFile | None = None) -> BatchPlan:
    """The plan of `spec` on this engine: names of tools, groups and profiles are looked up.

    BadInput if something it names does not exist or is invalid, or if `max_cost` is set and a price
    is unknown. `read_file` reads the files that it names; without it none may be named.
    """
    library = await engine.library.tools()
    named = await run_in_daemon(_find_all_tools, words_of(spec), library, read_file)
    spec, notes = with_tools(spec, named, library)
    planning = _Planning(engine)
    every = spec.keys()
    places = dict.fromkeys((key.case, key.variant, key.model) for key in every)
    planned = {}
    for number, place in enumerate(places):
        if number % AT_A_TIME == 0:
            await asyncio.sleep(0)  # thousands of cases must not block others
        planned[place] = await planning.run(spec, RunKey(*place, 1))
    plan = BatchPlan(spec, notes, planned)
    if spec.max_cost and plan.unknown_price:
        raise BadInput(
            f"max_cost is set, but a price is unknown. {plan.unknown_price} Leave max_cost out, "
            "or choose a model with a known price."
        )
    return plan


def _find_all_tools(
    words: Iterable[str], library: Sequence[Tool], read_file: ReadFile | None
) -> dict[str, Sequence[Tool]]:
    """The tools of each word. Files are read and their schemas checked, which may take a while."""
    with one_document():
        return {word: _find_tools(word, library, read_file) for word in words}


def _find_tools(word: str, library: Iterable[Tool], read_file: ReadFile | None) -> Sequence[Tool]:
    """The tools that a word of a SPEC names: a word with `/` or `.` is a file."""
    tools = [tool for tool in library if word in (tool.name, tool.group)]
    if tools:
        return tools
    if "/" not in word and "." not in word:
        raise BadInput(f"There is no tool or tool group {word!r}.")
    if read_file is None:
        raise BadInput(
            f"{word!r} is a file, and the server does not read files named in a SPEC. Send its "
            "tools instead."
        )
    return read_file(word)


class _Planning:
    """Builds and checks equal settings, tools and rules once: there may be thousands of cases."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._usual = Settings(engine.profile("simulator"))
        self._tools: dict[str, Tool] = {}
        self._known: dict[int, tuple[Tool, Tool]] = {}
        self._sizes: dict[tuple[int, ...], int] = {}
        self._settings: dict[str, Settings] = {}
        self._rules: dict[tuple[int, ...], tuple[Rule, ...]] = {}

    async def run(self, spec: Spec, key: RunKey) -> PlannedRun:
        plan = plan_run(spec, key)
        tools = tuple(self._first_equal(tool) for tool in plan.tools if isinstance(tool, Tool))
        try:
            settings = await self._settings_of(plan, tools)
        except (BadInput, NotFound) as error:
            where = f"case {key.case!r}, variant {key.variant!r}, model {key.model!r}"
            raise BadInput(f"{error} ({where})") from error
        settings = replace(settings, system=plan.system)
        rules = await self._rules_of(tools, spec.allow)
        tokens_in, tokens_out = _most_tokens(settings, len(plan.prompt) + self._size(tools))
        price, unknown = _price(settings, Usage(tokens_in, tokens_out))
        return PlannedRun(
            plan.prompt,
            settings=settings,
            rules=rules,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            price=price,
            unknown=unknown,
        )

    def _first_equal(self, tool: Tool) -> Tool:
        """The first equal tool, because results about a tool are cached by object."""
        if id(tool) not in self._known:
            same = self._tools.setdefault(json.dumps(to_data(tool), sort_keys=True), tool)
            self._known[id(tool)] = (tool, same)  # keeps a reference, so that its id is not reused
        return self._known[id(tool)][1]

    def _size(self, tools: tuple[Tool, ...]) -> int:
        """The length of their definitions in characters."""
        place = tuple(map(id, tools))
        if place not in self._sizes:
            schemas = json.dumps([to_data(tool.parameters) for tool in tools])
            words = "".join(tool.name + tool.description for tool in tools)
            self._sizes[place] = len(schemas) + len(words)
        return self._sizes[place]

    async def _settings_of(self, plan: RunPlan, tools: tuple[Tool, ...]) -> Settings:
        asked: dict[str, Any] = {"max_retries": RETRIES, "profile": plan.model.profile}
        asked |= {"model": plan.model.model} if plan.model.model else {}
        asked |= plan.settings
        known = json.dumps([asked, [id(tool) for tool in tools]], sort_keys=True)
        if known not in self._settings:
            base = replace(self._usual, tools=tools)
            settings = await settings_from(self._engine, asked, base)
            check_settings(settings, self._engine.keys.redactor(), self._usual)
            self._settings[known] = settings
        return self._settings[known]

    async def _rules_of(self, tools: tuple[Tool, ...], allow: Sequence[str]) -> tuple[Rule, ...]:
        """Mocks run, and so do tools that the command line allows."""
        place = tuple(map(id, tools))
        if place not in self._rules:
            rules = [
                Rule(tool.name, "run", words=_WORDS[tool.answered_by == "mock"].format(tool.name))
                for tool in tools
                if tool.answered_by == "mock" or tool.name in allow or "all" in allow
            ]
            bound = [await self._engine.rules.bind(rule, tools) for rule in rules]
            self._rules[place] = tuple(bound)
        return self._rules[place]


def _most_tokens(settings: Settings, size: int) -> tuple[int, int]:
    """Upper bounds of a run's input and output tokens, without what its tools return: each turn
    reads everything before it again. `size` is the length of prompt and tools in characters."""
    first = round((size + len(settings.system)) / CHARACTERS_PER_TOKEN)
    limits, named = settings.limits, settings.params.get("max_tokens")
    written = named if isinstance(named, int) else MOST_WRITTEN
    turns = limits.max_turns if settings.tools else 1
    read, wrote = turns * first + written * turns * (turns - 1) // 2, turns * written
    most = limits.max_run_tokens
    if most and read + wrote > most:  # the request that exceeds it is still made
        wrote = min(wrote, most + written)
        read = min(read, most + first)
    return read, wrote


def is_free(profile: Profile) -> bool:
    """Whether its requests are free: the simulator, or an address of this machine."""
    return profile.simulated or is_loopback(profile.base_url)


def _price(settings: Settings, usage: Usage) -> tuple[float | None, str]:
    """In US dollars, or why it is unknown."""
    profile, model = settings.profile, settings.model or settings.profile.model
    if is_free(profile):
        return 0.0, ""
    price = cost(profile, model, usage)
    return price, "" if price is not None else unknown_price_reason(profile, model)


def file_reader(folder: Path, read: Callable[[Path], Sequence[Tool]]) -> ReadFile:
    """A reader of the files that a SPEC names, relative to its `folder`."""

    def read_tools(word: str) -> Sequence[Tool]:
        try:
            return read(folder / word)
        except PlaygroundError as error:
            raise BadInput(f"The SPEC names {word!r}: {error}") from error

    return read_tools
