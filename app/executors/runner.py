"""Runs one function of a person's file, in a process of its own. No sandbox: it runs as the user.

Started by path, by any Python from 3.8 on, and so imports nothing but the standard library. Two
processes: the guard (this one) starts the worker, waits, and ends whatever the worker has left.
The guard's stdin brings the job, one JSON line and then the raw arguments, and is its lifeline:
when it closes, all ends. Results and progress leave as JSON lines on the descriptor of the job;
what the function prints goes where prints go. The other side is `python.py`.
"""

from __future__ import annotations

import sys

# The first entry is this file's own folder: what lies there must not shadow what a tool imports.
sys.path[:1] = []

import asyncio  # noqa: E402
import base64  # noqa: E402
import ctypes  # noqa: E402
import decimal  # noqa: E402
import errno  # noqa: E402
import hashlib  # noqa: E402
import inspect  # noqa: E402
import json  # noqa: E402
import linecache  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
import types  # noqa: E402
from importlib.machinery import ModuleSpec, PathFinder  # noqa: E402
from typing import Any, Callable, NoReturn  # noqa: E402, UP035 - as Python 3.8 knows them

GRACE_S = 0.3
END_S = 3.0
OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
MAX_DIGITS = 400
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> NoReturn:
    job, arguments = read_job()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)
    guard = os.getpid()
    worker = os.fork()
    if worker == 0:
        signal.set_wakeup_fd(-1)
        os._exit(begin(job, arguments, guard, beside("apart")))
    os.close(job["channel"])
    status = wait(worker, wake)
    if status is None:
        end_politely(worker)
    end_all()
    os._exit(0 if status is None else code_of(status))


def beside(name: str) -> Any:
    """The module `name` of this folder, by its path: no other Python knows our package."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), name + ".py")
    module = types.ModuleType(name)
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)  # noqa: S102 - a file of ours
    return module


def read_job() -> tuple[dict[str, Any], bytes]:
    """The job and the raw arguments (bytes) from stdin, which stays open as the lifeline."""
    data = b""
    while b"\n" not in data:
        data += read_some()
    head, rest = data.split(b"\n", 1)
    job = json.loads(head)
    while len(rest) < job["size"]:
        rest += read_some()
    return job, rest


def read_some() -> bytes:
    data = os.read(0, 1 << 20)
    if not data:
        os._exit(0)
    return data


# -- the guard


def wait(worker: int, wake: int) -> int | None:
    """The worker's wait status, or None if the lifeline closed or SIGTERM came first."""
    while True:
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            return status
        ready, _, _ = select.select([0, wake], [], [])
        if 0 in ready and not os.read(0, 4096):
            return None
        if wake in ready and signal.SIGTERM in os.read(wake, 4096):
            return None


def end_politely(worker: int) -> None:
    """SIGTERM to the worker and all below it, and a moment to follow it."""
    signal_group(worker, signal.SIGTERM)
    for _, group in descendants(worker):
        signal_group(group, signal.SIGTERM)
    limit = time.monotonic() + GRACE_S
    while time.monotonic() < limit:
        try:
            if os.waitpid(worker, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(0.01)


def end_all() -> None:
    """SIGKILL to every process that came from here; orphans are ours, for this is a subreaper.

    Groups are killed whole, which the kernel does at once: a fork cannot slip through.
    """
    limit = time.monotonic() + END_S
    while time.monotonic() < limit:
        for pid, group in descendants(os.getpid()):
            if group != os.getpgrp():
                signal_group(group, signal.SIGKILL)
            signal_one(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def descendants(root: int) -> list[tuple[int, int]]:
    """(pid, process group) of all that descend from `root`, by a walk over /proc."""
    parents: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append((int(name), int(fields[2])))
    found: list[tuple[int, int]] = []
    todo = [root]
    while todo:
        for pid, group in parents.get(todo.pop(), []):
            found.append((pid, group))
            todo.append(pid)
    return found


def signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        pass


def signal_one(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def code_of(status: int) -> int:
    """An exit code as a shell gives it: 128 and the signal's number where one ended the worker."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def prctl(option: int, value: int) -> None:
    """Linux's prctl, and elsewhere nothing: the group is then all that is ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


# -- the worker


def begin(job: dict[str, Any], arguments: bytes, guard: int, apart: Any) -> int:
    """Work in a group of its own, and apart from all other processes where that is offered."""
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        return 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    others = threads_of(os.getuid())
    if not apart.offered():
        return work(job, arguments, others)
    return int(apart.entered(lambda: work(job, arguments, 0 if apart.counts_apart() else others)))


def work(job: dict[str, Any], arguments: bytes, others: int) -> int:
    """Run the function; returns the exit code. `others` are the user's threads elsewhere."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.set_inheritable(job["channel"], False)
    prints: Any
    for prints in (sys.stdout, sys.stderr):
        prints.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    set_limits(job["longest_s"], others)
    try:
        answer = result_of(job, json.loads(arguments, parse_float=exact))
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the tool's own here
        answer = failure_of(error, job["file"])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    # A half of a surrogate pair is no character and could be neither stored nor shown.
    text = answer["result"].encode("utf-8", "backslashreplace")
    answer["result"] = text.decode("utf-8")
    if len(text) > job["max_output"]:
        answer = {"result": "", "is_error": True, "too_large": True}
    send(job["channel"], answer)
    return 0


def set_limits(longest_s: float, others: int) -> None:
    """Caps against accidents. The number of processes may count those the user has already; the
    time is that of the longest call there can be, for who holds the lifeline may put off its end.
    """
    cores = os.cpu_count() or 1
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, int(longest_s * cores))
    limit(resource.RLIMIT_FSIZE, 1 << 30)
    limit(resource.RLIMIT_NOFILE, 1024)
    if sys.platform == "linux":
        limit(resource.RLIMIT_AS, 4 << 30)
        limit(resource.RLIMIT_NPROC, others + 256)


def limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    try:
        resource.setrlimit(what, (most, most))
    except (ValueError, OSError):
        pass


def threads_of(uid: int) -> int:
    """How many threads run as `uid` now: what the kernel counts for RLIMIT_NPROC."""
    count = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        try:
            if name.isdigit() and os.stat("/proc/" + name).st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def exact(word: str) -> Any:
    """The very number that was shown: a float where one prints as it, else an int or a Decimal."""
    value = float(word)
    said = decimal.Decimal(word)
    if abs(value) < float("inf") and decimal.Decimal(repr(value)) == said:
        return value
    return int(said) if 0 <= said.adjusted() <= MAX_DIGITS and said == int(said) else said


class NotOurs:
    """Keeps the playground's own package, which is called `app`, from being found as the tool's."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "app":
            return None
        others = [
            entry
            for entry in sys.path
            if os.path.realpath(os.path.join(entry or ".", "app")) != OURS
            and not os.path.isdir(os.path.join(entry or ".", "app", "_data"))
        ]
        spec = PathFinder.find_spec(name, others)
        if spec is None:
            raise ModuleNotFoundError("No module named 'app'", name="app")
        return spec


def result_of(job: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    function = loaded(job["file"], job["function"], job["code"])
    if job["report"] and "report" in inspect.signature(function).parameters:
        arguments["report"] = reporter(job["channel"])
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise Misfit(f"{job['function']}() does not take these arguments: {error}") from None
    value = function(**arguments)
    if inspect.isawaitable(value):
        value = asyncio.run(awaited(value))
    if isinstance(value, (bytes, bytearray)):
        return {
            "result": base64.b64encode(value).decode("ascii"),
            "is_error": False,
            "form": "bytes",
        }
    if isinstance(value, str):
        return {"result": value, "is_error": False, "form": "text"}
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain)
    return {"result": text, "is_error": False, "form": "json"}


class Misfit(Exception):
    """The file or the function is not as the tool says; the sentence tells how."""


async def awaited(value: Any) -> Any:
    return await value


def plain(value: Any) -> Any:
    """Dataclasses as objects, sets as arrays, everything else as its text."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


def loaded(path: str, name: str, digest: str) -> Callable[..., Any]:
    """The function `name` of the file. Compiled anew each time: a cached one may be stale.

    The bytes that are compiled are those compared: nothing can change in between.
    """
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise Misfit(f"{path} cannot be read: {error.strerror}.") from None
    if digest and hashlib.sha256(source).hexdigest() != digest:
        raise Misfit(f"{path} has changed since this call was decided; nothing was run.")
    code = compile(source, path, "exec")
    lines = source.decode("utf-8", "replace").splitlines(True)
    linecache.cache[path] = (len(source), None, lines, path)
    sys.path.insert(0, os.path.dirname(path))
    sys.meta_path.insert(0, NotOurs())
    module = types.ModuleType("tool_file")
    module.__file__ = path
    sys.modules["tool_file"] = module
    exec(code, module.__dict__)  # noqa: S102 - this is what the person asked for
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None or not callable(function):
        known = sorted(
            key for key, item in vars(module).items() if isinstance(item, types.FunctionType)
        )
        raise Misfit(f"{path} has no function {name}; it has: {', '.join(known)}.")
    return function


def reporter(channel: int) -> Callable[..., None]:
    def report(text: str, fraction: float | None = None) -> None:
        """Tell how far it is: a short text, and a fraction from 0 to 1 if that is known."""
        known = None if fraction is None else min(1.0, max(0.0, float(fraction)))
        send(channel, {"progress": str(text)[:2000], "fraction": known})

    return report


def failure_of(error: BaseException, path: str) -> dict[str, Any]:
    """The type and message, then the lines of the tool's own file, innermost last."""
    if isinstance(error, Misfit):
        return {"result": str(error), "is_error": True}
    lines = [f"{type(error).__name__}: {error}"]
    if isinstance(error, SyntaxError) and error.filename == path:
        lines.append(f"  line {error.lineno}: {(error.text or '').strip()}")
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path:
            lines.append(f"  line {frame.lineno}, in {frame.name}: {frame.line}")
    if isinstance(error, ModuleNotFoundError):
        lines.append("Name the interpreter that has this module in the tool's settings.")
    return {"result": "\n".join(lines)[:20000], "is_error": True}


def send(channel: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode("ascii") + b"\n"
    while data:
        try:
            data = data[os.write(channel, data) :]
        except OSError as error:
            if error.errno != errno.EAGAIN:
                return
            time.sleep(0.001)


if __name__ == "__main__":
    main()
