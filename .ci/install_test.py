"""Installs the program in three ways and tries it where another package is called `app`.

    python .ci/install_test.py [wheel] [sdist] [editable]

Builds the wheel and the sdist, and installs each, and the checkout with `pip install -e`, into an
empty environment. In each of them runs, in a temporary folder:

* `playground --version` and `serve`, with a package `app` on PYTHONPATH that ends the program that
  imports it;
* `playground run` with a Python tool of a file that imports the `app` beside it, whose folder is on
  PYTHONPATH;
* `playground batch --engine local:2`, where the extra `cluster` is installed: with the wheel.

Needs the packages `build` and `hatchling` beside this interpreter, and an index (or a full cache)
for pip. Exits with 1 at the first thing that is wrong, and says what.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Mapping, Sequence
from http.cookiejar import CookieJar
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WAYS = ("wheel", "sdist", "editable")
BUILD_S = 300.0
INSTALL_S = 600.0
COMMAND_S = 120.0
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")

HOSTILE_APP = 'raise SystemExit("The program imported a package app that is not its own.")\n'
USER_APP = 'OWNER = "the app of the user"\n'
TOOL_FILE = '''from app import OWNER


def whose_app(city: str) -> str:
    """Say whose app is imported.

    Args:
        city: Any city.
    """
    return f"{OWNER}: {city}"
'''
SPEC = {
    "playground_batch": 1,
    "tools": [
        {
            "name": "get_weather",
            "description": "The weather in a city now.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            "config": {"result": "rain"},
        }
    ],
    "models": ["simulator"],
    "cases": [
        {
            "id": f"case {number}",
            "prompt": "What is the weather in Oslo?",
            "expect": [{"called": "get_weather"}],
        }
        for number in range(4)
    ],
}


class Wrong(Exception):
    """What did not work, as a sentence."""


def main(ways: Sequence[str]) -> int:
    unknown = [way for way in ways if way not in WAYS]
    if unknown:
        print(f"Unknown: {', '.join(unknown)}. Choose from {', '.join(WAYS)}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        try:
            requirements = build(Path(name) / "dist")
            for way in ways or WAYS:
                began = time.monotonic()
                folder = Path(name) / way
                bin_folder = install(folder / "venv", requirements[way])
                try_program(bin_folder, folder)
                print(f"install_test: {way} works ({time.monotonic() - began:.0f} s)", flush=True)
        except (Wrong, subprocess.TimeoutExpired) as error:
            print(f"install_test: {error}", file=sys.stderr)
            return 1
    return 0


def build(folder: Path) -> Mapping[str, Sequence[str]]:
    """What pip is to install in each way. The wheel is built from the sdist."""
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run(words, ROOT, os.environ, BUILD_S)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return {
        "wheel": [f"{wheel}[cluster]"],
        "sdist": [str(sdist)],
        "editable": ["-e", str(ROOT)],
    }


def install(folder: Path, requirement: Sequence[str]) -> Path:
    """The folder of commands of a new environment with `requirement` and what that needs."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--quiet"]
    options = ["--no-compile", "--disable-pip-version-check"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run([*pip, "install", *options, *requirement], folder, environment, INSTALL_S)
    return folder / "bin"


def try_program(bin_folder: Path, folder: Path) -> None:
    """Runs the installed program in `folder`, beside packages called `app`."""
    hostile = write_package(folder / "hostile", HOSTILE_APP)
    users = write_package(folder / "users", USER_APP)
    work = folder / "work"
    work.mkdir()
    (users / "tools.py").write_text(TOOL_FILE)
    (work / "spec.json").write_text(json.dumps(SPEC))
    program = str(bin_folder / "playground")

    version = run([program, "--version"], work, environment(folder, hostile))
    expect("0." in version, f"--version printed {version!r}")
    serve([program, "serve", "--port", "0"], work, environment(folder, hostile))
    try_tool(program, users / "tools.py", work, environment(folder, users))
    if has_module(str(bin_folder / "python"), "distributed", work):
        try_batch(program, work, environment(folder, hostile))
    else:
        print("install_test: no batch in two processes here: the extra cluster is not installed")


def serve(words: Sequence[str], work: Path, environ: Mapping[str, str]) -> None:
    """Starts the server, asks for its first page, and ends it by SIGTERM."""
    with (work / "server.log").open("w") as log:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=log, text=True, cwd=work, env=environ
        )
    try:
        line = first_line(process)
        expect("http://" in line, f"serve printed {line!r}; {(work / 'server.log').read_text()}")
        link = line[line.index("http://") :].strip()
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        with opener.open(link, timeout=COMMAND_S) as answer:
            page = answer.read().decode()
            expect(answer.status == 200, f"the first page answered {answer.status}")
        expect("<title>" in page, f"the first page is {page[:200]!r}")
        process.send_signal(signal.SIGTERM)
        code = process.wait(COMMAND_S)
        expect(code == 0, f"serve ended with {code}; {(work / 'server.log').read_text()}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line that the process prints, or "" after COMMAND_S."""
    if process.stdout is None:
        return ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if selector.select(COMMAND_S) else ""


def try_tool(program: str, tools: Path, work: Path, environ: Mapping[str, str]) -> None:
    """A Python tool whose file imports the user's `app`."""
    words = ["--tools", str(tools), "--allow", "all", "--json", "--db", "run.db"]
    prompt = "Use whose_app for the city Oslo."
    events = read_events(run([program, "run", prompt, *words], work, environ))
    results = [event["result"] for event in events if event["kind"] == "call_ended"]
    expect(len(results) == 1, f"run had {len(results)} results, not 1")
    text = json.dumps(results[0])
    expect("the app of the user" in text, f"the tool answered {text}")


def try_batch(program: str, work: Path, environ: Mapping[str, str]) -> None:
    """A batch in two processes."""
    words = ["--engine", "local:2", "--json", "--db", "batch.db"]
    report = read_events(run([program, "batch", "spec.json", *words], work, environ))[-1]
    expect(report["passed"] == 4, f"the batch ended with {report}")


def read_events(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def write_package(folder: Path, source: str) -> Path:
    """A package `app` with this source below `folder`."""
    (folder / "app").mkdir(parents=True)
    (folder / "app/__init__.py").write_text(source)
    return folder


def environment(folder: Path, python_path: Path) -> dict[str, str]:
    """No keys, no settings of ours, a home of its own, and `python_path` on PYTHONPATH."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    home = {"PLAYGROUND_HOME": str(folder / "home")}
    return {**passed_on, **home, "PYTHONPATH": str(python_path)}


def has_module(python: str, module: str, work: Path) -> bool:
    done = subprocess.run(
        [python, "-c", f"import {module}"], cwd=work, capture_output=True, timeout=COMMAND_S
    )
    return done.returncode == 0


def run(
    words: Sequence[str], cwd: Path, environ: Mapping[str, str], timeout_s: float = COMMAND_S
) -> str:
    """What the command prints. Wrong if it fails; ends it after `timeout_s`."""
    done = subprocess.run(
        words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout_s
    )
    if done.returncode != 0:
        command = " ".join(words)
        raise Wrong(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(holds: bool, sentence: str) -> None:
    if not holds:
        raise Wrong(sentence)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
