"""The tools as calls: what each gives, and each numbered error."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.tools import Tool
from playground.executors.workspace import CODES
from tests.executors.workspace.working import TOOLS, Working

pytestmark = pytest.mark.anyio

ERRORS: list[tuple[str, str, dict[str, Any]]] = [
    ("E1", "write_file", {"path": "there.txt", "content": "x"}),
    ("E1", "edit_file", {"path": "there.txt", "old": "there", "new": "x"}),
    ("E2", "edit_file", {"path": "changed.txt", "old": "a", "new": "b"}),
    ("E2", "write_file", {"path": "changed.txt", "content": "b"}),
    ("E2", "edit_file", {"path": "swapped.txt", "old": "same size", "new": "b"}),
    ("E3", "edit_file", {"path": "read.txt", "old": "absent", "new": "b"}),
    ("E3", "edit_file", {"path": "read.txt", "old": "", "new": "b"}),
    ("E4", "edit_file", {"path": "read.txt", "old": "twice", "new": "b"}),
    ("E5", "read_file", {"path": "../outside.txt"}),
    ("E5", "read_file", {"path": "/etc/passwd"}),
    ("E5", "read_file", {"path": "~/x"}),
    ("E5", "read_file", {"path": "a\0b"}),
    ("E5", "read_file", {"path": "half \ud800"}),
    ("E5", "read_file", {"path": "/".join("a" * 60)}),
    ("E5", "list_files", {"path": "a/../.."}),
    ("E6", "read_file", {"path": "absent.txt"}),
    ("E6", "read_file", {"path": "x" * 300}),
    ("E6", "edit_file", {"path": "absent.txt", "old": "a", "new": "b"}),
    ("E6", "list_files", {"path": "absent"}),
    ("E7", "read_file", {"path": "folder"}),
    ("E7", "read_file", {"path": "."}),
    ("E7", "read_file", {"path": "there.txt/below"}),
    ("E7", "write_file", {"path": "folder", "content": ""}),
    ("E7", "write_file", {"path": "", "content": ""}),
    ("E7", "read_file", {"path": "pipe"}),
    ("E8", "read_file", {"path": "large.txt"}),
    ("E8", "read_file", {"path": "large.png"}),
    ("E8", "write_file", {"path": "new.txt", "content": "é" * (6 * 1024 * 1024)}),
    ("E9", "read_file", {"path": "bytes.bin"}),
    ("E9", "read_file", {"path": "nul.txt"}),
    ("E9", "read_file", {"path": "broken.pdf"}),
    ("E9", "read_file", {"path": "broken.ipynb"}),
    ("E9", "write_file", {"path": "new.txt", "content": "half \ud800"}),
    ("E10", "edit_file", {"path": "read.txt", "old": "once", "new": "once"}),
    ("E10", "write_file", {"path": "read.txt", "content": "once twice twice"}),
    ("E11", "search_files", {"pattern": "("}),
    ("E11", "search_files", {"pattern": "(?=a)"}),
    ("E11", "read_file", {"path": "read.txt", "offset": 9}),
    ("E11", "read_file", {"path": "read.txt", "pages": "1"}),
    ("E12", "read_task", {"task_id": "task-9-9"}),
    ("E12", "stop_task", {"task_id": "task-9-9"}),
    ("E14", "fetch_url", {"url": "file:///etc/passwd"}),
]

SAFE: list[tuple[str, dict[str, Any], bool]] = [
    ("read_file", {"path": "a"}, True),
    ("list_files", {}, True),
    ("search_files", {"pattern": "a"}, True),
    ("fetch_url", {"url": "https://example.com"}, True),
    ("write_file", {"path": "a", "content": ""}, False),
    ("edit_file", {"path": "a", "old": "b", "new": "c"}, False),
    ("run_shell", {"command": "ls -la"}, True),
    ("run_shell", {"command": "ls > x"}, False),
    ("run_shell", {"command": "ls", "background": True}, False),
    ("run_shell", {"command": 3}, False),
    ("stop_task", {"task_id": "x"}, False),
    ("read_task", {"task_id": "x"}, False),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Working:
    return Working(tmp_path / "files" / "s")


async def test_write_read_edit(workspace: Working) -> None:
    assert await workspace.text("write_file", path="src/a.py", content="one\ntwo\n") == (
        "Made src/a.py, 2 lines."
    )
    assert await workspace.text("read_file", path="./src//a.py") == "     1→one\n     2→two"
    changed = await workspace.text("edit_file", path="src/a.py", old="two", new="2")
    assert changed == "Changed src/a.py.\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n "
    assert (workspace.folder / "src/a.py").read_text() == "one\n2\n"
    assert (workspace.folder.stat().st_mode & 0o777, os.listdir(workspace.folder / "src")) == (
        0o700,
        ["a.py"],
    )


async def filled(workspace: Working) -> None:
    """One file for each error."""
    folder = workspace.folder
    folder.mkdir(parents=True)
    for name in ("there", "changed"):
        (folder / f"{name}.txt").write_text(name)
    (folder / "swapped.txt").write_text("same size")
    (folder / "read.txt").write_text("once twice twice")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "large.txt").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    (folder / "large.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * (1 << 20))
    (folder / "bytes.bin").write_bytes(b"\xff\xfe\x00\x01")
    (folder / "nul.txt").write_bytes(b"a\0b")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing more")
    (folder / "broken.ipynb").write_text('{"cells": [3]}')
    for name in ("changed", "swapped", "read"):
        await workspace.text("read_file", path=f"{name}.txt")
    (folder / "changed.txt").write_text("changed since")
    before = (folder / "swapped.txt").stat()
    (folder / "swapped.txt").write_text("SAME SIZE")
    os.utime(folder / "swapped.txt", ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_each_error_has_its_number(workspace: Working) -> None:
    await filled(workspace)
    for code, name, arguments in ERRORS:
        assert (await workspace.code(name, **arguments), name, arguments) == (code, name, arguments)
    # E13 is whatever the system refuses; test_shell and test_folder meet it.
    assert {code for code, _, _ in ERRORS} | {"E13"} == set(CODES)
    assert (workspace.folder / "read.txt").read_text() == "once twice twice"


async def test_an_edit_of_every_place_and_what_is_known_after_it(workspace: Working) -> None:
    await filled(workspace)
    text = await workspace.text(
        "edit_file", path="read.txt", old="twice", new="thrice", replace_all=True
    )
    assert text.startswith("Changed read.txt in 2 places.")
    assert "known" in (await workspace.text("edit_file", path="read.txt", old="once", new="known"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {}),
        ("read_file", {"path": 3}),
        ("read_file", {"path": "a", "offset": 0}),
        ("read_file", {"path": "a", "offset": 1.5}),
        ("read_file", {"path": "a", "limit": True}),
        ("edit_file", {"path": "a", "old": "b", "new": "c", "replace_all": "yes"}),
        ("run_shell", {"command": "true", "timeout_s": 10_000}),
        ("run_shell", {"command": "a\0b"}),
    ],
)
async def test_arguments_that_do_not_fit_are_told(
    workspace: Working, name: str, arguments: dict[str, Any]
) -> None:
    result = await workspace.call(name, **arguments)
    assert (result.is_error, result.kind) == (True, "invalid")


async def test_an_unknown_tool_and_every_shipped_one(workspace: Working) -> None:
    call = workspace.invocation("read_file", {"path": "a"})
    tool = Tool("x", answered_by="workspace", config={"tool": "nothing"})
    result = await workspace.run(replace(call, tool=tool))
    assert "Correct the tool's config.tool" in result.text
    for name, shipped in TOOLS.items():
        assert shipped.config == {"tool": name}
        assert shipped.group == "workspace"


async def test_what_may_run_beside_others(workspace: Working) -> None:
    for name, arguments, safe in SAFE:
        text = json.dumps(arguments)
        with anyio.fail_after(30):
            checked = await workspace.executors.check_before_run("s", TOOLS[name], text)
        assert (name, arguments, checked.parallel_safe) == (name, arguments, safe)
        assert name == "run_shell" or checked.problems == ()


async def test_writes_from_all_sides_lose_no_change(workspace: Working) -> None:
    with anyio.fail_after(60):
        await asyncio.gather(
            *(workspace.text("write_file", path=f"{n}.txt", content="x") for n in range(20))
        )
    work = workspace.workspace
    changes = work.history("s", workspace.folder, lambda history: history.changes)
    assert sorted(change.number for change in changes) == list(range(1, 21))
