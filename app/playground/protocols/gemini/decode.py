"""Decodes Gemini responses (Gemini API and Vertex), streamed or whole, into events.

Handles candidates, parts and finish reasons. A stream has no closing marker: it is complete if the
bytes end after a finish reason. Spec:
https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from playground.core.events import EndReason, PartKind, Usage
from playground.core.json_values import MOST_DEEP
from playground.protocols.base import Codec, ModelInfo, error_sentence, model_entries
from playground.protocols.call_identity import CallDirectory, Clue, KnownCall, read_id
from playground.protocols.decoder import BodyDecoder, EventBuilder, OpenPart, ReadOutcome
from playground.protocols.gemini.request import MODELS_PATH, QUIRKS, encode, key_header, split_part
from playground.protocols.raw_json import JsonText, is_same_value, join_pieces

_KNOWN = frozenset({"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"})
_OPAQUE: Mapping[str, PartKind] = {
    "executableCode": "server_call",
    "toolCall": "server_call",
    "codeExecutionResult": "server_result",
    "toolResponse": "server_result",
}
"""Members of parts of tools that the provider runs itself."""
_SIGNED = frozenset({"text", "thought", "thoughtSignature"})
_CALL = frozenset({"name", "args", "id", "partialArgs", "willContinue"})
_ABOUT = (
    *("groundingMetadata", "citationMetadata", "urlContextMetadata", "safetyRatings"),
    *("finishMessage", "continuationToken"),
)
"""Metadata of a whole candidate; the last value counts."""

Prose = Literal["text", "thinking"]
Where = tuple[JsonText, *tuple[str | int, ...]]
"""The JSON text of an event, and the path of a value in it."""

Path = tuple[str | int, ...]

_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)

REASONS: Mapping[str, EndReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",  # limit of one request; a new one must continue
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
            *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
            *("MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED", "JAILBREAK"),
        ),
        "refusal",
    ),
}
"""Others (OTHER, NO_IMAGE, future ones) mean that an answer ended for another reason."""

BROKEN = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
"""The output was discarded or must not run: not an answer, but a retry is possible."""

_BOTH = ("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")
_AI_STUDIO = (
    *_BOTH,
    *("LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL"),
    *("IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
)
_VERTEX = (
    *_BOTH,
    *("BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"),
    *("UNEXPECTED_TOOL_CALL", "NO_IMAGE"),
)
_BLOCKED = ("", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT")


class _StreamedCall(KnownCall):
    __slots__ = ("arguments", "part")

    def __init__(self, clue: Clue, part: OpenPart) -> None:
        super().__init__(clue)
        self.part = part
        self.arguments = GrowingArguments()


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = EventBuilder()
    return BodyDecoder(status, answer, _Reader(answer))


class _Reader:
    """`meta["part"]` of a part is its JSON without what the event itself has: the text, the call;
    with `verbatim` the whole part. So the parts go back one by one, unchanged; only neighbours
    without a signature are merged, as deltas of one part."""

    api = "Gemini API"
    marked = False

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._prose: OpenPart | None = None
        self._calls = CallDirectory[_StreamedCall]()
        self._vertex = False
        self._usage: dict[str, Any] = {}
        self._meta: dict[str, Any] = {}
        self._others: dict[int, list[Any]] = {}

    def read(self, value: Mapping[str, Any], text: str, event: str) -> ReadOutcome:
        if not _KNOWN & value.keys():
            return "unknown"
        for key, name in (("responseId", "id"), ("modelVersion", "model")):
            if isinstance(value.get(key), str) and value[key]:
                self._meta.setdefault(name, value[key])
        self._count(value.get("usageMetadata"))
        quoted, candidates = JsonText(text), value.get("candidates")
        for place, candidate in enumerate(candidates if isinstance(candidates, list) else []):
            index = _tokens(candidate.get("index")) if isinstance(candidate, dict) else None
            if not isinstance(candidate, dict):
                self._answer.warn(
                    "not_an_object", "A candidate that is not an object was left out."
                )
            elif index or (index is None and place):
                self._others.setdefault(index or place, []).append(candidate)
            else:
                self._candidate(candidate, (quoted, "candidates", place))
        if isinstance(value.get("promptFeedback"), dict):
            self._feedback(value["promptFeedback"])
        return "known"

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        return REASONS.get(self._answer.raw_reason, "other"), self._meta

    def settle(self, whole: bool) -> None:
        answer = self._answer
        self._tell_usage()
        self._end_prose(whole)
        self._end_call(complete=False)
        if self._others:
            answer.warn(
                "other_choices",
                f"{len(self._others)} more candidates came. Only the first is used.",
                choices=[self._others[index] for index in sorted(self._others)],
            )
            self._others = {}
        if whole and answer.raw_reason in BROKEN:
            detail = self._meta.get("finishMessage")
            message = (
                f"{answer.raw_reason}: {detail}" if isinstance(detail, str) else answer.raw_reason
            )
            answer.fail("error", error_sentence(message[:2000]))

    # An event, except for its parts.

    def _candidate(self, candidate: Mapping[str, Any], where: Where) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for place, part in enumerate(parts if isinstance(parts, list) else []):
            if isinstance(part, dict):
                for single in split_part(part):
                    self._part(single, (*where, "content", "parts", place))
            else:
                self._answer.warn("odd_content", "A part that is not an object was left out.")
        likely = candidate.get("logprobsResult")
        if isinstance(likely, dict):
            self._answer.tokens(likely.get("chosenCandidates"))
        for key in _ABOUT:
            if candidate.get(key) is not None:
                self._meta[key] = candidate[key]
        # Only Vertex reports traffic types, and only it numbers its reasons differently.
        reason = finish_reason(candidate.get("finishReason"), self._vertex)
        if reason:
            meaning = "failed" if reason in BROKEN else REASONS.get(reason, "other")
            self._answer.tell_reason(reason, meaning)

    def _feedback(self, feedback: Mapping[str, Any]) -> None:
        """The feedback on a blocked prompt, which has no candidate and no finish reason."""
        reason, answer = block_reason(feedback.get("blockReason")), self._answer
        if not reason:
            return
        self._meta["promptFeedback"] = dict(feedback)
        detail = feedback.get("blockReasonMessage")
        suffix = f" {detail[:500]}" if isinstance(detail, str) else ""
        answer.warn("prompt_blocked", f"The provider blocked the prompt: {reason}.{suffix}")
        self.settle(whole=True)
        if not answer.done:
            answer.end("refusal", self._meta)

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict) or not usage:
            return
        # Many events have it; the last one counts, as a mixture would be none the server reported.
        self._vertex = self._vertex or "trafficType" in usage
        self._usage = usage

    def _tell_usage(self) -> None:
        usage = self._usage
        if not usage:
            return
        self._answer.usage = Usage(
            _tokens(usage.get("promptTokenCount")),
            _tokens(usage.get("candidatesTokenCount")),
            usage,
            cached_tokens=_tokens(usage.get("cachedContentTokenCount")),
            reasoning_tokens=_tokens(usage.get("thoughtsTokenCount")),
        )

    # Parts.

    def _part(self, part: Mapping[str, Any], where: Where) -> None:
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._end_prose()
            self._take_call(part, call, (*where, "functionCall"))
            return
        self._end_call(complete=False)
        if isinstance(part.get("text"), str):
            self._take_text(part, part["text"])
        elif part.keys() <= _SIGNED:
            # A signature alone: thinking whose text is not disclosed.
            self._add_verbatim("thinking", part)
        else:
            name = next((key for key in part if key in _OPAQUE), "")
            text = where[0].member(*where[1:], name) if name else ""
            own = self._add_verbatim(_OPAQUE.get(name, "other"), part, text, name)
            if own is not None and name:
                self._answer.locate(own, *where[1:], name)

    def _add_verbatim(
        self, kind: PartKind, part: Mapping[str, Any], text: str = "", name: str = ""
    ) -> OpenPart | None:
        if not part:
            return None
        self._end_prose()
        inner = part.get(name)
        id_ = inner.get("id") if isinstance(inner, dict) else None
        meta: dict[str, Any] = {"part": dict(part), "verbatim": True}
        if name:
            meta |= {"as_object": True, "type": name}
        return self._answer.add_whole_part(
            kind, text, name, id_ if isinstance(id_, str) else "", **meta
        )

    def _take_text(self, part: Mapping[str, Any], text: str) -> None:
        """A delta of the current text, or a part of its own if it is signed."""
        kind: Prose = "thinking" if part.get("thought") is True else "text"
        own = {key: item for key, item in part.items() if key not in ("text", "thought")}
        if own and text:
            self._end_prose()
            self._answer.add_whole_part(kind, text, part=own)
        elif own:
            self._add_verbatim("thinking", part)
        elif text:
            if self._prose is None or self._prose.kind != kind:
                self._end_prose()
                self._prose = self._answer.start(kind)
            self._answer.delta(self._prose, text)

    def _end_prose(self, complete: bool = True) -> None:
        prose, self._prose = self._prose, None
        if prose is not None:
            self._answer.stop(prose, complete)

    # Calls.

    def _take_call(self, part: Mapping[str, Any], call: Mapping[str, Any], where: Where) -> None:
        """A whole call, or a piece of one whose arguments are streamed by path."""
        goes_on, partials = call.get("willContinue") is True, call.get("partialArgs")
        name = call.get("name")
        clue = Clue(call_id=read_id(call.get("id")), name=name if isinstance(name, str) else "")
        known = self._calls.find_in_turn(clue)
        if known == "stray":
            message = f"A piece of call {clue.call_id[:80]!r} came out of order."
            self._answer.warn("mixed_calls", message)
            self._break_off_call()
            return
        if known == "new":
            self._break_off_call()
            if not call:
                self._answer.warn("empty_call", "A call had neither a name nor arguments.")
                return
            part_of_call = self._answer.start("call", clue.name, clue.call_id)
            known = _StreamedCall(clue, part_of_call)
            self._calls.add(known)
        self._calls.learn(known, clue)
        open_ = known.part
        self._answer.locate(open_, *where[1:][:-1])
        self._sign(open_, part, call)
        for place, partial in enumerate(partials if isinstance(partials, list) else []):
            self._grow(known, partial, (*where, "partialArgs", place))
        source = where[0].member(*where[1:], "args") if "args" in call else ""
        if source and (call.get("args") or not (goes_on or open_.meta.get("streamed"))):
            self._whole_arguments(known, call["args"], source)
        elif partials or goes_on:
            open_.meta["streamed"] = True
        if not goes_on or open_.ended:
            self._end_call(complete=True)

    def _break_off_call(self) -> None:
        """Ends the open call as incomplete; further pieces of it are ignored."""
        if (call := self._calls.open_call()) is not None:
            self._end_call(complete=False)
            self._calls.interrupt(call)

    def _sign(self, open_: OpenPart, part: Mapping[str, Any], call: Mapping[str, Any]) -> None:
        """Stores what is not an argument: the signature, and unknown members."""
        own = {key: item for key, item in part.items() if key != "functionCall"}
        if own:
            open_.meta.setdefault("part", {}).update(own)
        rest = {key: item for key, item in call.items() if key not in _CALL}
        if rest:
            open_.meta.setdefault("call", {}).update(rest)
        if id_ := read_id(call.get("id")):
            open_.provider_id = open_.meta["id"] = id_

    def _whole_arguments(self, call: _StreamedCall, args: Any, source: str) -> None:
        open_ = call.part
        open_.meta["whole"] = True
        is_packed = isinstance(args, str)
        open_.meta["packed" if is_packed else "as_object"] = True
        text = args if is_packed else source
        if open_.pieces:
            # They came before, in pieces or whole: this is no more of them, but all of them.
            before = join_pieces(open_.pieces)
            closing = "" if call.arguments.broken else call.arguments.close()
            if is_same_value(before, text):
                return
            if not is_same_value(before + closing, text):
                self._answer.warn_of(
                    open_,
                    "arguments_replaced",
                    f"{open_.name[:80]} came with different arguments. The last are used.",
                )
            open_.pieces.clear()
        self._answer.delta(open_, text)

    def _grow(self, call: _StreamedCall, partial: Any, where: Where) -> None:
        arguments, open_ = call.arguments, call.part
        if arguments.broken:
            return
        if isinstance(partial, dict):
            has_number = "numberValue" in partial
            number = where[0].member(*where[1:], "numberValue") if has_number else ""
            self._answer.delta(open_, arguments.take(partial, number))
        else:
            arguments.broken = True
        if arguments.broken:
            self._warn_odd(open_)

    def _close_arguments(self, call: _StreamedCall) -> bool:
        """Completes the streamed arguments; False if they cannot become complete."""
        was_broken, closing = call.arguments.broken, call.arguments.close()
        self._answer.delta(call.part, closing)
        if call.arguments.broken and not was_broken:
            self._warn_odd(call.part)
        return not call.arguments.broken

    def _warn_odd(self, open_: OpenPart) -> None:
        self._answer.warn_of(
            open_, "odd_arguments", f"The streamed arguments of {open_.name} are inconsistent."
        )

    def _end_call(self, complete: bool) -> None:
        """Ends the open call; without its own end it is incomplete and never runs."""
        call = self._calls.open_call()
        if call is None:
            return
        self._calls.close(call)
        open_ = call.part
        streamed, whole = open_.meta.pop("streamed", False), open_.meta.pop("whole", False)
        if streamed and not whole:
            open_.meta["as_object"] = True
            complete = complete and self._close_arguments(call)
        elif not whole:
            open_.meta["absent"] = True
        self._answer.stop(open_, complete)


def _tokens(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def label(frame: Mapping[str, Any]) -> str:
    """What an event has: `thought`, `text`, `functionCall get_weather`, `finishReason STOP`."""
    if frame.get("error"):
        return "error"
    candidates, words = frame.get("candidates"), list[str]()
    candidate = candidates[0] if isinstance(candidates, list) and candidates else None
    if isinstance(candidate, dict):
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in (parts if isinstance(parts, list) else [])[:5]:
            words += _part_label(part) if isinstance(part, dict) else []
        if candidate.get("finishReason"):
            words += ["finishReason", str(candidate["finishReason"])[:80]]
    feedback = frame.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        words += ["promptFeedback", str(feedback["blockReason"])[:80]]
    return " ".join(words) or ("usageMetadata" if "usageMetadata" in frame else "")


def _part_label(part: Mapping[str, Any]) -> list[str]:
    call = part.get("functionCall")
    if isinstance(call, dict):
        return ["functionCall", str(call.get("name") or "")[:80]]
    if part.get("thought") is True:
        return ["thought"]
    return [key for key in part if key != "thoughtSignature"][:1] or ["thoughtSignature"]


def models(value: Any) -> tuple[ModelInfo, ...]:
    """Parses GET /v1beta/models, without models that only embed or generate images.

    Spec: https://ai.google.dev/api/models#method:-models.list
    """
    return tuple(_model(entry) for entry in model_entries(value, "models") if _can_answer(entry))


def _can_answer(entry: Mapping[str, Any]) -> bool:
    methods = entry.get("supportedGenerationMethods")
    return "generateContent" in methods if isinstance(methods, list) else True


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    name = str(entry.get("name") or "").removeprefix("models/")
    label, thinks = entry.get("displayName"), entry.get("thinking")
    return ModelInfo(
        name,
        label if isinstance(label, str) else "",
        reasoning=thinks if isinstance(thinks, bool) else None,
        window=_tokens(entry.get("inputTokenLimit")),
    )


# Converts arguments that Vertex streams by path (`partialArgs`) to one growing JSON text. The model
# writes its arguments from front to back, so the text grows at its end: `$.a[0].b` after `$.a[0].c`
# adds a member; after `$.a[1].c` it is impossible: then nothing more is written, the text stays
# incomplete and can never run.
# https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling


class _OpenContainer:
    """An object or array being written. `key` is the last member written."""

    __slots__ = ("count", "is_object", "key", "seen")

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.key: str | int = ""
        self.count = 0
        self.seen: set[str | int] = set()


class GrowingArguments:
    """`take` and `close` return the text to append. `broken`: no more can be written."""

    def __init__(self) -> None:
        self.broken = False
        self._levels = [_OpenContainer(is_object=True)]
        self._string: Path | None = None  # the path of the string being written
        self._begun = False

    def take(self, partial: Mapping[str, Any], number: str) -> str:
        """Adds one entry of `partialArgs`; `number` is the JSON text of its number, or ""."""
        path = None if self.broken else _path(partial.get("jsonPath"))
        text = None if path is None else self._text_at(path, partial, number)
        self.broken = text is None
        return text or ""

    def _text_at(self, path: Path, partial: Mapping[str, Any], number: str) -> str | None:
        """The text for the value at `path`, or None if it cannot be written any more."""
        value, text = partial.get("stringValue"), ""
        if isinstance(value, str):
            if self._string != path:
                placed = self._text_up_to(path)
                if placed is None:
                    return None
                text, self._string = placed + '"', path
            text += json.dumps(value, ensure_ascii=False)[1:-1]
        elif literal := _literal(partial, number):
            placed = self._text_up_to(path)
            return None if placed is None else placed + literal
        elif any(key.endswith("Value") for key in partial):
            return None
        if self._string == path and partial.get("willContinue") is not True:
            text, self._string = text + '"', None
        return text

    def close(self) -> str:
        """The text that completes the JSON. A string announced to continue is not closed."""
        self.broken = self.broken or self._string is not None
        if self.broken:
            return ""
        text = "" if self._begun else "{"
        self._begun = True
        while self._levels:
            text += "}" if self._levels.pop().is_object else "]"
        return text

    def _text_up_to(self, path: Path) -> str | None:
        """The text up to the beginning of the value at `path`, or None if that has passed already,
        or a string is incomplete."""
        if self._string is not None:
            return None
        text = "" if self._begun else "{"
        self._begun = True
        levels = self._levels
        shared = 0
        while shared < min(len(levels), len(path)) - 1 and levels[shared].key == path[shared]:
            shared += 1
        while len(levels) > shared + 1:
            text += "}" if levels.pop().is_object else "]"
        for place in range(shared, len(path)):
            level, key = levels[-1], path[place]
            fits = isinstance(key, str) if level.is_object else key == level.count
            if not fits or key in level.seen:
                return None
            text += "," if level.count else ""
            level.key = key
            level.count += 1
            if level.is_object:
                level.seen.add(key)
                text += json.dumps(key, ensure_ascii=False) + ":"
            if place + 1 < len(path):
                is_object = isinstance(path[place + 1], str)
                levels.append(_OpenContainer(is_object))
                text += "{" if is_object else "["
        return text


def _literal(partial: Mapping[str, Any], number: str) -> str:
    """The JSON text of a value that arrives in one piece, or ""."""
    if isinstance(partial.get("boolValue"), bool):
        return "true" if partial["boolValue"] else "false"
    value = partial.get("numberValue")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number
    return "null" if "nullValue" in partial else ""


def _path(text: Any) -> Path | None:
    """The steps of a JSON path (RFC 9535), or None if it does not identify a single member."""
    if not isinstance(text, str) or not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or len(steps) == MOST_DEEP:
            return None
        at = match.end()
        name, index, single, double = match.groups()
        if index is not None:
            steps.append(int(index))
        elif name is not None:
            steps.append(name)
        else:
            quoted = double if double is not None else _double_quoted(single)
            try:
                steps.append(json.loads(f'"{quoted}"', strict=False))
            except ValueError:
                return None
    return tuple(steps) or None


def _double_quoted(single: str) -> str:
    return single.replace("\\'", "'").replace('"', '\\"')


# Gemini's finish reasons, as names or numbers, and their meaning here.
# https://ai.google.dev/api/generate-content#FinishReason


def finish_reason(value: Any, vertex: bool) -> str:
    """The name for `value`, "" if it has none yet.

    If asked with enum-encoding=int a server sends numbers; from 6 on Vertex's differ from those of
    the Gemini API.
    """
    return _word(value, _VERTEX if vertex else _AI_STUDIO, "FINISH_REASON_UNSPECIFIED")


def block_reason(value: Any) -> str:
    """The name of the reason why a prompt was blocked; "" if it was not."""
    return _word(value, _BLOCKED, "BLOCKED_REASON_UNSPECIFIED")


def _word(value: Any, numbered: tuple[str, ...], unspecified: str) -> str:
    if isinstance(value, str):
        return "" if value == unspecified else value
    if isinstance(value, int) and not isinstance(value, bool):
        return numbered[value] if 0 <= value < len(numbered) else str(value)
    return ""


CODEC = Codec(
    name="gemini",
    encode=encode,
    decoder=decoder,
    label=label,
    key_header=key_header,
    models_path=MODELS_PATH,
    models=models,
    quirks=QUIRKS,
)
