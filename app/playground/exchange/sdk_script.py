"""A request as a Python script for the official package of its protocol, with its tool loop.

Everything from the session is written by `repr`; the code around it is fixed for each protocol and
is in `sdk_templates`. Members that the package has no parameter for are sent by `extra_body`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playground.core.session import Prompt, Session, Turn
from playground.exchange.bundle import ExportFile, SessionBundle, comment_text, file_name
from playground.exchange.replay_read import is_comparable
from playground.exchange.requests_export import (
    ExportedRequest,
    package_base,
    request_of_turn,
    sent_turns,
)

# -- Common to all scripts of a protocol -----------------------------------------------------------


WIDTH = 88

OWN_HEADERS = ("content-type", "accept", "anthropic-version")
"""Set by every package itself."""

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


@dataclass(frozen=True)
class ScriptTemplate:
    """The common part of all scripts of a protocol. `sections` are the pieces of its file in
    `sdk_templates`, by name. `known` are the arguments of the package's call; the rest of a body is
    sent by `extra_body`."""

    package: str
    sections: Mapping[str, str]
    known: frozenset[str]


_FOLDER = Path(__file__).parent / "sdk_templates"

LOOP = "\n" + (_FOLDER / "loop.py.txt").read_text(encoding="utf-8")


def _template(protocol: str, package: str, known: str = "") -> ScriptTemplate:
    text = (_FOLDER / f"{protocol}.py.txt").read_text(encoding="utf-8")
    pieces = (piece.partition("\n") for piece in re.split(r"(?m)^#: ", text)[1:])
    sections = {name: f"\n{code.strip()}\n" for name, _, code in pieces}
    return ScriptTemplate(package, sections, frozenset(known.split()))


TEMPLATES: Mapping[str, ScriptTemplate] = {
    "anthropic": _template(
        "anthropic",
        "anthropic",
        """cache_control container max_tokens messages metadata model output_config service_tier
        stop_sequences system thinking tool_choice tools""",
    ),
    "openai_chat": _template(
        "openai_chat",
        "openai",
        """audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens messages
        metadata modalities model n parallel_tool_calls prediction presence_penalty
        reasoning_effort response_format seed service_tier stop store stream stream_options
        temperature tool_choice tools top_logprobs top_p user verbosity""",
    ),
    "openai_responses": _template(
        "openai_responses",
        "openai",
        """background include input instructions max_output_tokens max_tool_calls metadata model
        parallel_tool_calls previous_response_id prompt reasoning service_tier store stream
        stream_options temperature text tool_choice tools top_logprobs top_p truncation user""",
    ),
    "gemini": _template(
        "gemini",
        "google-genai",
    ),
    "ollama": _template(
        "ollama",
        "ollama",
        """format keep_alive logprobs messages model options stream think tools top_logprobs""",
    ),
}


def write(bundle: SessionBundle) -> ExportFile:
    """The first request of the session's last run, and the loop that continues from there."""
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
    """(the file, sentences on its differences). `results` are texts by the tool's name."""
    value, template = asked.value, TEMPLATES.get(asked.protocol)
    base = package_base(asked)
    if value is None or template is None or base is None or not is_comparable(value):
        why = "No official Python package can send this request. Use curl."
        return f'"""{why}"""\n', (why,)
    notes = list(asked.notes)
    tools = bool(value.get("tools"))
    what = f"Request {asked.number}" if asked.number else "The next request"
    of = f" of '{title}'" if title else ""
    words = [
        comment_text(f"{what}{of}, with the official package."),
        "",
        f"    pip install {template.package}",
    ]
    words += ["", *map(comment_text, notes)] if notes else []
    request, setting = _request(asked, value, base, notes)
    parts = [
        '"""' + "\n".join(words) + '\n"""',
        _imports(asked, template.sections["import"].strip()),
        setting,
        f"REQUEST = {literal(request)}",
        *([f"RECORDED = {literal({n: list(r) for n, r in results.items()})}"] if tools else []),
    ]
    functions = [
        *_sections_before(asked.protocol, value),
        "ask streamed" if asked.streams else "ask whole",
    ]
    functions = [template.sections[name] for name in (*functions, *(["go on"] if tools else []))]
    functions.append(LOOP if tools else "\nask(REQUEST)\n")
    code = "\n\n".join(parts) + "\n\n" + "\n".join(functions)
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
    """The texts that the tools returned from `turn` to the next prompt, by name and in order."""
    results: dict[str, list[str]] = {}
    for item in session.items:
        if item.seq < turn.seq:
            continue
        if isinstance(item, Prompt):
            break
        for call in [] if item.dropped else item.calls:
            if call.result is not None:
                results.setdefault(call.name, []).append(call.result.text)
    return results


def _imports(request: ExportedRequest, head: str) -> str:
    return ("import os\n\n" if _key(request) and "import json" not in head else "") + (
        head.replace("import json", "import json\nimport os") if _key(request) else head
    )


def _key(request: ExportedRequest) -> str:
    return f'os.environ["{request.key_name}"]' if request.key_header else ""


def _request(
    asked: ExportedRequest,
    value: Mapping[str, Any],
    base: tuple[str, str, Mapping[str, str]],
    notes: list[str],
) -> tuple[dict[str, Any], str]:
    """(the arguments of the package's call, the lines that create its client)."""
    url, query, named = base
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
    """Arguments of generate_content; what its types might change is sent by `extra_body`."""
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
        # The package would call Python functions itself, but not declarations.
        config["tools"] = extra.pop("tools")
    contents = extra.get("contents")
    if contents and all(map(_is_plain_content, _objects(contents))):
        extra.pop("contents")
    if extra:
        config["http_options"] = {"extra_body": extra}
    path = f"{named['owner']}/{named['collection']}/{named['model']}".removeprefix("/")
    model = path.removeprefix("models/")
    request = {"model": model, "contents": contents or []}
    return {**request, "config": config} if config else request


def _objects(value: Any) -> Sequence[Mapping[str, Any]]:
    """The objects of a list; for other values one object unequal to any."""
    whole = isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return value if whole else ({"not a list of objects": value},)


def _is_plain_content(content: Mapping[str, Any]) -> bool:
    """Whether the package's own types reproduce it exactly; they would re-encode bytes."""
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


def _sections_before(protocol: str, value: Mapping[str, Any]) -> tuple[str, ...]:
    """The sections before the one that sends the request."""
    match protocol:
        case "openai_responses" | "gemini":
            return ("read",)
        case "ollama":
            return "read", "send" if _chat_sends_all(value) else "send raw"
    return ()


def _chat_sends_all(value: Mapping[str, Any]) -> bool:
    """Whether the package's chat() sends all of `value`: its types drop unknown members."""
    return (
        value.keys() <= TEMPLATES["ollama"].known
        and not value.get("tools")
        and all(message.keys() <= _MESSAGE for message in _objects(value.get("messages", [])))
        and None not in value.values()
    )


def literal(value: Any, depth: int = 0) -> str:
    """JSON data as Python, on one line if short."""
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
