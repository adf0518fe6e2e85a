"""What came in with a request, and the three ways to answer it: JSON, htmx or a plain page.

A script (JSON body, Accept or a bearer token) gets JSON; htmx gets nothing, because the stream
brings what changed; a form without script gets a redirect to where the change is seen.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.errors import BadInput
from app.protocols.raw_json import Quoted
from app.schema import strict_json
from app.web.notice import MAX_BODY

LARGE = 64 * 1024
"""Bytes of a body; more is read in a thread."""

MOST_FIELDS = 5_000
"""Of a form; the page of what was brought has a few for each of many tools."""

MOST_KEYS = 200_000
"""Of a JSON body: a library of tools, which is more than a call's arguments ever are."""

Kind = Literal["json", "htmx", "page"]


def wants(request: Request) -> Kind:
    """How the answer should look."""
    if request.headers.get("hx-request"):
        return "htmx"
    accept = request.headers.get("accept", "")
    scripted = (
        "application/json" in accept
        or request.headers.get("content-type", "").startswith("application/json")
        or ("authorization" in request.headers and "text/html" not in accept)
    )
    return "json" if scripted else "page"


def wants_file(request: Request) -> bool:
    """Whether the answer is the file itself: for all that do not name JSON, who get words on it,
    too. A bearer token alone, or `Accept: */*`, asks for no other form."""
    kind = request.headers.get("content-type", "")
    return "application/json" not in request.headers.get("accept", "") + kind


@dataclass(frozen=True)
class Body:
    """The fields of a form or a JSON object. Form values are text; `all` keeps repeated ones.

    `quoted` gives the very text of a JSON body's members.
    """

    data: Mapping[str, Any]
    form: FormData | None = None
    quoted: Quoted | None = None

    @property
    def is_json(self) -> bool:
        return self.form is None

    def text(self, name: str, default: str = "") -> str:
        """A text field; BadInput where a script sent something else."""
        value = self.data.get(name, default)
        if not isinstance(value, str):
            raise BadInput(f"{name} must be a text.")
        return value

    def flag(self, name: str) -> bool:
        """A truth: a JSON boolean, or a ticked box."""
        value = self.data.get(name, False)
        if isinstance(value, bool):
            return value
        if self.is_json:
            raise BadInput(f"{name} must be true or false.")
        return value in ("true", "on", "1")

    def all(self, name: str) -> list[str]:
        """Every value of a repeated form field, or a JSON list of texts."""
        if self.form is not None:
            return [value for value in self.form.getlist(name) if isinstance(value, str)]
        value = self.data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise BadInput(f"{name} must be a list of texts.")
        return value


async def body_of(request: Request, *, list_as: str = "") -> Body:
    """The body of `request`; an empty one has no fields. BadInput where it is no object; a route
    that takes a bare JSON list, too, names the field that it then is."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        form = await request.form(max_part_size=MAX_BODY, max_fields=MOST_FIELDS)
        return Body({key: value for key, value in form.items() if isinstance(value, str)}, form)
    raw = await request.body()
    if not raw.strip():
        return Body({})
    # With images it is large, and others wait for their turn.
    value = await asyncio.to_thread(json_of, raw) if len(raw) > LARGE else json_of(raw)
    if list_as and isinstance(value, list):
        return Body({list_as: value})
    if not isinstance(value, dict):
        also = " or a list" if list_as else ""
        raise BadInput(f"The body must be a JSON object{also}.")
    return Body(value, quoted=Quoted(raw.decode("utf-8")))


def json_of(raw: bytes) -> Any:
    """The JSON value of a body; BadInput with the place where it is none, or no sound one: keys
    twice, NaN, half a character, nesting without end are refused and not guessed at."""
    try:
        return strict_json.parse(raw.decode("utf-8"), MAX_BODY, MOST_KEYS)
    except UnicodeDecodeError as error:
        raise BadInput(f"The body is no UTF-8: byte {error.start} cannot be read.") from error
    except strict_json.InvalidJSON as error:
        raise BadInput(f"The body is no sound JSON. {error}") from error


def as_json(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`data` as JSON for any reader: ASCII, so that half a character of a model passes, and null
    for a number that is beyond all floats (its exact text stands beside it)."""
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(data))
    return Response(text, status, headers, "application/json")


def _finite(data: Any) -> Any:
    match data:
        case float() if not math.isfinite(data):
            return None
        case dict():
            return {key: _finite(value) for key, value in data.items()}
        case list() | tuple():
            return [_finite(value) for value in data]
    return data


def answer(request: Request, data: Any, *, status: int = 200, location: str = "") -> Response:
    """Say that it is done, in the way the asker wants it."""
    match wants(request):
        case "json":
            headers = {"Location": location} if status == 201 and location else None
            return as_json(data, status, headers)
        case "htmx" if location:
            return Response(status_code=200, headers={"HX-Redirect": location})
        case "htmx":
            return Response(status_code=204)
        case _:
            return RedirectResponse(location or request.url.path, 303)
