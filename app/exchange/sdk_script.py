"""A request as a Python script for the official package of its protocol, with its tool loop.

All that comes from the session is written by `repr`; the code around it is fixed for each
protocol. What a package has no parameter for is sent by `extra_body`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.session import Prompt, Session, Turn
from app.exchange.bundle import ExportFile, SessionBundle, comment_text, file_name
from app.exchange.replay_read import comparable
from app.exchange.requests_export import ExportedRequest, package_base, request_of_turn, sent_turns

# -- What is the same in every script of a protocol --------------------------------------------


@dataclass(frozen=True)
class ScriptTemplate:
    """`known` are the arguments of the package's call; the rest of a body goes by `extra_body`."""

    package: str
    head: str
    stream: str
    whole: str
    go_on: str
    known: frozenset[str]


_ANTHROPIC = ScriptTemplate(
    "anthropic",
    "import anthropic",
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    with client.messages.stream(**request) as stream:
        for text in stream.text_stream:
            print(text, end="", flush=True)
        message = stream.get_final_message()
    print()
    return message.content, [
        (part.id, part.name, part.input) for part in message.content if part.type == "tool_use"
    ]
''',
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    message = client.messages.create(**request)
    print("".join(part.text for part in message.content if part.type == "text"))
    return message.content, [
        (part.id, part.name, part.input) for part in message.content if part.type == "tool_use"
    ]
''',
    '''
def go_on(request, answer, results):
    """The next request: the answer and the results of its calls behind what was said."""
    given = [
        {"type": "tool_result", "tool_use_id": call_id, "content": result}
        for call_id, name, result in results
    ]
    said = [{"role": "assistant", "content": answer}, {"role": "user", "content": given}]
    return {**request, "messages": [*request["messages"], *said]}
''',
    frozenset(
        [
            "max_tokens",
            "messages",
            "model",
            "cache_control",
            "container",
            "metadata",
            "output_config",
            "service_tier",
            "stop_sequences",
            "system",
            "thinking",
            "tool_choice",
            "tools",
        ]
    ),
)

_CHAT = ScriptTemplate(
    "openai",
    "import json\n\nimport openai",
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    text, calls = "", {}
    for chunk in client.chat.completions.create(**request):
        for choice in chunk.choices:
            piece = choice.delta.content or ""
            print(piece, end="", flush=True)
            text += piece
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                call["id"] = part.id or call["id"]
                if part.function:
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""
    print()
    found = list(calls.values())
    answer = {"role": "assistant", "content": text or None}
    if found:
        answer["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in found
        ]
    return answer, [
        (call["id"], call["name"], json.loads(call["arguments"] or "{}")) for call in found
    ]
''',
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    message = client.chat.completions.create(**request).choices[0].message
    print(message.content or "")
    return message.model_dump(exclude_none=True), [
        (call.id, call.function.name, json.loads(call.function.arguments or "{}"))
        for call in message.tool_calls or []
        if call.type == "function"
    ]
''',
    '''
def go_on(request, answer, results):
    """The next request: the answer and the results of its calls behind what was said."""
    given = [
        {"role": "tool", "tool_call_id": call_id, "content": result}
        for call_id, name, result in results
    ]
    return {**request, "messages": [*request["messages"], answer, *given]}
''',
    frozenset(
        [
            "messages",
            "model",
            "audio",
            "frequency_penalty",
            "logit_bias",
            "logprobs",
            "max_completion_tokens",
            "max_tokens",
            "metadata",
            "modalities",
            "n",
            "parallel_tool_calls",
            "prediction",
            "presence_penalty",
            "reasoning_effort",
            "response_format",
            "seed",
            "service_tier",
            "stop",
            "store",
            "stream",
            "stream_options",
            "temperature",
            "tool_choice",
            "tools",
            "top_logprobs",
            "top_p",
            "user",
            "verbosity",
        ]
    ),
)

_RESPONSES = ScriptTemplate(
    "openai",
    "import json\n\nimport openai",
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    response = None
    for event in client.responses.create(**request):
        if event.type == "response.output_text.delta":
            print(event.delta, end="", flush=True)
        if event.type in ("response.completed", "response.incomplete", "response.failed"):
            response = event.response
    print()
    return _read(response)
''',
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    response = client.responses.create(**request)
    print(response.output_text)
    return _read(response)
''',
    '''
def go_on(request, answer, results):
    """The next request: the answer and the results of its calls behind what was said."""
    said = request["input"]
    said = [{"role": "user", "content": said}] if isinstance(said, str) else said
    given = [
        {"type": "function_call_output", "call_id": call_id, "output": result}
        for call_id, name, result in results
    ]
    return {**request, "input": [*said, *answer, *given]}
''',
    frozenset(
        [
            "background",
            "include",
            "input",
            "instructions",
            "max_output_tokens",
            "max_tool_calls",
            "metadata",
            "model",
            "parallel_tool_calls",
            "previous_response_id",
            "prompt",
            "reasoning",
            "service_tier",
            "store",
            "stream",
            "stream_options",
            "temperature",
            "text",
            "tool_choice",
            "tools",
            "top_logprobs",
            "top_p",
            "truncation",
            "user",
        ]
    ),
)

RESPONSES_READ = '''
def _read(response):
    """The answer to keep, and its calls."""
    output = response.output if response is not None else []
    return [item.model_dump(exclude_none=True) for item in output], [
        (item.call_id, item.name, json.loads(item.arguments or "{}"))
        for item in output
        if item.type == "function_call"
    ]
'''

_GEMINI = ScriptTemplate(
    "google-genai",
    "from google import genai\nfrom google.genai import types",
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    parts = []
    for chunk in client.models.generate_content_stream(**request):
        for candidate in (chunk.candidates or [])[:1]:
            parts += (candidate.content and candidate.content.parts) or []
            print(_text(parts[-1:]), end="", flush=True)
    print()
    return types.Content(role="model", parts=parts), _calls(parts)
''',
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    answer = client.models.generate_content(**request)
    parts = [
        part
        for candidate in (answer.candidates or [])[:1]
        for part in (candidate.content and candidate.content.parts) or []
    ]
    print(_text(parts))
    return types.Content(role="model", parts=parts), _calls(parts)
''',
    '''
def go_on(request, answer, results):
    """The next request: the answer and the results of its calls behind what was said."""
    given = [
        {"function_response": {"id": call_id, "name": name, "response": {"result": result}}}
        for call_id, name, result in results
    ]
    said = [answer, {"role": "user", "parts": given}]
    return {**request, "contents": [*request["contents"], *said]}
''',
    frozenset(),
)

GEMINI_READ = """
def _text(parts):
    return "".join(part.text for part in parts if part.text and not part.thought)


def _calls(parts):
    found = [part.function_call for part in parts if part.function_call]
    return [(call.id, call.name, dict(call.args or {})) for call in found]
"""

_OLLAMA = ScriptTemplate(
    "ollama",
    "import ollama",
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    text, thinking, calls = "", "", []
    for chunk in send(request):
        print(chunk.message.content or "", end="", flush=True)
        text += chunk.message.content or ""
        thinking += chunk.message.thinking or ""
        calls += chunk.message.tool_calls or []
    print()
    return _read(text, thinking, calls)
''',
    '''
def ask(request):
    """Send it, print what comes, and return the answer and its calls."""
    message = send(request).message
    print(message.content or "")
    return _read(message.content or "", message.thinking or "", message.tool_calls or [])
''',
    '''
def go_on(request, answer, results):
    """The next request: the answer and the results of its calls behind what was said."""
    given = [
        {"role": "tool", "tool_name": name, "content": result} for _, name, result in results
    ]
    return {**request, "messages": [*request["messages"], answer, *given]}
''',
    frozenset(
        [
            "model",
            "messages",
            "tools",
            "stream",
            "think",
            "logprobs",
            "top_logprobs",
            "format",
            "options",
            "keep_alive",
        ]
    ),
)

OLLAMA_READ = '''
def _read(text, thinking, calls):
    """The answer to keep, and its calls; the package knows no ids."""
    found = [("", call.function.name, dict(call.function.arguments)) for call in calls]
    answer = {"role": "assistant", "content": text}
    if thinking:
        answer["thinking"] = thinking
    if found:
        answer["tool_calls"] = [
            {"function": {"name": name, "arguments": given}} for _, name, given in found
        ]
    return answer, found
'''

OLLAMA_CHAT = """
def send(request):
    return client.chat(**request)
"""

OLLAMA_RAW = '''
def send(request):
    """The request as it stands: client.chat() leaves out what it has no word for, such as the ids
    of calls and what a schema says beyond types."""
    return client._request(
        ollama.ChatResponse, "POST", "/api/chat", json=request, stream=request.get("stream", True)
    )
'''

LOOP = '''
def run_tool(name, arguments):
    """Your tools go here. Until then each gives back what it gave in the recorded session."""
    print(f"{name}({arguments})")
    given = RECORDED.get(name) or [f"There is no recorded result of {name}."]
    return given.pop(0) if len(given) > 1 else given[0]


for _ in range(10):
    answer, calls = ask(REQUEST)
    if not calls:
        break
    results = [(call_id, name, run_tool(name, given)) for call_id, name, given in calls]
    REQUEST = go_on(REQUEST, answer, results)
'''

TEMPLATES: Mapping[str, ScriptTemplate] = {
    "anthropic": _ANTHROPIC,
    "openai_chat": _CHAT,
    "openai_responses": _RESPONSES,
    "gemini": _GEMINI,
    "ollama": _OLLAMA,
}


WIDTH = 88
OWN_HEADERS = ("content-type", "accept", "anthropic-version")
"""What every package says by itself."""

_PROJECT = re.compile(r"/projects/([^/]+)/locations/([^/]+)")
_GENERATION = frozenset(
    [
        "temperature",
        "topP",
        "topK",
        "candidateCount",
        "maxOutputTokens",
        "stopSequences",
        "responseLogprobs",
        "logprobs",
        "presencePenalty",
        "frequencyPenalty",
        "seed",
        "responseMimeType",
        "responseJsonSchema",
    ]
)
_PARTS = frozenset(
    ["text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData"]
)
_DECLARED = frozenset(["name", "description", "parametersJsonSchema"])
_MESSAGE = frozenset(["role", "content", "thinking", "images", "tool_name"])


def write(bundle: SessionBundle) -> ExportFile:
    """The first request of the session's last run, and the loop that goes on from there."""
    turn = _first_of_last_run(bundle.session)
    name = file_name(bundle.title, "py")
    if turn is None:
        text = '"""Nothing was sent yet."""\n'
        return ExportFile(name, "text/x-python", text.encode(), ("Nothing was sent yet.",))
    asked = request_of_turn(turn, bundle.base_url)
    text, notes = source(asked, recorded_results(bundle.session, turn), bundle.title)
    return ExportFile(name, "text/x-python", text.encode("utf-8", "replace"), notes)


def source(
    asked: ExportedRequest, results: Mapping[str, Sequence[str]], title: str = ""
) -> tuple[str, tuple[str, ...]]:
    """(the file, sentences on what it does otherwise). `results` are texts by the tool's name."""
    value, said = asked.value, TEMPLATES.get(asked.protocol)
    found = package_base(asked)
    if value is None or said is None or found is None or not comparable(value):
        why = "This request has no form in an official Python package; curl can send it."
        return f'"""{why}"""\n', (why,)
    notes = list(asked.notes)
    tools = bool(value.get("tools"))
    what = f"Request {asked.number}" if asked.number else "The next request"
    of = f" of '{title}'" if title else ""
    words = [
        comment_text(f"{what}{of}, by the official package."),
        "",
        f"    pip install {said.package}",
    ]
    words += ["", *map(comment_text, notes)] if notes else []
    request, setting = _request(asked, value, found, notes)
    parts = [
        '"""' + "\n".join(words) + '\n"""',
        _imports(asked, said.head),
        setting,
        f"REQUEST = {literal(request)}",
        *([f"RECORDED = {literal({n: list(r) for n, r in results.items()})}"] if tools else []),
    ]
    functions = [_before(asked, value), said.stream if asked.streams else said.whole]
    functions += [said.go_on, LOOP] if tools else ["\nask(REQUEST)\n"]
    code = "\n\n".join(parts) + "\n\n" + "\n".join(function for function in functions if function)
    return code, tuple(notes)


def _first_of_last_run(session: Session) -> Turn | None:
    turns = {turn.seq for turn in sent_turns(session)}
    first: Turn | None = None
    for item in reversed(session.items):
        if isinstance(item, Prompt) and first is not None:
            break
        if isinstance(item, Turn) and item.seq in turns and request_of_turn(item).value is not None:
            first = item
    return first


def recorded_results(session: Session, turn: Turn) -> Mapping[str, Sequence[str]]:
    """The texts that the tools gave from `turn` to the next prompt, by name and in order."""
    found: dict[str, list[str]] = {}
    for item in session.items:
        if item.seq < turn.seq:
            continue
        if isinstance(item, Prompt):
            break
        for call in [] if item.dropped else item.calls:
            if call.result is not None:
                found.setdefault(call.name, []).append(call.result.text)
    return found


def _imports(request: ExportedRequest, head: str) -> str:
    return ("import os\n\n" if _key(request) and "import json" not in head else "") + (
        head.replace("import json", "import json\nimport os") if _key(request) else head
    )


def _key(request: ExportedRequest) -> str:
    return f'os.environ["{request.key_name}"]' if request.key_header else ""


def _request(
    asked: ExportedRequest,
    value: Mapping[str, Any],
    found: tuple[str, str, Mapping[str, str]],
    notes: list[str],
) -> tuple[dict[str, Any], str]:
    """(the arguments of the package's call, the lines that make its client)."""
    url, query, named = found
    own = {*OWN_HEADERS, asked.key_header}
    headers = {name: text for name, text in asked.headers.items() if name.lower() not in own}
    key = _key(asked)
    match asked.protocol:
        case "gemini":
            return _gemini(value, named), _gemini_client(asked, url, named, headers, notes)
        case "ollama":
            lines = [f"host={literal(url)}"]
            bearer = [f'"Authorization": "Bearer " + {key}']
            given = [*(bearer if key else []), *(f"{n!r}: {v!r}" for n, v in headers.items())]
            lines += [f"headers={{{', '.join(given)}}}"] if given else []
            return dict(value), _client_code("ollama.Client", lines)
    known = TEMPLATES[asked.protocol].known
    request = {name: value_ for name, value_ in value.items() if name in known}
    extra = {name: value_ for name, value_ in value.items() if name not in known}
    if asked.protocol == "anthropic":
        extra.pop("stream", None)
    if extra:
        request["extra_body"] = extra
    word = "auth_token" if asked.protocol == "anthropic" and _has_bearer(asked) else "api_key"
    lines = [f"{word}={key or repr('none')}", f"base_url={literal(url)}"]
    if query:
        pairs = dict(pair.partition("=")[::2] for pair in query.split("&"))
        lines.append(f"default_query={literal(pairs)}")
    if headers:
        lines.append(f"default_headers={literal(headers)}")
    name = "anthropic.Anthropic" if asked.protocol == "anthropic" else "openai.OpenAI"
    return request, _client_code(name, lines)


def _has_bearer(request: ExportedRequest) -> bool:
    return request.key_header.lower() == "authorization"


def _client_code(name: str, lines: Sequence[str]) -> str:
    inner = "".join("    " + line.replace("\n", "\n    ") + ",\n" for line in lines)
    return f"client = {name}(\n{inner})"


def _gemini(value: Mapping[str, Any], named: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of generate_content; what its types might change goes by `extra_body`."""
    config: dict[str, Any] = {}
    extra = dict(value)
    generation = extra.get("generationConfig")
    if isinstance(generation, dict) and generation.keys() <= _GENERATION:
        config.update(extra.pop("generationConfig"))
    tools = extra.get("tools")
    plain = all(
        tool.keys() == {"functionDeclarations"}
        and all(
            declaration.keys() <= _DECLARED
            for declaration in _objects(tool["functionDeclarations"])
        )
        for tool in _objects(tools)
    )
    if plain and tools:
        # The package would call Python functions by itself; declarations it leaves alone.
        config["tools"] = extra.pop("tools")
    contents = extra.get("contents")
    if contents and all(map(_plain_content, _objects(contents))):
        extra.pop("contents")
    if extra:
        config["http_options"] = {"extra_body": extra}
    model = named["model"].removeprefix("models/")
    request = {"model": model, "contents": contents or []}
    return {**request, "config": config} if config else request


def _objects(value: Any) -> Sequence[Mapping[str, Any]]:
    """The objects of a list; of anything else one object that is like none."""
    whole = isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return value if whole else ({"no list of objects": value},)


def _plain_content(content: Mapping[str, Any]) -> bool:
    """Whether the package's own types give it back as it is; bytes it would write anew."""
    return content.keys() <= {"role", "parts"} and all(
        part.keys() <= _PARTS for part in _objects(content.get("parts", []))
    )


def _gemini_client(
    request: ExportedRequest,
    url: str,
    named: Mapping[str, str],
    headers: Mapping[str, str],
    notes: list[str],
) -> str:
    options: dict[str, Any] = {"base_url": url, "api_version": named["version"]}
    project = _PROJECT.search(request.url)
    if project is not None:
        notes.append(
            "Vertex takes the credentials of gcloud: gcloud auth application-default login"
        )
        lines = ["vertexai=True", f"project={project[1]!r}", f"location={project[2]!r}"]
        return _client_code("genai.Client", lines)
    if headers:
        options["headers"] = dict(headers)
    key = _key(request) or repr("none")
    return _client_code("genai.Client", [f"api_key={key}", f"http_options={literal(options)}"])


def _before(request: ExportedRequest, value: Mapping[str, Any]) -> str:
    match request.protocol:
        case "openai_responses":
            return RESPONSES_READ
        case "gemini":
            return GEMINI_READ
        case "ollama":
            return OLLAMA_READ + "\n" + (OLLAMA_CHAT if _chat_sends_all(value) else OLLAMA_RAW)
    return ""


def _chat_sends_all(value: Mapping[str, Any]) -> bool:
    """Whether the package's chat() sends all of `value`: its types drop what they do not know."""
    return (
        value.keys() <= TEMPLATES["ollama"].known
        and not value.get("tools")
        and all(message.keys() <= _MESSAGE for message in _objects(value.get("messages", [])))
        and None not in value.values()
    )


def literal(value: Any, depth: int = 0) -> str:
    """JSON data as Python, on one line where that is short."""
    flat = repr(value)
    if len(flat) + 4 * depth <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    pad = "    " * (depth + 1)
    inner = "".join(f"{pad}{line},\n" for line in _items(value, depth + 1))
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n{inner}{pad[4:]}{end}"


def _items(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield f"{name!r}: {literal(item, depth)}"
    else:
        for item in value:
            yield literal(item, depth)
