"""The one-click demos of the first minute: each a real session on the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.tools import Tool


@dataclass(frozen=True)
class Demo:
    """`tools` are names of the library; `own` are tools that come with the demo alone."""

    name: str
    title: str
    words: str
    prompt: str
    tools: tuple[str, ...] = ()
    own: tuple[Tool, ...] = ()


ASK_COLLEAGUE = Tool(
    "ask_colleague",
    "Ask a colleague a question and wait for the answer. Use it for opinions and approvals.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who is asked, for example Maria."},
            "question": {"type": "string", "description": "The question, in one sentence."},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    answered_by="person",
)

DEMOS: tuple[Demo, ...] = (
    Demo(
        "two-calls",
        "Two calls at once",
        "A calculator and a weather service. Run one, answer the other by hand.",
        "What is 17*23, and the weather in Paris?",
        ("calculator", "get_weather"),
    ),
    Demo(
        "progress",
        "A slow tool, step by step",
        "Watch a report being written for some seconds; cancel it if you like.",
        "Write a slow report about tides, please.",
        ("slow_report",),
    ),
    Demo(
        "wrong-types",
        "Arguments that do not fit",
        "The model sends a number where a text is wanted. Fix it with a click, or run it anyway.",
        "What is the weather in Oslo? [[fault:args-wrong-types]]",
        ("get_weather",),
    ),
    Demo(
        "failing",
        "A tool that fails",
        "The lookup raises an error; the model reads it and goes on.",
        "Look up the customer number 4711 in the flaky directory.",
        ("flaky_lookup",),
    ),
    Demo(
        "colleague",
        "You are the tool",
        "A call that only a person can answer, beside one that runs.",
        'Ask Maria "Shall we ship on Friday?" and tell me the weather in Lisbon.',
        ("get_weather",),
        (ASK_COLLEAGUE,),
    ),
)


def demo(name: str) -> Demo | None:
    """The demo of that name."""
    return next((one for one in DEMOS if one.name == name), None)
