from __future__ import annotations

import json

import pytest

from playground.exchange.requests_export import FOREIGN, write_anthropic
from tests.exchange.asking import PROTOCOLS, Kind, weather
from tests.simulator.talking import ENDS_BY_NAME

HEADERS = {
    "x-api-key": "k",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_strict_end_takes_the_request_of_every_session(protocol: str) -> None:
    kind = weather(protocol)
    export_file = write_anthropic(kind.bundle())
    end = ENDS_BY_NAME["anthropic"]
    request = end.parse(export_file.data, HEADERS, end.path).request
    assert [message.role for message in request.messages] == ["user", "assistant", "results"]
    assert [part.text for part in request.messages[2].parts[0].content] == ["11 degrees"]
    assert (FOREIGN in export_file.notes) == (protocol != "anthropic")


def test_its_own_is_the_very_body_that_was_sent() -> None:
    kind = weather("anthropic", extra={"metadata": {"user_id": "é"}})
    export_file = write_anthropic(kind.bundle())
    assert export_file.data.decode() == kind.session.turns[-1].request.body
    assert json.loads(export_file.data) == kind.bodies[-1]


def test_nothing_sent_is_said() -> None:
    assert write_anthropic(Kind("anthropic").bundle()).notes == ("Nothing was sent yet.",)
