"""Which warnings about an answer doubt its calls. A call that is doubted needs a user's look: no
rule runs it, and no key press that runs several calls does.

Only this module decides it, by the code of the warning. A code that is in neither table counts as a
doubt.
"""

from __future__ import annotations

from playground.core.events import Warned
from playground.core.session import Call, Turn

DOUBTING = frozenset(
    {
        "arguments_replaced",  # other arguments came for the same call
        "background",  # the answer is not whole yet
        "call_differs",  # a call's pieces differ from its end, or from its start
        "empty_call",  # a call without name and arguments came, and was left out
        "item_differs",  # the pieces of an item differ from its end
        "late_arguments",  # arguments came after the end of their call
        "native_reason",  # the model's server says that the answer was cut or spoiled
        "mixed_calls",  # a piece of a call came out of its turn
        "no_block",  # a piece of an unknown block was left out
        "no_item",  # a piece of an unknown item was left out
        "no_start",  # a block or an item was never started, so what began it may be lost
        "odd_arguments",  # the pieces of the arguments do not fit together
        "odd_call",  # a call that cannot be read was left out
        "odd_delta",  # a piece that is not text was left out
        "restarted",  # the answer started again, so calls may be there twice
        "started_twice",  # a block or an item began twice
        "unknown_delta",  # a piece of an unknown type was left out
    }
)
"""Codes of warnings about the arguments or the identity of calls."""

HARMLESS = frozenset(
    {
        "after_end",
        "bad_json",  # the answer is interrupted, or the event was a keep-alive
        "bad_utf8",  # the part is incomplete, which says more
        "brought",
        "call_as_text",  # there is no real call next to it
        "calls_left_out",
        "calls_missing",
        "choice_fell_back",
        "choice_ignored",
        "content_type",
        "continued",
        "empty_answer",
        "empty_event",
        "history_changed",
        "history_left_out",
        "history_refused",
        "inline_thinking",
        "item_again",  # the same call once more, word for word
        "left_recording",
        "lone_surrogate",  # in prose; in arguments it stays, and is malformed
        "message_differs",  # of a text
        "no_marker",
        "no_opening",
        "not_an_object",
        "odd_content",
        "odd_usage",
        "other_choices",
        "prompt_blocked",
        "reason_changed",
        "refused",
        "price_unknown",
        "same_id",  # `decide.doubled_ids` knows which calls share one
        "same_call",  # one call in two forms, word for word
        "stray_text",
        "tokens_unknown",
        "translation",
        "unclean_close",  # the end of the answer says it, too
        "unknown_content",
        "unknown_event",
        "unknown_item",
    }
)
"""Codes of all other warnings about an answer."""


def find_doubt(turn: Turn, call: Call) -> Warned | None:
    """The first warning that doubts `call`: one about its part, or about no part in particular."""
    for warning in turn.warnings:
        about = warning.meta.get("part", call.part.index)
        if warning.code not in HARMLESS and about == call.part.index:
            return warning
    return None
