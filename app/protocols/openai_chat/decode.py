"""OpenAI Chat Completions and its many dialects, client side: answers to events.

Knows chunks, choices and finish reasons; which call a fragment belongs to is in
openai_chat_calls, requests are in openai_chat_encode.
Spec: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from app.core.events import EndReason, Usage
from app.protocols.base import Codec
from app.protocols.builder import Answer, OpenPart
from app.protocols.decoder import BodyDecoder, Took
from app.protocols.errors import MAX_WORDS, error_sentence, told_error
from app.protocols.openai_chat.calls import Calls, Where
from app.protocols.openai_chat.encode import encode
from app.protocols.openai_chat.models import models
from app.protocols.openai_chat.tools import QUIRKS
from app.protocols.raw_json import Quoted

REASONS: Mapping[str, EndReason] = {
    "stop": "stop",
    "eos": "stop",  # Together
    "end_turn": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral
    "content_filter": "refusal",
    "refusal": "refusal",
}

_REASONING = ("reasoning_content", "reasoning", "reasoning_text")
"""The names of reasoning text, in the order of trust: servers that send two send the same text."""
_READ = frozenset(
    {"role", "content", "refusal", "annotations", "tool_calls", "function_call", "obfuscation"}
    | {"reasoning_details", *_REASONING}
)
"""The members of a delta that have a place of their own; the rest is kept as it came."""

Prose = Literal["text", "thinking", "refusal"]


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = Answer()
    return BodyDecoder(status, answer, _Reader(answer))


class _Reader:
    api = "OpenAI Chat Completions API"
    marked = True

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls = Calls(answer)
        self._prose: OpenPart | None = None
        self._logprobs: dict[str, list[Any]] = {}  # by kind of part, until one takes them
        self._opened = False
        self._inline = False  # whether thinking was found inside of text
        self._details: list[Any] = []  # reasoning_details that ride on the next thinking part
        self._meta: dict[str, Any] = {}
        self._rest: dict[str, Any] = {}  # members of the message that have no place elsewhere
        self._others: dict[int, dict[str, Any]] = {}

    def read(self, value: Mapping[str, Any], text: str, event: str) -> Took:
        choices = value.get("choices")
        usage = value.get("usage")
        if not isinstance(choices, list):
            if not isinstance(usage, Mapping) and not _is_chunk(value):
                return "unknown"
            choices = []
        for key in ("id", "model"):
            if key not in self._meta and isinstance(value.get(key), str) and value[key]:
                self._meta[key] = value[key]
        self._count(usage if isinstance(usage, Mapping) else _groq(value).get("usage"))
        took: Took = "known"
        quoted = Quoted(text)
        for place, choice in enumerate(choices):
            if not isinstance(choice, dict):
                self._answer.warn("not_an_object", "A choice that is no object was left out.")
            elif (index := choice.get("index")) and isinstance(index, int) and index > 0:
                self._other_choice(index, choice)
            elif self._choice(choice, (quoted, "choices", place)):
                took = "last"
        return took

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        return REASONS.get(self._answer.raw_reason, "other"), self._meta

    def settle(self, whole: bool) -> None:
        self._end_prose(whole)
        if self._details:
            self._answer.whole("thinking", reasoning_details=merged(self._details))
            self._details = []
        self._calls.settle()
        if held := [token for tokens in self._logprobs.values() for token in tokens]:
            self._meta["logprobs"] = held
        if (signed := self._rest.pop("extra_content", None)) is not None:
            # A signature that belongs to no call (Gemini) must go back with the message.
            self._answer.whole("thinking", extra_content=signed)
        if self._rest:
            self._meta["message"] = self._rest
        if self._others:
            self._answer.warn(
                "other_choices",
                f"{len(self._others)} more choices came; only the first is the answer.",
                choices=[self._others[index] for index in sorted(self._others)],
            )
            self._others = {}

    def _choice(self, choice: Mapping[str, Any], where: Where) -> bool:
        """Take choice 0; True where it is a whole message and not a piece of one."""
        self._hold_logprobs(choice.get("logprobs"))
        part = next((key for key in ("delta", "message") if isinstance(choice.get(key), dict)), "")
        if part:
            if not self._opened and part == "delta" and "role" not in choice[part]:
                self._answer.warn_no_opening("the chunk with the role")
            self._opened = True
            self._message(choice[part], (*where, part))
        reason = choice.get("finish_reason")
        if reason:
            raw = reason if isinstance(reason, str) else str(reason)
            self._answer.tell_reason(raw, REASONS.get(raw, "other"))
            self._answer.seal_calls()  # What is lost after the reason is none of them.
        native = choice.get("native_finish_reason")
        if isinstance(native, str):
            self._meta["native_finish_reason"] = native
        if error := choice.get("error"):
            # OpenRouter tells there that the model's server failed, beside a reason of any kind.
            self.settle(whole=False)
            told = told_error({"error": error})
            words = told.words if told else str(error)[:MAX_WORDS]
            self._answer.fail("error", error_sentence(words), error=error)
        return part == "message"

    def _message(self, message: Mapping[str, Any], where: Where) -> None:
        self._reasoning(message)
        content = message.get("content")
        if isinstance(content, str):
            self._say("text", content)
        elif content is not None:
            self._content_list(content)
        refusal = message.get("refusal")
        if isinstance(refusal, str):
            self._say("refusal", refusal)
        annotations = message.get("annotations")
        if isinstance(annotations, list) and annotations:
            self._meta.setdefault("annotations", []).extend(annotations)
        if message.get("tool_calls") or message.get("function_call"):
            self._end_prose()
            self._calls.take(message, where)
        if not message.keys() <= _READ:
            rest = {k: v for k, v in message.items() if k not in _READ and v is not None}
            self._rest.update(rest)

    def _reasoning(self, message: Mapping[str, Any]) -> None:
        details = message.get("reasoning_details")
        details = details if isinstance(details, list) else []
        self._details += details
        for field in _REASONING:
            said = message.get(field)
            if isinstance(said, str) and said:
                self._say("thinking", said, field)
                return
        for detail in details:
            if isinstance(detail, dict):
                thought = detail.get("text") or detail.get("summary")
                self._say("thinking", thought if isinstance(thought, str) else "")

    def _content_list(self, content: Any) -> None:
        """Content as a list of typed pieces (Mistral)."""
        for piece in content if isinstance(content, list) else [content]:
            match piece:
                case str():
                    self._say("text", piece)
                case {"type": "text", "text": str(text)}:
                    self._say("text", text)
                case {"type": "thinking", "thinking": list(thoughts)}:
                    for thought in thoughts:
                        said = thought.get("text") if isinstance(thought, dict) else thought
                        self._say("thinking", said if isinstance(said, str) else "", "content")
                case {"type": "thinking", "thinking": str(text)}:
                    self._say("thinking", text, "content")
                case dict():
                    self._end_prose()
                    self._answer.whole("other", block=piece)
                case _:
                    self._answer.warn("odd_content", "Content that is no text was left out.")

    def _say(self, kind: Prose, text: str, field: str = "") -> None:
        """Append to the prose under way, or begin a new part where its kind changes."""
        if not text:
            return
        prose = self._prose
        if prose is None or prose.kind != kind:
            self._end_prose()
            prose = self._prose = self._answer.start(kind)
        if field:
            prose.meta["field"] = field
        self._answer.delta(prose, text)

    def _hold_logprobs(self, told: Any) -> None:
        """The tokens' probabilities, as sent; they belong to the part that their text goes to."""
        for kind, name in (("text", "content"), ("refusal", "refusal")):
            tokens = told.get(name) if isinstance(told, dict) else None
            if isinstance(tokens, list) and tokens:
                self._logprobs.setdefault(kind, []).extend(tokens)
                self._answer.tokens(tokens, kind)

    def _end_prose(self, complete: bool = True) -> None:
        prose, self._prose = self._prose, None
        if prose is None:
            return
        if prose.kind == "thinking" and self._details:
            prose.meta["reasoning_details"] = merged(self._details)
            self._details = []
        if held := self._logprobs.pop(prose.kind, None):
            prose.meta["logprobs"] = held
        self._warn_inline(prose)
        self._answer.stop(prose, complete)

    def _warn_inline(self, prose: OpenPart) -> None:
        """Thinking inside of text stays there: which text is thinking would be a guess."""
        start = "".join(prose.pieces[:20]).lstrip()
        if prose.kind == "text" and start.startswith("<think>") and not self._inline:
            self._inline = True
            self._answer.warn(
                "inline_thinking",
                "The answer begins with <think>: this server leaves the thinking in its text.",
            )

    def _other_choice(self, index: int, choice: Mapping[str, Any]) -> None:
        """The second and further choices of n > 1 are kept to be read, not answered."""
        kept = self._others.setdefault(index, {"index": index, "pieces": []})
        piece = choice.get("delta") or choice.get("message")
        if piece:
            kept["pieces"].append(piece)
        if choice.get("finish_reason"):
            kept["finish_reason"] = choice["finish_reason"]

    def _count(self, usage: Any) -> None:
        if isinstance(usage, Mapping) and usage:
            self._answer.usage = Usage(
                _tokens(usage, "prompt_tokens", "input_tokens"),
                _tokens(usage, "completion_tokens", "output_tokens"),
                dict(usage),
                cached_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
                cache_write_tokens=_detail(usage, "prompt_tokens_details", "cache_write_tokens"),
                reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
            )


def _is_chunk(value: Mapping[str, Any]) -> bool:
    return str(value.get("object", "")).startswith("chat.completion")


def _groq(value: Mapping[str, Any]) -> Mapping[str, Any]:
    own = value.get("x_groq")
    return own if isinstance(own, dict) else {}


def _tokens(usage: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    """A count of a detail; DeepSeek tells what it had cached beside the others."""
    details = usage.get(group)
    told = _tokens(details, name) if isinstance(details, Mapping) else None
    if told is None and name == "cached_tokens":
        return _tokens(usage, "prompt_cache_hit_tokens")
    return told


def merged(details: list[Any]) -> list[Any]:
    """The fragments of `reasoning_details` (OpenRouter) as the list that goes back.

    Neighbours of one type and index are one detail: their texts are joined, of the other members
    the last that is not null holds.
    """
    runs: list[tuple[Any, list[dict[str, Any]]]] = []
    whole: list[Any] = []
    for detail in details:
        if not isinstance(detail, dict):
            continue
        key = (str(detail.get("type")), str(detail.get("index")))
        if runs and runs[-1][0] == key:
            runs[-1][1].append(detail)
        else:
            runs.append((key, [detail]))
    for _, run in runs:
        one: dict[str, Any] = {}
        for detail in run:
            one.update({k: v for k, v in detail.items() if v is not None or k not in one})
        for name in ("text", "summary", "data"):
            texts = [d[name] for d in run if isinstance(d.get(name), str)]
            if texts:
                one[name] = "".join(texts)
        whole.append(one)
    return whole


def label(frame: Mapping[str, Any]) -> str:
    """What a chunk carries: `chunk tool_calls`, `chunk finish_reason tool_calls`, `usage`."""
    if frame.get("error"):
        return "error"
    choices = frame.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return "usage" if frame.get("usage") else str(frame.get("object") or "")
    if isinstance(choice.get("message"), dict):
        return "chat.completion"
    delta = choice.get("delta")
    words = [key for key, item in delta.items() if item] if isinstance(delta, dict) else []
    if choice.get("finish_reason"):
        words += ["finish_reason", str(choice["finish_reason"])]
    return " ".join(["chunk", *words])


def key_header(key: str, quirks: Sequence[str]) -> Mapping[str, str]:
    if "api_key_header" in quirks:
        return {"api-key": key}
    return {"authorization": f"Bearer {key}"}


CODEC = Codec(
    name="openai_chat",
    encode=encode,
    decoder=decoder,
    label=label,
    key_header=key_header,
    models_path="/models",
    models=models,
    quirks=QUIRKS,
)
