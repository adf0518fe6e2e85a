"""One session as a column of a page that shows several: GET /sessions/ID?column=1.

It is the session's page without the list, the inspector and the composer. The page around it
feeds it (static/beside.js, static/column.js), so it has no stream of its own; it is the one page
that may be framed, and by our own pages alone.
"""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

from app.render.pages import column_page
from app.web.guard import FRAMED, as_text
from app.web.site import Site


async def column(site: Site, session_id: str) -> Response:
    """NotFound where there is no such session."""
    async with site.engine.sessions.holding(session_id) as live:
        view = await site.view(live, wired=False, framed=True)
        html = column_page(site.env, view, site.engine.sessions.position)
    return HTMLResponse(html, headers=as_text(FRAMED))
