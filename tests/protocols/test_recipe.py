"""A new protocol is one folder and one line of a table: tried with a made-up one, on a copy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT, START_S, environment

LAST_LINE = '    "ollama",\n]\n'
"""Of the table in `core/settings`."""

TRIED = """
import json, sys
from playground.cli import main
from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Tool, ToolChoice, text_result
from playground.exchange.requests_export import default_profile
from playground.exchange.tool_export import wire_results
from playground.protocols.lint import acceptance_matrix
from playground.protocols.parameters import supported_params
from playground.protocols.registry import CODECS, REQUEST_READERS
from playground.protocols.request import RequestNotes

tool = Tool("look", "Looks.", {"type": "object"})
prompt = Message("user", (MessagePart("text", "Look there."),))
asked = ModelRequest("m", "Be brief.", (prompt,), (tool,), ToolChoice(), {"max_output_tokens": 9})
body = json.loads(CODECS["say"].encode(asked).body)
reader, notes = REQUEST_READERS["say"], RequestNotes("say")
decoder = CODECS["say"].decoder(200)
answer = b'{"say":"I look. "}\\n{"call":"look","id":"c1","arguments":"{}"}\\n{"end":"calls"}\\n'
events = [event for byte in answer for *_, event in decoder.feed(bytes([byte]))]
events += [event for *_, event in decoder.end(True)]
json.dump({
    "most": body["most"],
    "prompts": [item.text for item in reader.items(body, notes)],
    "setup": [reader.setup(body, notes).system, dict(reader.setup(body, notes).params)],
    "events": [type(event).__name__ for event in events],
    "accepted": [row.plain.verdict for row in acceptance_matrix(tool) if row.protocol == "say"],
    "results": wire_results(tool, "{}", text_result("A"))[-1].text,
    "profile": default_profile("say").protocol,
    "refused": supported_params("say", {"seed": 1})[1],
}, sys.stdout)
print()
words = ["--tools", "examples", "--allow", "all", "--json", "--db", "say.db"]
sys.exit(main([
    "run", "What is the weather in Paris?", "--protocol", "say", "--base-url", "sim:", *words
]))
"""


def copy_with(folder: Path, name: str, into: Path) -> None:
    """The program below `into`, with the protocol `name` of `folder`. All but the table is linked,
    so that nothing is compiled again."""
    for entry in (ROOT / "app/playground").iterdir():
        inside = entry.name in ("core", "protocols")
        for each in entry.iterdir() if inside else (entry,):
            link = into / each.relative_to(ROOT)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(each)
    (into / "app/playground/protocols" / name).symlink_to(folder)
    table = into / "app/playground/core/settings.py"
    text = table.read_text()
    assert text.count(LAST_LINE) == 1
    table.unlink()
    table.write_text(text.replace(LAST_LINE, f'    "ollama",\n    "{name}",\n]\n'))


@pytest.mark.slow
def test_a_protocol_is_one_folder_and_one_line(tmp_path: Path) -> None:
    copy_with(Path(__file__).parent / "say", "say", tmp_path)
    done = subprocess.run(
        [sys.executable, "-B", "-c", TRIED],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path / "app"), PLAYGROUND_HOME=str(tmp_path / "home")),
        timeout=START_S,
    )
    assert done.returncode == 0, done.stderr
    shown, *events = map(json.loads, done.stdout.splitlines())
    assert shown == {
        "most": 9,  # by the word of another protocol
        "prompts": ["Look there."],
        "setup": ["Be brief.", {"max_tokens": 9}],
        "events": [
            *("PartStarted", "PartDelta", "PartEnded"),
            *("PartStarted", "PartDelta", "PartEnded", "ResponseEnded"),
        ],
        "accepted": ["yes"],
        "results": '{"result":"A","id":"call_1","failed":false}',
        "profile": "say",
        "refused": ["The parameter seed was left out: say has no such parameter."],
    }
    sent = [event for event in events if event["kind"] == "request_sent"]
    assert [event["protocol"] for event in sent] == ["say", "say"]
    assert [event["url"].partition("/say")[2] for event in sent] == ["/lines", "/lines"]
    (call,) = (event for event in events if event["kind"] == "call_ended")
    assert not call["result"]["is_error"]
    assert (
        json.loads(sent[1]["body"])["messages"][-1]["result"]
        == call["result"]["content"][0]["text"]
    )
    assert "Paris" in [event["text"] for event in events if event["kind"] == "part_ended"][-1]
    assert events[-1]["kind"] == "response_ended"
