"""Places that a call does not fill; those it fills are tested with the mocks."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.arguments import ABSENT
from playground.executors.executor import (
    as_json,
    as_text,
    fill_present,
    fill_template,
    parse_arguments,
)

ARGUMENTS = parse_arguments('{"n": 1.50, "city": "Oslo", "none": null, "all": {"x": [1e400]}}')


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ args.n }}", "1.50"),
        ("a{{ args.gone }}b", "ab"),
        ({"a": "{{ args.gone }}", "b": "{{ args.none }}"}, '{"b": null}'),
        (["{{ args.gone }}", "{{ args.all }}", 2], '[{"x": [1e400]}, 2]'),
        ({"deep": {"a": "{{ args.gone.x }}"}}, '{"deep": {}}'),
        ({"{{ args.n }}": True}, '{"{{ args.n }}": true}'),
    ],
)
def test_left_out(template: Any, text: str) -> None:
    assert as_text(fill_present(template, ARGUMENTS)) == text


def test_absent() -> None:
    assert fill_present("{{ args.gone }}", ARGUMENTS) is ABSENT
    assert as_text(ABSENT) == ""
    assert fill_template("{{ args.gone }}", ARGUMENTS) == "{{ args.gone }}"


def test_arguments_keep_their_digits() -> None:
    text = '{"a": 0.10, "b": [-0, 12345678901234567890.0], "c": "é\\"", "d": null}'
    assert as_json(parse_arguments(text)) == text
