"""How long redacting a large session for an export takes, and what of that the rules for keys take.

The session is made of this repository's own files, as an agent reads them: each turn shows one as
the result of a call and sends it back in its next request. Prints seconds of CPU.

    python -m bench.export_redaction [--megabytes 10]

Then, a megabyte each, texts that are made to be costly for a search that goes back.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import cycle
from pathlib import Path

from playground.core.events import CallDecided, CallEnded
from playground.core.tools import Content, ToolResult
from playground.exchange.bundle import RecordedChunk, Recording, SessionBundle
from playground.exchange.session_redaction import redact_session
from playground.secrets.likely_secrets import likely_spans
from tests.factories import Log, settings

ROOT = Path(__file__).parent.parent
FOLDERS = ("app", "docs", "tests", "templates", "static")
COSTLY = {
    "commands": "curl ",
    "headers of commands": "curl -H 'Authorization: Bearer ",
    "users of commands": "curl -u 'a:b",
    "names": "key",
    "assignments": "key=",
    "assignments without a value": "api_key = '",
    "beginnings of private keys": "-----BEGIN PRIVATE KEY----- ",
    "manifests": "kind: secret data: a: ",
    "values of manifests": "kind: secret\n a: abcdefghij",
    "tokens": "glpat-eyJ0",
    "endings of tokens": "T3BlbkFJ_mmk.atlasv1.",
    "one run": "a",
    "escapes": "\\",
    "escaped quotes": '\\"',
}
"""Texts, repeated."""
MOST = 60_000
"""Characters of one file that are read."""


def bundle_of(megabytes: float) -> SessionBundle:
    files = sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.is_file())
    log, size, recordings = Log().start(settings(model="m-1")).prompt("read all"), 0, {}
    for turn, path in enumerate(cycle(files), 1):
        text = path.read_bytes().decode("utf-8", "replace")[:MOST]
        body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": text}]})
        log.request(body=body).part(0, "text", *(text[n : n + 20] for n in range(0, 2_000, 20)))
        log.call(1, "read", {"path": path.name}).end().check(f"{turn}.1")
        log.add(CallDecided(f"{turn}.1", "run", digest="d" * 64))
        log.add(CallEnded(f"{turn}.1", ToolResult((Content(text=text),))))
        data = f"data: {json.dumps({'text': text[:4_000]})}\n\n".encode()
        recordings[turn] = Recording(turn, [RecordedChunk(5, data)])
        size += len(text) + len(body) + len(data) + 4_000
        if size > megabytes * 1e6:
            break
    return SessionBundle(log.session(), "read all", log.events, recordings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=float, default=10)
    arguments = parser.parse_args()
    bundle = bundle_of(arguments.megabytes)
    for shapes in (False, True):
        start = time.process_time()
        marks = redact_session(bundle, ["kn0wn+secret/of=ours-12345"], shapes=shapes).marks
        spent = time.process_time() - start
        what = "all that looks like a key" if shapes else "known keys alone"
        print(
            f"{arguments.megabytes:g} MB, {what}: {spent:.2f} s, {sum(m.count for m in marks)} "
            "spans"
        )
    for name, text in COSTLY.items():
        costly = text * (1_000_000 // len(text))
        start = time.process_time()
        count = len(likely_spans(costly))
        print(f"1 MB of {name}: {time.process_time() - start:.2f} s, {count} spans")


if __name__ == "__main__":
    main()
