"""The house rules that a machine can see to: floors, purity, mirror, size, words, vendored files.

Each rule is a function from sources to sentences, and is shown to fail once on a bad example.
The rules themselves stand in docs/house.md.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APP = sorted((ROOT / "app").rglob("*.py"))

FLOORS: Mapping[str, int] = {
    "core": 1,
    **dict.fromkeys(("wire", "store", "schema", "net", "config"), 2),
    **dict.fromkeys(("render", "export", "formats", "executors", "simulator"), 3),
    "engine": 4,
    "web": 5,
    **dict.fromkeys(("commands", "cli"), 6),
}
SIDEWAYS = {("export", "render"), ("cli", "commands")}
"""Arrows between rooms of one floor that are drawn on purpose."""

PURE = ("core", "wire", "schema", "formats", "render", "export")
IMPURE = {"asyncio", "httpx", "aiosqlite", "starlette", "time", "uuid", "os", "random", "socket"}

MOST_LINES = 400

EXTRAS = {"mcp", "httpx2", "pydantic_monty", "genai_prices"}
"""Optional extras, the only modules that may be imported when first used."""

FORBIDDEN = {
    *("conversation", "conversations", "thread", "threads", "approve", "approved", "approval"),
    *("handler", "handlers", "manager", "helper", "helpers", "util", "utils", "service"),
    *("services", "context"),
}

MEANT = {"threads_of": "the threads of a process of the operating system"}
"""Names that use a forbidden word for what it means elsewhere."""

COVERED_ELSEWHERE: Mapping[str, str] = {
    "app/cli.py": "tests/commands, which type real command lines",
    "app/commands/listening.py": "tests/commands/test_serve.py: ports, signals, the end",
    "app/commands/import_.py": "tests/commands/test_export.py, out and in",
    "app/commands/lint_fix.py": "tests/commands/test_lint.py, what --fix writes",
    **dict.fromkeys(
        (
            *("app/schema/rewrite_gemini.py", "app/schema/rewrite_inline.py"),
            "app/schema/rewrite_strict.py",
        ),
        "tests/schema/test_rewrite.py, by the same values",
    ),
    "app/export/python_said.py": "tests/export/test_python.py, which runs all of it",
    "app/executors/typed_code.py": "tests/executors/test_sandboxed.py, which runs it",
    "app/commands/remote.py": "tests/commands/test_run.py, through a running server",
    "app/commands/told.py": "tests/commands/test_run.py, both forms of output",
    "app/commands/toolfiles.py": "tests/commands/test_run.py, files of tools",
    "app/core/compatible.py": "rows only; tests/core/test_vendors.py reads each",
    "app/core/digests.py": "tests/engine/test_once.py, what each digest tells apart",
    "app/core/errors.py": "names only; raised all over",
    "app/core/events.py": "values only; tests/core/test_rows.py writes and reads each",
    "app/export/kept.py": "values only; tests/export",
    "app/engine/exporting.py": "tests/engine/test_bringing.py, tests/export/test_redact.py",
    "app/export/table.py": "rows only; tests/export",
    "app/render/compare_calls.py": "tests/render/test_compare.py, the cells of its rows",
    "app/store/marks.py": "tests/engine/test_purging.py",
    "app/store/purge.py": "tests/engine/test_purging.py, from the engine down to the rows",
    "app/render/finding.py": "tests/web/pages/test_finding.py, the page over HTTP",
    "app/engine/closing.py": "tests/core/test_fold.py and tests/engine/test_recovery.py",
    "app/engine/summaries.py": "tests/engine/test_hub.py, which reads the list",
    "app/render/wire_labels.py": "tests/render/test_wire_rows.py, whose rows bear them",
    "app/store/projections.py": "tests/engine/test_verifying.py, which spoils each",
    "app/store/batch.py": "tests/store/test_log.py, which writes and reads each",
    "app/core/servers.py": "tests/store/test_library.py keeps one and tells it by its print",
    "app/core/settings.py": "values only",
    "app/core/vendor.py": "values only; tests/core/test_vendors.py",
    "app/engine/writing.py": "tests/engine/test_client.py and test_failures.py, over real HTTP",
    "app/executors/example_tools.py": "tests/executors/test_examples.py",
    "app/executors/mcp_connection.py": "tests/executors/test_mcp.py, over real servers",
    "app/executors/mcp_stdio.py": "tests/executors/test_mcp.py, over servers good and bad",
    "app/executors/runner.py": "tests/executors/test_python.py, in its own process",
    **dict.fromkeys(
        ("app/executors/workspace/child.py", "app/executors/workspace/page.py"),
        "tests/executors/workspace/test_fetch.py, in their own process",
    ),
    "app/executors/workspace/pdf.py": "test_read.py beside it, in its own process",
    "app/executors/workspace/tools.py": "rows only; test_workspace.py calls each",
    "app/executors/workspace/trouble.py": "rows only; test_workspace.py meets each",
    "app/render/imports.py": "tests/web/pages/test_imports.py, which reads the whole page",
    "app/render/pages.py": "tests/render and tests/web",
    "app/render/providers.py": "tests/web/test_providers.py",
    **dict.fromkeys(
        (
            *(
                "app/schema/lint_finding.py",
                "app/schema/lint_rules.py",
                "app/schema/lint_openai.py",
            ),
            *(
                "app/schema/lint_anthropic.py",
                "app/schema/lint_gemini.py",
                "app/schema/lint_weak.py",
            ),
            *("app/schema/lint_ollama.py", "app/schema/lint_group.py", "app/schema/lint_forms.py"),
            *("app/schema/lint_accepted.py", "app/simulator/written.py"),
            *("app/simulator/anthropic_strict.py", "app/simulator/openai_schema.py"),
        ),
        "tests/simulator/test_constructs.py, one against the other; tests/schema/test_lint.py",
    ),
    **dict.fromkeys(
        (
            *("app/schema/cost.py", "app/schema/sentences.py"),
            *("app/schema/soundness.py", "app/schema/strict.py"),
        ),
        "tests/schema/test_validate.py and test_arguments.py, which ask for whole verdicts",
    ),
    **dict.fromkeys(
        ("app/simulator/gemini_fields.py", "app/simulator/gemini_tools.py"),
        "tests/simulator/test_gemini_request.py, whose refusals are theirs",
    ),
    **dict.fromkeys(
        (
            *("app/simulator/answer.py", "app/simulator/enums.py", "app/simulator/fill.py"),
            *("app/simulator/reply.py", "app/simulator/roles.py", "app/simulator/shape.py"),
            *("app/simulator/smalltalk.py", "app/simulator/supply.py"),
            "app/simulator/words.py",
        ),
        "tests/simulator/test_model.py and test_plan.py, which read whole replies",
    ),
    **dict.fromkeys(
        (
            "app/simulator/anthropic.py",
            "app/simulator/ollama.py",
            *("app/simulator/faults.py", "app/simulator/fault_answers.py"),
            *("app/simulator/fault_calls.py", "app/simulator/fault_streams.py"),
            *("app/simulator/fault.py", "app/simulator/fault_fields.py"),
            *("app/simulator/fault_raw.py", "app/simulator/faults_said.py"),
        ),
        "tests/simulator/test_app.py and test_end.py; tests/engine/test_faults.py plays each fault",
    ),
    "app/formats/pasted.py": "values only; tests/formats/test_requests.py",
    "app/formats/bodies.py": "tests/formats/test_retold.py and test_requests.py, which read each",
    "app/formats/found.py": "values only; tests/formats/test_read.py",
    "app/formats/openapi_schemas.py": "tests/formats/test_openapi.py: refs, circles, $defs",
    **dict.fromkeys(
        (
            *("app/formats/entry.py", "app/formats/openai.py", "app/formats/anthropic.py"),
            *("app/formats/gemini.py", "app/formats/mcp.py", "app/formats/json_schema.py"),
        ),
        "tests/formats/test_shapes.py and test_read.py, which read each format whole",
    ),
    "app/formats/openapi_written.py": "tests/formats/test_write.py, which reads it back",
    "app/formats/python_file.py": "tests/formats/test_write.py, which reads it back",
    "app/render/trying.py": "tests/web/pages/test_trying.py draws each piece",
    "app/web/trying.py": "tests/web/pages/test_trying.py, over real HTTP",
    "app/formats/python_written.py": "tests/formats/test_python_face.py, which reads it back",
    "app/schema/field_words.py": "tests/schema/test_fields.py, which reads the labels",
    "app/simulator/openai_responses_input.py": "test_openai_responses_request.py beside it",
    "app/simulator/openai_responses_refusals.py": "test_openai_responses_request.py beside it",
    "app/wire/openai_responses_items.py": "tests/wire/test_openai_responses.py",
    **dict.fromkeys(
        ("app/simulator/anthropic_tools.py", "app/simulator/anthropic_content.py"),
        "tests/simulator/test_anthropic_request.py, which sends whole requests",
    ),
    **dict.fromkeys(
        (
            *("app/simulator/openai_chat_tools.py", "app/simulator/openai_chat_messages.py"),
            "app/simulator/openai_chat_refusals.py",
        ),
        "tests/simulator/test_openai_chat_request.py, which sends whole requests",
    ),
    "app/web/app.py": "tests/web/test_routes.py, the inventory of its routes",
    **dict.fromkeys(
        ("app/web/pages/models.py", "app/web/pages/column.py"),
        "tests/web/pages/test_beside.py, where they lead to and stand",
    ),
    "app/web/demos.py": "tests/web/test_api.py starts each",
    "app/web/forms.py": "tests/web/test_api.py, in all three ways of asking",
    "app/web/judged.py": "tests/web/pages/test_faces.py, which asks for judgements",
    "app/web/rules.py": "tests/web/pages/test_rules.py, both lists and Setup",
    "app/web/sharing.py": "tests/web/pages/test_sharing.py, which reads the whole pages",
    "app/web/site.py": "tests/web/test_api.py",
    "app/web/typed_tool.py": "tests/web/pages/test_faces.py, every button of the editor",
    "app/web/pages/actions.py": "tests/web/test_api.py",
    "app/web/pages/providers.py": "tests/web/test_providers.py",
    "app/web/pages/session.py": "tests/web/test_api.py",
    "app/web/pages/sessions.py": "tests/web/test_api.py",
}
"""Files without a test of their own name, and where they are tested."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room(module: str) -> str:
    """`app.wire.framing` -> `wire`; "" for `app` itself."""
    return module.split(".")[1] if "." in module else ""


@cache
def parsed(source: str) -> ast.Module:
    """The same for every rule, none of which changes it."""
    return ast.parse(source)


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(module, line) of every import, `from app import config` as `app.config`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((one.name, node.lineno) for one in names)
            case ast.ImportFrom(module="app", names=names):
                yield from ((f"app.{one.name}", node.lineno) for one in names)
            case ast.ImportFrom(module=str(module)):
                yield module, node.lineno


def floor_errors(name: str, source: str) -> list[str]:
    """Imports that point up or sideways."""
    own = room(name.removesuffix(".py").replace("/", "."))
    found = []
    for module, line in imports(parsed(source)):
        other = room(module)
        if not module.startswith("app.") or other == own or other.startswith("__"):
            continue
        lower = FLOORS.get(other, 99) < FLOORS.get(own, 0)
        if not lower and (own, other) not in SIDEWAYS:
            found.append(f"{name}:{line}: {own or 'app'} may not import {other}")
    return found


def purity_errors(name: str, source: str) -> list[str]:
    """Imports of what a pure floor may not know."""
    if room(name.replace("/", ".")) not in PURE:
        return []
    return [
        f"{name}:{line}: imports {module}"
        for module, line in imports(parsed(source))
        if module.split(".")[0] in IMPURE
    ]


def inner_import_errors(name: str, source: str) -> list[str]:
    """Imports inside functions, but for optional extras."""
    found = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for module, line in imports(node):
                if module.split(".")[0] not in EXTRAS:
                    found.add(f"{name}:{line}: imports {module} inside a function")
    return sorted(found)


def size_errors(name: str, source: str) -> list[str]:
    lines = source.count("\n")
    return [f"{name} has {lines} lines"] if lines > MOST_LINES else []


def word_errors(name: str, source: str) -> list[str]:
    """Forbidden words in the names of files, functions and classes of ours."""
    found = [f"{name}: the file's name" for word in _words(name) if word in FORBIDDEN]
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found += [
                f"{name}:{node.lineno}: {node.name} says {word!r}"
                for word in _words(node.name)
                if word in FORBIDDEN and node.name not in MEANT
            ]
    return found


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.split(r"[^a-z]+", spaced.lower().removesuffix(".py"))


def mirror_errors(names: set[str], tests: set[str]) -> list[str]:
    """Files with logic that have no test of their name and no reason why not."""
    found = []
    for name in sorted(names):
        folder, _, file = name.removeprefix("app/").rpartition("/")
        test = "/".join(part for part in ("tests", folder, f"test_{file}") if part)
        if file != "__init__.py" and test not in tests and name not in COVERED_ELSEWHERE:
            found.append(f"{name} has no {test}")
    return found


def host_errors(name: str, text: str) -> list[str]:
    """Addresses of other hosts that a page would load from."""
    pattern = (
        r"(?:src|href|action|url\(|import|@import|fetch\()\s*=?\s*[\"'(]*(?:https?:)?//[^\"')\s]+"
    )
    return [f"{name}: {one}" for one in re.findall(pattern, text)]


def vendored_errors(folder: Path) -> list[str]:
    """Vendored files that are not those whose sums were written down."""
    sums = {}
    for line in (folder / "SHA256SUMS").read_text().split("\n"):
        if line.strip():
            digest, _, file = line.partition(" ")
            sums[file.strip(" *./")] = digest
    found = [f"{file} is gone" for file in sums if not (folder / file).is_file()]
    for path in sorted(folder.iterdir()):
        if path.suffix in (".js", ".css") and path.name not in sums:
            found.append(f"{path.name} is not in SHA256SUMS")
        if path.name in sums and hashlib.sha256(path.read_bytes()).hexdigest() != sums[path.name]:
            found.append(f"{path.name} was changed")
    return found


SOURCE_RULES = (floor_errors, purity_errors, inner_import_errors, size_errors, word_errors)


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_every_source_keeps_the_rule(rule: object) -> None:
    assert callable(rule)
    found = [error for path in APP for error in rule(name_of(path), path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "name", "bad"),
    [
        (floor_errors, "app/core/state.py", "from app.wire.framing import Framer"),
        (floor_errors, "app/engine/hub.py", "from app.web.site import Site"),
        (floor_errors, "app/wire/codec.py", "import app.store.log"),
        (floor_errors, "app/wire/codec.py", "from app import config"),
        (floor_errors, "app/schema/lint.py", "def f():\n    from app.engine import hub"),
        (purity_errors, "app/core/decide.py", "import time"),
        (purity_errors, "app/render/draw.py", "from os.path import join"),
        (inner_import_errors, "app/net/client.py", "def f():\n    import json"),
        (size_errors, "app/core/state.py", "\n" * 401),
        (word_errors, "app/web/utils.py", ""),
        (word_errors, "app/web/app.py", "class SessionManager: ..."),
        (word_errors, "app/web/app.py", "async def approve_call(): ..."),
    ],
)
def test_a_broken_rule_is_found(rule: object, name: str, bad: str) -> None:
    assert callable(rule)
    assert len(rule(name, bad)) == 1
    assert rule(name, "from app.core.errors import BadInput") == (
        [] if "utils" not in name else rule(name, "")
    )


def test_the_tests_mirror_the_app() -> None:
    tests = {name_of(path) for path in (ROOT / "tests").rglob("test_*.py")}
    assert mirror_errors({name_of(path) for path in APP}, tests) == []
    assert mirror_errors({"app/wire/new.py"}, tests) == [
        "app/wire/new.py has no tests/wire/test_new.py"
    ]


def test_the_reasons_are_about_files_that_are_there() -> None:
    assert [name for name in COVERED_ELSEWHERE if not (ROOT / name).is_file()] == []


def test_vendored_files_are_those_that_were_checked(tmp_path: Path) -> None:
    vendor = ROOT / "static" / "vendor"
    assert vendored_errors(vendor) == []
    (tmp_path / "a.js").write_text("changed")
    (tmp_path / "b.js").write_text("unknown")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  a.js\n{'0' * 64}  c.js\n")
    assert len(vendored_errors(tmp_path)) == 3


def test_pages_name_no_other_host() -> None:
    for path in [*(ROOT / "templates").rglob("*"), *(ROOT / "static").glob("*.*")]:
        if path.is_file() and path.suffix in (".html", ".css", ".js", ".svg"):
            text = path.read_text().replace("http://www.w3.org/", "")
            assert host_errors(path.name, text) == []
    assert host_errors("bad.html", '<script src="https://cdn.example/x.js">') != []
    assert host_errors("bad.css", "@import url(//cdn.example/x.css)") != []


MACHINE = re.compile(r"/" + r"work\b|\bissue" + r" #?\d+\b|" + r"Anthro" + r"pic Claude Code", re.I)


def test_nothing_names_the_machine_it_was_written_on() -> None:
    folders = ("app", "tests", "bench", "templates", "docs")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    paths += [*(ROOT / "static").glob("*.*"), *ROOT.glob("*.*")]
    text = {".py", ".html", ".md", ".css", ".js", ".toml"}
    for path in paths:
        if path.is_file() and path.suffix in text:
            assert MACHINE.findall(path.read_text()) == [], path
    assert MACHINE.search("see /" + "work/x")


def recording_errors(name: str, source: str) -> list[str]:
    """Strings that say where recordings lie; PLAYGROUND_RECORDINGS is to say it."""
    pattern = r"shared/recordings|recordings/(?:INDEX|LICENSES|PROVENANCE)|\.\./recordings"
    found = [] if "PLAYGROUND_RECORDINGS" in source else re.findall(pattern, source)
    return [f"{name}: {one}" for one in found]


def test_recordings_are_found_by_their_variable_alone() -> None:
    paths = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py"), *APP]
    for path in paths:
        if path != Path(__file__).resolve():
            assert recording_errors(name_of(path), path.read_text()) == []
    assert recording_errors("bad.py", 'Path("../recordings")') != []
