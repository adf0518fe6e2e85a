"""The comparison as JSON, where nothing is cut, and as Markdown, where nothing becomes markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from playground.core.session_diff import align
from playground.web.compare_view import comparison_data, markdown
from tests.core.sides import sided

BIG = "x" * 1_000_000


def test_json_has_all_of_it() -> None:
    many = {f"k{number}": number for number in range(50)}
    left = sided([("t", {"a": 1, "b": BIG, **many}), ("u", "{")], "Done.", id="a")
    right = sided([("t", {"a": "1", "c": None}), ("u", "[")], "Over.", id="b")
    output = json.loads(json.dumps(comparison_data([left, right], [align(left, right)])))
    assert [session["id"] for session in output["sessions"]] == ["a", "b"]
    assert output["sessions"][0]["cost"] is None
    assert output["sessions"][0]["profile"] == left.profile
    (differences,) = output["against"]
    assert (differences["session"], differences["common"], differences["counts"]["arguments"]) == (
        "b",
        0,
        2,
    )
    prompt, turn, last = differences["rows"]
    assert (prompt["kind"], prompt["ways"], turn["kind"]) == ("prompt", [], "turn")
    changes = turn["calls"][0]["changes"]
    assert changes[0] == {"pointer": "/a", "how": "type", "old": "1", "new": '"1"'}
    assert changes[1]["old"] == json.dumps(BIG)
    assert len(changes) == 53
    assert turn["calls"][1]["changes"] is None
    assert (last["left"]["text"], last["right"]["text"]) == ("Done.", "Over.")


def test_a_call_on_one_side_is_null_on_the_other() -> None:
    left, right = sided([("t", {})]), sided([("u", {})], id="b")
    (differences,) = comparison_data([left, right], [align(left, right)])["against"]
    assert [(c["left"], c["right"], c["name"]) for c in differences["rows"][1]["calls"]] == [
        ("1.0", None, "t"),
        (None, "1.0", "u"),
    ]


def test_markdown_is_a_list_and_data_is_code() -> None:
    left = sided([("t", {"a": "`x` <b> \n# y"}), ("m", {})], "a", id="a")
    right = sided([("t", {"a": "```"}), ("u", "nothing")], "*b*", prompt="Else", id="b")
    text = markdown([left, right], [align(left, right)])
    lines = text.rstrip("\n").split("\n")
    assert all(re.match(r"(# |## |- |  - |    - |$)", line) for line in lines), text
    assert "1 call missing" in text
    assert '    - `/a`: `` "`x` <b> \\n# y" `` → ```` "```" ````' in lines
    assert "# y" not in [line.strip() for line in lines]
    assert markdown([left, left], [align(left, left)]).endswith("- No difference.\n")


def test_a_session_is_named_with_its_model_and_profile() -> None:
    left = sided("x", id="a")
    right = replace(left, id="b", profile="my-profile")
    assert left.profile != left.model
    text = markdown([left, right], [align(left, right)])
    assert f"(`{left.model}` by `{left.profile}`, a)" in text
    assert f"(`{left.model}` by `my-profile`, b)" in text
    alone = replace(left, profile=left.model)
    assert f"(`{left.model}`, a)" in markdown([alone, right], [align(alone, right)])
