"""`playground verify`: one line a difference, a line of sums, and its exit codes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from playground.store.database import OwnerLock
from tests.commands.conftest import Typed
from tests.servers import run_command


def test_verify(tmp_path: Path, run_cli: Typed) -> None:
    assert run_cli("run", "hello there", "--db", "a.db")[0] == 0
    done = run_command("verify", "--db", "a.db", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("1 session, 1 recording, ")
    assert done.stdout.endswith("0 differences; list and search rebuilt (nothing stale).\n")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("UPDATE events SET stop = stop + 1 WHERE kind = 'response_ended'")
        connection.commit()
    code, out, _ = run_cli("verify", "--db", "a.db", "--json")
    data = json.loads(out)
    assert (code, data["recordings"], data["mended"]) == (1, 1, 0)
    (item,) = data["differences"]
    assert item["recording"] == 1
    lock = OwnerLock(tmp_path / "a.db")
    lock.take()
    code, out, _ = run_cli("verify", "--db", "a.db")
    lock.release()
    first, last = out.splitlines()
    assert first == f"{item['session']}:1: {item['says']}"
    assert code == 1
    assert "nothing was written" in last


def test_a_database_that_is_not_there(tmp_path: Path, run_cli: Typed) -> None:
    code, _, output = run_cli("verify", "--db", "gone.db")
    assert (code, output.count("--db FILE")) == (2, 1)
    assert not (tmp_path / "gone.db").exists()
