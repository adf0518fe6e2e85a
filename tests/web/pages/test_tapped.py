"""The page of a session that an agent runs: it is read and stopped here, and nothing of it is sent
or run; whatever reads sessions reads it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from playground.core.errors import Refused
from playground.core.session import Session
from playground.engine.engine import Engine
from playground.exchange.export_formats import EXPORTS
from playground.net.client import NetworkError
from playground.web.app import make_app
from tests.tap.agent import FakeAgent, end, make_agent, worked
from tests.waiting import wait_while_running
from tests.web.asking import BEARER, HERE, JSON, PAGE, PORT, TOKEN, call, scope_of
from tests.web.test_providers import Asked, _nothing

pytestmark = pytest.mark.anyio

MAY = {
    *("rename", "stop", "continue", "pin", "unpin", "archive", "unarchive", "tags", "delete"),
    *("fork", "play", "wire", "rules", "rules/look"),
}
"""What forms of its page may lead to."""

ACTION = re.compile(r'action="/sessions/[0-9a-f]+/([^"?]+)"')


class Here(Asked):
    """The app around the engine of an agent's sessions."""

    def __init__(self, agent: FakeAgent) -> None:
        engine = agent.sessions.engine
        self.app, self.site = make_app(engine, token=TOKEN, port=lambda: PORT, simulator=_nothing)

    async def page(self, path: str) -> str:
        output = await self.get(path, PAGE)
        assert output.status == 200, output.body
        return output.body.decode()

    async def json(self, path: str, body: Any = None) -> Any:
        output = await (self.get(path, JSON) if body is None else self.post(path, body, JSON))
        assert output.status in (200, 201), output.body
        return json.loads(output.body)


async def session_of(agent: FakeAgent, session_id: str) -> Session:
    async with agent.sessions.engine.sessions.lock_session(session_id) as live:
        return live.session


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


async def test_its_page_offers_what_can_be_done_in_each_state(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    first = await agent.ask("List the files.")
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    path = f"/sessions/{session_id}"

    async def fetch_page(*parts: str, no: tuple[str, ...] = (), tab: str = "wire") -> str:
        html = await here.page(f"{path}?tab={tab}")
        assert set(ACTION.findall(html)) <= MAY, (parts, tab)
        assert 'id="prompt"' not in html
        text = words(html)
        for part in ("List the files.", "Claude Code", *parts):
            assert part in text, part
        for part in ("Retry", "Always for", "Stage a", "Cancel this call", "+30 s", *no):
            assert part not in text, part
        assert 'href="/agents"' in html
        assert f'href="{path}/fork"' in html
        return html

    runs = "Claude Code runs this session. Its next requests appear here."
    await fetch_page(runs, "Stop", "Waiting for the first byte")
    await agent.answer(first, ("Bash", {"command": "ls"}))
    html = await fetch_page(runs, "running at the agent", "This tap stops at nothing", "Stop")
    assert 'data-limit=""' in html
    answer = await agent.ask(agent.result_block("Bash", "a.txt"))
    await fetch_page("ran at the agent", "a.txt", "with a result from the agent")
    await agent.answer(answer, "There is a.txt.")
    await fetch_page(runs, no=("Let it continue",))
    cut = await agent.ask("And now?")
    await here.json(path + "/stop", {})
    stopped = "You stopped this session. Its agent's requests are refused."
    html = await fetch_page(stopped, "Let it continue", no=(runs,))
    assert "/continue" in "".join(re.findall(r'action="[^"]+"', html))
    with pytest.raises(Refused):
        await agent.ask()
    await end(cut, NetworkError("interrupted", "x", began=True))
    await here.json(path + "/continue", {})
    await fetch_page(runs, no=(stopped,))
    gone = await agent.ask()
    await gone.leave()
    for tab in ("setup", "request", "code"):
        await fetch_page("The agent disconnected before it had this answer.", tab=tab)


async def test_a_result_that_never_came_asks_for_nothing(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    calls = ("Bash", {"command": "ls"}), ("Read", {"path": "a"})
    await agent.answer(await agent.ask("Go."), *calls)
    agent.messages.append(
        {"role": "user", "content": [agent.result_block("Read", "x", is_error=True)]}
    )
    await agent.answer(await agent.ask("Leave it."), "Fine.")
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    session = await session_of(agent, session_id)
    assert [each.status for each in session.calls()] == ["interrupted", "done"]
    assert (session.state, session.waits) == ("idle", 0)
    text = words(await here.page(f"/sessions/{session_id}"))
    assert "The result never arrived here." in text
    assert "error at the agent" in text
    assert "needs a decision" not in text


async def test_what_the_agent_did_to_its_history_stands_in_the_flow(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    session_id = await worked(agent)
    agent.messages[0]["content"] = [{"type": "text", "text": "Something else."}]
    await agent.answer(await agent.ask("Go on."), "Done.")
    flow = (await here.page(f"/sessions/{session_id}")).partition('id="flow"')[2]
    marker = flow.index("The agent changed 1 of its earlier")
    text = (await here.json(f"/sessions/{session_id}/export?as=markdown"))["text"]
    assert "Run by Claude Code, not here." in text
    assert "Run at the agent, in" in text
    assert text.index("There is a.txt") < text.index("*The agent changed 1") < text.index("Go on.")
    assert flow.index("There is a.txt.") < marker < flow.index("Go on.")
    assert 'class="forkline" id="mark-1"' in flow


async def test_nothing_is_sent_or_run_from_here(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    await agent.answer(await agent.ask("Go."), ("Bash", {"command": "ls"}))
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    before = await session_of(agent, session_id)
    seq, bash = before.seq, next(before.calls())
    requests: list[tuple[str, Any]] = [
        ("prompts", {"text": "Hello"}),
        ("settings", {"model": "another"}),
        ("retry", {}),
        ("continue", {"max_turns": 20}),
        ("decisions", [{"call": bash.id, "decision": "run", "digest": bash.digest}]),
        (f"calls/{bash.id}/decision", {"decision": "deny", "digest": bash.digest}),
        (f"calls/{bash.id}/cancel", {}),
        (f"calls/{bash.id}/extend", {"seconds": 30}),
        (f"calls/{bash.id}/background", {}),
    ]
    for path, body in requests:
        output = await here.post(f"/sessions/{session_id}/{path}", body, JSON)
        message = output.body.decode()
        assert output.status in (409, 422) or path == "decisions", (path, output.status)
        why = "already decided" if "decision" in path else "An agent runs this session"
        assert why in message, (path, message)
    assert (await session_of(agent, session_id)).seq == seq


async def test_setup_and_request_say_what_the_agent_asked_last(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    session_id = await worked(agent)
    setup = words(
        (await here.page(f"/sessions/{session_id}?tab=setup")).partition('id="panel-setup"')[2]
    )
    for part in (
        "Settings of the last request of Claude Code.",
        "claude-opus-4",
        "Bash",
        "Runs a command.",
    ):
        assert part in setup, part
    request = await here.json(f"/sessions/{session_id}/request")
    body = json.loads(request["body"])
    assert body["messages"] == agent.messages[:-1]
    assert request["url"] == "https://api.anthropic.com/v1/messages?beta=true"
    assert "as received" in request["says"][0]


async def test_the_list_folds_what_an_agent_does_on_the_side(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    agent.ids = {"x-claude-code-session-id": "t"}
    open_answer = await agent.ask("Build a house.")
    aside = FakeAgent(agent.sessions, agent.tap, system="A title.", tools=(), ids=agent.ids)
    await aside.answer(await aside.ask("Name this."), "House")
    await agent.answer(open_answer, "Built.")
    html = await here.page("/sessions/" + (await engine.log.tapped_sessions(agent.tap.id, 9))[0])
    listed = html.partition('id="list"')[2].partition("</nav>")[0]
    top, _, below = listed.partition('class="below"')
    assert "Build a house." in words(top)
    assert "Claude Code" in words(top)
    assert re.search("1 side session.*Name this.", words(below))
    page_data = await here.json("/find?q=name&is=agent")
    assert [hit["title"] for hit in page_data["hits"]] == ["Name this."]
    agents = await here.page("/agents")
    assert "Build a house." in agents
    assert "Name this." not in agents.partition('id="taps"')[2]
    assert (await engine.log.summaries(limit=1))[0].agent == "claude"


async def test_whatever_reads_sessions_reads_it(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    session_id = await worked(agent)
    path = f"/sessions/{session_id}"
    seq = (await session_of(agent, session_id)).seq
    pages = [
        *(f"{path}?at={at}" for at in range(1, seq + 1, 3)),
        *(f"{path}/{name}" for name in ("fork", "forks", "share", "files")),
        *(f"{path}/fork?{place}" for place in ("prompt=1", "turn=2", "call=1.1")),
        f"{path}?column=1",
        f"/compare?session={session_id}&session={session_id}",
        f"/compare?session={session_id}&session={session_id}&view=live",
        f"/compare/new?session={session_id}",
        "/find?q=files",
    ]
    for page in pages:
        output = await here.get(page, PAGE)
        assert output.status == 200, (page, output.body[-400:])
    for name in EXPORTS:
        text = (await here.json(f"{path}/export?as={name}"))["text"]
        assert "ls" in text, name
    for data in ("replay", "replay/reel", "replay/at?seq=9", "code", "forks"):
        await here.json(f"{path}/{data}")
    assert (await here.json(path))["tapped"]["agent"] == "claude"


async def test_an_imported_one_is_only_read(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    await agent.answer(await agent.ask("Go."), ("Bash", {"command": "ls"}))
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    log = (await here.json(f"/sessions/{session_id}/export?as=jsonl"))["text"]
    scope = scope_of("POST", "/sessions/import", [("host", HERE), BEARER, JSON])
    imported = json.loads((await call(here.app, scope, [log.encode()])).body)["id"]
    assert await engine.log.tapped_sessions(agent.tap.id, 9) == [session_id]
    session = await session_of(agent, imported)
    assert (session.state, next(session.calls()).status) == ("interrupted", "interrupted")
    html = await here.page(f"/sessions/{imported}")
    assert set(ACTION.findall(html)) <= {"delete", "play", "wire"}
    assert "From someone else." in html
    assert "Claude Code" in html


async def test_a_fork_of_it_is_ours(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    await agent.answer(await agent.ask("Go."), ("Bash", {"command": "ls"}))
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    child = (await here.json(f"/sessions/{session_id}/fork", {}))["id"]
    session = await wait_while_running(engine, child)
    assert (session.tapped, session.state, session.waits) == (None, "waiting", 1)
    assert await engine.log.tapped_sessions(agent.tap.id, 9) == [session_id]
    html = await here.page(f"/sessions/{child}")
    assert 'id="prompt"' in html
    assert "needs an answer" in words(html)
    before = await here.json(f"/sessions/{session_id}")
    assert before["calls"][0]["status"] == "running"


async def test_with_its_tap_an_agents_calls_are_over(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    here.site.taps = agent.sessions.taps
    await agent.answer(await agent.ask("Go."), ("Bash", {"command": "ls"}))
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    assert (await session_of(agent, session_id)).state == "running"
    await here.json(f"/taps/{agent.tap.id}/revoke", {})
    session = await session_of(agent, session_id)
    assert (session.state, session.waits) == ("interrupted", 0)
    assert "The result never arrived here." in words(await here.page(f"/sessions/{session_id}"))


async def test_side_by_side_it_takes_no_message(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    session_id = await worked(agent)
    html = await here.page(f"/compare?session={session_id}&view=live")
    assert "an agent runs it" in words(html)
    output = await here.post("/compare/prompts", {"sessions": [session_id], "text": "x"}, JSON)
    assert output.status == 409


async def test_what_the_agent_adds_to_a_prompt_is_folded(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    added = "<system-reminder>\nDo not say this.\n</system-reminder>"
    await agent.answer(await agent.ask(added, "List the <b-c> files."), "Fine.")
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    html = await here.page(f"/sessions/{session_id}")
    flow = html.partition('id="flow"')[2]
    folded, _, rest = flow.partition("</details>")
    assert "Do not say this." in folded
    assert "system-reminder 16 characters" in words(folded)
    assert "List the &lt;b-c&gt; files." in rest.partition("</section>")[0]
    message = "Skills.\n" + 200 * "- init\n"
    agent.messages.append({"role": "system", "content": message})
    await agent.answer(await agent.ask(), "Fine.")
    html = await here.page(f"/sessions/{session_id}")
    output = words(html.partition('aria-label="System"')[2])
    assert re.match(r">?\s*System Skills\. 1.40\d characters", output), output[:80]
    prompt = {"text": "And then?", "go": False}
    child = (await here.json(f"/sessions/{session_id}/fork", prompt))["id"]
    forked = words((await here.page(f"/sessions/{child}")).partition('id="flow"')[2])
    assert "User system-reminder" in forked
    assert "You And then?" in forked


async def test_stop_while_a_call_runs_at_the_agent(engine: Engine) -> None:
    """It runs on there; its result is taken once the session is let go on."""
    agent = await make_agent(engine)
    here = Here(agent)
    await agent.answer(await agent.ask("Go."), ("Bash", {"command": "ls"}))
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    await here.json(f"/sessions/{session_id}/stop", {})
    session = await session_of(agent, session_id)
    assert (session.state, session.call("1.0").status) == ("interrupted", "running")
    html = await here.page(f"/sessions/{session_id}")
    assert "Let it continue" in html
    assert "running at the agent" not in html
    assert "data-ran" not in html
    await here.json(f"/sessions/{session_id}/continue", {})
    assert "running at the agent" in await here.page(f"/sessions/{session_id}")
    await agent.answer(await agent.ask(agent.result_block("Bash", "a.txt")), "Fine.")
    assert (await session_of(agent, session_id)).call("1.0").status == "done"


async def test_as_code_a_request_is_sent_again_with_our_key(engine: Engine) -> None:
    """What belongs to the agent's connection, and its key, is none of it."""
    agent = await make_agent(engine)
    here = Here(agent)
    session = {"x-claude-code-session-id": "t-1"}
    left = {"x-api-key": "sk-ant-api03-of-the-agent", "host": "here", "content-length": "9"}
    agent.ids = {**session, **left}
    path = f"/sessions/{await worked(agent)}"
    code = await here.json(path + "/code")
    script = (await here.json(path + "/export?as=curl"))["text"]
    for text in (code["curl"], script):
        assert "-H 'x-api-key: '\"$ANTHROPIC_API_KEY\"" in text
        assert "-H 'x-claude-code-session-id: t-1'" in text
        assert not re.search("of-the-agent|the agent's own|host: |content-length: ", text)
    assert "ANTHROPIC_API_KEY" in code["notes"][0]
    request = await here.json(path + "/request")
    assert request["headers"]["x-api-key"] == "(the agent's own)"


async def test_what_a_request_changed_is_shown_with_what_its_cache_says(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    agent.usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 9000,
        "cache_creation_input_tokens": 500,
        "output_tokens": 80,
    }
    await agent.answer(await agent.ask("List the files."), "Which ones?")
    agent.usage = {**agent.usage, "cache_read_input_tokens": 0}
    agent.system, agent.tools = "You are the other agent.", agent.tools[:1]
    await agent.answer(await agent.ask("All of them."), "There are none.")
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    path = f"/sessions/{session_id}"
    (listed,) = await here.json("/sessions")
    assert listed["tapped"] == {"tap": agent.tap.id, "agent": "claude", "parent": ""}
    setup = await here.page(f"{path}?tab=setup")
    assert 'id="session-rules"' in setup
    assert "needs your approval" not in setup
    output = await here.json(f"{path}/requests/2/changes")
    assert output["missed"] is True
    assert output["tools"] == {"came": [], "went": ["Read"], "changed": []}
    assert (output["first"]["kind"], output["first"]["name"]) == ("tool", "Read")
    assert output["messages"] == {"before": 1, "now": 3, "same": 1}
    assert output["tokens"]["before"] | {"bytes": 0} == {
        **{"read": 9510, "cached": 9000, "cache_written": 500, "written": 80},
        "bytes": 0,
    }
    html = words(await here.page(f"{path}/requests/2/changes"))
    for part in (
        "request 2 against request 1",
        "Cache miss: the cached part ends before tool Read",
        "Removed tools Read",
        "read from cache 9 000 0 −9 000",
        "cache missed",
        "what changed",
    ):
        assert part in html, part
    for number in (0, 1, 3):
        assert (await here.get(f"{path}/requests/{number}/changes", JSON)).status == 404


async def test_a_run_is_shared_with_what_stands_below_it(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Here(agent)
    thread = {"x-claude-code-session-id": "s-1"}
    agent.ids = thread
    await agent.answer(await agent.ask("Look everywhere."), "I do.")
    (top,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    agent.ids, agent.messages = {**thread, "x-claude-code-agent-id": "a-1"}, []
    await agent.answer(await agent.ask("Look in b."), "sk-ant-api03-" + "s3cr3t" * 9)
    assert len(await engine.log.tapped_sessions(agent.tap.id, 9)) == 2
    path = f"/sessions/{top}"
    output = await here.json(f"{path}/export?as=html")
    assert 'id="data-1"' in output["text"]
    assert any(mark["where"].startswith("Look in b.: ") for mark in output["masked"])
    for query in ("as=html&without=beside", "as=jsonl"):
        output = await here.json(f"{path}/export?{query}")
        assert "data-1" not in output["text"].partition("<script>")[0]
        assert "Look in b." not in output["text"]
    html = words(await here.page(f"{path}/share?as=html"))
    assert "1 more session" in html
    assert "side sessions: its sub-agents and side requests" in html
