"""Operations whose parameters, forms and keys need more than a placeholder: what is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.tools import Tool
from playground.exchange.tool_import import import_tools
from playground.executors.http import request_of
from playground.schema.validate import check_call
from tests.exchange.test_openapi import body, read_operation, tool

SERVER = "https://pets.example/v1"
LIST = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "integer"}}}
TEXT = {"type": "string"}
BINARY = {"type": "string", "format": "binary"}
VALUES: dict[str, Any] = {"array": ["a,b", "c"], "object": {"x": "1", "y": 2}, "string": "a b"}

SCHEMES = {
    "query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "other": {"type": "mutualTLS"},
}

FORM = "application/x-www-form-urlencoded"

QUERYSTRING = {"name": "all", "in": "querystring", "content": {FORM: {"schema": OBJECT}}}

ANIMALS: dict[str, Any] = {
    "Pet": {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": TEXT, "name": TEXT, "friend": {"$ref": "#/components/schemas/Pet"}},
        "discriminator": {
            "propertyName": "kind",
            "mapping": {"cat": "#/components/schemas/Cat", "kitten": "Cat"},
        },
    },
    "Cat": {
        "allOf": [
            {"$ref": "#/components/schemas/Pet"},
            {"type": "object", "required": ["claws"], "properties": {"claws": {"type": "integer"}}},
        ]
    },
    "Dog": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"bark": TEXT}}]},
    "Puppy": {"allOf": [{"$ref": "#/components/schemas/Dog"}, {"required": ["bark"]}]},
}
PET = {"$ref": "#/components/schemas/Pet"}


def wire_parts(tool: Tool, arguments: Any) -> tuple[str, dict[str, str], bytes]:
    """(the URL without the server, the headers, the body)."""
    request = request_of(tool.config, json.dumps(arguments))
    headers = {
        name: "".join(f"${{{p}}}" if n % 2 else p for n, p in enumerate(pieces))
        for name, pieces in request.headers.items()
    }
    return request.url.removeprefix(SERVER), headers, request.body


@pytest.mark.parametrize(
    ("parameter", "schema", "url"),
    [
        ({"in": "query"}, TEXT, "/p?t=a%20b"),
        ({"in": "query"}, LIST, "/p?t=a%2Cb&t=c"),
        ({"in": "query"}, OBJECT, "/p?x=1&y=2"),
        ({"in": "query", "explode": False}, LIST, "/p?t=a%2Cb,c"),
        ({"in": "query", "explode": False}, OBJECT, "/p?t=x,1,y,2"),
        ({"in": "query", "style": "pipeDelimited"}, LIST, "/p?t=a%2Cb%7Cc"),
        ({"in": "query", "style": "spaceDelimited", "explode": False}, LIST, "/p?t=a%2Cb%20c"),
        ({"in": "query", "style": "deepObject", "explode": True}, OBJECT,
         "/p?t%5Bx%5D=1&t%5By%5D=2"),
        ({"in": "query", "allowReserved": True}, TEXT, "/p?t=a%20b"),
        ({"in": "query"}, {"anyOf": [TEXT, LIST]}, "/p?t=a%20b"),
        ({"in": "query"}, {"$ref": "#/components/schemas/Pet"},
         "/p?name=Rex"),
    ],
)  # fmt: skip
def test_a_query_parameter_is_sent_in_its_style(
    parameter: dict[str, Any], schema: dict[str, Any], url: str
) -> None:
    value = VALUES.get(schema.get("type", ""), {"name": "Rex"} if "$ref" in schema else "a b")
    result = tool("/p", "get", {"parameters": [{"name": "t", "schema": schema, **parameter}]})
    assert wire_parts(result, {"t": value}) == (url, {}, b"")


@pytest.mark.parametrize(
    ("parameter", "schema", "url"),
    [
        ({}, LIST, "/p/a%2Cb,c"),
        ({}, OBJECT, "/p/x,1,y,2"),
        ({"explode": True}, OBJECT, "/p/x=1,y=2"),
        ({"style": "label"}, TEXT, "/p/.a%20b"),
        ({"style": "label", "explode": True}, OBJECT, "/p/.x=1.y=2"),
        ({"style": "matrix"}, LIST, "/p/;the%20id=a%2Cb,c"),
        ({"style": "matrix", "explode": True}, LIST, "/p/;the%20id=a%2Cb;the%20id=c"),
    ],
)
def test_a_path_parameter_is_sent_in_its_style(
    parameter: dict[str, Any], schema: dict[str, Any], url: str
) -> None:
    path_parameter = {
        "name": "the id",
        "in": "path",
        "required": True,
        "schema": schema,
        **parameter,
    }
    result = tool("/p/{the id}", "get", {"parameters": [path_parameter]})
    assert wire_parts(result, {"the_id": VALUES[schema["type"]]})[0] == url


def test_headers_and_cookies_are_sent_in_their_styles() -> None:
    parameters = [
        {"name": "X-Ids", "in": "header", "schema": LIST},
        {"name": "X-Plain", "in": "header", "schema": TEXT},
        {"name": "sid", "in": "cookie", "schema": TEXT},
        {"name": "look", "in": "cookie", "schema": OBJECT, "explode": False},
    ]
    result = tool("/p", "get", {"parameters": parameters})
    assert list(result.parameters["properties"]) == ["X-Ids", "X-Plain", "sid", "look"]
    arguments = {"X-Ids": ["1", "2"], "X-Plain": "p", "sid": "s 1", "look": {"x": "1", "y": 2}}
    assert wire_parts(result, arguments)[1] == {
        "X-Plain": "p",
        "X-Ids": "1,2",
        "Cookie": "sid=s%201; look=x,1,y,2",
    }


def test_a_plain_parameter_is_a_placeholder() -> None:
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": TEXT},
        {"name": "t", "in": "query", "schema": LIST},
        {"name": "n", "in": "query", "schema": {"type": ["integer", "null"]}, "explode": False},
        {"name": "e", "in": "query", "schema": {"enum": ["a", "b"]}},
    ]
    config = tool("/p/{id}", "get", {"parameters": parameters}).config
    assert config == {"method": "GET", "url": f"{SERVER}/p/{{id}}?t={{t}}&n={{n}}&e={{e}}"}


@pytest.mark.parametrize(
    ("content", "value", "url"),
    [
        ({"application/json": {"schema": OBJECT}}, {"x": "1"}, "/p?t=%7B%22x%22%3A%20%221%22%7D"),
        ({"application/json": {"schema": TEXT}}, "a", "/p?t=%22a%22"),
        ({"text/plain": {"schema": TEXT}}, "a", "/p?t=a"),
    ],
)
def test_a_parameter_with_content_is_sent_in_its_media_type(
    content: Any, value: Any, url: str
) -> None:
    result = tool("/p", "get", {"parameters": [{"name": "t", "in": "query", "content": content}]})
    assert wire_parts(result, {"t": value})[0] == url


@pytest.mark.parametrize(
    ("parameter", "note"),
    [
        ({"in": "query", "style": "simple"}, "gives t the style 'simple'"),
        ({"in": "query", "style": "deepObject", "schema": {"properties": {"a": LIST}, **OBJECT}},
         ""),
        ({"in": "query", "style": "deepObject",
          "schema": {"type": "object", "properties": {"a": LIST}}}, "they are sent as t[a][0]"),
        ({"in": "query", "schema": {"type": "array", "items": OBJECT}},
         "Lists and objects within t are sent as JSON."),
        ({"in": "path"}, "the path has no placeholder for it"),
        ({"in": "body"}, "which is unknown"),
    ],
)  # fmt: skip
def test_what_a_style_cannot_say_is_noted(parameter: dict[str, Any], note: str) -> None:
    notes = read_operation(
        "/p", "get", {"parameters": [{"name": "t", "schema": TEXT, **parameter}]}
    ).notes
    assert note in " ".join(notes)
    assert bool(note) == bool(notes)


@pytest.mark.parametrize(
    ("path", "parameters", "arguments", "url"),
    [
        ("/p#list", [], {}, "/p"),
        ("/p#Action=Add", [{"name": "v"}], {"v": "1"}, "/p?v=1"),
        ("/p?type=a", [{"name": "v"}], {"v": "1"}, "/p?type=a&v=1"),
        ("/p?type=a&b", [], {}, "/p?type=a&b"),
        ("/p?v={v}", [{"name": "v"}], {"v": "1"}, "/p?v=1"),
        ("/p?q={v}", [{"name": "v", "in": "path"}], {"v": "1"}, "/p?q=1"),
        ("/p?q={v}", [], {"v": "1"}, "/p?q=1"),
        ("/p?v=0", [{"name": "v"}], {"v": "1"}, "/p?v=0&v=1"),
    ],
)
def test_fragment_and_query_of_a_path(path: str, parameters: Any, arguments: Any, url: str) -> None:
    query_parameters = [{"in": "query", "schema": TEXT, **parameter} for parameter in parameters]
    imported_tool = read_operation(path, "get", {"parameters": query_parameters})
    assert imported_tool.tool is not None
    if "?v=0" in path:  # the path decides; what is no argument goes into the query as it is
        assert imported_tool.tool.parameters["properties"] == {}
        assert imported_tool.notes == ("'v' is not an argument: the path says 'v=0'.",)
    assert wire_parts(imported_tool.tool, arguments)[0] == url


def test_headers_of_the_connection_are_no_arguments() -> None:
    names = ("Accept", "Host", "Accept-Encoding", "TE", "X-A")
    header_parameters = [{"name": name, "in": "header", "schema": TEXT} for name in names]
    imported_tool = read_operation("/p", "get", {"parameters": header_parameters})
    assert imported_tool.tool is not None, imported_tool.problem
    assert list(imported_tool.tool.parameters["properties"]) == ["X-A"]
    assert [note.split()[2] for note in imported_tool.notes] == ["Host", "Accept-Encoding", "TE"]


def test_a_dollar_before_a_place_is_no_key() -> None:
    parameters = [{"name": "id", "in": "path", "required": True, "schema": TEXT}]
    result = tool("/routes/$count/${id}", "get", {"parameters": parameters})
    assert wire_parts(result, {"id": "1"})[0] == "/routes/$count/%241"


def test_an_extension_among_the_paths_is_no_path() -> None:
    paths = {"x-generator": "none", "/p": {"get": {"operationId": "a"}}, "x-more": {"get": {}}}
    imported_tools = import_tools(json.dumps({"openapi": "3.1.0", "paths": paths}))
    assert [(tool.name, tool.problem) for tool in imported_tools.tools] == [("a", "")]


def test_an_empty_form_is_no_body() -> None:
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    result = tool("/p", "get", multipart(empty, kind="application/x-www-form-urlencoded"))
    assert wire_parts(result, {}) == ("/p", {}, b"")
    free = read_operation("/p", "post", multipart({"type": "object"}))
    assert "no simple members" in free.problem


@pytest.mark.parametrize(
    ("security", "url", "headers"),
    [
        ([{"query": []}], "/p?api_key=${PETS_QUERY_KEY}", {}),
        ([{"cookie": []}], "/p", {"Cookie": "sid=${PETS_COOKIE_KEY}"}),
        ([{"query": [], "cookie": []}], "/p?api_key=${PETS_QUERY_KEY}",
         {"Cookie": "sid=${PETS_COOKIE_KEY}"}),
        ([{"query": []}, {"header": []}], "/p", {"X-Key": "${PETS_HEADER_KEY}"}),
        ([{"other": []}, {"query": []}], "/p?api_key=${PETS_QUERY_KEY}", {}),
    ],
)  # fmt: skip
def test_a_key_is_sent_where_its_scheme_says(security: Any, url: str, headers: Any) -> None:
    parameters = [{"name": "api_key", "in": "query", "required": True, "schema": TEXT}]
    operation = {"security": security, "parameters": parameters if "api_key" in url else []}
    result = tool("/p", "get", operation, components={"securitySchemes": SCHEMES})
    assert result.parameters.get("properties") == {}
    assert wire_parts(result, {}) == (url, headers, b"")


def multipart(schema: Any, encoding: Any = None, kind: str = "multipart/form-data") -> Any:
    return {"requestBody": {"content": {kind: {"schema": schema, "encoding": encoding or {}}}}}


def test_a_multipart_body_has_its_fields_and_files() -> None:
    members = {
        "purpose": {"type": "string"},
        "file": {"type": "string", "format": "binary", "description": "What to read."},
        "more[]": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "raw": {"contentMediaType": "image/png"},
        "encoded": {"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"},
        "meta": {"type": "object"},
        "tags": LIST,
    }
    encoding = {"file": {"contentType": "text/csv"}, "tags": {"style": "form", "explode": False}}
    schema = {"type": "object", "properties": members, "required": ["purpose", "more[]"]}
    result = tool("/p", "post", multipart(schema, encoding))
    arguments = result.parameters["properties"]
    assert list(arguments) == ["purpose", "file", "more", "raw", "encoded", "meta", "tags"]
    assert result.parameters["required"] == ["purpose", "more"]
    assert arguments["file"]["description"].startswith("What to read. The content of the file")
    assert arguments["more"]["items"]["type"] == "string"
    assert "format" not in arguments["file"]
    _, headers, data = wire_parts(
        result, {"purpose": "x", "file": "a,b", "more": ["1", "2"], "tags": ["t", "u"]}
    )
    assert headers["Content-Type"].startswith("multipart/form-data; boundary=")
    assert b'name="purpose"\r\n\r\nx\r\n' in data
    assert b'name="file"; filename="file"\r\nContent-Type: text/csv\r\n\r\na,b\r\n' in data
    assert data.count(b'name="more[]"; filename=') == 2
    assert b'name="tags"\r\n\r\nt,u\r\n' in data
    _, _, data = wire_parts(result, {"raw": "1", "encoded": "AAAA"})
    assert b'name="raw"; filename="raw"\r\nContent-Type: image/png\r\n\r\n1\r\n' in data
    assert b'name="encoded"\r\nContent-Type: image/png\r\n\r\nAAAA\r\n' in data


@pytest.mark.parametrize(
    ("encoding", "members", "note"),
    [
        ({"contentType": "application/json"}, {"content_type": "application/json"}, ""),
        ({"contentType": "image/png, image/jpeg"}, {"content_type": "image/png"}, ""),
        ({"contentType": "image/*"}, {}, ""),
        ({"headers": {"X-A": {"schema": {"const": "1"}}}}, {"headers": {"X-A": "1"}}, ""),
        ({"headers": {"X-A": {"schema": TEXT}}}, {}, "headers of the part a were left out: X-A"),
        ({"explode": False}, {"style": "form", "explode": False}, ""),
        ({"style": "deepObject"}, {"style": "deepObject"}, ""),
    ],
)
def test_an_encoding_is_kept(encoding: Any, members: Any, note: str) -> None:
    schema = {"type": "object", "properties": {"a": TEXT}}
    imported_tool = read_operation("/p", "post", multipart(schema, {"a": encoding}))
    assert imported_tool.tool is not None
    expected = [{"in": "body", "name": "a", **members}] if members else None
    assert imported_tool.tool.config.get("parameters") == expected
    assert note in " ".join(imported_tool.notes)
    assert bool(note) == bool(imported_tool.notes)


def test_of_two_forms_the_one_that_can_send_files_is_taken() -> None:
    text, file = ({"type": "object", "properties": {"a": p}} for p in (TEXT, BINARY))
    for schema, kind in ((text, FORM), (file, "multipart/form-data; boundary=")):
        content = {name: {"schema": schema} for name in (FORM, "multipart/form-data")}
        result = tool("/p", "post", {"requestBody": {"content": content}})
        assert wire_parts(result, {"a": "1"})[1]["Content-Type"].startswith(kind)


def test_a_form_has_the_members_of_its_parts() -> None:
    base = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    other = {"type": "object", "properties": {"b": TEXT, "c": TEXT}, "required": ["b"]}
    kind = "application/x-www-form-urlencoded"
    both = tool("/p", "post", multipart({"allOf": [base, other]}, kind=kind))
    assert list(both.parameters["properties"]) == ["a", "b", "c"]
    assert sorted(both.parameters["required"]) == ["a", "b"]
    either = read_operation("/p", "post", multipart({"oneOf": [base, other]}, kind=kind))
    assert either.tool is not None
    assert list(either.tool.parameters["properties"]) == ["a", "b", "c"]
    assert "required" not in either.tool.parameters
    assert "oneOf" in " ".join(either.notes)


def test_a_field_of_the_name_of_a_parameter_is_sent_by_its_own() -> None:
    schema = {"type": "object", "properties": {"id": TEXT}}
    operation = {"parameters": [{"name": "id", "in": "path", "required": True, "schema": TEXT}]}
    result = tool("/p/{id}", "post", {**operation, **multipart(schema, kind=FORM)})
    assert wire_parts(result, {"id": "1", "id_body": "2"})[::2] == ("/p/1", b"id=2")


@pytest.mark.parametrize(
    ("way", "where", "url"),
    [
        (None, "query", "/p?t=a,b"),
        ("csv", "query", "/p?t=a,b"),
        ("ssv", "query", "/p?t=a%20b"),
        ("tsv", "query", "/p?t=a%09b"),
        ("pipes", "query", "/p?t=a%7Cb"),
        ("multi", "query", "/p?t=a&t=b"),
        ("csv", "path", "/p/a,b"),
        ("ssv", "path", "/p/a%20b"),
        ("pipes", "path", "/p/a%7Cb"),
    ],
)
def test_a_collection_format_of_swagger(way: Any, where: str, url: str) -> None:
    parameter = {"name": "t", "in": where, "required": True, "type": "array", "items": TEXT}
    parameter |= {} if way is None else {"collectionFormat": way}
    path = "/p/{t}" if where == "path" else "/p"
    document = {
        "swagger": "2.0",
        "info": {"title": "Pets"},
        "host": "pets.example",
        "basePath": "/v1",
        "paths": {path: {"get": {"parameters": [parameter]}}},
    }
    (imported_tool,) = import_tools(json.dumps(document)).tools
    assert imported_tool.tool is not None, imported_tool.problem
    assert imported_tool.notes == ()
    assert wire_parts(imported_tool.tool, {"t": ["a", "b"]})[0] == url


@pytest.mark.parametrize(
    ("way", "kind", "data"),
    [
        ("csv", FORM, b"t=a,b"),
        ("multi", FORM, b"t=a&t=b"),
        ("pipes", FORM, b"t=a%7Cb"),
        ("csv", "multipart/form-data", b'name="t"\r\n\r\na,b\r\n'),
    ],
)
def test_a_collection_format_of_a_swagger_form(way: str, kind: str, data: bytes) -> None:
    form_parameter = {
        "name": "t",
        "in": "formData",
        "type": "array",
        "items": TEXT,
        "collectionFormat": way,
    }
    post = {"consumes": [kind], "parameters": [form_parameter]}
    document = {"swagger": "2.0", "host": "pets.example", "paths": {"/p": {"post": post}}}
    (imported_tool,) = import_tools(json.dumps(document)).tools
    assert imported_tool.tool is not None, imported_tool.problem
    assert data in wire_parts(imported_tool.tool, {"t": ["a", "b"]})[2]


def test_the_methods_and_places_of_openapi_3_2() -> None:
    schemas = {"$ref": "https://pets.example/v1/openapi.json#/components/schemas/Q"}
    document = {
        "openapi": "3.2.0",
        "$self": f"{SERVER}/openapi.json",
        "servers": [{"url": "/v1"}],
        "paths": {
            "/p": {
                "query": {"operationId": "find", **body(schemas)},
                "additionalOperations": {"COPY": {"operationId": "copy"}},
                "get": {"operationId": "list", "parameters": [QUERYSTRING]},
                "trace": {"operationId": "trace"},
                "post": {
                    "operationId": "stream",
                    "requestBody": {"$ref": "#/components/requestBodies/S"},
                },
            }
        },
        "components": {
            "schemas": {"Q": {"type": "object", "properties": {"q": TEXT}}},
            "mediaTypes": {"Lines": {"itemSchema": {"type": "object"}}},
            "requestBodies": {
                "S": {"content": {"application/jsonl": {"$ref": "#/components/mediaTypes/Lines"}}}
            },
        },
    }
    imported_data = {tool.name: tool for tool in import_tools(json.dumps(document)).tools}
    assert sorted(imported_data) == ["copy", "find", "list", "stream", "trace"]
    tools = {
        name: imported_tool.tool
        for name, imported_tool in imported_data.items()
        if imported_tool.tool
    }
    assert tools["find"].config["method"] == "QUERY"
    assert wire_parts(tools["find"], {"q": "x"})[::2] == ("/p", b'{"q": "x"}')
    assert tools["copy"].config == {"method": "COPY", "url": f"{SERVER}/p"}
    assert wire_parts(tools["list"], {"all": {"x": "1 2", "y": 3}})[0] == "/p?x=1+2&y=3"
    assert "trace" not in tools
    assert "TRACE" in imported_data["trace"].problem
    assert "a series of items as application/jsonl" in " ".join(imported_data["stream"].notes)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"webhooks": {"new": {"post": {}}}}, "only webhooks"),
        ({"paths": {}, "webhooks": {"new": {"post": {}}}}, "only webhooks"),
        ({"components": {"schemas": {}}}, "has no paths"),
        ({"paths": {}}, "has no paths"),
        ({"paths": None}, "has no paths"),
    ],
)
def test_a_document_without_operations_says_what_it_is(document: Any, problem: str) -> None:
    text = json.dumps({"openapi": "3.1.0", "info": {"title": "Hooks"}, **document})
    (refused,) = import_tools(text).tools
    assert refused.tool is None
    assert problem in refused.problem


def test_webhooks_beside_paths_are_noted() -> None:
    document = {"openapi": "3.1.0", "paths": {"/p": {"get": {}}}, "webhooks": {"new": {}}}
    imported_tools = import_tools(json.dumps(document))
    assert [tool.problem for tool in imported_tools.tools] == [""]
    assert imported_tools.notes[0].startswith("Its webhooks were left out: new.")


@pytest.mark.parametrize(
    ("pet", "valid"),
    [
        ({"kind": "cat", "claws": 4}, True),
        ({"kind": "kitten", "claws": 4}, True),
        ({"kind": "cat"}, False),
        ({"kind": "Cat", "claws": 4}, False),  # it has other names in the mapping
        ({"kind": "Dog"}, True),
        ({"kind": "Dog", "bark": 1}, False),
        ({"kind": "Puppy"}, False),
        ({"kind": "Puppy", "bark": "a", "friend": {"kind": "cat", "claws": 1}}, True),
        ({"kind": "Dog", "friend": {"kind": "cat"}}, False),
        ({"kind": "Pet"}, False),
        ({"claws": 4}, False),
    ],
)
def test_a_discriminator_names_the_kinds_that_extend_its_schema(pet: Any, valid: bool) -> None:
    result = tool("/p", "post", body(PET), components={"schemas": ANIMALS})
    problems = check_call(result, "post_p", json.dumps({"body": pet}))
    assert (problems == ()) == valid, problems


def test_a_discriminator_of_swagger() -> None:
    text = json.dumps({**ANIMALS, "Pet": {**ANIMALS["Pet"], "discriminator": "kind"}})
    document = {
        "swagger": "2.0",
        "definitions": json.loads(text.replace("components/schemas", "definitions")),
        "paths": {
            "/p": {
                "post": {
                    "parameters": [
                        {"in": "body", "name": "b", "schema": {"$ref": "#/definitions/Pet"}}
                    ]
                }
            }
        },
    }
    (imported_tool,) = import_tools(json.dumps(document)).tools
    assert imported_tool.tool is not None, imported_tool.problem
    for pet, valid in (({"kind": "Cat", "claws": 1}, True), ({"kind": "Cat"}, False)):
        problems = check_call(imported_tool.tool, "post_p", json.dumps({"body": pet}))
        assert (problems == ()) == valid


def test_kinds_that_are_too_large_leave_what_they_share() -> None:
    large = {"allOf": [PET, {"description": "d" * 300_000}]}
    imported_tool = read_operation(
        "/p", "post", body(PET), components={"schemas": {**ANIMALS, "Huge": large}}
    )
    assert imported_tool.tool is not None, imported_tool.problem
    assert list(imported_tool.tool.parameters["properties"]) == ["kind", "name", "friend"]
    assert "what all of them share" in imported_tool.notes[-1]
