"""The rule for all sessions about one tool: ask, run, answer or deny ("When called")."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput
from app.core.rules import rule_text
from app.core.tools import Tool
from app.engine.rules import ALWAYS, parse_rule
from app.render.fragments import toast
from app.web.forms import Body, answer, as_json, body_of, wants
from app.web.site import Site, site_of
from app.web.tools.view import When, drawn_when, own_rule, place_for, when_called


async def when_of(site: Site, tool: Tool) -> When:
    """What the editor shows of `tool` as it is saved."""
    rules = site.engine.rules
    listed = [rule for rule in rules.listed(ALWAYS) if rule.covers(tool)]
    return when_called(tool, listed, await rules.holding(listed, [tool]))


async def set_when(request: Request) -> Response:
    """POST /tools/NAME/when: `when` is ask, run, answer (with the result in `text`) or deny (with
    the reason in it). The rule is bound to the tool as it is saved; ask takes it away."""
    body, site = await body_of(request), site_of(request)
    tool = (await site.engine.library.entry(request.path_params["name"])).tool
    text = body.text("text" if body.is_json else "when_text")
    said = await _set(site, tool, body.text("again") or body.text("when"), text)
    shown = await when_of(site, tool)
    match wants(request):
        case "json":
            data = {"tool": tool.name, "when": shown.action, "text": shown.text}
            return as_json({**data, "stale": shown.stale, "before": shown.before})
        case "htmx":
            return HTMLResponse(drawn_when(site.env, shown) + toast(site.env, said, ""))
    return answer(request, {"ok": True}, location=f"/tools/{request.path_params['name']}")


def chosen(body: Body) -> tuple[str, str] | None:
    """(when, text) as a form of the editor says it; None where it says nothing new. BadInput where
    it cannot be set."""
    action, text = body.text("when"), body.text("when_text")
    if not action or (action, text) == (body.text("when_was"), body.text("text_was")):
        return None
    if action in ("ask", "run") and action == body.text("when_was"):
        return None  # neither takes a text
    _check_text(action, text)
    return action, text


async def set_along(site: Site, tool: Tool, action: str, text: str) -> None:
    """Saving the tool sets this, too."""
    await _set(site, tool, action, text)


def typed_when(when: When, body: Body) -> When:
    """`when` with what stands in the form, where it is drawn anew."""
    if body.text("when") not in when.choices:
        return when
    return replace(when, chosen=body.text("when"), typed=body.text("when_text"))


def _check_text(action: str, text: str) -> None:
    if action == "answer" and not text.strip():
        raise BadInput("Type the result that a call is given; an answer has a text.")


async def _set(site: Site, tool: Tool, action: str, text: str) -> str:
    """Write, change or delete the tool's own rule; the sentence about it."""
    now = await when_of(site, tool)
    if action not in now.choices:
        raise BadInput(f"When {tool.name} is called is one of {', '.join(now.choices)}.")
    _check_text(action, text)
    rules = site.engine.rules
    listed = rules.listed(ALWAYS)
    before = own_rule(tool.name, listed)
    if action == "ask":
        said = f"{tool.name} asks, unless another rule decides it."
        if before is not None:
            await rules.delete(ALWAYS, before.id)
    else:
        text = text if action != "run" else ""
        rule = parse_rule({"tool": tool.name, "action": action, "text": text})
        said = f"From now on: {rule_text(rule)}."
        if before is None:
            place = place_for(tool, listed)
            await rules.add(ALWAYS, rule, [tool], place, {ALWAYS: listed})
        else:
            rule = replace(rule, is_error=before.is_error and action == "answer")
            await rules.edit(ALWAYS, before.id, rule, [tool], enabled=True)
    return said
