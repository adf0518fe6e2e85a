from __future__ import annotations

from playground.web.session.wire_view import (
    COPIED_LIMIT,
    EXACT_LIMIT,
    CodeOption,
    ShownCode,
    code_fragment,
)
from tests.markup import joined_tags
from tests.render.logs import NASTY
from tests.render.page import ENV, parse


def make_code(text: str, **more: object) -> ShownCode:
    forms = (CodeOption("curl", "curl", text), CodeOption("python", "Python", "print()"))
    return ShownCode("s1", turns=(2, 1), number=2, forms=forms, **more)  # type: ignore[arg-type]


def test_what_is_shown_is_the_text_and_nothing_of_it_is_markup() -> None:
    html = code_fragment(ENV, make_code(NASTY, notes=(NASTY,), wire="gemini", wires=("gemini",)))
    parse(html)
    assert NASTY not in html
    assert 'value="gemini" selected' in html
    assert 'id="code-curl" name="form" value="curl" checked' in joined_tags(html)


def test_what_can_be_chosen() -> None:
    assert [value for value, _ in make_code("").choices] == ["", "next", "2", "1"]
    assert ShownCode("s1").choices == [("", "Next request")]


def test_a_long_text_is_cut_and_saved() -> None:
    code_option = CodeOption("curl", "curl", "x" * (COPIED_LIMIT + 1))
    assert (len(code_option.shown), code_option.more) == (
        EXACT_LIMIT,
        COPIED_LIMIT + 1 - EXACT_LIMIT,
    )
    assert code_option.copied is None
    html = code_fragment(ENV, make_code(code_option.text))
    assert "more characters" in html
    assert "file=1" in html
    assert len(html) < EXACT_LIMIT + 10_000


def test_what_cannot_be_shown_is_said() -> None:
    assert "Why not." in code_fragment(ENV, ShownCode("s1", failed="Why not."))
