"""Arithmetic in prompts."""

from __future__ import annotations

from app.simulator.fake_model.entities import evaluate, expression, operation
from tests.tables import each_row


@each_row(
    ("text", "found", "worth"),
    [
        ("What is 17*23, and the weather?", "17*23", "391"),
        ("15% of 80", "15 / 100 * 80", "12"),
        ("12 times 4 plus 2?", "12 * 4 + 2", "50"),
        ("(3 + 4) * 2 please", "(3 + 4) * 2", "14"),
        ("the square root of 144", "144 ** 0.5", "12"),
        ("1,250.50 + 3", "1,250.50 + 3", "1253.5"),
        ("2^10", "2^10", "1024"),
        ("3 x 4", "3 * 4", "12"),
        ("10 ÷ 4", "10 ÷ 4", "2.5"),
        ("meet on 2026-11-21", "", ""),
        ("call +1-555-0100", "", ""),
        ("a 9 to 5 job", "", ""),
    ],
)
def test_what_is_found_and_what_it_comes_to(text: str, found: str, worth: str) -> None:
    assert expression(text) == found
    assert evaluate(found) == worth


@each_row("text", ["1/0", "9**9**9**9", "__import__('os')", "", "1e999*10", "(" * 99])
def test_what_cannot_be_worked_out_is_empty(text: str) -> None:
    assert evaluate(text) == ""


def test_the_sign_says_the_operation() -> None:
    assert [operation(t) for t in ("1+2", "1-2", "1*2", "1/2", "1+2*3", "x")] == [
        "add",
        "subtract",
        "multiply",
        "divide",
        "",
        "",
    ]
