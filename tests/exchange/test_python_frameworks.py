"""Python files in the words of agent frameworks: which of their parts are tools, what these take,
and whether they can be run by their name. What cannot be read is said."""

from __future__ import annotations

from typing import Any

import pytest

from playground.exchange.tool_entry import ImportedTool, ImportedTools
from playground.exchange.tool_import import import_tools

STRING: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
INTEGER: dict[str, Any] = {"type": "integer"}

MODEL = 'class In(BaseModel):\n    "In."\n    sku: str = Field(description="Its number")\n'
HELPER = "\ndef helper(x: int): ...\n"

READ: dict[str, tuple[str, str, str, dict[str, Any], str]] = {
    # (source, name, description, properties, function that answers or "" for none)
    "inspect factory": (
        "@tool\ndef add_stock(limit: int = 100) -> Tool:\n"
        '    async def execute(sku: str) -> str:\n        """Add."""\n        return sku\n'
        "    return execute\n",
        *("add_stock", "Add.", {"sku": STRING}, ""),
    ),
    "inspect factory with a name": (
        "@tool(name='stock', parallel=False)\ndef add_stock():\n"
        '    async def run(sku: str):\n        """Add."""\n        return "ok"\n'
        "    return run\n",
        *("stock", "Add.", {"sku": STRING}, ""),
    ),
    "inspect ToolDef": (
        "@tool\ndef add_n(n: int) -> Tool:\n"
        "    async def addition(x: int): ...\n    return ToolDef("
        "addition, name='add', description='Adds.', parameters={'x': 'A number'}).as_tool()\n",
        *("add", "Adds.", {"x": {**INTEGER, "description": "A number"}}, ""),
    ),
    "factory of a decorated function": (
        "def make(db):\n    @tool\n    def look(sku: str):\n"
        '        """Look."""\n        return db[sku]\n    return look\n',
        *("look", "Look.", {"sku": STRING}, ""),
    ),
    "factory of a wrapped function": (
        "def make(db):\n    def inner(sku: str): ...\n"
        "    return StructuredTool.from_function(inner, name='look', description='Look.')\n",
        *("look", "Look.", {"sku": STRING}, ""),
    ),
    "factory in a list": (
        "def make(db):\n    def look(sku: str):\n"
        '        """Look."""\n    return look\nagent = Agent(tools=[make(1)])\n',
        *("look", "Look.", {"sku": STRING}, ""),
    ),
    "factory with a named result": (
        "def make(db):\n    def look(sku: str):\n"
        '        """Look."""\n    return look\nlook_up = make(1)\nagent = Agent(tools=[look_up])\n',
        *("look", "Look.", {"sku": STRING}, "look_up"),
    ),
    "claude types": (
        "@tool('add', 'Adds.', {'a': float, 'b': Annotated[str, 'B']})\nasync def f(args): ...\n",
        *("add", "Adds.", {"a": NUMBER, "b": {**STRING, "description": "B"}}, ""),
    ),
    "claude schema": (
        "SCHEMA = {'type': 'object', 'properties': {'a': {'type': 'string'}}}\n"
        "@tool('add', 'Ad' + 'ds.', SCHEMA)\nasync def f(args: dict[str, Any]): ...\n",
        *("add", "Adds.", {"a": STRING}, ""),
    ),
    "claude TypedDict": (
        "class P(TypedDict):\n    a: float\n@tool('add', 'Adds.', P)\nasync def f(args): ...\n",
        *("add", "Adds.", {"a": NUMBER}, ""),
    ),
    "decorator with args_schema": (
        f"{MODEL}@tool('find', args_schema=In)\ndef f(sku: str):\n    'Finds.'\n",
        *("find", "Finds.", {"sku": {**STRING, "description": "Its number"}}, "f"),
    ),
    "decorator overrides": (
        "@function_tool(name_override='find', description_override='Finds.')\n"
        "def f(ctx: RunContextWrapper[Any], sku: str): ...\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "context without a type": (
        "@agent.tool\ndef f(ctx, sku: str):\n    'Finds.'\n",
        *("f", "Finds.", {"sku": STRING}, "f"),
    ),
    "default that a server fills in": (
        "@mcp.tool(name='find', description='Finds.')\n"
        "def f(sku: str, db: Db = Depends(get_db)): ...\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "beta_tool with a schema": (
        "@beta_tool(name='find', description='Finds.', input_schema={'type': 'object', "
        "'properties': {'sku': {'type': 'string'}}})\ndef f(sku): ...\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "method of a plugin": (
        "class Plugin:\n    @kernel_function(name='find', description='Finds.')\n"
        "    def f(self, sku: str, kernel: Kernel): ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "smolagents class": (
        "class Price(Tool):\n    name = 'price'\n    description = 'Price.'\n    inputs = {'sku': "
        "{'type': 'string'}, 'day': {'type': 'any', 'nullable': True}}\n"
        "    output_type = 'number'\n"
        "    def forward(self, sku: str, day=None): ...\n",
        *("price", "Price.", {"sku": STRING, "day": {}}, ""),
    ),
    "smolagents object": (
        "class Price(Tool):\n    name = 'price'\n    description = 'Price.'\n"
        "    inputs = {'sku': {'type': 'string'}}\n    output_type = 'number'\n"
        "    def forward(self, sku: str): ...\nprice_tool = Price()\n",
        *("price", "Price.", {"sku": STRING}, "price_tool"),
    ),
    "class with args_schema": (
        f"{MODEL}class Find(BaseTool):\n    name: str = 'find'\n    description: str = 'Finds.'\n"
        "    args_schema: Type[BaseModel] = In\n    def _run(self, sku: str): ...\n",
        *("find", "Finds.", {"sku": {**STRING, "description": "Its number"}}, ""),
    ),
    "class by its method": (
        "class Find(BaseTool):\n    name: str = 'find'\n    description: str = 'Finds.'\n"
        "    def _run(self, sku: str, run_manager: Optional[CallbackManagerForToolRun] = "
        "None): ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "class by its constructor": (
        f"{MODEL}class Find(BaseTool[In, str]):\n    def __init__(self):\n        super().__init__("
        "args_type=In, return_type=str, name='find', description='Finds.')\n"
        "    async def run(self, args: In, token: CancellationToken): ...\n",
        *("find", "Finds.", {"sku": {**STRING, "description": "Its number"}}, ""),
    ),
    "class that declares itself": (
        "class Find(BaseTool):\n    def __init__(self):\n        super().__init__(name='find', "
        "description='Finds.')\n    def _get_declaration(self):\n        return types."
        "FunctionDeclaration(name=self.name, description=self.description, parameters="
        "{'type': 'object', 'properties': {'sku': {'type': 'string'}}})\n"
        "    async def run_async(self, *, args, tool_context): ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "class with properties": (
        "class Find(BaseTool):\n    NAME = 'find'\n    @property\n    def name(self):\n"
        "        return "
        "self.NAME\n    description = 'Finds.'\n    def _run(self, sku: str): ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "class by its members": (
        'class Find(BaseTool):\n    """Finds."""\n    sku: str\n    def run(self):\n        ...\n',
        *("Find", "Finds.", {"sku": STRING}, ""),
    ),
    "registered class": (
        "@register_tool('find')\nclass Find(BaseTool):\n"
        "    description = 'Finds.'\n    parameters ="
        " [{'name': 'sku', 'type': 'string', 'required': True}]\n    def call(self, params): ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "toolkit with a list": (
        "class Kit(Toolkit):\n    def __init__(self, **more):\n"
        "        super().__init__(name='kit', tools=[self.find], **more)\n"
        "    def find(self, sku: str, agent: Agent):\n        'Finds.'\n    def other(self): ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "toolkit that registers": (
        "class Kit(Toolkit):\n    def __init__(self):\n        self.register(self.find)\n"
        "    def find(self, sku: str):\n        'Finds.'\n    def other(self): ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "spec_functions": (
        "class Kit(BaseToolSpec):\n    spec_functions = [('find', 'afind')]\n"
        "    def find(self, sku: str):\n        'Finds.'\n    def other(self): ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "FunctionTool": (
        "def f(sku: str): ...\nt = FunctionTool(f, description='Finds.', name='find')\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "object of functions": (
        "def f(sku: str, context_variables: dict):\n    'Finds.'\nTOOLS = {'find': f, 'x': {}}\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "FunctionTool by place": (
        "def f(sku: str): ...\nt = FunctionTool(f, 'Finds.', name='find')\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "StructuredTool": (
        f"{MODEL}def _f(sku: str): ...\nt = StructuredTool.from_function(coroutine=_f, "
        "name='find', "
        "description='Finds.', args_schema=In)\n",
        *("find", "Finds.", {"sku": {**STRING, "description": "Its number"}}, "_f"),
    ),
    "FunctionTool.from_defaults": (
        "NAME = 'find'\ndef f(sku: str):\n    'Finds.'\n"
        "tools = {'a': FunctionTool.from_defaults(fn=f, name=NAME)}\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "from_callable": (
        "def find(sku: str):\n    'Finds.'\n"
        "d = types.FunctionDeclaration.from_callable(callable=find, client=client)\n",
        *("find", "Finds.", {"sku": STRING}, "find"),
    ),
    "Tool with a schema": (
        "def f(sku): ...\nt = Tool(name='find', description='Finds.', function=f, parameters="
        "{'type': 'object', 'properties': {'sku': {'type': 'string'}}, 'required': ['sku']})\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "Tool whose function stands elsewhere": (
        "t = Tool(name='find', description='Finds.', function=other.f, parameters="
        "{'type': 'object', 'properties': {'sku': {'type': 'string'}}, 'required': ['sku']})\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "openai-agents FunctionTool": (
        "class In(BaseModel):\n    sku: str\nasync def run(ctx: RunContextWrapper[Any], args: str):"
        " ...\nt = FunctionTool(name='find', description='Finds.', on_invoke_tool=run,"
        " params_json_schema=In.model_json_schema())\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "register_for_llm": (
        "def f(sku: str): ...\nassistant.register_for_llm(name='find', description='Finds.')(f)\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "register_function": (
        "def f(sku: str): ...\n"
        "register_function(f, caller=a, executor=b, name='find', description='Finds.')\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "tool of a server by a call": (
        "def f(sku: str):\n    'Finds.'\nmcp.tool(name='find')(f)\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "convert_to_openai_tool": (
        "def find(sku: str):\n    'Finds.'\nt = convert_to_openai_tool(find)\n",
        *("find", "Finds.", {"sku": STRING}, "find"),
    ),
    "model in bind_tools": (
        "class Find(BaseModel):\n    'Finds.'\n    sku: str\nllm.bind_tools([Find])\n",
        *("Find", "Finds.", {"sku": STRING}, ""),
    ),
    "model named by a call": (
        "class In(BaseModel):\n    'Finds.'\n    sku: str\n"
        "t = openai.pydantic_function_tool(In, name='find')\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "TOOL_SPEC of a module": (
        "TOOL_SPEC = {'name': 'find', 'description': 'Finds.', 'inputSchema': {'json': {'type': "
        "'object', 'properties': {'sku': {'type': 'string'}}, 'required': ['sku']}}}\n"
        "def find(tool: ToolUse, **kwargs: Any) -> ToolResult: ...\n",
        *("find", "Finds.", {"sku": STRING}, ""),
    ),
    "handler beside a schema": (
        "def f(sku): ...\nreg = {'name': 'find', 'description': 'Finds.', 'handler': f, "
        "'input_schema': {'type': 'object', 'properties': {'sku': {'type': 'string'}}}}\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
    "functions by the name of their tool": (
        "def f(sku): ...\ntools = [{'type': 'function', 'function': {'name': 'find', "
        "'description': "
        "'Finds.', 'parameters': {'type': 'object', 'properties': {'sku': {'type': 'string'}}}}}]\n"
        "available = {'find': f}\n",
        *("find", "Finds.", {"sku": STRING}, "f"),
    ),
}

REFUSED = {
    # (source, name, words of the problem)
    "factory alone": (
        "def make(db):\n    def look(sku: str): ...\n    return look\n",
        *("make", "It returns a function (look)"),
    ),
    "factory of one of several": (
        "@tool\ndef make(kind):\n    def a(x: int): ...\n    def b(y: int): ...\n"
        "    return a if kind else b\n",
        *("make", "makes its tool when it is called"),
    ),
    "factory that asks another": (
        "@tool\ndef make() -> Tool:\n    return other(3)\n",
        *("make", "makes its tool when it is called"),
    ),
    "schema of another file": (
        "from x import In\n@tool('find', 'Finds.', In)\nasync def f(args): ...\n",
        *("find", "Its schema In is only known when the file runs"),
    ),
    "name of a loop": (
        "def f(a: int): ...\nfor n in names:\n    FunctionTool(f, name=n)\n",
        *("f", "Its name n is only known when the file runs"),
    ),
    "function of another package": (
        "t = Tool(name='wiki', func=wikipedia.run, description='Looks it up.')\n",
        *("wiki", "Its function wikipedia.run is not in this file"),
    ),
    "class without parameters": (
        "class Find(BaseTool):\n    name = 'find'\n    def execute(self, sku: str): ...\n",
        *("find", "The class Find was not read: it has neither a schema nor a method"),
    ),
    "class of a registry": (
        "@register_tool(include_functions=['a'])\nclass Find:\n    def a(self, sku: str): ...\n",
        *("Find", "The class Find was not read: it has no name"),
    ),
    "class without a name": (
        "class Find(BaseTool):\n    def _run(self, sku: str): ...\n",
        *("Find", "The class Find was not read: it has no name"),
    ),
    "class with a name of its object": (
        "class Find(BaseTool):\n    def __init__(self, n):\n        super().__init__(name=n)\n",
        *("Find", "The class Find was not read: its name n is only known"),
    ),
}


def read(source: str) -> ImportedTools:
    return import_tools(source, "/there/tools.py")


def by_name(imported: ImportedTools) -> dict[str, ImportedTool]:
    return {entry.name: entry for entry in imported.tools}


for where, listed in {
    "keyword": "agent = Agent(name='shop', tools=[find])",
    "name": "TOOLS = [find]",
    "hinted name": "my_tools: list[Callable] = [find]",
    "sum": "A = [find]\nB = []\nagent = Agent(tools=A + [*B])",
    "inside": "def main():\n    functions = [find]\n    agent = Agent(functions=functions)",
    "call": "def get_tools():\n    return [find]\nagent = Agent(tools=get_tools())",
    "bind_tools": "llm = model.bind_tools([find])",
    "react": "agent = create_react_agent(model, [find])",
    "appended": "tools = []\ntools.append(find)",
    "set": "user_functions: Set[Callable] = {find}\nt = FunctionTool(functions=user_functions)",
    "add_tool": "mcp.add_tool(find)",
    "by name": "TOOLS = {'find': find}",
    "decorator": "@llm.call(model='m', tools=[find])\ndef ask(q: str): ...",
    "long running": "lr = LongRunningFunctionTool(func=find)\nagent = Agent(tools=[lr])",
}.items():
    READ[f"list: {where}"] = (
        f"def find(sku: str, tool_context: ToolContext):\n    'Finds.'\n{listed}\n",
        *("find", "Finds.", {"sku": STRING}, "find"),
    )


@pytest.mark.parametrize("shape", READ)
def test_a_tool_in_the_form_of_a_framework(shape: str) -> None:
    """Read as the framework gives it to a model, and without the helper that stands beside it."""
    source, name, description, properties, function = READ[shape]
    imported = read(source + HELPER)
    [entry] = imported.tools
    assert entry.tool is not None, entry.problem
    tool = entry.tool
    assert (tool.name, tool.description) == (name, description)
    assert tool.parameters["properties"] == properties
    if function:
        assert tool.answered_by == "python"
        assert tool.config == {"file": "/there/tools.py", "function": function}
    else:
        assert tool.answered_by == "mock"
        assert "It has no executor yet" in entry.notes[-1]
    assert any("Not offered" in note and "helper" in note for note in imported.notes)


@pytest.mark.parametrize("shape", REFUSED)
def test_a_tool_that_cannot_be_read_is_named_with_the_reason(shape: str) -> None:
    source, name, problem = REFUSED[shape]
    entry = by_name(read(source))[name]
    assert entry.tool is None
    assert problem in entry.problem
    assert "Read it with this interpreter" in entry.problem


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("from x import find\nAgent(tools=[find])", "find, which Agent() in line 2 names, is not"),
        ("from x import more\nAgent(tools=[*more])", "more, which Agent() in line 2 names, is not"),
        ("from x import more\nAgent(tools=more)", "more, which Agent() in line 2 names, is not"),
        ("Agent(tools=[Search(key=1)])", "Search(key=1), which Agent() in line 1 names, is only"),
        ("tools = kit.get_tools()", "kit.get_tools(), which tools in line 1 names, is only known"),
        ("tools = [make(n) for n in names]", "which tools in line 1 names, is only known"),
    ],
)
def test_an_entry_of_a_list_that_is_not_in_the_file_is_named(source: str, note: str) -> None:
    assert any(note in sentence for sentence in read(source).notes)


def test_a_tool_class_whose_own_schema_cannot_be_read_leaves_its_note() -> None:
    source = (
        "class Find(BaseTool):\n    def __init__(self, n):\n"
        "        super().__init__(**{'name': n, 'args_schema': Other})\n"
    )
    imported = read(source)
    assert "A tool in line 3 was left out: 'n' is only known" in imported.notes[0]


def test_a_list_of_imported_tools_offers_no_helper() -> None:
    imported = read(f"from x import find\nagent = Agent(tools=[find])\n{HELPER}")
    assert imported.tools == ()
    assert "Not offered, because the file declares its tools: helper." in imported.notes


def test_a_data_class_beside_a_tool_class_is_no_tool() -> None:
    source = (
        "@dataclass\nclass Row:\n    name: str\n\n\nclass Price(Tool):\n    name = 'price'\n"
        "    description = 'Price.'\n    inputs = {}\n    def forward(self): ...\n"
    )
    assert list(by_name(read(source))) == ["price"]
    broken = source.replace("    inputs = {}\n", "").replace("forward", "run")
    assert list(by_name(read(broken))) == ["price"]


def test_a_class_that_others_are_derived_from_is_no_tool() -> None:
    source = (
        "class Base(BaseTool, ABC):\n    kind = 'x'\n    @abstractmethod\n"
        "    def _run(self): ...\n\n\n"
        "class Find(Base):\n    name = 'find'\n    def _run(self, sku: str): ...\n"
    )
    assert list(by_name(read(source))) == ["find"]


def test_a_description_that_the_constructor_changes_is_said() -> None:
    source = (
        "class Find(BaseTool):\n    name = 'find'\n    description = 'Finds.'\n"
        "    def __init__(self, site):\n        self.description = f'Finds in {site}.'\n"
        "    def _run(self, sku: str): ...\n"
    )
    [entry] = read(source).tools
    assert entry.tool is not None
    assert entry.tool.description == "Finds."
    assert "Its description may differ, because its __init__ sets it." in entry.notes


def test_a_local_list_of_unknown_content_is_not_noted() -> None:
    source = "def f(options: dict):\n    tools = options.pop('tools', None)\n    return tools\n"
    assert read(source).notes == ()
    assert list(by_name(read(source))) == ["f"]


def test_a_tool_of_a_framework_says_that_the_framework_may_describe_it_otherwise() -> None:
    for source, noted in (("@tool\ndef f(a: int): ...\n", True), ("def f(a: int): ...\n", False)):
        [entry] = read(source).tools
        assert any("may give the model another" in note for note in entry.notes) is noted


def test_one_function_wrapped_twice_is_two_tools() -> None:
    source = (
        "def f(q: str): ...\nToolNode([FunctionTool(f, name='a'), FunctionTool(f, name='b')])\n"
    )
    assert list(by_name(read(source))) == ["a", "b"]


def test_a_decorator_of_the_file_is_no_tool_and_changes_no_schema() -> None:
    source = (
        "def logged(f):\n    @wraps(f)\n    def wrapper(*a, **k): ...\n    return wrapper\n\n\n"
        "@logged\ndef price(sku: str): ...\n\n\ndef stock(sku: str): ...\n"
    )
    assert list(by_name(read(source))) == ["price", "stock"]


def test_without_a_word_of_the_file_every_public_function_is_offered() -> None:
    source = "import atexit\ndef a(x: int): ...\ndef b(y: int): ...\natexit.register(a)\n"
    assert list(by_name(read(source))) == ["a", "b"]
    exported = read("__all__ = ['a']\n" + source)
    assert list(by_name(exported)) == ["a"]
    assert "Not offered, because the file declares its tools: b." in exported.notes


def test_what_a_schema_and_a_function_do_not_share_is_answered_by_hand() -> None:
    source = (
        "class In(BaseModel):\n    a: int\n    b: int\n"
        "@tool('t', args_schema=In)\ndef f({}):\n    'T.'\n"
    )
    runs = {
        "a: int, b: int": True,
        "a: int, b: int, c: int = 1": True,
        "**more": True,
        "a: int": False,
        "a: int, b: int, c: int": False,
    }
    for arguments, expected in runs.items():
        [entry] = read(source.format(arguments)).tools
        assert entry.tool is not None
        assert (entry.tool.answered_by == "python") is expected, arguments
        assert any("converts them" in note for note in entry.notes) is not expected


def test_a_description_that_is_only_known_at_run_time_is_said() -> None:
    [entry] = read("@tool(description=load('x'))\ndef f(a: int):\n    'Doc.'\n").tools
    assert entry.tool is not None
    assert "Its description load('x') is only known when the file runs." in entry.notes


def test_a_missing_schema_is_replaced_by_the_arguments_and_said() -> None:
    source = "from x import In\nStructuredTool.from_function(f, name='t', args_schema=In)\n"
    [entry] = read(source + "def f(a: int, b: int): ...\n").tools
    assert entry.tool is not None
    assert list(entry.tool.parameters["properties"]) == ["a", "b"]
    assert any("Its schema In is not written in this file" in note for note in entry.notes)


def test_langchains_tool_of_one_text_says_what_the_model_gets() -> None:
    [entry] = read("def f(q: str): ...\nTool(name='t', func=f, description='d')\n").tools
    assert any("__arg1" in note for note in entry.notes)
