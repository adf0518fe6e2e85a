from __future__ import annotations

import hashlib
import json
from functools import lru_cache

from playground.core.reducer import digest
from playground.core.rules import content_hash
from playground.core.serialization import to_data
from playground.core.tools import IdentityKey, Tool
from tests.playbook import call, session, start_events, turn


def test_what_is_remembered_is_of_the_very_object() -> None:
    looks: list[dict[str, int]] = []

    @lru_cache(maxsize=2)
    def size(same: IdentityKey[dict[str, int]]) -> int:
        looks.append(same.value)
        return len(same.value)

    data, alike = {"a": 1}, {"a": 1}
    assert [size(IdentityKey(data)), size(IdentityKey(data)), size(IdentityKey(alike))] == [1, 1, 1]
    assert [look is data for look in looks] == [True, False]
    assert IdentityKey(data) != data


def test_what_a_rule_and_a_card_are_bound_to_stays_what_it_was() -> None:
    """Both are kept: in rules, in decisions and in cards that are open."""
    tool = Tool("né", "“x”", {"type": "object", "b": [1.5], "a": None}, config={"result": "so"})
    text_lists = [tool.name, tool.description, tool.parameters, tool.answered_by, tool.config]
    text = json.dumps(to_data([*text_lists, tool.format, tool.read_only, "cödé"]), sort_keys=True)
    assert content_hash(tool, "cödé") == hashlib.sha256(text.encode()).hexdigest()

    item = session(*start_events(), *turn(1, call(0, arguments='{"city": "Zürich"}')))
    decided = item.call("1.0")
    for decided.tool, decided.returned in ((tool, 0), (None, 2)):
        call_facts = [item.id, decided.id, decided.attempt, decided.part.name]
        call_facts += [
            None if decided.tool is None else to_data(decided.tool),
            decided.judged,
            "cödé",
        ]
        call_facts += [decided.returned] if decided.returned else []
        text = json.dumps(call_facts, sort_keys=True, separators=(",", ":"))
        assert digest(item, decided, "cödé") == hashlib.sha256(text.encode()).hexdigest()
