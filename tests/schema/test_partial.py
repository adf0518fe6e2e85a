"""JSON for the eye keeps its meaning."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from app.schema.json_display import MAX_PREFIX, pretty, readable_prefix
from tests.bounded import within
from tests.schema.test_arguments import OBJECTS
from tests.tables import each_row


@each_row(
    ("raw", "value"),
    [
        ("", None),
        ("{", {}),
        ('{"city": "Par', {"city": "Par"}),
        ('{"city": "Paris", "da', {"city": "Paris"}),
        ('{"a": [1, 2, {"b": tr', {"a": [1, 2, {}]}),
        ('{"a": "x\\', {"a": "x"}),
        ("nope", None),
        ("{'a'", None),
        ('{"a": ' * 5_000, None),
        ("[" + "1," * MAX_PREFIX, None),
        ('{"a": "\ud800', {"a": "?"}),
    ],
)
def test_readable_prefix(raw: str, value: object) -> None:
    assert readable_prefix(raw) == value


@given(OBJECTS, st.data())
def test_every_prefix_is_readable(value: dict[str, object], data: st.DataObject) -> None:
    raw = json.dumps(value)
    assert readable_prefix(raw) == value
    readable_prefix(raw[: data.draw(st.integers(0, len(raw)))])


@given(OBJECTS, st.sampled_from([None, 1]), st.booleans())
def test_pretty_keeps_the_meaning_and_the_order(
    value: dict[str, object], indent: int | None, escaped: bool
) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=escaped)
    shown = pretty(raw)
    assert json.loads(shown) == value
    assert list(json.loads(shown)) == list(value)
    assert pretty(shown) == shown
    assert shown == json.dumps(value, indent=2, ensure_ascii=escaped)


def test_pretty_keeps_digits_and_escapes() -> None:
    raw = '{"a":[1.50,-0,1E400,12345678901234567890.10],"b":"\\u00e9{,}:\\"","c":{},"d":[ ]}'
    assert pretty(raw) == (
        '{\n  "a": [\n    1.50,\n    -0,\n    1E400,\n    12345678901234567890.10\n  ],\n'
        '  "b": "\\u00e9{,}:\\"",\n  "c": {},\n  "d": []\n}'
    )


@each_row("raw", ["", "nope", '{"a": 1', '{"a": 1, "a": 2}', '{"a": NaN}'])
def test_pretty_leaves_unsound_text_alone(raw: str) -> None:
    assert pretty(raw) == raw


def test_pretty_has_a_limit_and_a_bound() -> None:
    raw = '{"a":[' + "0," * 200_000 + "0]}"
    assert pretty(raw) == raw
    with within(30):
        assert len(pretty(raw, limit=len(raw))) > len(raw)
