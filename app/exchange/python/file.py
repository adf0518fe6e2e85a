"""Several tools as one Python file, which reads back: read.py. Knows no schema."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.core.tools import Tool
from app.exchange.python.signature import face

_CLASS = re.compile(r"^class (\w+)\(", re.M)
_MODULES = {
    "datetime": ("date", "datetime", "time", "timedelta"),
    "pydantic": ("AnyUrl", "EmailStr", "Field"),
    "typing": ("Annotated", "Any", "Literal", "NotRequired", "TypedDict"),
    "uuid": ("UUID",),
}
_TOOL = """

# Names a tool that Python has no name for.
tool = lambda name: lambda function: function
"""


def python_file(tools: Sequence[Tool]) -> str:
    """A module with a function for each tool; its imports are those that it needs."""
    taken: set[str] = set()
    blocks = []
    for tool in tools:
        source = face(tool).source
        for name in _CLASS.findall(source):
            free, number = name, 2
            while free in taken:
                free, number = f"{name}{number}", number + 1
            taken.add(free)
            source = source if free == name else _renamed(source, name, free)
        blocks.append(source)
    body = "\n\n".join(blocks)
    head = _TOOL if re.search(r"^@tool\(", body, re.M) else ""
    return f"from __future__ import annotations\n{_imports(body)}{head}\n\n{body}"


def _renamed(source: str, name: str, free: str) -> str:
    """`source` with its class under another name; its texts stay as they are."""
    pieces = re.split(
        r'("""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')', source
    )
    words = rf"\b{re.escape(name)}\b(?!\s*:)"
    return "".join(
        piece if place % 2 else re.sub(words, free, piece) for place, piece in enumerate(pieces)
    )


def _imports(body: str) -> str:
    lines = []
    for module, names in _MODULES.items():
        used = [name for name in names if re.search(rf"\b{name}\b", body)]
        if used:
            lines.append(f"from {module} import {', '.join(used)}\n")
    return "\n" + "".join(lines) if lines else ""
