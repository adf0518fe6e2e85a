"""A connection to one MCP server: opened, used, closed; its tools and results in our own format.

The SDK's client runs in its own task, because it has to be exited in the task that entered it;
calls come from other tasks. A connection that has ended is never reopened, a new one is made.
https://modelcontextprotocol.io/specification/2025-11-25/server/tools
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from playground import __version__
from playground.core.errors import PlaygroundError
from playground.core.json_values import load_json
from playground.core.tools import ToolResult, text_result
from playground.executors.executor import ThrottledProgress
from playground.executors.mcp.process import ServerOutput, Transport
from playground.schema.names import PORTABLE_NAME, legal_name, number_name, shorten_name

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool
import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from playground.core.servers import tool_fingerprint
from playground.core.tools import IMAGES, Content

if TYPE_CHECKING:
    from mcp import types

MAX_TOOLS = 1000
MAX_PAGES = 100
IDLE_S = 600.0

T = TypeVar("T")

log = logging.getLogger(__name__)

JSON = "application/json"
MAX_DESCRIPTION = 20_000

MAX_SCHEMA = 512 * 1024
"""The maximum length of a name that every provider accepts, in characters."""

_ASKS = (
    ("elicit", "asks the user for input in the middle of a call (elicitation)"),
    ("sampling", "asks for a model's answer in the middle of a call (sampling)"),
    ("roots", "asks for the user's folders in the middle of a call (roots)"),
)
_REFUSED = re.compile(
    r"(?i)(?:elicitation|sampling|list.?roots) (?:is )?(?:not |un)supported"
    r"|(?:elicitation/create|sampling/createMessage|roots/list)[^\n]{0,80}?not (?:found|supported)"
    r"|client[^\n]{0,40}?(?:not|n't) (?:support|declare|have|advertise)[^\n]{0,40}?"
    r"(?:elicitation|sampling|roots)"
)
_MOST_SAID = 4_000


class ServerGone(Exception):
    """The server does not answer; the sentence gives the reason."""


class ServerRefusal(Exception):
    """The server's own error in place of an answer, as a sentence."""


class Connection:
    """`listed` are the tools of the last listing, at `listed_at` (the loop's clock); `stale`: the
    server has announced a change since. `calls` are in progress."""

    def __init__(self, transport: Transport, idle_s: float | None = None) -> None:
        self.words = ServerOutput()
        self.listed: tuple[ListedTool, ...] | None = None
        self.listed_at = 0.0
        self.stale = True
        self._calls: list[ThrottledProgress] = []
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
        """Gone if it does not succeed within `limit_s`, or it was closed before."""
        if self._closing.is_set():
            raise ServerGone("The connection was closed.")
        self._task = asyncio.create_task(self._hold_open())
        try:
            async with asyncio.timeout(limit_s):
                await self._result_or_gone(self._ready.wait())
        except TimeoutError:
            self.words.fault = (
                f"The server did not answer within {limit_s:g} s of its start (initialize). Run "
                "its command in a terminal to see why."
            )
            await self.close()
            raise ServerGone(self.words.fault) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends it, and the server if that is a process of ours."""
        self._closing.set()
        task = self._task
        if task is None:
            return
        if not self._ready.is_set() and not self._given_up:
            self._given_up = True  # once: a second cancel would interrupt its shutdown
            task.cancel()
        # Shielded: a cancelled caller must not leave a server behind.
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)

    async def relist(self, limit_s: float) -> tuple[ListedTool, ...]:
        """Requests the tools again. Gone if the server does not answer."""
        self._use()
        self.stale = False
        try:
            async with asyncio.timeout(limit_s):
                tools = await self._result_or_gone(self._tools())
        except BaseException as error:  # cancelled, too: the list is unknown
            self.stale = True
            if isinstance(error, TimeoutError):
                sentence = f"The server did not list its tools within {limit_s:g} s."
                raise ServerGone(sentence) from None
            if isinstance(error, ServerRefusal):
                raise ServerGone(str(error)) from None
            raise
        self.listed, self.listed_at = listed_tools(tools), self._loop.time()
        return self.listed

    async def call(
        self, name: str, arguments: Mapping[str, Any], teller: ThrottledProgress
    ) -> CalledTool:
        """Calls a tool once. On cancellation it notifies the server, and re-raises."""
        from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            known = total is not None and total > 0
            fraction = min(1.0, max(0.0, progress / total)) if known and total else None
            words = f"{progress:g} of {total:g}" if known else f"{progress:g}"
            teller.tell(message or words, fraction)

        async def send_call() -> CallToolResult:
            # Not `call_tool`: that validates the result by a schema of the server in our own
            # process, where a hostile pattern would block everything.
            params = CallToolRequestParams(name=name, arguments=dict(arguments))
            return await self._live_client().session.send_request(
                CallToolRequest(params=params), CallToolResult, progress_callback=on_progress
            )

        self._use()
        self._calls.append(teller)
        try:
            answer = await self._result_or_gone(send_call())
            return CalledTool(result_of(answer), answer.structured_content)
        except ServerRefusal as error:
            return CalledTool(text_result(str(error), is_error=True, kind="failed"))
        except ServerGone as gone:
            sentence = f"The server did not finish this call, and its effect is unknown. {gone}"
            return CalledTool(text_result(sentence, is_error=True, kind="failed"))
        finally:
            self._calls.remove(teller)
            self._use()

    def _use(self) -> None:
        self._used_at = self._loop.time()
        self.words.reset_counts()

    def _live_client(self) -> Client:
        if self._client is None:
            raise ServerGone(self.words.fault or "The connection is closed.")
        return self._client

    async def _tools(self) -> list[Tool]:
        from mcp.types import PaginatedRequestParams

        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._live_client().session.list_tools(params=params)
            tools += page.tools
            cursor = page.next_cursor
            if len(tools) > MAX_TOOLS:
                raise ServerGone(f"The server lists more than {MAX_TOOLS} tools, the limit.")
            if not cursor:
                return tools
        raise ServerGone(f"The list of tools has more than {MAX_PAGES} pages, the limit.")

    async def _result_or_gone(self, work: Awaitable[T]) -> T:
        """The result of `work`; Gone if the server refuses, or the connection ends before."""
        from mcp.shared.exceptions import MCPError
        from mcp.types import CONNECTION_CLOSED

        assert self._task is not None
        asked = asyncio.ensure_future(work)
        try:
            await asyncio.wait((asked, self._task), return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise ServerGone(self.words.fault or "The connection ended.")
            return asked.result()
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or error.message == "Session terminated":
                self._closing.set()  # a new one is made for the next call
            if self._closing.is_set() or self._task.done():
                raise ServerGone(self.words.fault or f"The connection ended ({error}).") from None
            sentence = f"The server answered with an error: {error} (code {error.code})."
            asks = refused_request(str(error))
            raise ServerRefusal(f"{asks} {sentence}" if asks else sentence) from None
        except ValueError as error:
            misfit = f"Its answer is not valid MCP: {str(error).splitlines()[0][:300]}"
            raise ServerGone(requested_input(error) or misfit) from None
        finally:
            if not asked.done():
                asked.cancel()
                await asyncio.wait((asked,))

    async def _hold_open(self) -> None:
        """The connection's own task, from start to end."""
        try:
            client = await self._make_client()
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

    async def _make_client(self) -> Client:
        # Takes a second the first time; the page must not wait for it.
        await asyncio.to_thread(_import_sdk)
        from mcp import Client
        from mcp.types import Implementation

        # No capabilities that a server might use are offered: sampling, elicitation, roots.
        return Client(
            self._transport(self.words, self._closing.set),
            cache=None,
            log_level="info",
            message_handler=self._on_message,
            client_info=Implementation(name="tool-playground", version=__version__),
        )

    async def _on_message(self, message: object) -> None:
        """Handles the server's notifications."""
        match getattr(message, "method", ""):
            case "notifications/tools/list_changed":
                self.stale = True
            case "notifications/message" if len(self._calls) == 1:
                # A log message does not name its call; with several calls it is unknown.
                self._calls[0].add_output(logged_line(getattr(message, "params", None)))

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


def _import_sdk() -> None:
    from mcp import Client

    assert Client is not None


def logged_line(params: object) -> str:
    """A message of the server's log as a line: `level logger: text`."""
    level, logger = getattr(params, "level", ""), getattr(params, "logger", None)
    data = getattr(params, "data", "")
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    return f"{level}{' ' + str(logger) if logger else ''}: {text}\n"


def reason_of(error: BaseException) -> str:
    """A sentence on why a connection ended, from the first plain error in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, PlaygroundError | ServerGone):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return "MCP servers need the extra `mcp`. Install it: pip install 'tool-playground[mcp]'."
    words = str(error).strip().rstrip(".")
    return f"The connection failed ({type(error).__name__}{': ' + words if words else ''})."


# -- tools and results of a server, in our format


@dataclass(frozen=True)
class ListedTool:
    """A tool as its server lists it. `fault` is a sentence if it cannot be imported, else ""."""

    name: str
    title: str = ""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    fault: str = ""

    @property
    def fingerprint(self) -> str:
        return tool_fingerprint(self.name, self.description, self.parameters)


@dataclass(frozen=True)
class CalledTool:
    """The result of a call, and its structured content as received, or None."""

    result: ToolResult
    structured: Any = None


def listed_tools(tools: Sequence[types.Tool]) -> tuple[ListedTool, ...]:
    """The tools of one listing; if two have the same name, the second cannot be imported."""
    listed: list[ListedTool] = []
    names: set[str] = set()
    for tool in tools:
        listed.append(_listed_tool(tool, twice=tool.name in names))
        names.add(tool.name)
    return tuple(listed)


def _listed_tool(tool: types.Tool, *, twice: bool) -> ListedTool:
    description, fault = tool.description or "", ""
    parameters = tool.input_schema
    if not tool.name:
        fault = "It has no name."
    elif twice:
        fault = "Another tool of this server has the same name."
    elif len(description) > MAX_DESCRIPTION:
        fault = (
            f"Its description has {len(description):,} characters, more than {MAX_DESCRIPTION:,}."
        )
        description = description[:MAX_DESCRIPTION]
    elif len(json.dumps(parameters)) > MAX_SCHEMA:
        fault = f"Its schema has more than {MAX_SCHEMA // 1024} kB."
        parameters = {}
    marks = tool.annotations
    return ListedTool(
        tool.name[:256],
        title=tool.title or "",
        description=description,
        parameters=parameters,
        annotations=marks.model_dump(by_alias=True, exclude_none=True, mode="json")
        if marks
        else {},
        output_schema=tool.output_schema,
        fault=fault,
    )


def library_name(name: str, server: str, names: Set[str], siblings: Iterable[str] = ()) -> str:
    """A name for the library that every provider accepts and that is not in `names`. `siblings` are
    the names that are added with it."""
    plain = (
        shorten_name(_portable_name(name), PORTABLE_NAME, map(_portable_name, siblings)) or "tool"
    )
    if plain not in names:
        return plain
    return number_name(shorten_name(_portable_name(f"{server}_{plain}"), PORTABLE_NAME), names)


def _portable_name(name: str) -> str:
    return legal_name(name).replace(".", "_")


def result_of(result: types.CallToolResult) -> ToolResult:
    """What the model reads: all content in order, then the structured content unless it repeats
    that."""
    pieces = tuple(_piece(block) for block in result.content)
    structured = result.structured_content
    if structured is not None:
        texts = [block.text for block in result.content if block.type == "text"]
        if any(same_json(_value(text), structured) for text in texts):
            # A single JSON text is marked as JSON.
            pieces = (
                (_json(json.dumps(structured, ensure_ascii=False)),) if len(pieces) == 1 else pieces
            )
        elif not _wraps(structured, result.content, texts):
            pieces = (*pieces, _json(json.dumps(structured, ensure_ascii=False)))
    if result.is_error and (asks := refused_request(" ".join(piece.text for piece in pieces))):
        pieces = (Content(text=f"{asks} The tool's message:"), *pieces)
    return ToolResult(pieces, is_error=result.is_error, kind="failed" if result.is_error else "")


def _wraps(structured: Any, blocks: Sequence[types.ContentBlock], texts: Sequence[str]) -> bool:
    """Whether the blocks contain all of `structured`, which only wraps them: as {"result": value}
    or {"content": text}, or {"content": the blocks}."""
    match structured:
        case {**members} if len(members) == 1:
            inner = next(iter(members.values()))
        case _:
            return False
    dumped = [block.model_dump(by_alias=True, exclude_none=True, mode="json") for block in blocks]
    if same_json(inner, dumped) or same_json([inner], dumped):
        return True
    values = [_value(text) for text in texts]
    same = ("\n".join(texts), list(texts), values, *(values if len(values) == 1 else ()))
    return len(texts) == len(blocks) and any(same_json(inner, candidate) for candidate in same)


def same_json(first: Any, other: Any) -> bool:
    """Whether two values are the same JSON: true is not 1, 1.0 is."""
    match first, other:
        case bool() | None | str(), _:
            return type(first) is type(other) and bool(first == other)
        case int() | float(), int() | float() if not isinstance(other, bool):
            return first == other
        case list(), list():
            pairs = zip(first, other, strict=False)
            return len(first) == len(other) and all(same_json(a, b) for a, b in pairs)
        case Mapping(), Mapping():
            return first.keys() == other.keys() and all(
                same_json(first[k], other[k]) for k in first
            )
    return False


def refused_request(text: str) -> str:
    """A sentence if `text` says, in words of the protocol, that a server's request to us was
    refused; "" otherwise."""
    match = _REFUSED.search(text[:_MOST_SAID])
    word = match[0].lower() if match is not None else ""
    return next(
        (f"This tool {asks}, which is not supported here." for key, asks in _ASKS if key in word),
        "",
    )


def requested_input(error: ValueError) -> str:
    """The same for a response that is a request, not a result; `error` is its validation error."""
    inputs = [detail.get("input") for detail in error.errors()] if hasattr(error, "errors") else []
    requests = next(
        (given.get("inputRequests") for given in inputs if isinstance(given, Mapping)), None
    )
    if not isinstance(requests, Mapping):
        return ""
    methods = [
        request.get("method") for request in requests.values() if isinstance(request, Mapping)
    ]
    named = (asks for key, asks in _ASKS if any(key in str(method) for method in methods))
    asks = next(named, "asks for input in the middle of a call")
    return f"This tool {asks}, which is not supported here."


def _value(text: str) -> Any:
    """The JSON value of a text, or the text."""
    try:
        return load_json(text)
    except ValueError:
        return text


def _json(text: str) -> Content:
    return Content(text=text, media_type=JSON)


def _piece(block: types.ContentBlock) -> Content:
    match block.type:
        case "text":
            return Content(text=block.text)
        case "image":
            return _image(block.mime_type, block.data)
        case "audio":
            return Content(text=f"[audio, {block.mime_type}, {_size(block.data)}: not shown]")
        case "resource_link":
            about = f" ({block.description})" if block.description else ""
            return Content(text=f"[resource {block.name}: {block.uri}{about}]")
        case "resource":
            return _resource(block.resource)


def _image(media_type: str, data: str) -> Content:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Content(text=f"[an image, {media_type}, not valid base64: not shown]")
    if media_type not in IMAGES:
        return Content(text=f"[an image, {media_type}, {_size(data)}: format not supported]")
    return Content("image", media_type=media_type, data=data)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> Content:
    kind = (resource.mime_type or "").partition(";")[0]
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return Content(text=text, media_type=JSON if kind == JSON else "")
    blob = str(getattr(resource, "blob", ""))
    if kind in IMAGES:
        return _image(kind, blob)
    return Content(text=f"[resource {resource.uri}, {kind or 'unknown type'}, {_size(blob)}]")


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4:,} bytes"
