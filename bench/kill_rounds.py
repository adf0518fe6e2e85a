"""Kill a server at random instants, again and again: `python bench/kill_rounds.py --rounds 30`.

Exit 1 where something that was told did not hold; see tests/killing.py.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import served
from tests.killing import kill_round

served.START_S = 120.0  # a machine that does other things, too, is no finding


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--full-disk",
        action="store_true",
        help="the database has a small disk, which fills up meanwhile (needs root on Linux)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first round (%(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing that was started is left
    caught: Counter[str] = Counter()
    told = broken = 0
    began = time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = asyncio.run(kill_round(Path(folder), seed, full_disk=arguments.full_disk))
            except PermissionError as error:
                parser.error(str(error))
        told += outcome.told
        caught += outcome.caught
        if (seed - arguments.seed) % 10 == 9:
            print(f"seed {seed}, {broken} violations so far", file=sys.stderr, flush=True)
        for violation in outcome.violations:
            broken += 1
            print(f"round {seed}: {violation[:400]}", flush=True)
    found = ", ".join(f"{count} {what}" for what, count in sorted(caught.items()))
    print(
        f"{arguments.rounds} rounds, {told} events told, {broken} violations; {found};"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
