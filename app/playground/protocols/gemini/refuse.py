"""Refuses requests like Gemini: same status and words. First the checks of Google's JSON front end,
on the shape of a request; then later checks, on relations between members or contents. Limits
for tools are in `limits`.

https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from playground.core.tools import NO_PARAMETERS
from playground.protocols import words_of
from playground.protocols.gemini import limits
from playground.protocols.request import Body, dicts, member
from playground.protocols.server import ANY, BadRequest, Phrases, Shape, check_shape, compact_json
from playground.protocols.tool_limits import SentTool

_SHORTEST_SIGNATURE = 64
"""Google's signatures are encrypted thoughts: hundreds of bytes."""
SIGNED_BY = b"simulator:"
"""The prefix of the simulator's signatures, by which it recognizes its own."""

CONTENTS = "https://github.com/ikechan8370/chatgpt-plugin/issues/733"
PARTS = "https://github.com/egoist/chatwise-releases/issues/250"
ROLES = "a recorded answer of Vertex (OpenTelemetry's tests of its vertexai instrumentation)"
TURNS = "https://github.com/google-gemini/gemini-cli/issues/26486"
COUNTS = "https://github.com/cloudwego/eino-ext/issues/571"
MISSING = "https://github.com/langgenius/dify-official-plugins/issues/2088"
CORRUPTED = "https://github.com/google-gemini/gemini-cli/issues/13467"
REFERENCE = "https://ai.google.dev/api/generate-content"
FUNCTIONS = "https://ai.google.dev/gemini-api/docs/function-calling"
THINKING = "https://ai.google.dev/gemini-api/docs/thinking"
MIME = "https://github.com/googleapis/python-genai/issues/867"

FORMED = ("application/json", "text/x.enum")
"""The media types of structured answers."""
_LEVELS = "THINKING_LEVEL_UNSPECIFIED MINIMAL LOW MEDIUM HIGH XHIGH"
_MIMES = ("text/plain", "application/json", "application/xml", "application/yaml", "text/x.enum")
_DATA = words_of(
    """text inlineData fileData functionCall functionResponse executableCode codeExecutionResult
    toolCall toolResponse"""
)

_TEXT, _FLAG, _INTEGER = Shape(str, "TYPE_STRING"), Shape(bool, "TYPE_BOOL"), "TYPE_INT32"
_STRUCT = Shape(dict, "type.googleapis.com/google.protobuf.Struct")
_SCHEMA = Shape(dict, "a JSON Schema")

_DECLARATION = Shape(
    dict,
    "a message",
    {
        **dict.fromkeys(limits.DECLARATION, ANY),
        **{"name": _TEXT, "description": _TEXT, "parametersJsonSchema": _SCHEMA},
    },
)
"""Further members are refused by a row of `limits`."""


def is_three(model: str) -> bool:
    """Whether the model is of the third generation: it signs its calls and gives them ids."""
    return model.startswith("gemini-3")


def refusal(
    sentence: str, source: str, *, inferred: bool = False, field: str | None = None
) -> BadRequest:
    """400 INVALID_ARGUMENT. `field` is the place in the request named in the error's details."""
    return BadRequest(
        sentence, kind="INVALID_ARGUMENT", source=source, inferred=inferred, param=field
    )


def invalid(where: str, sentence: str, source: str, *, inferred: bool = True) -> BadRequest:
    """An error of the checks after the front end: one line per violation."""
    return refusal(f"* GenerateContentRequest.{where}: {sentence}\n", source, inferred=inferred)


def _wrong_type(value: Any, where: str, kind: str) -> BadRequest:
    text = compact_json(value)[:80]
    return refusal(f"Invalid value at '{where}' ({kind}), {text}", limits.TYPES.words, field=where)


# The shape of a body. Names are camelCase or snake_case; null means absent.


class _GooglePhrases(Phrases):
    """Error messages of Google's JSON front end; places are in snake_case."""

    def refuse_type(self, value: Any, where: str, shape: Shape) -> BadRequest:
        return _wrong_type(value, where, shape.name)

    def refuse_unknown(self, name: str, where: str, shape: Shape) -> BadRequest:
        sentence = limits.NO_FIELD.format(key=name, at=f" at '{where}'" if where else "")
        return refusal(sentence, limits.UNKNOWN.words, field=where)

    def join(self, where: str, step: str | int) -> str:
        if isinstance(step, int):
            return f"{where}[{step}]"
        snake = limits.snake_name(step)
        return f"{where}.{snake}" if where else snake


_PHRASES = _GooglePhrases()


def _one_of(words: Collection[str], kind: str, value: Any, where: str) -> BadRequest | None:
    return None if value.upper() in words else _wrong_type(value, where, kind)


def _check_positive(value: Any, where: str) -> BadRequest | None:
    return None if value >= 1 else invalid(where, "must be positive.", REFERENCE)


def _check_range(name: str, most: float, value: Any, where: str) -> BadRequest | None:
    if 0 <= value <= most:
        return None
    return invalid(where, f"{name} must be in the range [0.0, {most}].", REFERENCE)


def _check_mime(value: Any, where: str) -> BadRequest | None:
    if not value or value in _MIMES:
        return None
    names = ", ".join(f"`{mime}`" for mime in _MIMES)
    return invalid(where, f"allowed mimetypes are {names}.", REFERENCE)


def _check_base64(value: Any, where: str) -> BadRequest | None:
    try:
        _signature_bytes(value)
    except ValueError:
        kind = "TYPE_BYTES), Base64 decoding failed for (a signature"
        return _wrong_type(value, where, kind)
    return None


def _message(others: str = "", required: tuple[str, ...] = (), **members: Shape) -> Shape:
    """The shape of a message of Google's: `others` may be anything; unknown members are refused."""
    members |= dict.fromkeys(others.split(), ANY)
    return Shape(dict, "a message", members, required, closed=True)


def _list(each: Shape = ANY) -> Shape:
    return Shape(list, "a list", each=each)


def _enum(name: str, words: str) -> Shape:
    kind = f"an enum of {name}"
    return Shape(str, kind, rules=(partial(_one_of, words_of(words), kind),))


def _number(name: str, most: float) -> Shape:
    return Shape((int, float), "TYPE_FLOAT", rules=(partial(_check_range, name, most),))


_BLOB = _message("displayName", mimeType=_TEXT, data=_TEXT)
_RESPONSE = _message(
    "willContinue scheduling",
    required=("response",),
    name=_TEXT,
    response=_STRUCT,
    parts=_list(
        _message(
            """fileData mediaResolution mediaProcessing videoMetadata audioMetadata
            documentMetadata spreadsheetMetadata""",
            inlineData=_BLOB,
        )
    ),
    id=_TEXT,
)
_PART = _message(
    """fileData executableCode codeExecutionResult toolCall toolResponse thought videoMetadata
    partMetadata mediaResolution mediaProcessing audioMetadata audioTranscription speechMetadata
    documentMetadata spreadsheetMetadata""",
    thoughtSignature=Shape(str, "TYPE_STRING", rules=(_check_base64,)),
    text=_TEXT,
    inlineData=_BLOB,
    functionCall=_message("partialArgs willContinue", name=_TEXT, args=_STRUCT, id=_TEXT),
    functionResponse=_RESPONSE,
)
_CONFIG = _message(
    """topK candidateCount presencePenalty frequencyPenalty seed responseLogprobs logprobs
    responseModalities speechConfig mediaResolution imageConfig enableEnhancedCivicAnswers
    audioTimestamp routingConfig modelSelectionConfig enableAffectiveDialog responseFormat
    translationConfig audioTranscriptionConfig responseSchema""",
    maxOutputTokens=Shape(int, _INTEGER, rules=(_check_positive,)),
    temperature=_number("temperature", 2.0),
    topP=_number("topP", 1.0),
    stopSequences=_list(_TEXT),
    thinkingConfig=_message(
        thinkingBudget=Shape(int, _INTEGER),
        thinkingLevel=_enum("ThinkingLevel", _LEVELS),
        includeThoughts=_FLAG,
    ),
    responseMimeType=Shape(str, "TYPE_STRING", rules=(_check_mime,)),
    responseJsonSchema=_SCHEMA,
)
_CALLING = _message(
    mode=_enum("FunctionCallingConfig.Mode", "MODE_UNSPECIFIED AUTO ANY NONE VALIDATED"),
    streamFunctionCallArguments=_FLAG,
    allowedFunctionNames=_list(_TEXT),
)
BODY = _message(
    "model safetySettings cachedContent labels serviceTier store modelArmorConfig",
    tools=_list(
        _message(
            """googleSearch googleSearchRetrieval codeExecution urlContext computerUse fileSearch
            googleMaps mcpServers retrieval enterpriseWebSearch parallelAiSearch exaAiSearch""",
            functionDeclarations=_list(_DECLARATION),
        )
    ),
    toolConfig=_message(
        "retrievalConfig includeServerSideToolInvocations", functionCallingConfig=_CALLING
    ),
    generationConfig=_CONFIG,
    contents=_list(_message("role", parts=_list(_PART))),
    systemInstruction=_message("role", parts=_list(_PART)),
)
"""GenerateContentRequest."""
COUNTED = _message("contents generateContentRequest")
"""CountTokensRequest: contents alone, or a whole request."""
_PLAIN_SCHEMA = Shape(
    dict,
    members={
        **{"format": _TEXT, "enum": _list(), "required": _list()},
        **{"properties": _STRUCT, "anyOf": _list()},
    },
)


def camel_members(value: Any, shape: Shape = BODY) -> Any:
    """`value` with known names in camelCase and without nulls."""
    if isinstance(value, dict) and shape.members:
        return {
            name: camel_members(item, shape.members.get(name, ANY))
            for name, item in limits.known_members(value, shape.members).items()
        }
    if isinstance(value, list) and shape.each is not None:
        return [camel_members(entry, shape.each) for entry in value]
    return value


def check_message(value: Any, shape: Shape) -> None:
    """Raises BadRequest for the first violation of this shape."""
    check_shape(value, shape, _PHRASES)


# Relations between members and contents.


def check(body: Any, model: str) -> None:
    """Raises BadRequest for the first item that `model` refuses in a body with camelCase
    names."""
    check_message(body, BODY)
    tools = declared_tools(body)
    calling = member(member(body, "toolConfig"), "functionCallingConfig")
    _check_tools(tools, model, forced=calling.get("mode", "").upper() == "ANY")
    _check_choice(calling, tools)
    config = member(body, "generationConfig")
    _check_config(config, model)
    if tools and config.get("responseMimeType") in FORMED and not is_three(model):
        raise refusal(
            "Function calling with a response mime type: 'application/json' is unsupported", MIME
        )
    if not body.get("contents"):
        raise invalid("contents", "contents is not specified", CONTENTS, inferred=False)
    _check_contents(body["contents"], model)


def declared_tools(body: Body) -> list[SentTool]:
    """The declared functions, unchanged; without the tools that Google runs itself."""
    tools: list[SentTool] = []
    for place, entry in enumerate(body.get("tools", ())):
        group = f"tools[{place}].function_declarations"
        for number, members in enumerate(entry.get("functionDeclarations", ())):
            where = f"{group}[{number}]"
            form = "parameters" if "parameters" in members else "parametersJsonSchema"
            tools.append(
                SentTool(
                    members.get("name", ""),
                    members.get("description", ""),
                    members.get(form, NO_PARAMETERS),
                    members=members,
                    words={"where": where, "list": group, "schema": _PHRASES.join(where, form)},
                )
            )
    return tools


def _check_tools(tools: Sequence[SentTool], model: str, *, forced: bool) -> None:
    plain = limits.FORCED if forced else limits.PLAIN
    limits.LIMITS.check_request(tools)
    for tool in tools:
        limits.LIMITS.check_tool(tool)
    for tool in tools:
        if "parameters" in tool.members:
            plain.check_schema(tool, model)
            _check_plain(tool.schema, tool.words["schema"])
        else:
            limits.LIMITS.check_schema(tool)


def _check_plain(schema: Any, where: str) -> None:
    for node in limits.plain_nodes(schema):
        check_shape(node.keys, _PLAIN_SCHEMA, _PHRASES, where + node.wire)


def _check_choice(config: Body, tools: Sequence[SentTool]) -> None:
    where, reference = "tool_config.function_calling_config", limits.REFERENCE.words
    mode, allowed = config.get("mode", "AUTO").upper(), config.get("allowedFunctionNames", ())
    if config.get("streamFunctionCallArguments"):
        raise invalid(where, "stream_function_call_arguments is for Vertex.", reference)
    if mode == "ANY" and not tools:
        sentence = "Function calling config is set without function_declarations."
        raise refusal(sentence, reference, inferred=True)
    where += ".allowed_function_names"
    if allowed and mode not in ("ANY", "VALIDATED"):
        raise invalid(where, "should be set only when function calling mode is ANY.", reference)
    names = {tool.name for tool in tools}
    for name in allowed:
        if name not in names:
            raise invalid(where, f"{name} is not one of the function_declarations.", reference)


def _check_config(config: Body, model: str) -> None:
    thinking, level = member(config, "thinkingConfig"), "thinkingLevel"
    if level in thinking and "thinkingBudget" in thinking:
        raise refusal("You can only set only one of thinking budget and thinking level.", THINKING)
    if level in thinking and not is_three(model):
        raise refusal("Thinking level is not supported for this model.", THINKING)
    schemas = [name for name in ("responseSchema", "responseJsonSchema") if name in config]
    where, formed = "generation_config.response_schema", config.get("responseMimeType") in FORMED
    if schemas and not formed:
        sentence = "only allowed when the response mime type is `application/json`."
        raise invalid(where, sentence, REFERENCE)
    if len(schemas) > 1:
        sentence = "only one of response_schema and response_json_schema may be set."
        raise invalid(where, sentence, REFERENCE)
    for name in schemas:
        where = f"generation_config.{limits.snake_name(name)}"
        schema = SentTool("", "", config[name], words={"schema": where})
        if name == "responseSchema":
            limits.ANSWER.check_schema(schema)
            _check_plain(schema.schema, where)
        else:
            limits.LIMITS.check_schema(schema)


@dataclass(frozen=True)
class _JoinedContents:
    """Neighbouring contents of one role, which count as one: Google's own clients keep a content
    for each event of a stream. `place` is that of the first one."""

    role: str
    place: int
    parts: list[Body]


def _check_contents(contents: Sequence[Body], model: str) -> None:
    turns = _turns(contents, model)
    calls: list[Body] = []
    since = _turn_start(contents)
    for number, turn in enumerate(turns):
        parts = turn.parts
        _check_results([p["functionResponse"] for p in parts if "functionResponse" in p], calls)
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if calls and number == 0:
            raise refusal(
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn.",
                TURNS,
            )
        if is_three(model):
            _check_signatures(parts, turn.place, turn.place > since)
    if calls:
        raise _counts()


def _turns(contents: Sequence[Body], model: str) -> list[_JoinedContents]:
    """Checks each content for itself, and joins neighbours of one role."""
    turns: list[_JoinedContents] = []
    for place, content in enumerate(contents):
        where, role = f"contents[{place}]", content.get("role", "user")
        if role not in ("user", "model"):
            raise refusal("Please use a valid role: user, model.", ROLES)
        if not (parts := content.get("parts")):
            sentence = "contents.parts must not be empty."
            raise invalid(f"{where}.parts", sentence, PARTS, inferred=False)
        for number, part in enumerate(parts):
            _check_part(part, role, f"{where}.parts[{number}]", model)
        if not turns or turns[-1].role != role:
            turns.append(_JoinedContents(role, place, []))
        turns[-1].parts.extend(parts)
    return turns


def _check_part(part: Body, role: str, where: str, model: str) -> None:
    data = [name for name in part if name in _DATA]
    if len(data) > 1 or (not data and "thoughtSignature" not in part):
        sentence = "required oneof field 'data' must have one initialized field"
        raise invalid(f"{where}.data", sentence, PARTS)
    match part:
        case {"inlineData": blob}:
            _check_blob(blob, where)
        case {"functionCall": call} if role == "model":
            _check_name(call, f"{where}.function_call")
        case {"functionResponse": response} if role == "user":
            _check_response(response, f"{where}.function_response", model)
        case {"functionCall": _} | {"functionResponse": _}:
            sides = "model, functionResponse parts in those of the user"
            sentence = f"Please ensure that functionCall parts are in turns of the {sides}."
            raise refusal(sentence, TURNS, inferred=True)


def _check_name(members: Body, where: str) -> None:
    if not members.get("name"):
        raise invalid(f"{where}.name", "Name cannot be empty.", FUNCTIONS)


def _check_blob(blob: Body, where: str) -> None:
    if not blob.get("mimeType"):
        sentence = f"Unable to process input at {where}: inline_data.mime_type is empty."
        raise refusal(sentence, REFERENCE, inferred=True)


def _check_response(response: Body, where: str, model: str) -> None:
    _check_name(response, where)
    parts = response.get("parts")
    if parts and not is_three(model):
        sentence = f"Multimodal function responses are not supported for {model}."
        raise refusal(sentence, FUNCTIONS, inferred=True)
    for number, part in enumerate(parts or ()):
        if "inlineData" in part:
            _check_blob(part["inlineData"], f"{where}.parts[{number}]")


def _turn_start(contents: Sequence[Body]) -> int:
    """The index of the last prompt: everything the model did since then must be signed."""
    prompts = (
        place
        for place, content in enumerate(contents)
        if content.get("role", "user") == "user"
        and any("text" in part for part in dicts(content.get("parts")))
    )
    return max(prompts, default=-1)


def _check_results(results: Sequence[Body], calls: Sequence[Body]) -> None:
    """Checks that each call of the previous turn has a result, in any order; ids are optional."""
    if results and not calls:
        raise refusal(
            "Please ensure that function response turn comes immediately after a function call "
            "turn.",
            TURNS,
            inferred=True,
        )
    if len(results) != len(calls):
        raise _counts()
    unanswered = list(calls)
    for result in results:
        name, id_ = result["name"], result.get("id")
        named = [call for call in unanswered if call["name"] == name]
        if not named:
            raise refusal(
                "Please ensure that each function response part has the name of a function call "
                f"part: {name} was not called, or was answered before.",
                FUNCTIONS,
                inferred=True,
            )
        match = next((call for call in named if not id_ or call.get("id", id_) == id_), None)
        if match is None:
            raise refusal(
                "Please ensure that the id of a function response is that of its function "
                f"call: {id_} is none.",
                FUNCTIONS,
                inferred=True,
            )
        unanswered.remove(match)


def _counts() -> BadRequest:
    return refusal(
        "Please ensure that the number of function response parts is equal to the number of "
        "function call parts of the function call turn.",
        COUNTS,
    )


def _check_signatures(parts: Sequence[Body], place: int, current: bool) -> None:
    """Checks that each step's first call in this turn is signed, and all signatures are ours."""
    calls = [part for part in parts if "functionCall" in part]
    if current and calls and not calls[0].get("thoughtSignature"):
        raise refusal(
            "Function call is missing a thought_signature in functionCall parts. This is required "
            "for tools to work correctly, and missing thought_signature may lead to degraded model "
            "performance. Additional data, function call "
            f"`default_api:{calls[0]['functionCall']['name']}` , position {place + 1}. Please "
            "refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
            MISSING,
        )
    for part in parts:
        signature = part.get("thoughtSignature") or limits.SKIP_VALIDATOR
        data = b"" if signature == limits.SKIP_VALIDATOR else _signature_bytes(signature)
        # One of Google's own cannot be verified here: it is taken for what it is by its length.
        if data and not data.startswith(SIGNED_BY) and len(data) < _SHORTEST_SIGNATURE:
            raise refusal("Corrupted thought signature.", CORRUPTED)


def _signature_bytes(text: str) -> bytes:
    sound = text.replace("-", "+").replace("_", "/")
    return b64decode(sound + "=" * (-len(sound) % 4), validate=True)
