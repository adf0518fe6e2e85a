"""Processes that are measured: on which core, before which others, how much CPU and memory.

For the scripts of this folder. CPU and memory are read from /proc, so that they need Linux; cores
and precedence are left as they are where the platform, or this user, cannot change them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import environment

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
"""The unit in which CPU is told."""
NICENESS = -15
GROUP = Path("/proc/self/autogroup")
"""Where Linux keeps the niceness of all processes of a session together, which goes before their
own."""


@contextmanager
def pin(cores: set[int]) -> Iterator[None]:
    """Who is started within has these cores, where the platform can say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def precede() -> Iterator[bool]:
    """This process and those that it starts go before all others, where this user may do that:
    else other work on the machine is measured as our lateness. Gives whether it is so. SIGTERM
    is an exit then, so that what was started is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        if GROUP.exists():
            GROUP.write_text(str(NICENESS))
    except (AttributeError, OSError):
        yield False
        return
    try:
        yield True
    finally:
        if GROUP.exists():
            GROUP.write_text("0")


def cores() -> tuple[set[int], set[int]]:
    """Those of the server and those of all others; the same where there is but one."""
    if not hasattr(os, "sched_getaffinity"):
        return set(), set()
    first, *others = sorted(os.sched_getaffinity(0))
    return {first}, set(others) or {first}


def _tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except FileNotFoundError:  # the thread has ended
            continue
        for child in children:
            yield from _tree(int(child))


def cpu_s(pid: int) -> float:
    """Seconds of CPU of the process and its children, also of those that ended."""
    ticks = 0
    for each in _tree(pid):
        outputs = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, outputs[11:15]))
    return ticks * TICK_S


def resident_kb(pid: int) -> float:
    lines = "".join(Path(f"/proc/{each}/status").read_text() for each in _tree(pid))
    return sum(map(int, re.findall(r"VmRSS:\s*(\d+)", lines)))


def start_script(words: list[str], folder: Path, on: set[int]) -> tuple[subprocess.Popen[str], str]:
    """A script of this folder in a process of its own, and the line that it printed."""
    with pin(on), (folder / "server.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, (folder / "server.log").read_text()
    return process, line


def end_script(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
