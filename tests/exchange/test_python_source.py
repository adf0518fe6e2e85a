"""The functions of a file: what they are called, take and say; nothing of it is run."""

from __future__ import annotations

from typing import Any

import pytest

from playground.exchange.parsers import UnreadableText
from playground.exchange.python_functions import Function
from playground.exchange.python_source import functions, tools

GOOGLE = '''def f(city: str, days=3):
    """Weather.

    For some days.

    Args:
        city: Its name.
        days (int): How many.

    Returns:
        Words.
    """'''
NUMPY = '''def f(city: str, days=3):
    """Weather.

    For some days.

    Parameters
    ----------
    city : str
        Its name.
    days : int
        How many.
    """'''
SPHINX = '''def f(city: str, days=3):
    """Weather.

    For some days.

    :param city: Its name.
    :param int days: How many.
    """'''


def read_function(source: str) -> Function:
    (function,) = functions(source)
    return function


@pytest.mark.parametrize("source", [GOOGLE, NUMPY, SPHINX])
def test_each_style_of_docstring(source: str) -> None:
    function = read_function(source)
    assert function.description == "Weather.\n\nFor some days."
    assert function.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name."},
            "days": {"type": "integer", "default": 3, "description": "How many."},
        },
        "required": ["city"],
    }


@pytest.mark.parametrize("docstring", [": :", ":", ":param", ":param :", ": : x"])
def test_a_docstring_that_its_parser_fails_on_is_the_description(docstring: str) -> None:
    assert docstring in read_function(f'def f():\n    """{docstring}"""').description


@pytest.mark.parametrize(
    ("mark", "name", "description", "decorator"),
    [
        ("", "f", "Told.", ""),
        ("@tool", "f", "Told.", "tool"),
        ('@tool("other")', "other", "Told.", "tool"),
        ('@mcp.tool(name="other", description="Anew.")', "other", "Anew.", "mcp.tool"),
        ('@function_tool(name_override="other")', "other", "Told.", "function_tool"),
        ("@agent.tool_plain(retries=2)", "f", "Told.", "agent.tool_plain"),
        ("@beta_tool", "f", "Told.", "beta_tool"),
        ("@cache", "f", "Told.", ""),
    ],
)
def test_decorators_that_make_tools(mark: str, name: str, description: str, decorator: str) -> None:
    function = read_function(f'{mark}\nasync def f(a: int):\n    """Told."""\n')
    assert (function.name, function.function) == (name, "f")
    assert (function.description, function.decorator) == (description, decorator)


def test_a_schema_named_by_the_decorator_counts() -> None:
    source = "class Args(BaseModel):\n    city: str\n\n@tool(args_schema=Args)\ndef f(**kw): ..."
    assert read_function(source).parameters["properties"] == {"city": {"type": "string"}}


@pytest.mark.parametrize(
    ("arguments", "names", "note"),
    [
        ("ctx: Context, a: int", ["a"], "ctx is filled in by the framework"),
        ("ctx: RunContext[Deps], a: int", ["a"], "ctx is filled in by the framework"),
        ("a: int, *more", ["a"], "*more takes any number"),
        ("a: int, **more", ["a"], "*more takes any number"),
        ("a, *, b: int = 1", ["a", "b"], "a has no type"),
    ],
)
def test_arguments_that_are_no_model_s(arguments: str, names: list[str], note: str) -> None:
    function = read_function(f"def f({arguments}): ...")
    assert list(function.parameters["properties"]) == names
    assert note in function.notes[0]


def test_aliases_new_types_and_quoted_hints() -> None:
    source = (
        "City = NewType('City', str)\nUnit = Literal['c', 'f']\nIds: TypeAlias = list[int]\n"
        "def f(a: City, b: 'Unit', c: Ids): ..."
    )
    properties: dict[str, Any] = read_function(source).parameters["properties"]
    assert properties == {
        "a": {"type": "string"},
        "b": {"type": "string", "enum": ["c", "f"]},
        "c": {"type": "array", "items": {"type": "integer"}},
    }


def test_what_is_private_or_inside_is_left_alone() -> None:
    source = "def _own(): ...\ndef f():\n    def inner(): ...\nclass A:\n    def g(self): ...\n"
    assert [function.name for function in functions(source)] == ["f"]


def test_the_stubs_of_an_overload_are_no_tools() -> None:
    stubs = "@overload\ndef f(a: int): ...\n@typing.overload\ndef f(a: str): ...\n"
    function = read_function(stubs + "def f(a: int | str): ...")
    assert function.parameters["properties"]["a"] == {"anyOf": [{"type": "integer"},
        {"type": "string"}]}  # fmt: skip


def test_a_file_of_methods_alone_says_that_methods_are_not_read() -> None:
    with pytest.raises(UnreadableText, match="methods of a class, which are not supported"):
        functions("class A:\n    def g(self, a: int): ...\n")


def test_arguments_that_are_unpacked_are_those_of_their_class() -> None:
    source = (
        "class More(TypedDict):\n    b: int\n    c: NotRequired[str]\n"
        "def f(a: str, **more: Unpack[More]): ...\n"
    )
    function = read_function(source)
    assert function.parameters["properties"].keys() == {"a", "b", "c"}
    assert function.parameters["required"] == ["a", "b"]
    assert function.notes == ()
    unknown = read_function("def f(a: str, **more: Unpack[Other]): ...")
    assert list(unknown.parameters["properties"]) == ["a"]
    assert "*more takes any number" in unknown.notes[0]


def test_a_file_of_models_alone_is_its_models() -> None:
    function = read_function('class GetWeather(BaseModel):\n    """Now."""\n    city: str\n')
    assert (function.name, function.description) == ("GetWeather", "Now.")
    (tool,) = tools("class A(BaseModel):\n    x: int\n", "/home/you/a.py")
    assert tool.tool is not None
    assert tool.tool.answered_by == "mock"


def test_where_the_file_is_known_it_is_the_file_that_answers() -> None:
    source = "@tool('other')\ndef f(a: int): ...\n@tool\ndef g(a, /): ...\n"
    first, second = tools(source, "/home/you/tools.py")
    assert first.tool is not None
    assert first.tool.answered_by == "python"
    assert first.tool.config == {"file": "/home/you/tools.py", "function": "f"}
    assert "Name an interpreter" in first.notes[-1]
    assert second.tool is None
    assert "positional-only" in second.problem
    (unknown, _) = tools(source, "tools.py")
    assert unknown.tool is not None
    assert unknown.tool.answered_by == "mock"
    assert any("absolute path" in note for note in unknown.notes)


def test_of_two_functions_of_one_name_the_last_is_the_tool() -> None:
    function = read_function("def f(a: int):\n    'One.'\ndef f(b: str):\n    'Two.'\n")
    assert function.parameters["properties"] == {"b": {"type": "string"}}
