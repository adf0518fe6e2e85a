"""`playground run`, as typed: the examples of the README, precedence, both outputs, exit codes."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from playground.commands.run import _key
from tests.commands.conftest import Typed
from tests.in_process import LOOP
from tests.net.test_client import Server, serving
from tests.servers import (
    START_S,
    StartServerProcess,
    command,
    environment,
    run_command,
    run_server_process,
)

BOTH = "What is the weather in Paris, and what is 17 * 23?"

REFUSAL = b"HTTP/1.1 503 Busy\r\nRetry-After-Ms: 40\r\nContent-Length: 0\r\n\r\n"

BAD: tuple[tuple[str, ...], ...] = (
    (),
    ("",),
    ("  ",),
    ("x", "--max-turns", "many"),
    ("x", "--max-turns", "0"),
    ("x", "--nonsense"),
    ("x", "--tools", "no_such_group"),
    ("x", "--tools", "./gone.json"),
    ("x", "--tools", "./broken.json"),
    ("x", "--tools", "."),
    ("x", "--tool-choice", "nobody"),
    ("x", "--tool-choice", "required"),
    ("x", "--profile", "nobody"),
    ("x", "--profile", "simulator", "--protocol", "anthropic"),
    ("x", "--protocol", "anthropic"),
    ("x", "--base-url", "http://127.0.0.1:1"),
    ("x", "--protocol", "smtp", "--base-url", "http://127.0.0.1:1", "--model", "m"),
    ("x", "--allow", "nobody", "--tools", "examples"),
    ("x", "--answer", "calculator", "--tools", "examples"),
    ("x", "--env-file", "gone.env"),
    ("x", "--max-tokens", "0"),
    ("x", "--param", "seed"),
    ("x", "--param", "top_k=oops"),
    ("x", "--param", "top_k=NaN"),
    ("x", "--param", "banana=1"),
    ("x", "--max-tokens", "9", "--param", "max_tokens=8"),
    ("x", "--max-tokens", "9", "--param", "max_output_tokens=8"),
)

PLACES = [("127.0.0.1", True), ("localhost", True), ("127.1", False)]
"""Names of this machine; of the last one it cannot be told before it is looked up."""

OPENAI, GROQ = {"OPENAI_API_KEY": "sk-canary"}, {"GROQ_API_KEY": "gsk-canary"}

INT, TERM = signal.SIGINT, signal.SIGTERM

ENDS = [
    ((TERM,), {143}),
    pytest.param((INT,), {130}, marks=pytest.mark.slow),
    pytest.param((INT, TERM), {130, 143}, marks=pytest.mark.slow),
]
"""Signals, one right after the other, and the exit code of a run that is ended by them. Of two that
come at once the system says which was first."""

TWICE = """
import asyncio, os, signal, sys
from playground.commands import run

run.HURRY_S = float(sys.argv[1])

async def slow():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        os.kill(os.getpid(), signal.SIGINT)
        deaf = sys.argv[2:] == ["deaf"]
        for _ in range(3):
            await asyncio.sleep(0.01 if not deaf else 3600)
    return "stopped"

signals = run.StopSignals()
print(asyncio.run(signals.run_until_signal(slow())))
sys.exit(signals.code)
"""
"""A run that is asked to end a second time while it ends."""


def run(cwd: Path, *words: str, prompt: str = BOTH) -> tuple[int, list[dict[str, Any]], str]:
    """(exit code, the events told, what was said on stderr) of `run --json`."""
    done = run_command("run", prompt, "--json", "--db", str(cwd / "run.db"), *words, cwd=cwd)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def run_in_process(
    run_cli: Typed, cwd: Path, *words: str, prompt: str = BOTH
) -> tuple[int, list[dict[str, Any]], str]:
    """The same in this very process, which need not start."""
    code, out, message = run_cli("run", prompt, "--json", "--db", str(cwd / "run.db"), *words)
    return code, [json.loads(line) for line in out.splitlines()], message


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event.get("kind") == kind]


def calls(events: list[dict[str, Any]]) -> list[str]:
    return [data["name"] for data in of(events, "part_started") if data["part_kind"] == "call"]


def test_all_allowed_runs_to_the_end(tmp_path: Path) -> None:
    code, events, message = run(tmp_path, "--tools", "examples", "--allow", "all")
    assert (code, message) == (0, "")
    assert calls(events) == ["get_weather", "calculator"]
    ended = of(events, "call_ended")
    assert all(not data["result"]["is_error"] for data in ended)
    (_, second) = of(events, "request_sent")
    results = json.loads(second["body"])["messages"][-1]["content"]
    result = json.loads(second["body"])["messages"][-2]["content"]
    assert [r["tool_use_id"] for r in results] == [
        m["id"] for m in result if m["type"] == "tool_use"
    ]
    text = "".join(data["text"] for data in of(events, "part_ended")[-1:])
    assert "391" in text
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all({"seq", "at_ms", "kind"} <= event.keys() for event in events)
    assert {
        data["decided_by"] if "decided_by" in data else data["rule"]
        for data in of(events, "call_decided")
    } == {"--allow all"}


def test_no_tool_is_called_where_none_may_be(tmp_path: Path, run_cli: Typed) -> None:
    code, events, _ = run_in_process(
        run_cli, tmp_path, "--tools", "examples", "--tool-choice", "none"
    )
    assert code == 0
    assert not [data for data in of(events, "part_started") if data["part_kind"] == "call"]


def test_a_named_tool_comes_first(tmp_path: Path, run_cli: Typed) -> None:
    code, events, _ = run_in_process(
        run_cli, tmp_path, "--tools", "examples", "--tool-choice", "get_weather", "--allow", "all"
    )
    assert code == 0
    assert calls(events)[0] == "get_weather"
    choices = [data["choice"]["mode"] for data in of(events, "request_sent")]
    assert choices[0] == "tool"
    assert set(choices[1:]) == {"auto"}


def test_parameters_of_the_request_are_named_by_flags(tmp_path: Path, run_cli: Typed) -> None:
    named = ("--max-tokens", "500", "--temperature", "0.5")
    own = ("--param", "top_k=5", "--param", 'stop_sequences=["so"]')
    code, events, _ = run_in_process(run_cli, tmp_path, *named, *own, prompt="hi")
    assert code == 0
    body = json.loads(of(events, "request_sent")[0]["body"])
    assert (body["max_tokens"], body["temperature"]) == (500, 0.5)
    assert (body["top_k"], body["stop_sequences"]) == (5, ["so"])


def test_what_nobody_allowed_waits_for_a_person(tmp_path: Path, run_cli: Typed) -> None:
    code, events, message = run_in_process(run_cli, tmp_path, "--tools", "examples")
    assert code == 3
    assert not of(events, "call_started")
    assert "get_weather (1.1)" in message
    (session,) = json.loads(run_cli("sessions", "--json", "--db", str(tmp_path / "run.db"))[1])
    assert session["state"] == "waiting"
    assert session["id"] in message
    assert session.keys() == {"id", "title", "state", "updated"}


@pytest.mark.parametrize(
    ("flags", "decisions"),
    [
        (["--deny", "all", "--answer", "calculator=5", "--allow", "all"], {"deny"}),
        (["--deny", "calculator", "--allow", "all"], {"deny", "run"}),
        (["--answer", "calculator=5", "--allow", "all"], {"answer", "run"}),
        (["--allow", "all", "--answer", "all=5", "--deny", "get_weather"], {"deny", "answer"}),
    ],
)
def test_deny_before_answer_before_allow(
    tmp_path: Path, run_cli: Typed, flags: list[str], decisions: set[str]
) -> None:
    code, events, _ = run_in_process(run_cli, tmp_path, "--tools", "examples", *flags)
    assert code == 0
    assert {data["decision"] for data in of(events, "call_decided")} == decisions
    assert {data["by"] for data in of(events, "call_decided")} == {"rule"}


def test_what_a_person_reads(run_cli: Typed) -> None:
    code, out, _ = run_cli("run", BOTH, "--tools", "examples", "--allow", "all")
    assert code == 0
    assert '→ calculator {"expression": "17 * 23"}' in out
    assert "← calculator" in out
    assert "391" in out.splitlines()[-1]
    code, _, message = run_cli("run", BOTH, "--tools", "examples")
    assert code == 3
    assert message.startswith("playground: Needs a decision:")
    _, out, _ = run_cli("run", "[[fault:args-ansi]] 17 * 23", "--tools", "examples")
    assert "args-ansi" not in out
    assert "\x1b" not in out


def test_a_failed_run_is_1_and_a_limit_is_3(
    tmp_path: Path, run_cli: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, events, message = run_in_process(run_cli, tmp_path, prompt="[[fault:http-400]] hello")
    assert (code, of(events, "response_failed")[0]["status"]) == (1, 400)
    assert message.startswith("playground: ")
    assert "on the page.\n" in message
    limited = ("--tools", "examples", "--allow", "all", "--max-turns", "2")
    code, events, message = run_in_process(
        run_cli, tmp_path, *limited, prompt="[[fault:loop]] 17 * 23"
    )
    assert (code, events[-1]["kind"], events[-1]["limit"]) == (3, "run_paused", "max_turns")
    assert message.startswith(f"playground: {events[-1]['message']} Open session ")
    assert events[-1]["message"].startswith("2 turns were made, which is the limit")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, events, _ = run_in_process(run_cli, tmp_path, "--profile", "openai")
    assert (code, of(events, "response_failed")[0]["failure"]) == (1, "no_key")
    code, _, message = run_in_process(run_cli, tmp_path, "--profile", "lmstudio")
    assert (code, message.splitlines()[0]) == (1, "playground: No model is named. Choose one.")


@contextmanager
def provided(answer: bytes) -> Iterator[Server]:
    """A provider that says this to everybody, in a thread of its own: a command has the loop of
    ours."""
    with (
        start_blocking_portal(backend_options=LOOP) as portal,
        portal.wrap_async_context_manager(serving(answer)) as provider,
    ):
        yield provider


def test_a_run_waits_for_its_retries(tmp_path: Path, run_cli: Typed) -> None:
    with provided(REFUSAL) as provider:
        words = ("--protocol", "openai_chat", "--base-url", provider.url, "--model", "m")
        code, _, errors = run_cli("run", "hi", *words)
        assert code == 1
        messages = [line for line in errors.splitlines() if "Trying again" in line]
        assert messages == [
            "playground: Trying again in 0.04 s (1 of 2): 503.",
            "playground: Trying again in 0.04 s (2 of 2): 503.",
        ]
        code, events, said_beside = run_in_process(run_cli, tmp_path, *words, prompt="hi")
        assert "Trying again" not in said_beside
        assert len(provider.seen) == 6
    assert code == 1
    assert [data["attempt"] for data in of(events, "retry_scheduled")] == [1, 2]
    assert [data["automatic"] for data in of(events, "turn_dropped")] == [True, True]
    assert events[-1]["kind"] == "response_failed"


def test_tools_of_a_file(tmp_path: Path, run_cli: Typed) -> None:
    tool = {"name": "echo", "parameters": {"type": "object"}, "config": {"result": "hello"}}
    for text in (
        json.dumps(tool),
        json.dumps([tool]),
        json.dumps(tool) + "\n" + json.dumps({**tool, "name": "b"}),
    ):
        (tmp_path / "tools.json").write_text(text)
        code, events, _ = run_in_process(
            run_cli, tmp_path, "--tools", "./tools.json", "--tool-choice", "echo", "--allow", "all"
        )
        assert code == 0
        assert of(events, "call_ended")[0]["result"]["content"][0]["text"] == "hello"


@pytest.mark.slow
def test_through_the_server_that_owns_the_database(tmp_path: Path, run_cli: Typed) -> None:
    here = run_in_process(run_cli, tmp_path, "--tools", "examples", "--allow", "all")
    with run_server_process(tmp_path / "run.db", PLAYGROUND_PACE="0"):
        there = run_in_process(run_cli, tmp_path, "--tools", "examples", "--allow", "all")
        assert run_in_process(run_cli, tmp_path, "--tools", "examples")[0] == 3
        assert run_in_process(run_cli, tmp_path, "--tool-choice", "nobody")[0] == 2
        listed = run_cli("sessions", "--json", "--db", str(tmp_path / "run.db"))[1]
        states = [load["state"] for load in json.loads(listed)]
        assert states == ["waiting", "idle", "idle"]
        with provided(REFUSAL) as provider:
            words = ("--protocol", "openai_chat", "--base-url", provider.url, "--model", "m")
            code, events, _ = run_in_process(run_cli, tmp_path, *words, prompt="hi")
            assert len(provider.seen) == 3
        assert (code, len(of(events, "response_failed"))) == (1, 3)
    assert here[0] == there[0] == 0
    assert [data["kind"] for data in here[1] if data["kind"] != "part_delta"][:6] == [
        data["kind"] for data in there[1] if data["kind"] != "part_delta"
    ][:6]
    assert calls(here[1]) == calls(there[1])
    assert [data["seq"] for data in there[1]] == list(range(1, len(there[1]) + 1))


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_wrong_usage_is_one_sentence(
    tmp_path: Path, run_cli: Typed, words: tuple[str, ...]
) -> None:
    (tmp_path / "broken.json").write_text('{"name": ')
    code, out, message = run_cli("run", *words, "--json")
    assert code == 2
    assert message.startswith("playground: ")
    assert message.count("\n") == 1
    assert message.rstrip().endswith(".")
    assert json.loads(out)["error"] == message.removeprefix("playground: ").rstrip("\n")
    path = tmp_path / "home" / "playground.db"
    if path.exists():
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


@pytest.mark.parametrize(("host", "sent"), PLACES)
def test_a_typed_address_gets_the_key_but_not_over_plain_http(
    run_cli: Typed, monkeypatch: pytest.MonkeyPatch, host: str, sent: bool
) -> None:
    key = "sk-canary-0123456789"
    with provided(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as provider:
        url = provider.url.replace("127.0.0.1", host)
        words = ("--protocol", "openai_chat", "--base-url", url, "--model", "m")
        monkeypatch.setenv("OPENAI_API_KEY", key)
        code, _, message = run_cli("run", "hi", *words)
        monkeypatch.delenv("OPENAI_API_KEY")
        code_without, _, said_without = run_cli("run", "hi", *words)
        assert code == code_without == 1
        with_key, without = provider.seen
    assert (f"Bearer {key}".encode() in with_key, b"uthorization" in without) == (sent, False)
    assert ("OPENAI_API_KEY was not sent to" in message) is not sent
    assert "is not sent" not in said_without


@pytest.mark.parametrize(
    ("url", "environ", "name"),
    [
        ("https://api.groq.com/openai/v1", OPENAI, None),
        ("https://api.groq.com/openai/v1", OPENAI | GROQ, "GROQ_API_KEY"),
        ("https://api.anthropic.com", OPENAI, None),
        ("https://mine.openai.azure.com/openai/v1", OPENAI, None),
        ("https://api.openai.com/v1", OPENAI | GROQ, "OPENAI_API_KEY"),
        ("https://my.example/v1", OPENAI | GROQ, "OPENAI_API_KEY"),
        ("https://my.example/v1", GROQ, None),
        ("http://api.groq.com/openai/v1", OPENAI | GROQ, ""),
    ],
)
def test_a_vendor_s_address_never_gets_another_vendor_s_key(
    url: str, environ: dict[str, str], name: str | None
) -> None:
    assert _key("openai_chat", url, environ).get("key_name") == name


def interrupted(
    cwd: Path, run_cli: Typed, *words: str, signals: tuple[signal.Signals, ...]
) -> tuple[int, str, str]:
    """(exit code, the session, what was said) of a run that is ended by `signals` while a tool is
    at work."""
    code = "def wait():\n    import time\n    print('begun', flush=True)\n    time.sleep(600)\n"
    (cwd / "slow.py").write_text(code)
    tool = {
        "name": "wait",
        "answered_by": "python",
        "config": {"file": "slow.py", "function": "wait"},
    }
    (cwd / "slow.json").write_text(json.dumps(tool))
    flags = ("--tools", "./slow.json", "--tool-choice", "wait", "--allow", "all", *words)
    with subprocess.Popen(
        command("run", "wait", "--json", *flags),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(PLAYGROUND_HOME=str(cwd / "home")),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "begun" not in (line := process.stdout.readline()):
            assert line, process.stderr.read()
        for signal in signals:
            process.send_signal(signal)
        message = process.communicate(timeout=START_S)[1]
    listed, *_ = json.loads(run_cli("sessions", "--json", *words)[1])
    assert listed["state"] == "interrupted"
    return process.returncode, listed["id"], message


@pytest.mark.slow
@pytest.mark.parametrize(("signals", "codes"), ENDS)
def test_a_run_that_is_ended_says_where_the_session_waits(
    tmp_path: Path, run_cli: Typed, signals: tuple[signal.Signals, ...], codes: set[int]
) -> None:
    ended, session, message = interrupted(tmp_path, run_cli, signals=signals)
    assert ended in codes
    assert message == (
        f"playground: The run was stopped. It is session {session}. To continue, start: "
        "playground serve\n"
    )


@pytest.mark.slow
def test_it_stops_the_run_on_the_server_too(
    tmp_path: Path, run_cli: Typed, start_server_process: StartServerProcess
) -> None:
    server = start_server_process(db=tmp_path / "run.db", PLAYGROUND_PACE="0")
    ended, session, message = interrupted(tmp_path, run_cli, "--db", "run.db", signals=(INT,))
    assert ended == 130
    place = f"{server.url}/sessions/{session}"
    assert (
        message
        == f"playground: The run was stopped. It is session {session}. Continue it at {place}\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "out"),
    [
        (("3600",), "stopped\n"),
        pytest.param(("0.01", "deaf"), "", marks=pytest.mark.slow),
    ],
)
def test_a_second_ctrl_c_leaves_a_moment_to_end_and_not_longer(
    words: tuple[str, ...], out: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWICE, *words], capture_output=True, text=True, timeout=START_S
    )
    assert (done.returncode, done.stdout) == (130, out)
    assert done.stderr.count("\n") == (0 if out else 1)
    assert out or done.stderr.startswith("playground: The program ended before the run")
