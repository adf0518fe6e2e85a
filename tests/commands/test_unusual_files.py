"""Pipes, devices and huge files where a file is named: no command hangs or fills the memory."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from playground import config
from tests.commands.conftest import Typed
from tests.servers import command, environment

MIB = 1 << 20
TOOLS = json.dumps([{"name": "get_time", "description": "The time.", "parameters": {}}])
SPEC = json.dumps(
    {"playground_batch": 1, "tools": ["./pipe"], "cases": [{"id": "a", "prompt": "x"}]}
)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * MIB)
    assert config.read_file(file, MIB, plain=True) == b"x" * MIB
    file.write_bytes(b"x" * (MIB + 1))
    for plain in (False, True):
        with pytest.raises(OSError, match="larger than 1 MiB") as caught:
            config.read_file(file, MIB, plain=plain)
        assert caught.value.errno == errno.EFBIG


@pytest.mark.timeout(20)
def test_a_device_that_never_ends_is_read_up_to_a_size() -> None:
    with pytest.raises(OSError, match="larger than 1 MiB"):
        config.read_file(Path("/dev/zero"), MIB)
    assert config.read_file(Path("/dev/null"), MIB) == b""


@pytest.mark.timeout(20)
def test_a_pipe_is_read_unless_only_plain_files_are(pipe: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        config.read_file(pipe, MIB, plain=True)
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as writer:
        writer.write(TOOLS.encode())
    try:
        assert config.read_file(Path(f"/dev/fd/{read_end}"), MIB) == TOOLS.encode()
    finally:
        os.close(read_end)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("batch", "spec.json", "--dry-run"),
            "names './pipe': Cannot read pipe (it is not a regular",
        ),
        (("batch", "/dev/zero"), "larger than 8 MiB"),
        (("run", "x", "--tools", "/dev/zero"), "larger than 8 MiB"),
        (("lint", "/dev/zero"), "larger than 50 MiB"),
        (("import", "/dev/zero"), "larger than 32 MiB"),
        (("simulate", "--scenario", "/dev/zero"), "larger than 8 MiB"),
        (("run", "x", "--env-file", "/dev/zero"), "larger than 1 MiB"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_refuses_what_never_ends(
    run_cli: Typed, pipe: Path, words: tuple[str, ...], sentence: str
) -> None:
    pipe.with_name("spec.json").write_text(SPEC)
    code, _, error = run_cli(*words)
    assert code == 2
    assert sentence in error


def test_tools_are_read_from_a_pipe_of_the_shell(run_cli: Typed) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as writer:
        writer.write(TOOLS.encode())
    try:
        code, output, error = run_cli("lint", f"/dev/fd/{read_end}")
    finally:
        os.close(read_end)
    assert "get_time" in output, error
    assert code in (0, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_ends_by_a_signal_while_a_pipe_of_tools_says_nothing(
    pipe: Path, number: signal.Signals
) -> None:
    words = ("run", "x", "--tools", "./pipe", "--db", "new.db")
    process = subprocess.Popen(
        command(*words),
        cwd=pipe.parent,
        env=environment(PLAYGROUND_HOME=str(pipe.parent)),
        stderr=subprocess.DEVNULL,
    )
    try:
        with pipe.open("wb"):  # opened once the command reads it
            while process.poll() is None:
                # Python keeps a signal that comes in the very moment before a read begins until
                # that returns; who presses Ctrl-C then presses it again.
                process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (-signal.SIGTERM, 130)
