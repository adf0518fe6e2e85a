"""The example of docs/batch.md is a SPEC."""

from __future__ import annotations

import re
from pathlib import Path

from app.evaluation.spec import EXPECTATIONS, MATCHES, RunKey, plan_run
from app.evaluation.spec_reader import read_spec
from app.evaluation.spec_tools import with_tools

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "batch.md").read_text("utf-8")


def test_the_example_is_read() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)
    spec, notes = with_tools(read_spec(example), {})
    assert (spec.runs, notes) == (40, ())
    label = "the same by another protocol"
    plan = plan_run(spec, RunKey("one city", "a better description", label, 1))
    assert plan.prompt == "What is the weather in Oslo?"
    assert plan.model.profile == "simulator-openai"


def test_every_form_of_expectation_is_described() -> None:
    assert [kind for kind in EXPECTATIONS if f"`{{{kind}: " not in TEXT] == []
    assert [kind for kind in MATCHES if f"`{{{kind}: " not in TEXT] == []
