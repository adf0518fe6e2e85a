"""`playground batch`, as typed: what it prints and writes, how it goes on, its exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from playground.batch.batches import Batches
from playground.commands.cluster_worker import run_case
from tests.commands.conftest import Typed
from tests.servers import command, environment

TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
    "config": {"result": "12 degrees"},
}
PARIS = {
    "id": "paris",
    "prompt": "What is the weather in Paris?",
    "expect": [{"called": "get_weather", "arguments": {"subset": {"city": "Paris"}}}],
}
OSLO = {**PARIS, "id": "oslo", "prompt": "What is the weather in Oslo?"}


def write(folder: Path, *cases: dict[str, Any], **more: Any) -> None:
    spec = {"playground_batch": 1, "tools": [TOOL], "cases": list(cases), **more}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_what_it_prints_and_the_files_that_it_writes(run_cli: Typed, tmp_path: Path) -> None:
    write(tmp_path, PARIS, OSLO)
    forms = ("junit", "csv", "html", "markdown")
    files = [word for form in forms for word in (f"--{form}", f"report.{form}")]
    code, out, output = run_cli("batch", "spec.yaml", *files)
    assert code == 1
    assert "failed: oslo · default · simulator · 1" in out
    assert "2 of 2 runs: 1 passed, 1 failed" in output
    suites = ET.parse(tmp_path / "report.junit").getroot()
    assert [case.get("name") for case in suites.iter("testcase")] == ["paris", "oslo"]
    assert all("oslo" in (tmp_path / f"report.{form}").read_text() for form in forms)
    code, out, _ = run_cli("batch", "spec.yaml", "--json", "--filter", "par*")
    assert code == 0
    started, run, ended = objects(out)
    assert [each["kind"] for each in (started, run, ended)] == [
        *("batch_started", "run_ended", "batch_ended")
    ]
    assert started["id"] == ended["id"]
    assert (run["outcome"], run["session"]) == ("passed", ended["cells"][0]["session"])
    assert (ended["runs"], ended["passed"], ended["state"]) == (1, 1, "ended")
    code, out, _ = run_cli("export", run["session"], "--as", "jsonl")
    assert code == 0
    assert run_cli("sessions", "--json")[1].strip() == "[]"


def test_what_is_finished_is_not_made_again(run_cli: Typed, tmp_path: Path) -> None:
    write(tmp_path, PARIS)
    code, _, output = run_cli("batch", "spec.yaml", "--resume")
    assert code == 2
    assert "This database has no batch of this SPEC" in output
    assert run_cli("batch", "spec.yaml")[0] == 0
    code, out, _ = run_cli("batch", "spec.yaml", "--resume", "--json", "--max-cost", "9")
    assert code == 0
    assert [each["kind"] for each in objects(out)] == ["batch_started", "batch_ended"]
    assert objects(out)[0]["known"] == 1
    assert run_cli("batch", "spec.yaml", "--resume", "--seed", "5")[0] == 2  # another batch


def test_a_limit_of_money_holds_on(
    run_cli: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    begin = Batches._begin

    def begun(self: Batches, *given: Any) -> Any:
        limits.append(given[-1])
        return begin(self, *given)

    monkeypatch.setattr(Batches, "_begin", begun)
    write(tmp_path, PARIS)
    for words in (("--max-cost", "9"), ("--resume",), ("--resume", "--max-cost", "5")):
        assert run_cli("batch", "spec.yaml", *words)[0] == 0
    assert limits == [9.0, 9.0, 5.0]


def test_what_it_would_take(run_cli: Typed, tmp_path: Path) -> None:
    write(tmp_path, PARIS, OSLO, defaults={"repetitions": 5, "params": {"max_tokens": 100}})
    code, out, _ = run_cli("batch", "spec.yaml", "--dry-run")
    assert code == 0
    assert out.startswith("10 runs: 2 cases, 1 model, 1 variant, 5 repetitions.\n")
    assert out.endswith("It costs nothing.\n")
    (answer,) = objects(run_cli("batch", "spec.yaml", "--dry-run", "--json")[1])
    assert (answer["kind"], answer["runs"], answer["price"]) == ("dry_run", 10, 0.0)
    assert answer["tokens_out"] == 10 * 10 * 100


def test_what_it_refuses_before_anything_is_asked(run_cli: Typed, tmp_path: Path) -> None:
    write(tmp_path, PARIS, surprise=1)
    assert "/surprise" in run_cli("batch", "spec.yaml")[2]
    rows = (
        ("spec.yaml",),
        ("nothing.yaml",),
        ("spec.yaml", "--junit", "nowhere/report.xml"),
        ("spec.yaml", "--retry-unknown"),
        ("spec.yaml", "--filter", "rome"),
        ("spec.yaml", "--max-cost", "-1"),
        ("spec.yaml", "--seed", "x"),
    )
    for place, row in enumerate(rows):
        assert (place, run_cli("batch", *row)[0]) == (place, 2)
        write(tmp_path, PARIS)
    assert not (tmp_path / "home").exists()


def test_a_call_that_no_rule_decides_needs_a_person(run_cli: Typed, tmp_path: Path) -> None:
    write(tmp_path, PARIS, tools=[{**TOOL, "answered_by": "person", "config": {}}])
    code, out, _ = run_cli("batch", "spec.yaml", "--allow", "get_weather")
    assert code == 3
    assert "needs a decision: paris" in out
    code, _, output = run_cli("batch", "spec.yaml")
    assert code == 0
    assert "it is a mock here" in output


def test_the_suite_that_comes_with_it(run_cli: Typed) -> None:
    code, out, _ = run_cli("batch", "builtin", "--filter", "twins*", "--json")
    assert code == 1
    cells = objects(out)[-1]["cells"]
    assert {cell["model"]: cell["passes"] for cell in cells} == {
        "right": True,
        "wrong": False,
    }


def test_a_failed_run_is_a_test_that_fails_again(run_cli: Typed) -> None:
    _, out, _ = run_cli("batch", "builtin", "--filter", "stale-memory", "--json")
    failed = next(each for each in objects(out) if each.get("outcome") == "failed")
    assert run_cli("export", failed["session"], "--as", "batch", "-o", "test.json")[0] == 0
    code, out, _ = run_cli("batch", "test.json")
    assert code == 1
    assert "check_stock was not called" in out


@pytest.mark.slow
def test_ctrl_c_stops_it_and_resume_goes_on(tmp_path: Path) -> None:
    silent = {**PARIS, "id": "silent", "prompt": "Hello [[fault:stall-headers]]"}
    write(tmp_path, PARIS, silent)
    words = command("batch", "spec.yaml", "--json", "--db", "batch.db")
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["kind"] != "run_ended":
        pass
    process.send_signal(signal.SIGINT)
    out, answer = process.communicate(timeout=40)
    assert process.returncode == 130
    assert json.loads(out.splitlines()[-1])["state"] == "stopped"
    assert (
        b"after 1 of 2 runs; `playground batch spec.yaml --resume --db batch.db` continues"
        in answer
    )


def test_what_the_command_says_without_the_extra(
    run_cli: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playground.batch.cluster.find_spec", lambda name: None)
    (tmp_path / "spec.yaml").write_text("playground_batch: 1\ncases: [{id: a, prompt: b}]\n")
    code, _, output = run_cli("batch", "spec.yaml", "--engine", "local:2")
    assert code == 2
    assert "pip install 'tool-playground[cluster]'" in output
    code, _, output = run_cli("batch", "spec.yaml", "--engine", "tcp://far.example:1")
    assert code == 2
    assert "--engine-trusted" in output


def test_a_run_as_one_function(run_cli: Typed, tmp_path: Path) -> None:
    """JSON in, JSON Lines out, with nothing of this place."""
    write(tmp_path, PARIS)
    session = objects(run_cli("batch", "spec.yaml", "--json")[1])[1]["session"]
    stored_items = objects(run_cli("export", session, "--as", "jsonl")[1])
    settings = next(
        line["settings"] for line in stored_items if line.get("kind") == "session_started"
    )
    rules = [{"tool": "get_weather", "action": "run", "words": "a mock answers get_weather"}]
    run = {"session": "0" * 16, "title": "t", "prompt": PARIS["prompt"], "settings": settings}
    items = [json.loads(line) for line in run_case(json.dumps(run | {"rules": rules})).splitlines()]
    kinds = [[line["kind"] for line in lines if "kind" in line] for lines in (stored_items, items)]
    assert kinds[0] == kinds[1]
    assert items[0]["session"]["id"] == "0" * 16


@pytest.mark.slow
@pytest.mark.skipif(find_spec("distributed") is None, reason="needs the extra cluster: distributed")
def test_two_processes_make_a_batch(run_cli: Typed, tmp_path: Path) -> None:
    code, out, _ = run_cli(
        "batch", "builtin", "--engine", "local:2", "--json", "--filter", "twins*"
    )
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert (lines[-1]["runs"], lines[-1]["unknown"]) == (4, 0)
