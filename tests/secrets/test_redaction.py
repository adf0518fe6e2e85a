"""Masking: every form of a secret, at every cut, with lengths kept."""

from __future__ import annotations

import base64
import itertools
import json
import re
import urllib.parse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.secrets.redaction import RedactionStream, Redactor

KEY = 'sk-ant/Q+7_&"\\é=zz9'
PLAIN = "sk-proj-abcdEFGH1234"

FORMS = {
    "as it is": KEY,
    "url": urllib.parse.quote(KEY, safe=""),
    "url, lower case": re.sub(
        "%..", lambda matches: matches[0].lower(), urllib.parse.quote(KEY, safe="")
    ),
    "url, plus": urllib.parse.quote_plus(KEY),
    "json": json.dumps(KEY)[1:-1],
    "json, slashes": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "json, unicode": json.dumps(KEY, ensure_ascii=False)[1:-1],
    "json, throughout": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "json, throughout, upper case": "".join(f"\\u{ord(letter):04X}" for letter in KEY),
    "json, twice": json.dumps(json.dumps(KEY)[1:-1])[1:-1],
    "json, twice, unicode": json.dumps(json.dumps(KEY, ensure_ascii=False)[1:-1])[1:-1],
    "json, three times": json.dumps(json.dumps(json.dumps(KEY)[1:-1])[1:-1])[1:-1],
    "url, twice": urllib.parse.quote(urllib.parse.quote(KEY, safe=""), safe=""),
    "hexadecimal": KEY.encode().hex(),
    "hexadecimal, upper case": KEY.encode().hex().upper(),
    "base64": base64.b64encode(KEY.encode()).decode().rstrip("="),
    "base64, url": base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("="),
}


def redact_pieces(redactor: Redactor, pieces: list[bytes]) -> tuple[bytes, RedactionStream[bytes]]:
    stream = redactor.redact_stream()
    return b"".join([*map(stream.feed, pieces), stream.end()]), stream


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(marks)]


def pending(redactor: Redactor, seen_bytes: bytes) -> int:
    """The length of the longest end of `seen` that a form begins with: the plain way."""
    forms = redactor._byte_search.forms
    return max(
        (n for form in forms for n in range(len(form)) if seen_bytes.endswith(form[:n])), default=0
    )


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_is_masked_with_its_length_kept(form: str) -> None:
    redactor = Redactor([KEY])
    assert redactor.redact_text(f"<{form}>") == f"<{'*' * len(form)}>"
    data = form.encode()
    assert redactor.redact_bytes(b"<" + data + b">") == b"<" + b"*" * len(data) + b">"


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
def test_a_secret_inside_a_longer_base64_is_masked(before: str) -> None:
    text = base64.b64encode(f"{before}{PLAIN}\n".encode()).decode()
    masked = Redactor([PLAIN]).redact_text(text)
    assert len(masked) == len(text)
    left = masked.rstrip("=").replace("*", "")
    assert len(left) <= len(before) * 4 // 3 + 4


def test_short_secrets_and_other_text_are_left_alone() -> None:
    redactor = Redactor(["seven77", "", "eight888"])
    assert redactor.redact_text("seven77 eight88 eight888") == "seven77 eight88 ********"
    assert Redactor().redact_bytes(b"anything") == b"anything"


def test_overlapping_secrets_leave_nothing() -> None:
    redactor = Redactor(["abcdefgh1234", "1234WXYZabcd", "aaaaaaaa"])
    assert redactor.redact_text("abcdefgh1234WXYZabcdefgh1234") == "*" * 28
    assert redactor.redact_text("a" * 11 + "b") == "*" * 11 + "b"


def test_json_data_is_masked_at_any_depth_and_the_original_is_not_touched() -> None:
    data: Any = {"a": [f"x{PLAIN}", 7, None, {PLAIN: (True, PLAIN)}]}
    stars = "*" * len(PLAIN)
    assert Redactor([PLAIN]).redact_data(data) == {
        "a": ["x" + stars, 7, None, {stars: [True, stars]}]
    }
    assert data["a"][0] == f"x{PLAIN}"
    deep: Any = PLAIN
    for _ in range(100_000):
        deep = [deep]
    masked = Redactor([PLAIN]).redact_data(deep)
    while isinstance(masked, list):
        [masked] = masked
    assert masked == stars


def test_no_repr_shows_a_secret() -> None:
    redactor = Redactor([PLAIN])
    assert PLAIN not in repr(redactor) + repr(redactor.redact_stream())


def test_ordinary_bytes_are_never_kept_back() -> None:
    stream = Redactor([PLAIN]).redact_stream()
    assert stream.feed(b'data: {"text": "task"}\n\n') == b'data: {"text": "task"}\n\n'
    assert stream.feed(b"a sk") == b"a "  # may be the beginning of the secret
    assert stream.feed(b"y is blue") == b"sky is blue"
    assert stream.feed(PLAIN[:-1].encode()) == b""
    assert stream.feed(PLAIN[-1].encode() + b" ") == b"*" * len(PLAIN) + b" "
    assert stream.end() == b""
    assert stream.ranges == [(24 + 13, 24 + 13 + len(PLAIN))]


def test_of_a_whole_text_only_most_of_a_secret_is_masked() -> None:
    short, long = "abcdefgh0123", "xy-abcdefgh012-and-much-more-of-it-0123456789"
    for text, masked in ((long[:14], "xy-" + "*" * 11), (long[:11], long[:11])):
        stream = Redactor([short, long]).redact_texts()
        assert stream.feed(f"it is {text}") + stream.end(whole=True) == f"it is {masked}"


def test_a_secret_that_the_end_cut_off_is_masked_as_far_as_it_came() -> None:
    data = f"key {PLAIN}".encode()
    for length in range(len(data) + 1):
        masked, _ = redact_pieces(Redactor([PLAIN]), [data[:length]])
        begun = max(0, length - 4)
        assert masked == (data[:length] if begun < 8 else b"key " + b"*" * begun)


@pytest.mark.parametrize("size", range(1, 40))
def test_a_secret_cut_anywhere_is_masked(size: int) -> None:
    data = f"data: {PLAIN} {PLAIN[:9]}{PLAIN}{base64.b64encode(PLAIN.encode()).decode()}".encode()
    redactor = Redactor([PLAIN])
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    masked, stream = redact_pieces(redactor, pieces)
    assert masked == redactor.redact_bytes(data)
    covered = {place for start, end in stream.ranges for place in range(start, end)}
    assert covered == {place for place, byte in enumerate(masked) if byte == ord("*")}


@pytest.mark.parametrize("size", range(1, 40))
def test_a_text_cut_anywhere_is_masked_as_the_whole(size: int) -> None:
    redactor, text = Redactor([KEY]), f"é {KEY} {KEY[:9]}{json.dumps(KEY)} \ud800"
    stream = redactor.redact_texts()
    pieces = [stream.feed(text[start : start + size]) for start in range(0, len(text), size)]
    assert "".join([*pieces, stream.end()]) == redactor.redact_text(text)


@given(
    secrets=st.lists(st.text("ab", min_size=8, max_size=12), max_size=4),
    data=st.text("abYWJhYg", max_size=200).map(str.encode),
    places=st.lists(st.integers(0, 10_000), max_size=30),
)
def test_a_stream_gives_what_the_whole_gives(
    secrets: list[str], data: bytes, places: list[int]
) -> None:
    redactor = Redactor(secrets)
    masked, _ = redact_pieces(redactor, cut(data, places))
    begun = pending(redactor, data)
    sure = len(data) - (begun if begun >= 8 else 0)
    assert masked == redactor.redact_bytes(data)[:sure] + b"*" * (len(data) - sure)


@given(
    secrets=st.lists(st.text("ab", min_size=8, max_size=12), min_size=1, max_size=3),
    data=st.text("abc", max_size=80).map(str.encode),
)
def test_only_a_possible_beginning_is_kept_back(secrets: list[str], data: bytes) -> None:
    redactor = Redactor(secrets)
    stream = redactor.redact_stream()
    returned = 0
    for place, byte in enumerate(data):
        returned += len(stream.feed(bytes([byte])))
        seen_bytes = data[: place + 1]
        assert returned == len(seen_bytes) - pending(redactor, seen_bytes)
