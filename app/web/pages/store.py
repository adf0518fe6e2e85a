"""Whether anything can be saved."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.web.forms import answer, as_json
from app.web.site import site_of


async def show(request: Request) -> Response:
    """GET /store: why nothing can be saved now, and how much is kept in memory meanwhile."""
    store = site_of(request).store_now()
    return as_json({"trouble": store.trouble, "copy": store.copy, "unsaved": store.unsaved})


async def write_copy(request: Request) -> Response:
    """POST /store/copy: the whole database where its file was deleted; 409 where it is there."""
    engine = site_of(request).engine
    await engine.write_anew()
    return answer(request, {"path": str(engine.database.path)}, location="/")
