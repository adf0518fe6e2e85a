"""The scenario of a coding agent, with the tools that agents really bring."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import FREEFORM, Tool, ToolChoice
from app.simulator.scenario import CodingAgent
from tests.simulator.factories import called, results, user
from tests.tables import each_row

PROMPT = "Read notes.txt, then replace 'colour' with 'color' in it."
TEXT = "The colour of the sky.\nNo colour here.\n"
DONE = TEXT.replace("colour", "color")
WHOLE = {"type": "string", "description": "The absolute path to the file"}
S = {"type": "string"}
B = {"type": "boolean"}


def tool(name: str, needed: str, **properties: Any) -> Tool:
    return Tool(name, "", {"type": "object", "properties": properties, "required": needed.split()})


READ = tool("Read", "file_path", file_path=WHOLE, offset={"type": "integer"})
EDIT = tool(
    "Edit",
    "file_path old_string new_string",
    file_path=WHOLE,
    old_string=S,
    new_string=S,
    replace_all=B,
)
AGENT = tool("Agent", "description prompt", description=S, prompt=S, run_in_background=B)
BASH = tool("Bash", "command", command=S, description=S)
LINED = tool("Read", "path", path=S)
EXEC = tool("exec_command", "cmd", cmd=S, workdir=S)
IMAGE = tool("view_image", "path", path=S)
OLD_SHELL = tool("shell", "command", command={"type": "array", "items": S})
FREE = Tool("apply_patch", "", FREEFORM, format={"type": "text"})
AGENTS: dict[str, tuple[Tool, ...]] = {
    "Claude Code": (AGENT, BASH, EDIT, READ, tool("Write", "", file_path=S, content=S)),
    "Codex": (EXEC, tool("write_stdin", "session_id", session_id=S, chars=S), IMAGE),
    "Codex with a tool for patches": (OLD_SHELL, FREE, IMAGE),
    "Gemini CLI": (
        tool("list_directory", "dir_path", dir_path=S),
        tool("read_file", "file_path", file_path=S, start_line={"type": "integer"}),
        tool(
            "replace",
            "file_path instruction old_string new_string",
            file_path=S,
            instruction=S,
            old_string=S,
            new_string=S,
            allow_multiple=B,
        ),
        tool("run_shell_command", "command", command=S),
    ),
    "opencode": (
        tool("bash", "command", command=S),
        tool("edit", "filePath oldString newString", filePath=S, oldString=S, newString=S),
        tool("read", "filePath", filePath=S),
        tool("task", "prompt", prompt=S, command=S),
    ),
    "a shell alone": (BASH,),
}


def act(folder: Path, name: str, given: dict[str, Any]) -> str:
    """What the tool of this name does, and tells."""
    file = folder / "notes.txt"
    command = given.get("cmd", given.get("command"))
    if name == "apply_patch" or "apply_patch" in str(command):
        for old, new in re.findall(r"^-(.*)\n\+(.*)$", str(given.get("input", command)), re.M):
            file.write_text(file.read_text().replace(old, new, 1))
        return "Success."
    if command is not None:
        line = command if isinstance(command, list) else ["sh", "-c", command]
        ran = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
        return f"Process exited with code 0\nOutput:\n{ran.stdout}"
    path = Path(next(v for k, v in given.items() if "path" in k.lower()))
    assert folder / path == file
    old = given.get("old_string", given.get("oldString"))
    if old is None:
        lines = enumerate(file.read_text().splitlines(), 1)
        if name == "read":
            return "<content>\n" + "\n".join(f"{n}: {x}" for n, x in lines) + "\n</content>"
        return "\n".join(f"{n}\t{x}" for n, x in lines)
    every = given.get("replace_all", given.get("allow_multiple"))
    assert every or file.read_text().count(old) == 1
    new = str(given.get("new_string", given.get("newString")))
    file.write_text(file.read_text().replace(old, new))
    return "Edited."


def run(tools: tuple[Tool, ...], prompt: str, answer: Callable[[str, Any], str]) -> list[str]:
    """The names of the calls of a whole run, and what is said at its end."""
    history: list[Message] = [user("<system-reminder>Use Agent.</system-reminder>"), user(prompt)]
    found: list[str] = []
    for number in range(6):
        system = "Primary working directory: /project\nEdit files with apply_patch.\n"
        asked = ModelRequest("m", system, tuple(history), tools, ToolChoice())
        turn = CodingAgent().turn(asked)
        assert turn is not None
        if not turn.reply.calls:
            return [*found, turn.reply.text]
        [block] = turn.reply.calls
        found.append(block.name)
        said = answer(block.name, json.loads(block.text))
        history += [called((f"c{number}", block.name, block.text)), results((f"c{number}", said))]
    raise AssertionError(f"no end: {found}")


@pytest.mark.parametrize("agent", AGENTS)
def test_it_reads_edits_and_ends_with_the_tools_of_each_agent(agent: str, tmp_path: Path) -> None:
    text = "One colour.\n" if agent == "opencode" else TEXT
    (tmp_path / "notes.txt").write_text(text)

    def answer(name: str, given: dict[str, Any]) -> str:
        kept = {
            key: value.replace("/project", str(tmp_path)) if isinstance(value, str) else value
            for key, value in given.items()
        }
        return act(tmp_path, name, kept)

    # A prompt of several words on its command line is one in quotation marks.
    prompt = f'"{PROMPT}"' if agent == "opencode" else PROMPT
    *calls, said = run(AGENTS[agent], prompt, answer)
    assert len(calls) == 2
    assert (tmp_path / "notes.txt").read_text() == text.replace("colour", "color")
    assert said.startswith("Done: in notes.txt")


def test_without_a_change_that_is_named_the_first_line_is_edited() -> None:
    given: list[Any] = []

    def answer(name: str, arguments: Any) -> str:
        given.append(arguments)
        return "1\tFirst.\n2\tSecond."

    run((READ, EDIT), "Read /project/a.md and edit it.", answer)
    assert given[0]["file_path"] == "/project/a.md"
    assert (given[1]["old_string"], given[1]["new_string"]) == ("First.", "First. (edited)")


def test_what_fails_or_is_not_there_ends_the_run() -> None:
    said = run((READ, EDIT), PROMPT, lambda name, arguments: "1\tNothing of the kind.")
    assert said == ["Read", "I read notes.txt, and found nothing in it to replace."]
    history = (
        user(PROMPT),
        called(("c", "Read", "{}")),
        results(("c", "No such file"), is_error=True),
    )
    turn = CodingAgent().turn(ModelRequest("m", "", history, (READ, EDIT), ToolChoice()))
    assert turn is not None
    assert "No such file" in turn.reply.text


@each_row(
    ("prompt", "tools"),
    [(PROMPT, ()), ("Hello", (READ, EDIT)), (PROMPT, (AGENT,)), (PROMPT, (READ, IMAGE))],
)
def test_what_is_no_work_on_a_file_is_left_to_the_model(
    prompt: str, tools: tuple[Tool, ...]
) -> None:
    said = (Message("user", (MessagePart("text", prompt),)),)
    assert CodingAgent().turn(ModelRequest("m", "", said, tools, ToolChoice())) is None
