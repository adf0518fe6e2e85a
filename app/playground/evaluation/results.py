"""The result of a run of a batch as a value, and its checks: one for each expectation, with a
sentence if it does not hold.

Any session can be checked, including an agent's or an old one: only its log is used. The calls are
those of all complete answers, as the model wrote them, edited by a user or not.

Numbers in arguments are compared by their exact value, whatever their notation: 1 equals 1.0, and
12345678901234567890 equals no other number. `true` is not 1, and "1" is not 1.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, Literal, get_args

from playground.core.arguments import ABSENT, is_json_equal, pointer_step, values_of
from playground.core.run_limits import turn_busy_ms, turn_cost, turn_usage
from playground.core.serialization import from_data, to_data
from playground.core.session import Call, Session, Turn
from playground.evaluation.spec import ArgumentMatch, Expectation, RunKey, expectation_data
from playground.evaluation.spec_reader import read_expectation
from playground.schema.describe import cut
from playground.schema.strict_json import read_arguments
from playground.schema.validate import check_call, schema_problems

Outcome = Literal["passed", "failed", "provider_error", "unknown", "needs_person", "stopped"]
"""`passed` and `failed` are decided by the checks. The others are not failures of the model: a
provider error after all retries; an interrupted run with an unknown outcome; a call that no rule
decides; a batch that was stopped."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_PLAIN = (
    *("outcome", "calls", "text", "finish_reason", "tokens_in", "tokens_out"),
    *("seconds", "to_first_call_s", "cost", "session", "detail"),
)

_MOST_NAMES = 12

_LONGEST = 300
"""Characters of a text that a sentence quotes."""

_MOST_SHOWN = 200

_UNSEEN = re.compile(r"[ ,./\-_*^]")
"""The characters that `loose` ignores in a text, as in BFCL."""


@dataclass(frozen=True)
class CallMade:
    """A call of the run; `arguments` are the raw text, `valid`: they match the schema."""

    name: str
    arguments: str
    valid: bool = True


@dataclass(frozen=True)
class CheckResult:
    """Whether an expectation holds; if not, `sentence` says what happened instead."""

    expectation: Expectation
    passed: bool
    sentence: str = ""


@dataclass(frozen=True)
class RunResult:
    """A finished run. `finish_reason` is the last answer's, in our vocabulary (`EndReason`).

    `tokens_in` and `tokens_out` are those of all its requests, None if the provider reported none;
    `seconds` is the time from the prompt to the end, `to_first_call_s` to the first call (None:
    there was none); `cost` in US dollars, None if a price is unknown. `session` is the id under
    which it is stored. `detail` says in a sentence why it neither passed nor failed.
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
        """Whether it says anything about the model."""
        return self.outcome in ("passed", "failed")


def result_data(result: RunResult) -> dict[str, Any]:
    """The result as JSON data, the input of `result_from_data`."""
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


# Checking expectations ----------------------------------------------------------------------------


def judge(session: Session, expectations: Sequence[Expectation]) -> tuple[CheckResult, ...]:
    """A check for each of `expectations`, in their order."""
    facts = RunFacts(session)
    claims = _claims(facts, expectations)
    checks = []
    for place, expectation in enumerate(expectations):
        if expectation.arguments is not None:
            sentence = claims[place]
        else:
            sentence = _JUDGES[expectation.kind](facts, expectation)
        checks.append(CheckResult(expectation, not sentence, sentence))
    return tuple(checks)


def score_run(
    session: Session, key: RunKey, expectations: Sequence[Expectation], session_id: str | None
) -> RunResult:
    """The result of the finished run `key` with its `session`. A run that reached a limit is
    checked by what it did until then."""
    facts = RunFacts(session)
    detail, outcome = _no_verdict(session)
    checks = judge(session, expectations)
    if not detail:
        outcome = "passed" if all(check.passed for check in checks) else "failed"
    prompts = [item.at_ms for item in session.items if not isinstance(item, Turn)]
    begins = [call.part.started_ms for call in facts.calls]
    return RunResult(
        key,
        outcome=outcome,
        checks=checks,
        calls=tuple(_call_made(call) for call in facts.calls),
        text=session.answer,
        finish_reason=facts.finish[0],
        tokens_in=facts.tokens[0],
        tokens_out=facts.tokens[1],
        seconds=facts.seconds,
        to_first_call_s=(begins[0] - prompts[0]) / 1000 if begins and prompts else None,
        cost=facts.cost,
        session=session_id,
        detail=detail,
    )


def _no_verdict(session: Session) -> tuple[str, Outcome]:
    """Why the run neither passed nor failed, as a sentence with its outcome; "" if it is to be
    checked."""
    turn = session.turn
    failure = turn.failure if turn is not None else None
    if waiting := session.waiting:
        return f"{waiting[0].name} waits: no rule decides this call.", "needs_person"
    if session.paused in ("restart", "store") or session.cut_off or session.state == "running":
        return "The run was interrupted.", "unknown"
    if session.stopped or (failure is not None and failure.failure == "stopped"):
        return "The run was stopped.", "stopped"
    if failure is not None:
        return failure.message, "provider_error"
    if turn is None:
        return "No request was sent.", "unknown"
    return "", "failed"


def _call_made(call: Call) -> CallMade:
    problems = call.problems or check_call(call.tool, call.name, call.written)
    return CallMade(call.name, call.written, all(problem.kind == "note" for problem in problems))


class RunFacts:
    """The checked facts of a session. Times in seconds, costs in US dollars; None means unknown."""

    def __init__(self, session: Session) -> None:
        self.session = session
        ended = [turn for turn in session.turns if turn.end is not None and not turn.dropped]
        self.calls = [call for turn in ended for call in turn.calls]
        self.names = [call.name for call in self.calls]
        last = ended[-1].end if ended else None
        self.finish = (last.reason, last.raw_reason) if last is not None else ("", "")

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Input and output of all requests, including retries."""
        counted = [turn_usage(turn) for turn in self.session.turns]
        known = [tokens for tokens in counted if tokens is not None]
        if len(known) < len(counted):
            return None, None
        return sum(read for read, _ in known), sum(wrote for _, wrote in known)

    @property
    def seconds(self) -> float:
        """The working time of models and tools."""
        return sum(map(turn_busy_ms, self.session.turns)) / 1000

    @property
    def cost(self) -> float | None:
        costs = [turn_cost(turn) for turn in self.session.turns]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def called_instead(self) -> str:
        """The calls that were made, for the end of a sentence."""
        if not self.names:
            text = cut(" ".join(self.session.answer.split()), _LONGEST)
            return f"no tool was called; the answer is “{text}”" if text else "no tool was called"
        runs = [(name, len(list(group))) for name, group in groupby(self.names)]
        words = [name if count == 1 else f"{name} {count} times" for name, count in runs]
        more = f" and {len(words) - _MOST_NAMES} more" if len(words) > _MOST_NAMES else ""
        if len(self.names) == 1:
            return f"the only call was {words[0]}"
        return f"the calls were {', then '.join(words[:_MOST_NAMES])}{more}"


# One expectation ----------------------------------------------------------------------------------


def _check_called(facts: RunFacts, expectation: Expectation) -> str:
    name = expectation.value
    return "" if name in facts.names else f"{name} was not called: {facts.called_instead()}."


def _check_never(facts: RunFacts, expectation: Expectation) -> str:
    calls = [call for call in facts.calls if call.name == expectation.value]
    if not calls:
        return ""
    often = "" if len(calls) == 1 else f" {len(calls)} times, first"
    arguments = cut(calls[0].written, _LONGEST)
    return f"{expectation.value} should not be called, but was called{often} with {arguments}."


def _check_first(facts: RunFacts, expectation: Expectation) -> str:
    if facts.names[:1] == [expectation.value]:
        return ""
    return f"The first call should be {expectation.value}; {facts.called_instead()}."


def _order(facts: RunFacts, expectation: Expectation) -> str:
    rest = iter(facts.names)
    missing = next((name for name in expectation.value if name not in rest), None)
    if missing is None:
        return ""
    wanted = ", then ".join(expectation.value)
    return f"The order should be {wanted}; {facts.called_instead()}."


def _count(facts: RunFacts, expectation: Expectation) -> str:
    of = expectation.of
    count = Counter(facts.names)[of] if of else len(facts.names)
    if count == expectation.value:
        return ""
    calls = "call" if expectation.value == 1 else "calls"
    calls += f" of {of}" if of else ""
    return f"There should be {expectation.value} {calls}, not {count}: {facts.called_instead()}."


def _no_call(facts: RunFacts, expectation: Expectation) -> str:
    if bool(facts.names) is not expectation.value:
        return ""
    wanted = "No tool" if expectation.value else "A tool"
    return f"{wanted} should be called; {facts.called_instead()}."


def _text_contains(facts: RunFacts, expectation: Expectation) -> str:
    text, wanted = facts.session.answer, expectation.value
    held = wanted.lower() in text.lower() if expectation.ignore_case else wanted in text
    answer = f"is “{cut(' '.join(text.split()), _LONGEST)}”" if text else "is empty"
    return "" if held else f"The answer does not contain {value_text(wanted)}: it {answer}."


def _finish_reason(facts: RunFacts, expectation: Expectation) -> str:
    reason, raw = facts.finish
    if expectation.value in facts.finish:
        return ""
    came = f"by {reason}" + (f" ({raw})" if raw not in ("", reason) else "")
    return f"The last answer ended {came if reason else 'in an error'}, not by {expectation.value}."


def _max_tokens(facts: RunFacts, expectation: Expectation) -> str:
    read, wrote = facts.tokens
    if read is None or wrote is None:
        return "The number of tokens is unknown: the provider does not report it."
    used, most = read + wrote, expectation.value
    return "" if used <= most else f"The run used {used:,} tokens; at most {most:,} are allowed."


def _max_seconds(facts: RunFacts, expectation: Expectation) -> str:
    took, most = facts.seconds, expectation.value
    return "" if took <= most else f"The run took {took:.3g} s; at most {most:g} s are allowed."


def _max_cost(facts: RunFacts, expectation: Expectation) -> str:
    cost, most = facts.cost, expectation.value
    if cost is None:
        return "The cost is unknown: no price is known for this model."
    return "" if cost <= most else f"The run cost ${cost:.4g}; at most ${most:g} is allowed."


_JUDGES: Mapping[str, Callable[[RunFacts, Expectation], str]] = {
    "called": _check_called,
    "never": _check_never,
    "first": _check_first,
    "order": _order,
    "count": _count,
    "no_call": _no_call,
    "text_contains": _text_contains,
    "finish_reason": _finish_reason,
    "max_tokens": _max_tokens,
    "max_seconds": _max_seconds,
    "max_cost": _max_cost,
}


# Calls with arguments: each expectation is assigned a call of its own -----------------------------


def _claims(facts: RunFacts, expectations: Sequence[Expectation]) -> dict[int, str]:
    """By index the sentence of each expectation of arguments, "" if it has a call."""
    claims: dict[int, str] = {}
    demands = [place for place, each in enumerate(expectations) if each.arguments is not None]
    for name in {expectations[place].value for place in demands}:
        same = [place for place in demands if expectations[place].value == name]
        calls = [call for call in facts.calls if call.name == name]
        wrong = {
            (place, number): differences(match, call.written)
            for place in same
            if (match := expectations[place].arguments) is not None
            for number, call in enumerate(calls)
        }
        fitting = {place: [n for n in range(len(calls)) if not wrong[place, n]] for place in same}
        matched = _matched_expectations(fitting)
        for place in same:
            if place in matched:
                claims[place] = ""
            elif not calls:
                claims[place] = _check_called(facts, expectations[place])
            elif fitting[place]:
                claims[place] = (
                    f"The matching call of {name} is already used by another expectation."
                )
            else:
                each = [wrong[place, number] for number in range(len(calls))]
                claims[place] = _mismatch_sentence(name, calls, each)
    return claims


def _mismatch_sentence(name: str, calls: Sequence[Call], wrong: Sequence[Sequence[str]]) -> str:
    """A sentence that none of `calls` matches, with what is `wrong` with the closest one."""
    call, closest = min(zip(calls, wrong, strict=True), key=lambda pair: len(pair[1]))
    which = (
        f"{name} was"
        if len(calls) == 1
        else f"None of {len(calls)} calls of {name} matches; one was"
    )
    more = f"; and {len(closest) - 3} more" if len(closest) > 3 else ""
    return f"{which} called with {cut(call.written, _LONGEST)}: {'; '.join(closest[:3])}{more}."


def _matched_expectations(fitting: Mapping[int, Sequence[int]]) -> set[int]:
    """The expectations that have a call in a maximum matching."""
    holder: dict[int, int] = {}

    def assign(place: int, tried: set[int]) -> bool:
        for call in fitting[place]:
            if call not in tried:
                tried.add(call)
                if call not in holder or assign(holder[call], tried):
                    holder[call] = place
                    return True
        return False

    for place in fitting:
        assign(place, set())
    return set(holder.values())


# The differences in the arguments of a call -------------------------------------------------------


def differences(match: ArgumentMatch, raw: str) -> list[str]:
    """How the arguments `raw` (JSON text) differ, each as half a sentence; [] if they match."""
    arguments = read_arguments(raw)
    if arguments.value is None:
        return [f"they are not a valid JSON object ({arguments.problems[0].message})"]
    if match.kind == "schema":
        problems = schema_problems(match.value, arguments.value)
        return [problem.message.rstrip(".") for problem in problems]
    value = values_of(raw) if raw.strip() not in ("", "null") else {}
    comparison = _Comparison(match.loose)
    match match.kind, match.value:
        case "any_of", list(options):
            each = [list(comparison.compare(option, value)) for option in options]
            return min(each, key=len)
        case "any_of", options:
            return list(comparison.option_differences(options, match.optional, value))
    return list(comparison.compare(match.value, value, subset=match.kind == "subset"))


class _Comparison:
    """`loose` as in ArgumentMatch. Numbers in the compared values are Decimals."""

    def __init__(self, loose: bool) -> None:
        self._loose = loose

    def compare(
        self, wanted: Any, value: Any, place: str = "", *, subset: bool = False
    ) -> Iterator[str]:
        """Where `value` differs from `wanted`; with `subset` objects may have more members."""
        match wanted, value:
            case dict(), dict():
                for name in wanted:
                    here = f"{place}/{pointer_step(name)}"
                    if name in value:
                        yield from self.compare(wanted[name], value[name], here, subset=subset)
                    else:
                        yield f"{here} is missing, and should be {value_text(wanted[name])}"
                for name in value if not subset else ():  # in its order, for equal sentences
                    if name in wanted:
                        continue
                    here = f"{place}/{pointer_step(name)}"
                    yield f"{here} is {value_text(value[name])}, and should not be there"
            case list(), list() if len(wanted) == len(value):
                for number, (item, other) in enumerate(zip(wanted, value, strict=True)):
                    yield from self.compare(item, other, f"{place}/{number}", subset=subset)
            case _ if not self._same(wanted, value):
                yield (
                    f"{place or 'the whole value'} is {value_text(value)}, and should be "
                    f"{value_text(wanted)}"
                )

    def option_differences(
        self, options: Mapping[str, Sequence[Any]], optional: Sequence[str], value: dict[str, Any]
    ) -> Iterator[str]:
        """Where a parameter has none of its allowed values, is missing, or is unknown."""
        for name, several in options.items():
            here, present = f"/{pointer_step(name)}", value.get(name, ABSENT)
            words = ", ".join(map(value_text, several))
            if present is ABSENT and name not in optional:
                yield f"{here} is missing, and should be {_one_of(words, len(several))}"
            elif present is not ABSENT and not any(
                self._fits(option, present) for option in several
            ):
                should = _one_of(words, len(several))
                yield f"{here} is {value_text(present)}, and should be {should}"
        for name in value.keys() - options.keys():
            yield f"/{pointer_step(name)} is {value_text(value[name])}, and should not be there"

    def _fits(self, option: Any, value: Any) -> bool:
        return next(self.compare(option, value), None) is None

    def _same(self, wanted: Any, value: Any) -> bool:
        if self._loose and isinstance(wanted, str) and isinstance(value, str):
            return _loosen(wanted) == _loosen(value)
        return is_json_equal(wanted, value)


def _loosen(text: str) -> str:
    return _UNSEEN.sub("", text).lower().replace("'", '"')


def _one_of(words: str, count: int) -> str:
    return words if count == 1 else f"one of {cut(words, _MOST_SHOWN)}"


def value_text(value: Any) -> str:
    """A value as JSON for a sentence, cut if long; Decimals with all their digits."""
    return cut(_json(value), _MOST_SHOWN)


def _json(value: Any) -> str:
    match value:
        case Decimal():
            return str(value)
        case Mapping():
            members = (f"{json.dumps(n, ensure_ascii=False)}: {_json(value[n])}" for n in value)
            return f"{{{', '.join(members)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_json, value))}]"
    return json.dumps(value, ensure_ascii=False)
