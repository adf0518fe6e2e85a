"""The command line: its syntax, and the exit code of each error. See docs/contract.md.

Exit codes: 0 done; 1 the work failed; 2 wrong usage or unreadable input; 3 the user must decide;
130 ended by Ctrl-C, 143 by SIGTERM (run).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from playground import __version__, config
from playground.core.errors import BadInput, NotFound, PlaygroundError, StoreUnreadable
from playground.core.settings import PROTOCOLS

COMMANDS = {
    "serve": "playground.commands.serve",
    "run": "playground.commands.run",
    "decode": "playground.commands.decode",
    "simulate": "playground.commands.simulate",
    "sessions": "playground.commands.sessions",
    "lint": "playground.commands.lint",
    "verify": "playground.commands.verify",
    "export": "playground.commands.export",
    "import": "playground.commands.import_",
    "tap": "playground.commands.tap",
    "batch": "playground.commands.batch",
}
"""Each module has `main(arguments) -> exit code`."""

REAPED = "Unknown child process pid"  # asyncio's message; it has no other mark


def _is_no_race(record: logging.LogRecord) -> bool:
    """A signal to a child that is just ending makes Popen reap it, and asyncio then warns that its
    exit status was lost: that child was being ended, and its exit code is not used."""
    return not str(record.msg).startswith(REAPED)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    words = sys.argv[1:] if argv is None else argv
    words, rest = _split(words)
    as_json = "--json" in words
    umask = config.set_umask()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("asyncio").addFilter(_is_no_race)
    try:
        try:
            arguments = parser().parse_args(words)
            arguments.rest, arguments.umask = rest, umask
            # Imported here: `--help`, and commands that only read, need no web server.
            code: int = import_module(COMMANDS[arguments.command]).main(arguments)
            return code
        except PlaygroundError as error:
            print(f"playground: {config.one_line(str(error))}", file=sys.stderr)
            if as_json:
                print(json.dumps({"error": str(error), "code": error.error_code}), flush=True)
            return 2 if isinstance(error, BadInput | NotFound | StoreUnreadable) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Stdout has no reader any more; the flush at exit must not fail, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.close()
        return 1


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """The words of `playground` itself, and those after `--`, which belong to the command that
    `tap` starts; None if there is no `--`."""
    if "--" not in words or words[0] != "tap":
        return words, None
    end = list(words).index("--")
    return words[:end], words[end + 1 :]


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in one sentence, like every other error; argparse would print a page."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message[:1].upper()}{message[1:]}. See {self.prog} --help.")


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    top = _Parser(
        prog="playground",
        description=(
            "A local playground for tool-calling models: see the requests, decide each call, "
            "replay the session."
        ),
        epilog="Exit codes: 0 done; 1 the work failed; 2 wrong usage or unreadable input; "
        "3 stopped because a call needs a decision; 130 ended by Ctrl-C (run: 143 by SIGTERM).",
    )
    top.add_argument("--version", action="version", version=f"playground {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _serve(commands)
    _run(commands)
    _decode(commands)
    _simulate(commands)
    _sessions(commands)
    _lint(commands)
    _verify(commands)
    _export(commands)
    _import(commands)
    _tap(commands)
    _batch(commands)
    return top


def _serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "serve",
        help="start the server and print its link",
        description="Start the server and print the link to open.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--port", type=_port, default=8765, help="0 chooses a free port (%(default)s)"
    )
    parser.add_argument("--open", action="store_true", help="open the link in a browser")
    parser.add_argument("--no-token", action="store_true", help="no login; on loopback only")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="another Host to accept"
    )
    parser.add_argument(
        "--env-file", type=Path, metavar="FILE", help="read keys from FILE instead of ./.env"
    )
    parser.add_argument(
        "--idle-exit",
        type=_seconds,
        metavar="SECONDS",
        help="end after this long without a request or a run",
    )
    parser.add_argument(
        "--dev",
        action="store_true",
        help="for work on the playground itself: re-read changed templates, styles and scripts, "
        "and print tracebacks with line breaks",
    )
    _db(parser)


def _run(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "run",
        help="one run without a browser",
        description="Make one run without a browser and save it as a session. Precedence: deny, "
        "answer, allow, ask. A call that no option decides ends the run with exit code 3.",
    )
    parser.add_argument("prompt")
    parser.add_argument("--profile", help="default: the simulator")
    parser.add_argument("--protocol", help=f"with --base-url: {', '.join(PROTOCOLS)}")
    parser.add_argument("--base-url", metavar="URL")
    parser.add_argument("--model")
    parser.add_argument("--system", default="", metavar="TEXT")
    parser.add_argument(
        "--tools",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE|GROUP",
        help="a name with / or . is a file; `examples` is the built-in group",
    )
    parser.add_argument("--tool-choice", default="auto", metavar="auto|required|none|NAME")
    for flag, words in (("allow", "run this tool's calls"), ("deny", "deny this tool's calls")):
        parser.add_argument(
            f"--{flag}", nargs="+", action="extend", default=[], metavar="NAME|all", help=words
        )
    parser.add_argument(
        "--answer",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=TEXT",
        help="answer this tool's calls with TEXT",
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="maximum tokens of an answer")
    parser.add_argument("--temperature", type=float, metavar="X")
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a request parameter, by the playground's name or the protocol's, such as seed=7; "
        "repeatable",
    )
    parser.add_argument("--max-turns", type=int, default=10, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--json", action="store_true", help="print the session's events, one per line"
    )
    parser.add_argument(
        "--env-file", type=Path, metavar="FILE", help="read keys from FILE instead of ./.env"
    )
    _db(parser)


def _decode(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "decode",
        help="decode recorded response bodies",
        description="Decode recorded response bodies: SSE, NDJSON or JSON, detected by content.",
    )
    parser.add_argument("protocol", help=", ".join(PROTOCOLS))
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--status", type=int, default=200, help="HTTP status (%(default)s)")
    parser.add_argument("--chunk", type=int, default=0, metavar="N", help="feed N bytes at a time")
    parser.add_argument("--json", action="store_true", help="print one object per file")


def _simulate(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "simulate",
        help="run only the simulator, for other programs",
        description=(
            "Run only the simulator. It accepts any key. Base URLs: /anthropic, /openai/v1, "
            "/gemini, /ollama."
        ),
    )
    parser.add_argument("--port", type=_port, default=0, help="0 chooses a free port (%(default)s)")
    parser.add_argument(
        "--scenario",
        metavar="FILE",
        help="play this script (docs/scenarios.md), or coding-agent, which uses the agent's "
        "own tools",
    )
    parser.add_argument(
        "--pace", type=float, default=1.0, help="1 is human pace, 0 is without delay (%(default)s)"
    )


def _sessions(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser("sessions", help="list the sessions, newest first")
    parser.add_argument("--search", default="", metavar="TEXT")
    parser.add_argument("--json", action="store_true", help="one array of objects")
    _db(parser)


def _lint(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "lint",
        help="check tools against what providers refuse or ignore",
        description="Check tools in any known format. Prints one finding per line, as "
        "FILE:LINE:TOOL:PLACE; equal findings of several tools share a line. Exits with 1 "
        "if a request would be refused or no call can be valid, 2 if a file has no tool.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--for",
        default="",
        dest="protocols",
        metavar="PROVIDER,...",
        help="protocols (openai_chat) and profiles with limits of their own (groq); default: "
        "all protocols",
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="rewrite FILE with schemas that the providers accept; prints the changes and what "
        "is no longer checked, and keeps FILE.orig",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one array of objects, with every finding"
    )


def _verify(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "verify",
        help="decode every recording again and compare",
        description="Decode every recording again and compare it with the log, byte for byte and "
        "event for event. Prints one difference per line. If no server uses the database, "
        "the list and the search index are rebuilt from the log. Exits with 1 if there is "
        "a difference.",
    )
    parser.add_argument("--json", action="store_true", help="one object")
    _db(parser)


def _export(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "export",
        help="write a session to a file",
        description="Write a session to a file, with secrets redacted. Works while a server runs. "
        "Prints to stderr what was redacted and what the format cannot contain.",
    )
    parser.add_argument(
        "session", metavar="SESSION", help="its id, as `playground sessions` lists it"
    )
    parser.add_argument(
        "--as", required=True, dest="form", metavar="FORM", help="an unknown format lists all"
    )
    parser.add_argument(
        "--without",
        nargs="+",
        action="extend",
        default=[],
        metavar="WHAT",
        help="leave out recordings, results, thinking, images or beside (an agent's side sessions)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: stdout")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one object: file, media_type, text, notes, masked",
    )
    parser.add_argument(
        "--env-file",
        type=Path,
        metavar="FILE",
        help="mask the values in FILE instead of those in ./.env",
    )
    _db(parser)


def _import(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "import",
        help="import a session, a request, a curl command or a HAR",
        description=(
            "Import a session exported as jsonl or html, a request body (OpenAI, Anthropic, "
            "Gemini, Ollama), a curl command or an HTTP archive (HAR), for reading. Nothing in "
            "it is run or sent. Prints the new session's id."
        ),
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="one object")
    _db(parser)


def _tap(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "tap",
        help="run an agent and show its requests here",
        usage="playground tap [options] NAME [-- ARGUMENT ...]\n"
        "       playground tap [options] -- COMMAND [ARGUMENT ...]",
        description="Run an agent in this terminal with its base URL set to the playground. Its "
        "requests and answers become sessions; their link is printed first. NAME is "
        "claude, codex, gemini or opencode. Any other command gets the variables that "
        "SDKs read. Starts a server if none is running.",
        epilog="The exit code is the agent's, or 127 if it is not installed.",
    )
    parser.add_argument("agent", nargs="?", metavar="NAME", help="claude, codex, gemini, opencode")
    parser.add_argument(
        "--upstream",
        metavar="PROFILE",
        help="the provider that answers, or simulator (default: the agent's own provider with "
        "its own login; for a COMMAND the simulator)",
    )
    parser.add_argument(
        "--stop-at",
        default="nothing",
        choices=("nothing", "unruled", "calls", "results", "errors"),
        help="what waits for your decision on the page: calls that no rule runs, all calls, "
        "all results, or error results (%(default)s)",
    )
    parser.add_argument(
        "--port", type=_port, help="port of the server, if one is started (8765, or a free port)"
    )
    parser.add_argument(
        "--print",
        action="store_true",
        help="print the environment and the command without running it",
    )
    _db(parser)


def _batch(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "batch",
        help="make many runs and check the results",
        description="Make all runs of a batch (cases × models × variants × repetitions) and report "
        "the results. SPEC is a YAML or JSON file: docs/batch.md. Ctrl-C stops the batch; "
        "--resume continues it.",
        epilog="Exit codes: 0 every case passes; 1 a case fails, or a variant is worse; 2 the "
        "SPEC cannot be read; 3 some runs are unknown, need a decision or were not made; "
        "130 ended by Ctrl-C.",
    )
    parser.add_argument("spec", type=Path, metavar="SPEC", help="builtin is the built-in suite")
    parser.add_argument(
        "--json", action="store_true", help="print each run as it ends, then one object"
    )
    for option, form in (
        ("junit", "JUnit XML"),
        ("csv", "CSV, one row per run"),
        ("html", "one HTML page"),
        ("markdown", "Markdown"),
    ):
        parser.add_argument(f"--{option}", type=Path, metavar="FILE", help=f"the report as {form}")
    parser.add_argument("--seed", type=_whole_number, metavar="N", help="the order of the cases")
    parser.add_argument(
        "--max-cost", type=_dollars, metavar="USD", help="pause before this amount is spent"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the newest batch of the same SPEC; finished runs are not repeated",
    )
    parser.add_argument(
        "--retry-unknown",
        action="store_true",
        help="with --resume: repeat runs whose outcome is unknown",
    )
    for flag, name, words in (
        ("filter", "CASE", "only cases with this id; * matches any characters"),
        ("allow", "NAME|all", "run the calls of this tool, which is not a mock"),
    ):
        parser.add_argument(
            f"--{flag}", nargs="+", action="extend", default=[], metavar=name, help=words
        )
    parser.add_argument(
        "--stop-early", action="store_true", help="stop when each comparison has a verdict"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the maximum number of runs, tokens and dollars, and run nothing",
    )
    parser.add_argument(
        "--engine",
        metavar="ADDRESS",
        help="make the runs in N processes (local:N) or on the workers of a Dask scheduler "
        "(tls://HOST:PORT, tcp://HOST:PORT); needs the extra `cluster`",
    )
    parser.add_argument(
        "--engine-trusted",
        action="store_true",
        help="accept a tcp:// scheduler on another machine; anyone who can reach it can run "
        "code on its workers and here",
    )
    parser.add_argument(
        "--env-file", type=Path, metavar="FILE", help="read keys from FILE instead of ./.env"
    )
    _db(parser)


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, not {text!r}")
    return int(text)


def _dollars(text: str) -> float:
    try:
        dollars = float(text)
    except ValueError:
        dollars = 0.0
    if not 0 < dollars < float("inf"):
        raise argparse.ArgumentTypeError(f"expected US dollars above 0, not {text!r}")
    return dollars


def _db(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--db", type=Path, metavar="FILE", help="default: in the user's data folder"
    )


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, not {text!r}")
    return port


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, not {text!r}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
