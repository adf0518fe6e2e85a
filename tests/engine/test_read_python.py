"""Reading a Python file with an interpreter: what each framework's object says of itself, that it
runs as it was read, and what is said where the file cannot be imported.

The frameworks are stand-ins written here: tiny modules under the frameworks' names whose classes
have the same attributes as those of langchain-core 1.8, openai-agents 0.24, google-adk 2.13,
smolagents 1.26, crewai 1.15, strands-agents 1.62, agno 3.1, claude-agent-sdk 0.2, inspect-ai,
pydantic-ai 2.68, llama-index-core 0.14, autogen-core 0.7, fastmcp 4.1 and mcp 1.28. The real ones
are compared by `bench/python_frameworks.py`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.errors import BadInput
from playground.engine import read_python as reading
from playground.engine.engine import Engine
from playground.engine.read_python import FileToRead, read_python
from playground.exchange.python_objects import tools_from_objects
from playground.exchange.tool_entry import ImportedTool, ImportedTools
from playground.executors.executor import Invocation

pytestmark = pytest.mark.anyio

SKU = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
SKU_TEXT = repr(SKU)
MODEL = f"""
class Schema:
    @classmethod
    def model_json_schema(cls):
        return {SKU_TEXT}
"""

FRAMEWORKS: dict[str, str] = {
    "langchain_core/tools.py": MODEL
    + """
class BaseTool:
    args_schema = Schema
    tool_call_schema = Schema
    async def ainvoke(self, arguments):
        return "invoked " + self._run(**arguments)
class StructuredTool(BaseTool):
    coroutine = None
    def __init__(self, func, name, description):
        self.func, self.name, self.description = func, name, description
""",
    "agents/__init__.py": """
class FunctionTool:
    def __init__(self, name, description, params_json_schema, on_invoke_tool):
        self.name, self.description = name, description
        self.params_json_schema, self.on_invoke_tool = params_json_schema, on_invoke_tool
class Agent:
    def __init__(self, tools):
        self.tools = tools
""",
    "agents/tool_context.py": """
class ToolContext:
    def __init__(self, context, tool_name, tool_call_id, tool_arguments):
        self.tool_name = tool_name
""",
    "google/adk/tools.py": """
class Declaration:
    parameters_json_schema = None
    def __init__(self, name, description):
        self.name, self.description, self.parameters = name, description, self
    def model_dump(self, **words):
        return {"type": "OBJECT", "properties": {"sku": {"type": "STRING"}},
                "required": ["sku"]}
class BaseTool:
    name = description = ""
    def _get_declaration(self):
        return Declaration(self.name, self.description)
class FunctionTool(BaseTool):
    def __init__(self, func):
        self.func, self.name, self.description = func, func.__name__, func.__doc__
""",
    "google/adk/agents.py": """
class Agent:
    def __init__(self, tools):
        self.tools = tools
""",
    "smolagents/__init__.py": """
class Tool:
    def __call__(self, **arguments):
        return "called " + self.forward(**arguments)
""",
    "smolagents/models.py": """
def get_tool_json_schema(tool):
    return {"type": "function", "function": {"name": tool.name, "description": tool.description,
        "parameters": {"type": "object", "properties": tool.inputs, "required": list(tool.inputs)}}}
""",
    "crewai/tools.py": MODEL
    + """
class BaseTool:
    args_schema = Schema
    def run(self, **arguments):
        return "ran " + self._run(**arguments)
""",
    "strands/__init__.py": f"""
class DecoratedFunctionTool:
    def __init__(self, function):
        self._tool_func = function
    @property
    def tool_spec(self):
        return {{"name": self._tool_func.__name__, "description": self._tool_func.__doc__,
                "inputSchema": {{"json": {SKU_TEXT}}}}}
tool = DecoratedFunctionTool
""",
    "agno/tools/function.py": f"""
class Function:
    parameters = {{}}
    def __init__(self, entrypoint):
        self.entrypoint, self.name, self.description = entrypoint, entrypoint.__name__, "Doc."
    def model_copy(self):
        return Function(self.entrypoint)
    def process_entrypoint(self):
        self.parameters = {SKU_TEXT}
    def to_dict(self):
        return {{"name": self.name, "description": "Doc.", "parameters": self.parameters}}
class Toolkit:
    def __init__(self, *functions):
        self.functions = {{one.__name__: Function(one) for one in functions}}
""",
    "claude_agent_sdk/__init__.py": """
class SdkMcpTool:
    def __init__(self, name, description, input_schema, handler):
        self.name, self.description = name, description
        self.input_schema, self.handler = input_schema, handler
def tool(name, description, input_schema):
    return lambda handler: SdkMcpTool(name, description, input_schema, handler)
""",
    "inspect_ai/tool.py": f"""
class Info:
    type = "tool"
def tool(factory):
    def make(*words, **named):
        made = factory(*words, **named)
        made.__registry_info__, made.__registry_params__ = Info(), {{}}
        return made
    make.__registry_info__, make.__name__ = Info(), factory.__name__
    return make
class ToolDef:
    def __init__(self, tool):
        self.name, self.description = "add_stock", tool.__doc__
        self.parameters = {SKU_TEXT}
""",
    "pydantic_ai/__init__.py": f"""
class Tool:
    def __init__(self, function, name):
        self.function, self.name, self.description = function, name, "Doc."
        self.function_schema = type("Schema", (), {{"json_schema": {SKU_TEXT}}})
class Toolset:
    def __init__(self):
        self.tools = {{}}
class Agent:
    def __init__(self):
        self._function_toolset = Toolset()
    def tool_plain(self, function):
        self._function_toolset.tools[function.__name__] = Tool(function, function.__name__)
        return function
""",
    "llama_index/core/tools.py": f"""
class Metadata:
    def __init__(self, name):
        self.name, self.description = name, "Doc."
    def get_parameters_dict(self):
        return {SKU_TEXT}
class FunctionTool:
    def __init__(self, fn, name):
        self._fn, self.metadata = fn, Metadata(name)
    def call(self, **arguments):
        return self._fn(**arguments)
""",
    "autogen_core/__init__.py": "class CancellationToken: ...\n",
    "autogen_core/tools.py": f"""
class BaseTool:
    @property
    def schema(self):
        return {{"name": self.name, "description": "Doc.", "parameters": {SKU_TEXT}}}
    async def run_json(self, arguments, token):
        return "json " + arguments["sku"]
""",
    "mcp/server.py": f"""
class Wire:
    def __init__(self, name):
        self.name, self.description, self.inputSchema = name, "Doc.", {SKU_TEXT}
class Manager:
    def __init__(self):
        self._tools = {{}}
class FastMCP:
    def __init__(self):
        self._tool_manager = Manager()
    def tool(self, function):
        self._tool_manager._tools[function.__name__] = type("Tool", (), {{"fn": function}})
        self._tool_manager._tools[function.__name__].fn = staticmethod(function)
        return function
    async def list_tools(self):
        return [Wire(name) for name in self._tool_manager._tools]
""",
}
HELPER = "def helper(x):\n    return x\n"

ROWS: list[tuple[str, str, str, str, str]] = [
    # framework, the tool's file, the tool's name, config.function, the result for {"sku": "x"}
    (
        "LangChain",
        "from langchain_core.tools import BaseTool\nclass Price(BaseTool):\n"
        "    name, description = 'price_of', 'Doc.'\n    def _run(self, sku):\n"
        "        return sku\n",
        "price_of",
        "Price",
        "invoked x",
    ),
    (
        "LangChain",
        f"from langchain_core.tools import StructuredTool\n{HELPER}def find(sku: str):\n"
        "    return sku\nmade = StructuredTool(find, name='price_of', description='Doc.')\n",
        "price_of",
        "made",
        "x",
    ),
    (
        "LangChain",
        "from langchain_core.tools import StructuredTool\n"
        "tools = [StructuredTool(lambda sku: sku, name='price-of', description='Doc.')]\n",
        "price-of",
        "tools.price-of",
        "x",
    ),
    (
        "openai-agents",
        "from agents import Agent, FunctionTool\nasync def run(context, text):\n"
        "    return context.tool_name + text\n"
        f"mine = FunctionTool('price_of', 'Doc.', {SKU_TEXT}, run)\nagent = Agent([mine])\n",
        "price_of",
        "mine",
        'price_of{"sku": "x"}',
    ),
    (
        "Google ADK",
        f"from google.adk.agents import Agent\n{HELPER}def price(sku: str):\n    'Doc.'\n"
        "    return sku\nroot_agent = Agent([price])\n",
        "price",
        "price",
        "x",
    ),
    (
        "Google ADK",
        "from google.adk.tools import BaseTool\nclass Price(BaseTool):\n"
        "    name, description = 'price_of', 'Doc.'\n"
        "    async def run_async(self, *, args, tool_context):\n        return args['sku']\n",
        "price_of",
        "Price",
        "x",
    ),
    (
        "smolagents",
        "from smolagents import Tool\nfrom dataclasses import dataclass\n@dataclass\nclass Row:\n"
        "    name: str\nclass Price(Tool):\n    name, description = 'price_of', 'Doc.'\n"
        "    inputs = {'sku': {'type': 'string'}}\n    def forward(self, sku):\n"
        "        return sku\n",
        "price_of",
        "Price",
        "called x",
    ),
    (
        "CrewAI",
        "from crewai.tools import BaseTool\nclass Price(BaseTool):\n"
        "    name, description = 'price_of', 'Doc.'\n    def _run(self, sku):\n"
        "        return sku\n",
        "price_of",
        "Price",
        "ran x",
    ),
    (
        "Strands",
        f"from strands import tool\n{HELPER}@tool\ndef price(sku: str):\n    'Doc.'\n"
        "    return sku\n",
        "price",
        "price",
        "x",
    ),
    (
        "Strands",
        f"{HELPER}TOOL_SPEC = {{'name': 'price', 'description': 'Doc.', "
        f"'inputSchema': {{'json': {SKU_TEXT}}}}}\ndef price(tool, **more):\n"
        "    text = tool['input']['sku']\n"
        "    return {'status': 'success', 'content': [{'text': text}]}\n",
        "price",
        "price",
        "x",
    ),
    (
        "Agno",
        "from agno.tools.function import Toolkit\ndef price(sku: str):\n    return sku\n"
        "class Shop:\n    def find(self, sku):\n        return sku\n"
        "toolkit = Toolkit(Shop().find)\n",
        "find",
        "toolkit.find",
        "x",
    ),
    (
        "Claude Agent SDK",
        "from claude_agent_sdk import tool\n@tool('price_of', 'Doc.', {'sku': str})\n"
        "async def price(args):\n    return {'content': [{'type': 'text', 'text': args['sku']}]}\n",
        "price_of",
        "price",
        "x",
    ),
    (
        "Inspect",
        "from inspect_ai.tool import tool\n@tool\ndef add_stock(limit=100):\n"
        "    async def execute(sku: str):\n        'Doc.'\n        return sku\n"
        "    return execute\n",
        "add_stock",
        "add_stock",
        "x",
    ),
    (
        "Pydantic AI",
        f"from pydantic_ai import Agent\n{HELPER}agent = Agent()\n@agent.tool_plain\n"
        "def price(sku: str):\n    return sku\n",
        "price",
        "price",
        "x",
    ),
    (
        "LlamaIndex",
        "from llama_index.core.tools import FunctionTool\ndef find(sku: str):\n    return sku\n"
        "made = FunctionTool(find, 'price_of')\n",
        "price_of",
        "made",
        "x",
    ),
    (
        "AutoGen",
        "from autogen_core.tools import BaseTool\nclass Price(BaseTool):\n    name = 'price_of'\n",
        "price_of",
        "Price",
        "json x",
    ),
    (
        "MCP SDK",
        f"from mcp.server import FastMCP\n{HELPER}mcp = FastMCP()\n@mcp.tool\n"
        "def price(sku: str):\n    return sku\n",
        "price",
        "price",
        "x",
    ),
]

FAILURES: list[tuple[str, list[str]]] = [
    (
        "import absent_framework.tools\n",
        [
            "ModuleNotFoundError: No module named 'absent_framework'",
            "line 1, in <module>: import absent_framework.tools",
            "Name an interpreter that has this module",
        ],
    ),
    ("def broken(:\n", ["SyntaxError", "line 1: def broken(:"]),
    ("import sys\nsys.exit('bye')\n", ["SystemExit: bye", "line 2"]),
    ("import os\nos._exit(3)\n", ["ended without a result (exit code 3)"]),
    ("raise LookupError('sk-test-0123456789abcdef')\n", ["LookupError: ****"]),
    ("while True:\n    print('z' * 100_000)\n", ["printed or returned more than"]),
]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"file": "tools.py"}, "The file must be an absolute path. 'tools.py' is not."),
    ({"file": "/absent/tools.py"}, "There is no file /absent/tools.py"),
    ({"file": "/dev/zero"}, "There is no file /dev/zero"),
    ({"text": "x = 1", "interpreter": "python3"}, "The interpreter must be an absolute path"),
    ({"text": " "}, "Name the path of a Python file, or send its text."),
    ({"text": "x = 1", "name": "../x.py"}, "'../x.py' is not the name of a file."),
    ({"text": "x = 1", "name": "a\0b.py"}, "cannot be the name of a file: it contains a NUL"),
    ({"text": "x = 1", "name": "a" * 300}, "cannot be the name of a file: File name too long."),
    ({"text": "x = 1", "others": {"a.py": "", "a.py/b": ""}}, "'a.py/b' cannot be the name"),
    ({"text": "#" * 600_000}, "The text has more than 512 kB. Split the file."),
    ({"file": "~absent-user/x.py"}, "There is no file ~absent-user/x.py"),
]

FORGED = (
    "import sys\nreader = sys.modules['playground_file']\n"
    "entry = dict(reference='f', framework='', name='f', description='', parameters={}, "
    "dialect='json', runs=True, problem='')\n"
    "dumps = reader.json.dumps\n"
    "class json:\n    @staticmethod\n    def dumps(value):\n        return "
)

UNREAD: list[tuple[str, str, str]] = [
    (
        "def make():\n    def price(x: int): ...\n    return price\n",
        "make",
        "It returns a function (price), which is only made when make() is called.",
    ),
    ("if True:\n    def price(x: int): ...\n", "price", "the file's text has no tool of this"),
    ("price = lambda x: x\n", "price", "the file's text has no tool of this name."),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    path = tmp_path_factory.mktemp("reading") / "a.db"
    environment = {"OPENAI_API_KEY": "sk-test-0123456789abcdef"}
    engine = await Engine.open(
        path, simulator_url=lambda: "", simulator_key="k", environment=environment
    )
    yield engine
    await engine.close()


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


async def read_file(engine: Engine, file: Path, **words: Any) -> ImportedTools:
    with anyio.fail_after(30):
        return await read_python(engine, FileToRead(file=str(file), **words))


async def run(engine: Engine, item: ImportedTool, arguments: Any) -> str:
    assert item.tool is not None
    call = Invocation(
        session="s",
        call="1.0",
        attempt=1,
        tool=item.tool,
        arguments=json.dumps(arguments),
        timeout_s=20.0,
        max_output=100_000,
        folder=Path("/"),
        idempotency_key="k",
    )
    with anyio.fail_after(30):
        result = await engine.executors.run(call, lambda *_: None)
    assert not result.is_error, result.text
    return result.text


@pytest.mark.parametrize(("framework", "text", "name", "function", "result"), ROWS)
async def test_read_when_file_has_framework_tool_gives_its_schema_and_runs_it(
    framework: str,
    text: str,
    name: str,
    function: str,
    result: str,
    engine: Engine,
    tmp_path: Path,
) -> None:
    write(tmp_path, {**FRAMEWORKS, "tools.py": text})
    imported = await read_file(engine, tmp_path / "tools.py")
    assert imported.problem == ""
    (item,) = imported.tools
    assert item.tool is not None, item.problem
    assert (item.tool.name, item.tool.description) == (name, "Doc.")
    assert item.tool.parameters == SKU
    assert item.tool.config == {"file": str(tmp_path / "tools.py"), "function": function}
    assert item.kind == f"Python, {framework}"
    assert await run(engine, item, {"sku": "x"}) == result


async def test_read_when_file_has_no_framework_gives_its_functions_by_text(
    engine: Engine, tmp_path: Path
) -> None:
    text = "def price(sku: str) -> str:\n    'Doc.'\n    return sku\ndef _private(): ...\n"
    write(tmp_path, {"tools.py": text})
    (item,) = (await read_file(engine, tmp_path / "tools.py", interpreter=sys.executable)).tools
    assert item.tool is not None
    assert (item.tool.name, item.tool.description, item.tool.parameters) == ("price", "Doc.", SKU)
    assert item.tool.config["interpreter"] == sys.executable
    assert await run(engine, item, {"sku": "x"}) == "x"


async def test_read_when_list_names_functions_gives_those_alone(
    engine: Engine, tmp_path: Path
) -> None:
    text = f"{HELPER}def price(sku: str):\n    return sku\nTOOLS = [price]\n"
    write(tmp_path, {"tools.py": text})
    imported = await read_file(engine, tmp_path / "tools.py")
    assert [item.name for item in imported.tools] == ["price"]


async def test_read_when_framework_is_imported_only_offers_none_of_its_classes(
    engine: Engine, tmp_path: Path
) -> None:
    text = "from smolagents import Tool\nfrom other import made\n"
    other = ROWS[6][1] + "made = Price()\n"
    write(tmp_path, {**FRAMEWORKS, "other.py": other, "tools.py": text})
    imported = await read_file(engine, tmp_path / "tools.py")
    assert imported.tools == ()
    assert "it has no tools" in imported.problem


async def test_read_when_class_needs_arguments_says_so(engine: Engine, tmp_path: Path) -> None:
    text = ROWS[6][1] + "    def __init__(self, key):\n        self.key = key\n"
    write(tmp_path, {**FRAMEWORKS, "tools.py": text})
    (item,) = (await read_file(engine, tmp_path / "tools.py")).tools
    assert item.tool is None
    assert "Price() cannot be made without arguments" in item.problem
    assert "Create an instance at the top level of the file." in item.problem


async def test_read_when_schema_raises_refuses_that_tool_alone(
    engine: Engine, tmp_path: Path
) -> None:
    text = ROWS[8][1] + "class Bad(type(price)):\n    tool_spec = {}\nbad = Bad(None)\n"
    write(tmp_path, {**FRAMEWORKS, "tools.py": text})
    good, bad = (await read_file(engine, tmp_path / "tools.py")).tools
    assert good.tool is not None
    assert (bad.tool, bad.problem) == (None, "It gives no schema: KeyError: 'inputSchema'")


@pytest.mark.parametrize(("text", "sentences"), FAILURES)
async def test_read_when_import_fails_says_why_and_ends_the_process(
    text: str, sentences: list[str], engine: Engine, tmp_path: Path
) -> None:
    write(tmp_path, {"tools.py": text})
    imported = await read_file(engine, tmp_path / "tools.py")
    assert imported.tools == ()
    for sentence in sentences:
        assert sentence in imported.problem
    assert alive(tmp_path) == []


async def test_read_when_import_takes_too_long_ends_all_it_started(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)\n"
    write(tmp_path, {"tools.py": text})
    monkeypatch.setattr(reading, "TIMEOUT_S", 1.0)
    imported = await read_file(engine, tmp_path / "tools.py")
    assert imported.problem == "The tool was stopped after 1 s, its limit."
    assert alive(tmp_path) == []


async def test_read_when_file_prints_ignores_what_it_prints(engine: Engine, tmp_path: Path) -> None:
    forged = '{"result": "[]", "is_error": false, "form": "text", "job": 1}'
    write(tmp_path, {"tools.py": f"print('''{forged}''', flush=True)\ndef price(): ...\n"})
    imported = await read_file(engine, tmp_path / "tools.py")
    assert [item.name for item in imported.tools] == ["price"]


async def test_read_when_text_is_pasted_runs_in_a_folder_that_is_removed(engine: Engine) -> None:
    text = "from shop.sibling import low\nimport os\nassert os.path.exists('shop/sibling.py')\n"
    text += "def price(sku: str):\n    raise LookupError\n"
    others = {"shop/sibling.py": "import os\nlow = os.getcwd()\n"}
    wanted = FileToRead(text=text, name="tools.py", others=others)
    (item,) = (await read_python(engine, wanted)).tools
    assert item.tool is not None
    assert item.tool.answered_by == "mock"
    assert "name the absolute path of its file" in " ".join(item.notes)
    where = await read_python(engine, FileToRead(text="import os\nraise OSError(os.getcwd())\n"))
    assert not os.path.exists(where.problem.split("OSError: ")[1].partition("\n")[0])


async def test_read_when_file_differs_from_sent_text_says_so(
    engine: Engine, tmp_path: Path
) -> None:
    write(tmp_path, {"tools.py": "def price(): ...\n"})
    imported = await read_file(engine, tmp_path / "tools.py", text="def other(): ...\n")
    assert [item.name for item in imported.tools] == ["price"]
    assert "differs from the text" in imported.notes[-1]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
async def test_read_when_request_names_no_file_refuses(
    words: dict[str, Any], sentence: str, engine: Engine
) -> None:
    with pytest.raises(BadInput) as refused:
        await read_python(engine, FileToRead(**words))
    assert sentence in str(refused.value)


async def test_read_when_text_has_other_files_keeps_their_names(engine: Engine) -> None:
    text = "with open('shop/prices.json') as file:\n    file.read()\ndef price(): ...\n"
    others = {"shop/prices.json": "{}"}
    imported = await read_python(engine, FileToRead(text=text, name="tools", others=others))
    assert ([item.name for item in imported.tools], imported.problem) == (["price"], "")


async def test_read_when_text_replaces_its_folder_gives_its_tools(
    engine: Engine, tmp_path: Path
) -> None:
    text = (
        "import os\nhere = os.path.dirname(__file__)\nopen(here + '/was', 'w').write(here)\n"
        f"os.rename(here, {str(tmp_path / 'moved')!r})\n"
        f"os.symlink({str(tmp_path)!r}, here)\ndef price(): ...\n"
    )
    imported = await read_python(engine, FileToRead(text=text))
    assert [item.name for item in imported.tools] == ["price"]
    assert (tmp_path / "moved" / "pasted.py").exists()
    Path((tmp_path / "moved" / "was").read_text()).unlink()  # the link is the file's own


async def test_read_when_object_raises_names_its_line_in_file(
    engine: Engine, tmp_path: Path
) -> None:
    text = (
        "class Tool:\n    on_invoke_tool = params_json_schema = 1\n    @property\n"
        "    def name(self):\n        raise SystemExit(4)\n"
        "Tool.__module__ = 'agents'\nmine = Tool()\n"
    )
    write(tmp_path, {"tools.py": text})
    imported = await read_file(engine, tmp_path / "tools.py")
    assert imported.problem == "SystemExit: 4\n  line 5, in name: raise SystemExit(4)"


async def test_read_when_file_has_more_tools_than_are_taken_says_so(
    engine: Engine, tmp_path: Path
) -> None:
    text = (
        "from agents import FunctionTool\n"
        f"tools = [FunctionTool(f't{{n}}', 'Doc.', {SKU_TEXT}, print) for n in range(600)]\n"
    )
    write(tmp_path, {**FRAMEWORKS, "tools.py": text})
    imported = await read_file(engine, tmp_path / "tools.py")
    assert len(imported.tools) == 500
    assert imported.notes[-1] == "It has more than 500 tools. Only the first are read."


@pytest.mark.parametrize(
    "answer",
    [
        "'5'",
        "'[null]'",
        "'[{}]'",
        "'[' * 100_000",
        "dumps([{**entry, 'problem': {'a': 1}}])",
        "dumps([{**entry, 'framework': None}])",
        "dumps([{**entry, 'reference': []}])",
        "dumps([{**entry, 'runs': 1}])",
    ],
)
async def test_read_when_file_forges_answer_refuses_it(
    answer: str, engine: Engine, tmp_path: Path
) -> None:
    write(tmp_path, {"tools.py": f"{FORGED}{answer}\nreader.json = json\n"})
    imported = await read_file(engine, tmp_path / "tools.py")
    assert imported.problem == "Its process did not return a list of tools."


async def test_read_when_file_forges_long_problem_clips_it(engine: Engine, tmp_path: Path) -> None:
    answer = "dumps([{**entry, 'problem': 'x' * 3_000_000}])"
    write(tmp_path, {"tools.py": f"{FORGED}{answer}\nreader.json = json\n"})
    (item,) = (await read_file(engine, tmp_path / "tools.py")).tools
    assert len(item.problem) == 2000


async def test_read_when_file_changes_meanwhile_does_not_run_it(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"tools.py": "def price(): ...\n"})
    take_content = reading._content

    def change_afterwards(path: Path) -> bytes:
        content = take_content(path)
        path.write_text("open('ran', 'w')\ndef other(): ...\n")
        return content

    monkeypatch.setattr(reading, "_content", change_afterwards)
    imported = await read_file(engine, tmp_path / "tools.py")
    assert "has just changed and was not run" in imported.problem
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "description"),
    [
        ("# coding: latin-1\ndef f():\n    'é'\n".encode("latin-1"), "é"),
        ("\ufeffdef f():\n    'é'\n".encode(), "é"),
        ("def f():\r\n    'é'\r\n".encode(), "é"),
    ],
)
async def test_read_when_file_declares_encoding_takes_its_text_so(
    content: bytes, description: str, engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "tools.py").write_bytes(content)
    (item,) = (await read_file(engine, tmp_path / "tools.py")).tools
    assert item.tool is not None
    assert item.tool.description == description


async def test_read_when_encoding_is_unknown_says_what_python_says(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "tools.py").write_bytes(b"# coding: absent-1\ndef f(): ...\n")
    assert "unknown encoding" in (await read_file(engine, tmp_path / "tools.py")).problem


@pytest.mark.parametrize(("text", "name", "problem"), UNREAD)
async def test_read_when_text_has_no_such_function_says_so(
    text: str, name: str, problem: str, engine: Engine
) -> None:
    (item,) = (await read_python(engine, FileToRead(text=text))).tools
    assert (item.tool, item.name) == (None, name)
    assert problem in item.problem
    assert "Read it with" not in item.problem


def test_functions_when_only_the_interpreter_reads_the_text_say_so() -> None:
    """Its Python may be newer than ours."""
    words = dict.fromkeys(("framework", "description", "problem"), "")
    entry = {"reference": "price", "name": "price", "dialect": "json", **words}
    listed = [{**entry, "parameters": None, "runs": True}]
    (item,) = tools_from_objects(listed, "def price(): ...\nnewer syntax\n", "/t.py", "").tools
    assert item.problem.startswith(
        "A function without a framework is read from the file's text. Line 2: this is not valid"
    )


async def test_read_when_decorator_is_unknown_does_not_advise_what_was_done(
    engine: Engine,
) -> None:
    others = {"absent_kit.py": "def tool(function):\n    return function\n"}
    text = "from absent_kit import tool\n@tool\ndef price(sku: str):\n    'Doc.'\n"
    imported = await read_python(engine, FileToRead(text=text, others=others))
    assert [item.name for item in imported.tools] == ["price"]
    assert "Read it with" not in " ".join(imported.tools[0].notes)


async def test_read_when_interpreter_is_absent_says_so(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path, {"tools.py": "def price(): ...\n"})
    imported = await read_file(engine, tmp_path / "tools.py", interpreter="/absent/python")
    assert "/absent/python cannot be started" in imported.problem


def alive(folder: Path) -> list[str]:
    """The processes that have `folder` as their working folder."""
    results = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                results.append(entry.name)
        except OSError:
            continue
    return results
