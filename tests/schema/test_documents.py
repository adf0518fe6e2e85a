"""The published schemas are those of docs/, and say what the code says.

    python -m tests.schema.test_documents

writes what is a copy of another: the definitions of a tool in the schema of batches, from the
schema of tools, and all of docs/schemas.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest

from playground.core.tools import ANSWERED_BY, Tool
from playground.engine.settings import AMOUNTS, COUNTS
from playground.evaluation.spec import EXPECTATIONS, MATCHES, SETTINGS
from playground.schema.documents import SchemaFile, find_fault, published_schema
from playground.schema.http_parameters import MEMBERS, STYLES
from playground.schema.validate import METHODS, TIMEOUT_S, WORKSPACE

MCP = {"name": "f", "answered_by": "mcp", "config": {}}
ROOT = Path(__file__).parents[2]
NAMES: tuple[SchemaFile, ...] = get_args(SchemaFile)


@pytest.mark.parametrize("name", NAMES)
def test_a_published_schema_is_a_schema_and_the_same_in_docs(name: SchemaFile) -> None:
    jsonschema_rs.meta.validate(published_schema(name))
    copies = [ROOT / "app/playground/schema/published", ROOT / "docs/schemas"]
    first, second = ((folder / f"{name}.schema.json").read_text("utf-8") for folder in copies)
    assert first == second, "Run `python -m tests.schema.test_documents`."


def test_a_batch_defines_tools_as_a_tool_file_does() -> None:
    batch, tools = published_schema("batch")["$defs"], published_schema("tools")["$defs"]
    copied = {name: batch.get(name) for name in tools}
    assert copied == tools, "Run `python -m tests.schema.test_documents`."


def test_the_schemas_name_what_the_code_names() -> None:
    tools, batch = published_schema("tools")["$defs"], published_schema("batch")["$defs"]
    members = tools["tool"]["properties"]
    assert set(members) - {"$schema"} == {item.name for item in fields(Tool)}
    assert {f"{kind}_config" for kind in ANSWERED_BY} == set(tools) - {"tool"}
    http = tools["http_config"]["properties"]
    assert tuple(http["method"]["anyOf"][0]["enum"]) == METHODS
    parameter = http["parameters"]["items"]["properties"]
    assert tuple(parameter) == MEMBERS
    assert tuple(parameter["in"]["enum"]) == tuple(STYLES)
    assert set(parameter["style"]["enum"]) == {
        style for several in STYLES.values() for style in several
    }
    assert tuple(tools["workspace_config"]["properties"]["tool"]["enum"]) == WORKSPACE
    assert (members["timeout_s"]["minimum"], members["timeout_s"]["maximum"]) == TIMEOUT_S
    settings = batch["settings"]["properties"]
    assert set(settings) == set(SETTINGS)
    for name, (low, high) in COUNTS.items():
        assert (settings[name]["minimum"], settings[name]["maximum"]) == (low, high), name
    for name, (_, most) in AMOUNTS.items():  # below the least amount only 0 is allowed: no limit
        assert (settings[name]["minimum"], settings[name]["maximum"]) == (0, most), name
    for part, kinds in (("expectation", EXPECTATIONS), ("match", MATCHES)):
        assert [kind["required"] for kind in batch[part]["oneOf"]] == [[kind] for kind in kinds]


@pytest.mark.parametrize(
    ("document", "value", "pointer", "sentence"),
    [
        ("scenario", {"turns": [{}]}, None, ""),
        ("scenario", {"turns": [{"txt": 1}]}, "/turns/0/txt", "this is not in the schema"),
        ("expectation", {"called": "\n"}, "/called", "this must be a text of 1 to 200 characters"),
        ("batch", {"cases": []}, "/playground_batch", "this is no SPEC of a batch"),
        ("batch", float("inf"), "", "this is Infinity, which is not a JSON number."),
        ("tool", MCP, "/config/server", "An mcp tool needs config.server"),
    ],
)
def test_find_fault_of_a_document_names_the_place_and_the_reason(
    document: str, value: Any, pointer: str | None, sentence: str
) -> None:
    fault = find_fault(document, value)
    if fault is None:
        assert pointer is None
    else:
        assert fault.pointer == pointer
        assert sentence in fault.message


def test_the_copies_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "app/playground/schema/published"
    folder.mkdir(parents=True)
    for path in (ROOT / "app/playground/schema/published").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    tools = folder / "tools.schema.json"
    tools.write_text(tools.read_text("utf-8").replace("who answers its calls", "who answers"))
    write_copies(tmp_path)
    batch = (folder / "batch.schema.json").read_text("utf-8")
    assert '"who answers"' in batch
    assert (tmp_path / "docs/schemas/batch.schema.json").read_text("utf-8") == batch


def write_copies(root: Path) -> None:
    folder, copies = root / "app/playground/schema/published", root / "docs/schemas"
    batch = json.loads((folder / "batch.schema.json").read_text("utf-8"))
    batch["$defs"] |= json.loads((folder / "tools.schema.json").read_text("utf-8"))["$defs"]
    text = json.dumps(batch, indent=2, ensure_ascii=False) + "\n"
    (folder / "batch.schema.json").write_text(text, "utf-8")
    copies.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir()):
        (copies / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    write_copies(ROOT)
