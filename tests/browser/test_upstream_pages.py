"""A tap's upstream that answers with a page: its script never runs in the origin of our pages.

Its script reads the sessions and decides the call that waits, as a user of the page could.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Route, expect

from tests.browser.serving import Server
from tests.browser.tab import WAIT_MS

SCRIPT = """
document.title = "ran";
const headers = {"content-type": "application/json", accept: "application/json"};
fetch("/sessions/SESSION", {headers}).then(async (answer) => {
  const {id, digest} = (await answer.json()).calls[0];
  const decision = JSON.stringify({decision: "run", digest});
  const options = {method: "POST", headers, body: decision};
  const decided = await fetch(`/sessions/SESSION/calls/${id}/decision`, options);
  document.title = `read ${answer.status}, decided ${decided.status}`;
});
"""
PAGE = f"""<!doctype html><title>loaded</title>
<p>words of the upstream</p>
<script>{SCRIPT}</script>
<img src=x onerror="document.title = 'handled'">
<iframe srcdoc="<script>parent.document.title = 'framed'</script>"></iframe>
<a id=out target=_blank href="/sessions">out</a>
<form method=post action="/sessions/SESSION/prompts"><button name=text value=x>send</button></form>
"""
REFRESH = "<meta http-equiv=refresh content='0; url=/sessions'>"

EMBEDDING = """<!doctype html><title>loaded</title>
<iframe src="AT"></iframe><img src="AT"><object data="AT"></object><embed src="AT">
<link rel=stylesheet href="AT"><script src="AT"></script><audio src="AT"></audio>
<link rel=prefetch href="AT"><script type=module src="AT"></script>
<script>
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.src = "AT";
  fetch("AT", {mode: "no-cors"}).catch(() => {});
  fetch("AT", {mode: "no-cors", method: "POST", body: "{}"}).catch(() => {});
  navigator.sendBeacon("AT", "{}");
  new WebSocket("AT".replace("http", "ws"));
  addEventListener("load", () => setTimeout(() => { document.title = "done"; }));
</script>"""


class Upstream:
    """A server that answers everything by `page`; `asked` are the heads of what came."""

    def __init__(self) -> None:
        self.page = ""
        self.asked: list[str] = []
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                upstream.asked.append(f"{self.requestline}\n{self.headers}")
                body = upstream.page.encode()
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.send_header("set-cookie", "planted=1; path=/")
                self.send_header("service-worker-allowed", "/")
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def upstream_at_work() -> Iterator[Upstream]:
    upstream = Upstream()
    thread = threading.Thread(target=upstream.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.server.shutdown()
        upstream.server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with upstream_at_work() as upstream:
        yield upstream


@pytest.fixture
def context(browser: Browser, server: Server) -> Iterator[BrowserContext]:
    """A window in which the user is logged in."""
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    context.request.get(server.link)
    yield context
    context.close()


@pytest.fixture
def address(server: Server, upstream: Upstream) -> str:
    """The address of a tap that leads to `upstream`."""
    upstream.asked.clear()
    profile = {"name": "pages", "protocol": "openai_chat", "base_url": f"{upstream.url}/v1"}
    server.post("/providers", profile)
    tap = server.post("/taps", {"upstream": "pages"})
    return f"{tap['urls']['openai']}/models"


def waiting_session(server: Server) -> str:
    """A session with a call that waits for a user."""
    session_id = server.session("What is 2 + 2? Use the calculator.")
    server.comes_to(session_id, "waiting")
    return session_id


def test_the_address_of_a_tap_is_refused_where_it_is_opened(
    context: BrowserContext, server: Server, upstream: Upstream, address: str
) -> None:
    session_id = waiting_session(server)
    upstream.page = PAGE.replace("SESSION", session_id) + REFRESH
    page = context.new_page()
    response = page.goto(address)
    assert response is not None
    assert response.status == 403
    expect(page.locator("body")).to_contain_text("This address is only for agents")
    assert upstream.asked == []
    assert server.get_session(session_id)["state"] == "waiting"


def test_nothing_that_another_page_embeds_reaches_the_upstream(
    context: BrowserContext, server: Server, upstream: Upstream, address: str
) -> None:
    """A page elsewhere that knows the address: frames, images, scripts, styles, sockets."""
    with upstream_at_work() as elsewhere:
        elsewhere.page = EMBEDDING.replace("AT", address)
        page = context.new_page()
        page.goto(elsewhere.url.replace("127.0.0.1", "localhost"), wait_until="commit")
        expect(page).to_have_title("done")
    assert upstream.asked == []
    for frame in page.frames[1:]:
        assert "words of the upstream" not in frame.content()


def test_nothing_that_our_own_page_embeds_reaches_the_upstream(
    context: BrowserContext, server: Server, upstream: Upstream, address: str
) -> None:
    """Whatever might get into a page of ours: its policy allows scripts and images from here."""
    page = context.new_page()
    page.goto(f"{server.url}/sessions")
    loaded = page.evaluate(
        """async (at) => {
          const load = (name, more) => new Promise((done) => {
            const element = Object.assign(document.createElement(name), more);
            element.onload = () => done(name);
            element.onerror = () => done("");
            document.head.append(element);
          });
          const fetched = (method) => fetch(at, {method}).then((got) => got.ok ? method : "");
          const worker = navigator.serviceWorker.register(at).then(() => "worker", () => "");
          return Promise.all([
            load("script", {src: at}), load("img", {src: at}),
            load("link", {rel: "stylesheet", href: at}), fetched("GET"), fetched("POST"), worker,
          ]);
        }""",
        address,
    )
    assert loaded == [""] * 6
    assert upstream.asked == []


def as_an_old_browser(context: BrowserContext, address: str, without: str = "") -> None:
    """Requests for `address` say nothing of what they are for, and bear no cookie. The answer is
    shown as it came, but for the header `without`."""

    def answer(route: Route) -> None:
        got = httpx.get(address, headers={"accept": "text/html"}, trust_env=False)
        headers = {name: value for name, value in got.headers.items() if name != without}
        route.fulfill(status=got.status_code, headers=headers, body=got.content)

    context.route(address, answer)


def test_a_page_that_passes_runs_no_script_and_goes_nowhere(
    context: BrowserContext, server: Server, upstream: Upstream, address: str
) -> None:
    """Where a browser does not say what it asks for, the page is shown, sandboxed."""
    session_id = waiting_session(server)
    upstream.page = PAGE.replace("SESSION", session_id) + REFRESH
    as_an_old_browser(context, address)
    page = context.new_page()
    answered: list[str] = []
    context.on("response", lambda response: answered.append(response.url))
    page.goto(address)
    page.locator("#out").click()
    page.locator("button").click()
    expect(page.locator("p")).to_have_text("words of the upstream")
    expect(page).to_have_title("loaded")
    assert answered == [address]
    assert len(upstream.asked) == 1
    assert "planted" not in {cookie.get("name") for cookie in context.cookies()}
    assert server.get_session(session_id)["state"] == "waiting"


def test_without_its_policy_such_a_page_acts_as_the_user(
    context: BrowserContext, server: Server, upstream: Upstream, address: str
) -> None:
    """What the test before is about: its page would do harm."""
    session_id = waiting_session(server)
    upstream.page = PAGE.replace("SESSION", session_id)
    as_an_old_browser(context, address, without="content-security-policy")
    page = context.new_page()
    page.goto(address)
    expect(page).to_have_title("read 200, decided 200")


def test_a_page_that_passes_is_shown_in_no_frame(
    context: BrowserContext, server: Server, upstream: Upstream, address: str
) -> None:
    upstream.page = PAGE
    as_an_old_browser(context, address)
    with upstream_at_work() as elsewhere:
        elsewhere.page = f'<title>loaded</title><iframe src="{address}"></iframe>'
        page = context.new_page()
        page.goto(elsewhere.url)
    assert len(upstream.asked) == 1
    assert "words of the upstream" not in page.frames[1].content()
