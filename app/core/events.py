"""The facts of a session, in the past tense. Nothing else is true: everything shown is folded
from these; `serialization` turns them into JSON and back. Fields are only ever added, with a
default, so that old logs can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from app.core.late import dataclass
from app.core.settings import Settings
from app.core.tools import Content, ToolChoice, ToolResult

PartKind = Literal[
    "text",
    "thinking",
    "refusal",
    "call",  # ours to answer
    "server_call",  # executed by the provider: shown, never run
    "server_result",
    "other",  # a block this version has no word for: kept verbatim in meta
]
EndReason = Literal["stop", "calls", "length", "refusal", "pause", "other"]
FailKind = Literal[
    "unreachable",  # no connection: name, port, TLS
    "timeout",  # connected, but nothing (more) came in time
    "http",  # a status of 400 or above
    "error",  # an error inside an answer
    "not_api",  # an answer that is not of this protocol (HTML, empty, ...)
    "redirect",  # a 3xx, which is never followed
    "too_large",  # a cap was reached
    "no_key",  # nothing was sent: the profile's key is missing
    "bad_request",  # nothing was sent: the request could not be made
    "interrupted",  # the bytes stopped without an end, or this program was restarted
    "stopped",  # the user pressed Stop
]


@dataclass(frozen=True)
class Usage:
    """Tokens as the provider counted them last; None is unknown, which is not 0.

    `input_tokens` and `output_tokens` are the provider's own fields of about that name. Of all
    that was read, `cached_tokens` came from its prompt cache and `cache_write_tokens` went there;
    `reasoning_tokens` were thought.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a call's arguments.

    kind `malformed` (no sound JSON object), `schema`, `unknown_tool`, `caution` (a user may run
    it, no rule may: the tool is not what was accepted), or `note` (worth saying, no obstacle).
    `pointer` is the JSON pointer of the place; `offset` the character in the raw text,
    or -1. `fix` is a safe replacement for the value at `pointer`, as JSON text, or "".
    """

    kind: Literal["malformed", "schema", "unknown_tool", "caution", "note"]
    message: str
    pointer: str = ""
    offset: int = -1
    fix: str = ""


@dataclass(frozen=True)
class Tapped:
    """Whose session it is where an agent of somebody else runs it, and this program only passes its
    requests on: the id of its tap, the agent's name, what the agent itself calls the conversation
    (`thread`, "" for no name), and the session of the agent that started it, "" for none."""

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
    """What is said to the model: by the user, or by the `system` in the course of a conversation.

    `form` is how an imported request wrote it, {} where nothing is lost without: the
    `protocol`; the `role` in that protocol's own word; `pieces` in order, of which {"chars": n} is
    the next n characters of `text` (two line ends stand between), {"image": true} the next image,
    each with what stood beside it (`own`), and {"other": ...} what has no word of ours, as it came;
    `own`, what stood beside the whole. All of it goes back to that protocol alone.
    """

    text: str
    images: tuple[Content, ...] = ()
    role: Literal["user", "system"] = "user"
    form: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RequestSent:
    """A turn begins. `headers` and `body` are as sent, secrets masked; `choice` as it was in force.

    `recording` numbers the recordings of this session from 1 and joins the bytes that came back.
    `continues`: all calls of the answer of that number were answered here in place of an agent, so
    it goes on from that answer, and the agent gets both as one; 0 for all other requests.
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


StopAt = Literal["nothing", "unruled", "calls", "results", "errors"]
"""What of an agent waits for the user: nothing but what a rule keeps back; calls that no rule runs;
every call; every result; results that are errors."""


@dataclass(frozen=True)
class RequestReceived:
    """An agent asks through a tap; what its request says beyond what is known follows as prompts
    and results, then RequestSent. `ids` are the headers by which it names its conversation;
    `matched` is how the session was found; `digest` is the keyed SHA-256 of the body as it came,
    `size` its bytes, `messages` how many messages it has. `stop_at` holds for its answer, whose
    calls, where they are `held`, wait for decisions here before the agent gets any of them. One
    that `joins` repeats the request of that number, whose answer the agent never got: it waits for
    the same answer, and no new request follows. Where results of its wait for decisions here,
    RequestSent follows those; an agent that asks again meanwhile is received again."""

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
    """The agent got the answer to its request `recording`: all of it, in `size` bytes of that
    SHA-256 (hex digits), `changed` or as it came. `says` is the fingerprint of a changed one, by
    which the agent's copy of it is known."""

    recording: int
    size: int = 0
    sha256: str = ""
    changed: bool = False
    says: str = ""


@dataclass(frozen=True)
class ClientGone:
    """The agent left before it had the whole answer to its request `recording`, or before that was
    sent: its results wait here."""

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
    comes: `problem` is the first that is certain, `problem.offset` where the token that made it so
    begins: a value, a key, or the bracket that closes."""

    index: int
    problem: Problem


@dataclass(frozen=True)
class PartEnded:
    """`text` is the whole text (a call's raw arguments); `name` and `provider_id` are final.
    `meta` is opaque provider data that goes back verbatim. `complete` is False where the bytes
    ended before the part did."""

    index: int
    text: str
    name: str = ""
    provider_id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True)
class ResponseEnded:
    """`abrupt`: the finish reason came, and then the connection broke or fell silent instead of
    telling its end; no rule runs a call of such an answer."""

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
    """Turn `turn`, which failed, is asked for again at `until_ms` (Unix ms), as retry `attempt`.

    `wait_s` is how long that was from here, in seconds; `reason` is short ("429").
    """

    turn: int
    attempt: int
    wait_s: float
    until_ms: int
    reason: str = ""


@dataclass(frozen=True)
class Warned:
    """Something worth knowing that changed nothing. `code` is stable, `message` a sentence."""

    code: str
    message: str
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CallChecked:
    """`code` stands for the file that would answer (its SHA-256 as hex digits), "" without one.

    A call is checked again where that file changed while it waited. `asks` says why a rule that
    fits does not decide it, "" where none fits or the one that does decides.
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
    """`by` is `person` or `rule`; `arguments` the edited raw text, None where nobody edited it,
    `problems` what is wrong with that. `text` is the answer or the reason of a denial, `images` are
    part of an answer. `anyway`: a schema problem was seen; `lift`: the sandbox is lifted for this
    call. `rule` is the rule in words, `rule_id` its id, `fault` the name of what is staged.
    `where`: a call that is run runs here, or at the agent that it was passed to. Of an agent's call
    that is answered or denied: the model reads that `here`, for the request that says it is made or
    changed here; or the answer goes without the call, and the `agent` reads why."""

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
    """The decision to run a call that has not begun is taken back: by a `person`, who alone decides
    it then, or by a `rule` that would not decide it as it is now. `why` is a sentence."""

    call_id: str
    by: Literal["person", "rule"] = "person"
    why: str = ""


@dataclass(frozen=True)
class CallProgressed:
    """`fraction` is 0..1; `output` new; `waits`: it has no place yet; `real`: what is held back. Of
    a call at an agent that is the result that the agent sent: it waits for the user, and `key` is
    what it is known by in later requests (protocols/body_edits)."""

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
    """`result` is what the model reads. Where a fault was staged, `real` is what the tool returned,
    None where it was not run; where a user edited what an agent's tool returned, `real` is that."""

    call_id: str
    result: ToolResult
    real: ToolResult | None = None


@dataclass(frozen=True)
class CallInterrupted:
    call_id: str


@dataclass(frozen=True)
class TaskStarted:
    """Call `call_id` left task `task_id` running in the background; `title` is what it runs."""

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
"""What `TaskEnded.how` says of a task that was stopped: stored values, which never change. The
last one stands in older logs."""


@dataclass(frozen=True)
class TaskEnded:
    """`how` is one of `TASK_STOPS`, or a short sentence: its exit code, or what broke. `result` is
    what a call that went on in the background came to: the model reads it with the next request."""

    task_id: str
    how: str
    result: ToolResult | None = None


@dataclass(frozen=True)
class RunPaused:
    """`limit` names what was reached (limits.py), or is `restart` or `store`; `message` says it in
    a sentence."""

    limit: str
    message: str = ""


@dataclass(frozen=True)
class RunResumed:
    pass


@dataclass(frozen=True)
class RunStopped:
    """By a user, or by the rule `rule` (in words) when it met the call `call_id`."""

    rule: str = ""
    call_id: str = ""


@dataclass(frozen=True)
class TurnDropped:
    """Turn `turn` (counted from 1) no longer belongs to the history; it stays to be read.

    `automatic`: by a retry that was scheduled, and not by a user.
    """

    turn: int
    automatic: bool = False


@dataclass(frozen=True)
class SessionForked:
    """What stands before is a copy of the first `parent_seq` events of session `parent`; what
    comes after is this session's own. No call without a result was decided here: those ask a
    user, as do the calls `reopened`; with none of these a stopped run stays so. `foreign`: the
    parent came from somebody else."""

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
"""What a codec may yield."""


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes `start`..`end` (half open) of recording `recording`."""

    recording: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Logged:
    """An event with its place in the session's log; `at_ms` is Unix time in ms."""

    seq: int
    at_ms: int
    event: Event
    source: Source | None = None
