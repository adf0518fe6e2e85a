"""What a card says of a call that is held for an agent, or of its result that is held on its way
back: for whom, how long that one waits, and what comes of an edit. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.core.agents import AGENT_WAITS, HELD_WHOLE_S
from app.core.session import Call, Turn
from app.render.filters import plural
from app.render.view import View

STARS = re.compile(r"\*{8}")
"""What is left of a secret, of which none is shorter (secrets/redaction.py)."""


@dataclass(frozen=True)
class HeldNotice:
    """`agent` is what the client is called at the beginning of a sentence. `line` says what happens
    to the call. `until_ms` (Unix ms) is when the client gives up, `limit` (`30:00`) how long it
    waits in all; None and "" where no end is known. `masked`: stars stand in its arguments. `void`:
    the agent has asked something else. `answered` says what comes of an answer by hand."""

    agent: str
    line: str
    until_ms: int | None = None
    limit: str = ""
    masked: bool = False
    void: bool = False
    answered: str = ""

    def says_more(self, call: Call) -> bool:
        """Whether `line` is needed beside the words of the call's state."""
        return self.void or call.decided is None


def held_call(view: View, turn: Turn, call: Call) -> HeldNotice | None:
    """What the card says while the agent has nothing of `call`; None for all others."""
    if view.session.tapped is None or not turn.holds or call.status == "done":
        return None
    agent = view.agent[:1].upper() + view.agent[1:]
    if not view.live or view.replay:
        return HeldNotice(agent, "")
    if not view.session.current(call):
        return HeldNotice(
            agent, "The agent went on with another request and never got this call.", void=True
        )
    answered = _answered(turn)
    if turn.client_gone:
        line = "The agent has left; it will meet this when it asks again."
        return HeldNotice(agent, line, masked=_masked(call), answered=answered)
    many = len(turn.calls) > 1
    when = f"all {plural(len(turn.calls), 'call')} are decided" if many else "you decide"
    line = f"Held for {view.agent}: it gets this call when {when}."
    if not _is_stream(turn):
        line += (
            f" Its answer is no stream, so it is cut off after {HELD_WHOLE_S:.0f} s; it meets this "
            "when it asks again."
        )
        return HeldNotice(agent, line, masked=_masked(call), answered=answered)
    waits_s = _waits_s(view, turn)
    since_ms = turn.joined_ms or turn.closed_ms
    if waits_s is None or since_ms is None:
        return HeldNotice(agent, line, masked=_masked(call), answered=answered)
    until_ms = since_ms + int(waits_s * 1000)
    return HeldNotice(agent, line, until_ms, _clock(waits_s), _masked(call), answered=answered)


def _answered(turn: Turn) -> str:
    if len(turn.calls) == 1:
        return (
            "What the model reads goes to it in a request that is made here at once. The agent "
            "gets what the model says then, and neither the call nor this."
        )
    return (
        "What the model reads goes to it at once, in a request that is made here, where each call "
        "of this answer is answered or denied so; else with the agent's next request. The agent "
        "gets neither the call nor this."
    )


@dataclass(frozen=True)
class HeldResult:
    """The same of what a call came to, before the provider reads it. `editable` is the text that an
    edit begins with, None where it is too long for a page; `pictures`: there are images, too;
    `offered`: it can be decided now."""

    agent: str
    line: str = ""
    until_ms: int | None = None
    limit: str = ""
    masked: bool = False
    editable: str | None = None
    pictures: bool = False
    offered: bool = False


MOST_EDITED = 100_000
"""Characters of a result that is edited on its card."""


def held_result(view: View, call: Call) -> HeldResult | None:
    """What the card says while the provider has nothing of the result of `call`."""
    result = call.real
    if not call.result_held or result is None:
        return None
    session, tapped = view.session, view.session.tapped
    agent = view.agent[:1].upper() + view.agent[1:]
    if not view.live or view.replay or tapped is None:
        return HeldResult(agent)
    if session.stopped:
        return HeldResult(agent, "The session is stopped. Let it go on to decide this result.")
    line = f"{agent} waits. The provider reads this once all results that wait here are decided."
    waits_s = AGENT_WAITS[tapped.agent].head_s if tapped.agent in AGENT_WAITS else None
    until_ms, limit = None, ""
    if session.received_gone:
        line = "The agent has left; it will meet this when it asks again."
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


RUN_BY_CLIENT = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call")
"""Items of OpenAI's Responses that a client runs, and that are no calls of a function."""


def unheld_words(turn: Turn) -> str:
    """What of an answer whose calls are held passes unheld; "" for nothing."""
    if turn.received is None or not turn.received.held:
        return ""
    blocks = [part.meta.get("block") for part in turn.parts if part.kind == "server_call"]
    types = [block.get("type") for block in blocks if isinstance(block, dict)]
    names = dict.fromkeys(str(type_) for type_ in types if type_ in RUN_BY_CLIENT)
    if not names:
        return ""
    return f"Not held: {', '.join(names)}. The agent runs that without waiting for you."


def denial_words(turn: Turn, call: Call) -> str:
    """What a denial of a held call costs the calls beside it; "" for nothing. Gemini signs the
    first of parallel calls alone."""
    signed = call.part.meta.get("part")
    if not turn.holds or not isinstance(signed, dict) or "thoughtSignature" not in signed:
        return ""
    others = turn.calls[turn.calls.index(call) + 1 :]
    if not any("thoughtSignature" not in (other.part.meta.get("part") or {}) for other in others):
        return ""
    return (
        "Taken out of the answer, it takes along Gemini's signature for the calls beside it: "
        "Gemini may refuse the agent's next request."
    )


def waiting_words(turn: Turn, call: Call) -> str:
    """Of a call that the agent will run and has not got yet: what it waits for."""
    others = any(c.status in ("proposed", "waiting") for c in turn.calls if c is not call)
    if others:
        return "decided · waits for the other calls"
    return "decided · waits for the agent" if turn.client_gone else "decided"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _masked(call: Call) -> bool:
    return STARS.search(call.judged) is not None


def _waits_s(view: View, turn: Turn) -> float | None:
    """Seconds that the agent waits from the end of the provider's answer, which is a stream: there
    it is told that it goes on."""
    tapped = view.session.tapped
    waits = AGENT_WAITS.get(tapped.agent) if tapped is not None else None
    return waits.stream_s if waits is not None else None


def _is_stream(turn: Turn) -> bool:
    headers = turn.response.headers if turn.response is not None else {}
    return headers.get("content-type", "").lower().startswith(STREAMS)


STREAMS = ("text/event-stream", "application/x-ndjson")
