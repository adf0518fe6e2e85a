"""The OpenAPI document is valid, and describes every route as the server answers it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.responses import Response
from starlette.routing import Mount, Route

from playground.core.serialization import EVENTS, from_row, to_data
from playground.web.openapi import docstring_of, openapi_of

pytestmark = pytest.mark.anyio

SURFACE = Path(__file__).resolve().parents[1] / "public_surface"
MOUNTED = ("/static", "/sim", "/anthropic", "/gemini", "/llamacpp", "/ollama", "/openai", "/vllm")
"""Where other applications begin, which the document leaves out."""

Document = dict[str, Any]
ANSWER = re.compile(r"(GET|POST|PAGE|STREAM)\S* (/\S*)( [\w,]+)? (\d{3}) ?(\S*)")
"""A line of http.txt with the status and media type of an answer."""


@pytest.fixture
async def document(script: httpx.AsyncClient) -> Document:
    answer = await script.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    return dict(answer.json())


def operations(document: Document) -> dict[tuple[str, str], dict[str, Any]]:
    """Every operation by its method and path."""
    return {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def operation_of(document: Document, method: str, path: str) -> dict[str, Any]:
    """The operation of a request; of several paths that fit, the one with the fewest parameters."""
    fitting = [
        (template.count("{"), operation)
        for (verb, template), operation in operations(document).items()
        if verb == method
        and re.fullmatch(re.sub(r"\{\w+\}", "[^/?]+", template) + r"(\?.*)?", path)
    ]
    return min(fitting, key=lambda pair: pair[0])[1]


def read_lines(name: str) -> list[str]:
    return (SURFACE / name).read_text("utf-8").splitlines()


def without_names(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


async def test_the_document_is_valid(document: Document) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()


async def test_every_route_is_in_the_document(document: Document) -> None:
    routes = {tuple(line.split()[1:]) for line in read_lines("routes.txt")}
    expected = {(method, path) for method, path in routes if method != "*"}
    assert {(method, without_names(path)) for method, path in operations(document)} == expected


async def test_every_operation_has_a_summary_and_its_path_parameters(document: Document) -> None:
    for place, operation in operations(document).items():
        assert len(operation["summary"].split()) >= 3, place
        named = [it["name"] for it in operation["parameters"] if it["in"] == "path"]
        assert named == re.findall(r"\{(\w+)\}", place[1]), place


async def test_a_post_accepts_json_and_forms_and_a_get_has_no_body(document: Document) -> None:
    for (method, path), operation in operations(document).items():
        content = operation.get("requestBody", {}).get("content", {})
        wanted = {"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}
        assert (wanted if method == "POST" else set()) <= set(content), path
        assert method == "POST" or "requestBody" not in operation, path


async def test_every_answer_of_the_public_surface_is_described(document: Document) -> None:
    """Each status that a script has seen, with its media type, and each query parameter."""
    checked = 0
    for line in read_lines("http.txt"):
        match = ANSWER.fullmatch(line)
        if match is None or match[2].startswith((*MOUNTED, "/healthz", "/nowhere")):
            continue
        method = "POST" if match[1] == "POST" else "GET"
        operation = operation_of(document, method, match[2])
        response = operation["responses"].get(match[4])
        assert response is not None, line
        if "$ref" in response:
            response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        kinds = list(response.get("content", {}))
        fits = match[5] in kinds or match[5].partition("/")[0] + "/*" in kinds
        assert fits or not match[5], (line, kinds)
        query = {it["name"] for it in operation["parameters"] if it["in"] == "query"}
        assert set(re.findall(r"[?&](\w+)=", match[2])) <= query, line
        checked += 1
    assert checked > 180


async def test_kept_events_satisfy_their_schemas(document: Document) -> None:
    schema = {"$ref": "#/components/schemas/Event", "components": document["components"]}
    validator = jsonschema_rs.validator_for(schema)
    kinds = set()
    for line in read_lines("rows.jsonl"):
        table, row = json.loads(line)
        if table == "events":
            answer = {name: row[name] for name in ("seq", "at_ms", "kind")}
            validator.validate({**_with_defaults(row), **answer})
            kinds.add(row["kind"])
            assert not validator.is_valid({**answer, "seq": "1"})
    assert kinds == set(EVENTS)


def _with_defaults(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a kept event, with those that were added since."""
    return dict(to_data(from_row(row["kind"], row["body"])))


async def endpoint(request: object) -> Response:
    """GET /things/NAME?after=N&all=1: lists the things. Those after N.

    ---
    parameters:
      - {name: all, in: query, schema: {type: boolean}}
    responses:
      200: {description: The things.}
      410: {description: They are gone.}
    """
    return Response()


async def undocumented(request: object) -> Response:
    return Response()


def test_a_docstring_is_the_operation() -> None:
    routes = [
        Route("/things/{name}/{number:int}", endpoint),
        Mount("/elsewhere", Response()),
    ]
    (operation,) = openapi_of(routes)["paths"]["/things/{name}/{number}"].values()
    assert (operation["summary"], operation["description"]) == (
        "Lists the things",
        "Those after N.",
    )
    assert {it["name"]: it["schema"] for it in operation["parameters"]} == {
        "name": {"type": "string"},
        "number": {"type": "integer"},
        "after": {"type": "string"},
        "all": {"type": "boolean"},
    }
    assert list(operation["responses"]) == ["200", "401", "404", "410", "422"]
    assert operation["responses"]["200"]["content"] == {"application/json": {}}


def test_an_endpoint_without_a_docstring_has_no_summary() -> None:
    assert docstring_of(undocumented).summary == ""
