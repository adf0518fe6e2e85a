from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, UndefinedError
from markupsafe import Markup

from app.render.environment import environment
from tests.tables import each_row

TEMPLATES = Path(__file__).parents[2] / "templates"
ENV = environment(TEMPLATES)


@each_row(
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


@each_row(
    ("source", "sent"),
    [
        ('<a\n  id="b"\n  hidden>c</a>', '<a id="b" hidden>c</a>'),
        ('<a\n  id="b"\n  {% if no %} hidden{% endif %}>', '<a id="b">'),
        ('<a id="b"\n  {% if yes > 0 %}hidden{% endif %}>', '<a id="b" hidden>'),
        ('<a title="{{ "b" if\n  yes }}\nc">', '<a title="b\nc">'),
        ("<textarea\n  name='a'>\n\nb</textarea>\n c", "<textarea name='a'>\n\nb</textarea>\n c"),
        ('<a\n title="{{ "it\'s > " }}"\n id="c">', '<a title="it&#39;s &gt; " id="c">'),
    ],
)
def test_a_tag_is_sent_in_one_line(source: str, sent: str) -> None:
    assert ENV.from_string(source).render(yes=1, no=0) == sent


def test_a_form_field_keeps_its_text() -> None:
    assert ENV.from_string("{{ value|verbatim }}").render(value="👨\u200d👩") == "👨\u200d👩"


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        ENV.from_string("{{ nothing }}").render()


def test_a_template_is_compiled_once_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str | None] = []
    compile_it = Environment.compile

    def counted(env: Environment, source: str, name: str | None = None, *more: Any) -> Any:
        compiled.append(source)
        return compile_it(env, source, name, *more)

    monkeypatch.setattr(Environment, "compile", counted)
    written = ["{{ 1 }}", "{{ 1 }}", "{{ 2 }}"]
    for text in written:
        (tmp_path / "a.html").write_text(text)
        assert environment(tmp_path).get_template("a.html").render() == text[3]
    assert compiled == ["{{ 1 }}", "{{ 2 }}"]


ALONE = "shared.html"
"""A file of its own, which no server answers for: it bears its script, and a policy with its hash
(tests/exchange/test_html.py)."""


@each_row("path", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.name)
def test_templates_compile_and_keep_to_the_policy(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ENV.get_template(path.name)
    for forbidden in ("|safe", "style=", "onclick", "javascript:", "hx-on", "http://", "https://"):
        assert forbidden not in text.replace("|safe_", "")
    assert text.count("<script>") == text.count("<script>{{ script }}") == (path.name == ALONE)
