"""A provider whose answers come at a pace, each delta with the time it left: a process of its own.

`python bench/paced_provider.py` prints its address. It speaks the streams of Anthropic's messages
and of OpenAI's chat completions. The model's name says what is answered: `text-500-50` is a text
of 500 deltas, 50 a second; `text-500-50-36` has deltas of 36 characters instead of 9, and
paragraphs; `string-500-50` and `array-500-50` are one call with one argument so long.
An answer begins at once, its deltas wait for `POST /go`, and its end for `POST /end`; `GET /state`
is `{"waiting", "sent"}`: the answers that wait for either. So what comes before and after the
deltas can be left out of a measurement.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

STAMP = re.compile(rb"q([0-9a-f]{7})")
"""What each delta carries: the monotonic clock of this machine in units of 10 us, modulo WRAP."""
WRAP = 16**7
KINDS = ("text", "string", "array")
PROTOCOLS = ("anthropic", "openai_chat")
TOOL = "note"
"""The name of the tool that is called."""

PLACE = "~"
"""Where in the text of a delta its own text goes."""

TEXTS: Mapping[str, tuple[str, str, str]] = {
    "text": ("", " %s", ""),
    "string": ('{"text": "', "%s ", '"}'),
}
"""What stands before all deltas, in each, and after all, of each kind but arrays."""

ARRAY = ('{"lines": ["', '%s", "', '"]}')

STAMPED = 9
"""Characters of a text's delta that has its stamp alone."""

FILLER = " and so it goes on"

PARAGRAPH = 16
"""Deltas of a paragraph."""

WAITING: set[Answer] = set()
SENT: set[Answer] = set()


def clock() -> int:
    """Now, as the stamps have it."""
    return time.monotonic_ns() // 10_000 % WRAP


def _message(name: str, data: Mapping[str, Any]) -> str:
    message = json.dumps({"type": name, **data}, separators=(",", ":"))
    return f"event: {name}\ndata: {message}\n\n"


def _completion(delta: Mapping[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    message = json.dumps({**data, "choices": [choice]}, separators=(",", ":"))
    return f"data: {message}\n\n"


def frames(protocol: str, kind: str) -> tuple[str, str, str]:
    """The beginning of an answer, a delta with PLACE in it, and the end."""
    if protocol == "anthropic":
        usage = {"input_tokens": 9, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
        block: dict[str, Any] = {"type": "text", "text": ""}
        shape, member, why = "text_delta", "text", "end_turn"
        if kind != "text":
            block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
            shape, member, why = "input_json_delta", "partial_json", "tool_use"
        begin = _message("message_start", {"message": {**message, "content": [], "usage": usage}})
        begin += _message("content_block_start", {"index": 0, "content_block": block})
        delta = {"index": 0, "delta": {"type": shape, member: PLACE}}
        end = _message("content_block_stop", {"index": 0})
        end += _message("message_delta", {"delta": {"stop_reason": why}, "usage": usage})
        return begin, _message("content_block_delta", delta), end + _message("message_stop", {})
    if kind == "text":
        begin, why = _completion({"role": "assistant", "content": ""}), "stop"
        piece: dict[str, Any] = {"content": PLACE}
    else:
        function = {"name": TOOL, "arguments": ""}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        begin = _completion({"role": "assistant", "content": None, "tool_calls": [call]})
        grown = {"index": 0, "function": {"arguments": PLACE}}
        piece, why = {"tool_calls": [grown]}, "tool_calls"
    return begin, _completion(piece), _completion({}, why) + "data: [DONE]\n\n"


def escape(text: str) -> str:
    """`text` as it stands in a JSON string."""
    return json.dumps(text)[1:-1]


def chunk(message: str) -> bytes:
    """One chunk of the body."""
    body = message.encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


class Answer:
    """One answer on its way."""

    def __init__(self, transport: asyncio.WriteTransport, protocol: str, model: str) -> None:
        kind, deltas, rate, *size = model.split("-")
        self._transport, self._left, self._step = transport, int(deltas), 1 / float(rate)
        begin, delta, self._end = frames(protocol, kind)
        before, each, after = map(escape, TEXTS.get(kind, ARRAY))
        head, tail = delta.split(PLACE)
        if before:
            begin += head + before + tail
            self._end = head + after + tail + self._end
        each = each.replace("%s", "q%07x")
        if size:
            each += (FILLER * int(size[0]))[: int(size[0]) - STAMPED]
        self._delta = head + each + tail
        self._last_of_paragraph = head + each + (r"\n\n" if size else "") + tail
        self._stamp = clock()
        self._at = 0.0
        transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n" + chunk(begin)
        )

    def go(self, after_s: float) -> None:
        """Send the first delta in `after_s` seconds."""
        loop = asyncio.get_running_loop()
        self._at = loop.time() + after_s
        loop.call_at(self._at, self._send)

    def _send(self) -> None:
        if self._transport.is_closing():
            WAITING.discard(self)
            return
        now = clock()  # each has a stamp of its own, also two that leave at once
        self._stamp = (
            now
            if (now - self._stamp) % WRAP < WRAP // 2 and now != self._stamp
            else (self._stamp + 1) % WRAP
        )
        delta = self._delta if self._left % PARAGRAPH else self._last_of_paragraph
        self._transport.write(chunk(delta % self._stamp))
        self._left -= 1
        if self._left:
            self._at += self._step
            asyncio.get_running_loop().call_at(self._at, self._send)
        else:
            SENT.add(self)

    def end(self) -> None:
        self._transport.write(chunk(self._end) + b"0\r\n\r\n")

    @property
    def step(self) -> float:
        """Seconds from delta to delta."""
        return self._step


class Connection(asyncio.Protocol):
    """One connection; its requests come one after the other, each with its length."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._kept = transport, b""

    def data_received(self, data: bytes) -> None:
        self._kept += data
        head, mark, body = self._kept.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if mark and len(body) >= (int(length[1]) if length else 0):
            self._kept = b""
            self._asked(head.split(b" ")[1].decode(), body)

    def _asked(self, path: str, body: bytes) -> None:
        if path.endswith(("/messages", "/chat/completions")):
            protocol = PROTOCOLS[path.endswith("/chat/completions")]
            WAITING.add(Answer(self._transport, protocol, json.loads(body)["model"]))
            return
        if path == "/go":
            for number, answer in enumerate(WAITING):  # spread over one step
                answer.go(0.05 + answer.step * number / len(WAITING))
            WAITING.clear()
        elif path == "/end":
            for answer in SENT:
                answer.end()
            SENT.clear()
        data = json.dumps({"waiting": len(WAITING), "sent": len(SENT)}).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(data) + data)


async def _main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
