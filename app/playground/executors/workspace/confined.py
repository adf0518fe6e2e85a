"""Runs one shell command, in a process of its own: the guard. The other side is `shell.py`.

Its stdin brings one JSON line, the job, and is its lifeline: when it closes, all processes are
ended. With `confine` the command gets new user, mount, network, process and IPC namespaces: no
network, the system read-only, its folder writable, nothing else visible. If started by root it runs
as a user that owns nothing here, if its folder can be mapped to one (an idmapped mount). If no
namespaces can be made nothing is run, and the reason is sent on the channel. Linux 5.12 or newer;
standard library only.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # By path: modules in this folder must not shadow others, and `playground` must be found.
    sys.path[:1] = [os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 3))]

import ctypes
import json
import platform
import resource
import signal
from typing import Any, NoReturn

from playground.executors.python import runner

if __name__ == "__main__":
    sys.path[:1] = []

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_IDMAP = 1, 2, 4, 1 << 20
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 4
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "armv7l": 311, "s390x": 280}
KEYCTL_JOIN_SESSION_KEYRING = 1
NO_OWNER = 65533
"""The user outside of the sandbox for a command of root; not `nobody`, who may own files."""
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
"""All of the system that a command sees; it cannot write to any of it except the devices."""


def main() -> NoReturn:
    job, _ = runner.read_job(0)
    if job is None:
        os._exit(0)
    runner.prctl(runner.PR_SET_CHILD_SUBREAPER, 1)
    wake = wakeup_descriptor()
    guard = os.getpid()
    worker = os.fork()
    if worker == 0:
        signal.set_wakeup_fd(-1)
        work(job, guard)
    os.close(job["channel"])
    status = runner.wait(worker, wake)
    if status is None:
        runner.terminate(worker)
    runner.end_all()
    os._exit(0 if status is None else runner.code_of(status))


def wakeup_descriptor() -> int:
    """A descriptor that becomes readable when a child has ended or SIGTERM came."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return wake


def work(job: dict[str, Any], guard: int) -> NoReturn:
    """Runs the command in a session of its own, confined or not; never returns."""
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
            threads = enter_sandbox(job["folder"], guard, threads)
        set_limits(job["cpu_s"], threads)
        os.chdir(job["folder"])
        os.execve("/bin/sh", ["sh", "-c", job["command"]], job["environment"])  # noqa: S606
    except OSError as error:
        report_failure(
            job["channel"], f"{error.strerror or error} ({error.filename or 'the shell'})"
        )


def report_failure(channel: int, reason: str) -> NoReturn:
    """Reports why nothing was run."""
    os.write(channel, json.dumps({"broken": reason}).encode("ascii"))
    os._exit(1)


def set_limits(cpu_s: float, threads: int) -> None:
    """Limits against accidents; the number of processes includes those the user has already."""
    runner.limit(resource.RLIMIT_CORE, 0)
    runner.limit(resource.RLIMIT_CPU, int(cpu_s))
    runner.limit(resource.RLIMIT_FSIZE, 256 << 20)
    runner.limit(resource.RLIMIT_NOFILE, 1024)
    runner.limit(resource.RLIMIT_AS, 4 << 30)
    if sys.platform == "linux":
        runner.limit(resource.RLIMIT_NPROC, threads + 256)


# -- the sandbox


def enter_sandbox(folder: str, guard: int, threads: int) -> int:
    """Returns in a process that sees only its folder and a read-only system, without a network,
    without any capability; its parent, process 1 of the namespace, ends everything when it ends.

    `threads` are those of the user who runs us; returns the number for the user it is now.
    """
    if sys.platform != "linux":
        raise OSError(0, "only Linux has namespaces")
    loan = idmapped_folder(folder) if os.getuid() == 0 else None
    spaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    if loan is None:
        uid, gid = os.getuid(), os.getgid()
        call_libc("unshare", CLONE_NEWUSER | spaces)
        write_file("/proc/self/setgroups", "deny")
        write_file("/proc/self/uid_map", f"{uid} {uid} 1")
        write_file("/proc/self/gid_map", f"{gid} {gid} 1")
        tree = None
    else:
        space, tree = loan
        os.setgroups([])
        call_libc("setns", space, CLONE_NEWUSER)
        os.close(space)
        call_libc("unshare", spaces)
        os.setresgid(0, 0, 0)  # 0 inside, NO_OWNER outside
        os.setresuid(0, 0, 0)
        threads = 0
        runner.prctl(runner.PR_SET_PDEATHSIG, signal.SIGKILL)  # was reset by the change of user
        if os.getppid() != guard:
            os._exit(1)
    inner = os.fork()
    if inner:
        relay(inner)
    runner.prctl(runner.PR_SET_PDEATHSIG, signal.SIGKILL)
    forbid_namespaces()
    mount_root(folder, tree)
    shell = os.fork()
    if shell:
        reap_children(shell)
    os.setsid()
    drop_capabilities()
    return threads


def idmapped_folder(folder: str) -> tuple[int, int] | None:
    """A user namespace whose root is NO_OWNER outside, and `folder` as a detached mount on which
    files of root belong to that user; both as descriptors. None if the system or the file system
    does not support it: then the command is root outside as well."""
    try:
        if os.stat(folder).st_uid != 0:
            return None
        space = namespace_of(NO_OWNER)
        flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC
        tree = int(libc().syscall(SYS_OPEN_TREE, AT_FDCWD, os.fsencode(folder), flags))
        check_result(min(tree, 0), "open_tree")
        set_mount_attributes("", ATTR_IDMAP | ATTR_NOSUID | ATTR_NODEV, AT_EMPTY_PATH, tree, space)
    except OSError:
        return None
    return space, tree


def namespace_of(outside: int) -> int:
    """A user namespace in which 0 is the user and group `outside`, as a descriptor."""
    ready, wake = os.pipe()
    child = os.fork()
    if child == 0:
        runner.prctl(runner.PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            call_libc("unshare", CLONE_NEWUSER)
            os.write(wake, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(wake)
    try:
        if os.read(ready, 1) != b"1":
            raise OSError(0, "no user namespace")
        for name in ("uid_map", "gid_map"):
            write_file(f"/proc/{child}/{name}", f"0 {outside} 1")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    finally:
        os.close(ready)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def forbid_namespaces() -> None:
    """Prevents further namespaces inside: they would give capabilities back, if only there."""
    try:
        write_file("/proc/sys/user/max_user_namespaces", "0")
    except OSError:
        pass  # /proc/sys may be read-only here; mounts are locked for them anyway


def relay(inner: int) -> NoReturn:
    """Waits for process 1 of the namespace, which dies with us, and exits like it."""
    _, status = os.waitpid(inner, 0)
    os._exit(runner.code_of(status))


def reap_children(shell: int) -> NoReturn:
    """Process 1: adopts and reaps. The kernel kills all in the namespace when it ends."""
    while True:
        pid, status = os.wait()
        if pid == shell:
            os._exit(runner.code_of(status))


def mount_root(folder: str, tree: int | None) -> None:
    """A root of our own, with the few parts of the system mounted into it; `tree` is the folder if
    it is idmapped."""
    root = "/tmp"  # noqa: S108 - any folder that is there; it is hidden, and only in here
    call_libc("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    # Opened now: mounting `root` may hide the folder.
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY) if tree is None else tree
    call_libc("mount", b"tmpfs", root.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=1m,mode=755")
    for path in SYSTEM:
        mount_system(path, root + path)
    os.mkdir(root + "/etc")
    for name in ETC:
        mount_system("/etc/" + name, f"{root}/etc/{name}")
    for name in DEVICES:
        # Read-only, it can still be written to, but its mode and owner cannot be changed.
        bind_mount("/dev/" + name, f"{root}/dev/{name}", ATTR_RDONLY | ATTR_NOSUID)
    for path, most in (("/tmp", b"256m"), ("/dev/shm", b"64m")):  # noqa: S108 - made here
        os.makedirs(root + path, exist_ok=True)
        words = b"mode=1777,size=" + most
        call_libc("mount", b"tmpfs", (root + path).encode(), b"tmpfs", MS_NOSUID | MS_NODEV, words)
    os.mkdir(root + "/proc", 0o555)
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    # Processes only: root may write to all the rest of /proc. If that fails, there is no /proc.
    libc().mount(b"proc", f"{root}/proc".encode(), b"proc", flags, b"subset=pid")
    os.makedirs(root + folder, exist_ok=True)
    if tree is None:
        bind_mount(f"/proc/self/fd/{opened}", root + folder, ATTR_NOSUID | ATTR_NODEV)
    else:
        attach_mount(tree, root + folder)
    os.close(opened)
    pivot(root)
    set_mount_attributes("/", ATTR_RDONLY, 0)


def pivot(root: str) -> None:
    """Makes `root` the new `/`; the old one becomes unreachable."""
    number = SYS_PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(0, f"pivot_root is not known on {platform.machine()}")
    os.chdir(root)
    check_result(libc().syscall(number, b".", b"."), "pivot_root")
    call_libc("umount2", b".", MNT_DETACH)
    os.chdir("/")


def mount_system(source: str, target: str) -> None:
    """Mounts a part of the system read-only; recreates a link as a link."""
    if os.path.islink(source) and not source.startswith("/etc/"):
        os.symlink(os.readlink(source), target)
    elif os.path.exists(source):
        bind_mount(source, target, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)


def bind_mount(source: str, target: str, attribute: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    source_bytes, target_bytes = os.fsencode(source), os.fsencode(target)
    call_libc("mount", source_bytes, target_bytes, None, MS_BIND | MS_REC, None)
    if attribute:
        set_mount_attributes(target, attribute, AT_RECURSIVE)


def set_mount_attributes(
    path: str, attribute: int, flags: int, start: int = AT_FDCWD, space: int = 0
) -> None:
    """mount_setattr: with AT_RECURSIVE, submounts become read-only, too."""
    words = (ctypes.c_uint64 * 4)(attribute, 0, 0, space)
    size = ctypes.sizeof(words)
    target = os.fsencode(path)
    result = libc().syscall(SYS_MOUNT_SETATTR, start, target, flags, ctypes.byref(words), size)
    check_result(result, f"mount_setattr {path}")


def attach_mount(tree: int, target: str) -> None:
    """Mounts `tree`."""
    there, flags = os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH
    check_result(libc().syscall(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, there, flags), "move_mount")


def drop_capabilities() -> None:
    """Drops all capabilities for good, and the keyring of our parent process."""
    runner.prctl(PR_SET_NO_NEW_PRIVS, 1)
    keyctl = SYS_KEYCTL.get(platform.machine())
    if keyctl is not None:
        libc().syscall(keyctl, KEYCTL_JOIN_SESSION_KEYRING, None)
    for number in range(LAST_CAP + 1):
        libc().prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # those unknown to the kernel are refused
    head = (ctypes.c_uint32 * 2)(CAPSET_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    check_result(libc().capset(ctypes.byref(head), ctypes.byref(none)), "capset")


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call_libc(name: str, *arguments: Any) -> None:
    """A function of libc; OSError if it fails."""
    check_result(getattr(libc(), name)(*arguments), name)


def check_result(result: int, name: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def write_file(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
