"""The user's rules: bound, moved, revoked, had back; what is kept of them and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from playground.core.errors import BadInput, Conflict, NotFound
from playground.core.rules import Rule, base_of
from playground.core.servers import Acceptance, Server, fingerprint
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.rules import ALWAYS, MOST_RULES
from playground.executors.executor import CallCheck
from tests.engines import StartEngine, create_session

pytestmark = pytest.mark.anyio

KEY = "canary-55f20b9e1d7c4a36"
ANY = {"type": "object", "properties": {}}


def mock(name: str, **fields: Any) -> Tool:
    return Tool(name, "A tool.", ANY, "mock", {"result": "x"}, **fields)


def order(engine: Engine, session_id: str = ALWAYS) -> str:
    return "".join(rule.tool for rule in engine.rules.rule_list(session_id))


async def test_a_list_is_written_moved_and_had_back(engine: Engine) -> None:
    rules, rang = engine.rules, engine.sessions.list_version
    a, b, c = [await rules.add(ALWAYS, Rule(name, "deny"), ()) for name in "abc"]
    assert (order(engine), rules.version) == ("abc", 3)
    assert engine.sessions.list_version == rang + 3, "streams hear of it"
    await rules.move(ALWAYS, c.id, 0)
    await rules.move(ALWAYS, a.id, 99)
    assert order(engine) == "cba"
    await rules.add(ALWAYS, Rule("d", "ask"), (), 1)
    assert order(engine) == "cdba"
    await rules.delete(ALWAYS, b.id)
    with pytest.raises(NotFound, match="no longer exists"):
        await rules.delete(ALWAYS, b.id)
    await rules.restore(ALWAYS, b.id)
    assert order(engine) == "cdba"
    with pytest.raises(NotFound, match="Add it again"):
        await rules.restore(ALWAYS, b.id)
    edited = await rules.edit(ALWAYS, b.id, Rule("e", "stop"), ())
    assert (edited.id, order(engine)) == (b.id, "cdea")
    await rules.switch(ALWAYS, a.id, enabled=False)
    listed = rules.rule_list(ALWAYS)
    again = await engine.library.rules()
    assert again[ALWAYS] == listed
    assert [rule.enabled for rule in listed] == [True, True, True, False]


async def test_two_tabs_that_move_at_once_lose_nothing(engine: Engine) -> None:
    rules = [await engine.rules.add(ALWAYS, Rule(name, "deny"), ()) for name in "abcdef"]
    moves = [engine.rules.move(ALWAYS, rule.id, 5 - place) for place, rule in enumerate(rules)]
    await asyncio.gather(*moves, engine.rules.add(ALWAYS, Rule("g", "deny"), ()))
    assert sorted(order(engine)) == list("abcdefg")


async def test_a_list_has_a_cap(engine: Engine) -> None:
    session_id = await create_session(engine, rules=[Rule("x", "deny")] * MOST_RULES)
    with pytest.raises(BadInput, match="already 200 rules"):
        await engine.rules.add(session_id, Rule("x", "deny"), ())
    with pytest.raises(BadInput, match="at most 200"):
        await engine.rules.put(session_id, [Rule("x", "deny")] * (MOST_RULES + 1), ())
    first = engine.rules.rule_list(session_id)[0]
    await engine.rules.delete(session_id, first.id)
    await engine.rules.add(session_id, Rule("y", "deny"), ())
    with pytest.raises(BadInput, match="already 200 rules"):
        await engine.rules.restore(session_id, first.id)


@pytest.mark.parametrize(
    "rule",
    [
        Rule("a", "deny", text=f"no {KEY}"),
        Rule("a", "deny", words=KEY),
        Rule("a", "deny", when={"/a": {"one_of": [1, {"b": KEY}]}}),
        Rule("a", "deny", when={f"/{KEY}": 1}),
        Rule(KEY, "deny"),
        Rule("a", "deny", source=f"mcp:{KEY}"),
    ],
)
async def test_no_rule_holds_a_key(rule: Rule, start_engine: StartEngine) -> None:
    engine = await start_engine(environment={"MY_API_KEY": KEY})
    stored = await engine.rules.add(ALWAYS, Rule("a", "deny"), ())
    writings = [
        engine.rules.add(ALWAYS, rule, ()),
        engine.rules.put("s", [rule], ()),
        engine.rules.edit(ALWAYS, stored.id, rule, ()),
    ]
    for writing in writings:
        with pytest.raises(BadInput, match="contains the value of a key") as refused:
            await writing
        assert KEY not in str(refused.value)
    assert engine.rules.rules_of("s") == (stored,)


async def test_what_lets_through_is_bound_to_the_tools_of_its_day(
    start_engine: StartEngine,
) -> None:
    tool, two = mock("one"), mock("two")
    engine = await start_engine()
    rules = engine.rules
    run = await rules.add(ALWAYS, Rule("*", "run"), [tool, two])
    deny = await rules.add(ALWAYS, Rule("*", "deny"), [tool, two])
    assert (set(run.bound or ()), deny.bound) == ({"one", "two"}, None)
    later = [replace(tool, description="Another."), mock("three")]
    changes = await rules.binding_states([run, deny], later)
    assert changes == [{"one": "changed", "two": "gone", "three": "new"}, None]
    assert rules.rule_list(ALWAYS)[0].bound == run.bound, "looking binds nothing"
    switched = await rules.switch(ALWAYS, run.id, enabled=False)
    assert switched.bound == run.bound
    renewed = await rules.renew(ALWAYS, run.id, later)
    assert await rules.binding_states([renewed], later) == [
        {"one": "same", "two": "gone", "three": "same"}
    ]
    await rules.delete(ALWAYS, run.id)
    back, _ = await rules.restore(ALWAYS, run.id)
    assert back.bound == renewed.bound, "had back as it was, not bound anew"


async def test_a_rule_goes_from_a_session_to_always_and_back(engine: Engine) -> None:
    rules, tool = engine.rules, mock("one")
    session_id = await create_session(engine, [tool])
    rule = await rules.add(session_id, Rule("one", "run"), [tool])
    assert rule.here == session_id
    handed_rule = await rules.move_to_list(session_id, rule.id, ALWAYS)
    assert (order(engine, session_id), order(engine)) == ("", "one")
    assert (handed_rule.id, handed_rule.here, handed_rule.bound) == (
        rule.id,
        session_id,
        rule.bound,
    )
    back = await rules.move_to_list(ALWAYS, rule.id, "other")
    assert (back.here, order(engine, "other"), order(engine)) == ("other", "one", "")


async def test_a_change_for_always_decides_no_call_that_waits_elsewhere(engine: Engine) -> None:
    """An `ask` that is taken away uncovers a `run` below it, which must not reach back."""
    rules = engine.rules
    ask = await rules.add(ALWAYS, Rule("*", "ask"), ())
    run = await rules.add(ALWAYS, Rule("*", "run"), ())
    rules._clock = lambda: run.since_ms + 1_000
    await rules.delete(ALWAYS, ask.id)
    assert [rule.since_ms for rule in rules.rule_list(ALWAYS)] == [run.since_ms + 1_000]


async def test_a_tool_of_a_server_is_bound_as_it_was_accepted(start_engine: StartEngine) -> None:
    """Nothing is started: the command here could not be."""
    server = Server("far", "/no/such/program", ())
    tool = Tool("t", "A tool.", ANY, "mcp", {"server": "far", "tool": "t"})
    engine = await start_engine()
    rules, library = engine.rules, engine.library
    none = await rules.add(ALWAYS, Rule("t", "run"), [tool])
    assert none.bound == {}
    await library.save_server(server, Acceptance(fingerprint(server), {"t": "1" * 64}), 1)
    rule = await rules.add(ALWAYS, Rule("t", "run"), [tool])
    assert await rules.binding_states([none, rule], [tool]) == [{"t": "new"}, {"t": "same"}]
    await library.save_server(server, Acceptance(fingerprint(server), {"t": "2" * 64}), 1)
    assert await rules.binding_states([rule], [tool]) == [{"t": "changed"}]
    await library.save_server(server, Acceptance("0" * 64, {"t": "1" * 64}), 1)
    assert await rules.binding_states([rule], [tool]) == [{"t": "changed"}]


async def test_what_cannot_be_told_in_time_is_not_bound(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    monkeypatch.setattr("playground.engine.rules.BIND_S", 0.01)
    engine = await start_engine()

    async def never(*_: object) -> CallCheck:
        await asyncio.Event().wait()
        return CallCheck()

    monkeypatch.setattr(engine.executors.by_kind["mock"], "check_before_run", never)
    adding = engine.rules.add(ALWAYS, Rule("*", "run"), [mock("one")])
    async with asyncio.timeout(20):
        rule, other = await asyncio.gather(
            adding, engine.rules.add(ALWAYS, Rule("*", "deny"), [mock("one")])
        )
        changes = await engine.rules.binding_states([rule, other], [mock("one")])
    assert (rule.bound, changes) == ({}, [{"one": "new"}, None])
    assert engine.rules.rule_list(ALWAYS) == (other, rule), "others do not wait for it"


async def test_a_rule_that_was_changed_meanwhile_is_not_renewed(engine: Engine) -> None:
    rule = await engine.rules.add(ALWAYS, Rule("one", "run"), [mock("one")])
    bound = engine.rules.bind

    async def slow(rule: Rule, tools: Any) -> Rule:
        await engine.rules.switch(ALWAYS, rule.id, enabled=False)
        return await bound(rule, tools)

    engine.rules.bind = slow  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="just changed"):
        await engine.rules.renew(ALWAYS, rule.id, [mock("one")])
    assert not engine.rules.rule_list(ALWAYS)[0].enabled


async def test_a_rule_is_written_by_the_lists_that_were_seen_alone(engine: Engine) -> None:
    """A deny may come while a proposed rule waits for its turn to be written."""
    rules = engine.rules
    for into, other in (("s", ALWAYS), (ALWAYS, "s"), ("s", "s")):
        known_rules = {text: rules.rule_list(text) for text in ("s", ALWAYS)}
        await rules.add(other, Rule("w", "deny"), ())
        count = len(rules.rule_list(into))
        with pytest.raises(Conflict, match="Check the rule again"):
            await rules.add(into, Rule("w", "run"), (), 0, known_rules)
        assert len(rules.rule_list(into)) == count
    known_rules = {text: rules.rule_list(text) for text in ("s", ALWAYS)}
    await rules.add("s", Rule("w", "run"), (), None, known_rules)


async def test_an_edit_replaces_only_what_was_read(engine: Engine) -> None:
    rules = engine.rules
    rule = await rules.add("s", Rule("w", "run"), ())
    base = base_of(rule)
    await rules.switch("s", rule.id, enabled=False)
    edited = await rules.edit("s", rule.id, Rule("w", "deny"), (), base=base)
    assert not edited.enabled, "not switched on by the way"
    with pytest.raises(Conflict, match="It is now “deny w”"):
        await rules.edit("s", rule.id, Rule("w", "run"), (), base=base)
    assert rules.rule_list("s") == (edited,)
    bound = rules.bind

    async def slow(rule: Rule, tools: Any) -> Rule:
        rules.bind = bound  # type: ignore[method-assign]
        await rules.edit("s", rule.id or edited.id, Rule("w", "stop"), ())
        await rules.switch("s", edited.id, enabled=True)
        return await bound(rule, tools)

    rules.bind = slow  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="It is now “stop the run at w”"):
        await rules.edit("s", rule.id, Rule("w", "run"), ())
    assert rules.rule_list("s")[0].enabled


async def test_what_is_not_among_the_tools_stays_bound_as_it_was(start_engine: StartEngine) -> None:
    own, other = mock("own"), mock("other")
    engine = await start_engine()
    rules = engine.rules
    stored_data = (await rules.add(ALWAYS, Rule("*", "run"), [own])).bound
    rule = rules.rule_list(ALWAYS)[0]
    renewed = await rules.renew(ALWAYS, rule.id, [other])
    assert await rules.binding_states([renewed], [own, other]) == [{"own": "same", "other": "same"}]
    edited = await rules.edit(ALWAYS, rule.id, Rule("own", "run"), [other])
    assert edited.bound == stored_data
    changed = replace(own, description="Another.")
    assert (await rules.renew(ALWAYS, rule.id, [changed])).bound != stored_data


@pytest.mark.parametrize(
    ("since", "place", "note"),
    [
        ([], 0, ""),
        ([Rule("q", "deny"), Rule("w", "run")], 0, ""),
        ([Rule("w", "deny")], 3, "after the rule “deny w”"),
        ([Rule("*", "stop")], 3, "after the rule “stop the run at every tool”"),
        ([Rule("w", "ask", enabled=False)], 3, "after the rule “ask w”"),
    ],
)
async def test_undo_puts_nothing_before_what_was_written_since(
    since: list[Rule], place: int, note: str, engine: Engine
) -> None:
    rules = engine.rules
    run = await rules.add("s", Rule("w", "run"), ())
    for literal in ("ask", "run"):
        await rules.add("s", Rule("w", literal), ())
    await rules.delete("s", run.id)
    for rule in since:
        await rules.add("s", rule, ())
    back, message = await rules.restore("s", run.id)
    assert (rules.rule_list("s").index(back), note in message, bool(message)) == (
        place,
        True,
        bool(note),
    )


async def test_a_change_for_always_ends_what_a_rule_had_of_its_session(engine: Engine) -> None:
    rules = engine.rules
    rule = await rules.add("s", Rule("w", "run"), ())
    assert (await rules.move_to_list("s", rule.id, ALWAYS)).here == "s"
    again = await rules.add(ALWAYS, Rule("x", "ask"), ())
    assert rules.rule(ALWAYS, rule.id).here == "s", "nothing that stood there has changed"
    await rules.delete(ALWAYS, again.id)
    assert rules.rule(ALWAYS, rule.id).here == ""
    by_card = await rules.renew_for(
        ALWAYS, rule_id=rule.id, base=base_of(rule), name="w", print_="1" * 64, session_id="t"
    )
    assert (by_card.here, by_card.bound) == ("t", {"w": "1" * 64})
    await rules.delete(ALWAYS, rule.id)
    assert (await rules.restore(ALWAYS, rule.id))[0].here == ""
