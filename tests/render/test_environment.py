from __future__ import annotations

import errno
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
from jinja2 import Environment, UndefinedError
from jinja2.bccache import Bucket
from markupsafe import Markup

from playground.render.environment import CompiledTemplates, environment

TEMPLATES = Path(__file__).parents[2] / "templates"
ENV = environment(TEMPLATES)


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.name)
def test_templates_compile_and_keep_to_the_policy(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ENV.get_template(path.name)
    for forbidden in ("|safe", "style=", "onclick", "javascript:", "hx-on", "http://", "https://"):
        assert forbidden not in text.replace("|safe_", "")
    assert text.count("<script>") == text.count("<script>{{ script }}") == (path.name == ALONE)


def compiled_by_a_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that a new process compiles to print page.html."""
    env, compiled = environment(folder), []
    env.bytecode_cache = CompiledTemplates()
    compile_template = env.compile

    def seen(source: str, name: str, *rest: Any) -> Any:
        compiled.append(name)
        return compile_template(source, name, *rest)

    monkeypatch.setattr(env, "compile", seen)
    assert env.get_template("page.html").render() == (folder / "page.html").read_text()
    return compiled


def changed_text(folder: Path) -> None:
    (folder / "page.html").write_text("another")


def damaged(folder: Path) -> None:
    (kept,) = (folder / "__pycache__").iterdir()
    kept.write_bytes(kept.read_bytes()[:-9])


def junk(folder: Path) -> None:
    (kept,) = (folder / "__pycache__").iterdir()
    kept.write_bytes(b"junk")


def open_to_others(folder: Path) -> None:
    (folder / "__pycache__").chmod(0o777)


def in_the_way(folder: Path) -> None:
    shutil.rmtree(folder / "__pycache__")
    (folder / "__pycache__").write_text("")


@pytest.mark.parametrize(
    ("happens", "then", "after"),
    [
        (lambda folder: None, [], []),
        (changed_text, ["page.html"], []),
        (damaged, ["page.html"], []),
        (junk, ["page.html"], []),
        (open_to_others, ["page.html"], ["page.html"]),
        (in_the_way, ["page.html"], ["page.html"]),
    ],
)
def test_a_template_is_compiled_once_where_nobody_else_may_write(
    happens: Callable[[Path], None],
    then: list[str],
    after: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "page.html").write_text("a page")
    assert compiled_by_a_start(tmp_path, monkeypatch) == ["page.html"]
    happens(tmp_path)
    assert compiled_by_a_start(tmp_path, monkeypatch) == then
    assert compiled_by_a_start(tmp_path, monkeypatch) == after
    assert len(list((tmp_path).iterdir())) == 2


def test_what_cannot_be_kept_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No beginnings on a full disk, no folder of ours in the checkout of another user."""
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "page.html").write_text("a page")

    def full(bucket: Bucket, file: IO[bytes]) -> None:
        file.write(b"begun")
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as disk:
        disk.setattr(Bucket, "write_bytecode", full)
        compiled_by_a_start(tmp_path, monkeypatch)
    assert list((tmp_path / "__pycache__").iterdir()) == []
    monkeypatch.setattr("playground.render.environment._is_private", lambda folder, template: False)
    compiled_by_a_start(tmp_path, monkeypatch)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_another_filter_or_jinja_is_another_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants pass the filters when a template is compiled."""
    before = CompiledTemplates().get_source_checksum("a")
    assert before == CompiledTemplates().get_source_checksum("a")
    monkeypatch.setattr("playground.render.environment._compilers", lambda: "another")
    assert before != CompiledTemplates().get_source_checksum("a")
