"""Takes foreign bytes apart in a process of its own, which may never end or eat all memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.executors.script import by_path


async def told_by(script: Path, *arguments: str, data: bytes, limit_s: float) -> dict[str, Any]:
    """The JSON object that `script` prints of `data`. TimeoutError after `limit_s` seconds,
    ValueError where it prints none; it is gone in any case."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-B", *by_path(script, *arguments)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await process.communicate(data)
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.communicate())
    told = json.loads(answer)
    if not isinstance(told, dict):
        raise ValueError("no object")
    return told
