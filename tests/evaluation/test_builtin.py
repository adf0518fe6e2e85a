"""The built-in suite: what does it right passes every case, what does it wrong passes none."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from playground.batch.batches import Batches
from playground.evaluation.spec import RunKey
from playground.evaluation.spec_reader import RIGHT, WRONG, builtin_suite, suite_scenario
from playground.simulator.scenario import script
from tests.engines import run_engine

EXPECTED = {"right": "passed", "wrong": "failed"}


@pytest.mark.anyio
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
async def test_the_scorer_tells_right_from_wrong_in_each_case(tmp_path: Path, every: int) -> None:
    suite = builtin_suite()
    spec = replace(suite, cases=suite.cases[::every])
    async with run_engine(tmp_path, scenario=script(suite_scenario())) as engine:
        batches = Batches(engine)
        plan = await batches.plan(spec)
        assert plan.notes == ()
        batch = await batches.start(plan)
        async with asyncio.timeout(40):
            await batches.wait_until_resting(batch)
        results = await batches.results(batch)
    surprises = [each for each in results if each.outcome != EXPECTED[each.key.model]]
    assert [(each.key, each.checks, each.calls) for each in surprises] == []
    assert len(results) == 2 * len(spec.cases)


def test_it_has_twenty_cases_in_ten_kinds() -> None:
    spec = builtin_suite()
    assert sorted(Counter(case.category for case in spec.cases).values()) == [2] * 10
    assert [model.model for model in spec.models] == [RIGHT, WRONG]
    prompts = [case.prompt for case in spec.cases]
    assert not [a for a in prompts for b in prompts if a != b and a in b]
    assert RunKey("twins-old", "default", "wrong", 1) in set(spec.keys())
