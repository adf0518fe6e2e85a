"""Conversion between JSON and the types of a user's function: its arguments by its type hints, its
result to JSON data.

Arguments are converted by pydantic if the interpreter has it, else here; both refuse values of
another type instead of coercing them ("5" is not an int). An argument without a readable hint is
not converted. Loaded by `runner.py`, by any Python from 3.8 on.
https://docs.pydantic.dev/latest/concepts/conversion_table/
"""

from __future__ import annotations

import base64
import collections
import collections.abc
import contextlib
import datetime
import decimal
import enum
import importlib
import inspect
import ipaddress
import itertools
import json
import pathlib
import re
import sys
import types
import typing
import uuid
from typing import Any, Callable  # noqa: UP035 - Python 3.8

MOST_FAULTS = 10
MOST_SHOWN = 200
EMPTY = inspect.Parameter.empty

GIVEN = ("RunContextWrapper", "ToolContext", "RunnableConfig")
"""Types of arguments that a framework provides and that can be created without one."""

PLAIN = (str, int, float, bool, dict, list, object, type(None))

DURATION = re.compile(
    r"([+-])?P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
CLOCK = re.compile(r"([+-])?(?:(\d+) days?,? ?)?(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?")

ABSTRACT = (
    *(collections.abc.Set, collections.abc.MutableSet, collections.abc.Sequence),
    *(collections.abc.MutableSequence, collections.abc.Collection, collections.abc.Iterable),
    *(collections.abc.Iterator, collections.abc.Generator),
)

ITERATED = (
    *(collections.abc.Iterator, collections.abc.Sequence, collections.abc.Set),
    collections.abc.MappingView,
)
"""Types converted to arrays. A pandas table is iterable, too, but yields only column names."""


class ConversionError(ValueError):
    """Values that do not match their hints; each of `faults` says which and why."""

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class TooManyItems(Exception):
    """The result has more items than the maximum size of its text in bytes."""


# -- arguments


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Its signature, even if a hint uses a name that exists only for a type checker."""
    try:
        return inspect.signature(function)
    except NameError:  # since Python 3.14 hints are evaluated lazily
        lib: Any = importlib.import_module("annotationlib")
        signature: Any = inspect.signature
        read: inspect.Signature = signature(function, annotation_format=lib.Format.FORWARDREF)
        return read


def arguments_for(
    function: Callable[..., Any],
    given: dict[str, Any],
    ours: dict[str, Any],
    model: Any = None,
    report: Any = None,
) -> dict[str, Any]:
    """`given` converted by the function's hints, `ours` unchanged, and arguments that a framework
    would provide. `model` is the class of the arguments if the tool names one; `report` takes
    progress. ConversionError, with a sentence, if a value does not match."""
    signature = signature_of(function)
    if model is not None:
        given = members_of(model, given, signature)
    hints = hints_of(function)
    ours = {**default_arguments(signature, hints, {**given, **ours}, report), **ours}
    try:
        signature.bind(**given, **ours)
    except TypeError as error:
        raise ConversionError(f"{error}{missing_context(signature, given)}") from None
    if model is not None:
        return {**given, **ours}
    faults: list[str] = []
    fitted: dict[str, Any] = {}
    known = signature.parameters.values()
    rest = next((parameter for parameter in known if parameter.kind is parameter.VAR_KEYWORD), None)
    for name, value in given.items():
        parameter = signature.parameters.get(name)
        hint = hints.get(name, EMPTY)
        if parameter is None or parameter.kind is inspect.Parameter.VAR_KEYWORD:
            parameter, hint = None, hint_of_rest(hints, rest, name)
        try:
            fitted[name] = convert_argument(hint, parameter, value, name)
        except ConversionError as error:
            faults += error.faults
    if faults:
        more = len(faults) - MOST_FAULTS
        raise ConversionError(*faults[:MOST_FAULTS], *([f"… and {more} more"] if more > 0 else []))
    return {**fitted, **ours}


def convert_argument(hint: Any, parameter: inspect.Parameter | None, value: Any, name: str) -> Any:
    default = EMPTY if parameter is None else parameter.default
    if hint is EMPTY or (value is None and default is None):
        return value
    if is_field(default):
        hint = annotate_hint(hint, default)
    return convert_value(hint, value, name)


def members_of(model: Any, given: dict[str, Any], signature: inspect.Signature) -> dict[str, Any]:
    """The arguments as members of the tool's own argument class, including defaults."""
    model_object = convert_value(model, given, "arguments")
    fields = getattr(model, "model_fields", None) or getattr(model, "__fields__", {})
    takes_all = any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()
    )
    names = [name for name in fields if takes_all or name in signature.parameters]
    return {name: getattr(model_object, name) for name in names}


def default_arguments(
    signature: inspect.Signature, hints: dict[str, Any], given: dict[str, Any], report: Any
) -> dict[str, Any]:
    """Missing arguments without a Python default: a pydantic Field's default, and the context that
    a framework provides when its agent runs without one."""
    values: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if name in given:
            continue
        if is_field(parameter.default):
            if not parameter.default.is_required():
                values[name] = parameter.default.get_default(call_default_factory=True)
            else:
                raise ConversionError(f"missing a required argument: {name!r}")
        else:
            context = context_of(hints.get(name), report, parameter.default is EMPTY)
            if context is not None:
                values[name] = context
    return values


def context_of(hint: Any, report: Any, needed: bool) -> Any:
    """The context of an MCP server, and, if `needed`, those that openai-agents and LangChain pass
    when the caller provides none; None for other types."""
    hint = unwrap_hint(hint)
    if is_union(typing_origin(hint)):
        hint = next((argument for argument in hint.__args__ if argument is not type(None)), hint)
    kind = typing_origin(hint) or hint
    name, package = (getattr(kind, name, "") for name in ("__name__", "__module__"))
    if name == "Context" and package.partition(".")[0] in ("mcp", "fastmcp") and report:
        return McpContext(report)
    if name not in GIVEN or not needed:
        return None
    if name == "RunnableConfig":
        return {}
    words = {"context": None, "tool_name": "", "tool_call_id": "", "tool_arguments": "{}"}
    try:
        wanted = inspect.signature(kind).parameters
        return kind(**{word: value for word, value in words.items() if word in wanted})
    except Exception:  # another version of it: the sentence of `missing_context` applies
        return None


class McpContext:
    """The context of an MCP server's function without a server: its logs are printed, its reports
    are progress, and it has nothing else."""

    def __init__(self, report: Any) -> None:
        self._report = report

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the context has {name!r} only while an MCP server runs")

    async def log(self, level: str, message: str, *_: Any, **__: Any) -> None:
        print(f"{level}: {message}", file=sys.stderr, flush=True)

    async def debug(self, message: str, *_: Any, **__: Any) -> None:
        await self.log("debug", message)

    async def info(self, message: str, *_: Any, **__: Any) -> None:
        await self.log("info", message)

    async def warning(self, message: str, *_: Any, **__: Any) -> None:
        await self.log("warning", message)

    async def error(self, message: str, *_: Any, **__: Any) -> None:
        await self.log("error", message)

    async def report_progress(
        self, progress: float, total: Any = None, message: Any = None
    ) -> None:
        self._report(message or "", progress / total if total else None)


def missing_context(signature: inspect.Signature, given: dict[str, Any]) -> str:
    """The sentence added to Python's own error if an argument of a framework is missing."""
    for name, parameter in signature.parameters.items():
        if name in given or parameter.default is not EMPTY or parameter.annotation is EMPTY:
            continue
        hint = str(getattr(parameter.annotation, "__name__", parameter.annotation))
        if re.search(r"Context|Runtime|Injected|Config\b", hint):
            return f" ({hint}, which its framework fills in only while an agent runs)"
    return ""


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints of a function's arguments, by name; unreadable ones are left out."""
    inner = inspect.unwrap(function)
    while hasattr(inner, "func") and not isinstance(inner, types.FunctionType):
        inner = inspect.unwrap(inner.func)  # functools.partial
    if isinstance(inner, type):
        inner = inner.__init__  # type: ignore[misc]
    elif not isinstance(inner, (types.FunctionType, types.MethodType)):
        inner = type(inner).__call__
    return read_hints(inner)


def read_hints(owner: Any) -> dict[str, Any]:
    """typing.get_type_hints, hint by hint if one of them uses an undefined name."""
    more: Any = {"include_extras": True} if sys.version_info >= (3, 9) else {}
    try:
        return typing.get_type_hints(owner, **more)
    except Exception:
        hints: dict[str, Any] = {}
    try:
        raw = dict(owner.__annotations__)
    except Exception:  # Python 3.14
        lib: Any = importlib.import_module("annotationlib")
        raw = lib.get_annotations(owner, format=lib.Format.FORWARDREF)
    holder = sys.modules.get(getattr(owner, "__module__", "") or "")
    names = getattr(owner, "__globals__", None) or vars(holder or types)
    for name, hint in raw.items():
        with contextlib.suppress(Exception):
            hints[name] = eval(hint, dict(names)) if isinstance(hint, str) else hint
    return hints


def hint_of_rest(hints: dict[str, Any], rest: Any, name: str) -> Any:
    """The hint of one of `**rest`: its own in a TypedDict, or the common one."""
    hint: Any = EMPTY if rest is None else hints.get(rest.name, EMPTY)
    if origin_name(typing_origin(hint)) == "Unpack":
        return read_hints(hint.__args__[0]).get(name, EMPTY)
    return hint


def is_field(default: Any) -> bool:
    """Whether an argument's default is pydantic's `Field(...)`."""
    kind = type(default)
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic")


def annotate_hint(hint: Any, note: Any) -> Any:
    kind: Any = typing_annotated()
    return hint if kind is None else kind[hint, note]


# -- one value


def convert_value(hint: Any, value: Any, where: str) -> Any:
    """`value`, from JSON, converted by `hint`. ConversionError if it does not match."""
    if is_plain(hint):
        return convert_by_hand(hint, value, where)
    try:
        pydantic = importlib.import_module("pydantic")
        adapter = pydantic.TypeAdapter(hint)
    except Exception:  # not installed, too old, or an unknown class
        return convert_by_hand(hint, value, where)
    return convert_by_pydantic(adapter, value, where)


def is_plain(hint: Any) -> bool:
    """Whether JSON values are already valid for `hint`, so that no conversion is needed."""
    if hint is None or hint is Any or hint is EMPTY or any(hint is simple for simple in PLAIN):
        return True
    origin, inside = typing_origin(hint), getattr(hint, "__args__", ())
    if origin is not None and origin is typing_annotated():
        return all(isinstance(note, str) for note in hint.__metadata__) and is_plain(
            hint.__origin__
        )
    if origin is typing.Literal:
        return True  # also for enums, whose values pydantic does not accept as such
    # For an Iterable pydantic makes an iterator, which has no length and can be read only once.
    arrays = (list, dict, collections.abc.Iterable)
    return (is_union(origin) or origin in arrays) and all(map(is_plain, inside))


def convert_by_pydantic(adapter: Any, value: Any, where: str) -> Any:
    """Strict, as JSON: types that JSON does not have are read from text, nothing is coerced."""
    pydantic: Any = importlib.import_module("pydantic")
    try:
        try:
            validated_value = validate_value(adapter.validate_json, json_text(value), strict=True)
        except pydantic.ValidationError as error:
            first = error
            whole = json_text(value, whole=True)  # 1.0 is an integer in JSON Schema
            validated_value = validate_value(adapter.validate_json, whole, strict=True)
        # It is valid. For a number with more digits than a float has, parsing it as JSON loses
        # some.
        return (
            validate_value(adapter.validate_python, value)
            if has_long_number(value)
            else validated_value
        )
    except pydantic.ValidationError:
        raise ConversionError(*faults_of(first, where)) from None
    except (TypeError, RecursionError) as error:
        raise ConversionError(f"{where}: {error}") from None


def validate_value(validate: Any, value: Any, **words: Any) -> Any:
    try:
        # A schema may use the names of the members, or their aliases.
        return validate(value, by_alias=True, by_name=True, **words)
    except TypeError as error:  # pydantic before 2.11
        if "by_alias" not in str(error) and "by_name" not in str(error):
            raise
        return validate(value, **words)


def has_long_number(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_long_number, value.values()))
    if isinstance(value, list):
        return any(map(has_long_number, value))
    return isinstance(value, decimal.Decimal)


def faults_of(error: Any, where: str) -> list[str]:
    faults = []
    for problem in error.errors(include_url=False):
        place = ".".join([where, *(str(step) for step in problem["loc"])])
        faults.append(f"{place}: {problem['msg']}, not {short_json(problem.get('input'))}")
    return faults


def json_text(value: Any, whole: bool = False) -> str:
    """JSON with every digit; `whole` writes a float without a fraction as an integer."""
    if isinstance(value, dict):
        inside = (json.dumps(key) + ":" + json_text(item, whole) for key, item in value.items())
        return "{" + ",".join(inside) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(json_text(item, whole) for item in value) + "]"
    if isinstance(value, decimal.Decimal):
        return str(value)
    if whole and isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def convert_by_hand(hint: Any, value: Any, where: str) -> Any:
    """The same without pydantic."""
    hint = unwrap_hint(hint)
    origin = typing_origin(hint) or hint
    inside = tuple(getattr(hint, "__args__", None) or ())
    if hint is EMPTY or hint is Any or isinstance(hint, (str, typing.TypeVar, typing.ForwardRef)):
        return value
    if hint is None or hint is type(None):
        return value if value is None else refuse(where, "null", value)
    if is_union(origin):
        return convert_union(inside, value, where)
    if origin is typing.Literal:
        return convert_literal(inside, value, where)
    if not isinstance(origin, type):
        return value
    for kinds, convert in TABLE:
        if issubclass(origin, kinds):
            return convert(origin, inside, value, where)
    if origin in (collections.abc.Mapping, collections.abc.MutableMapping):
        return convert_mapping(dict, inside, value, where)
    if origin in ABSTRACT:
        return convert_sequence(origin, inside, value, where)
    if is_record(origin):
        return convert_record(origin, value, where, inside)
    return value


def unwrap_hint(hint: Any) -> Any:
    """`hint` without wrappers: Annotated, Required, NewType, an alias."""
    while True:
        origin = typing_origin(hint)
        if origin is not None and origin is typing_annotated():
            hint = hint.__origin__
        elif origin_name(origin) in ("Required", "NotRequired", "ReadOnly", "Final"):
            hint = hint.__args__[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def convert_union(inside: tuple[Any, ...], value: Any, where: str) -> Any:
    """A union: a text or a number unchanged if allowed, else the first that matches."""
    fitting: list[Any] = []
    faults: list[str] = []
    for choice in inside:
        try:
            fitted = convert_by_hand(choice, value, where)
        except ConversionError as error:
            faults += error.faults
            continue
        if fitted is value and not isinstance(value, (dict, list)):
            return value
        fitting.append(fitted)
    if fitting:
        return fitting[0]
    raise ConversionError(*dict.fromkeys(faults))


def convert_literal(inside: tuple[Any, ...], value: Any, where: str) -> Any:
    for choice in inside:
        allowed = choice.value if isinstance(choice, enum.Enum) else choice
        if allowed == value and isinstance(allowed, bool) == isinstance(value, bool):
            return choice
    words = ", ".join(repr(getattr(choice, "value", choice)) for choice in inside)
    return refuse(where, f"one of {words}", value)


def convert_boolean(kind: Any, inside: Any, value: Any, where: str) -> Any:
    return value if isinstance(value, bool) else refuse(where, "true or false", value)


def convert_integer(kind: Any, inside: Any, value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        return refuse(where, "an integer", value)
    return value if isinstance(value, int) else int(value)


def convert_number(kind: Any, inside: Any, value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        return refuse(where, "a number", value)
    try:
        return value if isinstance(value, float) else float(value)
    except OverflowError:
        return refuse(where, "a number in the range of a float", value)


def convert_decimal(kind: Any, inside: Any, value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal, str)):
        return refuse(where, "a decimal number", value)
    try:
        return decimal.Decimal(str(value))
    except decimal.InvalidOperation:
        return refuse(where, "a decimal number", value)


def convert_enum(kind: Any, inside: Any, value: Any, where: str) -> Any:
    for member in kind:
        if member.value == value and isinstance(member.value, bool) == isinstance(value, bool):
            return member
    words = ", ".join(repr(member.value) for member in kind)
    return refuse(where, f"one of {words}", value)


def convert_text(kind: Any, inside: Any, value: Any, where: str) -> Any:
    return value if isinstance(value, str) else refuse(where, "a text", value)


def convert_from_text(what: str, read: Callable[[Any, str], Any]) -> Callable[..., Any]:
    """The conversion of a type that JSON represents as text."""

    def convert(kind: Any, inside: Any, value: Any, where: str) -> Any:
        if not isinstance(value, str):
            return refuse(where, what, value)
        try:
            return read(kind, value)
        except (ValueError, TypeError, re.error):
            return refuse(where, what, value)

    return convert


def parse_moment(kind: Any, text: str) -> Any:
    # Before Python 3.11 a Z is not parsed, nor a fraction of a length other than 3 or 6.
    text = re.sub(r"[zZ]$", "+00:00", text.strip())
    text = re.sub(r"\.(\d{1,9})", lambda match: "." + (match[1] + "00000")[:6], text)
    return kind.fromisoformat(text)


def parse_duration(kind: Any, text: str) -> Any:
    match = DURATION.fullmatch(text)
    if match and text[-1] not in "PT":
        weeks, days, hours, minutes, seconds = (float(group or 0) for group in match.groups()[1:])
        delta = datetime.timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds
        )
        return -delta if match[1] == "-" else delta
    match = CLOCK.fullmatch(text)
    if not match:
        raise ValueError(text)
    days, hours, minutes, seconds = (float(group or 0) for group in match.groups()[1:])
    delta = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -delta if match[1] == "-" else delta


def convert_sequence(kind: Any, inside: Any, value: Any, where: str) -> Any:
    """Lists, sets and the like, of the named class if it is concrete."""
    if not isinstance(value, list):
        return refuse(where, "an array", value)
    hint = inside[0] if inside else EMPTY
    items = [convert_by_hand(hint, item, f"{where}[{place}]") for place, item in enumerate(value)]
    if issubclass(kind, collections.abc.Iterator):
        return iter(items)
    builder: Any = kind
    if kind in ABSTRACT:
        builder = set if issubclass(kind, collections.abc.Set) else list
    try:
        return builder(items)
    except TypeError:
        return refuse(where, "an array of hashable values", value)


def convert_tuple(kind: Any, inside: Any, value: Any, where: str) -> Any:
    """A tuple: of one type, or of one type per position. A NamedTuple is a record."""
    if hasattr(kind, "_fields"):
        if isinstance(value, list) and len(value) <= len(kind._fields):
            value = dict(zip(kind._fields, value))  # noqa: B905
        return convert_record(kind, value, where)
    if not isinstance(value, list):
        return refuse(where, "an array", value)
    if len(inside) == 2 and inside[1] is Ellipsis:
        inside = (inside[0],) * len(value)
    elif inside == ((),):  # Tuple[()] before Python 3.11
        inside = ()
    elif inside and len(inside) != len(value):
        return refuse(where, f"an array of {len(inside)}", value)
    hints = inside or (EMPTY,) * len(value)
    pairs = enumerate(zip(hints, value))  # noqa: B905
    return tuple(convert_by_hand(hint, item, f"{where}[{place}]") for place, (hint, item) in pairs)


def convert_mapping(kind: Any, inside: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        return refuse(where, "an object", value)
    if is_typed_dict(kind):
        return convert_typed_dict(kind, value, where)
    keys, values = inside if len(inside) == 2 else (EMPTY, EMPTY)
    items = {}
    for name, item in value.items():
        here = f"{where}.{name}"
        key = name
        if unwrap_hint(keys) in (int, float):  # a key of JSON is always a text
            try:
                key = json.loads(name)
            except ValueError:
                pass
        items[convert_by_hand(keys, key, here)] = convert_by_hand(values, item, here)
    if kind is collections.OrderedDict:
        return collections.OrderedDict(items)
    same = all(item is value.get(key, EMPTY) for key, item in items.items())
    return value if same else items


def convert_typed_dict(kind: Any, value: Any, where: str) -> Any:
    hints = read_hints(kind)
    # The class's own attributes are wrong if its hints were written as strings.
    free = [
        name for name, hint in hints.items() if origin_name(typing_origin(hint)) == "NotRequired"
    ]
    total = hints if kind.__total__ else ()
    required = getattr(kind, "__required_keys__", total)  # since Python 3.9
    needed = [hint for hint in hints if hint in required and hint not in free]
    needed += [
        name for name, hint in hints.items() if origin_name(typing_origin(hint)) == "Required"
    ]
    lacking = [name for name in dict.fromkeys(needed) if name not in value]
    if lacking:
        raise ConversionError(*(f"{where}.{name}: is missing" for name in lacking))
    return {
        name: convert_by_hand(hints.get(name, EMPTY), item, f"{where}.{name}")
        for name, item in value.items()
    }


def is_typed_dict(kind: Any) -> bool:
    return hasattr(kind, "__total__")


def is_record(kind: Any) -> bool:
    marks = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "__fields__")
    return any(hasattr(kind, mark) for mark in marks)


def convert_record(kind: Any, value: Any, where: str, inside: tuple[Any, ...] = ()) -> Any:
    """An object of a class with typed members: a dataclass, a NamedTuple, an older pydantic model.
    `inside` are the type arguments of a generic one."""
    if not isinstance(value, dict):
        return refuse(where, "an object", value)
    try:
        if hasattr(kind, "parse_obj"):
            return kind.parse_obj(value)
        hints, known = read_hints(kind), inspect.signature(kind).parameters
        hints = {
            name: replace_type_variables(inner_hint, kind, inside)
            for name, inner_hint in hints.items()
        }
        faults = [f"{where}.{name}: is not known" for name in value if name not in known]
        members = {}
        for name, default in known.items():
            if name in value:
                try:
                    members[name] = convert_by_hand(
                        hints.get(name, EMPTY), value[name], f"{where}.{name}"
                    )
                except ConversionError as error:
                    faults += error.faults
            elif default.default is EMPTY and default.kind not in (
                default.VAR_KEYWORD,
                default.VAR_POSITIONAL,
            ):
                faults.append(f"{where}.{name}: is missing")
        if faults:
            raise ConversionError(*faults)
        return kind(**members)
    except ConversionError:
        raise
    except Exception as error:  # of the class itself, which validates its members
        raise ConversionError(f"{where}: {error}") from None


def replace_type_variables(hint: Any, kind: Any, inside: tuple[Any, ...]) -> Any:
    """`hint` of a member of `kind[inside]`, with its type variables replaced."""
    types_of = dict(zip(getattr(kind, "__parameters__", ()), inside))  # noqa: B905
    if isinstance(hint, typing.TypeVar):
        return types_of.get(hint, hint)
    named = getattr(hint, "__parameters__", ()) if types_of else ()
    return hint[tuple(types_of.get(parameter, parameter) for parameter in named)] if named else hint


TABLE: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (enum.Enum, convert_enum),
    (bool, convert_boolean),
    (int, convert_integer),
    (float, convert_number),
    (decimal.Decimal, convert_decimal),
    (str, convert_text),
    (datetime.datetime, convert_from_text("a date and time", parse_moment)),
    (datetime.date, convert_from_text("a date", lambda kind, text: kind.fromisoformat(text))),
    (datetime.time, convert_from_text("a time", parse_moment)),
    (datetime.timedelta, convert_from_text("a duration", parse_duration)),
    (
        (bytes, bytearray),
        convert_from_text("a text", lambda kind, text: kind(text.encode("utf-8"))),
    ),
    (uuid.UUID, convert_from_text("a UUID", lambda kind, text: kind(text))),
    (pathlib.PurePath, convert_from_text("a path", lambda kind, text: kind(text))),
    (ipaddress._IPAddressBase, convert_from_text("an address", lambda kind, text: kind(text))),
    (re.Pattern, convert_from_text("a pattern", lambda kind, text: re.compile(text))),
    (tuple, convert_tuple),
    (dict, convert_mapping),
    ((list, set, frozenset, collections.deque), convert_sequence),
)
"""By class, in this order: a bool is an int, and a datetime a date. An Enum of texts is a str."""


def refuse(where: str, what: str, value: Any) -> Any:
    raise ConversionError(f"{where}: must be {what}, not {short_json(value)}")


def short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


# -- results


def data_of(value: Any, most: int) -> Any:
    """`value` as JSON data, by its type: models, dataclasses, enums, dates, sets, generators.
    TooMuch if it has more than `most` items; unknown types become their text."""
    left = [most]
    return to_plain(value, left)


def to_plain(value: Any, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise TooManyItems
    if isinstance(value, enum.Enum):
        return to_plain(value.value, left)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {key_of(key): to_plain(item, left) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item, left) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return text_of(bytes(value))
    if isinstance(value, datetime.timedelta):
        return iso_duration(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, type):
        return str(value)
    inside = members(value)
    if inside is not EMPTY:
        return to_plain(inside, left)
    if isinstance(value, (set, frozenset)):
        return to_plain(sorted_items(value), left)
    if isinstance(value, collections.abc.Mapping):
        return {key_of(key): to_plain(value[key], left) for key in value}
    if isinstance(value, ITERATED):
        several: Any = value
        return [to_plain(item, left) for item in itertools.islice(several, left[0] + 1)]
    return str(value)


def sorted_items(value: Any) -> list[Any]:
    """A set in a deterministic order."""
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=str)


def members(value: Any) -> Any:
    """The members of an object with typed members, or EMPTY."""
    kind = type(value)
    if hasattr(kind, "__pydantic_serializer__"):
        try:
            return kind.__pydantic_serializer__.to_python(value, mode="json", fallback=str)
        except ValueError:  # bytes that are not text
            return kind.__pydantic_serializer__.to_python(value)
    if hasattr(kind, "__fields__") and hasattr(kind, "parse_obj"):
        return value.dict()
    for mark in ("__dataclass_fields__", "__struct_fields__"):
        if hasattr(kind, mark):
            return {name: getattr(value, name) for name in getattr(kind, mark)}
    if hasattr(kind, "__attrs_attrs__"):
        return {attr.name: getattr(value, attr.name) for attr in kind.__attrs_attrs__}
    if kind.__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    return EMPTY


def key_of(key: Any) -> str:
    """A member's name as json.dumps writes it; for unsupported types their text."""
    key = key.value if isinstance(key, enum.Enum) else key
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    plain_key = to_plain(key, [1000])
    return plain_key if isinstance(plain_key, str) else json.dumps(plain_key)


def text_of(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii")


def iso_duration(value: datetime.timedelta) -> str:
    """A duration in ISO 8601 format, as parsed by `duration`."""
    sign, value = ("-", -value) if value < datetime.timedelta() else ("", value)
    seconds = f"{value.seconds}.{value.microseconds:06}".rstrip("0").rstrip(".")
    days = f"{value.days}D" if value.days else ""
    return f"{sign}P{days}" + (f"T{seconds}S" if seconds != "0" or not days else "")


# -- `typing`, which differs between versions


def typing_origin(hint: Any) -> Any:
    """`list` for `list[int]`; Annotated itself for an annotated hint."""
    if typing_annotated() is not None and hasattr(hint, "__metadata__"):
        return typing_annotated()
    return getattr(hint, "__origin__", None) or (
        type(hint) if type(hint).__name__ == "UnionType" else None
    )


def origin_name(origin: Any) -> str:
    return str(getattr(origin, "_name", "") or getattr(origin, "__name__", ""))


def typing_annotated() -> Any:
    return getattr(typing, "Annotated", None)


def is_union(origin: Any) -> bool:
    return origin is typing.Union or getattr(origin, "__name__", "") == "UnionType"
