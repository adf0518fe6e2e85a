"""Names in any script and of any length become valid names that can be told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.tools import NAME
from playground.schema.names import MAX_NAME, PORTABLE_NAME, legal_name, number_name, shorten_name

PREFIX = "organisation_wide_customer_relationship_record_management_service_"
VERBS = ("create", "delete", "archive")


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("查询天气", "ChaXunTianQi"),
        ("погода сегодня", "pogoda_segodnya"),
        ("날씨", "NalSsi"),
        ("prix d’été", "prix_d_ete"),
        ("Users.List all (v2)", "Users.List_all_v2"),
        ("☀️", "sunny"),
        ("..", ""),
        ("!!!", ""),
    ],
)
def test_legal_name_of_another_script_is_transliterated(text: str, legal: str) -> None:
    assert legal_name(text) == legal


@pytest.mark.parametrize(
    "names",
    [
        [PREFIX + verb for verb in VERBS],
        [verb + "_" + PREFIX for verb in VERBS],
        [PREFIX[:30] + verb + PREFIX for verb in VERBS],
        [PREFIX[:47] + verb + "_for_every_single_one_of_the_departments" for verb in VERBS],
        [PREFIX + verb + "_in_the_archive_of_everything" for verb in VERBS],
        [PREFIX + verb + thing for verb in VERBS for thing in ("_user", "_users", "_group")],
    ],
    ids=["at the end", "at the start", "early", "in the middle", "late", "two words"],
)
def test_shorten_name_keeps_what_differs(names: list[str]) -> None:
    short = [shorten_name(name, PORTABLE_NAME, names) for name in names]
    assert len(set(short)) == len(names)
    for name, shortened in zip(names, short, strict=True):
        assert len(shortened) <= PORTABLE_NAME
        assert all(word in shortened for word in VERBS if word in name)


def test_shorten_name_without_siblings_cuts_the_middle() -> None:
    assert shorten_name("begin_" + "x" * 100 + "_end", 32) == "begin_xxxx_" + "x" * 17 + "_end"
    assert shorten_name("short", 32, ["short", "s" * 99]) == "short"


@given(st.lists(st.text(min_size=1, max_size=300), max_size=8), st.sampled_from((64, 128)))
def test_any_name_becomes_a_valid_name_of_its_own(texts: list[str], most: int) -> None:
    accepted_names: set[str] = set()
    legal = [legal_name(text) or "tool" for text in texts]
    for name in legal:
        own = number_name(shorten_name(name, most, legal), accepted_names)
        assert NAME.fullmatch(own)
        assert own not in accepted_names
        assert len(own) <= MAX_NAME
        accepted_names.add(own)
