"""The styles of parameters, as the tables of the OpenAPI specification write them out.

openapi-core reads most of them (`test_openapi_documents`); these are the texts themselves.
https://spec.openapis.org/oas/v3.1.1#style-examples
https://swagger.io/specification/v2/#parameter-object (collectionFormat)
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.exchange.tool_import import import_tools
from tests.exchange.openapi_reader import RecordedRequest
from tests.exchange.openapi_round_trip import execute
from tests.net.tool_server import http_response, serving

pytestmark = pytest.mark.anyio

STRING, ARRAY, OBJECT = "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}
SCHEMAS: dict[type, dict[str, Any]] = {
    str: {"type": "string"},
    list: {"type": "array", "items": {"type": "string"}},
    dict: {"type": "object", "properties": {key: {"type": "integer"} for key in "RGB"}},
}

STYLE_EXAMPLES = [
    ("path", "matrix", False, STRING, ";color=blue"),
    ("path", "matrix", False, ARRAY, ";color=blue,black,brown"),
    ("path", "matrix", False, OBJECT, ";color=R,100,G,200,B,150"),
    ("path", "matrix", True, STRING, ";color=blue"),
    ("path", "matrix", True, ARRAY, ";color=blue;color=black;color=brown"),
    ("path", "matrix", True, OBJECT, ";R=100;G=200;B=150"),
    ("path", "matrix", False, "", ";color"),
    ("path", "matrix", True, "", ";color"),
    ("path", "label", False, STRING, ".blue"),
    ("path", "label", False, ARRAY, ".blue,black,brown"),
    ("path", "label", False, OBJECT, ".R,100,G,200,B,150"),
    ("path", "label", True, STRING, ".blue"),
    ("path", "label", True, ARRAY, ".blue.black.brown"),
    ("path", "label", True, OBJECT, ".R=100.G=200.B=150"),
    ("path", "simple", False, STRING, "blue"),
    ("path", "simple", False, ARRAY, "blue,black,brown"),
    ("path", "simple", False, OBJECT, "R,100,G,200,B,150"),
    ("path", "simple", True, ARRAY, "blue,black,brown"),
    ("path", "simple", True, OBJECT, "R=100,G=200,B=150"),
    ("header", "simple", False, ARRAY, "blue,black,brown"),
    ("header", "simple", False, OBJECT, "R,100,G,200,B,150"),
    ("header", "simple", True, OBJECT, "R=100,G=200,B=150"),
    ("query", "form", False, "", "color="),
    ("query", "form", False, STRING, "color=blue"),
    ("query", "form", False, ARRAY, "color=blue,black,brown"),
    ("query", "form", False, OBJECT, "color=R,100,G,200,B,150"),
    ("query", "form", True, "", "color="),
    ("query", "form", True, STRING, "color=blue"),
    ("query", "form", True, ARRAY, "color=blue&color=black&color=brown"),
    ("query", "form", True, OBJECT, "R=100&G=200&B=150"),
    ("cookie", "form", False, STRING, "color=blue"),
    ("cookie", "form", False, ARRAY, "color=blue,black,brown"),
    ("cookie", "form", False, OBJECT, "color=R,100,G,200,B,150"),
    ("query", "spaceDelimited", False, ARRAY, "color=blue%20black%20brown"),
    ("query", "spaceDelimited", False, OBJECT, "color=R%20100%20G%20200%20B%20150"),
    ("query", "pipeDelimited", False, ARRAY, "color=blue%7Cblack%7Cbrown"),
    ("query", "pipeDelimited", False, OBJECT, "color=R%7C100%7CG%7C200%7CB%7C150"),
    ("query", "deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
]

COLLECTION_FORMATS = [
    ("query", None, "color=blue,black,brown"),
    ("query", "csv", "color=blue,black,brown"),
    ("query", "ssv", "color=blue%20black%20brown"),
    ("query", "tsv", "color=blue%09black%09brown"),
    ("query", "pipes", "color=blue%7Cblack%7Cbrown"),
    ("query", "multi", "color=blue&color=black&color=brown"),
    ("path", "csv", "blue,black,brown"),
    ("path", "pipes", "blue%7Cblack%7Cbrown"),
    ("header", None, "blue,black,brown"),
    ("header", "ssv", "blue black brown"),
    ("formData", None, "color=blue,black,brown"),
    ("formData", "multi", "color=blue&color=black&color=brown"),
]

TEXTS_WITH_DELIMITERS = [
    ("path", "simple", False, ["a,b", "c/d"], "a%2Cb,c%2Fd"),
    ("path", "matrix", True, ["a;b", "c=d"], ";color=a%3Bb;color=c%3Dd"),
    ("query", "form", False, ["a,b", "c&d"], "color=a%2Cb,c%26d"),
    ("query", "form", True, ["a+b", "c d"], "color=a%2Bb&color=c%20d"),
    ("query", "form", False, "é", "color=%C3%A9"),
    ("cookie", "form", False, "a;b c", "color=a%3Bb%20c"),
]

OTHER_TEMPLATES = [
    ("/p/{color+}", "path", "a/b", "a%2Fb"),
    ("/p/{+color}", "path", "a/b", "a%2Fb"),
    ("/p/{color*}.json", "path", "blue", "blue.json"),
    ("/p/{color:[a-z]+}", "path", "blue", "blue"),
    ("/p/{color:}/q", "path", "blue", "blue/q"),
    ("/p{?color}", "query", "blue", "color=blue"),
    ("/p{&color*}", "query", "blue", "color=blue"),
]
"""Paths of AWS, of web frameworks, and of RFC 6570, which documents have though OpenAPI has not."""


async def wire_value(where: str, document: dict[str, Any], value: Any) -> str:
    """What the request has at the place of its only parameter."""
    (imported,) = import_tools(json.dumps(document)).tools
    assert imported.tool is not None, imported.problem
    async with serving(http_response(b"")) as server:
        data, failure = await execute(imported.tool, {"color": value}, server)
    assert data is not None, failure
    request = RecordedRequest.parse(data, "")
    match where:
        case "path":
            return request.target.removeprefix("/p/")
        case "query":
            return request.target.removeprefix("/p?")
        case "formData":
            return request.body.decode().replace("%2C", ",")  # the same in a form
    return request.headers["cookie" if where == "cookie" else "color"]


@pytest.mark.parametrize(
    ("where", "style", "explode", "value", "text"), [*STYLE_EXAMPLES, *TEXTS_WITH_DELIMITERS]
)
async def test_value_in_a_style_is_sent_as_the_specification_writes_it(
    where: str, style: str, explode: bool, value: Any, text: str
) -> None:
    parameter = {
        **{"in": where, "name": "color", "required": True, "style": style, "explode": explode},
        "schema": SCHEMAS[type(value)],
    }
    path = "/p/{color}" if where == "path" else "/p"
    document = {
        **{"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://style.example"}]},
        "paths": {path: {"get": {"operationId": "get", "parameters": [parameter]}}},
    }
    assert await wire_value(where, document, value) == text


async def test_reserved_characters_when_allowed_are_sent_as_they_are() -> None:
    """But those that would end a pair or the query, or be a space in it (3.1.1, allowReserved)."""
    parameter = {
        **{"in": "query", "name": "color", "allowReserved": True},
        "schema": {"type": "string"},
    }
    document = {
        **{"openapi": "3.1.1", "info": {}, "servers": [{"url": "https://style.example"}]},
        "paths": {"/p": {"get": {"operationId": "get", "parameters": [parameter]}}},
    }
    stored_text, encoded = ":/?@!$'()*,;", "#[]&+ é"
    assert await wire_value("query", document, stored_text) == f"color={stored_text}"
    assert await wire_value("query", document, encoded) == "color=%23%5B%5D%26%2B%20%C3%A9"


@pytest.mark.parametrize(("where", "format_", "text"), COLLECTION_FORMATS)
async def test_list_in_a_collection_format_is_sent_as_swagger_writes_it(
    where: str, format_: str | None, text: str
) -> None:
    parameter = {
        **{"in": where, "name": "color", "required": True, "type": "array"},
        "items": {"type": "string"},
        **({"collectionFormat": format_} if format_ else {}),
    }
    path = "/p/{color}" if where == "path" else "/p"
    document = {
        **{"swagger": "2.0", "info": {}, "host": "style.example"},
        "paths": {path: {"post": {"operationId": "post", "parameters": [parameter]}}},
    }
    assert await wire_value(where, document, ARRAY) == text


@pytest.mark.parametrize(("path", "where", "value", "text"), OTHER_TEMPLATES)
async def test_place_in_another_template_when_its_parameter_is_described_is_filled(
    path: str, where: str, value: str, text: str
) -> None:
    parameter = {"in": where, "name": "color", "required": True, "schema": {"type": "string"}}
    document = {
        **{"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://style.example"}]},
        "paths": {path: {"get": {"operationId": "get", "parameters": [parameter]}}},
    }
    assert await wire_value(where, document, value) == text
