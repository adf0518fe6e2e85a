"""What is chosen and filled for prompts that people would try."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from playground.core.messages import MessagePart
from playground.core.tools import Tool
from playground.executors.examples import EXAMPLES
from playground.simulator.plan import clauses, enumerations, find_values, forced_call, planned_calls
from playground.web.demos import ASK_COLLEAGUE, DEMOS
from tests.simulator.factories import DAY, INT, SHELF, TWO, B, N, S, one_of, some, tool

Call = tuple[str, dict[str, Any]]

PROMPTS: list[tuple[str, list[Call]]] = [
    (
        "What is 17*23, and the weather in Paris?",
        [("calculator", {"expression": "17*23"}), ("get_weather", {"city": "Paris"})],
    ),
    ("Now: Weather in Paris", [("get_weather", {"city": "Paris"})]),
    ("weather in são paulo please", [("get_weather", {"city": "são paulo"})]),
    (
        "Weather in Paris, Rome and in New York in fahrenheit",
        [
            ("get_weather", {"city": city, "unit": "fahrenheit"})
            for city in ("Paris", "Rome", "New York")
        ],
    ),
    (
        "The weather in Rome? And the weather in Berlin?",
        [("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Berlin"})],
    ),
    (
        "I'm flying to Tokyo tomorrow. What's the weather there?",
        [("get_weather", {"city": "Tokyo"})],
    ),
    ("Search for ramen in Kyoto", [("web_search", {"query": "ramen in Kyoto"})]),
    (
        "Convert 250 from 'USD' to 'EUR' in the currency converter",
        [("convert_currency", {"amount": 250, "from_currency": "USD", "to_currency": "EUR"})],
    ),
    ("Set a timer for 90 seconds", [("set_timer", {"seconds": 90})]),
    (
        "Translate 'good morning' to French and German",
        [
            ("translate", {"text": "good morning", "target_language": "French"}),
            ("translate", {"text": "good morning", "target_language": "German"}),
        ],
    ),
    (
        "Turn off the lights in the living room",
        [("set_lights", {"room": "living room", "on": False})],
    ),
    (
        "Dim the bedroom lights to 30%",
        [("set_lights", {"room": "bedroom", "on": True, "brightness": 30})],
    ),
    (
        "Find business flights from Berlin to San Francisco on 2026-11-27 for 2",
        [
            (
                "search_flights",
                {
                    "origin": "Berlin",
                    "destination": "San Francisco",
                    "date": "2026-11-27",
                    "passengers": 2,
                    "cabin": "business",
                },
            )
        ],
    ),
    ("Where is my order #8841?", [("get_order_status", {"order_id": "8841"})]),
    (
        "Add 'buy milk' to my todo list with high priority",
        [("add_todo", {"task": "buy milk", "priority": "high"})],
    ),
    ("Read notes/todo.txt and summarize it", [("read_file", {"path": "notes/todo.txt"})]),
    (
        'Send the message "I\'m late" to Anna',
        [("send_message", {"recipient": "Anna", "text": "I'm late"})],
    ),
    ("Summarize https://example.com/a", [("fetch_url", {"url": "https://example.com/a"})]),
    (
        "Add 'milk', 'eggs' and 'bread' to my cart",
        [("add_to_cart", {"items": ["milk", "eggs", "bread"]})],
    ),
    (
        "Email anna@example.org 'Launch' and 'We ship', search for sushi, "
        "then set a timer for 10 seconds",
        [
            ("send_email", {"to": "anna@example.org", "subject": "Launch", "body": "We ship"}),
            ("web_search", {"query": "sushi"}),
            ("set_timer", {"seconds": 10}),
        ],
    ),
    ("Hello!", []),
    ("Thanks, that was great", []),
    ("Who are you?", []),
]

DEMO_CALLS: dict[str, list[Call]] = {
    "two-calls": PROMPTS[0][1],
    "progress": [("slow_report", {"topic": "tides"})],
    "wrong-types": [("get_weather", {"city": "Oslo"})],
    "failing": [("flaky_lookup", {"record_id": "4711"})],
    "colleague": [
        ("ask_colleague", {"name": "Maria", "question": "Shall we ship on Friday?"}),
        ("get_weather", {"city": "Lisbon"}),
    ],
}


def planned(
    prompt: str, tools: tuple[Tool, ...] = SHELF, last: MessagePart | None = None
) -> list[Call]:
    calls = planned_calls(prompt, tools, last)
    for call in calls:
        jsonschema_rs.validate(dict(call.tool.parameters), dict(call.arguments))
    return [(call.tool.name, dict(call.arguments)) for call in calls]


@pytest.mark.parametrize(("prompt", "calls"), PROMPTS, ids=[prompt[:40] for prompt, _ in PROMPTS])
def test_a_prompt_becomes_the_calls_a_person_would_expect(prompt: str, calls: list[Call]) -> None:
    assert planned(prompt) == calls


def test_each_demo_makes_its_calls() -> None:
    """With its own tools, and with all the examples beside."""
    by_name = {tool.name: tool for tool in (*EXAMPLES, ASK_COLLEAGUE)}
    for demo in DEMOS:
        if demo.name not in DEMO_CALLS:
            continue  # tests/web/test_demos.py
        prompt = demo.prompt.partition(" [[fault:")[0]
        own = (*(by_name[name] for name in demo.tools), *demo.own)
        for tools in (own, tuple(by_name.values())):
            assert planned(prompt, tools) == DEMO_CALLS[demo.name]


def test_a_follow_up_takes_the_last_tool_and_keeps_what_is_not_said() -> None:
    last = MessagePart("call", '{"city": "Paris", "unit": "celsius"}', "get_weather")
    calls = [("get_weather", {"city": "Berlin", "unit": "celsius"})]
    assert planned("And in Berlin?", TWO, last) == calls
    assert planned("And now?", TWO, last) == []


@pytest.mark.parametrize(
    ("prompt", "name", "a", "b"),
    [
        ("What is 17*23?", "multiply", 17, 23),
        ("add 2 and 3", "add", 2, 3),
        ("10 - 4", "subtract", 10, 4),
        ("divide 100 by 8", "divide", 100, 8),
    ],
)
def test_an_expression_chooses_the_tool_of_its_sign(prompt: str, name: str, a: int, b: int) -> None:
    tools = tuple(
        tool(name, f"{name} two numbers", "a b", a=INT, b=INT)
        for name in ("add", "subtract", "multiply", "divide")
    )
    assert planned(prompt, tools) == [(name, {"a": a, "b": b})]


def test_types_enums_formats_and_what_is_nested_follow_the_schema() -> None:
    book = tool(
        "book_trip",
        "Book a trip.",
        "title guests class dates contact",
        title=S,
        guests={"type": "integer", "maximum": 4},
        **{"class": one_of("economy", "first")},
        dates=some(DAY),
        budgets=some(N),
        contact={
            "type": "object",
            "properties": {"email": {"type": "string", "format": "email"}, "vip": B},
            "required": ["email", "vip"],
        },
        extra={"type": "object", "properties": {"url": {"type": "string", "format": "uri"}}},
    )
    [(_, given)] = planned(
        "Book the first class trip 'Alps' for 3 on 2026-05-01 and 2026-05-09, write to a@b.org",
        (book,),
    )
    assert given == {
        "title": "Alps",
        "guests": 3,
        "class": "first",
        "dates": ["2026-05-01", "2026-05-09"],
        "contact": {"email": "a@b.org", "vip": True},
    }


def test_where_nothing_was_said_the_schema_speaks() -> None:
    quiet = tool(
        "make_report",
        "Make a report.",
        "format pages author team tags nested",
        format={"type": "string", "default": "pdf"},
        pages={"type": "integer", "examples": [12]},
        author={"$ref": "#/$defs/author"},
        team={"anyOf": [{"type": "null"}, {"enum": ["red", "blue"]}]},
        tags=some(S),
        nested={"type": "object", "properties": {"x": INT}, "required": ["x"]},
        optional=S,
    )
    schema = {**quiet.parameters, "$defs": {"author": {"type": "string", "minLength": 3}}}
    [(_, given)] = planned("Make a report", (Tool(quiet.name, quiet.description, schema),))
    assert (given["format"], given["pages"]) == ("pdf", 12)
    assert "optional" not in given


def test_a_forced_call_takes_the_best_tool_there_is() -> None:
    assert forced_call("Paris", TWO).tool.name == "calculator"
    assert forced_call("weather in Oslo", TWO).arguments == {"city": "Oslo"}


def test_clauses_joined_are_the_prompt_and_quotes_stay_whole() -> None:
    prompt = "Say 'this, and that' to Bob, and then search for x. Also roll dice"
    assert "".join(clauses(prompt)) == prompt
    assert "'this, and that'" in clauses(prompt)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("say 'hi' and “ho” but don't", ["quote hi", "quote ho"]),
        ("see https://example.com/a?b=c.", ["url https://example.com/a?b=c"]),
        ("to a.b+c@example.co.uk.", ["email a.b+c@example.co.uk"]),
        ("open notes/todo.txt or ~/x and/or", ["path notes/todo.txt", "path ~/x"]),
        ("on 2026-11-21, 3 times", ["date 2026-11-21", "number 3"]),
        ("about 1,250.5 or -4%", ["number 1,250.5", "number -4"]),
        ("(is (3 + 4) * 2?)", ["sum (3 + 4) * 2"]),
        ("(it is 3 + 4)", ["sum 3 + 4"]),
        ("what is 2^10 - sqrt(9)", ["sum 2^10 - sqrt(9)"]),
        ("#42 and ABC-7", ["code 42", "code ABC-7"]),
        ("Where does Anna live? In New York", ["name Anna", "name New York"]),
        ("In Café Central, please", ["name Café Central"]),
    ],
)
def test_the_values_of_a_text(text: str, expected: list[str]) -> None:
    assert [f"{find.kind} {find.text}" for find in find_values(text)] == expected


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("in Paris, London and New York", [["Paris", "London", "New York"]]),
        ("in Paris, in Rome and also in Oslo", [["Paris", "Rome", "Oslo"]]),
        ("from Paris to Rome", []),
    ],
)
def test_names_that_are_listed_together(text: str, listed: list[list[str]]) -> None:
    assert [[find.text for find in group] for group in enumerations(text)] == listed


def make_tool(name: str, **properties: dict[str, Any]) -> Tool:
    properties = properties or {"city": S}
    return tool(name, "", " ".join(properties), **properties)


@pytest.mark.parametrize(
    ("prompt", "names", "calls"),
    [
        ("Call tool_8 for Paris", "tool_7 tool_8", "tool_8"),
        ("Please use f.", "e f", "f"),
        ("Call a for Paris", "b a", "a"),
        ("Call `a` for Paris", "b a", "a"),
        ("Try the list tool for Paris", "look list", "list"),
        ("Call the function get_town for Paris", "get_city get_town", "get_town"),
        ("Use `get_weather_v2` for Paris.", "get_weather get_weather_v2", "get_weather_v2"),
        ("get_weather_v2 for Paris.", "get_weather get_weather_v2", "get_weather_v2"),
        ("Use get_weather for Paris.", "get_weather_v2 get_weather", "get_weather"),
        ("get weather in Paris", "weather_history get_weather", "get_weather"),
        ("Get-Weather for Paris", "weather_history getWeather", "getWeather"),
        ("getWeather for Paris", "get_weather getWeather", "getWeather"),
        ("GET_WEATHER for Paris", "weather get_weather", "get_weather"),
        ('get_weather(city="Paris")', "weather get_weather", "get_weather"),
        ("use mcp__a__get for Paris", "mcp__b__get mcp__a__get", "mcp__a__get"),
        ("What's the weather in Paris? Use api_2.", "get_weather api_2", "api_2"),
        ("Use api_2. What's the weather in Paris?", "get_weather api_2", "api_2"),
        ("Call get_weather and get_time for Paris", "get_time get_weather", "get_weather get_time"),
        ("Don't use api_1; use api_2 for Paris", "api_1 api_2", "api_2"),
        ("Weather in Paris without get_weather", "get_weather", ""),
        ("Search and replace in Paris", "replace search_and_replace", "search_and_replace"),
        # Words of a sentence are no names, and what fits by its words comes as before.
        ("Look up the weather in Paris", "look_up get_weather", "get_weather"),
        ("What a weather in Paris!", "a get_weather", "get_weather"),
        ("How is the weather in Paris?", "weather_map get_weather", "weather_map"),
        ("Use the api_2 tool to get weather in Paris", "get_weather api_2", "api_2"),
    ],
)
def test_a_tool_that_the_prompt_names_is_called(prompt: str, names: str, calls: str) -> None:
    rows = planned(prompt, tuple(map(make_tool, names.split())))
    assert [name for name, _ in rows] == calls.split()
    if "Paris" in prompt:
        assert all(arguments == {"city": "Paris"} for _, arguments in rows)


def test_the_name_of_a_tool_is_no_argument() -> None:
    [(_, arguments)] = planned("Use `save_text` with 'hello'", (make_tool("save_text", text=S),))
    assert arguments == {"text": "hello"}


def test_a_forced_call_is_of_the_tool_that_the_prompt_names() -> None:
    tools = (make_tool("get_weather"), make_tool("api_2"))
    assert forced_call("Weather in Paris by api_2", tools).tool.name == "api_2"
