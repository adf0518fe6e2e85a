"""The scenario of a coding agent, with the tools that agents really bring."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import FREEFORM, Tool, ToolChoice
from playground.simulator.scenario import CodingAgent
from tests.simulator.factories import calls_message, results, user

PROMPT = "Read notes.txt, then replace 'colour' with 'color' in it."
TEXT = "The colour of the sky.\nNo colour here.\n"
DONE = TEXT.replace("colour", "color")
WHOLE = {"type": "string", "description": "The absolute path to the file"}
S = {"type": "string"}
B = {"type": "boolean"}
N = {"type": "number"}
EITHER = {"type": "string", "description": "Path to the file (relative or absolute)"}
OPTIONAL_N = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
PATH_AND_PAIR = {"file_path": WHOLE, "old_string": S, "new_string": S}

FREE = Tool("apply_patch", "", FREEFORM, format={"type": "text"})

FOLDERS = {
    "qwen-code": "I'm currently working in the directory: /project\nHere is the folder structure",
    "Copilot CLI": "* Current working directory: /project\n* Git repository root: none",
    "Cline": "<env>\n4. Working Directory: /project\n</env>",
    "pi": "<cwd>\n/project\n</cwd>",
    "opencode": "Current working directory: /project",
    "a list of paths, and of commands": "cwd=/project",
}
"""How the agents name their folder; nothing is between the system prompt's end and the prompt."""

PROMPTS = {
    # A prompt of several words on its command line is one in quotation marks.
    "opencode": f'"{PROMPT}"',
    "Copilot CLI": f"<current_datetime>2026-11-28T19:00:00Z</current_datetime>\n\n{PROMPT}",
    "Cline": f'<user_input mode="act">{PROMPT}</user_input>',
    "qwen-code": f"<system-reminder>See /etc/rules.md</system-reminder>\n{PROMPT}",
}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)[:1]}


def some(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


PAIR = obj(oldText=S, newText=S)


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
    "pi": (
        tool("read", "path", path=EITHER, offset=N, limit=N),
        BASH,
        tool("edit", "path edits", path=EITHER, edits=some(PAIR)),
        tool("write", "path content", path=S, content=S),
    ),
    "qwen-code": (
        AGENT,
        tool("edit", "file_path old_string new_string", **PATH_AND_PAIR, replace_all=B),
        tool("glob", "pattern", pattern=S, path=S),
        tool("notebook_edit", "notebook_path", notebook_path=WHOLE, new_source=S, edit_mode=S),
        tool("read_file", "file_path", file_path=WHOLE, offset={"type": ["integer", "null"]}),
        tool("run_shell_command", "command", command=S),
        tool("write_file", "file_path content", file_path=WHOLE, content=S),
    ),
    "Copilot CLI": (
        BASH,
        tool("read_bash", "shellId", shellId=S, delay=N),
        tool("view", "path", path=WHOLE, view_range=some({"type": "integer"})),
        tool("create", "path file_text", path=WHOLE, file_text=S),
        tool("edit", "path", path=WHOLE, old_str=S, new_str=S),
    ),
    "Cline": (
        tool("read_files", "files", files=some(obj(path=WHOLE, start_line=OPTIONAL_N))),
        tool("search_codebase", "queries", queries=some(S)),
        tool("run_commands", "commands", commands=some(S)),
        tool(
            "editor",
            "path new_text",
            path=WHOLE,
            old_text={"anyOf": [S, {"type": "null"}]},
            new_text=S,
            insert_line=OPTIONAL_N,
        ),
    ),
    "a list of paths, and of commands": (
        tool("read_files", "paths", paths=some(S)),
        tool("run_commands", "commands", commands=some(S)),
    ),
    "a shell alone": (BASH,),
}


def act(folder: Path, name: str, arguments: dict[str, Any]) -> str:
    """What the tool of this name does, and tells."""
    file = folder / "notes.txt"
    command = arguments.get("cmd", arguments.get("command", arguments.get("commands")))
    if name == "apply_patch" or "apply_patch" in str(command):
        for old, new in re.findall(r"^-(.*)\n\+(.*)$", str(arguments.get("input", command)), re.M):
            file.write_text(file.read_text().replace(old, new, 1))
        return "Success."
    if command is not None:
        line = command if isinstance(command, list) else ["sh", "-c", command]
        if "commands" in arguments:
            assert len(command) == 1
            line = ["sh", "-c", command[0]]
        ran = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
        return f"Process exited with code 0\nOutput:\n{ran.stdout}"
    path = path_of(arguments)
    assert folder / path == file
    if not arguments.keys() & {"old_string", "oldString", "old_str", "old_text", "edits"}:
        lines = enumerate(file.read_text().splitlines(), 1)
        if name == "read":
            return "<content>\n" + "\n".join(f"{n}: {x}" for n, x in lines) + "\n</content>"
        if name == "read_files":
            text = "\n".join(f"{n} | {x}" for n, x in lines)
            return json.dumps([{"query": path, "result": text, "success": True}])
        return "\n".join(f"{n}\t{x}" for n, x in lines)
    every = arguments.get("replace_all", arguments.get("allow_multiple"))
    for edit in arguments.get("edits", [arguments]):
        old, new = (next(v for k, v in edit.items() if k.startswith(w)) for w in ("old", "new"))
        assert every or file.read_text().count(old) == 1
        file.write_text(file.read_text().replace(old, new))
    return "Edited."


def path_of(arguments: dict[str, Any]) -> str:
    match arguments:
        case {"files": [{"path": str(path)}]} | {"paths": [str(path)]}:
            return path
    return str(next(value for name, value in arguments.items() if "path" in name.lower()))


def run(
    tools: tuple[Tool, ...],
    prompt: str,
    answer: Callable[[str, Any], str],
    system: str = "Primary working directory: /project\nEdit files with apply_patch.\n",
) -> list[str]:
    """The names of the calls of a whole run, and what is said at its end."""
    history: list[Message] = [user("<system-reminder>Use Agent.</system-reminder>"), user(prompt)]
    steps: list[str] = []
    for number in range(6):
        model_request = ModelRequest("m", system, tuple(history), tools, ToolChoice())
        turn = CodingAgent().turn(model_request)
        assert turn is not None
        if not turn.reply.calls:
            return [*steps, turn.reply.text]
        [block] = turn.reply.calls
        steps.append(block.name)
        message = answer(block.name, json.loads(block.text))
        history += [
            calls_message((f"c{number}", block.name, block.text)),
            results((f"c{number}", message)),
        ]
    raise AssertionError(f"no end: {steps}")


@pytest.mark.parametrize("agent", AGENTS)
def test_it_reads_edits_and_ends_with_the_tools_of_each_agent(agent: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(TEXT)

    def answer(name: str, arguments: dict[str, Any]) -> str:
        stored = json.loads(json.dumps(arguments).replace("/project", str(tmp_path)))
        return act(tmp_path, name, stored)

    system = {"system": FOLDERS[agent]} if agent in FOLDERS else {}
    *calls, message = run(AGENTS[agent], PROMPTS.get(agent, PROMPT), answer, **system)
    # Where a tool replaces one place only, each line is a call.
    assert len(calls) == (3 if agent in ("opencode", "Copilot CLI", "Cline") else 2)
    assert (tmp_path / "notes.txt").read_text() == DONE
    assert message.startswith("Done: in notes.txt")


def test_a_path_is_absolute_where_the_tool_takes_no_other() -> None:
    paths: list[str] = []

    def answer(name: str, given: Any) -> str:
        paths.append(path_of(given))
        return "1 | No colour here."

    for agent in ("qwen-code", "Copilot CLI", "Cline", "pi", "opencode"):
        run(AGENTS[agent], PROMPTS.get(agent, PROMPT), answer, FOLDERS[agent])
        wanted = "notes.txt" if agent == "opencode" else "/project/notes.txt"
        assert (agent, set(paths)) == (agent, {wanted})
        paths.clear()


def test_a_failure_that_only_a_result_tells_ends_the_run() -> None:
    def answer(name: str, given: Any) -> str:
        came = {"query": "a", "result": "1 | A colour.", "success": name == "read_files"}
        return json.dumps([came] if name == "read_files" else {**came, "error": "no such text"})

    *calls, message = run(AGENTS["Cline"], PROMPT, answer)
    assert calls == ["read_files", "editor"]
    assert "no such text" in message


def test_without_a_change_that_is_named_the_first_line_is_edited() -> None:
    given: list[Any] = []

    def answer(name: str, arguments: Any) -> str:
        given.append(arguments)
        return "1\tFirst.\n2\tSecond."

    run((READ, EDIT), "Read /project/a.md and edit it.", answer)
    assert given[0]["file_path"] == "/project/a.md"
    assert (given[1]["old_string"], given[1]["new_string"]) == ("First.", "First. (edited)")


def test_the_end_has_the_requested_format_or_is_the_call_that_ends_a_run() -> None:
    report = {
        "type": "object",
        "properties": {"summary": S, "ok": B},
        "required": ["summary", "ok"],
    }
    history = (
        user(PROMPT),
        calls_message(("c", "Read", '{"file_path": "notes.txt"}')),
        results(("c", "1\tA colour.")),
        calls_message(("d", "Edit", "{}")),
        results(("d", "Edited.")),
    )
    format_ = {"format": {"schema": report}}
    turn = CodingAgent().turn(
        ModelRequest(
            "m",
            system="",
            messages=history,
            tools=(READ, EDIT),
            choice=ToolChoice(),
            params=format_,
        )
    )
    assert turn is not None
    value = json.loads(turn.reply.text)
    assert "is now" in value["summary"]
    assert isinstance(value["ok"], bool)
    final = Tool("StructuredOutput", "", report)
    model_request = ModelRequest("m", "", history, (READ, EDIT, final), ToolChoice())
    turn = CodingAgent().turn(model_request)
    assert turn is not None
    [block] = turn.reply.calls
    assert "is now" in json.loads(block.text)["summary"]
    more = (calls_message(("e", "StructuredOutput", block.text)), results(("e", "Ok")))
    ended = CodingAgent().turn(replace(model_request, messages=(*history, *more)))
    assert ended is not None
    assert not ended.reply.calls


def test_what_fails_or_is_not_there_ends_the_run() -> None:
    messages = run((READ, EDIT), PROMPT, lambda name, arguments: "1\tNothing of the kind.")
    assert messages == ["Read", "I read notes.txt, and found nothing in it to replace."]
    history = (
        user(PROMPT),
        calls_message(("c", "Read", "{}")),
        results(("c", "No such file"), is_error=True),
    )
    turn = CodingAgent().turn(ModelRequest("m", "", history, (READ, EDIT), ToolChoice()))
    assert turn is not None
    assert "No such file" in turn.reply.text


@pytest.mark.parametrize(
    ("prompt", "tools"),
    [(PROMPT, ()), ("Hello", (READ, EDIT)), (PROMPT, (AGENT,)), (PROMPT, (READ, IMAGE))],
)
def test_what_is_no_work_on_a_file_is_left_to_the_model(
    prompt: str, tools: tuple[Tool, ...]
) -> None:
    outcome = (Message("user", (MessagePart("text", prompt),)),)
    assert CodingAgent().turn(ModelRequest("m", "", outcome, tools, ToolChoice())) is None
