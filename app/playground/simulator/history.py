"""Reads the history of a request: the prompt to answer, the calls made for it, and their results.

Clients keep histories in many shapes: each part of a turn as a separate message, text after the
calls, results without ids, calls and results written as text, notes of the client in the user's
messages. All are brought to one shape first. A model that does not see that its call was answered
makes it again for ever, so what was answered is never doubted: a result whose call cannot be found
still counts as one.
"""

from __future__ import annotations

import ast
import bisect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

from playground.core.json_values import load_json
from playground.core.messages import Message, MessagePart, arguments_object
from playground.core.tools import Content
from playground.protocols import words_of
from playground.simulator.plan import words

_READ = 2_000
"""Characters of a prompt that are read; patterns over more would be slow."""
_MOST_WRITTEN = 20_000
"""Most characters of an assistant's text in which calls are searched."""
_TAG = re.compile(r"<(/?)([a-z][\w-]{2,60})(?:\s[^<>]{0,200})?>", re.ASCII)
_USER_TAGS = words_of(
    """query request message input prompt task question feedback user_query user_request
    user_message user_input user_prompt user_task user_question user_feedback"""
)
"""Tags that agents put around the user's own text."""
_NOTE_TAGS = words_of("context reminder attachments environment env")
"""Tags around text that agents add; those with a name of several words are such, too."""
_CALL_LIST = re.compile(r"\s*Calling tools:\s*(\[.*\])\s*$", re.S)
_CALL_TAG = re.compile(r"<tool_call>\s*(\{[^<]*\})\s*</tool_call>")
_ACTION = re.compile(r"(?:^|\n)Action:[ `]*([\w.-]+)[ `]*\nAction Input:\s*(\{.*\})\s*$", re.S)
"""How clients write calls as text: smolagents, Hermes templates, ReAct prompts."""
_RESULT_HEAD = re.compile(
    r"\s*(?:Call id: \S+\s+)?(?:(?P<error>Error)|Observation"
    r"|(?:Tool|Function)(?: call)? (?:result|response|output)s?"
    r"|(?:Result|Output)s? (?:of|from) (?:tool |function )?[`'\"]?(?P<name>[\w.-]{1,64})[`'\"]?):",
    re.I,
)
_RESULT_TAGS = words_of(
    """observation tool_result tool_results tool_response tool_responses tool_output tool_outputs
    function_result function_results function_response function_output"""
)
"""How clients write results as text."""


@dataclass(frozen=True)
class CallOutcome:
    """A call of this turn with its result."""

    name: str
    arguments: Mapping[str, Any]
    result: MessagePart

    @property
    def text(self) -> str:
        return "\n".join(c.text for c in self.result.content if c.type == "text").strip()

    @property
    def failed(self) -> bool:
        return self.result.is_error

    def same_call(self, other: CallOutcome) -> bool:
        return (self.name, self.arguments) == (other.name, other.arguments)


def call_outcome(call: MessagePart, result: MessagePart) -> CallOutcome:
    return CallOutcome(call.name, arguments_object(call.text) or {}, result)


@dataclass(frozen=True)
class PromptHistory:
    """The request as seen from its last prompt: the prompt, the calls and the results since.

    `last` is the call before it; `calls_made` are the calls since the model last closed its turn,
    each with the text it was made for. A result without a call counts as a call, too, under the
    result's name, which may be "".
    """

    prompt: str
    last: MessagePart | None
    calls_made: tuple[tuple[str, MessagePart], ...]
    results: tuple[CallOutcome, ...]


def history_of(messages: Sequence[Message]) -> PromptHistory:
    """The history to answer. Text that a client added to a user's own words is not a prompt."""
    messages = _join_turns(_parse_written_calls(_user_messages(messages)))
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    last = asked[-1] if asked else -1
    turn = _open_turn(messages)
    # Text that came with the results: the last prompt is still to be answered.
    beside = last == len(messages) - 1 and last > 0 and messages[last - 1].role == "results"
    answers = list(_answers(messages))
    first = turn if beside else max(turn, last + 1)
    earlier = [part for message in messages[: last + 1] for part in parts_of(message, "call")]
    return PromptHistory(
        prompt=text_of(messages[last]) if asked else "",
        last=earlier[-1] if earlier else None,
        calls_made=tuple(_calls_made(messages, turn, answers)),
        results=tuple(outcome for place, outcome, _ in answers if place >= first),
    )


def parts_of(message: Message, kind: str) -> list[MessagePart]:
    return [part for part in message.parts if part.kind == kind]


def text_of(message: Message, most: int = _READ) -> str:
    return "\n".join(part.text for part in parts_of(message, "text"))[:most]


def _join_turns(messages: Iterable[Message]) -> list[Message]:
    """The messages, with those of one turn as one, and the results after it as one: some clients
    send each part as a separate message, text after the calls."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is not None and message.role == last.role and message.role != "user":
            joined[-1] = replace(last, parts=(*last.parts, *message.parts))
        elif message.parts:
            joined.append(message)
    return joined


def _open_turn(messages: Sequence[Message]) -> int:
    """The beginning of the open turn. The model closes one by an answer without a call that a user
    replies to: text before results, or at the end of the history, is a part of the turn."""
    for place in range(len(messages) - 2, -1, -1):
        message = messages[place]
        replied = message.role == "assistant" and messages[place + 1].role == "user"
        if replied and not parts_of(message, "call"):
            return place + 1
    return 0


def _answers(messages: Sequence[Message]) -> Iterator[tuple[int, CallOutcome, bool]]:
    """(place of its message, the outcome, whether its call was found) for each result: of the call
    with its id, else the first open one of its name, else the first open one."""
    open_calls: list[MessagePart] = []
    answered: dict[str, MessagePart] = {}  # a result may come again
    for place, message in enumerate(messages):
        open_calls[:0] = parts_of(message, "call")
        for result in parts_of(message, "result"):
            call = _call_of(result, open_calls, answered)
            if call in open_calls:
                open_calls.remove(call)
                answered[call.call_id] = call
            named = call or MessagePart("call", "{}", result.name)
            yield place, call_outcome(named, result), call is not None


def _call_of(
    result: MessagePart, open_calls: Sequence[MessagePart], answered: Mapping[str, MessagePart]
) -> MessagePart | None:
    id_ = result.call_id
    by_id = [call for call in open_calls if id_ and call.call_id == id_]
    again = [answered[id_]] if id_ in answered else []
    by_name = (call for call in open_calls if call.name == result.name)
    return next(chain(by_id, again, by_name, open_calls), None)


def _calls_made(
    messages: Sequence[Message], turn: int, answers: Iterable[tuple[int, CallOutcome, bool]]
) -> Iterator[tuple[str, MessagePart]]:
    """The calls of the open turn, each with the prompt it was made for."""
    lost: dict[int, list[MessagePart]] = {}
    for place, outcome, has_call in answers:
        if not has_call:
            lost.setdefault(place, []).append(MessagePart("call", "{}", outcome.name))
    prompt = ""
    for place, message in enumerate(messages[turn:], turn):
        if message.role == "user":
            prompt = text_of(message)
        for part in (*parts_of(message, "call"), *lost.get(place, ())):
            yield prompt, part


# -- text that a client added to a user's message


def _user_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages without what clients added to those of the user; unchanged if nothing of the
    user were left."""
    spoken = [_strip_notes(m) if m.role == "user" else m for m in messages]
    left = any(message.role == "user" and message.parts for message in spoken)
    return [message for message in (spoken if left else messages) if message.parts]


def _strip_notes(message: Message) -> Message:
    parts = [replace(part, text=user_text(part.text)) for part in message.parts]
    left = (part for part in parts if part.kind != "text" or part.text.strip())
    return replace(message, parts=tuple(left))


def user_text(text: str) -> str:
    """`text` without the tagged blocks that a client added, and without the tags that it put around
    the user's own words."""
    tags = list(_TAG.finditer(text))
    ends: dict[str, list[int]] = {}
    for place, tag in enumerate(tags):
        if tag[1]:
            ends.setdefault(tag[2], []).append(place)
    pieces, done, place = list[str](), 0, 0
    while place < len(tags):
        tag, behind = tags[place], ends.get(tags[place][2], [])
        following = bisect.bisect(behind, place)
        place += 1
        own = _is_users(tag[2]) if following < len(behind) and not tag[1] else None
        if own is None:
            continue
        end = tags[behind[following]]
        pieces.append(text[done : tag.start()])
        if own:
            pieces.append(text[tag.end() : end.start()])
        done, place = end.end(), behind[following] + 1
    return "".join([*pieces, text[done:]]).strip() if pieces else text


@lru_cache(maxsize=1_000)
def _is_users(tag: str) -> bool | None:
    """Whether a tag of this name is around the user's own words; None if it is no client's tag."""
    name = "_".join(words(tag))
    if name in _USER_TAGS:
        return True
    return False if name in _NOTE_TAGS or ("_" in name and name not in _RESULT_TAGS) else None


# -- calls and results that a client wrote as text


def _parse_written_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with calls and results that a client wrote as text converted back."""
    waiting: list[MessagePart] = []
    answered = False
    for place, message in enumerate(messages):
        text = "\n".join(part.text for part in parts_of(message, "text"))
        written = _written_result(text) if message.role == "user" and answered else None
        if message.role == "assistant":
            waiting, answered = list(_written_calls(text, place)), True
            yield replace(message, parts=(*message.parts, *waiting))
        elif written is not None and (waiting or not written.is_error):
            yield Message("results", tuple(_match_lines(written, waiting)))
            waiting = []
        else:
            yield message


def _written_calls(text: str, place: int) -> Iterator[MessagePart]:
    """The calls in a text of the assistant."""
    calls: list[tuple[Any, Any]] = []
    if len(text) > _MOST_WRITTEN:
        return
    try:
        if match := _CALL_LIST.match(text):
            called = [entry["function"] for entry in ast.literal_eval(match[1])]
            calls = [(call["name"], call["arguments"]) for call in called]
        elif match := _ACTION.search(text):
            calls = [(match[1], load_json(match[2]))]
        else:
            objects = [load_json(match[1]) for match in _CALL_TAG.finditer(text)]
            calls = [(call["name"], call["arguments"]) for call in objects]
        written = [(str(name), json.dumps(arguments)) for name, arguments in calls]
    # The last two are from Python's parser; what it reads of literals is at most 200 deep.
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return
    for number, (name, arguments) in enumerate(written):
        yield MessagePart("call", arguments, name, f"{place}.{number}")


def _written_result(text: str) -> MessagePart | None:
    """The result written as a text of the user; None if the text is not a result."""
    if head := _RESULT_HEAD.match(text):
        content = Content(text=text[head.end() :].strip())
        return MessagePart(
            "result", name=head["name"] or "", content=(content,), is_error=bool(head["error"])
        )
    tag = _TAG.match(text.strip())
    if tag is None or tag[1] or tag[2] not in _RESULT_TAGS:
        return None
    inner = text.strip()[tag.end() :].removesuffix(f"</{tag[2]}>")
    return MessagePart("result", content=(Content(text=inner.strip()),))


def _match_lines(result: MessagePart, calls: Sequence[MessagePart]) -> Iterator[MessagePart]:
    """A line for each call, if the numbers agree; else the first call gets all lines."""
    if not calls:
        yield result
        return
    text = result.content[0].text
    lines = text.split("\n")
    results = lines if len(lines) == len(calls) else [text, *[""] * (len(calls) - 1)]
    for call, line in zip(calls, results, strict=True):
        yield replace(result, name=call.name, call_id=call.call_id, content=(Content(text=line),))
