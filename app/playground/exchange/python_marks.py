"""What a decorator or a call says of the tool that it makes: its name, description and schema."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from playground.exchange.python_functions import (
    Function,
    read_function,
    read_model,
    with_parameters,
)
from playground.exchange.python_scopes import Target
from playground.exchange.python_tree import expression_text
from playground.exchange.python_types import Schema, Types, TypesTooLarge, is_record, last_name
from playground.exchange.python_values import UnknownValue, Values
from playground.exchange.schema_dialects import from_openapi_schema

READ_IT = 'Use "Read it with this interpreter".'

DECORATORS = (
    *("tool", "tool_plain", "function_tool", "beta_tool", "beta_async_tool", "kernel_function"),
    *("ai_function", "ai_callable", "register_function", "register_for_llm", "register_tool"),
)
"""Decorators of agent frameworks that make a tool of a function."""

NAME_WORDS = ("name", "name_override", "tool_name", "name_or_callable")
_DESCRIPTION_WORDS = ("description", "description_override", "tool_description")
SCHEMA_WORDS = (
    *("args_schema", "input_schema", "inputSchema", "input_model", "parameters", "fn_schema"),
    *("params_json_schema", "json_schema", "schema", "args_type", "inputs"),
)


@dataclass(frozen=True)
class ToolMark:
    """What a decorator or a call says of its tool. `problem` says why that is not known."""

    label: str
    name: str = ""
    description: str = ""
    schema: ast.expr | None = None
    notes: tuple[str, ...] = ()
    problem: str = ""


def types_of(tree: ast.Module) -> Types:
    """The classes and type aliases at the top of a file."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    aliases: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                aliases[name] = _alias(value)
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=hint, value=ast.expr() as value
            ):
                if last_name(hint) == "TypeAlias":
                    aliases[name] = value
            case _ if type(node).__name__ == "TypeAlias":  # since Python 3.12
                aliases[last_name(getattr(node, "name"))] = getattr(node, "value")  # noqa: B009
    return Types(classes, aliases)


def _alias(value: ast.expr) -> ast.expr:
    """The type that an assignment defines: `NewType("City", str)` is a str."""
    match value:
        case ast.Call(func=func, args=[_, kind]) if last_name(func) == "NewType":
            return kind
        case ast.Call(func=func, args=[_, *kinds], keywords=words) if last_name(func) == "TypeVar":
            bounds = [word.value for word in words if word.arg == "bound"]
            if kinds:
                union: ast.expr = ast.Name("Union", ast.Load())
                return ast.Subscript(union, ast.Tuple(kinds, ast.Load()), ast.Load())
            return bounds[0] if bounds else ast.Name("Any", ast.Load())
    return value


class MarkReader:
    """What is said of the tools of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self.values = Values(tree)
        self._types = types_of(tree)

    def mark(self, node: ast.expr, functions: Sequence[ast.expr]) -> ToolMark:
        """What a decorator or a call says. `functions` are its arguments that are the function."""
        if not isinstance(node, ast.Call):
            return ToolMark(expression_text(node)[:60])
        words = {str(word.arg): word.value for word in node.keywords}
        given: dict[str, ast.expr] = {}
        for kind, names in (
            ("name", NAME_WORDS),
            ("description", _DESCRIPTION_WORDS),
            ("schema", SCHEMA_WORDS),
        ):
            known = [words[name] for name in names if name in words]
            given |= {kind: known[0]} if known and not is_none(known[0]) else {}
        by_place = ["name", "description", "schema"]
        for argument in node.args:
            if argument in functions:
                by_place = by_place[1:] if by_place[:1] == ["name"] else by_place
            elif by_place and not isinstance(argument, ast.Starred):
                given.setdefault(by_place.pop(0), argument)
        mark = ToolMark(expression_text(node.func)[:60], schema=given.get("schema"))
        for kind in ("name", "description"):
            if kind in given and given[kind] not in functions:
                mark = self._with_text(mark, kind, given[kind])
        return mark

    def _with_text(self, mark: ToolMark, kind: str, expr: ast.expr) -> ToolMark:
        try:
            text = self.values.evaluate(expr)
        except (UnknownValue, TypesTooLarge):
            text = None
        if isinstance(text, str):
            return replace(mark, name=text) if kind == "name" else replace(mark, description=text)
        sentence = f"Its {kind} {short_code(expr)} is only known when the file runs."
        if kind == "name":
            return replace(mark, problem=f"{sentence} {READ_IT}")
        return replace(mark, notes=(*mark.notes, sentence))

    def read(self, target: Target, mark: ToolMark) -> Function:
        """The tool of a function or a model, with what `mark` says of it."""
        types = self._new_types()
        if isinstance(target.node, ast.ClassDef):
            function = read_model(target.node, types)
            function = replace(function, line=target.node.lineno)
        else:
            function = read_function(target.node, types, method=target.method)
        function = replace(
            function,
            function=target.function or function.name,
            by_hand=target.by_hand,
            decorator=mark.label,
        )
        return self.with_mark(function, mark)

    def with_mark(self, function: Function, mark: ToolMark) -> Function:
        if mark.schema is not None and (texts := _texts(mark.schema)):
            return self.with_mark(_add_descriptions(function, texts), replace(mark, schema=None))
        if mark.schema is not None:
            try:
                function = with_parameters(function, self.schema(mark.schema))
            except (UnknownValue, TypesTooLarge):
                written = short_code(mark.schema)
                if function.takes is not None and len(function.takes) != 1:
                    note = (
                        f"Its schema {written} is not written in this file, so its parameters are"
                        f" those of {function.function}()."
                    )
                    function = replace(function, notes=(*function.notes, note))
                else:
                    problem = f"Its schema {written} is only known when the file runs. {READ_IT}"
                    function = replace(function, problem=function.problem or problem)
        return replace(
            function,
            name=mark.name or function.name,
            description=mark.description or function.description,
            notes=(*function.notes, *mark.notes),
            problem=mark.problem or function.problem,
        )

    def schema(self, expr: ast.expr) -> Schema:
        """The parameters that an expression names: a model, a JSON Schema, an object of types
        by name, or of schemas by name."""
        match expr:
            case ast.Name(id=name) if name in self._types.classes:
                node = self._types.classes[name]
                if not is_record(node, self._types.classes):
                    raise UnknownValue(f"{name} is not a model")
                members = self._new_types().members(node)
                members.pop("description", None)
                return members
            case ast.Name(id=name) if isinstance(named := self.values.names.get(name), ast.Dict):
                return self.schema(named)
            case ast.Dict(keys=keys, values=values) if not _is_plain(values):
                return self._typed_parameters(keys, values)
        return _parameters(self.values.evaluate(expr))

    def _typed_parameters(
        self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]
    ) -> Schema:
        """`{"a": float, "b": list[str]}`: all of them are needed."""
        if any(isinstance(value, ast.Dict) for value in values):
            # A schema, one part of which is not plain: say so.
            return _parameters(self.values.evaluate(ast.Dict(list(keys), list(values))))
        types = self._new_types()
        properties = {}
        for key, value in zip(keys, values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                raise UnknownValue("a name that is only known when the file runs")
            properties[key.value] = types.schema(value)
        if types.notes:
            raise UnknownValue(types.notes[0])
        return {"type": "object", "properties": properties, "required": list(properties)}

    def _new_types(self) -> Types:
        return Types(self._types.classes, self._types.aliases)


def _parameters(value: Any) -> Schema:
    """The parameters of a JSON value: a schema, or schemas by name."""
    if isinstance(value, list) and all(
        isinstance(inner, Mapping) and isinstance(inner.get("name"), str) for inner in value
    ):
        value = {inner["name"]: {"required": False, **inner} for inner in value}
        for inner in value.values():
            del inner["name"]
    if not isinstance(value, Mapping):
        raise UnknownValue("not an object")
    if isinstance(value.get("json"), Mapping):
        return _parameters(value["json"])
    if value.get("type") == "object" or "properties" in value or not value:
        return {"type": "object", "properties": {}, **value}
    if not all(isinstance(inner, Mapping) for inner in value.values()):
        raise UnknownValue("not a schema")
    needed = [name for name, inner in value.items() if not _is_optional(inner)]
    properties = {name: _property(inner) for name, inner in value.items()}
    return {"type": "object", "properties": properties, "required": needed}


def _texts(schema: ast.expr) -> dict[str, str]:
    """`{"a": "What a is."}`: texts by argument, which are not a schema; {} for anything else."""
    match schema:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            texts = {
                key.value: value.value
                for key, value in pairs
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
                if isinstance(key.value, str) and isinstance(value.value, str)
            }
            return texts if len(texts) == len(keys) and "type" not in texts else {}
    return {}


def _add_descriptions(function: Function, texts: Mapping[str, str]) -> Function:
    properties = function.parameters.get("properties", {})
    described = {
        name: {**schema, "description": texts[name]} if name in texts else schema
        for name, schema in properties.items()
    }
    return replace(function, parameters={**function.parameters, "properties": described})


def _is_optional(schema: Mapping[str, Any]) -> bool:
    return schema.get("nullable") is True or schema.get("required") is False or "default" in schema


def _property(schema: Mapping[str, Any]) -> Schema:
    """One of the schemas by name: `nullable` as in OpenAPI, "any" for any value."""
    anything = ("type", "nullable") if schema.get("type") == "any" else ()
    plain = {
        key: value
        for key, value in schema.items()
        if key not in anything and not (key == "required" and isinstance(value, bool))
    }
    converted: Schema = from_openapi_schema(plain)
    return converted


def _is_plain(values: Sequence[ast.expr]) -> bool:
    """Whether the values of an object are those of JSON, not types."""
    plain = (ast.Constant, ast.Dict, ast.List, ast.JoinedStr)
    return all(
        isinstance(value, plain) and not (isinstance(value, ast.Constant) and value.value is None)
        for value in values
    )


def is_none(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is None


def short_code(expr: ast.expr) -> str:
    written = expression_text(expr)
    return written if len(written) <= 60 else f"{written[:59]}…"
