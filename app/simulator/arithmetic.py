"""Arithmetic in a prompt: where it stands, how it is written as an expression, what it comes to.

Evaluation walks the syntax tree of plain numbers and operators; nothing is ever executed.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable

_NUMBER = r"(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_OPERAND = rf"(?:sqrt\s*\([^()]*\)|[-+]?\({{0,4}}{_NUMBER}\s{{0,3}}%?\){{0,4}})"
_OPERATOR = r"(?:\*\*|[-+*/×÷^−]|//)"
_CHAIN = re.compile(
    rf"\({{0,4}}{_OPERAND}(?:\s{{0,3}}{_OPERATOR}\s{{0,3}}\({{0,4}}{_OPERAND})+\){{0,4}}"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{2,4}|\+?\d{1,4}-\d{3,4}-\d{3,4}")

_SPOKEN: tuple[tuple[str, str], ...] = (
    (rf"({_NUMBER})\s*(?:%|percent)\s+of\s+({_NUMBER})", r"\1 / 100 * \2"),
    (rf"(?:the\s+)?square root of\s+({_NUMBER})", r"\1 ** 0.5"),
    (rf"({_NUMBER})\s+squared", r"\1 ** 2"),
    (rf"({_NUMBER})\s+cubed", r"\1 ** 3"),
    (rf"({_NUMBER})\s+to the power of\s+({_NUMBER})", r"\1 ** \2"),
    (rf"(?:the\s+)?sum of\s+({_NUMBER})\s+and\s+({_NUMBER})", r"\1 + \2"),
    (rf"(?:the\s+)?product of\s+({_NUMBER})\s+and\s+({_NUMBER})", r"\1 * \2"),
    (rf"(?:the\s+)?difference (?:of|between)\s+({_NUMBER})\s+and\s+({_NUMBER})", r"\1 - \2"),
    (rf"\badd\s+({_NUMBER})\s+(?:and|to)\s+({_NUMBER})", r"\1 + \2"),
    (rf"\bsubtract\s+({_NUMBER})\s+from\s+({_NUMBER})", r"\2 - \1"),
    (rf"\bmultiply\s+({_NUMBER})\s+(?:by|and|with)\s+({_NUMBER})", r"\1 * \2"),
    (rf"\bdivide\s+({_NUMBER})\s+by\s+({_NUMBER})", r"\1 / \2"),
    (rf"({_NUMBER})\s+(?:times|multiplied by|x)\s+(?={_NUMBER})", r"\1 * "),
    (rf"({_NUMBER})\s+plus\s+(?={_NUMBER})", r"\1 + "),
    (rf"({_NUMBER})\s+minus\s+(?={_NUMBER})", r"\1 - "),
    (rf"({_NUMBER})\s+divided by\s+(?={_NUMBER})", r"\1 / "),
)

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def spoken(text: str) -> str:
    """`text` with arithmetic in words written in signs: "2 times 3" -> "2 * 3"."""
    for pattern, signs in _SPOKEN:
        text = re.sub(pattern, signs, text, flags=re.IGNORECASE)
    return text


def expression(text: str) -> str:
    """The longest arithmetic expression of a prompt, as written, or ""."""
    chains = [found.group().strip() for found in _CHAIN.finditer(_DATE.sub(" ", spoken(text)))]
    chains = [_balanced(chain) for chain in chains]
    return max(chains, key=len, default="")


def _balanced(chain: str) -> str:
    """A chain that took a bracket too many from the sentence around it, without it."""
    while chain.count("(") > chain.count(")") and chain.startswith("("):
        chain = chain[1:].lstrip()
    while chain.count(")") > chain.count("(") and chain.endswith(")"):
        chain = chain[:-1].rstrip()
    return chain


def operation(text: str) -> str:
    """`add`, `subtract`, `multiply` or `divide` where `text` holds one such expression, or ""."""
    match list(set(re.findall(r"[-+*/×÷−]+", expression(text)))):
        case ["+"]:
            return "add"
        case ["-"] | ["−"]:
            return "subtract"
        case ["*"] | ["×"]:
            return "multiply"
        case ["/"] | ["÷"]:
            return "divide"
        case _:
            return ""


def value(text: str) -> str:
    """What an expression comes to, as a person writes it; "" where it is not arithmetic."""
    plain = text.replace(",", "").replace("×", "*").replace("÷", "/").replace("−", "-")
    plain = re.sub(r"(\d)\s*%", r"\1 / 100", plain.replace("^", "**"))
    try:
        number = _number(ast.parse(plain.strip(), mode="eval").body)
        return _written(number)
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, TypeError, MemoryError):
        return ""


def _written(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    if not math.isfinite(number):
        raise ArithmeticError
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:.10g}"


def _number(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _number(operand)
        case ast.Call(func=ast.Name(id="sqrt"), args=[operand]):
            return math.sqrt(_number(operand))
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _number(left), _number(right)
            if isinstance(op, ast.Pow) and (abs(first) > 1e6 or abs(second) > 64):
                raise ValueError("too large to be worked out here")
            return _OPERATIONS[type(op)](first, second)
        case _:
            raise ValueError("not arithmetic")
