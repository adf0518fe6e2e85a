"""A shelf of typical tools, and requests over it."""

from __future__ import annotations

from typing import Any

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Content, Tool, ToolChoice

S: dict[str, Any] = {"type": "string"}
INT: dict[str, Any] = {"type": "integer"}
N: dict[str, Any] = {"type": "number"}
B: dict[str, Any] = {"type": "boolean"}
DAY: dict[str, Any] = {"type": "string", "format": "date"}


def tool(_name: str, _description: str, _required: str, **properties: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": _required.split()}
    return Tool(_name, _description, schema)


def one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def some(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


CALCULATOR = tool("calculator", "Evaluate an arithmetic expression.", "expression", expression=S)
WEATHER = tool(
    "get_weather",
    "Current weather in a city.",
    "city",
    city=S,
    unit=one_of("celsius", "fahrenheit"),
)
TWO = (CALCULATOR, WEATHER)

SHELF: tuple[Tool, ...] = (
    *TWO,
    tool(
        "send_email",
        "Send an email to somebody.",
        "to subject body",
        to={"type": "string", "format": "email"},
        subject=S,
        body=S,
    ),
    tool("web_search", "Search the web.", "query", query=S, max_results=INT),
    tool(
        "add_event",
        "Add an event to the calendar.",
        "title date",
        title=S,
        date={"type": "string", "description": "ISO date"},
        time=S,
        attendees=some(S),
    ),
    tool(
        "convert_currency",
        "Convert an amount of money between currencies.",
        "amount from_currency to_currency",
        amount=N,
        from_currency=S,
        to_currency=S,
    ),
    tool("set_timer", "Start a countdown.", "seconds", seconds=INT, label=S),
    tool(
        "translate",
        "Translate text into another language.",
        "text target_language",
        text=S,
        target_language=S,
    ),
    tool("create_reminder", "Remind the user of something.", "text", text=S, when=S),
    tool("play_music", "Play a song.", "song", song=S, artist=S, shuffle=B),
    tool(
        "set_lights",
        "Switch the lights of a room.",
        "room on",
        room=one_of("kitchen", "living room", "bedroom"),
        on=B,
        brightness={"type": "integer", "minimum": 0, "maximum": 100},
    ),
    tool("get_stock_price", "Latest price of a share.", "ticker", ticker=S),
    tool(
        "search_flights",
        "Find flights.",
        "origin destination date",
        origin=S,
        destination=S,
        date=DAY,
        passengers=INT,
        cabin=one_of("economy", "business", "first"),
    ),
    tool(
        "book_table",
        "Reserve a table in a restaurant.",
        "restaurant people time",
        restaurant=S,
        people=INT,
        time=S,
    ),
    tool("get_order_status", "Status of an order.", "order_id", order_id=S),
    tool(
        "add_todo",
        "Add a task to the todo list.",
        "task",
        task=S,
        priority=one_of("low", "medium", "high"),
    ),
    tool("read_file", "Read a file.", "path", path=S),
    tool("send_message", "Send a chat message.", "recipient text", recipient=S, text=S),
    tool("roll_dice", "Roll dice.", "count", count=INT, sides=INT),
    tool("get_time", "Current time in a timezone.", "timezone", timezone=S),
    tool("run_sql", "Run a SQL query on the database.", "query", query=S),
    tool(
        "get_directions",
        "Route between two places.",
        "origin destination",
        origin=S,
        destination=S,
        mode=one_of("driving", "walking", "transit"),
    ),
    tool("fetch_url", "Download a web page.", "url", url=S),
    tool("add_to_cart", "Put items in the shopping cart.", "items", items=some(S)),
    tool("get_news", "Latest headlines.", "topic", topic=S, limit=INT),
)


def user(text: str) -> Message:
    return Message("user", (MessagePart("text", text),))


def calls_message(*calls: tuple[str, str, str]) -> Message:
    """An assistant's turn of calls: (id, name, arguments as JSON text)."""
    return Message(
        "assistant",
        tuple(MessagePart("call", text, name, call_id) for call_id, name, text in calls),
    )


def results(*id_texts: tuple[str, str], is_error: bool = False) -> Message:
    """The results of a turn: (call id, text)."""
    return Message(
        "results",
        tuple(
            MessagePart("result", call_id=i, content=(Content(text=text),), is_error=is_error)
            for i, text in id_texts
        ),
    )


def asking(
    *messages: Message,
    tools: tuple[Tool, ...] = TWO,
    choice: ToolChoice | None = None,
    **params: Any,
) -> ModelRequest:
    return ModelRequest(
        "m", system="", messages=messages, tools=tools, choice=choice or ToolChoice(), params=params
    )
