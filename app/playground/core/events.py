"""The events of a session, in the past tense. They are the only source of truth: everything shown
is folded from them; `serialization` converts them to JSON and back. Fields are only added, with a
default, so that old logs can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from playground.core.settings import Settings
from playground.core.tools import Content, ToolChoice, ToolResult

PartKind = Literal[
    "text",
    "thinking",
    "refusal",
    "call",  # answered here
    "server_call",  # executed by the provider: shown, never run
    "server_result",
    "other",  # a block unknown to this version: kept verbatim in meta
]
EndReason = Literal["stop", "calls", "length", "refusal", "pause", "other"]
FailKind = Literal[
    "unreachable",  # no connection: name, port, TLS
    "timeout",  # connected, but no (more) bytes in time
    "http",  # a status of 400 or above
    "error",  # an error inside an answer
    "not_api",  # not an answer of this protocol (HTML, empty, ...)
    "redirect",  # a 3xx, which is never followed
    "too_large",  # a size limit was reached
    "no_key",  # nothing was sent: the profile's key is missing
    "bad_request",  # nothing was sent: the request could not be built
    "interrupted",  # the bytes stopped without an end, or this program was restarted
    "stopped",  # the user pressed Stop
]


@dataclass(frozen=True)
class Usage:
    """Token counts last reported by the provider; None is unknown, which is not 0.

    `input_tokens` and `output_tokens` are the provider's own fields of about that name. Of the
    input, `cached_tokens` were read from its prompt cache and `cache_write_tokens` written to it;
    `reasoning_tokens` were used for thinking.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True)
class Problem:
    """A problem with a call's arguments.

    kind `malformed` (no valid JSON object), `schema`, `unknown_tool`, `caution` (a user may run it,
    no rule may: the tool is not what was accepted), or `note` (informative only). `pointer` is the
    JSON pointer of the problem; `offset` the character in the raw text, or -1. `fix` is a safe
    replacement for the value at `pointer`, as JSON text, or "".
    """

    kind: Literal["malformed", "schema", "unknown_tool", "caution", "note"]
    message: str
    pointer: str = ""
    offset: int = -1
    fix: str = ""


@dataclass(frozen=True)
class Tapped:
    """The origin of a session run by an agent, whose requests this program only relays: the id of
    its tap, the agent's name, the agent's own id of the conversation (`thread`, "" for none), and
    the session of the agent that started it, "" for none."""

    tap: str
    agent: str = ""
    thread: str = ""
    parent: str = ""


@dataclass(frozen=True)
class SessionStarted:
    settings: Settings
    tapped: Tapped | None = None


@dataclass(frozen=True)
class SettingsChanged:
    settings: Settings


@dataclass(frozen=True)
class PromptAdded:
    """A message to the model: by the user, or by `system` within a conversation.

    `form` is the wire form in an imported request, {} if no information is lost without it: the
    `protocol`; the `role` in that protocol; `pieces` in order, of which {"chars": n} is the next n
    characters of `text` (pieces are separated by two line ends), {"image": true} the next image,
    each with its further members (`own`), and {"other": ...} an unknown piece verbatim; `own`, the
    further members of the message. It is sent back only in that protocol.
    """

    text: str
    images: tuple[Content, ...] = ()
    role: Literal["user", "system"] = "user"
    form: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RequestSent:
    """Begins a turn. `headers` and `body` are as sent, secrets masked; `choice` is the one in
    force.

    `recording` numbers the recordings of this session from 1; it identifies the response bytes.
    `continues` is the number of an answer of which all calls were answered here in place of an
    agent: this request continues it, and the agent gets both as one answer; else 0.

    A request without `body` was never sent from here: an agent's or an imported history has its
    answer.
    """

    recording: int
    protocol: str
    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    model: str = ""
    choice: ToolChoice = field(default_factory=ToolChoice)
    continues: int = 0

    @property
    def is_history(self) -> bool:
        """Whether it is from a history, and was never sent from here."""
        return not self.body


StopAt = Literal["nothing", "unruled", "calls", "results", "errors"]
"""What a tap holds for the user: only what a rule holds back; calls that no rule runs; every call;
every result; results that are errors."""


@dataclass(frozen=True)
class RequestReceived:
    """An agent sent a request through a tap. Its new content follows as prompts and results, then
    RequestSent. `ids` are the headers that identify its conversation; `matched` is how the session
    was found; `digest` is the keyed SHA-256 of the received body, `size` its bytes, `messages` its
    number of messages. `stop_at` applies to its answer, whose calls, if `held`, wait for decisions
    before the agent gets any of them. A request that `joins` repeats the request of that number,
    whose answer the agent never got: it waits for the same answer, and no RequestSent follows. If
    its results wait for decisions, RequestSent follows the decisions; a request repeated in between
    is received again."""

    path: str
    ids: Mapping[str, str] = field(default_factory=dict)
    matched: Literal["new", "header", "call", "message"] = "new"
    digest: str = ""
    size: int = 0
    messages: int = 0
    stop_at: StopAt = "nothing"
    held: bool = False
    joins: int = 0


@dataclass(frozen=True)
class AnswerPassed:
    """The agent got the complete answer to its request `recording`: `size` bytes with that SHA-256
    (hex digits), `changed` or as received. `says` is the fingerprint of a changed one, which
    identifies the agent's copy of it."""

    recording: int
    size: int = 0
    sha256: str = ""
    changed: bool = False
    says: str = ""


@dataclass(frozen=True)
class ClientGone:
    """The agent disconnected before it had the complete answer to its request `recording`, or
    before that was sent because its results wait here."""

    recording: int


@dataclass(frozen=True)
class ResponseStarted:
    status: int
    headers: Mapping[str, str]
    request_id: str = ""


@dataclass(frozen=True)
class PartStarted:
    """`index` is unique within the turn and counts from 0 by first appearance."""

    index: int
    part_kind: PartKind
    name: str = ""
    provider_id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartDelta:
    index: int
    text: str


@dataclass(frozen=True)
class CallDoubted:
    """The arguments of the open part `index` can no longer satisfy the tool's schema, whatever
    follows: `problem` is the first certain one; `problem.offset` is where the offending token
    begins: a value, a key, or the closing bracket."""

    index: int
    problem: Problem


@dataclass(frozen=True)
class PartEnded:
    """`text` is the whole text (a call's raw arguments); `name` and `provider_id` are final. `meta`
    is opaque provider data that goes back verbatim. `complete` is False if the bytes ended before
    the part did."""

    index: int
    text: str
    name: str = ""
    provider_id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True)
class ResponseEnded:
    """`abrupt`: after the finish reason the connection broke or fell silent without a proper end;
    no rule runs a call of such an answer."""

    reason: EndReason
    raw_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    abrupt: bool = False


@dataclass(frozen=True)
class ResponseFailed:
    """`message` is a sentence; `error` the provider's own error object or text, or None.

    `retry_after` is in seconds, as the provider asked; `rate_limits` are its headers of that kind.
    """

    failure: FailKind
    message: str
    status: int | None = None
    retry_after: float | None = None
    error: Any = None
    raw_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    request_id: str = ""
    rate_limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RetryScheduled:
    """The failed turn `turn` will be requested again at `until_ms` (Unix ms), as retry `attempt`.

    `wait_s` is the length of the wait in seconds; `reason` is short ("429").
    """

    turn: int
    attempt: int
    wait_s: float
    until_ms: int
    reason: str = ""


@dataclass(frozen=True)
class Warned:
    """Information that changes nothing. `code` is stable, `message` a sentence."""

    code: str
    message: str
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CallChecked:
    """`code` is the SHA-256 (hex digits) of the file that would execute the call, "" without one.

    A call is checked again if that file changed while it waited. `asks` says why a matching rule
    does not decide it, "" if none matches or the matching one decides.
    """

    call_id: str
    problems: tuple[Problem, ...] = ()
    parallel_safe: bool = False
    digest: str = ""
    code: str = ""
    asks: str = ""


Decision = Literal["run", "answer", "deny"]


@dataclass(frozen=True)
class CallDecided:
    """`by` is `person` or `rule`; `arguments` the edited raw text, None if not edited, `problems`
    its problems. `text` is the answer or the reason of a denial, `images` are part of an answer.
    `anyway`: runs despite a schema problem that was shown; `lift`: the sandbox is lifted for this
    call. `rule` is the rule in words, `rule_id` its id, `fault` the name of the staged fault.
    `where`: whether the call runs here or at the agent that it was passed to. For an agent's call
    that is answered or denied: `here`, the model reads that in a request made or changed here;
    `agent`, the call is removed from the answer and the agent reads the reason."""

    call_id: str
    decision: Decision
    by: Literal["person", "rule"] = "person"
    rule: str = ""
    digest: str = ""
    arguments: str | None = None
    text: str = ""
    is_error: bool = False
    anyway: bool = False
    lift: bool = False
    rule_id: str = ""
    fault: str = ""
    images: tuple[Content, ...] = ()
    problems: tuple[Problem, ...] = ()
    where: Literal["here", "agent"] = "here"


@dataclass(frozen=True)
class CallStarted:
    call_id: str
    attempt: int


@dataclass(frozen=True)
class CallReturned:
    """The decision to run a call that has not begun is revoked: by a `person`, and only a user can
    decide it then, or by a `rule` that would no longer decide it. `why` is a sentence."""

    call_id: str
    by: Literal["person", "rule"] = "person"
    why: str = ""


@dataclass(frozen=True)
class CallProgressed:
    """`fraction` is 0..1; `output` is new output; `waits`: it waits for a free slot; `real`: the
    result held back. For a call at an agent that is the result that the agent sent: it waits for
    the user, and `key` identifies it in later requests (protocols/body_edits)."""

    call_id: str
    text: str
    fraction: float | None = None
    output: str = ""
    waits: bool = False
    real: ToolResult | None = None
    key: str = ""


@dataclass(frozen=True)
class CallExtended:
    """A user gave the running call `by_s` more seconds."""

    call_id: str
    by_s: float


@dataclass(frozen=True)
class CallEnded:
    """`result` is what the model reads. `real` is what the tool returned if a fault was staged
    (None if it was not run), or if a user edited the result of an agent's tool."""

    call_id: str
    result: ToolResult
    real: ToolResult | None = None


@dataclass(frozen=True)
class CallInterrupted:
    call_id: str


@dataclass(frozen=True)
class TaskStarted:
    """Call `call_id` left task `task_id` running in the background; `title` says what it runs."""

    task_id: str
    call_id: str
    title: str = ""


STOPPED_BY_USER = "stopped by you"
STOPPED_BY_MODEL = "stopped by the model"
STOPPED_WITH_RUN = "stopped with the run"
ENDED_WITH_PROGRAM = "ended with the program"
TASK_STOPS = frozenset(
    {STOPPED_BY_USER, STOPPED_BY_MODEL, STOPPED_WITH_RUN, ENDED_WITH_PROGRAM, "stopped"}
)
"""Values of `TaskEnded.how` for a stopped task: stored, so they never change. The last one occurs
only in older logs."""


@dataclass(frozen=True)
class TaskEnded:
    """`how` is one of `TASK_STOPS`, or a short sentence: its exit code, or the failure. `result` is
    that of a call moved to the background: the model reads it with the next request."""

    task_id: str
    how: str
    result: ToolResult | None = None


@dataclass(frozen=True)
class RunPaused:
    """`limit` names the limit that was reached (limits.py), or is `restart` or `store`; `message`
    is a sentence on it."""

    limit: str
    message: str = ""


@dataclass(frozen=True)
class RunResumed:
    pass


@dataclass(frozen=True)
class RunStopped:
    """Stopped by a user, or by the rule `rule` (in words) at the call `call_id`."""

    rule: str = ""
    call_id: str = ""


@dataclass(frozen=True)
class TurnDropped:
    """Turn `turn` (counted from 1) no longer belongs to the history; it stays visible.

    `automatic`: by a scheduled retry, not by a user.
    """

    turn: int
    automatic: bool = False


@dataclass(frozen=True)
class SessionForked:
    """The events before this one are a copy of the first `parent_seq` events of session `parent`;
    those after it are this session's own. Earlier decisions on calls without a result do not count:
    a user must decide these, and the calls `reopened`; if there are none, a stopped run stays
    stopped. `foreign`: the parent was imported."""

    parent: str
    parent_seq: int
    reopened: tuple[str, ...] = ()
    foreign: bool = False


Event = (
    SessionStarted | SettingsChanged | PromptAdded | RequestSent | ResponseStarted
    | PartStarted | PartDelta | CallDoubted | PartEnded | ResponseEnded | ResponseFailed
    | RetryScheduled | Warned | CallChecked | CallDecided | CallReturned | CallStarted
    | CallProgressed | CallExtended | CallEnded | CallInterrupted | TaskStarted | TaskEnded
    | RunPaused | RunResumed | RunStopped | TurnDropped | SessionForked
    | RequestReceived | AnswerPassed | ClientGone
)  # fmt: skip

WireEvent = PartStarted | PartDelta | PartEnded | ResponseEnded | ResponseFailed | Warned
"""The events that a codec may yield."""

Durability = Literal[
    "soon",  # shown at once, and saved a moment later, before the next event of another kind
    "saved",  # committed before anybody sees it or acts on it
    "synced",  # the same, and synced to the disk: what follows cannot be undone
    "owed",  # takes effect even if it cannot be saved; then it is saved before any other event
]


def durability(event: Event) -> Durability:
    """How durable an event is when it is appended."""
    match event:
        case PartDelta():
            return "soon"
        case RunStopped():
            return "owed"
        case CallDecided() | CallReturned() | CallStarted() | CallEnded() | CallInterrupted():
            return "synced"
        case (
            AnswerPassed() | CallChecked() | CallDoubted() | CallExtended() | CallProgressed()
            | ClientGone() | PartEnded() | PartStarted() | PromptAdded() | RequestReceived()
            | RequestSent() | ResponseEnded() | ResponseFailed() | ResponseStarted()
            | RetryScheduled() | RunPaused() | RunResumed() | SessionForked() | SessionStarted()
            | SettingsChanged() | TaskEnded() | TaskStarted() | TurnDropped() | Warned()
        ):  # fmt: skip
            return "saved"
        case _:
            assert_never(event)


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes `start`..`end` (half open) of recording `recording`."""

    recording: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Logged:
    """An event with its number in the session's log; `at_ms` is Unix time in ms."""

    seq: int
    at_ms: int
    event: Event
    source: Source | None = None
