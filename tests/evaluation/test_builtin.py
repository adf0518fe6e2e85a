"""The built-in suite: what does it right passes every case, what does it wrong passes none."""

from __future__ import annotations

from asyncio import gather
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.tools import Tool
from app.engine.decisions import DecisionRequest
from app.engine.engine import Engine
from app.evaluation.builtin_suite import RIGHT, WRONG, builtin_suite, suite_scenario
from app.evaluation.expectations import score_run
from app.evaluation.results import RunResult
from app.evaluation.spec import RunKey, Spec, plan_run
from app.evaluation.spec_tools import with_tools
from app.simulator.scenario import script
from tests.engine.running import ALLOW_ALL, begun, rested, running

EXPECTED = {"right": "passed", "wrong": "failed"}


async def run_once(engine: Engine, spec: Spec, key: RunKey) -> RunResult:
    """A run in which a call that cannot run is answered with an error, as agents do it."""
    plan = plan_run(spec, key)
    tools = [tool for tool in plan.tools if isinstance(tool, Tool)]
    session_id = await begun(
        engine, tools, rules=ALLOW_ALL, model=plan.model.model, system=plan.system, **plan.settings
    )
    await engine.runner.prompt(session_id, plan.prompt)
    session = await rested(engine, session_id)
    while session.waiting:
        call = session.waiting[0]
        answer = DecisionRequest("answer", call.digest, text="It did not run.", is_error=True)
        await engine.runner.decide(session_id, call.id, answer)
        session = await rested(engine, session_id)
    return score_run(session, key, spec.by_id[key.case].expect, session_id)


@pytest.mark.anyio
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
async def test_the_scorer_tells_right_from_wrong_in_each_case(tmp_path: Path, every: int) -> None:
    suite = builtin_suite()
    spec, notes = with_tools(replace(suite, cases=suite.cases[::every]), {})
    async with running(tmp_path, scenario=script(suite_scenario())) as engine:
        results = await gather(*(run_once(engine, spec, key) for key in list(spec.keys())))
    surprises = [each for each in results if each.outcome != EXPECTED[each.key.model]]
    assert [(each.key, each.checks, each.calls) for each in surprises] == []
    assert len(results) == 2 * len(spec.cases)
    assert notes == ()


def test_it_has_twenty_cases_in_ten_kinds() -> None:
    spec = builtin_suite()
    assert sorted(Counter(case.category for case in spec.cases).values()) == [2] * 10
    assert [model.model for model in spec.models] == [RIGHT, WRONG]
    prompts = [case.prompt for case in spec.cases]
    assert not [a for a in prompts for b in prompts if a != b and a in b]
    assert RunKey("twins-old", "default", "wrong", 1) in set(spec.keys())
