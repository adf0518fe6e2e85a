"""A session as a test: the SPEC of a batch (docs/batch.md) that sends the same prompt again.

The expectations are the calls that followed the first prompt, or for a run of a batch the
expectations of that batch; the results of the calls are the answers of the mocks. JSON, so that no
text becomes a number or a date when parsed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from playground.core.arguments import canonical_text, pointer_step
from playground.core.serialization import to_data
from playground.core.session import Call, Prompt, Session, Turn
from playground.core.settings import Limits, Settings, apply_timeouts
from playground.core.tools import Tool
from playground.exchange.bundle import ExportFile, SessionBundle, file_name, one_line
from playground.exchange.tool_entry import sample_result
from playground.schema.strict_json import read_arguments

_NOT_SETTINGS = ("wall_s", "max_event_bytes", "max_stream_bytes")
"""Limits that users cannot set."""

_MOST_CALLS = 100


def write(bundle: SessionBundle) -> ExportFile:
    """The SPEC, with notes on what it omits from the session."""
    notes: list[str] = []
    name = file_name(bundle.title, "batch.json")
    data = spec_data_of(bundle, name.removesuffix(".batch.json"), notes)
    text = json.dumps(data, indent=2, ensure_ascii=False).encode("utf-8", "replace")
    return ExportFile(name, "application/json", text + b"\n", tuple(dict.fromkeys(notes)))


def spec_data_of(bundle: SessionBundle, case: str, notes: list[str]) -> dict[str, Any]:
    """The SPEC of a session as JSON data; `case` is the id of its only case. Sentences on what it
    omits are added to `notes`."""
    session, expect = bundle.session, bundle.expect
    prompt, turns = _first_run(session, notes)
    settings = turns[0].settings if turns else session.settings
    calls = [call for turn in turns if turn.end is not None for call in turn.calls]
    tools = settings.tools if settings is not None else ()
    # The mocks of a batch stay as they are; for other sessions the recorded results are used.
    mocks = [tool for tool in tools if expect and tool.answered_by == "mock"]
    recorded = [tool for tool in tools if tool not in mocks]
    answers = {tool.name: _answer(tool.name, calls, notes) for tool in recorded}
    if expect:
        notes.append("The expectations are those of the batch for this run.")
    else:
        expect = _expected(calls, {tool.name for tool in tools}, notes)
    return {
        "playground_batch": 1,
        "name": one_line(bundle.title)[:200],
        "defaults": _defaults(settings) if settings is not None else {},
        "tools": [_tool_data(tool, {} if tool in mocks else mock_config(tool)) for tool in tools],
        "models": [_model(settings)] if settings is not None else ["simulator"],
        "cases": [
            {
                "id": case,
                "prompt": prompt,
                "answers": {name: answer for name, answer in answers.items() if answer},
                "expect": expect,
            }
        ],
    }


def _first_run(session: Session, notes: list[str]) -> tuple[str, list[Turn]]:
    """The first prompt's text, and the resulting turns."""
    prompts = [item for item in session.items if isinstance(item, Prompt)]
    users = [prompt for prompt in prompts if prompt.role == "user"]
    if len(users) > 1:
        notes.append(f"The test covers only the first prompt; the session has {len(users)}.")
    if len(users) < len(prompts):
        notes.append("Later system messages of the session were left out.")
    if not users:
        notes.append("The session has no prompt. Write one before you run this.")
        return "", []
    if users[0].images:
        notes.append("The prompt's images were left out.")
    end = users[1].seq if len(users) > 1 else session.seq + 1
    turns = [turn for turn in session.turns if users[0].seq < turn.seq < end and not turn.dropped]
    return users[0].text, turns


def _model(settings: Settings) -> dict[str, str]:
    model = settings.model or settings.profile.model
    return {"profile": settings.profile.name} | ({"model": model} if model else {})


def _defaults(settings: Settings) -> dict[str, Any]:
    """Settings that differ from the defaults, in the vocabulary of a SPEC."""
    choice, limits = settings.tool_choice, settings.limits
    usual = apply_timeouts(Limits(), settings.profile)
    data: dict[str, Any] = {"system": settings.system} if settings.system else {}
    if choice.allowed is not None:
        allowed = list(choice.allowed)
        data["tool_choice"] = {"mode": choice.mode, "name": choice.name, "allowed": allowed}
    elif choice.mode != "auto":
        data["tool_choice"] = choice.label
    if not choice.parallel:
        data["parallel"] = False
    if not settings.stream:
        data["stream"] = False
    members = {"params": settings.params, "extra": settings.extra}
    data.update({name: to_data(value) for name, value in members.items() if value})
    names = [item.name for item in fields(Limits) if item.name not in _NOT_SETTINGS]
    changed = [name for name in names if getattr(limits, name) != getattr(usual, name)]
    return data | {name: getattr(limits, name) for name in changed}


def mock_config(tool: Tool) -> dict[str, Any]:
    """A tool as a mock: its executor may be missing or untrusted elsewhere."""
    result = sample_result(tool.config.get("output_schema"), tool.name)
    return {"answered_by": "mock", "config": {"result": result}}


def _tool_data(tool: Tool, changes: Mapping[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {**to_data(tool), **changes, "group": ""}
    usual = to_data(Tool(tool.name))
    return {name: value for name, value in data.items() if name == "name" or value != usual[name]}


# Expectations -------------------------------------------------------------------------------------


def _expected(
    calls: Sequence[Call], tools: Collection[str], notes: list[str]
) -> list[dict[str, Any]]:
    if not calls:
        return [{"no_call": True}]
    expected: list[dict[str, Any]] = []
    for call in calls[:_MOST_CALLS]:
        if call.name not in tools:
            notes.append(f"A call of {call.name}, which is not one of the tools, is not expected.")
            continue
        arguments = read_arguments(call.written).value
        if call.decided is not None and call.decided.decision == "deny":
            notes.append(f"{call.name} was denied, but is expected. Change that if needed.")
        if arguments is None:
            notes.append(f"A call of {call.name} had arguments that are not valid JSON.")
            expected.append({"called": call.name})
            continue
        if canonical_text(json.dumps(arguments)) != canonical_text(call.written):
            notes.append(f"A number in the arguments of {call.name} is rounded here.")
        expected.append({"called": call.name, "arguments": {"exact": arguments}})
    if len(calls) > _MOST_CALLS:
        notes.append(
            f"Only the first {_MOST_CALLS} of {len(calls):,} calls are expected one by one."
        )
    names = [call.name for call in calls[:_MOST_CALLS] if call.name in tools]
    if len({call.turn for call in calls}) > 1 and len(set(names)) > 1:
        expected.append({"order": names})
    return [*expected, {"count": len(calls)}]


def _answer(name: str, calls: Sequence[Call], notes: list[str]) -> dict[str, Any]:
    """The config of a mock with the recorded results of the calls of `name`; {} if there are none.
    Equal arguments get the same result in any order; results that differed, in turn."""
    answered = [call for call in calls if call.name == name and call.result is not None]
    answered = answered[:_MOST_CALLS]
    results = [_result_of(call, notes) for call in answered]
    if not results:
        return {}
    if all(result == results[0] for result in results):
        return results[0]
    by_arguments: dict[str, dict[str, Any]] = {}
    for call, result in zip(answered, results, strict=True):
        if by_arguments.setdefault(canonical_text(call.arguments), result) != result:
            return {"sequence": results}
    whens = {canonical_text(call.arguments): _argument_tests(call) for call in answered}
    if not all(whens.values()):
        return {"sequence": results}
    cases = [{"when": whens[text], **result} for text, result in by_arguments.items()]
    # Tests also match calls with more arguments: the most specific case comes first.
    return {"cases": sorted(cases, key=lambda case: -len(case["when"]))}


def _argument_tests(call: Call) -> Mapping[str, Any]:
    """Tests for the call's arguments; {} if there are none, or they cannot be parsed."""
    arguments = read_arguments(call.arguments).value or {}
    return {f"/{pointer_step(name)}": {"equals": item} for name, item in arguments.items()}


def _result_of(call: Call, notes: list[str]) -> dict[str, Any]:
    assert call.result is not None
    pieces = call.result.content
    if any(piece.type == "image" for piece in pieces):
        notes.append(f"Images in results of {call.name} were left out.")
    text = call.result.text
    if "{{" in text:
        notes.append(
            f"A result of {call.name} contains {{{{, which a mock may replace with arguments."
        )
    failed = {"is_error": True} if call.result.is_error else {}
    return {"result": text, **failed}
