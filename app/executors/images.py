"""Images among results: told by their first bytes, never by a name. Looks no further inside."""

from __future__ import annotations

import base64

from app.core.tools import Content


def image(data: bytes) -> Content | None:
    """`data` as the image that its first bytes say it is: PNG, JPEG, GIF, WebP; else None."""
    match data[:12]:
        case head if head.startswith(b"\x89PNG\r\n\x1a\n"):
            kind = "image/png"
        case head if head.startswith(b"\xff\xd8\xff"):
            kind = "image/jpeg"
        case head if head.startswith((b"GIF87a", b"GIF89a")):
            kind = "image/gif"
        case head if head[:4] == b"RIFF" and head[8:] == b"WEBP":
            kind = "image/webp"
        case _:
            return None
    return Content("image", media_type=kind, data=base64.b64encode(data).decode("ascii"))
