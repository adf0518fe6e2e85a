"""Parses request bodies, and answers in one of three formats: JSON, htmx or a plain page.

A script (JSON body, Accept or a bearer token) gets JSON; htmx gets nothing, because the stream
delivers the changes; a form without script gets a redirect to a page that shows the change.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from playground.core.errors import BadInput
from playground.core.tools import IMAGES, Content, image_type
from playground.protocols.raw_json import JsonText
from playground.schema import strict_json
from playground.web.guard import MAX_BODY

LARGE = 64 * 1024
"""Bytes of a body above which it is parsed in a thread."""

MOST_FIELDS = 5_000
"""The limit of a form; the import page has a few for each of many tools."""

MOST_KEYS = 200_000
"""The limit of a JSON body: enough for a library of tools, more than a call's arguments."""

AnswerFormat = Literal["json", "htmx", "page"]

T = TypeVar("T")

MOST_IMAGES = 10
MOST_BYTES = 5 * 1024 * 1024

MOST_TOGETHER = 20 * 1024 * 1024
"""The total size in bytes, so that in base64 they fit the limit of a body."""

_A = {"prompt": "A prompt", "answer": "An answer"}


def answer_format(request: Request) -> AnswerFormat:
    """The format of the answer."""
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
    """Whether to answer with the file itself: unless Accept names JSON, which gets the file with
    notes. A bearer token alone, or `Accept: */*`, does not request JSON."""
    kind = request.headers.get("content-type", "")
    return "application/json" not in request.headers.get("accept", "") + kind


@dataclass(frozen=True)
class Body:
    """The fields of a form or a JSON object. Form values are text; `all` returns repeated ones.

    `quoted` gives the exact text of a JSON body's members.
    """

    data: Mapping[str, Any]
    form: FormData | None = None
    quoted: JsonText | None = None

    @property
    def is_json(self) -> bool:
        return self.form is None

    def text(self, name: str, default: str = "") -> str:
        """A text field; BadInput if a script sent another type."""
        value = self.data.get(name, default)
        if not isinstance(value, str):
            raise BadInput(f"{name} must be a text.")
        return value

    def flag(self, name: str) -> bool:
        """A boolean: a JSON boolean, or a ticked box."""
        value = self.data.get(name, False)
        if isinstance(value, bool):
            return value
        if self.is_json:
            raise BadInput(f"{name} must be true or false.")
        return value in ("true", "on", "1")

    def arguments(self, *path: int, default: T) -> str | T:
        """The field `arguments`, an object or JSON text, exactly as written: digits and order
        matter. `path` leads to its object in a body that is a list."""
        value = self.data.get("arguments", default)
        if isinstance(value, Mapping):
            assert self.quoted is not None
            return self.quoted.member(*path, "arguments")
        if value is default:
            return default
        if not isinstance(value, str):
            raise BadInput("arguments must be an object, or JSON text.")
        return value

    def form_fields(self, form: type) -> dict[str, Any]:
        """The text and checkbox fields that `form`, a dataclass, declares."""
        kinds = {field.name: field.type for field in fields(form)}
        texts = {name: self.text(name) for name, kind in kinds.items() if kind == "str"}
        return texts | {name: self.flag(name) for name, kind in kinds.items() if kind == "bool"}

    def getlist(self, name: str) -> list[str]:
        """Every value of a repeated form field, or a JSON list of texts."""
        if self.form is not None:
            return [value for value in self.form.getlist(name) if isinstance(value, str)]
        value = self.data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BadInput(f"{name} must be a list of texts.")
        return value


async def body_of(request: Request, *, list_as: str = "") -> Body:
    """The body of `request`; an empty one has no fields. BadInput if it is not an object. A route
    that also accepts a bare JSON list gives the field name for it in `list_as`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        sent = await request.form(max_part_size=MAX_BODY, max_fields=MOST_FIELDS)
        request.state.form = sent
        form = _normalize_newlines(sent)
        return Body({key: value for key, value in form.items() if isinstance(value, str)}, form)
    raw = await request.body()
    if not raw.strip():
        return Body({})
    # With images it is large, and must not block other requests.
    value = await asyncio.to_thread(json_of, raw) if len(raw) > LARGE else json_of(raw)
    if list_as and isinstance(value, list):
        return Body({list_as: value})
    if not isinstance(value, dict):
        also = " or a list" if list_as else ""
        raise BadInput(f"The body must be a JSON object{also}.")
    return Body(value, quoted=JsonText(raw.decode("utf-8")))


def _normalize_newlines(form: FormData) -> FormData:
    """`form` with the line ends that the user typed: browsers send each as CR LF."""
    return FormData(
        [
            (name, value.replace("\r\n", "\n") if isinstance(value, str) else value)
            for name, value in form.multi_items()
        ]
    )


class CloseForms:
    """Middleware that closes the files of a form once its request is answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            form = scope.get("state", {}).get("form")
            if form is not None:
                await form.close()


def json_of(raw: bytes) -> Any:
    """The JSON value of a body; BadInput with the place if it is invalid or ambiguous: duplicate
    keys, NaN, lone surrogates and unlimited nesting are refused."""
    try:
        return strict_json.parse(raw.decode("utf-8"), MAX_BODY, MOST_KEYS)
    except UnicodeDecodeError as error:
        raise BadInput(f"The body is not UTF-8: byte {error.start} cannot be read.") from error
    except strict_json.InvalidJSON as error:
        raise BadInput(f"The body is not valid JSON. {error}") from error


def as_json(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`data` as JSON for any reader: ASCII, so that lone surrogates of a model pass, and null for a
    number outside the float range (its exact text is in another member)."""
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError:
        text = json.dumps(_replace_nonfinite(data))
    return Response(text, status, headers, "application/json")


def _replace_nonfinite(data: Any) -> Any:
    match data:
        case float() if not math.isfinite(data):
            return None
        case dict():
            return {key: _replace_nonfinite(value) for key, value in data.items()}
        case list() | tuple():
            return [_replace_nonfinite(value) for value in data]
    return data


def answer(request: Request, data: Any, *, status: int = 200, location: str = "") -> Response:
    """Confirms success in the format of the request."""
    match answer_format(request):
        case "json":
            headers = {"Location": location} if status == 201 and location else None
            return as_json(data, status, headers)
        case "htmx" if location:
            return Response(status_code=200, headers={"HX-Redirect": location})
        case "htmx":
            return Response(status_code=204)
        case _:
            return RedirectResponse(location or request.url.path, 303)


# Images of a prompt or an answer: their type is determined by their bytes, never by their name. A
# provider's own restrictions are checked elsewhere.


async def images_of(body: Body, what: str = "prompt") -> tuple[Content, ...]:
    """The images of `what`; BadInput with the number of an invalid one."""
    raws = await asyncio.to_thread(_json_images, body) if body.is_json else await _form_images(body)
    return await asyncio.to_thread(_check_images, raws, what) if raws else ()


def _check_images(raws: Sequence[tuple[bytes, str]], what: str) -> tuple[Content, ...]:
    """Runs in a thread, like everything that processes megabytes."""
    if len(raws) > MOST_IMAGES:
        raise BadInput(f"{_A[what]} takes {MOST_IMAGES} images; these are {len(raws)}.")
    images = [
        _check_image(raw, media_type, place) for place, (raw, media_type) in enumerate(raws, 1)
    ]
    if sum(len(raw) for raw, _ in raws) > MOST_TOGETHER:
        raise BadInput(
            f"The images of {_A[what].lower()} may have {MOST_TOGETHER >> 20} MB together; "
            "send fewer."
        )
    return tuple(images)


async def _form_images(body: Body) -> list[tuple[bytes, str]]:
    """The files of a form; an empty field sends one without a name."""
    assert body.form is not None
    files = [file for file in body.form.getlist("images") if isinstance(file, UploadFile)]
    return [(await file.read(), "") for file in files if file.filename or file.size]


def _json_images(body: Body) -> list[tuple[bytes, str]]:
    listed = body.data.get("images", [])
    if not isinstance(listed, list):
        raise BadInput('images must be a list of {"media_type", "data"}.')
    return [_decode_image(value, place) for place, value in enumerate(listed, 1)]


def _decode_image(value: Any, place: int) -> tuple[bytes, str]:
    if not isinstance(value, Mapping) or value.keys() != {"media_type", "data"}:
        raise BadInput(f"Image {place} must be an object with media_type and data.")
    media_type, data = value["media_type"], value["data"]
    if media_type not in IMAGES:
        raise BadInput(f"Image {place}: media_type must be one of {', '.join(IMAGES)}.")
    if not isinstance(data, str):
        raise BadInput(f"Image {place}: data must be a text in base64.")
    try:
        return base64.b64decode(data, validate=True), media_type
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"Image {place}: data is not base64 ({error}).") from error


def _check_image(raw: bytes, named_type: str, place: int) -> Content:
    kind = image_type(raw)
    if len(raw) > MOST_BYTES:
        raise BadInput(f"Image {place} is larger than {MOST_BYTES >> 20} MB. Make it smaller.")
    if not kind:
        raise BadInput(f"Image {place} is not a PNG, JPEG, WebP or GIF. Convert it first.")
    if named_type and named_type != kind:
        raise BadInput(f"Image {place} is sent as {named_type}, but its content is {kind}.")
    return Content("image", media_type=kind, data=base64.b64encode(raw).decode("ascii"))
