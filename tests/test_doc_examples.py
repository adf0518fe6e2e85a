"""Runs the commands and code blocks of README, the tutorial and the how-to pages.

They are run as a reader would: from top to bottom, in one empty folder, against the simulator.

What a block is, is said by its first line:

    ```sh                        each line is run; `# exit code 3` at its end is what it must give
    ```python                    is run
    ```json, ```yaml             is a tool, a scenario or the SPEC of a batch
    ```text                      is what the block before it prints
    ```python title="words.py"   is saved under that name (any language)

Any other language fails, so that no block is left out. SESSION stands for the id of the newest
session when it is first used. Servers get a free port.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from playground.cli import COMMANDS, parser
from playground.core.errors import PlaygroundError
from playground.schema.documents import find_fault

ROOT = Path(__file__).resolve().parent.parent
HOW_TO = sorted((ROOT / "docs" / "howto").glob("*.md"))
PAGES = (
    *("README.md", "docs/index.md", "docs/tutorial.md"),
    *(path.relative_to(ROOT).as_posix() for path in HOW_TO),
)
"""Whose blocks are run."""

DEVELOPING = ("CONTRIBUTING.md", "docs/recipes.md", "docs/testing.md", "docs/releasing.md")
"""Whose blocks are for people who change the program: what they name must exist."""

QUICK = ("docs/index.md", "docs/howto/rules.md")
"""Pages that start no process."""

WAIT_S = 60.0

FENCE = re.compile(r'^ *```(\w*)(?: title="([\w.-]+)")?$')
SETUP = re.compile(
    r"python3 -m venv \.venv && \.venv/bin/pip install -q -e '?\.(?:\[([\w,]+)\])?'?(?: && (.+))?"
)
EXIT_CODE = re.compile(r"#.*\bexit code (\d+)")
SERVES = re.compile(r"\bplayground (serve|simulate)\b")
PORT = re.compile(r"--port (\d+)")

PROGRAMS = ("git", "mkdocs", "mypy", "pip", "playground", "pre-commit", "rm", "ruff", ".")
"""Programs that the pages for developers use besides Python."""


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    title: str
    text: str


def blocks_of(text: str) -> list[Block]:
    """The code blocks of a document. AssertionError where a fence is not understood."""
    blocks, start, language, title = list[Block](), 0, "", ""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "```" not in line:
            continue
        fence = FENCE.match(line)
        assert fence, f"line {number}: {line}"
        if not start:
            start, language, title = number, fence[1], fence[2] or ""
        else:
            assert not fence[1], f"line {number}: a block in a block"
            inner = "\n".join(lines[start : number - 1]) + "\n"
            blocks.append(Block(start, language, title, inner))
            start = 0
    assert not start, f"line {start}: a block without an end"
    return blocks


def commands_of(block: Block) -> list[str]:
    """The commands of a shell block, one a line; a backslash continues a line."""
    lines = block.text.replace("\\\n", " ").split("\n")
    return [line for line in lines if line.strip() and not line.startswith("#")]


def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["optional-dependencies"])


@dataclass
class Reader:
    """Somebody who follows a document in `folder`."""

    folder: Path
    output: str = ""
    session: str = ""
    ports: dict[str, str] = field(default_factory=dict)
    servers: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, words in (
            ("bin/playground", "-m playground.cli"),
            ("bin/python3", ""),
            (".venv/bin/playground", "-m playground.cli"),
            (".venv/bin/python", ""),
        ):
            program = self.folder / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        stored_data = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        return {
            **stored_data,
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PLAYGROUND_HOME": str(self.folder / "home"),
            "PLAYGROUND_PACE": "0",
            "PYTHONPATH": os.pathsep.join((str(ROOT / "app"), str(ROOT))),
        }

    def follow(self, block: Block) -> None:
        if block.title:
            (self.folder / block.title).write_text(self.fill(block.text), "utf-8")
        match block.language:
            case "sh" if not block.title:
                self.output = ""
                for command in commands_of(block):
                    self.type(command)
            case "python" if block.title:
                compile(block.text, block.title, "exec")
            case "python":
                self.output = self.run([sys.executable, "-"], 0, given=self.fill(block.text))
            case "json":
                self.check_document(json.loads(block.text))
            case "yaml":
                self.check_document(yaml.safe_load(block.text))
            case "text" if not block.title:
                assert block.text.strip() in self.output, self.output
            case "sh" | "text":
                pass  # a file
            case _:
                raise AssertionError(f"Nothing tests a block of the language {block.language!r}.")

    def fill(self, text: str) -> str:
        """`text` with the ports of the servers that run, and the id of a session."""
        for documented, port in self.ports.items():
            text = text.replace(f"127.0.0.1:{documented}", f"127.0.0.1:{port}")
        if re.search(r"\bSESSION\b", text) and not self.session:
            listed = self.run(["playground", "sessions", "--json"], 0)
            self.session = json.loads(listed)[0]["id"]
        return re.sub(r"\bSESSION\b", self.session, text)

    def type(self, command: str) -> None:
        """Runs one line of a shell."""
        setup = SETUP.fullmatch(command)
        if setup:
            unknown = set((setup[1] or "dev").split(",")) - extras()
            assert not unknown, f"no such extra: {unknown}"
            command = setup[2] or ""
            if command in ("", ".venv/bin/python -m pytest"):
                return  # the second is what runs this test
        if SERVES.search(command):
            self.serve(command)
            return
        if "playground tap" in command and "8765" not in self.servers:
            self.serve("playground serve")  # else it starts one that outlives the test
        code = EXIT_CODE.search(command)
        expected = int(code[1]) if code else 0
        self.output += self.run(["bash", "-euc", self.fill(command)], expected)

    def run(self, words: list[str], expected: int, given: str = "") -> str:
        """The output of a command that must end with that exit code."""
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=WAIT_S,
        )
        assert done.returncode == expected, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def check_document(self, value: Any) -> None:
        """A block of JSON or YAML is a file that the program reads; a path in it is relative."""
        if isinstance(value, dict) and "file" in value.get("config", {}):
            value["config"]["file"] = str(self.folder / value["config"]["file"])
        faults = {name: find_fault(name, value) for name in ("tool", "scenario", "batch")}
        assert None in faults.values(), faults

    def serve(self, command: str) -> None:
        """Starts a server and asks it for its first page. The one before on its port is stopped."""
        port = PORT.search(command)
        documented = port[1] if port else "8765"
        if documented in self.servers:
            stop(self.servers.pop(documented))
        process = subprocess.Popen(
            ["bash", "-euc", PORT.sub("", command) + " --port 0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
        )
        self.servers[documented] = process
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], WAIT_S)[0], f"no line from {command}"
        self.output = process.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:(\d+)\S*", self.output)
        assert url, self.output
        self.ports[documented] = url[1]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(url[0], timeout=WAIT_S) as page:
            assert page.status == 200

    def leave(self) -> None:
        for process in self.servers.values():
            stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """Ends a server and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.leave()


@pytest.mark.parametrize(
    "page",
    [page if page in QUICK else pytest.param(page, marks=pytest.mark.slow) for page in PAGES],
)
def test_blocks_of_a_page_when_followed_in_order_do_what_they_say(
    page: str, reader: Reader
) -> None:
    for block in blocks_of((ROOT / page).read_text("utf-8")):
        try:
            reader.follow(block)
        except AssertionError as error:
            raise AssertionError(f"{page}, line {block.line}: {error}") from error


@pytest.mark.parametrize("page", [*PAGES, *DEVELOPING])
def test_commands_in_the_text_when_parsed_are_known(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for block in blocks_of(text):
        text = text.replace(block.text, "")
    for command in re.findall(r"`(?:[A-Z_]+=\S+ )?playground ([^`]+)`", text):
        words = shlex.split(command)
        if words in (["--version"], [words[0]]) and words[0] in (*COMMANDS, "--version"):
            continue
        try:
            parser().parse_args(words[: words.index("--")] if "--" in words else words)
        except PlaygroundError as error:
            raise AssertionError(f"{page}: `playground {command}`: {error}") from error


@pytest.mark.parametrize("page", DEVELOPING)
def test_commands_for_developers_when_read_name_what_exists(page: str) -> None:
    for block in blocks_of((ROOT / page).read_text("utf-8")):
        assert block.language == "sh", f"{page}, line {block.line}"
        for command in commands_of(block):
            check_developers(command.strip())


def check_developers(command: str) -> None:
    setup = SETUP.fullmatch(command)
    if setup:
        assert set((setup[1] or "dev").split(",")) <= extras(), command
        return
    words = shlex.split(command)
    if words[:2] == ["python", "-m"]:
        tools = ("build", "pytest", "twine")  # twine is installed by the block that uses it
        assert words[2] in tools or importlib.util.find_spec(words[2]), command
        paths = [word for word in words[3:] if word.startswith("tests/")]
        assert [path for path in paths if not (ROOT / path).exists()] == [], command
    else:
        assert words[0] in PROGRAMS, command


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```ruby\nputs 1\n```", "language 'ruby'"),
        ("```\nls\n```", "language ''"),
        ("```sh\nplayground lint gone.json\n```", "gone.json"),
        ("```sh\nplayground sessions  # exit code 3\n```", "playground"),
        ("```python\nraise ValueError\n```", "ValueError"),
        ('```json\n{"nam": "x"}\n```', "nam"),
        ("```sh\necho a\n```\n```text\nb\n```", "a"),
        ("```sh\npython3 -m venv .venv && .venv/bin/pip install -q -e '.[gone]'\n```", "gone"),
    ],
    ids=["language", "none", "command", "exit code", "python", "json", "output", "extra"],
)
def test_a_wrong_block_when_followed_fails(text: str, message: str, reader: Reader) -> None:
    *before, last = blocks_of(text)
    for block in before:
        reader.follow(block)
    with pytest.raises(AssertionError, match=re.escape(message)):
        reader.follow(last)


@pytest.mark.parametrize("text", ["```sh\nls", "````sh\nls\n````", "text ```sh\nls\n```"])
def test_a_fence_that_is_not_understood_when_read_fails(text: str) -> None:
    with pytest.raises(AssertionError, match="line"):
        blocks_of(text)
