"""Folders, .env, the kept token and log records."""

from __future__ import annotations

import logging
import os
import stat
import sys
from pathlib import Path

import pytest

from playground import config
from playground.core.errors import BadInput, PlaygroundError

STEERING = (
    *("BROWSER", "PATH", "HTTPS_PROXY", "PYTHONPATH", "SSL_CERT_FILE", "PLAYGROUND_HOME"),
    *("OPENSSL_CONF", "GCONV_PATH", "EDITOR", "NOT A_API_KEY", "OPENAI_BASE_URL_X"),
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_data_folder_is_the_users_own_or_the_one_named(tmp_path: Path) -> None:
    assert config.data_folder({}).name == "tool-playground"
    assert config.data_folder({"PLAYGROUND_HOME": str(tmp_path)}) == tmp_path
    assert config.default_db({"PLAYGROUND_HOME": str(tmp_path)}).parent == tmp_path


def test_resources_are_found_in_a_checkout_and_in_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config.resource("static") == config.APP.parent.parent / "static"
    monkeypatch.setattr(config, "APP", tmp_path / "app")
    with pytest.raises(PlaygroundError, match="Reinstall tool-playground"):
        config.resource("templates")
    inside = tmp_path / "app" / "_data" / "templates"
    inside.mkdir(parents=True)
    assert config.resource("templates") == inside


def test_a_folder_of_ours_is_private(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        config.set_umask()
        config.private_folder(tmp_path / "data").joinpath("file").write_text("x")
    finally:
        os.umask(before)
    assert mode(tmp_path / "data") == 0o700
    assert mode(tmp_path / "data" / "file") == 0o600


def write_env(folder: Path, text: str, bits: int = 0o600) -> Path:
    path = folder / ".env"
    path.write_text(text)
    path.chmod(bits)
    return path


def test_env_is_read_from_the_start_folder_and_never_from_a_parent(tmp_path: Path) -> None:
    write_env(tmp_path, "OUTER_API_KEY=outer\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    environ: dict[str, str] = {}
    assert config.load_env(inner, environ=environ) == []
    assert environ == {}
    write_env(inner, "A_API_KEY=from file\nB_API_KEY=from file\nC_API_KEY=a${B_API_KEY}\nEMPTY=\n")
    environ = {"A_API_KEY": "from the shell"}
    assert config.load_env(inner, environ=environ) == []
    assert environ == {
        "A_API_KEY": "from the shell",
        "B_API_KEY": "from file",
        "C_API_KEY": "a${B_API_KEY}",
    }


def test_an_env_file_that_others_can_read_is_warned_about(tmp_path: Path) -> None:
    path = write_env(tmp_path, "A_API_KEY=1\n", 0o644)
    assert config.load_env(tmp_path, environ={}) == [
        f"Other users can read {path}. Run: chmod 600 {path}"
    ]


def test_an_env_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--env-file"):
        config.load_env(tmp_path, tmp_path / "missing", {})
    path = write_env(tmp_path, "")
    path.write_bytes(b"A=\xff\xfe\n")
    with pytest.raises(BadInput, match="UTF-8"):
        config.load_env(tmp_path, path, {})
    [sentence] = config.load_env(tmp_path, None, {})
    assert "UTF-8" in sentence


def test_a_folders_env_brings_keys_and_nothing_else(tmp_path: Path) -> None:
    own = {"FOO_API_KEY": "k", "OPENAI_ORG_ID": "o", "OPENAI_PROJECT_ID": "p"}
    lines = [*(f"{name}=/evil" for name in STEERING), *(f"{n}={v}" for n, v in own.items())]
    path = write_env(tmp_path, "\n".join(lines) + "\n")
    environ: dict[str, str] = {}
    warnings = config.load_env(tmp_path, environ=environ)
    assert environ == own
    assert all(any(w.startswith(f"{name} in ") for w in warnings) for name in STEERING[:-2])
    config.load_env(tmp_path, path, environ)
    assert environ["BROWSER"] == "/evil"  # named: the user's own


def test_a_folders_env_moves_only_the_key_that_it_brings(tmp_path: Path) -> None:
    text = "ANTHROPIC_BASE_URL=https://evil.example\nANTHROPIC_API_KEY=its own\n"
    text += "OPENAI_BASE_URL=https://evil.example\n"
    text += "FOO_BASE_URL=https://foo.example\nFOO_API_KEY=its own\n"
    text += "AZURE_OPENAI_ENDPOINT=https://evil.example\n"
    path = write_env(tmp_path, text)
    environ = {"ANTHROPIC_API_KEY": "of the shell"}
    warnings = config.load_env(tmp_path, environ=environ)
    assert environ == {
        "ANTHROPIC_API_KEY": "of the shell",
        "FOO_BASE_URL": "https://foo.example",
        "FOO_API_KEY": "its own",
    }
    assert [warning.split(" in ")[0] for warning in warnings] == [
        "ANTHROPIC_BASE_URL",
        "OPENAI_BASE_URL",
        "AZURE_OPENAI_ENDPOINT",
    ]
    config.load_env(tmp_path, path, environ)
    assert environ["ANTHROPIC_BASE_URL"] == "https://evil.example"


def test_the_token_is_made_once_kept_private_and_reused(tmp_path: Path) -> None:
    db = tmp_path / "new" / "my.db"
    assert config.read_token(db, {}) is None
    token = config.read_or_make_token(db, {})
    assert len(token) >= 43
    assert mode(config.token_path(db)) == 0o600
    assert mode(db.parent) == 0o700
    assert config.read_or_make_token(db, {}) == config.read_token(db, {}) == token
    assert config.read_or_make_token(tmp_path / "other.db", {}) != token


@pytest.mark.parametrize("harm", ["readable", "junk", "empty", "link"])
def test_a_token_that_cannot_be_trusted_is_replaced(tmp_path: Path, harm: str) -> None:
    db = tmp_path / "my.db"
    token = config.read_or_make_token(db, {})
    path = config.token_path(db)
    match harm:
        case "readable":
            path.chmod(0o644)
        case "junk":
            path.write_bytes(b"\xff; Path=/evil")
        case "empty":
            path.write_text("")
        case _:
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
    fresh = config.read_or_make_token(db, {})
    assert fresh != token
    assert path.read_text().strip() == fresh
    assert not path.is_symlink()
    assert mode(path) == 0o600


def test_the_environments_token_wins_and_is_not_written(tmp_path: Path) -> None:
    db = tmp_path / "my.db"
    assert config.read_or_make_token(db, {"PLAYGROUND_TOKEN": "typed-token"}) == "typed-token"
    assert not config.token_path(db).exists()
    for bad in ("short", "with space in it", "semi;colon-and-more", "ünïcödé-token"):
        with pytest.raises(BadInput, match="unset it"):
            config.read_or_make_token(db, {"PLAYGROUND_TOKEN": bad})


def test_a_token_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaygroundError, match="PLAYGROUND_TOKEN"):
        config.read_or_make_token(tmp_path / "file" / "my.db", {})


def test_a_log_record_is_one_masked_line(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.addFilter(config.log_filter(lambda text: text.replace("hunter2", "*******")))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        raise ValueError("\x1b[2J hunter2\r\nforged\u2028 \x9b \u202e \ud800")
    except ValueError:
        logger.exception("name %s", "a\x07\nb")
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert printed.endswith("\n")
    assert "\\u001b[2J *******\\u000d\\u000aforged\\u2028 \\u009b \\u202e \\ud800" in printed
    assert "name a\\u0007\\u000ab" in printed
    assert config.one_line(printed[:-1]) == printed[:-1]
