"""What a part's mask remembers of a long text."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.secrets import redaction
from playground.secrets.redaction import PartRedactor, Redactor, Unescaper
from tests.peaks import peak_of
from tests.tables import rest_slow

SECRET = "sk-abcdefghijklmnopqrstuv"
ESCAPED = SECRET.replace("d", "\\\\u0064").replace("q", "\\u0071")
THRICE = ESCAPED.replace("\\", "\\\\")


def spans(text: str) -> list[tuple[int, int]]:
    part = PartRedactor(Redactor([SECRET]))
    part.feed(text)
    part.end(whole=True)
    return part.spans(0, len(text))


def test_a_long_piece_is_read_like_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"a\\nb {SECRET} \\\\n {ESCAPED}\\u00e9 {THRICE} " * 3
    whole_spans = spans(text)
    assert [text[start:end] for start, end in whole_spans] == [SECRET, ESCAPED, THRICE] * 3
    for size in range(1, 12):
        monkeypatch.setattr(redaction, "_PIECE", size)
        assert spans(text) == whole_spans


def test_what_lies_between_two_keys_is_shown_however_it_comes() -> None:
    """Also where it may be base64, which is read again with the next end of a line."""
    other = "a" * 12
    text, cuts = f"{SECRET.encode().hex()}1{other}\\n", (1, 3, 50)
    for size in cuts:
        part = PartRedactor(Redactor([SECRET, other]))
        for start in range(0, len(text), size):
            part.feed(text[start : start + size])
        part.end(whole=True)
        assert part.mask(0, text) == f"{'*' * 50}1{'*' * 12}\\n"


def test_what_knows_no_key_looks_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def count_texts(_: Unescaper, text: str) -> str:
        looked_at.append(text)
        return text

    monkeypatch.setattr(Unescaper, "feed", count_texts)
    for redactor, looks in ((Redactor(), False), (Redactor([SECRET]), True)):
        part = PartRedactor(redactor)
        part.feed(ESCAPED)
        part.end(whole=True)
        assert redactor.escaped_spans(ESCAPED.encode()) == redactor.spans(ESCAPED) == []
        assert bool(looked_at) == looks
        assert part.size == len(ESCAPED)


@given(before=st.integers(0, 90), line=st.integers(40, 80), size=st.integers(1, 90), data=st.data())
def test_base64_in_lines_is_found_however_it_comes(
    before: int, line: int, size: int, data: st.DataObject
) -> None:
    """As in the whole text; and of what is found, nothing was called certain before but the first
    three characters."""
    coded = base64.b64encode(f"{'a' * before}{SECRET}{'b' * 90}".encode()).decode()
    line_end = data.draw(st.sampled_from(("\n", "\r\n")))
    lines = line_end.join(coded[start : start + line] for start in range(0, len(coded), line))
    text = data.draw(st.sampled_from(("%s", "a\nfile:\n%s\nb", "%s" + line_end)))
    text %= data.draw(st.sampled_from((lines, json.dumps(lines), json.dumps(json.dumps(lines)))))
    spans = Redactor([SECRET]).spans(text)
    assert sum(end - start for start, end in spans) >= len(SECRET)
    sure = [place for start, end in spans for place in range(start, end)][3:]
    part, certain = PartRedactor(Redactor([SECRET])), 0
    for start in range(0, len(text), size):
        part.feed(text[start : start + size])
        open_from = part.size if part.undecided is None else part.undecided
        masked_text = part.mask(certain, text[certain:open_from])
        assert all(
            masked_text[place - certain] == "*" for place in sure if certain <= place < open_from
        )
        certain = max(certain, open_from)
    part.end(whole=True)
    assert part.spans(0, len(text)) == spans


@pytest.mark.parametrize("odd", ["", "\\x", "\\ud83d\\ude00", '"' * 100, "\\u0001\1\0"])
def test_escapes_are_undone_alike_quickly_or_not_and_lead_back(odd: str) -> None:
    """`json` undoes them where it can; it knows no lone backslash, and joins halves."""
    text = f'a\\n"b" {odd}\\\\u0041 \\u0042\\/'
    undoing = Unescaper()
    undone = "".join(undoing.feed(char) for char in text) + undoing.end()
    whole_unescaper = Unescaper()
    halves = odd.replace("\\ud83d\\ude00", "\ud83d\ude00").replace("\\u0001", "\1")
    assert (
        undone == whole_unescaper.feed(text) + whole_unescaper.end() == f'a\n"b" {halves}\\u0041 B/'
    )
    places = [undoing.place(index) for index in range(len(undone) + 1)]
    assert places == [whole_unescaper.place(index) for index in range(len(undone) + 1)]
    assert [text[places[-3]], places[-1]] == ["\\", len(text)]


@pytest.mark.parametrize("text", rest_slow([r"\u0041" * 2**16, r"\\\"word\\\" \\u0041" * 2**14]))
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
    text = f'a\\/b "{SECRET}" {twice} {ESCAPED}' * 3 + " " + THRICE
    redactor = Redactor([SECRET, SECRET.replace("d", '"')])
    spans = redactor.spans(text)
    assert len(spans) == 10
    for places in range(0, size, 7):
        monkeypatch.setattr(redaction, "_PIECE", size + places)
        assert redactor.spans(text) == spans


@pytest.mark.slow
def test_escapes_of_a_long_piece_are_not_remembered_all_at_once() -> None:
    text = "line\\n" * (2**20 // 3)
    assert peak_of(lambda: spans(text)) < 4 * len(text)
