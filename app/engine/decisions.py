"""A person's decision, checked against the table "when a call may run" and the card's digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from app.core.decide import may_run
from app.core.errors import BadInput, Conflict, Refused
from app.core.events import CallDecided, Decision, Problem
from app.core.faults import OTHER_WAY, known, unstageable
from app.core.serialization import to_data
from app.core.session import Call, Session
from app.core.tools import Content
from app.schema.validate import check_call


@dataclass(frozen=True)
class DecisionRequest:
    """What a person (or a script in a person's name) wants. `arguments` is JSON text or None.

    `seen` is how many characters of the model's arguments the page showed; a script has read all.
    `lift` lifts the sandbox of a workspace tool for this call. `images` are part of an answer.
    `fault` is one to stage (faults.py): it says itself whether the tool runs, so `decision` may be
    left out then.
    """

    decision: str
    digest: str = ""
    arguments: str | None = None
    anyway: bool = False
    text: str = ""
    is_error: bool = False
    seen: int | None = None
    lift: bool = False
    images: tuple[Content, ...] = ()
    fault: str = ""


def decision_event(session: Session, call_id: str, asked: DecisionRequest) -> CallDecided:
    """The event that `asked` makes.

    NotFound: no such call. Conflict: too late, or the card is stale; it carries what was decided
    instead. Refused: the table forbids it. BadInput: no decision at all.
    """
    call = session.call(call_id)
    decision = _decision(asked)
    _check_time(session, call)
    if not asked.digest:
        raise BadInput("A decision needs the digest of the card it was made on.")
    if asked.digest != call.digest:
        raise Conflict("This card is out of date; look at the call again.", outcome(call))
    if asked.images and decision != "answer":
        raise BadInput("Only an answer has images; leave them out, or answer by hand.")
    arguments = asked.arguments if decision == "run" else None
    edited = () if arguments is None else check_call(call.tool, call.name, arguments)
    anyway = False
    if decision == "run":
        if arguments is None and asked.seen is not None and asked.seen < len(call.judged):
            raise Refused("Not all of the arguments were shown; press Show all and read them.")
        anyway = _check_run(
            session, call, None if arguments is None else edited, anyway=asked.anyway
        )
    if said := unstageable(session, call, asked.fault):
        raise Refused(said)
    return CallDecided(
        call.id,
        decision,
        digest=asked.digest,
        arguments=arguments,
        text=asked.text,
        is_error=asked.is_error,
        anyway=anyway,
        lift=decision == "run" and asked.lift,
        images=asked.images,
        fault=asked.fault,
        problems=edited,
    )


def outcome(call: Call) -> dict[str, Any]:
    """What a loser is told: what was decided instead."""
    decided = call.decided
    return {
        "call": call.id,
        "status": call.status,
        "digest": call.digest,
        "decision": decided.decision if decided else None,
        "decided_by": decided.by if decided else None,
        "result": to_data(call.result) if call.result else None,
    }


def _decision(asked: DecisionRequest) -> Decision:
    if asked.fault:
        row = known(asked.fault)
        if asked.text or asked.is_error or asked.images:
            said = "is staged with words of its own: leave out text, is_error and images."
            raise BadInput(f"{_capitalized(row.title)} {said}")
        if asked.decision not in ("", row.decision):
            raise Refused(f"{_capitalized(row.title)} {OTHER_WAY[row.runs]}")
        return row.decision
    for word in get_args(Decision):
        if word == asked.decision:
            return word  # type: ignore[no-any-return]
    raise BadInput(f"A decision is run, answer or deny, not {asked.decision!r}.")


def _capitalized(title: str) -> str:
    return title[:1].upper() + title[1:]


def _check_time(session: Session, call: Call) -> None:
    if call.status in ("decided", "running", "done"):
        raise Conflict("This call was decided already.", outcome(call))
    turn = session.turns[call.turn - 1]
    if turn.open:
        raise Refused("The answer is still arriving; this call can be decided when it has ended.")
    if not session.current(call):
        raise Refused(
            "The answer this call belongs to did not come to a good end: retry it, or ask anew."
        )
    if session.stopped:
        raise Refused("The run was stopped; press Continue to decide its calls.")


def _check_run(
    session: Session, call: Call, edited: tuple[Problem, ...] | None, *, anyway: bool
) -> bool:
    """Whether it runs although the schema is not satisfied; Refused where it does not run. `edited`
    is what is wrong with edited arguments, None where it is to run as the card asks."""
    if call.tool is None:
        raise Refused(f"There is no tool {call.name!r} to run; answer by hand or deny.")
    if call.tool.answered_by == "person":
        raise Refused("This tool is answered by a person; answer by hand or deny.")
    if edited is None:
        if not may_run(session.turns[call.turn - 1], call):
            raise Refused(
                "This call cannot run as it came; edit its arguments, answer by hand or deny."
            )
        unsatisfied = call.unsatisfied
    else:
        malformed = next((p for p in edited if p.kind == "malformed"), None)
        if malformed is not None:
            raise Refused(f"The edited arguments cannot run: {malformed.message}")
        unsatisfied = any(p.kind == "schema" for p in edited)
        if unsatisfied and not anyway:
            problem = next(p for p in edited if p.kind == "schema")
            raise Refused(
                f"The edited arguments do not fit the schema: {problem.message} "
                "Correct them, or run them although they do not fit."
            )
    if unsatisfied and not anyway:
        raise Refused("The arguments do not fit the schema; edit them, or run anyway.")
    return unsatisfied
