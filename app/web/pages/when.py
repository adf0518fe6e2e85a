"""When a tool is called: ask, run, answer or deny, as the rule for always about just this tool."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput
from app.core.rules import told
from app.core.tools import Tool
from app.engine.rule_from import rule_from
from app.engine.rules import ALWAYS
from app.render.pages import toast
from app.render.when import When, drawn_when, own_rule, place_for, when_called
from app.web.forms import answer, as_json, body_of, wants
from app.web.site import Site, site_of


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
    action = body.text("again") or body.text("when")
    now = await when_of(site, tool)
    if action not in now.choices:
        raise BadInput(f"When {tool.name} is called is one of {', '.join(now.choices)}.")
    rules = site.engine.rules
    before = own_rule(tool.name, rules.listed(ALWAYS))
    if action == "ask":
        said = f"{tool.name} asks, unless another rule decides it."
        if before is not None:
            await rules.change(ALWAYS, before.id, None)
    else:
        text = body.text("text") if action != "run" else ""
        rule = rule_from({"tool": tool.name, "action": action, "text": text})
        said = f"From now on: {told(rule)}."
        if before is None:
            place = place_for(tool, rules.listed(ALWAYS))
            await rules.add(ALWAYS, rule, [tool], place)
        else:
            rule = replace(rule, is_error=before.is_error and action == "answer")
            await rules.edit(ALWAYS, before.id, rule, [tool])
    shown = await when_of(site, tool)
    match wants(request):
        case "json":
            data = {"tool": tool.name, "when": shown.action, "text": shown.text}
            return as_json({**data, "stale": shown.stale, "before": shown.before})
        case "htmx":
            return HTMLResponse(drawn_when(site.env, shown) + toast(site.env, said, ""))
    return answer(request, {"ok": True}, location=f"/tools/{request.path_params['name']}")
