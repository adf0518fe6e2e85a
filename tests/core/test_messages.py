"""What goes back to a provider: complete, in order, nothing dangling."""

from __future__ import annotations

from app.core.events import CallDecided, CallEnded, Event, PromptAdded, RunStopped, TurnDropped
from app.core.messages import Message, model_request
from app.core.tools import ToolChoice, text_result
from tests.playbook import begun, call, checked, failed, part, ran, run, session, turn


def shape(*events: Event) -> list[tuple[str, list[str]]]:
    request = model_request(session(*events), ToolChoice())
    return [
        (m.role, [f"{p.kind}:{p.text or p.call_id}" for p in m.parts]) for m in request.messages
    ]


def test_results_follow_their_calls_in_the_order_of_the_calls() -> None:
    events = [*begun(), *turn(1, part(0), call(1), call(2)), checked("1.1"), checked("1.2")]
    events += [run("1.2"), *ran("1.2", "second"), run("1.1"), *ran("1.1", "first")]
    request = model_request(session(*events), ToolChoice())
    assert [m.role for m in request.messages] == ["user", "assistant", "results"]
    results = request.messages[2].parts
    assert [(p.call_id, p.content[0].text) for p in results] == [
        ("toolu_1", "first"),
        ("toolu_2", "second"),
    ]


def test_of_a_cut_turn_only_what_was_said_goes_back() -> None:
    events = [*begun(), *failed(1, part(0), call(1)), PromptAdded("go on")]
    assert shape(*events) == [
        ("user", ["text:hello"]),
        ("assistant", ["text:hi"]),
        ("user", ["text:go on"]),
    ]


def test_prompts_in_a_row_become_one_message() -> None:
    events = [*begun(), *failed(1), PromptAdded("again")]
    assert shape(*events) == [("user", ["text:hello", "text:again"])]


def test_a_dropped_turn_is_gone() -> None:
    assert shape(*begun(), *failed(1, part(0)), TurnDropped(1)) == [("user", ["text:hello"])]


def test_calls_that_were_never_decided_get_a_result_that_says_so() -> None:
    events = [*begun(), *turn(1, call(0)), checked("1.0"), RunStopped(), PromptAdded("no")]
    request = model_request(session(*events), ToolChoice())
    (result,) = request.messages[2].parts
    assert result.is_error
    assert "Not run" in result.content[0].text


def test_what_ran_is_what_the_model_reads_back() -> None:
    edited = run("1.0", arguments='{"city":"Rome"}')
    events = [*begun(), *turn(1, call(0)), checked("1.0"), edited, *ran("1.0")]
    assistant: Message = model_request(session(*events), ToolChoice()).messages[1]
    assert assistant.parts[0].text == '{"city":"Rome"}'


def test_an_id_is_made_up_where_the_provider_sent_none() -> None:
    nameless = [*part(0, "call", "{}", name="look")]
    events = [*begun(), *turn(1, nameless), checked("1.0")]
    events += [CallDecided("1.0", "deny"), CallEnded("1.0", text_result("no", is_error=True))]
    request = model_request(session(*events), ToolChoice())
    assert (
        request.messages[1].parts[0].call_id == request.messages[2].parts[0].call_id == "call_1_0"
    )


def test_only_allowed_tools_are_sent() -> None:
    choice = ToolChoice("auto", "", ("look",))
    request = model_request(session(*begun(choice=choice)), choice)
    assert [tool.name for tool in request.offered] == ["look"]
