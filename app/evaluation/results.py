"""What a run of a batch came to, as a value; `expectations.judge` makes its checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from app.core.serialization import from_data, to_data
from app.evaluation.spec import Expectation, RunKey, expectation_data
from app.evaluation.spec_reader import read_expectation

Outcome = Literal["passed", "failed", "provider_error", "unknown", "needs_person", "stopped"]
"""`passed` and `failed` by the checks. The others are no failures of the model: the provider's
trouble after all retries; a run that was cut and whose outcome is unknown; a call
that no rule decides; a batch that was stopped."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class CallMade:
    """A call of the run; `arguments` are the raw text, `valid` that they satisfy the schema."""

    name: str
    arguments: str
    valid: bool = True


@dataclass(frozen=True)
class CheckResult:
    """Whether an expectation holds; `sentence` says of one that does not what came instead."""

    expectation: Expectation
    passed: bool
    sentence: str = ""


@dataclass(frozen=True)
class RunResult:
    """A run that is over. `finish_reason` is the last answer's, in our word (`EndReason`).

    `tokens_in` and `tokens_out` are those of all its requests, None where the provider told of
    none; `seconds` is the time from the prompt to the end, `to_first_call_s` to the first call
    (None: there was none); `cost` in US dollars, None where a price is unknown. `session` is the
    id under which it is kept. `detail` says in a sentence why it neither passed nor failed.
    """

    key: RunKey
    outcome: Outcome
    checks: tuple[CheckResult, ...] = ()
    calls: tuple[CallMade, ...] = ()
    text: str = ""
    finish_reason: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    to_first_call_s: float | None = None
    cost: float | None = None
    session: str | None = None
    detail: str = ""

    @property
    def counts(self) -> bool:
        """Whether it says something of the model."""
        return self.outcome in ("passed", "failed")


def result_data(result: RunResult) -> dict[str, Any]:
    """The result as JSON data, which `result_from_data` reads again."""
    plain = {name: to_data(getattr(result, name)) for name in _PLAIN}
    checks = [
        {
            "expectation": expectation_data(check.expectation),
            "passed": check.passed,
            "sentence": check.sentence,
        }
        for check in result.checks
    ]
    return {"key": result.key._asdict(), **plain, "checks": checks}


def result_from_data(data: dict[str, Any]) -> RunResult:
    """The inverse of `result_data`."""
    checks = tuple(
        CheckResult(
            read_expectation(check["expectation"], "/expectation"),
            check["passed"],
            check["sentence"],
        )
        for check in data["checks"]
    )
    calls = tuple(from_data(CallMade, call) for call in data["calls"])
    plain = {name: data[name] for name in _PLAIN if name in data}
    return RunResult(**{**plain, "key": RunKey(**data["key"]), "checks": checks, "calls": calls})


_PLAIN = (
    *("outcome", "calls", "text", "finish_reason", "tokens_in", "tokens_out"),
    *("seconds", "to_first_call_s", "cost", "session", "detail"),
)
