"""Reads the configuration of promptfoo (promptfooconfig.yaml): its tests become cases.

prompts: ["What is the weather in {{city}}?"]      x
providers: [{id: openai:gpt-5, config: {tools: [...], temperature: 0}}]
tests: [{vars: {city: Oslo}, assert: [{type: contains, value: rain}]}]

Assertions by a program or another model have no equivalent here. A test without any assertion that
can be imported is left out; in other tests each omitted assertion is noted.
https://www.promptfoo.dev/docs/configuration/reference
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

from playground.core.errors import BadInput
from playground.core.providers import ProviderName
from playground.core.tools import Tool
from playground.evaluation.spec import (
    PLACE,
    ArgumentMatch,
    Case,
    Expectation,
    ImportedBatch,
    ModelChoice,
    OmittedCase,
    ReadFile,
    Spec,
)
from playground.exchange.parsers import UnreadableText, json_value, yaml_value
from playground.exchange.tool_import import import_tools

FILE = "file://"
MOST_CASES = 20_000

PROVIDERS: Mapping[str, ProviderName] = {
    "openai": "openai",
    "openai:chat": "openai",
    "openai:responses": "openai-responses",
    "anthropic": "anthropic",
    "anthropic:messages": "anthropic",
    "google": "gemini",
    "vertex": "vertex",
    "ollama": "ollama",
    "ollama:chat": "ollama",
    "azure": "azure",
    "azure:chat": "azure",
    "togetherai": "together",
    "openrouter": "openrouter",
    "groq": "groq",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "xai": "xai",
    "cerebras": "cerebras",
}
"""Our profile by the provider prefix of a promptfoo id."""

_REASONS: Mapping[str, str] = {
    **{name: name for name in ("stop", "length")},
    **{"content_filter": "refusal", "tool_calls": "calls", "function_call": "calls"},
}
_PARAMS = ("temperature", "max_tokens", "top_p")
_CODE = re.compile(r"\{%|\{\{[^}]*\|[^}]*\}\}")
"""Expressions that nunjucks evaluates: a statement, a filter."""

_ONE_TURN = "As in promptfoo, only the first answer of the model counts: max_turns is 1."
_ANSWER = "Texts are searched in the last answer, not in calls."

_Read = Callable[[Any, Any, Sequence[str]], Iterable[Expectation]]


class _UnsupportedError(Exception):
    """Something that cannot be imported; `str` is the reason, a sentence."""


def is_promptfoo(data: Any) -> bool:
    """Whether a value looks like a configuration of promptfoo."""
    return isinstance(data, Mapping) and "prompts" in data and "tests" in data


def read_promptfoo(data: Mapping[str, Any], read_file: ReadFile) -> ImportedBatch:
    """The cases of a configuration. `read_file` returns the text of a file that it names; BadInput
    if one cannot be read, or if the configuration has no tests."""
    return _ConfigReader(data, read_file).batch()


@dataclass(frozen=True)
class _Prompt:
    label: str
    text: str
    system: str | None = None


@dataclass(frozen=True)
class _ConfigReader:
    data: Mapping[str, Any]
    read_file: ReadFile
    notes: dict[str, None] = field(default_factory=dict)
    left_out: list[OmittedCase] = field(default_factory=list)

    def note(self, sentence: str) -> None:
        self.notes[sentence] = None

    def read(self, name: str) -> str:
        """The text of a file next to the configuration. The configuration may be untrusted, and the
        files it names are sent to a provider: files outside its folder are refused."""
        if name.startswith(("/", "~", "\\")) or ".." in re.split(r"[/\\]", name) or ":" in name:
            raise BadInput(f"{name!r} is not in this file's folder. Copy it there to use it.")
        return self.read_file(name)

    def batch(self) -> ImportedBatch:
        providers = [_provider(item) for item in _list(self.data.get("providers"))]
        tools = self._tools([config for _, config in providers])
        names = [tool.name for tool in tools]
        default, tests = _object(self.data.get("defaultTest")), list(self._tests())
        cases = tuple(islice(self._cases(default, tests, names), MOST_CASES + 1))
        if len(cases) > MOST_CASES:
            raise BadInput(f"At most {MOST_CASES:,} cases; split the file.")
        if "scenarios" in self.data:
            self.note("scenarios were left out. Only tests are imported.")
        settings = self._settings([config for _, config in providers])
        kinds = [str(assertion.get("type")) for assertion in _assertions([default, *tests])]
        if not any("trajectory:" in kind for kind in kinds):
            settings["max_turns"] = 1
            self.note(_ONE_TURN)
        if any(each.kind == "text_contains" for case in cases for each in case.expect):
            self.note(_ANSWER)
        description = self.data.get("description")
        spec = Spec(
            cases,
            name=description[:200] if isinstance(description, str) else "promptfoo",
            settings=settings,
            tools=tuple(tools),
            models=self._models([name for name, _ in providers]),
        )
        return ImportedBatch(spec, tuple(self.notes), tuple(self.left_out))

    # Models and their settings

    def _models(self, ids: Sequence[str]) -> tuple[ModelChoice, ...]:
        models: dict[str, ModelChoice] = {}
        for provider in ids:
            start, _, model = provider.rpartition(":")
            profile = PROVIDERS.get(start)
            if profile is None:
                self.note(f"The provider {provider[:80]} is not supported and was left out.")
                continue
            label = model if model not in models else f"{profile}/{model}"
            models.setdefault(label, ModelChoice(profile, model, label))
        if not models:
            self.note("No provider is left, so the simulator is used. Name your own models.")
            return (ModelChoice("simulator", label="simulator"),)
        return tuple(models.values())

    def _settings(self, configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        params = {name: self._common_setting(name, configs) for name in _PARAMS}
        if known := {name: value for name, value in params.items() if value is not None}:
            settings["params"] = known
        match self._common_setting("tool_choice", configs):
            case None:
                pass
            case "auto" | "required" | "none" as mode:
                settings["tool_choice"] = mode
            case {"function": {"name": str(name)}} | {"type": "tool", "name": str(name)}:
                settings["tool_choice"] = name
            case {"mode": "required"} | {"type": "any"}:
                settings["tool_choice"] = "required"
            case other:
                self.note(f"tool_choice {json.dumps(other)[:80]} was left out.")
        return settings

    def _common_setting(self, name: str, configs: Sequence[Mapping[str, Any]]) -> Any:
        """The common value of `name` of all providers that have it; None, with a note, if they
        differ."""
        values = [config[name] for config in configs if name in config]
        if any(value != values[0] for value in values):
            self.note(
                f"The providers have different {name}, so it was left out. Make variants of it."
            )
            return None
        return values[0] if values else None

    def _tools(self, configs: Sequence[Mapping[str, Any]]) -> list[Tool]:
        listed = self._common_setting("tools", configs) or self._common_setting(
            "functions", configs
        )
        if not listed:
            return []
        name = listed.removeprefix(FILE) if isinstance(listed, str) else ""
        imported = import_tools(self.read(name) if name else json.dumps(listed), name)
        for tool in imported.tools:
            if tool.runner is not None:
                self.note(f"The tool {tool.name} was left out. {tool.problem}")
        problems = (
            imported.problem,
            *(tool.problem for tool in imported.tools if tool.runner is None),
        )
        if wrong := next(filter(None, problems), ""):
            raise BadInput(f"The tools of the providers cannot be read. {wrong}")
        return [tool.tool for tool in imported.tools if tool.tool is not None]

    # Prompts

    def _cases(
        self, default: Mapping[str, Any], tests: Sequence[Mapping[str, Any]], tools: Sequence[str]
    ) -> Iterator[Case]:
        prompts = list(self._prompts())
        ids: dict[str, int] = {}
        for number, test in enumerate(tests, 1):
            wanted = str(test.get("description") or f"test {number}")[:150]
            for prompt, values in product(prompts, self._values(default, test, wanted)):
                several = f" · {prompt.label}" if len(prompts) > 1 else ""
                case_id = " ".join(f"{wanted}{several}".split()) or f"test {number}"
                ids[case_id] = ids.get(case_id, 0) + 1
                case_id += f" #{ids[case_id]}" if ids[case_id] > 1 else ""
                try:
                    yield self._case(case_id, prompt, values, (default, test), tools)
                except _UnsupportedError as reason:
                    self.left_out.append(OmittedCase(case_id, str(reason)))

    def _tests(self) -> Iterator[Mapping[str, Any]]:
        todo = [self.data.get("tests")]
        while todo:
            match todo.pop(0):
                case list() as several:
                    todo = [*several, *todo]
                case str(name) if name.startswith(FILE) and name.endswith(
                    (".yaml", ".yml", ".json")
                ):
                    todo.insert(0, self._value_of(name))
                case Mapping() as test:
                    yield test
                case other:
                    name = str(other)[:80]
                    self.left_out.append(OmittedCase(name, "Tests of this kind are not supported."))

    def _value_of(self, name: str) -> Any:
        text = self.read(name.removeprefix(FILE))
        try:
            return json_value(text)[0] if name.endswith(".json") else yaml_value(text)
        except UnreadableText as error:
            raise BadInput(f"{name}: {error}") from None

    def _prompts(self) -> Iterator[_Prompt]:
        listed = self.data.get("prompts")
        several = listed.items() if isinstance(listed, Mapping) else enumerate(_list(listed), 1)
        for label, item in several:
            raw, name = item, f"prompt {label}" if isinstance(label, int) else str(label)
            if isinstance(listed, Mapping):
                raw, name = label, str(item)
            elif isinstance(item, Mapping):
                raw, name = item.get("raw") or item.get("id"), str(item.get("label") or name)
            try:
                yield from self._read_prompt(raw, name)
            except _UnsupportedError as reason:
                self.left_out.append(OmittedCase(name[:150], str(reason)))

    def _read_prompt(self, raw: Any, label: str) -> Iterator[_Prompt]:
        if not isinstance(raw, str):
            raise _UnsupportedError("A prompt of this kind is not supported.")
        texts = [raw]
        if raw.startswith(FILE) or re.fullmatch(r"[\w./-]+\.(?:txt|json|js|py|mjs)", raw):
            name = raw.removeprefix(FILE)
            if not name.endswith((".txt", ".json", ".md")):
                raise _UnsupportedError(f"{name} is a program, or a pattern, and is not run.")
            text = self.read(name)
            texts = [text] if name.endswith(".json") else re.split(r"(?m)^---\s*$", text)
        for number, text in enumerate(texts, 1):
            name = label if len(texts) == 1 else f"{label}.{number}"
            yield _chat(text.strip(), name[:40])

    def _values(
        self, default: Mapping[str, Any], test: Mapping[str, Any], name: str
    ) -> list[dict[str, Any]]:
        """One value for each variable; a list yields one case per item."""
        named = {**_object(default.get("vars")), **_object(test.get("vars"))}
        options = [
            [(key, each) for each in (value if isinstance(value, list) else [value])]
            for key, value in named.items()
        ]
        combined = list(islice(product(*options), MOST_CASES + 1))
        if len(combined) > MOST_CASES:
            self.left_out.append(OmittedCase(name, "The lists in its vars give too many cases."))
            return []
        return [dict(pairs) for pairs in combined]

    def _case(
        self,
        case_id: str,
        prompt: _Prompt,
        values: Mapping[str, Any],
        tests: Sequence[Mapping[str, Any]],
        tools: Sequence[str],
    ) -> Case:
        for text in (prompt.text, prompt.system or ""):
            if _CODE.search(text):
                raise _UnsupportedError("Its prompt computes something ({% … %} or a filter).")
            for place in PLACE.finditer(text):
                if place[1] not in values:
                    raise _UnsupportedError(
                        f"Its prompt has a placeholder without a variable: {place[0]}."
                    )
        for name, value in values.items():
            if isinstance(value, str) and value.startswith(FILE):
                raise _UnsupportedError(f"The value of {name} is a file.")
        case = Case(case_id, prompt.text, vars=values, system=prompt.system)
        expected: list[Expectation] = []
        missing: list[str] = []
        for assertion in _assertions(tests):
            try:
                expected += _expectations(_fill_variables(assertion, case), tools)
            except _UnsupportedError as unfit:
                missing.append(str(unfit))
        if missing and not expected:
            raise _UnsupportedError(missing[0])
        for reason in missing:
            self.note(reason)
        return Case(case_id, prompt.text, values, tuple(expected), prompt.system)


def _provider(item: Any) -> tuple[str, Mapping[str, Any]]:
    match item:
        case str():
            return item, {}
        case {"id": str(name), **rest}:
            return name, _object(rest.get("config"))
    return str(item)[:80], {}


def _chat(text: str, label: str) -> _Prompt:
    """A prompt that is a list of messages as JSON, or the text of a user."""
    if not text.startswith("["):
        return _Prompt(label, text)
    try:
        messages = json_value(text)[0]
    except UnreadableText:
        return _Prompt(label, text)
    by_role: dict[str, list[str]] = {"system": [], "user": []}
    for message in messages if isinstance(messages, list) else [None]:
        match message:
            case {"role": "system" | "user" as role, "content": str(content)}:
                by_role[role].append(content)
            case _:
                raise _UnsupportedError(
                    "A prompt has messages with roles other than system and user."
                )
    system = "\n\n".join(by_role["system"])
    return _Prompt(label, "\n\n".join(by_role["user"]), system or None)


# Assertions ---------------------------------------------------------------------------------------


def _assertions(tests: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    todo = [item for test in tests for item in _list(test.get("assert"))]
    while todo:
        match todo.pop(0):
            case {"type": "assert-set", "assert": list(several), **rest} if "threshold" not in rest:
                todo = [*several, *todo]
            case Mapping() as assertion:
                yield assertion
            case other:
                yield {"type": str(other)[:40]}


def _fill_variables(value: Any, case: Case) -> Any:
    match value:
        case str():
            return case.fill(value)
        case Mapping():
            return {name: _fill_variables(item, case) for name, item in value.items()}
        case list():
            return [_fill_variables(item, case) for item in value]
    return value


def _expectations(assertion: Mapping[str, Any], tools: Sequence[str]) -> list[Expectation]:
    """The equivalent of an assertion; _NoEqual if there is none."""
    kind, value = str(assertion.get("type")), assertion.get("value")
    read = _READERS.get(kind)
    if read is None:
        raise _UnsupportedError(f"The assertion {kind[:60]} is not supported.")
    threshold = assertion.get("threshold")
    try:
        return list(read(value, threshold, tools))
    except (TypeError, ValueError, KeyError, AttributeError):
        raise _UnsupportedError(
            f"The assertion {kind} has a value that is not supported."
        ) from None


def _contains(*, every: bool, ignore_case: bool) -> _Read:
    def read(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
        texts = _texts(value) if every else [_text(value)]
        for text in texts:
            yield Expectation("text_contains", text, ignore_case=ignore_case)

    return read


def _latency(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
    yield Expectation("max_seconds", float(threshold) / 1000)


def _cost(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
    yield Expectation("max_cost", float(threshold))


def _finish_reason(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
    yield Expectation("finish_reason", _REASONS[value])


def _tool_call_f1(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
    """A score of 1: these tools were called, and no others."""
    if threshold is not None and threshold != 1:
        raise _UnsupportedError("tool-call-f1 with a threshold under 1 is not supported.")
    names = _texts(value)
    yield from (Expectation("called", name) for name in names)
    yield from (Expectation("never", name) for name in tools if name not in names)


def _tool_used(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
    match value:
        case {"name": str(name), "min": int(least), "max": int(most)} if least == most:
            yield Expectation("count", most, of=name)
        case {"name": str(name), **rest} if rest in ({}, {"min": 1}):
            yield Expectation("called", name)
        case Mapping():
            raise _UnsupportedError(
                "trajectory:tool-used with a pattern, or a range of counts, is not supported."
            )
        case _:
            yield from (Expectation("called", name) for name in _texts(value))


def _tool_unused(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
    names = [value["name"]] if isinstance(value, Mapping) else _texts(value)
    yield from (Expectation("never", name) for name in names)


def _tool_sequence(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
    steps = value["steps"] if isinstance(value, Mapping) else value
    names = tuple(step["name"] if isinstance(step, Mapping) else _text(step) for step in steps)
    exact = isinstance(value, Mapping) and value.get("mode") == "exact"
    if len(names) > 1:
        yield Expectation("order", names)
    else:
        yield Expectation("called", names[0])
    if exact:
        yield Expectation("count", len(names))


def _tool_arguments(value: Any, threshold: Any, tools: Sequence[str]) -> Iterator[Expectation]:
    name = value.get("name") or value["tool"]
    arguments = value.get("args", value.get("arguments"))
    if arguments is None:
        yield Expectation("called", name)
        return
    exact = value.get("mode") == "exact"
    match = ArgumentMatch("exact" if exact else "subset", dict(arguments))
    yield Expectation("called", name, match)


_READERS: Mapping[str, _Read] = {
    "contains": _contains(every=False, ignore_case=False),
    "icontains": _contains(every=False, ignore_case=True),
    "contains-all": _contains(every=True, ignore_case=False),
    "icontains-all": _contains(every=True, ignore_case=True),
    "latency": _latency,
    "cost": _cost,
    "finish-reason": _finish_reason,
    "tool-call-f1": _tool_call_f1,
    "trajectory:tool-used": _tool_used,
    "not-trajectory:tool-used": _tool_unused,
    "trajectory:tool-sequence": _tool_sequence,
    "trajectory:tool-args-match": _tool_arguments,
}


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise ValueError("no text")
    return str(value)


def _texts(value: Any) -> list[str]:
    """A list of texts, or a comma-separated text."""
    parts = value.split(",") if isinstance(value, str) else value
    return [_text(part).strip() for part in parts]


def _list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
