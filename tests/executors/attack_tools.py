"""A person's file as it should not be: what a tool may do by accident or by malice.

Run by the tests from a copy in a folder of their own. Where the tests run as root, a tool gives
root up first: root stands above the limits that are to be seen at work.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass


def drop():
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def fine(city, unit="celsius"):
    return f"{city} in {unit}"


def sleeper(report):
    report("ready", 0.5)
    time.sleep(600)


def endless(report):
    drop()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report("ready")
    while True:
        pass


def orphan(report):
    drop()
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    subprocess.run(["sh", "-c", "sleep 600 & sleep 600 &"], start_new_session=True, check=True)
    report("ready")
    time.sleep(600)


def leaver():
    """Ends well, and leaves a child behind that holds every pipe open."""
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    return "left one behind"


def storm(report):
    drop()
    report("ready")
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


def fork_until_refused():
    drop()
    children = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(600)
            children += 1
    except BlockingIOError:
        return children


def guard_stopper(report):
    os.kill(os.getppid(), signal.SIGSTOP)
    report("ready")
    time.sleep(600)


def flood():
    while True:
        print("x" * 1000)


def quiet_flood():
    os.write(2, b"y" * 5_000_000)


def large(size):
    return "z" * int(size)


def memory():
    return len(bytearray(64 << 30))


def environment():
    return dict(os.environ)


def importer():
    try:
        import app
    except ModuleNotFoundError:
        return "no app"
    return app.__file__


def raiser():
    raise LookupError("nothing \ud800 there")


def leaves():
    sys.exit("I am off")


def crashes():
    print("about to crash", file=sys.stderr)
    os._exit(3)


def segfaults():
    os.kill(os.getpid(), signal.SIGSEGV)


def impossible():
    return float("nan")


@dataclass
class Point:
    x: int
    tags: set


def odd_values():
    return {"point": Point(1, {"b", "a"}), "path": os.PurePath("a/b") if False else "a/b"}


async def asynchronous(number):
    return {"double": 2 * number}


def chatty(report):
    print("first")
    print("second", flush=True)
    report("half", 0.5)
    report("out of range", 7)
    return "done"


def own_report(report):
    return f"the model wrote {report}"


def threads():
    thread = threading.Thread(target=time.sleep, args=(600,))
    thread.start()
    return "did not wait"
