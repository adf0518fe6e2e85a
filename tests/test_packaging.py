"""What is installed is whole: the wheel holds the pages, the vendored files and the licences."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from the checkout, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder)]
    process = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr
    (path,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(path).namelist())


@pytest.mark.parametrize("folder", ["templates", "static"])
def test_every_page_and_static_file_is_in_the_wheel(wheel: set[str], folder: str) -> None:
    paths = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    files = [path.relative_to(ROOT) for path in paths if path.suffix != ".pyc"]
    assert files
    assert {f"playground/_data/{path.as_posix()}" for path in files} <= wheel


def test_the_wheel_holds_the_program_and_nothing_of_the_tests(wheel: set[str]) -> None:
    # What is compiled just now, by whichever process, has a name that ends in a number.
    every = (
        path for path in (ROOT / "app/playground").rglob("*.*") if path.parent.name != "__pycache__"
    )
    every = (path for path in every if path.suffix != ".so")
    files = {path.relative_to(ROOT / "app").as_posix() for path in every if path.is_file()}
    assert {"playground/evaluation/suite/suite.yaml", "playground/py.typed"} <= files
    assert files <= wheel
    assert not [name for name in wheel if name.startswith(("tests/", "bench/", ".ci/"))]
    assert not [name for name in wheel if name.endswith(".pyc")]
    licences = {
        "LICENSE",
        "static/vendor/htmx-LICENSE",
        "app/playground/secrets/vendor/gitleaks-LICENSE",
    }
    assert not [each for each in licences if not any(n.endswith(f"licenses/{each}") for n in wheel)]
