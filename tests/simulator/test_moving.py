"""One history through every ordered pair of protocols: the strict end of each takes it.

The history has all that a session can have behind it: images, thinking, parallel calls, an image
and an error among the results, a denial, a call cut in the middle, a stopped turn with calls that
nobody answered, a dropped turn, and a turn that was cut by length.
"""

from __future__ import annotations

import pytest

from playground.core.messages import Message, MessagePart
from playground.core.tools import Content, ToolResult, text_result
from playground.protocols.registry import CODECS
from playground.protocols.server import ModelReply, ReplyBlock, call
from tests.simulator.talking import IMAGE, Talk

PAIRS = [(codec, other) for codec in CODECS for other in CODECS]
LOOK = call("get_weather", {"city": "Paris"})
WRITE = call("add_event", {"title": "Walk", "minutes": 30})
ASK = call("ask_me", {})
THINKING = ReplyBlock("thinking", "The person wants the weather, and then a walk. " * 3)


def behind(protocol: str) -> Talk:
    """A session with a long history on `protocol`, which stands before its next prompt."""
    talk = Talk(protocol)
    talk.prompt("What is on this picture, and how is the weather?", IMAGE)
    talk.answer(ModelReply((THINKING, ReplyBlock("text", "I'll look."), LOOK, WRITE, ASK), "calls"))
    image_result = ToolResult((Content(text="The sky:"), IMAGE))
    talk.results(
        [image_result, text_result("The calendar is full.", is_error=True, kind="failed"), None]
    )
    talk.answer(ModelReply((ReplyBlock("text", "It is clear; the calendar is full."),)))
    talk.prompt("And in Rome?")
    talk.fail()
    talk.drop()
    talk.answer(ModelReply((ReplyBlock("text", "Wait. "), LOOK, LOOK), "calls"), cut=0.6)
    talk.drop()
    talk.answer(ModelReply((THINKING, ReplyBlock("text", "Let me see. "), LOOK), "calls"), cut=0.7)
    talk.prompt("Still there?")
    talk.answer(ModelReply((ReplyBlock("text", "Yes. "), LOOK, WRITE), "calls"))
    talk.stop()
    talk.prompt("Never mind. Only the time, please.")
    talk.answer(ModelReply((THINKING, ReplyBlock("text", "A long ans")), "length"))
    talk.prompt("Shorter.", IMAGE)
    return talk


def calls_of(messages: tuple[Message, ...]) -> list[MessagePart]:
    return [part for message in messages for part in message.parts if part.kind == "call"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_a_history_moves_and_goes_on(name: str, other: str) -> None:
    talk = behind(name)
    talk.move(other)
    sent, model_request = talk.ask()
    own, read = talk.request(), model_request.request
    assert [part.name for part in calls_of(read.messages)] == [
        part.name for part in calls_of(own.messages)
    ]
    assert len(calls_of(read.messages)) == 5
    results = [p for m in read.messages for p in m.parts if p.kind == "result"]
    assert len(results) == 5
    if name != other:
        assert any("thinking" in note for note in sent.notes)
    else:
        assert not any("thinking" in note for note in sent.notes)
    # It goes on there with calls, and back again: what is new there is foreign here.
    talk.answer(ModelReply((THINKING, ReplyBlock("text", "Now."), LOOK, LOOK), "calls"))
    talk.results(["clear", "cloudy"])
    talk.ask()
    talk.answer(ModelReply((ReplyBlock("text", "Clear and cloudy."),)))
    talk.prompt("Back again.")
    talk.move(name)
    _, back = talk.ask()
    assert len(calls_of(back.request.messages)) == 7
