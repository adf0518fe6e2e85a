"""Whole stories for the properties: every kind of event, every kind of part, every odd call."""

from __future__ import annotations

from playground.core.events import (
    AnswerPassed,
    CallChecked,
    CallDecided,
    CallDoubted,
    CallEnded,
    CallExtended,
    CallInterrupted,
    CallProgressed,
    CallReturned,
    CallStarted,
    ClientGone,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    RequestReceived,
    ResponseEnded,
    ResponseFailed,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionForked,
    SessionStarted,
    SettingsChanged,
    Tapped,
    TaskEnded,
    TaskStarted,
    TurnDropped,
    Usage,
    Warned,
)
from playground.core.settings import Limits
from playground.core.tools import text_result
from tests.factories import DIGEST, WEATHER, Log, settings, turn_with_calls

NASTY = "<script>alert(1)</script>\u202e\u200b\x07\ud800 & \"quoted\" 'so' <hx-partial> {{ 7 * 7 }}"


def waiting() -> list[Logged]:
    log = turn_with_calls(
        ("get_weather", {"city": "Paris"}),
        ("add_event", '{"title": "Walk", "minutes": "30"}'),
        ("ask_me", {"question": NASTY}),
        checked=False,
    )
    problem = Problem("schema", "minutes is a string.", "/minutes", fix="30")
    log.check("1.1").check("1.2", problem).check("1.3")
    log.run("1.1").run("1.2", arguments='{"title": "Walk", "minutes": 30}')
    log.add(CallDecided("1.3", "answer", digest=DIGEST, text=NASTY))
    log.add(CallEnded("1.3", text_result(NASTY)))
    log.request().part(0, "thinking", "hm, ", NASTY).part(1, "text", "It is **", "11** degrees.")
    return log.end("stop").events


def troubled() -> list[Logged]:
    log = Log().start().prompt(NASTY).request().part(0, "text", "Let me", " see")
    log.add(PartStarted(1, "call", NASTY, NASTY), PartDelta(1, '{"city": "Pa'))
    log.add(PartEnded(1, '{"city": "Pa', NASTY, NASTY, complete=False))
    log.add(Warned("odd", NASTY), ResponseFailed("http", NASTY, 529, 2.0, {"message": NASTY}))
    log.add(RetryScheduled(1, 1, 2.0, log.now_ms + 2000, "529"), TurnDropped(1, automatic=True))
    log.request().part(0, "text", "Again").call(1, "get_weather", '{"city": ')
    log.call(2, "no_such_tool", {}).call(3, "get_weather", {"city": "Rome"}).end()
    log.check("2.1", Problem("malformed", "It ends too early.", offset=9))
    log.check("2.2", Problem("unknown_tool", "There is no such tool.")).check("2.3")
    log.add(CallDecided("2.3", "run", digest=DIGEST), CallStarted("2.3", 1))
    log.add(CallProgressed("2.3", "half", 0.5), CallInterrupted("2.3"), RunPaused("restart"))
    log.add(TaskStarted("t1", "2.3", NASTY), TaskEnded("t1", NASTY), TaskStarted("t2", "2.3"))
    log.add(RunResumed(), CallDecided("2.3", "deny", text="no"), RunStopped())
    return log.prompt("Something else").add(SettingsChanged(settings(WEATHER))).events


def interleaved() -> list[Logged]:
    log = Log().start().prompt().request()
    log.add(PartStarted(0, "text"), PartStarted(1, "call", "get_weather", "a"))
    log.add(
        PartDelta(0, "I "), PartDelta(1, '{"ci'), PartDelta(0, "look"), PartDelta(1, 'ty": "x"')
    )
    log.add(PartStarted(2, "call", "add_event", "b"), PartDelta(2, '{"title"'), PartDelta(1, "}"))
    log.add(CallDoubted(1, Problem("schema", NASTY, "/ci", 6)))
    log.add(PartEnded(0, "I look"), PartDelta(2, ': "é中"}'))
    log.add(PartEnded(2, '{"title": "é中"}', "add_event", "b"))
    log.add(PartEnded(1, '{"city": "x"}', "get_weather", "a"))
    log.part(3, "server_call", '{"q": 1}', name="web_search").part(4, "server_result", "[]")
    log.part(5, "refusal", "No.").part(6, "other", "", name="new_block")
    log.add(ResponseEnded("length", "max_tokens", Usage(1, 2), 0.1))
    return log.check("1.1").check("1.2").add(RunPaused("max_calls")).events


def side_by_side() -> list[Logged]:
    """Calls that wait for each other, for rules, for a limit and for a user."""
    paris = [("get_weather", {"city": f"Paris {n}"}) for n in range(3)]
    log = turn_with_calls(*paris, ("add_event", {"title": NASTY}), *paris, checked=False)
    for n in range(1, 8):
        asks = f"The rule “{NASTY}” asks." if n == 4 else ""
        log.add(CallChecked(f"1.{n}", parallel_safe=n != 4, digest=DIGEST, asks=asks))
    for n in (7, 5, 2, 3, 1):
        log.add(CallDecided(f"1.{n}", "run", "rule", NASTY, rule_id="r1", digest=DIGEST))
    log.add(CallChecked("1.6", parallel_safe=False, digest=DIGEST), RunPaused("max_calls", NASTY))
    log.add(SettingsChanged(settings(limits=Limits(max_calls_per_turn=2, max_parallel=1))))
    log.add(RunResumed(), CallStarted("1.1", 1), CallStarted("1.2", 1), CallExtended("1.2", 30.0))
    log.add(SettingsChanged(settings(limits=Limits(max_parallel=3))))
    log.add(CallProgressed("1.2", "half", 0.5, NASTY), CallProgressed("1.2", "more", output="x"))
    log.add(CallEnded("1.2", text_result(NASTY), real=text_result("12")), CallInterrupted("1.1"))
    log.add(RunPaused("restart"), RunResumed(), CallDecided("1.1", "run", digest=DIGEST))
    log.add(CallStarted("1.1", 2), CallEnded("1.1", text_result("11")), RunStopped(NASTY, "1.4"))
    log.add(RunResumed(), CallDecided("1.4", "deny", digest=DIGEST, text=NASTY))
    log.add(CallEnded("1.4", text_result(NASTY, is_error=True, kind="denied")))
    log.add(CallReturned("1.7", "rule", NASTY), CallDecided("1.7", "run", digest=DIGEST))
    log.add(CallReturned("1.7", "person", NASTY))
    log.add(CallStarted("1.3", 1), CallEnded("1.3", text_result("x")), CallStarted("1.5", 1))
    log.add(CallDecided("1.6", "run", digest=DIGEST, fault="timeout"), RunStopped())
    return log.events


def forked() -> list[Logged]:
    """A session that goes on from another one, with a call that is open again."""
    log = turn_with_calls(("get_weather", {"city": "Oslo"}), checked=False).check("1.1").run("1.1")
    log.add(SessionForked(NASTY, len(log.events), ("1.1",)))
    log.check("1.1").add(CallDecided("1.1", "answer", digest=DIGEST, text="Hail."))
    return log.add(CallEnded("1.1", text_result("Hail."))).events


def tapped() -> list[Logged]:
    """A session that somebody else's agent runs: the request came, its answer was passed on."""
    log = Log().add(SessionStarted(settings(), Tapped("tap", NASTY, NASTY)))
    log.add(RequestReceived(NASTY, {NASTY: NASTY}), Warned("history_left_out", NASTY)).prompt(NASTY)
    log.request().part(0, "text", "Hm").call(1, "get_weather", {"city": "Oslo"})
    log.call(2, NASTY, "{}").end()
    for call in ("1.1", "1.2"):
        log.check(call).add(CallDecided(call, "run", "rule", NASTY, DIGEST, where="agent"))
        log.add(CallStarted(call, 1))
    log.add(AnswerPassed(1, 120, "e" * 64), RunStopped(), RunResumed(), RequestReceived(NASTY))
    log.add(CallEnded("1.1", text_result(NASTY)), CallInterrupted("1.2"))
    log.add(Warned("history_changed", NASTY)).request().call(0, "add_event", {"title": "x"}).end()
    log.check("2.0").add(CallDecided("2.0", "run", "rule", NASTY, DIGEST, where="agent"))
    return log.add(CallStarted("2.0", 1), ClientGone(2), RunStopped()).events


def held_log() -> list[Logged]:
    """Calls that are decided before their agent gets them, which leaves and asks another thing."""
    log = Log().add(SessionStarted(settings(), Tapped("tap", "claude")))
    asked = RequestReceived("/v1/messages", stop_at="calls", held=True)
    log.add(asked).prompt(NASTY).request().part(0, "text", "Hm")
    log.call(1, "get_weather", {"city": "********"}).call(2, "get_weather", {"city": "Rome"})
    log.call(3, NASTY, "{}").end()
    for call in ("1.1", "1.2", "1.3"):
        log.check(call)
    log.add(
        CallDecided("1.1", "run", digest=DIGEST, arguments='{"city": "Oslo"}', where="agent"),
        CallDecided("1.3", "deny", digest=DIGEST, text=NASTY, where="agent"),
        CallEnded("1.3", text_result(NASTY, is_error=True, kind="denied")),
        ClientGone(1),
        CallDecided("1.2", "run", digest=DIGEST, where="agent"),
    )
    log.add(asked).prompt("Another thing.").request().call(0, "get_weather", {"city": "x"}).end()
    log.check("2.0").add(CallDecided("2.0", "run", digest=DIGEST, where="agent"))
    return log.add(CallStarted("2.0", 1), AnswerPassed(2, 120, "e" * 64)).events


def returned() -> list[Logged]:
    """Results that wait before their provider reads them: one passes, one is edited, another one
    comes in place of it, and one is void."""
    log = Log().add(SessionStarted(settings(), Tapped("tap", "claude")))
    asked = RequestReceived("/v1/messages", stop_at="results")
    log.add(asked).prompt(NASTY).request().part(0, "text", "Hm")
    log.call(1, "get_weather", {"city": "Oslo"}).call(2, NASTY, "{}").call(
        3, "get_weather", {"city": "Rome"}
    ).end()
    for call in ("1.1", "1.2", "1.3"):
        log.check(call).add(CallDecided(call, "run", "rule", NASTY, DIGEST, where="agent"))
        log.add(CallStarted(call, 1))
    log.add(AnswerPassed(1, 120, "e" * 64), asked)
    log.add(CallProgressed("1.1", "", real=text_result(NASTY), key="a"))
    log.add(CallProgressed("1.2", "", real=text_result("********", is_error=True), key="b"))
    log.add(ClientGone(2), CallEnded("1.1", text_result(NASTY)), asked, RunStopped(), RunResumed())
    log.add(CallProgressed("1.2", "", real=text_result("Another."), key="b"))
    log.add(CallProgressed("1.3", "", real=text_result("Rain."), key="c"))
    log.add(CallEnded("1.2", text_result(NASTY, is_error=True), real=text_result("Another.")))
    log.add(ClientGone(2), CallInterrupted("1.3"), asked).prompt("Another thing.").request()
    return log.call(0, "get_weather", {"city": "x"}).end().events


STORIES = {
    "waiting": waiting(),
    "troubled": troubled(),
    "interleaved": interleaved(),
    "side by side": side_by_side(),
    "forked": forked(),
    "tapped": tapped(),
    "held": held_log(),
    "returned": returned(),
}
