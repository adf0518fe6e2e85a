"""The rules over HTTP: for scripts, as a page without a script, and in Setup of every tab."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from playground.core.rules import Rule
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.rules import ALWAYS
from playground.web.rules_view import WORDS, rule_examples
from playground.web.site import Site
from playground.web.stream import Cursor, _next_messages
from tests.engines import StartEngine, create_session
from tests.markup import joined_tags
from tests.render.page import ENV
from tests.waiting import wait_while_running
from tests.web.asking import JSON, PAGE
from tests.web.test_providers import Asked

pytestmark = pytest.mark.anyio
CANARY = "canary-55f20b9e1d7c4a36"
HTMX = ("hx-request", "true")
FORM = {"tool": "calculator", "does": "deny", "reason": "No sums."}


def data(output: Any) -> Any:
    return json.loads(output.body)


@pytest.mark.parametrize("own", [False, True])
async def test_a_script_writes_reads_and_changes_rules(own: bool, engine: Engine) -> None:
    client = Asked(engine)
    session_id = await create_session(engine, ["calculator"])
    path = f"/sessions/{session_id}/rules" if own else "/rules"
    result = await client.post(path, {"tool": "calculator", "action": "run"}, JSON)
    item = data(result)
    assert (result.status, result.header("location")) == (201, f"{path}/{item['id']}")
    assert item == {
        "id": item["id"],
        "tool": "calculator",
        "action": "run",
        "text": "",
        "words": "",
        "said": "run calculator",
        "source": "",
        "read_only": False,
        "when": {},
        "is_error": False,
        "fault": "",
        "enabled": True,
        "proposed": False,
        "base": item["base"],
        "bound": {"calculator": "same"},
    }
    body = {"tool": "*", "action": "deny", "place": 0, "when": {"/a": {"one_of": [1]}}}
    first = data(await client.post(path, body, JSON))
    assert [row["id"] for row in data(await client.get(path, JSON))] == [first["id"], item["id"]]
    here = f"{path}/{first['id']}"
    moved = await client.post(f"{here}/move", {"place": 1}, JSON)
    assert (moved.status, data(moved)["id"]) == (200, first["id"])
    assert data(await client.post(f"{here}/switch", {"enabled": False}, JSON))["enabled"] is False
    edited = data(await client.post(here, {"tool": "x", "action": "stop"}, JSON))
    assert (edited["id"], edited["said"]) == (first["id"], "stop the run at x")
    assert edited["enabled"] is False, "not switched on by the way"
    assert (await client.post(f"{here}/delete", {}, JSON)).status == 200
    assert (await client.post(f"{here}/delete", {}, JSON)).status == 404
    assert (await client.post(f"{here}/restore", {}, JSON)).status == 200
    assert [row["id"] for row in data(await client.get(path, JSON))] == [item["id"], first["id"]]
    output = data(await client.post(f"{path}/look", {"tool": "y", "action": "ask"}, JSON))
    assert output == {"said": "Rule 3: ask y", "notes": []}


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("", {"tool": "x"}, 422, "tool and action"),
        ("", {"tool": "x", "action": "run", "place": -1}, 422, "place must be a whole number"),
        ("", {"tool": "x", "action": "run", "place": True}, 422, "place must be a whole number"),
        ("", {"tool": "x", "action": "deny", "text": CANARY}, 422, "contains the value of a key"),
        ("/look", {"tool": "x", "action": "no"}, 422, "action must be one of"),
        ("/look", {"tool": "x", "action": "deny", "words": CANARY}, 422, "the value of a key"),
        ("/look", {"tool": "x", "action": "deny", "source": CANARY}, 422, "must be one of"),
        ("/none", {"tool": "x", "action": "run"}, 404, "no longer exists"),
        ("/none/move", {"place": 0}, 404, "no longer exists"),
        ("/none/switch", {"enabled": "no"}, 422, "must be true or false"),
        ("/none/renew", {}, 404, "no longer exists"),
    ],
)
async def test_what_is_refused_changes_nothing(
    path: str, body: Mapping[str, Any], status: int, message: str, start_engine: StartEngine
) -> None:
    engine = await start_engine(environment={"MY_API_KEY": CANARY})
    output = await Asked(engine).post(f"/rules{path}", body, JSON)
    assert (output.status, message in data(output)["error"]) == (status, True), data(output)
    assert CANARY not in output.body.decode()
    assert engine.rules.version == 0
    bad = {"rules": [{"tool": "x", "action": "deny", "text": CANARY}]}
    assert (await Asked(engine).post("/sessions", bad, JSON)).status == 422
    assert await engine.log.summaries() == [], "no session without its rules"


async def test_a_deleted_session_keeps_its_rules_as_they_are(engine: Engine) -> None:
    client = Asked(engine)
    session_id = await create_session(engine, rules=[Rule("x", "deny")])
    await engine.runner.delete(session_id)
    (rule,) = engine.rules.rule_list(session_id)
    path = f"/sessions/{session_id}/rules"
    posts: list[tuple[str, dict[str, Any]]] = [
        ("", {"tool": "x", "action": "run"}),
        (f"/{rule.id}", {"tool": "x", "action": "run"}),
        *((f"/{rule.id}/{literal}", {"place": 0}) for literal in ("delete", "move", "renew")),
        *((f"/{rule.id}/{literal}", {}) for literal in ("restore", "switch", "always", "here")),
    ]
    for where, body in posts:
        assert (await client.post(path + where, body, JSON)).status == 409, where
    assert engine.rules.rule_list(session_id) == (rule,)
    assert data(await client.get(path, JSON))[0]["id"] == rule.id
    page = (await client.get(path, PAGE)).body.decode()
    assert "Restore it to change its rules" in page
    assert 'id="rule-form"' not in page
    assert (await client.get("/sessions/none/rules", JSON)).status == 404
    assert (await client.post("/sessions/none/rules", posts[0][1], JSON)).status == 404


async def test_the_page_without_a_script(engine: Engine) -> None:
    client = Asked(engine)
    empty = (await client.get("/rules", PAGE)).body.decode()
    assert "Every call needs your approval." in empty
    assert '<a href="/rules" aria-current="page">Rules</a>' in empty
    filled = (await client.get("/rules?template=shell", PAGE)).body.decode()
    assert "<b>Rule 1: deny run_shell</b>" in filled
    assert engine.rules.version == 0, "shown before it is written"

    for example in rule_examples():  # each is taken with one click
        assert f'aria-label="Add: {WORDS[example.rule.action][0]} {example.title}"' in empty
        assert (await client.post("/rules", example.fields, PAGE)).status == 303
    rules = engine.rules.rule_list(ALWAYS)
    assert [rule.sentence for rule in rules] == [
        rule_example.rule.sentence for rule_example in rule_examples()
    ]
    assert 'aria-label="Add:' not in (await client.get("/rules", PAGE)).body.decode()
    for rule in rules:
        await client.post(f"/rules/{rule.id}/delete", {}, PAGE)

    html = (await client.post("/rules/look", FORM, PAGE)).body.decode()
    assert "<b>Rule 1: deny calculator</b>" in html
    assert "No sums.</textarea>" in html
    result = await client.post("/rules", FORM, PAGE)
    (rule,) = engine.rules.rule_list(ALWAYS)
    assert (result.status, result.header("location")) == (303, f"/rules#rule-{rule.id}")
    run = {"tool": "*", "does": "run", "read_only": "on", "first": "on"}
    tests = {"pointer": ["/a", "", ""], "test": ["equals"] * 3, "value": ["3", "", ""]}
    assert (await client.post("/rules", run | tests, PAGE)).status == 303
    top = engine.rules.rule_list(ALWAYS)[0]
    assert (top.action, top.read_only, top.when) == ("run", True, {"/a": {"equals": 3}})

    page = (await client.get(f"/rules?edit={rule.id}", PAGE)).body.decode()
    assert f'action="/rules/{rule.id}"' in joined_tags(page)
    assert "Change the rule" in page
    await client.post(f"/rules/{rule.id}/switch", {"enabled": "false"}, PAGE)
    assert (await client.post(f"/rules/{rule.id}", FORM | {"reason": "B."}, PAGE)).status == 303
    now = engine.rules.rule(ALWAYS, rule.id)
    assert (now.text, now.enabled) == ("B.", False), "editing switches nothing on"
    assert (await client.post(f"/rules/{rule.id}/move", {"place": "0"}, PAGE)).status == 303
    assert engine.rules.rule_list(ALWAYS)[0].id == rule.id
    gone = await client.post(f"/rules/{rule.id}/delete", {"x": ""}, PAGE)
    assert gone.header("location") == f"/rules?deleted={rule.id}"
    page = (await client.get(f"/rules?deleted={rule.id}", PAGE)).body.decode()
    assert f'action="/rules/{rule.id}/restore"' in joined_tags(page)
    assert (await client.post(f"/rules/{rule.id}/restore", {"x": ""}, PAGE)).status == 303
    assert engine.rules.rule_list(ALWAYS)[0].id == rule.id


async def test_what_is_refused_stays_in_the_form(start_engine: StartEngine) -> None:
    engine = await start_engine(environment={"MY_API_KEY": CANARY})
    client = Asked(engine)
    half = FORM | {"pointer": ["/a"], "test": ["equals"], "value": [""]}
    output = await client.post("/rules", half, PAGE)
    page = output.body.decode()
    assert output.status == 422
    assert "Enter a value to compare /a with" in page
    assert 'value="/a"' in joined_tags(page)
    assert "No sums.</textarea>" in page
    for path in ("/rules", "/rules/look"):
        key = (await client.post(path, FORM | {"reason": CANARY}, PAGE)).body.decode()
        assert "contains the value of a key" in key
        assert CANARY not in key
    assert engine.rules.version == 0


async def test_a_changed_tool_is_shown_and_renewed(start_engine: StartEngine) -> None:
    tool = Tool("mine", "One.", {"type": "object", "properties": {}}, "mock", {"result": "x"})
    engine = await start_engine()
    client = Asked(engine)
    await engine.library.save(tool, 1)
    rule = data(await client.post("/rules", {"tool": "mine", "action": "run"}, JSON))
    assert b"applies to mine" in (await client.get("/rules", PAGE)).body
    await engine.library.save(Tool(**{**vars(tool), "description": "Two."}), 2)
    page = (await client.get("/rules", PAGE)).body.decode()
    assert "changed since, needs approval: mine" in page
    assert f'action="/rules/{rule["id"]}/renew"' in joined_tags(page)
    renewed = await client.post(f"/rules/{rule['id']}/renew", {}, JSON)
    assert data(renewed)["bound"] == {"mine": "same"}


async def test_a_new_rule_decides_what_waits_in_its_session(engine: Engine) -> None:
    client = Asked(engine)
    session_id = await create_session(engine, ["calculator"])
    await engine.runner.prompt(session_id, "What is 2 + 2? Use the calculator.")
    session = await wait_while_running(engine, session_id)
    assert session.state == "waiting"
    always = {"tool": "calculator", "action": "deny", "text": "No."}
    await client.post("/rules", always, JSON)
    assert (await wait_while_running(engine, session_id)).state == "waiting", (
        "not what came before it"
    )
    own = await client.post(f"/sessions/{session_id}/rules", FORM, HTMX, PAGE)
    assert own.status == 200
    session = await wait_while_running(engine, session_id)
    decided = session.turns[0].calls[0].decided
    assert decided is not None
    assert (decided.by, decided.decision, decided.text) == ("rule", "deny", "No sums.")


async def test_setup_hears_of_every_change_in_every_tab(start_engine: StartEngine) -> None:
    target = '<hx-partial hx-target="#session-rules" hx-swap="innerMorph">'
    engine = await start_engine()
    client, site = Asked(engine), Site(engine, ENV)
    session_id = await create_session(engine, ["calculator"])
    page = (await client.get(f"/sessions/{session_id}", PAGE)).body.decode()
    assert re.search(r'id="session-rules"[^>]*hx-morph-skip>\s*<div class="rulesin">', page)
    assert f"rules={engine.rules.version}" in page
    tab = Cursor(engine.sessions.position, -1, rules=engine.rules.version)
    script = Cursor(-1, 1, by_seq=True)
    assert target not in await _next_messages(site, session_id, tab, slow=True)
    version = engine.sessions.list_version
    rule = await engine.rules.add(session_id, Rule("calculator", "deny"), ())
    assert await engine.sessions.wait(engine.sessions.position, version, 5), "the stream wakes"
    sent = await _next_messages(site, session_id, tab, slow=False)
    assert (sent.count(target), f'id="rule-{rule.id}"' in sent) == (1, True)
    assert target not in await _next_messages(site, session_id, tab, slow=True)
    assert target not in await _next_messages(site, session_id, script, slow=True)
    await engine.rules.move_to_list(session_id, rule.id, ALWAYS)
    sent = await _next_messages(site, session_id, tab, slow=False)
    assert f"/rules/{rule.id}/here" in sent
    assert 'class="tag">always' in sent
    late = Cursor(engine.sessions.position, -1)
    assert target in await _next_messages(site, session_id, late, slow=False), "a page of before it"
    back = await client.post(f"/sessions/{session_id}/rules/{rule.id}/here", {}, JSON)
    assert (back.status, engine.rules.rule_list(ALWAYS)) == (200, ())


async def test_setup_without_a_script_leads_back_to_it(engine: Engine) -> None:
    client = Asked(engine)
    session_id = await create_session(engine, rules=[Rule("x", "deny"), Rule("y", "ask")])
    x, y = engine.rules.rule_list(session_id)
    path, setup = f"/sessions/{session_id}/rules", f"/sessions/{session_id}?tab=setup"
    moved = await client.post(f"{path}/{y.id}/move", {"at": "setup", "place": "0"}, PAGE)
    assert moved.header("location") == f"{setup}#rule-{y.id}"
    assert [rule.id for rule in engine.rules.rule_list(session_id)] == [y.id, x.id]
    drawn = await client.post(f"{path}/{y.id}/delete", {"at": "setup"}, HTMX, PAGE)
    assert f'action="{path}/{y.id}/restore?at=setup"' in drawn.body.decode()
    back = await client.post(f"{path}/{y.id}/restore?at=setup", {"x": ""}, PAGE)
    assert back.header("location") == f"{setup}#rule-{y.id}"


async def test_what_is_gone_is_said_beside_the_list_as_it_is(engine: Engine) -> None:
    client = Asked(engine)
    gone = data(await client.post("/rules", {"tool": "x", "action": "run"}, JSON))["id"]
    stored = data(await client.post("/rules", {"tool": "y", "action": "deny"}, JSON))["id"]
    await client.post(f"/rules/{gone}/delete", {}, JSON)
    for act, fields in (("/switch", {"enabled": "false"}), ("/move", {"place": "1"}),
                        ("/delete", {}), ("", FORM)):  # fmt: skip
        output = await client.post(f"/rules/{gone}{act}", fields, PAGE)
        assert output.status == 404
        assert "This rule no longer exists" in output.body.decode()
        assert f'id="rule-{stored}"' in output.body.decode()
    assert f'id="rule-{stored}"' in (await client.get(f"/rules?edit={gone}", PAGE)).body.decode()


async def test_the_form_says_what_would_never_hold(engine: Engine) -> None:
    client = Asked(engine)
    nothing = await client.post("/rules", {"tool": "*"}, PAGE)
    assert (nothing.status, data(await client.get("/rules", JSON))) == (422, [])
    assert "Choose an action" in nothing.body.decode()
    typed = {**FORM, "tool": "get_weather", "pointer": "/citty", "test": "equals"}
    typed["value"] = "Paris"
    output = await client.post("/rules/look", typed, PAGE, HTMX)
    assert "get_weather has no /citty; it has city" in output.body.decode()
    assert '<option value="/city">' in output.body.decode()
    half = await client.post("/rules/look", {**typed, "value": ""}, PAGE, HTMX)
    assert '<option value="/city">' in half.body.decode()
    # Behind one that always decides before it: written before that by one button.
    await client.post("/rules", {"tool": "y", "action": "deny"}, JSON)
    await client.post("/rules", {"tool": "*", "action": "deny"}, JSON)
    output = await client.post("/rules/look", FORM, PAGE, HTMX)
    assert 'name="before" value="1">Add it before rule 2<' in joined_tags(output.body.decode())
    await client.post("/rules", {**FORM, "before": "1"}, PAGE)
    assert [item["tool"] for item in data(await client.get("/rules", JSON))] == [
        "y", "calculator", "*"
    ]  # fmt: skip
    # A fault is the whole answer.
    both = {"tool": "x", "action": "answer", "fault": "error", "text": "so"}
    assert (await client.post("/rules", both, JSON)).status == 422


async def test_a_form_that_is_out_of_date_replaces_nothing_unread(engine: Engine) -> None:
    client = Asked(engine)
    result = data(await client.post("/rules", {"tool": "w", "action": "run"}, JSON))
    page = (await client.get(f"/rules?edit={result['id']}", PAGE)).body.decode()
    assert f'name="base" value="{result["base"]}"' in joined_tags(page)
    here, form = f"/rules/{result['id']}", FORM | {"tool": "w", "does": "run"}
    denies = data(await client.post(here, {"tool": "w", "action": "deny"}, JSON))
    stale = await client.post(here, form | {"base": result["base"]}, PAGE)
    page = stale.body.decode()
    assert (stale.status, "It is now “deny w”" in page) == (409, True)
    body = {"tool": "w", "action": "run", "base": result["base"]}
    assert (await client.post(here, body, JSON)).status == 409
    assert engine.rules.rule_list(ALWAYS)[0].action == "deny"
    assert f'name="base" value="{denies["base"]}"' in joined_tags(page)
    again = await client.post(here, form | {"base": denies["base"]}, PAGE)
    assert (again.status, engine.rules.rule_list(ALWAYS)[0].action) == (303, "run")


async def test_undo_says_where_the_rule_stands_now(engine: Engine) -> None:
    client = Asked(engine)
    for headers, message in (((JSON,), "“deny w”"), ((PAGE,), "/rules?moved=1#rule-")):
        rule = data(await client.post("/rules", {"tool": "w", "action": "run"}, JSON))
        await client.post(f"/rules/{rule['id']}/delete", {}, JSON)
        await client.post("/rules", {"tool": "w", "action": "deny"}, JSON)
        output = await client.post(f"/rules/{rule['id']}/restore", {"x": ""}, *headers)
        where = output.header("location") if output.status == 303 else data(output)["note"]
        assert message in str(where)
    assert "The rule was restored below" in (await client.get("/rules?moved=1", PAGE)).body.decode()


async def test_undo_of_a_rule_for_always_stays_on_the_page_of_the_session(engine: Engine) -> None:
    client = Asked(engine)
    item = data(await client.post("/rules", {"tool": "x", "action": "run"}, JSON))["id"]
    output = await client.post(f"/rules/{item}/delete", {}, PAGE, HTMX)
    assert (output.status, output.header("hx-redirect")) == (200, None)
    assert "The rule was deleted." in output.body.decode()
    assert f'action="/rules/{item}/restore"' in output.body.decode()
    back = await client.post(f"/rules/{item}/restore", {}, PAGE, HTMX)
    assert "From now on: run x." in back.body.decode()
