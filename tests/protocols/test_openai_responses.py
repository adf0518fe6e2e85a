"""OpenAI Responses: what its dialects send, and what becomes of it. One frame set per quirk."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.commands.decode import decode
from playground.core.events import ResponseEnded, ResponseFailed, Warned
from playground.protocols.openai_responses.decode import key_header, label, models
from tests.protocols.frames import DONE, codes_of, end_of, events_of, parts_of, sse
from tests.protocols.responses import (
    added,
    args,
    body,
    call,
    completed,
    done,
    event,
    message,
    reasoning,
    summary,
    text,
)

CREATED = event("created", response=body(status="in_progress"))
ARGS = '{"x": 1}'
CALLED = (added(0, call("", status="in_progress")), args(0, '{"x"'), args(0, ": 1}"))

USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 3},
}

ROTATED = call(ARGS, id="fc_9")
OTHER = '{"x": 2}'

MCP = {"type": "mcp_call", "id": "m1", "name": "roll", "arguments": '{"d": 6}', "output": "3"}

NESTED = {"type": "error", "error": {"type": "tokens", "code": "c1", "message": "Nested."}}
FLAT = {"type": "error", "code": "c2", "message": "Flat.", "param": None, "sequence_number": 3}
FAILED = completed(status="failed", error={"code": "c3", "message": "Failed."})

REPLAY = (added(0, call("")), args(0, ARGS), done(0, call(ARGS)))

TOLD = event("function_call_arguments.done", 0, arguments=ARGS)

LISTED = message("On it.")
TOLD_TEXT = event("output_text.done", 0, content_index=0, text="On it.")

THOUGHT = [{"type": "reasoning_text", "text": "Why."}]


def read(*values: Any) -> list[Any]:
    return events_of("openai_responses", sse(*values))


def part_rows(events: list[Any]) -> list[tuple[str, str, bool]]:
    """(kind, text, complete) of each part."""
    return [(kind, part.text, part.complete) for kind, part in parts_of(events)]


def warned(events: list[Any]) -> list[str]:
    return codes_of(events)


def good(events: list[Any]) -> ResponseEnded:
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    return end


def bad(events: list[Any]) -> ResponseFailed:
    end = end_of(events)
    assert isinstance(end, ResponseFailed)
    return end


def test_an_answer_in_full() -> None:
    opaque = reasoning("Why.", "So.", encrypted_content="sealed")
    events = read(
        CREATED,
        added(0, reasoning(encrypted_content="not yet")),
        summary(0, "Why."),
        summary(0, "So.", 1),
        done(0, opaque),
        added(1, message(status="in_progress")),
        event("content_part.added", 1, content_index=0, part={"type": "output_text", "text": ""}),
        text(1, "Look"),
        text(1, "ing."),
        done(1, message("Looking.")),
        added(2, call("", call_id="call_2", status="in_progress")),
        args(2, '{"x"'),
        args(2, ": 1}"),
        event("function_call_arguments.done", 2, arguments=ARGS),
        done(2, call(ARGS, call_id="call_2")),
        completed(opaque, message("Looking."), call(ARGS, call_id="call_2")),
    )
    assert part_rows(events) == [
        ("thinking", "Why.", True),
        ("thinking", "So.", True),
        ("text", "Looking.", True),
        ("call", ARGS, True),
    ]
    assert warned(events) == []
    first, last, part_ended, called = (part for _, part in parts_of(events))
    assert (first.meta, last.meta["block"]) == ({}, opaque)
    assert "content" not in part_ended.meta["block"]
    assert (called.name, called.provider_id) == ("f", "call_2")
    assert called.meta["block"]["id"] == "fc_1"
    assert "arguments" not in called.meta["block"]
    end = good(events)
    assert (end.reason, end.raw_reason, end.meta["id"]) == ("calls", "completed", "resp_1")


def test_tokens_are_counted_with_their_details() -> None:
    usage = good(read(completed(message("a"), usage=USAGE))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.raw) == (9, 7, USAGE)
    assert (usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (4, 2, 3)


@pytest.mark.parametrize(
    ("values", "parts", "codes"),
    [
        # LM Studio: no deltas, only what is done.
        ((added(0, call("")), done(0, call(ARGS)), completed()), [("call", ARGS, True)], []),
        (
            (
                added(0, call("")),
                event("function_call_arguments.done", 0, arguments=ARGS),
                completed(),
            ),
            [("call", ARGS, True)],
            [],
        ),
        # xAI: a single delta.
        (
            (added(0, call("")), args(0, ARGS), done(0, call(ARGS)), completed(call(ARGS))),
            [("call", ARGS, True)],
            [],
        ),
        # GitHub Copilot: another item id in every event.
        (
            (*CALLED, done(0, ROTATED), completed(call(ARGS, id="fc_10"))),
            [("call", ARGS, True)],
            [],
        ),
        # ChatGPT-Codex: the final output is empty.
        ((*CALLED, done(0, call(ARGS)), completed()), [("call", ARGS, True)], []),
        # Nothing but the final output.
        (
            (CREATED, completed(message("a"), call(ARGS))),
            [("text", "a", True), ("call", ARGS, True)],
            [],
        ),
        # Streamed and never done, but the final output has it.
        ((*CALLED, completed(call(ARGS))), [("call", ARGS, True)], []),
        # Neither done nor in the final output: it may be half of what was meant.
        ((*CALLED, completed()), [("call", ARGS, False)], []),
        # Announced with its arguments, which the deltas say again.
        (
            (added(0, call(ARGS)), args(0, ARGS), done(0, call(ARGS)), completed()),
            [("call", ARGS, True)],
            [],
        ),
        # What is done says something else than what was streamed.
        ((*CALLED, done(0, call(OTHER)), completed()), [("call", OTHER, True)], ["item_differs"]),
        (
            (added(0, message()), text(0, "ab"), done(0, message("abc")), completed()),
            [("text", "abc", True)],
            ["item_differs"],
        ),
        # A delta after the arguments were told whole, and one after the item was done.
        (
            (
                *CALLED,
                event("function_call_arguments.done", 0, arguments=ARGS),
                args(0, "}"),
                completed(),
            ),
            [("call", ARGS + "}", False)],
            ["late_arguments"],
        ),
        (
            (*CALLED, done(0, call(ARGS)), args(0, "}"), completed()),
            [("call", ARGS, True)],
            ["no_item"],
        ),
        # Deltas of an item that was never announced.
        (
            (args(3, ARGS), done(3, call(ARGS)), completed()),
            [("call", ARGS, True)],
            ["no_start"],
        ),
        # Two calls under one index, one behind the other.
        (
            (
                *(*CALLED, done(0, call(ARGS))),
                *(added(0, call("", "b")), done(0, call("{}", "b"))),
                completed(call(ARGS), call("{}", "b")),
            ),
            [("call", ARGS, True), ("call", "{}", True)],
            [],
        ),
        # An item that starts anew before it was done: the first is no whole one.
        (
            (*CALLED, added(0, call("", "b")), done(0, call("{}", "b")), completed()),
            [("call", ARGS, False), ("call", "{}", True)],
            ["started_twice", "started_twice"],
        ),
        # No index at all.
        (
            (
                {**CALLED[0], "output_index": None},
                {**args(0, ARGS), "output_index": "x"},
                {**done(0, call(ARGS)), "output_index": None},
                completed(),
            ),
            [("call", ARGS, True)],
            [],
        ),
        # A call that its own item calls incomplete.
        (
            (*CALLED, done(0, call('{"x"', status="incomplete")), completed()),
            [("call", '{"x"', False)],
            ["item_differs"],
        ),
        # Bedrock: the number of a piece of a message is that of the item.
        (
            (added(1, message()), text(1, "a", 1), done(1, message("a")), completed()),
            [("text", "a", True)],
            [],
        ),
        # The marker of other protocols at the end.
        ((completed(message("a")), DONE), [("text", "a", True)], []),
        # Event types from the future, and item types.
        (
            (event("hologram.delta", 0, delta="x"), completed(message("a"))),
            [("text", "a", True)],
            ["unknown_event"],
        ),
        (
            (done(0, {"type": "some_future_type", "id": "x"}), completed()),
            [("other", "", True)],
            ["unknown_item"],
        ),
        (
            (done(0, message({"type": "hologram", "id": "x"}, "a")), completed()),
            [("other", "", True), ("text", "a", True)],
            ["unknown_content"],
        ),
    ],
)
def test_quirks(values: tuple[Any, ...], parts: list[Any], codes: list[str]) -> None:
    events = read(*values)
    assert part_rows(events) == parts
    assert warned(events) == codes
    assert good(events).raw_reason == "completed"


def test_calls_of_one_id_are_flagged_and_never_one() -> None:
    twins = [call(ARGS, "a"), call(OTHER, "a")]
    events = read(completed(*twins))
    assert part_rows(events) == [("call", ARGS, True), ("call", OTHER, True)]
    assert warned(events) == ["same_id"]
    assert part_rows(read(done(0, twins[0]), done(1, twins[1]), completed(*twins))) == part_rows(
        events
    )
    begun = (added(0, call("", "a")), added(1, call("", "a")))
    assert part_rows(read(*begun, completed(*twins))) == part_rows(events)


def test_a_free_form_call_is_text() -> None:
    tool = {"type": "custom_tool_call", "call_id": "c", "id": "ctc_1", "name": "g"}
    events = read(
        added(0, {**tool, "input": ""}),
        event("custom_tool_call_input.delta", 0, delta="SELECT "),
        event("custom_tool_call_input.done", 0, input="SELECT 1"),
        done(0, {**tool, "input": "SELECT 1"}),
        completed(),
    )
    ((kind, part),) = parts_of(events)
    assert (kind, part.text, part.name) == ("call", "SELECT 1", "g")
    assert part.meta == {"block": tool, "type": "custom"}
    assert good(events).reason == "calls"


@pytest.mark.parametrize(
    ("item", "kind", "name", "text"),
    [
        ({"type": "web_search_call", "id": "ws_1", "status": "completed"}, "server_call", "", ""),
        (MCP, "server_call", "roll", '{"d": 6}'),
        ({"type": "code_interpreter_call", "id": "c", "code": "1+1"}, "server_call", "", "1+1"),
        ({"type": "computer_call", "id": "c", "call_id": "d"}, "server_call", "", ""),
        ({"type": "mcp_list_tools", "id": "c", "tools": []}, "server_call", "", ""),
        ({"type": "shell_call_output", "id": "c"}, "server_result", "", ""),
        ({"type": "compaction", "id": "c", "encrypted_content": "x"}, "other", "", ""),
    ],
)
def test_what_the_provider_runs_is_shown_and_never_ours(
    item: dict[str, Any], kind: str, name: str, text: str
) -> None:
    streamed = read(added(0, {"type": item["type"], "id": item["id"]}), done(0, item), completed())
    for events in (streamed, read(completed(item))):
        ((match, part),) = parts_of(events)
        assert (match, part.name, part.text, part.meta["block"]) == (kind, name, text, item)
        assert part.provider_id == item["id"]
        assert warned(events) == []
        assert good(events).reason == "stop"


def test_a_list_of_a_servers_tools_is_no_call_of_the_server() -> None:
    listed = {"type": "mcp_list_tools", "id": "l", "server_label": "dice", "tools": []}
    facts = decode("openai_responses", sse(completed(listed, MCP)))
    assert [
        (server_tool_call["name"], server_tool_call["kind"])
        for server_tool_call in facts["server_tool_calls"]
    ] == [("roll", "mcp_call")]


@pytest.mark.parametrize(
    ("response", "reason", "raw"),
    [
        (body(message("a")), "stop", "completed"),
        (body(message("a"), status="complete"), "stop", "complete"),
        (body(message({"type": "refusal", "refusal": "No."})), "refusal", "completed"),
        (body(call()), "calls", "completed"),
        (
            body(message("a"), status="incomplete", incomplete_details={"reason": "steered"}),
            "other",
            "incomplete",
        ),
        (body(call(), status="incomplete"), "length", "incomplete"),
        (
            body(call(), status="incomplete", incomplete_details={"reason": "brand_new"}),
            "length",
            "incomplete",
        ),
        (
            body(call(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "length",
            "incomplete",
        ),
        (
            body(
                message("a"), status="incomplete", incomplete_details={"reason": "content_filter"}
            ),
            "refusal",
            "incomplete",
        ),
    ],
)
def test_ends(response: dict[str, Any], reason: str, raw: str) -> None:
    name = "incomplete" if response["status"] == "incomplete" else "completed"
    streamed = read(event(name, response=response))
    whole_events = events_of("openai_responses", json.dumps(response).encode())
    for events in (streamed, whole_events):
        assert (good(events).reason, good(events).raw_reason) == (reason, raw)


def test_a_refusal_is_a_part_of_its_own() -> None:
    events = read(
        added(0, message()),
        event("refusal.delta", 0, content_index=0, delta="I ca"),
        done(0, message({"type": "refusal", "refusal": "I cannot."})),
        completed(),
    )
    assert part_rows(events) == [("refusal", "I cannot.", True)]


@pytest.mark.parametrize(
    ("values", "error", "raw", "codes"),
    [
        ((NESTED, FAILED), FAILED["response"]["error"], "failed", []),
        ((FLAT, FAILED), FAILED["response"]["error"], "failed", []),
        ((FLAT, FAILED, DONE), FAILED["response"]["error"], "failed", []),
        ((NESTED,), NESTED["error"], "", []),
        ((FLAT,), FLAT, "", []),
        ((FLAT, DONE), FLAT, "", []),
        ((FLAT, completed(status="failed")), FLAT, "failed", []),
        ((NESTED, text(0, "more"), FAILED), NESTED["error"], "", ["after_end", "after_end"]),
        ((FAILED,), FAILED["response"]["error"], "failed", []),
        (
            (completed(status="cancelled"),),
            {"status": "cancelled", "message": "the response has the status cancelled"},
            "cancelled",
            [],
        ),
    ],
)
def test_errors_in_a_stream(
    values: tuple[Any, ...], error: Any, raw: str, codes: list[str]
) -> None:
    events = read(CREATED, *values)
    assert (bad(events).failure, bad(events).error) == ("error", error)
    assert bad(events).raw_reason == raw
    assert warned(events) == codes


def test_an_error_keeps_what_was_said_and_no_call_is_whole() -> None:
    events = read(added(0, message()), text(0, "Well"), NESTED, FAILED)
    assert part_rows(events) == [("text", "Well", False)]
    assert part_rows(read(*CALLED, NESTED, FAILED)) == [("call", ARGS, False)]


@pytest.mark.parametrize("status", ["queued", "in_progress"])
@pytest.mark.parametrize("items", [[], [message("Well")], [call(ARGS)]])
def test_a_response_in_the_background_is_no_failure_and_not_whole(
    status: str, items: list[Any]
) -> None:
    """What a client that asked with `background` gets at first, and when it asks again."""
    events = events_of("openai_responses", json.dumps(body(*items, status=status)).encode())
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert (end.reason, end.raw_reason, end.meta["id"]) == ("other", status, "resp_1")
    warned = next(event for event in events if isinstance(event, Warned))
    assert warned.code == "background"
    assert f"status is {status}" in warned.message
    assert warned.message.endswith("resp_1.")
    assert not any(part.complete for _, part in parts_of(events))


def test_without_its_last_event_an_answer_is_interrupted() -> None:
    events = read(CREATED, *CALLED, done(0, call(ARGS)))
    assert bad(events).failure == "interrupted"
    assert part_rows(events) == [("call", ARGS, True)]


def test_a_whole_body_has_its_arguments_to_the_letter() -> None:
    odd = '{"x": 1.10, "x": 2}'
    raw = json.dumps(body(call("OBJECT"), call(odd, "b"))).replace('"OBJECT"', odd)
    first, second = (part for _, part in parts_of(events_of("openai_responses", raw.encode())))
    assert (first.text, first.meta["as_object"]) == (odd, True)
    assert (second.text, "as_object" in second.meta) == (odd, False)
    assert parts_of(read(completed(call(None))))[0][1].meta["absent"]


def test_small_words() -> None:
    assert label(added(0, call())) == "response.output_item.added function_call f"
    assert label(NESTED) == "error c1"
    assert label(body()) == "response completed"
    assert label({"x": 1}) == ""
    assert key_header("k", ()) == {"authorization": "Bearer k"}
    assert key_header("k", ("api_key_header",)) == {"api-key": "k"}
    assert [model.id for model in models({"data": [{"id": "a"}, 3, {}]})] == ["a"]


@pytest.mark.parametrize(
    "response",
    [
        *(body(call(ARGS), status=literal) for literal in ("expired", "cancelled")),
        body(call(ARGS), error={"code": "server_error", "message": "boom"}),
    ],
    ids=lambda response: str(response["status"]),
)
def test_a_response_that_is_none_fails_whatever_it_holds(response: dict[str, Any]) -> None:
    whole_events = events_of("openai_responses", json.dumps(response).encode())
    for events in (whole_events, read(done(0, call(ARGS)), event("completed", response=response))):
        assert bad(events).failure == "error"
        assert ("boom" in bad(events).message) == ("error" in response)


@pytest.mark.parametrize("status", ["failed", "incomplete", "cancelled"])
def test_an_item_that_came_to_no_end_is_not_complete(status: str) -> None:
    events = read(done(0, call(ARGS, status=status)), completed())
    assert part_rows(events) == [("call", ARGS, False)]
    odd = read(done(0, call(ARGS, status=[status])), completed())
    assert part_rows(odd) == [("call", ARGS, True)]


@pytest.mark.parametrize(
    ("values", "parts", "codes"),
    [
        ((done(0, call(ARGS)), done(0, call(ARGS))), 1, ["item_again"]),
        ((done(0, call(ARGS)), done(0, call(OTHER))), 1, ["item_again", "item_differs"]),
        ((*REPLAY, CREATED, *REPLAY), 1, ["item_again", "no_item"]),
        ((done(0, call(ARGS)), done(0, call(ARGS, call_id="call_2"))), 2, []),
        ((done(0, call(ARGS)), done(1, call(ARGS))), 2, ["same_id"]),
    ],
    ids=["twice", "differs", "replayed", "another id", "another place"],
)
def test_a_call_that_is_done_again_counts_once(
    values: tuple[Any, ...], parts: int, codes: list[str]
) -> None:
    events = read(*values, completed())
    assert part_rows(events) == [("call", ARGS, True)] * parts
    assert warned(events) == codes


@pytest.mark.parametrize(
    ("listed", "codes"),
    [
        (call(ARGS), []),
        (call('{"x":1}'), []),
        (call(""), []),
        (call(OTHER), ["item_differs"]),
        (call(ARGS, name="g"), ["item_differs"]),
    ],
)
def test_an_end_that_lists_other_arguments_is_told(
    listed: dict[str, Any], codes: list[str]
) -> None:
    events = read(done(0, call(ARGS)), completed(listed))
    assert part_rows(events) == [("call", ARGS, True)]
    assert warned(events) == codes


def test_arguments_that_are_told_whole_are_sound_though_a_piece_was_lost() -> None:
    head = (added(0, call("")), args(0, '{"x"'), '{"typ', args(0, "}"))
    assert part_rows(read(*head, done(0, call(ARGS)), completed())) == [("call", ARGS, True)]
    answer = event("function_call_arguments.done", 0, arguments='{"x"}')
    assert part_rows(read(*head, answer, completed())) == [("call", '{"x"}', True)]
    assert part_rows(read(*head, done(0, call(None)), completed())) == [("call", '{"x"}', False)]


@pytest.mark.parametrize("empty", ["", "{}", " { } ", "null", {}], ids=repr)
@pytest.mark.parametrize(
    "came", [(args(0, ARGS),), (TOLD,), (args(0, ARGS), TOLD)], ids=["deltas", "told", "both"]
)
def test_an_empty_end_never_overrules_arguments_that_came(
    came: tuple[Any, ...], empty: Any
) -> None:
    """A rule would run {} where the model wrote something else."""
    events = read(added(0, call("")), *came, done(0, call(empty)), completed())
    assert part_rows(events) == [("call", ARGS, True)]
    assert warned(events) == ["item_differs"]
    assert "as_object" not in parts_of(events)[0][1].meta


@pytest.mark.parametrize("empty", ["", "{}"])
def test_arguments_that_are_told_empty_never_overrule_pieces(empty: str) -> None:
    answer = event("function_call_arguments.done", 0, arguments=empty)
    events = read(added(0, call("")), args(0, ARGS), answer, completed())
    # No event had all of the arguments, so they may be half of what was meant.
    assert part_rows(events) == [("call", ARGS, False)]
    assert warned(events) == ["item_differs"]


@pytest.mark.parametrize(
    ("first", "last", "text", "codes"),
    [
        (ARGS, ARGS, ARGS, []),
        ('{"x"', ARGS, ARGS, []),
        ("{}", ARGS, ARGS, []),
        (OTHER, ARGS, ARGS, ["item_differs"]),
        (OTHER, "", OTHER, ["item_differs"]),
        (OTHER, "{}", OTHER, ["item_differs"]),
    ],
)
def test_announced_arguments_are_compared_with_the_end(
    first: str, last: str, text: str, codes: list[str]
) -> None:
    events = read(added(0, call(first)), done(0, call(last)), completed())
    assert part_rows(events) == [("call", text, True)]
    assert warned(events) == codes


@pytest.mark.parametrize("other", [{"name": "g"}, {"call_id": "call_9"}], ids=repr)
def test_a_call_that_is_called_otherwise_at_its_end_is_told(other: dict[str, Any]) -> None:
    events = read(added(0, call("")), args(0, ARGS), done(0, call(ARGS, **other)), completed())
    assert part_rows(events) == [("call", ARGS, True)]
    assert warned(events) == ["item_differs"]


def test_arguments_are_not_lost_where_nothing_but_their_event_came() -> None:
    answer = event("function_call_arguments.done", 0, arguments=ARGS, name="f", call_id="c")
    events = read(answer, completed())
    ((_, part),) = parts_of(events)
    assert (part.name, part.provider_id, part.text, part.complete) == ("f", "c", ARGS, True)
    assert warned(events) == ["no_start"]


def message_events(*pieces: str, index: int = 0) -> tuple[Any, ...]:
    """A message that is announced and streamed with a content index for each delta."""
    return (added(index, message()), *(text(index, item, n) for n, item in enumerate(pieces)))


@pytest.mark.parametrize(
    ("values", "wanted", "codes"),
    [
        # The content index counts deltas.
        ((*message_events("On ", "it."), done(0, LISTED), completed(LISTED)), "On it.", []),
        ((*message_events("On ", "it."), completed(LISTED)), "On it.", []),
        ((*message_events("On ", "it"), done(0, LISTED), completed()), "On it.", ["item_differs"]),
        # The end has less than was streamed: what was said is kept.
        ((*message_events("On it."), done(0, message()), completed()), "On it.", ["item_differs"]),
        ((*message_events("On it."), done(0, message("")), completed()), "On it.",
         ["item_differs"]),
        ((*message_events("On it."), done(0, message("On")), completed()), "On it.",
         ["item_differs"]),
        ((*message_events("On ", "it."), done(0, message("On")), completed()), "On it.",
         ["item_differs"]),
        # Two texts in one piece, and one text in two.
        ((*message_events("On it."), done(0, message("On ", "it.")), completed()), "On it.", []),
        # One index for a message and a call.
        (
            (
                *(*message_events("On it."), added(0, call("")), args(0, ARGS), done(0,
                 call(ARGS))),
                *(done(0, LISTED), completed(LISTED, call(ARGS))),
            ),
            "On it.",
            [],
        ),
        # The end comes twice; in another event the item has another id.
        ((done(0, LISTED), done(0, LISTED), completed(LISTED)), "On it.", ["item_again"]),
        ((*message_events("On it."), done(0, {**LISTED, "id": "msg_2"}), completed(LISTED)),
         "On it.", []),
        # A text that stands in one event alone.
        ((TOLD_TEXT, completed()), "On it.", ["no_start"]),
        ((*message_events(), TOLD_TEXT, completed()), "On it.", []),
        ((added(0, LISTED), completed()), "On it.", []),
        ((*message_events(), done(0, message()), completed(LISTED)), "On it.", ["item_differs"]),
        ((*message_events("On it."), TOLD_TEXT, done(0, LISTED), completed(LISTED)), "On it.", []),
        # Two messages that say the same are two.
        (
            (done(0, message("On ")), done(1, message("On ", id="msg_2")), completed()),
            "On On ",
            [],
        ),
    ],
)  # fmt: skip
def test_the_end_of_a_message_is_compared_with_all_that_was_streamed(
    values: tuple[Any, ...], wanted: str, codes: list[str]
) -> None:
    events = read(CREATED, *values)
    assert "".join(text for kind, text, _ in part_rows(events) if kind == "text") == wanted
    assert [text for kind, text, _ in part_rows(events) if kind == "call"] in ([], [ARGS])
    assert warned(events) == codes


@pytest.mark.parametrize(
    ("values", "item"),
    [
        ((summary(0, "Wh"), summary(0, "y.", 1)), reasoning("Why.")),
        ((summary(0, "Why."),), {**reasoning(), "content": THOUGHT}),
        ((), {**reasoning("Why."), "content": THOUGHT}),
        ((event("reasoning_summary_text.done", 0, summary_index=0, text="Why."),), reasoning()),
    ],
)  # fmt: skip
def test_reasoning_is_compared_likewise(values: tuple[Any, ...], item: dict[str, Any]) -> None:
    events = read(CREATED, added(0, reasoning()), *values, done(0, item), completed(item))
    assert "".join(text for _, text, _ in part_rows(events)) == "Why."
    assert parts_of(events)[-1][1].meta["block"] == item


@pytest.mark.parametrize(
    "type_", ["keepalive", "response.keep_alive", "response.rate_limits.updated", "ping"]
)
def test_signs_of_life_are_not_told(type_: str) -> None:
    assert warned(read(CREATED, {"type": type_}, completed(message("a")))) == []
