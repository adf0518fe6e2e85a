"""The images of a prompt or an answer: what came in is judged by its bytes, never by its name.

Knows forms and JSON bodies; what a provider takes beyond this is the provider's to say.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.datastructures import UploadFile

from app.core.errors import BadInput
from app.core.tools import Content
from app.web.forms import Body

MOST_IMAGES = 10
MOST_BYTES = 5 * 1024 * 1024
MOST_TOGETHER = 20 * 1024 * 1024
"""So that ten of them, in base64, still pass the cap on a body."""

_A = {"prompt": "A prompt", "answer": "An answer"}

KINDS = ("image/png", "image/jpeg", "image/webp", "image/gif")


async def images_of(body: Body, what: str = "prompt") -> tuple[Content, ...]:
    """The images that came with `what`; BadInput with the number of the one that is no good."""
    raws = await asyncio.to_thread(_of_json, body) if body.is_json else await _of_form(body)
    return await asyncio.to_thread(_judged, raws, what) if raws else ()


def _judged(raws: Sequence[tuple[bytes, str]], what: str) -> tuple[Content, ...]:
    """Done in a thread, as all that touches megabytes."""
    if len(raws) > MOST_IMAGES:
        raise BadInput(f"{_A[what]} takes {MOST_IMAGES} images; these are {len(raws)}.")
    images = [_checked(raw, told, place) for place, (raw, told) in enumerate(raws, 1)]
    if sum(len(raw) for raw, _ in raws) > MOST_TOGETHER:
        raise BadInput(
            f"The images of {_A[what].lower()} may have {MOST_TOGETHER >> 20} MB together; "
            "send fewer."
        )
    return tuple(images)


def media_type(data: bytes) -> str:
    """What an image is by its first bytes, or "" where it is none that models read."""
    match data[:12]:
        case head if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return "image/png"
        case head if head.startswith(b"\xff\xd8\xff"):
            return "image/jpeg"
        case head if head[:4] == b"RIFF" and head[8:] == b"WEBP":
            return "image/webp"
        case head if head[:6] in (b"GIF87a", b"GIF89a"):
            return "image/gif"
    return ""


async def _of_form(body: Body) -> list[tuple[bytes, str]]:
    """The files of a form; a field that was left empty sends one without a name."""
    assert body.form is not None
    files = [one for one in body.form.getlist("images") if isinstance(one, UploadFile)]
    return [(await file.read(), "") for file in files if file.filename or file.size]


def _of_json(body: Body) -> list[tuple[bytes, str]]:
    listed = body.data.get("images", [])
    if not isinstance(listed, list):
        raise BadInput('images must be a list of {"media_type", "data"}.')
    return [_decoded(one, place) for place, one in enumerate(listed, 1)]


def _decoded(one: Any, place: int) -> tuple[bytes, str]:
    if not isinstance(one, Mapping) or one.keys() != {"media_type", "data"}:
        raise BadInput(f"Image {place} must be an object with media_type and data.")
    told, data = one["media_type"], one["data"]
    if told not in KINDS:
        raise BadInput(f"Image {place}: media_type is one of {', '.join(KINDS)}.")
    if not isinstance(data, str):
        raise BadInput(f"Image {place}: data must be a text in base64.")
    try:
        return base64.b64decode(data, validate=True), told
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"Image {place}: data is no base64 ({error}).") from error


def _checked(raw: bytes, told: str, place: int) -> Content:
    kind = media_type(raw)
    if len(raw) > MOST_BYTES:
        raise BadInput(f"Image {place} is larger than {MOST_BYTES >> 20} MB; make it smaller.")
    if not kind:
        raise BadInput(f"Image {place} is no PNG, JPEG, WebP or GIF; convert it first.")
    if told and told != kind:
        raise BadInput(f"Image {place} is said to be {told}, but its bytes are {kind}.")
    return Content("image", media_type=kind, data=base64.b64encode(raw).decode("ascii"))
