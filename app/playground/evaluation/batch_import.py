"""Reads a batch in any known format: a SPEC, a file of BFCL, a configuration of promptfoo.

BFCL is the Berkeley Function Calling Leaderboard (package bfcl-eval); its single-turn files are
read here. One is JSON Lines of {"id", "question": [[message, ...]], "function": [...]}; the answers
are in a file of the same name in the folder `possible_answer`, as {"id", "ground_truth":
[{FUNCTION: {PARAMETER: [allowed value, ..., "" if optional]}}]}. In an object among the values each
member has such a list, too. Files that are no longer scored have calls in Python instead:
"f(n=20)". https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from playground.core.errors import BadInput
from playground.core.tools import Tool
from playground.evaluation.promptfoo_import import is_promptfoo, read_promptfoo
from playground.evaluation.spec import (
    ArgumentMatch,
    Case,
    Expectation,
    ImportedBatch,
    OmittedCase,
    ReadFile,
    Spec,
    spec_data,
)
from playground.evaluation.spec_reader import parse_spec, spec_from_data
from playground.exchange.parsers import UnreadableText, json_lines
from playground.exchange.python_tree import parse_expression
from playground.exchange.tool_entry import ToolParts, build_tool
from playground.schema.validate import schema_problems

ANSWERS = "possible_answer"
"""The folder next to a file that contains its answers."""

MOST_WRITTEN_OUT = 256
"""The maximum number of values that the lists in one object may expand to."""

NOTES = (
    "Only the first answer of the model counts: max_turns is 1.",
    "As in BFCL, texts are compared without regard to case, blanks and ,./-_*^.",
    "Dots in function names were replaced by underscores, because providers refuse dots.",
)

_LONGEST = 20_000
"""The maximum length of a call written in Python, in characters."""

_NUMBERS = re.compile(r"_\d[\d-]*$")


def read_batch(text: str, name: str, read_file: ReadFile) -> ImportedBatch:
    """The batch in `text`, the content of the file `name`. `read_file` reads files next to it.
    BadInput if it is not a batch, or no case of it can be imported."""
    if is_bfcl(text):
        file = posixpath.basename(name)
        answers = read_file(f"{ANSWERS}/{file}") if needs_answers(text) else ""
        return _check_batch(read_bfcl(text, answers, posixpath.splitext(file)[0]))
    data = parse_spec(text)
    if is_promptfoo(data):
        return _check_batch(read_promptfoo(data, read_file))
    return ImportedBatch(spec_from_data(data))


def _check_batch(imported: ImportedBatch) -> ImportedBatch:
    """Applies the rules of a SPEC to an imported batch, including its limits and keys."""
    if not imported.spec.cases:
        first = imported.left_out[0] if imported.left_out else None
        why = f" {first.case}: {first.reason}" if first is not None else ""
        raise BadInput(f"No case of this file can be imported.{why}")
    spec_from_data(spec_data(imported.spec))
    return imported


# BFCL ---------------------------------------------------------------------------------------------


class _InvalidCase(Exception):
    """A case that cannot be imported; `str` is the reason."""


def is_bfcl(text: str) -> bool:
    """Whether a text looks like a file of BFCL's questions."""
    first = text.lstrip().partition("\n")[0]
    return first.startswith("{") and all(f'"{name}"' in first for name in ("id", "question"))


def needs_answers(text: str) -> bool:
    """Whether the answers of a file of questions are in a separate file."""
    return re.search(r'"id":\s*"[^"]*relevance', text.lstrip().partition("\n")[0]) is None


def read_bfcl(questions: str, answers: str, name: str = "BFCL") -> ImportedBatch:
    """The cases of a file of `questions` with its `answers` ("" for none). BadInput if a line is
    not JSON; a case with several turns, or without a required answer, is left out."""
    truths = {str(entry.get("id")): entry.get("ground_truth") for entry in _lines(answers)}
    cases: dict[str, Case] = {}
    left_out: list[OmittedCase] = []
    for entry in _lines(questions):
        case_id = str(entry.get("id"))
        try:
            if case_id in cases:
                raise _InvalidCase("An earlier case has the same id.")
            cases[case_id] = _case(case_id, entry, truths.get(case_id))
        except _InvalidCase as reason:
            left_out.append(OmittedCase(case_id, str(reason)))
    spec = Spec(tuple(cases.values()), name=name, settings={"max_turns": 1})
    return ImportedBatch(spec, NOTES, tuple(left_out))


def _lines(text: str) -> Iterator[Mapping[str, Any]]:
    for number, value in json_lines(text):
        if isinstance(value, UnreadableText):
            raise BadInput(str(value))
        if not isinstance(value, Mapping):
            raise BadInput(f"Line {number} is not an object. A BFCL file has one object per line.")
        yield value


def _case(case_id: str, entry: Mapping[str, Any], truth: Any) -> Case:
    category = _NUMBERS.sub("", case_id)
    system, prompt = _messages(entry.get("question"))
    tools = _tools(entry.get("function"))
    if "irrelevance" in category:
        expect: tuple[Expectation, ...] = (Expectation("no_call", True),)
    elif "relevance" in category:
        expect = (Expectation("no_call", False),)
    else:
        expect = _expected(truth, {tool.name: tool for tool in tools})
    return Case(case_id, prompt, expect=expect, system=system, tools=tools, category=category)


def _messages(question: Any) -> tuple[str | None, str]:
    """The system prompt, None for none, and the prompt."""
    match question:
        case [[*messages]] | [*messages] if all(map(_is_message, messages)):
            roles = [message["role"] for message in messages]
        case [list(), list(), *_]:
            raise _InvalidCase("It has several turns.")
        case _:
            raise _InvalidCase("Its question is not a list of messages.")
    system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
    if set(roles) - {"system", "user"}:
        raise _InvalidCase("A message of the model comes before its prompt.")
    prompt = "\n\n".join(each["content"] for each in messages if each["role"] == "user")
    if not prompt.strip():
        raise _InvalidCase("It has no prompt.")
    return system or None, prompt


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(value.get(name), str) for name in ("role", "content")
    )


def _tools(functions: Any) -> tuple[Tool, ...]:
    if not isinstance(functions, list):
        raise _InvalidCase("It has no functions: BFCL's own programs provide them.")
    tools: dict[str, Tool] = {}
    for function in functions:
        function = function if isinstance(function, Mapping) else {}
        name, description = function.get("name"), function.get("description")
        parts = ToolParts(_plain_name(name), description, function.get("parameters"))
        imported = build_tool(function, "BFCL", parts)
        if imported.tool is None:
            raise _InvalidCase(f"A function cannot be a tool: {imported.name}: {imported.problem}")
        if imported.tool.name in tools:
            raise _InvalidCase(f"Two of its functions are called {imported.tool.name}.")
        tools[imported.tool.name] = imported.tool
    return tuple(tools.values())


def _plain_name(name: Any) -> Any:
    return name.replace(".", "_") if isinstance(name, str) else name


# Answers ------------------------------------------------------------------------------------------


def _expected(truth: Any, tools: Mapping[str, Tool]) -> tuple[Expectation, ...]:
    if truth is None:
        raise _InvalidCase(f"{ANSWERS} has no answer to it.")
    expected: list[Expectation] = []
    for call in truth if isinstance(truth, list) else [truth]:
        match call:
            case str():
                named: Mapping[str, Any] = _program(call, tools)
            case Mapping() if len(call) == 1:
                named = call
            case _:
                raise _InvalidCase("Its answer is not a call.")
        [(function, parameters)] = named.items()
        tool = tools.get(_plain_name(function))
        if tool is None:
            raise _InvalidCase(f"Its answer calls {function}, which is not one of its functions.")
        if not isinstance(parameters, Mapping):
            raise _InvalidCase(f"Its answer has no parameters: {function}.")
        match_of = _match(parameters)
        _check_valid(match_of, tool)
        expected.append(Expectation("called", tool.name, match_of))
    return (*expected, Expectation("count", len(expected)))


def _program(text: str, tools: Mapping[str, Tool]) -> dict[str, dict[str, list[Any]]]:
    """An answer that is written as a call in Python, in the format of the others."""
    try:
        tree = parse_expression(text[:_LONGEST])
        if not isinstance(tree, ast.Call):
            raise _InvalidCase("Its answer is not a call.")
        function = ast.unparse(tree.func)
        tool = tools.get(_plain_name(function))
        names = list(tool.parameters.get("properties", {})) if tool is not None else []
        given = dict(zip(names, tree.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in tree.keywords if keyword.arg}
        values = {name: [_plain_lists(ast.literal_eval(given[name]))] for name in given}
        return {function: values}
    except ValueError:
        raise _InvalidCase(
            "Its answer is a program or a text, not a call with plain values."
        ) from None


def _plain_lists(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [_plain_lists(item) for item in value]
        case dict():
            return {str(key): [_plain_lists(item)] for key, item in value.items()}
    return value


def _match(parameters: Mapping[str, Any]) -> ArgumentMatch:
    if not parameters:
        return ArgumentMatch("exact", {})
    allowed: dict[str, list[Any]] = {}
    for name, options in parameters.items():
        several = [value for option in _options(options) for value in _expand_option(option)]
        # "" marks an optional parameter; it is a value only among texts.
        texts = all(isinstance(value, str) for value in several)
        allowed[name] = several if texts else [value for value in several if value != ""]
    optional = tuple(name for name, options in parameters.items() if "" in _options(options))
    return ArgumentMatch("any_of", allowed, optional, loose=True)


def _options(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value else [value]


def _expand_option(option: Any) -> list[Any]:
    """The values that `option` expands to: each member of an object is a list of alternatives."""
    match option:
        case dict():
            members = [_member(name, options) for name, options in option.items()]
            return [dict(p for pair in pairs for p in pair) for pairs in _products(members)]
        case list() if any(isinstance(item, dict) for item in option):
            return [list(items) for items in _products([_expand_option(item) for item in option])]
    return [option]


def _member(name: str, options: Any) -> list[list[tuple[str, Any]]]:
    """The alternatives of a member: itself with each value, or nothing."""
    values = [value for option in _options(options) for value in _expand_option(option)]
    return [[] if value == "" else [(name, value)] for value in values]


def _products(several: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    combined = list(islice(product(*several), MOST_WRITTEN_OUT + 1))
    if len(combined) > MOST_WRITTEN_OUT:
        raise _InvalidCase(f"Its answer allows more than {MOST_WRITTEN_OUT} values of one object.")
    return combined


def _check_valid(match: ArgumentMatch, tool: Tool) -> None:
    """No valid call can give an answer that the function's own schema forbids."""
    if match.kind != "any_of":
        return
    for name, options in match.value.items():
        own = tool.parameters.get("properties", {}).get(name)
        if name in match.optional:
            continue
        if own is None:
            raise _InvalidCase(f"Its answer needs {name}, which is not a parameter of {tool.name}.")
        schema = {"type": "object", "properties": {name: own}}
        problems = [schema_problems(schema, {name: option}) for option in options]
        if all(problems):
            why = problems[0][0].message
            raise _InvalidCase(
                f"Its answer does not match the function's schema: {tool.name}: {why}"
            )
