"""Decodes Chat Completions responses (OpenAI and its many dialects) into events.

Handles chunks, choices and finish reasons; `CallAssembler` finds the call of each fragment. Spec:
https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from playground.core.events import EndReason, Usage
from playground.protocols.base import (
    MAX_WORDS,
    Codec,
    ModelInfo,
    error_sentence,
    model_entries,
    read_error,
)
from playground.protocols.call_identity import (
    CallDirectory,
    Clue,
    KnownCall,
    has_id_of,
    read_id,
    read_index,
)
from playground.protocols.decoder import (
    BodyDecoder,
    EventBuilder,
    Meaning,
    OpenPart,
    ReadOutcome,
    meaning_of,
)
from playground.protocols.openai_chat.request import QUIRKS, encode
from playground.protocols.raw_json import JsonText, is_same_value, join_pieces, parse_json

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

_NATIVE: Mapping[str, Meaning] = {
    **REASONS,
    "max_output_tokens": "length",
    **dict.fromkeys(("safety", "recitation", "prohibited_content", "blocklist", "spii"), "refusal"),
    **dict.fromkeys(
        (
            *("malformed_function_call", "malformed_response", "unexpected_tool_call"),
            *("too_many_tool_calls", "missing_thought_signature"),
        ),
        "failed",
    ),
}
"""Reasons of the model's own server, in lower case (OpenRouter tells them beside its own)."""

_REASONING = ("reasoning_content", "reasoning", "reasoning_text")
"""Members with reasoning text, in order of preference: servers that send two send equal text."""
THOUGHTS = frozenset({"reasoning_details", *_REASONING})
"""The members of a message that are thinking."""
_READ = THOUGHTS | {
    *("role", "content", "refusal", "annotations", "tool_calls", "function_call", "obfuscation")
}
"""The members of a delta that are handled; others are stored unchanged."""

Prose = Literal["text", "thinking", "refusal"]

_OWN = frozenset({"index", "id", "type", "function", "custom"})

_FLAT = ("name", "arguments", "input")
"""Members of a function that some clients read in the fragment itself."""

_MEMBERS: Mapping[str, str] = {"function": "arguments", "custom": "input"}
"""The member of a fragment -> its own member with the text of the call."""

_LEGACY = "function_call"
"""The member of the one call before there were `tool_calls`."""

Where = tuple[JsonText, *tuple[str | int, ...]]
"""The JSON text of a chunk, and the path of a value in it."""

_WINDOWS = (
    "context_length",  # OpenRouter, Together, Fireworks
    "max_context_length",  # Mistral
    "context_window",  # Groq
    "max_model_len",  # vLLM
)


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = EventBuilder()
    return BodyDecoder(status, answer, _Reader(answer))


class _Reader:
    api = "OpenAI Chat Completions API"
    marked = True

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._calls = CallAssembler(answer)
        self._prose: OpenPart | None = None
        self._logprobs: dict[str, list[Any]] = {}  # by kind of part, until a part takes them
        self._opened = False
        self._texts: list[str] = []  # all text so far
        self._inline = False  # whether thinking was found inside text
        self._details: list[Any] = []  # reasoning_details for the next thinking part
        self._meta: dict[str, Any] = {}
        self._rest: dict[str, Any] = {}  # further members of the message
        self._others: dict[int, dict[str, Any]] = {}

    def read(self, value: Mapping[str, Any], text: str, event: str) -> ReadOutcome:
        choices = value.get("choices")
        usage = value.get("usage")
        if not isinstance(choices, list):
            if not isinstance(usage, dict) and not _is_chunk(value):
                return "unknown"
            choices = []
        for key in ("id", "model"):
            if key not in self._meta and isinstance(value.get(key), str) and value[key]:
                self._meta[key] = value[key]
        self._count(usage if isinstance(usage, dict) else _groq(value).get("usage"))
        took: ReadOutcome = "known"
        quoted = JsonText(text)
        for place, choice in enumerate(choices):
            if not isinstance(choice, dict):
                self._answer.warn("not_an_object", "A choice that is not an object was left out.")
            elif (index := choice.get("index")) and isinstance(index, int) and index > 0:
                self._other_choice(index, choice)
            elif self._choice(choice, (quoted, "choices", place)):
                took = "last"
        return took

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        self._tell_native()
        return REASONS.get(self._answer.raw_reason, "other"), self._meta

    def _tell_native(self) -> None:
        """Warns if the model's own server says that the answer was cut or spoiled, and the finish
        reason does not."""
        raw, native = self._answer.raw_reason, str(self._meta.get("native_finish_reason", ""))
        meaning = meaning_of(native, _NATIVE.get(native.lower(), "other"))
        if meaning in ("length", "refusal", "failed") and meaning != REASONS.get(raw):
            self._answer.warn(
                "native_reason",
                f"The finish reason is {raw[:80]}, but the model's server said {native[:80]}.",
            )

    def settle(self, whole: bool) -> None:
        self._end_prose(whole)
        if self._details:
            self._answer.add_whole_part("thinking", reasoning_details=merge_details(self._details))
            self._details = []
        self._calls.settle()
        if logprobs := [token for tokens in self._logprobs.values() for token in tokens]:
            self._meta["logprobs"] = logprobs
        if (signed := self._rest.pop("extra_content", None)) is not None:
            # A signature that belongs to no call (Gemini) must go back with the message.
            self._answer.add_whole_part("thinking", extra_content=signed)
        if self._rest:
            self._meta["message"] = self._rest
        if self._others:
            self._answer.warn(
                "other_choices",
                f"{len(self._others)} more choices came. Only the first is used.",
                choices=[self._others[index] for index in sorted(self._others)],
            )
            self._others = {}

    def _choice(self, choice: Mapping[str, Any], where: Where) -> bool:
        """Handles choice 0; True if it is a whole message, not a delta."""
        if isinstance(logprobs := choice.get("logprobs"), dict):
            self._hold_logprobs(logprobs)
        part = message_member(choice, streams=self._answer.streams)
        message = choice.get(part)
        if isinstance(message, dict) and part == "message" and self._opened:
            self._compare_message(message, (*where, part))
        elif isinstance(message, dict):
            if not self._opened and part == "delta" and "role" not in message:
                self._answer.warn_no_opening("the chunk with the role")
            self._opened = True
            self._message(message, (*where, part))
        reason = choice.get("finish_reason")
        if reason:
            raw = reason if isinstance(reason, str) else str(reason)
            self._answer.tell_reason(raw, REASONS.get(raw, "other"))
            self._answer.freeze_calls()  # later losses do not affect them
        native = choice.get("native_finish_reason")
        if isinstance(native, str):
            self._meta["native_finish_reason"] = native
        if error := choice.get("error"):
            # OpenRouter reports a failure of the model's server there, with any finish reason.
            self.settle(whole=False)
            problem = read_error({"error": error})
            words = problem.words if problem else str(error)[:MAX_WORDS]
            self._answer.fail("error", error_sentence(words), error=error)
        return part == "message" and isinstance(message, dict)

    def _message(self, message: Mapping[str, Any], where: Where) -> None:
        self._reasoning(message)
        content = message.get("content")
        if isinstance(content, str):
            self._append_text("text", content)
        elif content is not None:
            self._content_list(content)
        refusal = message.get("refusal")
        if isinstance(refusal, str):
            self._append_text("refusal", refusal)
        annotations = message.get("annotations")
        if isinstance(annotations, list) and annotations:
            self._meta.setdefault("annotations", []).extend(annotations)
        if message.get("tool_calls") or message.get("function_call"):
            self._end_prose()
            self._calls.take(message, where)
        if not message.keys() <= _READ:
            rest = {k: v for k, v in message.items() if k not in _READ and v is not None}
            self._rest.update(rest)

    def _compare_message(self, message: Mapping[str, Any], where: Where) -> None:
        """A whole message at the end of a stream, which repeats it: only what is new is added."""
        content = message.get("content")
        if isinstance(content, str) and content:
            streamed = join_pieces(self._texts) if self._texts else ""
            if content.startswith(streamed):
                self._append_text("text", content[len(streamed) :])
            else:
                self._answer.warn(
                    "message_differs",
                    "The message at the end of the stream differs from the streamed one. The "
                    "streamed one is used.",
                )
        if message.get("tool_calls") or message.get("function_call"):
            self._end_prose()
            self._calls.take(message, where, repeated=True)

    def _reasoning(self, message: Mapping[str, Any]) -> None:
        if message.keys().isdisjoint(THOUGHTS):
            return
        details = message.get("reasoning_details")
        details = details if isinstance(details, list) else []
        self._details += details
        if self._answer.places is not None and any(map(_signs_call, details)):
            self._answer.locate(None)
        for field in _REASONING:
            text = message.get(field)
            if isinstance(text, str) and text:
                self._append_text("thinking", text, field)
                return
        for detail in details:
            if isinstance(detail, dict):
                thought = detail.get("text") or detail.get("summary")
                self._append_text("thinking", thought if isinstance(thought, str) else "")

    def _content_list(self, content: Any) -> None:
        """Content as a list of typed pieces (Mistral)."""
        for piece in content if isinstance(content, list) else [content]:
            match piece:
                case str():
                    self._append_text("text", piece)
                case {"type": "text", "text": str(text)}:
                    self._append_text("text", text)
                case {"type": "thinking", "thinking": list(thoughts)}:
                    for thought in thoughts:
                        inner = thought.get("text") if isinstance(thought, dict) else thought
                        self._append_text(
                            "thinking", inner if isinstance(inner, str) else "", "content"
                        )
                case {"type": "thinking", "thinking": str(text)}:
                    self._append_text("thinking", text, "content")
                case dict():
                    self._end_prose()
                    self._answer.add_whole_part("other", block=piece)
                case _:
                    self._answer.warn("odd_content", "Content that is not text was left out.")

    def _append_text(self, kind: Prose, text: str, field: str = "") -> None:
        """Appends to the current text, or begins a new part if its kind changes."""
        if not text:
            return
        prose = self._prose
        if prose is None or prose.kind != kind:
            self._end_prose()
            prose = self._prose = self._answer.start(kind)
        if field:
            prose.meta["field"] = field
        if kind == "text":
            self._texts.append(text)
        self._answer.delta(prose, text)

    def _hold_logprobs(self, logprobs: Mapping[str, Any]) -> None:
        """The tokens' probabilities, as sent; they belong to the part that gets their text."""
        for kind, name in (("text", "content"), ("refusal", "refusal")):
            tokens = logprobs.get(name)
            if isinstance(tokens, list) and tokens:
                self._logprobs.setdefault(kind, []).extend(tokens)
                self._answer.tokens(tokens, kind)

    def _end_prose(self, complete: bool = True) -> None:
        prose, self._prose = self._prose, None
        if prose is None:
            return
        if prose.kind == "thinking" and self._details:
            prose.meta["reasoning_details"] = merge_details(self._details)
            self._details = []
        if logprobs := self._logprobs.pop(prose.kind, None):
            prose.meta["logprobs"] = logprobs
        self._warn_inline(prose)
        self._answer.stop(prose, complete)

    def _warn_inline(self, prose: OpenPart) -> None:
        """Thinking inside text stays there: separating it would be guesswork."""
        start = "".join(prose.pieces[:20]).lstrip()
        if prose.kind == "text" and start.startswith("<think>") and not self._inline:
            self._inline = True
            self._answer.warn(
                "inline_thinking",
                "The answer begins with <think>: this server leaves the thinking in its text.",
            )

    def _other_choice(self, index: int, choice: Mapping[str, Any]) -> None:
        """Further choices (n > 1) are stored for viewing, not answered."""
        entry = self._others.setdefault(index, {"index": index, "pieces": []})
        piece = choice.get("delta") or choice.get("message")
        if piece:
            entry["pieces"].append(piece)
        if choice.get("finish_reason"):
            entry["finish_reason"] = choice["finish_reason"]

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict) and usage:
            self._answer.usage = Usage(
                _tokens(usage, "prompt_tokens", "input_tokens"),
                _tokens(usage, "completion_tokens", "output_tokens"),
                dict(usage),
                cached_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
                cache_write_tokens=_detail(usage, "prompt_tokens_details", "cache_write_tokens"),
                reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
            )


def message_member(choice: Mapping[str, Any], *, streams: bool) -> str:
    """The member of a choice that has the answer, if a server sends both: `delta` in a stream,
    `message` in a body that is none."""
    first, second = ("delta", "message") if streams else ("message", "delta")
    return first if isinstance(choice.get(first), dict) else second


def _signs_call(detail: Any) -> bool:
    """Whether it is a call's signature, identified by the call's id (OpenRouter for Gemini)."""
    return (
        isinstance(detail, dict)
        and bool(detail.get("id"))
        and str(detail.get("format")).startswith("google")
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
    """A count in the details; DeepSeek reports cached tokens elsewhere."""
    details = usage.get(group)
    number = _tokens(details, name) if isinstance(details, Mapping) else None
    if number is None and name == "cached_tokens":
        return _tokens(usage, "prompt_cache_hit_tokens")
    return number


def merge_details(details: list[Any]) -> list[Any]:
    """Merges fragments of `reasoning_details` (OpenRouter) to the list that goes back.

    Neighbours with equal type and index are one detail: texts are concatenated; of other members
    the last non-null value counts.
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
        entry: dict[str, Any] = {}
        for detail in run:
            entry.update({k: v for k, v in detail.items() if v is not None or k not in entry})
        for name in ("text", "summary", "data"):
            texts = [d[name] for d in run if isinstance(d.get(name), str)]
            if texts:
                entry[name] = "".join(texts)
        whole.append(entry)
    return whole


def label(frame: Mapping[str, Any]) -> str:
    """The content of a chunk: `chunk tool_calls`, `chunk finish_reason tool_calls`, `usage`."""
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


# The calls of a message. `call_identity` finds the call of a fragment, whatever its server does
# with `index` and `id` (quirks Q1-Q17 and Q28 of docs/wire.md).


class _OpenCall(KnownCall):
    __slots__ = ("early", "extra", "has_arguments", "kind", "length", "part")

    def __init__(self, clue: Clue) -> None:
        super().__init__(clue)
        self.name = ""  # it may come in pieces, of which the clue has the first
        self.kind = "function"
        self.extra: dict[str, Any] = {}
        self.part: OpenPart | None = None
        self.early: list[tuple[tuple[int, int], tuple[str | int, ...]]] = []  # earlier positions
        self.has_arguments = False  # whether arguments were sent, even ""
        self.length = 0  # characters of its arguments


class CallAssembler:
    """The calls of one answer. `settle` when no more fragments can come."""

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._known = CallDirectory[_OpenCall]()
        self._legacy: _OpenCall | None = None
        self._doubled = False
        self._settled = False

    def take(self, message: Mapping[str, Any], where: Where, *, repeated: bool = False) -> None:
        """Adds the calls in a delta or a message; `where` is the JSON text and the path to it.
        `repeated`: the calls of the stream come once more, each whole."""
        fragments = message.get("tool_calls")
        if repeated and isinstance(fragments, list):
            self._repeat(fragments, where)
        elif isinstance(fragments, dict):
            self._fragment(fragments, (*where, "tool_calls"))
        elif isinstance(fragments, list):
            for place, fragment in enumerate(fragments):
                if isinstance(fragment, dict):
                    self._fragment(fragment, (*where, "tool_calls", place))
                else:
                    self._answer.warn("odd_call", "A call that is not an object was left out.")
        legacy = message.get("function_call")
        if isinstance(legacy, dict) and self._is_double(legacy, fragments):
            alike = (call for call in self._known.calls if call.name == legacy.get("name"))
            if (twin := next(alike, None)) is not None:
                self._locate(twin, (*where, "function_call"))
        elif isinstance(legacy, dict):
            if self._legacy is None:
                self._legacy = self._new_call(Clue(type=_LEGACY))
                self._legacy.kind = _LEGACY
            self._grow(self._legacy, legacy, "arguments", (*where, "function_call"))
            self._locate(self._legacy, (*where, "function_call"))

    def _repeat(self, fragments: Sequence[Any], where: Where) -> None:
        """Compares the calls of a final message with those of the stream."""
        entries = {n: entry for n, entry in enumerate(fragments) if isinstance(entry, dict)}
        matches = self._known.match_list({n: _clue(entry) for n, entry in entries.items()})
        for place, fragment in entries.items():
            at = (*where, "tool_calls", place)
            same = matches.get(place)
            if same is None or same.part is None:
                self._fragment(fragment, at)
                continue
            self._locate(same, at)
            member = "custom" if same.kind == "custom" else "function"
            body = fragment.get(member)
            text, name = at[0].member(*at[1:], member, _MEMBERS[member]), ""
            if isinstance(body, dict):
                name = read_id(body.get("name"))
                given = body.get(_MEMBERS[member])
                text = given if isinstance(given, str) else text
            if name not in ("", same.name) or (
                text and not is_same_value(text, join_pieces(same.part.pieces or [""]))
            ):
                self._answer.warn_of(
                    same.part,
                    "item_differs",
                    f"The call {same.name[:80]} at the end of the stream differs from the "
                    "streamed one. The streamed one is used.",
                )

    def _locate(self, call: _OpenCall, where: Where) -> None:
        answer, path = self._answer, where[1:]
        if answer.places is None:
            return
        if call.part is None:
            call.early.append((answer.span, path))
            answer.locate(None, *path)
            return
        here, early = answer.span, call.early
        for answer.span, before in early:
            answer.locate(call.part, *before)
        early.clear()
        answer.span = here
        answer.locate(call.part, *path)

    def _is_double(self, legacy: Mapping[str, Any], fragments: Any) -> bool:
        """Whether the legacy member only repeats the call of the new one."""
        beside = fragments if isinstance(fragments, list) else [fragments]
        functions = [entry.get("function") for entry in beside if isinstance(entry, dict)]
        if self._legacy is not None or not any(
            _repeats(legacy, function) for function in functions
        ):
            return False
        self._warn_double()
        return True

    def _warn_double(self) -> None:
        if not self._doubled:
            self._answer.warn("same_call", "One call came as tool_calls and as function_call.")
        self._doubled = True

    def _doubt_double(self) -> None:
        """The same if they arrived one after the other: they are one call."""
        legacy = self._legacy.part if self._legacy is not None else None
        if self._legacy is None or legacy is None or legacy.ended:
            return
        text = join_pieces(legacy.pieces or [""])
        for call in self._known.calls:
            if call is self._legacy or call.part is None or call.name != self._legacy.name:
                continue
            if join_pieces(call.part.pieces or [""]) == text:
                self._answer.mark_doubtful(legacy)
                self._warn_double()

    def settle(self) -> None:
        """Ends all calls; drops an empty one that nothing followed."""
        if self._settled:
            return
        self._settled = True
        self._doubt_double()
        for call in self._known.calls:
            part = call.part
            if part is None:
                self._answer.warn("empty_call", "A call had no id, name or arguments.")
                continue
            part.name, part.provider_id = call.name, call.call_id
            if call.kind != "function":
                part.meta["type"] = call.kind
            if call.extra:
                part.meta["extra"] = call.extra
            if not call.has_arguments:
                part.meta["absent"] = True

    def _fragment(self, fragment: Mapping[str, Any], where: Where) -> None:
        is_custom = isinstance(fragment.get("custom"), dict)
        inner = "custom" if is_custom else "function"
        arguments = _MEMBERS[inner]
        body = fragment.get(inner)
        body = body if isinstance(body, dict) else {}
        if any(fragment.get(key) not in (None, "", body.get(key)) for key in _FLAT):
            self._answer.leave_unread()
        clue = _clue(fragment, inner)
        call = self._known.find_unmarked(clue) or self._new_call(clue)
        repeats = clue.call_id and has_id_of(call, clue) and call.name == clue.name
        if repeats and self._is_again(call, body, arguments):
            self._locate(call, where)
            return
        self._known.learn(call, clue)
        if is_custom or fragment.get("type") == "custom":
            call.kind = "custom"
        if not fragment.keys() <= _OWN:
            extra = {k: v for k, v in fragment.items() if k not in _OWN and v is not None}
            call.extra.update(extra)
        self._grow(call, body, arguments, (*where, inner))
        self._locate(call, where)

    def _is_again(self, call: _OpenCall, body: Mapping[str, Any], member: str) -> bool:
        """Whether a fragment with the id and the name of its call repeats all of its arguments."""
        text, part = body.get(member), call.part
        if not isinstance(text, str) or part is None or len(text) != call.length or len(text) < 2:
            return False
        if text[0] != "{" or join_pieces(part.pieces) != text or not _is_object(text):
            return False
        self._answer.warn_of(
            part, "item_again", f"The call {call.call_id[:80]!r} was sent twice. It counts once."
        )
        return True

    def _new_call(self, clue: Clue) -> _OpenCall:
        call = _OpenCall(clue)
        self._known.add(call)
        return call

    def _name(self, call: _OpenCall, piece: str) -> None:
        """Names may arrive in pieces until the first argument; later ones are repetitions."""
        if call.name and not call.bare:
            return
        call.name += piece
        if call.part is not None:
            self._answer.add_side_text(call.part, "name", piece)

    def _grow(
        self, call: _OpenCall, body: Mapping[str, Any], member_name: str, where: Where
    ) -> None:
        name = body.get("name")
        if isinstance(name, str) and name and name != call.name:
            self._name(call, name)
        arguments = body.get(member_name)
        if arguments is not None:
            call.has_arguments = True
        text = arguments if isinstance(arguments, str) else ""
        if call.part is None and (call.name or call.call_id or arguments):
            call.part = self._answer.start("call", call.name, call.call_id)
        part = call.part
        if part is None or arguments is None:
            return
        if not isinstance(arguments, str):
            # An object (or other value) in place of text: its JSON text is meant.
            source, *path = where
            text = source.member(*path, member_name)
            part.meta["as_object"] = True
            if part.pieces and not is_same_value(join_pieces(part.pieces), text):
                self._answer.mark_doubtful(part)
                self._answer.warn_of(
                    part,
                    "arguments_replaced",
                    f"{call.name[:80]} came with different arguments. The last are used.",
                )
            part.pieces.clear()
            call.length = 0
        if text:
            call.bare = False
            call.length += len(text)
            self._answer.delta(part, text)


def _repeats(legacy: Mapping[str, Any], function: Any) -> bool:
    return isinstance(function, dict) and all(
        legacy.get(key) == function.get(key) for key in ("name", "arguments")
    )


def _clue(fragment: Mapping[str, Any], member: str = "function") -> Clue:
    body = fragment.get(member)
    name = body.get("name") if isinstance(body, dict) else ""
    return Clue(
        read_index(fragment.get("index")),
        call_id=read_id(fragment.get("id")),
        name=name if isinstance(name, str) else "",
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


# The model lists of servers that speak OpenAI's protocols: GET /models. OpenAI lists ids only;
# others add information under their own names. Spec:
# https://platform.openai.com/docs/api-reference/models/list


def models(value: Any) -> tuple[ModelInfo, ...]:
    """The models of a list; empty if it is invalid."""
    return tuple(_model(entry) for entry in model_entries(value, "data"))


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    id_ = str(entry.get("id") or entry.get("name") or "")
    name = entry.get("display_name") or entry.get("name")
    takes = entry.get("supported_parameters")  # OpenRouter
    inputs = _mapping(entry.get("architecture")).get("input_modalities")  # OpenRouter, Hugging Face
    able = _mapping(entry.get("capabilities"))  # Mistral
    windows = (entry.get(key) for key in _WINDOWS)
    return ModelInfo(
        id_,
        name if isinstance(name, str) and name != id_ else "",
        tools=_first_flag(
            "tools" in takes if isinstance(takes, list) else None,
            able.get("function_calling"),
            entry.get("supports_tools"),  # Fireworks
            _any_provider(entry.get("providers")),
        ),
        images=_first_flag(
            "image" in inputs if isinstance(inputs, list) else None,
            able.get("vision"),
            entry.get("supports_image_input"),  # Fireworks
        ),
        reasoning=_first_flag(
            "reasoning" in takes if isinstance(takes, list) else None,
            able.get("reasoning"),
        ),
        window=next((window for window in windows if _is_count(window)), None),
    )


def _any_provider(value: Any) -> bool | None:
    """Hugging Face: whether any of the providers of a model supports tools."""
    flags = (
        [_mapping(entry).get("supports_tools") for entry in value]
        if isinstance(value, list)
        else []
    )
    return any(flags) if any(isinstance(flag, bool) for flag in flags) else None


def _first_flag(*flags: Any) -> bool | None:
    return next((flag for flag in flags if isinstance(flag, bool)), None)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


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
