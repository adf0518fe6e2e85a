"""Where the characters of a text stand in the bytes of its frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from playground.protocols.framing import bytes_of, text_literals, token_lists
from tests.peaks import peak_of

FRAME = r'{"text": "aé\n\u00e9b"}'.encode()


def test_characters_are_found_by_their_places() -> None:
    (literal,) = text_literals(FRAME)
    for start in range(5):
        for end in range(start + 1, 6):
            ((first, last),) = bytes_of(FRAME, literal, [(start, end)])
            assert (
                b"".join([rb"a", "é".encode(), rb"\n", rb"\u00e9", rb"b"][start:end])
                == (FRAME[first:last])
            )
    assert list(bytes_of(FRAME, literal, [])) == []
    several = [FRAME[first:last] for first, last in bytes_of(FRAME, literal, [(0, 1), (3, 5)])]
    assert several == [b"a", rb"\u00e9b"]


def test_of_bytes_that_are_no_characters_too_much_is_found() -> None:
    frame = b'{"text": "a\xff\xfe\xe9b"}'
    (literal,) = text_literals(frame)
    (span,) = bytes_of(frame, literal, [(0, 1)])
    assert span in ((literal.start, literal.end), (literal.start, literal.start + 1))


@pytest.mark.slow
@pytest.mark.parametrize("spans", [[], [(7, 9)]])
def test_a_long_text_is_not_taken_apart(spans: list[tuple[int, int]]) -> None:
    frame = b'{"text": "' + b"word\\n" * (2**20 // 6) + b'"}'
    (literal,) = text_literals(frame)
    assert peak_of(lambda: list(bytes_of(frame, literal, spans))) < len(frame)


@pytest.mark.parametrize("end", [b"", b'"}'])
@pytest.mark.parametrize("read", [lambda frame: list(text_literals(frame)), token_lists])
def test_of_the_escapes_of_a_string_none_is_remembered(
    read: Callable[[bytes], Any], end: bytes
) -> None:
    frame = b'{"text": "' + rb"\"" * 2**13 + end
    read(frame)  # what is loaded and compiled when first used does not count
    assert peak_of(lambda: read(frame)) < 4 * len(frame)
