"""Pages that are imported when they are first asked for, or by `warm`, once the server has told
where it is: of a start, they were the longest part."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module

from starlette.requests import Request
from starlette.responses import Response

Page = Callable[[Request], Awaitable[Response]]


class Later:
    """`Later("app.web.pages.tools").tool` is the page `tool` of that module."""

    def __init__(self, module: str):
        self._module = module

    def __getattr__(self, name: str) -> Page:
        async def page(request: Request) -> Response:
            asked: Page = getattr(import_module(self._module), name)
            try:
                return await asked(request)
            finally:
                await request.close()  # the files of its form

        page.__module__, page.__name__ = self._module, name
        return page
