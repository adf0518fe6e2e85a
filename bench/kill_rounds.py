"""Kill a server at random instants, again and again: `python bench/kill_rounds.py --rounds 30`.

With `--tap` agents work through taps meanwhile (tests/killing_agents.py), else sessions of its own
(tests/killing.py). Exit 1 where something that was said before did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import servers
from tests.killing import Outcome, kill_round
from tests.killing_agents import LATE, MOST, tap_kill_round

servers.START_S = 120.0  # a machine that does other things, too, is no finding


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--full-disk",
        action="store_true",
        help="the database has a small disk, which fills up meanwhile (needs root on Linux)",
    )
    parser.add_argument("--tap", action="store_true", help="agents behind taps, which ask again")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (%(default)s)")
    arguments = parser.parse_args()
    if arguments.tap and arguments.full_disk:
        parser.error("--tap has no rounds on a full disk; leave one of them out.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing that was started is left
    caught: Counter[str] = Counter()
    number = broken = 0
    began = time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = asyncio.run(_round(Path(folder), seed, arguments))
            except PermissionError as error:
                parser.error(str(error))
        number += outcome.reported
        most = {name: max(caught[name], outcome.caught[name]) for name in (MOST, LATE)}
        caught += outcome.caught
        caught.update({name: value - caught[name] for name, value in most.items()})
        if (seed - arguments.seed) % 10 == 9:
            print(f"seed {seed}, {broken} violations so far", file=sys.stderr, flush=True)
        for violation in outcome.violations:
            broken += 1
            print(f"round {seed}: {violation[:400]}", flush=True)
    match = ", ".join(f"{count} {what}" for what, count in sorted(caught.items()) if count)
    seeds = f"seeds {arguments.seed} to {arguments.seed + arguments.rounds - 1}"
    print(
        f"{arguments.rounds} rounds ({seeds}), {number} events told, {broken} violations; {match};"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if broken else 0


def _round(
    folder: Path, seed: int, arguments: argparse.Namespace
) -> Coroutine[None, None, Outcome]:
    if arguments.tap:
        return tap_kill_round(folder, seed)
    return kill_round(folder, seed, full_disk=arguments.full_disk)


if __name__ == "__main__":
    sys.exit(main())
