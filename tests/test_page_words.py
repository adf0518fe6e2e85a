"""The sentences of the page: at most 25 words each, and none of the words that we avoid."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.page_words import MOST_WORDS, avoided_words, long_sentences, page_texts

EXCEPTIONS: Mapping[str, str] = {}
"""Long sentences that stay, each with the reason."""

LONG = " ".join(["word"] * (MOST_WORDS + 1))
SHORT = " ".join(["word"] * MOST_WORDS)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_page_has_no_long_sentence() -> None:
    sentences = [text for text in long_sentences() if text.words not in EXCEPTIONS]
    assert sentences == [], f"Split these sentences; at most {MOST_WORDS} words each."


def test_page_has_no_avoided_word() -> None:
    assert avoided_words() == [], "Use the words that an engineer would write."


def test_exceptions_still_occur() -> None:
    assert EXCEPTIONS.keys() <= {text.words for text in long_sentences()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("templates/a.html", "<p>{}.</p>"),
        ("templates/a.html", "<p>{{% if x %}}No.{{% else %}}{}.{{% endif %}}</p>"),
        ("templates/a.html", '<b title="{}">No</b>'),
        ("templates/a.html", '{{{{ "{}" if x else "no" }}}}'),
        ("templates/a.html", "{{% macro m() %}}<p>{}</p>{{% endmacro %}}"),
        ("static/a.js", 'say("{}");'),
        ("static/a.js", "say(`${{count}} {}`);"),
        ("app/playground/web/a.py", 'raise BadInput("{}")'),
        ("app/playground/render/a.py", 'words = f"{{name}} {}"'),
        ("app/playground/web/a.py", 'words = "No." if name else "{}"'),
    ],
)
def test_long_sentence_when_shown_is_found(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text.format(LONG))
    assert [long_sentence.path for long_sentence in long_sentences(tmp_path)] == [name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("templates/a.html", f"<p>{SHORT}.</p>"),
        ("templates/a.html", f"<p>{SHORT}.\n{SHORT.capitalize()}.</p>"),
        ("templates/a.html", f"<p>{SHORT}</p><p>{SHORT}</p>"),
        ("templates/a.html", f"{{# {LONG} #}}"),
        ("static/a.js", f'// "{LONG}"'),
        ("app/playground/web/a.py", f'"""{LONG}"""\n\n\ndef f():\n    """{LONG}"""'),
    ],
)
def test_long_sentence_when_short_or_not_shown_is_not_found(
    tmp_path: Path, name: str, text: str
) -> None:
    write(tmp_path, name, text)
    assert long_sentences(tmp_path) == []


def test_avoided_word_when_shown_is_found(tmp_path: Path) -> None:
    write(tmp_path, "templates/a.html", "<p>In the background none counts.</p><p>Fix it.</p>")
    assert [text.words for text, _ in avoided_words(tmp_path)] == ["In the background none counts."]


def test_value_in_a_sentence_counts_as_one_word(tmp_path: Path) -> None:
    write(tmp_path, "templates/a.html", "<p>The tool <code>{{ name }}</code> is gone.</p>")
    assert [text.words for text in page_texts(tmp_path)] == ["The tool N is gone."]
