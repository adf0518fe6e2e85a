"""The words and buttons of a tool call's card, decided before any HTML is written.

The table "When a call may run" (docs/laws.md) becomes buttons here. Offering a button is only a
convenience; the binding check is made where the decision is applied.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal, assert_never

from playground.core.decide import doubled_ids, may_run
from playground.core.doubts import find_doubt
from playground.core.events import Problem
from playground.core.faults import FAULTS, SLOW_S, Fault, earlier_result, fault, staging_obstacle
from playground.core.providers import AGENT_WAITS, HELD_WHOLE_S
from playground.core.session import Call, Session, Turn
from playground.core.tools import Tool, ToolResult
from playground.protocols.answer_edits import why_not_answered
from playground.render.arguments import (
    ArgumentEdit,
    FieldRow,
    LayoutToken,
    apply_fix,
    edits,
    lay_out,
    rows_of,
)
from playground.render.call_status import (
    Fact,
    answered_by_user,
    background_words,
    call_block,
    need,
    status_facts,
    task_of,
    wait_reason,
)
from playground.render.filters import duration, exposed_count, is_padded, plural
from playground.render.view import SHOWN_ARGUMENTS, View
from playground.schema.form import fields
from playground.schema.http_parameters import display_url
from playground.schema.strict_json import place_text
from playground.schema.validate import check_call

Tone = Literal["", "live", "ran", "waiting", "failed"]
Lead = Literal["", "run", "edit", "answer"]

STARS = re.compile(r"\*{8}")
"""The stars of a redacted secret; no secret is shorter (secrets/redaction.py)."""

MOST_EDITED = 100_000
"""The maximum length in characters of a result that can be edited on its card."""

RUN_BY_CLIENT = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call")
"""Items of OpenAI's Responses that a client runs, but that are not function calls."""

STREAMS = ("text/event-stream", "application/x-ndjson")


@dataclass(frozen=True)
class ProblemRow:
    """A problem on its card: `place` precedes the sentence if that does not name it; `fixed` is the
    whole text with its safe fix, or ""."""

    problem: Problem
    place: str
    fixed: str

    @property
    def severe(self) -> bool:
        return self.problem.kind != "note"


@dataclass(frozen=True)
class Offer:
    """The decisions a card offers. `lead` is the primary one; `anyway`: Run asks twice.

    `blocked` says why Run is disabled. `again`: the call ran before a crash, so that no button is
    primary and no key runs it. `lift`: it would run in a sandbox, which the user may remove for
    this call. `held`: an agent gets the call once it is decided, and runs it; `unanswered` says why
    such a call cannot be answered here, or is ""; `costs` is the effect on other calls of removing
    it from the answer.
    """

    primary: Lead
    run: bool
    anyway: bool
    edit: bool
    blocked: bool
    again: bool
    lift: bool = False
    held: bool = False
    unanswered: str = ""
    costs: str = ""


@dataclass(frozen=True)
class ReservedControls:
    """The controls an arriving call will need, as far as is known yet: the page reserves space for
    them. `waits`: for another call, stated in a sentence."""

    offer: Offer
    waits: bool


@dataclass(frozen=True)
class Card:
    """`more` counts the hidden characters of the arguments; `edited` is the shown part of the
    user's replacement, `edited_more` the number of its hidden characters. `fixed` is the text with
    all safe fixes, if there are several, or ""."""

    call: Call
    block: str
    words: str
    tone: Tone
    place: str
    took: str
    who: str
    source: str
    tokens: tuple[LayoutToken, ...]
    more: int
    hidden: int
    padded: bool
    faults: tuple[ProblemRow, ...]
    fixed: str
    edits: tuple[ArgumentEdit, ...]
    edited: str | None
    edited_more: int
    offer: Offer | None
    hint: str
    answers: tuple[FieldRow, ...] = ()
    """The form for a manual answer, if the tool declares its result schema."""
    why: tuple[Fact, ...] = ()
    queued: bool = False
    """It is queued to run and can be withdrawn."""
    reserved: ReservedControls | None = None
    held: HeldNotice | None = None
    result: HeldResult | None = None

    @property
    def seen(self) -> int:
        """How many characters are shown of the text that runs unless it is edited again."""
        own = self.call.judged == self.call.written
        return len(self.call.judged) - (self.more if own else self.edited_more)

    @property
    def editable(self) -> str:
        """The initial text of the edit form: all of the arguments, indented where possible."""
        if self.more or self.call.judged != self.call.written:
            return self.call.arguments
        # The input of a free-form call is shown as text, but edited as what it is: JSON.
        tokens = lay_out(self.call.written) if self.call.freeform else self.tokens
        return "".join(token.text for token in tokens) or "{}"


def card(view: View, turn: Turn, call: Call) -> Card:
    """The card of `call` as `view` shows it."""
    block = call_block(call.id)
    words, tone = _words(view, turn, call)
    edited_texts = (
        decision.arguments for decision in (call.decided, call.cut) if decision is not None
    )
    changed = next((text for text in edited_texts if text is not None), None)
    edited = changed or ""
    limit = max(len(call.written), len(edited)) if block in view.expanded else SHOWN_ARGUMENTS
    more = max(len(call.written) - limit, 0)
    done = call.part.ended
    written = call.written + edited if done else ""
    tokens = _tokens(call, limit, whole=not more) if done else ()
    faults = tuple(
        _problem_row(call, problem) for problem in call.problems if not _has_run_edited(call)
    )
    offer = _offer(view, turn, call, max(more, len(edited) - limit) > 0)
    texts = (call.name, *(token.text for token in tokens if token.kind != "mark"))
    return Card(
        call=call,
        block=block,
        words=words,
        tone=tone,
        place=_place(turn, call),
        took="" if task_of(view.session, call) else _run_time(call),
        who=_decider_words(call),
        source=source(call.tool) if call.tool is not None and not _is_agent_run(view, call) else "",
        tokens=tokens,
        more=more if done else 0,
        hidden=exposed_count(call.name, lines=True) + exposed_count(written),
        padded=any(is_padded(text) for text in texts),
        faults=faults,
        fixed=_all_fixed(call, faults) if offer is not None and offer.edit else "",
        edits=edits(call.written, edited) if changed is not None else (),
        edited=None if changed is None else edited[:limit],
        edited_more=max(len(edited) - limit, 0),
        offer=offer,
        hint=" ".join(filter(None, (_hint(view, turn, call), *_wait_words(view, turn, call)))),
        answers=_answers(call) if offer is not None else (),
        why=status_facts(turn, call),
        queued=view.ours
        and call.status == "decided"
        and bool(wait_reason(view.session, turn, call)),
        reserved=_reserved_controls(view, turn, call),
        held=held_call(view, turn, call),
        result=held_result(view, call),
    )


def _answers(call: Call) -> tuple[FieldRow, ...]:
    schema = call.tool.config.get("output_schema") if call.tool is not None else None
    return () if schema is None else rows_of(fields(schema))[0]


def _tokens(call: Call, limit: int, *, whole: bool) -> tuple[LayoutToken, ...]:
    if call.freeform:  # text, not JSON, to the model that wrote it
        return (LayoutToken("raw", call.raw[:limit]),) if call.raw else ()
    own = whole and call.judged == call.written  # the text shows no problems of an edit
    return lay_out(call.written[:limit], call.problems if own else ())


def source(tool: Tool) -> str:
    """Where a tool's answers come from, in one line: `python · tools.py:add`."""
    config = tool.config
    match tool.answered_by:
        case "python" if config.get("file"):
            name = config.get("function") or tool.name
            python = f" · with {config['interpreter']}" if config.get("interpreter") else ""
            return f"python · {config['file']}:{name}{python}"
        case "python":
            return "python · code of the tool"
        case "http":
            return f"http · {config.get('method', 'GET')} {display_url(config)}"
        case "mcp":
            return f"mcp · {config.get('server', '')}/{config.get('tool', tool.name)}"
        case "person":
            return "the user"
        case "workspace":
            return f"workspace · {config.get('tool', tool.name)} in the session's scratch folder"
        case "mock":
            return "mock"
        case _:
            assert_never(tool.answered_by)


def _is_agent_run(view: View, call: Call) -> bool:
    """Whether its agent answers or answered it, regardless of the settings of its tool."""
    return view.session.tapped is not None or call.at_agent


def _words(view: View, turn: Turn, call: Call) -> tuple[str, Tone]:
    """The state of a call in words, and its colour."""
    if call.at_agent and turn.failure is None and (words := _agents_words(view, turn, call)):
        return words
    match call.status:
        case "streaming":
            return ("arguments streaming", "live") if turn.open else ("cut off", "failed")
        case _ if turn.failure is not None and not call.part.complete:
            return "cut off", "failed"
        case "proposed" | "waiting" | "interrupted" if turn.failure is not None:
            return "not run", ""
        case "proposed" if turn.open:
            return "complete", ""
        case "proposed" if not _is_halted(view, turn):
            return "checking", ""
        case "proposed":
            return "not decided", ""
        case "waiting":
            return (
                (f"needs {need(call, held=turn.holds)}", "waiting")
                if _can_decide(view, call)
                else ("not decided", "")
            )
        case "interrupted":
            return f"needs {need(call)}", "waiting"
        case "decided":
            return "queued", "live"
        case "running":
            return "running", "live"
        case "done":
            return background_words(view.session, call) or _done_words(call)


def _agents_words(view: View, turn: Turn, call: Call) -> tuple[str, Tone] | None:
    """The same for a call that was passed on to an agent; None if the usual words apply."""
    match call.status:
        case "decided" if call.to_run and view.session.is_current(call):
            return waiting_words(turn, call), "live"
        case "decided":
            return "not passed on", ""
        case "running" if call.result_held and view.session.waits:
            return f"needs {need(call)}", "waiting"
        case "running" if call.result_held:
            return "result held", ""
        case "running" if view.session.stopped:
            return "at the agent", ""
        case "running":
            return "running at the agent", "live"
        case "interrupted":
            return "interrupted", ""
        case "done" if call.result is not None and call.real is not None:
            return "ran at the agent · result edited", "failed" if call.result.is_error else "ran"
        case "done" if call.result is not None and not call.result.is_error:
            return "ran at the agent", "ran"
        case "done" if call.result is not None and not call.result.kind:
            return "error at the agent", "failed"
    return None


def _is_halted(view: View, turn: Turn) -> bool:
    """Whether its calls are not processed automatically: the run is over, or was stopped."""
    return view.session.stopped or turn is not view.session.last_item


def _done_words(call: Call) -> tuple[str, Tone]:
    result, decided = call.result, call.decided
    if result is None:
        return "done", "ran"
    if result.kind == "denied":
        return "denied", "failed"
    if decided is not None and decided.fault and decided.decision == "answer":
        return "not run", "failed" if result.is_error else ""
    if decided is not None and decided.decision == "answer":
        return ("answered with an error", "failed") if result.is_error else ("answered", "ran")
    if result.is_error:
        return {"": "error", "timeout": "timed out", "too_large": "result too large"}.get(
            result.kind, result.kind.replace("_", " ")
        ), "failed"
    return "ran", "ran"


def _place(turn: Turn, call: Call) -> str:
    # While the answer streams the total is unknown, and updating it would mean drawing every card
    # again for each new call.
    number = 1 + bisect_left(turn.calls, call.part.index, key=lambda other: other.part.index)
    if turn.open:
        return f"call {number}" if number > 1 else ""
    return f"{number} of {len(turn.calls)}" if len(turn.calls) > 1 else ""


def _run_time(call: Call) -> str:
    if call.started_ms is None or call.ended_ms is None or call.status != "done":
        return ""
    return duration(call.ended_ms - call.started_ms)


def _decider_words(call: Call) -> str:
    decided = call.decided
    if decided is None or (call.at_agent and decided.by == "rule" and not decided.rule_id):
        return ""
    if decided.by == "rule":
        return f"by rule “{decided.rule}”" if decided.rule else "by a rule"
    if decided.arguments is not None:
        return "edited by you"
    if decided.lift:
        return "run without the sandbox by you"
    return "run anyway by you" if decided.anyway else ""


def _problem_row(call: Call, problem: Problem) -> ProblemRow:
    place = problem.pointer
    if problem.kind == "malformed" and problem.offset >= 0:
        place = place_text(call.judged, problem.offset)
        place = "" if problem.message.startswith(place) else place
    return ProblemRow(problem, place, apply_fix(call.judged, problem))


def _all_fixed(call: Call, faults: tuple[ProblemRow, ...]) -> str:
    """The text with all fixes applied, if there are several and none is undone by another."""
    problems = [fault.problem for fault in faults if fault.fixed]
    if len({problem.pointer for problem in problems}) < 2 or call.tool is None:
        return ""
    text = call.judged
    for problem in problems:
        text = apply_fix(text, problem) or text
    left = {problem.pointer for problem in check_call(call.tool, call.name, text)}
    return "" if any(problem.pointer in left for problem in problems) else text


def _has_run_edited(call: Call) -> bool:
    """Whether it ran with edited arguments: the card shows the edit instead of the problems."""
    return call.status == "done" and call.decided is not None and call.decided.arguments is not None


def _can_decide(view: View, call: Call) -> bool:
    session = view.session
    return (
        not session.stopped
        and call.status in ("waiting", "interrupted")
        and session.is_current(call)
    )


def _offer(view: View, turn: Turn, call: Call, hides_some: bool) -> Offer | None:
    held = view.acts and turn.holds
    if not (view.ours or held) or not _can_decide(view, call):
        return None
    sound = may_run(turn, call)
    person = answered_by_user(call) and not held
    again = call.status == "interrupted"
    lead: Lead = "answer" if person else "edit" if call.unsatisfied or not sound else "run"
    return Offer(
        primary="" if again else lead,
        run=sound,
        anyway=sound and call.unsatisfied,
        edit=not person,
        blocked=hides_some,
        again=again,
        lift=sound and not call.unsatisfied and not call.cautioned and _is_sandboxed(call.tool),
        held=held,
        unanswered=why_not_answered(turn) if held else "",
        costs=denial_words(turn, call),
    )


def _reserved_controls(view: View, turn: Turn, call: Call) -> ReservedControls | None:
    held = view.acts and turn.held and turn.passed is None
    if not (view.ours or held) or turn.failure is not None:
        return None
    if call.status not in ("streaming", "proposed"):
        return None
    person = answered_by_user(call) and not held
    offer = Offer(
        primary="answer" if person else "run",
        run=not person,
        anyway=False,
        edit=not person,
        blocked=False,
        again=False,
        lift=not held and _is_sandboxed(call.tool),
        held=held,
        unanswered=why_not_answered(turn) if held else "",
    )
    safe = held or (call.tool is not None and call.tool.parallel_safe)
    return ReservedControls(offer, waits=not safe and call is not turn.calls[0])


def _is_sandboxed(tool: Tool | None) -> bool:
    """Whether its calls run in a sandbox unless the user says otherwise."""
    return (
        tool is not None
        and tool.answered_by == "workspace"
        and tool.config.get("tool") == "run_shell"
    )


def _hint(view: View, turn: Turn, call: Call) -> str:
    """The sentence in place of buttons, or next to them."""
    if _is_agent_run(view, call):
        return _agents_hint(view, turn, call)
    if call.status == "proposed" and turn.open:
        return "You can decide when the answer is complete."
    if turn.failure is not None and call.status != "done":
        return "The answer was cut off, so this call cannot be decided."
    if view.replay or not view.live or call.status not in ("proposed", "waiting", "interrupted"):
        return ""
    if view.session.stopped and turn is view.session.last_item:
        return "The run is stopped. Continue to decide this call."
    if call.status == "proposed":
        return ""
    if call.status == "interrupted":
        return (
            "The call was running when the server stopped and may have had an effect. Run it "
            "again only if that is safe."
        )
    return _cut_hint(turn, call) or _unseen_hint(turn, call)


def _cut_hint(turn: Turn, call: Call) -> str:
    """Why the call cannot run as it came, "" if it can."""
    if turn.end is not None and not turn.runnable:
        return f"The answer ended with {turn.end.reason}. Edit the call, answer it or deny it."
    if not call.part.complete:
        return (
            "This call is incomplete and may differ from what the model wrote. "
            "Edit it, answer it or deny it."
        )
    return ""


def _agents_hint(view: View, turn: Turn, call: Call) -> str:
    if (held := held_call(view, turn, call)) is not None and held.says_more(call):
        return " ".join(filter(None, (_cut_hint(turn, call), held.line)))
    if view.acts and turn.open and turn.held:
        return "You can decide when the answer is complete." if call.status == "proposed" else ""
    if call.status == "interrupted":
        return "The result never arrived here."
    if turn.failure is None or call.status == "done":
        return ""
    if turn.held:
        return "The answer was cut off, so the agent did not get this call."
    return "The answer was cut off, so the agent got only part of this call."


def _wait_words(view: View, turn: Turn, call: Call) -> tuple[str, str]:
    """Why it asks, if a rule is the reason, and what it waits for besides the user."""
    if view.replay or not view.live or view.session.tapped is not None:
        return "", ""
    asks = call.asks if call.status == "waiting" and _can_decide(view, call) else ""
    return asks, wait_reason(view.session, turn, call)


def _unseen_hint(turn: Turn, call: Call) -> str:
    """Why no rule runs a call that a user may run; "" if a matching rule states it."""
    if call.asks:
        return ""
    if turn.end is not None and turn.end.reason == "other":
        word = turn.end.raw_reason[:80]
        return f'The answer ended with "{word}", so rules do not run this call. You can run it.'
    if turn.end is not None and turn.end.abrupt:
        return (
            "The connection broke before the answer ended, so rules do not run this call. You can "
            "run it."
        )
    if call.provider_id in doubled_ids(turn):
        return "Another call of this turn has the same ID, so rules run neither. You can run them."
    if (doubt := find_doubt(turn, call)) is not None:
        return f"{doubt.message} Rules do not run this call. You can run it."
    return ""


# Faults on purpose: which can be staged, and afterwards the real outcome of the call. The staged
# result is made in core/staging.py.


@dataclass(frozen=True)
class FaultChoice:
    """A fault in the menu; `blocked` says why it cannot be chosen now, or is ""."""

    fault: Fault
    blocked: str = ""


@dataclass(frozen=True)
class StagedFault:
    """What was staged. `title` is "" if nothing was staged although it was requested, or a user
    edited the result; `sentence` holds the sentences with the result, `real` what the tool returned
    if the model read something else."""

    title: str
    sentence: str
    real: ToolResult | None = None


def fault_choices(session: Session, call: Call, offer: Offer | None) -> tuple[FaultChoice, ...]:
    """The card's menu, in the order of the table; () if there is no menu."""
    if offer is None or offer.held:
        return ()
    return tuple(FaultChoice(row, _fault_blocked(session, call, row, offer)) for row in FAULTS)


def _fault_blocked(session: Session, call: Call, row: Fault, offer: Offer) -> str:
    if not row.runs:
        return staging_obstacle(session, call, row.name)
    if not offer.run:
        return "This call cannot run unchanged."
    return "Show all arguments first." if offer.blocked else ""


def staged_fault(session: Session, call: Call) -> StagedFault | None:
    """The card's note on a requested fault, once the call has ended."""
    if call.at_agent and call.real is not None and call.result is not None:
        return StagedFault("", "You edited this result; the model reads yours.", call.real)
    row = fault(call.decided.fault) if call.decided is not None else None
    if row is None or call.result is None:
        return None
    if not row.runs:
        return StagedFault(
            row.title, f"The tool was not run. {_fault_effect(session, call, row)}".strip()
        )
    if call.real is None:
        return StagedFault("", f"The tool returned nothing, so {row.title} was not staged.")
    if not call.result.staged:
        sentence = f"The call ended before {row.title} was staged."
        return StagedFault("", sentence, call.real)
    if call.result.content == call.real.content and call.result.is_error == call.real.is_error:
        return StagedFault(
            row.title, _fault_effect(session, call, row) or "The result did not change."
        )
    return StagedFault(row.title, _fault_effect(session, call, row), call.real)


def _fault_effect(session: Session, call: Call, row: Fault) -> str:
    assert call.result is not None
    match row.name:
        case "very_large":
            return f"It costs about {round(len(call.result.text) / 4, -2):,.0f} tokens."
        case "stale":
            old = earlier_result(session, call)
            return f"This is what {call.name[:80]} returned in turn {old[0]}." if old else ""
        case "slow":
            return f"The result was delayed by {SLOW_S:g} s. The model read what the tool returned."
        case "injection":
            return "The instruction at the end is simulated."
        case "cut_json":
            return "The model read only the beginning of the result."
    return ""


# The card of a call held for an agent, or of its result held on its way back: for whom, how long
# that client waits, and the effect of an edit.


@dataclass(frozen=True)
class HeldNotice:
    """`agent` is the client's name at the beginning of a sentence. `line` says what happens to the
    call. `until_ms` (Unix ms) is when the client gives up, `limit` (`30:00`) how long it waits in
    total; None and "" if no end is known. `masked`: its arguments contain stars. `void`: the agent
    has sent another request. `answered` states the effect of a manual answer."""

    agent: str
    line: str
    until_ms: int | None = None
    limit: str = ""
    masked: bool = False
    void: bool = False
    answered: str = ""

    def says_more(self, call: Call) -> bool:
        """Whether `line` is needed in addition to the words for the call's state."""
        return self.void or call.decided is None


def held_call(view: View, turn: Turn, call: Call) -> HeldNotice | None:
    """The notice while no part of `call` has been sent to the agent; None for all others."""
    if view.session.tapped is None or not turn.holds or call.status == "done":
        return None
    agent = view.agent[:1].upper() + view.agent[1:]
    if not view.live or view.replay:
        return HeldNotice(agent, "")
    if not view.session.is_current(call):
        return HeldNotice(
            agent, "The agent sent another request and never got this call.", void=True
        )
    answered = _answer_note(turn)
    if turn.client_gone:
        line = "The agent disconnected. If it retries, it gets this call."
        return HeldNotice(agent, line, masked=_has_stars(call), answered=answered)
    many = len(turn.calls) > 1
    when = f"all {plural(len(turn.calls), 'call')} are decided" if many else "you decide"
    line = f"Held for {view.agent}. It gets this call when {when}."
    if not _is_stream(turn):
        line += (
            f" The request is not streaming, so it times out after {HELD_WHOLE_S:.0f} s. The agent "
            "sees the call again when it retries."
        )
        return HeldNotice(agent, line, masked=_has_stars(call), answered=answered)
    waits_s = _agent_timeout_s(view, turn)
    since_ms = turn.joined_ms or turn.closed_ms
    if waits_s is None or since_ms is None:
        return HeldNotice(agent, line, masked=_has_stars(call), answered=answered)
    until_ms = since_ms + int(waits_s * 1000)
    return HeldNotice(agent, line, until_ms, _clock(waits_s), _has_stars(call), answered=answered)


def _answer_note(turn: Turn) -> str:
    if len(turn.calls) == 1:
        return (
            "Your text goes to the model at once, in a request of the playground. The agent gets "
            "only the model's next answer, not this call or your text."
        )
    return (
        "If every call of this turn is answered or denied for the model to read, the results go "
        "to the model at once. Otherwise they go with the agent's next request. The agent gets "
        "neither this call nor your text."
    )


@dataclass(frozen=True)
class HeldResult:
    """The same for a call's result before the provider reads it. `editable` is the initial text of
    an edit, None if it is too long for a page; `pictures`: there are images, too; `offered`: it can
    be decided now."""

    agent: str
    line: str = ""
    until_ms: int | None = None
    limit: str = ""
    masked: bool = False
    editable: str | None = None
    pictures: bool = False
    offered: bool = False


def held_result(view: View, call: Call) -> HeldResult | None:
    """The notice while the result of `call` has not been sent to the provider."""
    result = call.real
    if not call.result_held or result is None:
        return None
    session, tapped = view.session, view.session.tapped
    agent = view.agent[:1].upper() + view.agent[1:]
    if not view.live or view.replay or tapped is None:
        return HeldResult(agent)
    if session.stopped:
        return HeldResult(
            agent, "The session is stopped. Press “Let it continue” to decide this result."
        )
    line = f"{agent} waits. The provider reads this result when all held results are decided."
    waits_s = AGENT_WAITS[tapped.agent].head_s if tapped.agent in AGENT_WAITS else None
    until_ms, limit = None, ""
    if session.received_gone:
        line = "The agent disconnected. Your decision applies when it retries."
    elif waits_s is not None:
        until_ms, limit = session.received_ms + int(waits_s * 1000), _clock(waits_s)
    return HeldResult(
        agent,
        line,
        until_ms,
        limit,
        masked=STARS.search(result.text) is not None,
        editable=result.text if len(result.text) <= MOST_EDITED else None,
        pictures=any(piece.type == "image" for piece in result.content),
        offered=view.acts,
    )


def unheld_words(turn: Turn) -> str:
    """The parts of an answer that are not held although its calls are; "" if there are none."""
    if not turn.held:
        return ""
    blocks = [part.meta.get("block") for part in turn.parts if part.kind == "server_call"]
    types = [block.get("type") for block in blocks if isinstance(block, dict)]
    names = dict.fromkeys(str(type_) for type_ in types if type_ in RUN_BY_CLIENT)
    if not names:
        return ""
    return f"Not held: {', '.join(names)}. The agent runs them without waiting for you."


def denial_words(turn: Turn, call: Call) -> str:
    """The effect of denying a held call on the calls next to it; "" if none. Gemini signs only the
    first of parallel calls."""
    signed = call.part.meta.get("part")
    if not turn.holds or not isinstance(signed, dict) or "thoughtSignature" not in signed:
        return ""
    others = turn.calls[turn.calls.index(call) + 1 :]
    if not any("thoughtSignature" not in (other.part.meta.get("part") or {}) for other in others):
        return ""
    return (
        "Denying this call removes Gemini's signature for the other calls of the turn. Gemini "
        "may refuse the agent's next request."
    )


def waiting_words(turn: Turn, call: Call) -> str:
    """What a call waits for that an agent will run and has not received yet."""
    others = any(c.status in ("proposed", "waiting") for c in turn.calls if c is not call)
    if others:
        return "decided · waits for the other calls"
    return "decided · waits for the agent" if turn.client_gone else "decided"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _has_stars(call: Call) -> bool:
    return STARS.search(call.judged) is not None


def _agent_timeout_s(view: View, turn: Turn) -> float | None:
    """The agent's timeout in seconds, from the end of the provider's answer. That is a stream, in
    which keep-alives are sent."""
    tapped = view.session.tapped
    waits = AGENT_WAITS.get(tapped.agent) if tapped is not None else None
    return waits.stream_s if waits is not None else None


def _is_stream(turn: Turn) -> bool:
    headers = turn.response.headers if turn.response is not None else {}
    return headers.get("content-type", "").lower().startswith(STREAMS)
