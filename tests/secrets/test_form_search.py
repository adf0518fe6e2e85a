"""The search for forms beside the plain way: every form looked for at every place."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from playground.secrets.forms import LONG, FormSearch, forms_of, merge_spans
from playground.secrets.redaction import HEAD, PartRedactor, Redactor

Span = tuple[int, int]

SECRETS = (
    "sk-canary/0f1e2d+3c4b5a69",
    "sk-ant-api03-AbCdEfGhIjKlMnOp",
    "aaaaaaaaab",
    "abababab",
    'k<é>y"&%20-ü日本-77',
    "%2F%2f\\u00\\n/",
)


def spans_in(text: str, forms: list[str]) -> list[Span]:
    """Every occurrence: the plain way."""
    return merge_spans(
        (place, place + len(form))
        for form in forms
        for place in range(len(text))
        if text.startswith(form, place)
    )


def begun_in(text: str, forms: list[str]) -> int:
    """The length of the longest end of `text` that a form begins with: the plain way."""
    sizes = (size for form in forms for size in range(1, len(form)) if text.endswith(form[:size]))
    return max(sizes, default=0)


def said_with(forms: list[str], random_: random.Random) -> str:
    """A text with whole forms, stretches of forms, and words that begin as forms do."""
    pieces = []
    for _ in range(random_.randint(0, 6)):
        form = random_.choice(forms)
        start, end = sorted(random_.choices(range(len(form) + 1), k=2))
        pieces.append(random_.choice((form, form[:end], form[start:end], form[:3], "ask it ", "a")))
    return "".join(pieces)


def pieces_of(text: str, random_: random.Random) -> list[str]:
    most = random_.choice((1, 3, 12, 40))
    marks = sorted({0, len(text), *(random_.randrange(len(text) + 1) for _ in range(most))})
    return [text[start:end] for start, end in itertools.pairwise(marks)]


@given(
    st.sets(st.sampled_from(SECRETS), min_size=1, max_size=3), st.integers(0, 2**32), st.booleans()
)
def test_a_text_cut_anywhere_is_masked_as_if_each_form_was_looked_for_at_each_place(
    secrets: set[str], seed: int, long: bool
) -> None:
    random_ = random.Random(seed)
    redactor = Redactor(secrets)
    forms = sorted({form for secret in secrets for form in forms_of(secret)})
    text = said_with(random_.sample(forms, min(3, len(forms))), random_)
    search = FormSearch(forms)
    assert search.spans(text) == spans_in(text, forms)
    data, of_bytes = text.encode(), FormSearch([form.encode() for form in forms])
    assert merge_spans(
        (len(data[:start].decode()), len(data[:end].decode()))
        for start, end in of_bytes.spans(data)
    ) == spans_in(text, forms)
    if long:
        text = text + " " * LONG + text
    seen_text, stream, part = "", redactor.redact_texts(), PartRedactor(redactor)
    masked = ""
    for piece in pieces_of(text, random_):
        seen_text += piece
        masked += stream.feed(piece)
        part.feed(piece)
        held_start = begun_in(seen_text, forms)
        certain = spans_in(seen_text, forms) if not long else search.spans(seen_text)
        assert len(seen_text) - stream.returned == len(stream.held) == held_start
        starred = "".join(
            "*" if any(start <= place < end for start, end in certain) else char
            for place, char in enumerate(seen_text[: len(seen_text) - held_start])
        )
        assert masked == starred
        if "\\" not in seen_text:
            begun = len(seen_text) - held_start
            place = max([begun, *(end for start, end in certain if start < begun)])
            waits = held_start >= HEAD and place < len(seen_text)
            if waits:
                assert part.undecided == place
            elif part.undecided is not None:
                # Two forms overlap, and the later one may go on: what is masked anyway waits too.
                assert place == len(seen_text)


def test_every_form_that_lacks_its_last_unit_is_known_to_be_cut() -> None:
    for secret in SECRETS:
        search = FormSearch([form.encode() for form in forms_of(secret)])
        for form in search.forms:
            assert search.cut_at(form[:-1]) == search.cut_at(b" " + form[:-1]) - 1 == 0


def test_a_secret_whose_end_may_begin_another_is_masked_to_its_end() -> None:
    first, second = "jkl-0123456-xy", "xyz-6543210-jk"
    redactor = Redactor([first, second])
    for rest in ("zzz", "x", second[2:], second[2:9] + "!"):
        text = f"a {first}{rest}"
        for place in range(len(text)):
            stream = redactor.redact_texts()
            masked = stream.feed(text[:place]) + stream.feed(text[place:]) + stream.end(whole=True)
            assert masked == redactor.redact_text(text)
            assert "*" * len(first) in masked
