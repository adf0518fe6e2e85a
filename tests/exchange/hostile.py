"""Texts that mean harm: (text, the sentence that refuses it; "" where it is disarmed)."""

from __future__ import annotations

import json
from typing import Any

_SIZE = 100_000
_OBJECT = {"type": "object", "properties": {}}

_FAN = {
    **{f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 10} for i in range(8)},
    "a8": {"type": "string"},
}

_CLASSES = "".join(
    f"class A{i}(BaseModel):\n" + "".join(f" x{j}: A{i + 1}\n" for j in range(10))
    for i in range(20)
)
_LINE = "".join(f"class A{i}(A{i + 1}, A{i + 2}):\n x{i}: int\n" for i in range(60))

PYTHON: dict[str, tuple[str, str]] = {
    "minus": ("def f(a=1): pass\nx = " + "-" * 90_000 + "1", "nested too deep"),
    "attributes": ("def f(a=1): pass\nx" + ".a" * 90_000, "nested too deep"),
    "calls": ("def f(a=1): pass\nx" + "()" * 90_000, "nested too deep"),
    "sums": ("def f(a=1): pass\nx = " + "1+" * 90_000 + "1", "nested too deep"),
    "conditions": ("def f(a=1): pass\nx = " + "1 if 1 else " * 30_000 + "1", "nested too deep"),
    "brackets": ("def f(a=1): pass\nx = " + "(" * _SIZE, "too many nested parentheses"),
    "a union": ("def f(a: " + "int|" * 50_000 + "int): pass", "nested too deep"),
    "digits": ("def f(a=" + "9" * 5000 + "): pass", "too many digits"),
    "classes that fan out": (_CLASSES + "def f(a: A0): pass", "too large"),
    "classes in a mesh": (_LINE + "class A60(BaseModel):\n y: int\ndef f(a: A0): pass", ""),
    "values that double": (
        "import os\na0 = 'x' * 9\nb0 = 'x'\n"
        + "".join(f"b{i + 1} = b{i} + b{i}\n" for i in range(60))
        + "t = {'name': b60, 'parameters': {}}",
        "It contains no tools",
    ),
    "values that fan out": (
        "import os\nb0 = [1]\n"
        + "".join(f"b{i + 1} = [b{i}, b{i}]\n" for i in range(60))
        + "t = {'name': 't', 'parameters': {'enum': b60}}",
        "It contains no tools",
    ),
    "names in a ring": (
        "import os\na = b\nb = a\nt = {'name': a, 'parameters': {}}",
        "It contains no tools",
    ),
    "values that would run": (
        "import os\nt = {'name': os.system('touch never'), 'parameters': {}}",
        "It contains no tools",
    ),
    "a deep notebook": (
        '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = ' + "(" * _SIZE + '"}]}',
        "It contains no tools",
    ),
    "a web page": ("<!doctype html><script>alert(1)</script>", "has no tools"),
    "itself": ('class A(BaseModel):\n a: "A"\ndef f(a: A): pass', ""),
    "runs nothing": (
        "import os\n@os.system('touch never')\ndef f(a=os.system('touch never')):\n  '\\d'",
        "",
    ),
}


def _tool(schema: Any, name: str = "t", **more: Any) -> str:
    return json.dumps({"name": name, "description": "d", "input_schema": schema, **more})


def _with(schema: Any) -> str:
    return _tool({"type": "object", "properties": {"a": schema}})


def _array(depth: int) -> dict[str, Any]:
    return {"type": "array", "minItems": 200, "items": _array(depth - 1)} if depth else {}


def _keys(count: int) -> str:
    return ",".join(map('"k%d":1'.__mod__, range(count)))


_OUTPUT = {"name": "t", "inputSchema": _OBJECT, "outputSchema": _array(6)}

HOSTILE: dict[str, tuple[str, str]] = {
    "remote ref": (_with({"$ref": "http://127.0.0.1:9/x"}), "Nothing is fetched"),
    "file ref": (_with({"$ref": "file:///etc/passwd"}), "Nothing is fetched"),
    "slow pattern": (_with({"type": "string", "pattern": "^(a+)+$", "default": "a" * 41}), ""),
    "refs that fan out": (
        _tool({"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": _FAN}),
        "",
    ),
    "a sample without end": (json.dumps(_OUTPUT), ""),
    "deep json": ("[" * _SIZE, "nested deeper than 64"),
    "deep json objects": ('{"a":' * _SIZE + "1" + "}" * _SIZE, "nested deeper than 64"),
    "deep yaml, flow": ("a: " + "[" * _SIZE, "nested deeper than 64"),
    "deep yaml, blocks": ("".join(" " * i + "a:\n" for i in range(1300)), "nested deeper than 64"),
    "deep yaml, dashes": ("- " * _SIZE + "1", "nested deeper than 64"),
    "deep toml": ("[mcp_servers.a]\nx = " + "[" * _SIZE, "nested deeper than 64"),
    "deep toml, keys": ("[a" + ".a" * _SIZE + "]", "more than 64 parts"),
    "many keys": ("{" + _keys(520_000) + "}", "Somewhere in this large text"),
    "a key twice, far away": (
        "{" + _keys(_SIZE) + ',"k0":1}',
        'large text: duplicate key "k0"',
    ),
    "deep at the end": ("[" + "{}," * 400_000 + "[" * 70 + "]" * 71, "large text: the JSON is"),
    "many objects": ("[" + "{}," * 20_000 + "{}]", "more than 10,000 entries"),
    "many toml tables": ("".join(f"[a{i}]\nx=1\n" for i in range(60_000)), "more than 256 kB"),
    "yaml bomb": (
        "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 10}]\n" for i in range(1, 30)),
        "more than 600,000 values",
    ),
    "yaml bomb of text": (
        f"a: &a {'x' * 500_000}\nb: &b [{'*a,' * 100}]\nc: [{'*b,' * 100}]\n",
        "values, or they are too long",
    ),
    "yaml object": ('a: !!python/object/apply:os.system ["id"]', "is not supported; remove it"),
    "long digits": (_with({"minimum": 1}).replace("1}", "9" * 5000 + "}"), "more than 400 digits"),
    "long digits, toml": ("[a]\nx = " + "9" * 5000, "cannot be read"),
    "9 MB": ('{"a":"' + "x" * 9_000_000 + '"}', "larger than 8 MB"),
    "name of markup": (_tool(_OBJECT, "<img src=x onerror=alert(1)>\u202e\0"), ""),
    "name of nothing": (_tool(_OBJECT, "\u202e\u200b"), ""),
    "half a character": (_tool(_OBJECT, "a\ud800"), "half of a surrogate"),
    "mixed lists": ("[" * 30 + _tool(_OBJECT) + "]" * 30, "lists of tools are nested too deep"),
    "open comment": ("{" + "/*" * 400_000, "not valid JSON"),
    "open string": ('{"a":"' + '\\"' * 300_000, "not valid JSON"),
    "blanks and commas": ("{" + ",\n   " * _SIZE + "1}", "not valid JSON"),
    "yaml quotes": ("a: '" + "''" * 250_000, "not valid YAML"),
    "python too large": ("def f(): pass\n" * 40_000, "512 kB"),
}
