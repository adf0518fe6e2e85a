"""What a part's mask remembers of a long text."""

from __future__ import annotations

import json

import pytest

from app.secrets import redaction
from app.secrets.redaction import PartRedactor, Redactor, Unescaper
from tests.peaks import peak_of
from tests.tables import each_row

SECRET = "sk-abcdefghijklmnopqrstuv"
ESCAPED = SECRET.replace("d", "\\\\u0064").replace("q", "\\u0071")


def spans(text: str) -> list[tuple[int, int]]:
    part = PartRedactor(Redactor([SECRET]))
    part.feed(text)
    part.end(whole=True)
    return part.spans(0, len(text))


def test_a_long_piece_is_read_like_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"a\\nb {SECRET} \\\\n {ESCAPED}\\u00e9" * 3
    whole = spans(text)
    assert [text[start:end] for start, end in whole] == [SECRET, ESCAPED] * 3
    for size in range(1, 12):
        monkeypatch.setattr(redaction, "_PIECE", size)
        assert spans(text) == whole


def test_what_knows_no_key_looks_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def counted(_: Unescaper, text: str) -> str:
        looked_at.append(text)
        return text

    monkeypatch.setattr(Unescaper, "feed", counted)
    for redactor, looks in ((Redactor(), False), (Redactor([SECRET]), True)):
        part = PartRedactor(redactor)
        part.feed(ESCAPED)
        part.end(whole=True)
        assert redactor.escaped_spans(ESCAPED.encode()) == redactor.spans(ESCAPED) == []
        assert bool(looked_at) == looks
        assert part.size == len(ESCAPED)


@each_row("odd", ["", "\\x", "\\ud83d\\ude00", '"' * 100, "\\u0001\1\0"])
def test_escapes_are_undone_alike_quickly_or_not_and_lead_back(odd: str) -> None:
    """`json` undoes them where it can; it knows no lone backslash, and joins halves."""
    text = f'a\\n"b" {odd}\\\\u0041 \\u0042\\/'
    undoing = Unescaper()
    undone = "".join(undoing.feed(char) for char in text) + undoing.end()
    whole = Unescaper()
    halves = odd.replace("\\ud83d\\ude00", "\ud83d\ude00").replace("\\u0001", "\1")
    assert undone == whole.feed(text) + whole.end() == f'a\n"b" {halves}\\u0041 B/'
    places = [undoing.place(index) for index in range(len(undone) + 1)]
    assert places == [whole.place(index) for index in range(len(undone) + 1)]
    assert [text[places[-3]], places[-1]] == ["\\", len(text)]


@pytest.mark.parametrize("text", [r"\u0041" * 2**16, r"\\\"word\\\" \\u0041" * 2**14])
def test_no_level_of_escapes_is_remembered_of_a_whole_text(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Nor any place in it; of bytes there is a copy."""
    monkeypatch.setattr(redaction, "_PIECE", 4096)
    redactor, data = Redactor([SECRET]), text.encode()
    assert redactor.spans(text) == redactor.escaped_spans(data) == []  # what is made once is there
    assert peak_of(lambda: redactor.spans(text)) < len(text) // 2
    assert peak_of(lambda: redactor.escaped_spans(data)) < 3 * len(text) // 2


@pytest.mark.parametrize("size", [40, 250])
def test_behind_escapes_a_text_is_read_in_pieces_like_the_whole(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    twice = json.dumps(json.dumps("\\" + SECRET.replace("d", '"'))[1:-1])[1:-1]
    text = f'a\\/b "{SECRET}" {twice} {ESCAPED}' * 3 + " " + ESCAPED.replace("\\", "\\\\")
    redactor = Redactor([SECRET, SECRET.replace("d", '"')])
    whole = redactor.spans(text)
    assert len(whole) == 10
    for places in range(0, size, 7):
        monkeypatch.setattr(redaction, "_PIECE", size + places)
        assert redactor.spans(text) == whole


@pytest.mark.slow
def test_escapes_of_a_long_piece_are_not_remembered_all_at_once() -> None:
    text = "line\\n" * (2**20 // 3)
    assert peak_of(lambda: spans(text)) < 4 * len(text)
