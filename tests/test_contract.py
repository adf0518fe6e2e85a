"""The reference (docs/contract.md and docs/reference/) names all of the public surface.

What that is stands in tests/public_surface/: routes, options, exit codes, events and the fields of
answers. A new line there needs a line in the reference.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.test_public_surface import PLACES, TOKEN, serving
from tests.web.test_openapi import operation_of

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
SURFACE = ROOT / "tests" / "public_surface"
OWN = [DOCS / name for name in ("contract.md", "batch.md", "scenarios.md")]
PAGES = [*OWN, *sorted(REFERENCE.glob("*.md"))]

NO_ROUTES = {("GET", "/healthz"), ("GET", "/static/..."), ("GET", "/")}
"""What the guard or a mounted application answers."""

FREE = {
    "additionalProperties", "arguments", "body", "bound", "config", "env", "error", "extra", "form",
    "headers", "ids", "meta", "output_schema", "parameters", "params", "quirks", "rate_limits",
    "raw", "server", "when", "wire",
}  # fmt: skip
"""Fields whose members are somebody else's: of a provider, a user, or a schema."""

FORMATS = re.compile(r"as=(anthropic|batch|har|openai|otlp)|/requests/\d+ |/requests/\d+/body")
"""Answers in the form of another program."""


def read_lines(name: str) -> list[str]:
    return (SURFACE / name).read_text("utf-8").splitlines()


def sections(path: Path, level: str = "##") -> dict[str, str]:
    """The text below each heading of that level."""
    parts = re.split(rf"^{level} (.+)$", path.read_text("utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names_in(text: str) -> set[str]:
    """Every name in code: `a`, `{"a": ...}`, `a.b`."""
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^```.*?^```", text, re.M | re.S)
    return {name for part in code for name in re.findall(r"[\w-]+", part)}


def fields_of(shape: str) -> Iterator[str]:
    """The names in a shape such as `.calls[].result.content[].text str`; not what is below a field
    of FREE."""
    for name in re.findall(r"\.([^.\[\] ]+)", shape.strip().rpartition(" ")[0]):
        yield name
        if name in FREE:
            return


def documented_routes() -> set[tuple[str, str]]:
    """(method, path) of each route in a table of http.md, with {} for a place."""
    text = (REFERENCE / "http.md").read_text("utf-8")
    rows = re.findall(r"^\| (`(?:GET|POST) [^|]+)\|", text, re.M)
    results = [route for row in rows for route in re.findall(r"`(GET|POST) (/[^`?]*)[^`]*`", row)]
    return {(method, re.sub(r"/[A-Z]+\b", "/{}", path)) for method, path in results}


def test_every_route_is_in_the_reference_and_no_other() -> None:
    routes = [line.split()[1:] for line in read_lines("routes.txt")]
    expected = {(method, path) for method, path in routes if method != "*"}
    assert documented_routes() - NO_ROUTES == expected - NO_ROUTES


def test_every_option_is_in_the_section_of_its_command() -> None:
    parts = sections(REFERENCE / "commands.md")
    common = parts["Rules for all commands"]
    contract = (DOCS / "contract.md").read_text("utf-8")
    missing = []
    for line in read_lines("options.txt"):
        match = re.match(r"playground( [a-z]+)? (--?[\w-]+) ", line)
        if match is None:
            continue
        text = parts[f"playground{match[1]}"] + common if match[1] else contract
        if not re.search(rf"(?<![\w-]){match[2]}(?![\w-])", text):
            missing.append(line)
    assert missing == []


def test_every_exit_code_is_in_the_contract() -> None:
    codes = {
        match[1] for line in read_lines("cli.txt") if (match := re.match(r"exit (\d+):", line))
    }
    table = sections(DOCS / "contract.md")["Exit codes"]
    assert codes <= set(re.findall(r"^\| (\d+) \|", table, re.M))


def test_every_field_that_a_command_prints_is_in_its_section() -> None:
    parts = sections(REFERENCE / "commands.md")
    missing = set()
    for line in read_lines("cli.txt"):
        words, arrow, shape = line.partition(" ->")
        if not arrow or "jsonl" in words or words.startswith("run "):  # events: see below
            continue
        if "--json" in words and ".expectation." not in shape and ".confusion." not in shape:
            named = names_in(parts[f"playground {words.split()[0]}"])
            missing |= {(words, name) for name in fields_of(shape) if name not in named}
    assert sorted(missing) == []


def test_every_kind_of_event_and_its_fields_are_in_the_reference() -> None:
    parts = sections(REFERENCE / "events.md", "###")
    shared = names_in((REFERENCE / "events.md").read_text("utf-8"))
    shared |= names_in((REFERENCE / "tools.md").read_text("utf-8"))
    shared |= names_in(sections(REFERENCE / "http.md")["Sessions"])
    missing = []
    for line in read_lines("stored.txt"):
        match = re.match(r"event (\w+)  ?(\.?.*)$", line)
        if match is None:
            continue
        kind = "part_delta" if match[1] == "part_deltas" else match[1]
        first, *others = [*fields_of(match[2]), ""]
        if first and first not in names_in(parts[f"`{kind}`"]):
            missing.append(line)
        missing += [line for name in others if name and name not in shared]
    assert missing == []


def test_every_field_of_an_answer_is_in_the_reference() -> None:
    named = set[str]().union(*(names_in(page.read_text("utf-8")) for page in PAGES))
    missing = set()
    for line in read_lines("http.txt"):
        request, arrow, shape = line.partition(" ->")
        if arrow and "/sim/" not in request and not FORMATS.search(request + " "):
            missing |= {(request, name) for name in fields_of(shape) if name not in named}
    assert sorted(missing) == []


def test_every_field_that_a_request_takes_is_in_the_reference() -> None:
    named = names_in((REFERENCE / "http.md").read_text("utf-8"))
    named |= names_in((REFERENCE / "tools.md").read_text("utf-8"))
    missing = set()
    for line in read_lines("http.txt"):
        match = re.match(r"POST!? (/\S+) ([\w,]+) \d{3} ", line)
        if match and not match[1].startswith("/sim/"):
            missing |= {(match[1], name) for name in match[2].split(",") if name not in named}
    for line in read_lines("requests.txt"):
        if line.startswith(("GET", "PAGE", "STREAM")) and "/sim/" not in line:
            query = re.findall(r"[?&](\w+)=", line)
            missing |= {(line, name) for name in query if name not in named}
    assert sorted(missing) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    text = page.read_text("utf-8")
    for path, _, anchor in re.findall(r"\]\(((?!https?:)[^)#\s]*)(#?)([^)\s]*)\)", text):
        target = (page.parent / path) if path else page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.M)
            slugs = {re.sub(r"[^\w\- ]", "", it.lower()).replace(" ", "-") for it in headings}
            assert anchor in slugs, (path, anchor)


def examples() -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Method, path, body and headers of each curl command of the reference."""
    places = {
        "/sessions/ID": f"/sessions/{PLACES['real']}",
        "session=A": f"session={PLACES['real']}",
        "session=B": f"session={PLACES['imported']}",
        "$TOKEN": TOKEN,
        "@spec.json": """'{"playground_batch": 1, "cases": [{"id": "a", "prompt": "Hello"}]}'""",
    }
    for page in sorted(REFERENCE.glob("*.md")):
        for line in re.findall(r"^curl .*$", page.read_text("utf-8"), re.M):
            for name, place in places.items():
                line = line.replace(name, place)
            words = shlex.split(line)
            pairs = list(pairwise(words))
            named = [value.split(": ") for flag, value in pairs if flag == "-H"]
            headers = {name.lower(): value for name, value in named}
            body = next((value for flag, value in pairs if flag == "--json"), "")
            (url,) = [word for word in words if word.startswith("http://127.0.0.1:8765/")]
            path = url.removeprefix("http://127.0.0.1:8765")
            yield "POST" if body else "GET", path, body, headers


def test_each_example_of_the_reference_is_answered(tmp_path: Path) -> None:
    """With a status of the OpenAPI document. The call of the decision is decided already: 409."""
    refused, tried = [], 0
    with serving(tmp_path) as server:
        document = json.loads(server.ask("GET", "/openapi.json")[2])
        for method, path, body, headers in examples():
            if headers.pop("accept", "") == "text/event-stream":
                status, _, text = server.messages(path, 1)
            else:
                accept = "*/*" if "export" in path else ""
                answer = server.send(method, path, body, accept, **headers)
                status, text = answer.status, answer.read().decode("utf-8", "replace")
            tried += 1
            if not path.startswith("/sim/"):
                assert str(status) in operation_of(document, method, path)["responses"], path
            if status >= 400:
                refused.append((path, status, text[:100]))
        assert server.end() == 0
    assert [(path, status) for path, status, _ in refused] == [
        (f"/sessions/{PLACES['real']}/calls/1.1/decision", 409)
    ], refused
    assert tried > 25
