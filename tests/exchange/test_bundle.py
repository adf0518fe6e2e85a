"""What a user leaves out is nowhere in the file."""

from __future__ import annotations

import base64

import pytest

from playground.core.errors import BadInput
from playground.core.events import CallDecided, CallEnded, PromptAdded
from playground.core.tools import Content, ToolResult
from playground.exchange.bundle import (
    RecordedChunk,
    Recording,
    SessionBundle,
    read_session,
    write_session,
)
from playground.exchange.session_redaction import OMITTABLE, omit
from tests.factories import DIGEST, Log

IMAGE = Content("image", media_type="image/png", data=base64.b64encode(b"PICTURE").decode())
RESULT, THOUGHT, BYTES = "the result", "a thought", b"the bytes"

SIGNS = {
    "recordings": [base64.b64encode(BYTES).decode()],
    "results": [RESULT],
    "thinking": [THOUGHT, base64.b64encode(THOUGHT.encode()).decode()],
    "images": [IMAGE.data],
    "beside": [],  # a session as JSON Lines is one alone
}


def session() -> SessionBundle:
    log = Log().start().add(PromptAdded("look", (IMAGE,)))
    log.request(body=f'{{"all": ["{RESULT}", "{THOUGHT}", "{IMAGE.data}"]}}')
    log.part(0, "thinking", *THOUGHT).call(1, "ask_me", {}).end().check("1.1")
    log.add(CallDecided("1.1", "answer", text=RESULT, images=(IMAGE,), digest=DIGEST))
    log.add(CallEnded("1.1", ToolResult((Content(text=RESULT), IMAGE))))
    recordings = {
        1: Recording(1, [RecordedChunk(1, BYTES), RecordedChunk(2, THOUGHT.encode())], True)
    }
    return SessionBundle(log.session(), "", log.events, recordings)


@pytest.mark.parametrize("name", OMITTABLE)
def test_what_is_left_out_is_gone_and_the_rest_is_there(name: str) -> None:
    whole_text, thin = (
        write_session(session()).data.decode(),
        write_session(omit(session(), [name])).data.decode(),
    )
    for sign in SIGNS[name]:
        assert sign in whole_text
        assert sign not in thin
    assert "look" in thin
    assert read_session(thin.encode(), "new").session.by_call["1.1"].status == "done"


def test_nothing_left_out_is_the_same() -> None:
    session_bundle = session()
    assert omit(session_bundle, []) is session_bundle
    with pytest.raises(BadInput, match="cannot be left out"):
        omit(session_bundle, ["prompts"])
