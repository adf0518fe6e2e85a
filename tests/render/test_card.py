from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import (
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallStarted,
    PartStarted,
    Problem,
    ResponseFailed,
    RunResumed,
    RunStopped,
    SessionForked,
)
from playground.core.tools import Tool, text_result
from playground.protocols.registry import codec
from playground.render.blocks import block
from playground.render.card import Card, card, source
from playground.render.view import View
from playground.render.wire_rows import WireRows
from tests.factories import DIGEST, Log, turn_with_calls
from tests.markup import joined_tags
from tests.protocols import answers
from tests.render.page import ENV

SCHEMA = Problem("schema", "minutes is a string.", "/minutes", fix="30")


def card_of(log: Log, call_id: str = "1.1", **changes: Any) -> Card:
    session = log.session()
    view = replace(View(session, "", WireRows(), log.now_ms), **changes)
    call = session.call(call_id)
    return card(view, session.turns[call.turn - 1], call)


def log_with_call(name: str, arguments: Any, *problems: Problem) -> Log:
    return turn_with_calls((name, arguments), checked=False).check("1.1", *problems)


def offered(log: Log, **changes: Any) -> str:
    """The offer in words: what leads, then what else there is."""
    offer = card_of(log, **changes).offer
    if offer is None:
        return "none"
    flags = [name for name in ("run", "anyway", "edit", "blocked", "again") if getattr(offer, name)]
    return f"{offer.primary}: {' '.join(flags)}".strip()


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        (log_with_call("get_weather", {"city": "Paris"}), "run: run edit"),
        (log_with_call("get_weather", {}, Problem("note", "Worth saying.")), "run: run edit"),
        (log_with_call("add_event", {"minutes": "30"}, SCHEMA), "edit: run anyway edit"),
        (log_with_call("add_event", '{"a', Problem("malformed", "Cut.", offset=3)), "edit: edit"),
        (log_with_call("rm", {}, Problem("unknown_tool", "Unknown.")), "answer:"),
        (log_with_call("ask_me", {}), "answer:"),
        (log_with_call("get_weather", {"city": "x" * 20_000}), "run: run edit blocked"),
        (turn_with_calls(("get_weather", {}), checked=False), "none"),
        (log_with_call("get_weather", {}).run("1.1"), "none"),
        (log_with_call("get_weather", {}).add(RunStopped()), "none"),
        (
            log_with_call("get_weather", {}).add(
                CallDecided("1.1", "run", digest=DIGEST),
                CallStarted("1.1", 1),
                CallInterrupted("1.1"),
            ),
            ": run edit again",  # nothing stands out, and no key runs it
        ),
    ],
)
def test_what_a_card_offers(log: Log, wanted: str) -> None:
    assert offered(log) == wanted
    assert (
        offered(log, replay=True) == offered(log, own=False) == offered(log, live=False) == "none"
    )


def test_a_call_in_a_fork_of_a_stopped_run_waits_for_continue() -> None:
    log = log_with_call("get_weather", {}).add(RunStopped(), SessionForked("p", 1))
    card = card_of(log, "1.1")
    assert (card.words, card.hint) == (
        "not decided",
        "The run is stopped. Continue to decide this call.",
    )
    assert card_of(log.add(RunResumed()), "1.1").words == "checking"


@pytest.mark.parametrize("reason", ["length", "refusal"])
def test_a_turn_that_ended_badly_offers_no_run(reason: str) -> None:
    log = Log().start().prompt().request().call(0, "get_weather", {"city": "x"}).end(reason)
    log.check("1.0")
    card = card_of(log, "1.0")
    assert card.offer is not None
    assert (card.offer.primary, card.offer.run) == ("edit", False)
    assert reason in card.hint


def test_a_call_of_a_cut_answer_is_only_to_be_read() -> None:
    log = Log().start().prompt().request().call(0, "get_weather", {"city": "x"})
    log.add(ResponseFailed("interrupted", "The bytes stopped."))
    card = card_of(log, "1.0")
    assert card.offer is None
    assert "cannot be decided" in card.hint


def test_long_arguments_are_shown_whole_when_they_are_expanded() -> None:
    log = log_with_call("get_weather", {"city": "x" * 20_000})
    cut = card_of(log)
    assert cut.more == len(log.session().call("1.1").raw) - 16_000
    assert sum(len(token.text) for token in cut.tokens) == 16_000
    html = card_of(log, expanded=frozenset({"call-1-1"}))
    assert html.more == 0
    assert html.offer is not None
    assert not html.offer.blocked


def test_the_forms_tell_how_much_was_shown() -> None:
    log = log_with_call("get_weather", {"city": "x" * 20_000})
    view = View(log.session(), "", WireRows(), log.now_ms)
    assert 'name="seen" value="16000"' in block(ENV, view, "call-1-1")
    length = len(log.session().call("1.1").raw)
    html = block(ENV, replace(view, expanded=frozenset({"call-1-1"})), "call-1-1")
    assert f'name="seen" value="{length}"' in html


@pytest.mark.parametrize(
    ("fixes", "wanted"),
    [
        (("7", "30"), '{"title": "7", "minutes": 30}'),
        (("", "30"), ""),
        (("7", '"x"'), ""),
    ],
)
def test_several_fixes_are_offered_as_one_where_all_of_them_hold(
    fixes: tuple[str, str], wanted: str
) -> None:
    title, minutes = fixes
    arguments = '{"title": 7, "minutes": "30"}'
    outcome = (
        Problem("schema", "title is a number.", "/title", fix=title and f'"{title}"'),
        Problem("schema", "minutes is a string.", "/minutes", fix=minutes),
    )
    card = card_of(log_with_call("add_event", arguments, *outcome))
    assert card.fixed == wanted
    assert card_of(log_with_call("add_event", arguments, *outcome).run("1.1")).fixed == ""


def test_a_fix_is_the_whole_text_with_one_value_replaced() -> None:
    card = card_of(log_with_call("add_event", '{"title": "Walk", "minutes": "30"}', SCHEMA))
    (fault,) = card.faults
    assert (fault.place, fault.fixed) == ("/minutes", '{"title": "Walk", "minutes": 30}')


def test_malformed_arguments_say_where() -> None:
    problem = Problem("malformed", "A value is missing.", offset=8)
    card = card_of(log_with_call("add_event", '{"a":\n  }', problem))
    assert card.faults[0].place == "Line 2, column 3"
    assert card.editable == '{"a":\n  }'


def test_hidden_characters_are_counted() -> None:
    assert (
        card_of(log_with_call("get_weather", '{"city": "Par\u202eis\u200b\u00a0\u3000"}')).hidden
        == 4
    )
    assert card_of(log_with_call("get\n\u2003weather\t", "{}")).hidden == 3


@pytest.mark.parametrize(
    ("name", "arguments", "padded"),
    [
        ("get_weather", '{"city": "a' + " " * 9 + 'b"}', True),
        ("get_weather", '{"city": "a' + " " * 8 + 'b"}', False),
        ("get_weather", '{"city": "a' + "\\n" * 5 + 'b"}', True),
        ("get_weather", '{"city": "a' + "\\n \\n\\n" + 'b"}', False),
        ("get_weather", '{"' + " " * 20 + '": 1}', True),
        ("get_weather", "{\n" + " " * 20 + '"city": "Paris"}', False),
        ("get_weather", "{\n" + " " * 20 + '"city": ', False),
        ("get_weather", '{"city": \n\n\n\n\n"a', True),
        ("rm" + " " * 30 + "x", "{}", True),
    ],
)
def test_wide_gaps_are_told(name: str, arguments: str, padded: bool) -> None:
    assert card_of(log_with_call(name, arguments)).padded is padded


def edited_card(arguments: str, **changes: Any) -> tuple[Card, str]:
    log = log_with_call("get_weather", {f"k{n}": n for n in range(9)}).run(
        "1.1", arguments=arguments
    )
    view = replace(View(log.session(), "", WireRows(), log.now_ms), **changes)
    return card_of(log, **changes), block(ENV, view, "call-1-1")


def test_an_edit_is_told_in_full() -> None:
    text = json.dumps({f"k{n}": 100 + n for n in range(9)} | {"k8": "last\u00a0one"})
    card, html = edited_card(text)
    assert len(card.edits) == 9
    assert html.count("<ins>") == 6
    assert "and 3 more" in html
    assert "last\\u00a0one" in html
    long = json.dumps({"k0": "x" * 20_000})
    card, html = edited_card(long)
    assert (card.edited, card.edited_more) == (long[:16_000], len(long) - 16_000)
    assert "more characters" in html
    card, html = edited_card(long, expanded=frozenset({"call-1-1"}))
    assert (card.edited, card.edited_more) == (long, 0)


def test_no_key_runs_again_what_was_cut() -> None:
    log = log_with_call("get_weather", {"city": "Paris"})
    assert 'class="primary" data-key="a"' in html_of(log)
    log.add(CallDecided("1.1", "run", digest=DIGEST), CallStarted("1.1", 1))
    cut = html_of(log.add(CallInterrupted("1.1")))
    assert 'data-key="a"' not in cut
    assert "button primary" not in cut
    assert "Run again" in cut


def html_of(log: Log) -> str:
    return joined_tags(block(ENV, View(log.session(), "", WireRows(), log.now_ms), "call-1-1"))


def test_a_queued_call_can_be_taken_back() -> None:
    log = turn_with_calls(("get_weather", {}), ("get_weather", {}))
    log.add(CallDecided("1.2", "run", digest=DIGEST))
    assert card_of(log, "1.2").queued
    assert not card_of(log, "1.2", replay=True).queued
    assert not card_of(log, "1.2", own=False).queued
    assert not card_of(log, "1.1").queued


def test_who_and_how_long() -> None:
    log = log_with_call("get_weather", {})
    log.add(CallDecided("1.1", "run", "rule", "read-only tools"), CallStarted("1.1", 1))
    card = card_of(log)
    assert (card.words, card.who, card.took) == ("running", "by rule “read-only tools”", "")
    log.now_ms += 172
    card = card_of(log.add(CallEnded("1.1", text_result("x"))))
    assert (card.words, card.tone, card.took) == ("ran", "ran", "182 ms")


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        (Tool("a"), "mock"),
        (Tool("a", answered_by="python", config={"file": "t.py", "function": "f"}),
         "python · t.py:f"),
        (Tool("a", answered_by="python", config={"file": "t.py"}), "python · t.py:a"),
        (Tool("a", answered_by="python", config={"file": "/t.py", "interpreter": "/bin/evil"}),
         "python · /t.py:a · with /bin/evil"),
        (Tool("a", answered_by="python", config={"code": "1"}), "python · code of the tool"),
        (Tool("a", answered_by="mcp", config={"server": "s"}), "mcp · s/a"),
        (Tool("a", answered_by="http", config={"url": "https://x"}), "http · GET https://x"),
        (Tool("a", answered_by="person"), "the user"),
    ],
)  # fmt: skip
def test_where_answers_come_from(tool: Tool, line: str) -> None:
    assert source(tool) == line


def test_the_card_says_why_a_call_is_left_to_the_person() -> None:
    def log_with_answer(reason: str, *calls: dict[str, Any]) -> Log:
        log = Log().start().prompt().request()
        for index, changes in enumerate(calls):
            log.part(index, "call", '{"city": "x"}', name="get_weather", **changes)
        log.end(reason)
        for index in range(len(calls)):
            log.check(f"1.{index}")
        return log

    half = log_with_answer("calls", {"complete": False})
    twins = log_with_answer("calls", {"provider_id": "a"}, {"provider_id": "a"})
    unknown = log_with_answer("other", {})
    assert "is incomplete" in card_of(half, "1.0").hint
    assert offered(half, call_id="1.0") == "edit: edit"
    assert "the same ID" in card_of(twins, "1.0").hint
    assert "rules do not run this call" in card_of(unknown, "1.0").hint
    assert offered(unknown, call_id="1.0") == "run: run edit"


@pytest.mark.parametrize("protocol", ["anthropic", "openai_responses", "gemini", "ollama"])
def test_a_call_that_has_ended_is_complete_while_the_answer_goes_on(protocol: str) -> None:
    """As soon as the wire says so: another call may stream for minutes."""
    decoder, log = codec(protocol).decoder(200), Log().start().prompt().request()
    data = answers.body(protocol, [answers.call(0), answers.call(1)])
    for place in range(len(data)):
        log.add(*(event for *_, event in decoder.feed(data[place : place + 1])))
        turn = log.session().turns[0]
        if len(turn.calls) == 2:
            break
    assert turn.open
    assert card_of(log, "1.0").words == "complete"


def test_arriving_call_when_drawn_has_its_controls_without_forms_and_keys() -> None:
    """They keep the height of the footer, which comes when the call asks; nobody can use them."""
    log = Log().start().prompt().request().add(PartStarted(0, "text"))
    log.add(PartStarted(1, "call", "get_weather"))
    drawn = html_of(log)
    before, _, reserved = drawn.partition('<div class="coming" inert aria-hidden="true">')
    for word in ("Run", "Edit &amp; run", "by hand", "Deny", "Always"):
        assert word in reserved
    for usable in ("data-key", "<input", "<textarea", "hx-post", "hx-get", "href=", "action="):
        assert usable not in reserved
        assert usable not in before
    asking = html_of(log_with_call("get_weather", {"city": "Paris"})).partition("<footer")[2]
    assert "inert" not in asking
    assert asking.count('<details name="act-') == reserved.count('<details name="act-') == 4
    assert 'data-key="a"' in asking
    assert "Choose a rule for calls like this one" in asking
