"""What is refused and ignored of tools: nothing is checked."""

from playground.protocols.limits import LACKS_EAGER, LimitTable

LIMITS = LimitTable("say", "Say", of_tool=(LACKS_EAGER,))
