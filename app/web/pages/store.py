"""Whether anything can be saved."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.web.forms import answer, as_json
from app.web.site import site_of


async def show(request: Request) -> Response:
    """GET /store: why nothing can be saved now, and how much is kept in memory meanwhile."""
    site = site_of(request)
    store, trouble = site.store_now(), site.engine.hub.health.trouble
    said = "" if trouble is None else str(trouble)  # the page's sentence stays a while longer
    return as_json({"trouble": said, "copy": store.copy, "unsaved": store.unsaved})


async def write_copy(request: Request) -> Response:
    """POST /store/copy: the whole database where its file was deleted; 409 where it is there."""
    engine = site_of(request).engine
    await engine.write_anew()
    return answer(request, {"path": str(engine.database.path)}, location="/")
