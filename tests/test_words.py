"""Phrases that readers stumble over do not come back into sentences of the program.

Each row has a pattern and the plain word to use instead. The rule runs over the string literals of
`app/playground` that are more than one word: errors, help texts, notes and printed lines.
Docstrings and comments are for developers and are not checked here.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "app/playground"

AVOIDED = (
    (r"(?<![Tt]here )\b(?:is|are) no (?!longer\b)", "is not a, has no"),
    (r"\b[Mm]end(?:s|ed)?\b", "fix"),
    (r"\bsigns of life\b", "keep-alives"),
    (r"\bst(?:ands?|ood)\b(?! for)", "is, comes, occurs"),
    (r"\b(?:bears?|bore)\b", "has"),
    (r"\bt(?:ells?|old) of\b", "reports"),
    (r"\bmeets?\b(?!ing)", "gets"),
    (r"\bof these\b(?! answers| is E9)", "of them, or the noun"),
    (r"\bamong them\b", "with, including"),
    (r"\bbeside\b(?! \(an agent's|\})", "next to, with"),
    (r"\bbehind (?!it\b)", "after"),
    (r"\bcannot hold\b", "can't be enforced, cannot contain"),
    (r"\b(?:go(?:es)?|went|gone|going) on\b", "continue"),
    (r"\bone an? (?:line|file|row)\b", "one per line"),
    (r"\bno words? for\b", "cannot express"),
    (r"\bhas no equal\b", "is not supported"),
    (r"\bnot speak\b", "does not use, does not support"),
    (r"\btakes (?:no|one|only|names|letters|lists|texts?)\b", "accepts"),
    (r"\b(?:all the same|anew)\b", "still, again"),
    (r"\b(?:un)?sound\b", "valid, invalid"),
    (r"\bunder way\b", "running, arriving"),
    (r"\b[Ww]hoever\b", "anyone who"),
    (r"\b(?:looks?|looked) (?:at|twice|for)\b", "check, search"),
    (r"; there (?:is|are) \{", "Choose from …"),
    (r"\b(?:nothing|something) but\b", "only"),
    (r"\ba word of\b|\bwords of its own\b", "text, option, value"),
    (r"\bby (?:the|its|their|\w+'s)(?: \w+)? API\b", "through the API"),
    (r"\bthe words of a prompt\b|\bthe prompt's words\b", "words in the prompt"),
    (r"\bplays? (?:the |a )?faults?\b", "simulates"),
    (r"\bto the (?:byte|letter)\b", "exactly, byte for byte"),
    (r"\basks? nobody\b|\b[Nn]obody answers\b", "sends no request, you answer it by hand"),
    (r"\bTo have it \w+ed\b|\bTo have it run\b", "To run it"),
    (r"\bare the sample\b", "The sample is …"),
    (r"\bIntervals are (?:of )?95 %\.", "95 % confidence intervals"),
    (r"\bsay nothing about\b", "could not be compared"),
    (r", and should not be; with\b", "should not be called, but was called with"),
    (r"\b(?:a )?made[- ]up result\b(?! of)", "a simulated result"),
)

# A message to the model: requests of old sessions must stay the same when they are sent again.
KEPT = ("[Task {}, which went on in the background, is over: ",)
SQL = re.compile(r"\b(?:SELECT|INSERT INTO|UPDATE|CREATE TABLE)\b")
PAGE = ("web", "render")  # the texts of the page are in templates, too
# Rules are bound to the content of this file, and to the descriptions of the workspace tools ("of
# these is E9"): a change would make them ask again.
BOUND = ("executors/example_tools.py",)

MODULES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] not in PAGE
    and path.relative_to(PACKAGE).as_posix() not in BOUND
)


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each string literal of several words, with {} for what is filled in."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))  # a docstring
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=values):
                parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in values)
                text = "".join(map(str, parts))
            case ast.Constant(value=str(text)) if id(node) not in skipped:
                pass
            case _:
                continue
        if len(text.split()) > 2 and text not in KEPT and not SQL.search(text):
            yield node.lineno, text


def avoided(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, phrase, what to write instead) of each avoided phrase in the sentences of `source`."""
    for line, text in sentences(source):
        for pattern, instead in AVOIDED:
            if match := re.search(pattern, text):
                yield line, match[0], instead


def test_no_sentence_has_an_avoided_phrase() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}; write: {instead}"
        for path in MODULES
        for line, phrase, instead in avoided(path.read_text("utf-8"))
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "sentence",
    [
        "{path} is no JSON.",
        "Please mend it.",
        "The provider sent nothing but signs of life.",
        "The name stands twice.",
        "A part bears no name.",
        "An end that tells of failure.",
        "The agent meets this call later.",
        "None of these fits.",
        "Calls, and among them two reads.",
        "It is a file beside the database.",
        "An event behind the recordings.",
        "The limit cannot hold.",
        "The run does not go on.",
        "Print the events, one a line.",
        "Gemini has no word for it.",
        "The assertion has no equal.",
        "It does not speak HTTP.",
        "Anthropic takes no such tool.",
        "It is refused all the same.",
        "The JSON is not sound.",
        "An answer is under way.",
        "Whoever reaches it can use it.",
        "The card changed; look at it again.",
        "There is no tool {name}; there is {known}.",
        "A fault with words of its own.",
        "Models on this machine, by Ollama's own API.",
        "Calls tools by the words of a prompt.",
        "It answers at once and plays faults.",
        "Every request as a command, to the byte.",
        "The file asks nobody for anything.",
        "Nobody answers it yet: choose an executor.",
        "To have it run, name its path.",
        "For this prompt only: the runs are the sample.",
        "Over 12 cases. Intervals are of 95 %.",
        "More than 5 % of the pairs say nothing about the model.",
        "{name} was called, and should not be; with {arguments}.",
        "It is a mock with a made-up result.",
    ],
)
def test_avoided_phrase_when_written_again_is_found(sentence: str) -> None:
    assert list(avoided(f"raise BadInput(f{sentence!r})"))


def test_docstrings_and_plain_sentences_are_not_refused() -> None:
    source = """
        def run():
            '''A docstring may stand behind a name.'''
            raise BadInput("There is no session 5. It is no longer running.")
    """
    assert not list(avoided(textwrap.dedent(source)))
