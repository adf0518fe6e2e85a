"""Rules from a card: "Always…" shows the rule, then writes it; and the rule about a call now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput, Conflict
from app.core.rule_proposals import Proposal, proposal
from app.core.rules import Rule, content, first_match, rule_text
from app.core.session import Call
from app.engine.decisions import outcome
from app.engine.rules import ALWAYS, MOST_WORDS
from app.engine.sessions import LiveSession
from app.render.fragments import toast
from app.web.forms import Body, answer, as_json, body_of, wants
from app.web.rules.view import (
    About,
    RuleChoice,
    about,
    drawn_about,
    drawn_panel,
    print_of,
    rule_data,
    rule_panel,
)
from app.web.site import Site, site_of


async def show(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/always?decision=run|deny&exact=true|false&scope=session|always:
    the rule that would be written, or why none is offered. Writes nothing."""
    site, session_id = site_of(request), request.path_params["id"]
    choice = _choice(request.query_params)
    await _know(site, session_id, request.path_params["call"])
    async with site.engine.sessions.holding(session_id) as live:
        call = live.session.call(request.path_params["call"])
        offered, there = _offered(site, live, call, choice)
        shown = rule_panel(live.session, call, choice, offered, there)
    if wants(request) == "json":
        return as_json(_proposal_data(choice, offered, there, call))
    return HTMLResponse(drawn_panel(site.env, shown, whole=wants(request) == "page"))


async def write(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/always: writes the rule, which decides what it is about.

    `digest` is the card's, `print` that of the rule as it was shown: another one is a 409 and
    nothing is written. `text` is the reason of a denial.
    """
    body, site = await body_of(request), site_of(request)
    session_id, call_id = request.path_params["id"], request.path_params["call"]
    choice, reason = _choice(body.data), _reason(body)
    await _know(site, session_id, call_id)
    async with site.engine.sessions.holding(session_id) as live:
        live.check_open()
        call = live.session.call(call_id)
        _check_card(call, body.text("digest"))
        seen = {list_id: site.engine.rules.listed(list_id) for list_id in (session_id, ALWAYS)}
        offered, there = _offered(site, live, call, choice)
        if offered.rule is None:
            raise BadInput(f"No such rule is written. {offered.why_not}")
        if body.text("print", print_of(choice, offered, there)) != print_of(choice, offered, there):
            raise Conflict("The rules or the calls have changed meanwhile; look at the rule again.")
        rule = _bound(replace(offered.rule, text=reason), call)
        into = _list(choice, session_id)
        # Inside the hold, and only by the lists as they were looked at: who writes a rule at the
        # same moment does not hold the session.
        rule = await site.engine.rules.add(into, rule, (), offered.place, seen)
    await site.engine.runner.advance(session_id)
    undo = f"/{'' if into == ALWAYS else f'sessions/{quote(session_id)}/'}rules/{rule.id}/delete"
    if wants(request) == "htmx":
        said = f"From now on: {rule_text(rule)}."
        return HTMLResponse(toast(site.env, said, "", undo))
    decided = list(offered.decides)
    data = {"rule": _data(rule), "said": rule_text(rule), "decides": decided, "undo": undo}
    return answer(request, data, status=201, location=f"/sessions/{quote(session_id)}")


async def rule(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/rule: the rule that is about the call now, or that decided it,
    as it stands."""
    site, session_id = site_of(request), request.path_params["id"]
    rules = site.engine.rules
    async with site.engine.sessions.holding(session_id) as live:
        call = live.session.call(request.path_params["call"])
        own, always = rules.listed(session_id), rules.listed(ALWAYS)
        found = about(live.session, call, own, always)
    if wants(request) == "json":
        return as_json(_about(found))
    whole = wants(request) == "page"
    return HTMLResponse(drawn_about(site.env, session_id, call, found, whole=whole))


async def renew(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/rule/renew?rule=RULE&base=BASE&digest=DIGEST: binds the rule to
    the tool as the card shows it, too. 409 where one of them is another by now."""
    site, session_id = site_of(request), request.path_params["id"]
    call_id, asked = request.path_params["call"], request.query_params
    rules, checks = site.engine.rules, site.engine.runner.checks
    async with site.engine.sessions.holding(session_id) as live:
        live.check_open()
        call = live.session.call(call_id)
        _check_card(call, asked.get("digest", ""))
    checked = await checks.check(session_id, call)
    async with site.engine.sessions.holding(session_id) as live:
        live.check_open()
        call = live.session.call(call_id)
        _check_card(call, asked.get("digest", ""))
        await checks.refuse_changed(live, call_id, checked)
        rule = first_match(rules.of(session_id), call)
        if call.tool is None or rule is None or rule.id != asked.get("rule"):
            raise Conflict("Another rule is about this call by now; look at it again.")
        into = session_id if rule in rules.listed(session_id) else ALWAYS
        seen = content(call.tool, call.code)
        kept = await rules.renew_for(
            into, rule.id, asked.get("base", ""), call.name, seen, session_id
        )
    await site.engine.runner.advance(session_id)
    if wants(request) == "htmx":
        return HTMLResponse(toast(site.env, f"Renewed for {call.name}: {rule_text(kept)}.", ""))
    data = {"rule": _data(kept), "said": rule_text(kept)}
    return answer(request, data, location=f"/sessions/{quote(session_id)}")


def _about(found: About) -> dict[str, Any]:
    tests = [{"test": test, "value": value} for test, value in found.tests]
    return {"said": found.words, "tests": tests, "why": found.why, "renew": found.renew}


def _choice(data: Mapping[str, Any]) -> RuleChoice:
    """BadInput where a field says none of what there is."""
    exact = data.get("exact", False)
    chosen = (data.get("decision", "run"), data.get("scope", "session"))
    match chosen:
        case (("run" | "deny") as action, ("session" | "always") as scope):
            if exact in (True, False, "true", "false"):
                return RuleChoice(action, exact in (True, "true"), scope)
            raise BadInput("exact must be true (these arguments) or false (this tool).")
        case (("run" | "deny"), _):
            raise BadInput("scope must be session or always.")
    raise BadInput("decision must be run or deny.")


def _reason(body: Body) -> str:
    text = body.text("text").strip()
    if len(text) > MOST_WORDS:
        raise BadInput(f"A reason has at most {MOST_WORDS} characters.")
    return text


async def _know(site: Site, session_id: str, call_id: str) -> None:
    """Read what a person denied of this tool in any session: no proposal lets it through."""
    async with site.engine.sessions.holding(session_id) as live:
        name = live.session.call(call_id).name
    await site.engine.policy.know(name)


def _list(choice: RuleChoice, session_id: str) -> str:
    return session_id if choice.scope == "session" else ALWAYS


def _offered(
    site: Site, live: LiveSession, call: Call, choice: RuleChoice
) -> tuple[Proposal, Sequence[Rule]]:
    """The proposal, and the rules of the list that it would be written into."""
    rules = site.engine.rules
    there = rules.listed(_list(choice, live.id))
    return (
        proposal(
            live.session,
            call,
            rules.of(live.id),
            choice.action,
            choice.exact,
            there,
            site.engine.policy.denials,
            always=choice.scope == "always",
        ),
        there,
    )


def _check_card(call: Call, digest: str) -> None:
    if not digest:
        raise BadInput("A rule from a card needs the digest of that card.")
    if digest != call.digest:
        raise Conflict("This card is out of date; look at the call again.", outcome(call))


def _bound(rule: Rule, call: Call) -> Rule:
    """Bound to the tool that the card showed, not to what it may be by now."""
    if rule.action != "run":
        return rule
    assert call.tool is not None  # no rule that runs is proposed for a tool there is not
    return replace(rule, bound={call.name: content(call.tool, call.code)})


def _data(rule: Rule) -> dict[str, Any]:
    return rule_data(rule, {rule.tool: "same"} if rule.action == "run" else None)


def _proposal_data(
    choice: RuleChoice, offered: Proposal, there: Sequence[Rule], call: Call
) -> dict[str, Any]:
    rule = offered.rule
    return {
        "rule": _data(rule) if rule is not None else None,
        "said": rule_text(rule) if rule is not None else "",
        "place": offered.place,
        "decides": list(offered.decides),
        "why_not": offered.why_not,
        "digest": call.digest,
        "print": print_of(choice, offered, there) if rule is not None else "",
    }
