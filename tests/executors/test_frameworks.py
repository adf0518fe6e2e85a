"""Functions that a decorator of an agent framework made something else of: they run all the same.

The stand-ins have the shapes of the real packages (openai-agents 0.24, langchain-core 1.7, crewai
1.15, smolagents 1.26, haystack 3.4, strands 1.62, llama-index 0.14, pydantic-ai 2.68, mcp 1.28).
The real ones are tried by the interpreter that PLAYGROUND_FRAMEWORKS names, or by this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from playground.core.tools import Tool
from playground.exchange.python_source import functions
from playground.executors import run_with_limits
from playground.executors.executor import Invocation
from playground.executors.python import conversion, location, runner

TOOLS = '''
import dataclasses, datetime, functools
from enum import Enum

class Colour(Enum):
    RED = "red"

class Model:
    """As pydantic's."""
    model_fields = {"day": None, "unit": None}
    def __init__(self, day, unit="C"):
        self.day, self.unit = day, unit
    @classmethod
    def parse_obj(cls, value):
        return cls(datetime.date.fromisoformat(value["day"]), value.get("unit", "C"))
Model.__fields__ = Model.model_fields

@dataclasses.dataclass
class FunctionTool:
    """openai-agents: no function, and what it was made of is hidden in a closure."""
    name: str
    description: str
    params_json_schema: dict
    on_invoke_tool: object

def function_tool(func=None, *, name_override=None):
    def made(inner):
        async def on_invoke_tool(context, text):
            return inner(text)
        return FunctionTool(name_override or inner.__name__, inner.__doc__, {}, on_invoke_tool)
    return made(func) if func else made

class StructuredTool:
    """LangChain, and CrewAI: `func` or `coroutine`, and the class of the arguments."""
    def __init__(self, function, schema):
        import inspect
        self.name, self.description, self.args_schema = function.__name__, "", schema or Model
        waits = inspect.iscoroutinefunction(function)
        self.func, self.coroutine = (None, function) if waits else (function, None)

def tool(*words, args_schema=None):
    if words and callable(words[0]):
        return StructuredTool(words[0], None)
    return lambda function: StructuredTool(function, args_schema)

class SimpleTool:
    """smolagents: it can be called, but says nothing of what it takes."""
    description = "..."
    def __init__(self, function):
        self.forward = function
    def __call__(self, *words, sanitize_inputs_outputs=False, **named):
        return self.forward(*words, **named)

class Wrapping:
    """strands: it can be called, and shows what it wraps."""
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self._tool_func = function
    def __call__(self, *words, **named):
        return self._tool_func(*words, **named)

class LlamaTool:
    """llama-index: it can be called, and returns its own kind of result."""
    metadata = "..."
    def __init__(self, function):
        self._fn = function
    def __call__(self, *words, **named):
        return ["ToolOutput", self._fn(*words, **named)]

class Counted:
    """A decorator of the user's own: what it adds is meant."""
    def __init__(self, function):
        self.function = function
    def __call__(self, **named):
        return ["counted", self.function(**named)]

class Server:
    """mcp, pydantic-ai, semantic-kernel: the function stays what it is."""
    def tool(self, name=None):
        return lambda function: function
mcp = Server()

def twice(function):
    @functools.wraps(function)
    def wrapper(**named):
        return [function(**named), function(**named)]
    return wrapper

def unsaid(function):
    def wrapper(*words, **named):
        return function(*words, **named)
    return wrapper

@unsaid
def wrapped(day: datetime.date):
    return day.isoformat()

@function_tool
def agents(day: datetime.date):
    return day

@function_tool(name_override="other")
async def agents_async(day: datetime.date):
    return day

@tool
def langchain(day: datetime.date):
    return day

@tool("named")
async def langchain_async(day: datetime.date):
    return day

@tool("named", args_schema=Model)
def by_schema(day, unit):
    return [day, unit]

@SimpleTool
def smolagents(day: datetime.date):
    return day

@Wrapping
def strands(day: datetime.date):
    return day

@mcp.tool()
def server(day: datetime.date):
    return day

@function_tool
@twice
def below(day: datetime.date):
    return day

@Counted
def counted(day: datetime.date):
    return day

@functools.lru_cache
def cached(day: datetime.date):
    return day

def plain(day: datetime.date):
    return day

llama = LlamaTool(plain)
held = StructuredTool(plain, None)
half = functools.partial(plain)
settings = {"day": 1}
'''

DAY = '"2026-05-04"'
RUN: list[tuple[str, str]] = [
    ("agents", DAY),
    ("agents_async", DAY),
    ("langchain", DAY),
    ("langchain_async", DAY),
    ("by_schema", f'[{DAY}, "C"]'),
    ("smolagents", DAY),
    ("strands", DAY),
    ("server", DAY),
    ("below", f"[{DAY}, {DAY}]"),
    ("wrapped", "2026-05-04"),
    ("counted", f'["counted", {DAY}]'),
    ("cached", DAY),
    ("plain", DAY),
    ("llama", DAY),
    ("held", DAY),
    ("half", DAY),
]

JOB = {"code": "", "report": True, "keep": False, "max_output": 1000, "channel": -1, "number": 1}

REAL: dict[str, str] = {
    "agents": "from agents import RunContextWrapper, function_tool\n@function_tool\n"
    "async def f(ctx: RunContextWrapper, day: date) -> date:\n    return day\n",
    "langchain_core": "from langchain_core.tools import tool\n@tool\n"
    "def f(day: date) -> date:\n    'Doc.'\n    return day\n",
    "crewai": "from crewai.tools import tool\n@tool('f')\n"
    "def f(day: date) -> date:\n    'Doc.'\n    return day\n",
    "smolagents": "from smolagents import tool\n@tool\ndef f(day: str) -> str:\n"
    "    '''Doc.\n\n    Args:\n        day: the day\n    '''\n    return day\n",
    "haystack": "from haystack.tools import tool\n@tool\n"
    "def f(day: date) -> str:\n    'Doc.'\n    return day.isoformat()\n",
    "strands": "from strands import tool\n@tool\n"
    "def f(day: date) -> str:\n    'Doc.'\n    return day.isoformat()\n",
    "semantic_kernel": "from semantic_kernel.functions import kernel_function\n@kernel_function\n"
    "def f(day: date) -> date:\n    return day\n",
    "mcp": "try:\n    from mcp.server.mcpserver import Context, MCPServer\n"  # since 2.0
    "except ImportError:\n    from mcp.server.fastmcp import Context, FastMCP as MCPServer\n"
    "mcp = MCPServer('a')\n@mcp.tool()\n"
    "async def f(day: date, ctx: Context) -> date:\n    await ctx.info('x')\n    return day\n",
    "fastmcp": "from fastmcp import Context, FastMCP\nmcp = FastMCP('a')\n@mcp.tool\n"
    "async def f(day: date, ctx: Context | None = None) -> date:\n"
    "    await ctx.report_progress(1, 2)\n    return day\n",
    "pydantic_ai": "from pydantic_ai import Agent\nagent = Agent('test')\n@agent.tool_plain\n"
    "def f(day: date) -> date:\n    return day\n",
    "llama_index": "from llama_index.core.tools import FunctionTool\n"
    "def g(day: date) -> date:\n    return day\nf = FunctionTool.from_defaults(g)\n",
    "autogen_core": "from autogen_core.tools import FunctionTool\n"
    "def g(day: date) -> date:\n    return day\nf = FunctionTool(g, description='Doc.')\n",
    "google.adk": "from google.adk.tools import FunctionTool\n"
    "def g(day: date) -> date:\n    return day\nf = FunctionTool(g)\n",
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[runner.LoadedFile]:
    """The file as the child has it, in this process."""
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.setattr(runner, "conversion", conversion)
    monkeypatch.setattr(runner, "location", location)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    monkeypatch.setitem(sys.modules, "pydantic", None)
    yield runner.LoadedFile(str(tmp_path / "tools.py"))
    sys.modules.pop("tool_file", None)


@pytest.mark.parametrize(("name", "result"), RUN)
def test_a_decorated_function_runs(name: str, result: str, file: runner.LoadedFile) -> None:
    job = {**JOB, "function": name}
    answer = runner.result_of(job, {"day": "2026-05-04"}, file)
    assert (answer["result"], answer["is_error"]) == (result, False)


def test_what_is_no_function_is_said(file: runner.LoadedFile) -> None:
    job = {**JOB, "function": "settings"}
    with pytest.raises(runner.CallFailure, match=r"settings of .* is a dict, not a function"):
        runner.result_of(job, {}, file)
    with pytest.raises(runner.CallFailure, match=r"no function absent; it has: .*agents, .*plain"):
        runner.result_of({**job, "function": "absent"}, {}, file)


def test_what_is_imported_is_what_runs(file: runner.LoadedFile) -> None:
    """Each function that Import finds in the file exists when it is called."""
    decorated = [
        function.function
        for function in functions(TOOLS)
        if function.decorator and not function.problem
    ]
    assert {"agents", "agents_async", "langchain", "langchain_async", "by_schema"} <= set(decorated)
    assert all(callable(file.function(name, "")[0]) for name in decorated)


def has(interpreter: str, package: str) -> bool:
    return not subprocess.run(
        [interpreter, "-c", f"import {package}"], capture_output=True
    ).returncode


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("package", REAL)
async def test_the_real_package(package: str, tmp_path: Path) -> None:
    interpreter = os.environ.get("PLAYGROUND_FRAMEWORKS", sys.executable)
    if not has(interpreter, package):
        pytest.skip(f"{interpreter} has no {package}; PLAYGROUND_FRAMEWORKS may name one that has.")
    (tmp_path / "tools.py").write_text("from datetime import date\n" + REAL[package])
    config = {"file": str(tmp_path / "tools.py"), "function": "f", "interpreter": interpreter}
    tool, executors = Tool("t", answered_by="python", config=config), run_with_limits.executors()
    arguments = '{"day": "2026-05-04"}'
    call = Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=arguments,
        timeout_s=55.0,
        max_output=100_000,
        folder=tmp_path,
        idempotency_key="k",
    )
    try:
        with anyio.fail_after(58):
            results = [await executors.run(call, lambda *_: None) for _ in range(2)]
    finally:
        await executors.close()
    assert [result.text.strip('"') for result in results] == ["2026-05-04"] * 2, results
