"""An image is what begins like one."""

from __future__ import annotations

import base64

import pytest

from playground.executors.executor import image_content


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89arest", "image/gif"),
        (b"RIFF\0\0\0\0WEBPrest", "image/webp"),
        (b"RIFF\0\0\0\0WAVErest", ""),
        (b"<svg></svg>", ""),
        (b"", ""),
    ],
)
def test_image(data: bytes, kind: str) -> None:
    content = image_content(data)
    assert (content.media_type if content else "") == kind
    if content:
        assert (content.type, base64.b64decode(content.data)) == ("image", data)
