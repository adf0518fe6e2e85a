"""What the guard answers by itself: a status, one sentence, and three ways of telling it.

Knows nothing of requests. The page stands on its own, for no template can be counted on here.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass

MAX_BODY = 32 * 1024 * 1024
"""Bytes of a body, where a route takes files, images, tools or the arguments of calls."""

SMALL_BODY = 1024 * 1024
"""Bytes of any other body."""

METHODS = ("GET", "HEAD", "POST")

TITLES: Mapping[int, str] = {
    401: "This page needs its key",
    404: "Not found",
    500: "Something went wrong",
}

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/static/app.css">
<main class="notice">
<h1>{title}</h1>
<p role="alert">{sentence}</p>
<p><a href="{again}">Try again</a></p>
</main>
</html>
"""


@dataclass(frozen=True)
class Reply:
    """An answer the guard gives itself. `sentence` is for the person, `to_programs` for scripts."""

    status: int
    sentence: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    error_id: str = ""
    to_programs: str = ""

    def json(self) -> str:
        data = {"error": self.to_programs or self.sentence}
        if self.error_id:
            data["id"] = self.error_id
        return json.dumps(data)

    def fragment(self) -> str:
        """For htmx, which swaps it into a page that stands already."""
        return f'<p class="notice" role="alert">{html.escape(self.sentence)}</p>'

    def page(self, again: str) -> str:
        """A whole page. `again` is the path its link leads to.

        The cookie is SameSite=Strict: it may be missing after a link from elsewhere, and comes
        with a click on a page of our own.
        """
        return PAGE.format(
            title=TITLES.get(self.status, "Refused"),
            sentence=html.escape(self.sentence),
            again=html.escape(again),
        )


CLOSE = ((b"connection", b"close"),)

HEALTHY = Reply(200, "ok")
OPEN_LINK = "Open the link that the terminal printed, or reload this page if you have just done so."
SEND_TOKEN = "Send `Authorization: Bearer TOKEN` once; the token is in the link that was printed."
NO_CREDENTIAL = Reply(401, OPEN_LINK, ((b"www-authenticate", b"Bearer"),), to_programs=SEND_TOKEN)
BIG_HEAD = Reply(
    431,
    "The request's headers are too large; clear the cookies of this address, or send fewer.",
    CLOSE,
)
BAD_LENGTH = Reply(400, "Content-Length is no number; send it right.", CLOSE)
BAD_HOST = Reply(421, "This address is not served here; open the link that the terminal printed.")
BAD_METHOD = Reply(405, "Use GET or POST.", ((b"allow", ", ".join(METHODS).encode()),))
FOREIGN = Reply(403, "This request came from another site; use the page itself.")
NO_ORIGIN = Reply(
    403, "This request does not say where it came from; send the token as a Bearer header."
)
NOT_FOUND = Reply(404, "There is no such page; start again at the first page.")


def big_body(most: int) -> Reply:
    """To a body of more than `most` bytes."""
    # No "connection: close" here: the rest of the body is still on its way, and closing on it
    # resets the connection before the other side has read a word. The server discards it instead.
    return Reply(413, f"The body is larger than {most >> 20} MiB; send less at once.")
