"""A report as a file: what is in it, and that nothing of it means anything to who opens it."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from playground import config
from playground.evaluation.exports import FORMATS, batch_ended, write_report, write_unredacted
from playground.evaluation.report import BatchReport, make_report
from playground.evaluation.results import CallMade, CheckResult, Outcome, RunResult
from playground.evaluation.spec import Case, Expectation, ModelChoice, Spec, Variant
from playground.render.environment import environment
from tests.secrets.made_up_keys import RULES, made_up_key

TEMPLATES = environment(config.resource("templates"))
CALLED = Expectation("called", "find_order")
EVIL = '=1+1</style><script>alert("x")</script>| [a](b) `c` \x00\ud800'


@pytest.fixture(scope="module")
def report() -> BatchReport:
    """Six cases by two variants: one fails with the second variant, one has no verdict at all, one
    did not run to its end. Names and texts are hostile."""
    cases = [Case(f"c{place}", "Where is it?", expect=(CALLED,)) for place in range(5)]
    spec = Spec(
        (*cases, replace(cases[0], id=EVIL[:40])),
        EVIL,
        repetitions=2,
        models=(ModelChoice("p", "m", "m"),),
        variants=(Variant("default"), Variant(EVIL)),
    )
    outcomes: dict[tuple[str, str], Outcome] = {
        ("c1", EVIL): "failed",
        ("c2", EVIL): "provider_error",
    }
    failed_check = CheckResult(CALLED, False, f"find_order was not called. {EVIL}")
    results = []
    for key in list(spec.keys()):
        outcome = outcomes.get(key[:2], "passed")
        if key[:2] == ("c3", EVIL) and key.repetition == 2:
            continue
        results.append(
            RunResult(
                key,
                outcome,
                (failed_check,) if outcome == "failed" else (),
                (CallMade("find_order", '{"id": 1}'),),
                text=EVIL,
                seconds=0.5,
                session="s1",
                detail="Overloaded." if outcome == "provider_error" else "",
            )
        )
    return make_report(spec, results, stopped=True)


def exported(report: BatchReport, form: str) -> str:
    return write_unredacted(report, form, TEMPLATES).data.decode("utf-8")


def test_the_object_of_the_contract(report: BatchReport) -> None:
    data = batch_ended(report)
    assert json.loads(exported(report, "json")) == data
    assert [data[name] for name in ("kind", "runs", "passed", "failed", "unknown")] == [
        *("batch_ended", 23, 19, 2, 0)
    ]
    cell = next(each for each in data["cells"] if each["case"] == "c1" and each["variant"] == EVIL)
    assert {name: cell[name] for name in ("model", "runs", "passed", "rate", "session")} == {
        **{"model": "m", "runs": 2, "passed": 0},
        **{"rate": 0.0, "session": "s1"},
    }
    assert cell["interval"] == [0.0, pytest.approx(0.657620)]
    (comparison,) = data["comparisons"]
    assert (comparison["a"], comparison["b"], comparison["verdict"]) == (
        *("default", EVIL, "undecided"),
    )
    assert {"model", "p", "more"} <= comparison.keys()
    assert data["confusion"] == {"find_order": {"find_order": 21}}


def test_junit_has_a_test_for_each_case_of_each_variant(report: BatchReport) -> None:
    root = ElementTree.fromstring(exported(report, "junit"))
    assert root.tag == "testsuites"
    first, second = root
    assert (first.get("tests"), first.get("failures")) == ("6", "0")
    counts = [second.get(name) for name in ("tests", "failures", "errors", "skipped", "time")]
    assert counts == ["6", "1", "1", "1", "5.500"]
    states = {test.get("name"): [child.tag for child in test] for test in second}
    assert [states[name] for name in ("c0", "c1", "c2", "c3")] == [
        *([], ["failure"], ["error"], ["skipped"]),
    ]
    failure = second.find("testcase[@name='c1']/failure")
    assert failure is not None
    assert failure.get("message") == "0 of 2 runs passed; 100 % required"
    assert (failure.text or "").startswith("run 1: find_order was not called. =1+1</style><script>")


def test_a_spreadsheet_finds_no_formula(report: BatchReport) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(report, "csv"))))
    assert len(rows) == 23
    assert rows[0]["text"].startswith("'=1+1")
    assert not [cell for row in rows for cell in row.values() if re.match(r"\s*[=+@-]", cell)]
    assert {row["calls"] for row in rows} == {'find_order({"id": 1})'}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *((text, f"'{text}") for text in ("=A1", "+1", "-1", "@a", " =A1", "\t=A1", "\tx", "＝A1")),
        *((text, text) for text in ("a=1", "1", "", "'=A1", "é")),
    ],
)
def test_a_cell_of_a_spreadsheet(report: BatchReport, text: str, written: str) -> None:
    changed = replace(report, results=(replace(report.results[0], text=text),))
    (row,) = csv.DictReader(io.StringIO(exported(changed, "csv"), newline=""))
    assert row["text"] == written


def test_markdown_shows_what_was_said_as_it_was(report: BatchReport) -> None:
    text = exported(report, "markdown")
    assert not re.search(r"(?<!\\)[<\[`]", text)
    assert len({line.count(" | ") for line in text.split("\n") if line.startswith("| c")}) == 1
    assert "- c1, " in text


def test_the_page_runs_nothing_and_loads_nothing(report: BatchReport) -> None:
    page = exported(report, "html")
    assert "<script" not in page
    assert "<style>" in page
    assert page.count("<style>") == page.count("</style>") == 1
    styles = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}';" in html.unescape(page)
    assert not re.search(r"\b(?:src|href|style|on\w+)=", page)
    assert "✗ 0 of 2" in page
    assert "find_order was not called." in page


def test_every_form_has_a_file_of_its_own(report: BatchReport) -> None:
    files = [write_unredacted(report, form, TEMPLATES) for form in FORMATS]
    assert [file.file_name.rpartition(".")[2] for file in files] == [
        *("csv", "json", "xml", "md", "html"),
    ]
    empty = make_report(report.spec, [])
    assert all(write_unredacted(empty, form, TEMPLATES).data for form in FORMATS)


@pytest.mark.parametrize("form", FORMATS)
def test_a_report_shows_no_key_in_any_format(form: str, report: BatchReport) -> None:
    """What a model or a tool said; the rest is as it was."""
    made_up = [made_up_key(rule) for rule in RULES.values()]
    text = "\n".join(each.text for each in made_up)
    call = CallMade("find_order", json.dumps({"id": text, "n": 7}))
    run_results = [
        replace(result, text=text, detail=text, calls=(call,)) for result in report.results
    ]
    failed_check = CheckResult(CALLED, False, f"find_order got {text}")
    run_results[3] = replace(run_results[3], outcome="failed", checks=(failed_check,))
    with_keys = make_report(report.spec, run_results, stopped=True)
    left = html.unescape(write_report(with_keys, form, TEMPLATES).data.decode("utf-8"))
    left += left.replace('""', '"') + left.replace('\\"', '"').replace("\\\\", "\\")
    assert [each for each in made_up if each.key in left] == []
    plain_data = write_report(report, form, TEMPLATES).data
    assert plain_data == write_unredacted(report, form, TEMPLATES).data
