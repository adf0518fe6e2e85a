from __future__ import annotations

from collections.abc import Iterator

import pytest

from playground.core.events import SessionStarted
from playground.core.reducer import fold
from playground.core.settings import Limits, Profile, Settings
from playground.core.tools import Tool, ToolChoice
from playground.render.view import View
from playground.render.wire_rows import WireRows
from playground.web.session.view import (
    SessionPageContext,
    SetupForm,
    refused_fields,
    setup_form,
    setup_fragment,
)
from tests.factories import Log
from tests.render.page import ENV, NOW_MS, Node, parse

PROFILE = Profile("mine", "openai_chat", "https://api.example/v1", model="m")
A, B = Tool("a", "A.", {"type": "object"}), Tool("b", "B.", {"type": "object"})

SETTINGS = {
    "as it comes": Settings(PROFILE),
    "all of it": Settings(
        PROFILE,
        model="m 2",
        system='\nTwo lines,\nwith "quotes" & <marks>.',
        tools=(A, B),
        tool_choice=ToolChoice("tool", "b", ("b",), parallel=False),
        params={"temperature": 0.25, "max_tokens": 512, "thinking": 2048, "top_p": 0.5},
        extra={"top_k": 40, "deep": {"er": [1, None]}},
        stream=False,
        limits=Limits(
            *(7, 8, 9, 1_000_000, 0.0001, 0.05, 0),
            continue_on_error=False,
            max_retries=0,
            first_byte_s=2.5,
            idle_s=90.0,
        ),
    ),
    "an effort": Settings(PROFILE, tools=(A,), params={"thinking": "high"}),
    "a script's thinking": Settings(PROFILE, params={"thinking": {"type": "adaptive"}}),
}


def form_fields(node: Node, form: SetupForm) -> Iterator[tuple[str, str]]:
    """What a browser would send of this form, untouched."""
    for field in node.walk():
        name, kind = field.attributes.get("name", ""), field.attributes.get("type", "")
        match field.name:
            case "input" if kind not in ("checkbox", "radio") or "checked" in field.attributes:
                yield name, field.attributes.get("value", "on")
            case "textarea":
                yield name, field.text.removeprefix("\n")
            case "select":
                options = [node for node in field.walk() if node.name == "option"]
                chosen = [
                    option for option in options if "selected" in option.attributes
                ] or options[:1]
                yield from ((name, node.attributes.get("value", node.text)) for node in chosen)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_untouched_form_says_what_it_showed(name: str) -> None:
    settings = SETTINGS[name]
    form = setup_form(settings)
    log = Log()
    log.add(SessionStarted(settings))
    session = fold("s1", log.events)
    view = View(session, "", WireRows(), NOW_MS)
    around = SessionPageContext([PROFILE], {"mine": True}, [A, B])
    drawn = parse(setup_fragment(ENV, view, around)).find("setup")
    assert drawn is not None
    pairs = list(form_fields(drawn, form))
    texts = {key: value for key, value in pairs if key in form.texts}
    assert texts == {key: value for key, value in form.texts.items() if key in texts}
    assert form.texts.keys() - texts.keys() <= {"tool_choice_name"}
    assert {key for key, _ in pairs if key in form.ticks} == {
        k for k, on in form.ticks.items() if on
    }
    for key, listed in form.lists.items():
        assert sorted(value for text, value in pairs if text == key) == sorted(listed)
    assert dict(pairs)["base"] == str(session.seq)


def test_a_refusal_is_text() -> None:
    output = refused_fields(ENV, {"model": "No <b>such</b> thing"})
    assert output.strip() == '<p data-refused="model">No &lt;b&gt;such&lt;/b&gt; thing</p>'
    assert refused_fields(ENV, {}).strip() == ""
