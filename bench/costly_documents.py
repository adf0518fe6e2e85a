"""Stop, SIGTERM and memory under costly documents: `python bench/costly_documents.py`.

Three kinds of documents whose schemas cost far more than their size says: `patterns` (50 kB whose
patterns compile to gigabytes), `many` (500 tools, each just below the bound of a schema) and `wide`
(8 MB of schemas in each other). Each is pasted into Import, linted, tried, listed by an MCP server,
named by a SPEC and sent to the simulator as the tools of a request. While the server works on it, a
session is stopped and pages are asked for; then it comes once more, and SIGTERM follows. The
command line (`lint`, `batch --dry-run`, `run`) gets Ctrl-C while it works on the same file.

Printed are the seconds of Stop, of the slowest page, of the end, and the peak of the memory beside
that of a server without a document. Exit 1 where a bound does not hold. The server may have 4 GB of
addresses, so that a document that is not bounded ends it and not the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import servers
from tests.servers import ServerProcess, command, environment

servers.END_S = 300.0

STOP_S, END_S, MOST_MB = 1.0, 3.0, 400.0
"""Bounds: seconds of Stop and of a page, seconds of the end, MB of memory."""
ADDRESSES = 4_000_000_000
BEGUN_S = 0.1
"""How long a document is worked on before Stop or a signal comes."""

MOST_APART = 4
"""How many of the tools are linted and tried, one after the other."""

Json = dict[str, Any]

MCP = """
import json, sys
tools = json.load(open(sys.argv[1]))
tools = [{"name": t["name"], "description": "", "inputSchema": t["parameters"]} for t in tools]
for line in sys.stdin:
    message = json.loads(line)
    result = None
    if message.get("method") == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "costly", "version": "1"},
        }
    elif message.get("method") == "tools/list":
        result = {"tools": tools}
    elif "id" in message:
        error = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
    if result is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""An MCP server by stdio that lists the tools of a file."""

MOCK = {"result": "done"}


def a_tool(name: str, properties: Json) -> Json:
    parameters = {"type": "object", "properties": properties}
    return {"name": name, "description": "Costly.", "parameters": parameters, "config": MOCK}


def patterns() -> list[Json]:
    counts = range(60_000, 59_200, -1)
    properties = {
        f"p{count}": {"type": "string", "pattern": f"a{{1,60000}}{{1,{count}}}"} for count in counts
    }
    return [a_tool("patterns", properties)]


def many() -> list[Json]:
    return [
        a_tool(f"many{n}", {"p": {"type": "string", "pattern": f"^(ab){{1,{60_000 + n}}}x$"}})
        if n % 2
        else a_tool(
            f"many{n}", {"p": {"type": "string", "pattern": rf"^(\p{{L}}a){{1,{90 + n % 9}}}$"}}
        )
        for n in range(500)
    ]


def wide() -> list[Json]:
    inner: Json = {f"p{n}": {"not": {"const": n, "type": "string"}} for n in range(3_400)}
    schema: Json = {"type": "object", "properties": inner}
    for _ in range(4):
        schema = {"not": schema}
    return [a_tool(f"wide{n}", {"a": schema}) for n in range(40)]


def none() -> list[Json]:
    return [a_tool("none", {"p": {"type": "string"}})]


KINDS: dict[str, Callable[[], list[Json]]] = {
    "none": none,
    "patterns": patterns,
    "many": many,
    "wide": wide,
}
"""`none` costs nothing: what the machine and the server need anyway."""


@dataclass
class Place:
    """A server, a client of it, and the tools of the document as a file."""

    server: ServerProcess
    client: httpx.AsyncClient
    tools: list[Json]
    file: Path


async def paste(place: Place) -> None:
    await place.client.post("/import", json={"text": json.dumps(place.tools)})


async def lint(place: Place) -> None:
    for tool in place.tools[:MOST_APART]:
        await place.client.post("/tools/lint", json=tool)


async def attempt(place: Place) -> None:
    text = json.dumps({"p": "ab" * 50_000, "p60000": "a" * 100_000, "a": {}})
    for tool in place.tools[:MOST_APART]:
        await place.client.post("/tools/try", json={"tool": tool, "arguments": text})


async def offer(place: Place) -> None:
    client = place.client
    script = place.file.with_name("costly_server.py")
    script.write_text(MCP)
    name = place.file.stem
    response = await client.get(f"/servers/{name}")
    if response.status_code == 404:
        command_line = {"command": sys.executable, "args": [str(script), str(place.file)]}
        await client.post("/servers", json={"name": name, **command_line})
        data = (await client.get(f"/servers/{name}")).json()
        body = {"fingerprint": data["fingerprint"]}
        await client.post(f"/servers/{name}/accept", json=body)
    listed = (await client.post(f"/servers/{name}/list", json={})).json()
    chosen = [f"{tool['fingerprint']} {tool['name']}" for tool in listed.get("tools", [])]
    await client.post(f"/servers/{name}/take", json={"tools": chosen})


async def name_in_spec(place: Place) -> None:
    await place.client.post("/batches", json=spec(place.tools))


async def ask_simulator(place: Place) -> None:
    tools = [
        {"name": tool["name"], "input_schema": tool["parameters"]} for tool in place.tools[:100]
    ]
    messages = [{"role": "user", "content": f"Call {place.tools[0]['name']}."}]
    body = {"model": "sim", "max_tokens": 99, "messages": messages, "tools": tools}
    headers = {"anthropic-version": "2023-06-01"}
    await place.client.post("/sim/anthropic/v1/messages", json=body, headers=headers)


WAYS: dict[str, Callable[[Place], Coroutine[Any, Any, None]]] = {
    "pasted": paste,
    "linted": lint,
    "tried": attempt,
    "listed": offer,
    "SPEC": name_in_spec,
    "simulator": ask_simulator,
}


def spec(tools: Sequence[Json | str]) -> Json:
    return {"playground_batch": 1, "tools": tools, "cases": [{"id": "a", "prompt": "Hi"}]}


async def measure(kind: str, way: str, folder: Path) -> tuple[float, float, float, float, float]:
    """Seconds of Stop, of the slowest page, of the work and of the end; MB at the peak."""
    tools = KINDS[kind]()
    file = folder / "tools.json"
    file.write_text(json.dumps(tools))
    server = servers.launch_server(folder / "new.db")
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    try:
        async with server.client() as client:
            client.timeout = httpx.Timeout(300)
            place = Place(server, client, tools, file)
            session = (await client.post("/sessions", json={"tools": []})).json()["id"]
            prompt = {"text": "Hi [[fault:stall-after-2]]"}
            await client.post(f"/sessions/{session}/prompts", json=prompt)
            harmless = Path(folder / "harmless.json")
            harmless.write_text(json.dumps(none()))
            await WAYS[way](Place(server, client, none(), harmless))  # imports what it needs
            await seconds(client.get("/sessions"))
            began = time.perf_counter()
            work = asyncio.create_task(WAYS[way](place))
            await asyncio.sleep(BEGUN_S)
            slowest = 0.0
            stopped = await seconds(client.post(f"/sessions/{session}/stop"))
            while not work.done():
                slowest = max(slowest, await seconds(client.get("/sessions")))
            await work
            worked = time.perf_counter() - began
            peak = peak_mb(server.process.pid)
            again = asyncio.create_task(WAYS[way](place))
            await asyncio.sleep(BEGUN_S)
            began = time.perf_counter()
            server.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(server.process.wait, servers.END_S)
            ended = time.perf_counter() - began
            await asyncio.gather(again, return_exceptions=True)
    finally:
        server.kill()
        assert server.process.stdout is not None
        server.process.stdout.close()
    return stopped, slowest, worked, ended, peak


async def seconds(asking: Awaitable[httpx.Response]) -> float:
    began = time.perf_counter()
    (await asking).raise_for_status()
    return time.perf_counter() - began


def peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmHWM:\s*(\d+)", status)
    assert match is not None
    return int(match[1]) / 1000


def interrupt(words: list[str], folder: Path) -> tuple[float, int]:
    """The seconds from Ctrl-C, once the command works on the document, to its end; its code."""
    process = subprocess.Popen(
        command(*words),
        cwd=folder,
        env=environment(PLAYGROUND_HOME=str(folder / "home")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)),
    )
    time.sleep(1.0)
    began = time.perf_counter()
    process.send_signal(signal.SIGINT)
    code = process.wait(servers.END_S)
    return time.perf_counter() - began, code


def main() -> int:
    """Measure; 1 where a bound does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    arguments = parser.parse_args()
    beyond = False
    heads = f"{'work s':>7} {'Stop s':>7} {'page s':>7} {'end s':>7} {'MB':>6}"
    print(f"{'document':10} {'way':10} {heads}")
    for kind in arguments.kinds:
        for way in arguments.ways:
            with tempfile.TemporaryDirectory() as name:
                figures = asyncio.run(measure(kind, way, Path(name)))
            stopped, slowest, worked, ended, peak = figures
            over = max(stopped, slowest) > STOP_S or ended > END_S or peak > MOST_MB
            beyond |= over
            row = f"{worked:7.2f} {stopped:7.2f} {slowest:7.2f} {ended:7.2f} {peak:6.0f}"
            print(f"{kind:10} {way:10} {row}{'  beyond' if over else ''}", flush=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "tools.json").write_text(json.dumps(KINDS[kind]()))
            (folder / "spec.json").write_text(json.dumps(spec(["./tools.json"])))
            for words in (
                ["lint", "tools.json"],
                ["batch", "spec.json", "--dry-run"],
                ["run", "Hi", "--tools", "./tools.json"],
            ):
                ended, code = interrupt(words, folder)
                over = ended > STOP_S
                beyond |= over
                row = f"Ctrl-C: {ended:.2f} s, code {code}{'  beyond' if over else ''}"
                print(f"{kind:10} {words[0]:10} {row}", flush=True)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
