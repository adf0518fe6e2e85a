"""Requests to a provider outside of any session: a small test request, or the list of models.

They take the same path as a session's requests (keys, net, codec); nothing is saved. Failures are
reported, never raised; all texts are masked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from playground.core.errors import BadInput
from playground.core.events import PartDelta, PartStarted, ResponseEnded, ResponseFailed
from playground.core.json_values import load_json
from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.providers import SHIPPED
from playground.core.settings import Limits, Profile, apply_timeouts
from playground.core.tools import ToolChoice
from playground.engine.responses import base_url_of, join_headers
from playground.net.client import HttpClient, NetworkError, ProviderResponse
from playground.net.keys import Keys, is_loopback
from playground.protocols.base import Advice, Codec, Decoder, ModelInfo, WireRequest, join_url
from playground.protocols.registry import codec

PROMPT = "Say hello in one word."
MAX_TOKENS = 64
"""Enough for one word, even for a model that thinks first."""

LONGER_S = 30.0
"""How long an answer may take after the time limit for its first byte."""

TEST_BYTES = 1024 * 1024
LIST_BYTES = 16 * 1024 * 1024
MOST_MODELS = 3000
MOST_WORDS = 2000


@dataclass(frozen=True)
class ProviderCheck:
    """The result of a test. `sentence` is ours; `words` are the model's or the provider's own.

    Times in ms since the request was made: to the first byte of the answer, and to its end.
    """

    ok: bool
    sentence: str
    words: str = ""
    model: str = ""
    url: str = ""
    status: int | None = None
    first_ms: int | None = None
    total_ms: int | None = None
    request_id: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """The models of a provider, or in `sentence` why there are none."""

    ok: bool
    sentence: str
    words: str = ""
    models: tuple[ModelInfo, ...] = ()
    url: str = ""
    status: int | None = None
    total_ms: int | None = None


ReportT = TypeVar("ReportT", ProviderCheck, Listing)
Mask = Callable[[str], str]


@dataclass
class _ResponseRead:
    """One answer while it is read."""

    began: float
    decoder: Decoder | None = None
    status: int | None = None
    request_id: str = ""
    kind: str = ""
    first_ms: int | None = None
    total_ms: int | None = None
    body: bytearray = field(default_factory=bytearray)
    events: list[Any] = field(default_factory=list)
    trouble: NetworkError | None = None


class Providers:
    """`simulator_url` returns the URL of this process's own simulator, "" if there is none."""

    def __init__(self, net: HttpClient, keys: Keys, simulator_url: Callable[[], str]) -> None:
        self._net = net
        self._keys = keys
        self._simulator_url = simulator_url
        self._known: dict[str, tuple[Profile, tuple[ModelInfo, ...]]] = {}

    def known_models(self, profile: Profile) -> tuple[ModelInfo, ...]:
        """The models last listed for exactly this profile, or (). A list from another address under
        the same name does not count."""
        asked, models = self._known.get(profile.name, (None, ()))
        return models if asked == profile else ()

    async def test(self, profile: Profile, model: str = "") -> ProviderCheck:
        """Sends a small request without tools; returns the model's answer or the failure.

        If no model is named, uses the first one that the provider lists.
        """
        return _mask_report(await self._test(profile, model), self._keys.redactor().redact_text)

    async def models(self, profile: Profile) -> Listing:
        """The provider's own list of models; cached until the next call."""
        return _mask_report(await self._models(profile), self._keys.redactor().redact_text)

    async def _test(self, profile: Profile, model: str) -> ProviderCheck:
        model = model or profile.model
        known = self.known_models(profile)
        if not model and not known:
            listing = await self._models(profile)
            if not listing.ok:
                sentence, words, status = listing.sentence, listing.words, listing.status
                return ProviderCheck(
                    False,
                    sentence,
                    words,
                    url=listing.url,
                    status=status,
                    total_ms=listing.total_ms,
                )
            known = listing.models
        model = model or known[0].id
        try:
            protocol_codec, base_url = codec(profile.protocol), self._base_url(profile)
            request = protocol_codec.encode(_tiny_request(profile, model))
        except BadInput as error:
            return ProviderCheck(False, str(error), model=model)
        url = join_url(base_url, request.path)
        missing = self._keys.missing_reason(profile)
        if missing:
            return ProviderCheck(False, missing, model=model, url=url)
        headers = self._headers(protocol_codec, profile, request)
        limits = _limits(profile, TEST_BYTES)
        read = await self._read(
            protocol_codec,
            key_name=profile.key_name,
            method=request.method,
            url=url,
            headers=headers,
            body=request.body,
            limits=limits,
        )
        return self._provider_check(profile, model, url, read, request.notes)

    async def _models(self, profile: Profile) -> Listing:
        try:
            protocol_codec, base_url = codec(profile.protocol), self._base_url(profile)
            # The list needs the headers of any request, for example the version of Anthropic's API.
            request = protocol_codec.encode(_tiny_request(profile, profile.model or "any"))
        except BadInput as error:
            return Listing(False, str(error))
        url = join_url(base_url, protocol_codec.models_path)
        missing = self._keys.missing_reason(profile)
        if missing:
            return Listing(False, missing, url=url)
        headers = self._headers(protocol_codec, profile, request)
        headers = {k: v for k, v in headers.items() if k.lower() != "content-type"}
        limits = _limits(profile, LIST_BYTES)
        read = await self._read(
            protocol_codec,
            key_name=profile.key_name,
            method="GET",
            url=url,
            headers=headers,
            body=b"",
            limits=limits,
        )
        listing = self._listing(protocol_codec, profile, url, read)
        if listing.ok:
            self._known[profile.name] = (profile, listing.models)
        return listing

    def _base_url(self, profile: Profile) -> str:
        if not profile.base_url:
            raise BadInput("It has no address yet. Edit it, or set the variables for it.")
        return base_url_of(profile, self._simulator_url())

    def _headers(
        self, protocol_codec: Codec, profile: Profile, request: WireRequest
    ) -> Mapping[str, str]:
        key = self._keys.key_for(profile)
        own_key = protocol_codec.key_header(key, profile.quirks) if key else {}
        return join_headers(request.headers, profile.headers, own_key)

    async def _read(
        self,
        protocol_codec: Codec,
        key_name: str,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        limits: Limits,
    ) -> _ResponseRead:
        clock, masked = asyncio.get_running_loop().time, self._keys.redactor().redact_stream()
        read = _ResponseRead(clock())
        try:
            async with self._net.open(method, url, headers, body, limits) as answer:
                _begin(read, protocol_codec, key_name, answer)
                async for data in answer.chunks():
                    if read.first_ms is None:
                        read.first_ms = _ms(clock() - read.began)
                    _take(read, masked.feed(data))
        except NetworkError as trouble:
            read.trouble = trouble
            read.status = read.status or trouble.status
        read.total_ms = _ms(clock() - read.began)
        _take(read, masked.end())
        if read.decoder is not None:
            read.events += [event for *_, event in read.decoder.end(read.trouble is None)]
        return read

    def _provider_check(
        self, profile: Profile, model: str, url: str, read: _ResponseRead, notes: tuple[str, ...]
    ) -> ProviderCheck:
        mask = self._keys.redactor().redact_text
        kinds = {
            logged.index: logged.part_kind
            for logged in read.events
            if isinstance(logged, PartStarted)
        }
        text = "".join(
            logged.text
            for logged in read.events
            if isinstance(logged, PartDelta) and kinds.get(logged.index) in ("text", "refusal")
        )
        tested = ProviderCheck(
            False,
            sentence="",
            words=mask(text.strip())[:MOST_WORDS],
            model=model,
            url=url,
            status=read.status,
            first_ms=read.first_ms,
            total_ms=read.total_ms,
            request_id=read.request_id,
            notes=notes,
        )
        ended = next((logged for logged in read.events if isinstance(logged, ResponseEnded)), None)
        if ended is None or read.trouble is not None:
            sentence, words = _failure_words(read, profile, mask)
            return replace(tested, sentence=sentence, words=words or tested.words)
        if tested.words:
            return replace(tested, ok=True, sentence="It answers.")
        spent = " within the few tokens of a test" if ended.reason == "length" else ""
        return replace(tested, ok=True, sentence=f"It answers, but returned no text{spent}.")

    def _listing(
        self, protocol_codec: Codec, profile: Profile, url: str, read: _ResponseRead
    ) -> Listing:
        mask = self._keys.redactor().redact_text
        listing = Listing(False, "", url=url, status=read.status, total_ms=read.total_ms)
        if read.trouble is not None or read.status is None or read.status >= 400:
            sentence, words = _failure_words(read, profile, mask)
            if read.status in (404, 405):
                sentence = "It does not list its models there. Type the model's name. " + sentence
            return replace(listing, sentence=sentence, words=words)
        try:
            value = load_json(read.body.decode("utf-8"))
        except ValueError:
            kind = mask(read.kind)[:80]
            called = f" but {kind}" if kind else ""
            sentence = (
                f"The response is not JSON{called}. Check that the base URL is that of the API."
            )
            return replace(listing, sentence=sentence, words=_body_excerpt(read.body))
        models = tuple(
            _shorten_model(model, mask) for model in protocol_codec.models(value) if model.id
        )[:MOST_MODELS]
        if not models:
            sentence = "The answer names no model. Check that the base URL is that of the API."
            if isinstance(value, dict) and any(value.get(key) == [] for key in ("data", "models")):
                sentence = "It has no model yet." + _start_hint(profile, " ")
            return replace(listing, sentence=sentence, words=_body_excerpt(read.body))
        count = "1 model" if len(models) == 1 else f"{len(models)} models"
        return replace(listing, ok=True, sentence=f"{count}.", models=models)


def _tiny_request(profile: Profile, model: str) -> ModelRequest:
    prompt = Message("user", (MessagePart("text", PROMPT),))
    params = {"max_tokens": MAX_TOKENS}
    return ModelRequest(
        model,
        system="",
        messages=(prompt,),
        tools=(),
        choice=ToolChoice(),
        params=params,
        quirks=profile.quirks,
    )


def _limits(profile: Profile, most_bytes: int) -> Limits:
    limits = apply_timeouts(Limits(max_stream_bytes=most_bytes), profile)
    return replace(limits, wall_s=profile.connect_s + profile.first_byte_s + LONGER_S)


def _begin(
    read: _ResponseRead, protocol_codec: Codec, key_name: str, answer: ProviderResponse
) -> None:
    read.status, read.request_id = answer.status, answer.request_id
    read.kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    read.decoder = protocol_codec.decoder(answer.status)
    read.decoder.advise(Advice(key_name or None))


def _take(read: _ResponseRead, data: bytes) -> None:
    read.body += data
    if data and read.decoder is not None:
        read.events += [event for *_, event in read.decoder.feed(data)]


def _failure_words(read: _ResponseRead, profile: Profile, mask: Mask) -> tuple[str, str]:
    """Our sentence about a failed request, and the provider's own words."""
    if read.trouble is not None and not read.trouble.began:
        sentence = read.trouble.sentence(mask)
        if read.trouble.failure == "unreachable":
            sentence += _start_hint(profile, " ")
        return sentence, ""
    failure = next((logged for logged in read.events if isinstance(logged, ResponseFailed)), None)
    if failure is None:
        return "The provider sent no answer.", ""
    sentence = read.trouble.sentence(mask) if read.trouble is not None else mask(failure.message)
    words = failure.error if isinstance(failure.error, str) else json.dumps(failure.error)
    return sentence, mask(words)[:MOST_WORDS] if failure.error is not None else ""


def _start_hint(profile: Profile, before: str) -> str:
    """How to start a server on this machine, after the text `before`; "" for a remote one."""
    vendor = SHIPPED.get(profile.name)
    if vendor is not None and vendor.start:
        return before + vendor.start
    return before + "Is the server running?" if is_loopback(profile.base_url) else ""


def _shorten_model(model: ModelInfo, mask: Mask) -> ModelInfo:
    return replace(model, id=mask(model.id)[:300], name=mask(model.name)[:300])


def _mask_report(report: ReportT, mask: Mask) -> ReportT:
    """Masks all texts of the report again, whichever function wrote them."""
    texts: dict[str, Any] = {
        field.name: mask(getattr(report, field.name))
        for field in fields(report)
        if isinstance(getattr(report, field.name), str)
    }
    if isinstance(report, ProviderCheck):
        texts["notes"] = tuple(mask(note) for note in report.notes)
    return replace(report, **texts)


def _body_excerpt(body: bytearray) -> str:
    return bytes(body[:400]).decode("utf-8", "replace").strip()


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
