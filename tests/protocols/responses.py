"""Events of OpenAI Responses, written by hand."""

from __future__ import annotations

from typing import Any


def event(type_: str, index: int | None = None, **more: Any) -> dict[str, Any]:
    """The event `response.TYPE` about item `index`."""
    place = {} if index is None else {"output_index": index}
    return {"type": f"response.{type_}", **place, **more}


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("output_item.added", index, item=item)


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("output_item.done", index, item=item)


def args(index: int, delta: str) -> dict[str, Any]:
    return event("function_call_arguments.delta", index, delta=delta, item_id="fc_1")


def text(index: int, delta: str, place: int = 0) -> dict[str, Any]:
    return event("output_text.delta", index, content_index=place, delta=delta)


def summary(index: int, delta: str, place: int = 0) -> dict[str, Any]:
    return event("reasoning_summary_text.delta", index, summary_index=place, delta=delta)


def body(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """A whole response."""
    usage = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
    head = {"id": "resp_1", "object": "response", "model": "m", "status": status}
    return {**head, "output": list(output), "usage": usage, **more}


def completed(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The event that ends a stream; its name follows the status."""
    response = body(*output, **more)
    return event(response["status"], response=response)


def call(arguments: Any = "{}", call_id: str = "call_1", **more: Any) -> dict[str, Any]:
    head = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "f"}
    return {**head, "status": "completed", "arguments": arguments, **more}


def message(*content: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    """A message; a text stands for a piece of output text."""
    pieces = [
        {"type": "output_text", "annotations": [], "text": data} if isinstance(data, str) else data
        for data in content
    ]
    head = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**head, "content": pieces, **more}


def reasoning(*texts: str, **more: Any) -> dict[str, Any]:
    pieces = [{"type": "summary_text", "text": text} for text in texts]
    return {"type": "reasoning", "id": "rs_1", "summary": pieces, **more}
