"""What scripts, bookmarks and databases rely on, held by listings in tests/public_surface/.

It knows nothing of what is inside but the entry point: whatever is renamed or moved in `app/`, this
file stays as it is. It opens a database that was written when the listings were, asks the commands
and a server about it, and compares what they say, line by line:

    commands.txt  what is typed; cli.txt: every option with its default, exit codes, JSON
    requests.txt  what is asked; http.txt: routes, statuses, JSON fields, forms, messages of streams
    rows.jsonl    the database, with every kind of event; stored.txt: its kinds, fields and tables
    rows_9.jsonl  a session of schema 9, where deltas share a row: what it says is what "real" says
    rows_11.jsonl the same of schema 11, where the bodies of requests are in slices

A listing only grows. `python -m tests.test_public_surface` adds the lines that are new and takes
none away: what is gone or different breaks somebody's script or database.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from playground.cli import main
from tests.shared_state import preserve_shared_state

ROOT = Path(__file__).resolve().parent.parent
HELD = Path(__file__).resolve().parent / "public_surface"
TOKEN = "token-of-the-public-surface"
PLACES = {
    "every": "0123456789abcdef0123",  # a session with an event of every kind
    "real": "cc3a27d881574f6c",  # one whose answers were recorded
    "reopened": "df1126d8ede74ef3",  # a fork where a call waits
    "forked": "19c0111eabb64b67",
    "imported": "3a664a07c0174010",
    "deleted": "14e4f98b85da49d5",
}
SHARED_ROWS = "0fe1d2c3b4a5968778"
IN_SLICES = "1fe1d2c3b4a5968778"
SINCE = {0: "rows.jsonl", 9: "rows_9.jsonl", 11: "rows_11.jsonl"}
SCHEMA = 13
VARIABLES = ("PATH", "LANG", "TMPDIR", "VIRTUAL_ENV")
ADD = "python -m tests.test_public_surface"

SERVER = """
import json, os, sys
from starlette.applications import Starlette
plain = Starlette.__init__
def told(self, *args, **named):
    plain(self, *args, **named)
    with open(os.environ["ROUTES"], "a") as file:
        for route in self.routes:
            methods = sorted(getattr(route, "methods", None) or ())
            print(json.dumps([route.path, methods]), file=file)
Starlette.__init__ = told
from playground.cli import main
sys.exit(main())
"""
"""`playground`, which also writes down the routes of each application that it makes."""


# --- the database


def stored_rows(name: str = "rows.jsonl") -> list[tuple[str, dict[str, Any]]]:
    lines = (HELD / name).read_text("ascii").splitlines()
    return [(table, row) for table, row in map(json.loads, lines)]


def make_database(path: Path, schema: int) -> Path:
    """The kept rows in a database of that schema; what an old one had no place for is left out."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((HELD / f"schema_{schema}.sql").read_text("ascii"))
        columns = {table: _columns(connection, table) for table in _tables(connection)}
        kept_rows = [stored_rows(name) for since, name in SINCE.items() if schema >= since]
        for table, row in chain(*kept_rows):
            stored_data = {name: row[name] for name in columns.get(table, ()) if name in row}
            values = [
                bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for v in stored_data.values()
            ]
            if stored_data:
                names, marks = ", ".join(stored_data), ", ".join("?" * len(stored_data))
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)
        if "found" in columns:
            connection.execute("INSERT INTO found (rowid, text) SELECT pos, text FROM texts")
        connection.commit()
    path.chmod(0o600)
    return path


def _tables(connection: sqlite3.Connection) -> list[str]:
    kinds = "type IN ('table', 'view') AND name NOT GLOB 'found_*'"
    return [row[0] for row in connection.execute(f"SELECT name FROM sqlite_master WHERE {kinds}")]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def query(path: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql, values).fetchall()


# --- shapes


def shape_lines(value: Any, at: str = "") -> Iterator[str]:
    """One line for every field: where it is, and its type. Entries of a list are one."""
    match value:
        case dict():
            yield f"{at} object"
            for name, item in value.items():
                yield from shape_lines(item, f"{at}.{name}")
        case list():
            yield f"{at} list"
            for item in value:
                yield from shape_lines(item, f"{at}[]")
        case None:
            yield f"{at} null"
        case float() | int() if not isinstance(value, bool):
            yield f"{at} number"
        case _:
            yield f"{at} {type(value).__name__}"


def text_lines(kind: str, text: str) -> Iterator[str]:
    """The shape of an answer, by its media type."""
    if kind == "text/html":
        yield from form_lines(text)
    elif kind == "text/event-stream":
        for message in text.replace("\r\n", "\n").strip().split("\n\n"):
            lines = [line for line in message.split("\n") if line and line[0] != ":"]
            fields = dict(line.partition(": ")[::2] for line in lines)
            name = f" event={fields.get('event', '')}"
            yield from (f"{name} {field}:" for field in fields)
            yield from _json_lines(fields.get("data", ""), name)
    else:
        for line in text.split("\n") if "ndjson" in kind or "jsonl" in kind else [text]:
            yield from _json_lines(line, "")


def _json_lines(text: str, at: str) -> Iterator[str]:
    try:
        data = json.loads(text)
    except ValueError:
        return
    label = data.get("kind") if isinstance(data, dict) and "seq" in data else None
    yield from shape_lines(data, f"{at} {label or ''}")


def form_lines(text: str) -> list[str]:
    forms = _Forms()
    forms.feed(text)
    return sorted(forms.lines)


class _Forms(HTMLParser):
    """The addresses that a page's forms go to, and the names that they send there."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: set[str] = set()
        self.form = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            method = attributes.get("method", "get").upper()
            self.form = f"form {method} {without_places(attributes.get('action', ''))}"
            self.lines.add(self.form)
        elif (
            tag in ("input", "select", "textarea", "button")
            and self.form
            and attributes.get("name")
        ):
            self.lines.add(f"{self.form} {attributes['name']}")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.form = ""


def without_places(path: str) -> str:
    """An address with `{}` for what names one of many."""
    path = path.partition("?")[0]
    path = re.sub(r"[0-9a-f]{16,}", "{}", path)
    path = re.sub(r"/(calls|turns|cards|tasks)/[\w.-]+", r"/\1/{}", path)
    return re.sub(r"/(tools|servers|providers)/(?!try\b|lint\b|faces\b)[^/]+", r"/\1/{}", path)


# --- the commands


def played(*words: str) -> tuple[int, str]:
    """A command run here to its end: its exit code and what it printed."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with preserve_shared_state(), redirect_stdout(out), redirect_stderr(io.StringIO()):
        try:
            code = main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.buffer.getvalue().decode()


class _Caught(Exception):
    pass


def option_lines() -> Iterator[str]:
    """Every option of every command, with all that decides how it is read."""
    caught: list[argparse.ArgumentParser] = []

    def catch(self: argparse.ArgumentParser, *_: object, **__: object) -> None:
        caught.append(self)
        raise _Caught

    with preserve_shared_state(), pytest.MonkeyPatch.context() as patch, suppress(_Caught):
        patch.setattr(argparse.ArgumentParser, "parse_args", catch)
        main(["sessions"])
    yield from _parser_lines("playground", caught[0])


def _parser_lines(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for command, below in action.choices.items():
                yield f"{name} {command}"
                yield from _parser_lines(f"{name} {command}", below)
            continue
        how = "switch" if action.nargs == 0 else f"takes {action.nargs or 1}"
        default = json.dumps(None if action.default == argparse.SUPPRESS else action.default)
        must = " required" if action.required else ""
        for flag in action.option_strings or ["(a word)"]:
            yield f"{name} {flag} {how}, default {default}{must}"


def command_lines(places: Mapping[str, str]) -> Iterator[str]:
    """Each line of commands.txt, its exit code, and the fields of the JSON that it prints."""
    for line in (HELD / "commands.txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PLAYGROUND_TOKEN", TOKEN)
            patch.setenv("PLAYGROUND_HOME", places["folder"])
            code, text = played(*(word.format_map(places) for word in shlex.split(line)))
        yield f"exit {code}: {line}"
        if "--json" in line or "jsonl" in line:
            for item in text.split("\n"):
                yield from (f"{line} ->{json_line}" for json_line in _json_lines(item, ""))


# --- the server


class Server:
    """`playground serve` in a process of its own, on `db`."""

    def __init__(self, db: Path) -> None:
        self.db = db
        self.routes = db.parent / "routes.jsonl"
        stored_data = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        environment = {
            **stored_data,
            "PYTHONPATH": str(ROOT / "app"),
            "HOME": str(db.parent),
            "PLAYGROUND_HOME": str(db.parent),
            "PLAYGROUND_TOKEN": TOKEN,
            "PLAYGROUND_PACE": "0",
            "ROUTES": str(self.routes),
        }
        words = [sys.executable, "-c", SERVER, "serve", "--port", "0"]  # the database: HOME's own
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, cwd=db.parent, env=environment
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        match = re.fullmatch(
            rf"Playground on http://127\.0\.0\.1:(\d+)/\?token={TOKEN}\n", self.line
        )
        assert match, self.line
        self.port = int(match[1])
        self.client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)

    def send(
        self, method: str, path: str, body: str = "", accept: str = "", **headers: str
    ) -> http.client.HTTPResponse:
        request_headers = {
            "authorization": f"Bearer {TOKEN}",
            "accept": accept or "application/json",
        }
        if body.startswith(("{", "[")):
            request_headers["content-type"] = "application/json"
        if path.startswith("/sim"):
            request_headers |= {"x-api-key": TOKEN, "x-goog-api-key": TOKEN}
            request_headers["anthropic-version"] = "2023-06-01"
        self.client.request(method, path, body.encode() or None, {**request_headers, **headers})
        return self.client.getresponse()

    def ask(self, method: str, path: str, body: str = "", accept: str = "") -> tuple[int, str, str]:
        """Status, media type and text of an answer."""
        answer = self.send(method, path, body, accept)
        text = answer.read().decode("utf-8", "replace")
        return answer.status, _media_type(answer), text

    def upgrade(self, path: str) -> tuple[int, str, str]:
        """The same of a request for a WebSocket."""
        wanted = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        answer = self.send("GET", path, **wanted, **{"sec-websocket-key": "a2V5LW9mLTE2LWJ5dGU="})
        text = answer.read().decode()
        self.client.close()
        return answer.status, _media_type(answer), text

    def messages(self, path: str, most: int) -> tuple[int, str, str]:
        """The same of a stream, of which `most` messages are read."""
        answer, text = self.send("GET", path, accept="text/event-stream"), ""
        while text.count("\n\n") < most and (line := answer.readline()):
            text += line.decode()
        self.client.close()
        return answer.status, _media_type(answer), text

    def end(self) -> int:
        """Its exit code after SIGTERM."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)


def _media_type(answer: http.client.HTTPResponse) -> str:
    return (answer.getheader("content-type") or "").partition(";")[0]


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(make_database(folder / "playground.db", SCHEMA))
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait(40)
        assert server.process.stdout is not None
        server.process.stdout.close()


def route_lines(server: Server) -> Iterator[str]:
    server.ask("GET", "/sim/", accept="*/*")  # the simulator's are made when it is first asked
    for line in server.routes.read_text("ascii").splitlines():
        path, methods = json.loads(line)
        path = re.sub(r"\{\w+(:\w+)?\}", "{}", path)
        yield from (f"route {item} {path}" for item in methods or ["*"] if item != "HEAD")


def request_lines(server: Server) -> Iterator[str]:
    """Each line of requests.txt, its answer, and what is said of each field of a wrong type."""
    places = dict(PLACES)
    for line in (HELD / "requests.txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        how, path, body = [*line.split(" ", 2), ""][:3]
        for name, value in places.items():
            path, body = path.replace(f"<{name}>", value), body.replace(f"<{name}>", value)
        data = json.loads(body) if body.startswith("{") else {}
        message = " ".join(filter(None, (*line.split(" ")[:2], ",".join(data))))
        for name in data if how == "POST" else ():
            bad_body = json.dumps({**data, name: {"no": ["such", 7]}})
            yield f"{message} {name} of a wrong type: {server.ask('POST', path, bad_body)[0]}"
        if how.startswith("STREAM"):
            status, kind, text = server.messages(path, int(how.removeprefix("STREAM")))
        elif how == "UPGRADE":
            status, kind, text = server.upgrade(path)
        elif how == "PAGE":
            status, kind, text = server.ask("GET", path, accept="text/html")
        else:
            accept = "*/*" if how == "GET!" else "application/json"
            status, kind, text = server.ask(how.removesuffix("!"), path, body, accept)
        yield f"{message} {status} {kind}"
        label = "" if kind == "text/html" else f"{message} ->"
        yield from (f"{label}{text_line}" for text_line in text_lines(kind, text))


# --- what is compared


def read_lines(name: str) -> list[str]:
    path = HELD / name
    return path.read_text("utf-8").split("\n")[:-1] if path.exists() else []


def compare(name: str, matches: Iterable[str]) -> None:
    """Fail with a sentence on each line that is not as it was listed."""
    now, before = set(matches), set(read_lines(name))
    gone = [
        f"Gone or different, but somebody relies on it: {text}" for text in sorted(before - now)
    ]
    new = [f"New, and not in tests/public_surface/{name}: {text}" for text in sorted(now - before)]
    if new:
        new.append(f"`{ADD}` adds what is new; then tell of it in docs/contract.md and CHANGELOG.")
    if gone or new:
        pytest.fail("\n".join([f"{name} does not hold:", *gone, *new]), pytrace=False)


def stored_lines(db: Path) -> Iterator[str]:
    """Every table with its columns; every kind and field of what is kept as JSON."""
    with closing(sqlite3.connect(db)) as connection:
        for table in _tables(connection):
            yield f"table {table}"
            yield from (f"table {table} {column}" for column in _columns(connection, table))
    for kind, body in query(db, "SELECT kind, body FROM events"):
        yield from shape_lines(json.loads(body), f"event {kind} ")
    for table in ("tools", "tool_versions", "profiles", "servers", "rules", "taps"):
        for (body,) in query(db, f"SELECT body FROM {table}"):
            yield from shape_lines(json.loads(body), f"{table} ")
    for (body,) in query(db, "SELECT accepted FROM servers"):
        yield from shape_lines(json.loads(body), "servers accepted ")


def only(old: Any, new: Any) -> Any:
    """`new` without the fields that `old` does not have: those were added since."""
    match old, new:
        case dict(), dict():
            return {name: only(old.get(name), item) for name, item in new.items() if name in old}
        case list(), list() if len(old) == len(new):
            return [only(*pair) for pair in zip(old, new, strict=True)]
    return new


def as_before(old: str, new: str) -> str:
    """`new`, a JSON text, as it would be without the fields that were added since `old`."""
    stored = only(json.loads(old), json.loads(new))
    return json.dumps(stored, separators=(",", ":")) if stored != json.loads(new) else new


def events_of(db: Path, session_id: str) -> list[tuple[Any, ...]]:
    columns = "seq, at_ms, kind, body, recording, start, stop"
    return query(db, f"SELECT {columns} FROM events WHERE session = ? ORDER BY seq", session_id)


def differences(old: Sequence[tuple[Any, ...]], new: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Rows of a log that are not, byte for byte, those that were kept."""
    assert len(old) == len(new)
    pairs = zip(old, new, strict=True)
    return [
        (a, b)
        for a, b in pairs
        if (*a[:3], a[3], *a[4:]) != (*b[:3], as_before(a[3], b[3]), *b[4:])
    ]


def kinds_of_events() -> set[str]:
    """Those that the program knows: of the unions of dataclasses in its modules, the one that has
    all that are kept."""
    stored_items = {row["kind"] for table, row in stored_rows() if table == "events"}
    for name, module in sorted(sys.modules.items()):
        for value in vars(module).values() if name.startswith("playground.") else ():
            if isinstance(value, types.UnionType):
                classes = [arg for arg in value.__args__ if isinstance(arg, type)]
                names = [
                    re.sub(r"(?<!^)(?=[A-Z])", "_", class_.__name__).lower() for class_ in classes
                ]
                if stored_items <= set(names):
                    return set(names)
    raise AssertionError("No module of the program has a union of all classes of events.")


def import_copy(server: Server, form: str) -> str:
    """Exports the session that has every event in this form, imports it, and returns the id."""
    path = f"/sessions/{PLACES['every']}/export?as={form}"
    status, _, text = server.ask("GET", path, accept="*/*")
    assert status == 200
    status, _, text = server.ask("POST", "/sessions/import", text, "application/json")
    assert (form, status) == (form, 201), text
    return str(json.loads(text)["id"])


# --- the tests


def test_the_options_are_those_that_are_listed() -> None:
    compare("options.txt", option_lines())


def test_the_http_surface_and_the_commands_are_those_that_are_listed(tmp_path: Path) -> None:
    """And what a server writes of kept rows is what was kept; SIGTERM ends it well."""
    with serving(tmp_path) as server:
        compare("routes.txt", route_lines(server))
        compare("http.txt", request_lines(server))
        compare("cli.txt", command_lines(_words(server.db)))
        for form in ("jsonl", "html"):
            copied_id = import_copy(server, form)
            events = events_of(server.db, PLACES["every"])
            assert differences(events, events_of(server.db, copied_id)) == []
        compare("stored.txt", stored_lines(server.db))
        assert server.end() == 0


def _words(db: Path) -> dict[str, str]:
    """What stands in commands.txt for a place: files that it needs, and sessions."""
    folder = db.parent
    document = {
        "tool": json.dumps({"name": "a_tool", "parameters": {"type": "object", "properties": {}}}),
        "no_tool": "nothing",
        "body": "".join(
            bytes.fromhex(row["bytes"]["hex"]).decode()
            for table, row in stored_rows()
            if table == "chunks" and (row["session"], row["recording"]) == (PLACES["real"], 1)
        ),
        "refused": json.dumps({"name": "a_tool", "parameters": {"$ref": "https://a.example/b"}}),
        "request": json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}),
    }
    for name, text in document.items():
        (folder / f"{name}.json").write_text(text, "utf-8")
    files = {name: str(folder / f"{name}.json") for name in document}
    return {**PLACES, **files, "db": str(db), "folder": str(folder)}


def test_a_kept_database_reads_and_is_written_as_it_was(tmp_path: Path) -> None:
    """Of this schema and of older ones: nothing is lost, and every kind of event is there."""
    now = make_database(tmp_path / "now.db", SCHEMA)
    with closing(sqlite3.connect(now)) as connection:
        connection.execute("UPDATE sessions SET calls = 99")
        connection.commit()
    assert [played("verify", "--db", str(now))[0] for _ in range(2)] == [1, 0]
    stored_items = {row["kind"] for table, row in stored_rows() if table == "events"}
    hint = f"Add a row of each to tests/public_surface/rows.jsonl, then `{ADD}`."
    assert (kinds_of_events() - stored_items, hint) == (set(), hint)
    contract = (ROOT / "docs" / "contract.md").read_text("utf-8")
    assert sorted(kind for kind in stored_items if f"`{kind}`" not in contract) == []
    older = [make_database(tmp_path / f"{schema}.db", schema) for schema in (1, 8, 9, 10, 11, 12)]
    for old in older:
        assert played("verify", "--db", str(old))[0] == 0  # brings it up to date
        assert query(old, "PRAGMA user_version") == query(now, "PRAGMA user_version")
        for name in PLACES:
            assert events_of(old, PLACES[name]) == events_of(now, PLACES[name])
    rows = [row for table, row in stored_rows() if table == "events"]
    written = [
        {"seq": row["seq"], "at_ms": row["at_ms"], "kind": row["kind"], **json.loads(row["body"])}
        for row in rows
        if row["session"] == PLACES["every"]
    ]
    for db in (now, *older):
        code, text = played("export", PLACES["every"], "--as", "jsonl", "--db", str(db))
        lines = [json.loads(line) for line in text.split("\n") if line]
        assert (code, only(written, lines[1 : len(written) + 1])) == (0, written)
    real, shared, in_slices = (
        played("export", session, "--as", "jsonl", "--db", str(now))[1].split("\n")[1:]
        for session in (PLACES["real"], SHARED_ROWS, IN_SLICES)
    )
    assert real == shared == in_slices
    assert len(events_of(now, SHARED_ROWS)) < len(events_of(now, PLACES["real"])) < len(real)


def write() -> None:
    """Add what is new to each listing."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as server:
        import_copy(server, "jsonl")  # stores events of every kind
        result = {
            "options.txt": option_lines(),
            "routes.txt": route_lines(server),
            "http.txt": request_lines(server),
            "cli.txt": command_lines(_words(server.db)),
            "stored.txt": stored_lines(server.db),
        }
        for listing, lines in result.items():
            before, now = set(read_lines(listing)), set(lines)
            for line in sorted(before - now):
                print(f"{listing}: gone or different: {line}")
            text = "".join(f"{line}\n" for line in sorted(before | now))
            (HELD / listing).write_text(text, "utf-8")


if __name__ == "__main__":
    write()
