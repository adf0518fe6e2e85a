"""One connection to one MCP server: opened, asked, closed. Knows nothing of what was accepted.

The SDK's client lives in a task of its own, for it has to be left where it was entered; calls
come from other tasks. A connection that has ended is never opened again, another is made.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from app import __version__
from app.core.errors import PlaygroundError
from app.core.tools import ToolResult, text_result
from app.executors.mcp_results import Listed, asked_for, input_wanted, listed, result_of
from app.executors.mcp_stdio import Words
from app.executors.progress import Progress

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool

MAX_TOOLS = 1000
MAX_PAGES = 100
IDLE_S = 600.0

Transport = Callable[[Words, Callable[[], None]], AbstractAsyncContextManager[Any]]
"""Makes the streams of a connection: told where to put last words, and whom to tell of the end."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class Gone(Exception):
    """The server does not answer; the sentence tells why."""


class Refusal(Exception):
    """The server's own error in place of an answer, as a sentence."""


class Connection:
    """`listed` are the tools as they were listed last, at `listed_at` (the loop's clock); `stale`
    says that the server has told of a change since. `calls` are under way."""

    def __init__(self, transport: Transport, idle_s: float | None = None) -> None:
        self.words = Words()
        self.listed: tuple[Listed, ...] | None = None
        self.listed_at = 0.0
        self.stale = True
        self._calls: list[Progress] = []
        self._transport = transport
        self._idle_s = IDLE_S if idle_s is None else idle_s
        self._loop = asyncio.get_running_loop()
        self._used_at = self._loop.time()
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._given_up = False

    @property
    def open(self) -> bool:
        return self._client is not None

    @property
    def calls(self) -> int:
        return len(self._calls)

    async def connect(self, limit_s: float) -> None:
        """Gone where that does not succeed within `limit_s`, or it was closed before."""
        if self._closing.is_set():
            raise Gone("The connection was closed.")
        self._task = asyncio.create_task(self._live())
        try:
            async with asyncio.timeout(limit_s):
                await self._first(self._ready.wait())
        except TimeoutError:
            self.words.fault = (
                f"The server did not answer within {limit_s:g} s of its start (initialize). Run"
                " its command in a terminal to see what it waits for."
            )
            await self.close()
            raise Gone(self.words.fault) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End it, and the server with it where that is a process of ours."""
        self._closing.set()
        task = self._task
        if task is None:
            return
        if not self._ready.is_set() and not self._given_up:
            self._given_up = True  # once: a second one would cut short how it ends
            task.cancel()
        # Shielded: whoever is cancelled here must not leave a server behind.
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)

    async def relist(self, limit_s: float) -> tuple[Listed, ...]:
        """Ask for the tools anew. Gone where it does not tell."""
        self._use()
        self.stale = False
        try:
            async with asyncio.timeout(limit_s):
                tools = await self._first(self._tools())
        except BaseException as error:  # cancelled, too: the list is not known
            self.stale = True
            if isinstance(error, TimeoutError):
                said = f"The server did not list its tools within {limit_s:g} s."
                raise Gone(said) from None
            if isinstance(error, Refusal):
                raise Gone(str(error)) from None
            raise
        self.listed, self.listed_at = listed(tools), self._loop.time()
        return self.listed

    async def call(self, name: str, arguments: Mapping[str, Any], teller: Progress) -> ToolResult:
        """Call a tool once. Cancelled, it tells the server so, and raises on."""
        from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

        async def told(progress: float, total: float | None, message: str | None) -> None:
            known = total is not None and total > 0
            fraction = min(1.0, max(0.0, progress / total)) if known and total else None
            words = f"{progress:g} of {total:g}" if known else f"{progress:g}"
            teller.tell(message or words, fraction)

        async def asked() -> CallToolResult:
            # Not `call_tool`: that judges the result by a schema of the server's, in our own
            # process, where a hostile pattern would hold up everything.
            params = CallToolRequestParams(name=name, arguments=dict(arguments))
            return await self._live_client().session.send_request(
                CallToolRequest(params=params), CallToolResult, progress_callback=told
            )

        self._use()
        self._calls.append(teller)
        try:
            return result_of(await self._first(asked()))
        except Refusal as error:
            return text_result(str(error), is_error=True, kind="failed")
        except Gone as gone:
            said = f"The server did not finish this call, and its effect is unknown. {gone}"
            return text_result(said, is_error=True, kind="failed")
        finally:
            self._calls.remove(teller)
            self._use()

    def _use(self) -> None:
        self._used_at = self._loop.time()
        self.words.asked()

    def _live_client(self) -> Client:
        if self._client is None:
            raise Gone(self.words.fault or "The connection is closed.")
        return self._client

    async def _tools(self) -> list[Tool]:
        from mcp.types import PaginatedRequestParams

        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._live_client().session.list_tools(params=params)
            found += page.tools
            cursor = page.next_cursor
            if len(found) > MAX_TOOLS:
                raise Gone(f"The server lists more than {MAX_TOOLS} tools; that is too many.")
            if not cursor:
                return found
        raise Gone(f"The list of tools has more than {MAX_PAGES} pages; that is too many.")

    async def _first(self, work: Awaitable[T]) -> T:
        """What `work` gives; Gone where the server refuses, or the connection ends before."""
        from mcp.shared.exceptions import MCPError
        from mcp.types import CONNECTION_CLOSED

        assert self._task is not None
        asked = asyncio.ensure_future(work)
        try:
            await asyncio.wait((asked, self._task), return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise Gone(self.words.fault or "The connection ended.")
            return asked.result()
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or error.message == "Session terminated":
                self._closing.set()  # another one is made for the next call
            if self._closing.is_set() or self._task.done():
                raise Gone(self.words.fault or f"The connection ended ({error}).") from None
            said = f"The server answered with an error: {error} (code {error.code})."
            asks = asked_for(str(error))
            raise Refusal(f"{asks} {said}" if asks else said) from None
        except ValueError as error:
            told = f"Its answer is none that MCP knows: {str(error).splitlines()[0][:300]}"
            raise Gone(input_wanted(error) or told) from None
        finally:
            if not asked.done():
                asked.cancel()
                await asyncio.wait((asked,))

    async def _live(self) -> None:
        """The connection's own task, from the start to the end."""
        try:
            client = await self._made()
            async with client:
                self._client = client
                self._ready.set()
                self._use()
                await self._until_idle()
                self._client = None
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            log.info("An MCP connection ended.", exc_info=error)
            self.words.fault = self.words.fault or reason_of(error)
        finally:
            self._client = None
            self._closing.set()

    async def _made(self) -> Client:
        # A second's work at the first time; the page is not to wait for it.
        await asyncio.to_thread(_loaded)
        from mcp import Client
        from mcp.types import Implementation

        # Nothing is offered that a server might ask us for: sampling, elicitation, roots.
        return Client(
            self._transport(self.words, self._closing.set),
            cache=None,
            log_level="info",
            message_handler=self._told,
            client_info=Implementation(name="tool-playground", version=__version__),
        )

    async def _told(self, message: object) -> None:
        """What the server tells without being asked."""
        match getattr(message, "method", ""):
            case "notifications/tools/list_changed":
                self.stale = True
            case "notifications/message" if len(self._calls) == 1:
                # A line of a log does not say which call it is about; of several it is unknown.
                self._calls[0].printed(logged_line(getattr(message, "params", None)))

    async def _until_idle(self) -> None:
        while not self._closing.is_set():
            left = self._used_at + self._idle_s - self._loop.time()
            if self.calls:
                left = self._idle_s
            if left <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._closing.wait()


def _loaded() -> None:
    from mcp import Client

    assert Client is not None


def logged_line(params: object) -> str:
    """`level logger: text` of a message of the server's log, as a line."""
    level, logger = getattr(params, "level", ""), getattr(params, "logger", None)
    data = getattr(params, "data", "")
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    return f"{level}{' ' + str(logger) if logger else ''}: {text}\n"


def reason_of(error: BaseException) -> str:
    """A sentence for what ended a connection, by the first plain error in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, PlaygroundError | Gone):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return "MCP servers need the extra `mcp`; install it: pip install 'tool-playground[mcp]'."
    told = str(error).strip().rstrip(".")
    return f"The connection failed ({type(error).__name__}{': ' + told if told else ''})."
