"""What a generated Python file is made of: for each official package how it is made ready, how one
request is sent and read, and how a tool's results go back. Text alone; nothing of it runs here.

`ask(request)` sends a request, prints what comes and returns (the answer to keep, its calls);
`go_on(request, answer, results)` makes the next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """`known` are the arguments of the package's call; the rest of a body goes by `extra_body`."""

    package: str
    head: str
    stream: str
    whole: str
    go_on: str
    known: frozenset[str]


_ANTHROPIC = Said(
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

_CHAT = Said(
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

_RESPONSES = Said(
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

_GEMINI = Said(
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

_OLLAMA = Said(
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

SAID: Mapping[str, Said] = {
    "anthropic": _ANTHROPIC,
    "openai_chat": _CHAT,
    "openai_responses": _RESPONSES,
    "gemini": _GEMINI,
    "ollama": _OLLAMA,
}
