"""Sessions in every state that a page of one can be in, for `bench/walk_pages.py`.

Each is brought there by the JSON face and stays there: an answer that stalls and a call that takes
its time are given an hour, agents behind taps wait in threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import httpx

from tests.browser.serving import Server
from tests.browser.test_held import WEATHER

HOUR_S = 3600
BOUND_S = 60
TWO = "What is 17*23, and the weather in Paris?"
RUN_ALL: Any = [{"tool": "*", "action": "run"}]
SLOW: Any = {
    "name": "look_up",
    "description": "Look one word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    "config": {"result": "It means much.", "delay_s": 600},
    "timeout_s": 600,
}
ASK_MARIA: Any = {
    "name": "ask_colleague",
    "description": "Ask a colleague a question and wait for the answer.",
    "parameters": {"type": "object", "properties": {"question": {"type": "string"}}},
    "answered_by": "person",
}
FAILS: Any = {
    "name": "look_up",
    "description": "Look one word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    "config": {"result": "The directory is closed.", "is_error": True},
}


def rested(server: Server, state: str, prompt: str, tools: Any = None, **settings: Any) -> str:
    """A session that has come to `state`; its id."""
    tools_field = {} if tools is None else {"tools": tools}
    session_id = server.session(prompt, **tools_field, **settings)
    server.comes_to(session_id, state)
    return session_id


def decide(server: Server, session_id: str, decision: str, **more: Any) -> None:
    """The same decision on each call of a session that waits."""
    for call in server.get_session(session_id)["calls"]:
        path = f"/sessions/{session_id}/calls/{call['id']}/decision"
        server.post(path, {"decision": decision, "digest": call["digest"], **more})


def arriving(server: Server, prompt: str, kind: str = '"part_delta"') -> str:
    """A session whose answer stands still while it arrives."""
    session_id = server.session(prompt, idle_s=HOUR_S)
    _come(server, session_id, kind)
    return session_id


def at_work(server: Server) -> str:
    """A session one of whose calls runs."""
    session_id = server.session("Look up the word tide.", [SLOW], rules=RUN_ALL)
    _come(server, session_id, '"call_started"')
    return session_id


def _come(server: Server, session_id: str, kind: str) -> None:
    """Return when an event of that kind is in the log."""
    live = {"Accept": "text/event-stream"}
    with server.script.stream("GET", f"/sessions/{session_id}/events", headers=live) as events:
        for line in events.iter_lines():
            if kind in line:
                return
    raise AssertionError(f"no {kind} came")


def held_call(server: Server) -> str:
    """A session of an agent two of whose calls are held."""
    url = _tap(server, "calls")
    question = "What is the weather in Oslo? [[fault:parallel-2]]"
    Thread(target=_asked, args=(url, [question]), daemon=True).start()
    return _of_agent(server, question)


def held_result(server: Server) -> str:
    """A session of an agent whose result is held on its way to the model."""
    url = _tap(server, "results")
    question = "What is the weather in Rome?"
    content = _asked(url, [question], stream=False).json()["content"]
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "Sunny, 21 degrees."}
        for block in content
        if block["type"] == "tool_use"
    ]
    messages = [question, ("assistant", content), results]
    Thread(target=_asked, args=(url, messages), daemon=True).start()
    return _of_agent(server, question)


def _tap(server: Server, stop_at: str) -> str:
    result = server.post("/taps", {"agent": "claude", "stop_at": stop_at})
    return str(result["urls"]["anthropic"])


def _asked(url: str, lines: list[Any], *, stream: bool = True) -> httpx.Response:
    """What an agent gets for its request, whenever that is over."""
    messages = [
        {"role": item[0], "content": item[1]}
        if isinstance(item, tuple)
        else {"role": "user", "content": item}
        for item in lines
    ]
    body = {"model": "simulator", "max_tokens": 1000, "stream": stream, "messages": messages}
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "none"}
    try:
        return httpx.post(
            f"{url}/v1/messages", json={**body, "tools": [WEATHER]}, headers=headers, timeout=HOUR_S
        )
    except httpx.HTTPError:  # the server ends before the agent does
        return httpx.Response(503)


def _of_agent(server: Server, words: str) -> str:
    """The session of an agent that asked with these words, once it waits."""
    ends = monotonic() + BOUND_S
    while monotonic() < ends:
        for session in server.get("/sessions"):
            if words in session["title"]:
                server.comes_to(session["id"], "waiting")
                return str(session["id"])
        sleep(0.1)
    raise AssertionError(f"no agent asked {words!r}")


def states(server: Server, folder: Path) -> dict[str, tuple[str, str]]:
    """By the name of each state: the path of its page, and the key or the button that is pressed
    there."""
    rule = rested(server, "idle", TWO, rules=RUN_ALL)
    waiting = rested(server, "waiting", TWO)
    alone = rested(server, "waiting", "What is the weather in Oslo?")
    document: dict[str, Callable[[], str]] = {
        "empty": server.session,
        "streams-text": lambda: arriving(server, f"Say {'words ' * 40} [[fault:stall-after-9]]"),
        "streams-arguments": lambda: arriving(server, f"{TWO} [[fault:stall-after-18]]"),
        "needs-approval": lambda: waiting,
        "needs-answer": lambda: rested(server, "waiting", "Ask Maria about it.", [ASK_MARIA]),
        "runs": lambda: at_work(server),
        "ran": lambda: rule,
        "ran-with-error": lambda: rested(
            server, "idle", "Look up the word tide.", [FAILS], rules=RUN_ALL
        ),
        "denied": lambda: _decided(server, "deny", text="Not today."),
        "answered": lambda: _decided(server, "answer", text="It is what it is."),
        "failed": lambda: rested(server, "failed", "Say hello [[fault:http-500]]", max_retries=0),
        "cut": lambda: rested(
            server, "interrupted", f"{TWO} [[fault:clean-end-mid-args]]", max_retries=0
        ),
        "paused": lambda: rested(
            server,
            "paused",
            "What is the weather in Oslo? [[fault:loop]]",
            rules=RUN_ALL,
            max_turns=2,
            max_repeats=0,
        ),
        "schema-problem": lambda: rested(
            server, "waiting", "What is the weather in Oslo? [[fault:args-wrong-types]]"
        ),
        "no-json": lambda: rested(
            server, "waiting", "What is the weather in Oslo? [[fault:args-truncated]]"
        ),
        "stopped": lambda: _stopped(server),
        "held-call": lambda: held_call(server),
        "held-result": lambda: held_result(server),
    }
    paths = {name: (f"/sessions/{make()}", "") for name, make in document.items()}
    shared = server.script.get(f"/sessions/{rule}/export?as=html", headers={"accept": "*/*"})
    file = folder / "shared.html"
    file.write_bytes(shared.raise_for_status().content)
    compared = f"/compare?session={rule}&session={waiting}"
    return {
        **paths,
        "replay": (f"/sessions/{rule}?at=9", ""),
        "compare-live": (f"{compared}&view=live", ""),
        "compare-turns": (f"{compared}&view=turns", ""),
        "shared": (file.as_uri(), ""),
        "edited": (f"/sessions/{alone}", ".card [data-key=e]"),
        "answering": (f"/sessions/{alone}", ".card [data-key=h]"),
        "denying": (f"/sessions/{alone}", ".card [data-key=d]"),
        "presented": (f"/sessions/{rule}", "p"),
        "palette": (f"/sessions/{rule}", "Control+k"),
        "keys": (f"/sessions/{rule}", "?"),
    }


def _decided(server: Server, decision: str, **more: Any) -> str:
    session_id = rested(server, "waiting", TWO)
    decide(server, session_id, decision, **more)
    server.comes_to(session_id, "idle")
    return session_id


def _stopped(server: Server) -> str:
    session_id = arriving(server, f"Say {'words ' * 40} [[fault:stall-after-9]]")
    server.post(f"/sessions/{session_id}/stop", {})
    server.comes_to(session_id, "interrupted")
    return session_id


def end_agents(server: Server) -> None:
    """Let go of the agents that wait: what a server leaves behind would be told as errors."""
    for session in server.get("/sessions"):
        if session["tapped"] and session["state"] in ("waiting", "running"):
            server.post(f"/sessions/{session['id']}/stop", {})
