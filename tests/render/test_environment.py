from __future__ import annotations

import os
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from playground.render.environment import environment

TEMPLATES = Path(__file__).parents[2] / "templates"
ENV = environment(TEMPLATES)

ALONE = "shared.html"
"""A file of its own, which no server answers for: it bears its script, and a policy with its hash
(tests/exchange/test_html.py)."""


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("<b>\u202e\ud800", "&lt;b&gt;\\u202e\\ud800"),
        (Markup("<b>"), "<b>"),
        (5, "5"),
        (None, "None"),
    ],
)
def test_everything_printed_is_escaped_and_made_visible(value: object, printed: str) -> None:
    assert ENV.from_string("{{ value }}").render(value=value) == printed
    assert (
        ENV.from_string('<a title="{{ value }}">').render(value=value) == f'<a title="{printed}">'
    )


def test_a_form_field_keeps_its_text() -> None:
    assert ENV.from_string("{{ value|form_text }}").render(value="👨\u200d👩") == "👨\u200d👩"


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        ENV.from_string("{{ nothing }}").render()


@pytest.mark.parametrize("reload", [True, False])
def test_changed_template_is_read_again_with_reload_only(tmp_path: Path, reload: bool) -> None:
    page = tmp_path / "a.html"
    page.write_text("before")
    env = environment(tmp_path, reload=reload)
    assert env.get_template("a.html").render() == "before"
    page.write_text("after")
    os.utime(page, ns=(1, 1))  # the clock of the file system may be coarse
    assert env.get_template("a.html").render() == ("after" if reload else "before")


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.name)
def test_templates_compile_and_keep_to_the_policy(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ENV.get_template(path.name)
    for forbidden in ("|safe", "style=", "onclick", "javascript:", "hx-on", "http://", "https://"):
        assert forbidden not in text.replace("|safe_", "")
    assert text.count("<script>") == text.count("<script>{{ script }}") == (path.name == ALONE)
