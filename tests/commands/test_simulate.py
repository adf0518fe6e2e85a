"""`playground simulate`: one line, an answer, and an end by signal."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import httpx

from tests.served import END_S, command, environment, ran


def test_it_answers_and_ends(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("simulate", "--pace", "0"),
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    url = line.split(" on ")[1].split()[0]
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    answer = httpx.post(
        url + "/openai/v1/chat/completions",
        json=body,
        headers={"authorization": "Bearer any"},
        timeout=30,
        trust_env=False,
    )
    assert answer.json()["choices"][0]["finish_reason"] == "stop"
    process.send_signal(signal.SIGTERM)
    assert process.wait(END_S) == 0
    assert process.stdout.read() == ""
    process.stdout.close()


def test_a_script_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for name in ("gone.json", "bad.json"):
        done = ran("simulate", "--scenario", name, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
