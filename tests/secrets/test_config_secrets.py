"""What looks like a key, and what does not. A key stands between « and » in the rows."""

from __future__ import annotations

import re

import pytest

from playground.secrets.config_secrets import Variables, secrets_in, variable
from playground.secrets.detection import BEGINS
from playground.secrets.names import names_key

UUID = "72f988bf-86f1-41af-91ab-2d7cd011db47"
SHA = "4d3c2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d"

ORDINARY = [
    ("", "task-master-ai"),
    ("", "--package=task-master-ai"),
    ("", "--design blue --author Ann"),
    ("--design", "blue"),
    ("--author", "Ann"),
    ("", "sk-learn-mcp-server"),
    ("", "desk-0123456789abcdef"),
    ("", "npm_config_registry=https://packages.example"),
    ("", "@upstash/context7-mcp@1.0.14"),
    ("", "images.example/team/issues-server"),
    ("", f"mcp/fetch@sha256:{SHA}{SHA[:24]}"),
    ("", f"git+https://github.com/oraios/serena@{SHA}"),
    ("", "mcp/auth:latest"),
    ("", "auth:latest"),
    ("", "GITHUB_PERSONAL_ACCESS_TOKEN"),
    ("", "--access-mode=restricted"),
    ("", "--secret-manager-region=us-east-1"),
    ("", "getUserByIdAndUpdateStatusOfEveryOne"),
    ("", "AzureDevOpsMcpServerV2ForWindows"),
    ("", "docker run --rm --env-file /home/b/.env -p 3000:8000 n8n"),
    ("", "/home/a/.npm/_npx/9833c18b2d85bc599833c18b2d85bc59/node_modules"),
    ("", "https://mcp.supabase.com/mcp?project_ref=yaehbwimocvvnnlojkxe"),
    ("", "https://host:8443/path?mail=a@b.example"),
    ("", "postgresql://reader@localhost/db"),
    ("", "${TOKEN}"),
    ("AWS_REGION", "us-east-1"),
    ("FILE_PATH", "task.json"),
    ("TOKEN_FILE", "task.json"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/creds.json"),
    ("MODEL", "claude-3-5-sonnet-20241022"),
    ("MONKEY", "banana"),
    ("KEYBOARD", "qwertz"),
    ("AUTHOR", "Ann"),
    ("SIGNAL", "SIGTERM"),
    ("PASSAGE", "north"),
    ("JIRA_PROJECT_KEY", "ABC"),
    ("PUBLIC_KEY", "abc"),
    ("AUTH_TYPE", "oauth"),
    ("--auth", "basic"),
    ("MAX_TOKENS", "64000"),
    ("DEFAULT_MINIMUM_TOKENS", "6000"),
    ("TOKEN_LIMIT", "100"),
    ("TOKENIZERS_PARALLELISM", "false"),
    ("TOKEN_CACHE_DIR", "work"),
    ("DISABLE_AUTH", "true"),
    ("SESSION", "main"),
    ("AZURE_KEY_VAULT", "my-vault-2"),
    ("TOKEN_ADDRESS", "0x52908400098527886E0F7030069857D2E4169EE7"),
    ("SPREADSHEET_ID", "1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms"),
    ("AZURE_TENANT_ID", UUID),
    ("PROJECT", UUID),
    ("ETH_ADDRESS", "0x52908400098527886E0F7030069857D2E4169EE7"),
    ("CONNECTION_STRING", r"Server=DC\DEV14;Database=A;Trusted_Connection=True"),
    ("MSSQL_DRIVER", "{ODBC Driver 17 for SQL Server}"),
    ("MSSQL_SERVER", "pdase-cepm-sqlmi.c46da62ba3d7.database.windows.net"),
    ("CODE_REPO_PATHS", "/home/u/projects/my-app:/home/u/projects/shared-lib"),
    ("PATH", "C:/Users/a/Python312/Scripts;%PATH%"),
    ("ROOT", "/home/me/my project"),
    ("GREETING", "a sentence of some words"),
    ("Content-Type", "application/json"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"),
    ("X-MCP-Toolsets", "repos,issues"),
    ("Authorization", "Bearer ${A}"),
    ("Authorization", "Basic ${USER}:${PASSWORD}"),
]

KEYS = [
    # By the maker's prefix, at the start of a word.
    ("", "«sk-SECRET1aaaaaaaaaaaaa»"),
    ("", "«sk-abcdefghijkl»"),
    ("", "«ghp_SECRET1aaaaaaaaaaaa»"),
    ("", "run «AKIAABCDEFGHIJKLMNOP» now"),
    ("ANY", "«sbp_00112233445566778899aabbccddeeff00112233»"),
    ("ANY", "«-----BEGIN RSA PRIVATE KEY-----\nabc»"),
    # By a name.
    ("A_KEY", "«x»"),
    ("apiKey", "«SECRET1»"),
    ("APIKEY", "«SECRET1»"),
    ("authToken", "«SECRET1»"),
    ("DB_PASS", "«hunter2»"),
    ("DB_PASSWORD", "«pa$word»"),
    ("--api-key", "«SECRET1»"),
    ("OPENAI_API_KEY_2", "«SECRET1»"),
    ("TOKEN_V2", "«SECRET1»"),
    ("GITHUB_TOKEN_WORK", "«a1b2c3d4e5»"),
    ("AWS_SECRET_ACCESS_KEY", "«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»"),
    ("AWS_SECRET_ACCESS_KEY", "«/wJalrXUtnFEMI/K7MDENG+bPxRfiCYzEXAMPLE1»"),
    ("X-Goog-Api-Key", "«SECRET1»"),
    ("Cookie", "«a=SECRET1»"),
    ("Authorization", "Bearer «SECRET1»"),
    ("SESSION_ID", "«a1b2c3d4e5f6a7b8c9»"),
    ("", "--token=«SECRET1»"),
    ("", "MY_TOKEN=«SECRET1»"),
    ("", "npx -y @smithery/cli run x --key «SECRET1» --profile me"),
    ("", "Authorization: Bearer «SECRET1»"),
    ("", "x-api-key:«SECRET1»"),
    ("", "Server=a;User Id=sa;Password=«SECRET1»;Encrypt=true"),
    ("", "https://host.example/mcp?api_key=«SECRET1»&page=2"),
    ("HEADERS", '{"Authorization": "Bearer «ntn_x»", "Notion-Version": "2022-06-28"}'),
    ("HEADERS", '{"token":"«SECRET1»"}'),
    # By a place.
    ("DSN", "postgres://me:«SECRET1»@host/db"),
    ("DSN", "postgres://me:«p@ss»@host:5432/db"),
    ("", "https://u:«SECRET1»@host.example/x?mail=a@b.example"),
    ("AUTH_HEADER", "Bearer «SECRET1»"),
    # By lot.
    ("", "«0123456789abcdef0123456789abcdef»"),
    ("ANY", "«0u_46cKC_VSlKurR5yvKTiPBY_vfEkmmxKpS5-ztfkQ»"),
    ("ANY", "«AQ.Xy7QP5KU5HDbHT-2dl6wAFLpwAAwr5X6Xl3GOLDMT0fOTYY4SZ»"),
    ("", "https://hooks.slack.com/services/T00/B00/«aB3dE5gH7jK9mN1pQ3sT5vW7»"),
    ("", "https://mcp.zapier.com/api/mcp/s/«MTk4NjIyNDgzNDcxOTI1MjQ4Zk9xQ2w»/mcp"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), ORDINARY)
def test_an_ordinary_value_is_no_key(name: str, value: str) -> None:
    assert secrets_in(value, name) == []


@pytest.mark.parametrize(("name", "marked"), KEYS)
def test_a_key_is_found_and_nothing_beside_it(name: str, marked: str) -> None:
    text = re.sub("[«»]", "", marked)
    secret_texts = [text[spot.start : spot.end] for spot in secrets_in(text, name)]
    assert secret_texts == re.findall("«(.*?)»", marked, re.DOTALL)


@pytest.mark.parametrize("begins", BEGINS)
def test_every_shape_of_a_key_is_one_in_a_configuration(begins: str) -> None:
    value = f"{begins}0a1B2c3D4e5F"
    assert [(span.start, span.end) for span in secrets_in(value)] == [(0, len(value))]
    assert secrets_in(f"{begins}a-b-c") == []


def test_several_keys_of_one_text_are_several() -> None:
    text = "https://u:pw@h.example/x?api_key=k1&page=2&token=t1"
    assert [text[secret_span.start : secret_span.end] for secret_span in secrets_in(text)] == [
        "pw",
        "k1",
        "t1",
    ]


@pytest.mark.parametrize(
    "name", ["author", "design", "task", "keynote", "passive", "tokenizer", "signal"]
)
def test_a_word_inside_of_a_word_names_nothing(name: str) -> None:
    for written in (name, name.upper(), f"MY_{name.upper()}", f"my-{name}", f"my{name.title()}"):
        assert not names_key(written, "SECRET1aaaaaaaaa")


def test_names_of_variables() -> None:
    assert variable("my-server", "X-Key") == "MY_SERVER_X_KEY"
    assert variable("9", "x") == "MY_9_X_KEY"
    variables = Variables({"THERE"})
    assert variables.name_for("a", "KEY", "S_KEY") == "KEY"
    assert variables.name_for("a", "KEY", "S_KEY") == "KEY"
    assert variables.name_for("b", "KEY", "S_KEY") == "S_KEY"
    assert variables.name_for("c", "KEY", "S_KEY") == "S_KEY_2"
    assert variables.name_for("d", "THERE", "S_THERE") == "S_THERE"
