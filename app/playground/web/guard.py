"""The guard: one ASGI middleware around the whole app, so that no route can forget a check.

Order: size of headers, Host, method, Origin and Sec-Fetch-Site, credential, size of body, app. It
checks `scope["path"]`, which is what is routed, and knows no route by itself except /healthz,
/static and the simulator's prefix. If a target has an authority of its own
(`GET http://other/x`), the server adds it as a Host (`commands/sockets`): one that differs makes
two, which are refused. Threats 1 to 6, 10, 28, 32 and 34 of docs/safety.md.
"""

from __future__ import annotations

import html
import json
import logging
import re
import secrets
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from urllib.parse import quote, unquote_plus

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.config import one_line
from playground.core.errors import BadInput, NotFound
from playground.net.isolation import HARDENING, ISOLATED, POLICY, is_for_browsers

# The guard's own replies: a status, a sentence, and three formats. The page uses no template,
# because templates may be unavailable here.

MAX_BODY = 32 * 1024 * 1024
"""Bytes of a body, for routes that accept files, images, tools or the arguments of calls."""

SMALL_BODY = 1024 * 1024
"""Bytes of any other body."""

METHODS = ("GET", "HEAD", "POST")

TITLES: Mapping[int, str] = {
    401: "Access token required",
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

CODES = {
    401: "unauthorized",
    403: "forbidden",
    404: NotFound.error_code,
    405: "method_not_allowed",
    413: "too_large",
    421: "wrong_host",
    431: "too_large",
    500: "internal",
}

CLOSE = ((b"connection", b"close"),)

OPEN_LINK = "Open the link printed in the terminal. If you just did, reload this page."
SEND_TOKEN = "Send `Authorization: Bearer TOKEN` once; the token is in the printed link."

MAX_HEAD = 32 * 1024
SAFE = ("GET", "HEAD")

ODD_PATH = re.compile(r"//|/\.{1,2}(/|$)|[\\\x00-\x1f\x7f]")
"""A path that another program may interpret differently. None of our paths is like this."""

logger = logging.getLogger("playground")

Headers = Sequence[tuple[bytes, bytes]]

SECURITY_HEADERS: Mapping[bytes, bytes] = {
    POLICY: (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    **HARDENING,
}

FRAMED = (POLICY, b"frame-ancestors 'self'")
"""A page that our own pages may frame: the column of one session."""

FRAMES = (POLICY, b"frame-src 'self'")
"""A page that frames our own pages: sessions side by side."""


def code_of(status: int) -> str:
    """The error code of an HTTP-level refusal."""
    return CODES.get(status, BadInput.error_code)


@dataclass(frozen=True)
class Reply:
    """The guard's own reply. `sentence` is for the user, `to_programs` for scripts; `media_type` is
    that of a reply that is not an error."""

    status: int
    sentence: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    error_id: str = ""
    to_programs: str = ""
    media_type: str = "text/plain"

    def json(self) -> str:
        data = {"error": self.to_programs or self.sentence, "code": code_of(self.status)}
        if self.error_id:
            data["id"] = self.error_id
        return json.dumps(data)

    def fragment(self) -> str:
        """For htmx, which swaps it into an existing page."""
        return f'<p class="notice" role="alert">{html.escape(self.sentence)}</p>'

    def page(self, again: str) -> str:
        """A whole page. `again` is the path its link leads to.

        The cookie is SameSite=Strict: it may be missing after a link from another site, and is sent
        with a click on a page of our own.
        """
        return PAGE.format(
            title=TITLES.get(self.status, "Refused"),
            sentence=html.escape(self.sentence),
            again=html.escape(again),
        )


HEALTHY = Reply(200, "ok")
NO_CREDENTIAL = Reply(401, OPEN_LINK, ((b"www-authenticate", b"Bearer"),), to_programs=SEND_TOKEN)
BIG_HEAD = Reply(
    431,
    "The request headers are too large. Clear the cookies of this address, or send fewer.",
    CLOSE,
)
BAD_LENGTH = Reply(400, "Content-Length is not a number.", CLOSE)
BAD_HOST = Reply(421, "This host name is not served here. Open the link printed in the terminal.")
BAD_METHOD = Reply(405, "Use GET or POST.", ((b"allow", ", ".join(METHODS).encode()),))
FOREIGN = Reply(403, "This request came from another site. Use the page itself.")
NO_ORIGIN = Reply(403, "This request has no origin. Send the token as a Bearer header.")
NOT_FOUND = Reply(404, "There is no such page. Go back to the first page.")


def big_body(most: int) -> Reply:
    """The reply to a body of more than `most` bytes."""
    # No "connection: close" here: the rest of the body is still being sent, and closing would reset
    # the connection before the client has read the reply. The server discards it instead.
    return Reply(413, f"The body is larger than {most >> 20} MiB; send less at once.")


class GuardedRequest:
    """The request's headers, with every occurrence of each."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self._headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.size = len(scope.get("raw_path") or self.path) + len(self.query)
        self.size += sum(len(name) + len(value) for name, value in self._headers)

    def getlist(self, name: bytes) -> list[bytes]:
        return [value.strip() for key, value in self._headers if key.lower() == name]

    @cached_property
    def odd(self) -> bool:
        return not self.path.startswith("/") or ODD_PATH.search(self.path) is not None

    def is_below(self, prefix: str) -> bool:
        return not self.odd and (self.path == prefix or self.path.startswith(prefix + "/"))

    @property
    def navigates(self) -> bool:
        """A top-level navigation, such as a link: only the user reads the response."""
        return (
            self.method in SAFE
            and self.getlist(b"sec-fetch-mode") == [b"navigate"]
            and self.getlist(b"sec-fetch-dest") in ([], [b"document"])
        )

    @property
    def foreign(self) -> bool:
        """The request was started by another site or a file."""
        own = (b"same-origin", b"none")
        return any(site not in own for site in self.getlist(b"sec-fetch-site"))

    @property
    def scripted(self) -> bool:
        """Requests JSON, or comes from a program."""
        kinds = b", ".join([*self.getlist(b"accept"), *self.getlist(b"content-type")])
        return b"application/json" in kinds or bool(self.getlist(b"authorization"))

    def link_tokens(self) -> list[bytes]:
        return [value for name, value in self._pairs() if name == "token"]

    def without_token(self) -> str:
        """Path and query without `token`; always a path of this server."""
        left = [
            pair
            for pair, (name, _) in zip(self.query.split("&"), self._pairs(), strict=True)
            if pair and name != "token"
        ]
        query = quote("&".join(left), safe="%&=+:/?@!$'()*,;-._~")
        return quote(self.path, safe="/:@!$&'()*+,;=-._~") + (f"?{query}" if query else "")

    def _pairs(self) -> list[tuple[str, bytes]]:
        split = [pair.partition("=") for pair in self.query.split("&")]
        return [(unquote_plus(name), unquote_plus(value).encode()) for name, _, value in split]


class Guard:
    """`token` None disables the credential check only; `port` is called at each request, because a
    free port is known only once the server listens.

    `allow_hosts` are additional host names besides the loopback ones, with an optional port.
    `body_limit` returns the maximum body size in bytes of a request. `mask`, then `printable` are
    applied to everything that is logged.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        port: Callable[[], int],
        allow_hosts: Sequence[str] = (),
        sim_prefix: str = "/sim",
        body_limit: Callable[[Scope], int] = lambda scope: MAX_BODY,
        mask: Callable[[str], str] = str,
        printable: Callable[[str], str] = one_line,
    ) -> None:
        if token == "":
            raise BadInput("The token is empty. Set another, or use --no-token.")
        self._app = app
        self._token = None if token is None else token.encode()
        self._port = port
        self._allow_hosts = tuple(allow_hosts)
        self._sim = sim_prefix
        self._body_limit = body_limit
        self._mask = mask
        self._printable = printable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                asked = GuardedRequest(scope)
                answering = _GuardedResponse(
                    send, static=asked.is_below("/static"), foreign=asked.is_below(self._sim)
                )
                reply = self._reply(asked, scope)
                if reply is not None:
                    await _send_reply(answering, asked, reply, as_json=self._wants_json(asked))
                else:
                    await self._run_app(scope, receive, answering, asked)
            case "websocket":  # not supported: closing before accepting refuses the handshake
                await send({"type": "websocket.close", "code": 1008})
            case _:
                await self._app(scope, receive, send)

    def _wants_json(self, asked: GuardedRequest) -> bool:
        return asked.scripted or asked.is_below(self._sim)

    # --- the checks, in their order ---------------------------------------------------------

    def _reply(self, asked: GuardedRequest, scope: Scope) -> Reply | None:
        """The guard's own reply; None lets the request in."""
        if asked.size > MAX_HEAD:
            return BIG_HEAD
        host = self._host(asked)
        if host is None:
            return BAD_HOST
        if asked.method not in METHODS:
            return BAD_METHOD
        if not self._is_own_origin(asked, host):
            return FOREIGN
        if asked.method in SAFE and asked.path == "/healthz":
            return HEALTHY
        return self._credential_reply(asked) or _body_reply(asked, self._body_limit(scope))

    def is_own_host(self, host: bytes) -> bool:
        """Whether a Host is exactly one of ours."""
        return host.lower().decode("latin-1") in {*self._loopback_hosts(), *self._named_hosts()}

    def _host(self, asked: GuardedRequest) -> str | None:
        """The Host, if it is exactly one of ours."""
        hosts = asked.getlist(b"host")
        if len(hosts) != 1 or not self.is_own_host(hosts[0]):
            return None
        return hosts[0].lower().decode("latin-1")

    def _loopback_hosts(self) -> Iterable[str]:
        return _with_port(("127.0.0.1", "localhost", "[::1]"), self._port())

    def _named_hosts(self) -> Iterable[str]:
        return _with_port((name.lower() for name in self._allow_hosts), self._port())

    def _is_own_origin(self, asked: GuardedRequest, host: str) -> bool:
        """Whether each of Origin and Sec-Fetch-Site, if sent, identifies one of our pages."""
        own = {f"http://{host}"}
        if host in self._named_hosts():  # a name may denote a proxy that speaks TLS
            own.add(f"https://{host}")
        if any(origin.decode("latin-1") not in own for origin in asked.getlist(b"origin")):
            return False
        return not asked.foreign or asked.navigates

    def _credential_reply(self, asked: GuardedRequest) -> Reply | None:
        if asked.method in SAFE and asked.is_below("/static"):
            return None
        simulated = asked.is_below(self._sim)
        tokens = asked.link_tokens() if asked.method == "GET" and not simulated else []
        if tokens:
            return self._link_reply(asked, tokens)
        if self._token is not None and not self._is_valid(self._credentials(asked, simulated)):
            return NO_CREDENTIAL
        headers = (
            asked.getlist(b"origin")
            + asked.getlist(b"sec-fetch-site")
            + asked.getlist(b"authorization")
        )
        if asked.method not in SAFE and not headers and not simulated:
            return NO_ORIGIN
        return NOT_FOUND if asked.odd else None

    def _link_reply(self, asked: GuardedRequest, tokens: list[bytes]) -> Reply:
        """Exchanges the printed link for the cookie, and removes the token from the address bar."""
        if self._token is not None and not self._is_valid([tokens]):
            return NO_CREDENTIAL
        if asked.odd:
            return NOT_FOUND
        there = asked.without_token().encode("ascii")
        # A redirect counts as a continuation of the navigation from another site, so the browser
        # would withhold the strict cookie; a page with a refresh starts a navigation of our own.
        led = (b"refresh", b"0; url=" + there) if asked.foreign else (b"location", there)
        headers = [led]
        if self._token is not None:
            cookie = self._cookie_name() + b"=" + self._token
            headers.append((b"set-cookie", cookie + b"; HttpOnly; SameSite=Strict; Path=/"))
        status = 200 if asked.foreign else 303
        # A page, because what is none is sandboxed, and refreshes nothing.
        moved = "The page has moved."
        return Reply(status, moved, tuple(headers), media_type="text/html")

    def _credentials(self, asked: GuardedRequest, simulated: bool) -> list[list[bytes]]:
        """The presented credentials, one list per kind."""
        bearers = [_bearer(value) for value in asked.getlist(b"authorization")]
        if simulated:  # the key is in the header that the protocol uses
            return [bearers, asked.getlist(b"x-api-key"), asked.getlist(b"x-goog-api-key")]
        crumbs = [crumb for value in asked.getlist(b"cookie") for crumb in value.split(b";")]
        pairs = [crumb.strip().partition(b"=") for crumb in crumbs]
        return [bearers, [value for name, _, value in pairs if name == self._cookie_name()]]

    def _is_valid(self, credentials: list[list[bytes]]) -> bool:
        """Whether there is one, none is repeated, and each is right."""
        presented = [value for values in credentials for value in values]
        right = [secrets.compare_digest(value, self._token or b"") for value in presented]
        return bool(right) and all(right) and all(len(values) <= 1 for values in credentials)

    def _cookie_name(self) -> bytes:
        return b"playground_%d" % self._port()

    # --- the app, watched -------------------------------------------------------------------

    async def _run_app(
        self, scope: Scope, receive: Receive, answering: _GuardedResponse, asked: GuardedRequest
    ) -> None:
        most = self._body_limit(scope)
        counted = _BodyCounter(receive, answering, most)
        reply = None
        try:
            await self._app(scope, counted, answering)
        except ClientDisconnect:
            return
        except Exception as error:
            # The server must see no traceback of any kind: its log would not redact it.
            if not counted.too_large:
                reply = self._internal_error(error, asked)
        if counted.too_large:
            reply = big_body(most)
        if reply is None:
            await answering.release()
        elif not answering.started:
            await _send_reply(answering, asked, reply, as_json=self._wants_json(asked))

    def _internal_error(self, error: Exception, asked: GuardedRequest) -> Reply:
        """Logs the traceback, and gives the user an id."""
        error_id = secrets.token_hex(4)
        text = "".join(traceback.format_exception(error))
        words = f"error {error_id}: {asked.method} {asked.path}\n{text}"
        logger.error(self._printable(self._mask(words)))
        sentence = f"Internal error. Look for {error_id} in the log, then reload."
        return Reply(500, sentence, error_id=error_id)


class _GuardedResponse:
    """A response being sent: adds the guard's headers, and records whether it has begun.

    A 500 is held back until the app has returned, because it may be followed by an exception, which
    gets the guard's own page. `muted` drops the app's output.
    """

    def __init__(self, send: Send, *, static: bool, foreign: bool) -> None:
        self.started = False
        self.muted = False
        self._kept: list[Message] = []
        self._send = send
        self._harden = partial(harden_headers, static=static, foreign=foreign)

    async def __call__(self, message: Message) -> None:
        begins = message["type"] == "http.response.start"
        if self.muted and not self.started:
            return
        if self._kept or (begins and message["status"] == 500):
            self._kept.append(message)
            return
        await self.pass_on(message)

    async def release(self) -> None:
        messages, self._kept = self._kept, []
        for message in messages:
            await self.pass_on(message)

    async def pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message = {**message, "headers": self._harden(message.get("headers", ()))}
        await self._send(message)


class _BodyCounter:
    """Counts the request body. Beyond the limit the app gets an exception, and the user a 413."""

    def __init__(self, receive: Receive, answering: _GuardedResponse, most: int) -> None:
        self.too_large = False
        self._most = most
        self._receive = receive
        self._answering = answering
        self._size = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > self._most:
            self.too_large = self._answering.muted = True
            raise HTTPException(413, big_body(self._most).sentence)
        return message


def _with_port(names: Iterable[str], port: int) -> Iterable[str]:
    """Each name as a browser writes it in Host: without the default port of the scheme."""
    for name in names:
        if name.count(":") > 1 and not name.startswith("["):
            name = f"[{name}]"
        named = name if re.fullmatch(r"(\[.*\]|[^:]*):\d+", name) else f"{name}:{port}"
        yield named
        yield re.sub(":(80|443)$", "", named)


def _bearer(value: bytes) -> bytes:
    scheme, _, token = value.partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _body_reply(asked: GuardedRequest, most: int) -> Reply | None:
    lengths = asked.getlist(b"content-length")
    if any(not re.fullmatch(rb"\d{1,18}", length) for length in lengths):
        return BAD_LENGTH
    return big_body(most) if any(int(length) > most for length in lengths) else None


async def _send_reply(
    answering: _GuardedResponse, asked: GuardedRequest, reply: Reply, *, as_json: bool
) -> None:
    """Sends `reply`: as JSON to programs, as a fragment to htmx, as a page to browsers."""
    if reply.status < 400:
        kind, body = reply.media_type, reply.sentence
    elif as_json:
        kind, body = "application/json", reply.json()
    elif asked.getlist(b"hx-request"):
        kind, body = "text/html", reply.fragment()
    else:
        kind, body = "text/html", reply.page("/" if asked.odd else asked.without_token())
    sent = body.encode()
    headers = [
        (b"content-type", f"{kind}; charset=utf-8".encode()),
        (b"content-length", str(len(sent)).encode()),
        *reply.headers,
    ]
    start = {"type": "http.response.start", "status": reply.status, "headers": headers}
    await answering.pass_on(start)
    rest = b"" if asked.method == "HEAD" else sent
    await answering.pass_on({"type": "http.response.body", "body": rest})


# The headers of every response. A page can request one of two changes by a policy that consists of
# that directive alone: to be framed by our own pages, or to frame them. All other security headers
# of a page are dropped. What is no page of ours is isolated: files, images, recorded bytes, data
# for scripts, and whatever the simulator says. Threats 6 and 10 of docs/safety.md.


def as_text(header: tuple[bytes, bytes]) -> dict[str, str]:
    """One of the above in the form that a response takes."""
    name, value = header
    return {name.decode(): value.decode()}


def harden_headers(
    headers: Headers, *, static: bool = False, foreign: bool = False
) -> list[tuple[bytes, bytes]]:
    """The headers as sent: the app's own, overridden by ours. `foreign`: the answer is the
    simulator's, of whose headers those for browsers are dropped."""
    ours = dict(SECURITY_HEADERS)
    if not static:
        ours[b"cache-control"] = b"no-store"
    if FRAMES in headers:
        ours[POLICY] += b"; frame-src 'self'"
    if FRAMED in headers:
        ours[POLICY] = ours[POLICY].replace(b"frame-ancestors 'none'", b"frame-ancestors 'self'")
        ours[b"x-frame-options"] = b"SAMEORIGIN"
    if foreign:
        ours |= {POLICY: ISOLATED, **HARDENING}
    elif not (static or _is_page(headers)):
        ours |= {POLICY: ISOLATED + b"; frame-ancestors 'none'", **HARDENING}
    theirs = [
        (name, value)
        for name, value in headers
        if name.lower() not in ours
        and not name.lower().startswith(b"access-control-")
        and not (foreign and is_for_browsers(name.lower()))
    ]
    return [*theirs, *ours.items()]


def _is_page(headers: Headers) -> bool:
    """Whether it is HTML to be shown. Only our templates make any; HTML of others, such as a shared
    session, is a file to be saved."""
    named = {name.lower(): value.strip().lower() for name, value in headers}
    is_file = named.get(b"content-disposition", b"").startswith(b"attachment")
    return named.get(b"content-type", b"").startswith(b"text/html") and not is_file
