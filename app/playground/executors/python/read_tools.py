"""Imports a user's file and lists its tools, with the schemas that their frameworks give.

Loaded by `runner.py` like a user's file, in a process of its own, so it must not import anything
of this program. The file is imported as it is for a call (`runner.LoadedFile`).
"""

from __future__ import annotations

import hashlib
import json
import os

from __main__ import CallFailure, LoadedFile, bytes_of, failure_of, frameworks


def read(path: str, digest: str) -> str:
    """The tools of the file at the absolute `path`, as JSON (`frameworks.tools_of`). `digest` is
    the SHA-256 of what its text was taken from, or "". CallFailure,
    with the lines of the file that lead to it, if it cannot be imported or listed."""
    os.chdir(os.path.dirname(path))
    file = LoadedFile(path)
    try:
        file.source = bytes_of(path)
        if digest and hashlib.sha256(file.source).hexdigest() != digest:
            raise CallFailure(f"{path} has just changed and was not run. Read it again.")
        file.load()
        return json.dumps(frameworks().tools_of(file.module, file.source))
    except BaseException as error:  # SystemExit comes from the file, too
        raise CallFailure(failure_of(error, path, file.where)["result"]) from None
