"""Runs one shell command, in a process of its own: the guard. The other side is `shell.py`.

Its stdin brings one JSON line, the job, and is its lifeline: when it closes, all ends. With
`confine` the command gets new user, mount, network, process and IPC namespaces: no network, the
system read-only, its folder writable, nothing else to be seen. Where they cannot be made nothing
is run, and the reason leaves on the channel. Linux 5.12 or newer; standard library only.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # By path: what lies beside this file must not shadow anything, and `app` is to be found.
    sys.path[:1] = [os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 3))]

import ctypes
import json
import platform
import resource
import signal
from collections.abc import Callable
from typing import Any, NoReturn

from app.executors import runner

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
SYS_MOUNT_SETATTR = 442
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "armv7l": 218, "s390x": 217}
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
CAPSET_VERSION = 0x20080522
LAST_CAP = 63

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
ETC = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "hosts"),
    *("nsswitch.conf", "localtime", "timezone", "mime.types", "magic", "terminfo", "inputrc"),
    *("profile", "python3", "perl", "ssl/openssl.cnf", "fonts"),
)
DEVICES = ("null", "zero", "full", "random", "urandom")
"""All of the system that a command sees, and it can write to none of it but the devices."""

Work = Callable[[], NoReturn]


def main() -> NoReturn:
    job, _ = runner.read_job()
    runner.prctl(runner.PR_SET_CHILD_SUBREAPER, 1)
    wake = woken_by_children()
    guard = os.getpid()
    worker = os.fork()
    if worker == 0:
        signal.set_wakeup_fd(-1)
        work(job, guard)
    os.close(job["channel"])
    status = runner.wait(worker, wake)
    if status is None:
        runner.end_politely(worker)
    runner.end_all()
    os._exit(0 if status is None else runner.code_of(status))


def woken_by_children() -> int:
    """A descriptor that can be read when a child has ended or SIGTERM came."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return wake


def work(job: dict[str, Any], guard: int) -> NoReturn:
    """The command in a session of its own, confined or not; never returns."""
    os.setsid()
    runner.prctl(runner.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.set_inheritable(job["channel"], False)
    threads = runner.threads_of(os.getuid())
    try:
        if job["confine"]:
            confined(job["folder"])
        limits(job["cpu_s"], threads)
        os.chdir(job["folder"])
        os.execve("/bin/sh", ["sh", "-c", job["command"]], job["environment"])  # noqa: S606
    except OSError as error:
        broken(job["channel"], f"{error.strerror or error} ({error.filename or 'the shell'})")


def broken(channel: int, reason: str) -> NoReturn:
    """Nothing was run, and this is why."""
    os.write(channel, json.dumps({"broken": reason}).encode("ascii"))
    os._exit(1)


def limits(cpu_s: float, threads: int) -> None:
    """Caps against accidents; the number of processes counts those the user has already."""
    runner.limit(resource.RLIMIT_CORE, 0)
    runner.limit(resource.RLIMIT_CPU, int(cpu_s))
    runner.limit(resource.RLIMIT_FSIZE, 256 << 20)
    runner.limit(resource.RLIMIT_NOFILE, 1024)
    runner.limit(resource.RLIMIT_AS, 4 << 30)
    if sys.platform == "linux":
        runner.limit(resource.RLIMIT_NPROC, threads + 256)


# -- the sandbox


def confined(folder: str) -> None:
    """Returns in a process that sees only its folder and a read-only system, without a network,
    without any capability; its parent, process 1 in there, ends everything when it ends."""
    if sys.platform != "linux":
        raise OSError(0, "only Linux has namespaces")
    uid, gid = os.getuid(), os.getgid()
    spaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC
    called("unshare", spaces | CLONE_NEWUTS)
    written("/proc/self/setgroups", "deny")
    written("/proc/self/uid_map", f"{uid} {uid} 1")
    written("/proc/self/gid_map", f"{gid} {gid} 1")
    inner = os.fork()
    if inner:
        relay(inner)
    runner.prctl(runner.PR_SET_PDEATHSIG, signal.SIGKILL)
    close_in()
    arrange(folder)
    shell = os.fork()
    if shell:
        first(shell)
    os.setsid()
    drop()


def close_in() -> None:
    """No further namespaces from in here: they would give capabilities back, if only inside."""
    try:
        written("/proc/sys/user/max_user_namespaces", "0")
    except OSError:
        pass  # /proc/sys may be read-only here; what is mounted is locked for them all the same


def relay(inner: int) -> NoReturn:
    """Wait for process 1 of the namespace, which dies with us, and end as it did."""
    _, status = os.waitpid(inner, 0)
    os._exit(runner.code_of(status))


def first(shell: int) -> NoReturn:
    """Process 1: adopts and reaps. The kernel kills all in the namespace when it ends."""
    while True:
        pid, status = os.wait()
        if pid == shell:
            os._exit(runner.code_of(status))


def arrange(folder: str) -> None:
    """A root of our own, with the few things of the system bound into it."""
    root = "/tmp"  # noqa: S108 - any folder that is there; it is hidden, and only in here
    called("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    parents = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    called("mount", b"tmpfs", root.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=1m,mode=755")
    for path in SYSTEM:
        system(path, root + path)
    os.mkdir(root + "/etc")
    for name in ETC:
        system("/etc/" + name, f"{root}/etc/{name}")
    for name in DEVICES:
        bound("/dev/" + name, f"{root}/dev/{name}", 0)
    for path, most in (("/tmp", b"256m"), ("/dev/shm", b"64m")):  # noqa: S108 - made here
        os.makedirs(root + path, exist_ok=True)
        words = b"mode=1777,size=" + most
        called("mount", b"tmpfs", (root + path).encode(), b"tmpfs", MS_NOSUID | MS_NODEV, words)
    os.mkdir(root + "/proc", 0o555)
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    libc().mount(b"proc", f"{root}/proc".encode(), b"proc", flags, None)  # without it, it goes too
    os.makedirs(root + folder, exist_ok=True)
    source = f"/proc/self/fd/{parents}"  # /tmp is covered by now, and may hold the folder
    bound(source, root + folder, ATTR_NOSUID | ATTR_NODEV)
    os.close(parents)
    pivot(root)
    attributes("/", ATTR_RDONLY, 0)


def pivot(root: str) -> None:
    """`root` is `/` from here on, and what was before cannot be reached any more."""
    number = SYS_PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(0, f"pivot_root is not known on {platform.machine()}")
    os.chdir(root)
    checked(libc().syscall(number, b".", b"."), "pivot_root")
    called("umount2", b".", MNT_DETACH)
    os.chdir("/")


def system(source: str, target: str) -> None:
    """Show a part of the system read-only, a link as a link."""
    if os.path.islink(source) and not source.startswith("/etc/"):
        os.symlink(os.readlink(source), target)
    elif os.path.exists(source):
        bound(source, target, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)


def bound(source: str, target: str, attribute: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    source_bytes, target_bytes = os.fsencode(source), os.fsencode(target)
    called("mount", source_bytes, target_bytes, None, MS_BIND | MS_REC, None)
    if attribute:
        attributes(target, attribute, AT_RECURSIVE)


def attributes(path: str, attribute: int, flags: int) -> None:
    """mount_setattr: with AT_RECURSIVE, what is mounted below is read-only, too."""
    words = (ctypes.c_uint64 * 4)(attribute, 0, 0, 0)
    size = ctypes.sizeof(words)
    target = os.fsencode(path)
    result = libc().syscall(SYS_MOUNT_SETATTR, AT_FDCWD, target, flags, ctypes.byref(words), size)
    checked(result, f"mount_setattr {path}")


def drop() -> None:
    """No capability is left, and none can come back."""
    runner.prctl(PR_SET_NO_NEW_PRIVS, 1)
    for number in range(LAST_CAP + 1):
        libc().prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # those the kernel has not are refused
    head = (ctypes.c_uint32 * 2)(CAPSET_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    checked(libc().capset(ctypes.byref(head), ctypes.byref(none)), "capset")


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def called(name: str, *arguments: Any) -> None:
    """A function of libc; OSError where it fails."""
    checked(getattr(libc(), name)(*arguments), name)


def checked(result: int, name: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def written(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
