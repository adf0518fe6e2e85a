"""How a script of ours is started by its path, in an interpreter that may not be ours.

As the script of its command line Python would compile it at each start; so its compiled file, if
there is one for that Python, is looked for as for an import. To the script it makes no difference.
"""

from __future__ import annotations

from pathlib import Path

# Nothing is imported from the folder that the interpreter is started in.
_START = """\
import sys
first = sys.path.pop(0)
from importlib.machinery import SourceFileLoader
sys.path.insert(0, first)
del sys.argv[0]
__file__ = sys.argv[0]
exec(SourceFileLoader("__main__", __file__).get_code("__main__"))
"""


def by_path(script: Path, *arguments: str) -> tuple[str, ...]:
    """What follows the interpreter and its options on the command line."""
    return ("-c", _START, str(script), *arguments)
