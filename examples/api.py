# A run over the HTTP API: asks, runs each call that waits, prints the answer. Needs httpx.
#   playground serve         in one terminal; then   python api.py 'LINK THAT IT PRINTED'

from __future__ import annotations

import sys
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

PROMPT = "What is 17*23, and the weather in Paris?"
WAIT_S = 60.0


def main(link: str) -> None:
    parts = urlsplit(link)
    token = parse_qs(parts.query)["token"][0]
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    base_url = f"{parts.scheme}://{parts.netloc}"
    with httpx.Client(base_url=base_url, headers=headers, timeout=WAIT_S) as client:
        settings = {"title": "From a script", "tools": ["calculator", "get_weather"]}
        session_id = read_json(client.post("/sessions", json=settings))["id"]
        read_json(client.post(f"/sessions/{session_id}/prompts", json={"text": PROMPT}))
        print(run_calls(client, session_id)["text"])


def run_calls(client: httpx.Client, session_id: str) -> Any:
    """Runs every call that waits for a decision, until the session is done; the session."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        session = read_json(client.get(f"/sessions/{session_id}"))
        waiting = [call for call in session["calls"] if call["status"] == "waiting"]
        for call in waiting:
            print(f"{call['name']} {call['arguments']}")
            decision = {"decision": "run", "digest": call["digest"]}
            path = f"/sessions/{session_id}/calls/{call['id']}/decision"
            read_json(client.post(path, json=decision))
        if not waiting and session["state"] != "running":
            return session
        time.sleep(0.2)
    raise SystemExit(f"The session {session_id} was not done in {WAIT_S:g} s.")


def read_json(answer: httpx.Response) -> Any:
    """The answer's JSON. Ends the script with the server's sentence if it was refused."""
    if answer.is_error:
        raise SystemExit(f"{answer.request.url} answered {answer.status_code}: {answer.text}")
    return answer.json()


if __name__ == "__main__":
    main(sys.argv[1])
