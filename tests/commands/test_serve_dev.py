"""`playground serve --dev`: changed sources are served, and tracebacks are printed in lines."""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from playground import config
from playground.config import log_filter, one_line, printable_lines
from playground.engine.engine import Engine
from playground.web import app as web_app
from tests.engines import run_engine
from tests.servers import NO_TLS, WAIT_S, run_server_process
from tests.web.asking import BEARER, HERE, OWN, PAGE, PORT, TOKEN, Told, call, scope_of

pytestmark = pytest.mark.anyio

IMMUTABLE = "public, max-age=31536000, immutable"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of templates and static files that the app serves."""
    for folder in ("templates", "static"):
        shutil.copytree(config.resource(folder), tmp_path / "sources" / folder)
    monkeypatch.setattr(config, "resource", lambda folder: tmp_path / "sources" / folder)
    return tmp_path / "sources"


def replace_text(path: Path, old: str, new: str) -> None:
    """Changes a source, and its time, in case that the clock of the file system is coarse."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    os.utime(path, ns=(1, 1))


async def get(engine_app: object, path: str) -> Told:
    scope = scope_of("GET", path, [("host", HERE), OWN, BEARER, PAGE])
    return await call(engine_app, scope)  # type: ignore[arg-type]


def make_app(engine: Engine, *, dev: bool) -> object:
    async def no_simulator(scope: object, receive: object, send: object) -> None:
        raise AssertionError

    app, _ = web_app.make_app(
        engine, token=TOKEN, port=lambda: PORT, simulator=no_simulator, dev=dev
    )
    return app


def asset_of(page: Told, name: str) -> str:
    match = re.search(rf'"(/static/{name}-[0-9a-f]+\.(?:css|js))"', page.body.decode())
    assert match is not None
    return match[1]


@pytest.mark.parametrize("dev", [True, False])
async def test_changed_sources_when_dev_are_served(
    sources: Path, dev: bool, engine: Engine
) -> None:
    app = make_app(engine, dev=dev)
    before = await get(app, "/welcome")
    replace_text(sources / "templates/welcome.html", "</h1>", " again</h1>")
    replace_text(sources / "static/base.css", ":root {", ":root { --new-in-dev: 1;")
    replace_text(sources / "static/toasts.js", "const ", "/* new in dev */ const ")
    after = await get(app, "/welcome")
    assert (" again</h1>" in after.body.decode()) is dev
    for name, text in (("app", "--new-in-dev"), ("app", "/* new in dev */")):
        kind = "css" if text.startswith("--") else "js"
        address = re.search(rf"/static/{name}-[0-9a-f]+\.{kind}", after.body.decode())
        assert address is not None
        served_file = await get(app, address[0])
        assert (text in served_file.body.decode()) is dev
        assert served_file.header("cache-control") == ("no-cache" if dev else IMMUTABLE)
    assert asset_of(before, "app") != asset_of(after, "app") if dev else True


@pytest.mark.parametrize("dev", [True, False])
async def test_traceback_when_dev_is_logged_in_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, dev: bool
) -> None:
    async def broken(request: Request) -> Response:
        raise RuntimeError("broken \x1b[31m on purpose")

    monkeypatch.setattr(web_app, "_routes", lambda: [Route("/broken", broken)])
    async with run_engine(tmp_path) as engine:
        with caplog.at_level(logging.ERROR, "playground"):
            output = await get(make_app(engine, dev=dev), "/broken")
    assert output.status == 500
    (record,) = (record for record in caplog.records if "on purpose" in record.getMessage())
    lines = record.getMessage().split("\n")
    assert (len(lines) > 5) is dev
    assert "\x1b" not in record.getMessage()
    if dev:
        assert lines[1] == "Traceback (most recent call last):"
        assert lines[-2] == "RuntimeError: broken \\u001b[31m on purpose"


@pytest.mark.parametrize(
    ("printable", "text"),
    [(one_line, "a\\u000aTraceback *** \\u001b"), (printable_lines, "a\nTraceback *** \\u001b")],
)
def test_log_filter_masks_and_escapes_in_both_forms(printable: object, text: str) -> None:
    record = logging.makeLogRecord({"levelno": logging.ERROR, "msg": "a\nTraceback key \x1b"})
    mask = log_filter(lambda words: words.replace("key", "***"), printable)  # type: ignore[arg-type]
    assert mask(record)
    assert record.getMessage() == text


def test_serve_dev_is_an_option_of_the_command(tmp_path: Path) -> None:
    """The whole way from the command line to a response."""
    with (
        run_server_process(tmp_path / "dev.db", "--dev") as server,
        httpx.Client(base_url=server.url, trust_env=False, verify=NO_TLS, timeout=WAIT_S) as client,
    ):
        page = client.get("/welcome", headers={"authorization": f"Bearer {server.token}"})
        match = re.search(r"/static/app-[0-9a-f]+\.css", page.text)
        assert match is not None
        assert client.get(match[0]).headers["cache-control"] == "no-cache"
