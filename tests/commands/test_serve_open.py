"""`playground serve --open`: the browser learns the token, and nobody who lists processes."""

from __future__ import annotations

import os
import selectors
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from playground.commands.serve import open_browser
from tests.servers import run_server_process


def told_browser(folder: Path) -> tuple[Path, int]:
    """A browser that tells what it was started with, and where that can be read."""
    pipe, browser = folder / "pipe", folder / "browser"
    os.mkfifo(pipe)
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$*" > {pipe}\n')
    browser.chmod(0o700)
    return browser, os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)


def read(pipe: int) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        assert selector.select(10)
    return os.read(pipe, 4096).decode()


def test_the_browser_is_given_a_private_file_and_no_token(tmp_path: Path) -> None:
    browser, pipe = told_browser(tmp_path)
    try:
        with run_server_process(
            tmp_path / "a.db", "--open", BROWSER=str(browser)
        ) as server_process:
            argument = read(pipe)
            assert server_process.token not in argument
            page = Path(unquote(urlsplit(argument).path))
            assert stat.S_IMODE(page.stat().st_mode) == 0o600
            assert f"{server_process.url}/?token={server_process.token}" in page.read_text()
            assert server_process.end() == 0
        assert not page.exists()
    finally:
        os.close(pipe)


def test_a_link_planted_in_the_way_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    target, page = tmp_path / "target", tmp_path / "a.db.open.html"
    target.write_text("mine")
    page.symlink_to(target)
    with open_browser("http://127.0.0.1:1/?token=t", tmp_path / "a.db"):
        assert not page.is_symlink()
        assert "token=t" in page.read_text()
    assert (target.read_text(), page.exists()) == ("mine", False)
    with open_browser("http://127.0.0.1:1/", tmp_path / "gone" / "a.db"):
        pass  # the link was printed: no error
