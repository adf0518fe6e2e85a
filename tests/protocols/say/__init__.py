"""A made-up protocol, written as docs/recipes.md says: lines of {"say": text}, or of a call.

`test_recipe` puts this folder into a copy of the program, below `app/playground/protocols`.
"""

from playground.protocols import Assessment, ParameterWords, ProtocolFacts

FACTS = ProtocolFacts(
    "Say",
    "/say",
    "/lines",
    ParameterWords(same={"max_tokens": "most"}, own=frozenset({"most"})),
    forced=Assessment("no", "It has no tool choice."),
    images=Assessment("no", "A result is one text."),
    strict=Assessment("no", "It has no strict mode."),
)
