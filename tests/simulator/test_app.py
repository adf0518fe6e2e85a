"""The simulator over real HTTP: the official packages, unchanged; every fault; every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from playground.core.events import PartEnded, ResponseEnded
from playground.protocols import registry
from playground.protocols.base import requested_wait
from playground.protocols.registry import CODECS
from playground.protocols.server import ProviderServer
from playground.simulator.app import ENDS, faults_of, simulator_app
from playground.simulator.faults import FAULTS, FaultRow, scope_error
from playground.simulator.scenario import scenario
from tests.servers import NO_TLS
from tests.simulator.talking import Talk
from tests.tables import rest_slow

PROMPT = "What is 17*23, and the weather in Paris?"
RESULTS = {"calculator": "391", "get_weather": '{"temperature": 18, "unit": "celsius"}'}
SUM = {"type": "object", "properties": {"expression": {"type": "string"}}}
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city"],
}
ANTHROPIC_TOOLS: list[Any] = [
    {"name": "calculator", "description": "Evaluate.", "input_schema": SUM},
    {"name": "get_weather", "description": "Weather in a city.", "input_schema": CITY},
]
OPENAI_TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "calculator", "parameters": SUM}},
    {"type": "function", "function": {"name": "get_weather", "parameters": CITY}},
]
RESPONSES_TOOLS: list[Any] = [
    {"type": "function", "name": "calculator", "parameters": SUM, "strict": False},
    {"type": "function", "name": "get_weather", "parameters": CITY, "strict": False},
]
BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "m",
        "max_tokens": 100_000,
        "tools": ANTHROPIC_TOOLS,
        "messages": [{"role": "user", "content": PROMPT}],
    },
    "openai_chat": {
        "model": "m",
        "tools": OPENAI_TOOLS,
        "messages": [{"role": "user", "content": PROMPT}],
    },
}
BODIES["ollama"] = {**BODIES["openai_chat"], "model": "m:8b", "stream": False}
BODIES["openai_responses"] = {"model": "m", "tools": RESPONSES_TOOLS, "input": PROMPT}
BODIES["gemini"] = {
    "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "calculator", "parameters": SUM},
                {"name": "get_weather", "parametersJsonSchema": CITY},
            ]
        }
    ],
}
KEYS = {
    "anthropic": {"x-api-key": "k", "anthropic-version": "2023-06-01"},
    "openai_chat": {"authorization": "Bearer k"},
    "openai_responses": {"authorization": "Bearer k"},
    "gemini": {"x-goog-api-key": "k"},
    "ollama": {"authorization": "Bearer k"},
}
both = pytest.mark.parametrize("end", ENDS, ids=[end.name for end in ENDS])
some = pytest.mark.parametrize("end", rest_slow(ENDS, 2), ids=[end.name for end in ENDS])
"""For what is long, and the same way at each end."""

COUNTED = {"model": "m", "messages": [{"role": "user", "content": PROMPT}]}

ANSWERS = {"http-204": 204, "redirect-N": 307, "html-200-as-sse": 200, "json-error-in-sse": 200}
DIRTY = (
    *("cut-after-N", "cut-bytes-N", "rst-after-N", "stall-after-N", "open-after-done"),
    *("bad-chunk-size", "no-last-chunk", "complete-no-last-chunk", "short-body"),
    *("http-500-stall", "gzip-lie"),
)
HEADLESS = (
    *("close-at-once", "rst-at-once", "half-headers", "not-http", "giant-header-N"),
    "stall-headers",
)
SMALL = {"gzip-bomb-N": "-2", "args-many-keys-N": "-300", "big-delta-N": "-1"}
SILENT = ("stall-after-N", "http-500-stall", "open-after-done")
MOMENT_S = 0.1

WHOLE = (
    *("utf8-split", "one-byte-chunks", "all-in-one", "drip", "gzip", "loop-same-id"),
    *("tool-no-name", "id-missing", "id-empty", "id-duplicate", "id-odd"),
)

UNREAD = ("args-truncated", "args-array", "args-null", "args-nan")
"""Calls that a provider cannot read itself: Ollama leaves them in the text, Gemini nowhere."""


def talk(end: ProviderServer, *texts: str) -> dict[str, Any]:
    """What a body says of these texts, a person's and the model's in turn."""
    if end.name == "gemini":
        sides = ("user", "model")
        lines = [{"role": sides[i % 2], "parts": [{"text": text}]} for i, text in enumerate(texts)]
        return {"contents": lines}
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    return {"input" if end.name == "openai_responses" else "messages": messages}


def request_of(end: ProviderServer, **changes: Any) -> tuple[str, dict[str, Any]]:
    """Where a request goes, and its body: Gemini says in the path whether it is for a stream."""
    body = {**BODIES[end.name], **changes}
    sent = {name: value for name, value in body.items() if value is not None}
    path = end.base + end.path
    if end.name == "gemini" and sent.pop("stream", False):
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    return path, sent


def post(
    url: str, end: ProviderServer, *, headers: dict[str, str] | None = None, **changes: Any
) -> httpx.Response:
    path, sent = request_of(end, **changes)
    return httpx.post(
        url + path,
        json=sent,
        headers={**KEYS[end.name], **(headers or {})},
        timeout=30,
        verify=NO_TLS,
    )


@pytest.mark.parametrize("stream", rest_slow([True, False]))
def test_the_anthropic_package_runs_a_whole_loop(simulator: str, stream: bool) -> None:
    import anthropic

    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    with anthropic.Anthropic(
        api_key="k", base_url=simulator + "/anthropic", max_retries=0
    ) as client:
        for _ in range(3):
            body: Any = {
                "model": "m",
                "max_tokens": 4096,
                "tools": ANTHROPIC_TOOLS,
                "thinking": {"type": "enabled", "budget_tokens": 1024},
                "messages": messages,
            }
            if stream:
                with client.messages.stream(**body) as live:
                    message: Any = live.get_final_message()
            else:
                message = client.messages.create(**body)
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                break
            assert [(call.name, call.input) for call in calls] == [
                ("calculator", {"expression": "17*23"}),
                ("get_weather", {"city": "Paris"}),
            ]
            result_blocks = [
                {"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.name]}
                for call in calls
            ]
            messages.append({"role": "assistant", "content": message.content})
            messages.append({"role": "user", "content": result_blocks})
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 1
    assert message.content[0].type == "thinking"
    assert "391" in message.content[-1].text
    assert "18 °C" in message.content[-1].text


@pytest.mark.parametrize("stream", rest_slow([True, False]))
def test_the_openai_package_runs_a_whole_loop(simulator: str, stream: bool) -> None:
    import openai

    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    with openai.OpenAI(api_key="k", base_url=simulator + "/openai/v1", max_retries=0) as client:
        for _ in range(3):
            body: Any = {"model": "m", "tools": OPENAI_TOOLS, "messages": messages}
            if stream:
                body["stream_options"] = {"include_usage": True}
                with client.chat.completions.stream(**body) as live:
                    completion: Any = live.get_final_completion()
            else:
                completion = client.chat.completions.create(**body)
            message = completion.choices[0].message
            if not message.tool_calls:
                break
            assert completion.choices[0].finish_reason == "tool_calls"
            assert [
                (c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls
            ] == [
                ("calculator", {"expression": "17*23"}),
                ("get_weather", {"city": "Paris"}),
            ]
            messages.append(message.model_dump(include={"role", "content", "tool_calls"}))
            messages += [
                {"role": "tool", "tool_call_id": c.id, "content": RESULTS[c.function.name]}
                for c in message.tool_calls
            ]
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage.total_tokens > 1
    assert "391" in message.content
    assert "18 °C" in message.content


@pytest.mark.parametrize("stream", rest_slow([True, False]))
def test_the_openai_package_runs_a_whole_loop_of_responses(simulator: str, stream: bool) -> None:
    import openai

    lines: list[Any] = [{"role": "user", "content": PROMPT}]
    with openai.OpenAI(api_key="k", base_url=simulator + "/openai/v1", max_retries=0) as client:
        for _ in range(3):
            body: Any = {
                "model": "m",
                "tools": RESPONSES_TOOLS,
                "input": lines,
                "reasoning": {"summary": "auto"},
                "store": False,
                "include": ["reasoning.encrypted_content"],
            }
            if stream:
                with client.responses.stream(**body) as live:
                    response: Any = live.get_final_response()
            else:
                response = client.responses.create(**body)
            assert response.status == "completed"
            assert response.output[0].type == "reasoning"
            assert response.output[0].encrypted_content
            lines += [item.model_dump(exclude_none=True) for item in response.output]
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            assert [(call.name, json.loads(call.arguments)) for call in calls] == [
                ("calculator", {"expression": "17*23"}),
                ("get_weather", {"city": "Paris"}),
            ]
            lines += [
                {"type": "function_call_output", "call_id": c.call_id, "output": RESULTS[c.name]}
                for c in calls
            ]
    assert response.usage.total_tokens > 1
    assert "391" in response.output_text
    assert "18 °C" in response.output_text


@pytest.mark.parametrize("stream", rest_slow([True, False]))
def test_the_ollama_package_runs_a_whole_loop(simulator: str, stream: bool) -> None:
    import ollama

    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    client: Any = ollama.Client(host=simulator + "/ollama", timeout=30)
    for _ in range(3):
        came = client.chat("simulated:8b", messages, tools=OPENAI_TOOLS, think=True, stream=stream)
        lines = list(came) if stream else [came]
        assert len(lines) > 3 or not stream
        thought = "".join(line.message.thinking or "" for line in lines)
        text = "".join(line.message.content or "" for line in lines)
        calls = [call for line in lines for call in line.message.tool_calls or ()]
        assert lines[-1].done
        assert lines[-1].done_reason == "stop"
        assert thought
        if not calls:
            break
        assert [(call.function.name, call.function.arguments) for call in calls] == [
            ("calculator", {"expression": "17*23"}),
            ("get_weather", {"city": "Paris"}),
        ]
        messages.append(
            {"role": "assistant", "content": text, "thinking": thought, "tool_calls": calls}
        )
        messages += [
            {"role": "tool", "tool_name": c.function.name, "content": RESULTS[c.function.name]}
            for c in calls
        ]
    assert lines[-1].eval_count > 1
    assert "391" in text
    assert "18 °C" in text
    assert client.list().models[0].model == "simulated:8b"
    with pytest.raises(ollama.ResponseError, match="does not support tools") as refused:
        client.chat("simulated-no-tools", messages, tools=OPENAI_TOOLS)
    assert refused.value.status_code == 400
    client.close()


@both
def test_the_same_request_gets_the_same_bytes(simulator: str, end: ProviderServer) -> None:
    first, second = (post(simulator, end, stream=True) for _ in range(2))
    strip = first.text.split(',"created":')
    assert len(strip) == len(second.text.split(',"created":'))
    if end.name == "anthropic":
        assert first.content == second.content
    assert first.headers["content-type"] == end.stream_type
    for name, output in end.headers("the id").items():
        assert (first.headers[name] != second.headers[name]) == (output == "the id")


@both
def test_keys_paths_and_methods(
    simulator: str, serve: Callable[[ASGIApp], str], end: ProviderServer
) -> None:
    choosy = serve(simulator_app(pace=0, key=lambda given: given == "right"))
    missing = httpx.post(
        simulator + end.base + end.path, json=BODIES[end.name], timeout=30, verify=NO_TLS
    )
    response = post(choosy, end)
    name, value = next(iter(KEYS[end.name].items()))
    right = post(choosy, end, headers={name: value.replace("k", "right").replace("Bearight", "")})
    nowhere = httpx.post(
        simulator + end.base + "/nope", headers=KEYS[end.name], timeout=30, verify=NO_TLS
    )
    method = httpx.put(
        simulator + end.base + end.path, headers=KEYS[end.name], timeout=30, verify=NO_TLS
    )
    models = httpx.get(
        simulator + end.base + end.models_path, headers=KEYS[end.name], timeout=30, verify=NO_TLS
    )
    answers = [missing, response, right, nowhere, method, models]
    keyless = 200 if end.no_key is None else end.no_key.status
    assert keyless == (403 if end.name == "gemini" else 200 if end.name == "ollama" else 401)
    refusing = 400 if end.name == "gemini" else 401
    assert [answer.status_code for answer in answers] == [keyless, refusing, 200, 404, 405, 200]
    for refused in (response, nowhere, method, *([missing] if end.no_key else [])):
        assert words(refused)
    assert CODECS[end.name].models(models.json())


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "method", "path", "body", "answer"),
    [
        ("anthropic", "GET", "/v1/models/claude-x", None, {"id": "claude-x", "type": "model"}),
        ("anthropic", "POST", "/v1/messages/count_tokens", COUNTED, {"input_tokens": 20}),
        ("openai_chat", "GET", "/models/org/m", None, {"id": "org/m", "object": "model"}),
        (
            "openai_responses",
            "POST",
            "/responses/input_tokens",
            {"model": "m", "input": PROMPT},
            {"object": "response.input_tokens", "input_tokens": 14},
        ),
        ("gemini", "GET", "/v1beta/models/g", None, {"name": "models/g"}),
        (
            "gemini",
            "POST",
            "/v1beta/models/g:countTokens",
            {"contents": BODIES["gemini"]["contents"]},
            {"totalTokens": 23},
        ),
        (
            "gemini",
            "POST",
            "/v1beta/models/g:countTokens",
            {"generateContentRequest": {"model": "models/g", **BODIES["gemini"]}},
            {"totalTokens": 99},
        ),
        ("ollama", "GET", "/api/version", None, {"version": "0.12.6"}),
        ("ollama", "GET", "/api/ps", None, {"models": []}),
        ("ollama", "POST", "/api/show", {"model": "m"}, {"license": ""}),
        # What the real ones refuse.
        ("anthropic", "POST", "/v1/messages/count_tokens", {**COUNTED, "max_tokens": 9}, 400),
        ("openai_responses", "POST", "/responses/input_tokens", {"input": "x"}, 400),
        ("ollama", "POST", "/api/show", {}, 400),
        ("anthropic", "GET", "/v1/messages/count_tokens", None, 405),
    ],
)
async def test_what_clients_ask_beside_messages(
    name: str, method: str, path: str, body: Any, answer: dict[str, Any] | int
) -> None:
    end = next(end for end in ENDS if end.name == name)
    transport = httpx.ASGITransport(simulator_app(pace=0))
    async with httpx.AsyncClient(transport=transport, base_url="http://sim") as async_client:
        came = await async_client.request(method, end.base + path, json=body, headers=KEYS[name])
    if isinstance(answer, int):
        assert came.status_code == answer
        assert words(came)
        return
    assert came.status_code == 200
    assert {key: came.json()[key] for key in answer} == answer


@pytest.mark.anyio
async def test_who_asks_for_a_websocket_is_told_to_use_http() -> None:
    """A client that gets 426 tries HTTP at once; for other errors it tries again first."""
    transport = httpx.ASGITransport(simulator_app(pace=0))
    asking = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    async with httpx.AsyncClient(transport=transport, base_url="http://sim") as async_client:
        came = await async_client.get(
            "/openai/v1/responses", headers={**KEYS["openai_chat"], **asking}
        )
    assert came.status_code == 426
    assert "over HTTP" in words(came)


def words(refused: httpx.Response) -> str:
    """What an error says, in whatever form the protocol has for it."""
    error = refused.json()["error"]
    return str(error["message"] if isinstance(error, dict) else error)


def test_the_front_page_names_the_base_urls_and_faults(simulator: str) -> None:
    text = httpx.get(simulator, timeout=30, verify=NO_TLS).text
    assert all(end.base in text for end in ENDS)
    assert "cut-after-N" in text


def expected_status(fault: FaultRow) -> int:
    if fault.name in ANSWERS:
        return ANSWERS[fault.name]
    return int(fault.name.split("-")[1]) if fault.name.startswith("http-") else 200


@dataclass(frozen=True)
class Came:
    """An answer as it came: status 0 where there was none, `broken` where HTTP was."""

    status: int = 0
    data: bytes = b""
    broken: bool = False


def played(client: httpx.Client, end: ProviderServer, fault: FaultRow, **changes: Any) -> Came:
    """The answer under `fault`; of one without an end the first piece, of silence a moment."""
    name = fault.name.removesuffix("-N") + SMALL.get(fault.name, "")
    headers = {**KEYS[end.name], "x-playground-fault": name}
    path, body = request_of(end, **changes)
    data, status = b"", 0
    patience = MOMENT_S if fault.name == "stall-headers" else 30.0
    try:
        with client.stream("POST", path, json=body, headers=headers, timeout=patience) as response:
            status = response.status_code
            if fault.name in SILENT and status != 400:  # the head may take its time, not the rest
                response.request.extensions["timeout"]["read"] = MOMENT_S
            for piece in response.iter_bytes():
                data += piece[:100_000]
                if fault.endless:
                    break
    except (httpx.HTTPError, httpx.StreamError):
        return Came(status, data, broken=True)
    return Came(status, data)


@pytest.fixture
def client(simulator: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=simulator, verify=NO_TLS) as client:
        yield client


@pytest.mark.parametrize(
    "fault", ["", "short-body", "bad-chunk-size", "giant-header-1", "html-200", "http-500-html"]
)
def test_every_answer_is_isolated_whoever_writes_its_head(client: httpx.Client, fault: str) -> None:
    """A browser that shows it runs nothing; some faults are writes to the socket directly."""
    end = registry.ENDS["anthropic"]
    path, body = request_of(end, stream=True)
    headers = {**KEYS[end.name], **({"x-playground-fault": fault} if fault else {})}
    with client.stream("POST", path, json=body, headers=headers, timeout=30) as answer:
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"


@some
def test_a_fault_of_http_has_its_status_and_never_a_traceback(
    client: httpx.Client, end: ProviderServer
) -> None:
    failures = []
    for fault in FAULTS:
        # What comes of the others is the table of tests/engine/test_faults.py.
        if not (fault.raw or fault.answer or fault.name in DIRTY or scope_error(fault, end)):
            continue
        came = played(client, end, fault, stream=True)
        status, broken = expected_status(fault), fault.name in (*DIRTY, *HEADLESS)
        if scope_error(fault, end):
            status, broken = 400, False
            assert b"does not apply to" in came.data
        elif fault.name in HEADLESS:
            status = 0
        if (came.status, came.broken) != (status, broken):
            failures.append((fault.name, came.status, came.broken, came.data[:200]))
    assert failures == []


@some
def test_without_a_stream_a_fault_is_played_on_the_body_or_refused(
    client: httpx.Client, end: ProviderServer
) -> None:
    failures = []
    for fault in FAULTS:
        if fault.twist is None or scope_error(fault, end):
            continue
        came = played(client, end, fault)
        decoder = CODECS[end.name].decoder(came.status)
        spanned = decoder.feed(came.data) + decoder.end(not came.broken)
        good = isinstance(spanned[-1][2], ResponseEnded)
        refused = came.status == 400 and b"needs a stream" in came.data
        if (good, refused) != (fault.name in WHOLE, not fault.any_body):
            failures.append((fault.name, came.status, came.data[:300]))
    assert failures == []


@both
def test_half_a_character_in_a_prompt_is_read(simulator: str, end: ProviderServer) -> None:
    body = {**BODIES[end.name], **talk(end, "Hello \ud800")}
    url = simulator + end.base + end.path
    data = {**KEYS[end.name], "content-type": "application/json"}
    answer = httpx.post(url, content=json.dumps(body), headers=data, timeout=30, verify=NO_TLS)
    assert answer.status_code == 200


def raw_arguments(simulator: str, end: ProviderServer, fault: str) -> str:
    answer = post(simulator, end, stream=True, **talk(end, f"{PROMPT} [[fault:{fault}]]"))
    decoder = CODECS[end.name].decoder(200)
    events = [event for _, _, event in decoder.feed(answer.content) + decoder.end(True)]
    ended = [event for event in events if isinstance(event, PartEnded)]
    return "".join("" if part.meta.get("empty") else part.text for part in ended)


@both
@pytest.mark.parametrize(
    ("fault", "raw"),
    [
        ("args-truncated", '{"expressio'),
        ("args-duplicate-keys", '{"expression": "17*23", "expression": "something else"}'),
        ("args-wrong-types", '{"expression": 12345}'),
        ("args-array", '[{"expression": "17*23"}]'),
        ("args-empty", ""),
        ("args-null", "null"),
        ("args-nan", '{"expression": NaN}'),
        ("args-lone-surrogate", '{"expression": "\\ud800"}'),
        ("args-bidi", '{"expression": "\u202egnp.17*23\u202c\u200b"}'),
        ("args-huge-20", '{"expression": "abcdefghabcdefghxxxx"}'),
        ("args-deep-3", '{"expression": [[[]]]}'),
    ],
)
def test_broken_arguments_arrive_as_they_are(
    simulator: str, end: ProviderServer, fault: str, raw: str
) -> None:
    if end.name == "ollama" and fault in UNREAD:
        raw = f'{{"name": "calculator", "arguments": {raw}}}'
    if end.name == "gemini" and fault in UNREAD:
        raw = ""
    assert raw_arguments(simulator, end, fault) == raw


@both
def test_a_fault_of_what_is_said_is_over_with_the_result(
    simulator: str, end: ProviderServer
) -> None:
    prompt = f"{PROMPT} [[fault:tool-unknown]]"
    first = post(simulator, end, **talk(end, prompt)).json()
    assert "no_such_tool" in json.dumps(first)
    member = next(iter(talk(end)))
    if end.name == "openai_responses":
        call_id = first["output"][0]["call_id"]
        call_output = {"type": "function_call_output", "call_id": call_id, "output": "no"}
        history = [{"role": "user", "content": prompt}, *first["output"], call_output]
    elif end.name == "anthropic":
        answer = {"role": "assistant", "content": first["content"]}
        call_output = {
            "type": "tool_result",
            "tool_use_id": first["content"][0]["id"],
            "content": "no",
        }
        history = [
            {"role": "user", "content": prompt},
            answer,
            {"role": "user", "content": [call_output]},
        ]
    elif end.name == "gemini":
        answered = {"name": "no_such_tool", "response": {"error": "no"}}
        call_output = {"role": "user", "parts": [{"functionResponse": answered}]}
        history = [*talk(end, prompt)[member], first["candidates"][0]["content"], call_output]
    elif end.name == "ollama":
        call_output = {"role": "tool", "tool_name": "no_such_tool", "content": "no"}
        history = [{"role": "user", "content": prompt}, first["message"], call_output]
    else:
        answer = first["choices"][0]["message"]
        call_output = {
            "role": "tool",
            "tool_call_id": answer["tool_calls"][0]["id"],
            "content": "no",
        }
        history = [{"role": "user", "content": prompt}, answer, call_output]
    again: dict[str, Any] = {member: history}
    second = post(simulator, end, **again)
    assert second.status_code == 200
    assert "no_such_tool" not in second.text


@both
def test_faults_that_give_way_and_those_that_say_when(simulator: str, end: ProviderServer) -> None:
    again = talk(end, "Hello [[fault:http-500-then-ok-2]]")
    assert [post(simulator, end, **again).status_code for _ in range(3)] == [500, 500, 200]
    later = post(simulator, end, headers={"x-playground-fault": "http-429-retry-7"})
    if end.name == "gemini":
        assert "retry-after" not in later.headers
        assert requested_wait(later.json()["error"]) == 7.0
    else:
        assert later.headers["retry-after"] == "7"
    echoed = post(simulator, end, headers={"x-playground-fault": "http-401-echo-key"})
    assert "provided: k" in words(echoed)
    unknown = post(simulator, end, headers={"x-playground-fault": "nonsense"})
    assert unknown.status_code == 400
    assert "Use one of" in words(unknown)


@both
def test_a_scenario_is_played_turn_by_turn(
    serve: Callable[[ASGIApp], str], end: ProviderServer
) -> None:
    turns = [
        {"text": "First.", "calls": [{"name": "f", "arguments": {"x": 1}}]},
        {"text": "Second.", "stop_reason": "length"},
        {"faults": ["http-529"]},
    ]
    url = serve(simulator_app(pace=0, scenario=scenario(json.dumps({"turns": turns}))))
    first = post(url, end).json()
    second = post(url, end, **talk(end, "go on", *["x", "go on"])).text
    third = post(url, end, **talk(end, "go on", *["x", "go on"] * 2))
    over = post(url, end, **talk(end, "go on", *["x", "go on"] * 3)).text
    assert "First." in json.dumps(first)
    assert "Second." in second
    cut = ("length", "max_tokens", "max_output_tokens", "MAX_TOKENS")
    assert any(f'"{word}"' in second for word in cut)
    assert third.status_code == 529
    assert "no turn 4" in over


def test_a_refusal_says_where_it_is_known_from(simulator: str) -> None:
    ends = {end.name: end for end in ENDS}
    dangling = {"role": "tool", "tool_call_id": "c9", "content": "x"}
    known = post(simulator, ends["openai_chat"], messages=[dangling])
    assert known.status_code == 400
    assert known.headers["x-simulator-source"] == "https://github.com/miurla/morphic/issues/136"
    hot = post(simulator, ends["anthropic"], temperature=2)
    assert hot.headers["x-simulator-source"].startswith("inferred: Anthropic API reference")


@pytest.mark.anyio
async def test_without_the_socket_a_fault_below_http_is_refused() -> None:
    transport = httpx.ASGITransport(simulator_app(pace=0))
    end = ENDS[0]
    headers = {**KEYS[end.name], "x-playground-fault": "not-http"}
    async with httpx.AsyncClient(transport=transport, base_url="http://sim") as async_client:
        answer = await async_client.post(
            end.base + end.path, json=BODIES[end.name], headers=headers
        )
    assert answer.status_code == 400
    assert "writes to the socket directly" in answer.json()["error"]["message"]


@pytest.mark.parametrize("end", ENDS, ids=[end.name for end in ENDS])
def test_a_fault_is_not_played_for_the_prompt_after_it(end: ProviderServer) -> None:
    """A prompt whose answer failed goes along with the next one, before it."""
    talk = Talk(end.name)
    talk.prompt("How is the weather? [[fault:http-404]]")
    talk.fail()
    talk.prompt("And now?")
    request = talk.ask()[1].request
    assert faults_of(request, {}) == ()
    talk.fail()
    talk.prompt("And now? [[fault:nothing]]")
    (injected,) = faults_of(talk.ask()[1].request, {})
    assert injected.fault.name == "nothing"
