"""A key made up for each rule of gitleaks leaves in no export."""

from __future__ import annotations

import json

import pytest

from playground.engine.export_session import redact_bundle
from playground.exchange.export_formats import EXPORTS
from tests.exchange.test_redact import planted, texts_of
from tests.secrets.made_up_keys import RULES, made_up_key

MADE_UP = {rule.id: made_up_key(rule) for rule in RULES.values()}
TEXT = "\n".join(f"{name}:\n{made_up.text}" for name, made_up in MADE_UP.items())
WHOLE = planted(TEXT)
MASKED = redact_bundle(WHOLE, (), {}, ())


def readable(text: str) -> set[str]:
    """The rules whose key `text` shows, as it is or within JSON within JSON."""
    forms = {name: {made_up.key} for name, made_up in MADE_UP.items()}
    for keys in forms.values():
        for _ in range(2):
            keys |= {json.dumps(key)[1:-1] for key in keys}
    return {name for name, keys in forms.items() if any(key in text for key in keys)}


def test_the_keys_are_there_before() -> None:
    text = texts_of("jsonl", EXPORTS["jsonl"].write(WHOLE))
    assert readable(text) == set(MADE_UP)


@pytest.mark.parametrize("form", EXPORTS)
def test_an_export_shows_no_key(form: str) -> None:
    assert readable(texts_of(form, EXPORTS[form].write(MASKED.bundle))) == set()
