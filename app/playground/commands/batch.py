"""`playground batch`: runs a SPEC, here or by --engine, prints lines or JSON, writes reports."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from playground import config
from playground.batch.batches import Batches, BatchProgress, RemoteWorkers
from playground.batch.cluster import (
    EngineAddress,
    check_installed,
    check_plan,
    dask_workers,
    read_engine,
)
from playground.batch.plan import BatchPlan, file_reader, plan_batch
from playground.commands import cluster_worker
from playground.commands.own_simulator import engine_beside_simulator
from playground.commands.run import EXIT, STOPPED, StopSignals, read_tools
from playground.commands.sockets import run_loop
from playground.core.errors import BadInput, PlaygroundError
from playground.core.tools import Tool
from playground.evaluation.batch_import import read_batch
from playground.evaluation.exports import batch_ended, write_report
from playground.evaluation.report import (
    BatchReport,
    comparison_sentence,
    failure_sentences,
    make_report,
    percent,
    percents,
    plural,
    scope_sentence,
)
from playground.evaluation.results import RunResult, result_data
from playground.evaluation.spec import Spec
from playground.evaluation.spec_reader import BUILTIN, builtin_suite
from playground.exchange.parsers import MOST_BYTES
from playground.render.environment import environment
from playground.schema.validate import check_tool
from playground.store.database import database_path, owner_of

LINE_S = 0.5
"""Seconds between two lines of progress, on a terminal."""

QUIET_S = 30.0
"""The same if stdout is not a terminal: in the log of a CI job."""

TOGETHER_S = 0.05
"""Seconds between two checks for finished runs."""

SHOWN = 20
"""Maximum number of failures and notes printed; a file or --json has all failures."""

FORMATS = ("junit", "csv", "html", "markdown")
"""The formats of the report, which are options."""

_OUTCOMES: Mapping[str, str] = {
    "passed": "passed",
    "failed": "failed",
    "provider_error": "provider error",
    "unknown": "unknown",
    "needs_person": "needs a decision",
    "stopped": "stopped",
}


def main(arguments: argparse.Namespace) -> int:
    """0 every case passes, 1 one does not or a variant is worse, 3 some runs are unknown, need a
    user or were not made, 130 ended by Ctrl-C, 143 by SIGTERM."""
    place = _place(arguments)
    spec = _spec(arguments)
    if arguments.retry_unknown and not arguments.resume:
        raise BadInput(
            "--retry-unknown needs --resume: it repeats unknown runs of a stopped batch."
        )
    for option in FORMATS:
        _check_writable(getattr(arguments, option))
    for warning in config.load_env(Path.cwd(), arguments.env_file):
        print(f"playground: {warning}", file=sys.stderr)
    db = database_path(arguments.db or config.default_db())
    owner = owner_of(db)
    if owner is not None and owner.url:
        raise PlaygroundError(
            f"The server at {owner.url} uses this database. Stop it, or name another file with "
            "--db FILE."
        )
    ends = StopSignals()
    try:
        code = run_loop(ends.run_until_signal(_batch(db, spec, place, arguments)))
    except asyncio.CancelledError:
        print("playground: Stopped before the batch began.", file=sys.stderr)
        code = EXIT[STOPPED]
    return ends.code if code == EXIT[STOPPED] else code


def _place(arguments: argparse.Namespace) -> EngineAddress | None:
    """Where the runs are made, from --engine; None is this process."""
    if arguments.engine is None:
        return None
    place = read_engine(arguments.engine, trusted=arguments.engine_trusted)
    check_installed()
    return place


def _spec(arguments: argparse.Namespace) -> Spec:
    """The SPEC selected by the command line."""
    spec = replace(_read(arguments.spec), allow=tuple(arguments.allow))
    if arguments.seed is not None:
        spec = replace(spec, seed=arguments.seed)
    if arguments.max_cost is not None:
        spec = replace(spec, max_cost=arguments.max_cost)
    if arguments.filter:
        cases = tuple(case for case in spec.cases if _is_named(case.id, arguments.filter))
        if not cases:
            ids = ", ".join(case.id for case in spec.cases[:SHOWN])
            raise BadInput(
                f"No case is called {' or '.join(arguments.filter)}. The cases are {ids}."
            )
        spec = replace(spec, cases=cases)
    return spec


def _is_builtin(path: Path) -> bool:
    """Whether it is the suite that comes with the program; a file of that name takes precedence."""
    return str(path) == BUILTIN and not path.exists()


def _read(path: Path) -> Spec:
    if _is_builtin(path):
        return builtin_suite()
    beside = partial(_text, plain=True)
    imported = read_batch(_text(path), path.name, lambda name: beside(path.parent / name))
    notes = [*imported.notes, *(f"{each.case}: {each.reason}" for each in imported.left_out)]
    for sentence in notes[:SHOWN]:
        print(f"playground: {config.one_line(sentence)}", file=sys.stderr)
    if len(notes) > SHOWN:
        more = f"{len(notes) - SHOWN:,} more notes"
        print(
            f"playground: {more}; {len(imported.left_out):,} cases are left out.", file=sys.stderr
        )
    return imported.spec


def _text(path: Path, *, plain: bool = False) -> str:
    try:
        return config.read_file(path, MOST_BYTES, plain=plain).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise BadInput(
            f"Cannot read {path} ({reason}). Name a file, or {BUILTIN} for the built-in suite."
        ) from error


def _is_named(case_id: str, patterns: Sequence[str]) -> bool:
    return any(case_id == pattern or fnmatchcase(case_id, pattern) for pattern in patterns)


def _check_writable(path: Path | None) -> None:
    """Checks before anything is sent that the report can be written."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise BadInput(f"Cannot write {path}: name a file in a folder that exists.")


async def _batch(
    db: Path, spec: Spec, place: EngineAddress | None, arguments: argparse.Namespace
) -> int:
    read_file = file_reader(arguments.spec.parent, _read_tools)
    async with engine_beside_simulator(db) as engine:
        plan = await plan_batch(engine, spec, read_file)
        teller = BatchPrinter(as_json=arguments.json)
        teller.plan(plan)
        if place is not None:
            check_plan(plan)
        if arguments.dry_run:
            teller.dry_run(plan)
            return 0
        async with _workers(place, teller) as workers:
            return await _make(Batches(engine, workers=workers), plan, arguments, teller)


@asynccontextmanager
async def _workers(
    place: EngineAddress | None, teller: BatchPrinter
) -> AsyncIterator[RemoteWorkers | None]:
    """The workers that make the runs; None is this process."""
    if place is None:
        yield None
        return
    async with dask_workers(place, cluster_worker.TASKS) as workers:
        at_once = f"{plural(len(workers), 'worker')}, {workers.threads} runs at once"
        teller.say(f"{place.url or f'local:{place.local}'}: {at_once}")
        yield workers


async def _make(
    batches: Batches,
    plan: BatchPlan,
    arguments: argparse.Namespace,
    teller: BatchPrinter,
) -> int:
    """Runs it to its end; returns the exit code. On cancellation the batch is stopped."""
    batch_id = await _begin_batch(batches, plan, arguments)
    try:
        await _follow(batches, batch_id, teller)
        stopped = False
    except asyncio.CancelledError:
        await batches.stop(batch_id)
        stopped = True
    progress, results = await batches.progress(batch_id), await batches.results(batch_id)
    report = make_report(await batches.spec(batch_id), results, stopped=progress.state != "ended")
    templates = environment(config.resource("templates"))
    for option in FORMATS:
        if (path := getattr(arguments, option)) is not None:
            path.write_bytes(write_report(report, option, templates).data)
    teller.end(batch_id, report, progress)
    if stopped:
        words = " ".join(_resume_command(arguments))
        teller.say(
            f"The batch was stopped after {len(report.results):,} of {plan.spec.runs:,} runs; "
            f"`{words}` continues it."
        )
        return EXIT[STOPPED]
    await batches.close()
    return report.exit_code


def _resume_command(arguments: argparse.Namespace) -> list[str]:
    """The command line that continues this batch."""
    words = ["playground", "batch", str(arguments.spec), "--resume"]
    if arguments.engine is not None:
        words += ["--engine", arguments.engine, *["--engine-trusted"] * arguments.engine_trusted]
    if arguments.seed is not None:
        words += ["--seed", str(arguments.seed)]
    for option in ("filter", "allow"):
        words += [word for name in getattr(arguments, option) for word in (f"--{option}", name)]
    return words + (["--db", str(arguments.db)] if arguments.db is not None else [])


async def _begin_batch(batches: Batches, plan: BatchPlan, arguments: argparse.Namespace) -> str:
    """The id of the batch: a new one, or the newest with the same requests."""
    if not arguments.resume:
        return await batches.start(plan, stop_early=arguments.stop_early)
    batch_id = await batches.newest(plan.spec)
    if batch_id is None:
        raise BadInput("This database has no batch of this SPEC. Leave --resume out.")
    await batches.resume(
        batch_id,
        retry_unknown=arguments.retry_unknown,
        max_cost=arguments.max_cost,  # default: that of its start
        stop_early=arguments.stop_early,
    )
    return batch_id


async def _follow(batches: Batches, batch_id: str, teller: BatchPrinter) -> None:
    """Reports each run that ends, until no more will by itself."""
    count = (await batches.progress(batch_id)).done
    teller.begin(batch_id, count)
    resting = asyncio.create_task(batches.wait_until_resting(batch_id))
    with batches.listen(batch_id) as bell:
        resting.add_done_callback(lambda _: bell.notify())
        while True:
            bell.clear()
            over = resting.done()
            ended = batches.ended_since(batch_id, count)
            count += len(ended)
            teller.runs(ended)
            teller.progress(await batches.progress(batch_id))
            if over:
                return
            await bell.wait(QUIET_S)
            await asyncio.sleep(TOGETHER_S)


def _read_tools(path: Path) -> Sequence[Tool]:
    return [check_tool(data) for data in read_tools(path, plain=True)]


# Output -------------------------------------------------------------------------------------------


class BatchPrinter:
    """Prints progress to stderr, and results to stdout, as lines or as JSON objects."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._on_terminal = sys.stderr.isatty()
        self._next = 0.0
        self._last = ""

    def plan(self, plan: BatchPlan) -> None:
        for note in plan.notes:
            self.say(note)

    def dry_run(self, plan: BatchPlan) -> None:
        """Upper bounds of its cost and tokens."""
        spec, (read, wrote), price = plan.spec, plan.most_tokens, plan.most_price
        if self._json:
            self._object(
                "dry_run",
                cases=len(spec.cases),
                runs=spec.runs,
                tokens_in=read,
                tokens_out=wrote,
                price=price,
                notes=list(plan.notes),
            )
            return
        parts = [
            plural(len(spec.cases), "case"),
            plural(len(spec.models), "model"),
            plural(len(spec.variants), "variant"),
            plural(spec.repetitions, "repetition"),
        ]
        cost = plan.unknown_price if price is None else f"At most ${price:,.2f}."
        cost = cost if price != 0.0 else "It costs nothing."
        self._line(f"{plural(spec.runs, 'run')}: {', '.join(parts)}.")
        self._line(f"At most {read:,} input and {wrote:,} output tokens, without tool results.")
        self._line(cost)

    def begin(self, batch_id: str, known: int) -> None:
        if self._json:
            self._object("batch_started", id=batch_id, known=known)

    def runs(self, results: Sequence[RunResult]) -> None:
        if self._json:
            for result in results:
                self._object("run_ended", **result_data(result))

    def progress(self, progress: BatchProgress) -> None:
        """A line at intervals."""
        now = time.monotonic()
        if now < self._next and progress.state == "running":
            return
        self._next = now + (LINE_S if self._on_terminal else QUIET_S)
        counts = [
            f"{count:,} {word}"
            for outcome, word in _OUTCOMES.items()
            if (count := progress.outcomes.get(outcome)) and outcome != "stopped"
        ]
        left = f", about {_duration(progress.seconds_left)} left" if progress.seconds_left else ""
        outcomes = f": {', '.join(counts)}" if counts else ""
        text = f"{progress.done:,} of {progress.runs:,} runs{outcomes}{left}"
        if text == self._last and progress.state == "running":
            return
        self._last = text
        if self._on_terminal:
            end = "" if progress.state == "running" else "\n"
            print(f"\r\x1b[K{text}", end=end, file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
        if progress.why and progress.state == "paused":
            self.say(progress.why)

    def end(self, batch_id: str, report: BatchReport, progress: BatchProgress) -> None:
        """All results."""
        if self._json:
            self._object(**{**batch_ended(report), "id": batch_id, "why": progress.why})
            return
        several = len(report.summaries) > 1
        for summary in report.summaries:
            rate = "–" if summary.rate is None else percent(summary.rate)
            interval = f" ({percents(summary.interval)})" if summary.interval is not None else ""
            passed = summary.outcomes.get("passed", 0)
            name = f"{summary.model} · {summary.variant}: " if several else ""
            self._line(f"{name}{rate}{interval}, {passed:,} of {summary.runs:,} runs passed")
        self._line(scope_sentence(report))
        for comparison in report.comparisons:
            self._line(comparison_sentence(report, comparison))
        for finding in report.findings:
            self._line(finding.sentence)
        for result in report.failures[:SHOWN]:
            key, why = result.key, " ".join(failure_sentences(result))
            where = f" [session {result.session}]" if result.session else ""
            place = f"{key.case} · {key.variant} · {key.model} · {key.repetition}"
            self._line(f"{_OUTCOMES[result.outcome]}: {place}: {why}{where}")
        if len(report.failures) > SHOWN:
            self._line(f"… and {len(report.failures) - SHOWN:,} more; --html FILE lists all.")

    def say(self, text: str) -> None:
        print(f"playground: {config.one_line(text)}", file=sys.stderr, flush=True)

    def _object(self, kind: str, **members: Any) -> None:
        print(json.dumps({"kind": kind, **members}), flush=True)

    def _line(self, text: str) -> None:
        print(config.one_line(text), flush=True)


def _duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
