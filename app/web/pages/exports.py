"""Tools as files: one, a group or all, in any form that others read."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from app.core.errors import BadInput
from app.core.tools import Tool
from app.exchange.tool_export import FORMATS, write
from app.web.forms import as_json, wants_file
from app.web.site import Site, site_of

MOST_NAMES = 500


async def export(request: Request) -> Response:
    """GET /export?format=F&name=N (repeated) | &group=G: a file; neither: all of them.

    As JSON: `{"file", "text", "notes"}`.
    """
    site, query = site_of(request), request.query_params
    tools, called = await _chosen(site, query.getlist("name"), query.get("group"))
    written = await asyncio.to_thread(write, query.get("format", "own"), tools, called)
    # A key that became known after its tool was saved goes nowhere.
    text = site.engine.keys.redactor().redact_text(written.text)
    if not wants_file(request):
        return as_json({"file": written.file_name, "text": text, "notes": list(written.notes)})
    # The name is made of letters, digits, "_", "-" and a dot, so that it can be no other header.
    headers = {"Content-Disposition": f'attachment; filename="{written.file_name}"'}
    raw = text.encode("utf-8", "replace")
    return Response(raw, 200, headers, f"{written.media_type}; charset=utf-8")


async def _chosen(site: Site, names: list[str], group: str | None) -> tuple[list[Tool], str]:
    library = site.engine.library
    if len(names) > MOST_NAMES:
        raise BadInput(f"At most {MOST_NAMES} tools are exported by name; export their group.")
    if names:
        return [await library.tool(name) for name in dict.fromkeys(names)], ""
    entries = [entry.tool for entry in await library.entries()]
    if group is None:
        return entries, "tools"
    return [tool for tool in entries if tool.group == group], group or "tools"


def choices() -> tuple[tuple[str, str], ...]:
    """(name, label) of each form, for a menu."""
    return tuple((name, form.label) for name, form in FORMATS.items())
