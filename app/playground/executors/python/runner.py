"""Runs functions of a user's file in a separate process. It is not a sandbox: it runs as the user.

Started by path, by any Python from 3.8 on, so it imports only the standard library. Two
processes: the guard (this one) starts the worker, waits, and ends all remaining descendants of the
worker. The guard's stdin is its lifeline: when it closes, all processes are ended. Jobs arrive one
after the other on the worker's socket (the descriptor is the first argument), each a JSON line
followed by the raw arguments; results and progress are sent on it as JSON lines, and when it closes
the worker ends. Printed output goes to stdout and stderr. A job for an imported file that has
changed since is handed back, not run. The other side is `executor.py`.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # The first entry is this folder: its modules must not shadow what a tool imports.
    sys.path[:1] = []

import _thread
import ast
import base64
import contextlib
import ctypes
import decimal
import enum
import errno
import hashlib
import importlib
import inspect
import json
import linecache
import os
import re
import resource
import select
import signal
import time
import traceback
import types
from importlib.machinery import SourceFileLoader
from typing import Any, Callable, NoReturn, Optional  # noqa: UP035 - as Python 3.8 knows them

GRACE_S = 0.3
END_S = 3.0
OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
MAX_DIGITS = 400
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 16384, 1 << 18

TABLE: list[Any] = []

conversion: Any = None

location: Any = None
"""The modules of these names, loaded at the start."""

LOOP: list[Any] = []

STAGE = "__playground_stage__"

HOLDERS = ("coroutine", "func", "fn", "_fn", "_func", "function", "_tool_func", "forward")
"""Attributes in which tools of frameworks store their function."""

INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
STANDARD = os.path.dirname(os.path.realpath(os.__file__)) + os.sep

SENDING = [_thread.RLock()]


def main() -> NoReturn:
    global conversion, location
    channel, conversion, location = (
        int(sys.argv[1]),
        load_sibling("conversion"),
        load_sibling("location"),
    )
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
        os._exit(start_worker(channel, guard))
    os.close(channel)
    status = wait(worker, wake)
    if status is None:
        terminate(worker)
    end_all()
    os._exit(0 if status is None else code_of(status))


def load_sibling(name: str) -> Any:
    """The module `name` of this folder, by its path: another Python does not have our package."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), name + ".py")
    module = types.ModuleType(name)
    code: Any = SourceFileLoader(name, path).get_code(name)
    exec(code, module.__dict__)  # noqa: S102 - a file of ours
    return module


def frameworks() -> Any:
    """The table of agent frameworks, loaded when a file has something other than functions."""
    if not TABLE:
        TABLE.append(load_sibling("frameworks"))
    return TABLE[0]


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


def terminate(worker: int) -> None:
    """Sends SIGTERM to the worker and its descendants, and gives them a moment to exit."""
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
    """Sends SIGKILL to every descendant; orphans are ours, because this is a subreaper.

    Whole groups are killed, which the kernel does atomically: a fork cannot escape.
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
    """(pid, process group) of all descendants of `root`, by a walk over /proc."""
    parents: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append((int(name), int(fields[2])))
    processes: list[tuple[int, int]] = []
    todo = [root]
    while todo:
        for pid, group in parents.get(todo.pop(), []):
            processes.append((pid, group))
            todo.append(pid)
    return processes


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
    """An exit code as in a shell: 128 and the signal's number if one ended the worker."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def prctl(option: int, value: int) -> None:
    """Linux's prctl; a no-op elsewhere, where only the process group is ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


# -- the worker


def start_worker(channel: int, guard: int) -> int:
    """Runs in a process group of its own, isolated from other processes if the system allows it."""
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        return 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    others = threads_of(os.getuid())
    if not can_isolate():
        return work(channel, others)
    return run_isolated(lambda: work(channel, 0 if counts_by_namespace() else others))


def work(channel: int, others: int) -> int:
    """Runs one function after the other; returns the exit code. `others` is the number of the
    user's threads elsewhere."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.set_inheritable(channel, False)
    prints: Any
    for prints in (sys.stdout, sys.stderr):
        prints.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    us, file, number = os.getpid(), None, 0
    os.register_at_fork(after_in_child=forget_senders)
    while True:
        job, arguments = read_job(channel)
        if job is None:
            return 0
        number += 1
        job["channel"], job["number"] = channel, number
        if file is None:
            set_limits(job["longest_s"], others)
            file = LoadedFile(job["file"])
        changed = file.changed_file()
        if changed:
            send(channel, number, {"changed": changed})
            return 0
        answer = answer_of(job, arguments, file)
        if os.getpid() != us:  # a process forked by the tool returned, too: the call is ours
            os._exit(0)
        send(channel, number, answer)
        if not file.loaded:
            return 0


def read_job(channel: int) -> tuple[Any, bytes]:
    """The next job and its raw arguments; None if there are no more."""
    data = b""
    while b"\n" not in data:
        more = read_some(channel)
        if not more:
            return None, b""
        data += more
    head, rest = data.split(b"\n", 1)
    job = json.loads(head)
    pieces, size = [rest], len(rest)
    while size < job["size"]:
        more = read_some(channel)
        if not more:
            return None, b""
        pieces.append(more)
        size += len(more)
    return job, b"".join(pieces)


def read_some(channel: int) -> bytes:
    try:
        return os.read(channel, 1 << 20)
    except OSError:  # the tool closed it, or the program is gone
        return b""


def answer_of(job: dict[str, Any], arguments: bytes, file: LoadedFile) -> dict[str, Any]:
    os.environ.update(job["environment"])
    try:
        answer = result_of(job, json.loads(arguments, parse_float=exact_number), file)
    except BaseException as error:  # SystemExit and KeyboardInterrupt come from the tool here
        answer = failure_of(error, job["file"], file.where)
    with contextlib.suppress(BaseException):  # the tool may have replaced them by anything
        sys.stdout.flush()
        sys.stderr.flush()
    # A lone surrogate is not a character and could be neither stored nor shown.
    text = answer["result"].encode("utf-8", "backslashreplace")
    answer["result"] = text.decode("utf-8")
    if len(text) > job["max_output"]:
        answer = {"result": "", "is_error": True, "too_large": True}
    return {**answer, "over": not file.loaded}


def set_limits(longest_s: float, others: int) -> None:
    """Limits against accidents. The limit of processes includes those the user has already; that of
    time is the longest possible call, because the parent may extend a call's deadline."""
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
    """The number of threads that run as `uid` now: what the kernel counts for RLIMIT_NPROC."""
    count = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        try:
            if name.isdigit() and os.stat("/proc/" + name).st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def exact_number(word: str) -> Any:
    """The exact number shown: a float if it prints as that number, else an int or a Decimal."""
    value = float(word)
    number = decimal.Decimal(word)
    if abs(value) < float("inf") and decimal.Decimal(repr(value)) == number:
        return value
    return int(number) if 0 <= number.adjusted() <= MAX_DIGITS and number == int(number) else number


def result_of(job: dict[str, Any], arguments: dict[str, Any], file: LoadedFile) -> dict[str, Any]:
    since = time.time_ns()
    try:
        function, model = file.function(job["function"], job["code"])
        return result_message(job, call_function(job, function, model, arguments))
    finally:
        file.note_imports(since)


def call_function(job: dict[str, Any], function: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """The function's return value; for a coroutine or generator, its result."""
    reports = job["report"] and "report" in conversion.signature_of(function).parameters
    report = reporter(job["channel"], job["number"])
    more = {"report": report} if reports else {}
    try:
        arguments = conversion.arguments_for(function, arguments, more, model, report)
    except conversion.ConversionError as error:
        raise CallFailure(f"{job['function']}() does not take these arguments: {error}") from None
    value = function(**arguments)
    if inspect.isawaitable(value):
        value = await_value(await_result(value), job["keep"])
    if inspect.isasyncgen(value):
        value = await_value(collect_items(value, job["max_output"]), job["keep"])
    return value


def result_message(job: dict[str, Any], value: Any) -> dict[str, Any]:
    """The answer with `value`: a text, bytes, or JSON."""
    if isinstance(value, (bytes, bytearray)):
        data = base64.b64encode(value).decode("ascii")
        return {"result": data, "is_error": False, "form": "bytes"}
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return {"result": value, "is_error": False, "form": "text"}
    try:
        data = conversion.data_of(value, job["max_output"])
    except conversion.TooManyItems:
        return {"result": "", "is_error": True, "too_large": True}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return {"result": text, "is_error": False, "form": "json"}


def await_value(value: Any, keep: bool) -> Any:
    """The result of a coroutine. Its connections stay usable for the next call, which needs the
    same loop; without a next call everything it began ends with it."""
    # Importing it is half of the start-up time, and few functions need it.
    asyncio: Any = importlib.import_module("asyncio")
    if not keep:
        return asyncio.run(value)
    if not LOOP or LOOP[0].is_closed():  # the tool may have closed it
        LOOP[:] = [asyncio.new_event_loop()]
        asyncio.set_event_loop(LOOP[0])
    return LOOP[0].run_until_complete(value)


async def collect_items(values: Any, most: int) -> list[Any]:
    """All items of an asynchronous generator, up to one more than the maximum, which is refused."""
    items = []
    async for value in values:
        items.append(value)
        if len(items) > most:
            break
    return items


class CallFailure(Exception):
    """The file or the function does not match the tool; the sentence says how."""


async def await_result(value: Any) -> Any:
    return await value


class LoadedFile:
    """A user's file, imported once, with its imports."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.loaded = False
        self.module = types.ModuleType(path)  # replaced by `load`
        self.where = ""
        self.source = b""
        self.staged: dict[str, list[Any]] = {}
        self.modelled: set[str] = set()
        self.made: dict[str, Any] = {}
        self.imported: dict[str, Any] = {}
        self.looked_at = {path}

    def changed_file(self) -> str:
        """An imported file that has changed since, or ""."""
        try:
            same = not self.loaded or bytes_of(self.path) == self.source
        except CallFailure:
            same = False
        if not same:
            return self.path
        for path, seen in self.imported.items():
            if seen is None or stamp_of(path) != seen:
                return path
        return ""

    def note_imports(self, since: int) -> None:
        """Records the state of imported files, except those of installed packages. One that changed
        after `since` (ns) may have done so before or after it was read."""
        for module in list(sys.modules.values()):
            try:
                path = vars(module).get("__file__")
            except TypeError:
                continue
            if not isinstance(path, str) or path in self.looked_at:
                continue
            self.looked_at.add(path)
            if not INSTALLED.search(path) and not path.startswith(STANDARD):
                stamp = stamp_of(path)
                self.imported[path] = None if stamp is None or stamp[0] > since else stamp

    def function(self, name: str, digest: str) -> tuple[Callable[..., Any], Any]:
        """The function `name`, and the class of its arguments if its tool names one."""
        if not self.loaded:
            self.source = bytes_of(self.path)
        if digest and hashlib.sha256(self.source).hexdigest() != digest:
            raise CallFailure(
                f"{self.path} has changed since this call was decided. Nothing was run."
            )
        if not self.loaded:
            self.load()
        held, _, tool_name = name.partition(".")
        value = getattr(self.module, held, None)
        if tool_name:
            value = frameworks().member_named(value, tool_name, held)
        if "TOOL_SPEC" in vars(self.module) and value is not None:
            table = frameworks()
            if table.module_tool(vars(self.module)) is value:
                return FrameworkCall(table.call_module_tool, value), None
        if value is not None and is_plain_function(value):
            self.describe(name, value)
            return value, None
        if value is not None and (tool := self.framework_tool(name, value)) is not None:
            return tool, None
        # A framework's tool, made from a function by a decorator or a call.
        model = getattr(value, "args_schema", None) if name in self.modelled else None
        staged = self.staged.get(name, ())
        inner = (getattr(value, holder, None) for holder in HOLDERS)
        for function in (*reversed(staged), *inner):
            if is_function(function):
                return function, model if isinstance(model, type) else None
        if callable(value):
            return value, None
        if value is not None:
            raise CallFailure(f"{name} of {self.path} is a {type(value).__name__}, not a function.")
        known = ", ".join(sorted(self.names()))
        raise CallFailure(f"{self.path} has no function {name}; it has: {known}.")

    def framework_tool(self, name: str, value: Any) -> Callable[..., Any] | None:
        """The function of a framework's tool, or what calls the tool in the framework's own way.
        None if the function below its decorator is to be called, and for anything else."""
        table = frameworks()
        if name not in self.made:
            try:
                self.made[name] = table.tool_object(value)
            except table.NoSchema as problem:
                raise CallFailure(str(problem)) from None
        row, tool = self.made[name]
        if isinstance(tool, table.HeldTool):
            return tool.function if is_function(tool.function) else None
        if row is None:
            return value if isinstance(value, type) else None
        if self.staged.get(name) and not row.whole:
            return None
        function: Callable[..., Any] | None = row.function(tool)
        if function is None and row.call is not None:
            return FrameworkCall(row.call, tool)
        return function

    def describe(self, name: str, function: Any) -> None:
        """Gives a wrapper with generic parameters the signature of the function it wraps, like
        functools.wraps: the tool's schema was made from that one."""
        original = next(iter(self.staged.get(name, ())), None)
        if (
            original is function
            or hasattr(function, "__wrapped__")
            or not isinstance(function, types.FunctionType)
        ):
            return
        kinds = {
            parameter.kind for parameter in conversion.signature_of(function).parameters.values()
        }
        anything = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        if (
            isinstance(original, types.FunctionType)
            and inspect.Parameter.VAR_KEYWORD in kinds <= anything
        ):
            vars(function)["__wrapped__"] = original

    def names(self) -> set[str]:
        there = vars(self.module)
        functions = {key for key, value in there.items() if isinstance(value, types.FunctionType)}
        return functions | (self.staged.keys() & there.keys())

    def load(self) -> None:
        """Imports it under the name that it has in its package, so that its relative imports work.
        Its parent packages are imported first, as Python does."""
        place = location.locate(self.path, self.source)
        if os.path.realpath(self.path).startswith(OURS + os.sep):
            # Its folder has modules with names of the standard library.
            place = location.Location("playground_file", "", (), "")
        elif self.is_hidden(place):
            place = place.without_package(os.path.dirname(self.path))
        name, first, last, _ = place
        sys.path[:0] = [first] if first else []
        sys.path += [entry for entry in last if entry not in sys.path]
        sys.meta_path.insert(0, location.FileFinder(name, self.path, self.execute))
        self.where = (
            f"It was imported as {name}; modules are looked up in {', '.join((first, *last))}"
        )
        self.module = importlib.import_module(name)
        self.loaded = True

    def is_hidden(self, place: Any) -> bool:
        """Whether a module that Python finds otherwise has the name of the file's package. A loaded
        one hides it; an installed one is meant where the file has no relative imports, such as by
        `from agents import Agent` in a folder `agents`."""
        package = place.name.partition(".")[0]
        if package in sys.modules:
            return True
        relative = location.RELATIVE.search(self.source) is not None
        return not relative and location.is_installed(package, place.first)

    def execute(self, module: types.ModuleType) -> None:
        """Always compiled: a cached version may be out of date. The bytes that are compiled are
        those compared: nothing can change in between."""
        code = compile(self.tree(), self.path, "exec", dont_inherit=True)
        lines = self.source.decode("utf-8", "replace").splitlines(True)
        linecache.cache[self.path] = (len(self.source), None, lines, self.path)
        names = module.__dict__
        names[STAGE] = self.stage
        exec(code, names)  # noqa: S102 - this is what the user asked for
        names.pop(STAGE, None)

    def tree(self) -> ast.Module:
        """The syntax tree, with each decorated function also stored undecorated: the result of
        `@function_tool` is not a function."""
        tree = ast.parse(self.source, self.path)
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            marks = []
            for mark in node.decorator_list:
                name: Any = ast.Name(STAGE, ast.Load())
                stage = ast.Call(name, [ast.Constant(node.name)], [])
                marks += [mark, ast.copy_location(stage, mark)]
                words = mark.keywords if isinstance(mark, ast.Call) else []
                if any(word.arg == "args_schema" for word in words):
                    self.modelled.add(node.name)
            node.decorator_list = marks
        return ast.fix_missing_locations(tree)

    def stage(self, name: str) -> Callable[[Any], Any]:
        def keep(thing: Any) -> Any:
            self.staged.setdefault(name, []).append(thing)
            return thing

        return keep


class FrameworkCall:
    """Calls a framework's tool as the framework does, with the arguments as JSON."""

    def __init__(self, call: Callable[[Any, dict[str, Any]], Any], tool: Any) -> None:
        self.call = call
        self.tool = tool

    def __call__(self, **arguments: Any) -> Any:
        return self.call(self.tool, arguments)


def is_plain_function(thing: Any) -> bool:
    """Whether it is called as it is: no class, and no function that a framework registered."""
    is_tool = isinstance(thing, type) or hasattr(thing, "__registry_info__")
    return is_function(thing) and not is_tool


def is_function(thing: Any) -> bool:
    """Whether it can be called directly. A callable that describes itself is a framework's tool."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
    is_tool = hasattr(thing, "description") or hasattr(thing, "metadata")
    return isinstance(thing, kinds) or (callable(thing) and not is_tool)


def bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CallFailure(f"{path} cannot be read: {error.strerror}.") from None


def stamp_of(path: str) -> Any:
    """A value that changes with the file, even if its modification time was reset."""
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_ctime_ns, seen.st_mtime_ns, seen.st_size, seen.st_ino


def reporter(channel: int, number: int) -> Callable[..., None]:
    def report(text: str, fraction: float | None = None) -> None:
        """Reports progress: a short text, and a fraction from 0 to 1 if known."""
        known = None if fraction is None else min(1.0, max(0.0, float(fraction)))
        send(channel, number, {"progress": str(text)[:2000], "fraction": known})

    return report


def failure_of(error: BaseException, path: str, where: str = "") -> dict[str, Any]:
    """The type and message, then the lines of the tool's own file, innermost last."""
    if isinstance(error, CallFailure):
        return {"result": str(error), "is_error": True}
    try:
        text = str(error)
    except BaseException:  # its text is the tool's own code, too
        text = "(it has no text)"
    lines = [f"{type(error).__name__}: {text}"]
    if isinstance(error, SyntaxError) and error.filename == path:
        lines.append(f"  line {error.lineno}: {(error.text or '').strip()}")
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path:
            lines.append(f"  line {frame.lineno}, in {frame.name}: {frame.line}")
    if isinstance(error, ImportError) and where:
        lines.append(f"{where} and where its interpreter has them.")
    if isinstance(error, ModuleNotFoundError):
        other = "ame an interpreter that has this module."
        if sys.flags.no_site:  # as our own interpreter runs
            lines.append("N" + other)
        else:
            name = str(error.name or "").partition(".")[0]
            lines.append(f"Install the package that has it: {sys.executable} -m pip install {name}")
            lines.append("Or n" + other)
    return {"result": "\n".join(lines)[:20000], "is_error": True}


def send(channel: int, number: int, message: dict[str, Any]) -> None:
    """Sends a whole line for job `number`: threads of a tool may report, too, even at its end."""
    data = json.dumps({**message, "job": number}).encode("ascii") + b"\n"
    with SENDING[0]:
        while data:
            try:
                data = data[os.write(channel, data) :]
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    return
                time.sleep(0.001)


def forget_senders() -> None:
    """Resets the lock in a process forked by the tool: its holder may not exist there."""
    SENDING[0] = _thread.RLock()


# -- isolation: new process and mount namespaces of Linux
#
# A process in them sees and can signal nothing outside, neither its guard nor the server (whose
# `/proc/PID/environ` contains keys), and the kernel ends all of its descendants, however they hide.
# It still runs as the user, with all the user's files and the network.
# https://man7.org/linux/man-pages/man7/pid_namespaces.7.html


def can_isolate() -> bool:
    """Whether this system allows it; tried in a child, because it cannot be undone."""
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if run_isolated(lambda: 0) == 0 else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def counts_by_namespace() -> bool:
    """Whether the kernel counts the processes of each user namespace separately: since 5.14."""
    numbers = [int(word) for word in os.uname().release.replace("-", ".").split(".")[:2]]
    return os.getuid() != 0 and numbers >= [5, 14]


def run_isolated(work: Callable[[], int]) -> int:
    """The exit code of `work`, run in the new namespaces, once it and all its descendants have
    ended.

    SIGTERM is ignored here: it is for the worker, which is in a group of its own. OSError without
    namespaces.
    """
    uid, gid = os.getuid(), os.getgid()
    spaces = CLONE_NEWNS | CLONE_NEWPID
    libc_call("unshare", spaces | (CLONE_NEWUSER if uid else 0))
    if uid:
        for name, words in (("setgroups", "deny"), ("uid_map", uid), ("gid_map", gid)):
            write_text(
                "/proc/self/" + name, words if isinstance(words, str) else f"{words} {words} 1"
            )
    libc_call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    first = os.fork()
    if first == 0:
        os._exit(first_process(work))
    return code_of(os.waitpid(first, 0)[1])


def first_process(work: Callable[[], int]) -> int:
    """Process 1 of the namespace: no signal from inside can end or stop it, and all end with it."""
    libc_call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Root could change kernel settings through it, even if a container made them read-only.
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | (0 if os.getuid() else MS_RDONLY)
    libc_call("mount", b"proc", b"/proc", b"proc", flags, None)
    worker = os.fork()
    if worker == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os._exit(work())
    while True:
        pid, status = os.waitpid(-1, 0)  # includes orphans
        if pid == worker:
            return code_of(status)


def write_text(path: str, words: str) -> None:
    with open(path, "w") as file:
        file.write(words)


def libc_call(name: str, *arguments: Optional[object]) -> None:  # noqa: UP045
    """Calls a function of the C library; OSError if it fails."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


if __name__ == "__main__":
    main()
