"""The Rules page: rules for all sessions and those of one session, and changes by the user.

One set of functions for both: a path without a session means the rules for all sessions. Also the
rules of a card: the one that "Always…" would write, and the one that applies to a call now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.errors import BadInput, Conflict, NotFound, PlaygroundError
from playground.core.rule_proposals import proposal
from playground.core.rules import LETS_THROUGH, Rule, base_of, content_hash, first_match, rule_text
from playground.core.session import Call
from playground.core.tools import Tool
from playground.engine.decisions import check_digest
from playground.engine.engine import Engine
from playground.engine.redaction import check_rule
from playground.engine.rules import ALWAYS, MOST_WORDS, RuleStore, parse_rule
from playground.engine.sessions import LiveSession
from playground.render.environment import partial, toast
from playground.web.forms import Body, answer, answer_format, as_json, body_of
from playground.web.rules_view import (
    AGENTS_OWN,
    TEMPLATES,
    RuleChoice,
    RuleExplanation,
    RuleForm,
    RuleList,
    RulePanel,
    RulePreview,
    RulesPage,
    TestLine,
    explain_rule,
    explanation_html,
    form_data,
    fresh_form,
    panel_html,
    places,
    preview_rule,
    proposed_data,
    rule_data,
    rule_form,
    rule_panel,
    rule_preview_html,
    rule_rows,
    rules_page,
    rules_panel,
)
from playground.web.site import Site, site_of


async def rules(request: Request) -> Response:
    """GET /rules, GET /sessions/ID/rules?edit=&template=: lists the rules in order. `edit` opens
    the form for a rule, `template` fills it."""
    site, session_id = site_of(request), _list(request)
    if answer_format(request) == "json":
        listed = site.engine.rules.rule_list(session_id)
        held = await site.engine.rules.binding_states(
            listed, await tools_for(site.engine, session_id)
        )
        return as_json([rule_data(rule, state) for rule, state in zip(listed, held, strict=True)])
    form, asked = RuleForm(), request.query_params
    if asked.get("edit"):
        try:
            form = rule_form(site.engine.rules.rule(session_id, asked["edit"]))
        except NotFound as error:
            return await _answer_gone(request, error)
    elif asked.get("template") in TEMPLATES:
        form = rule_form(TEMPLATES[asked["template"]][-1])
    preview = await _form_preview(request, form) if form != RuleForm() else RulePreview()
    return await _page(
        request, form, preview, deleted=asked.get("deleted", ""), moved="moved" in asked
    )


async def add(request: Request) -> Response:
    """POST /rules, POST /sessions/ID/rules: adds a rule at `place` (from 0) or at the end.

    ---
    responses:
      201: {description: The rule.}
    """
    engine, session_id, body = site_of(request).engine, _list(request), await body_of(request)
    await _check_open(request)
    tools = await tools_for(engine, session_id)
    if body.is_json:
        data = {name: value for name, value in body.data.items() if name != "place"}
        place = _place(body) if "place" in body.data else None
        added = await engine.rules.add(session_id, _read(request, data), tools, place)
    else:
        form = _read_form(body)
        try:
            rule = _read(request, form_data(form))
            place = _place(body, "before") if "before" in body.data else None
            place = 0 if form.first else place
            added = await engine.rules.add(session_id, rule, tools, place)
        except PlaygroundError as error:
            return await _answer_refused(request, form, error)
    return await _confirm_change(request, body, added, status=201, fresh=True)


async def edit(request: Request) -> Response:
    """POST .../rules/RULE: replaces a rule, bound to the current tools. `base` is the version that
    the form was drawn from: 409 if it has changed since."""
    engine, session_id, body = site_of(request).engine, _list(request), await body_of(request)
    await _check_open(request)
    rule_id, tools = request.path_params["rule"], await tools_for(engine, session_id)
    if body.is_json:
        rule = _read(request, {name: it for name, it in body.data.items() if name != "base"})
        on, base = body.data.get("enabled"), body.text("base")
        edited = await engine.rules.edit(session_id, rule_id, rule, tools, base=base, enabled=on)
    else:
        form = replace(_read_form(body), id=rule_id)
        try:
            rule = _read(request, form_data(form))
            edited = await engine.rules.edit(session_id, rule_id, rule, tools, base=form.base)
        except BadInput as error:
            return await _answer_refused(request, form, error)
        except NotFound as error:
            return await _answer_gone(request, error)
        except Conflict as error:  # after reading it, the user can save again
            now = base_of(engine.rules.rule(session_id, rule_id))
            return await _answer_refused(request, replace(form, base=now), error, 409)
    return await _confirm_change(request, body, edited)


async def delete(request: Request) -> Response:
    """POST .../rules/RULE/delete: deletes a rule. `restore` undoes it while the server runs."""
    site, session_id, body = site_of(request), _list(request), await body_of(request)
    await _check_open(request)
    try:
        gone = await site.engine.rules.delete(session_id, request.path_params["rule"])
    except NotFound as error:
        return await _answer_gone(request, error)
    undo = f"{path_of(session_id)}/{gone.id}/restore"
    if session_id and body.data.get("at") == "setup":
        undo += "?at=setup"
    return await _confirm_change(request, body, gone, undo=undo)


async def restore(request: Request) -> Response:
    """POST .../rules/RULE/restore: restores a deleted rule to its old place and binding. `note`
    says if it had to go further down."""
    body = await body_of(request)
    await _check_open(request)
    rule, note = await _rules(request).restore(*_rule_key(request))
    return await _confirm_change(request, body, rule, note=note)


async def move(request: Request) -> Response:
    """POST .../rules/RULE/move: moves a rule to `place` (from 0) in its list."""

    async def move_rule(body: Body) -> Rule:
        await _rules(request).move(*_rule_key(request), _place(body))
        return _rules(request).rule(*_rule_key(request))

    return await _act(request, move_rule)


async def switch(request: Request) -> Response:
    """POST .../rules/RULE/switch: switches a rule on or off (`enabled`)."""
    return await _act(
        request, lambda body: _rules(request).switch(*_rule_key(request), body.flag("enabled"))
    )


async def renew(request: Request) -> Response:
    """POST .../rules/RULE/renew: binds a rule to the current tools."""

    async def renew_rule(body: Body) -> Rule:
        engine, session_id = site_of(request).engine, _list(request)
        tools = await tools_for(engine, session_id)
        bound_rule = await engine.rules.renew(*_rule_key(request), tools)
        if session_id:
            await engine.runner.checks.recheck_waiting(session_id, bound_rule.id)
        return bound_rule

    return await _act(request, renew_rule)


async def make_global(request: Request) -> Response:
    """POST /sessions/ID/rules/RULE/always: makes a rule of a session apply to all sessions, with
    its binding."""
    return await _act(
        request, lambda body: _rules(request).move_to_list(*_rule_key(request), ALWAYS)
    )


async def make_local(request: Request) -> Response:
    """POST /sessions/ID/rules/RULE/here: makes a rule for all sessions apply to this one alone."""
    session_id, rule_id = _rule_key(request)
    return await _act(
        request, lambda body: _rules(request).move_to_list(ALWAYS, rule_id, session_id)
    )


async def preview(request: Request) -> Response:
    """POST .../rules/look: says what a rule means and what it would do. Nothing is written."""
    site, body = site_of(request), await body_of(request)
    if body.is_json:
        rule = _read(request, {name: it for name, it in body.data.items() if name != "place"})
        page = await read_rules_page(site.engine, _list(request))
        first = "place" in body.data and _place(body) == 0
        preview = await preview_now(
            site.engine, session_id=_list(request), page=page, rule=rule, rule_id="", first=first
        )
        return as_json({"said": preview.sentence, "notes": list(preview.notes)})
    form = replace(_read_form(body), id=body.text("rule"))
    preview = await _form_preview(request, form)
    if answer_format(request) == "htmx":
        return HTMLResponse(partial("rule-look", "innerHTML", rule_preview_html(site.env, preview)))
    return await _page(request, form, preview)


def _list(request: Request) -> str:
    return str(request.path_params.get("id", ALWAYS))


def _rule_key(request: Request) -> tuple[str, str]:
    return _list(request), request.path_params["rule"]


def _rules(request: Request) -> RuleStore:
    return site_of(request).engine.rules


async def _check_open(request: Request) -> None:
    """NotFound if the session does not exist, Conflict if it is deleted."""
    if session_id := _list(request):
        async with site_of(request).engine.sessions.lock_session(session_id) as live:
            live.check_open()


async def _act(request: Request, doing: Callable[[Body], Awaitable[Rule]]) -> Response:
    body = await body_of(request)
    await _check_open(request)
    try:
        rule = await doing(body)
    except NotFound as error:
        return await _answer_gone(request, error)
    return await _confirm_change(request, body, rule)


async def _confirm_change(
    request: Request,
    body: Body,
    rule: Rule,
    *,
    status: int = 200,
    undo: str = "",
    note: str | None = None,
    fresh: bool = False,
) -> Response:
    """Lets the rules decide the session's waiting calls, and confirms the change."""
    site, session_id = site_of(request), _list(request)
    if session_id:
        await site.engine.runner.advance(session_id)
    match answer_format(request):
        case "json":
            tools = await tools_for(site.engine, session_id)
            (held,) = await site.engine.rules.binding_states([rule], tools)
            path = f"{path_of(session_id)}/{rule.id}"
            headers = {"Location": path} if status == 201 else None
            noted = {} if note is None else {"note": note}
            return as_json(rule_data(rule, held) | noted, status, headers)
        case "htmx" if session_id:
            html = await rules_partial(site, session_id)
            if fresh:
                page = await read_rules_page(site.engine, session_id)
                html += partial("rule-new", "innerHTML", fresh_form(site.env, page))
            if undo:
                html += toast(site.env, "The rule was deleted.", "", undo)
            if note:
                html += toast(site.env, note, "")
            return HTMLResponse(html)
        case "htmx":  # a toast on a session's page, which is not left
            sentence = note or (
                "The rule was deleted." if undo else f"From now on: {rule.sentence}."
            )
            return HTMLResponse(toast(site.env, sentence, "", undo))
    setup = session_id and "setup" in (body.data.get("at"), request.query_params.get("at"))
    back = f"/sessions/{session_id}?tab=setup" if setup else path_of(session_id)
    if note:
        back = path_of(session_id) + "?moved=1"
    if undo and not setup:
        back += "?" + urlencode({"deleted": rule.id})
    return answer(request, {}, location=back + ("" if undo else f"#rule-{rule.id}"))


async def _answer_gone(request: Request, error: NotFound) -> Response:
    """A rule that was deleted elsewhere: the page says so, and shows the current list."""
    if answer_format(request) != "page":
        raise error
    return await _page(request, RuleForm(), RulePreview(), status=404, notice=str(error))


async def _answer_refused(
    request: Request, form: RuleForm, error: PlaygroundError, status: int = 422
) -> Response:
    """Returns the input in the form, with the sentence below it; raises the error for a script."""
    if answer_format(request) != "page":
        raise error
    return await _page(request, form, RulePreview(wrong=str(error), refused=True), status=status)


async def _form_preview(request: Request, form: RuleForm) -> RulePreview:
    """The rule that the fields spell, or why it cannot be written."""
    site, session_id = site_of(request), _list(request)
    try:
        rule = _read(request, form_data(form))
    except BadInput as error:
        named = await named_tool(site.engine, session_id, form.tool)
        pointers = places(named.parameters) if named is not None else ()
        return RulePreview(
            wrong=site.engine.keys.redactor().redact_text(str(error)), places=pointers
        )
    page = await read_rules_page(site.engine, session_id)
    return await preview_now(
        site.engine, session_id=session_id, page=page, rule=rule, rule_id=form.id, first=form.first
    )


async def _page(
    request: Request,
    form: RuleForm,
    preview: RulePreview,
    *,
    status: int = 200,
    deleted: str = "",
    moved: bool = False,
    notice: str = "",
) -> HTMLResponse:
    site, session_id = site_of(request), _list(request)
    page = await read_rules_page(site.engine, session_id)
    undo = f"{path_of(session_id)}/{deleted}/restore" if deleted.isalnum() else ""
    page = replace(page, form=form, looked=preview, deleted=undo, moved=moved, notice=notice)
    # Refused input may contain a key.
    return HTMLResponse(site.engine.keys.redactor().redact_text(rules_page(site.env, page)), status)


def _read(request: Request, data: Any) -> Rule:
    """BadInput if it is not a rule, or contains a known key, which is not quoted."""
    redactor = site_of(request).engine.keys.redactor()
    try:
        rule = parse_rule(data)
    except BadInput as error:
        raise BadInput(redactor.redact_text(str(error))) from None
    check_rule(rule, redactor)
    return rule


def _place(body: Body, name: str = "place") -> int:
    """A place in a list: a number from 0, in a form as text."""
    place = body.data.get(name)
    if not body.is_json and isinstance(place, str) and place.isascii() and place.isdigit():
        return int(place[:6])
    if isinstance(place, bool) or not isinstance(place, int) or place < 0:
        raise BadInput("place must be a whole number; 0 is the first.")
    return place


def _read_form(body: Body) -> RuleForm:
    """The input of the form, unchanged."""
    lines = zip(body.getlist("pointer"), body.getlist("test"), body.getlist("value"), strict=False)
    tests = tuple(TestLine(*line) for line in lines if line[0].strip() or line[2])
    return RuleForm(**{**body.form_fields(RuleForm), "id": ""}, tests=tests)


# The page and the section in Setup: the current lists, and the tools.


async def tools_for(engine: Engine, session_id: str) -> Sequence[Tool]:
    """The tools that a rule of the list is bound to: a session's, or for ALWAYS the library's.

    NotFound if the session does not exist.
    """
    if session_id == ALWAYS:
        return await engine.library.tools()
    async with engine.sessions.lock_session(session_id) as live:
        settings = live.session.settings
    return settings.tools if settings is not None else ()


def path_of(session_id: str) -> str:
    """The path at which the rules of a list are read and changed."""
    return f"/sessions/{session_id}/rules" if session_id else "/rules"


async def read_rules_page(engine: Engine, session_id: str) -> RulesPage:
    """The list, followed for a session by the rules for all sessions."""
    rules = engine.rules
    tools = await tools_for(engine, session_id)
    own = rules.rule_list(session_id)
    rows = rule_rows(own, await rules.binding_states(own, tools))
    lists = [RuleList(path_of(session_id), rows, session_id)]
    title, tapped = "", False
    if session_id:
        async with engine.sessions.lock_session(session_id) as live:
            title, deleted = live.title, live.deleted
            tapped = live.session.tapped is not None
        lists[0] = replace(lists[0], closed=deleted)
        always = rules.rule_list(ALWAYS)
        held = await rules.binding_states(always, tools)
        # For a rule for all sessions, tools that this session does not have are irrelevant here.
        here = [
            states and {name: state for name, state in states.items() if state != "gone"}
            for states in held
        ]
        more = rule_rows(always, here, len(own) + 1)
        lists.append(RuleList(path_of(session_id), more, session_id, own=False, closed=deleted))
    names = [tool.name for tool in tools]
    names += [tool.name for tool in await engine.library.tools() if tool.name not in names]
    servers = [server.name for server, _ in await engine.library.servers()]
    page = RulesPage(lists, names, servers, title=title)
    return replace(page, undecided=AGENTS_OWN) if tapped else page


async def preview_now(
    engine: Engine, session_id: str, page: RulesPage, rule: Rule, rule_id: str, first: bool
) -> RulePreview:
    """The preview of `rule` if it were written now, or replaced the rule of that id."""
    rows = list(page.lists[0].rows)
    place = next((row.place for row in rows if row.rule.id == rule_id), None)
    if place is None:
        place = 0 if first else len(rows)
    covered: list[str] = []
    if rule.action in LETS_THROUGH:
        bound = await engine.rules.bind(rule, await tools_for(engine, session_id))
        covered = list(bound.bound or ())
    named = await named_tool(engine, session_id, rule.tool)
    preview = preview_rule(rule, place + 1, rows[:place], covered, named)
    return replace(preview, behind=None) if rule_id else preview


async def named_tool(engine: Engine, session_id: str, name: str) -> Tool | None:
    """The tool of that name: the list's own, or else the library's."""
    tools = [*await tools_for(engine, session_id), *await engine.library.tools()]
    return next((tool for tool in tools if tool.name == name), None)


async def rules_html(site: Site, session_id: str) -> str:
    """The content of the section of Setup with the current rules."""
    return rules_panel(site.env, await read_rules_page(site.engine, session_id))


async def rules_partial(site: Site, session_id: str) -> str:
    """The same as the piece that replaces it."""
    return partial("session-rules", "innerMorph", await rules_html(site, session_id))


# Rules from a card: "Always…" shows a rule, then writes it; and the rule that applies to a call.


async def propose(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/always?decision=run|deny&exact=true|false&scope=session|always:
    proposes the rule that would decide calls like this one, or says why none is offered."""
    site, session_id = site_of(request), request.path_params["id"]
    choice = _choice(request.query_params)
    await _load_denials(site, session_id, request.path_params["call"])
    async with site.engine.sessions.lock_session(session_id) as live:
        call = live.session.call(request.path_params["call"])
        shown = _panel(site, live, call, choice)
    if answer_format(request) == "json":
        return as_json(shown.data)
    return HTMLResponse(panel_html(site.env, shown, whole=answer_format(request) == "page"))


async def write(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/always: writes the rule, which then decides what it matches.

    `digest` is the card's, `print` that of the rule as it was shown: if either differs, 409 and
    nothing is written. `text` is the reason of a denial.

    ---
    responses:
      201: {description: The rule and where to undo it.}
    """
    body, site = await body_of(request), site_of(request)
    session_id, call_id = request.path_params["id"], request.path_params["call"]
    choice, reason = _choice(body.data), _reason(body)
    await _load_denials(site, session_id, call_id)
    async with site.engine.sessions.lock_session(session_id) as live:
        live.check_open()
        call = live.session.call(call_id)
        _check_card(call, body.text("digest"))
        seen = {list_id: site.engine.rules.rule_list(list_id) for list_id in (session_id, ALWAYS)}
        panel = _panel(site, live, call, choice)
        offered = panel.proposal
        if offered.rule is None:
            raise BadInput(f"The rule was not added. {offered.why_not}")
        if body.text("print", panel.print) != panel.print:
            raise Conflict("The rules or the calls have changed. Check the rule again.")
        rule = _bind_to_card(replace(offered.rule, text=reason), call)
        into = _target_list(choice, session_id)
        # While the session is held, and only against the lists that were read: a concurrent writer
        # of a rule does not hold the session.
        rule = await site.engine.rules.add(into, rule, (), offered.place, seen)
    await site.engine.runner.advance(session_id)
    undo = f"/{'' if into == ALWAYS else f'sessions/{quote(session_id)}/'}rules/{rule.id}/delete"
    if answer_format(request) == "htmx":
        sentence = f"From now on: {rule_text(rule)}."
        return HTMLResponse(toast(site.env, sentence, "", undo))
    decided = list(offered.decides)
    data = {"rule": proposed_data(rule), "said": rule_text(rule), "decides": decided, "undo": undo}
    return answer(request, data, status=201, location=f"/sessions/{quote(session_id)}")


async def rule_of_call(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/rule: explains the rule that applies to a call now, or that
    decided it, in its current form."""
    site, session_id = site_of(request), request.path_params["id"]
    rules = site.engine.rules
    async with site.engine.sessions.lock_session(session_id) as live:
        call = live.session.call(request.path_params["call"])
        own, always = rules.rule_list(session_id), rules.rule_list(ALWAYS)
        rules_about = explain_rule(live.session, call, own, always)
    if answer_format(request) == "json":
        return as_json(_explanation_data(rules_about))
    whole = answer_format(request) == "page"
    return HTMLResponse(explanation_html(site.env, session_id, call, rules_about, whole=whole))


async def renew_for_call(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/rule/renew?rule=RULE&base=BASE&digest=DIGEST: binds the rule
    also to the tool as the card shows it. 409 if one of them has changed."""
    site, session_id = site_of(request), request.path_params["id"]
    call_id, asked = request.path_params["call"], request.query_params
    rules, checks = site.engine.rules, site.engine.runner.checks
    async with site.engine.sessions.lock_session(session_id) as live:
        live.check_open()
        call = live.session.call(call_id)
        _check_card(call, asked.get("digest", ""))
    checked = await checks.check(session_id, call)
    async with site.engine.sessions.lock_session(session_id) as live:
        live.check_open()
        call = live.session.call(call_id)
        _check_card(call, asked.get("digest", ""))
        await checks.refuse_changed(live, call_id, checked)
        rule = first_match(rules.rules_of(session_id), call)
        if call.tool is None or rule is None or rule.id != asked.get("rule"):
            raise Conflict("Another rule now applies to this call. Check it again.")
        into = session_id if rule in rules.rule_list(session_id) else ALWAYS
        seen = content_hash(call.tool, call.code)
        renewed = await rules.renew_for(
            into,
            rule_id=rule.id,
            base=asked.get("base", ""),
            name=call.name,
            print_=seen,
            session_id=session_id,
        )
    await site.engine.runner.advance(session_id)
    if answer_format(request) == "htmx":
        return HTMLResponse(toast(site.env, f"Renewed for {call.name}: {rule_text(renewed)}.", ""))
    data = {"rule": proposed_data(renewed), "said": rule_text(renewed)}
    return answer(request, data, location=f"/sessions/{quote(session_id)}")


def _explanation_data(rules_about: RuleExplanation) -> dict[str, Any]:
    tests = [{"test": test, "value": value} for test, value in rules_about.tests]
    return {
        "said": rules_about.words,
        "tests": tests,
        "why": rules_about.why,
        "renew": rules_about.renew,
    }


def _choice(data: Mapping[str, Any]) -> RuleChoice:
    """BadInput if a field has an unknown value."""
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
        raise BadInput(f"A reason may have at most {MOST_WORDS} characters.")
    return text


async def _load_denials(site: Site, session_id: str, call_id: str) -> None:
    """Reads what a user denied of this tool in any session: no proposal allows it."""
    async with site.engine.sessions.lock_session(session_id) as live:
        name = live.session.call(call_id).name
    await site.engine.policy.load_denials(name)


def _target_list(choice: RuleChoice, session_id: str) -> str:
    return session_id if choice.scope == "session" else ALWAYS


def _panel(site: Site, live: LiveSession, call: Call, choice: RuleChoice) -> RulePanel:
    rules, always = site.engine.rules, choice.scope == "always"
    held, there = rules.rules_of(live.id), rules.rule_list(_target_list(choice, live.id))
    denials = site.engine.policy.denials
    offered = proposal(
        live.session,
        call=call,
        rules=held,
        action=choice.action,
        exact=choice.exact,
        scope_rules=there,
        denied=denials,
        always=always,
    )
    return rule_panel(live.session, call, choice, offered, there)


def _check_card(call: Call, digest: str) -> None:
    if not digest:
        raise BadInput("A rule from a card needs the digest of the card.")
    check_digest(call, digest)


def _bind_to_card(rule: Rule, call: Call) -> Rule:
    """Binds it to the tool that the card showed, not to its current version."""
    if rule.action != "run":
        return rule
    assert call.tool is not None  # no running rule is proposed without a tool
    return replace(rule, bound={call.name: content_hash(call.tool, call.code)})
