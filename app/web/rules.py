"""What the page of rules and the section in Setup show: the lists as they stand, and the tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.core.rules import LETS_THROUGH, Rule
from app.core.tools import Tool
from app.engine.engine import Engine
from app.engine.rules import ALWAYS
from app.render.fragments import partial
from app.render.rules import Look, RuleList, RulesPage, look, rule_rows, rules_panel
from app.web.site import Site


async def tools_for(engine: Engine, session_id: str) -> Sequence[Tool]:
    """Those that a rule of the list is bound to: a session's, or for ALWAYS the library's.

    NotFound where there is no such session.
    """
    if session_id == ALWAYS:
        return await engine.library.tools()
    async with engine.sessions.holding(session_id) as live:
        settings = live.session.settings
    return settings.tools if settings is not None else ()


def path_of(session_id: str) -> str:
    """Where the rules of a list are read and changed."""
    return f"/sessions/{session_id}/rules" if session_id else "/rules"


async def rules_shown(engine: Engine, session_id: str) -> RulesPage:
    """The list, and for a session those for always after its own."""
    rules = engine.rules
    tools = await tools_for(engine, session_id)
    own = rules.listed(session_id)
    rows = rule_rows(own, await rules.holding(own, tools))
    lists = [RuleList(path_of(session_id), rows, session_id)]
    title = ""
    if session_id:
        async with engine.sessions.holding(session_id) as live:
            title, deleted = live.title, live.deleted
        lists[0] = replace(lists[0], closed=deleted)
        always = rules.listed(ALWAYS)
        held = await rules.holding(always, tools)
        # Of a rule for all sessions, what this one has not got says nothing here.
        here = [
            one and {name: state for name, state in one.items() if state != "gone"} for one in held
        ]
        more = rule_rows(always, here, len(own) + 1)
        lists.append(RuleList(path_of(session_id), more, session_id, own=False, closed=deleted))
    names = [tool.name for tool in tools]
    names += [tool.name for tool in await engine.library.tools() if tool.name not in names]
    servers = [server.name for server, _ in await engine.library.servers()]
    return RulesPage(lists, names, servers, title=title)


async def looked_at(
    engine: Engine, session_id: str, page: RulesPage, rule: Rule, rule_id: str, first: bool
) -> Look:
    """What `rule` would be if it was written now, or put in the place of the one of that id."""
    rows = list(page.lists[0].rows)
    place = next((row.place for row in rows if row.rule.id == rule_id), None)
    if place is None:
        place = 0 if first else len(rows)
    covered: list[str] = []
    if rule.action in LETS_THROUGH:
        bound = await engine.rules.bound(rule, await tools_for(engine, session_id))
        covered = list(bound.bound or ())
    named = await named_tool(engine, session_id, rule.tool)
    found = look(rule, place + 1, rows[:place], covered, named)
    return replace(found, behind=None) if rule_id else found


async def named_tool(engine: Engine, session_id: str, name: str) -> Tool | None:
    """The tool of that name: the list's own, or else the library's."""
    tools = [*await tools_for(engine, session_id), *await engine.library.tools()]
    return next((tool for tool in tools if tool.name == name), None)


async def rules_drawn(site: Site, session_id: str) -> str:
    """What stands in the section of Setup as the rules are now."""
    return rules_panel(site.env, await rules_shown(site.engine, session_id))


async def drawn_rules(site: Site, session_id: str) -> str:
    """The same as the piece that takes its place."""
    return partial("session-rules", "innerMorph", await rules_drawn(site, session_id))
