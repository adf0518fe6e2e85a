"""A view of the processes that ends with its first one: new process and mount namespaces of Linux.

What runs in there sees and can signal nothing outside, neither its guard nor the server (whose
`/proc/PID/environ` holds keys), and whatever it leaves is ended by the kernel, however it hid.
It still runs as the user, with all the user's files and the network. Loaded by `runner.py`, by any
Python from 3.8 on. https://man7.org/linux/man-pages/man7/pid_namespaces.7.html
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Callable, Optional  # noqa: UP035 - as Python 3.8 knows them

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 16384, 1 << 18
PR_SET_PDEATHSIG = 1


def offered() -> bool:
    """Whether this system lets us; tried out in a child, for half of it cannot be taken back."""
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if entered(lambda: 0) == 0 else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def counts_apart() -> bool:
    """Whether the kernel counts the processes of a user namespace by themselves: since 5.14."""
    numbers = [int(word) for word in os.uname().release.replace("-", ".").split(".")[:2]]
    return os.getuid() != 0 and numbers >= [5, 14]


def entered(work: Callable[[], int]) -> int:
    """The exit code of `work`, run in the new namespaces, once it and all it left have ended.

    SIGTERM is ignored here: it is for the worker, which is in a group of its own. OSError where
    the system does not offer it.
    """
    uid, gid = os.getuid(), os.getgid()
    spaces = CLONE_NEWNS | CLONE_NEWPID
    called("unshare", spaces | (CLONE_NEWUSER if uid else 0))
    if uid:
        for name, words in (("setgroups", "deny"), ("uid_map", uid), ("gid_map", gid)):
            written("/proc/self/" + name, words if isinstance(words, str) else f"{words} {words} 1")
    called("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    first = os.fork()
    if first == 0:
        os._exit(first_process(work))
    return code_of(os.waitpid(first, 0)[1])


def first_process(work: Callable[[], int]) -> int:
    """Process 1 in there: no signal from inside can end or stop it, and all end with it."""
    called("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Root could switch off the kernel's parts through it, also where a container shut them.
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | (0 if os.getuid() else MS_RDONLY)
    called("mount", b"proc", b"/proc", b"proc", flags, None)
    worker = os.fork()
    if worker == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os._exit(work())
    while True:
        pid, status = os.waitpid(-1, 0)  # orphans are ours as well
        if pid == worker:
            return code_of(status)


def code_of(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def written(path: str, words: str) -> None:
    with open(path, "w") as file:
        file.write(words)


def called(name: str, *arguments: Optional[object]) -> None:  # noqa: UP045
    """A call of the C library; OSError where it fails."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
