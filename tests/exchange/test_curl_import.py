"""Command lines of curl, as shells would read them."""

from __future__ import annotations

import base64
import re

import pytest

from playground.exchange.parsers import UnreadableText
from playground.exchange.requests_import import curl_commands, is_curl

URL = "https://api.example.com/v1/chat/completions"
BODY = '{"a": "it\'s \\n <<loop>> \\"b\\" é"}'
QUOTED = BODY.replace("'", "'\\''")

ANSI = BODY.replace("\\", "\\\\").replace("'", "\\'").replace("é", "\\u00e9")

CARETS = re.sub(r"([^A-Za-z0-9 ])", r"^\1", BODY.replace("\\", "\\\\").replace('"', '\\"'))
"""As Chrome's "Copy as cURL (cmd)" has it, but that it leaves more signs as they are."""

LINES = {
    "carets": f'curl ^"{URL}^" ^\r\n  -H ^"x-key: k^" ^\r\n  --data-raw ^"{CARETS}^"',
    "letters together": f"curl -sSLXPOST -sd '{QUOTED}' -Hx-key:k {URL} -kso out",
    "single quotes": f"curl '{URL}' -H 'X-Key: k' --data-raw '{QUOTED}'",
    "continued": f"$ curl \\\n  {URL} \\\n  -H 'x-key: k' \\\n  -d '{QUOTED}'",
    "joined": f"/usr/bin/curl -XPOST {URL} -H'x-key: k' --data-binary='{QUOTED}'",
    "ansi": f"curl {URL} -H 'x-key: k' --data-raw $'{ANSI}'",
    "here-document": f"curl {URL} -H 'x-key: k' -o out -d @- <<'E' | jq .\n{BODY}\nE\n",
    "piped": f"printf %s '{QUOTED}' | curl -H 'x-key: k' --data-binary @- {URL}",
    "coded": f"printf %s {base64.b64encode(BODY.encode()).decode()} | base64 -d | curl {URL}"
    " -H 'x-key: k' --data-binary @-",
    "double quotes": 'curl "'
    + URL
    + '" -H "x-key: k" -d "'
    + BODY.replace("\\", "\\\\").replace('"', '\\"')
    + '"',
    "comments": f"#!/bin/sh\n# A 'x'\n\ncurl {URL} --url={URL} -H 'x-key: k' -d '{QUOTED}'; echo",
}


@pytest.mark.parametrize("name", LINES)
def test_whatever_quotes_are_used_the_same_is_sent(name: str) -> None:
    assert is_curl(LINES[name])
    (curl_command,) = curl_commands(LINES[name])
    assert (curl_command.url, curl_command.body) == (URL, BODY)
    assert curl_command.headers == {"x-key": "k"}


def test_every_command_of_a_script_is_read() -> None:
    script = f"curl {URL} -d 1\n\ncurl {URL} -d 2 -d 3 && curl {URL} --max-time 5"
    assert [curl_command.body for curl_command in curl_commands(script)] == ["1", "2&3", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"curl {URL} -d @body.json", "in a file"),
        (f"curl {URL} -d 'open", "not closed"),
        (f'curl {URL} -d "open', "not closed"),
        (f"curl {URL} -d $'open", "not closed"),
        (f"curl {URL} -d @- <<E\nno end", "no end E"),
        ("curl -d 1", "no URL"),
        ("printf %s !! | base64 -d | curl -d @- x", "invalid base64"),
        ("echo curls", "no curl command"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, message: str) -> None:
    with pytest.raises(UnreadableText, match=message):
        curl_commands(text)
