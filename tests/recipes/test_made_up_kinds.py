"""The type checker names every place that a new event, executor or provider needs.

Each is made up on a copy of the program, in the union or the Literal and nowhere else. A place that
is missing here is one that a person would have to find.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tests.recipes.conftest import ProgramCopy
from tests.servers import ROOT, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVENT = """@dataclass(frozen=True)
class NoteAdded:
    text: str


Event = (
    NoteAdded |
"""

EVENT_PLACES = [
    ("commands/run.py", "NoteAdded"),  # whether a run may rest after it
    ("commands/run.py", "NoteAdded"),  # what the terminal prints
    ("core/events.py", "NoteAdded"),  # its durability
    ("core/reducer.py", "NoteAdded"),
    ("engine/redaction.py", "NoteAdded"),
    ("exchange/session_redaction.py", "NoteAdded"),  # where something was masked, in words
    ("exchange/session_redaction.py", "NoteAdded"),  # what an export leaves out
    ("render/blocks.py", "NoteAdded"),
    ("render/replay_timeline.py", "NoteAdded"),
    ("render/wire_rows.py", "NoteAdded"),
    ("store/writes.py", "NoteAdded"),  # whether a search finds it
]
EXECUTOR_PLACES = [
    ("core/tools.py", "echo"),
    ("executors/run_with_limits.py", "echo"),
    ("render/card.py", "echo"),
    ("schema/validate.py", "echo"),
    ("web/imports_view.py", "echo"),
]
PROVIDER_PLACES = [("core/providers.py", "acme")]

COMPLAINT = re.compile(
    r"app/playground/(\S+\.py):\d+: error: (?:Argument 1 to \"assert_never\" has incompatible type "
    r"\"(?:Literal\[')?(\w+)(?:'\])?\"|Missing key \"(\w+)\" for TypedDict)"
)


def complaints(program: ProgramCopy) -> list[tuple[str, str]]:
    """The file and the made-up name of each error."""
    shutil.copy(ROOT / "pyproject.toml", program.root)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", "cache", "app"],
        capture_output=True,
        text=True,
        cwd=program.root,
        env=environment(),
        timeout=500,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    matches = [COMPLAINT.match(line) for line in errors]
    other = [line for line, match in zip(errors, matches, strict=True) if match is None]
    assert other == [], done.stdout + done.stderr
    return sorted((match[1], match[2] or match[3]) for match in matches if match is not None)


def test_the_type_checker_names_every_place(program: ProgramCopy) -> None:
    program.replace("core/events.py", "Event = (\n", EVENT)
    tools = "core/tools.py"
    program.replace(tools, '"person", "workspace"]\n', '"person", "workspace", "echo"]\n')
    program.replace(tools, "    workspace: T\n", "    workspace: T\n    echo: T\n")
    start = "ProviderName = Literal[\n"
    program.replace("core/providers.py", start, f'{start}    "acme",\n')
    assert complaints(program) == sorted(EVENT_PLACES + EXECUTOR_PLACES + PROVIDER_PLACES)
