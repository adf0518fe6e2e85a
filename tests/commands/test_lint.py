"""`playground lint`: the form of a line, exit codes, what `--fix` writes and says."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from playground.commands.run import read_tools
from playground.protocols.lint import Finding
from tests.commands.conftest import Typed
from tests.servers import run_command

Json = dict[str, Any]

S: Json = {"type": "string", "description": "The text."}
CLOSED: Json = {
    "type": "object",
    "properties": {"text": S},
    "required": ["text"],
    "additionalProperties": False,
}
ABOUT = "Looks a text up in the store."
SOUND: Json = {"name": "look_up", "description": ABOUT, "parameters": CLOSED}
OPEN: Json = {"type": "object", "properties": {"text": S, "count": {**S, "type": "integer"}}}


def chat(parameters: Json, **more: Any) -> Json:
    function = {"name": "look_up", "description": ABOUT, "parameters": parameters, **more}
    return {"type": "function", "function": function}


def gemini(parameters: Json) -> Json:
    data = {"name": "look_up", "description": ABOUT, "parameters": parameters}
    return {"functionDeclarations": [data]}


def put(folder: Path, name: str, value: Any, indent: int | None = 2) -> Path:
    path = folder / name
    path.write_text(json.dumps(value, indent=indent) + "\n")
    return path


@pytest.mark.slow
def test_lines_and_exit_codes_of_the_real_program(tmp_path: Path) -> None:
    put(tmp_path, "sound.json", SOUND)
    put(tmp_path, "bad.json", {**SOUND, "name": "look.up"})
    done = run_command("lint", "sound.json", "--for", "anthropic,openai_chat", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run_command("lint", "sound.json", "bad.json", cwd=tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    shape = r"\S+\.json:\d+:\S+:\S*: \w+: .+\.(?: \[\w+(?:, \w+)*\])?"
    assert all(re.fullmatch(shape, line) for line in lines)
    refused = [line for line in lines if ": refused: " in line]
    assert refused[0].startswith("bad.json:2:look.up:/name: refused: Anthropic accepts names")
    assert [text.rpartition("[")[2] for text in refused] == [
        "anthropic]",
        "openai_chat]",
        "openai_responses]",
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sound.json",), 0),
        (("bad.json", "--for", "gemini"), 0),
        (("bad.json", "--for", "gemini, ollama"), 0),
        (("bad.json", "--for", "openai_chat"), 1),
        (("sound.json", "none.json"), 2),
        (("bad.json", "text.txt"), 2),
        (("sound.json", "half.json"), 2),
        (("sound.json", "--for", "openai"), 0),
        (("bad.json", "--for", "azure, mistral"), 1),
        (("bad.json", "--for", "groq"), 1),
        (("sound.json", "--for", "nobody"), 2),
        (("empty.json", "--for", "gemini"), 1),
        ((".",), 2),
    ],
)
def test_exit_codes(run_cli: Typed, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    put(tmp_path, "sound.json", SOUND)
    put(tmp_path, "bad.json", {**SOUND, "name": "look.up"})
    put(tmp_path, "empty.json", {**SOUND, "parameters": {**CLOSED, "properties": {"text": False}}})
    put(
        tmp_path,
        "half.json",
        [SOUND, {"name": "x", "parameters": {"type": "object", "required": 1}}],
    )
    (tmp_path / "text.txt").write_text("These are not tools at all.")
    count, _, output = run_cli("lint", *words)
    assert count == code
    assert (output != "") == (code == 2)
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("package.json", {"name": "x", "version": "1", "description": "d", "main": "i.js"}, "npm"),
        ("tsconfig.json", {"compilerOptions": {"strict": True}}, "TypeScript configuration"),
        ("server.json", {"name": "a/b", "version": "1", "packages": []}, "MCP registry"),
        (
            "manifest.json",
            {"manifest_version": 3, "name": "x", "version": "1"},
            "browser extension",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused_with_what_it_is(
    run_cli: Typed, tmp_path: Path, name: str, value: Json, what: str
) -> None:
    put(tmp_path, name, value)
    code, out, errors = run_cli("lint", name)
    assert (code, out) == (2, "")
    assert what in errors
    assert "not a tool" in errors


def test_python_file_when_its_path_is_relative_is_read_as_by_run(
    run_cli: Typed, tmp_path: Path
) -> None:
    """Relative to the file with the tools, not to the folder in which the command runs."""
    (tmp_path / "mine").mkdir()
    config = {"file": "tools.py", "function": "look_up"}
    path = put(
        tmp_path / "mine", "tools.json", {**SOUND, "answered_by": "python", "config": config}
    )
    (tool,) = read_tools(path)
    assert tool["config"]["file"] == str(tmp_path / "mine" / "tools.py")
    assert run_cli("lint", "mine/tools.json") == (0, "", "")


def test_a_tool_of_a_provider_is_left_out_and_named(run_cli: Typed, tmp_path: Path) -> None:
    put(tmp_path, "tools.json", [SOUND, {"type": "web_search"}])
    code, out, errors = run_cli("lint", "tools.json", "--for", "anthropic")
    assert (code, out) == (0, "")
    assert "tools.json:web_search: Left out." in errors
    assert "is run by its provider" in errors
    put(tmp_path, "search.json", [{"type": "web_search"}])
    code, _, errors = run_cli("lint", "search.json")
    assert code == 2
    assert "It has no tool with a schema" in errors


def test_json_has_every_field(run_cli: Typed, tmp_path: Path) -> None:
    put(tmp_path, "bad.json", {**SOUND, "name": "look.up"})
    code, out, _ = run_cli("lint", "bad.json", "--json", "--for", "openai_chat")
    (item,) = json.loads(out)
    assert code == 1
    assert item.keys() == {"file", "tool", "line", *(each.name for each in fields(Finding))}
    assert (item["file"], item["tool"], item["protocol"]) == ("bad.json", "look.up", "openai_chat")
    assert item["line"] == 2
    put(tmp_path, "sound.json", SOUND)
    assert run_cli("lint", "sound.json", "--json", "--for", "openai_chat")[1].strip() == "[]"


def test_a_file_in_a_protocols_own_form_is_judged_as_it_stands(
    run_cli: Typed, tmp_path: Path
) -> None:
    put(tmp_path, "g.json", gemini({**CLOSED}))
    code, out, _ = run_cli("lint", "g.json", "--for", "gemini")
    assert code == 1
    assert "/parameters/additionalProperties: refused: Gemini does not know" in out
    assert run_cli("lint", "g.json", "--for", "anthropic")[0] == 0
    put(tmp_path, "own.json", SOUND)
    assert run_cli("lint", "own.json", "--for", "gemini")[0] == 0


def test_a_name_is_judged_as_the_file_has_it(run_cli: Typed, tmp_path: Path) -> None:
    put(tmp_path, "c.json", chat(CLOSED, name="has space"))
    code, out, output = run_cli("lint", "c.json", "--for", "openai_chat")
    assert code == 1
    assert "c.json:4:has_space:/name: refused: OpenAI accepts names" in out
    assert "not 'has space'" in out
    # The other protocols are sent what was made of it, and that is told.
    assert run_cli("lint", "c.json", "--for", "anthropic")[0] == 0
    assert output.startswith("c.json:has_space: Its name 'has space'")
    assert "It has no executor" not in output


def test_what_cannot_be_read_is_an_object_too(run_cli: Typed, tmp_path: Path) -> None:
    bad = {"name": "x", "parameters": {"type": "object", "required": 1}}
    put(tmp_path, "half.json", [SOUND, bad])
    code, out, output = run_cli("lint", "none.json", "half.json", "--json", "--for", "openai_chat")
    assert code == 2
    first, second = json.loads(out)
    assert first.keys() == {"file", "error"}
    assert (first["file"], second["file"], second["tool"]) == ("none.json", "half.json", "x")
    assert first["error"] in output
    assert " ".join(second["error"].split()) in output


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "other.json#/a"},
        {"$ref": "#/$defs/none"},
        {"$dynamicRef": "#node"},
        {"$id": "https://example.com/id", "type": "string"},
    ],
    ids=json.dumps,
)
def test_what_a_schema_refers_to_and_does_not_hold_is_a_finding(
    run_cli: Typed, tmp_path: Path, schema: Json
) -> None:
    """In our own form and in a provider's; the other tools of the file are judged as ever."""
    keyword = next(iter(schema))
    parameters = {"type": "object", "properties": {"a": schema}}
    bare = {"name": "x", "parameters": parameters}
    own = {**bare, "answered_by": "mock", "config": {"result": "1"}}
    for form in (bare, own, chat(parameters, name="x")):
        put(tmp_path, "a.json", [form, {**SOUND, "name": "look.up"}])
        code, out, output = run_cli("lint", "a.json", "--for", "openai_chat", "--json")
        first, second = json.loads(out)
        assert (code, output) == (1, "")
        assert first.keys() == second.keys()
        assert (first["tool"], first["severity"]) == ("x", "refused")
        assert first["pointer"] == f"/parameters/properties/a/{keyword}"
        assert (second["tool"], second["severity"]) == ("look.up", "refused")


def test_an_operation_that_refers_out_of_its_document_is_a_finding(
    run_cli: Typed, tmp_path: Path
) -> None:
    body = {"content": {"application/json": {"schema": {"$ref": "https://example.com/pet.json"}}}}
    document = {
        "openapi": "3.1.0",
        "servers": [{"url": "https://pets.example"}],
        "paths": {
            "/pets": {"post": {"operationId": "addPet", "requestBody": body}},
            "/toys": {"$ref": "https://example.com/toys.json"},
        },
    }
    put(tmp_path, "api.json", document)
    code, out, output = run_cli("lint", "api.json")
    assert (code, output) == (1, "")
    pet, toys = out.splitlines()
    assert pet.startswith("api.json:10:addPet:/parameters: refused: It refers to 'https://example")
    assert toys.startswith("api.json:/toys:: refused: It refers to 'https://example")


def test_several_tools_are_judged_together(run_cli: Typed, tmp_path: Path) -> None:
    tools = [{**SOUND, "name": f"look_{n}_up", "description": ""} for n in range(129)]
    put(tmp_path, "many.json", tools)
    code, out, _ = run_cli("lint", "many.json")
    assert code == 1
    assert (
        "many.json:*:: refused: OpenAI accepts 128 tools in a request, not 129. [openai_chat]"
        in out
    )
    assert out.count("models choose less well") == 1


def test_findings_when_many_tools_are_alike_are_one_line_each(
    run_cli: Typed, tmp_path: Path
) -> None:
    """Each place of a tool keeps its line, and --json keeps every finding."""
    inner = {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "array"}}}
    tools = [
        {**SOUND, "name": f"look_{n}.up", "parameters": {**OPEN, "properties": {f"p{n}": inner}}}
        for n in range(200)
    ]
    put(tmp_path, "many.json", tools)
    code, out, _ = run_cli("lint", "many.json")
    assert code == 1
    lines = out.splitlines()
    assert len(lines) < 40
    arrays = [line for line in lines if "needs `items` of every array" in line]
    assert [array.partition(":")[0] for array in arrays] == ["many.json"] * 2
    for name, text in zip("ab", arrays, strict=True):
        assert text.endswith(
            f"at /properties/p0/properties/{name}. [openai_chat, openai_responses] Also of 199 "
            "more tools: look_1.up, look_2.up, look_3.up and 196 more."
        )
    (names,) = [line for line in lines if "Anthropic accepts names" in line]
    assert names.startswith("many.json:3:look_0.up:/name: refused: ")
    (pairs,) = [line for line in lines if "have similar descriptions" in line]
    assert "'look_0.up' and 'look_1.up' have similar descriptions" in pairs
    assert "Also of 19,899 more pairs: 'look_0.up' and 'look_2.up'; " in pairs
    severities = [line.split(": ")[1] for line in lines]
    assert severities == sorted(severities, key=["refused", "ignored", "strict", "weak"].index)

    code, out, _ = run_cli("lint", "many.json", "--json")
    rows = json.loads(out)
    assert code == 1
    assert sum("similar descriptions" in row["message"] for row in rows) == 19_900
    assert sum("needs `items`" in row["message"] for row in rows) == 200 * 2 * 2


def test_findings_when_tools_differ_keep_their_lines(run_cli: Typed, tmp_path: Path) -> None:
    other = {**SOUND, "name": "find_it", "description": "Finds what was lost by its name."}
    other["parameters"] = {**CLOSED, "properties": {"text": {**S, "minLength": 1}}}
    put(tmp_path, "two.json", [{**SOUND, "name": "a.b"}, other])
    _, out, _ = run_cli("lint", "two.json", "--for", "anthropic")
    assert [splitline.split(":")[2] for splitline in out.splitlines()] == ["a.b", "find_it"]


def test_contradiction_when_a_name_is_misspelled_is_first_and_fix_renames_it(
    run_cli: Typed, tmp_path: Path
) -> None:
    path = put(tmp_path, "t.json", {**SOUND, "parameters": {**CLOSED, "required": ["texts"]}})
    code, out, _ = run_cli("lint", "t.json", "--for", "anthropic")
    assert code == 1
    assert out.splitlines()[0] == (
        "t.json:12:look_up:/parameters/required: unsatisfiable: No call can be valid: 'texts' is "
        "required but is not in `properties`, and `additionalProperties` is false. Did you mean "
        "'text'?"
    )
    code, out, output = run_cli("lint", "t.json", "--fix", "--for", "anthropic")
    assert (code, out) == (0, "")
    assert '+      "text"' in output
    assert json.loads(path.read_text())["parameters"]["required"] == ["text"]


def test_limit_when_it_is_the_vendors_own_names_the_vendor(run_cli: Typed, tmp_path: Path) -> None:
    tools = [{**SOUND, "name": f"look_{n}_up", "description": ""} for n in range(129)]
    put(tmp_path, "many.json", tools)
    code, out, _ = run_cli("lint", "many.json", "--for", "groq")
    assert code == 1
    assert "many.json:*:: refused: Groq accepts 128 tools in a request, not 129. [groq]" in out
    assert "OpenAI accepts 128 tools" not in out
    code, out, _ = run_cli("lint", "many.json", "--for", "xai")
    assert code == 0
    assert run_cli("lint", "many.json", "--for", "nobody")[2].endswith("sglang, litellm.\n")


@pytest.mark.parametrize("indent", [None, 2, 4])
def test_fix_rewrites_what_is_refused_and_shows_it(
    run_cli: Typed, tmp_path: Path, indent: int | None
) -> None:
    path = put(tmp_path, "t.json", [SOUND, chat(OPEN, strict=True)], indent)
    path.chmod(0o640)
    code, out, output = run_cli("lint", "t.json", "--fix", "--for", "openai_chat")
    assert code == 0
    assert "refused" not in out
    assert '"additionalProperties": false' in output
    assert "+++ t.json (fixed)" in output
    assert "t.json:look_up: could not keep: Unnamed properties" in output
    assert "t.json:look_up: null now means absent at /properties/count." in output
    stored, fixed = json.loads(path.read_text())
    assert stored == SOUND
    assert fixed["function"]["parameters"]["required"] == ["text", "count"]
    assert path.read_text() == json.dumps([stored, fixed], indent=indent) + "\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".t")] == []
    assert "the original is in t.json.orig." in output
    assert (tmp_path / "t.json.orig").stat().st_mode & 0o777 == 0o640
    before = path.read_bytes()
    again = run_cli("lint", "t.json", "--fix", "--for", "openai_chat")
    assert again == (0, out, "t.json: nothing to rewrite.\n")
    assert path.read_bytes() == before
    assert not (tmp_path / "t.json.orig1").exists()


def test_fix_keeps_the_file_as_it_was_and_writes_over_none(run_cli: Typed, tmp_path: Path) -> None:
    path = put(tmp_path, "t.json", chat(OPEN, strict=True))
    before = path.read_bytes()
    (tmp_path / "t.json.orig").write_text("mine")
    run_cli("lint", "t.json", "--fix", "--for", "openai_chat")
    assert (tmp_path / "t.json.orig").read_text() == "mine"
    assert (tmp_path / "t.json.orig1").read_bytes() == before != path.read_bytes()


def test_fix_writes_nothing_that_is_refused_all_the_same(run_cli: Typed, tmp_path: Path) -> None:
    deep: Json = {"type": "object", "properties": {"text": S}}
    for _ in range(12):
        deep = {"type": "object", "properties": {"text": deep}}
    path = put(tmp_path, "t.json", chat(deep, strict=True))
    before = path.read_bytes()
    code, out, output = run_cli("lint", "t.json", "--fix", "--for", "openai_chat")
    assert (code, path.read_bytes()) == (1, before)
    assert "t.json:look_up: not rewritten, because it would still be refused: OpenAI's" in output
    assert ": refused: " in out
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_help_says_that_the_file_is_written(tmp_path: Path) -> None:
    output = run_command("lint", "--help", cwd=tmp_path).stdout
    assert "rewrite FILE" in " ".join(output.split())


def test_fix_makes_gemini_parameters_ready(run_cli: Typed, tmp_path: Path) -> None:
    path = put(tmp_path, "g.json", gemini({**CLOSED, "properties": {"text": {"const": "a", **S}}}))
    code, _, output = run_cli("lint", "g.json", "--fix", "--for", "gemini")
    assert code == 0
    assert "no longer refused" in output
    (item,) = json.loads(path.read_text())["functionDeclarations"]
    assert item["parameters"]["properties"]["text"]["enum"] == ["a"]
    assert "additionalProperties" not in item["parameters"]


def test_fix_leaves_out_a_pattern_that_openai_refuses(run_cli: Typed, tmp_path: Path) -> None:
    """Of a tool that is not strict, which stays as open as it was."""
    texts = {"type": "string", "pattern": "^(?!a)b"}
    loose = {"type": "object", "properties": {"text": texts, "more": {"type": "string"}}}
    path = put(tmp_path, "t.json", chat(loose))
    code, out, output = run_cli("lint", "t.json", "--for", "openai_responses")
    assert (code, output) == (1, "")
    assert "refused: OpenAI (gpt-5.5 and later) does not accept a lookahead" in out
    code, _, output = run_cli("lint", "t.json", "--fix", "--for", "openai_responses")
    assert code == 0
    assert "could not keep: pattern is no longer checked at /properties/text." in output
    fixed = json.loads(path.read_text())["function"]["parameters"]
    assert fixed["properties"]["text"] == {
        "type": "string",
        "description": '(pattern: "^(?!a)b")',
    }
    assert fixed.keys() == loose.keys()


def test_fix_changes_nothing_where_nothing_was_asked_for(run_cli: Typed, tmp_path: Path) -> None:
    """A tool that is not strict is not made so, and a name is no schema."""
    path = put(tmp_path, "t.json", [{**SOUND, "parameters": OPEN}, {**SOUND, "name": "a.b"}])
    before = path.read_bytes()
    code, _, output = run_cli("lint", "t.json", "--fix")
    assert (code, output) == (1, "t.json: nothing to rewrite.\n")
    assert path.read_bytes() == before


def test_a_file_that_is_no_json_is_told_to_be_changed_by_hand(
    run_cli: Typed, tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    line = json.dumps(chat(OPEN, strict=True))
    path.write_text(f"{line}\n{line.replace('look_up', 'look_on')}\n")
    before = path.read_bytes()
    code, _, output = run_cli("lint", "t.jsonl", "--fix", "--for", "openai_chat")
    assert code == 1
    assert "only JSON files can be fixed" in output
    assert path.read_bytes() == before


def test_a_file_that_no_rewrite_changes_is_not_written(run_cli: Typed, tmp_path: Path) -> None:
    loop = {"$ref": "#/$defs/tree"}
    schema = {**CLOSED, "properties": {"text": loop}, "$defs": {"tree": {"items": loop}}}
    path = put(tmp_path, "t.json", {**SOUND, "parameters": schema}, 3)
    before = path.read_bytes()
    code, out, _ = run_cli("lint", "t.json", "--fix", "--for", "ollama")
    assert code == 0
    assert "drops `$ref`" in out
    assert path.read_bytes() == before
