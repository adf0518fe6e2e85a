from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from starlette.datastructures import FormData, Headers, UploadFile

from playground.core.errors import BadInput
from playground.core.tools import Content, image_type
from playground.schema import strict_json
from playground.web.forms import MOST_BYTES, MOST_IMAGES, Body, images_of, json_of
from playground.web.guard import MAX_BODY

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)
BIG = PNG.ljust(MOST_BYTES, b"\0")


def image_json(raw: bytes, media_type: str = "image/png") -> dict[str, str]:
    return {"media_type": media_type, "data": base64.b64encode(raw).decode()}


def form(*files: tuple[str, bytes]) -> Body:
    uploads: list[tuple[str, str | UploadFile]] = [
        ("images", UploadFile(io.BytesIO(raw), filename=name, size=len(raw), headers=Headers()))
        for name, raw in files
    ]
    return Body({}, FormData(uploads))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"GIF89a\1\0", "image/gif"),
        (b"GIF87a\1\0", "image/gif"),
        (b"", ""),
        (b"RIFF\x10\0\0\0WAVE", ""),
        (b"<svg xmlns='x'><script/></svg>", ""),
        (b"%PDF-1.7", ""),
    ],
)
def test_an_image_is_told_by_its_bytes(data: bytes, kind: str) -> None:
    assert image_type(data) == kind


async def test_images_of_a_script_and_of_a_form() -> None:
    wanted = Content("image", media_type="image/png", data=base64.b64encode(PNG).decode())
    assert await images_of(Body({"images": [image_json(PNG)]})) == (wanted,)
    assert await images_of(form(("", b""), ("dot.png", PNG))) == (wanted,)
    assert await images_of(Body({})) == ()
    (jpeg,) = await images_of(form(("is-called.png", JPEG)))
    assert jpeg.media_type == "image/jpeg"


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        ("x", "must be a list"),
        (["x"], "Image 1 must be an object with media_type and data."),
        ([{"media_type": "image/png"}], "Image 1 must be an object"),
        ([image_json(PNG), image_json(PNG, "image/svg+xml")], "Image 2: media_type must be one of"),
        ([{"media_type": "image/png", "data": 3}], "must be a text in base64"),
        ([{"media_type": "image/png", "data": "%%%"}], "is not base64"),
        (
            [image_json(b"no image at all")],
            "Image 1 is not a PNG, JPEG, WebP or GIF. Convert it first.",
        ),
        ([image_json(JPEG)], "Image 1 is sent as image/png, but its content is image/jpeg."),
        ([image_json(BIG + b"\0")], "Image 1 is larger than 5 MB. Make it smaller."),
        ([image_json(PNG)] * (MOST_IMAGES + 1), "takes 10 images; these are 11."),
        ([image_json(BIG)] * 4 + [image_json(PNG)], "20 MB together; send fewer."),
    ],
)
async def test_a_bad_image_is_refused_with_a_sentence(images: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence.replace("(", r"\(")):
        await images_of(Body({"images": images}))


async def test_as_much_as_is_allowed_passes_the_cap_on_a_body() -> None:
    images = [image_json(BIG)] * 4
    assert len(await images_of(Body({"images": images}))) == 4
    assert sum(len(image["data"]) for image in images) < MAX_BODY * 0.9


@pytest.mark.slow
def test_a_body_with_images_is_read_up_to_the_cap_on_bodies() -> None:
    large = {"text": "x", "images": [image_json(BIG)] * 4}
    raw = json.dumps(large).encode()
    assert strict_json.MAX_BYTES < len(raw) < MAX_BODY
    assert json_of(raw) == large
    with pytest.raises(BadInput, match="more than the 33,554,432 allowed"):
        json_of(b'"' + b"x" * MAX_BODY + b'"')
