"""Runs one tool of a file as a server without privileges would; started by the tests, by path.

Root gives itself up before anything is run: root stands above the limits that are to be seen at
work. Arguments: FILE FUNCTION TIMEOUT_S INTERPRETER, and "hidden" or "open", which is whether
others may look into it; as much as TAKEN_S is taken away once the tool is ready. Prints the result
as JSON.
"""

from __future__ import annotations

import asyncio
import ctypes
import encodings.idna
import json
import os
import sys
from pathlib import Path

from playground.core.tools import Tool, ToolResult
from playground.executors import run_with_limits
from playground.executors.executor import Invocation
from playground.net import keys
from tests.executors.ending import TAKEN_S, Report, over_once

NOBODY = 65534


def main() -> None:
    file, function, timeout_s, interpreter, shown = sys.argv[1:]
    runs = run_with_limits.executors()
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(keys.PR_SET_DUMPABLE, 1, 0, 0, 0)  # as in one just started
    if shown == "hidden":
        keys.harden_process()
    config = {"file": file, "function": function, "interpreter": interpreter}
    tool = Tool("t", answered_by="python", config=config)
    folder = Path(file).parent
    call = Invocation(
        "s",
        call="1",
        attempt=1,
        tool=tool,
        arguments="{}",
        timeout_s=float(timeout_s),
        max_output=100_000,
        folder=folder,
        idempotency_key="k",
    )

    def print_progress(text: str) -> None:
        print("told " + text, flush=True)

    long = call.timeout_s >= TAKEN_S
    report = (
        over_once(call, "ready", print_progress) if long else lambda text, *_: print_progress(text)
    )
    result = asyncio.run(run(runs, call, report))
    print(json.dumps([result.text, result.kind]), flush=True)


async def run(runs: run_with_limits.Executors, call: Invocation, report: Report) -> ToolResult:
    try:
        return await runs.run(call, report)
    finally:
        await runs.close()


if __name__ == "__main__":
    assert encodings.idna  # what is loaded late cannot be read by nobody
    main()
