"""What OpenAI stores of Responses, for one key: the last responses, and conversations with their
items. In memory and bounded; what was dropped is not found.

https://platform.openai.com/docs/api-reference/responses/get
https://platform.openai.com/docs/api-reference/conversations
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs

from playground.protocols.openai_responses import refuse
from playground.protocols.openai_responses.limits import REFERENCE
from playground.protocols.request import dicts
from playground.protocols.server import (
    BadRequest,
    Citation,
    IdSource,
    SideEndpoint,
    compact_json,
    encode_json,
    object_of,
)

MOST_STORED = 256
"""The most responses that are kept, and the most conversations."""
MOST_BYTES = 32 * 1024 * 1024
"""The most bytes that either of them may have, as JSON."""
_PAGE, _LONGEST_PAGE = 20, 100
_CONVERSATIONS = Citation("OpenAI API reference: Conversations", inferred=True)
_PREFIXES = {**refuse.PREFIXES, "custom_tool_call_output": "ctco", "function_call_output": "fc"}

Item = Mapping[str, Any]
T = TypeVar("T")


@dataclass
class _BoundedStore(Generic[T]):
    """The values that were last put, as many as the bounds permit."""

    values: OrderedDict[str, tuple[T, int]] = field(default_factory=OrderedDict)
    bytes: int = 0

    def get(self, id_: object) -> T | None:
        return self.values[id_][0] if isinstance(id_, str) and id_ in self.values else None

    def put(self, id_: str, value: T, size: int) -> None:
        self.remove(id_)
        self.values[id_] = (value, size)
        self.bytes += size
        while len(self.values) > MOST_STORED or self.bytes > MOST_BYTES:
            self.remove(next(iter(self.values)))

    def remove(self, id_: str) -> bool:
        _, size = self.values.pop(id_, (None, 0))
        self.bytes -= size
        return size > 0


@dataclass(frozen=True)
class StoredResponse:
    """`body` is the response as JSON, `given` the input of its request, and `context` all items up
    to its own output, which belongs to the context of a response that follows."""

    body: bytes
    given: Sequence[Item]
    context: Sequence[Item]
    background: bool


@dataclass(frozen=True)
class Conversation:
    id: str
    created_at: int
    metadata: Any
    items: Sequence[Item]
    added: int
    """How many items were ever added: the next one's number."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }


@dataclass(frozen=True)
class RequestContext:
    """What a request continues: `before` are the items before its own input `given`."""

    before: Sequence[Item] = ()
    given: Sequence[Item] = ()
    conversation: str = ""

    @property
    def items(self) -> list[Item]:
        return [*self.before, *self.given]


@dataclass
class ResponseStore:
    """The responses and conversations of one key."""

    responses: _BoundedStore[StoredResponse] = field(default_factory=_BoundedStore)
    conversations: _BoundedStore[Conversation] = field(default_factory=_BoundedStore)
    created: int = 0

    # Requests for responses.

    def context(self, data: Mapping[str, Any]) -> RequestContext:
        """The context of a well-formed body; BadRequest if it names what is not stored."""
        previous, named = data.get("previous_response_id"), data.get("conversation")
        given = [self._resolve_reference(item) for item in data.get("input") or ()]
        if previous is not None and named is not None:
            raise _CONVERSATIONS.refusal(
                "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Send "
                "one of them.",
                param="conversation",
                code="mutually_exclusive_parameters",
            )
        if previous is not None:
            if (response := self.responses.get(previous)) is None:
                raise REFERENCE.refusal(
                    f"Previous response with id '{previous}' not found.",
                    param="previous_response_id",
                    code="previous_response_not_found",
                )
            return RequestContext(response.context, given)
        if named is not None:
            conversation = self._conversation(named.get("id") if isinstance(named, dict) else named)
            return RequestContext(conversation.items, given, conversation.id)
        return RequestContext((), given)

    def keep(self, body: bytes, context: RequestContext, *, store: bool, background: bool) -> None:
        """Stores a response, and adds to the conversation that it belongs to."""
        response = json.loads(body)
        output = dicts(response["output"])
        if store:
            whole = [*context.items, *output]
            stored = StoredResponse(body, context.given, whole, background)
            # With the items before, which it keeps alive.
            self.responses.put(response["id"], stored, len(body) + len(compact_json(whole)))
        if (conversation := self.conversations.get(context.conversation)) is not None:
            self._add(conversation, [*context.given, *output])

    def _resolve_reference(self, item: Item) -> Item:
        """The item that an item reference denotes. One with a foreign id is passed on: whether the
        real server has it is unknown here."""
        if item["type"] != "item_reference":
            return item
        stored = (
            known
            for several in (
                *(conversation.items for conversation, _ in self.conversations.values.values()),
                *(response.context for response, _ in self.responses.values.values()),
            )
            for known in several
            if known.get("id") == item["id"]
        )
        match = next(stored, None)
        if match is None and refuse.OWN_ID.fullmatch(item["id"]):
            raise _not_found_error("Item", item["id"], param="input")
        return item if match is None else match

    # Conversations.

    def _conversation(self, id_: object) -> Conversation:
        conversation = self.conversations.get(id_)
        if conversation is None:
            raise _not_found_error("Conversation", id_)
        return conversation

    def _add(self, conversation: Conversation, items: Iterable[Item]) -> Sequence[Item]:
        """Adds items, each with an id; returns these."""
        ids = IdSource(conversation.id, 0)
        added = [
            _with_id(item, ids, number) for number, item in enumerate(items, conversation.added)
        ]
        whole = [*conversation.items, *added]
        self._save(replace(conversation, items=whole, added=conversation.added + len(added)))
        return added

    def _save(self, conversation: Conversation) -> None:
        size = len(compact_json([conversation.as_json(), *conversation.items]))
        self.conversations.put(conversation.id, conversation, size)

    # The other requests of the API.

    def endpoints(self) -> tuple[SideEndpoint, ...]:
        """Those for what is stored."""
        conversation, response = r"/conversations/([^/?]+)", r"/responses/([^/?]+)"
        return (
            SideEndpoint("GET", re.compile(response), self._get, with_query=True),
            SideEndpoint("DELETE", re.compile(response), self._delete),
            SideEndpoint("POST", re.compile(f"{response}/cancel"), self._cancel),
            SideEndpoint(
                "GET", re.compile(f"{response}/input_items"), self._input, with_query=True
            ),
            SideEndpoint("POST", re.compile("/conversations"), self._create),
            SideEndpoint("GET", re.compile(conversation), self._get_conversation),
            SideEndpoint("POST", re.compile(conversation), self._update),
            SideEndpoint("DELETE", re.compile(conversation), self._delete_conversation),
            SideEndpoint(
                "GET", re.compile(f"{conversation}/items"), self._list_items, with_query=True
            ),
            SideEndpoint("POST", re.compile(f"{conversation}/items"), self._add_items),
            SideEndpoint("GET", re.compile(f"{conversation}/items/[^/]+"), self._get_item),
            SideEndpoint("DELETE", re.compile(f"{conversation}/items/[^/]+"), self._delete_item),
        )

    def _response(self, target: str) -> tuple[str, StoredResponse]:
        id_ = target.partition("?")[0].split("/")[2]
        if (response := self.responses.get(id_)) is None:
            raise _not_found_error("Response", id_)
        return id_, response

    def _get(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        _, response = self._response(target)
        if _query(target).get("stream") == "true":
            raise REFERENCE.refusal("A stored response is not streamed here.", param="stream")
        return response.body

    def _delete(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        id_, _ = self._response(target)
        self.responses.remove(id_)
        return encode_json({"id": id_, "object": "response", "deleted": True})

    def _cancel(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        _, response = self._response(target)
        if not response.background:
            raise REFERENCE.refusal("Cannot cancel a synchronous response.")
        return response.body

    def _input(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        id_, response = self._response(target)
        ids = IdSource(id_, 0)
        items = [_with_id(item, ids, number) for number, item in enumerate(response.given)]
        return _page(items, target)

    def _create(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        data = object_of(body) if body.strip() else {}
        items = refuse.check_items(data.get("items"))
        self.created += 1
        id_ = IdSource(f"{now}:{self.created}", now).id("conv_", 0, 48)
        self._add(Conversation(id_, now, data.get("metadata") or {}, (), 0), items)
        return encode_json(self._conversation(id_).as_json())

    def _conversation_at(self, target: str) -> Conversation:
        return self._conversation(target.partition("?")[0].split("/")[2])

    def _get_conversation(
        self, body: bytes, headers: Mapping[str, str], target: str, now: int
    ) -> bytes:
        return encode_json(self._conversation_at(target).as_json())

    def _update(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        changed = replace(
            self._conversation_at(target), metadata=object_of(body).get("metadata") or {}
        )
        self._save(changed)
        return encode_json(changed.as_json())

    def _delete_conversation(
        self, body: bytes, headers: Mapping[str, str], target: str, now: int
    ) -> bytes:
        id_ = self._conversation_at(target).id
        self.conversations.remove(id_)
        return encode_json({"id": id_, "object": "conversation.deleted", "deleted": True})

    def _list_items(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        return _page(self._conversation_at(target).items, target)

    def _add_items(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        conversation, data = self._conversation_at(target), object_of(body)
        added = self._add(conversation, refuse.check_items(data.get("items")))
        return encode_json(_list(added, more=False))

    def _get_item(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        return encode_json(_item_at(self._conversation_at(target), target))

    def _delete_item(self, body: bytes, headers: Mapping[str, str], target: str, now: int) -> bytes:
        conversation = self._conversation_at(target)
        gone = _item_at(conversation, target)
        items = [item for item in conversation.items if item is not gone]
        self._save(replace(conversation, items=items))
        return encode_json(conversation.as_json())


def _item_at(conversation: Conversation, target: str) -> Item:
    id_ = target.rpartition("/")[2]
    match = next((item for item in conversation.items if item.get("id") == id_), None)
    if match is None:
        raise _not_found_error("Item", id_)
    return match


def _not_found_error(what: str, id_: object, *, param: str | None = None) -> BadRequest:
    return BadRequest(
        f"{what} with id '{id_}' not found.",
        404,
        param=param,
        source=_CONVERSATIONS.words if what == "Conversation" else REFERENCE.words,
        inferred=True,
    )


def _with_id(item: Item, ids: IdSource, number: int) -> Item:
    """The item as the API lists it: with an id and a status, a text as a list of pieces."""
    prefix = _PREFIXES.get(item["type"], "item")
    listed = {"id": ids.id(f"{prefix}_", number, 32), "status": "completed", **item}
    if item["type"] == "reasoning":
        del listed["status"]
    if isinstance(content := item.get("content"), str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        piece = {"type": kind, "text": content}
        listed["content"] = [piece | ({"annotations": []} if kind == "output_text" else {})]
    return listed


def _query(target: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(target.partition("?")[2]).items()}


def _page(items: Sequence[Item], target: str) -> bytes:
    """A page of a list: the newest items first, unless `order` is asc."""
    query = _query(target)
    ordered = list(items) if query.get("order") == "asc" else list(reversed(items))
    limit = query.get("limit", str(_PAGE))
    if not limit.isdecimal() or not 1 <= int(limit) <= _LONGEST_PAGE:
        raise REFERENCE.refusal(
            f"Invalid 'limit': expected an integer from 1 to {_LONGEST_PAGE}.", param="limit"
        )
    if (after := query.get("after")) is not None:
        places = [place for place, item in enumerate(ordered) if item.get("id") == after]
        if not places:
            raise _not_found_error("Item", after, param="after")
        ordered = ordered[places[0] + 1 :]
    shown = ordered[: int(limit)]
    return encode_json(_list(shown, more=len(ordered) > len(shown)))


def _list(items: Sequence[Item], *, more: bool) -> dict[str, Any]:
    ids = [item["id"] for item in items]
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": more}
