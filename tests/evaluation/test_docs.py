"""The example of docs/batch.md is a SPEC, and runs."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from playground.batch.batches import Batches
from playground.evaluation.spec import EXPECTATIONS, MATCHES
from playground.evaluation.spec_reader import read_spec
from tests.engines import run_engine

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "batch.md").read_text("utf-8")


@pytest.mark.anyio
async def test_the_example_runs(tmp_path: Path) -> None:
    example = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)[0]
    spec = read_spec(example)
    assert spec.runs == 40
    async with run_engine(tmp_path) as engine:
        batches = Batches(engine)
        plan = await batches.plan(replace(spec, repetitions=1))
        assert plan.notes == ()
        batch = await batches.start(plan)
        async with asyncio.timeout(40):
            await batches.wait_until_resting(batch)
        results = await batches.results(batch)
    assert [(each.outcome, each.checks) for each in results if each.outcome != "passed"] == []
    assert len(results) == 8


def test_every_form_of_expectation_is_described() -> None:
    assert [kind for kind in EXPECTATIONS if f"`{{{kind}: " not in TEXT] == []
    assert [kind for kind in MATCHES if f"`{{{kind}: " not in TEXT] == []
