"""The Tools page: the list, the editor, saving, deleting, versions, export."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.errors import BadInput, BadTool, NotFound
from playground.core.rules import rule_text
from playground.core.serialization import to_data
from playground.core.tools import Tool
from playground.engine.redaction import check_tools
from playground.engine.rules import ALWAYS, parse_rule
from playground.exchange.tool_export import FORMATS, write_tools
from playground.net.threads import run_in_daemon
from playground.render.environment import toast
from playground.schema.names import number_name
from playground.schema.validate import check_tool
from playground.store.library import LibraryEntry
from playground.web.forms import Body, answer, answer_format, as_json, body_of, wants_file
from playground.web.site import Site, site_of
from playground.web.tools.editor import (
    Editor,
    ToolForm,
    TypedTool,
    apply_fix,
    apply_row_action,
    build_editor,
    check_typed,
    editor_as_typed,
    hints,
    parse_editor,
    parse_saved,
    preview_fix,
    switch_tab,
    tool_check,
    tool_form,
)
from playground.web.tools.trying import first_panel
from playground.web.tools.view import (
    EditorContext,
    WhenCalled,
    called_words,
    clash,
    own_rule,
    place_for,
    state_of,
    tool_editor,
    tool_lint,
    tool_list,
    tools_page,
    try_panel,
    when_called,
    when_partial,
)

MOST_DELETED = 20
"""The maximum number of deleted tools that can be restored; they are held in memory."""

MOST_AT_ONCE = 40
"""Tools whose hints are counted before the page is drawn; those of the others follow."""

TABS = ("try", "wire", "history")

MISTAKE = Tool(
    "book_table",
    "Book a table in a restaurant for a number of guests; returns the number of the booking.",
    {
        "type": "object",
        "properties": {
            "guests": {"type": "integer", "enum": ["2", "4", "6"], "description": "How many."},
            "when": {"type": "string", "description": "Day and time, as 2026-05-01T19:30."},
        },
        "required": ["guests", "time"],
        "additionalProperties": False,
    },
)
"""The tool of a demo: its schema cannot be satisfied by any call."""

MOST_NAMES = 500


async def tools(request: Request) -> Response:
    """GET /tools?example=mistake&list=NAME: lists the tools as JSON, or shows the editor of a new
    tool. `example=mistake`: one with mistakes in its schema. `list`: the list next to the editor of
    that tool, with the facts about each.

    ---
    responses:
      200:
        description: The tools.
        content:
          application/json:
            schema: {type: array, items: {$ref: "#/components/schemas/Tool"}}
          text/html: {}
    """
    site = site_of(request)
    if (name := request.query_params.get("list")) is not None:
        around = await _with_list(request, await editor_context(request, name), most=None)
        return HTMLResponse(tool_list(site.env, around, name))
    if answer_format(request) == "json":
        return as_json([to_data(tool) for tool in await site.engine.library.tools()])
    if request.query_params.get("example") == "mistake":
        form = tool_form(MISTAKE)
        return await tool_page(
            request, replace(build_editor(form), unsaved=True), parse_saved(form, None)
        )
    return await tool_page(request, build_editor(ToolForm()))


async def tool(request: Request) -> Response:
    """GET /tools/NAME?face=form: shows the editor of one tool, or the tool as JSON."""
    entry = await site_of(request).engine.library.entry(request.path_params["name"])
    if answer_format(request) == "json":
        return as_json({**to_data(entry.tool), "enabled": entry.enabled})
    form = tool_form(entry.tool)
    if request.query_params.get("face") in ("form", "python"):
        form = replace(form, face=request.query_params["face"])
    editor = replace(build_editor(form), original=entry.tool.name, drawn=state_of(entry))
    return await tool_page(request, editor, parse_saved(form, entry.tool))


async def save(request: Request) -> Response:
    """POST /tools: saves tools, from the editor, or by a script in any format.

    ---
    requestBody:
      content:
        application/json:
          schema:
            anyOf: [{$ref: "#/components/schemas/Tools"}, {type: object}, {type: array}]
    responses:
      201: {description: The tool or what became of each.}
    """
    body = await body_of(request)
    if body.is_json:
        return await _save_tool(request, await run_in_daemon(check_tool, body.data))
    was = await run_in_daemon(parse_editor, body)
    original, drawn = body.text("original"), body.text("drawn")
    conflict = None
    if was.tool is not None:
        try:
            await _check_taken(request, was.tool.name, original)
            _check_when(body)
            there = await _entry(request, original)
            if not original or not drawn or state_of(there) in (drawn, body.text("over")):
                return await _save_tool(request, was.tool, original)
            conflict = clash(there, was.tool)
        except BadTool as error:
            was = replace(was, errors={error.pointer.strip("/"): str(error)})
    editor = replace(
        editor_as_typed(was), original=original, drawn=drawn, unsaved=True, clash=conflict
    )
    return await editor_answer(request, editor, was, 409 if conflict else 422)


async def delete(request: Request) -> Response:
    """POST /tools/NAME/delete: deletes a tool. It can be restored as long as the server runs."""
    site, name = site_of(request), request.path_params["name"]
    entry = await site.engine.library.entry(name)
    if entry.shipped:
        raise BadInput("A shipped example cannot be deleted. Duplicate it to make your own.")
    site.deleted[name] = (await site.engine.library.versions(name), entry.enabled)
    while len(site.deleted) > MOST_DELETED:
        del site.deleted[next(iter(site.deleted))]
    await site.engine.library.delete(name)
    return answer(request, {"ok": True}, location=f"/tools?deleted={quote(name, safe='')}")


async def restore(request: Request) -> Response:
    """POST /tools/NAME/restore: restores a deleted tool with all its versions."""
    site, name = site_of(request), request.path_params["name"]
    if name not in site.deleted:
        raise NotFound("This tool was not deleted, or it was deleted too long ago to restore.")
    if any(
        entry.tool.name == name and not entry.shipped
        for entry in await site.engine.library.entries()
    ):
        raise BadInput(f"There is a tool {name!r} again. Rename that one first.")
    versions, enabled = site.deleted.pop(name)
    await site.engine.library.restore(name, versions, enabled=enabled)
    return answer(request, {"ok": True}, location=_path(name))


async def return_to(request: Request) -> Response:
    """POST /tools/NAME/versions/NUMBER/restore: saves an older version of a tool as the newest.

    ---
    responses:
      201: {description: The tool.}
    """
    library, name = site_of(request).engine.library, request.path_params["name"]
    number = request.path_params["number"]
    was = [version for version in await library.versions(name) if version.number == number]
    if not was:
        raise NotFound(f"There is no version {number} of {name!r}.")
    return await _save_tool(request, replace(was[0].tool, name=name), name)


async def duplicate(request: Request) -> Response:
    """POST /tools/NAME/duplicate: copies a tool to the next unused name.

    ---
    responses:
      201: {description: The name of the copy.}
    """
    site = site_of(request)
    entry = await site.engine.library.entry(request.path_params["name"])
    names = {entry.tool.name for entry in await site.engine.library.entries()}
    copy = replace(entry.tool, name=number_name(entry.tool.name, names))
    if entry.shipped:
        copy = replace(copy, group="")
    await site.engine.library.save(copy, site.engine.sessions.clock(), enabled=entry.enabled)
    return answer(request, {"name": copy.name}, status=201, location=_path(copy.name))


def _check_when(body: Body) -> None:
    """Checks the "When called" fields before anything is saved."""
    try:
        chosen_when(body)
    except BadInput as error:
        raise BadTool(str(error), "/when") from error


async def _save_tool(request: Request, tool: Tool, original: str = "") -> Response:
    """Saving does not switch a tool on: one that was off stays off."""
    site = site_of(request)
    check_tools([tool], site.engine.keys.redactor())
    before = await _entry(request, original or tool.name)
    enabled = before is None or before.enabled
    await site.engine.library.save(
        tool, site.engine.sessions.clock(), original=original, enabled=enabled
    )
    if enabled:
        await site.engine.confirm_keys_of(tool)
    body = await body_of(request)
    if not body.is_json and (when := chosen_when(body)) is not None:
        await _set_when(site, tool, *when)
    if answer_format(request) == "json":
        return as_json(to_data(tool), 201, {"Location": _path(tool.name)})
    return answer(request, {"name": tool.name}, location=_path(tool.name) + "?saved=1")


async def _check_taken(request: Request, name: str, original: str) -> None:
    """The editor never overwrites another tool by giving this one its name."""
    if name != original and await _entry(request, name) is not None:
        raise BadTool(f"There is a tool {name!r} already. Choose another name.", "/name")


async def _entry(request: Request, name: str) -> LibraryEntry | None:
    entries = await site_of(request).engine.library.entries()
    return next((entry for entry in entries if entry.tool.name == name), None)


def _path(name: str) -> str:
    return f"/tools/{quote(name, safe='')}"


async def editor_answer(
    request: Request, editor: Editor, current: TypedTool, status: int = 200
) -> Response:
    """The editor redrawn: as a fragment, or the whole page for a plain form."""
    if answer_format(request) != "htmx":
        return await tool_page(request, editor, current, status)
    editor = replace(editor, check=await check_typed(current))
    around = await editor_context(request, editor.original)
    return HTMLResponse(tool_editor(site_of(request).env, editor, around), status)


async def tool_page(
    request: Request, editor: Editor, current: TypedTool | None = None, status: int = 200
) -> Response:
    """The whole page with an editor; its input is checked."""
    site = site_of(request)
    if current is not None:
        editor = replace(editor, check=await check_typed(current))
    around = await _with_list(request, await editor_context(request, editor.original), MOST_AT_ONCE)
    panel = await first_panel(site, current.tool if current is not None else None, editor.original)
    around = replace(around, tried=Markup(try_panel(site.env, panel)))
    return HTMLResponse(tools_page(site.env, editor, around), status)


async def editor_context(request: Request, original: str) -> EditorContext:
    """The context of the editor of the tool that was saved as `original`, except the list."""
    library, query = site_of(request).engine.library, request.query_params
    entries = await library.entries()
    entry = next((entry for entry in entries if entry.tool.name == original), None)
    deleted = query.get("deleted", "")
    when = await when_of(site_of(request), entry.tool) if entry is not None else None
    if when is not None and request.method == "POST":
        when = typed_when(when, await body_of(request))
    return EditorContext(
        entries,
        entry=entry,
        versions=await library.versions(original) if original else (),
        exports=choices(),
        tab=query["tab"] if query.get("tab") in TABS else "try",
        saved="saved" in query,
        deleted=deleted if deleted in site_of(request).deleted else "",
        now_ms=site_of(request).engine.sessions.clock(),
        when=when,
    )


async def _with_list(request: Request, around: EditorContext, most: int | None) -> EditorContext:
    """Adds the facts of each tool in the list; counts the hints of at most `most` new ones."""
    rules, every = site_of(request).engine.rules, [entry.tool for entry in around.entries]
    always = rules.rule_list(ALWAYS)
    held = await rules.binding_states(always, every)
    words = {tool.name: called_words(tool, always, held) for tool in every}
    hint_counts, whole = await hints(around.entries, most)
    return replace(around, called=words, hints=hint_counts, counting=not whole)


# Tools as files: one, a group or all, in any export format.


async def export(request: Request) -> Response:
    """GET /export?format=F&name=N&group=G: writes tools as a file: those of the names or the group,
    or all. As JSON: `{"file", "text", "notes"}`.

    ---
    parameters:
      - {name: name, in: query, schema: {type: array, items: {type: string}}}
    responses:
      200: {description: The file., content: {application/json: {}, text/x-python: {}}}
    """
    site, query = site_of(request), request.query_params
    tools, called = await _chosen_tools(site, query.getlist("name"), query.get("group"))
    written = await asyncio.to_thread(write_tools, query.get("format", "own"), tools, called)
    # A key that became known after its tool was saved must not be exported.
    text = site.engine.keys.redactor().redact_text(written.text)
    if not wants_file(request):
        return as_json({"file": written.file_name, "text": text, "notes": list(written.notes)})
    # The name consists of letters, digits, "_", "-" and a dot, so that it cannot inject a header.
    headers = {"Content-Disposition": f'attachment; filename="{written.file_name}"'}
    raw = text.encode("utf-8", "replace")
    return Response(raw, 200, headers, f"{written.media_type}; charset=utf-8")


async def _chosen_tools(site: Site, names: list[str], group: str | None) -> tuple[list[Tool], str]:
    library = site.engine.library
    if len(names) > MOST_NAMES:
        raise BadInput(f"At most {MOST_NAMES} tools are exported by name. Export their group.")
    if names:
        return [await library.tool(name) for name in dict.fromkeys(names)], ""
    entries = [entry.tool for entry in await library.entries()]
    if group is None:
        return entries, "tools"
    return [tool for tool in entries if tool.group == group], group or "tools"


def choices() -> tuple[tuple[str, str], ...]:
    """(name, label) of each format, for a menu."""
    return tuple((name, form.label) for name, form in FORMATS.items())


# Requests of the editor in use: another tab, a row, a fix, lint. Nothing here is saved: the tool is
# sent with each request and returned in the response.


async def faces(request: Request) -> Response:
    """POST /tools/faces: redraws the editor after one of its buttons. `face` shows the schema in
    another tab, `act` changes a row, `fix` shows the changes of a rewrite, `apply` makes them. If
    an action fails, the input is returned with the reason.

    ---
    responses:
      200: {description: The editor., content: {text/html: {}}}
    """
    body = await body_of(request)
    was = await run_in_daemon(parse_editor, body)
    editor = await run_in_daemon(_apply_action, was, body)  # the schema may be large
    same = editor.typed or editor.form == was.form
    now = was if same else await run_in_daemon(parse_saved, editor.form, None)
    original, drawn = body.text("original"), body.text("drawn")
    # With a script the page itself knows whether there is unsaved input.
    unsaved = answer_format(request) != "htmx"
    editor = replace(editor, original=original, drawn=drawn, unsaved=unsaved)
    return await editor_answer(request, editor, now)


def _apply_action(current: TypedTool, body: Body) -> Editor:
    if act := body.text("act"):
        return apply_row_action(current, act)
    for name, change in (("fix", preview_fix), ("apply", apply_fix)):
        if (editor := change(current, body.text(name))) is not None:
            return editor
    return switch_tab(current, body.text("face", current.form.face))


async def lint(request: Request) -> Response:
    """POST /tools/lint: checks the tool in the editor, or one in our own format.

    ---
    requestBody:
      content:
        application/json: {schema: {$ref: "#/components/schemas/Tools"}}
    responses:
      200: {description: The findings., content: {application/json: {}, text/html: {}}}
    """
    body = await body_of(request)
    if body.is_json:
        judgement_now = await run_in_daemon(lambda: tool_check(check_tool(body.data)))
        return as_json(
            {
                "findings": [to_data(finding) for finding in judgement_now.findings],
                "accepted": [to_data(accepted) for accepted in judgement_now.accepted],
                "tokens": judgement_now.tokens,
            }
        )
    was = await run_in_daemon(parse_editor, body)
    editor = replace(await run_in_daemon(editor_as_typed, was), check=await check_typed(was))
    return HTMLResponse(tool_lint(site_of(request).env, editor))


# "When called": the rule for all sessions that names one tool: ask, run, answer or deny.


async def when_of(site: Site, tool: Tool) -> WhenCalled:
    """The editor's state of it for `tool` as saved."""
    rules = site.engine.rules
    listed = [rule for rule in rules.rule_list(ALWAYS) if rule.covers(tool)]
    return when_called(tool, listed, await rules.binding_states(listed, [tool]))


async def set_when(request: Request) -> Response:
    """POST /tools/NAME/when: says what happens when a tool is called: `when` is ask, run, answer
    (with the result in `text`) or deny (with the reason in it). The rule is bound to the tool as
    saved; ask deletes it."""
    body, site = await body_of(request), site_of(request)
    tool = (await site.engine.library.entry(request.path_params["name"])).tool
    text = body.text("text" if body.is_json else "when_text")
    sentence = await _set_when(site, tool, body.text("again") or body.text("when"), text)
    shown = await when_of(site, tool)
    match answer_format(request):
        case "json":
            data = {"tool": tool.name, "when": shown.action, "text": shown.text}
            return as_json({**data, "stale": shown.stale, "before": shown.before})
        case "htmx":
            return HTMLResponse(when_partial(site.env, shown) + toast(site.env, sentence, ""))
    return answer(request, {"ok": True}, location=f"/tools/{request.path_params['name']}")


def chosen_when(body: Body) -> tuple[str, str] | None:
    """(when, text) from a form of the editor; None if unchanged. BadInput if it cannot be set."""
    action, text = body.text("when"), body.text("when_text")
    if not action or (action, text) == (body.text("when_was"), body.text("text_was")):
        return None
    if action in ("ask", "run") and action == body.text("when_was"):
        return None  # neither takes a text
    _check_text(action, text)
    return action, text


def typed_when(when: WhenCalled, body: Body) -> WhenCalled:
    """`when` with the form's input, for redrawing it."""
    if body.text("when") not in when.choices:
        return when
    return replace(when, chosen=body.text("when"), typed=body.text("when_text"))


def _check_text(action: str, text: str) -> None:
    if action == "answer" and not text.strip():
        raise BadInput("Enter the result. An answer needs a text.")


async def _set_when(site: Site, tool: Tool, action: str, text: str) -> str:
    """Writes, changes or deletes the tool's own rule; returns the sentence about it."""
    now = await when_of(site, tool)
    if action not in now.choices:
        raise BadInput(f"When {tool.name} is called is one of {', '.join(now.choices)}.")
    _check_text(action, text)
    rules = site.engine.rules
    listed = rules.rule_list(ALWAYS)
    before = own_rule(tool.name, listed)
    if action == "ask":
        sentence = f"{tool.name} needs approval, unless another rule decides it."
        if before is not None:
            await rules.delete(ALWAYS, before.id)
    else:
        text = text if action != "run" else ""
        rule = parse_rule({"tool": tool.name, "action": action, "text": text})
        sentence = f"From now on: {rule_text(rule)}."
        if before is None:
            place = place_for(tool, listed)
            await rules.add(ALWAYS, rule, [tool], place, {ALWAYS: listed})
        else:
            rule = replace(rule, is_error=before.is_error and action == "answer")
            await rules.edit(ALWAYS, before.id, rule, [tool], enabled=True)
    return sentence
