"""Tests in several processes: each is reported once, whatever becomes of the process it ran in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.served import ROOT

FILE = """
import os
import pytest

def test_passes(): pass
def test_fails(tmp_path): print("in", tmp_path); os.system("echo said by a child"); assert 1 == 2
def test_is_skipped(): pytest.skip("for no reason")
@pytest.mark.parametrize("number", range(20))
def test_goes_on(number, whole): pass

@pytest.fixture(scope="module")
def whole():
    yield
    raise ValueError("the end of a fixture")
"""
KILLS = """
import os, signal

def test_kills(): os.kill(os.getpid(), signal.SIGKILL)
def test_goes_on(): pass
"""

HANGS = """
import pytest
from tests.bounded import within

@pytest.fixture
def hangs(tmp_path):
    yield
    with within(0.1):
        while True: pass

def test_hangs(hangs): pass
def test_has_its_own_folder(tmp_path): assert "own_folder" in tmp_path.name
"""


def test_each_is_reported_once_and_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.workers import *")
    (tmp_path / "test_some.py").write_text(FILE)
    (tmp_path / "test_other.py").write_text(KILLS)  # what its worker had set up goes with it
    (tmp_path / "test_third.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    plain = ["-q", "-n", "2", "-p", "no:cacheprovider", "-p", "no:xdist", "--durations=1"]
    command = [sys.executable, "-m", "pytest", *plain, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    said = ended.stdout
    assert ended.returncode == 1, said + ended.stderr
    assert "2 failed, 24 passed, 1 skipped" in said
    assert "assert 1 == 2" in said
    assert "in /" in said
    assert "said by a child" in said
    assert "The worker of this test ended: signal 9" in said
    assert "the end of a fixture" in said
    assert "not done within 0.1 s" in said
    assert "slowest" in said
    assert ended.stderr == ""
