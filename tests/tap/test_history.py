"""What of a request is new to the session it belongs to."""

from __future__ import annotations

from typing import Any

from playground.core.events import CallDecided
from playground.protocols.request import ResultMessage
from playground.tap.history import read_body, tail_of
from playground.tap.holding import leading_results
from tests.playbook import call, session, start_events, turn

PROMPT = {"role": "user", "parts": [{"text": "Compare a.txt and b.txt."}]}


def calls_message(*ids: str) -> dict[str, Any]:
    parts = [
        {"functionCall": {"id": id_, "name": "read", "args": {"file": file}}}
        for id_, file in zip(ids, ("a.txt", "b.txt"), strict=True)
    ]
    return {"role": "model", "parts": parts}


def results_message(*results: tuple[str, str]) -> dict[str, Any]:
    parts = [
        {"functionResponse": {"id": id_, "name": "read", "response": {"output": text}}}
        for id_, text in results
    ]
    return {"role": "user", "parts": parts}


def test_calls_that_only_the_agent_gave_ids_get_their_results() -> None:
    """Gemini CLI does so, and returns what is ready first first."""
    own = session(
        *start_events(),
        *turn(
            1,
            call(0, "read", '{"file": "a.txt"}', provider_id=""),
            call(1, "read", '{"file": "b.txt"}', provider_id=""),
        ),
    )
    history = [
        PROMPT,
        calls_message("read_1", "read_2"),
        results_message(("read_2", "B"), ("read_1", "A")),
    ]
    known = read_body("gemini", {"contents": [PROMPT]}).digests
    tail = tail_of(own, known, read_body("gemini", {"contents": history}))
    results = [item for item in tail.items if isinstance(item, ResultMessage)]
    assert [(item.call_id, item.content[0].text) for item in results] == [("", "A"), ("", "B")]
    assert tail.changed == ""


def test_results_are_those_of_the_answer_wherever_the_agent_wrote_them() -> None:
    """Behind each call its result, or a word of the system between; one that was of another answer
    with the same ids is none of this."""
    calls = [call(n, "read", "{}", provider_id=id_) for n, id_ in enumerate(("a", "b"))]
    own = session(*start_events(), *turn(1, *calls))
    prompt, note = ({"role": role, "content": "Go."} for role in ("user", "developer"))
    call_item = {"type": "function_call", "name": "read", "arguments": "{}"}
    came = {"type": "function_call_output"}

    def each(id_: str, text: str) -> list[dict[str, Any]]:
        return [{**call_item, "call_id": id_}, {**came, "call_id": id_, "output": text}]

    known = [prompt, *each("a", "old"), *each("b", "old")]
    histories = (
        [*each("a", "A"), *each("b", "B")],
        [each("a", "A")[0], each("b", "B")[0], note, each("a", "A")[1], each("b", "B")[1]],
    )
    for history in histories:
        digests = read_body("openai_responses", {"input": known}).digests
        tail = tail_of(own, digests, read_body("openai_responses", {"input": [*known, *history]}))
        results = [item.content[0].text for item in leading_results(tail.items)]
        assert (results, tail.changed) == (["A", "B"], "")


def test_a_denied_call_is_no_part_of_the_answer_that_its_agent_has() -> None:
    """An earlier answer with the same id, right before it, is another one."""
    calls = [call(n, "read", "{}", provider_id=id_) for n, id_ in enumerate(("a", "b"))]
    own = session(*start_events(), *turn(1, *calls))
    own.call("1.1").decided = CallDecided("1.1", "deny")
    call_item = {"type": "function_call", "name": "read", "arguments": "{}"}
    came = {"type": "function_call_output"}
    prompt = {"role": "user", "content": "Go."}
    known = [prompt, {**call_item, "call_id": "b"}, {**came, "call_id": "b", "output": "old"}]
    history = [{**call_item, "call_id": "a"}, {**came, "call_id": "a", "output": "A"}]
    digests = read_body("openai_responses", {"input": known}).digests
    tail = tail_of(own, digests, read_body("openai_responses", {"input": [*known, *history]}))
    results = [item.content[0].text for item in leading_results(tail.items)]
    assert (results, tail.changed) == (["A"], "")


def test_a_mark_of_the_cache_that_moved_on_is_no_change() -> None:
    """opencode has it on its last two messages: a prompt loses it later."""
    block = {"type": "text", "text": "hello"}
    marked = {"role": "user", "content": [block | {"cache_control": {"type": "ephemeral"}}]}
    bare = {"role": "user", "content": [block]}
    own = session(*start_events(), *turn(1))
    answer = {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}
    after = {"role": "user", "content": "And now?"}
    known = read_body("anthropic", {"messages": [marked]}).digests
    tail = tail_of(own, known, read_body("anthropic", {"messages": [bare, answer, after]}))
    assert tail.changed == ""
    assert len(tail.items) == 1
    other = {"role": "user", "content": [block | {"text": "hallo"}]}
    changed = tail_of(own, known, read_body("anthropic", {"messages": [other, answer, after]}))
    assert "changed 1" in changed.changed
