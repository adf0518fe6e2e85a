"""A session without what a person wants to keep: recordings, results, thinking, images. Pure.

What was said to a model is said again in each request after it, and what it said stands in the
bytes of its answer: whoever leaves out the one leaves out the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from app.core.errors import BadInput
from app.core.events import (
    CallDecided,
    CallEnded,
    CallProgressed,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestSent,
    TaskEnded,
)
from app.core.reducer import fold
from app.core.tools import Content, ToolResult
from app.exchange.bundle import SessionBundle

OMITTABLE: Mapping[str, str] = {
    "recordings": "the bytes of the answers",
    "results": "what the tools returned, and the bodies of the requests, which repeat it",
    "thinking": "what the model thought, the bytes of the answers and the bodies of the requests",
    "images": "images, and the bodies of the requests, which repeat them",
}
"""What can be left out, by name, and what goes with it."""

GONE = "[left out]"
_BODIES = {"results", "thinking", "images"}
_BYTES = {"recordings", "thinking"}


def omit(kept: SessionBundle, names: Collection[str]) -> SessionBundle:
    """`kept` without what `names` name; BadInput where one is not to be left out."""
    for name in names:
        if name not in OMITTABLE:
            there = ", ".join(OMITTABLE)
            raise BadInput(f"{name[:40]!r} cannot be left out; there is {there}.")
    if not names:
        return kept
    log: list[Logged] = []
    thinking: set[int] = set()  # the parts of the open turn that are thoughts
    for logged in kept.log:
        event = logged.event
        if isinstance(event, RequestSent):
            thinking = set()
        if isinstance(event, PartStarted) and event.part_kind == "thinking":
            thinking.add(event.index)
        log.append(replace(logged, event=_omit_from(event, names, thinking)))
    recordings = {} if _BYTES & set(names) else kept.recordings
    session = fold(kept.session.id, log)
    return replace(kept, log=log, session=session, recordings=recordings)


def _omit_from(event: Event, names: Collection[str], thinking: Collection[int]) -> Event:
    if "images" in names:
        event = _without_images(event)
    if "results" in names:
        event = _without_results(event)
    match event:
        case RequestSent() if _BODIES & set(names):
            return replace(event, body="{}")
        case PartStarted(index=index) if "thinking" in names and index in thinking:
            return replace(event, meta={})
        case PartDelta(index=index) if "thinking" in names and index in thinking:
            return replace(event, text="")
        case PartEnded(index=index) if "thinking" in names and index in thinking:
            return replace(event, text=GONE, meta={})
    return event


def _without_results(event: Event) -> Event:
    match event:
        case CallEnded(result=result, real=real):
            return replace(
                event,
                result=_without_content(result),
                real=None if real is None else _without_content(real),
            )
        case TaskEnded(result=ToolResult() as result):
            return replace(event, result=_without_content(result))
        case CallProgressed(real=real):
            kept = None if real is None else _without_content(real)
            return replace(event, text="", output="", real=kept)
        case CallDecided(decision="answer"):
            return replace(event, text=GONE, images=())
    return event


def _without_images(event: Event) -> Event:
    match event:
        case PromptAdded(images=images) if images:
            return replace(event, images=(), text=event.text or GONE, form={})
        case CallDecided(images=images) if images:
            return replace(event, images=())
        case CallEnded(result=result, real=real):
            kept = None if real is None else _no_images(real)
            return replace(event, result=_no_images(result), real=kept)
        case TaskEnded(result=ToolResult() as result):
            return replace(event, result=_no_images(result))
        case CallProgressed(real=ToolResult() as real):
            return replace(event, real=_no_images(real))
    return event


def _without_content(result: ToolResult) -> ToolResult:
    return replace(result, content=(Content(text=GONE),), form={})


def _no_images(result: ToolResult) -> ToolResult:
    content = (
        Content(text=GONE) if content.type == "image" else content for content in result.content
    )
    return replace(result, content=tuple(content), form={})
