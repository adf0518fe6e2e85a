"""Encodes a neutral request as an Anthropic Messages request, and reads one back.

A turn received by this protocol goes back block by block, unchanged; of turns from another
protocol, whatever this one can express. Spec: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Content, Tool, ToolChoice
from playground.protocols.anthropic import FACTS, limits
from playground.protocols.base import WireRequest
from playground.protocols.encoder import (
    CUT,
    ExactJson,
    Ids,
    Names,
    Notes,
    exact_object,
    freeform_note,
    input_object,
    message_members,
    move_system_messages,
    no_tools_note,
    own_block,
    own_members,
    preflight,
    stop_words,
    tool_extra,
    wire_request,
    with_sound_arguments,
)
from playground.protocols.parameters import translate_params
from playground.protocols.request import (
    AnswerMessage,
    Body,
    RequestItem,
    RequestNotes,
    RequestReader,
    RequestSetup,
    ResultMessage,
    call_part,
    dicts,
    indexed_dicts,
    params_of,
    rest_of,
    text_of,
)

PROTOCOL = "anthropic"
VERSION = {"anthropic-version": "2023-06-01"}
DEFAULT_MAX_TOKENS = 4096
QUIRKS: Mapping[str, str] = {
    "bearer_key": "the key is sent as Authorization: Bearer (gateways, Vertex)",
}
BUDGETS = {"low": 1024, "medium": 4096, "high": 16384}
"""Thinking tokens for the effort words of other protocols; the minimum is 1024."""
EFFORTS = ("low", "medium", "high", "xhigh", "max")
"""Effort for models that accept no budget."""

NEVER_FORCED = re.compile(r"(?:fable-5-1|mythos-5-1|opus-5-5)(?!\d)")
"""Models that always refuse a forced tool: "type "tool" and "any" are not supported for this
model". Sources: https://github.com/anthropics/claude-cookbooks/issues/854 and
https://github.com/BerriAI/litellm/pull/39151 (Fable and Mythos 5.1),
https://github.com/can1357/oh-my-pi/issues/12939 (Opus 5.5)."""
ADAPTIVE_ONLY = re.compile(r"(?:opus-4-[78]|opus-5|sonnet-5|fable-5|mythos-5|mythos-preview)(?!\d)")
"""Models that refuse a thinking budget ("Use thinking.type.adaptive and output_config.effort"), and
temperature and top_p. Sources: https://github.com/deepnoodle-ai/dive/pull/274,
https://github.com/charmbracelet/fantasy/pull/329,
https://github.com/UKGovernmentBEIS/inspect_ai/pull/5176 and the documentation of adaptive thinking.
"""
NEVER_UNTHINKING = re.compile(r"(?:fable-5|mythos-5)(?!\d)")
"""Models whose thinking cannot be switched off.
Source: https://github.com/ex-machina-co/opencode-anthropic-auth/pull/160
"""

TAKES_SYSTEM = re.compile(r"(?:opus-4-(?:8|9|\d\d)|opus-5|fable-5|mythos-5)(?!\d)")
"""Models known to accept system messages among the others. Source:
https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages"""

LEAST_TOP_P = 0.95
"""The least top_p accepted with thinking. Source: Anthropic's documentation on extended thinking"""

_MOST_NAME = 128
_CHOICES = {"auto": "auto", "required": "any", "none": "none", "tool": "tool"}


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST /v1/messages."""
    notes = Notes()
    request = with_sound_arguments(translate_params(PROTOCOL, request), notes)
    request = move_system_messages(request, notes)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.params.get("max_tokens") or DEFAULT_MAX_TOKENS,
    }
    if request.system:
        body["system"] = request.system
    body["messages"] = _messages(request, notes)
    if request.offered:
        body["tools"] = [_tool(tool, notes) for tool in request.offered]
        preflight(request.offered, limits.LIMITS, notes)
        if len(request.offered) < len(request.tools):
            notes.add("Only the allowed tools were sent: Anthropic cannot express a subset.")
        if (choice := _choice(request.choice)) is not None:
            body["tool_choice"] = choice
    else:
        no_tools_note(request, notes)
    _add_params(body, request, notes)
    _preflight({**body, **request.own, **request.extra}, request, notes)
    if request.stream:
        body["stream"] = True
    return wire_request(request, FACTS.path, VERSION, body, notes)


def _preflight(body: Mapping[str, Any], request: ModelRequest, notes: Notes) -> None:
    """Notes what will be refused. It is sent as requested: no setting is changed silently."""
    model, thinking = normalize_model(request.model), body.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, Mapping) else None
    model_name = request.model
    if request.offered and request.choice.forced:
        if NEVER_FORCED.search(model):
            notes.add(
                f"{model_name} refuses a forced tool: use auto, and ask for the tool in the prompt."
            )
        elif kind in ("enabled", "adaptive"):
            notes.add("A forced tool is refused while thinking is on. Turn one of them off.")
    if ADAPTIVE_ONLY.search(model):
        if kind == "enabled":
            notes.add(f"{model_name} refuses a thinking budget. Use adaptive, low, medium or high.")
        if "temperature" in body or "top_p" in body:
            notes.add(f"{model_name} refuses temperature and top_p. Leave them out.")
    elif kind in ("enabled", "adaptive"):
        if body.get("temperature", 1) != 1:
            notes.add("A temperature is refused while thinking is on. Leave one of them out.")
        if not _is_most(body.get("top_p", 1)):
            notes.add("A top_p below 0.95 is refused while thinking is on. Leave one of them out.")
    if kind == "disabled" and NEVER_UNTHINKING.search(model):
        notes.add(f"{model_name} always thinks. Leave the setting thinking out.")


def _is_most(top_p: Any) -> bool:
    return isinstance(top_p, int | float) and top_p >= LEAST_TOP_P


def normalize_model(model: str) -> str:
    """A model's name as Anthropic spells it, for any gateway's spelling (`opus-5.5`)."""
    return model.lower().replace(".", "-")


def _tool(tool: Tool, notes: Notes) -> dict[str, Any]:
    entry: dict[str, Any] = {**tool_extra(tool, PROTOCOL, notes), "name": tool.name}
    if tool.description:
        entry["description"] = tool.description
    entry["input_schema"] = dict(tool.parameters)
    if tool.strict:
        entry["strict"] = True
    if tool.eager:
        entry["eager_input_streaming"] = True
    freeform_note(tool, "Anthropic", notes)
    return entry


def _choice(choice: ToolChoice) -> dict[str, Any] | None:
    """None for the default: auto, in parallel."""
    if choice.mode == "auto" and choice.parallel:
        return None
    entry: dict[str, Any] = {"type": _CHOICES[choice.mode]}
    if choice.mode == "tool":
        entry["name"] = choice.name
    if not choice.parallel and choice.mode != "none":
        entry["disable_parallel_tool_use"] = True
    return entry


def _add_params(body: dict[str, Any], request: ModelRequest, notes: Notes) -> None:
    params = request.params
    for name in ("temperature", "top_p"):
        if params.get(name) is not None:
            body[name] = params[name]
    if stop := stop_words(params.get("stop")):
        body["stop_sequences"] = stop
    setting = params.get("thinking")
    if ADAPTIVE_ONLY.search(normalize_model(request.model)) and (
        setting is True or setting in EFFORTS
    ):
        # The same setting in the form that these models accept.
        thinking: dict[str, Any] | None = {"type": "adaptive"}
        if setting is not True:
            body["output_config"] = {"effort": setting}
    else:
        thinking = _thinking(setting, notes)
    if thinking is not None:
        body["thinking"] = thinking
        budget = thinking.get("budget_tokens")
        if isinstance(budget, int) and body["max_tokens"] <= budget:
            body["max_tokens"] = budget + DEFAULT_MAX_TOKENS
            notes.add("max_tokens was raised: it must be above the thinking budget.")


def _thinking(value: Any, notes: Notes) -> dict[str, Any] | None:
    """`thinking` as given: an object is sent unchanged, a number is a budget, a word an effort."""
    match value:
        case None | False | "" | "none":
            return None
        case dict():
            return dict(value)
        case True:
            return {"type": "enabled", "budget_tokens": BUDGETS["low"]}
        case int():
            return {"type": "enabled", "budget_tokens": value}
        case str() if value in BUDGETS:
            return {"type": "enabled", "budget_tokens": BUDGETS[value]}
        case str() if value in ("adaptive", "disabled"):
            return {"type": value}
    notes.add("The setting thinking was left out. Use a budget in tokens or low, medium, high.")
    return None


def _messages(request: ModelRequest, notes: Notes) -> list[dict[str, Any]]:
    """Alternating user and assistant turns; results precede the text that follows them."""
    ids = Ids(limits.CALL_ID, notes)
    names = Names(_MOST_NAME, request.tools, notes)
    messages: list[dict[str, Any]] = []
    served = _answered_server_calls(request.messages)
    for message in request.messages:
        match message.role:
            case "assistant":
                role = "assistant"
                blocks = _blocks(message, served, ids, names, notes)
            case "results":
                role = "user"
                blocks = [_result(part, ids, notes) for part in message.parts]
                blocks += _failed_images(message, notes)
            case "user" | "system":
                role = message.role
                blocks = [block for part in message.parts for block in _prompt(part, notes)]
        own = message_members(message, PROTOCOL, notes)
        if not blocks and not own:
            continue
        if (
            messages
            and not own
            and messages[-1].keys() == {"role", "content"}
            and messages[-1]["role"] == role
        ):
            messages[-1]["content"] += blocks
        else:
            messages.append({**own, "role": role, "content": blocks})
    _end_in_text(messages, notes)
    _preflight_system(messages, request.model, notes)
    return messages


def _end_in_text(messages: Sequence[Mapping[str, Any]], notes: Notes) -> None:
    """Removes white space at the end of an answer that the model is to continue: it is refused."""
    if messages and messages[-1]["role"] == "assistant":
        match messages[-1].get("content"):
            case [*_, {"type": "text", "text": str(text)} as block] if text != text.rstrip():
                block["text"] = text.rstrip()
                notes.add("White space at the end of the last answer was left out.")


def _preflight_system(messages: Sequence[Mapping[str, Any]], model: str, notes: Notes) -> None:
    """Notes that a system message may be refused. It is sent anyway."""
    roles = ["", *(message["role"] for message in messages), "assistant"]
    for before, role, after in zip(roles, roles[1:], roles[2:], strict=False):
        if role != "system":
            continue
        if before != "user" or after != "assistant":
            notes.add(
                "Anthropic accepts a system message only between a user message and an answer, "
                "so it may refuse this request."
            )
        if "claude" in model and not TAKES_SYSTEM.search(normalize_model(model)):
            notes.add(
                f"{model} may refuse system messages: Claude Opus 4.8 is the first model that "
                "accepts them."
            )


def _prompt(part: MessagePart, notes: Notes) -> list[dict[str, Any]]:
    """The blocks of one part of a prompt: its images, or its text."""
    if part.kind == "other":
        return own_block(part.meta, part, PROTOCOL, notes)
    own = own_members(part.meta, part, PROTOCOL, notes)
    if part.kind == "image":
        return [{**own, **_piece(piece)} for piece in part.content if piece.type == "image"]
    return [{**own, **_text(part.text)}] if part.text.strip() else []


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _answered_server_calls(messages: Sequence[Message]) -> frozenset[str]:
    """The ids of the provider's own calls that are sent back: complete, and with their result.

    The result is in the same turn; in a later one if the turn was paused, or if code that the
    provider runs waits for one of our tools.
    """
    open_ids, served_ids = set[str](), set[str]()
    for message in messages:
        if message.role != "assistant":
            continue
        for part in message.parts:
            if part.kind == "server_call" and _is_whole(part):
                open_ids.add(part.call_id)
            elif part.kind == "server_result" and _is_whole(part):
                served_ids |= open_ids & {part.call_id}
        served_ids |= open_ids & {
            _caller(_own_block(part)) for part in message.parts if part.kind == "call"
        }
        if message is messages[-1]:
            served_ids |= open_ids
        open_ids &= served_ids
    return frozenset(served_ids)


def _own_block(part: MessagePart) -> dict[str, Any]:
    """The original block of a part, if received by this protocol."""
    block = part.meta.get("block") if part.protocol == PROTOCOL else None
    return dict(block) if isinstance(block, Mapping) else {}


def _is_whole(part: MessagePart) -> bool:
    """Whether one of the provider's own blocks is complete and can be sent back."""
    sound = part.kind != "server_call" or exact_object(part.text or "{}") is not None
    return part.complete and sound and bool(_own_block(part))


def _caller(block: Mapping[str, Any]) -> str:
    """The id of the provider's own call whose code made this call, or ""."""
    caller = block.get("caller")
    return str(caller.get("tool_id") or "") if isinstance(caller, Mapping) else ""


def _blocks(
    message: Message, served: Collection[str], ids: Ids, names: Names, notes: Notes
) -> list[dict[str, Any]]:
    """The content blocks of a turn, except those that would make the request fail."""
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        own = _own_block(part)
        match part.kind:
            case "text" | "refusal":
                # Citations of an incomplete block may refer to content that is not sent.
                own = own if part.complete else {}
                blocks += [{**own, **_text(part.text)}] if part.text.strip() else []
            case "call":
                blocks.append(
                    _call(part, own=own, served=served, ids=ids, names=names, notes=notes)
                )
            case _ if not own:
                notes.note_foreign_part(part)
            case "thinking" if not _is_signed(own) and (
                # A server that signs nothing (Kimi, LM Studio) may still want it back; one that
                # signs has signed all thinking that another block follows.
                not part.complete or part is message.parts[-1] or own.get("type") != "thinking"
            ):
                notes.note_omission(part, "came without their signature")
            case "thinking" if not part.complete:
                notes.note_omission(part, CUT)  # its signature may be cut, too
            case "thinking":
                is_text = own.get("type") == "thinking"
                blocks.append({**own, "thinking": part.text} if is_text else own)
            case "server_call" | "server_result" if part.call_id not in served:
                notes.note_omission(part, "came incomplete or without their counterpart")
            case "server_call":
                blocks.append({**own, "input": exact_object(part.text) or ExactJson("{}")})
            case _ if not part.complete:
                notes.note_omission(part, CUT)
            case _:
                blocks.append(own)
    return blocks


def _call(
    part: MessagePart,
    own: dict[str, Any],
    served: Collection[str],
    ids: Ids,
    names: Names,
    notes: Notes,
) -> dict[str, Any]:
    if (caller := _caller(own)) and caller not in served:
        del own["caller"]
    own |= {"type": "tool_use", "id": ids.assign_call_id(part)}
    return {**own, "name": names.allowed_name(part.name), "input": input_object(part)}


def _is_signed(block: Mapping[str, Any]) -> bool:
    """Whether thinking has a signature, or is redacted thinking with its data."""
    return bool(block.get("signature") or block.get("data"))


def _result(part: MessagePart, ids: Ids, notes: Notes) -> dict[str, Any]:
    result: dict[str, Any] = {
        **own_members(part.meta, part, PROTOCOL, notes),
        "type": "tool_result",
        "tool_use_id": ids.take_result_id(part.call_id),
    }
    pieces = list[dict[str, Any]]()
    for piece, own in part.pieces or [(content, {}) for content in part.content]:
        if piece is None:
            pieces += own_block(own, part, PROTOCOL, notes)
        elif piece.type == "image" or piece.text.strip():
            pieces.append({**own_members(own, part, PROTOCOL, notes), **_piece(piece)})
    if part.is_error and any(piece.get("type") == "image" for piece in pieces):
        pieces = [piece for piece in pieces if piece.get("type") == "text"]
        pieces = pieces or [_text("The tool failed; the image that it returned follows.")]
    match pieces:
        case []:
            pass
        case [{"type": "text", "text": text}]:
            result["content"] = text
        case _:
            result["content"] = pieces
    if part.is_error:
        result["is_error"] = True
        # The API refuses an error without text.
        result.setdefault("content", "The tool failed and gave no reason.")
    return result


def _failed_images(message: Message, notes: Notes) -> list[dict[str, Any]]:
    """The images of failed results (which may have text only), after all results."""
    failed = (piece for part in message.parts if part.is_error for piece in part.content)
    images = [_piece(piece) for piece in failed if piece.type == "image"]
    if not images:
        return []
    notes.add(
        "Images of failed results were put after the results: Anthropic accepts them nowhere else."
    )
    return [_text("The images that the failed tools returned:"), *images]


def _piece(piece: Content) -> dict[str, Any]:
    if piece.type == "text":
        return _text(piece.text)
    source = {"type": "base64", "media_type": piece.media_type, "data": piece.data}
    return {"type": "image", "source": source}


# Reading a body back ------------------------------------------------------------------------------


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    words = {"max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
    params = params_of(body, **words, stop="stop_sequences", thinking="thinking")
    known = (*words, "stop_sequences", "thinking", "model", "messages", "tools", "tool_choice")
    system, extra = body.get("system"), rest_of(body, *known, "system", "stream")
    if isinstance(system, list) and any(set(body) - {"type", "text"} for body in dicts(system)):
        extra["system"] = system  # cache marks and further members beside the text
    tool_choice = body.get("tool_choice")
    choice = tool_choice if isinstance(tool_choice, dict) else {}
    parallel = choice.get("disable_parallel_tool_use") is not True
    match choice.get("type"):
        case "any":
            chosen = ToolChoice("required", parallel=parallel)
        case "none":
            chosen = ToolChoice("none")
        case "tool":
            chosen = ToolChoice("tool", str(choice.get("name") or ""), parallel=parallel)
        case _:
            chosen = ToolChoice(parallel=parallel)
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=text_of(system),
        tools=dicts(body.get("tools")),
        choice=chosen,
        params=params,
        extra=extra,
        stream=body.get("stream") is True,
    )


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    for place, message in indexed_dicts(body.get("messages")):
        content, at = message.get("content"), ("messages", place)
        if message.get("role") == "assistant":
            text = [{"type": "text", "text": content}]
            blocks = text if isinstance(content, str) else dicts(content)
            called = any(block.get("type") == "tool_use" for block in blocks)
            reason = "tool_use" if called else "end_turn"
            head = {"type": "message", "role": "assistant", "model": "", "id": "", "usage": {}}
            answer = {**head, "content": blocks, "stop_reason": reason}
            yield AnswerMessage(answer, tuple(map(_part, blocks)), at)
            continue
        role = "system" if message.get("role") == "system" else "user"
        own = rest_of(message, "role", "content")
        if isinstance(content, str):
            yield from notes.messages(content, at, role, own)
            continue
        for number, block in indexed_dicts(content):
            if block.get("type") == "tool_result":
                id_, failed = str(block.get("tool_use_id") or ""), block.get("is_error") is True
                beside = rest_of(block, "type", "tool_use_id", "is_error", "content")
                given, form = notes.result(block.get("content"), **beside)
                yield ResultMessage(
                    id_,
                    name="",
                    content=given,
                    is_error=failed,
                    form=form,
                    at=(*at, "content", number),
                )
        rest = [block for block in dicts(content) if block.get("type") != "tool_result"]
        yield from notes.messages(rest, at, role, own)


def _part(block: Body) -> MessagePart:
    match block.get("type"):
        case "text" | "thinking" as kind:
            return MessagePart(kind, str(block.get(kind) or ""))
        case "tool_use":
            return call_part(str(block.get("id") or ""), block.get("name"), block.get("input"))
        case _:
            return MessagePart("other", meta=block)


READER = RequestReader(_setup, _items)
