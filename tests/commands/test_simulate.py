"""`playground simulate`: one line, an answer, and an end by signal."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import httpx
import pytest

from playground.commands.simulate import load_scenario
from playground.simulator.scenario import CodingAgent, Scenario, ScenarioChoices
from tests.commands.conftest import Typed
from tests.servers import NO_TLS, ROOT, run_simulator_process


@pytest.mark.slow
def test_it_answers_and_ends(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    with run_simulator_process(tmp_path, "--pace", "0") as simulator:
        answer = httpx.post(
            simulator.url + "/openai/v1/chat/completions",
            json=body,
            headers={"authorization": "Bearer any"},
            timeout=30,
            trust_env=False,
            verify=NO_TLS,
        )
        assert answer.json()["choices"][0]["finish_reason"] == "stop"
        assert simulator.end() == 0
        assert simulator.process.stdout is not None
        assert simulator.process.stdout.read() == ""


def test_a_script_that_cannot_be_read(tmp_path: Path, run_cli: Typed) -> None:
    (tmp_path / "bad.json").write_text("{")
    for name in ("gone.json", "bad.json"):
        code, _, message = run_cli("simulate", "--scenario", name)
        assert (code, message.count("\n")) == (2, 1)


def test_a_scenario_may_be_one_of_the_simulators_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(load_scenario("coding-agent"), CodingAgent)
    (tmp_path / "coding-agent").write_text('{"turns": [{"text": "a"}]}')
    assert isinstance(load_scenario("coding-agent"), Scenario)


@pytest.mark.slow
def test_the_example_of_the_documentation_plays_as_it_says(
    tmp_path: Path, run_cli: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/scenarios.md: its file, and its two commands, but for the port."""
    text = (ROOT / "docs" / "scenarios.md").read_text("utf-8")
    example, several = re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (commands,) = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.partition("playground ") for line in commands.splitlines()]
    first, second = (shlex.split(words) for _, _, words in lines)
    name, _, key = lines[1][0].strip().partition("=")
    (tmp_path / first[-1]).write_text(example)
    flags = ["0" if word == "9000" else word for word in first[1:]]
    with run_simulator_process(tmp_path, *flags) as simulator:
        words = [word.replace("http://127.0.0.1:9000", simulator.url) for word in second]
        monkeypatch.setenv(name, key)
        code, out, errors = run_cli(*words, "--json")
    assert (code, errors) == (0, "")
    items = [json.loads(line) for line in out.splitlines()]
    kinds = [item["part_kind"] for item in items if item["kind"] == "part_started"]
    assert kinds == ["thinking", "text", "call", "call", "text"]
    message = [item["text"] for item in items if item["kind"] == "part_ended"]
    script = json.loads(example)["turns"]
    assert message[:2] == [script[0]["thinking"], script[0]["text"]]
    assert [json.loads(item) for item in message[2:4]] == [
        {"city": "Oslo"},
        {"expression": "6 * 7"},
    ]
    assert message[4] == script[1]["text"]
    (tmp_path / "several.json").write_text(several)
    assert isinstance(load_scenario(str(tmp_path / "several.json")), ScenarioChoices)
