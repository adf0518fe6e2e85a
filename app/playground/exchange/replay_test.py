"""A session as a test for pytest: one file with its recording, which contacts no provider.

It serves the recorded answers from this machine, lets an agent request them, and compares the
resulting calls with the expected ones: names, order and required arguments. The file's own code is
replay_read.py and the text below; everything from the session is in literals.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from playground.core.session import Turn
from playground.exchange import replay_read
from playground.exchange.bundle import ExportFile, SessionBundle, comment_text, file_name, one_line
from playground.exchange.replay_read import calls_of
from playground.exchange.requests_export import export_request
from playground.exchange.sdk_script import literal
from playground.protocols.base import url_parts

HEAD = '''"""{title}: the calls of a recorded session, as a test.

    pytest {name}

It passes offline, with the recording below. To test your own agent, call it in run_agent(). Set
LIVE_URL to send the requests to a real endpoint, and LIVE_HEADERS to a JSON object of headers,
such as its key.
"""

import json
import os
import re
import threading
import urllib.request
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

'''

TESTS = '''

def run_agent(base_url):
    """Call your agent here with base_url, and return its calls, (name, arguments) each.

    Until then the recorded requests are sent again, one after the other.
    """
    calls = []
    for request in REQUESTS:
        body = request["body"].encode("utf-8")
        headers = {"content-type": "application/json"}
        headers.update(json.loads(os.environ.get("LIVE_HEADERS", "{}")))
        sent = urllib.request.Request(base_url + request["path"], body, headers, method="POST")
        with DIRECT.open(sent, timeout=60) as answer:
            calls += calls_of(request["protocol"], answer.read())
    return calls


DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
if os.environ.get("LIVE_URL"):
    DIRECT = urllib.request.build_opener()


@contextmanager
def recorded():
    """The address of a server that gives the recorded answers in their order."""
    answers = iter(ANSWERS)

    class Recorded(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            answer = next(answers, None)
            if answer is None:
                self.send_error(410, "The recording has no more answers")
                return
            body = b64decode(answer["body"])
            self.send_response(answer["status"])
            self.send_header("content-type", answer["type"])
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    server = HTTPServer(("127.0.0.1", 0), Recorded)
    playing = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    playing.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        playing.join()
        server.server_close()


def test_the_calls_are_those_of_the_recording():
    with recorded() as url:
        calls = run_agent(os.environ.get("LIVE_URL") or url)
    assert [name for name, _ in calls] == [name for name, _ in EXPECTED]
    for (name, given), (_, wanted) in zip(calls, EXPECTED, strict=True):
        if isinstance(wanted, str):
            assert given == wanted, f"Arguments of {name}, by their text"
            continue
        assert isinstance(given, dict), f"Arguments of {name} are not a JSON object: {given!r}"
        assert {key: given.get(key) for key in wanted} == wanted, f"Arguments of {name}"
'''

NOTHING = "No turn of this session has ended, so there is nothing to test."


def write(bundle: SessionBundle) -> ExportFile:
    """The file; its calls are those of complete turns that were not dropped."""
    turns = [
        turn
        for turn in bundle.session.turns
        if turn.end is not None and not turn.dropped and turn.number in bundle.recordings
    ]
    name = "test_" + file_name(bundle.title, "py").replace("-", "_")
    title = comment_text(bundle.title) or "A session"
    notes = [] if turns else [NOTHING]
    expected: list[tuple[str, Any]] = []
    for turn in list(turns):
        try:
            calls = calls_of(turn.request.protocol, bundle.recordings[turn.number].data)
        except (LookupError, TypeError, AttributeError, ValueError):
            notes.append(f"Turn {turn.number} was left out: the test cannot read its answer.")
            turns.remove(turn)
            continue
        if [called for called, _ in calls] != [call.name for call in turn.calls]:
            notes.append(
                f"Turn {turn.number}: the test reads different calls than the session shows."
            )
        expected += [(called, _required_arguments(turn, called, given)) for called, given in calls]
    reader = inspect.getsource(replay_read).partition("\nCall = ")
    parts = [
        HEAD.format(title=title, name=name),
        f"EXPECTED = {_pairs(expected)}\n\n",
        f"REQUESTS = {literal([_request(turn) for turn in turns])}\n\n",
        f"ANSWERS = {literal([_answer(bundle, turn) for turn in turns])}\n\n",
        "Call = " + reader[2].rstrip() + "\n",
        TESTS,
    ]
    data = "".join(parts).encode("utf-8", "replace")
    return ExportFile(name, "text/x-python", data, tuple(notes))


def _required_arguments(turn: Turn, name: str, given: Any) -> Mapping[str, Any] | str:
    """The arguments that the tool's schema requires; all of them if it does not say, and their text
    if they are not an object."""
    if not isinstance(given, dict):
        return str(given)
    tool = turn.settings.tool(name)
    wanted = tool.parameters.get("required") if tool is not None else None
    if not isinstance(wanted, list):
        return given
    return {key: value for key, value in given.items() if key in wanted}


def _request(turn: Turn) -> Mapping[str, str]:
    exported = export_request(turn.request, turn.settings.profile, turn.number)
    parts = url_parts(exported.url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return {"protocol": exported.protocol, "path": path, "body": exported.body}


def _answer(bundle: SessionBundle, turn: Turn) -> Mapping[str, Any]:
    head = turn.response
    kind = head.headers.get("content-type", "") if head is not None else ""
    body = base64.b64encode(bundle.recordings[turn.number].data).decode("ascii")
    return {"status": head.status if head else 200, "type": one_line(kind), "body": body}


def _pairs(expected: Sequence[tuple[str, Mapping[str, Any] | str]]) -> str:
    lines = "".join(f"    ({name!r}, {literal(given, 1)}),\n" for name, given in expected)
    return f"[\n{lines}]" if lines else "[]"
