"""What a report says of planted results: rates, verdicts, findings, and the way out of a batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from playground.core.tools import Tool
from playground.evaluation.calls_made import NO_TOOL, similarity, value_problem
from playground.evaluation.report import (
    BatchReport,
    comparison_sentence,
    make_report,
    scope_sentence,
)
from playground.evaluation.results import CallMade, CheckResult, Outcome, RunResult
from playground.evaluation.spec import (
    ArgumentMatch,
    Case,
    Expectation,
    ModelChoice,
    RunKey,
    Spec,
    Variant,
)
from playground.evaluation.spec_reader import builtin_suite, suite_scenario
from playground.evaluation.statistics import Count, clustered_interval, confidence_sequence, wilson

ORDER = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
SEARCH = {
    "type": "object",
    "properties": {"region": {"enum": ["eu", "us"]}, "most": {"type": "integer"}},
}
TOOLS = (
    Tool("find_order", "Find an order by its number.", ORDER),
    Tool("lookup_order", "Looks up orders by number.", ORDER),
    Tool("search", "Search the shops of a region.", SEARCH),
)
NAMES = ("default", "terse")


def spec_of(
    cases: Iterable[Case],
    repetitions: int = 1,
    variants: tuple[str, ...] = NAMES,
    models: tuple[str, ...] = ("m",),
    **more: Any,
) -> Spec:
    return Spec(
        tuple(cases),
        "planted",
        seed=3,
        repetitions=repetitions,
        tools=TOOLS,
        models=tuple(ModelChoice("p", name, name) for name in models),
        variants=tuple(map(Variant, variants)),
        **more,
    )


def cases_of(number: int, tool: str = "find_order", prompt: str = "Where is A-1?") -> list[Case]:
    expected = (Expectation("called", tool),)
    return [Case(f"c{place}", prompt, expect=expected) for place in range(number)]


def run(key: RunKey, outcome: Outcome, *calls: CallMade, **more: Any) -> RunResult:
    return RunResult(key, outcome, calls=calls, session=f"s-{key.case}", **more)


def results_of(spec: Spec, outcome: Callable[[RunKey], Outcome]) -> list[RunResult]:
    """All runs of a SPEC, each with a call of the tool that is expected."""
    call = CallMade("find_order", '{"id": "A-1"}')
    keys = spec.keys()
    return [run(key, outcome(key), call) for key in keys]


def report_of(spec: Spec, outcome: Callable[[RunKey], Outcome]) -> BatchReport:
    return make_report(spec, results_of(spec, outcome))


def test_rates_are_of_the_cases_and_of_one_case_its_runs() -> None:
    several = report_of(
        spec_of(cases_of(12), 5), lambda key: "failed" if key.repetition == 1 else "passed"
    )
    first = several.summaries[0]
    assert first.rate == pytest.approx(0.8)
    assert (first.cases, first.runs) == (12, 60)
    assert first.interval == clustered_interval([Count(4, 5)] * 12)
    assert scope_sentence(several) == (
        "The sample is 12 cases, with 5 runs each per variant. "
        "Intervals are 95 % confidence intervals."
    )
    alone = report_of(
        spec_of(cases_of(1), 20), lambda key: "failed" if key.repetition < 6 else "passed"
    )
    assert alone.summaries[0].interval == wilson(0.75, 20)
    assert scope_sentence(alone).startswith(
        "These results apply to one prompt only. The sample is its runs: 20 runs per variant."
    )
    assert "rough" in scope_sentence(report_of(spec_of(cases_of(9)), lambda key: "passed"))


def test_a_case_passes_by_its_share_once_all_its_runs_are_over() -> None:
    cases = [
        replace(case, min_pass=share) for case, share in zip(cases_of(2), (0.6, None), strict=True)
    ]
    spec = spec_of(cases, 5, variants=("default",), min_pass=0.8)
    results = results_of(spec, lambda key: "failed" if key.repetition > 3 else "passed")
    cells = make_report(spec, results).cells
    assert [(cell.case, cell.passes, cell.passed, cell.runs) for cell in cells] == [
        ("c0", True, 3, 5),
        ("c1", False, 3, 5),
    ]
    assert cells[0].interval == wilson(0.6, 5)
    assert make_report(spec, results[:-1]).cells[int(results[-1].key.case[1:])].passes is None


def test_the_order_in_which_results_come_changes_nothing() -> None:
    random = Random(4)
    spec = spec_of(cases_of(20), 3)
    results = results_of(spec, lambda key: random.choice(("passed", "failed")))
    shuffled = random.sample(results, len(results))
    assert make_report(spec, shuffled) == make_report(spec, results)


def test_an_unfinished_batch_says_so_and_decides_by_betting_alone() -> None:
    spec = spec_of(cases_of(40))
    results = results_of(spec, lambda key: "failed" if key.variant == "terse" else "passed")
    early = make_report(spec, results[:12])
    (comparison,) = early.comparisons
    assert (early.state, comparison.verdict, comparison.p) == ("running", "undecided", None)
    assert scope_sentence(early).startswith(
        "The intervals are not final: 12 of 80 runs finished so far."
    )
    assert not any(summary.powers for summary in early.summaries)
    later = make_report(spec, results[:60])
    assert (later.state, later.comparisons[0].verdict, later.decided) == ("running", "worse", True)
    stopped = make_report(spec, results[:60], stopped=True)
    assert stopped.state == "stopped"
    assert stopped.summaries[0].interval == confidence_sequence([1.0] * 30)
    hole = make_report(spec, [*results[:10], *results[11:60]], stopped=True)
    assert [summary.cases for summary in hole.summaries] == [5, 30]
    cut = [*results[:-1], replace(results[-1], outcome="stopped")]
    assert make_report(spec, cut).state == "running"


def test_what_says_nothing_of_the_model_is_left_out_on_both_sides() -> None:
    spec = spec_of(cases_of(30), 2)

    def outcome(key: RunKey) -> Outcome:
        if key.case == "c7" and key.variant == "terse" and key.repetition == 1:
            return "provider_error"
        return "failed" if key.variant == "terse" else "passed"

    report = report_of(spec, outcome)
    (comparison,) = report.comparisons
    assert (comparison.pairs, comparison.left_out, comparison.verdict) == (60, 1, "worse")
    assert report.outcomes["provider_error"] == 1
    assert report.summaries[1].rate == 0
    many = report_of(spec, lambda key: "unknown" if key.case in ("c1", "c2") else outcome(key))
    assert many.comparisons[0].verdict == "undecided"
    assert comparison_sentence(many, many.comparisons[0]) == (
        "No verdict whether “terse” is better than “default”: 5 of 60 pairs of runs could not be "
        "compared, more than 5 %."
    )


def test_models_are_compared_where_there_is_one_variant_alone() -> None:
    spec = spec_of(cases_of(30), variants=("default",), models=("a", "b", "c"))
    report = report_of(spec, lambda key: "failed" if key.model == "b" else "passed")
    verdicts = [(each.model, each.a, each.b, each.verdict) for each in report.comparisons]
    assert verdicts == [("", "a", "b", "worse"), ("", "a", "c", "undecided")]


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (
            lambda key: "failed" if key.variant == "terse" and key.case < "c3" else "passed",
            "Not decided whether “terse” is better than “default”: 30 points fewer over 10 cases"
            " (95 % interval −65 to 5); exact test, p = 0.25; about 11 more cases would decide.",
        ),
        (
            lambda key: "failed" if key.variant == "default" else "passed",
            "“terse” is better than “default”: 100 points more over 10 cases (95 % interval 19 to"
            " 100); decided after 8 cases in the order of the seed.",
        ),
        (
            lambda key: "passed",
            "Not decided whether “terse” is better than “default”: 0 points more over 10 cases "
            "(95 % interval −41 to 41); exact test, p = 1; deciding so small a difference takes "
            "more than 1,000 more cases.",
        ),
    ],
)
def test_a_verdict_is_said_with_its_figures(
    verdict: Callable[[RunKey], Outcome], sentence: str
) -> None:
    report = report_of(spec_of(cases_of(10)), verdict)
    assert comparison_sentence(report, report.comparisons[0]) == sentence


def test_all_of_k_runs_pass_is_shown_where_the_batch_ran_to_its_end() -> None:
    spec = spec_of(cases_of(2), 5, variants=("default",))
    results = results_of(
        spec, lambda key: "failed" if key.case == "c1" and key.repetition > 3 else "passed"
    )
    assert make_report(spec, results[:-1]).summaries[0].powers == ()
    report = make_report(spec, results)
    powers = [(power.k, power.rate) for power in report.summaries[0].powers]
    assert powers == [(2, (1 + 0.3) / 2), (4, 0.5), (5, 0.5)]


@pytest.mark.parametrize(
    ("outcomes", "missing", "code"),
    [
        ({}, 0, 0),
        ({"c0": "failed"}, 0, 1),
        ({"c0": "provider_error"}, 0, 1),
        ({"c0": "unknown"}, 0, 3),
        ({"c0": "needs_person", "c1": "failed"}, 0, 1),
        ({"c0": "needs_person"}, 0, 3),
        ({}, 1, 3),
    ],
)
def test_the_way_out_of_a_batch(outcomes: Mapping[str, Outcome], missing: int, code: int) -> None:
    spec = spec_of(cases_of(4), variants=("default",))
    results = results_of(spec, lambda key: outcomes.get(key.case, "passed"))
    report = make_report(spec, results[: len(results) - missing], stopped=True)
    assert report.exit_code == code


def test_a_variant_that_is_worse_is_a_way_out_of_its_own() -> None:
    spec = spec_of(cases_of(30), 2, min_pass=0.5)
    report = report_of(
        spec,
        lambda key: "failed" if key.variant == "terse" and key.repetition == 1 else "passed",
    )
    assert all(cell.passes for cell in report.cells)
    assert report.exit_code == 1


# What was called ----------------------------------------------------------------------------------


def report_of_calls(
    spec: Spec, calls: Callable[[RunKey, int], list[tuple[str, Any]]]
) -> BatchReport:
    """A report of runs that made these calls; a run passes that called what its case expects."""
    results = []
    for place, key in enumerate(spec.keys()):
        wanted = spec.by_id[key.case].expect[0].value
        call_mades = [
            CallMade(tool, json.dumps(arguments)) for tool, arguments in calls(key, place)
        ]
        right = wanted is True if not call_mades else wanted in [call.name for call in call_mades]
        results.append(run(key, "passed" if right else "failed", *call_mades))
    return make_report(spec, results)


def test_the_matrix_counts_what_was_called_instead() -> None:
    cases = [
        *cases_of(3),
        Case("none", "Thanks.", expect=(Expectation("no_call", True),)),
        Case("text", "Say yes.", expect=(Expectation("text_contains", "yes"),)),
    ]
    document = {
        "c0": ["find_order"],
        "c1": ["search", "lookup_order"],
        "c2": [],
        "none": ["search"],
    }
    report = report_of_calls(
        spec_of(cases, variants=("default",)),
        lambda key, place: [(name, {}) for name in document.get(key.case, [])],
    )
    assert report.confusion == {
        "find_order": {"find_order": 1, "search": 1, "lookup_order": 1, NO_TOOL: 1},
        NO_TOOL: {"search": 1},
    }
    assert report.summaries[0].right_tool == (1, 4)


def test_tools_whose_descriptions_are_twins_are_named() -> None:
    report = report_of_calls(
        spec_of(cases_of(20)),
        lambda key, place: [
            ("lookup_order" if key.variant == "terse" and key.case < "c13" else "find_order", {})
        ],
    )
    assert [finding.sentence for finding in report.findings if finding.kind == "twins"] == [
        "find_order and lookup_order are confused in 5 of 20 runs with “terse”, and their "
        "descriptions are nearly the same. Describe when to use each and not the other."
    ]
    once = report_of_calls(
        spec_of(cases_of(3)),
        lambda key, place: [("lookup_order" if place == 0 else "find_order", {})],
    )
    assert {finding.kind for finding in once.findings} == {"argument_missing"}
    apart = report_of_calls(spec_of(cases_of(20)), lambda key, place: [("search", {})])
    assert {finding.kind for finding in apart.findings} == {"confused"}


@pytest.mark.parametrize(
    ("first", "second", "twins"),
    [
        ("Find an order by its number.", "Looks up orders by number.", True),
        ("Get the weather in a city.", "Returns the weather for a given city", True),
        ("Get the weather in a city.", "Get the time in a city.", True),
        ("Find an order by its number.", "Pay money back for an order.", False),
        ("Send an email.", "Search the web.", False),
        ("", "Search the web.", False),
    ],
)
def test_twins_share_most_words(first: str, second: str, twins: bool) -> None:
    assert (similarity(first, second) >= 0.5) == twins


def test_an_enum_without_the_words_of_the_prompts_is_named() -> None:
    cases = cases_of(66, "search", "Which shops are there in the EU?")
    report = report_of_calls(
        spec_of(cases, variants=("default",)),
        lambda key, place: [("search", {"region": "EU" if place < 5 else "eu"})],
    )
    (finding,) = report.findings
    assert (finding.kind, finding.argument, finding.count, finding.of) == (
        *("enum_words", "region", 5, 66),
    )
    assert finding.sentence == (
        'region of search was "EU" in 5 of 66 calls, which its enum (eu, us) does not have; 5'
        " prompts use that word. Add the prompts' words to the enum, or describe what"
        " each value means."
    )
    (region, _) = report.arguments
    assert [(use.value, use.count, use.problem) for use in region.values] == [
        ('"eu"', 61, ""),
        ('"EU"', 5, "not in enum"),
    ]


def test_the_scripts_of_the_built_in_suite_show_its_twins_and_enums() -> None:
    suite = builtin_suite()
    scripts = {
        (each["model"], each["prompt"]): each["turns"]
        for each in json.loads(suite_scenario())["scenarios"]
    }
    models = {model.label: model.model for model in suite.models}
    keys = suite.keys()
    results = []
    for key in keys:
        turns = scripts[models[key.model], suite.by_id[key.case].prompt]
        calls = [
            CallMade(call["name"], json.dumps(call["arguments"]))
            for turn in turns
            for call in turn.get("calls", ())
        ]
        results.append(run(key, "passed" if key.model == "right" else "failed", *calls))
    report = make_report(suite, results)
    named = {(finding.kind, *finding.tools, finding.argument) for finding in report.findings}
    assert {
        ("twins", "search_archive", "search_orders", ""),
        ("enum_words", "count_servers", "region"),
        ("enum_words", "open_ticket", "priority"),
    } <= named
    (comparison,) = report.comparisons
    assert (comparison.a, comparison.b, comparison.verdict) == ("right", "wrong", "worse")


def test_a_value_of_an_enum_that_the_prompts_do_not_say_is_named() -> None:
    wanted = ArgumentMatch("subset", {"region": "eu"})
    cases = [
        Case(f"c{place}", "Shops in Europe?", expect=(Expectation("called", "search", wanted),))
        for place in range(10)
    ]
    report = report_of_calls(
        spec_of(cases, variants=("default",)),
        lambda key, place: [("search", {"region": "us" if place < 4 else "eu"})],
    )
    assert [finding.sentence for finding in report.findings] == [
        'region of search should be "eu", which the prompts do not say, and was another value of'
        " its enum in 4 of 10 runs. Describe what each value means."
    ]


def test_arguments_of_another_type_and_missing_ones_are_named() -> None:
    report = report_of_calls(
        spec_of(cases_of(4), variants=("default",)),
        lambda key, place: [("find_order", {"id": 1} if place < 3 else {})],
    )
    assert [finding.sentence for finding in report.findings] == [
        "id of find_order was of type integer, not string, in 3 of 3 calls.",
        "find_order was called without id in 1 of 4 calls.",
    ]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "number"}, "1", "string, not number"),
        ({"type": "number"}, 1, ""),
        ({"type": "integer"}, 1.0, ""),
        ({"type": "integer"}, 1.5, "number, not integer"),
        ({"type": "integer"}, True, "boolean, not integer"),
        ({"type": ["string", "null"]}, None, ""),
        ({"type": ["string", "null"]}, [], "array, not string or null"),
        ({"enum": ["a", None]}, None, ""),
        ({"enum": ["a"]}, {"b": 1}, "not in enum"),
        ({"type": "made up"}, 1, ""),
        (True, 1, ""),
        (None, 1, ""),
    ],
)
def test_a_look_at_a_value(schema: Any, value: Any, problem: str) -> None:
    assert value_problem(schema, value) == problem


def test_what_differs_is_said_by_the_runs_that_passed() -> None:
    case = Case("c", "Pay A-1 back.", expect=(Expectation("called", "find_order"),))
    report = report_of_calls(
        spec_of([case], 12, variants=("default",), models=("a", "b")),
        lambda key, place: [
            *([] if key.model == "b" and key.repetition > 10 else [("find_order", {})]),
            ("search", {}),
        ],
    )
    first, second = report.ways
    assert (first.usual, first.runs, first.deviations) == (("find_order", "search"), 12, ())
    assert second.deviations == ("Skipped find_order in 2 of 12 runs.",)


def test_a_failure_has_its_session_and_its_reason() -> None:
    spec = spec_of(cases_of(2), variants=("default",))
    failed_check = CheckResult(Expectation("called", "search"), False, "search was not called.")
    keys = spec.keys()
    results = [run(key, "failed") for key in keys]
    results[0] = replace(results[0], checks=(failed_check,))
    report = make_report(spec, results)
    assert [result.session for result in report.failures] == [
        f"s-{result.key.case}" for result in report.results
    ]
    assert report.cells[0].session == "s-c0"
