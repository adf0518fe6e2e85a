"""Placeholders: what they become, and that nothing is evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.core.tools import Tool
from app.executors.executor import Invocation
from app.executors.mock import Mock

pytestmark = pytest.mark.anyio

ARGUMENTS = (
    '{"city": "Kraków", "n": 1.50, "big": 12345678901234567890, "huge": 1e400, "on": true, '
    '"none": null, "at": {"x": 1.10, "names": ["a", "b"]}, "odd-key": "dash", '
    '"sly": "{{ args.n }}"}'
)


def invocation(config: dict[str, Any]) -> Invocation:
    tool = Tool("t", config=config)
    return Invocation("s", "1.0", 1, tool, ARGUMENTS, 5.0, 1000, Path(), "k")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain { text } }}", "plain { text } }}"),
        ("In {{ args.city }} and {{args.city}}.", "In Kraków and Kraków."),
        ("{{ args.n }}, {{ args.big }}, {{ args.huge }}", "1.50, 12345678901234567890, 1e400"),
        ("{{ args.on }} {{ args.none }}", "true null"),
        ("{{ args.at.names.1 }} of {{ args.at }}", 'b of {"x": 1.10, "names": ["a", "b"]}'),
        ("{{ args.odd-key }}", "dash"),
        ("{{ args.sly }}", "{{ args.n }}"),
        ("{{ args.city.0 }} {{ args.at.names.7 }}", "{{ args.city.0 }} {{ args.at.names.7 }}"),
        ("{{ args.absent }}", "{{ args.absent }}"),
        ("{{ args.__class__ }} {{ 7*7 }} {% x %}", "{{ args.__class__ }} {{ 7*7 }} {% x %}"),
        ({"city": "{{ args.city }}"}, '{"city": "Kraków"}'),
        ({"n": "{{ args.n }}", "s": "is {{ args.n }}"}, '{"n": 1.50, "s": "is 1.50"}'),
        (
            [1, None, {"all": "{{ args.at }}"}],
            '[1, null, {"all": {"x": 1.10, "names": ["a", "b"]}}]',
        ),
        (None, "null"),
        (12, "12"),
    ],
)
async def test_result(template: Any, text: str) -> None:
    result = await Mock().run(invocation({"result": template}), lambda *_: None)
    assert result.text == text
    assert result.staged
    assert not result.is_error


async def test_error() -> None:
    call = invocation({"result": "no {{ args.city }}", "is_error": True})
    result = await Mock().run(call, lambda *_: None)
    assert (result.text, result.is_error, result.kind) == ("no Kraków", True, "failed")


async def test_delay_tells_its_progress() -> None:
    told: list[tuple[str, float | None]] = []
    await Mock().run(invocation({"result": 1, "delay_s": 0.05}), lambda *said: told.append(said))
    assert [fraction for _, fraction in told] == [step / 10 for step in range(10)]
    assert told[5][0] == "0.0 of 0.05 s"
