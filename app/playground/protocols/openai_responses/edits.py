"""Edits an answer of OpenAI Responses for a client: removes calls, changes arguments. Also defines
how results and answers are written in the history of its requests.

A call is in five places: `output_item.added`, the deltas of its arguments and their end,
`output_item.done`, and the `output` of the response in the last event. Spec:
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from playground.core.messages import MessagePart
from playground.protocols.editable_answer import (
    AnswerEditor,
    EditableAnswer,
    EditableFrame,
    joined_usage,
    whole_answers,
)
from playground.protocols.history_form import HistoryForm, ResultEdit, say_result
from playground.protocols.item_editor import ItemEditor, ItemForm, continue_items, next_index
from playground.protocols.openai_responses.decode import ENDS
from playground.protocols.openai_responses.items import CALLS
from playground.protocols.raw_json import Changes, JsonText, Path, dump_ascii
from playground.protocols.request import Body

_SAYS_AGAIN: Mapping[str, str] = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}
_OF_NO_CALL = (
    *("response.output_item.", "response.content_part.", "response.output_text."),
    *("response.refusal.", "response.reasoning"),
)
"""Events that concern no call unless the decoder says so: one index may be that of two items."""

_TOKENS = ("output_tokens", "output_tokens_details"), "total_tokens"
"""The counts of what was written, and of all."""

_NUMBER, _THINKING = "sequence_number", "reasoning"

_ITEMS = ItemForm(
    index="output_index",
    start="response.output_item.added",
    item="item",
    thinking=(_THINKING,),
    deltas=dict.fromkeys(
        ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"),
        ("delta",),
    ),
)


def edit(answer: EditableAnswer) -> None:
    """Edits a stream, or one response."""
    _Items(answer).edit()
    _count_on(answer)


class _Items:
    def __init__(self, answer: EditableAnswer) -> None:
        self._answer = answer
        self._call_ids = {
            str(item["call_id"])
            for frame in answer.frames
            for place in frame.places
            if place.part in answer.taken
            and isinstance(item := frame.value_at(*place.path), dict)
            and item.get("call_id")
        }

    def edit(self) -> None:
        answer = self._answer
        ending = answer.ending_frame(_ends)
        editor = ItemEditor(answer, _ITEMS, _write_arguments)
        editor.edit(self._find())
        self._add_reasons(ending, editor.next_index)
        for frame in answer.frames:
            for path in (("output",), ("response", "output")):
                if isinstance(frame.value_at(*path), list):
                    self._output(frame, path, is_end=frame is ending)

    def _find(self) -> Sequence[tuple[EditableFrame, int]]:
        """The events of items, each with the part of its call, -1 for none."""
        owner: dict[Any, int] = {}
        events: list[tuple[EditableFrame, int]] = []
        for frame in self._answer.frames:
            index = frame.value_at("output_index")
            about = [place.part for place in frame.places if place.path in ((), ("item",))]
            names = [name for name in (_id_in(frame.value), index) if name is not None]
            if not names and not about:
                continue
            for part in about:
                owner.update(dict.fromkeys(names, part))
            part = about[-1] if about else -1
            if not about and not frame.type.startswith(_OF_NO_CALL):
                part = next((owner[name] for name in names if name in owner), -1)
            events.append((frame, part))
        return events

    def _output(self, frame: EditableFrame, path: Path, *, is_end: bool) -> None:
        """Edits the items listed in a response."""
        answer, items = self._answer, frame.value_at(*path)
        owner = {place.path: place.part for place in frame.places}
        for nth, item in enumerate(items):
            part = owner.get((*path, nth), -1)
            if part in answer.taken or self._is_double(item):
                frame.take(*path, nth)
            elif part in answer.arguments:
                _set_item_arguments(frame, (*path, nth), answer.arguments[part], is_done=True)
        # If a server lists no items at the end although it sent some, ours are not listed either.
        if is_end and answer.reasons and items:
            message = _message(_response_id(answer), answer.reasons, "completed")
            frame.set(message, *path, len(items))

    def _is_double(self, item: Any) -> bool:
        """Whether a listed item without a known position is a removed call."""
        is_call = isinstance(item, dict) and item.get("type") in CALLS
        return is_call and str(item.get("call_id")) in self._call_ids

    def _add_reasons(self, before: EditableFrame | None, index: int) -> None:
        """Adds the reasons as a message after all items."""
        answer = self._answer
        if not answer.reasons or (before is not None and before.kind == "json"):
            return
        id_ = _response_id(answer)
        whole = _message(id_, answer.reasons, "completed")
        begun = {**whole, "status": "in_progress", "content": []}
        piece = whole["content"][0]
        text = {"text": answer.reasons}
        numbered = before is None or "sequence_number" in before.value
        place = {"item_id": whole["id"], "output_index": index, "content_index": 0}
        values: Sequence[tuple[str, Mapping[str, Any]]] = (
            ("output_item.added", {"output_index": index, "item": begun}),
            ("content_part.added", {**place, "part": {**piece, "text": ""}}),
            ("output_text.delta", {**place, "delta": answer.reasons, "logprobs": []}),
            ("output_text.done", {**place, **text, "logprobs": []}),
            ("content_part.done", {**place, "part": piece}),
            ("output_item.done", {"output_index": index, "item": whole}),
        )
        number = {"sequence_number": 0} if numbered else {}
        answer.insert(
            before, *({"type": f"response.{type_}", **number, **more} for type_, more in values)
        )


def _write_arguments(frame: EditableFrame, text: str, index: int, is_in_pieces: bool) -> None:
    if member := _SAYS_AGAIN.get(frame.type):
        frame.set(text, member)
    else:
        _set_item_arguments(frame, ("item",), text, is_done=frame.type.endswith("done"))


def _set_item_arguments(frame: EditableFrame, path: Path, text: str, *, is_done: bool) -> None:
    """Sets the arguments of an item; an announced item keeps empty ones."""
    member = CALLS.get(str(frame.value_at(*path, "type")), "arguments")
    old = frame.value_at(*path, member)
    if old is None or isinstance(old, str):
        if old or is_done:
            frame.set(text, *path, member)
    else:
        frame.put(text, *path, member)


def _ends(frame: EditableFrame) -> bool:
    return frame.type in ENDS or frame.value_at("object") == "response"


def _response_id(answer: EditableAnswer) -> str:
    ids = (frame.value_at("response", "id") or frame.value_at("id") for frame in answer.frames)
    return next((str(id_) for id_ in ids if id_), "")


def _message(response_id: str, text: str, status: str) -> dict[str, Any]:
    """A message with an id derived from the answer and the text."""
    digest = hashlib.sha256(f"{response_id}\n{text}".encode("utf-8", "replace")).hexdigest()
    content = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    head = {"id": f"msg_{digest[:48]}", "type": "message", "status": status}
    return {**head, "content": [content], "role": "assistant"}


def _count_on(answer: EditableAnswer) -> None:
    """Renumbers the events from the first one that was dropped or inserted."""
    last: int | None = None
    has_changed = False
    for frame in answer.frames:
        has_changed = has_changed or frame.dropped or frame.fresh
        number = frame.value_at("sequence_number")
        if frame.dropped or not isinstance(number, int):
            continue
        if has_changed and last is not None:
            number = last + 1
            frame.set(number, "sequence_number")
        last = number


def keepalive(values: Sequence[Mapping[str, Any]], passed: int) -> bytes:
    """`response.in_progress` with the last number and with the items passed on so far: clients that
    take over its response would lose them otherwise."""
    seen = values[:passed]
    started = next((value for value in seen if isinstance(value.get("response"), dict)), None)
    if started is None:
        return b""
    items: dict[int | str, dict[str, Any]] = {}
    for value in seen:
        _grow(items, value)
    numbered = sorted(index for index in items if isinstance(index, int))
    output = [items[index] for index in numbered]
    output += [item for name, item in items.items() if isinstance(name, str)]
    response = {**started["response"], "status": "in_progress", "output": output}
    event: dict[str, Any] = {"type": "response.in_progress", "response": response}
    numbers = [value["sequence_number"] for value in seen if "sequence_number" in value]
    if numbers:
        event["sequence_number"] = numbers[-1]
    return b"event: response.in_progress\ndata: " + dump_ascii(event).encode() + b"\n\n"


def _id_in(value: Any) -> str | None:
    """The id of the item that an event is about, or of its call."""
    item = value.get("item") if isinstance(value, dict) else None
    own = item if isinstance(item, dict) else {}
    ids = (own.get("id"), value.get("item_id"), own.get("call_id")) if own or value else ()
    return next((id_ for id_ in ids if isinstance(id_, str) and id_), None)


def _grow(items: dict[int | str, dict[str, Any]], value: Mapping[str, Any]) -> None:
    """Applies an event to its item."""
    index, type_ = value.get("output_index"), str(value.get("type"))
    name = index if isinstance(index, int) else _id_in(value)
    if name is None:
        return
    if type_ in ("response.output_item.added", "response.output_item.done"):
        if isinstance(value.get("item"), dict):
            items[name] = dict(value["item"])
        return
    item = items.get(name)
    if item is None:
        return
    for member, number, types in (
        ("content", "content_index", ("response.content_part.", "response.output_text.")),
        ("summary", "summary_index", ("response.reasoning_summary",)),
    ):
        place = value.get(number, 0 if type_.startswith(types) else None)
        if not isinstance(place, int):
            continue
        pieces = item[member] = [*item.get(member, ())]
        if isinstance(part := value.get("part"), dict):
            pieces[place : place + 1] = [dict(part)]
        elif type_.endswith("text.delta") and place < len(pieces):
            grown = f"{pieces[place].get('text', '')}{value.get('delta', '')}"
            pieces[place] = {**pieces[place], "text": grown}


# Joining two answers.


def join(first: EditableAnswer, last: EditableAnswer) -> None:
    if wholes := whole_answers(first, last, _is_whole):
        _join_whole(*wholes)
        return
    ends = [frame for frame in first.frames if frame.type in ENDS]
    numbers = [
        number for frame in first.frames if isinstance(number := frame.value_at(_NUMBER), int)
    ]
    index = next_index(first, _ITEMS)
    for frame in ends:
        frame.drop()
    number = max(numbers, default=0) - len([n for frame in ends if (n := frame.value_at(_NUMBER))])
    started = next(
        (frame for frame in first.frames if isinstance(frame.value_at("response"), dict)), None
    )
    for frame in continue_items(last, _ITEMS, index, opens=_opens):
        if frame.type in ENDS:
            if started is not None:
                _keep_head(frame, ("response",), started.value_at("response"))
            if ends:
                _add_first(frame, ends[-1])
        if isinstance(frame.value_at(_NUMBER), int):
            number += 1
            frame.set(number, _NUMBER)


def _opens(frame: EditableFrame) -> bool:
    return isinstance(frame.value_at("response"), dict) and frame.type not in ENDS


def _keep_head(frame: EditableFrame, at: Path, first: Mapping[str, Any]) -> None:
    """Both are one response, with the id and the time of the first one."""
    for name in ("id", "created_at", "previous_response_id"):
        if name in first and name in frame.value_at(*at):
            frame.set(first[name], *at, name)


def _add_first(frame: EditableFrame, end: EditableFrame, at: Path = ("response",)) -> None:
    """Adds the first answer's end: its items before these, and its tokens."""
    before, after = JsonText(end.data), JsonText(frame.data)
    listed = end.value_at(*at, "output") or ()
    items = [before.member(*at, "output", nth) for nth in range(len(listed))]
    for nth, item in enumerate(frame.value_at(*at, "output") or ()):
        if not (isinstance(item, dict) and item.get("type") == _THINKING):
            items.append(after.member(*at, "output", nth))
    if isinstance(frame.value_at(*at, "output"), list):
        frame.put(f"[{','.join(items)}]", *at, "output")
    used, usage = end.value_at(*at, "usage"), frame.value_at(*at, "usage")
    if isinstance(used, dict) and isinstance(usage, dict):
        frame.set(joined_usage(used, usage, *_TOKENS), *at, "usage")


def _is_whole(frame: EditableFrame) -> bool:
    return bool(frame.value_at("object") == "response")


def _join_whole(first: EditableFrame, last: EditableFrame) -> None:
    _keep_head(last, (), first.value)
    _add_first(last, first, ())
    first.drop()


EDITOR = AnswerEditor(edit, keepalive, join)


# The history of a request: results, and answers that are put back.


def _write(item: Body, edit: ResultEdit) -> Changes:
    return {("output",): dump_ascii(say_result(edit))}


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    kinds = {item.get("call_id"): item.get("type") for item in answer}
    return {"type": f"{kinds.get(call.call_id, 'function_call')}_output", "call_id": call.call_id}


def _id_of(item: Body) -> Path:
    return ("call_id",)


def _ask_freely(body: Body) -> Changes:
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {("tool_choice", "mode"): dump_ascii("auto")}
    if isinstance(choice, dict) or choice == "required":
        return {("tool_choice",): dump_ascii("auto")}
    return {}


def _unfollowed_reasoning(items: Sequence[object]) -> Sequence[int]:
    """Reasoning without an item of the model after it."""
    places: list[int] = []
    is_led = False
    for place in reversed(range(len(items))):
        item = items[place]
        kind = str(item.get("type") or "message") if isinstance(item, dict) else ""
        if kind == _THINKING:
            places += [] if is_led else [place]
        elif isinstance(item, dict):
            is_led = not kind.endswith("_output")
            is_led = is_led and (kind != "message" or item.get("role") == "assistant")
    return places


HISTORY = HistoryForm(
    "input", _write, _make, _id_of, ask_freely=_ask_freely, alone=_unfollowed_reasoning
)
