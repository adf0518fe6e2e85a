"""Operations as HTTP tools: addresses, arguments, bodies, keys, refs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from playground.core.tools import Tool
from playground.exchange import openapi_documents as openapi_files
from playground.exchange.tool_entry import ImportedTool
from playground.exchange.tool_import import import_tools
from playground.executors.http import request_of

PET = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "name": {"type": "string"},
        "owner": {"$ref": "#/components/schemas/Owner"},
    },
}
OWNER = {"properties": {"pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}}
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
    "same": {"$ref": "#/components/securitySchemes/header"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
}
REF = {"$ref": "#/components/schemas/Pet"}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}

LIST, OBJECT = {"type": "array"}, {"type": ["object", "null"]}

SAYS_NOTHING = {"minProperties": 0, "additionalProperties": True}

SWAGGER = {
    "swagger": "2.0",
    "info": {"title": "Old pets"},
    "host": "pets.example",
    "basePath": "/v2",
    "schemes": ["http", "https"],
    "consumes": ["application/json", "application/xml"],
    "securityDefinitions": {"plain": {"type": "basic"}},
    "security": [{"plain": []}],
    "parameters": {"page": {"name": "page", "in": "query", "type": "integer", "maximum": 9}},
    "definitions": {"Pet": {**PET, "properties": {"name": {"type": "string"}}}},
    "paths": {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "type": "string"}],
            "get": {
                "parameters": [
                    {"$ref": "#/parameters/page"},
                    {"name": "tags", "in": "query", "type": "array", "items": {"type": "string"}},
                ],
            },
            "put": {
                "parameters": [
                    {"name": "pet", "in": "body", "schema": {"$ref": "#/definitions/Pet"}}
                ]
            },
            "post": {
                "consumes": ["multipart/form-data", "application/x-www-form-urlencoded"],
                "parameters": [
                    {"name": "status", "in": "formData", "type": "string", "required": True}
                ],
            },
            "patch": {"parameters": [{"name": "photo", "in": "formData", "type": "file"}]},
        }
    },
}


def read_operation(path: str, method: str, operation: Any, **document: Any) -> ImportedTool:
    openapi_document = {
        "openapi": "3.1.0",
        "info": {"title": "Pets"},
        "servers": [{"url": "https://pets.example/v1/"}],
        "components": {"schemas": {"Pet": PET, "Owner": OWNER}, "securitySchemes": SCHEMES},
        "paths": {path: {method: operation}},
        **document,
    }
    (imported_tool,) = import_tools(json.dumps(openapi_document)).tools
    return imported_tool


def tool(path: str, method: str, operation: Any, **document: Any) -> Tool:
    imported_tool = read_operation(path, method, operation, **document)
    assert imported_tool.tool is not None, imported_tool.problem
    return imported_tool.tool


def body(schema: Any, kind: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {kind: {"schema": schema}}, **more}}


def wire_parts(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, str, bytes, dict[str, Any]]:
    """What the executor would send, by its own words."""
    request = request_of(tool.config, json.dumps(arguments))
    return request.method, request.url, request.body, dict(request.headers)


def test_path_query_and_header_become_arguments() -> None:
    item = tool(
        "/pets/{id}",
        "get",
        {
            "parameters": [
                ID,
                {"name": "filter[a]", "in": "query", "schema": {"type": "array"}},
                {"name": "page", "in": "query", "description": "Which.", "schema": {}},
                {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                {"name": "Accept", "in": "header", "schema": {"type": "string"}},
                {"name": "c", "in": "cookie", "schema": {"type": "string"}},
            ]
        },
    )
    assert (item.name, item.group) == ("get_pets_id", "Pets")
    assert list(item.parameters["properties"]) == ["id", "filter_a", "page", "X-Trace", "c"]
    assert item.parameters["properties"]["page"]["description"] == "Which."
    assert item.parameters["required"] == ["id"]
    assert wire_parts(item, {"id": "a/b", "filter_a": [1, 2], "X-Trace": "t"}) == (
        "GET",
        "https://pets.example/v1/pets/a%2Fb?filter%5Ba%5D=1&filter%5Ba%5D=2",
        b"",
        {"X-Trace": ("t",)},
    )


def test_a_place_that_is_not_described_is_an_argument_all_the_same() -> None:
    imported_tool = read_operation("/pets/{id}", "get", {})
    assert imported_tool.tool is not None
    assert imported_tool.tool.parameters["required"] == ["id"]
    assert imported_tool.notes == ("'id' in the path is not described, so it accepts any text.",)
    assert wire_parts(imported_tool.tool, {"id": "7"})[1] == "https://pets.example/v1/pets/7"


def test_the_members_of_a_json_body_become_arguments() -> None:
    item = tool("/pets/{pet}", "put", {"parameters": [{**ID, "name": "pet"}], **body(REF)})
    assert list(item.parameters["properties"]) == ["pet", "name", "owner"]
    assert item.parameters["required"] == ["pet", "name"]
    assert item.parameters["properties"]["owner"] == {"$ref": "#/$defs/Owner"}
    assert set(item.parameters["$defs"]) == {"Owner", "Pet"}  # in a circle, and each once
    method, url, data, _ = wire_parts(item, {"pet": "7", "name": "Rex"})
    assert (method, url) == ("PUT", "https://pets.example/v1/pets/7")
    assert json.loads(data) == {"name": "Rex"}


def test_a_body_that_is_no_plain_object_is_one_argument() -> None:
    item = tool("/p", "post", body({"type": "array", "items": {"type": "integer"}}, required=True))
    assert item.parameters["required"] == ["body"]
    _, _, data, headers = wire_parts(item, {"body": [1, 2]})
    assert json.loads(data) == [1, 2]
    assert headers["Content-Type"] == ("application/json",)
    # A member that has the name of a parameter cannot stand beside it.
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    both = tool("/p/{id}", "put", {"parameters": [ID], **body(schema)})
    assert list(both.parameters["properties"]) == ["id", "body"]


def test_a_form_is_sent_as_one() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    item = tool("/p", "post", body(schema, "application/x-www-form-urlencoded"))
    assert wire_parts(item, {"a": "x y"})[2] == b"a=x+y"


@pytest.mark.parametrize(
    ("security", "headers"),
    [
        ([{"bearer": []}], {"Authorization": "Bearer ${PETS_BEARER_TOKEN}"}),
        ([{"basic": []}], {"Authorization": "Basic ${PETS_BASIC_KEY}"}),
        ([{"query": []}, {"header": []}], {"X-Api-Key": "${PETS_HEADER_KEY}"}),
        ([{"same": []}], {"X-Api-Key": "${PETS_SAME_KEY}"}),
        ([{"bearer": [], "basic": []}, {"header": []}], {"X-Api-Key": "${PETS_HEADER_KEY}"}),
        ([{"query": []}], None),
        ([{}, {"bearer": []}], None),
    ],
)
def test_what_secures_it_becomes_the_name_of_a_variable(security: Any, headers: Any) -> None:
    item = tool("/p", "get", {}, security=security)
    assert item.config.get("headers") == headers


@pytest.mark.parametrize(
    ("operation", "document", "message"),
    [
        (body({"$ref": "https://evil.example/x.json"}), {}, "Nothing is fetched"),
        (body({"$ref": "file:///etc/passwd"}), {}, "Nothing is fetched"),
        (body({"$ref": "other.yaml#/Pet"}), {}, "Nothing is fetched"),
        (body({"$ref": "#/components/schemas/None"}), {}, "There is nothing at"),
        ({"requestBody": {"$ref": "#/paths/~1p/post/requestBody"}}, {}, "circular"),
        (body({}, "multipart/form-data"), {}, "no simple members"),
        (body({}, "multipart/mixed"), {}, "A tool can send only multipart/form-data"),
        ({}, {"servers": [{"url": "javascript:alert(1)"}]}, "not a web address"),
        ({}, {"servers": [{"url": "///evil.example"}]}, "not a web address"),
        ({}, {"paths": {"/p": {"$ref": "https://evil.example/p"}}}, "Nothing is fetched"),
        ({}, {"paths": {"/p": {"$ref": "#/components/None"}}}, "There is nothing at"),
        ({}, {"paths": {"/p": []}}, "is not an object"),
        ({}, {"servers": [{"url": "https://me:pw@127.0.0.1"}]}, "needs a URL"),
        ({}, {"servers": [{"url": "https://{h}"}]}, "no default for '{h}'"),
        ({}, {"servers": [{"url": "https://{h}", "variables": {"h": {}}}]}, "no default for '{h}'"),
        ({}, {"openapi": "2.0"}, "Only OpenAPI 3 and Swagger 2.0"),
        (
            {"$ref": "ops/make.yml"},
            {},
            "It refers to 'ops/make.yml', which is outside the document",
        ),
        ({"$ref": "#/components/None"}, {}, "There is nothing at"),
        ({"$ref": "#/info/title"}, {}, "not point to an object"),
    ],
)
def test_what_cannot_be_a_tool_is_said(operation: Any, document: Any, message: str) -> None:
    imported_tool = read_operation("/p", "post", operation, **document)
    assert imported_tool.tool is None
    assert message in imported_tool.problem


def test_a_key_is_no_argument() -> None:
    parameters = [{"name": "x-api-key", "in": "header", "required": True, "schema": {}}]
    item = tool("/p", "get", {"parameters": parameters}, security=[{"header": []}])
    assert item.parameters.get("properties") == {}
    assert wire_parts(item, {})[1:] == (
        "https://pets.example/v1/p",
        b"",
        {"X-Api-Key": ("", "PETS_HEADER_KEY", "")},
    )


def test_arguments_of_like_names_stay_apart() -> None:
    names = [("f[a]", "query"), ("f(a)", "query"), ("f{a}", "query"), ("body", "query")]
    parameters = [{"name": name, "in": where, "schema": {}} for name, where in names]
    item = tool("/p", "post", {"parameters": parameters, **body({"type": "array"})})
    arguments = dict(zip(item.parameters["properties"], [1, 2, 3, 4, [5]], strict=True))
    assert wire_parts(item, arguments)[1:3] == (
        "https://pets.example/v1/p?f%5Ba%5D=1&f%28a%29=2&f%7Ba%7D=3&body=4",
        b"[5]",
    )


def test_a_text_as_a_json_body_has_its_quotes() -> None:
    for schema in ({"type": "string"}, {}, {"type": ["string", "null"]}):
        item = tool("/p", "post", body(schema))
        _, _, data, headers = wire_parts(item, {"body": 'a "b"'})
        assert (data, headers["Content-Type"]) == (b'"a \\"b\\""', ("application/json",))
    plain_tool = tool("/p", "post", body({"type": "string"}, "text/plain"))
    assert wire_parts(plain_tool, {"body": 'a "b"'})[2] == b'a "b"'


def test_a_file_as_a_body_may_be_a_data_url() -> None:
    item = tool("/p", "put", body({"type": "string", "format": "binary"}, "application/zip"))
    _, _, data, headers = wire_parts(item, {"body": "data:;base64,AAH/"})
    assert (data, headers["Content-Type"]) == (b"\x00\x01\xff", ("application/zip",))
    assert wire_parts(item, {"body": "text"})[2] == b"text"


def test_what_only_the_server_writes_is_no_argument() -> None:
    document = {"$ref": "#/components/schemas/Made"}
    schema = {"type": "object", "required": ["at", "b"], "properties": {"at": document, "b": {}}}
    schemas = {"Made": {"type": "string", "readOnly": True}}
    item = tool("/p", "post", body(schema), components={"schemas": schemas})
    assert item.parameters == {"type": "object", "properties": {"b": {}}, "required": ["b"]}


def test_objects_in_a_form_are_said() -> None:
    pet = {"anyOf": [REF, {"type": "string"}]}
    schema = {"type": "object", "properties": {"pet": pet, "tags": LIST, "map": OBJECT}}
    imported_tool = read_operation("/p", "post", body(schema, "application/x-www-form-urlencoded"))
    assert imported_tool.notes == ("An object is sent as JSON within the form: pet, map.",)
    assert read_operation("/p", "post", body(schema)).notes == ()


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("https://a.example/v1?key=1", "https://a.example/v1/p"),
        ("https://a.example/#top", "https://a.example/p"),
        (" HTTPS://a.example ", "https://a.example/p"),
    ],
)
def test_what_a_server_may_not_have_is_left_out(server: str, url: str) -> None:
    assert tool("/p", "get", {}, servers=[{"url": server}]).config["url"] == url


def test_the_defaults_of_a_server_s_variables_stand_in_its_address() -> None:
    server = {"url": "https://{region}.pets.example", "variables": {"region": {"default": "eu"}}}
    item = tool("/p", "get", {}, servers=[server, {"url": "https://b.example"}])
    assert item.config["url"] == "https://eu.pets.example/p"


@pytest.mark.parametrize(
    ("servers", "url"),
    [
        ([{"url": "/api/v3"}], "https://example.invalid/api/v3/p"),
        ([{"url": "api/"}], "https://example.invalid/api/p"),
        ([{"url": "/"}], "https://example.invalid/p"),
        ([], "https://example.invalid/p"),
    ],
)
def test_a_server_without_a_host_leaves_its_place_to_be_filled(servers: Any, url: str) -> None:
    imported_tool = read_operation("/p", "get", {}, servers=servers)
    assert imported_tool.tool is not None
    assert imported_tool.tool.config["url"] == url
    assert "in place of example.invalid" in " ".join(imported_tool.notes)


@pytest.mark.parametrize("name", ["default", "example", "examples", "enum", "const", "properties"])
def test_a_property_may_have_the_name_of_a_word(name: str) -> None:
    inner = {"type": "object", "properties": {name: REF}}
    schema = {"type": "object", "properties": {name: REF, "inner": inner}}
    item = tool("/p", "post", body(schema))
    assert item.parameters["properties"][name] == {"$ref": "#/$defs/Pet"}
    assert item.parameters["properties"]["inner"]["properties"][name] == {"$ref": "#/$defs/Pet"}
    assert set(item.parameters["$defs"]) == {"Owner", "Pet"}


def test_a_property_may_be_named_ref() -> None:
    schema = {"type": "object", "properties": {"a": {"properties": {"$ref": {"type": "string"}}}}}
    assert tool("/p", "post", body(schema)).parameters["properties"] == schema["properties"]


def test_a_path_may_refer_to_what_stands_elsewhere() -> None:
    item = {"parameters": [ID], "get": {"operationId": "getPet"}}
    paths = {"/pets/{id}": {"$ref": "#/components/pathItems/Pet"}}
    components = {"pathItems": {"Pet": item}}
    each = tool("/", "get", {}, paths=paths, components=components)
    assert each.name == "getPet"
    assert each.parameters["required"] == ["id"]


@pytest.mark.parametrize("kind", ["application/merge-patch+json", "application/json; charset=utf8"])
def test_a_body_of_members_keeps_its_media_type(kind: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    item = tool("/p", "patch", body(schema, kind))
    _, _, data, headers = wire_parts(item, {"a": "x"})
    assert (json.loads(data), headers) == ({"a": "x"}, {"Content-Type": (kind,)})
    plain_tool = tool("/p", "patch", body(schema))
    assert "headers" not in plain_tool.config


def test_what_stands_beside_a_ref_counts_since_3_1() -> None:
    beside = {**REF, "minProperties": 1, "description": "Whose.", "not": REF}
    schema = {"type": "object", "properties": {"a": beside}}
    new = tool("/p", "post", body(schema)).parameters["properties"]["a"]
    plain_ref = {"$ref": "#/$defs/Pet"}
    assert new == {**plain_ref, "minProperties": 1, "description": "Whose.", "not": plain_ref}
    old = tool("/p", "post", body(schema), openapi="3.0.3").parameters["properties"]["a"]
    assert old == {**plain_ref, "description": "Whose."}
    # A body that is a ref and more is no plain object.
    imported_tool = tool("/p", "post", body({**REF, "minProperties": 1}))
    assert list(imported_tool.parameters["properties"]) == ["body"]


def test_a_server_without_a_scheme_is_asked_by_https() -> None:
    imported_tool = read_operation("/p", "get", {}, servers=[{"url": "//api.pets.example/v2/"}])
    assert imported_tool.tool is not None
    assert imported_tool.tool.config["url"] == "https://api.pets.example/v2/p"
    assert "Its server has no scheme. https is used." in imported_tool.notes


def test_what_a_flat_body_cannot_say_is_said() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "minProperties": 1,
        "additionalProperties": {"type": "integer"},
    }
    outputs = read_operation("/p", "patch", body(schema)).notes
    assert [note.partition(" was left out")[0] for note in outputs] == [
        "minProperties of its body (1)",
        "additionalProperties of its body ({'type': 'integer'})",
    ]
    assert read_operation("/p", "patch", body({**schema, **SAYS_NOTHING})).notes == ()


FILES = {
    "spec/openapi.yaml": """
openapi: 3.0.3
info: {title: Drops}
servers: [{url: 'https://drops.example'}]
paths:
  /one/{id}:
    get: {$ref: 'ops/one_get.yml'}
    post: {$ref: 'ops/gone.yml'}
  /two: {$ref: 'paths/two.json'}
components: {schemas: {Size: {type: string, enum: [s, l]}}}
""",
    "spec/ops/one_get.yml": """
operationId: one_get
parameters:
  - {$ref: '../shared/params.yml#/id'}
  - {name: size, in: query, schema: {$ref: '../openapi.yaml#/components/schemas/Size'}}
""",
    "spec/paths/two.json": json.dumps(
        {"post": {"operationId": "two_post", **body({"$ref": "../shared/drop.yml"})}}
    ),
    "spec/shared/params.yml": "id: {name: id, in: path, required: true, schema: {type: integer}}",
    # In a circle, by the file's own name and without it.
    "spec/shared/drop.yml": """
type: object
properties:
  next: {$ref: 'drop.yml'}
  size: {$ref: '#/properties/own'}
  own: {type: string, default: {$ref: 'no/ref.yml'}}
""",
}


@pytest.mark.parametrize("flat", [False, True])
def test_a_document_in_several_files_is_read_as_one(flat: bool) -> None:
    """With the folders that a browser tells, and without them."""
    files = {name.rpartition("/")[2] if flat else name: text for name, text in FILES.items()}
    root = next(iter(files))
    imported_tools = import_tools(files[root], root, files=files)
    assert [tool.name for tool in imported_tools.tools] == ["one_get", "post_one_id", "two_post"]
    get, post, two = imported_tools.tools
    assert get.tool is not None
    assert get.tool.parameters["properties"] == {
        "id": {"type": "integer"},
        "size": {"$ref": "#/$defs/Size"},
    }
    assert post.tool is None
    assert "It refers to 'ops/gone.yml', which is outside the document" in post.problem
    assert two.tool is not None, two.problem
    assert list(two.tool.parameters["properties"]) == ["next", "size", "own"]
    assert two.tool.parameters["$defs"]["own"]["type"] == "string"
    assert set(imported_tools.parts) == set(files) - {root}


def test_a_part_that_cannot_be_read_is_named() -> None:
    document = json.dumps(
        {"openapi": "3.0.0", "paths": {"/a": {"$ref": "a.yml"}, "/b": {"$ref": "b.yml"}}}
    )
    files = {"a.yml": "get: {operationId: a}", "b.yml": "get: ["}
    imported_tools = import_tools(document, "o.json", files=files)
    assert [(tool.name, tool.tool is None) for tool in imported_tools.tools] == [
        ("a", False),
        ("/b", True),
    ]
    assert imported_tools.notes[0].startswith("b.yml cannot be read: This is not valid YAML.")


def test_parts_that_repeat_themselves_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openapi_files, "MOST_IN_PARTS", 20)
    paths = {f"/{name}": {"$ref": f"{name}.yml"} for name in "ab"}
    part = "x: &x [1, 2, 3]\nget: {operationId: o, x-a: [*x, *x]}"
    imported_tools = import_tools(
        json.dumps({"openapi": "3.0.0", "paths": paths, "x": [1] * 30}),
        files={"a.yml": part, "b.yml": part},
    )
    assert [tool.tool is None for tool in imported_tools.tools] == [True, False]
    assert "There is nothing at 'a.yml'" in imported_tools.tools[0].problem
    assert imported_tools.notes[0].endswith("have too many values.")


def test_swagger_2_is_converted() -> None:
    imported_tools = import_tools(json.dumps(SWAGGER))
    get, put, post, patch = imported_tools.tools
    assert get.tool is not None
    assert get.tool.parameters["properties"] == {
        "id": {"type": "string"},
        "page": {"type": "integer", "maximum": 9},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    method, url, _, headers = wire_parts(get.tool, {"id": "7", "page": 2, "tags": ["a,b", "c"]})
    assert (method, url) == ("GET", "https://pets.example/v2/pets/7?page=2&tags=a%2Cb,c")
    assert headers == {"Authorization": ("Basic ", "OLD_PETS_PLAIN_KEY", "")}
    assert put.tool is not None
    assert json.loads(wire_parts(put.tool, {"id": "7", "name": "Rex"})[2]) == {"name": "Rex"}
    assert post.tool is not None
    assert post.tool.parameters["required"] == ["id", "status"]
    assert wire_parts(post.tool, {"id": "7", "status": "new one"})[2] == b"status=new+one"
    assert patch.tool is not None
    _, _, data, headers = wire_parts(patch.tool, {"id": "7", "photo": "pixels"})
    assert b'name="photo"; filename="photo"' in data
    assert headers["Content-Type"][0].startswith("multipart/form-data; boundary=")


def test_of_too_many_operations_some_are_picked() -> None:
    shared = {"type": "object", "properties": {"text": {"type": "string"}}}
    document = {
        "openapi": "3.0.0",
        "components": {"schemas": {"S": shared}},
        "paths": {
            f"/p{number}": {
                "post": {
                    "operationId": "same" if number > 6 else f"p{number}",
                    "summary": f"Makes {number}",
                    "tags": [f"t{number % 2}"],
                    **body({"$ref": "#/components/schemas/S"}),
                }
            }
            for number in range(9)
        },
    }
    text = json.dumps(document)
    imported_tools = import_tools(text, most=3)
    assert (len(imported_tools.tools), imported_tools.more) == (3, True)
    assert len(imported_tools.choices) == 9
    last = imported_tools.choices[8]
    assert (last.key, last.name, last.summary, last.group) == ("POST /p8", "same", "Makes 8", "t0")
    picked = import_tools(text, most=3, pick={"POST /p8", "POST /p1"})
    assert [tool.form["path"] for tool in picked.tools] == ["/p1", "/p8"]
    assert (picked.more, picked.choices) == (False, ())
    assert import_tools(text, most=9).choices == ()


def test_a_parameter_whose_type_is_no_word_is_refused_and_said() -> None:
    answer = {"name": "q", "in": "query", "schema": {"type": ["string", {"a": 1}]}}
    for where in ("query", "path"):
        imported_tool = read_operation(
            "/{q}", "get", {"operationId": "f", "parameters": [{**answer, "in": where}]}
        )
        assert (imported_tool.tool, "type" in imported_tool.problem) == (None, True)
