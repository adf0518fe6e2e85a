"""`playground decode`: what recorded bodies say."""

from __future__ import annotations

import argparse
import json
import sys

from app.core.errors import BadInput
from app.protocols.registry import codec
from app.protocols.summary import decode, decoded_text


def main(arguments: argparse.Namespace) -> int:
    """0 where every file was read, whatever it holds."""
    codec(arguments.protocol)
    if arguments.chunk < 0:
        raise BadInput("--chunk is a number of bytes; 0 feeds the whole file at once.")
    unread = False
    for path in arguments.files:
        try:
            body = path.read_bytes()
        except OSError as error:
            sentence = f"Cannot read {path} ({error.strerror}); name a readable file."
            print(f"playground: {sentence}", file=sys.stderr)
            if arguments.json:
                print(json.dumps({"file": str(path), "error": sentence}))
            unread = True
            continue
        facts = decode(arguments.protocol, body, arguments.status, arguments.chunk)
        if arguments.json:
            print(json.dumps({"file": str(path), **facts}))
        else:
            print(f"{path}\n{decoded_text(facts)}")
    return 2 if unread else 0
