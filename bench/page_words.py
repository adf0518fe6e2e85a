"""Prints the sentences of the page that are too long, and the words that the page avoids.

    python -m bench.page_words [--all]

It reads the templates, the scripts, and the string literals of `web/` and `render/`. Of a
template's branches the longest is counted. `--all` prints every text, for an editor to read.
"""

import argparse
import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from jinja2 import Environment, nodes

ROOT = Path(__file__).resolve().parent.parent
PYTHON_FOLDERS = ("app/playground/web", "app/playground/render")
MOST_WORDS = 25
VALUE = "N"
"""The stand-in for a value that the page fills in."""

AVOIDED: Mapping[str, str] = {
    r"\b(un)?asked\b": "say who sent, received or approved what",
    r"\ball the same\b": "still",
    r"\bas (it|they) (came|was|were|is|are)\b": "unchanged, or as received",
    r"\bbears?\b": "has",
    r"\bbehind\b": "after, or in the background",
    r"\bbeside\b": "next to, or in parallel with",
    r"\bby itself\b": "automatically",
    r"\bcannot hold\b": "can't be enforced",
    r"\b(done|set) otherwise\b": "name the difference",
    r"\bgoes? along\b": "is included",
    r"\bhas left\b": "disconnected",
    r"(?<!ere )\bis no (?!longer)[a-z]": "is not a",
    r"\bis taken\b|\bare taken\b": "say what is accepted or used",
    r"\bmade up\b": "simulated",
    r"(?i)\bwhat is not (shown|sent|included)\b": "name what it is",
    r"\b(first byte|idle) (within|limit)\b": "first-byte timeout, idle timeout",
    r"\bmeets? (it|this|the)\b": "gets, or sees",
    r"\bmend\b": "fix",
    r"\bnone counts\b": "say what does not apply",
    r"\bone a line\b": "one per line",
    r"\bsaid\b": "say what it contains or reports",
    r"\bsigns of life\b": "keep-alives",
    r"\bstands?\b(?! for)": "is",
    r"\btells of\b": "describes",
    r"\bticked\b": "selected",
    r"\bto the (byte|letter)\b": "exactly",
}
"""Patterns of words of our own, which readers do not know, and what an engineer writes instead."""

INLINE = frozenset(
    (
        *("a", "abbr", "b", "bdi", "code", "del", "em", "i", "ins", "kbd", "mark"),
        *("output", "q", "s", "small", "span", "strong", "sub", "sup", "time", "u"),
    )
)
SHOWN_ATTRIBUTES = frozenset(
    ("title", "aria-label", "placeholder", "alt", "data-placeholder", "data-confirm", "content")
)
SENTENCE_END = re.compile(r"(?<=[.!?:;])[\"”’)]*\s+(?=[\"“‘(]*[A-Z])")
"""The space after a sentence. After an abbreviation a small letter or a digit follows."""
JS_COMMENT = re.compile(r"(?:^|(?<=\s))//\s.*$|(?s:/\*.*?\*/)", re.MULTILINE)
JS_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`' + r"|'((?:[^'\\\n]|\\.)*)'")
JS_VALUE = re.compile(r"\$\{[^{}]*\}")
HTML_TAG = re.compile(r"</?[a-z][a-z0-9]*[ >]")
WORD = re.compile(r"[^\W_][\w’'.,/-]*|\d+")


@dataclass(frozen=True)
class Text:
    path: str
    line: int
    words: str


def word_count(text: str) -> int:
    return len(WORD.findall(text))


def sentences(text: str) -> list[str]:
    return [part for part in SENTENCE_END.split(" ".join(text.split())) if part]


def longest(texts: Iterable[str]) -> str:
    return max(texts, key=word_count, default="")


class PageText(HTMLParser):
    """The texts of a piece of HTML: one for each block and each attribute that is shown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.open = ""
        self.skipped = ""

    def end_block(self) -> None:
        self.texts.append(self.open)
        self.open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in INLINE:
            self.end_block()
        if tag in ("script", "style", "svg"):
            self.skipped = tag
        for name, value in attrs:
            if name in SHOWN_ATTRIBUTES and value and tag != "meta":
                self.texts.append(value)

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE:
            self.end_block()
        if tag == self.skipped:
            self.skipped = ""

    def handle_data(self, data: str) -> None:
        if not self.skipped:
            self.open += data


def html_texts(html: str) -> list[str]:
    parser = PageText()
    parser.feed(html.replace("<![", "&lt;!["))  # a regular expression, not a section of SGML
    parser.close()
    parser.end_block()
    return parser.texts


class TemplateText:
    """A template as HTML in which the longest of each choice is taken, and the others apart."""

    def __init__(self) -> None:
        self.others: list[str] = []

    def choose(self, texts: list[str]) -> str:
        chosen = longest(texts)
        self.others += [text for text in texts if text is not chosen]
        return chosen

    def body(self, statements: Iterable[nodes.Node]) -> str:
        return "".join(self.statement(statement) for statement in statements)

    def statement(self, node: nodes.Node) -> str:
        match node:
            case nodes.TemplateData():
                return node.data
            case nodes.Output():
                return "".join(
                    self.statement(part)
                    if isinstance(part, nodes.TemplateData)
                    else self.value(part)
                    for part in node.nodes
                )
            case nodes.If():
                branches = [self.body(node.body), self.body(node.else_)]
                branches += [self.body(other.body) for other in node.elif_]
                self.literals(node.test)
                return self.choose(branches)
            case nodes.For():
                self.literals(node.iter)
                self.others.append(self.body(node.else_))
                return self.body(node.body)
            case nodes.Assign() | nodes.AssignBlock() | nodes.Macro() | nodes.CallBlock():
                if isinstance(node, nodes.Assign):
                    self.literals(node.node)
                else:
                    self.others.append(self.body(node.body))
                if isinstance(node, nodes.CallBlock):
                    self.literals(node.call)
                return ""
            case nodes.Include() | nodes.Import() | nodes.FromImport() | nodes.Extends():
                return ""
            case _ if hasattr(node, "body"):
                return self.body(node.body)
            case _:
                return ""

    def literals(self, node: nodes.Node) -> None:
        self.others += [
            const.value for const in node.find_all(nodes.Const) if isinstance(const.value, str)
        ]
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            self.others.append(node.value)

    def value(self, node: nodes.Node) -> str:
        """What an expression prints: its own words where it is a literal, else a stand-in."""
        match node:
            case nodes.Const():
                return str(node.value)
            case nodes.CondExpr():
                other = self.value(node.expr2) if node.expr2 is not None else ""
                return self.choose([self.value(node.expr1), other])
            case nodes.Concat():
                return "".join(self.value(part) for part in node.nodes)
            case nodes.Add():
                return self.value(node.left) + self.value(node.right)
            case nodes.Or() | nodes.And():
                return self.choose([self.value(node.left), self.value(node.right)])
            case nodes.Filter() if node.node is not None and node.name in (
                "format",
                "safe",
                "upper",
            ):
                return self.value(node.node)
            case _:
                self.literals(node)
                return VALUE


def template_texts(root: Path = ROOT) -> Iterator[Text]:
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    for path in sorted((root / "templates").glob("**/*.html")):
        name = str(path.relative_to(root))
        reader = TemplateText()
        pieces = [reader.body(environment.parse(path.read_text()).body)]
        for piece in pieces + reader.others:
            for text in html_texts(piece):
                yield Text(name, 0, " ".join(text.split()))


def script_texts(root: Path = ROOT) -> Iterator[Text]:
    for path in sorted((root / "static").glob("*.js")):
        source = JS_COMMENT.sub(lambda matches: "\n" * matches[0].count("\n"), path.read_text())
        for match in JS_STRING.finditer(source):
            text = JS_VALUE.sub(
                VALUE, next(group for group in (*match.groups(), "") if group is not None)
            )
            line = source.count("\n", 0, match.start()) + 1
            for part in html_texts(text) if HTML_TAG.search(text) else [text]:
                yield Text(str(path.relative_to(root)), line, " ".join(part.split()))


def literal_text(node: ast.expr) -> str | None:
    """A string literal with its insertions as stand-ins, the longest where there is a choice."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr():
            return "".join(literal_text(part) or VALUE for part in node.values)
        case ast.FormattedValue():
            return literal_text(node.value)
        case ast.BinOp(op=ast.Add()):
            left, right = literal_text(node.left), literal_text(node.right)
            if left is None and right is None:
                return None
            return (left or VALUE) + (right or VALUE)
        case ast.IfExp():
            texts = [
                text for text in map(literal_text, (node.body, node.orelse)) if text is not None
            ]
            return longest(texts) if texts else None
    return None


def python_texts(root: Path = ROOT) -> Iterator[Text]:
    for folder in PYTHON_FOLDERS:
        for path in sorted((root / folder).glob("**/*.py")):
            yield from file_texts(path, root)


def file_texts(path: Path, root: Path) -> Iterator[Text]:
    tree = ast.parse(path.read_text())
    visited: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            visited.update(ast.walk(node))  # a docstring, or the note below a constant
        if not isinstance(node, ast.expr) or node in visited:
            continue
        text = literal_text(node)
        if text is None:
            continue
        if not isinstance(node, ast.IfExp):
            visited.update(ast.walk(node))
        for part in html_texts(text) if HTML_TAG.search(text) else [text]:
            yield Text(str(path.relative_to(root)), node.lineno, " ".join(part.split()))


def page_texts(root: Path = ROOT) -> list[Text]:
    """Every text of two or more words that the page may show, in the order of its file."""
    texts = [*template_texts(root), *script_texts(root), *python_texts(root)]
    return [text for text in dict.fromkeys(texts) if re.search(r"[A-Za-z]{2,}", text.words)]


def long_sentences(root: Path = ROOT) -> list[Text]:
    return [
        Text(text.path, text.line, sentence)
        for text in page_texts(root)
        for sentence in sentences(text.words)
        if word_count(sentence) > MOST_WORDS
    ]


def avoided_words(root: Path = ROOT) -> list[tuple[Text, str]]:
    return [
        (text, f"{pattern}: {instead}")
        for text in page_texts(root)
        for pattern, instead in AVOIDED.items()
        if " " in text.words and re.search(pattern, text.words)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="print every text")
    options = parser.parse_args()
    if options.all:
        for text in page_texts():
            print(f"{text.path}:{text.line}: {text.words}")
        return
    for text in long_sentences():
        print(f"{text.path}:{text.line}: {word_count(text.words)} words: {text.words}")
    for text, why in avoided_words():
        print(f"{text.path}:{text.line}: {why}: {text.words}")


if __name__ == "__main__":
    main()
