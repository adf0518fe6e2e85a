"""Keys that gitleaks' rules know are found; the program's own files have none."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from playground.secrets.likely_secrets import SecretCollector, likely_spans, redact_likely
from playground.secrets.redaction import Redactor
from playground.secrets.vendor_rules import RULES_FILE, VendorRule, compile_go, translate_go
from tests.secrets.made_up_keys import LETTERS, RULES, made_up_key

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("app", "docs", "static", "templates", "vendoring")
SEEDS = range(2)


def masked(text: str) -> str:
    """`text` as it leaves."""
    collector = SecretCollector()
    collector.add(text)
    return redact_likely(text, Redactor(collector.values()))


@pytest.mark.parametrize("rule", RULES.values())
def test_a_key_of_each_rule_is_masked(rule: VendorRule) -> None:
    for seed in SEEDS:
        made_up = made_up_key(rule, seed)
        text = f"It was:\n{made_up.text}\nand so on."
        assert made_up.key not in masked(text), made_up
        once = json.dumps({"text": text})
        assert json.dumps(made_up.key)[1:-1] not in masked(once), made_up
        assert isinstance(json.loads(masked(once)), dict)


def own_files() -> Iterator[tuple[str, str]]:
    """The text of all files of the program; tests and benches make keys up."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    paths += [path for path in ROOT.glob("*.*") if path.suffix in (".md", ".toml")]
    for path in paths:
        if path.suffix not in (".pyc", ".png", ".ico") and path.parent != RULES_FILE.parent:
            yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def false_alarms(name: str, text: str) -> list[str]:
    return [f"{name}: {text[start:end]}" for start, end in likely_spans(text)]


def test_the_programs_own_files_raise_no_alarm() -> None:
    files = list(own_files())
    assert sum(len(text) for _, text in files) > 3_000_000
    assert [alarm for name, text in files for alarm in false_alarms(name, text)] == []
    # The same look finds a key that is put into one of them.
    name, text = files[len(files) // 2]
    assert false_alarms(name, f"{text}\n{made_up_key(RULES['github-pat']).text}\n") != []


def key_of(length: int = 24) -> str:
    """A key without a vendor's form; the same at each run."""
    chance = random.Random(length)
    return "q7" + "".join(chance.choice(LETTERS) for _ in range(length - 2))


@pytest.mark.parametrize(
    "around",
    [
        "STRIPE_TOKEN={}",
        'export STRIPE_TOKEN="{}"',
        '{{"token": "{}"}}',
        '{{"accessToken":"{}"}}',
        "signingSecret: {}",
        "db_pwd: '{}'",
        "X-Vault-Token: {}",
        "--api-token {}",
        "--license-key={}",
        "jwt := `{}`",
        "MNEMONIC_PASS => {}",
        'psk = "{}"',
    ],
)
@pytest.mark.parametrize("levels", range(3))
def test_a_value_is_masked_whose_name_is_that_of_a_key(around: str, levels: int) -> None:
    text = around.format(key_of())
    for _ in range(levels):
        text = json.dumps({"a": text})
    assert key_of() not in masked(f"so {text} it is")


@pytest.mark.parametrize(
    "text",
    [
        '{"token": "information", "max_tokens": 100000000000000000}',
        '{"key": "section-2-introduction-and-overview"}',
        '{"next_page_token": "q7x8y9z0a1b2c3d4e5f6"}',
        "key_file = /etc/ssl/private/server-2048-bits.pem",
        "primary_key: 0123456789012345678901234567",
        'API_KEYS = {"openai": "OPENAI_API_KEY_OF_MINE"}',
        "token = tokens[0].text_of_the_first_one(2)",
        "the key idea of version2.10.3-beta-release",
        "keyCode=this.lastSelectionTime=0",
        "docker run --user 1000:1000 image",
        "kind: Secret of success; description: configuration",
    ],
)
def test_what_is_only_called_alike_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    ("pattern", "translated"),
    [
        ("a(?i)b|c", "a(?i:b)|(?i:c)"),
        ("(x(?i)y)z$", r"(x(?i:y))z\Z"),
        (r"[[:alnum:]$(?i)]\z", r"[A-Za-z0-9$(?i)]\Z"),
        (r"\$(?-i:a)", r"\$(?-i:a)"),
        ("[^])]|[)]", "[^])]|[)]"),
    ],
)
def test_a_pattern_of_go_is_said_in_pythons_syntax(pattern: str, translated: str) -> None:
    assert translate_go(pattern) == translated


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rule", RULES.values())
def test_each_pattern_of_the_file_can_be_compiled(rule: VendorRule) -> None:
    assert isinstance(compile_go(rule.pattern), re.Pattern)
