"""Real client libraries against the simulator: a streamed loop of tools with two calls at once, a
forced choice, structured output; each to its end.

They come with the extra `clients`, in an environment of their own, for what they pin does not go
with `dev`: `uv pip install -e '.[clients]'` (pip takes many minutes to resolve it), and in it
`pytest -o addopts= -o filterwarnings= tests/simulator/test_clients.py`: sockets that the libraries
leave open are found after the last test, where the mark below ignores nothing.
Those of npm (ai, @ai-sdk/openai, @ai-sdk/anthropic, @ai-sdk/google, zod, @google/genai) are found
in the folder that PLAYGROUND_NODE_MODULES names.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

pytestmark = pytest.mark.filterwarnings("ignore")

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it is fetched on import
PROMPT = "What is 17*23, and the weather in Paris?"
MODELS = {
    "openai": "m",
    "anthropic": "claude-sonnet-4-5",
    "google": "gemini-2.5-pro",
    "ollama": "simulated:8b",
}

FOLLOWING = "And the weather in Paris?"


class Report(BaseModel):
    """The weather, as an answer."""

    city: str
    temperature: float
    sky: Literal["cloudy", "sunny"]
    tips: list[str] = Field(min_length=1)


def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression."""
    assert expression == "17*23"
    return "391"


def get_weather(city: str) -> str:
    """Current weather in a city."""
    assert city == "Paris"
    return '{"temperature": 18, "unit": "celsius", "condition": "sunny"}'


TOOLS: dict[str, Any] = {"calculator": calculator, "get_weather": get_weather}
SCHEMAS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": function.__doc__,
            "parameters": {
                "type": "object",
                "properties": {argument: {"type": "string"}},
                "required": [argument],
            },
        },
    }
    for (name, function), argument in zip(TOOLS.items(), ("expression", "city"), strict=True)
]


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed (extra: clients)")


def is_answer(text: str) -> bool:
    return "391" in text and "18 °C" in text and "sunny" in text


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini", "ollama_chat"])
def test_litellm(simulator: str, vendor: str) -> None:
    litellm = library("litellm")
    litellm.suppress_debug_info = True
    kind = {"gemini": "google", "ollama_chat": "ollama"}.get(vendor, vendor)
    bases = {
        "openai": "/openai/v1",
        "anthropic": "/anthropic",
        "gemini": "/gemini/v1beta",
        "ollama_chat": "/ollama",
    }
    body: dict[str, Any] = {
        "model": f"{vendor}/{MODELS[kind]}",
        "api_base": simulator + bases[vendor],
        "api_key": "k",
    }
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    for _ in range(4):
        chunks = list(litellm.completion(**body, messages=messages, tools=SCHEMAS, stream=True))
        message = litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
        if not message.tool_calls:
            break
        calls = message.tool_calls
        if vendor == "ollama_chat":  # its builder makes one call of two, which are both numbered 0
            calls = [call for c in chunks for call in c.choices[0].delta.tool_calls or ()]
            message.tool_calls = calls
        assert [call.function.name for call in calls] == list(TOOLS)
        messages.append(message.model_dump())
        for call in calls:
            output = TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
    assert is_answer(message.content)
    if vendor != "ollama_chat":  # Ollama has no word for a choice
        named = {"type": "function", "function": {"name": "get_weather"}}
        hello = [{"role": "user", "content": "Hello"}]
        forced = litellm.completion(**body, messages=hello, tools=SCHEMAS, tool_choice=named)
        [call] = forced.choices[0].message.tool_calls
        assert call.function.name == "get_weather"
    shaped = litellm.completion(**body, messages=messages[:1], response_format=Report)
    Report.model_validate_json(shaped.choices[0].message.content)


def _pydantic_model(vendor: str, url: str) -> Any:
    library("pydantic_ai")
    kind = "openai" if vendor == "responses" else vendor
    models, providers = (
        library(f"pydantic_ai.{literal}.{kind}") for literal in ("models", "providers")
    )
    match vendor:
        case "openai" | "responses":
            provider = providers.OpenAIProvider(base_url=f"{url}/openai/v1", api_key="k")
            result = models.OpenAIChatModel if vendor == "openai" else models.OpenAIResponsesModel
        case "anthropic":
            client = library("anthropic").AsyncAnthropic(base_url=f"{url}/anthropic", api_key="k")
            provider = providers.AnthropicProvider(anthropic_client=client)
            result = models.AnthropicModel
        case _:
            provider = providers.GoogleProvider(base_url=f"{url}/gemini", api_key="k")
            result = models.GoogleModel
    return result(MODELS[kind], provider=provider)


@pytest.mark.parametrize("vendor", ["openai", "responses", "anthropic", "google"])
def test_pydantic_ai(simulator: str, vendor: str) -> None:
    ai = library("pydantic_ai")
    model = _pydantic_model(vendor, simulator)

    async def all_of_it() -> None:
        limits = ai.UsageLimits(request_limit=6)
        agent = ai.Agent(model, tools=list(TOOLS.values()))
        calls: list[str] = []

        async def see(context: Any, events: Any) -> None:
            async for event in events:
                if event.event_kind == "function_tool_call":
                    calls.append(event.part.tool_name)

        output = await agent.run(PROMPT, usage_limits=limits, event_stream_handler=see)
        assert calls == list(TOOLS)
        assert is_answer(output.output)
        # By a tool that ends the run, which is forced.
        agent = ai.Agent(model, tools=[get_weather], output_type=Report)
        output = await agent.run("What is the weather in Paris?", usage_limits=limits)
        assert (output.output.city, output.output.temperature) == ("Paris", 18)
        # By the provider's own structured output.
        agent = ai.Agent(model, output_type=ai.NativeOutput(Report))
        output = await agent.run("What is the weather in Paris?", usage_limits=limits)
        assert output.output.city == "Paris"

    asyncio.run(all_of_it())


def _langchain_model(vendor: str, url: str) -> Any:
    match vendor:
        case "openai":
            result: Any = library("langchain_openai").ChatOpenAI(
                model=MODELS["openai"], base_url=f"{url}/openai/v1", api_key="k"
            )
        case "anthropic":
            result = library("langchain_anthropic").ChatAnthropic(
                model=MODELS["anthropic"], base_url=f"{url}/anthropic", api_key="k"
            )
        case "google":
            result = library("langchain_google_genai").ChatGoogleGenerativeAI(
                model=MODELS["google"], base_url=f"{url}/gemini", api_key="k"
            )
        case _:
            result = library("langchain_ollama").ChatOllama(
                model=MODELS["ollama"], base_url=f"{url}/ollama", validate_model_on_init=True
            )
    return result


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "google", "ollama"])
def test_langchain(simulator: str, vendor: str) -> None:
    agents = library("langchain.agents")
    model = _langchain_model(vendor, simulator)
    prompt_state = {"messages": [{"role": "user", "content": PROMPT}]}
    agent = agents.create_agent(model, list(TOOLS.values()))
    *_, (_, last) = agent.stream(
        prompt_state, {"recursion_limit": 12}, stream_mode=["messages", "values"]
    )
    assert [len(getattr(message, "tool_calls", ())) for message in last["messages"]] == [
        0,
        2,
        0,
        0,
        0,
    ]
    assert is_answer(last["messages"][-1].text)
    if vendor != "ollama":  # which has no word for a choice
        forced = model.bind_tools(SCHEMAS, tool_choice="get_weather").invoke("Hello")
        assert [call["name"] for call in forced.tool_calls] == ["get_weather"]
    weather = "What is the weather in Paris?"
    assert model.with_structured_output(Report).invoke(weather).city == "Paris"
    strategy = library("langchain.agents.structured_output").ToolStrategy(Report)
    if vendor != "ollama":
        agent = agents.create_agent(model, [get_weather], response_format=strategy)
        prompt_state = {"messages": [{"role": "user", "content": weather}]}
        output = agent.invoke(prompt_state, {"recursion_limit": 12})["structured_response"]
        assert (output.city, output.temperature) == ("Paris", 18)


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_openai_agents(simulator: str, protocol: str) -> None:
    agents = library("agents")
    openai = library("openai")
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=f"{simulator}/openai/v1", api_key="k")
    kinds = {
        "chat": agents.OpenAIChatCompletionsModel,
        "responses": agents.OpenAIResponsesModel,
    }
    model = kinds[protocol](model=MODELS["openai"], openai_client=client)
    tools = [agents.function_tool(function) for function in TOOLS.values()]

    async def all_of_it() -> None:
        agent = agents.Agent(name="A", model=model, tools=tools)
        run = agents.Runner.run_streamed(agent, PROMPT, max_turns=4)
        calls = [
            event
            async for event in run.stream_events()
            if getattr(event, "name", "") == "tool_called"
        ]
        assert len(calls) == 2
        assert is_answer(run.final_output)
        # A forced choice is taken back by the library once a tool was called.
        settings = agents.ModelSettings(tool_choice="required")
        agent = agents.Agent(name="B", model=model, tools=tools[1:], model_settings=settings)
        output = await agents.Runner.run(agent, "The weather in Paris?", max_turns=4)
        assert "18 °C" in output.final_output
        agent = agents.Agent(name="C", model=model, tools=tools[1:], output_type=Report)
        output = await agents.Runner.run(agent, "The weather in Paris?", max_turns=4)
        assert (output.final_output.city, output.final_output.temperature) == ("Paris", 18)

    asyncio.run(all_of_it())


@pytest.mark.parametrize("way", ["session", "conversation", "previous"])
def test_openai_agents_with_what_is_stored(simulator: str, way: str) -> None:
    agents = library("agents")
    openai = library("openai")
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=f"{simulator}/openai/v1", api_key="k")
    model = agents.OpenAIResponsesModel(model=MODELS["openai"], openai_client=client)
    tools = [agents.function_tool(function) for function in TOOLS.values()]
    agent = agents.Agent(name="A", model=model, tools=tools)

    async def run_twice() -> None:
        options: dict[str, Any] = {"max_turns": 4}
        match way:
            case "session":
                options["session"] = agents.OpenAIConversationsSession(openai_client=client)
            case "conversation":
                options["conversation_id"] = (await client.conversations.create()).id
            case _:
                options["auto_previous_response_id"] = True
        first = agents.Runner.run_streamed(agent, PROMPT, **options)
        async for _ in first.stream_events():
            pass
        assert is_answer(first.final_output)
        if way == "previous":
            options = {"max_turns": 4, "previous_response_id": first.last_response_id}
        second = await agents.Runner.run(agent, FOLLOWING, **options)
        assert "18 °C" in second.final_output
        if way == "session":
            assert len(await options["session"].get_items()) > len(second.new_items)
            await options["session"].clear_session()

    asyncio.run(run_twice())


@pytest.mark.parametrize("setting", ["openai_previous_response_id", "openai_conversation_id"])
def test_pydantic_ai_with_what_is_stored(simulator: str, setting: str) -> None:
    ai = library("pydantic_ai")
    model = _pydantic_model("responses", simulator)

    async def run_twice() -> None:
        limits = ai.UsageLimits(request_limit=6)
        settings = {setting: "auto"}
        agent = ai.Agent(model, tools=list(TOOLS.values()), model_settings=settings)
        first = await agent.run(PROMPT, usage_limits=limits)
        assert is_answer(first.output)
        messages = first.all_messages()
        second = await agent.run(FOLLOWING, message_history=messages, usage_limits=limits)
        assert "18 °C" in second.output

    asyncio.run(run_twice())


@pytest.mark.parametrize("stream", [False, True])
def test_agent_framework(simulator: str, stream: bool) -> None:
    framework = library("agent_framework")
    result = library("agent_framework_openai").OpenAIChatClient  # by Responses, which are stored
    client = result(model="gpt-4.1", base_url=f"{simulator}/openai/v1", api_key="k")
    agent = framework.Agent(client=client, tools=list(TOOLS.values()))

    async def run_twice() -> None:
        session = agent.create_session()
        for prompt, expected in ((PROMPT, "391"), (FOLLOWING, "18 °C")):
            if stream:
                updates = [item async for item in agent.run(prompt, session=session, stream=True)]
                assert expected in "".join(update.text or "" for update in updates)
            else:
                assert expected in (await agent.run(prompt, session=session)).text
        assert session.service_session_id.startswith("resp_")

    asyncio.run(run_twice())


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro-preview"])
@pytest.mark.parametrize("automatic", [True, False])
def test_google_genai_chats(simulator: str, model: str, automatic: bool) -> None:
    """A streamed chat, which keeps one content for each event."""
    genai, types = library("google.genai"), library("google.genai.types")
    options = types.HttpOptions(base_url=f"{simulator}/gemini")
    with genai.Client(api_key="k", http_options=options) as client:
        functions = types.Tool(
            function_declarations=[
                types.FunctionDeclaration(
                    name=schema["function"]["name"],
                    description=schema["function"]["description"],
                    parameters_json_schema=schema["function"]["parameters"],
                )
                for schema in SCHEMAS
            ]
        )
        tools = list(TOOLS.values()) if automatic else [functions]
        chat = client.chats.create(model=model, config=types.GenerateContentConfig(tools=tools))
        message: Any = PROMPT
        for _ in range(4):
            chunks = list(chat.send_message_stream(message))
            calls = [call for chunk in chunks for call in chunk.function_calls or ()]
            if automatic or not calls:
                break
            # The last call is answered first: any order is right.
            message = [
                types.Part(
                    function_response=types.FunctionResponse(
                        id=call.id,
                        name=call.name,
                        response={"result": TOOLS[call.name](**call.args)},
                    )
                )
                for call in reversed(calls)
            ]
        assert is_answer("".join(chunk.text or "" for chunk in chunks))
        assert chat.send_message("Thanks, bye.").text


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro-preview"])
def test_the_genai_package_of_npm(simulator: str, model: str, tmp_path: Path) -> None:
    output = _run_script("genai.mjs", "@google/genai", tmp_path, model, simulator)
    assert output["calls"] == list(TOOLS)
    assert is_answer(output["text"])
    assert output["following"]


@pytest.mark.parametrize(
    "mode", ["TOOLS", "TOOLS_STRICT", "JSON", "JSON_SCHEMA", "ANTHROPIC_TOOLS"]
)
def test_instructor(simulator: str, mode: str) -> None:
    instructor = library("instructor")
    kind = getattr(instructor.Mode, mode)
    more: dict[str, Any] = {}
    if mode.startswith("ANTHROPIC"):
        base = f"{simulator}/anthropic"
        result = library("anthropic").Anthropic(base_url=base, api_key="k", max_retries=0)
        client, more = instructor.from_anthropic(result, mode=kind), {"max_tokens": 4000}
    else:
        base = f"{simulator}/openai/v1"
        result = library("openai").OpenAI(base_url=base, api_key="k", max_retries=0)
        client = instructor.from_openai(result, mode=kind)
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    output = client.chat.completions.create(
        model="claude-sonnet-4-5" if more else "m",
        messages=messages,
        response_model=Report,
        max_retries=1,
        **more,
    )
    assert output.city == "Paris"
    if mode == "TOOLS":
        partial = client.chat.completions.create_partial(
            model="m", messages=messages, response_model=Report
        )
        assert list(partial)[-1].city == "Paris"


def test_smolagents(simulator: str) -> None:
    smolagents = library("smolagents")
    model = smolagents.OpenAIServerModel(
        model_id="m", api_base=f"{simulator}/openai/v1", api_key="k"
    )

    def weather(city: str) -> str:
        """Current weather in a city.

        Args:
            city: The city.
        """
        return get_weather(city)

    agent = smolagents.ToolCallingAgent(
        tools=[smolagents.tool(weather)], model=model, max_steps=5, verbosity_level=0
    )
    assert "18" in str(agent.run("What is the weather in Paris?"))
    streaming = smolagents.ToolCallingAgent(
        tools=[smolagents.tool(weather)],
        model=model,
        max_steps=5,
        verbosity_level=0,
        stream_outputs=True,
    )
    assert "18" in str(list(streaming.run("What is the weather in Paris?", stream=True))[-1])


def _run_script(name: str, package: str, folder: Path, *arguments: str) -> Any:
    """What a script beside this file prints, as JSON; it needs a package of npm."""
    modules, node = os.environ.get("PLAYGROUND_NODE_MODULES"), shutil.which("node")
    if node is None or not modules or not (Path(modules) / package).is_dir():
        pytest.skip(f"{package} is not installed in the folder that PLAYGROUND_NODE_MODULES names")
    (folder / "node_modules").symlink_to(modules)
    script = folder / name
    script.write_text(Path(__file__).with_name(name).read_text())
    ran = subprocess.run((node, script, *arguments), capture_output=True, text=True, timeout=50)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("vendor", ["openai", "responses", "anthropic", "google"])
def test_the_ai_package_of_npm(simulator: str, vendor: str, tmp_path: Path) -> None:
    output = _run_script("clients.mjs", "ai", tmp_path, vendor, simulator)
    assert output["calls"] == list(TOOLS)
    assert is_answer(output["text"])
    assert output["forced"] == ["get_weather"]
    assert output["object"]["city"] == "Paris"
