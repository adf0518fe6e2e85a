"""Loads every single-turn file of BFCL as batches, and prints what could not be taken, and why.

    pip download --no-deps bfcl-eval && unzip bfcl_eval-*.whl -d bfcl
    python -m bench.bfcl bfcl/bfcl_eval/data

Each SPEC is written as JSON and read again, as a run does. Exit code 1 where one comes back other
than it was.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from playground.evaluation.batch_import import ANSWERS, read_bfcl
from playground.evaluation.spec import ImportedBatch, spec_data
from playground.evaluation.spec_reader import spec_from_data

OTHERS = ("multi_turn", "memory", "web_search", "format_sensitivity")
"""Files of several turns, or without questions. Those that are no longer scored come last."""


def load(path: Path) -> ImportedBatch:
    folder = path.parent.parent if path.parent.name == "question" else path.parent
    answers = folder / ANSWERS / path.name
    text = answers.read_text("utf-8") if answers.exists() else ""
    return read_bfcl(path.read_text("utf-8"), text, path.stem)


def main(folder: Path) -> int:
    files = sorted(folder.glob("BFCL_v*.json")) + sorted(folder.glob("*/question/BFCL_v*.json"))
    files = [path for path in files if not any(other in path.name for other in OTHERS)]
    accepted = left = different = 0
    print(f"{'category':28}{'taken':>7}{'left out':>10}")
    for path in files:
        imported = load(path)
        spec = imported.spec
        again = spec_from_data(json.loads(json.dumps(spec_data(spec)))) if spec.cases else spec
        different += again != spec or again.digest() != spec.digest()
        name = re.sub(r"^BFCL_v\d+_", "", path.stem)
        print(f"{name:28}{len(spec.cases):7}{len(imported.left_out):10}")
        accepted, left = accepted + len(spec.cases), left + len(imported.left_out)
        reasons = Counter(out.reason.partition(": ")[0] for out in imported.left_out)
        for reason, count in reasons.most_common():
            print(f"{'':28}{'':7}{count:10}  {reason}")
    print(
        f"{'all':28}{accepted:7}{left:10}  of {len(files)} files; read again otherwise: {different}"
    )
    return 1 if different or not files else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
