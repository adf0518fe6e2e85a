"""`confined.py` on a system that refuses namespaces."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../app")))

from playground.executors.workspace import confined


def deny_access(name: str, *arguments: object) -> None:
    raise OSError(1, os.strerror(1), name)


confined.call_libc = deny_access
confined.main()
