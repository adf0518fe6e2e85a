"""Reads bodies of OpenAI Responses."""

from __future__ import annotations

from collections.abc import Iterator

from app.core.messages import MessagePart
from app.protocols.request import (
    SYSTEM_ROLES,
    AnswerMessage,
    Body,
    RequestItem,
    RequestNotes,
    RequestReader,
    RequestSetup,
    ResultMessage,
    call_part,
    dicts,
    leading_system_messages,
    openai_choice,
    params_of,
    placed,
    rest_of,
    text_of,
)


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    words = {"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}
    params = params_of(body, **words, thinking="reasoning")
    known = (*words.values(), "reasoning", "model", "input", "instructions", "tools")
    more = ("tool_choice", "parallel_tool_calls", "stream", "store", "include")
    system = [text_of(body.get("instructions"))]
    system += [
        text_of(item.get("content")) for _, item in _listed_items(body)[: _instruction_items(body)]
    ]
    if body.get("store") is True:
        notes.add("It asked the provider to keep the answer; here store is false.")
    if body.get("previous_response_id"):
        notes.add("It continues from an answer that the provider stored, which is not here.")
    return RequestSetup(
        model=str(body.get("model") or ""),
        system="\n\n".join(text for text in system if text),
        tools=[*dicts(body.get("tools")), *_additional_tools(body)],
        choice=openai_choice(body, notes),
        params=params,
        extra=rest_of(body, *known, *more, "previous_response_id"),
        stream=body.get("stream") is True,
    )


def _instruction_items(body: Body) -> int:
    """How many items at the head are the system prompt: none where there are instructions."""
    messages = [item for _, item in _listed_items(body)]
    return 0 if body.get("instructions") else leading_system_messages(messages)


def _listed_items(body: Body) -> list[tuple[int, Body]]:
    """The items of the conversation, each with its place."""
    return [(place, item) for place, item in placed(body.get("input")) if not _has_tools(item)]


def _additional_tools(body: Body) -> Iterator[Body]:
    """The tools in items: Codex has them there for some models, before its instructions."""
    for item in dicts(body.get("input")):
        if _has_tools(item):
            yield from dicts(item.get("tools"))


def _has_tools(item: Body) -> bool:
    """Whether it is the client that adds tools; without a role it is an item of an answer."""
    return item.get("type") == "additional_tools" and item.get("role") in SYSTEM_ROLES


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    given = body.get("input")
    if isinstance(given, str):
        yield from notes.messages(given, ("input",))
        return
    output: list[tuple[int, Body]] = []
    for place, item in _listed_items(body)[_instruction_items(body) :]:
        kind, role, at = item.get("type", "message"), item.get("role"), ("input", place)
        if kind in ("function_call_output", "custom_tool_call_output"):
            yield from _answer(output)
            beside = rest_of(item, "type", "id", "status", "call_id", "output")
            content, form = notes.result(item.get("output"), **beside)
            yield ResultMessage(str(item.get("call_id") or ""), "", content, form=form, at=at)
        elif kind != "message" or role == "assistant":
            output.append((place, _output_item(item)))
        elif role in ("user", *SYSTEM_ROLES):
            yield from _answer(output)
            own = rest_of(item, "type", "id", "status", "role", "content")
            yield from notes.messages(item.get("content"), at, role, own)
    yield from _answer(output)


def _output_item(item: Body) -> Body:
    """A message of the model as answers have it: with typed content."""
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, str):
        pieces = [{"type": "output_text", "text": content, "annotations": []}]
        return {**item, "type": "message", "content": pieces}
    return {"type": "message", **item} if item.get("role") == "assistant" else item


def _answer(output: list[tuple[int, Body]]) -> Iterator[AnswerMessage]:
    """The items of the model since the last other one, as one answer; `output` is empty then."""
    if output:
        items = [item for _, item in output]
        head = {"object": "response", "status": "completed", "error": None}
        parts = tuple(part for item in items for part in _parts(item))
        yield AnswerMessage({**head, "output": items}, parts, ("input", output[0][0]))
        output.clear()


def _parts(item: Body) -> Iterator[MessagePart]:
    id_ = str(item.get("call_id") or "")
    match item.get("type"):
        case "message":
            for piece in dicts(item.get("content")):
                kind = "refusal" if piece.get("type") == "refusal" else "text"
                yield MessagePart(kind, str(piece.get(kind) or ""))
        case "function_call":
            yield call_part(id_, item.get("name"), item.get("arguments"))
        case "custom_tool_call":
            yield call_part(id_, item.get("name"), {"input": item.get("input")})
        case "reasoning":
            yield MessagePart("thinking", meta=item)
        case _:
            yield MessagePart("other", meta=item)


READER = RequestReader(_setup, _items)
