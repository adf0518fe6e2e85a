"""Bundles: what a page loads is joined from its sources, is served for good, and is all there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from playground import config
from playground.core.errors import PlaygroundError
from playground.render.environment import join_styles
from playground.web.assets import FOREVER, SCRIPTS, START, STYLES, build
from tests.servers import RunningServer

pytestmark = pytest.mark.anyio

STATIC = config.resource("static")
TEMPLATES = config.resource("templates")
ASSET = re.compile(r'asset\("([\w.]+)"\)')


def test_pages_name_the_bundles_that_there_are_and_every_source_is_in_one() -> None:
    named = {name for path in TEMPLATES.glob("*.html") for name in ASSET.findall(path.read_text())}
    assert named == {*STYLES, *SCRIPTS, "start.js"}
    scripts = "".join(build(STATIC).files[name][0].decode() for name in SCRIPTS)
    for path in (*STATIC.glob("*.css"), *STATIC.glob("*.js")):
        alone = path.name in ("shared.js", *START)
        joined = f"\n// {path.name}\n" in f"\n{scripts}"
        in_styles = any(path.stem in sources for sources in STYLES.values())
        assert alone or (joined if path.suffix == ".js" else in_styles), path.name


def test_a_module_is_in_one_bundle_and_keeps_its_lines() -> None:
    bundles = build(STATIC)
    module_names: list[str] = []
    for name in SCRIPTS:
        text = bundles.files[name][0].decode()
        mapped = bundles.files[re.findall(r"^//# sourceMappingURL=(.+)$", text, re.M)[0]][0]
        lines = text.split("\n")
        for section in json.loads(mapped)["sections"]:
            (source,) = section["map"]["sources"]
            module_names.append(source)
            first = section["offset"]["line"]
            written = (STATIC / source).read_text().rstrip().split("\n")
            assert section["map"]["mappings"].count(";") == len(written) - 1
            for number, line in enumerate(written):
                same = lines[first + number] == line.removeprefix("export ")
                assert same or line.startswith(("import {", "} from ")), (source, number)
    assert len(module_names) == len(set(module_names))


@pytest.mark.parametrize(
    "source", ["export let a = 1;", 'import * as b from "./b.js";', "export default 1;"]
)
def test_a_module_that_no_bundle_can_have_is_refused(tmp_path: Path, source: str) -> None:
    for path in STATIC.rglob("*.*"):
        if path.name != "setup.js":
            (tmp_path / path.relative_to(STATIC)).parent.mkdir(exist_ok=True)
            (tmp_path / path.relative_to(STATIC)).write_bytes(path.read_bytes())
    (tmp_path / "setup.js").write_text(source)
    with pytest.raises(PlaygroundError, match=re.escape("static/setup.js: a bundle cannot have")):
        build(tmp_path)


def test_pictures_come_inside_of_the_styles(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text('a { mask: url("b.svg") center; }')
    (tmp_path / "b.svg").write_text("<svg/>")
    assert join_styles(tmp_path, ["a"]) == (
        '/* a.css */\na { mask: url("data:image/svg+xml;base64,PHN2Zy8+") center; }'
    )


async def test_a_hashed_address_is_kept_for_good_and_a_plain_one_is_asked_again(
    server: RunningServer,
) -> None:
    async with server.client() as client:
        for path, lasting in (
            (build(STATIC).address("app.css"), True),
            (build(STATIC).address("session.js"), True),
            ("/static/app.css", False),
        ):
            got = await client.get(path)
            assert got.status_code == 200
            assert got.headers["cache-control"] == (FOREVER if lasting else "no-cache")
            again = await client.get(path, headers={"If-None-Match": got.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        assert (await client.get("/static/app-000000000000.css")).status_code == 404
        assert (await client.get("/static/icon.svg")).status_code == 200
