"""Runs one tool of a file as a server without privileges would; started by the tests, by path.

Root gives itself up before anything is run: root stands above the limits that are to be seen at
work. Arguments: FILE FUNCTION ARGUMENTS TIMEOUT_S INTERPRETER. Prints the result as JSON.
"""

from __future__ import annotations

import asyncio
import encodings.idna
import json
import os
import sys
from pathlib import Path

from app.core.tools import Tool
from app.executors import table
from app.executors.executor import Invocation

NOBODY = 65534


def main() -> None:
    file, function, arguments, timeout_s, interpreter = sys.argv[1:]
    runs = table.executors()
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    config = {"file": file, "function": function, "interpreter": interpreter}
    tool = Tool("t", answered_by="python", config=config)
    folder = Path(file).parent
    call = Invocation("s", "1", 1, tool, arguments, float(timeout_s), 100_000, folder, "k")
    result = asyncio.run(runs.run(call, lambda text, _: print("told " + text, flush=True)))
    print(json.dumps([result.text, result.kind]), flush=True)


if __name__ == "__main__":
    assert encodings.idna  # what is loaded late cannot be read by nobody
    main()
