"""What the simulator answers out of itself: greetings, arithmetic, and who it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from app.core.tools import Tool
from app.simulator import arithmetic
from app.simulator.plan import example

_WHO = (
    "I am the built-in simulator of this playground: a small program that speaks the provider's "
    "wire protocol, so that you can try tools without a key. "
)
_LINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"\b(?:who|what) (?:are|r) you|your name|are you (?:a|an|real|human|claude|gpt|chatgpt)|"
        r"what model",
        (_WHO + "I read your words, pick tools by them and fill in arguments. No neurons here.",),
    ),
    (
        r"what can you do|help me\b.*\?|^help$|how do(?:es)? (?:you|this) work",
        (
            "I can call the tools you give me, one or several at a time, and talk about what they "
            "return. For trouble, put a fault in the prompt, such as [[fault:error-mid]].",
        ),
    ),
    (r"\b(?:thanks|thank you|thx|cheers)\b", ("You are welcome!", "Any time.", "With pleasure.")),
    (r"\b(?:bye|goodbye|good night|see you)\b", ("See you!", "Goodbye, and happy testing.")),
    (
        r"\bjoke\b",
        (
            "A model walks into a bar and orders {} beers. The barkeeper: “Empty, noted.”",
            "Why did the tool call cross the stream? To get to the other delta.",
        ),
    ),
    (
        r"\b(?:hi|hello|hey|good (?:morning|afternoon|evening)|moin|hallo|salut|hola)\b",
        (
            "Hello! What shall we try?",
            "Hi there! Which tool shall we try?",
            "Hey! Ready when you are.",
        ),
    ),
    (r"how are you|how's it going", ("All my finite states are fine, thank you. And you?",)),
    (
        r"\bpoem|haiku\b",
        ("Bytes arrive in parts,\nthe call waits for your one click:\nnothing runs unseen.",),
    ),
    (r"meaning of life", ("42. I would show my work, but that needs a calculator tool.",)),
)


def small_talk(prompt: str, tools: Sequence[Tool], chance: Random) -> str:
    """An honest answer to a prompt that no tool answers."""
    expression = arithmetic.expression(prompt)
    worked = arithmetic.value(expression) if expression else ""
    if worked:
        return f"{expression} = {worked}."
    for pattern, lines in _LINES:
        if re.search(pattern, prompt, re.I):
            return chance.choice(lines)
    return _at_a_loss(prompt, tools)


def _at_a_loss(prompt: str, tools: Sequence[Tool]) -> str:
    asked = " ".join(prompt.split())
    about = f"“{asked[:80]}{'…' if len(asked) > 80 else ''}”"
    if not asked:
        return "I got no words to answer. " + _WHO.strip()
    if not tools:
        return (
            f"I am only the built-in simulator, so about {about} I know nothing of my own. "
            "Give me a tool and I will call it; or pick a profile with a real model."
        )
    names = ", ".join(tool.name for tool in tools[:6]) + (", …" if len(tools) > 6 else "")
    return (
        f"I am only the built-in simulator, and none of the tools here ({names}) seems to fit "
        f"{about}. Try for instance: “{example(tools[0])}”"
    )
