"""The built-in suite: 20 cases in 10 kinds, with scripted models that do them right and wrong."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.evaluation.spec import Spec
from app.evaluation.spec_reader import read_spec

NAME = "builtin"
"""What `playground batch` calls it."""

RIGHT, WRONG = "suite-right", "suite-wrong"
"""The scripted models: the first passes all cases, the second none."""

_FOLDER = Path(__file__).parent / "suite"


@lru_cache(maxsize=1)
def builtin_suite() -> Spec:
    """The SPEC; its tools are definitions alone, its models the two scripted ones."""
    return read_spec((_FOLDER / "suite.yaml").read_text("utf-8"))


def suite_scenario() -> str:
    """What the scripted models say, in the form of the simulator's scenarios."""
    scripts: dict[str, Any] = json.loads((_FOLDER / "scripts.json").read_text("utf-8"))
    scenarios = [
        {"model": model, "prompt": case.prompt, "turns": scripts[case.id][which]}
        for case in builtin_suite().cases
        for which, model in (("right", RIGHT), ("wrong", WRONG))
    ]
    return json.dumps({"scenarios": scenarios})
