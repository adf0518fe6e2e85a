"""Canonical sessions, each written by every codec and taken by the strict end of its protocol.

What a protocol cannot say must be among the notes of the request; what it can say is read back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import CallDecided, CallEnded, CallStarted, TaskEnded, TaskStarted
from playground.core.settings import Settings
from playground.core.tools import FREEFORM, Content, Tool, ToolChoice, ToolResult, text_result
from playground.protocols.registry import CODECS
from playground.protocols.server import ModelReply, ReplyBlock, call
from tests.factories import ADD_EVENT, ASK_ME, WEATHER
from tests.simulator.talking import IMAGE, Talk

LOOK = call("get_weather", {"city": "Paris"})
WRITE = call("add_event", {"title": "Walk", "minutes": 30})
THINKING = ReplyBlock("thinking", "The person wants the weather. " * 3)
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
STRICT = Tool("strictly", "Does it strictly.", CLOSED, strict=True)
EAGER = replace(WEATHER, eager=True)
WRITER = Tool("write", "Writes a text.", FREEFORM, format={"type": "text"})
DEEP = Tool(
    "deep",
    "Has a schema with everything in it.",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["a", "b"], "description": 'é \u2028 \\ "'},
            "many": {"type": "array", "items": {"$ref": "#/$defs/one"}, "minItems": 1},
            "maybe": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"const": "none"}]},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "$defs": {"one": {"type": "object", "properties": {"x": {"type": "number"}}}},
    },
)

EVERY = pytest.mark.parametrize("protocol", CODECS)

CHOICES = {
    "auto": ToolChoice(),
    "alone": ToolChoice(parallel=False),
    "required": ToolChoice("required"),
    "required alone": ToolChoice("required", parallel=False),
    "none": ToolChoice("none"),
    "one tool": ToolChoice("tool", "add_event"),
    "some": ToolChoice(allowed=("get_weather", "ask_me")),
    "required of some": ToolChoice("required", allowed=("get_weather", "ask_me")),
    "none allowed": ToolChoice(allowed=()),
}

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "strict": {"tools": (STRICT, WEATHER)},
    "eager": {"tools": (EAGER, ADD_EVENT)},
    "free-form": {"tools": (WRITER, ASK_ME)},
    "deep schema": {"tools": (DEEP,)},
    "no tools": {"tools": ()},
    "many tools": {"tools": tuple(replace(WEATHER, name=f"tool_{n}") for n in range(60))},
    "no system": {"system": ""},
    "sampling": {"params": {"temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "stop": ["x"]}},
    "thinking": {"params": {"thinking": 2048, "max_tokens": 8000}},
}


def add_prompt(talk: Talk) -> None:
    talk.prompt("How is the weather?")


def parallel(talk: Talk) -> None:
    add_prompt(talk)
    talk.answer(ModelReply((ReplyBlock("text", "I'll look."), LOOK, LOOK, WRITE), "calls"))
    talk.results(["clear", "cloudy", "done"])


def calls_alone(talk: Talk) -> None:
    """A turn without a word, its results empty, odd and long."""
    add_prompt(talk)
    talk.answer(ModelReply((LOOK, LOOK, LOOK), "calls"))
    talk.results(["", '{"json": [1, 2.50]}', "long " * 4000])


def pictures(talk: Talk) -> None:
    talk.prompt("What is this?", IMAGE, IMAGE)
    talk.answer(ModelReply((LOOK, LOOK), "calls"))
    alone, beside = ToolResult((IMAGE,)), ToolResult((Content(text="so"), IMAGE, IMAGE))
    talk.results([alone, beside])


def picture_alone(talk: Talk) -> None:
    talk.prompt("", IMAGE)


def thought(talk: Talk) -> None:
    """Thinking before calls in two steps, and again in the answer."""
    add_prompt(talk)
    for _ in range(2):
        talk.answer(ModelReply((THINKING, LOOK, WRITE), "calls"))
        talk.results(["clear", "done"])
    talk.answer(ModelReply((THINKING, ReplyBlock("text", "It is clear."))))
    talk.prompt("Thanks.")


def errors(talk: Talk) -> None:
    add_prompt(talk)
    talk.answer(ModelReply((LOOK, WRITE, call("ask_me", {})), "calls"))
    empty = ToolResult((), is_error=True, kind="failed")
    talk.results([text_result("No such city.", is_error=True, kind="failed"), empty, None])


def cut_short(talk: Talk) -> None:
    """Ended by length within a call: the call goes back with a result that says so."""
    add_prompt(talk)
    cut = replace(LOOK, text='{"city": "Pa')
    talk.answer(ModelReply((ReplyBlock("text", "I'll look."), cut), "length"))
    talk.stop()
    talk.prompt("Go on.")


def invented(talk: Talk) -> None:
    """A tool nobody offered, under a name no provider takes."""
    add_prompt(talk)
    talk.answer(ModelReply((call("no such tool ✨", {}), LOOK), "calls"))
    talk.results([text_result("There is no such tool.", is_error=True), "clear"])


def in_the_background(talk: Talk) -> None:
    """Two calls that went on by themselves: one was over before the next request, with an image;
    one is told before the prompt that comes after its end."""
    add_prompt(talk)
    talk.answer(ModelReply((LOOK, WRITE), "calls"))
    behind = {call.id: call.task_id for call in talk.session.turns[-1].calls}
    for id, task in behind.items():
        talk.log.check(id).add(CallDecided(id, "run"), CallStarted(id, 1), TaskStarted(task, id))
        talk.log.add(CallEnded(id, text_result(f"It goes on as {task}.")))
    first, second = behind.values()
    came = ToolResult((Content(text="clear"), IMAGE))
    talk.log.add(TaskEnded(first, "done", came))
    talk.answer(ModelReply((ReplyBlock("text", "It goes on."),)))
    talk.log.add(TaskEnded(second, "stopped by you"))
    talk.prompt("Well?")


STORIES: Mapping[str, Callable[[Talk], None]] = {
    story.__name__: story
    for story in (
        *(add_prompt, parallel, calls_alone, pictures, picture_alone, thought, errors),
        *(cut_short, invented, in_the_background),
    )
}


@EVERY
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("story", STORIES)
def test_every_canonical_session_is_taken(protocol: str, story: str, stream: bool) -> None:
    talk = Talk(protocol, stream=stream, system="Be brief.")
    STORIES[story](talk)
    _, read = talk.ask()
    assert read.request.stream == stream
    assert "Be brief." in read.request.system
    assert {tool.name for tool in read.request.tools} == {"get_weather", "add_event", "ask_me"}
    kinds = [part.kind for message in read.request.messages for part in message.parts]
    wanted = [part.kind for message in talk.request().messages for part in message.parts]
    for kind in ("call", "result"):
        assert kinds.count(kind) == wanted.count(kind)


@EVERY
@pytest.mark.parametrize("name", CHOICES)
def test_every_tool_choice_is_said_or_noted(protocol: str, name: str) -> None:
    talk, choice = Talk(protocol), CHOICES[name]
    add_prompt(talk)
    sent, asked_for = talk.ask(choice)
    read = asked_for.request
    offered = {tool.name for tool in read.offered}
    allowed = (
        {"get_weather", "add_event", "ask_me"} if choice.allowed is None else {*choice.allowed}
    )
    assert offered <= allowed
    outcome = (read.choice.mode, read.choice.name, read.choice.parallel)
    if outcome != (choice.mode, choice.name, choice.parallel) and allowed:
        assert sent.notes, outcome


@EVERY
@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_taken(protocol: str, name: str) -> None:
    talk = Talk(protocol)
    changes: dict[str, Any] = dict(SETTINGS[name])
    if changes.get("tools") == ():
        talk.settings = Settings(talk.settings.profile)
    else:
        talk.settings = replace(talk.settings, **changes)
    talk.log = type(talk.log)().start(talk.settings)
    add_prompt(talk)
    _, read = talk.ask()
    assert {tool.name for tool in read.request.tools} == {tool.name for tool in talk.settings.tools}


@EVERY
def test_a_free_form_call_goes_and_comes_back(protocol: str) -> None:
    """Its text is the same on the card and in the history, whatever form the protocol has."""
    talk = Talk(protocol, tools=(WRITER,))
    talk.prompt("Write a line.")
    talk.answer(ModelReply((call("write", {"input": 'say "hi"\n'}),), "calls"))
    (result,) = talk.session.turns[-1].calls
    assert result.arguments in ('{"input": "say \\"hi\\"\\n"}', '{"input":"say \\"hi\\"\\n"}')
    talk.results(["written"])
    _, read = talk.ask()
    assert [p.kind for m in read.request.messages for p in m.parts] == ["text", "call", "result"]
