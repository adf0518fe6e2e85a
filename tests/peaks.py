"""How much memory a piece of work takes at the most."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_of(work: Callable[[], Any]) -> int:
    """Bytes that Python had allocated at once while `work` ran, beyond what there was before."""
    tracemalloc.start()
    try:
        work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak
