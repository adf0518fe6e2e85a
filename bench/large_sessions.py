"""Sessions by the thousand, the same ones for the same seed, written straight into a database.

The rows are those that the program writes: a session's log folds, and its recordings decode.
Written as schema 5, so that bringing it up to date is measured, too.
"""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallStarted,
    Event,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestSent,
    ResponseEnded,
    ResponseStarted,
    SessionStarted,
    Usage,
)
from playground.core.serialization import to_row
from playground.core.settings import Profile, Settings
from playground.core.tools import Tool, text_result
from playground.store.database import APPLICATION_ID
from playground.store.schema import MIGRATIONS

SCHEMA = 5
START_MS = 1_730_000_000_000
SPAN_MS = 2 * 365 * 86_400_000
RARE = "zyzzyvas"
"""A word that a handful of sessions have."""
COMMON = "weather"
"""A word that every second session has."""

_PLAIN = """the of and to in is that for it with as was on be at by this have from or one had not
but what all were when we there can an your which their said if do will each about how up out them
then she many some so these would other into has more her two like him see time could no make than
first been its who now people my made over did down only way find use may water long little very
after words called just where most know get through back much before go good new write our used me
man too any day same right look think also around another came come work three word must because
does part even place well such here take why things help put years different away again off went
old number great tell men say small every found still between name should home big give air line
set own under read last never us left end along while might next sound below saw something thought
both few those always looked show large often together asked house world going want school
important until form food keep children feet land side without boy once animals life enough took
sometimes four head above kind began almost live page got earth need far hand high year mother
light parts country father let night following picture being study second eyes soon times story
boys since white days ever paper hard near sentence better best across during today others however
sure means knew try told young miles sun ways thing whole hear example heard several change answer
room sea against top turned learn point city play toward five using himself usually"""
_PLACES = ["Paris", "Lisbon", "Oslo", "Kyoto", "Lima", "Cairo", "Quito", "Riga", "Bern", "Perth"]
_MODELS = [
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-haiku-4-5"),
    ("openai", "gpt-5-mini"),
    ("gemini", "gemini-2.5-flash"),
    ("simulator", "sim-1"),
    ("ollama", "qwen3:8b"),
]
_TOOLS = ["get_weather", "search_docs", "add_event", "read_file", "run_query", "send_invoice"]
_LIST = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

LARGE = 10_000
"""Events of a large session."""

Row = tuple[object, ...]


@dataclass
class Made:
    """The rows of one session."""

    session: Row
    events: list[Row] = field(default_factory=list)
    chunks: list[Row] = field(default_factory=list)
    recordings: list[Row] = field(default_factory=list)


class Words:
    """Text by the word, common ones often and rare ones seldom, as in a language."""

    def __init__(self, chance: random.Random, size: int = 20_000) -> None:
        letters = "aeioutnrslcdmpghbvkfw"
        plain_words = list(dict.fromkeys(_PLAIN.split()))
        generator = ("".join(chance.choices(letters, k=chance.randint(4, 9))) for _ in range(size))
        self._all = plain_words + sorted(set(generator) - set(plain_words))
        self._weights = list(accumulate(1 / (n + 8) for n in range(len(self._all))))
        self._chance = chance

    def some(self, count: int) -> list[str]:
        return self._chance.choices(self._all, cum_weights=self._weights, k=count)


class Writer:
    """One session's log as it grows; its numbers follow from `place` and `chance` alone."""

    def __init__(self, place: int, position: int, at_ms: int, chunk_of: int) -> None:
        self.id = hashlib.sha256(b"session %d" % place).hexdigest()[:16]
        self.position, self.at_ms, self.seq = position, at_ms, 0
        self.turns = self.stop = 0
        self.chunk_of, self.bytes, self.start = chunk_of, bytearray(), 0
        self.events: list[Row] = []
        self.chunks: list[Row] = []

    def row(self, kind: str, body: str, sent: bytes | None = None) -> None:
        """An event, with the bytes it came from where it came from some."""
        self.seq += 1
        self.at_ms += 15
        span: Row = (None, None, None)
        if sent is not None:
            span = (self.turns, self.stop, self.stop + len(sent))
            self.stop += len(sent)
            self.bytes += sent
            if self.seq % self.chunk_of == 0:
                self.flush()
        self.events.append(
            (self.position + self.seq, self.id, self.seq, self.at_ms, kind, body, *span)
        )

    def flush(self) -> None:
        if self.bytes:
            row = (self.id, self.turns, self.start, self.at_ms, bytes(self.bytes))
            self.chunks.append(row)
            self.start += len(self.bytes)
            self.bytes.clear()

    def add(self, event: Event, sent: bytes | None = None) -> None:
        self.row(*to_row(event), sent)

    def request(self, model: str, body: str) -> None:
        self.flush()
        self.turns, self.stop, self.start = self.turns + 1, 0, 0
        address = "http://127.0.0.1:8765/sim/anthropic/v1/messages"
        headers = {"content-type": "application/json", "x-api-key": "[SIMULATOR_KEY]"}
        self.add(
            RequestSent(
                self.turns,
                protocol="anthropic",
                method="POST",
                url=address,
                headers=headers,
                body=body,
                model=model,
            )
        )
        self.add(ResponseStarted(200, {"content-type": "text/event-stream"}, "req_01"))
        message = {"id": "msg_01", "model": model, "role": "assistant", "content": []}
        self.bytes += (sent := _frame("message_start", {"message": message}))
        self.stop += len(sent)

    def part(self, index: int, texts: list[str], name: str = "") -> None:
        call = bool(name)
        provider_id = f"toolu_{self.turns:02}{index}" if call else ""
        block: dict[str, object] = {"type": "text", "text": ""}
        if call:
            block = {"type": "tool_use", "id": provider_id, "name": name, "input": {}}
        self.add(
            PartStarted(index, "call" if call else "text", name, provider_id),
            _frame("content_block_start", {"index": index, "content_block": block}),
        )
        shape = ("input_json_delta", "partial_json") if call else ("text_delta", "text")
        for text in texts:
            message = json.dumps(text)
            self.row(
                "part_delta",
                f'{{"index":{index},"text":{message}}}',
                (
                    'event: content_block_delta\ndata: {"type":"content_block_delta",'
                    f'"index":{index},"delta":{{"type":"{shape[0]}","{shape[1]}":{message}}}}}\n\n'
                ).encode(),
            )
        self.add(
            PartEnded(index, "".join(texts), name, provider_id),
            _frame("content_block_stop", {"index": index}),
        )

    def ended(self, calls: bool) -> None:
        raw, tokens = ("tool_use" if calls else "end_turn"), {"output_tokens": 40}
        sent = _frame("message_delta", {"delta": {"stop_reason": raw}, "usage": tokens})
        self.add(ResponseEnded("calls" if calls else "stop", raw, Usage(120, 40, tokens)), sent)
        self.bytes += _frame("message_stop", {})
        self.flush()


def _frame(kind: str, data: dict[str, object]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _settings(provider: str, model: str) -> Settings:
    tools = tuple(
        Tool(name, f"{name} as a user would do it.", _LIST, config={"result": "done"})
        for name in _TOOLS[:3]
    )
    profile = Profile(provider, "anthropic", "sim:", model=model)
    return Settings(profile, model=model, tools=tools)


_STARTED = [to_row(SessionStarted(_settings(*model))) for model in _MODELS]


def _grouped(words: list[str], count: int) -> list[str]:
    """`words` as `count` deltas."""
    step = max(1, len(words) // max(count, 1))
    return [" ".join(words[n : n + step]) + " " for n in range(0, len(words), step)]


def session(
    place: int, position: int, size: int, chance: random.Random, words: Words, *, many: bool
) -> Made:
    """A session of `size` events: as many prompts as fit, each answered after one call. With
    `many` answers are long, and each delta came by itself, as over a slow line."""
    kind = chance.choices(range(len(_MODELS)), weights=[30, 15, 20, 10, 20, 5])[0]
    model = _MODELS[kind][1]
    writer = Writer(place, position, START_MS + (place * SPAN_MS) // 100_000, 1 if many else 8)
    created, calls, waits = writer.at_ms, 0, False
    writer.row(*_STARTED[kind])
    title = ""
    while not waits and size - writer.seq >= 24:
        rest = size - writer.seq
        most = chance.randint(300, 700) if many else chance.randint(60, 120)
        deltas = (rest if rest < most + 20 else most) - 20
        before, written = max(1, deltas // 4), chance.randint(1, 4)
        city, tool = chance.choice(_PLACES), chance.choice(_TOOLS)
        prompt_text = words.some(chance.randint(6, 24))
        if chance.random() < 0.25:
            prompt_text.insert(3, COMMON)
        if place % 20_000 == 7:
            prompt_text.insert(2, RARE)
        prompt = f"{' '.join(prompt_text)} in {city}?"
        title = title or (prompt if len(prompt) <= 60 else prompt[:59].rstrip() + "…")
        writer.add(PromptAdded(prompt))
        request = {"model": model, "messages": [{"role": "user", "content": prompt}]}
        writer.request(model, json.dumps(request))
        writer.part(0, _grouped(words.some(2 * before), before))
        arguments = json.dumps({"city": city, "why": " ".join(words.some(written))})
        writer.part(1, [arguments[:12], arguments[12:]], tool)
        writer.ended(True)
        call_id, calls = f"{writer.turns}.1", calls + 1
        writer.add(CallChecked(call_id, digest="d" * 64))
        if waits := place % 400 == 3 and size < 500:
            break
        writer.add(CallDecided(call_id, "run", digest="d" * 64))
        writer.add(CallStarted(call_id, 1))
        answer = {"sky": "clear", "high": chance.randint(-9, 40), "note": " ".join(words.some(5))}
        writer.add(CallEnded(call_id, text_result(json.dumps(answer))))
        writer.request(model, json.dumps({**request, "tools": []}))
        after = min(deltas - before, size - writer.seq - 3)
        writer.part(0, _grouped(words.some(2 * after), after))
        writer.ended(False)
    state, waiting = ("waiting", 1) if waits else ("idle", 0)
    row = (writer.id, title, created, writer.at_ms, state, model, calls, waiting)
    recordings: list[Row] = [(writer.id, number, 1) for number in range(1, writer.turns + 1)]
    return Made(row, writer.events, writer.chunks, recordings)


def _size(left: int, rest: int, chance: random.Random) -> int:
    """How many events the next of `rest` sessions has, where `left` are to be spread."""
    mean = left / max(rest, 1)
    return max(26, round(mean * chance.choice((0.5, 0.7, 0.9, 1.1, 1.8))))


def write(path: Path, sessions: int, events: int, large: int, seed: int = 1) -> list[str]:
    """Make the database at `path`, which is not there, with about as many `events`; the ids of
    its large sessions."""
    chance = random.Random(seed)
    words = Words(chance)
    session_ids: list[str] = []
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -800000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript("".join(MIGRATIONS[:SCHEMA]))
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("BEGIN")
    position, pending = 0, []
    every = sessions // large if large else sessions + 1
    for place in range(sessions):
        still = large - len(session_ids)
        if many := still > 0 and place % every == every // 2:
            size = LARGE
        else:
            size = _size(events - position - LARGE * still, sessions - place - still, chance)
        result = session(place, position, size, chance, words, many=many)
        position += len(result.events)
        if many:
            session_ids.append(str(result.session[0]))
        pending.append(result)
        if len(pending) == 2_000:
            _insert(connection, pending)
            pending = []
    _insert(connection, pending)
    connection.execute("COMMIT")
    connection.close()
    return session_ids


def _insert(connection: sqlite3.Connection, mades: list[Made]) -> None:
    into = {
        "sessions (id, title, created_ms, updated_ms, state, model, calls, waiting)": 8,
        "events (pos, session, seq, at_ms, kind, body, recording, start, stop)": 9,
        "chunks (session, recording, start, at_ms, bytes)": 5,
        "recordings (session, number, clean)": 3,
    }
    rows = (
        [item.session for item in mades],
        [row for item in mades for row in item.events],
        [row for item in mades for row in item.chunks],
        [row for item in mades for row in item.recordings],
    )
    for (table, width), some in zip(into.items(), rows, strict=True):
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", some)
