"""The schemas that agent frameworks give their tools, beside ours.

`python bench/python_frameworks.py [--keep DIR] [--only NAME ...] [--verbose]`

Each framework is installed in a virtual environment in a temporary folder (needs the network, ten
minutes the first time). For each there are small tool files in its usual shapes. What the framework
itself would send to a model (`ORACLE`, asked in its environment and not by our table) is compared
with what "Read it with this interpreter" gives, and with what is read from the text alone. Prints a
table: `equal`; `meaning`, where only titles, the place of a definition or the spelling of null
differ; `said`, where it differs and a note or a refusal says what was not read; `DIFFERS`. Each
tool that was read with the interpreter is then run once, with arguments made by its schema.

`--keep DIR` keeps the environments there and uses those that it has; `--only NAME ...`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.engine.engine import Engine
from playground.engine.read_python import FileToRead, read_python
from playground.exchange.tool_entry import ImportedTools
from playground.exchange.tool_import import import_tools
from playground.executors.executor import Invocation
from playground.schema.satisfy import sample_value

INSTALL_S, ASK_S = 1800, 180

ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "a": (
        *("langchain", "openai-agents", "claude-agent-sdk", "pydantic-ai-slim"),
        *("llama-index-core", "agno", "smolagents", "strands-agents", "inspect-ai"),
        *("autogen-core", "fastmcp"),
    ),
    "b": ("crewai",),
    "c": ("google-adk",),
}
"""Those that can be installed beside each other."""


class Framework(NamedTuple):
    """`files` are its tool files by shape. `oracle` is the body of `async def specs(values)`: it
    yields (name, description, schema) of each tool, as the framework tells a model."""

    environment: str
    oracle: str
    files: dict[str, str]


DOC = '''"""Price of an article.

    Args:
        sku: Number of the article.
        day: Which day.
        tags: Words that it has.
    """'''
BODY = f"(sku: str, day: str = 'today', tags: list[str] | None = None) -> float:\n    {DOC}\n"
TYPED = '''
from enum import Enum
from typing import Annotated, Literal, Optional
from pydantic import BaseModel, Field

class Size(str, Enum):
    small = "small"
    large = "large"

class Address(BaseModel):
    """Where it goes."""
    street: str = Field(description="Street and number")
    zip: Optional[str] = None

'''
RICH = (
    "(to: Address, size: Size, mode: Literal['eco', 'fast'] = 'eco', "
    "count: Annotated[int, Field(ge=1, le=9, description='How many')] = 1) -> str:\n"
    '    """Ship it.\n\n    Args:\n        to: Where to.\n        size: Which size.\n'
    '        mode: How.\n    """\n    return mode\n'
)
HELPER = "def helper(x):\n    return x\n\n"

FRAMEWORKS: dict[str, Framework] = {
    "LangChain": Framework(
        "a",
        """
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_function
for value in values:
    if isinstance(value, type) and issubclass(value, BaseTool) and value.__module__ == "it":
        value = value()
    if isinstance(value, BaseTool):
        f = convert_to_openai_function(value)
        yield f["name"], f["description"], f["parameters"]
""",
        {
            "decorator": f"from langchain_core.tools import tool\n{HELPER}@tool\n"
            f"def price{BODY}    return 3.5\n",
            "decorator, typed": f"from langchain_core.tools import tool\n{TYPED}"
            f"@tool(parse_docstring=True)\ndef ship{RICH}",
            "args_schema": "from langchain_core.tools import tool\nfrom pydantic import BaseModel, "
            "Field\n\nclass Args(BaseModel):\n    sku: str = Field(description='Number')\n"
            "    count: int = 1\n\n@tool('stock', args_schema=Args)\ndef add(sku, count=1):\n"
            "    'Add to the stock.'\n    return sku\n",
            "from_function": "from langchain_core.tools import StructuredTool\n\n"
            f"def find{BODY}    return 3.5\n\nprice_tool = StructuredTool.from_function("
            "find, name='price_of', description='The price.')\n",
            "class": "from typing import Type\nfrom langchain_core.tools import BaseTool\n"
            "from pydantic import BaseModel, Field\n\nclass Args(BaseModel):\n"
            "    sku: str = Field(description='Number')\n\nclass Price(BaseTool):\n"
            "    name: str = 'price_of'\n    description: str = 'The price.'\n"
            "    args_schema: Type[BaseModel] = Args\n\n    def _run(self, sku: str) -> float:\n"
            "        return 3.5\n",
        },
    ),
    "openai-agents": Framework(
        "a",
        """
from agents import FunctionTool
from agents.models.chatcmpl_converter import Converter
for value in values:
    if isinstance(value, FunctionTool):
        f = Converter.tool_to_openai(value)["function"]
        yield f["name"], f["description"], f["parameters"]
""",
        {
            "decorator": f"from agents import function_tool\n{HELPER}@function_tool\n"
            f"def price{BODY}    return 3.5\n",
            "override": "from agents import RunContextWrapper, function_tool\n\n"
            "@function_tool(name_override='price_of', strict_mode=False)\n"
            "async def price(ctx: RunContextWrapper, sku: str, day: str = 'today') -> float:\n"
            "    'Price of an article.'\n    return 3.5\n",
            "decorator, typed": f"from agents import function_tool\n{TYPED}"
            f"@function_tool\ndef ship{RICH}",
            "by hand": "from agents import FunctionTool\n\nasync def run(ctx, text):\n"
            "    return text\n\nmine = FunctionTool(name='mine', description='Mine.', "
            "params_json_schema={'type': 'object', 'properties': {'a': {'type': 'integer'}}, "
            "'required': ['a'], 'additionalProperties': False}, on_invoke_tool=run)\n",
            "agent": "from agents import Agent, function_tool\n\n@function_tool\n"
            f"def price{BODY}    return 3.5\n\nagent = Agent(name='shop', tools=[price])\n",
        },
    ),
    "Claude Agent SDK": Framework(
        "a",
        """
from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server
import mcp.types as wire
tools = [value for value in values if isinstance(value, SdkMcpTool)]
server = create_sdk_mcp_server("s", tools=tools)["instance"]
try:
    from mcp import Client
    async with Client(server) as client:
        listed = (await client.list_tools()).tools
except ImportError:
    from mcp.shared.memory import create_connected_server_and_client_session as connected
    async with connected(server) as client:
        listed = (await client.list_tools()).tools
for tool in listed:
    data = tool.model_dump(by_alias=True, exclude_none=True)
    yield data["name"], data["description"], data["inputSchema"]
""",
        {
            "types": "from claude_agent_sdk import create_sdk_mcp_server, tool\n\n"
            "@tool('add_numbers', 'Adds two numbers', {'a': float, 'b': float})\n"
            "async def add(args):\n    return {'content': [{'type': 'text', 'text': "
            "str(args['a'] + args['b'])}]}\n\n"
            "server = create_sdk_mcp_server(name='calc', version='1.0.0', tools=[add])\n",
            "schema": "from claude_agent_sdk import tool\n\nSCHEMA = {'type': 'object', "
            "'properties': {'op': {'type': 'string', 'enum': ['add', 'sub']}}, 'required': ['op']}"
            "\n\n@tool('calculate', 'Does it.', SCHEMA)\nasync def calculate(args):\n"
            "    return {'content': []}\n",
        },
    ),
    "Pydantic AI": Framework(
        "a",
        """
from pydantic_ai import Agent, Tool
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.messages import ModelResponse, TextPart
seen = []
def answer(messages, info):
    seen.extend(info.function_tools)
    return ModelResponse(parts=[TextPart("ok")])
tools = [value for value in values if isinstance(value, Tool)]
agents = [value for value in values if isinstance(value, Agent)]
if tools:
    agents.append(Agent(tools=tools))
for agent in agents:
    await agent.run("x", model=FunctionModel(answer))
for tool in seen:
    yield tool.name, tool.description or "", tool.parameters_json_schema
""",
        {
            "tool_plain": "from pydantic_ai import Agent\nagent = Agent()\n\n@agent.tool_plain\n"
            f"def price{BODY}    return 3.5\n",
            "tool, context": "from pydantic_ai import Agent, RunContext\nagent = Agent()\n\n"
            "@agent.tool\ndef price(ctx: RunContext[None], sku: str) -> float:\n"
            "    'Price of an article.'\n    return 3.5\n",
            "Tool": f"from pydantic_ai import Tool\n\ndef find{BODY}    return 3.5\n\n"
            "price = Tool(find, name='price_of', description='The price.')\n",
            "typed": f"from pydantic_ai import Agent\n{TYPED}agent = Agent()\n\n"
            f"@agent.tool_plain\ndef ship{RICH}",
        },
    ),
    "LlamaIndex": Framework(
        "a",
        """
from llama_index.core.tools import BaseTool
for value in values:
    if isinstance(value, BaseTool):
        f = value.metadata.to_openai_tool()["function"]
        yield f["name"], f["description"], f["parameters"]
""",
        {
            "from_defaults": "from llama_index.core.tools import FunctionTool\n\n"
            f"def price{BODY}    return 3.5\n\nprice_tool = FunctionTool.from_defaults(fn=price)\n",
            "named": "from llama_index.core.tools import FunctionTool\n\n"
            f"def find{BODY}    return 3.5\n\nprice_tool = FunctionTool.from_defaults("
            "find, name='price_of', description='The price.')\n",
        },
    ),
    "Agno": Framework(
        "a",
        """
from agno.agent import Agent
from agno.tools import Toolkit
from agno.tools.function import Function
from agno.agent._tools import parse_tools
tools = [value for value in values if isinstance(value, (Function, Toolkit))]
for value in values:
    if isinstance(value, Agent):
        tools += value.tools
import types
made = Agent(tools=tools)
model = types.SimpleNamespace(supports_native_structured_outputs=False)
for f in parse_tools(made, tools, model):
    data = f.to_dict()
    yield data["name"], data.get("description") or "", data["parameters"]
""",
        {
            "decorator": f"from agno.tools import tool\n{HELPER}@tool\n"
            f"def price{BODY}    return 3.5\n",
            "named": "from agno.tools import tool\n\n"
            "@tool(name='price_of', description='The price.')"
            f"\ndef find{BODY}    return 3.5\n",
            "agent": f"from agno.agent import Agent\n{HELPER}def price{BODY}    return 3.5\n\n"
            "agent = Agent(tools=[price])\n",
            "toolkit": "from agno.tools import Toolkit\n\nclass Shop(Toolkit):\n"
            "    def __init__(self):\n        super().__init__(name='shop', tools=[self.price])\n\n"
            "    def price(self, sku: str, day: str = 'today') -> float:\n"
            "        'Price of an article.'\n        return 3.5\n\nshop = Shop()\n",
        },
    ),
    "smolagents": Framework(
        "a",
        """
from smolagents import Tool
from smolagents.models import Model
for value in values:
    if isinstance(value, type) and issubclass(value, Tool) and value.__module__ == "it":
        value = value()
    if isinstance(value, Tool):
        sent = Model()._prepare_completion_kwargs(messages=[], tools_to_call_from=[value])
        f = sent["tools"][0]["function"]
        yield f["name"], f["description"], f["parameters"]
""",
        {
            "decorator": "from smolagents import tool\n\n@tool\ndef price(sku: str, "
            f"day: str = 'today') -> float:\n    {DOC}\n    return 3.5\n".replace(
                "        tags: Words that it has.\n", ""
            ),
            "class": "from smolagents import Tool\n\nclass PriceTool(Tool):\n"
            "    name = 'price_of'\n"
            "    description = 'Price of an article.'\n    inputs = {'sku': {'type': 'string', "
            "'description': 'Number'}, 'day': {'type': 'string', 'description': 'Which day', "
            "'nullable': True}}\n    output_type = 'number'\n\n"
            "    def forward(self, sku: str, day: str = None) -> float:\n        return 3.5\n",
        },
    ),
    "Strands": Framework(
        "a",
        """
from strands.types.tools import AgentTool
from strands.tools.registry import ToolRegistry
registry = ToolRegistry()
registry.process_tools([value for value in values if isinstance(value, AgentTool)])
for spec in registry.get_all_tool_specs():
    yield spec["name"], spec["description"], spec["inputSchema"]["json"]
""",
        {
            "decorator": f"from strands import tool\n{HELPER}@tool\n"
            f"def price{BODY}    return 3.5\n",
            "named": "from strands import tool\n\n"
            "@tool(name='price_of', description='The price.')\n"
            f"def find{BODY}    return 3.5\n",
            "context": "from strands import ToolContext, tool\n\n@tool(context=True)\n"
            "def price(sku: str, tool_context: ToolContext) -> float:\n"
            "    'Price of an article.'\n    return 3.5\n",
        },
    ),
    "Inspect": Framework(
        "a",
        """
from inspect_ai.model._call_tools import get_tools_info
from inspect_ai.tool import ToolDef
from inspect_ai._util.registry import is_registry_object
tools = [value() for value in values if callable(value) and is_registry_object(value, "tool")]
for info in get_tools_info(tools):
    yield info.name, info.description, info.parameters.model_dump(mode="json", exclude_none=True)
""",
        {
            "factory": "from inspect_ai.tool import Tool, tool\n\n@tool\n"
            "def add_stock(limit: int = 100) -> Tool:\n"
            "    async def execute(sku: str, count: int = 1) -> str:\n"
            '        """Add pieces to the stock.\n\n        Args:\n            sku: Number.\n'
            '            count: How many.\n        """\n        return sku\n\n    return execute\n',
            "named": "from inspect_ai.tool import tool\n\n@tool(name='price_of')\ndef price():\n"
            "    async def run(sku: str, tags: list[str]) -> str:\n"
            '        """Price of an article.\n\n        Args:\n            sku: Number.\n'
            '            tags: Words.\n        """\n        return sku\n\n    return run\n',
        },
    ),
    "AutoGen": Framework(
        "a",
        """
from autogen_core.tools import BaseTool
for value in values:
    if isinstance(value, BaseTool):
        yield value.schema["name"], value.schema["description"], value.schema["parameters"]
""",
        {
            "FunctionTool": "from typing import Annotated\nfrom autogen_core.tools import "
            "FunctionTool\n\nasync def price(sku: Annotated[str, 'Number'], "
            "day: Annotated[str, 'Which day'] = 'today') -> float:\n    return 3.5\n\n"
            "price_tool = FunctionTool(price, description='The price.', name='price_of')\n",
        },
    ),
    "FastMCP": Framework(
        "a",
        """
from fastmcp import Client, FastMCP
for value in values:
    if isinstance(value, FastMCP):
        async with Client(value) as client:
            for tool in await client.list_tools():
                data = tool.model_dump(by_alias=True, exclude_none=True)
                yield data["name"], data.get("description") or "", data["inputSchema"]
""",
        {
            "server": "from fastmcp import Context, FastMCP\nmcp = FastMCP('shop')\n"
            f"{HELPER}@mcp.tool\ndef price{BODY}    return 3.5\n\n@mcp.tool(name='say')\n"
            "async def speak(text: str, ctx: Context) -> str:\n    'Says it.'\n    return text\n",
            "typed": f"from fastmcp import FastMCP\n{TYPED}mcp = FastMCP('shop')\n\n@mcp.tool\n"
            f"def ship{RICH}",
        },
    ),
    "CrewAI": Framework(
        "b",
        """
from crewai.tools import BaseTool
from crewai.utilities.agent_utils import convert_tools_to_openai_schema
for value in values:
    if isinstance(value, type) and issubclass(value, BaseTool) and value.__module__ == "it":
        value = value()
    if isinstance(value, BaseTool):
        f = convert_tools_to_openai_schema([value])[0][0]["function"]
        yield f["name"], f["description"], f["parameters"]
""",
        {
            "decorator": f"from crewai.tools import tool\n{HELPER}@tool('price_of')\n"
            f"def price{BODY}    return 3.5\n",
            "class": "from typing import Type\nfrom crewai.tools import BaseTool\n"
            "from pydantic import BaseModel, Field\n\nclass Args(BaseModel):\n"
            "    sku: str = Field(..., description='Number')\n\nclass Price(BaseTool):\n"
            "    name: str = 'Price of'\n    description: str = 'The price.'\n"
            "    args_schema: Type[BaseModel] = Args\n\n    def _run(self, sku: str) -> str:\n"
            "        return sku\n",
        },
    ),
    "Google ADK": Framework(
        "c",
        """
from google.adk.agents import Agent
from google.adk.models.llm_request import LlmRequest
from google.adk.tools import BaseTool
tools = [value for value in values if isinstance(value, BaseTool)]
for value in values:
    if isinstance(value, Agent):
        tools += await value.canonical_tools()
request = LlmRequest()
request.append_tools(tools)
for tool in request.config.tools:
    for f in tool.function_declarations:
        schema = f.parameters_json_schema
        if schema is None:
            schema = f.parameters.model_dump(mode="json", exclude_none=True)
            for kind in ("OBJECT", "STRING"):  # Gemini's spelling of JSON Schema's types
                schema = json.loads(json.dumps(schema).replace(kind, kind.lower()))
        yield f.name, f.description or "", schema
""",
        {
            "agent": "from google.adk.agents import Agent\nfrom google.adk.tools import ToolContext"
            f"\n{HELPER}def price(sku: str, tool_context: ToolContext) -> dict:\n"
            "    'Price of an article.'\n    return {'price': 3.5}\n\nroot_agent = Agent("
            "name='shop', model='gemini-3-flash', tools=[price])\n",
            "FunctionTool": f"from google.adk.tools import FunctionTool\n\ndef price{BODY}"
            "    return 3.5\n\nprice_tool = FunctionTool(price)\n",
            "class": "from google.adk.tools import BaseTool\nfrom google.genai import types\n\n"
            "class Price(BaseTool):\n    def __init__(self):\n        super().__init__("
            "name='price_of', description='The price.')\n\n    def _get_declaration(self):\n"
            "        return types.FunctionDeclaration(name=self.name, description="
            "self.description, parameters=types.Schema(type='OBJECT', properties={'sku': "
            "types.Schema(type='STRING')}, required=['sku']))\n\n"
            "    async def run_async(self, *, args, tool_context):\n        return args['sku']\n\n"
            "price = Price()\n",
        },
    ),
}

ORACLE = """
import asyncio, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("it", sys.argv[1])
it = sys.modules["it"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(it)
async def specs(values):
{body}
async def main():
    values = [value for name, value in vars(it).items() if not name.startswith("__")]
    return [list(one) async for one in specs(values)]
print("\\n@@" + json.dumps(asyncio.run(main())))
"""
Spec = tuple[str, str, Any]
EMPTY = [("default", None), ("additionalProperties", False)]


def make_environment(folder: Path, name: str) -> Path:
    """The Python of the environment, which is made and filled if it is not there."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(ENVIRONMENTS[name])} ...", file=sys.stderr)
        venv.create(folder / name, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", *ENVIRONMENTS[name]]
        subprocess.run(command, check=True, timeout=INSTALL_S)
    return python


def ask_framework(python: Path, framework: Framework, file: Path) -> list[Spec]:
    body = "\n".join("    " + line for line in framework.oracle.strip().split("\n"))
    command = [str(python), "-c", ORACLE.replace("{body}", body), str(file)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, cwd=file.parent)
    if run.returncode:
        raise SystemExit(f"{file}: the framework itself failed:\n{run.stderr[-2000:]}")
    return [(name, text, schema) for name, text, schema in json.loads(run.stdout.split("@@")[-1])]


def specs_of(imported: ImportedTools) -> dict[str, Spec]:
    return {
        item.tool.name: (item.tool.name, item.tool.description, item.tool.parameters)
        for item in imported.tools
        if item.tool is not None
    }


def meaning(schema: Any, root: Any = None) -> Any:
    """A schema without titles, with its definitions in their places and null in one spelling."""
    root = schema if root is None else root
    if isinstance(schema, list):
        return [meaning(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if str(schema.get("$ref", "")).startswith("#/$defs/"):
        target = root["$defs"][schema["$ref"].rpartition("/")[2]]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "patternProperties") and isinstance(value, dict):
            out[key] = {name: meaning(inner, root) for name, inner in value.items()}
        elif key in ("title", "$defs") or (key, value) in EMPTY:
            continue
        elif key == "allOf" and isinstance(value, list) and len(value) == 1:
            out |= meaning(value[0], root)
        else:
            out[key] = meaning(value, root)
    kinds = out.get("type")
    if isinstance(kinds, list) and len(kinds) == 2 and "null" in kinds:
        kind = next(kind for kind in kinds if kind != "null")
        rest = {
            key: value
            for key, value in out.items()
            if key not in ("type", "description", "default")
        }
        about = {key: value for key, value in out.items() if key in ("description", "default")}
        out = {"anyOf": [{"type": kind, **rest}, {"type": "null"}], **about}
    if out.get("required") == []:
        del out["required"]
    return (
        {**out, "required": sorted(out["required"])}
        if isinstance(out.get("required"), list)
        else out
    )


def compare(wanted: list[Spec], imported: ImportedTools) -> str:
    """How what was imported stands to what the framework gives."""
    ours = specs_of(imported)
    theirs = {name: (name, text, schema) for name, text, schema in wanted}
    if ours == theirs:
        return "equal"
    if ours.keys() == theirs.keys() and all(
        (mine[1].split(), meaning(mine[2])) == (other[1].split(), meaning(other[2]))
        for mine, other in ((ours[name], theirs[name]) for name in theirs)
    ):
        return "meaning"
    sentences = [imported.problem, *imported.notes]
    sentences += [words for item in imported.tools for words in (item.problem, *item.notes)]
    usual = ("Name an interpreter", "you answer its calls by hand", "name the absolute path")
    outputs = [words for words in sentences if words and not any(word in words for word in usual)]
    return "said" if outputs else "DIFFERS"


async def run_tools(engine: Engine, imported: ImportedTools, folder: Path) -> str:
    """`ran`, if each tool that was read with the interpreter runs with arguments made by its
    schema; else what the first one that fails says."""
    for item in imported.tools:
        if item.tool is None or item.tool.answered_by != "python":
            return "by hand"
        call = Invocation(
            session="bench",
            call="1.0",
            attempt=1,
            tool=item.tool,
            arguments=json.dumps(sample_value(item.tool.parameters)),
            timeout_s=60.0,
            max_output=1_000_000,
            folder=folder,
            idempotency_key="",
        )
        result = await engine.executors.run(call, lambda *_: None)
        await engine.executors.forget("bench")
        if result.is_error:
            return f"failed: {result.text[:200]!r}"
    return "ran"


async def measure(folder: Path, names: list[str], verbose: bool) -> None:
    ways = ("interpreter", "text", "run")
    counts: dict[str, Counter[str]] = {way: Counter() for way in ways}
    engine = await Engine.open(
        folder / "bench.db", simulator_url=lambda: "", simulator_key="none", environment={}
    )
    print(f"{'framework':18} {'shape':18} {'tools':>5}  {'interpreter':12} {'text alone':12} run")
    try:
        for name in names:
            framework = FRAMEWORKS[name]
            python = make_environment(folder, framework.environment)
            for number, (shape, source) in enumerate(framework.files.items()):
                file = folder / f"tools_{name.replace(' ', '_').lower()}_{number}.py"
                file.write_text(source)
                wanted = ask_framework(python, framework, file)
                request = FileToRead(file=str(file), interpreter=str(python))
                read = await read_python(engine, request)
                alone = import_tools(source, str(file))
                result = {"interpreter": compare(wanted, read), "text": compare(wanted, alone)}
                result["run"] = await run_tools(engine, read, folder)
                for way, verdict in result.items():
                    counts[way][verdict.partition(":")[0]] += 1
                row = f"{name:18} {shape:18} {len(wanted):5}  "
                row += f"{result['interpreter']:12} {result['text']:12} {result['run']}"
                print(row, flush=True)
                if verbose and {*result.values()} & {"said", "DIFFERS", "meaning"}:
                    print("  theirs     ", json.dumps(wanted))
                    print("  interpreter", read.problem, json.dumps(list(specs_of(read).values())))
                    print(
                        "  text       ", alone.problem, json.dumps(list(specs_of(alone).values()))
                    )
                    print("  notes      ", [item.notes for item in alone.tools])
    finally:
        await engine.close()
    for way, counter in counts.items():
        total = ", ".join(f"{count} {verdict}" for verdict, count in counter.most_common())
        print(f"{way}: {total} of {counter.total()} files")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="a folder for the environments")
    parser.add_argument("--only", nargs="+", default=list(FRAMEWORKS), choices=list(FRAMEWORKS))
    parser.add_argument("--verbose", action="store_true", help="print what differs")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = words.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        asyncio.run(measure(folder.resolve(), words.only, words.verbose))


if __name__ == "__main__":
    main()
