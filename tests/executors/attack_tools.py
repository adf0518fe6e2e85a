"""A user's file as it should not be: what a tool may do by accident or by malice.

Run by the tests from a copy in a folder of their own. Where the tests run as root, a tool gives
root up first: root stands above the limits that are to be seen at work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def drop() -> None:
    """To a user of this folder alone: how many processes there may be is counted for each user,
    and other tests run beside this one."""
    if os.getuid() == 0:
        user = 1_000_000 + zlib.crc32(os.path.dirname(os.path.abspath(__file__)).encode()) % 10**9
        os.setgid(user)
        os.setuid(user)


def fine(city: str, unit: str = "celsius") -> str:
    return f"{city} in {unit}"


def spelled(number: Any) -> str:
    return f"{type(number).__name__} {number}"


def sleeper(report: Callable[..., None]) -> Any:
    report("ready", 0.5)
    time.sleep(600)


def endless(report: Callable[..., None]) -> Any:
    drop()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report("ready")
    while True:
        pass


def orphan(report: Callable[..., None]) -> Any:
    drop()
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    subprocess.run(["sh", "-c", "sleep 600 & sleep 600 &"], start_new_session=True, check=True)
    report("ready")
    time.sleep(600)


def leaver() -> Any:
    """Ends well, and leaves a child behind that holds every pipe open."""
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    return "left one behind"


def storm(report: Callable[..., None]) -> Any:
    drop()
    report("ready")
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


def fork_until_refused() -> Any:
    drop()
    children = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(600)
            children += 1
    except BlockingIOError:
        return children


def guard_stopper(report: Callable[..., None]) -> Any:
    os.kill(os.getppid(), signal.SIGSTOP)
    report("ready")
    time.sleep(600)


def guard_killer(report: Callable[..., None]) -> Any:
    """Leaves a child that hid well, then kills all it can see, its guard first."""
    drop()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setpgid(0, 0)
            time.sleep(600)
        os._exit(0)
    report("ready")
    for pid in (os.getppid(), 1, *process_ids()):
        try:
            if pid != os.getpid() and (pid == os.getppid() or mine(pid)):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
    time.sleep(600)


def process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def mine(pid: int) -> bool:
    """Whether it works in the folder of this file: a test must not kill what is not its own."""
    return os.readlink(f"/proc/{pid}/cwd") == os.path.dirname(os.path.abspath(__file__))


def neighbours() -> Any:
    """What the environments of all processes hold that may be read."""
    results = []
    for pid in process_ids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                results.append(file.read().decode("utf-8", "replace"))
        except OSError:
            continue
    return results


def picture() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(8)


def junk() -> bytes:
    return b"no image"


def flood() -> Any:
    while True:
        print("x" * 1000)


def quiet_flood() -> Any:
    os.write(2, b"y" * 5_000_000)


def large(size: float) -> str:
    return "z" * int(size)


def memory() -> Any:
    return len(bytearray(64 << 30))


def environment() -> Any:
    return dict(os.environ)


def importer() -> Any:
    try:
        import playground
    except ModuleNotFoundError:
        return "not found"
    return str(playground.__file__)


def raiser() -> Any:
    raise LookupError("nothing \ud800 there")


def leaves() -> Any:
    sys.exit("I am off")


def crashes() -> Any:
    print("about to crash", file=sys.stderr)
    os._exit(3)


def segfaults() -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def impossible() -> Any:
    return float("nan")


@dataclass
class Point:
    x: int
    tags: set[str]


def odd_values() -> Any:
    return {"point": Point(1, {"b", "a"}), "path": Path("a/b")}


async def asynchronous(number: int) -> dict[str, int]:
    return {"double": 2 * number}


def chatty(report: Callable[..., None]) -> Any:
    print("first")
    print("second", flush=True)
    report("half", 0.5)
    report("out of range", 7)
    return "done"


def own_report(report: str) -> Any:
    return f"the model wrote {report}"


def threads() -> Any:
    thread = threading.Thread(target=time.sleep, args=(600,))
    thread.start()
    return "did not wait"


def installed() -> str:
    try:
        import starlette
    except ModuleNotFoundError:
        return "nothing of ours"
    return str(starlette.__file__)
