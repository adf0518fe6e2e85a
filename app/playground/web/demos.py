"""The demos of the first page: each a real session on the simulator that shows one thing."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import URL

from playground.core.errors import Conflict, NotFound, PlaygroundError, StoreError
from playground.core.events import PartEnded, PartStarted
from playground.core.serialization import to_data
from playground.core.session import Prompt, Session
from playground.core.settings import Limits
from playground.core.tools import Tool
from playground.engine.preview import profile_for_wire
from playground.engine.settings import settings_from
from playground.executors.workspace import Folder
from playground.net.client import HttpClient, NetworkError
from playground.protocols.registry import codec
from playground.simulator import CODING_AGENT
from playground.tap import agents as tap_agents
from playground.web.site import Site

log = logging.getLogger("playground")

GENERAL = (
    "What can you do, and with which tools?",
    "Try each of your tools once, and tell me what came back.",
    "Which arguments does each of your tools need?",
)
"""Prompts that suit any tools; the first one suits no tools, too."""

HEAD_S = 20.0
"""Timeout in seconds for the first answer to begin."""

MOST_AGENTS = 4
"""The maximum number of concurrent demo agents: each waits for its cards until a user decides."""

MOST_REQUESTS = 8
"""The maximum number of requests of the demo's agent."""

_PATH = {"type": "string", "description": "Path of the file."}
_TOOLS = [
    {
        "name": "read_file",
        "description": "Read a text file of the project and return its content.",
        "input_schema": {"type": "object", "properties": {"path": _PATH}, "required": ["path"]},
    },
    {
        "name": "edit_file",
        "description": "Replace one text in a file of the project by another.",
        "input_schema": {
            "type": "object",
            "properties": {
                "path": _PATH,
                "old_text": {"type": "string", "description": "The text to replace."},
                "new_text": {"type": "string", "description": "The replacement text."},
            },
            "required": ["path", "old_text", "new_text"],
        },
    },
]


@dataclass(frozen=True)
class Demo:
    """`tools` are names of the library; `own` are tools of the demo alone. `model` is the
    simulator's model if not the default one, `files` the initial files of the scratch folder. `tab`
    is the inspector tab that is opened. `page` is the page to open if the demo is not a session."""

    name: str
    title: str
    words: str
    prompt: str = ""
    tools: tuple[str, ...] = ()
    own: tuple[Tool, ...] = ()
    model: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    tab: str = ""
    page: str = ""


ASK_COLLEAGUE = Tool(
    "ask_colleague",
    "Ask a colleague a question and wait for the answer. Use it for opinions and approvals.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The person to ask, for example Maria."},
            "question": {"type": "string", "description": "The question, in one sentence."},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    answered_by="person",
)

BEHIND_A_TAP = "tap"
NOTES = {"notes.txt": "Release notes\n\nStatus: draft\nReviewed by: Maria\n"}
EDIT_NOTES = 'In notes.txt replace "draft" with "final".'

DEMOS: tuple[Demo, ...] = (
    Demo(
        "two-calls",
        "Two calls at once",
        "A calculator and a weather service. Run one, answer the other by hand.",
        "What is 17*23, and the weather in Paris?",
        ("calculator", "get_weather"),
    ),
    Demo(
        "wrong-types",
        "Arguments that do not fit",
        "The model sends a number instead of a string. Fix it with a click, or run it anyway.",
        "What is the weather in Oslo? [[fault:args-wrong-types]]",
        ("get_weather",),
    ),
    Demo(
        "schema-mistake",
        "A schema mistake, found and fixed",
        "A tool that no call can satisfy. The editor says why before any request is sent.",
        page="/tools?example=mistake",
    ),
    Demo(
        "protocols",
        "One request on five protocols",
        "The same prompt and tools as Anthropic, OpenAI, Gemini and Ollama expect them.",
        "What is 17*23, and the weather in Paris?",
        ("calculator", "get_weather"),
        tab="request",
    ),
    Demo(
        "workspace",
        "An agent edits a file",
        "The agent reads notes.txt in a scratch folder, then edits it. See the change and undo it.",
        EDIT_NOTES,
        ("read_file", "edit_file"),
        model=CODING_AGENT,
        files=NOTES,
    ),
    Demo(
        BEHIND_A_TAP,
        "An external agent, live",
        "An agent runs through a tap and stops at each call. Let it run, edit it, or deny it.",
    ),
    Demo(
        "progress",
        "A slow tool, step by step",
        "Watch a tool write a report for some seconds. You can cancel it.",
        "Write a slow report about tides, please.",
        ("slow_report",),
    ),
    Demo(
        "failing",
        "A tool that fails",
        "The lookup raises an error. The model reads it and continues.",
        "Look up the customer number 4711 in the flaky directory.",
        ("flaky_lookup",),
    ),
    Demo(
        "colleague",
        title="You are the tool",
        words="One call that only you can answer, next to one that runs.",
        prompt='Ask Maria "Shall we ship on Friday?" and tell me the weather in Lisbon.',
        tools=("get_weather",),
        own=(ASK_COLLEAGUE,),
    ),
)


def demo(name: str) -> Demo:
    """The demo of that name; NotFound if there is none."""
    for candidate in DEMOS:
        if candidate.name == name:
            return candidate
    raise NotFound(f"There is no demo {name!r}.")


def example_prompts(tools: Collection[str]) -> Sequence[str]:
    """Three prompts suitable for the tools of these names, one if there is no tool."""
    prompts = [
        demo.prompt
        for demo in DEMOS
        if demo.prompt and "[[" not in demo.prompt and not demo.own and not demo.files
        if set(demo.tools) <= set(tools)
    ]
    return list(dict.fromkeys((*prompts, *(GENERAL if tools else GENERAL[:1]))))[:3]


def is_demo(title: str, session: Session) -> bool:
    """Whether `start_demo` made the session: it has the title of a demo, and its prompt."""
    first = next((item.text for item in session.items if isinstance(item, Prompt)), "")
    named = re.sub(r" \(\d+\)$", "", title)
    return any(first == demo.prompt and named == demo.title for demo in DEMOS if demo.prompt)


async def start_demo(site: Site, name: str, protocol: str, base: URL) -> tuple[str, str]:
    """Starts a demo on `protocol`; returns its session, "" if it has none, and the page that shows
    it. `base` is the address of this server."""
    chosen, engine = demo(name), site.engine
    if chosen.page:
        return "", chosen.page
    title = await _free_title(site, chosen.title)
    if chosen.name == BEHIND_A_TAP:
        session_id = await _start_agent(site, title, str(base).rstrip("/"))
        return session_id, f"/sessions/{session_id}"
    tools: list[Any] = [*chosen.tools, *(to_data(tool) for tool in chosen.own)]
    profile = profile_for_wire(engine.profiles(), engine.profile("simulator"), protocol)
    asked = {"profile": profile.name, "tools": tools}
    settings = await settings_from(engine, {**asked, "model": chosen.model})
    session_id = await engine.sessions.create(settings, title)
    folder = Folder(engine.files / session_id)
    for path, text in chosen.files.items():
        await asyncio.to_thread(folder.write, path, text.encode())
    await engine.runner.prompt(session_id, chosen.prompt)
    tab = f"?tab={chosen.tab}" if chosen.tab else ""
    return session_id, f"/sessions/{session_id}{tab}"


async def _free_title(site: Site, title: str) -> str:
    """`title`, numbered if sessions have it already, so that titles stay distinguishable."""
    existing = {each.title for each in await site.engine.log.summaries(title, archived=True)}
    numbered = (f"{title} ({number})" for number in range(2, len(existing) + 3))
    return next(name for name in (title, *numbered) if name not in existing)


# Acts as a third-party agent: it knows nothing of this program but a base URL.


async def _start_agent(site: Site, title: str, base: str) -> str:
    """Starts an agent with a new tap that stops at every call; returns the session of its
    requests. Both get `title`."""
    if len(site.demos) >= MOST_AGENTS:
        raise Conflict(
            f"{MOST_AGENTS} agents of this demo are already running. Decide their calls or stop "
            "their sessions first."
        )
    tap, secret = await site.taps.create("simulator", title, "calls")
    agent = _DemoAgent(
        site.engine.net, f"{base}/tap{tap_agents.DOORS['anthropic']}/v1/messages", secret
    )

    async def run() -> None:
        try:
            await agent.run(EDIT_NOTES)
        finally:
            try:
                await site.taps.revoke(tap.id)
            except StoreError as error:
                log.warning("A demo's tap stays open; revoke it on the page Agents: %s", error)

    task = asyncio.create_task(run())
    site.demos.add(task)
    task.add_done_callback(site.demos.discard)
    begun = asyncio.create_task(agent.begun.wait())
    await asyncio.wait({task, begun}, timeout=HEAD_S, return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    sessions = await site.engine.log.tapped_sessions(tap.id, 1)
    if not sessions:
        task.cancel()
        raise PlaygroundError("The demo's agent got no answer. Try it again.")
    async with site.engine.sessions.lock_session(sessions[0]) as live:
        await site.engine.sessions.rename(live, title)
    return sessions[0]


class _DemoAgent:
    """A typical agent loop: request, run the calls, send the results."""

    def __init__(self, net: HttpClient, url: str, secret: str) -> None:
        self._net, self._url = net, url
        self._headers = {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            "x-api-key": "demo",
            "x-playground-tap": secret,
        }
        self._files = dict(NOTES)
        self.begun = asyncio.Event()
        """Set when the first answer begins."""

    async def run(self, prompt: str) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        for _ in range(MOST_REQUESTS):
            content = await self._ask(messages)
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return
            messages += [
                {"role": "assistant", "content": content},
                {"role": "user", "content": [self._result(call) for call in calls]},
            ]

    async def _ask(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The blocks of the answer; empty if it did not complete."""
        asked = {"model": CODING_AGENT, "max_tokens": 1024, "stream": True, "tools": _TOOLS}
        body = json.dumps({**asked, "messages": messages}).encode()
        started: dict[int, PartStarted] = {}
        content: list[dict[str, Any]] = []
        try:
            async with self._net.open("POST", self._url, self._headers, body, Limits()) as answer:
                self.begun.set()
                decoder = codec("anthropic").decoder(answer.status)
                events = []
                async for chunk in answer.chunks():
                    events += [event for _, _, event in decoder.feed(chunk)]
        except NetworkError:
            return []
        for event in events:
            if isinstance(event, PartStarted):
                started[event.index] = event
            elif isinstance(event, PartEnded) and event.complete:
                content.append(_block(started[event.index], event))
        return content

    def _result(self, call: Mapping[str, Any]) -> dict[str, Any]:
        given = call["input"]
        text = self._files.get(str(given.get("path")))
        old = str(given.get("old_text", ""))
        failed = text is None or (call["name"] == "edit_file" and old not in text)
        if text is None:
            answer = f"There is no file {given.get('path')!r}."
        elif call["name"] != "edit_file":
            answer = text
        elif failed:
            answer = f"{old!r} is not in the file."
        else:
            self._files[str(given["path"])] = text.replace(old, str(given.get("new_text", "")))
            answer = "Edited."
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": answer}
        return {**result, "is_error": True} if failed else result


def _block(started: PartStarted, ended: PartEnded) -> dict[str, Any]:
    if started.part_kind != "call":
        return {"type": "text", "text": ended.text}
    given = json.loads(ended.text or "{}")
    call_id, name = ended.provider_id or started.provider_id, ended.name or started.name
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}
