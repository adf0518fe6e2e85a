"""Each operation of the documents beside this file: its request says what its arguments were.

The documents are written in the shape of well-known services. A request goes the whole way of a
call, and is read by openapi-core and not by any code of this program (`openapi_reader`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from openapi_spec_validator import validate

from playground.exchange.tool_import import import_tools
from tests.exchange.openapi_reader import operations
from tests.exchange.openapi_round_trip import arguments_of, compare
from tests.net.tool_server import http_response, serving
from tests.tables import rest_slow

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parent / "openapi_documents"
TWIN = ".as_3_0.json"
"""Swagger 2.0 beside the same document written as OpenAPI 3.0 by hand, for openapi-core."""
DOCUMENTS = sorted(
    path.name for path in FOLDER.iterdir() if path.suffix in (".yaml", ".json")
    and not path.name.endswith(TWIN)
)  # fmt: skip
EXAMPLES, MANY_EXAMPLES = 4, 24


def read_document(name: str) -> dict[str, Any]:
    """The document as openapi-core reads it."""
    twin = FOLDER / (Path(name).stem + TWIN)
    path = twin if twin.exists() else FOLDER / name
    document = yaml.safe_load(path.read_text())
    assert isinstance(document, dict)
    return document


def test_documents_are_valid() -> None:
    assert len(DOCUMENTS) >= 10
    for path in sorted(FOLDER.iterdir()):
        document = yaml.safe_load(path.read_text())
        for _, _, operation in operations(document):
            operation["responses"] = {"200": {"description": "OK"}}
        document["paths"].pop("x-generator", None)  # which the validator takes for a path
        validate(document)


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        *[(name, EXAMPLES) for name in DOCUMENTS],
        *rest_slow([(name, MANY_EXAMPLES) for name in DOCUMENTS], quick=0),
    ],
)
async def test_request_of_each_operation_when_read_by_its_document_equals_the_arguments(
    name: str, examples: int
) -> None:
    document = read_document(name)
    imported = import_tools((FOLDER / name).read_text()).tools
    tools = {tool.name: tool.tool for tool in imported}
    problems = [f"{name} {tool.name}: not imported: {tool.problem}" for tool in imported
                if tool.tool is None]  # fmt: skip
    assert len(imported) == len([*operations(document)])
    async with serving(http_response(b"")) as server:
        for path, method, operation in operations(document):
            tool = _tool_of(tools, operation["operationId"])
            if tool is None:
                problems.append(f"{name} {operation['operationId']}: no tool")
                continue
            for number in range(examples):
                arguments = arguments_of(document, path, method, tool, number)
                comparison = await compare(
                    document,
                    path=path,
                    method=method,
                    tool=tool,
                    arguments=arguments,
                    server=server,
                )
                if comparison.different:
                    problems.append(f"{name} {operation['operationId']}\n{comparison}")
                    break
    assert not problems, "\n".join(["", *problems])


def _tool_of(tools: dict[str, Any], operation_id: str) -> Any:
    """The tool of an operation: its name has `_` for what no name may have."""
    return tools.get(operation_id) or tools.get(operation_id.replace("/", "_"))
