from __future__ import annotations

import subprocess
from dataclasses import replace

import httpx
import pytest

from playground.exchange.requests_export import (
    MOST_WORD,
    curl_command,
    request_of_turn,
    shell_quote,
    write_curl,
)
from tests.exchange.asking import PROTOCOLS, weather
from tests.exchange.conftest import Heard
from tests.servers import NO_TLS

TOLD = "curl() { printf '%s\\0' \"$@\"; case \"$*\" in *'--data-binary @-') cat;; esac; }\n"
"""A curl that says what it was asked for, each word ended by a zero, and then what was piped."""

NASTY = (
    "'", "'\\''", '"$HOME"', "`id`", "$(id)", "\\", "!!", "\n'\nEOF\n", "@/etc/passwd",
    "é漢\U0001f600",
    "-H", "x" * 10 + "'", "%s%n",
)  # fmt: skip


def run(script: str) -> list[bytes]:
    env = {"PATH": "/usr/bin:/bin", "PLAYGROUND_TOKEN": "key-of-mine"}
    done = subprocess.run(
        ["/bin/sh"], input=(TOLD + script).encode(), capture_output=True, timeout=20, env=env
    )
    assert done.returncode == 0
    assert done.stderr == b""
    return done.stdout.split(b"\0")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_command_sends_what_was_sent(protocol: str, recording_server: Heard) -> None:
    kind = weather(protocol)
    recording_server.requests.clear()
    script = write_curl(kind.bundle()).data.decode()
    words = run(script)
    for turn in kind.session.turns:
        start = words.index(b"http://127.0.0.1:8765/sim" + turn.request.url[25:].encode())
        url = words[start].decode().replace("http://127.0.0.1:8765", recording_server.url)
        own = words[start:]
        data = own[own.index(b"--data-raw") + 1]
        at = [place for place, word in enumerate(own[: own.index(b"--data-raw")]) if word == b"-H"]
        headers = dict(own[place + 1].decode().split(": ", 1) for place in at)
        assert data.decode() == turn.request.body
        assert "key-of-mine" in " ".join(headers.values())
        answer = httpx.post(
            url, headers=headers, content=data, timeout=20, trust_env=False, verify=NO_TLS
        )
        assert (answer.status_code, answer.text[:300]) == (200, answer.text[:300])
        words = own[1:]
    assert recording_server.bodies() == kind.bodies


@pytest.mark.parametrize(
    "body",
    [
        *NASTY,
        "\x1b[2J\x9b", "\u202e",
        "y'" * MOST_WORD,
    ],
)  # fmt: skip
def test_any_body_goes_as_it_is(body: str) -> None:
    request = replace(request_of_turn(weather("anthropic").session.turns[0]), body=body)
    text = curl_command(request)
    assert text.replace("\n", "").isprintable() or "\t" in body
    words = run(text)
    assert words[-1 if b"--data-binary" in words else -2].decode() == body


def test_any_word_is_one_word() -> None:
    line = "curl " + " ".join(shell_quote(text) for text in NASTY)
    assert [data.decode() for data in run(line)[:-1]] == list(NASTY)


def test_a_session_without_a_request_says_so() -> None:
    kind = weather("anthropic")
    empty = replace(kind.bundle("a\nrm -rf ~"), session=replace(kind.session, turns=[]))
    text = write_curl(empty).data.decode()
    assert "Nothing was sent" in text
    assert all(line.startswith("#") for line in text.splitlines())
