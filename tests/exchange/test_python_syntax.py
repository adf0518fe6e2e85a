"""Syntax newer than the running Python: named with its version and line; else Python's error."""

from __future__ import annotations

import sys

import pytest

from playground.exchange.python_syntax import newer_syntax
from playground.exchange.tool_import import import_tools

OLD = (3, 11)
RUNNING = tuple(sys.version_info)

NEWER: dict[str, tuple[str, tuple[int, int], int]] = {
    "type statement": ("x = 1\ntype C = Annotated[float, 'Degrees']\n", (3, 12), 2),
    "generic type statement": ("type Pair[T] = tuple[T, T]\n", (3, 12), 1),
    "generic function": ("'''\n'''\ndef f[T: (int, str)](a: T): ...\n", (3, 12), 3),
    "generic method": ("class A:\n    async def f[T](self): ...\n", (3, 12), 2),
    "generic class": ("class A[T](B): ...\n", (3, 12), 1),
    "default of a type parameter": ("class A[T = int]: ...\n", (3, 13), 1),
    "same quotes": ('x = 1\ny = f"{a["b"]}"\n', (3, 12), 2),
    "nested f-string": ('f"{f"{to:.1f}"} {mode}"\n', (3, 12), 1),
    "backslash": ("y = f\"{'\\n'.join(a)}\"\n", (3, 12), 1),
    "comment": ('y = f"""{\n  a  # why\n}"""\n', (3, 12), 1),
    "template": ('t"{a}"\n', (3, 14), 1),
    "except": ("try:\n    pass\nexcept ValueError, os.error:\n    pass\n", (3, 14), 3),
    "newest of all": ("type C = int\nt'{a}'\n", (3, 14), 2),
}
NOTHING = {
    "type as a name": "type = 1\nprint(type)\n",
    "in a string": "'''\ntype C = int\ndef f[T](): ...\n'''\n",
    "in a comment": "# type C = int\nx = (\n",
    "subscript": "a = f[1]\nclass A(B[int]): ...\n",
    "except with parentheses": "try:\n    pass\nexcept (A, B):\n    pass\n",
    "except with a name": "try:\n    pass\nexcept A as b:\n    pass\n",
    "plain f-string": "f\"{a['b']!r:>{width}} {{x}}\" f'{x:%H:%M}' rf'\\d{x}'\n",
    "f-string that does not end": 'f"{a\nprint("x")\n',
    "long f-string": 'f"""{a["b"]} "quoted" """\n',
    "words before a quote": "print('a'if b else\"c\")\n",
}

PEP_695 = (
    "type Celsius = Annotated[float, 'Degrees']\n\n\n"
    "def heat[T: (int, float)](to: Celsius, steps: list[T]) -> str:\n"
    '    """Heat."""\n    return f"{f"{to:.1f}"}"\n'
)


@pytest.mark.parametrize("shape", NEWER)
def test_newer_syntax_is_named_by_version_and_line(shape: str) -> None:
    source, version, line = NEWER[shape]
    newer = newer_syntax(source, running=OLD)
    assert newer is not None
    assert (newer.version, newer.line) == (version, line)
    assert newer_syntax(source, running=version) is None


@pytest.mark.parametrize("shape", NOTHING)
def test_what_every_python_reads_is_not_named(shape: str) -> None:
    assert newer_syntax(NOTHING[shape], running=OLD) is None


def test_a_file_for_a_newer_python_is_read_or_says_which_it_needs() -> None:
    imported = import_tools(PEP_695, "tools.py")
    if RUNNING < (3, 12):
        assert "needs Python 3.12 or newer" in imported.problem
        assert "Read it with this interpreter" in imported.problem
        return
    [entry] = imported.tools
    assert entry.tool is not None
    assert entry.tool.parameters["properties"] == {
        "to": {"type": "number", "description": "Degrees"},
        "steps": {
            "type": "array",
            "items": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
        },
    }


def test_a_file_that_no_python_reads_keeps_its_error() -> None:
    assert "Line 2: this is not valid Python" in import_tools("x = 1\ndef f(:", "a.py").problem
