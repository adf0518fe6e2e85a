"""The least that a server of such streams does, to measure ours against:
`python bench/floor.py DB`.

Starlette and httpx, under uvicorn with the settings of `playground serve`. It passes on: of each
delta the JSON is parsed, a line of HTML is rendered and sent to who reads the session's stream,
and a row is written, all rows together each 50 ms. No events, no masking, no calls, no page but
one line. Its addresses are those of ours that `bench/streams.py` asks.

It imports nothing of ours, so that it stays the same while ours changes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import aiosqlite
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

SAVE_S = 0.05
ENDPOINTS = {"anthropic": "/v1/messages", "openai_chat": "/chat/completions"}


@dataclass
class Session:
    """One session: what is asked, the text so far, and who is to be woken."""

    settings: dict[str, Any]
    texts: list[str] = field(default_factory=list)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


def text_of(protocol: str, data: dict[str, Any]) -> str:
    """What of a text or an argument one event brings."""
    if protocol == "anthropic":
        delta = data.get("delta", {})
        return delta.get("text") or delta.get("partial_json") or ""
    delta = data["choices"][0]["delta"]
    calls = delta.get("tool_calls")
    return (calls[0]["function"]["arguments"] if calls else delta.get("content")) or ""


class Floor:
    def __init__(self, db: Path) -> None:
        self._opened = aiosqlite.connect(db)
        self._client = httpx.AsyncClient(timeout=600, trust_env=False, limits=httpx.Limits())
        self._sessions: dict[str, Session] = {}
        self._rows: list[tuple[str, int, str]] = []
        self._saving: asyncio.Task[None] | None = None

    async def _save(self) -> None:
        async with self._opened as db:
            await db.execute("PRAGMA journal_mode = WAL")
            await db.execute("PRAGMA synchronous = NORMAL")
            await db.execute("CREATE TABLE deltas (session TEXT, seq INTEGER, text TEXT)")
            while True:
                await asyncio.sleep(SAVE_S)
                if self._rows:
                    rows, self._rows = self._rows, []
                    await db.executemany("INSERT INTO deltas VALUES (?, ?, ?)", rows)
                    await db.commit()

    async def make(self, request: Request) -> Response:
        """POST /sessions"""
        if self._saving is None:
            self._saving = asyncio.create_task(self._save())
        session_id = str(len(self._sessions) + 1)
        self._sessions[session_id] = Session(await request.json())
        return JSONResponse({"id": session_id}, 201)

    async def show(self, request: Request) -> Response:
        """GET /sessions/ID"""
        session_id = request.path_params["id"]
        if "json" in request.headers["accept"]:
            text = "".join(self._sessions[session_id].texts)
            return JSONResponse({"text": text, "state": "idle"})
        return HTMLResponse(
            f'<div hx-sse:connect="/stream?session={session_id}&amp;after=0"></div>'
        )

    async def ask(self, request: Request) -> Response:
        """POST /sessions/ID/prompts"""
        session_id, prompt = request.path_params["id"], (await request.json())["text"]
        session = self._sessions[session_id]
        session.task = asyncio.create_task(self._answer(session_id, session, prompt))
        return JSONResponse({}, 202)

    async def _answer(self, session_id: str, session: Session, prompt: str) -> None:
        protocol, model = session.settings["protocol"], session.settings["model"]
        url = session.settings["base_url"] + ENDPOINTS[protocol]
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], "stream": True}
        async with self._client.stream("POST", url, json=body) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                if text := text_of(protocol, json.loads(line[6:])):
                    session.texts.append(text)
                    self._rows.append((session_id, len(session.texts), text))
                    session.woken.set()

    async def stream(self, request: Request) -> Response:
        """GET /stream?session=ID&after=N"""
        session = self._sessions[request.query_params["session"]]

        async def frames(after: int) -> AsyncIterator[str]:
            while True:
                session.woken.clear()
                texts = session.texts[after:]
                if texts:
                    after += len(texts)
                    html = "".join(f"<span>{escape(text)}</span>" for text in texts)
                    yield f"data: {html}\nid: {after}\n\n"
                await session.woken.wait()

        after = int(request.query_params["after"])
        return StreamingResponse(frames(after), media_type="text/event-stream")


async def _page(request: Request) -> Response:
    return HTMLResponse("<!doctype html><title>floor</title><p>floor")


def routes(db: Path) -> list[Route]:
    floor = Floor(db)
    return [
        Route("/", _page),
        Route("/sessions", floor.make, methods=["POST"]),
        Route("/sessions/{id}", floor.show),
        Route("/sessions/{id}/prompts", floor.ask, methods=["POST"]),
        Route("/stream", floor.stream),
    ]


async def _serve(db: Path) -> None:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    config = uvicorn.Config(
        Starlette(routes=routes(db)),
        lifespan="off",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=500,
        timeout_keep_alive=30,
    )
    port = listening.getsockname()[1]
    print(f"Floor on http://127.0.0.1:{port}/?token=none", flush=True)
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
