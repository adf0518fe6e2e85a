"""The tools of agent frameworks, as objects in an imported file: one table says how those of each
framework are recognised, how their own schema is read, and how they are called.

A tool is recognised by the module of its class (or of a base of it) and by the attributes that its
framework gives it; nothing of a framework is imported that the file has not imported itself.
Loaded by `runner.py`, by any Python from 3.8 on.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import json
import types
from typing import Any, Callable, Iterator, NamedTuple, Optional  # noqa: UP035 - Python 3.8

MOST_TOOLS = 501
MOST_MEMBERS = 501
"""One more than are taken: the last says that there are more."""
INSPECT_INFO = "__registry_info__"
INSPECT_MADE = "__registry_params__"

CLAUDE_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}

HOLDERS = (
    ("functions",),  # Agno's Toolkit
    ("_function_toolset", "tools"),  # an Agent of Pydantic AI
    ("tool_registry", "registry"),  # an Agent of Strands
    ("tools_by_name",),  # LangGraph's ToolNode
    ("_tools",),  # an agent of AutoGen
    ("tools",),  # agents and toolsets of the others
)
"""Attributes of agents and toolkits in which their tools are."""

LISTING = ("list_tools", "get_tools")
"""Methods of servers that list their tools: the second is that of fastmcp 2."""


class ToolSchema(NamedTuple):
    """What a tool is for a model. `parameters` is a JSON Schema, or, with `dialect` "gemini", one
    in the dialect of OpenAPI 3.0."""

    name: str
    description: str
    parameters: Any
    dialect: str = "json"


class Framework(NamedTuple):
    """One row. A tool's class or a base of it is in one of `packages`, and it has `marks`. `bases`
    are the names of classes that a file derives its tools from.

    `read` gives its ToolSchema. `function` gives the user's function that it holds, which is called
    with arguments converted by its hints; `call` calls the tool itself with the arguments as JSON,
    where there is no such function. `whole`: the function below its decorator cannot be used
    instead.
    """

    label: str
    packages: tuple[str, ...]
    marks: tuple[str, ...]
    read: Callable[[Any], ToolSchema]
    bases: tuple[str, ...] = ()
    function: Callable[[Any], Any] = lambda tool: None
    call: Optional[Callable[[Any, dict[str, Any]], Any]] = None  # noqa: UP045 - Python 3.8
    whole: bool = False


class HeldTool(NamedTuple):
    """A tool that a server or an agent holds, and that is not an object of its own. `function` is
    the user's own, or None."""

    label: str
    spec: ToolSchema
    function: Any


class NoSchema(Exception):
    """A tool that is recognised but gives no schema; the sentence says why."""


# -- how each framework gives its schema


def schema_of(model: Any) -> Any:
    """The JSON Schema of a pydantic model, of either version; a schema is returned as it is."""
    if isinstance(model, dict) or model is None:
        return model or {"type": "object", "properties": {}}
    read = getattr(model, "model_json_schema", None) or model.schema
    return read()


def function_spec(openai_tool: Any) -> ToolSchema:
    """The ToolSchema of a tool in the form of OpenAI's Chat Completions."""
    function = openai_tool.get("function", openai_tool)
    return ToolSchema(
        function["name"],
        function.get("description") or "",
        function.get("parameters") or {"type": "object", "properties": {}},
    )


def read_langchain(tool: Any) -> ToolSchema:
    try:
        converting: Any = importlib.import_module("langchain_core.utils.function_calling")
        return function_spec(converting.convert_to_openai_tool(tool))
    except ImportError:
        model = getattr(tool, "tool_call_schema", None) or tool.args_schema
        return ToolSchema(tool.name, tool.description, schema_of(model))


def read_crewai(tool: Any) -> ToolSchema:
    try:
        converting: Any = importlib.import_module("crewai.utilities.agent_utils")
        return function_spec(converting.convert_tools_to_openai_schema([tool])[0][0])
    except (ImportError, AttributeError):
        return ToolSchema(tool.name, tool.description, schema_of(tool.args_schema))


def read_smolagents(tool: Any) -> ToolSchema:
    models: Any = importlib.import_module("smolagents.models")
    return function_spec(models.get_tool_json_schema(tool))


def read_adk(tool: Any) -> ToolSchema:
    declaration = tool._get_declaration()
    if declaration is None:
        raise NoSchema("Its provider runs it, so it has no declaration.")
    schema = getattr(declaration, "parameters_json_schema", None)
    if schema is not None:
        return ToolSchema(declaration.name, declaration.description or "", schema_of(schema))
    schema = declaration.parameters
    if schema is None:
        return ToolSchema(declaration.name, declaration.description or "", schema_of(None))
    data = schema.model_dump(mode="json", exclude_none=True)
    return ToolSchema(declaration.name, declaration.description or "", data, "gemini")


def read_strands(tool: Any) -> ToolSchema:
    spec = tool.tool_spec
    schema = spec["inputSchema"]
    return ToolSchema(spec["name"], spec.get("description") or "", schema.get("json", schema))


def read_agno(tool: Any) -> ToolSchema:
    prepared = tool.model_copy()
    prepared.process_entrypoint()
    data = prepared.to_dict()
    return ToolSchema(data["name"], data.get("description") or "", data["parameters"])


def read_inspect(tool: Any) -> ToolSchema:
    definition = importlib.import_module("inspect_ai.tool").ToolDef(tool)
    parameters = definition.parameters
    if not isinstance(parameters, dict):
        parameters = parameters.model_dump(mode="json", exclude_none=True)
    return ToolSchema(definition.name, definition.description, parameters)


def read_claude(tool: Any) -> ToolSchema:
    package: Any = importlib.import_module("claude_agent_sdk")
    build = getattr(package, "_build_input_schema", None)
    schema = tool.input_schema
    if build is not None:
        schema = build(tool)
    elif isinstance(schema, dict) and not ("type" in schema and "properties" in schema):
        members = {
            name: {"type": CLAUDE_TYPES.get(kind, "string")} for name, kind in schema.items()
        }
        schema = {"type": "object", "properties": members, "required": list(members)}
    elif not isinstance(schema, dict):
        raise NoSchema("This version of its package builds its schema inside a server.")
    return ToolSchema(tool.name, tool.description, schema)


def read_pydantic_ai(tool: Any) -> ToolSchema:
    definition = getattr(tool, "tool_def", None)
    if definition is None:
        return ToolSchema(tool.name, tool.description or "", tool.function_schema.json_schema)
    return ToolSchema(tool.name, definition.description or "", definition.parameters_json_schema)


def read_llama_index(tool: Any) -> ToolSchema:
    about = tool.metadata
    return ToolSchema(about.name, about.description, about.get_parameters_dict())


def read_autogen(tool: Any) -> ToolSchema:
    return function_spec(tool.schema)


# -- how each framework calls its tool


def call_openai_agents(tool: Any, arguments: dict[str, Any]) -> Any:
    contexts: Any = importlib.import_module("agents.tool_context")
    text = json.dumps(arguments)
    words = {"context": None, "tool_name": tool.name, "tool_call_id": "", "tool_arguments": text}
    wanted = inspect.signature(contexts.ToolContext).parameters
    context = contexts.ToolContext(**{word: words[word] for word in words if word in wanted})
    return tool.on_invoke_tool(context, text)


def call_smolagents(tool: Any, arguments: dict[str, Any]) -> Any:
    return tool(**arguments)


async def call_claude(tool: Any, arguments: dict[str, Any]) -> Any:
    return content_text(await tool.handler(arguments))


async def call_llama_index(tool: Any, arguments: dict[str, Any]) -> Any:
    result = await tool.acall(**arguments) if hasattr(tool, "acall") else tool(**arguments)
    return getattr(result, "raw_output", result)


def call_autogen(tool: Any, arguments: dict[str, Any]) -> Any:
    core: Any = importlib.import_module("autogen_core")
    return tool.run_json(arguments, core.CancellationToken())


async def call_adk(tool: Any, arguments: dict[str, Any]) -> Any:
    return await tool.run_async(args=arguments, tool_context=None)


def content_text(result: Any) -> Any:
    """The text of a result in the form of MCP; another result as it is. A failure is raised."""
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return result
    pieces = result["content"]
    if not all(isinstance(piece, dict) and piece.get("type") == "text" for piece in pieces):
        return result
    text = "\n".join(str(piece.get("text", "")) for piece in pieces)
    if result.get("is_error") or result.get("isError"):
        raise RuntimeError(text)
    return text


async def call_module_tool(function: Any, arguments: dict[str, Any]) -> Any:
    """Calls the function of a TOOL_SPEC as Strands does: with the whole `toolUse` object."""
    use = {"toolUseId": "", "name": function.__name__, "input": arguments}
    result = function(use)
    if inspect.isawaitable(result):
        result = await result
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return result
    pieces = [piece.get("text", piece.get("json", piece)) for piece in result["content"]]
    text = [piece if isinstance(piece, str) else json.dumps(piece) for piece in pieces]
    if result.get("status") == "error":
        raise RuntimeError("\n".join(text))
    return pieces[0] if len(pieces) == 1 else "\n".join(text)


def read_attribute(*names: str) -> Callable[[Any], Any]:
    """Gives the first of these attributes that holds something to call."""

    def read(tool: Any) -> Any:
        values = (getattr(tool, name, None) for name in names)
        return next((value for value in values if callable(value)), None)

    return read


def read_attributes(name: str, description: str, schema: str) -> Callable[[Any], ToolSchema]:
    """Gives the ToolSchema of a tool that has it in three attributes."""

    def read(tool: Any) -> ToolSchema:
        return ToolSchema(
            getattr(tool, name), getattr(tool, description) or "", schema_of(getattr(tool, schema))
        )

    return read


FRAMEWORKS = (
    Framework(
        "LangChain",
        ("langchain_core", "langchain", "langchain_community"),
        ("name", "description", "args_schema"),
        read_langchain,
        bases=("BaseTool", "StructuredTool"),
        function=read_attribute("coroutine", "func"),
        call=lambda tool, arguments: tool.ainvoke(arguments),
    ),
    Framework(
        "openai-agents",
        ("agents",),
        ("name", "params_json_schema", "on_invoke_tool"),
        read_attributes("name", "description", "params_json_schema"),
        call=call_openai_agents,
    ),
    Framework(
        "Google ADK",
        ("google.adk",),
        ("name", "_get_declaration"),
        read_adk,
        bases=("BaseTool", "FunctionTool"),
        function=read_attribute("func"),
        call=call_adk,
    ),
    Framework(
        "smolagents",
        ("smolagents",),
        ("name", "inputs", "forward"),
        read_smolagents,
        bases=("Tool",),
        call=call_smolagents,
    ),
    Framework(
        "CrewAI",
        ("crewai", "crewai_tools"),
        ("name", "args_schema", "run"),
        read_crewai,
        bases=("BaseTool",),
        function=read_attribute("func"),
        call=lambda tool, arguments: tool.run(**arguments),
    ),
    Framework(
        "Strands",
        ("strands",),
        ("tool_spec",),
        read_strands,
        function=read_attribute("_tool_func"),
    ),
    Framework(
        "Agno",
        ("agno",),
        ("name", "parameters", "entrypoint"),
        read_agno,
        function=read_attribute("entrypoint"),
    ),
    Framework(
        "Claude Agent SDK",
        ("claude_agent_sdk",),
        ("name", "input_schema", "handler"),
        read_claude,
        call=call_claude,
        whole=True,
    ),
    Framework(
        "Pydantic AI",
        ("pydantic_ai",),
        ("name", "function", "function_schema"),
        read_pydantic_ai,
        function=read_attribute("function"),
    ),
    Framework(
        "LlamaIndex",
        ("llama_index",),
        ("metadata", "call"),
        read_llama_index,
        bases=("BaseTool", "AsyncBaseTool"),
        function=read_attribute("_fn"),
        call=call_llama_index,
    ),
    Framework(
        "AutoGen",
        ("autogen_core",),
        ("schema", "run_json"),
        read_autogen,
        bases=("BaseTool",),
        function=read_attribute("_func"),
        call=call_autogen,
    ),
    Framework(
        "FastMCP",
        ("fastmcp",),
        ("name", "parameters", "fn"),
        read_attributes("name", "description", "parameters"),
        function=read_attribute("fn"),
    ),
    Framework(
        "Haystack",
        ("haystack",),
        ("name", "parameters", "function"),
        read_attributes("name", "description", "parameters"),
        function=read_attribute("function"),
    ),
    Framework(
        "Anthropic SDK",
        ("anthropic",),
        ("name", "input_schema", "func"),
        read_attributes("name", "description", "input_schema"),
        function=read_attribute("func"),
    ),
)

INSPECT = Framework(
    "Inspect",
    ("inspect_ai",),
    (INSPECT_INFO,),
    read_inspect,
    function=lambda tool: tool,
    whole=True,
)
"""Its tools are functions with a registry entry, not instances of a class of its own."""


def is_from(kind: type, packages: tuple[str, ...]) -> bool:
    return any(
        base.__module__ == package or base.__module__.startswith(package + ".")
        for base in kind.__mro__
        for package in packages
        if isinstance(getattr(base, "__module__", None), str)
    )


def framework_of(thing: Any) -> Framework | None:
    """The row of a tool object; None for anything else."""
    if isinstance(thing, (type, types.ModuleType)):
        return None
    if isinstance(thing, types.FunctionType):
        return INSPECT if inspect_kind(thing) == "tool" else None
    rows = (row for row in FRAMEWORKS if is_from(type(thing), row.packages))
    return next(
        (row for row in rows if all(has_attribute(thing, mark) for mark in row.marks)), None
    )


def inspect_kind(thing: Any) -> str:
    return str(getattr(getattr(thing, INSPECT_INFO, None), "type", ""))


def has_attribute(thing: Any, name: str) -> bool:
    try:
        return hasattr(thing, name)
    except Exception:  # a property of the user's own may raise anything
        return False


def tool_class(thing: Any) -> Framework | None:
    """The row of a class that was derived from a framework's class of tools."""
    if not isinstance(thing, type) or inspect.isabstract(thing):
        return None
    for row in FRAMEWORKS:
        bases = [base for base in thing.__mro__[1:] if base.__name__ in row.bases]
        if any(is_from(base, row.packages) for base in bases) and not is_own(thing, row):
            return row
    return None


def is_own(kind: type, row: Framework) -> bool:
    """Whether a class is the framework's own."""
    own = str(kind.__module__)
    return any(own == name or own.startswith(name + ".") for name in row.packages)


def tool_object(thing: Any) -> tuple[Framework | None, Any]:
    """The row of a tool and the tool itself: an instance of a class, what a factory makes."""
    row = tool_class(thing)
    makes = row is not None
    if row is None:
        row = framework_of(thing)
        makes = row is INSPECT and not hasattr(thing, INSPECT_MADE)
    if row is None or not makes:
        return row, thing
    try:
        return row, thing()
    except Exception as error:
        what = getattr(thing, "__name__", "It")
        sentence = f"{what}() cannot be made without arguments: {type(error).__name__}: {error}"
        raise NoSchema(f"{sentence} Create an instance at the top level of the file.") from None


def module_tool(values: dict[str, Any]) -> Any:
    """The function of a module that is one tool of Strands: it has the name in TOOL_SPEC."""
    spec = values.get("TOOL_SPEC")
    if not isinstance(spec, dict) or not isinstance(spec.get("inputSchema"), dict):
        return None
    function = values.get(str(spec.get("name")))
    return function if isinstance(function, types.FunctionType) else None


# -- what holds tools: lists, agents, toolkits, servers


PACKAGES = (
    *(package for row in FRAMEWORKS for package in row.packages),
    *("langgraph", "mcp", "autogen_agentchat"),
)


def members(thing: Any, name: str) -> Iterator[Any]:
    """The tools in `thing`, and the functions that it was given as tools."""
    if isinstance(thing, (list, tuple, set, dict)):
        yield from list_members(thing, name)
        return
    if isinstance(thing, type) or not is_from(type(thing), PACKAGES):
        return
    if framework_of(thing) is not None:
        return
    for method in LISTING:
        if inspect.iscoroutinefunction(getattr(thing, method, None)):
            yield from server_members(thing, method)
            return
    for path in HOLDERS:
        value = thing
        for step in path:
            value = getattr(value, step, None)
        if isinstance(value, (list, tuple, dict)) and value:
            for member in list(value.values() if isinstance(value, dict) else value):
                if framework_of(member) is None:
                    yield from members(member, "tools")
                yield as_tool(thing, member)
            return


def list_members(things: Any, name: str) -> Iterator[Any]:
    """A list of tools has a tool of a framework in it, or is called so and has functions alone."""
    inside = list(things.values() if isinstance(things, dict) else things)[:MOST_MEMBERS]
    tools = [item for item in inside if framework_of(item) or isinstance(item, types.FunctionType)]
    known = any(framework_of(item) for item in tools)
    named = "tool" in name.lower() and len(tools) == len(inside)
    if tools and (known or named):
        yield from tools


def as_tool(holder: Any, member: Any) -> Any:
    """A function as the tool that its agent makes of it; any other member as it is."""
    if not isinstance(member, (types.FunctionType, types.MethodType)):
        return member
    if framework_of(member) is not None:
        return member
    if is_from(type(holder), ("google.adk",)):
        return importlib.import_module("google.adk.tools").FunctionTool(member)
    if is_from(type(holder), ("agno",)):
        kind = importlib.import_module("agno.tools.function").Function
        data = kind.from_callable(member).to_dict()
        spec = ToolSchema(data["name"], data.get("description") or "", data["parameters"])
        return HeldTool("Agno", spec, member)
    return member


def server_members(server: Any, method: str) -> Iterator[Any]:
    """The tools of a FastMCP server, as it lists them."""
    listed = asyncio.run(getattr(server, method)())
    manager = getattr(getattr(server, "_tool_manager", None), "_tools", {})
    tools = list(listed.values() if isinstance(listed, dict) else listed)
    for tool in tools[:MOST_MEMBERS]:
        if framework_of(tool) is not None:
            yield tool
            continue
        schema = next(
            getattr(tool, name)
            for name in ("inputSchema", "input_schema", "parameters")
            if hasattr(tool, name)
        )
        function = getattr(manager.get(tool.name), "fn", None)
        yield HeldTool("MCP SDK", ToolSchema(tool.name, tool.description or "", schema), function)


def spec_of(tool: Any) -> ToolSchema:
    """NoSchema if it has none."""
    if isinstance(tool, HeldTool):
        return tool.spec
    row = framework_of(tool)
    if row is None:
        raise NoSchema(f"{type(tool).__name__} is not a tool of a known framework.")
    return row.read(tool)


def function_in(tool: Any) -> Any:
    """The user's own function in a tool, or None."""
    if isinstance(tool, types.FunctionType):
        return tool
    if isinstance(tool, HeldTool):
        return tool.function
    row = framework_of(tool)
    function = row.function(tool) if row is not None else None
    return inspect.unwrap(function) if callable(function) else None


def member_named(holder: Any, name: str, attribute_name: str) -> Any:
    """The tool that `holder` has under this name, None if it has none."""
    for tool in members(holder, attribute_name):
        with contextlib.suppress(NoSchema):
            known = tool.__name__ if isinstance(tool, types.FunctionType) else spec_of(tool).name
            if known == name:
                return tool
    return None


# -- the tools of a file


def tools_of(module: Any, source: bytes) -> list[dict[str, Any]]:
    """Every tool of an imported file: those of frameworks with their own name, description and
    schema, and the functions that its lists and agents name. If it has none of these, its public
    functions, which have no schema of their own (`parameters` is None).

    `reference` is what config.function of a tool names: an attribute of the module, or, for a tool
    that only an agent or a list has, that attribute, a dot, and the tool's name."""
    values = vars(module)
    declared = values.get("__all__")
    names = [str(name) for name in declared] if isinstance(declared, (list, tuple)) else []
    imported = imported_names(source) - set(names)
    here = {
        name: value
        for name, value in list(values.items())
        if not name.startswith("__") and name not in imported
    }
    entries: list[dict[str, Any]] = []
    seen: set[int] = set()
    function = module_tool(values)
    if function is not None:
        spec = read_strands(types.SimpleNamespace(tool_spec=values["TOOL_SPEC"]))
        seen.add(id(function))
        tool = HeldTool("Strands", spec, function)
        entries.append(entry(spec.name, tool, "Strands", runs=True))
    for name, value in here.items():
        try:
            row, tool = tool_object(value)
        except NoSchema as problem:
            entries.append(refused_entry(name, str(problem)))
            continue
        if row is not None and id(value) not in seen:
            seen |= {id(value), id(function_in(tool))}
            entries.append(entry(name, tool, row.label, row.function(tool) or row.call))
    for name, value in here.items():
        try:
            held = list(members(value, name))
        except Exception as error:
            entries.append(refused_entry(name, f"Its tools cannot be listed: {words_of(error)}"))
            continue
        for tool in held:
            function = function_in(tool)
            if id(tool) in seen or (function is not None and id(function) in seen):
                continue
            seen |= {id(tool), id(function)} - {id(None)}
            entries.append(member_entry(values, name, tool, function))
    if not entries:
        public = [name for name, value in here.items() if is_public(module, name, value, names)]
        entries = [function_entry(name) for name in public]
    return entries[:MOST_TOOLS]


def imported_names(source: bytes) -> set[str]:
    """The names that the file imports at its top."""
    tree = ast.parse(source)
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    aliases = [alias for node in imports for alias in node.names]
    return {alias.asname or alias.name.partition(".")[0] for alias in aliases}


def is_public(module: Any, name: str, value: Any, declared: list[str]) -> bool:
    if not isinstance(value, types.FunctionType) or name.startswith("_"):
        return False
    return name in declared if declared else value.__module__ == module.__name__


def member_entry(values: dict[str, Any], holder: str, tool: Any, function: Any) -> dict[str, Any]:
    """The entry of a tool in a list, an agent or a server: by the name that its function has in the
    file, if it has one there, because that runs without the rest."""
    own = next((name for name, value in values.items() if value is tool), "")
    inner = next((name for name, value in values.items() if value is function), "")
    if isinstance(tool, types.FunctionType) and framework_of(tool) is None:
        return function_entry(own or tool.__name__)
    row = framework_of(tool)
    label = row.label if row is not None else getattr(tool, "label", "")
    runs = function is not None or (row is not None and row.call is not None)
    described = entry(own or inner or holder, tool, label, runs)
    if not (own or inner) and not described["problem"]:
        described["reference"] = f"{holder}.{described['name']}"
    return described


def entry(reference: str, tool: Any, label: str, runs: Any) -> dict[str, Any]:
    try:
        spec = spec_of(tool)
        parameters = json.loads(json.dumps(spec.parameters, allow_nan=False))
    except NoSchema as problem:
        return refused_entry(reference, str(problem), label)
    except Exception as error:
        return refused_entry(reference, f"It gives no schema: {words_of(error)}", label)
    return {
        "reference": reference,
        "framework": label,
        "name": str(spec.name),
        "description": str(spec.description or ""),
        "parameters": parameters,
        "dialect": spec.dialect,
        "runs": bool(runs),
        "problem": "",
    }


def function_entry(name: str) -> dict[str, Any]:
    return {
        "reference": name,
        "framework": "",
        "name": name,
        "description": "",
        "parameters": None,
        "dialect": "json",
        "runs": True,
        "problem": "",
    }


def refused_entry(name: str, problem: str, label: str = "") -> dict[str, Any]:
    return {**function_entry(name), "framework": label, "runs": False, "problem": problem}


def words_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
