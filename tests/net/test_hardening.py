"""Another program of the same user cannot read our environment; root, who can, is given up."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import ctypes, os, subprocess
from playground.net.keys import PR_SET_DUMPABLE, harden_process
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as in a program just started
def seen():
    done = subprocess.run(["cat", f"/proc/{os.getpid()}/environ"], capture_output=True)
    return b"canary" in done.stdout
print(seen())
harden_process()
print(seen(), "SOME_API_KEY" in os.environ)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's own way")
def test_the_environment_is_read_by_nobody_else() -> None:
    environment = {"PATH": "/usr/bin:/bin", "SOME_API_KEY": "canary"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, timeout=30
    )
    assert done.stdout.split() == ["True", "False", "True"], done.stderr
