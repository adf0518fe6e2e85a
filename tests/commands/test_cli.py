"""A command is imported when it is run, without a look for garbage while it grows."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace

import pytest

from app import cli
from app.commands import decode


@pytest.mark.parametrize("breaks", [False, True])
def test_garbage_is_looked_for_again_after_a_command_is_imported(
    monkeypatch: pytest.MonkeyPatch, breaks: bool
) -> None:
    looked: list[bool] = []

    def imported(name: str) -> SimpleNamespace:
        looked.append(gc.isenabled())
        if breaks:
            raise ImportError(name)
        return SimpleNamespace(main=len)

    monkeypatch.setattr(cli, "import_module", imported)
    try:
        assert cli._command("app.commands.new") is len
    except ImportError:
        assert breaks
    finally:
        gc.unfreeze()
    assert looked == [False]
    assert gc.isenabled()


def test_a_command_that_is_there_is_taken() -> None:
    assert cli._command(decode.__name__) is sys.modules[decode.__name__].main
