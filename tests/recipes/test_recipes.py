"""Each recipe of docs/recipes.md is followed on a copy of the program, and works there.

`program.touched` are the files that a recipe needs: a change that makes one of them dearer fails
here. The recipe of a protocol is in tests/protocols/test_recipe.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.recipes.conftest import ProgramCopy
from tests.schema.test_documents import write_copies
from tests.servers import ROOT, run_simulator_process

pytestmark = pytest.mark.slow

TOOLS = [
    {"name": name, "description": "Looks at a place.", "parameters": {"type": "object"}}
    for name in ("look", "find", "read")
]

PROVIDER = """
        case "acme":
            return compatible_provider(
                name,
                title="Acme",
                about="A made-up provider.",
                url="{url}",
                key_name="ACME_API_KEY",
                key_place="https://acme.example/keys",
                model="acme-1",
            )
"""

LIMIT = """
    _profile_table("acme",
         of_request=(
             too_many_tools(2, Citation("https://github.com/acme/acme/issues/1"),
                            "At most 2 tools."),
         )),
"""

EXPORT = '''
"""The prompts of a session, one a line."""

from __future__ import annotations

from playground.core.session import Prompt
from playground.exchange.bundle import ExportFile, SessionBundle, file_name


def write(bundle: SessionBundle) -> ExportFile:
    texts = [item.text for item in bundle.session.items if isinstance(item, Prompt)]
    data = "".join(f"{text}\\n" for text in texts).encode("utf-8", "replace")
    return ExportFile(file_name(bundle.title, "txt"), "text/plain", data, ())
'''

EXECUTOR = '''
"""Answers a call with its own arguments."""

from __future__ import annotations

from playground.core.tools import Tool, ToolResult, text_result
from playground.executors.executor import CallCheck, Invocation, ReportProgress


class Echo:
    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        greeting = str(invocation.tool.config.get("greeting", ""))
        return text_result(f"{greeting} {invocation.arguments}")

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        return CallCheck()
'''

MORE_PLACES = {
    "schema/validate.py": '    "workspace": None,\n    "echo": None,\n',
    "web/imports_view.py": 'case "mock" | "person" | "mcp" | "workspace" | "echo"',
    "render/card.py": '        case "mock" | "echo":\n            return tool.answered_by\n',
}

EDITOR = """
import asyncio
from pathlib import Path
from tests.in_process import run_server

TOOL = {"name": "echo_it", "description": "Echoes.", "answered_by": "echo",
        "config": {"greeting": "Hello"}}

async def main():
    with run_server(Path("editor.db"), PLAYGROUND_HOME=str(Path.cwd())) as server:
        async with server.client() as client:
            saved = await client.post("/tools", json=TOOL)
            assert saved.is_success, saved.text
        async with server.page() as page:
            print((await page.get("/tools/echo_it")).text)

asyncio.run(main())
"""


def add_provider(program: ProgramCopy, url: str) -> None:
    path, start = "core/providers.py", "ProviderName = Literal[\n"
    program.replace(path, start, f'{start}    "acme",\n')
    start = "def provider_row(name: ProviderName) -> Provider:\n"
    text = (program.root / "app/playground" / path).read_text("utf-8")
    begin = text[text.index(start) :].partition("    match name:\n")
    program.replace(path, "".join(begin[:2]), "".join(begin[:2]) + PROVIDER.format(url=url)[1:])


def write_tools(folder: Path, *tools: Mapping[str, object]) -> str:
    (folder / "tools.json").write_text(json.dumps(tools or TOOLS))
    return "./tools.json"


def test_a_provider_is_one_row(program: ProgramCopy) -> None:
    with run_simulator_process(program.root, "--pace", "0") as simulator:  # the unchanged program
        add_provider(program, f"{simulator.url}/openai/v1")
        done = program.run("run", "Hello", "--profile", "acme", "--json", ACME_API_KEY="any")
    assert program.touched == {"core/providers.py"}
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (sent,) = (event for event in events if event["kind"] == "request_sent")
    assert sent["protocol"] == "openai_chat"
    assert json.loads(sent["body"])["model"] == "acme-1"


def test_a_providers_limit_is_one_row(program: ProgramCopy) -> None:
    add_provider(program, "https://api.acme.example/v1")
    start = "_TABLES: tuple[LimitTable, ...] = ("
    program.replace("protocols/vendor_limits.py", f"{start}\n", start + LIMIT)
    done = program.run("lint", write_tools(program.root), "--for", "acme")
    assert program.touched == {"core/providers.py", "protocols/vendor_limits.py"}
    assert done.returncode == 1, done.stderr
    assert "refused: Acme accepts 2 tools in a request, not 3. [acme]" in done.stdout


def test_an_export_is_a_module_and_a_row(program: ProgramCopy) -> None:
    program.add("exchange/prompt_list.py", EXPORT)
    formats = "exchange/export_formats.py"
    program.replace(formats, "    otlp,\n", "    otlp,\n    prompt_list,\n")
    row = '    "prompts": ExportFormat("Prompts", "One a line.", prompt_list.write),\n'
    start = "EXPORTS: Mapping[str, ExportFormat] = {\n"
    program.replace(formats, start, start + row)
    assert program.touched == {"exchange/prompt_list.py", formats}
    done = program.run("run", "Hello there", "--json")
    assert done.returncode == 0, done.stderr
    session_id = json.loads(program.run("sessions", "--json").stdout)[0]["id"]
    done = program.run("export", session_id, "--as", "prompts")
    assert (done.returncode, done.stdout) == (0, "Hello there\n"), done.stderr


def test_a_field_of_an_event_is_added_with_a_default(program: ProgramCopy) -> None:
    before = program.run("run", "Hello there", "--json")
    assert before.returncode == 0, before.stderr
    form = "    form: Mapping[str, Any] = field(default_factory=dict)\n\n\n"
    after = "@dataclass(frozen=True)\nclass RequestSent:"
    program.replace(
        "core/events.py", form + after, form.rstrip() + f"\n    words: int = 0\n\n\n{after}"
    )
    program.replace(
        "engine/runner.py",
        "[PromptAdded(text, images)]",
        "[PromptAdded(text, images, words=len(text.split()))]",
    )
    assert program.touched == {"core/events.py", "engine/runner.py"}
    done = program.run("run", "One two three", "--json")
    assert done.returncode == 0, done.stderr
    prompts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["words"] for each in prompts if each["kind"] == "prompt_added"] == [3]
    checked = program.run("verify")  # with the session from before, whose prompt has no such field
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(json.loads(program.run("sessions", "--json").stdout)) == 2


def test_an_executor_is_a_module_and_its_rows(program: ProgramCopy) -> None:
    program.add("executors/echo.py", EXECUTOR)
    tools = "core/tools.py"
    program.replace(tools, '"person", "workspace"]\n', '"person", "workspace", "echo"]\n')
    start = "TOOL_KINDS: ByKind[ToolKind] = {\n"
    row = '    "echo": ToolKind("Echo", "Nothing leaves.", "The echo is silent.", runs=False),\n'
    program.replace(tools, start, start + row)
    program.replace(tools, "    workspace: T\n", "    workspace: T\n    echo: T\n")
    table = "executors/run_with_limits.py"
    first = "from playground.executors.executor import"
    program.replace(table, first, f"from playground.executors.echo import Echo\n{first}")
    program.replace(
        table, '        "mock": Mock(),\n', '        "mock": Mock(),\n        "echo": Echo(),\n'
    )
    for path, last in (
        ("schema/validate.py", '    "workspace": None,\n'),
        ("web/imports_view.py", 'case "mock" | "person" | "mcp" | "workspace"'),
        ("render/card.py", '        case "mock":\n            return "mock"\n'),
    ):
        program.replace(path, last, MORE_PLACES[path])
    add_to_schema(program, "echo")
    assert program.touched == {
        "executors/echo.py",
        tools,
        table,
        *MORE_PLACES,
        "schema/published/tools.schema.json",
    }

    echo = {**TOOLS[0], "answered_by": "echo", "config": {"greeting": "Hello"}}
    words = ["--tools", write_tools(program.root, echo), "--allow", "all", "--json"]
    done = program.run("run", "Use look now", *words)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (ended,) = (event for event in events if event["kind"] == "call_ended")
    assert ended["result"]["content"][0]["text"].startswith("Hello {")
    (program.root / "tools.json").write_text(json.dumps([{**echo, "config": {"greeting": 3}}]))
    refused = program.run("run", "Use look now", *words)
    assert (refused.returncode, "/config/greeting" in refused.stderr) == (2, True), refused.stderr

    page = program.evaluate(EDITOR)
    assert "<span>Echo</span>" in page
    assert 'data-kind="echo"' in page
    assert "&#34;greeting&#34;: &#34;Hello&#34;" in page


def add_to_schema(program: ProgramCopy, kind: str) -> None:
    """The kind and its config in the schema of tools, and that in its copies."""
    path = "schema/published/tools.schema.json"
    text = (program.root / "app/playground" / path).read_text("utf-8")
    schema = json.loads(text)
    tool = schema["$defs"]["tool"]
    tool["properties"]["answered_by"]["enum"].append(kind)
    condition = {"properties": {"answered_by": {"const": kind}}, "required": ["answered_by"]}
    config = {"properties": {"config": {"$ref": f"#/$defs/{kind}_config"}}}
    tool["allOf"].append({"if": condition, "then": config})
    schema["$defs"][f"{kind}_config"] = {
        "type": "object",
        "properties": {"greeting": {"type": "string"}},
        "additionalProperties": False,
    }
    program.replace(path, text, json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    write_copies(program.root)
    batch = program.root / "app/playground/schema/published/batch.schema.json"
    assert f"{kind}_config" in json.loads(batch.read_text("utf-8"))["$defs"]
    assert sorted(path.name for path in (program.root / "docs/schemas").iterdir()) == sorted(
        path.name for path in (ROOT / "docs/schemas").iterdir()
    )
