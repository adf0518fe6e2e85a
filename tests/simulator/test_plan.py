"""What is chosen and filled for prompts that people would try."""

from __future__ import annotations

from typing import Any

from app.core.tools import Tool
from app.executors.examples import EXAMPLES
from app.simulator.fake_model.plan import Background, clauses, forced_call, planned_calls
from tests.simulator.factories import INT, SHELF, TODAY, TWO, S, one_of, some, tool
from tests.tables import each_row

Call = tuple[str, dict[str, Any]]


def planned(prompt: str, tools: tuple[Tool, ...] = SHELF, **before: Any) -> list[Call]:
    found = planned_calls(prompt, tools, Background(**before), TODAY)
    return [(one.tool.name, dict(one.arguments)) for one in found]


PROMPTS: list[tuple[str, list[Call]]] = [
    (
        "What is 17*23, and the weather in Paris?",
        [("calculator", {"expression": "17*23"}), ("get_weather", {"city": "Paris"})],
    ),
    (
        "weather in paris and london tomorrow, in fahrenheit please",
        [
            ("get_weather", {"city": "Paris", "unit": "fahrenheit"}),
            ("get_weather", {"city": "London", "unit": "fahrenheit"}),
        ],
    ),
    ("Do I need an umbrella in Oslo?", [("get_weather", {"city": "Oslo"})]),
    (
        "Is it warmer in Madrid or Lisbon?",
        [("get_weather", {"city": "Madrid"}), ("get_weather", {"city": "Lisbon"})],
    ),
    (
        "I'm flying to Tokyo tomorrow. What's the weather there?",
        [("get_weather", {"city": "Tokyo"})],
    ),
    ("What is 15% of 80?", [("calculator", {"expression": "15 / 100 * 80"})]),
    (
        "what's 12 times 12 and what time is it in New York",
        [
            ("calculator", {"expression": "12 * 12"}),
            ("get_time", {"timezone": "America/New_York"}),
        ],
    ),
    (
        "Send an email to bob@example.com about the launch saying we ship on Friday",
        [
            (
                "send_email",
                {"to": "bob@example.com", "subject": "the launch", "body": "we ship on Friday"},
            )
        ],
    ),
    ("Search for the best ramen in Kyoto", [("web_search", {"query": "the best ramen in Kyoto"})]),
    (
        "Who won the world cup in 2022?",
        [("web_search", {"query": "Who won the world cup in 2022"})],
    ),
    (
        "Schedule lunch with Anna tomorrow at 1pm",
        [
            (
                "add_event",
                {
                    "title": "lunch with Anna",
                    "date": "2026-11-22",
                    "time": "13:00",
                    "attendees": ["Anna"],
                },
            )
        ],
    ),
    (
        "Convert 250 dollars to euros",
        [("convert_currency", {"amount": 250, "from_currency": "USD", "to_currency": "EUR"})],
    ),
    (
        "How much is €40 in yen?",
        [("convert_currency", {"amount": 40, "from_currency": "EUR", "to_currency": "JPY"})],
    ),
    ("Set a timer for 5 minutes and 30 seconds", [("set_timer", {"seconds": 330})]),
    ("Please start a half an hour countdown", [("set_timer", {"seconds": 1800})]),
    (
        "Translate 'good morning' to French and German",
        [
            ("translate", {"text": "good morning", "target_language": "French"}),
            ("translate", {"text": "good morning", "target_language": "German"}),
        ],
    ),
    (
        "Remind me to call mom at 6pm",
        [("create_reminder", {"text": "call mom", "when": "18:00"})],
    ),
    (
        "Play Hey Jude by The Beatles",
        [("play_music", {"song": "Hey Jude", "artist": "The Beatles"})],
    ),
    (
        "Turn off the lights in the living room",
        [("set_lights", {"room": "living room", "on": False})],
    ),
    (
        "Dim the bedroom lights to 30%",
        [("set_lights", {"room": "bedroom", "on": True, "brightness": 30})],
    ),
    ("What's the price of AAPL?", [("get_stock_price", {"ticker": "AAPL"})]),
    (
        "Find two business class flights from Berlin to San Francisco next Friday",
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
    (
        "Book a table for 4 at Noma at 7:30 pm",
        [("book_table", {"restaurant": "Noma", "people": 4, "time": "19:30"})],
    ),
    ("Where is my order #8841?", [("get_order_status", {"order_id": "8841"})]),
    (
        "Add 'buy milk' to my todo list with high priority",
        [("add_todo", {"task": "buy milk", "priority": "high"})],
    ),
    ("Read notes/todo.txt and summarize it", [("read_file", {"path": "notes/todo.txt"})]),
    (
        "Text Anna that says I'm running late",
        [("send_message", {"recipient": "Anna", "text": "I'm running late"})],
    ),
    ("Tell Bob I'm late", [("send_message", {"recipient": "Bob", "text": "I'm late"})]),
    ("Roll two dice", [("roll_dice", {"count": 2})]),
    (
        "SELECT name FROM users WHERE age > 30;",
        [("run_sql", {"query": "SELECT name FROM users WHERE age > 30"})],
    ),
    (
        "How do I drive from Rome to Milan?",
        [("get_directions", {"origin": "Rome", "destination": "Milan"})],
    ),
    ("Summarize https://example.com/a", [("fetch_url", {"url": "https://example.com/a"})]),
    (
        "Add milk, eggs and bread to my cart",
        [("add_to_cart", {"items": ["milk", "eggs", "bread"]})],
    ),
    ("Top 3 headlines about space", [("get_news", {"topic": "space", "limit": 3})]),
    (
        "Email anna@example.org about the launch, search for sushi in Rome, "
        "then set a timer for 10 minutes",
        [
            (
                "send_email",
                {
                    "to": "anna@example.org",
                    "subject": "the launch",
                    "body": "Hello, I am writing about the launch.",
                },
            ),
            ("web_search", {"query": "sushi in Rome"}),
            ("set_timer", {"seconds": 600}),
        ],
    ),
    ("Hello!", []),
    ("Thanks, that was great", []),
    ("Who are you?", []),
]


@each_row(("prompt", "calls"), PROMPTS, ids=[prompt[:40] for prompt, _ in PROMPTS])
def test_a_prompt_becomes_the_calls_a_person_would_expect(prompt: str, calls: list[Call]) -> None:
    assert planned(prompt) == calls


ODD = (
    tool("set_thermostat", "Set the heating.", "room temperature", room=S, temperature=INT),
    tool("get_user", "Look up a user by id.", "user_id", user_id=INT),
    tool("cancel_order", "Cancel an order.", "order_id", order_id=S),
    tool("transfer_money", "Pay somebody.", "amount to", amount=INT, currency=S, to=S),
    tool("generate_image", "Draw a picture.", "prompt", prompt=S),
    tool("bmi", "Body mass index.", "weight_kg height_cm", weight_kg=INT, height_cm=INT),
    tool(
        "unit_convert",
        "Convert between units.",
        "value from_unit to_unit",
        value=INT,
        from_unit=one_of("km", "mi", "kg", "lb"),
        to_unit=one_of("km", "mi", "kg", "lb"),
    ),
)


@each_row(
    ("prompt", "name", "arguments"),
    [
        ("Set the bedroom to 21 degrees", "set_thermostat", {"room": "bedroom", "temperature": 21}),
        ("Who is user 42?", "get_user", {"user_id": 42}),
        ("Cancel order A-1234, it is late", "cancel_order", {"order_id": "A-1234"}),
        (
            "Transfer $50 to Maria",
            "transfer_money",
            {"amount": 50, "currency": "USD", "to": "Maria"},
        ),
        ("Draw a picture of a cat in a hat", "generate_image", {"prompt": "a cat in a hat"}),
        ("What's my BMI at 80 kg and 182 cm?", "bmi", {"weight_kg": 80, "height_cm": 182}),
        (
            "How many km is 26 miles?",
            "unit_convert",
            {"value": 26, "from_unit": "mi", "to_unit": "km"},
        ),
    ],
)
def test_less_usual_tools(prompt: str, name: str, arguments: dict[str, Any]) -> None:
    assert planned(prompt, (*ODD, *TWO)) == [(name, arguments)]


COLLEAGUE = tool(
    "ask_colleague",
    "Ask a colleague a question and wait for the answer.",
    "question",
    name={"type": "string", "description": "Who is asked, for example Maria."},
    question=S,
)


@each_row(
    ("prompt", "calls"),
    [
        (
            "Weather in Oslo and Rome in fahrenheit",
            [
                ("get_weather", {"city": "Oslo", "unit": "fahrenheit"}),
                ("get_weather", {"city": "Rome", "unit": "fahrenheit"}),
            ],
        ),
        ("Write a slow report about tides, please.", [("slow_report", {"topic": "tides"})]),
        (
            "A report on solar power in 9 seconds",
            [("slow_report", {"topic": "solar power", "seconds": 9})],
        ),
        (
            "Look up the customer number 4711 in the flaky directory.",
            [("flaky_lookup", {"record_id": "4711"})],
        ),
        (
            'Ask Maria "Shall we ship on Friday?" and tell me the weather in Lisbon.',
            [
                ("ask_colleague", {"name": "Maria", "question": "Shall we ship on Friday?"}),
                ("get_weather", {"city": "Lisbon"}),
            ],
        ),
    ],
)
def test_the_shipped_examples_feel_at_home(prompt: str, calls: list[Call]) -> None:
    assert planned(prompt, (*EXAMPLES, COLLEAGUE)) == calls


def test_a_follow_up_takes_the_last_tool_and_keeps_what_is_not_said() -> None:
    before = {"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}}
    calls = [("get_weather", {"city": "Berlin", "unit": "celsius"})]
    assert planned("And in Berlin?", TWO, **before) == calls
    assert planned("And now?", TWO, **before) == []


def test_a_missing_place_is_taken_from_an_earlier_prompt() -> None:
    found = planned("What is the weather?", TWO, texts=("I live in Lima.",))
    assert found == [("get_weather", {"city": "Lima"})]


OPERATIONS = tuple(
    tool(name, f"{name} two numbers", "a b", a=INT, b=INT)
    for name in ("add", "subtract", "multiply", "divide")
)


@each_row(
    ("prompt", "name", "a", "b"),
    [
        ("What is 17*23?", "multiply", 17, 23),
        ("add 2 and 3", "add", 2, 3),
        ("10 - 4", "subtract", 10, 4),
        ("divide 100 by 8", "divide", 100, 8),
    ],
)
def test_an_expression_chooses_the_tool_of_its_sign(prompt: str, name: str, a: int, b: int) -> None:
    assert planned(prompt, OPERATIONS) == [(name, {"a": a, "b": b})]


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
    quiet = Tool(quiet.name, quiet.description, schema)
    [(_, arguments)] = planned("Make a report", (quiet,))
    assert arguments["format"] == "pdf"
    assert arguments["pages"] == 12
    assert len(arguments["author"]) >= 3
    assert arguments["team"] in ("red", "blue")
    assert isinstance(arguments["nested"]["x"], int)
    assert "optional" not in arguments


def test_a_forced_call_takes_the_best_tool_there_is() -> None:
    assert forced_call("Paris", TWO, Background(), TODAY).tool.name == "calculator"
    assert forced_call("rain in Oslo", TWO, Background(), TODAY).arguments == {"city": "Oslo"}


def test_clauses_joined_are_the_prompt_and_quotes_stay_whole() -> None:
    prompt = "Say 'this, and that' to Bob, and then search for x. Also roll dice"
    assert "".join(clauses(prompt)) == prompt
    assert "'this, and that'" in clauses(prompt)[0]
